"""Cleanups: remove old versions, and files that no version needs.

==============  ==============================================================
``run``         the cleanup, as a generator of storage requests
``plan``        what to remove, from listings and manifests alone
``retention``   what needs files: versions, tags, branches, pending commits
``automatic``   the cleanup after a commit that a table's configuration asks for
==============  ==============================================================
"""
