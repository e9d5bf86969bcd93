"""Writing columns of blobs: bytes apart from the pages, and pages of where they are; the way back of ``v21.blob``.

Each value stands at a multiple of 64 of its own. A page of 2.0 says of a null that it has no bytes at position 1; in 2.1
its position is the level that says which node is null, shifted by 16 bits.

Source: file sheet 2.0, section 5.4; file sheet 2.1, section 3.11.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancecy.encodings.arrow.nulls import null_mask
from lancecy.encodings.blocks.select import mask_of
from lancecy.encodings.codecs.blobs import spans_of
from lancecy.encodings.model.block import FixedWidth, Structured
from lancecy.encodings.model.layouts import BlobPage, Layer, MiniBlock
from lancecy.encodings.model.pages import EncodedPage
from lancecy.encodings.model.spec import PackedRows, Plain
from lancecy.encodings.v21.write.chunk_parts import fixed_values
from lancecy.encodings.v21.write.miniblock import write_mini_block
from lancecy.encodings.v21.write.shred import ShreddedLeaf
from lancecy.errors import UnsupportedError, printable
from lancecy.schema import Field
from lancecy.store.base import Memory

__all__ = ["Place", "null_positions", "placed_blobs", "write_blob_page"]

Int64 = NDArray[np.int64]

Place = Callable[[Memory, Int64, Int64], Int64]
"""Writes spans of some memory, given where they begin and how long they are, and says where each is then."""


def placed_blobs(array: pa.LargeBinaryArray, field: Field, place: Place) -> pa.StructArray:
    """Write values apart from pages.

    Parameters
    ----------
    array : pyarrow.LargeBinaryArray
    field : Field
    place : function
        See ``Place``; not asked for values without bytes.

    Returns
    -------
    pyarrow.StructArray
        Of position and size, null where the value is.
    """
    memory, starts, sizes = spans_of(array, field)
    positions = np.zeros_like(sizes)
    filled = np.flatnonzero(sizes)
    positions[filled] = place(memory, starts[filled], sizes[filled])
    members = [pa.array(numbers.astype(np.uint64)) for numbers in (positions, sizes)]
    return pa.StructArray.from_arrays(members, names=["position", "size"], mask=null_mask(array))


def null_positions(rows: Structured) -> Structured:
    """The rows as pages of 2.0 have them, where a null is a position without bytes."""
    if rows.validity is None:
        return rows
    position, size = rows.children
    numbers = _numbers(rows, position).copy()
    numbers[~mask_of(rows.validity, rows.length)] = 1
    return Structured(
        rows.length, {position: FixedWidth(rows.length, 64, numbers), size: rows.children[size]}
    )


def _numbers(rows: Structured, member: int) -> NDArray[np.uint64]:
    block = rows.children[member]
    if not isinstance(block, FixedWidth):
        raise TypeError(f"a {type(block).__name__} block has no positions")
    return np.frombuffer(block.values, "<u8", rows.length)  # type: ignore[call-overload,no-any-return]


def write_blob_page(leaf: ShreddedLeaf) -> EncodedPage:
    """A page of 2.1 of positions and sizes.

    Raises
    ------
    UnsupportedError
        Blobs in lists.
    """
    rows = leaf.values
    if leaf.rep is not None or not isinstance(rows, Structured):
        raise UnsupportedError(
            f"column {printable(leaf.field.name)!r} has blobs in lists, which files of version 2.1 cannot hold: "
            "write version 2.2",
            feature="blobs in lists",
        )
    table = np.stack([_numbers(rows, member) for member in rows.children], axis=1)
    levels = leaf.slot_levels.astype(np.uint64)
    # Nothing that is null has bytes.
    table[:, 0] = np.where(levels, levels << np.uint64(16), table[:, 0])
    table[:, 1] = np.where(levels, 0, table[:, 1])
    values = fixed_values(FixedWidth(rows.length, 128, table))
    whole = replace(leaf, layers=(Layer.ALL_VALID_ITEM,), definition=None)
    inner = (
        None
        if values is None
        else write_mini_block(whole, replace(values, spec=PackedRows((64, 64), (), Plain(128))), False)
    )
    if inner is None or not isinstance(inner.spec, MiniBlock):
        raise TypeError("positions and sizes fit into chunks")
    return replace(inner, spec=BlobPage(inner.spec, leaf.layers))
