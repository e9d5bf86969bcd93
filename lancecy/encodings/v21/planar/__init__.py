"""Pages of 2.3, with structure and values described apart.

==========  ==============================================================
``read``    a page to a leaf with its levels or positions
``sparse``  nulls and lists given by positions instead of levels
``slots``   selected slots and null slots of a sparse layer
==========  ==============================================================

The reference implementation has not settled this version; files of it are read and not written.
"""
