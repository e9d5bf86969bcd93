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
``execute``    a unit's rows: deletions, page pruning, filter, columns
``presence``   filters that test for nulls only
``cost``       picking rows, or reading all and filtering
``locate``     row ids to the living rows they name
``take``       random access by row number or row id
``order``      ``order_by``: what to sort by and how
``explain``    what a scan will read, for people
=============  ==================================================================

(The package is not called ``scan`` because ``lancecy.scan`` is the public function.)
"""
