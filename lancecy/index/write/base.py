"""What a builder of an index takes, and where its files go."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Protocol, Self, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancecy.index.files import IndexFile

__all__ = ["IndexBuilder", "IndexOutput", "IndexPart", "IndexWriter"]

UInt64: TypeAlias = NDArray[np.uint64]


class IndexWriter(Protocol):
    """One file of an index that is being written."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows."""

    def add_global_buffer(self, data: bytes) -> int:
        """Add bytes that belong to no column, and return their number."""

    def add_schema_metadata(self, key: str, value: str) -> None:
        """Add an entry to the metadata of the schema."""

    def finish(self) -> None:
        """Publish the file."""


class IndexOutput(Protocol):
    """The files of one index."""

    def create(self, name: str, schema: pa.Schema, page_bytes: int | None = None) -> IndexWriter:
        """Begin a file.

        Parameters
        ----------
        name : str
        schema : pyarrow.Schema
        page_bytes : int, optional
            Size of a page of a column before it is encoded; that of data files by default.
        """


class IndexPart(Protocol):
    """The files of a finished index of other rows."""

    def file(self, name: str) -> IndexFile:
        """Open one of them.

        Parameters
        ----------
        name : str
        """

    def holds(self, ids: UInt64) -> NDArray[np.bool_]:
        """Which rows it speaks for: (n,) bool; false for those that are elsewhere now.

        Parameters
        ----------
        ids : (n,) uint64
            As the index has them.
        """


class IndexBuilder(ABC):
    """Takes the values of a column with the ids of their rows, and writes the files of an index.

    A context manager: at its end, temporary files are removed.
    """

    @abstractmethod
    def add(self, values: pa.Array, ids: UInt64) -> None:
        """Take values.

        Parameters
        ----------
        values : pyarrow.Array
        ids : (n,) uint64
            Row ids or row addresses, as the type of the index asks for.
        """

    @abstractmethod
    def add_part(self, part: IndexPart) -> None:
        """Take what a finished index of the same type holds of other rows.

        Parameters
        ----------
        part : IndexPart

        Raises
        ------
        LanceError
            Its files are damaged or missing.
        """

    @abstractmethod
    def write(self, output: IndexOutput) -> None:
        """Write the files, once all values are taken.

        Parameters
        ----------
        output : IndexOutput

        Raises
        ------
        StoreError
            A file could not be written.
        """

    @abstractmethod
    def close(self) -> None:
        """Remove temporary files."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
