"""Rows become data files that no version names yet.

==============  ==============================================================
``schemas``     Arrow schemas to fields with ids, or fitted to those of a table
``storage``     batches cast to the types of a plan
``targets``     which bases files go to
``fragments``   batches to data files, one fragment each
``metadata``    fragments that travel as JSON
``operations``  ``LanceOperation``
==============  ==============================================================
"""
