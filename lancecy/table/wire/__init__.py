"""Bytes of manifest files to the values of the table, and back.

===================  ====================================================================
``manifest``         bytes of a manifest to a :class:`~lancecy.table.manifest.Manifest`
``fragment``         a fragment's message, both ways
``fragments_bulk``   checks thousands of fragments at once, without building them
``message_columns``  many messages of one type as columns
``outline``          what a list of versions tells of each
``manifest_file``    the parts of a manifest file, from which the next version is made
``indices``          the index section: carried, not used
``references``       the files that a version needs
``row_ids``          row-id and row-version sequences
===================  ====================================================================
"""
