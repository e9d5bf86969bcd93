"""Changes of a table: one module per thing that a user does, with the methods of a dataset that do it.

================  ==============================================================
``base``          what all share: the newest version, the commit, the loop of attempts
``insert``        create, append and overwrite: checks, files, one commit
``delete``        a predicate to the rows that a delete names
``restore``       an old version is the newest again
``metadata``      configuration and metadata
``bases``         places for files are registered, or are elsewhere now
``cleanup``       old versions and leftovers go
``repair``        row ids that are missing are given out
``methods``       all of these as the changing half of ``datasets.Dataset``
``commit``        a given operation becomes the next version
``options``       what a change is told, as values
``planning``      what a write will do, settled before there are rows
``legacy``        what is different about tables of 0.1
``shared``        a write that many do together, committed once
``dask_parts``    partitions of Dask collections as parts of one
================  ==============================================================

A change says what it reads, which files it writes and which operation it commits. One that may meet another change of
the same rows is an attempt for ``base.Change._retried``, which repeats it from the newest version.
"""
