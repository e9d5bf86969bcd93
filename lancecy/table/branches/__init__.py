"""Creates and deletes branches. Their names, JSON files and locations are in ``refs``.

``creation``   creates a branch from a version
``removal``    deletes branches, and finds and removes what interrupted work left
``files``      marks of work on a branch, and the files that are a branch's own

Generators over ``requests``, as commits are.

Sources: branch and tag specification; table sheet, section 6.
"""
