"""One segment of an index: its entry, its files, and the fragments it speaks for."""

from __future__ import annotations

from functools import cached_property

import pyarrow as pa

from lancecy.errors import FormatError
from lancecy.index.files import IndexFile, open_index_file
from lancecy.index.found import RowPlaces
from lancecy.records import dataclass
from lancecy.table.manifest import IndexEntry
from lancecy.table.snapshot import Snapshot

__all__ = ["Segment"]


@dataclass(frozen=True, eq=False)
class Segment:
    """A segment that may be used.

    Attributes
    ----------
    snapshot : Snapshot
    entry : IndexEntry
    kind : str
        "BTREE", "BITMAP", …
    data_type : pyarrow.DataType
        Type of the indexed column.
    places : RowPlaces
        Finds its rows.
    sizes : mapping of file name to bytes
        Of its files, as far as the entry states them.
    """

    snapshot: Snapshot
    entry: IndexEntry
    kind: str
    data_type: pa.DataType
    places: RowPlaces
    sizes: dict[str, int]

    @property
    def name(self) -> str:
        """Name of the index."""
        return self.entry.name

    @cached_property
    def num_rows(self) -> int:
        """Rows of the fragments it speaks for, as the manifest states them."""
        covered = self.places.covered
        return sum(f.physical_rows or 0 for f in self.snapshot.fragments if f.id in covered)

    def file(self, name: str) -> IndexFile:
        """Open one of its files.

        Raises
        ------
        LanceError
            See :func:`lancecy.index.files.open_index_file`, and ``Bases.index``.
        """
        store, path = self.snapshot.bases.index(self.entry.base_id, self.entry.uuid, name)
        snapshot = self.snapshot
        return open_index_file(store, path, self.sizes.get(name), snapshot.session, snapshot.limits)

    def check_type(self, found: pa.DataType, name: str, wanted: pa.DataType | None = None) -> None:
        """Refuse values of another type than the column has.

        Raises
        ------
        FormatError
        """
        expected = self.data_type if wanted is None else wanted
        if found != expected:
            raise FormatError(f"{name} holds {found}, but the column is {expected}")
