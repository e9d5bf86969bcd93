"""Pages of 2.3, which describe structure and values separately.

==========  ==============================================================
``read``    a page to a leaf with its levels or positions
``sparse``  nulls and lists given by positions instead of levels
==========  ==============================================================

This version is not final in the reference implementation; its files are read but not written.
"""
