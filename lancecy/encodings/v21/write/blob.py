"""Write pages of blobs: positions and sizes; the inverse of ``v21.blob``.

The position of a null is the level of the null node, shifted by 16 bits.

Source: file sheet 2.1, section 3.11.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lancecy.encodings.codecs.blobs import blob_numbers
from lancecy.encodings.model.block import FixedWidth, Structured
from lancecy.encodings.model.layouts import BlobPage, Layer, MiniBlock
from lancecy.encodings.model.pages import EncodedPage
from lancecy.encodings.model.spec import PackedRows, Plain
from lancecy.encodings.v21.write.chunk_parts import plain_values
from lancecy.encodings.v21.write.miniblock import write_mini_block
from lancecy.encodings.v21.write.shred import ShreddedLeaf
from lancecy.errors import UnsupportedError, printable

__all__ = ["write_blob_page"]


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
    table = np.stack([blob_numbers(rows, member) for member in rows.children], axis=1)
    levels = leaf.slot_levels.astype(np.uint64)
    # Nulls have no bytes.
    table[:, 0] = np.where(levels, levels << np.uint64(16), table[:, 0])
    table[:, 1] = np.where(levels, 0, table[:, 1])
    values = plain_values(FixedWidth(rows.length, 128, table))
    whole = replace(leaf, layers=(Layer.ALL_VALID_ITEM,), definition=None)
    inner = (
        None
        if values is None
        else write_mini_block(whole, replace(values, spec=PackedRows((64, 64), (), Plain(128))), False)
    )
    if inner is None or not isinstance(inner.spec, MiniBlock):
        raise TypeError("positions and sizes fit into chunks")
    return replace(inner, spec=BlobPage(inner.spec, leaf.layers))
