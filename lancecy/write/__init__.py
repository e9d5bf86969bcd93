"""Rows become data files, and changes of a table become commits.

====================  ==============================================================
``schemas``           Arrow schemas to fields with ids, or fitted to those of a table
``targets``           which bases files go to
``fragments``         batches to data files, one fragment each
``metadata``          fragments that travel as JSON
``options``           what a write is told, as values
``planning``          what a write will do, settled before there are rows
``dataset``           create, append and overwrite: checks, files, one commit
``shared``            a write that many do together, committed once
``dask_parts``        partitions of Dask collections as parts of one
``storage``           batches cast to the types of a plan
``matching``          a predicate to the rows that a delete names
``operations``        ``LanceOperation``
``maps``              configuration and metadata of a dataset
``cleaning``          old versions and leftovers go
``repairing``         row ids that are missing are given out
``methods``           the changing half of ``datasets.Dataset``
====================  ==============================================================
"""
