"""Columns of 2.1 and 2.2 to pages.

===================  ==============================================================
``shred``            nested blocks to leaves with repetition and definition levels
``select_encoding``  the layout and the encodings of a page
``chunk_parts``      values and levels, cut into chunks
``miniblock``        mini-block pages
``fullzip``          full-zip pages
``few_values``       constant pages; strings of few distinct values as codes
``blob``             pages of positions and sizes of blobs
===================  ==============================================================
"""
