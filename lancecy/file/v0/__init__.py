"""Data files of version 0.1.

==========  ==============================================================
``meta``    the page table: parsing, its origin, checks of cells, sizes of pages
``reader``  an opened file as a ``FileReader``
``stats``   stored page statistics, as far as they are reliable
``writer``  a file during writing
``output``  the container of a file during writing
``wire``    the messages of a file
==========  ==============================================================
"""
