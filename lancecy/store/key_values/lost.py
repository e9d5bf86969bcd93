"""The URLs in storage options that stand for a key-value store of another process."""

from __future__ import annotations

from lancecy.store.credentials import Options
from lancecy.store.key_values.base import LostKeyValue

__all__ = ["lost_url", "open_lost"]

_MARK = "lost://"


def lost_url(kind: str) -> str:
    """What stands in storage options for a store of a class.

    Examples
    --------
    >>> lost_url("MyStore")
    'lost://MyStore'
    """
    return _MARK + kind


def open_lost(url: str, options: Options) -> LostKeyValue:
    """The stand-in of a URL of :func:`lost_url`."""
    return LostKeyValue(url.removeprefix(_MARK))
