"""Pages of 0.1 files, whose encoding follows from the type of the field.

==========  ==============================================================
``read``    columns of pages to blocks
``write``   blocks to pages, many of a column at once
``stats``   minimum and maximum of every page of a column
==========  ==============================================================
"""
