"""Stores: bytes by relative path under one root. A store does not interpret the bytes.

* ``base``: the :class:`Store` protocol, its traits and metadata; ``reads``: generators that ask for ranges.
* ``uri``: opens a store from a URI, from which it splits credentials.
* ``credentials``: which options are secret, masked in reprs and pickles; ``failure``: errors of clients become
  lancecy's, secrets masked in messages.
* ``services``: pylance's option names become fsspec's; which places share an account, hence options.
* ``local``, ``memory``, ``fsspec``: the adapters; ``wrap``: stores that count or delay requests.
* ``local_files``, ``new_file``, ``maps``: files on disks and space for them; files under a temporary name; memory maps.
* ``fsspec_parts``, ``upload``: requests of fsspec file systems; uploads in parts.
* ``ranges``: which small ranges and holes become one request; ``fetch``: one round of requests over many files.
* ``key_values``, ``committing``: external manifest stores and locks, and the storage options that name them.
* ``cache``: a bounded cache; ``pools``: the threads of a session.
* ``paths``: the rule for relative paths; every adapter applies it before any IO.
"""
