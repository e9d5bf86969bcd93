"""Commits: make a transaction the next version, or raise.

====================  ==============================================================================
``loop``              catches up with newer versions, puts the change on top, publishes, tries again
``conflicts``         the grid of conflicts between operations
``late``              finds out whether a version was published under a number that had been used before
``history``           versions that others committed meanwhile
``options``           options and result of a commit
``foreign_manifest``  finds a newest manifest that belongs to another table
``set_aside``         gives damaged versions a sound manifest, so that the table can be written again
``driver``            runs commits and cleanups over a store
====================  ==============================================================================

A commit is a generator of storage requests, so that tests can answer them with every possible fault.
"""
