"""Select the layout of a page: from a leaf's values and levels to a layout and buffers.

Only nulls make constant pages. The kind of the values decides who goes on: ``numbers`` and ``texts`` choose among
encodings, fixed-size lists are plain or zipped, dictionaries keep theirs, packed structs are rows. A page that chunks
cannot hold, because very many null or empty lists lie between two values, is zipped.

Source: file sheet 2.1, section 4.5.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from lancecy.encodings.codecs.flat import flattened
from lancecy.encodings.codecs.packed import check_members, packed_fields, packed_rows
from lancecy.encodings.model.block import Coded, FixedList, FixedWidth, Structured, VariableWidth
from lancecy.encodings.model.pages import EncodedPage
from lancecy.encodings.model.spec import PackedRows, Plain
from lancecy.encodings.v21.write.blob import write_blob_page
from lancecy.encodings.v21.write.chunk_parts import plain_values
from lancecy.encodings.v21.write.few_values import write_all_null
from lancecy.encodings.v21.write.fullzip import write_full_zip, write_zipped_rows
from lancecy.encodings.v21.write.miniblock import write_mini_block
from lancecy.encodings.v21.write.numbers import WIDE, write_codes, write_numbers
from lancecy.encodings.v21.write.shred import ShreddedLeaf
from lancecy.encodings.v21.write.texts import write_texts
from lancecy.errors import UnsupportedError, printable

__all__ = ["encode_page"]

Version = tuple[int, int]


def encode_page(leaf: ShreddedLeaf, version: Version) -> EncodedPage:
    """A page of a file of version 2.1 or 2.2.

    Parameters
    ----------
    leaf : ShreddedLeaf
        With one row or more.
    version : (2, 1) or (2, 2)

    Raises
    ------
    UnsupportedError
        No layout of this version holds these values.
    """
    if version == (2, 1) and leaf.field.is_blob:
        return write_blob_page(leaf)
    values = leaf.values
    page = _all_null(leaf) or _WRITERS[type(values)](leaf, values, version)
    if page is not None:
        return page
    if not isinstance(values, Coded):
        return write_full_zip(leaf)
    raise UnsupportedError(
        f"column {printable(leaf.field.name)!r} has too many null or empty lists between two of its values: "
        "write fewer rows at once",
        feature="sparse lists of dictionaries",
    )


def _all_null(leaf: ShreddedLeaf) -> EncodedPage | None:
    values = leaf.values
    if isinstance(values, Coded) and values.length and values.dictionary.length:
        # pylance (14.0.2) mixes up the dictionaries of nested columns if some pages have one and some have none.
        return None
    if leaf.num_valid == 0:
        return write_all_null(leaf)
    return _without_members(leaf) if isinstance(values, Structured) and not values.children else None


def _without_members(leaf: ShreddedLeaf) -> EncodedPage:
    """A page of structs without fields; null structs and others have the same bytes."""
    if leaf.rep is not None or leaf.definition is not None:
        raise UnsupportedError(
            f"column {printable(leaf.field.name)!r} is a struct without members, some of which are null or in lists, "
            "which no version of files can hold: give it a member",
            feature="null structs without members",
        )
    return write_all_null(replace(leaf, layers=leaf.layers[:1]))


def _packed(leaf: ShreddedLeaf, rows: Structured, version: Version) -> EncodedPage | None:
    check_members(leaf.field, rows, leaf.valid)
    # pylance (14.0.2) cannot read lists in rows of one width.
    has_lists = any(isinstance(member, FixedList) for member in rows.children.values())
    packed = None if has_lists else packed_rows(rows)
    values = None if packed is None else plain_values(packed[1])
    if packed is not None and values is not None:
        bits, table = packed
        return write_mini_block(
            leaf, replace(values, spec=PackedRows(bits, (), Plain(table.bits))), version >= (2, 2)
        )
    if version < (2, 2):
        raise UnsupportedError(
            f"packed struct {printable(leaf.field.name)!r} is too wide for files of version 2.1: write version 2.2, or "
            "leave the metadata lance-encoding:packed out",
            feature="wide packed structs",
        )
    spec, zipped = packed_fields(rows, leaf.valid)
    return write_zipped_rows(leaf, zipped, spec)


def _fixed_lists(leaf: ShreddedLeaf, block: FixedList, version: Version) -> EncodedPage | None:
    # Full-zip pages hold booleans in whole bytes only.
    widths = [bits for _, bits in flattened(block)[1]]
    if sum(widths) >= WIDE * 8 and widths[-1] % 8 == 0:
        return write_full_zip(leaf)
    values = plain_values(block)
    return None if values is None else write_mini_block(leaf, values, version >= (2, 2))


_WRITERS: dict[type[object], Callable[[ShreddedLeaf, Any, Version], EncodedPage | None]] = {
    FixedWidth: write_numbers,
    VariableWidth: write_texts,
    FixedList: _fixed_lists,
    Coded: write_codes,
    Structured: _packed,
}
