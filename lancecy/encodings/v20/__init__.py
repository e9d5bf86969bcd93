"""Pages of 2.0 files: every field has a column of its own, and a message describes each page.

==============  ==============================================================
``read``        a field and a selection of rows to a block
``columns``     the columns of a field while they are decoded
``pages``       pages of one form, decoded together
``fixed``       values of one width
``packed``      buffers compressed as a whole, packed integers, packed structs
``binary``      byte strings
``dictionary``  codes and items
``offsets``     lengths and nulls of strings and lists, stored as running ends
``lists``       lists, and strings of 0.12 and 0.13, which are lists of bytes
``null_only``   which rows are null, without the values
``write``       nested blocks to pages
``wire``        messages to nodes and back
==============  ==============================================================
"""
