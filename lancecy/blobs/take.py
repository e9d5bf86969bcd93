"""Opens the blobs of rows: finds the rows, reads their descriptors, locates the objects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lancecy.blobs.files import (
    BUFFER_SIZE,
    BlobFile,
    Explain,
    StoredObject,
    checked_range,
    read_together,
    read_whole,
)
from lancecy.encodings.arrow.assemble import pruned
from lancecy.encodings.arrow.conversions import array_of
from lancecy.encodings.arrow.to_arrow import to_arrow
from lancecy.errors import (
    ColumnNotFoundError,
    FormatError,
    LanceError,
    RowNotFoundError,
    UnsupportedError,
    printable,
)
from lancecy.file.v2.sidecars import sidecar_path
from lancecy.keyword_options import whole_number
from lancecy.rows import RowSelection
from lancecy.scanning.context import ScanContext
from lancecy.scanning.fragment import FragmentFiles, Part
from lancecy.scanning.take import as_row_ids, as_row_numbers, find_addresses, find_rows
from lancecy.schema import Field
from lancecy.store.reads import run
from lancecy.table.missing import missing_blob, missing_file

__all__ = ["FileBlobs", "read_blob_ranges", "read_blobs", "take_blobs"]

Int64 = NDArray[np.int64]

_LARGEST = 2**63 - 1
_MOST = 2**64 - 1
_SELECTORS = ("ids", "addresses", "indices")
_REQUEST = 3
"""Numbers of a request: row, offset and length."""
_REMEDY = "leave it out; a scan with_row_id or with_row_address has those of the rows there are"


def take_blobs(
    context: ScanContext,
    blob_column: str,
    ids: object = None,
    addresses: object = None,
    indices: object = None,
    *,
    buffer_size: int = BUFFER_SIZE,
) -> list[BlobFile | None]:
    """Open the blobs of some rows.

    Parameters
    ----------
    context : ScanContext
    blob_column : str
        Name of a blob column; dots lead into structs, and names that have dots may be in backquotes.
    ids, addresses, indices : (n,) integers
        Exactly one of them: row ids, row addresses (fragment << 32 | offset), or numbers of live rows.
    buffer_size : int, bytes
        Bytes fetched ahead by sequential readers of objects that are not memory-mapped; 0 for none.

    Returns
    -------
    list of BlobFile or None
        In the order of the rows; None for a null, an empty file for an empty blob.

    Raises
    ------
    ValueError
        Not exactly one kind of rows is given, or the column has no blobs.
    KeyError
        There is no such column.
    RowNotFoundError
        A row does not exist or is deleted.
    PathPolicyError
        A blob names an object that the table may not read.
    FormatError, UnsupportedError
        A descriptor is damaged or of an unsupported kind.
    """
    if isinstance(buffer_size, bool) or not isinstance(buffer_size, int):
        raise TypeError(f"buffer_size must be an int, not {type(buffer_size).__name__}")
    if buffer_size < 0:
        raise ValueError("buffer_size must not be negative")
    path = _blob_path(context, blob_column)
    fragments, offsets = _rows(context, ids, addresses, indices)
    return _opened(context, path, fragments, offsets, buffer_size)


def read_blobs(
    context: ScanContext,
    blob_column: str,
    ids: object = None,
    addresses: object = None,
    indices: object = None,
) -> list[tuple[int, bytes | None]]:
    """Read the blobs of some rows.

    Parameters
    ----------
    context, blob_column, ids, addresses, indices
        As for :func:`take_blobs`, which also tells the errors.

    Returns
    -------
    list of (int, bytes or None)
        Row address and bytes, in the order of the rows; None for a null.
    """
    path = _blob_path(context, blob_column)
    fragments, offsets = _rows(context, ids, addresses, indices)
    found = read_whole(context.session, _opened(context, path, fragments, offsets, 0))
    return list(zip(_addresses(fragments, offsets), found, strict=True))


def read_blob_ranges(
    context: ScanContext, blob_column: str, requests: Sequence[tuple[int, int, int]], selector: str
) -> list[tuple[int, int, bytes | None]]:
    """Read ranges of the blobs of some rows.

    Parameters
    ----------
    context, blob_column
        As for :func:`take_blobs`, which also tells the errors.
    requests : sequence of (int, int, int)
        Row, offset in its blob, and length.
    selector : "ids", "addresses" or "indices"
        What the rows are.

    Returns
    -------
    list of (int, int, bytes or None)
        Number of the request, row address and bytes, in the order of the requests; None for a null.

    Raises
    ------
    ValueError
        A range is negative or passes the end of its blob, or there is no such selector.
    TypeError
        A request is not three whole numbers.
    """
    if selector not in _SELECTORS:
        raise ValueError(f"selector is {selector!r}, not one of {', '.join(_SELECTORS)}")
    asked = [_request(number, each) for number, each in enumerate(requests)]
    path = _blob_path(context, blob_column)
    fragments, offsets = _rows(context, **{**dict.fromkeys(_SELECTORS), selector: [row for row, *_ in asked]})
    blobs = _opened(context, path, fragments, offsets, 0)
    present: list[tuple[BlobFile, tuple[int, int] | None]] = []
    for number, (blob, (row, start, length)) in enumerate(zip(blobs, asked, strict=True)):
        if blob is not None:
            try:
                present.append((blob, checked_range(blob, start, length)))
            except ValueError as error:
                raise ValueError(f"request {number}, of row {row}: {error}") from None
    found = iter(read_together(context.session, present))
    places = zip(blobs, _addresses(fragments, offsets), strict=True)
    return [
        (number, address, None if blob is None else next(found))
        for number, (blob, address) in enumerate(places)
    ]


def _request(number: int, given: Sequence[int]) -> tuple[int, int, int]:
    """Row, offset and length of a request."""
    if isinstance(given, str | bytes) or not isinstance(given, Sequence) or len(given) != _REQUEST:
        raise TypeError(f"request {number} is {given!r}, not a row, an offset and a length")
    row, start, length = (whole_number(f"request {number}", each) for each in given)
    if start < 0 or length < 0 or start + length > _MOST:
        raise ValueError(f"request {number}, of row {row}: there are no {length} bytes from byte {start}")
    return row, start, length


def _addresses(fragments: Int64, offsets: Int64) -> list[int]:
    found: list[int] = (fragments.astype(np.uint64) << np.uint64(32) | offsets.astype(np.uint64)).tolist()
    return found


def _opened(
    context: ScanContext, path: tuple[Field, ...], fragments: Int64, offsets: Int64, buffer_size: int
) -> list[BlobFile | None]:
    """The blobs of rows, in their order."""
    found: list[BlobFile | None] = [None] * offsets.size
    for fragment_id in np.unique(fragments).tolist():
        which = np.flatnonzero(fragments == fragment_id)
        files = context.files(fragment_id)
        try:
            opened = _open_blobs(context, files, path, offsets[which], buffer_size)
        except LanceError as error:
            raise context.snapshot.in_fragment(error, files.fragment)
        for number, blob in zip(which.tolist(), opened, strict=True):
            found[number] = blob
    return found


def _blob_path(context: ScanContext, column: str) -> tuple[Field, ...]:
    """The fields from the top level down to a blob column."""
    schema = context.snapshot.schema
    path: tuple[Field, ...] = ()
    level: Sequence[Field] = schema.fields
    rest: str = column
    while True:
        field = next((f for f in level if rest == f.name or rest.startswith(f"{f.name}.")), None)
        if field is None and "`" in column:  # names with dots in backquotes
            path = schema.path(schema.resolve(column))
            field = path[-1]
            break
        if field is None:
            raise ColumnNotFoundError(column, schema.names)
        path = (*path, field)
        if rest == field.name:
            break
        level, rest = (
            (field.children if field.is_struct and not field.is_blob else ()),
            rest[len(field.name) + 1 :],
        )
    if not field.is_blob:
        raise ValueError(f"column {column!r} is not a blob column")
    return path


def _rows(context: ScanContext, ids: object, addresses: object, indices: object) -> tuple[Int64, Int64]:
    """Fragment and physical offset of each requested row."""
    given = [rows for rows in (ids, addresses, indices) if rows is not None]
    if len(given) != 1:
        raise ValueError("exactly one of ids, addresses and indices must be given")
    if indices is not None:
        return _rows_by_number(context, indices)
    return _rows_by_id(context, as_row_ids(given[0]), ids is None)


def _rows_by_number(context: ScanContext, indices: object) -> tuple[Int64, Int64]:
    starts = context.row_starts()
    rows = as_row_numbers(indices, int(starts[-1]))
    places = np.searchsorted(starts, rows, side="right") - 1
    known = np.array([fragment.id for fragment in context.fragments], np.int64)
    offsets = np.empty_like(rows)
    for place in np.unique(places).tolist():
        which = np.flatnonzero(places == place)
        offsets[which] = context.files(int(known[place])).physical(rows[which] - starts[place])
    return known[places], offsets


def _rows_by_id(context: ScanContext, ids: NDArray[np.uint64], by_address: bool) -> tuple[Int64, Int64]:
    fragments, offsets = np.full(ids.size, -1, np.int64), np.zeros(ids.size, np.int64)
    for found in (find_addresses if by_address else find_rows)(context, ids):
        fragments[found.asked], offsets[found.asked] = found.files.fragment.id, found.offsets
    missing = np.flatnonzero(fragments < 0)
    if missing.size:
        number = int(ids[missing[0]])
        if by_address or not context.snapshot.manifest.has_stable_row_ids:
            raise RowNotFoundError(
                f"row {number & 0xFFFFFFFF} of fragment {number >> 32} is deleted: {_REMEDY}"
            )
        raise RowNotFoundError(f"no row has the id {number}, or it is deleted: {_REMEDY}")
    return fragments, offsets


# -- one fragment ---------------------------------------------------------------------


def _open_blobs(
    context: ScanContext, files: FragmentFiles, path: tuple[Field, ...], offsets: Int64, buffer_size: int
) -> Iterator[BlobFile | None]:
    """The blobs of some physical rows of a fragment."""
    part = next((part for part in files.parts if path[-1].id in part.ids), None)
    if part is None:
        return iter([None] * offsets.size)
    unique, back = np.unique(offsets, return_inverse=True)
    selection = RowSelection.take(files.num_rows, unique)
    rows = _descriptors(context, part, path, selection).take(array_of(back)).to_pylist()
    places = FileBlobs(context, files, part)
    return iter([places.blob(row, buffer_size) for row in rows])


def _descriptors(
    context: ScanContext, part: Part, path: tuple[Field, ...], rows: RowSelection
) -> pa.Array | pa.ChunkedArray:
    wanted = pruned(path[0], frozenset({path[-1].id}))
    if wanted is None:
        raise FormatError(f"blob column {printable(path[-1].name)!r} is in no data file")
    wanted = wanted.scanned
    blocks = run(part.reader.read([wanted], rows), context.session.fetch)
    column = to_arrow(blocks[wanted.id], wanted)
    return pc.struct_field(column, [0] * (len(path) - 1)) if len(path) > 1 else column


class FileBlobs:
    """The objects that hold the blobs of one data file.

    Parameters
    ----------
    context : ScanContext
    files : FragmentFiles
    part : Part
        The data file.
    """

    def __init__(self, context: ScanContext, files: FragmentFiles, part: Part) -> None:
        self._bases = context.snapshot.bases
        self._fragment = files.fragment
        self._session = context.session
        self._source = part.source
        self._known: dict[tuple[int, str], StoredObject] = {}
        self._file = StoredObject(
            lambda: (part.source.store, part.source.path), part.source, self._explained(-1)
        )

    def blob(self, row: dict[str, Any] | None, buffer_size: int) -> BlobFile | None:
        """The blob of a descriptor; None for a null.

        Parameters
        ----------
        row : dict or None
            Members of the descriptor.
        buffer_size : int, bytes
            See :func:`take_blobs`.
        """
        if row is None:
            return None
        position, size = row["position"], row["size"]
        if position is None or size is None or position > _LARGEST or size > _LARGEST - position:
            raise FormatError(f"invalid blob: {size} bytes at {position}")
        kind = row.get("kind")
        if kind is None:
            if size == 0 and position != 0:  # the form of a null in 2.0
                return None
            return self._opened(self._file, position, size, buffer_size)
        place = self._place(kind, row["blob_id"], row["blob_uri"])
        whole = kind == 3 and size == 0
        return self._opened(place, position, None if whole else size, buffer_size)

    def _opened(self, place: StoredObject, position: int, size: int | None, buffer_size: int) -> BlobFile:
        return BlobFile(self._session, place, position, size, buffer_size)

    def _place(self, kind: int, blob_id: int, uri: str) -> StoredObject:
        if kind == 0:
            return self._file
        if kind in (1, 2):
            return self._object(-1, sidecar_path(self._source.path, blob_id))
        if kind == 3:
            return self._object(blob_id, uri)
        raise UnsupportedError(f"blobs of kind {kind} are not supported", feature=f"blob kind {kind}")

    def _object(self, base_id: int, name: str) -> StoredObject:
        """The object at a path beside the data file (base -1), or in another base (``Bases.blob``)."""
        found = self._known.get((base_id, name))
        if found is None:
            place = (self._source.store, name) if base_id < 0 else self._bases.blob(base_id, name)
            made = StoredObject(lambda: place, explain=self._explained(base_id))
            found = self._known[base_id, name] = made
        return found

    def _explained(self, base_id: int) -> Explain:
        """Makes the error for a missing object of a base, -1 for one beside the data file or the file itself."""
        bases, fragment = self._bases, self._fragment
        if base_id < 0:
            return lambda error: missing_file(error, bases, fragment)
        return lambda error: missing_blob(error, bases, fragment, base_id)
