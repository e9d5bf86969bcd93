"""Data files of version 2.0 to 2.3, which share one container.

===================  =======================================================
``meta``             footer, tables and columns, every number checked
``fields``           the physical columns of a field
``columns``          columns parsed on first use
``parsed_together``  columns of several files, parsed in one pass
``values``           fields to blocks
``several_files``    fields of several files to blocks
``stats``            nulls, from the descriptions of pages
``reader``           an opened file as a ``FileReader``
``writer``           a file during writing
``output``           the container of a file during writing
``sidecars``         objects beside a file that hold its larger blobs
``wire``             the messages of the container
===================  =======================================================
"""
