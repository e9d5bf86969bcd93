"""What is served, and how much of it is read and shown at most."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from lancecy.limits import DEFAULT_LIMITS, Limits
from lancecy.records import dataclass

__all__ = ["LONGEST_FILTER", "LONGEST_QUERY", "MOST_NAMES", "Bounds", "UiOptions"]

LONGEST_QUERY = 8192
"""Characters of the part of an address after its question mark."""
LONGEST_FILTER = 4000
"""Characters of a filter, or of a text to find."""
MOST_NAMES = 64
"""Names in the id of a table."""


@dataclass(frozen=True)
class Bounds:
    """How much of a table is read and shown at most.

    Attributes
    ----------
    rows : int
        Rows of one page.
    columns : int
        Columns of one page.
    text : int
        Characters of a value.
    details : int
        Characters of a value that is opened.
    items : int
        Members of a list, map or struct.
    depth : int
        Levels of a nested value.
    page_bytes : int, bytes
        Values of the rows of one page.
    image_bytes : int, bytes
        One image.
    seconds : float, s
        Time of one page.
    explain_seconds : float, s
        Time after which no more fragments are explained.
    names : int
        Names of one page of a namespace.
    versions : int
        Versions of a history.
    fragments : int
        Fragments that are opened for figures, or explained.
    limits : Limits
        Of what files may claim.
    """

    rows: int = 50
    columns: int = 40
    text: int = 120
    details: int = 4000
    items: int = 40
    depth: int = 8
    page_bytes: int = 64 << 20
    image_bytes: int = 16 << 20
    seconds: float = 30.0
    explain_seconds: float = 2.0
    names: int = 200
    versions: int = 1000
    fragments: int = 2000
    limits: Limits = DEFAULT_LIMITS

    @classmethod
    def for_strangers(cls) -> Bounds:
        """The bounds for tables of untrusted sources."""
        return cls(
            rows=25,
            details=1000,
            items=16,
            depth=4,
            page_bytes=16 << 20,
            image_bytes=2 << 20,
            seconds=10.0,
            versions=200,
            fragments=500,
            limits=Limits(
                metadata_bytes=64 << 20,
                fragments=200_000,
                fields=20_000,
                columns=100_000,
                value_bytes=1 << 24,
                dictionary_values=1 << 24,
                bare_elements=1 << 20,
                page_bytes=1 << 28,
            ),
        )


@dataclass(frozen=True)
class UiOptions:
    """What is served.

    Attributes
    ----------
    root : str
        Path or URI of a table, or of a directory of tables.
    storage_options : mapping
        As for :func:`lancecy.dataset`. Never shown.
    properties : mapping of str to str
        Further properties of the namespace, such as ``dir_listing_enabled``.
    untrusted : bool
        Tables are opened as ``lancecy.dataset(…, untrusted=True)`` opens them, and the bounds are lower.
    allowed_bases : tuple of str
        As for :func:`lancecy.dataset`.
    bounds : Bounds or None
        None chooses by ``untrusted``.
    """

    root: str
    storage_options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    properties: Mapping[str, str] = field(default_factory=dict)
    untrusted: bool = False
    allowed_bases: tuple[str, ...] = ()
    bounds: Bounds | None = None

    @property
    def effective_bounds(self) -> Bounds:
        """The bounds that hold."""
        return self.bounds or (Bounds.for_strangers() if self.untrusted else Bounds())
