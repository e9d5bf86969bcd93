"""What pages are encoded with, parsed once for all that are encoded alike."""

from __future__ import annotations

from collections.abc import Hashable

from lancecy.encodings.model.layouts import PageSpec
from lancecy.file.v2.wire.decode import parse_spec
from lancecy.limits import Limits
from lancecy.store.cache import ByteCache

__all__ = ["SpecCache"]


class SpecCache:
    """Specs by the bytes they were parsed from: one object for equal ones of a file, and those of files opened before.

    Parameters
    ----------
    version : (major, minor)
        Of the file.
    limits : Limits
    cache : ByteCache or None
        Shared by files.
    """

    def __init__(self, version: tuple[int, int], limits: Limits, cache: ByteCache | None = None) -> None:
        self._version = version
        self._limits = limits
        self._cache = cache
        self._specs: dict[tuple[bytes, int], PageSpec] = {}
        self._tokens: dict[Hashable, object] = {}

    def find(self, encoding: bytes, num_buffers: int) -> PageSpec:
        """The spec of a page of so many buffers.

        Raises
        ------
        FormatError, LimitError, UnsupportedError
            See ``parse_spec``.
        """
        found = self._specs.get((encoding, num_buffers))
        if found is None:
            found = self._specs[encoding, num_buffers] = self._parsed(encoding, num_buffers)
        return found

    def token(self, likeness: Hashable | None) -> object | None:
        """One object for equal values, also in other files that are read with the same cache; None for None."""
        if likeness is None:
            return None
        if self._cache is None:
            return self._tokens.setdefault(likeness, object())
        return self._cache.get(("likeness", likeness), object, 1024)

    def _parsed(self, encoding: bytes, num_buffers: int) -> PageSpec:
        version, limits = self._version, self._limits
        if self._cache is None:
            return parse_spec(encoding, version, num_buffers, limits)
        return self._cache.get(
            ("page spec", encoding, num_buffers, version, limits),
            lambda: parse_spec(encoding, version, num_buffers, limits),
            1024 + 2 * len(encoding),
        )
