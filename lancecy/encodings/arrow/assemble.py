"""Assembly of one nested column from parts that each hold some of its leaves.

Parts come from several data files, or from the leaves of one file of 2.1 and later. Every part has the lists and
structs around its leaves, and lists must begin and end at the same places in all of them. A struct is null where it is
null in all parts, as in pylance: a file that was added later may have values for rows that were null before. Chunked
parts are not concatenated: each is sliced at the chunk boundaries of the others, which copies nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache, reduce
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancecy.encodings.arrow.columns import ArrowArray, chunks_of, cut_out, storage_of, typed, validity_of
from lancecy.encodings.arrow.conversions import numbers_of
from lancecy.encodings.arrow.nulls import null_array
from lancecy.errors import FormatError, printable
from lancecy.schema import Field

__all__ = ["assemble", "pruned"]

Part: TypeAlias = "tuple[Field, pa.Array]"


def pruned(wanted: Field, ids: frozenset[int], keeps_structs: bool = False) -> Field | None:
    """``Field.pruned``, with plain storage for fields that lost children.

    A struct that has lost children is no longer of its extension type, and a map that has lost its keys or
    its values is a list of structs. A field that has lost nothing is returned itself.
    """
    if not wanted.children:
        # Most fields are leaves. They skip the cache, whose lookup would hash the ids of a wide table.
        return wanted if wanted.id in ids else None
    held, is_whole = _pruned(wanted, ids, keeps_structs)
    return wanted if is_whole else held


@lru_cache(maxsize=8192)
def _pruned(wanted: Field, ids: frozenset[int], keeps_structs: bool) -> tuple[Field | None, bool]:
    """What is left of the field, and whether that is all of it: callers compare fields by identity, and this one may be an equal one."""
    held = wanted.pruned(ids, keeps_structs)
    found = None if held is None else _plain(held, wanted)
    return found, found is wanted


def _plain(held: Field, whole: Field) -> Field:
    if held == whole:
        return whole
    by_id = {child.id: child for child in whole.children}
    metadata = {name: v for name, v in held.metadata.items() if not name.startswith("ARROW:extension:")}
    children = tuple(_plain(child, by_id[child.id]) for child in held.children)
    kind = "list.struct" if held.is_map else held.logical_type
    return replace(held, logical_type=kind, children=children, metadata=metadata, extension_name="")


def assemble(
    wanted: Field, parts: Sequence[tuple[Field, ArrowArray]], length: int, agree: bool = False
) -> ArrowArray:
    """Assemble one column from its parts; leaves that no part holds are null.

    Parameters
    ----------
    wanted : Field
    parts : sequence of (Field, column)
        A part of ``wanted``, as returned by :func:`pruned`, and its values; all of the same length.
    length : int
        Rows.
    agree : bool
        The parts are known to have the same nulls and lengths of structs and lists, as the leaves of one file have
        once they are compared (``encodings.arrow.agreement``).

    Raises
    ------
    FormatError
        Parts disagree about their rows or about the lengths of lists.
    """
    if not parts:
        return null_array(wanted.arrow_type, length)
    present, column = parts[0]
    if (len(parts) == 1 and (present == wanted or not wanted.children)) or wanted.is_blob:
        return column
    if any(len(column) != length for _, column in parts):
        raise FormatError(f"parts of column {printable(wanted.name)!r} differ in length")
    fields = [field for field, _ in parts]
    columns = [storage_of(column) for _, column in parts]
    rows = _cut([chunks_of(column) for column in columns])
    arrays = [_merged(wanted, list(zip(fields, row, strict=True)), agree) for row in rows]
    if len(arrays) == 1:
        return arrays[0]
    return pa.chunked_array(arrays, wanted.arrow_type)


def _cut(columns: Sequence[Sequence[pa.Array]]) -> list[list[pa.Array]]:
    """Slice several columns at all their chunk boundaries: per slice, one array of every column."""
    ends: list[list[int]] = []
    for chunks in columns:
        total, mine = 0, []
        for chunk in chunks:
            total += len(chunk)
            mine.append(total)
        ends.append(mine)
    edges = sorted({0, *(end for mine in ends for end in mine)})
    if len(edges) == 1:
        return []
    cut = [_cut_one(chunks, edges) for chunks in columns]
    return [list(row) for row in zip(*cut, strict=True)]


def _cut_one(chunks: Sequence[pa.Array], edges: Sequence[int]) -> list[pa.Array]:
    """Slice one column at these rows, which include its own chunk boundaries."""
    pieces, number, start = [], 0, 0
    for first, last in pairwise(edges):
        if first - start >= len(chunks[number]):
            start += len(chunks[number])
            number += 1
        whole = last - first == len(chunks[number])
        pieces.append(chunks[number] if whole else cut_out(chunks[number], first - start, last - first))
    return pieces


def _merged(wanted: Field, parts: Sequence[Part], agree: bool) -> pa.Array:
    """Merge arrays of the same rows."""
    if len(parts) == 1 and parts[0][0] == wanted:
        return typed(parts[0][1], wanted.arrow_type)
    bare = [(field, storage_of(array)) for field, array in parts]
    if wanted.is_struct:
        merged = _structs(wanted, bare, agree)
    elif wanted.is_fixed_list:
        merged = _fixed_lists(wanted, bare, agree)
    elif wanted.is_list or wanted.is_map:
        merged = _lists(wanted, bare, agree)
    else:
        return _leaf(wanted, bare)
    return typed(merged, wanted.arrow_type)


def _below(child: Field, parts: Sequence[Part], length: int, agree: bool) -> pa.Array:
    if not parts:
        return null_array(child.arrow_type, length)
    return _merged(child, parts, agree)


def _leaf(wanted: Field, parts: Sequence[Part]) -> pa.Array:
    """The leaf; several parts have one only where it stands for a struct of which only the nulls are read."""
    arrays = [array for _, array in parts]
    is_stub = pa.types.is_boolean(arrays[0].type)
    return typed(pc.coalesce(*arrays) if is_stub else arrays[0], wanted.arrow_type)


def _structs(wanted: Field, parts: Sequence[Part], agree: bool) -> pa.Array:
    first = parts[0][1]
    arrays = [array for _, array in parts]
    are_alike = agree or _are_null_alike(arrays)
    # Below a struct that is null in this part only, nothing is known.
    members = [[a.field(i) for i in range(a.type.num_fields)] if are_alike else a.flatten() for a in arrays]
    children = []
    for child in wanted.children:
        mine = [
            (held, values)
            for (field, _), several in zip(parts, members, strict=True)
            for held, values in zip(field.children, several, strict=True)
            if held.id == child.id
        ]
        children.append(_below(child, mine, len(first), agree))
    validity, null_count = (validity_of(first), first.null_count) if are_alike else _null_in_all(arrays)
    return pa.Array.from_buffers(wanted.storage_type, len(first), [validity], null_count, children=children)


def _are_null_alike(arrays: Sequence[pa.Array]) -> bool:
    """Whether all arrays are null in the same rows, as the parts of one file are."""
    first = arrays[0]
    if any(array.null_count != first.null_count for array in arrays[1:]):
        return False
    if first.null_count in (0, len(first)):
        return True
    is_valid = first.is_valid()
    return all(array.is_valid().equals(is_valid) for array in arrays[1:])


def _null_in_all(arrays: Sequence[pa.Array]) -> tuple[pa.Buffer | None, int]:
    """Validity of what is null where all arrays are, and the number of nulls."""
    if any(array.null_count == 0 for array in arrays):
        return None, 0
    is_valid = reduce(pc.or_, [array.is_valid() for array in arrays])
    bits = np.packbits(numbers_of(is_valid), bitorder="little")
    return pa.py_buffer(bits), len(is_valid) - is_valid.true_count


def _lists(wanted: Field, parts: Sequence[Part], agree: bool) -> pa.Array:
    """Lists whose elements are in several parts; all parts have the same list boundaries."""
    first = parts[0][1]
    offsets, elements = _offsets(first), []
    num_elements = offsets[-1].as_py()
    for field, array in parts:
        if not agree and array is not first and not _offsets(array).equals(offsets):
            raise FormatError(
                f"parts disagree about the lengths of the lists of column {printable(wanted.name)!r}"
            )
        begin = array.offsets[0].as_py()
        elements.append((field.children[0], cut_out(array.values, begin, num_elements)))
    child = _below(wanted.children[0], elements, len(elements[0][1]), agree)
    if wanted.is_map and (child.null_count or child.field(0).null_count):
        # Arrow aborts the process on null keys. Keys that are in no file are null as well.
        raise FormatError(f"keys of the map {printable(wanted.name)!r} are missing or null")
    buffers = [validity_of(first), offsets.buffers()[1]]
    return pa.Array.from_buffers(wanted.storage_type, len(first), buffers, first.null_count, children=[child])


def _offsets(array: pa.Array) -> pa.Array:
    """List offsets that begin with 0, in a buffer without other rows."""
    offsets = array.offsets
    if offsets.offset or offsets[0].as_py():
        return pc.subtract(offsets, offsets[0])
    return offsets


def _fixed_lists(wanted: Field, parts: Sequence[Part], agree: bool) -> pa.Array:
    first, size = parts[0][1], wanted.list_size
    elements = [
        (field.children[0], cut_out(array.values, array.offset * size, len(array) * size))
        for field, array in parts
    ]
    child = _below(wanted.children[0], elements, len(first) * size, agree)
    return pa.Array.from_buffers(
        wanted.storage_type, len(first), [validity_of(first)], first.null_count, children=[child]
    )
