"""Stores: bytes by relative path under one root. A store does not interpret the bytes.

* ``base``: the :class:`Store` protocol, its traits and metadata; ``reads``: generators that ask for ranges.
* ``uri``: opens a store from a URI; keeps credentials out of everything that is shown or sent.
* ``local``, ``memory``, ``fsspec``: the adapters; ``wrap``: stores that add a prefix, count, delay or break requests.
* ``ranges``, ``fetch``: many small ranges become few large requests; ``cache``: a bounded cache.
* ``paths``: the rule for relative paths; every adapter applies it before any IO.
"""
