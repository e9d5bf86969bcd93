"""Protocols for the parts of a dataset that the other modules use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import pyarrow as pa

__all__ = ["Scan", "Source"]


class Scan(Protocol):
    """A scan that can be run repeatedly."""

    schema: pa.Schema

    def to_table(self) -> pa.Table:
        """All rows."""

    def to_reader(self) -> pa.RecordBatchReader:
        """A stream of all rows."""

    def count_rows(self) -> int:
        """Number of rows."""


class Source(Protocol):
    """The part of :class:`lancecy.Dataset` that this package uses."""

    @property
    def uri(self) -> str:
        """URI of the table."""

    @property
    def version(self) -> int:
        """Version of the table."""

    @property
    def schema(self) -> pa.Schema:
        """Arrow schema of the table."""

    @property
    def scanner(self) -> Callable[..., Scan]:
        """Makes a scan; arguments as for ``Dataset.scanner``."""

    def take(self, indices: Any, columns: Any = None) -> pa.Table:
        """Rows by number."""

    def get_fragments(self) -> Sequence[Any]:
        """Fragments of the table."""
