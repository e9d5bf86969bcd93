"""Page messages of 2.1 and 2.2: every layout and encoding, and every refused message."""

from __future__ import annotations

import numpy as np
import pytest

from lancecy.encodings.model.layouts import BlobPage, ConstantPage, FullZip, Layer, MiniBlock
from lancecy.encodings.model.spec import (
    ByteSplit,
    Compressed,
    FixedListOf,
    InlinePacked,
    PackedBlocks,
    PackedFields,
    PackedRows,
    Plain,
    Repeated,
    RunLengths,
    Spec,
    SymbolCoded,
    Variable,
)
from lancecy.encodings.v21.wire.decode import parse_page
from lancecy.errors import FormatError, LanceError, LimitError, UnsupportedError
from lancecy.limits import DEFAULT_LIMITS, Limits
from tests.helpers.folded import folded
from tests.helpers.pages21 import (
    LZ4,
    PAGE,
    ZSTD,
    bss,
    constant,
    constant_page,
    fixed_list,
    flat,
    fsst,
    full_zip,
    general,
    inline,
    message,
    mini_block,
    number,
    out_of_line,
    packed,
    packed_fields,
    parsed,
    rle,
    variable,
)

TABLE = bytes(2312)

NODES: list[tuple[bytes, Spec, int]] = [
    (flat(64), Plain(64), 1),
    (flat(1), Plain(1), 1),
    (flat(2400), Plain(2400), 1),
    (inline(8), InlinePacked(8), 1),
    (out_of_line(64, 40), PackedBlocks(40, 64, True), 1),
    (rle(flat(64), flat(8)), RunLengths(Plain(64, buffer=0), Plain(8, buffer=1)), 2),
    (bss(32), ByteSplit(32), 1),
    (variable(32), Variable(4), 1),
    (variable(64), Variable(8), 1),
    (fsst(TABLE, variable(64)), SymbolCoded(TABLE, Variable(8)), 1),
    (general(ZSTD, bss(64)), Compressed("zstd", ByteSplit(64)), 1),
    (general(LZ4, variable()), Compressed("lz4", Variable(4)), 1),
    (fixed_list(3, flat(1)), FixedListOf(3, Plain(1)), 1),
    (
        fixed_list(2, fixed_list(3, flat(32), True), True),
        FixedListOf(2, FixedListOf(3, Plain(32, buffer=2), validity=1), validity=0),
        3,
    ),
    (fixed_list(4, constant(), True), FixedListOf(4, Repeated(None), validity=0), 1),
    (
        fixed_list(2, general(LZ4, rle(flat(8), flat(8))), True),
        FixedListOf(
            2, Compressed("lz4", RunLengths(Plain(8, buffer=1), Plain(8, buffer=2)), buffer=1), validity=0
        ),
        3,
    ),
    (packed([64, 32, 16], flat(112)), PackedRows((64, 32, 16), (), Plain(112)), 1),
]


@folded(("encoding", "node", "num_buffers"), NODES, ids=lambda v: type(v).__name__)
def test_encoding_becomes_a_node_with_its_buffers(encoding: bytes, node: Spec, num_buffers: int) -> None:
    layout = parsed(mini_block(encoding, 9, num_buffers=num_buffers), 2)
    assert layout.values == node


def test_mini_block_with_everything() -> None:
    layout = mini_block(
        inline(32),
        9,
        (3, 6),
        rep=out_of_line(16, 1),
        definition=rle(flat(16), flat(8)),
        dictionary=general(LZ4, variable()),
        num_dictionary_items=7,
        large=True,
    )
    assert parsed(layout, 4, (2, 2)) == MiniBlock(
        layers=(Layer.NULLABLE_ITEM, Layer.NULL_AND_EMPTY_LIST),
        rep=PackedBlocks(1, 16, True),
        definition=RunLengths(Plain(16, buffer=0), Plain(8, buffer=1)),
        values=InlinePacked(32),
        dictionary=Compressed("lz4", Variable(4)),
        num_dictionary_items=7,
        num_buffers=1,
        has_index=True,
        num_items=9,
        is_large=True,
    )


def test_constant_page_with_coded_levels() -> None:
    layout = constant_page((1, 5), rep=inline(16), definition=flat(16), num_rep=11, num_def=12)
    layers = (Layer.ALL_VALID_ITEM, Layer.EMPTYABLE_LIST)
    assert parsed(layout, 2) == ConstantPage(layers, None, InlinePacked(16), Plain(16), 11, 12)
    assert parsed(constant_page((1,), b""), 0) == ConstantPage((Layer.ALL_VALID_ITEM,), b"", None, None, 0, 0)


