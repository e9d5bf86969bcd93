"""Encodings of values in pages: descriptions become specs, specs and bytes become blocks, blocks become Arrow.

A folder imports those above it and none below; ``v0``, ``v20`` and ``v21`` are independent of each other.

==================  ==============================================================
``model``           specs, layouts, pages and blocks: plain data
``blocks``          operations on blocks of any kind, and their memory
``arrow``           blocks to Arrow and back
``codecs``          encodings of values that several versions share
``v0``              pages of 0.1, described by the type of their field
``v20``             pages of 2.0, one column per field
``v21``             pages of 2.1 and later, one column per leaf
``batch``           small pages of many columns and files, decoded at once
``joined_columns``  a few rows of many columns, decoded at once
``several_files``   one column of many files, decoded at once
==================  ==============================================================

The three versions describe pages in three ways and share specs, blocks and codecs, so an
encoding is written once. Modules in folders named ``wire`` turn messages into specs and
back; no other module sees protobuf.

A decoder is a Read (``store.reads``): it requests ranges as arrays and does no IO. It makes one kernel call per
buffer, for any number of pages or chunks.
"""
