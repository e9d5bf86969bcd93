"""What the doors need of a dataset, so that they need not know the class."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import pyarrow as pa

__all__ = ["Scan", "Source"]


class Scan(Protocol):
    """A scan that can be run again and again."""

    schema: pa.Schema

    def to_table(self) -> pa.Table:
        """All rows."""

    def to_reader(self) -> pa.RecordBatchReader:
        """A stream of all rows."""

    def count_rows(self) -> int:
        """How many there are."""


class Source(Protocol):
    """The part of :class:`lancecy.Dataset` that doors stand on."""

    @property
    def uri(self) -> str:
        """Where the table is."""

    @property
    def version(self) -> int:
        """Its version."""

    @property
    def schema(self) -> pa.Schema:
        """Its Arrow schema."""

    @property
    def scanner(self) -> Callable[..., Scan]:
        """Describes a scan; arguments as for ``Dataset.scanner``."""

    def take(self, indices: Any, columns: Any = None) -> pa.Table:
        """Rows by number."""

    def get_fragments(self) -> Sequence[Any]:
        """Its fragments."""
