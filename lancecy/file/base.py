"""Interface of data files of every version, for the layers above.

A :class:`FileReader` knows the rows, columns and pages of one file and returns Reads; it does no IO and keeps
no handle. Readers are immutable apart from caches of parsed metadata, cheap to keep, and safe to share between
threads. A :class:`FileWriter` takes batches and publishes one file, or nothing after an error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from lancecy.encodings.codecs.outside_blobs import OutsidePlace
from lancecy.encodings.model.block import Block
from lancecy.records import dataclass
from lancecy.rows import RowSelection
from lancecy.schema import Field
from lancecy.stats import StatsTable
from lancecy.store.reads import Read

if TYPE_CHECKING:
    import pyarrow as pa

    from lancecy.file.dictionaries import Dictionaries
    from lancecy.file.v2.columns import FileColumns

__all__ = ["FileReader", "FileSummary", "FileWriteOptions", "FileWriter", "NullReader"]


class FileReader(Protocol):
    """One data file, opened."""

    @property
    def version(self) -> tuple[int, int]:
        """(major, minor), such as (0, 1); version 2.0 is always (2, 0)."""

    @property
    def num_rows(self) -> int:
        """Rows in the file, deleted ones included."""

    @property
    def field_ids(self) -> frozenset[int]:
        """Ids of the fields that this file holds."""

    @property
    def nbytes(self) -> int:
        """Bytes the reader keeps in memory, for caches that count them."""

    def page_starts(self, field: Field) -> NDArray[np.int64]:
        """(num_pages + 1,) int64: first row of each page of a top-level field, then ``num_rows``."""

    def page_bytes(self, field: Field) -> NDArray[np.int64]:
        """(num_pages,) int64, bytes: estimated size of each page of a field and all below it; no IO."""

    def column_bytes(self, field: Field) -> int:
        """Estimated encoded bytes of the field and all below it; no IO."""

    def decoded_bytes(self, field: Field) -> int:
        """:meth:`column_bytes` once the field is decoded, as far as the metadata of its pages tell; no IO."""

    def stores_dictionary(self, field: Field) -> bool:
        """Whether pages of a top-level leaf without an Arrow dictionary store codes and a dictionary, as far as is known; no IO."""

    def knows(self, field: Field) -> bool:
        """Whether pages and sizes of the field are exact, from its own metadata, or estimates; no IO."""

    def prepare(self, fields: Sequence[Field]) -> Read[None]:
        """Parse the metadata of these fields, which reads need as well; :meth:`knows` is then true for them."""

    def read(self, fields: Sequence[Field], selection: RowSelection) -> Read[dict[int, Block]]:
        """Decode top-level fields, each pruned to the ids of this file.

        Parameters
        ----------
        fields : sequence of Field
            Every leaf's id must be in ``field_ids``.
        selection : RowSelection
            Over ``num_rows`` rows.

        Returns
        -------
        Read of mapping of top-level field id to Block
            Each block has ``len(selection)`` rows, in the selection's order.

        Raises
        ------
        FormatError, LimitError
            The breadcrumbs name page, column and file.
        """

    @property
    def nulls(self) -> NullReader | None:
        """Reader of nulls without the values; None if the file does not store nulls separately."""

    @property
    def columns(self) -> FileColumns | None:
        """Columns that can be read with those of other files; None: the file must be read alone."""

    def stats(self, paths: Mapping[tuple[str, ...], Sequence[Field]]) -> Read[StatsTable]:
        """Bounds per page of the requested columns.

        Parameters
        ----------
        paths : mapping of path to fields
            Such as ``("a", "b")`` to the fields of ``a`` and ``a.b``, outermost first.

        Returns
        -------
        Read of StatsTable
            One unit per page; columns without statistics are absent.
        """


class NullReader(Protocol):
    """Reads which values are null, in files that store nulls separately from values."""

    def read_nulls(
        self, fields: Sequence[Field], tested: frozenset[int], selection: RowSelection
    ) -> Read[dict[int, Block]]:
        """Read which values are null.

        Parameters
        ----------
        fields : sequence of Field
            As for ``FileReader.read``, with all leaves within tested nodes.
        tested : frozenset of int
            Field ids, none within another; only structs are above them.
        selection : RowSelection

        Returns
        -------
        Read of mapping of top-level field id to Block
            The fields' null stubs (``encodings.blocks.null_only``): a tested node is boolean, and null where its
            value is null.
        """


@dataclass(frozen=True, slots=True)
class FileWriteOptions:
    """Options for writing a data file.

    Attributes
    ----------
    max_rows_per_group : int
        0.1 files only: rows per batch of the file.
    page_bytes : int, bytes
        Approximate bytes of a column per page; in 0.1 files, of all columns together.
    dictionaries : Dictionaries or None
        0.1 files only: dictionaries of the table that gets the file; by default, of the file alone.
    row_starts : tuple of int or None
        0.1 files only: first row of each batch of the file, then the number of rows, where ``max_rows_per_group`` does
        not describe them. All 0.1 files of a fragment have the same batches.
    outside : function, optional
        2.2 files only: places of blobs that are given by URI; see ``OutsidePlace``. Without it they are refused.
    """

    max_rows_per_group: int = 1024
    page_bytes: int = 8 << 20
    dictionaries: Dictionaries | None = None
    row_starts: tuple[int, ...] | None = None
    outside: OutsidePlace | None = None


@dataclass(frozen=True, slots=True)
class FileSummary:
    """A finished data file, with the values for its manifest entry.

    Attributes
    ----------
    path : str
        Path in the store.
    size : int, bytes
    num_rows : int
    fields : tuple of int
        Ids of the fields with a column.
    column_indices : tuple of int
        Column number of each field; empty for 0.1 files.
    major, minor : int
        Version for the manifest.
    """

    path: str
    size: int
    num_rows: int
    fields: tuple[int, ...]
    column_indices: tuple[int, ...]
    major: int
    minor: int


class FileWriter(Protocol):
    """A data file during writing."""

    @property
    def nbytes(self) -> int:
        """Bytes written so far."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows.

        Parameters
        ----------
        batch : pa.RecordBatch
            Columns in the order of the schema, any number of rows. Its memory may be held until ``finish``.

        Raises
        ------
        SchemaError
            Columns have other types, or nulls that their field does not allow.
        UnsupportedError
            Values that the version cannot hold.
        StoreError
            Bytes could not be written.
        """

    def finish(self) -> FileSummary:
        """Write the remaining rows and publish the file.

        Raises
        ------
        SchemaError, UnsupportedError, StoreError
            As for ``write``; then nothing is published.
        """

    def abort(self) -> None:
        """Publish nothing, and remove everything written."""
