"""Writes rows to data files that no version names yet.

==============  ==============================================================
``schemas``     Arrow schemas to fields with ids, or fitted to a table's fields
``storage``     casts batches to the types of a plan
``targets``     bases that data files go to, the least filled first
``fragments``   batches to data files, one fragment each, over these bases in turn
``metadata``    fragments as JSON, for distributed writers
``operations``  ``LanceOperation``
==============  ==============================================================
"""
