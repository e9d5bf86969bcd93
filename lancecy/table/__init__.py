"""What a dataset is at a version: manifests, paths, bases, deletions, row ids. Knows no data file's contents.

``manifest``       frozen values: Manifest, Fragment, DataFile, DeletionFile, BasePath, IndexEntry
``manifest_wire``  bytes of a manifest file to a Manifest
``flags``          feature flags: may this be read
``paths``          names of files, and which names a manifest may contain
``locate``         latest manifest, manifest of a version or a time, all versions
``choose``         the one of these that an open asks for, damaged ones stepped over on request
``bases``          the one way from a file named in a manifest to a store and a path
``deletion``       deleted rows, from both forms of file (``roaring`` decodes one of them)
``rowids``         stable row ids and row versions (``rowids_wire`` decodes them)
``rowsearch``      rows by their ids or versions: comparisons and membership as ranges of rows
``rowindex``       row id to row address, over all fragments (``rowindex_build`` makes it)
``indices_wire``   the index section, carried and not used
``snapshot``       all of that together: ``load_snapshot``
"""
