"""Data files of version 2.0 to 2.3, which share one container.

============  ==============================================================
``meta``      footer, tables and columns, every number checked
``fields``    which physical columns a field is read from
``values``    fields to blocks
``stats``     nulls, as the descriptions of pages tell
``reader``    a file behind the ``FileReader`` protocol
``writer``    a file that is written
``output``    the container of a file that is written
``distinct``  whether the dictionaries of a file fit their index type
``sidecars``  objects beside a file that hold its larger blobs
``wire``      the messages of the container
============  ==============================================================
"""