def test_full_zip_of_both_widths() -> None:
    layout = parsed(full_zip(fixed_list(4, flat(32)), 9, (3,), bits=128, def_bits=1), 1)
    assert layout == FullZip((Layer.NULLABLE_ITEM,), 0, 1, 128, None, 9, 9, FixedListOf(4, Plain(32)))
    fields = packed_fields((flat(64), 64, False), (variable(), 32, True))
    layout = parsed(full_zip(fields, 9, length_bits=32), 2, (2, 2))
    nodes = PackedFields(((Plain(64), 64, False), (Variable(4, 1), 32, True)))
    assert layout == FullZip((Layer.ALL_VALID_ITEM,), 0, 0, None, 32, 9, 9, nodes)


def test_blob_page_holds_another() -> None:
    inner = mini_block(packed([64, 64], flat(128)), 9)
    layout = parsed(message(4, message(1, inner) + message(2, bytes([3]))), 2)
    assert isinstance(layout, BlobPage)
    assert layout.inner == parsed(inner, 2)
    assert layout.layers == (Layer.NULLABLE_ITEM,)


BLOB = message(4, message(1, constant_page()) + message(2, bytes([3])))

DAMAGED: list[tuple[str, bytes, int]] = [
    ("names no layout", b"", 2),
    ("lacks value_compression", mini_block(None, 9), 2),
    ("names no compression", mini_block(b"", 9), 2),
    ("1 value buffers, their encoding has 2", mini_block(rle(flat(8), flat(8)), 9), 2),
    ("has 3 buffers, its layout needs 2", mini_block(flat(8), 9), 3),
    ("has 2 buffers, its layout needs 3", mini_block(flat(8), 9, (1, 2), rep=flat(16)), 2),
    ("without layers", mini_block(flat(8), 9, ()), 2),
    ("layer of kind 7", mini_block(flat(8), 9, (7,)), 2),
    ("layer of kind 0", mini_block(flat(8), 9, (0,)), 2),
    ("lists has no repetition levels", mini_block(flat(8), 9, (1, 2)), 2),
    ("without lists has repetition levels", mini_block(flat(8), 9, (1,), rep=flat(16)), 3),
    ("without nulls has definition levels", mini_block(flat(8), 9, (1,), definition=flat(16)), 2),
    ("levels of 32 bits", mini_block(flat(8), 9, (3,), definition=inline(32)), 2),
    ("levels of 8 bits", mini_block(flat(8), 9, (3,), definition=flat(8)), 2),
    ("number of items", mini_block(flat(8), 1 << 49), 2),
    ("values of 7 bits", mini_block(flat(7), 9), 2),
    ("packed to 17 bits", mini_block(out_of_line(16, 17), 9), 2),
    ("do not state their width", mini_block(message(4, number(1, 16)), 9), 2),
    ("offsets of strings are not plain", mini_block(variable(16), 9), 2),
    ("offsets of strings are not plain", mini_block(message(2, message(1, inline(32))), 9), 2),
    ("lacks offsets", mini_block(message(2, b""), 9), 2),
    ("symbol table of 5 bytes", mini_block(fsst(b"12345", variable()), 9), 2),
    ("do not code strings", mini_block(fsst(TABLE, flat(8)), 9), 2),
    ("are not plain", mini_block(rle(inline(8), flat(8)), 9, num_buffers=2), 2),
    ("run lengths of 24 bits", mini_block(rle(flat(8), flat(24)), 9, num_buffers=2), 2),
    ("runs of values of 1 bits", mini_block(rle(flat(1), flat(8)), 9, num_buffers=2), 2),
    ("split bytes", mini_block(bss(1), 9), 2),
    ("without buffers", mini_block(general(LZ4, constant(b"a")), 9, num_buffers=0), 2),
    ("varying size", mini_block(fixed_list(3, variable()), 9), 2),
    ("hold fields of 96 bits", mini_block(packed([64, 32], flat(112)), 9), 2),
    ("varying size in a file of version 2.1", full_zip(packed_fields(), 9, length_bits=32), 2),
    ("Range encoding", mini_block(message(14, number(1, 8)), 9), 2),
    ("Delta encoding", mini_block(message(15, number(1, 8)), 9), 2),
    ("Dictionary encoding", mini_block(message(7, b""), 9), 2),
    ("inline value of 33 bytes", constant_page((1,), bytes(33)), 0),
    ("has 1 buffers", constant_page((1,), b"abc"), 1),
    ("no repetition levels", constant_page((1, 2)), 0),
    ("codecs for levels, but no levels", constant_page((3,), definition=flat(16), num_def=3), 0),
    ("has 4 buffers", constant_page((3,)), 4),
    ("neither a width", full_zip(flat(8), 9), 1),
    ("full-zip values of 12 bits", full_zip(flat(8), 9, bits=12), 1),
    ("full-zip lengths of 16 bits", full_zip(variable(), 9, length_bits=16), 2),
    ("definition levels of 17 bits", full_zip(flat(8), 9, (3,), bits=8, def_bits=17), 1),
    ("10 visible items of 9", full_zip(flat(8), 9, bits=8, num_visible=10), 1),
    ("needs 2", full_zip(variable(), 9, length_bits=32), 1),
    ("blob page in a blob page", message(4, message(1, BLOB)), 0),
    ("lacks inner_layout", message(4, b""), 0),
    ("not a valid message", b"\x0a\x05\x01", 2),
]


