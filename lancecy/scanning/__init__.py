"""Reading: from what the user asked to Arrow.

=============  ==================================================================
``extension``  structs under extension types
``request``    the arguments as one frozen value
``virtual``    row ids, addresses and versions as columns and in filters
``project``    columns to read, columns to return
``plan``       fragments to units to tasks, without data IO
``task``       picklable pieces of a scan
``context``    a snapshot opened for reading
``fragment``   the files of one fragment as Arrow columns
``sources``    which rows may match, told by metadata
``units``      the rows of a unit: candidates, then what passed
``filtering``  choose rows: sources, deletions, filter
``null_only``  filters that test for nulls only
``outputs``    read columns: alone, side by side, with other units
``cost``       picking rows, or reading all and filtering
``engine``     all steps for several units
``schedule``   which units are taken together, which side by side
``batches``    output columns as tables and record batches
``locate``     row ids to the living rows they name
``take``       random access by row number or row id
``order``      ``order_by``: what to sort by and how
``explain``    what a scan will read, for people
=============  ==================================================================

A scan has one engine. For every unit it asks the candidate sources which rows may match, takes out deleted ones,
reads the filter's columns for what is left and evaluates what no source has proved; the other columns are read
only for rows that passed, or whole and then filtered where that is cheaper. Threads, Dask and Spark differ in the
schedule they give it.

(The package is not called ``scan`` because ``lancecy.scan`` is the public function.)
"""
