"""Protobuf messages of pages of 2.1 to 2.3.

==========  ==============================================================
``decode``  pages to layouts, whichever kind
``nodes``   encodings of values to ``spec`` nodes
``parts``   layers, levels, dictionaries and counts, which all pages have
``planar``  pages of 2.3 to layouts
``encode``  layouts to pages of 2.1 and 2.2
==========  ==============================================================
"""
