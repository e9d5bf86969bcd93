"""What a dataset is at a version, and how it becomes the next. Knows no data file's contents.

Reading:

``manifest``       frozen values: Manifest, Fragment, DataFile, DeletionFile, BasePath, IndexEntry
``manifest_wire``  bytes of a manifest file to a Manifest and back (``fragment_wire``: a fragment's message)
``flags``          feature flags: may this be read, or written
``paths``          names of files, and which names a manifest may contain
``versions``       version stores: find, list, publish and remove the versions of a table
``locate``         latest manifest, manifest of a version or a time, all versions
``choose``         the one of these that an open asks for, damaged ones stepped over on request
``location``       the address of a table, which everything takes that reopens it
``bases``          the one way from a file named in a manifest to a store and a path
``deletion``       deleted rows, from both forms of file (``roaring`` decodes one of them)
``rowids``         stable row ids and row versions (``rowids_wire`` decodes them)
``rowid_checks``   whether new rows can get row ids that no other has
``rowsearch``      rows by their ids or versions: comparisons and membership as ranges of rows
``rowindex``       row id to row address, over all fragments (``rowindex_build`` makes it)
``indices_wire``   the index section, carried and not used
``snapshot``       all of that together: ``load_snapshot``

Writing: a change is a value; making it a version is a generator of storage requests, so that the tests can
answer them with every fault there is.

``operations``      what a change is: one module per operation, a registry, the transaction
``conflicts``       which changes exclude each other: the grid
``stored_wire``     a manifest file taken apart: message, sections, fields unknown to this release
``base_history``    where the bases of a version to be restored are by now
``requests``        what a commit may ask of the world (``answers``: a store's answers)
``history``         what others committed since
``commit_options``  what a commit is told beside its transaction, and what it tells
``commit``          the loop over all of that
``cleanup``         old versions and leftovers go (``cleanup_plan`` decides; ``retention``, ``refs``, ``references_wire`` say what stays)
``driver``          answers the requests from a store: ``commit_to``
"""
