"""Writing of blob columns: bytes are stored outside of pages, and columns hold their positions and sizes.

Up to 2.1 all bytes are in the data file, each value at a multiple of 64. From 2.2 on only small values are in the
data file; larger ones share another object, and the largest have an object each. The metadata of a column may set
the size limits.

Source: file sheet 2.0, section 5.4; file sheet 2.1, section 3.11.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lancecy.encodings.arrow.conversions import numbers_of
from lancecy.encodings.arrow.from_arrow import block_of
from lancecy.encodings.arrow.nulls import null_mask
from lancecy.encodings.blocks.memory import mask_of, memory_of
from lancecy.encodings.blocks.select import offsets_of
from lancecy.encodings.codecs.outside_blobs import (
    ALL_MEMBERS,
    MEMBER_TYPES,
    MEMBERS,
    OutsidePlace,
    check_sources,
    outside_objects,
)
from lancecy.encodings.model.block import FixedWidth, Structured, VariableWidth
from lancecy.errors import SchemaError, UnsupportedError, printable
from lancecy.records import dataclass
from lancecy.schema import Field
from lancecy.store.base import Memory

__all__ = [
    "SIZE_KEYS",
    "BlobPlaces",
    "Place",
    "blob_numbers",
    "check_sizes",
    "described_blobs",
    "null_positions",
    "placed_blobs",
    "spans_of",
]

Int64 = NDArray[np.int64]

_PACKED, _ALONE, _OUTSIDE = 1, 2, 3
_USUAL_SIZES = 64 << 10, 4 << 20, 1 << 30
_MOST, _LARGEST = 2**64 - 1, 2**63 - 1
SIZE_KEYS = tuple(
    f"lance-encoding:blob-{name}-size-threshold" for name in ("inline", "dedicated", "pack-file")
)
"""Metadata keys of the sizes at which blobs get another place."""


class BlobPlaces(NamedTuple):
    """Functions that write bytes of blobs; values are non-empty spans of some memory.

    Attributes
    ----------
    place : function of memory, starts and lengths
        Writes into the data file; returns the position of each.
    share : function of memory, starts, lengths and most
        Writes into objects of at most ``most`` bytes, or of one larger value; returns object number and position.
    part : function of memory, starts and lengths
        Writes each into an object of its own; returns their numbers.
    """

    place: Place
    share: Callable[[Memory, Int64, Int64, int], tuple[Int64, Int64]]
    part: Place


@dataclass(frozen=True, slots=True)
class _Sizes:
    """Most bytes of a value in the data file, of a value in a shared object, and of a shared object."""

    inline: int
    packed: int
    pack: int

    @classmethod
    def of(cls, field: Field) -> _Sizes:
        return cls(*(_number(field, key, usual) for key, usual in zip(SIZE_KEYS, _USUAL_SIZES, strict=True)))


def _number(field: Field, key: str, usual: int) -> int:
    text = field.metadata.get(key)
    if text is None:
        return usual
    if not text.isdigit() or len(text) > len(str(_MOST)):
        raise SchemaError(
            f"column {printable(field.name)!r}: metadata {key} is not a number of bytes",
            difference="sizes of blobs",
        )
    return min(int(text), _LARGEST)


def check_sizes(field: Field, given: Field) -> None:
    """Refuse rows whose column states other sizes of blobs than the table: those of the table would count in silence.

    Parameters
    ----------
    field, given : Field
        The blobs in the table, and as the rows have them. Sizes that ``given`` does not state are those of the table.

    Raises
    ------
    SchemaError
    """
    for key, usual in zip(SIZE_KEYS, _USUAL_SIZES, strict=True):
        size = _number(field, key, usual)
        if _number(given, key, size) != size:
            raise SchemaError(
                f"column {printable(field.name)!r}: the rows state {key} of {_number(given, key, size)}, the table has {size}: "
                "leave the size out, or make a new column with it",
                difference="sizes of blobs",
            )


def described_blobs(
    array: pa.StructArray, field: Field, places: BlobPlaces, outside: OutsidePlace | None = None
) -> pa.StructArray:
    """Write the bytes of blobs, and return their descriptors.

    Parameters
    ----------
    array : pyarrow.StructArray
        With the members ``MEMBERS`` or ``ALL_MEMBERS``.
    field : Field
    places : BlobPlaces
    outside : function, optional
        See ``OutsidePlace``; without it, blobs given by URI are refused.

    Returns
    -------
    pyarrow.StructArray
        Kind, position, size, number of an object and URI, as in ``Field.scanned``.

    Raises
    ------
    SchemaError
        A value has neither bytes nor a URI, or both; or an invalid part of an object.
    UnsupportedError
        A value is a URI, and there is no ``outside``.
    PathPolicyError
        A URI is refused.
    """
    members = _members(array, field)
    data, uris = members["data"], members["uri"]
    _check(array, uris, data, field, outside is not None)
    memory, starts, sizes = spans_of(data.cast(pa.large_binary()), field)
    limits = _Sizes.of(field)
    kinds = np.where(sizes > limits.packed, _ALONE, np.where(sizes > limits.inline, _PACKED, 0))
    positions, numbers = np.zeros_like(sizes), np.zeros_like(sizes)
    for kind in (0, _PACKED, _ALONE):
        rows = np.flatnonzero((kinds == kind) & (sizes > 0))
        spans = memory, starts[rows], sizes[rows]
        if not rows.size:
            continue
        if kind == 0:
            positions[rows] = places.place(*spans)
        elif kind == _PACKED:
            numbers[rows], positions[rows] = places.share(*spans, limits.pack)
        else:
            numbers[rows] = places.part(*spans)
    texts = pa.array([""], pa.string()).take(pa.array(np.zeros_like(sizes)))
    rows = np.flatnonzero(numbers_of(uris.is_valid()))
    if rows.size and outside is not None:
        kinds[rows] = _OUTSIDE
        found = outside_objects(_taken(members, rows), field, outside)
        positions[rows], sizes[rows], numbers[rows] = found.positions, found.sizes, found.bases
        texts = pc.replace_with_mask(texts, uris.is_valid(), found.uris)
    columns = [
        *(pa.array(kinds.astype(np.uint8)), pa.array(positions.astype(np.uint64))),
        *(pa.array(sizes.astype(np.uint64)), pa.array(numbers.astype(np.uint32)), texts),
    ]
    names = ["kind", "position", "size", "blob_id", "blob_uri"]
    return pa.StructArray.from_arrays(columns, names=names, mask=null_mask(array))


def _taken(members: Mapping[str, pa.Array], rows: Int64) -> pa.Table:
    """The members of some blobs that have no bytes."""
    return pa.table({name: member.take(pa.array(rows)) for name, member in members.items() if name != "data"})


def _members(array: pa.StructArray, field: Field) -> dict[str, pa.Array]:
    """The members of blobs, those that are not given as nulls."""
    names = tuple(array.type.field(i).name for i in range(array.type.num_fields))
    if names not in (*MEMBERS, ALL_MEMBERS):
        raise SchemaError(
            f"column {printable(field.name)!r} is a blob column without the members data and uri",
            difference="blobs",
        )
    given = dict(zip(names, array.flatten(), strict=True))
    return {name: given.get(name, pa.nulls(len(array), MEMBER_TYPES[name])) for name in ALL_MEMBERS}


def spans_of(array: pa.LargeBinaryArray, field: Field) -> tuple[Memory, Int64, Int64]:
    """Bytes of values, with the start and size of each; nulls have size 0.

    Parameters
    ----------
    array : pyarrow.LargeBinaryArray
    field : Field

    Returns
    -------
    (memory, starts, sizes)
        (nbytes,) uint8 and two (len(array),) int64.
    """
    block = block_of(array, field)
    if not isinstance(block, VariableWidth):
        raise TypeError(f"a {type(block).__name__} block has no blobs")
    offsets = offsets_of(block)
    return memory_of(block.values), offsets[:-1], np.diff(offsets)


def _check(array: pa.StructArray, uris: pa.Array, data: pa.Array, field: Field, with_uris: bool) -> None:
    """Refuse values with bytes and a URI, or neither; and those with a URI, if they are not written."""
    found = pc.index(uris.is_valid(), True).as_py()
    name = printable(field.name)
    if found >= 0 and not with_uris and not data[found].is_valid:
        raise UnsupportedError(
            f"column {name!r} refers to an object outside of the table in row {found}, which is not written here: give "
            "its bytes instead, or write the rows with write_dataset",
            feature="external blobs",
        )
    check_sources(array, data, uris, field)


Place = Callable[[Memory, Int64, Int64], Int64]
"""Writes spans of some memory, given their starts and sizes, and returns the position of each."""


def placed_blobs(array: pa.LargeBinaryArray, field: Field, place: Place) -> pa.StructArray:
    """Write values outside of pages, and return their positions and sizes.

    Parameters
    ----------
    array : pyarrow.LargeBinaryArray
    field : Field
    place : function
        See ``Place``; not called for values without bytes.

    Returns
    -------
    pyarrow.StructArray
        Position and size, null where the value is null.
    """
    memory, starts, sizes = spans_of(array, field)
    positions = np.zeros_like(sizes)
    filled = np.flatnonzero(sizes)
    positions[filled] = place(memory, starts[filled], sizes[filled])
    members = [pa.array(numbers.astype(np.uint64)) for numbers in (positions, sizes)]
    return pa.StructArray.from_arrays(members, names=["position", "size"], mask=null_mask(array))


def null_positions(rows: Structured) -> Structured:
    """Positions and sizes in the form of 2.0 pages, in which a null is position 1 without bytes."""
    if rows.validity is None:
        return rows
    position, size = rows.children
    numbers = blob_numbers(rows, position).copy()
    numbers[~mask_of(rows.validity, rows.length)] = 1
    return Structured(
        rows.length, {position: FixedWidth(rows.length, 64, numbers), size: rows.children[size]}
    )


def blob_numbers(rows: Structured, member: int) -> NDArray[np.uint64]:
    """(rows.length,) uint64: positions or sizes, by the id of the member."""
    block = rows.children[member]
    if not isinstance(block, FixedWidth):
        raise TypeError(f"a {type(block).__name__} block has no positions")
    return np.frombuffer(block.values, "<u8", rows.length)  # type: ignore[call-overload,no-any-return]
