"""Stores: bytes by relative path under one root, and nothing about what they mean.

* ``base``: the :class:`Store` protocol, its traits and metadata; ``reads``: generators that ask for ranges.
* ``uri``: text to store, schemes, credentials kept out of everything that is shown or sent.
* ``local``, ``memory``, ``fsspec``: the adapters; ``wrap``: prefix, count, delay and break any of them.
* ``ranges``, ``fetch``: many small ranges become few large requests; ``cache``: a bounded cache.
* ``paths``: the one rule for relative paths, applied by every adapter before any IO.

May import ``errors`` and ``limits`` only.
"""
