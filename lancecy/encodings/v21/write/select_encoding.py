"""Select the encoding of a page: from a leaf's values and levels to a layout and buffers.

Current choices: only nulls and (from 2.2 on) one value for all make constant pages; values of 256 bytes and
more are zipped with their levels; strings of few distinct values get a dictionary; everything else goes into
chunks, integers packed where that saves bytes. A page that chunks cannot hold, because very many null or empty
lists lie between two values, is zipped. A new encoding is one more candidate in ``_candidates``: the first with
a result wins.

Source: file sheet 2.1, section 4.5.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from lancecy.encodings.blocks.select import stored_offsets
from lancecy.encodings.codecs.flat import flattened, width_of
from lancecy.encodings.codecs.packed import check_members, packed_fields, packed_rows
from lancecy.encodings.model.block import Coded, FixedList, FixedWidth, Structured, VariableWidth
from lancecy.encodings.model.pages import EncodedPage
from lancecy.encodings.model.spec import PackedRows, Plain
from lancecy.encodings.v21.write.blob import write_blob_page
from lancecy.encodings.v21.write.chunk_parts import ChunkedValues, fixed_values, packed_values, string_values
from lancecy.encodings.v21.write.few_values import (
    constant_of,
    few_distinct,
    stored_dictionary,
    write_all_null,
    write_constant,
)
from lancecy.encodings.v21.write.fullzip import write_full_zip, write_zipped_rows
from lancecy.encodings.v21.write.miniblock import write_mini_block
from lancecy.encodings.v21.write.shred import ShreddedLeaf
from lancecy.errors import UnsupportedError, printable

__all__ = ["encode_page"]

_WIDE = 256
"""Fewest bytes of a value that is too large for chunks."""
_INTEGERS = ("int", "uint", "date", "time", "duration")

Candidate = Callable[[ShreddedLeaf, tuple[int, int]], EncodedPage | None]


def encode_page(leaf: ShreddedLeaf, version: tuple[int, int]) -> EncodedPage:
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
    for candidate in _candidates:
        page = candidate(leaf, version)
        if page is not None:
            return page
    raise UnsupportedError(
        f"column {printable(leaf.field.name)!r} has too many null or empty lists between two of its values: "
        "write fewer rows at once",
        feature="sparse lists of dictionaries",
    )


def _all_null(leaf: ShreddedLeaf, _version: tuple[int, int]) -> EncodedPage | None:
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


def _blobs(leaf: ShreddedLeaf, version: tuple[int, int]) -> EncodedPage | None:
    return write_blob_page(leaf) if leaf.field.is_blob and version == (2, 1) else None


def _packed(leaf: ShreddedLeaf, version: tuple[int, int]) -> EncodedPage | None:
    rows = leaf.values
    if not isinstance(rows, Structured):
        return None
    check_members(leaf.field, rows, leaf.valid)
    # pylance (14.0.2) cannot read lists in rows of one width.
    has_lists = any(isinstance(member, FixedList) for member in rows.children.values())
    packed = None if has_lists else packed_rows(rows)
    values = None if packed is None else fixed_values(packed[1])
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


def _constant(leaf: ShreddedLeaf, version: tuple[int, int]) -> EncodedPage | None:
    if version < (2, 2):
        return None
    value = constant_of(leaf)
    return None if value is None else write_constant(leaf, value)


def _wide(leaf: ShreddedLeaf, _version: tuple[int, int]) -> EncodedPage | None:
    values = leaf.values
    if isinstance(values, VariableWidth):
        return write_full_zip(leaf) if _longest(values) >= _WIDE else None
    if not isinstance(values, FixedWidth | FixedList):
        return None
    if width_of(values) < _WIDE * 8 or _has_odd_bits(values):
        return None
    return write_full_zip(leaf)


def _longest(values: VariableWidth) -> int:
    offsets = stored_offsets(values)
    return int((offsets[1:] - offsets[:-1]).max(initial=0))


def _has_odd_bits(values: FixedWidth | FixedList) -> bool:
    """Booleans in fixed-size lists, which full-zip pages hold in whole bytes only."""
    return isinstance(values, FixedList) and flattened(values)[1][-1][1] % 8 != 0


def _dictionary(leaf: ShreddedLeaf, version: tuple[int, int]) -> EncodedPage | None:
    coded = leaf.values if isinstance(leaf.values, Coded) else few_distinct(leaf)
    if coded is None:
        return None
    codes = packed_values(coded.codes) or fixed_values(coded.codes)
    if codes is None:
        return None
    return write_mini_block(leaf, codes, version >= (2, 2), stored_dictionary(coded.dictionary))


def _chunked(leaf: ShreddedLeaf, version: tuple[int, int]) -> EncodedPage | None:
    values = _chunked_values(leaf)
    return None if values is None else write_mini_block(leaf, values, version >= (2, 2))


def _chunked_values(leaf: ShreddedLeaf) -> ChunkedValues | None:
    values = leaf.values
    if isinstance(values, VariableWidth):
        return string_values(values)
    if isinstance(values, FixedWidth) and leaf.field.logical_type.startswith(_INTEGERS):
        packed = packed_values(values)
        if packed is not None:
            return packed
    return None if isinstance(values, Coded) else fixed_values(values)


def _zipped(leaf: ShreddedLeaf, _version: tuple[int, int]) -> EncodedPage | None:
    return None if isinstance(leaf.values, Coded) else write_full_zip(leaf)


_candidates: tuple[Candidate, ...] = (
    *(_blobs, _all_null, _packed),
    *(_constant, _wide, _dictionary, _chunked, _zipped),
)
