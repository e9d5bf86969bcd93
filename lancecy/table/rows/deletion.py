"""Deletion vectors of fragments, and their two file formats.

An Arrow file holds one batch of one column, ``row_id: uint32 not null``, in any order; a bitmap
file is a portable 32-bit roaring bitmap. A file must agree with the manifest: offsets are below the
fragment's number of rows, and their count is the declared one. Facts: table sheet, section 2.3.

Only this module of the table layer imports pyarrow.
"""

from __future__ import annotations

import struct

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import ipc

from lancecy.encodings.arrow.conversions import array_of, numbers_of
from lancecy.errors import FormatError, LimitError
from lancecy.limits import DEFAULT_LIMITS, Limits
from lancecy.records import dataclass
from lancecy.store.base import Memory
from lancecy.table.manifest import DeletionFile, DeletionFileType
from lancecy.table.rows import roaring

__all__ = ["DeletionVector", "decode", "encode", "form_for"]

Int64 = NDArray[np.int64]

_SCHEMA = pa.schema([pa.field("row_id", pa.uint32(), nullable=False)])
_MAGIC = b"ARROW1"
# Arrow rounds buffers up to a multiple of 64 bytes.
_PADDING = 64
# From this count on the reference writes bitmaps, which take less than four bytes per row.
_BITMAP_FROM = 5000
# Compressing fewer rows takes longer than all else that is done for their file, and saves no bytes.
_COMPRESSED_FROM = 256


@dataclass(frozen=True, slots=True, eq=False)
class DeletionVector:
    """Offsets of the deleted rows of a fragment.

    Attributes
    ----------
    offsets : (num_deleted,) int64, ascending, without duplicates
    """

    offsets: Int64

    def __len__(self) -> int:
        return int(self.offsets.size)

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return int(self.offsets.nbytes)

    def between(self, start: int, stop: int) -> Int64:
        """The deleted offsets in ``start .. stop - 1``: (n,) int64, ascending, a view.

        Examples
        --------
        >>> DeletionVector(np.array([2, 5, 9])).between(3, 9)
        array([5])
        """
        first, last = np.searchsorted(self.offsets, [start, stop])
        return self.offsets[first:last]

    def holds(self, offsets: Int64) -> NDArray[np.bool_]:
        """Which of these offsets are deleted, in any order; there is at least one deleted row.

        Examples
        --------
        >>> DeletionVector(np.array([2, 5, 9])).holds(np.array([5, 6]))
        array([ True, False])
        """
        at = np.minimum(np.searchsorted(self.offsets, offsets), self.offsets.size - 1)
        found: NDArray[np.bool_] = self.offsets[at] == offsets
        return found


def decode(
    memory: Memory, file: DeletionFile, num_rows: int | None, limits: Limits = DEFAULT_LIMITS
) -> DeletionVector:
    """The deletion vector in a deletion file.

    Parameters
    ----------
    memory : (file size,) uint8
        The whole file.
    file : DeletionFile
        The manifest's entry: its format, and the number of deleted rows.
    num_rows : int or None
        Physical rows of the fragment, where known.

    Raises
    ------
    FormatError
        The file is damaged, or contradicts the manifest.
    LimitError
        The rows exceed ``limits.metadata_bytes`` as 64-bit numbers.

    Source: table sheet, section 2.3.
    """
    if file.file_type is DeletionFileType.ARROW:
        offsets = _unique(_from_arrow(memory, limits))
    else:
        offsets = roaring.decode(memory, limits)
    declared = file.num_deleted_rows
    if declared is not None and offsets.size != declared:
        raise FormatError(f"a deletion file of {offsets.size} rows where the manifest says {declared}")
    if num_rows is not None and offsets.size and int(offsets[-1]) >= num_rows:
        raise FormatError(f"a deletion file names row {int(offsets[-1])} of a fragment of {num_rows} rows")
    offsets.flags.writeable = False
    return DeletionVector(offsets)


def form_for(num_deleted: int) -> DeletionFileType:
    """The best file format for this number of rows.

    Examples
    --------
    >>> form_for(3)
    <DeletionFileType.ARROW: 'array'>
    """
    return DeletionFileType.BITMAP if num_deleted >= _BITMAP_FROM else DeletionFileType.ARROW


def encode(vector: DeletionVector, form: DeletionFileType) -> bytes:
    """The bytes of a deletion file, in either format.

    Examples
    --------
    >>> len(encode(DeletionVector(np.array([2, 5])), DeletionFileType.BITMAP))
    20

    Source: table sheet, section 2.3.
    """
    if form is DeletionFileType.BITMAP:
        return roaring.encode(vector.offsets)
    sink = pa.BufferOutputStream()
    column = array_of(vector.offsets.astype(np.uint32))
    # Passing one column to another thread takes longer than to compress it.
    compression = "zstd" if len(vector) >= _COMPRESSED_FROM else None
    options = ipc.IpcWriteOptions(compression=compression, use_threads=False)
    with ipc.new_file(sink, _SCHEMA, options=options) as writer:
        writer.write_batch(pa.record_batch([column], schema=_SCHEMA))
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _unique(values: NDArray[np.uint32]) -> Int64:
    """The values as ascending int64, without duplicates (which some writers produce)."""
    # np.unique of integers has been some ten times slower than sorting them since NumPy 2.3.
    numbers = np.sort(values).astype(np.int64)
    return numbers[np.append(True, numbers[1:] > numbers[:-1])] if numbers.size else numbers


