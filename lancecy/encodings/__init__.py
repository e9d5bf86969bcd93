"""Spec trees and blocks: how values lie in pages, and how they are decoded.

=============  ==================================================================
``spec``       nodes that say how a column is laid out: plain data
``block``      decoded buffers with a length, not yet Arrow
``flat``       plain values and fixed-size lists: copied in one go, or views
``legacy``     the 0.1 dialect: a field's spec, and Reads over its pages
``arrow``      blocks and Arrow arrays, sharing memory; the one seam to Arrow
=============  ==================================================================

A decoder is a Read (``store.reads``): it asks for ranges as arrays and does no IO. It
makes one kernel call per buffer, whatever the number of pages.
"""
