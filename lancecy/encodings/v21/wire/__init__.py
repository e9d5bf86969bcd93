"""Protobuf messages of pages of 2.1 to 2.3.

==========  ==============================================================
``decode``  pages of any kind to layouts
``nodes``   encodings of values to ``spec`` nodes; what all pages have: layers, levels, dictionaries and counts
``planar``  pages of 2.3 to layouts
``encode``  layouts to pages of 2.1 and 2.2
==========  ==============================================================
"""
