"""Pages of 2.3, which describe structure and values apart.

==========  ==============================================================
``read``    a page to a leaf with its levels or positions
``sparse``  nulls and lists told by positions instead of by levels
``slots``   slots of a sparse layer: which are wanted, which are null
==========  ==============================================================

The reference implementation has not settled this version; files of it are read and not written.
"""
