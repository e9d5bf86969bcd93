"""Changes of a table: each module has one thing that a user does, from what is read to what is committed.

================  ==============================================================
``methods``       the changing half of ``datasets.Dataset``
``insert``        create, append and overwrite: checks, files, one commit
``delete``        a predicate to the rows that a delete names
``metadata``      configuration and metadata of a dataset
``cleanup``       old versions and leftovers go
``repair``        row ids that are missing are given out
``options``       what a change is told, as values
``planning``      what a write will do, settled before there are rows
``legacy``        what is different about tables of 0.1
``shared``        a write that many do together, committed once
``dask_parts``    partitions of Dask collections as parts of one
================  ==============================================================
"""
