"""The metadata of a table: its versions, and the commit of a new one. Reads no contents of data files.

=================  ==============================================================================
``manifest``       frozen values: Manifest, Fragment, DataFile, DeletionFile, BasePath, IndexEntry
``wire``           their bytes
``snapshot``       a table at one version, with all that is needed to read it
``location``       the address of a table
``bases``          resolves files of a manifest to stores and paths
``paths``          names of files and folders, and which names a manifest may contain
``flags``          feature flags: whether a table can be read or written
``refs``           tags and branches
``rows``           deletions, row ids and their index
``row_id_checks``  whether new rows can get unique row ids
``versions``       finds, lists, publishes and removes versions
``operations``     changes as values: one module per operation
``commit``         makes an operation the next version
``cleanup``        removes old versions and files
``branches``       creates and deletes branches
``requests``       storage requests of commits, cleanups and version stores (``answers``: a store's answers)
=================  ==============================================================================
"""
