"""Scans: from a user's request to Arrow tables.

================  ==================================================================
``request``       the arguments as one frozen value
``virtual``       row ids, addresses and versions as columns and in filters
``project``       columns to read, columns to return
``plan``          fragments to units to tasks, without data IO
``task``          picklable pieces of a scan
``context``       a snapshot opened for reading
``fragment``      the files of one fragment as Arrow columns
``sources``       which rows may match, by metadata
``units``         the rows of a unit: candidates, then those that passed; which units
                  are read together, which side by side
``filtering``     choose rows: sources, deletions, filter
``column_forms``  columns read as stored JSON, or for their nulls only
``outputs``       read columns: alone, side by side, with other units; picked rows, or all
                  and filtered
``engine``        all steps for several units
``threads``       a scan over the threads of this process
``run_task``      one task of a plan, for Dask, Spark and users' own executors
``batches``       output columns as tables and record batches
``take``          random access by row number or row id
``order``         ``order_by``: sort keys and sorting
``explain``       descriptions of what a scan will read
================  ==================================================================

A scan has one engine. For every unit it asks the candidate sources which rows may match, takes out deleted ones,
reads the filter's columns for the remaining rows and evaluates the conditions that no source has proved. It reads
the other columns only for rows that passed, or whole and filters them where that is cheaper. Threads, Dask and
Spark give it different schedules.

(The package is not called ``scan`` because ``lancecy.scan`` is the public function.)
"""