@folded(("what", "layout", "num_buffers"), DAMAGED)
def test_contradiction_is_refused_by_name(what: str, layout: bytes, num_buffers: int) -> None:
    with pytest.raises(FormatError, match=what):
        parsed(layout, num_buffers)


UNSUPPORTED: list[tuple[str, bytes, int]] = [
    ("sparse_layout", message(5, b""), 0),
    ("compression scheme", mini_block(general(3, flat(8)), 9), 2),
    ("buffer compression", mini_block(message(1, number(1, 8) + message(2, number(1, 1))), 9), 2),
    ("bit-packing", mini_block(inline(128), 9), 2),
    ("nested repetition index", mini_block(flat(8), 9, (1, 2, 2), rep=flat(16), depth=2), 3),
    ("ByteSplit", mini_block(flat(8), 9, (3,), definition=bss(16)), 2),
    ("packed struct of bits", mini_block(packed([1, 7], flat(8)), 9), 2),
]


@pytest.mark.parametrize(("feature", "layout", "num_buffers"), UNSUPPORTED, ids=[u[0] for u in UNSUPPORTED])
def test_encodings_that_no_writer_makes_are_unsupported(
    feature: str, layout: bytes, num_buffers: int
) -> None:
    with pytest.raises(UnsupportedError) as caught:
        parsed(layout, num_buffers)
    assert caught.value.feature == feature


def test_pages_of_other_messages_are_refused() -> None:
    with pytest.raises(FormatError, match="ArrayEncoding"):
        parse_page("/lance.encodings.ArrayEncoding", b"", (2, 1), 0, DEFAULT_LIMITS)


def test_nesting_and_widths_are_bounded() -> None:
    deep = flat(8)
    for _ in range(70):
        deep = general(LZ4, deep)
    with pytest.raises(FormatError):
        parsed(mini_block(deep, 9), 2)
    wide = fixed_list(1 << 20, fixed_list(1 << 20, flat(8)))
    with pytest.raises(LimitError) as caught:
        parsed(mini_block(wide, 9), 2)
    assert caught.value.limit == "value_bytes"
    many = mini_block(inline(8), 9, dictionary=flat(8), num_dictionary_items=101)
    with pytest.raises(LimitError) as caught:
        parsed(many, 3, limits=Limits(dictionary_values=100))
    assert caught.value.limit == "dictionary_values"
    with pytest.raises(LimitError) as caught:
        parsed(mini_block(flat(8), 9, (1,) * 65), 2)
    assert caught.value.limit == "nesting"


def test_any_bytes_give_a_layout_or_an_error_of_ours() -> None:
    rng = np.random.default_rng(11)
    valid = [mini_block(encoding, 9, num_buffers=count) for encoding, _, count in NODES]
    valid += [constant_page((1, 5), b"ab"), full_zip(variable(), 9, length_bits=32)]
    outcomes: set[type] = set()
    for _ in range(3000):
        data = bytearray(valid[rng.integers(len(valid))][:400])
        for _ in range(int(rng.integers(1, 4))):
            data[rng.integers(len(data))] = rng.integers(256)
        try:
            outcomes.add(type(parse_page(PAGE, bytes(data), (2, 2), int(rng.integers(4)), DEFAULT_LIMITS)))
        except LanceError as error:
            outcomes.add(type(error))
    assert {MiniBlock, FormatError, UnsupportedError} <= outcomes
