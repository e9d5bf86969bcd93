"""Changes of a table: one module per user action, with the dataset methods for it.

================  ==============================================================
``base``          shared by all: the newest version, the commit, the retry loop
``insert``        create, append and overwrite: checks, files, one commit
``fragments``     fragments that workers write or delete from, for a commit by another process
``index``         makes, drops and optimizes scalar indices; ``index_training``, ``index_upkeep`` and ``zone_maps`` are its parts
``delete``        deletes the rows that match a predicate, found anew on each attempt
``merge_insert``  updates, inserts and deletes rows by their keys
``merging``       its parts: source, keys, clauses, matches, rows
``*_columns``     columns added, altered, dropped and merged, also of single fragments; ``new_columns`` is shared
``column_*``      where the values of new columns come from; ``batch_functions`` and ``checkpoint*``
``compact``       merges small fragments, and removes deleted rows from the files
``restore``       makes an old version the newest one
``metadata``      configuration and metadata
``bases``         registers and relocates base paths
``cleanup``       removes old versions and unreferenced files
``clean``         runs a cleanup, also the automatic one after a commit
``transactions``  reads the transactions that made the versions
``repair``        sets damaged manifests aside, assigns missing row ids
``commit``        commits a given operation as the next version
``options``       options of writes and commits, as values
``planning``      checks a write and plans it before rows are read
``legacy``        rules for writing tables of format 0.1
``shared``        a distributed write, committed once
``compaction_*``  options, plan, files and copied pages of a compaction
``shared_*``      changes whose tasks run on workers; ``shared_tasks`` says what an engine runs
``dask_parts``    partitions of Dask collections as parts of a distributed write
================  ==============================================================

A change reads, writes files and commits one operation. If it may conflict with another change of the same rows, it runs
as an attempt in ``base.Change._retried``, which repeats it from the newest version.
"""
