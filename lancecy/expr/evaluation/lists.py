"""Lists row by row: where the elements of each list are, and lists made of such places.

A kernel reads its arguments with :func:`lists_of` and :func:`elements_of`, computes which elements each list of the
result has, by arithmetic on starts and sizes, and takes them all at once (:func:`made`). Elements under null lists do
not exist, lists of a fixed size are lists, and a null among them has no elements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lancecy.encodings.arrow.conversions import array_of, filled, numbers_of
from lancecy.errors import ExpressionError
from lancecy.expr.evaluation import growth
from lancecy.expr.evaluation.values import Data, by_chunk, is_wide
from lancecy.expr.kinds import family
from lancecy.limits import INT32_MAX
from lancecy.records import dataclass

__all__ = [
    "Flat",
    "ListRows",
    "any_element",
    "by_rows",
    "element",
    "elements_of",
    "flat_of",
    "from_index",
    "integers_of",
    "length",
    "list_of",
    "lists_of",
    "made",
    "ranges",
    "taken",
    "with_nulls",
    "with_nulls_of",
]

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class ListRows:
    """The lists of some rows.

    Attributes
    ----------
    values : pa.Array
        Elements of all lists and perhaps of others.
    starts, sizes : (rows,) int64
        Where in ``values`` each list begins, and how many elements it has; none if it is null.
    valid : (rows,) bool
    """

    values: pa.Array
    starts: Integers
    sizes: Integers
    valid: Flags


@dataclass(frozen=True, slots=True)
class Flat:
    """The elements of the lists of some rows, in order.

    Attributes
    ----------
    values : pa.Array
    rows : (elements,) int64
        The row of each element.
    sizes : (rows,) int64
    valid : (rows,) bool
        False for null lists.
    """

    values: pa.Array
    rows: Integers
    sizes: Integers
    valid: Flags

    @property
    def starts(self) -> Integers:
        """The first element of each row."""
        return np.cumsum(self.sizes) - self.sizes

    @property
    def places(self) -> Integers:
        """The place of each element in its list, from 0."""
        return np.arange(len(self.values)) - self.starts[self.rows]


def by_rows(run: Callable[..., pa.Array], *arguments: Data) -> Data:
    """Apply ``run(rows, *arguments)`` to pieces of columns that are in one chunk each; constants stay scalars.

    Examples
    --------
    >>> by_rows(lambda rows, one, two: pa.array([rows] * rows), pa.array([1, 2]), pa.scalar(5)).to_pylist()
    [2, 2]
    """
    columns = [argument for argument in arguments if not isinstance(argument, pa.Scalar)]
    if not columns:
        return run(1, *arguments)[0]
    if not any(isinstance(column, pa.ChunkedArray) for column in columns):
        return run(len(columns[0]), *arguments)
    table = pa.table(columns, names=[str(index) for index in range(len(columns))])
    pieces = [batch.columns for batch in table.to_batches()]
    if not pieces:
        pieces = [[pa.array([], column.type) for column in columns]]
    found = []
    for piece in pieces:
        left = iter(piece)
        one = [argument if isinstance(argument, pa.Scalar) else next(left) for argument in arguments]
        found.append(run(len(piece[0]), *one))
    return pa.chunked_array(found)


def list_of(kind: pa.DataType, *others: pa.DataType) -> pa.DataType:
    """The type of lists made of elements of ``kind``, large if one of the other types is."""
    large = any(pa.types.is_large_list(other) for other in others)
    return pa.large_list(kind) if large else pa.list_(kind)


def lists_of(values: pa.Array | pa.Scalar, rows: int) -> ListRows:
    """The lists of a column or, repeated without a copy, of a constant; maps are lists of entries."""
    if isinstance(values, pa.Scalar):
        one = _lists(pa.repeat(values, 1))
        starts, sizes = (np.broadcast_to(part, rows) for part in (one.starts, one.sizes))
        return ListRows(one.values, starts, sizes, np.broadcast_to(one.valid, rows))
    return _lists(values)


def _lists(array: pa.Array) -> ListRows:
    rows = len(array)
    valid = np.ones(rows, np.bool_) if not array.null_count else numbers_of(array.is_valid())
    if pa.types.is_fixed_size_list(array.type):
        size = array.type.list_size
        starts = (array.offset + np.arange(rows, dtype=np.int64)) * size
        return ListRows(array.values, starts, np.where(valid, size, 0), valid)
    offsets = np.asarray(array.offsets, dtype=np.int64) if rows else np.zeros(1, np.int64)
    return ListRows(array.values, offsets[:-1], np.where(valid, np.diff(offsets), 0), valid)


def elements_of(values: pa.Array | pa.Scalar, rows: int) -> tuple[pa.Array, Integers]:
    """The values of a column or a constant, and which of them each row has."""
    if isinstance(values, pa.Scalar):
        return pa.repeat(values, 1), np.broadcast_to(np.int64(0), rows)
    return values, np.arange(rows, dtype=np.int64)


def integers_of(values: pa.Array | pa.Scalar, rows: int) -> tuple[Integers, Flags]:
    """The integers of a column or a constant, also stored as dates or times; 0 where null; and where they are not."""
    array, index = elements_of(values, rows)
    if pa.types.is_date32(array.type):
        array = pc.cast(array, pa.int32())
    numbers = np.asarray(pc.fill_null(pc.cast(array, pa.int64()), 0), dtype=np.int64)
    return numbers[index], numbers_of(array.is_valid())[index]


def ranges(starts: Integers, sizes: Integers) -> Integers:
    """``starts[i], starts[i] + 1, …``, ``sizes[i]`` of them, for each i."""
    before = np.cumsum(sizes) - sizes
    return np.repeat(starts - before, sizes) + np.arange(int(sizes.sum()), dtype=np.int64)


def flat_of(values: pa.Array | pa.Scalar, rows: int) -> Flat:
    """The elements of the lists of a column or a constant, without those that no list has."""
    lists = lists_of(values, rows)
    total = int(lists.sizes.sum())
    numbers = np.repeat(np.arange(rows, dtype=np.int64), lists.sizes)
    used = lists.starts[lists.sizes > 0]
    ends = used + lists.sizes[lists.sizes > 0]
    if not total or np.array_equal(used[1:], ends[:-1]):
        flat = lists.values.slice(int(used[0]) if total else 0, total)
    else:
        growth.charge("a constant", 8 * max(0, total - len(lists.values)), "lists")
        flat = lists.values.take(pa.array(ranges(lists.starts, lists.sizes)))
    return Flat(flat, numbers, lists.sizes, lists.valid)


def made(
    name: str,
    kind: pa.DataType,
    parts: Sequence[pa.Array],
    starts: Integers,
    sizes: Integers,
    valid: Flags | None = None,
) -> pa.Array:
    """Lists of elements of several arrays.

    Parameters
    ----------
    name : str
        Name of the call, for errors.
    kind : pa.DataType
        Type of the lists.
    parts : sequence of pa.Array
    starts, sizes : (rows,) or (rows, n) int64
        Where the stretches of elements of each list begin in all parts, one behind the other; how long they are.
    valid : (rows,) bool, optional
        False for lists that are null.

    Raises
    ------
    ExpressionError
        The lists would exceed the allowance.
    """
    if valid is not None:
        sizes = np.where(valid if sizes.ndim == 1 else valid[:, None], sizes, 0)
    counts = sizes if sizes.ndim == 1 else sizes.sum(axis=1)
    _charge_elements(name, kind, counts, parts)
    return from_index(name, kind, parts, ranges(starts.ravel(), sizes.ravel()), counts, valid)


def _charge_elements(name: str, kind: pa.DataType, counts: Integers, parts: Sequence[pa.Array]) -> None:
    total = int(counts.sum())
    growth.charge(name, 8 * max(0, total - sum(map(len, parts))), "lists")
    if total > INT32_MAX and not pa.types.is_large_list(kind):
        raise ExpressionError(
            f"{name} would make lists of {total:,} elements together, where 32-bit offsets end at {INT32_MAX:,}; "
            "read fewer rows at a time"
        )


def _charge_bytes(name: str, parts: Sequence[pa.Array], index: Integers) -> None:
    """Charge for the bytes that the elements at ``index`` have more than all parts together."""
    sizes = [_byte_sizes(part) for part in parts]
    if all(isinstance(size, int) for size in sizes):
        return
    each = np.concatenate([np.broadcast_to(size, len(part)) for size, part in zip(sizes, parts, strict=True)])
    total = int(each[index].sum()) if len(each) else 0
    growth.charge(name, max(0, total - int(each.sum())), "lists")
    if total > INT32_MAX and not any(map(is_wide, (part.type for part in parts))):
        raise ExpressionError(
            f"{name} would make {total:,} bytes in one array, where 32-bit offsets end at {INT32_MAX:,}; "
            "read fewer rows at a time"
        )


def _byte_sizes(values: pa.Array) -> Integers | int:
    """Bytes of each value; one number if all values have as many."""
    kind = values.type
    if pa.types.is_map(kind) or family(kind) == "list":
        lists = _lists(values)
        inner = _byte_sizes(lists.values)
        if isinstance(inner, int):
            return lists.sizes * inner + 8
        ends = np.concatenate([[0], np.cumsum(inner)])
        return np.asarray(ends[lists.starts + lists.sizes] - ends[lists.starts] + 8, dtype=np.int64)
    if pa.types.is_struct(kind):
        members = [_byte_sizes(member) for member in values.flatten()]
        return sum(members) if members else 0
    if pa.types.is_null(kind):
        return 0
    if pa.types.is_string(kind) or pa.types.is_binary(kind) or is_wide(kind):
        return np.asarray(pc.fill_null(pc.binary_length(values), 0), dtype=np.int64) + 8
    return (int(kind.bit_width) + 7) // 8


def from_index(
    name: str,
    kind: pa.DataType,
    parts: Sequence[pa.Array],
    index: Integers,
    counts: Integers,
    valid: Flags | None = None,
) -> pa.Array:
    """Lists of the elements at ``index`` of all parts, ``counts`` of them for each row."""
    _charge_bytes(name, parts, index)
    values = parts[0] if len(parts) == 1 else pa.concat_arrays(parts)
    return with_nulls(kind, counts, values.take(pa.array(index)), valid)


def with_nulls(kind: pa.DataType, counts: Integers, values: pa.Array, valid: Flags | None = None) -> pa.Array:
    """Lists of ``counts`` elements each, null where they are not valid."""
    ends = np.concatenate([[0], np.cumsum(counts)])
    large = pa.types.is_large_list(kind)
    offsets = pa.array(ends, pa.int64() if large else pa.int32())
    mask = None if valid is None or valid.all() else pa.array(~valid)
    if values.type != kind.value_type:
        values = values.cast(kind.value_type)
    return (pa.LargeListArray if large else pa.ListArray).from_arrays(offsets, values, type=kind, mask=mask)


def taken(kind: pa.DataType, flat: Flat, kept: Flags, values: pa.Array | None = None) -> pa.Array:
    """The lists with those of their elements that are kept."""
    counts = np.bincount(flat.rows[kept], minlength=len(flat.sizes))
    found = (flat.values if values is None else values).filter(pa.array(kept))
    return with_nulls(kind, counts, found, flat.valid)


def any_element(lists: Any, test: Callable[[pa.Array], Any]) -> Any:
    """Where any element of a list passes ``test``: boolean, null where the list is null."""

    def run(chunk: pa.Array) -> pa.Array:
        flat = flat_of(chunk, len(chunk))
        hits = numbers_of(filled(test(flat.values), False))
        found = np.zeros(len(chunk), dtype=bool)
        found[flat.rows[hits]] = True
        return with_nulls_of(chunk, found)

    return by_chunk(run, lists)


def with_nulls_of(chunk: pa.Array, found: NDArray[Any]) -> pa.Array:
    """Array of ``found``, null where ``chunk`` is null."""
    if chunk.null_count == 0:
        return array_of(found)
    return array_of(found, numbers_of(pc.is_null(chunk)))


def length(lists: Any) -> Any:
    """Number of elements: int64, null where the list is null."""
    return pc.cast(pc.list_value_length(lists), pa.int64())


def element(lists: Any, positions: Any) -> Any:
    """The element at a position: 1 is the first, -1 the last; null where the list has none there.

    Parameters
    ----------
    lists : pa.Array or pa.ChunkedArray
    positions : pa.Array or pa.ChunkedArray of int64, as many; or pa.Scalar
        Nulls and 0 are no position.
    """

    def run(rows: int, values: Any, numbers: Any) -> pa.Array:
        of = lists_of(values, rows)
        places, _ = integers_of(numbers, rows)
        index = of.starts + np.where(places > 0, places - 1, of.sizes + places)
        missing = (places == 0) | (places > of.sizes) | (places < -of.sizes)
        return of.values.take(pa.array(np.where(missing, 0, index), mask=missing))

    return by_rows(run, lists, positions)
