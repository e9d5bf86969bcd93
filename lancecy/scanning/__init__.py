"""Reading: from what the user asked to Arrow.

=============  ==================================================================
``rearrange``  columns in chunks: joined, and their rows in another order
``extension``  structs under extension types
``request``    the arguments as one frozen value
``project``    columns to read, columns to return
``plan``       fragments to units to tasks, without data IO
``task``       picklable pieces of a scan
``context``    a snapshot opened for reading
``fragment``   the files of one fragment as Arrow columns
``execute``    a unit's rows: deletions, page pruning, filter, columns
``take``       random access by row number
``order``      ``order_by``: what to sort by and how
``explain``    what a scan will read, for people
=============  ==================================================================

(The package is not called ``scan`` because ``lancecy.scan`` is the public function.)
"""
