"""Null stubs: the nulls of a column without its values.

``x IS NULL`` needs only the levels, bitmaps or running end offsets of a column. The column is then read as a *null
stub*: a boolean field in place of the tested one, with meaningless bits and the nulls of the values::

    struct<a: list<struct<b, c>>, …>    tested: a    ->    struct<a: bool>

In 2.1 and later a struct without fields in place of the leaf (``without_values``) makes decoders read only levels;
2.0 has a module of its own (``v20.null_only``).
"""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import numpy as np

from lancecy.encodings.model.block import (
    AllNull,
    Block,
    Coded,
    FixedList,
    FixedWidth,
    Leaves,
    Listed,
    Pieces,
    Structured,
    VariableWidth,
)
from lancecy.encodings.model.layouts import BlobPage, ConstantPage, MiniBlock, PageSpec, Planar
from lancecy.encodings.model.pages import Page
from lancecy.encodings.model.spec import Repeated
from lancecy.schema import Field

__all__ = ["has_no_values", "null_block", "null_only", "null_stub", "says_null_by_value", "without_values"]


def null_stub(field: Field, tested: frozenset[int]) -> Field:
    """The null stub of a field: booleans in place of the tested nodes.

    Parameters
    ----------
    field : Field
        All its leaves are within tested nodes.
    tested : frozenset of int
        Field ids, none within another.

    Examples
    --------
    >>> texts = Field("t", 1, logical_type="list", children=(Field("item", 2, logical_type="string"),))
    >>> null_stub(Field("s", 0, logical_type="struct", children=(texts,)), frozenset({1})).arrow_type
    StructType(struct<t: bool>)
    """
    if field.id in tested:
        return _plain(field, "bool", ())
    return _plain(field, field.logical_type, tuple(null_stub(child, tested) for child in field.children))


def _plain(field: Field, logical_type: str, children: tuple[Field, ...]) -> Field:
    return replace(field, logical_type=logical_type, children=children, metadata={}, extension_name="")


def without_values(leaf: Field) -> Field:
    """A struct without fields in place of a leaf, to read only its nulls."""
    return _plain(leaf, "struct", ())


def has_no_values(leaf: Field) -> bool:
    """Whether only the nulls of a leaf are read: it is, or is replaced by, a struct without fields."""
    return leaf.is_struct and not leaf.children


def says_null_by_value(page: Page) -> bool:
    """Whether values of a page of 2.1 or later may be null without levels for nulls."""
    return _by_value(page.spec, page.sizes.size)


def _by_value(spec: PageSpec | None, num_buffers: int) -> bool:
    if isinstance(spec, Planar):
        return _by_value(spec.values, num_buffers if spec.sparse is None else 0)
    if isinstance(spec, MiniBlock):
        return isinstance(spec.values, Repeated) or isinstance(spec.dictionary, Repeated)
    if isinstance(spec, ConstantPage):
        # Two buffers hold the levels. An even number means that no buffer with the value precedes them.
        return spec.value is None and num_buffers % 2 == 0
    return spec is None or isinstance(spec, BlobPage)


def null_only(block: Block, field: Field, tested: frozenset[int]) -> Block:
    """The null stub of a block: booleans in place of tested nodes.

    Parameters
    ----------
    block : Block
        Block of the top-level field, or of a node below it along structs.
    field : Field
        Its leaves are within tested nodes; leaves missing from the block are left out.
    tested : frozenset of int
    """
    if isinstance(block, Pieces):
        return Pieces(block.length, tuple(null_only(piece, field, tested) for piece in block.blocks))
    if isinstance(block, Leaves):
        parts = cast("tuple[tuple[Field, Block], ...]", block.parts)
        stubs = ((null_stub(part, tested), null_only(leaf, part, tested)) for part, leaf in parts)
        return Leaves(block.length, tuple(stubs))
    if field.id in tested:
        return null_block(block)
    if not isinstance(block, Structured):
        return block
    held = ((child, block.children.get(child.id)) for child in field.children)
    return replace(block, children={f.id: null_only(b, f, tested) for f, b in held if b is not None})


def null_block(block: Block) -> Block:
    r"""Booleans that are null where the block is null.

    Examples
    --------
    >>> null_block(VariableWidth(2, 4, b"", b"", b"\x01", 1)).null_count
    1
    """
    if isinstance(block, AllNull):
        return block
    if isinstance(block, Pieces):
        return Pieces(block.length, tuple(null_block(piece) for piece in block.blocks))
    if isinstance(block, Coded):
        block = block.codes
    if not isinstance(block, FixedWidth | VariableWidth | Listed | FixedList | Structured):
        raise TypeError(f"a {type(block).__name__} block does not say what is null")
    values = np.zeros((block.length + 7) >> 3, np.uint8)
    return FixedWidth(block.length, 1, values, block.validity, block.null_count)
