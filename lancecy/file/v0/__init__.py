"""Data files of version 0.1.

==========  ==============================================================
``meta``    the page table: parsed, its origin found, its cells checked, sizes of pages
``reader``  a file behind the ``FileReader`` protocol
``stats``   stored page statistics, as far as they may be believed
``writer``  a file that is written
``output``  the container of a file that is written
``wire``    the messages of a file
==========  ==============================================================
"""
