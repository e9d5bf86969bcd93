"""Operations on decoded blocks of any kind, and the memory blocks are decoded into.

=============  ==============================================================
``memory``     buffers that are used again once nothing refers to them, validity bitmaps
``select``     some values of a block; one block into consecutive ones
``scatter``    values by number, written into slots
``null_only``  null stubs: nulls without the values
=============  ==============================================================
"""
