"""Apply a function to chosen arrays inside nested Arrow arrays, for writers that store changed values.

Values under nulls are left out, so they need not be valid.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lancecy.encodings.arrow.conversions import array_of, numbers_of
from lancecy.encodings.arrow.nulls import null_mask
from lancecy.schema import Field

__all__ = ["elements_of", "map_nested"]

Predicate = Callable[[Field], bool]
Change = Callable[[pa.Array, Field], pa.Array]


def map_nested(array: pa.Array, field: Field, wanted: Predicate, change: Change) -> pa.Array:
    """Change every node for which the predicate is true; return the array itself if there is none.

    Parameters
    ----------
    array : pyarrow.Array
        Of the field's type, members of structs in its order; names do not matter.
    field : Field
    wanted : function
        Whether a field is to be changed; fields below it are then not tested.
    change : function
        Takes an array and its field, and returns another array of the same length.

    Examples
    --------
    >>> item = Field("item", 1, 0, "string")
    >>> lists = pa.array([["a"], None, ["b", "c"]])
    >>> field = Field("l", 0, -1, "list", children=(item,))
    >>> map_nested(lists, field, lambda f: f.is_leaf, lambda texts, _: pc.utf8_upper(texts)).to_pylist()
    [['A'], None, ['B', 'C']]
    """
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if wanted(field):
        return change(array, field)
    if not field.children or not any(map(wanted, field.walk())) or pa.types.is_null(array.type):
        return array
    if field.is_struct:
        return _struct(array, field, wanted, change)
    if field.is_fixed_list:
        return _fixed_list(array, field, wanted, change)
    return _list(array, field, wanted, change)


def _struct(array: pa.StructArray, field: Field, wanted: Predicate, change: Change) -> pa.Array:
    # Members are null below nulls of the struct.
    members = [
        map_nested(member, child, wanted, change)
        for member, child in zip(array.flatten(), field.children, strict=True)
    ]
    fields = [pa.field(child.name, m.type) for child, m in zip(field.children, members, strict=True)]
    return pa.StructArray.from_arrays(members, fields=fields, mask=null_mask(array))


def _fixed_list(array: pa.FixedSizeListArray, field: Field, wanted: Predicate, change: Change) -> pa.Array:
    size, (child,) = field.list_size, field.children
    items = array.values.slice(array.offset * size, len(array) * size)
    if array.null_count:
        gone = array_of(np.repeat(numbers_of(array.is_null()), size))
        mask = pc.or_(gone, items.is_null())
        items = pa.StructArray.from_arrays(items.flatten(), fields=list(items.type), mask=mask)
    return pa.FixedSizeListArray.from_arrays(
        map_nested(items, child, wanted, change), size, mask=null_mask(array)
    )


def _list(array: pa.Array, field: Field, wanted: Predicate, change: Change) -> pa.Array:
    (child,) = field.children
    lengths, items = _items(array)
    items = map_nested(items, child, wanted, change)
    offsets = array_of(np.concatenate(([0], np.cumsum(lengths, dtype=np.int64))))
    make, width = (pa.LargeListArray, pa.int64()) if field.is_large_list else (pa.ListArray, pa.int32())
    lists = make.from_arrays(offsets.cast(width), items, mask=null_mask(array))
    return _as_map(lists) if field.is_map else lists


def _items(array: pa.Array) -> tuple[NDArray[np.integer], pa.Array]:
    """The number of items of each list, and all their items.

    Arrow (26.0) cannot flatten lists of extension types if all lists are null and have items, and cannot cast a map
    with nulls in a field that allows none, even below a null map.
    """
    items = elements_of(array)
    if not len(array):
        return np.zeros(0, np.int64), items.slice(0, 0)
    offsets = numbers_of(array.offsets)
    lengths = np.diff(offsets)
    if array.null_count:
        gone = numbers_of(array.is_null())
        if bool(lengths[gone].any()):
            lengths = np.where(gone, 0, lengths)
            return lengths, _runs(items, offsets[:-1][lengths > 0], lengths[lengths > 0])
    return lengths, items.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))


def _runs(items: pa.Array, starts: NDArray[np.integer], lengths: NDArray[np.integer]) -> pa.Array:
    """Runs of items, with adjacent runs joined."""
    stops = starts + lengths
    firsts = (
        np.flatnonzero(np.append(True, starts[1:] != stops[:-1])) if starts.size else np.zeros(0, np.int64)
    )
    lasts = np.append(firsts[1:] - 1, starts.size - 1) if starts.size else firsts
    pieces = [
        items.slice(start, stop - start)
        for start, stop in zip(starts[firsts].tolist(), stops[lasts].tolist(), strict=True)
    ]
    return pa.concat_arrays(pieces) if pieces else items.slice(0, 0)


def elements_of(array: pa.Array) -> pa.Array:
    """All elements of lists or maps, including those of other rows and under nulls.

    Examples
    --------
    >>> elements_of(pa.array([[1], [2, 3]]).slice(1)).to_pylist()
    [1, 2, 3]
    """
    if not pa.types.is_map(array.type):
        return array.values
    entries = pa.struct([array.type.key_field, array.type.item_field])
    return pa.StructArray.from_arrays([array.keys, array.items], fields=list(entries))


def _as_map(lists: pa.ListArray) -> pa.MapArray:
    key, item = lists.values.type
    entries = pa.StructArray.from_arrays(lists.values.flatten(), fields=[key.with_nullable(False), item])
    kind = pa.map_(key.type, item)
    return pa.MapArray.from_buffers(kind, len(lists), lists.buffers()[:2], children=[entries])