def _from_arrow(memory: Memory, limits: Limits) -> NDArray[np.uint32]:
    if memory[:6].tobytes() != _MAGIC:
        raise FormatError("a deletion file is not an Arrow file")
    data = pa.py_buffer(memory)
    try:
        reader = ipc.open_file(data)
        _check_shape(reader.schema, reader.num_record_batches)
        # Fetched here and not by the reader, so that the checked message is the decoded one.
        message = ipc.read_message(pa.BufferReader(data.slice(_batch_position(memoryview(data)))))
        _check_claims(memoryview(message.metadata), memoryview(message.body), limits)
        batch = ipc.read_record_batch(message, reader.schema)
        batch.validate(full=True)
    except (pa.ArrowException, OSError, EOFError, MemoryError, struct.error) as error:
        raise FormatError(f"a deletion file is not a valid Arrow file: {error}") from error
    column = batch.column(0)
    if column.null_count:
        raise FormatError("a deletion file has nulls")
    values: NDArray[np.uint32] = numbers_of(column)
    return values


def _check_shape(schema: pa.Schema, num_batches: int) -> None:
    if not schema.equals(_SCHEMA):
        raise FormatError(f"a deletion file has columns {schema.to_string(show_field_metadata=False)!r}")
    if num_batches != 1:
        raise FormatError(f"a deletion file has {num_batches} batches instead of 1")


def _batch_position(data: memoryview) -> int:
    """Position of the only batch's message, from the footer, which ends in ``i32 length | "ARROW1"``."""
    (length,) = struct.unpack_from("<i", data, len(data) - 10)
    if not 0 < length <= len(data) - 10:
        raise FormatError(f"a deletion file has a footer of {length} bytes")
    ((position, _, _),) = _Table.root(data[len(data) - 10 - length : len(data) - 10]).structs(3, "<qi4xq")
    if not 0 <= position < len(data):
        raise FormatError(f"a deletion file has its batch at byte {position}")
    return position


def _check_claims(metadata: memoryview, body: memoryview, limits: Limits) -> None:
    """Refuse a batch that states more rows than allowed, or whose compressed buffers inflate to more.

    Arrow allocates the stated size of a compressed buffer before reading it, so this checks the message's
    flatbuffer first. Positions outside it raise ``struct.error``.
    """
    message = _Table.root(metadata)
    batch = message.table(2)
    if message.number(1, "<B") != 3 or batch is None:
        raise FormatError("a deletion file has no record batch where one belongs")
    num_rows = batch.number(0, "<q")
    limits.check("metadata_bytes", num_rows * 8, f"a deletion file of {num_rows} rows: size")
    if batch.table(3) is None:
        return
    most = num_rows * 4 + _PADDING
    for offset, length in batch.structs(2, "<qq"):
        if length < 8:
            continue
        if offset < 0:
            raise FormatError(f"a deletion file has a buffer at byte {offset}")
        (claimed,) = struct.unpack_from("<q", body, offset)
        if claimed > most:
            raise LimitError(
                f"a buffer of {claimed} bytes for {num_rows} deleted rows",
                limit="metadata_bytes",
                claimed=claimed,
            )


@dataclass(frozen=True, slots=True)
class _Table:
    """A flatbuffer table: positions of the table and of its vtable, the list of field positions."""

    data: memoryview
    position: int

    @classmethod
    def root(cls, data: memoryview) -> _Table:
        return cls(data, struct.unpack_from("<I", data, 0)[0])

    def _field(self, index: int) -> int | None:
        vtable = self.position - struct.unpack_from("<i", self.data, self.position)[0]
        # A negative position would count from the end.
        if vtable < 0:
            raise struct.error("a vtable lies before the message")
        size = struct.unpack_from("<H", self.data, vtable)[0]
        if 4 + 2 * index + 2 > size:
            return None
        offset = struct.unpack_from("<H", self.data, vtable + 4 + 2 * index)[0]
        return self.position + offset if offset else None

    def number(self, index: int, kind: str) -> int:
        """The number in a field, 0 when it is absent."""
        at = self._field(index)
        return 0 if at is None else int(struct.unpack_from(kind, self.data, at)[0])

    def table(self, index: int) -> _Table | None:
        """The table a field refers to, None when it is absent."""
        at = self._field(index)
        return None if at is None else _Table(self.data, at + struct.unpack_from("<I", self.data, at)[0])

    def structs(self, index: int, kind: str) -> list[tuple[int, ...]]:
        """A vector of structs, each as a tuple of numbers."""
        at = self._field(index)
        if at is None:
            return []
        start = at + struct.unpack_from("<I", self.data, at)[0]
        count, size = struct.unpack_from("<I", self.data, start)[0], struct.calcsize(kind)
        if count > len(self.data) // size:
            raise struct.error("a vector is longer than the message")
        return [struct.unpack_from(kind, self.data, start + 4 + size * i) for i in range(count)]
