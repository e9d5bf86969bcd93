"""Blobs that are objects outside of the table, or parts of these; their descriptors have the place instead of bytes.

Source: file sheet 2.1, section 3.11.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lancecy.encodings.arrow.conversions import filled, numbers_of
from lancecy.errors import LanceError, SchemaError, printable
from lancecy.records import dataclass
from lancecy.schema import Field

__all__ = [
    "ALL_MEMBERS",
    "MEMBERS",
    "MEMBER_TYPES",
    "OutsideObjects",
    "OutsidePlace",
    "check_parts",
    "check_sources",
    "outside_objects",
]

Int64 = NDArray[np.int64]

MEMBERS = (("data", "uri"), ("data", "uri", "position", "size"))
"""Members of a blob for writers."""
ALL_MEMBERS = (*MEMBERS[-1], "base")
"""The same with ``base``: not null for a blob that has its place already, as ``OutsidePlace`` returns it. No schema has it."""
MEMBER_TYPES = dict(
    zip(ALL_MEMBERS, (pa.large_binary(), pa.string(), pa.uint64(), pa.uint64(), pa.uint32()), strict=True)
)

OutsidePlace = Callable[[str], tuple[int, str]]
"""Maps the URI of an object to the id of a base and the path there; to 0 and a URI if it is in no base."""

_LARGEST = 2**63 - 1


@dataclass(frozen=True, slots=True, eq=False)
class OutsideObjects:
    """The members of the descriptors of some blobs.

    Attributes
    ----------
    positions, sizes : (n,) int64, bytes
        0 and 0 for all of an object.
    bases : (n,) int64
    uris : pyarrow.StringArray
        Paths in these bases; URIs where the base is 0.
    """

    positions: Int64
    sizes: Int64
    bases: Int64
    uris: pa.StringArray


def outside_objects(given: pa.Table, field: Field, outside: OutsidePlace) -> OutsideObjects:
    """The places of some blobs.

    Parameters
    ----------
    given : pyarrow.Table
        ``ALL_MEMBERS`` but ``data`` of blobs, each with a URI.
    field : Field
    outside : function
        See ``OutsidePlace``.

    Raises
    ------
    SchemaError
        A part of an object is invalid.
    LanceError
        Those of ``outside``; the breadcrumb names the column.

    Examples
    --------
    >>> row = {"uri": "s3://b/m/a", "position": 5, "size": 7, "base": None}
    >>> given = pa.Table.from_pylist([row], pa.schema(list(MEMBER_TYPES.items())[1:]))
    >>> found = outside_objects(given, Field("b", 0), lambda uri: (1, uri.removeprefix("s3://b/m/")))
    >>> found.bases.tolist(), found.uris.to_pylist(), found.positions.tolist()
    ([1], ['a'], [5])
    """
    check_parts(given, field)
    has_place = _valid(given["base"])
    positions, sizes = (_numbers(given[name]) for name in ("position", "size"))
    bases, uris = _numbers(given["base"]).astype(np.int64), given["uri"].to_pylist()
    known: dict[str, tuple[int, str]] = {}
    for row in np.flatnonzero(~has_place).tolist():
        uri = uris[row]
        if uri not in known:
            try:
                known[uri] = outside(uri)
            except LanceError as error:
                raise error.within(f"column {printable(field.name)!r}")
        bases[row], uris[row] = known[uri]
    return OutsideObjects(
        positions.astype(np.int64), sizes.astype(np.int64), bases, pa.array(uris, pa.string())
    )


def check_sources(blobs: pa.StructArray, data: pa.Array, uris: pa.Array, field: Field) -> None:
    """Refuse blobs with bytes and a URI, or neither.

    Parameters
    ----------
    blobs : pyarrow.StructArray
        Its nulls need neither.
    data, uris : pyarrow.Array
        Its members.
    field : Field

    Raises
    ------
    SchemaError
    """
    has_one = pc.xor(data.is_valid(), uris.is_valid())
    if not pc.all(pc.or_(has_one, blobs.is_null())).as_py():
        raise SchemaError(
            f"column {printable(field.name)!r} has a blob with both bytes and a URI, or neither: give one of them, or null",
            difference="blobs",
        )


def check_parts(given: pa.Table, field: Field) -> None:
    """Refuse invalid parts of objects.

    Parameters
    ----------
    given, field
        As for :func:`outside_objects`.

    Raises
    ------
    SchemaError
    """
    positions, sizes = (_numbers(given[name]) for name in ("position", "size"))
    is_part, has_size, has_place = (_valid(given[name]) for name in ("position", "size", "base"))
    invalid = (is_part != has_size) | (is_part & (sizes == 0) & ~has_place)
    invalid |= (positions > _LARGEST) | (sizes > _LARGEST - np.minimum(positions, _LARGEST))
    if invalid.any():
        raise SchemaError(
            f"column {printable(field.name)!r} has a blob with a URI and an invalid part of that object: give its position "
            "and its size, 1 or more, or neither",
            difference="blobs",
        )


def _valid(column: pa.ChunkedArray) -> NDArray[np.bool_]:
    return numbers_of(column.is_valid().combine_chunks())


def _numbers(column: pa.ChunkedArray) -> NDArray[np.uint64]:
    return numbers_of(filled(column, 0).combine_chunks()).astype(np.uint64)
