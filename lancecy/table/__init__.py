"""The metadata of a dataset: its versions, and the commit of a new one. Reads no data file's contents.

Reading:

``manifest``       frozen values: Manifest, Fragment, DataFile, DeletionFile, BasePath, IndexEntry
``manifest_wire``  bytes of a manifest file to a Manifest and back (``fragment_wire``: a fragment's message)
``flags``          feature flags: whether a table can be read or written
``paths``          names of files, and which names a manifest may contain
``versions``       version stores: find, list, publish and remove the versions of a table
``locate``         finds the manifest that is latest, of a version or of a time, or all versions
``choose``         the manifest for an open, with recovery from damaged ones on request
``location``       the address of a table, with which it can be reopened
``bases``          resolves a file named in a manifest to a store and a path
``deletion``       deletion vectors, from both file formats (``roaring`` decodes one of them)
``rowids``         stable row ids and row versions (``rowids_wire`` decodes them)
``rowid_checks``   whether new rows can get unique row ids
``rowsearch``      finds rows by ids or versions: comparisons and membership as row ranges
``rowindex``       maps row ids to row addresses over all fragments (``rowindex_build`` makes it)
``indices_wire``   the index section, which is carried and not used
``snapshot``       a dataset at one version: ``load_snapshot``

Writing: a change is a value, and its commit is a generator of storage requests, so that tests can answer them
with every possible fault.

``operations``      changes as values: one module per operation, a registry, the transaction
``conflicts``       the grid of conflicts between changes
``stored_wire``     the parts of a manifest file: message, sections, fields unknown to this release
``base_history``    current places of the bases of an old version, for a restore
``requests``        requests of a commit (``answers``: a store's answers)
``history``         versions that others committed meanwhile
``commit_options``  options and result of a commit
``commit``          the commit loop: catches up with newer versions, puts the change on top, publishes, tries again
``cleanup``         removes old versions and files (``cleanup_plan``; ``retention``, ``refs``, ``references_wire``)
``driver``          runs commits and cleanups over a store: ``commit_to``
"""
