"""Encoding messages of 2.0, written by hand, as nodes."""

from __future__ import annotations

import random

import pytest

from lancecy.encodings.model.spec import (
    BitStream,
    Compressed,
    EndedBinary,
    EndedList,
    FixedBinary,
    FixedListOf,
    Nullable,
    NullOf,
    PackedBlocks,
    PackedRows,
    PageDictionary,
    Plain,
    Spec,
    StructHeader,
    SymbolCoded,
)
from lancecy.encodings.v20.wire.decode import parse_column_encoding, parse_page
from lancecy.errors import FormatError, LanceError, LimitError, UnsupportedError
from lancecy.limits import Limits
from tests.helpers.folded import folded
from tests.helpers.v20 import (
    ALL_NULL,
    STRUCT,
    binary,
    bit_stream,
    dictionary,
    fixed_binary,
    fixed_list,
    flat,
    fsst,
    list_of,
    message,
    no_nulls,
    number,
    packed,
    packed_blocks,
    some_nulls,
)

PAGE = "/lance.encodings.ArrayEncoding"
COLUMN = "/lance.encodings.ColumnEncoding"
TABLE = bytes(2312)
ENDS = Plain(64)

NODES: dict[str, tuple[bytes, Spec]] = {
    "flat": (flat(32, 1), Plain(32, buffer=1)),
    "flat of no bits": (flat(0), Plain(0)),
    "bitmap": (flat(1), Plain(1)),
    "not compressed": (flat(32, 0, "none"), Plain(32)),
    "zstd": (flat(8, 1, "zstd"), Compressed("zstd", Plain(8, buffer=1), 1)),
    "lz4": (flat(64, 0, "lz4"), Compressed("lz4", Plain(64), 0)),
    "bitmap said to be compressed": (flat(1, 0, "zstd"), Plain(1)),
    "no nulls": (no_nulls(flat(16)), Nullable(Plain(16))),
    "some nulls": (some_nulls(flat(1), flat(16, 1)), Nullable(Plain(16, buffer=1), Plain(1))),
    "wrapped validity": (some_nulls(no_nulls(flat(1)), flat(8, 1)), Nullable(Plain(8, buffer=1), Plain(1))),
    "all nulls": (ALL_NULL, NullOf()),
    "fixed-size list": (fixed_list(3, no_nulls(flat(32))), FixedListOf(3, Nullable(Plain(32)))),
    "list": (list_of(flat(64), 2**63 + 1, 9), EndedList(ENDS, 2**63 + 1, 9)),
    "struct": (STRUCT, StructHeader()),
    "binary": (binary(flat(64), flat(8, 1), 7), EndedBinary(ENDS, Plain(8, buffer=1), 7)),
    "dictionary": (
        dictionary(flat(8), binary(flat(64, 1), flat(8, 2), 5), 4),
        PageDictionary(Plain(8), EndedBinary(Plain(64, buffer=1), Plain(8, buffer=2), 5), 4),
    ),
    "fsst": (
        fsst(binary(flat(64), flat(8, 1), 1), TABLE),
        SymbolCoded(TABLE, EndedBinary(ENDS, Plain(8, buffer=1), 1)),
    ),
    "packed struct": (
        packed([flat(32), no_nulls(fixed_list(3, no_nulls(flat(32)))), flat(8)], 2),
        PackedRows(
            (32, 96, 8),
            (Plain(32), Nullable(FixedListOf(3, Nullable(Plain(32)))), Plain(8)),
            Plain(136, buffer=2),
        ),
    ),
    "bit stream": (bit_stream(7, 16, 1, signed=True), BitStream(7, 16, True, 1)),
    "fixed binary": (fixed_binary(5, flat(8)), FixedBinary(5, Plain(8))),
    "packed blocks": (packed_blocks(11, 32), PackedBlocks(11, 32, False, 0)),
    "packed blocks of nothing": (packed_blocks(0, 32), PackedBlocks(0, 32, False, 0)),
}


@folded(("value", "spec"), NODES.values(), ids=list(NODES))
def test_message_becomes_its_node(value: bytes, spec: Spec) -> None:
    assert parse_page(PAGE, value, 3) == spec
    assert parse_page("type.googleapis.com/lance.encodings.ArrayEncoding", value, 3) == spec


REFUSED: dict[str, tuple[bytes, type[LanceError]]] = {
    "nothing": (b"", FormatError),
    "no message": (b"\xff\xff", FormatError),
    "odd width": (flat(7), FormatError),
    "huge width": (flat(2**40), LimitError),
    "no such buffer": (flat(8, 3), FormatError),
    "buffer of the column": (flat(8, 0, kind=1), UnsupportedError),
    "buffer of the file": (flat(8, 0, kind=2), UnsupportedError),
    "compression for strings": (flat(8, 0, "fsst"), UnsupportedError),
    "unknown compression": (flat(8, 0, "gz\x00ip"), UnsupportedError),
    "nullability of no kind": (message(2, b""), FormatError),
    "no values": (message(2, message(1, b"")), FormatError),
    "validity of bytes": (some_nulls(flat(8), flat(8)), FormatError),
    "validity that is null": (some_nulls(ALL_NULL, flat(8)), FormatError),
    "fixed-size list with validity": (fixed_list(2, flat(8), has_validity=True), UnsupportedError),
    "fixed-size list too long": (fixed_list(2**31, flat(8)), LimitError),
    "list of too many": (list_of(flat(64), 1, 2**63), FormatError),
    "short symbol table": (fsst(binary(flat(64), flat(8), 1), bytes(10)), FormatError),
    "bits in packed rows": (packed([flat(1)]), UnsupportedError),
    "strings in packed rows": (packed([binary(flat(64), flat(8), 1)]), UnsupportedError),
    "nulls in packed rows": (packed([some_nulls(flat(1), flat(8))]), UnsupportedError),
    "packed to nothing": (bit_stream(0, 8), FormatError),
    "packed to more": (bit_stream(9, 8), FormatError),
    "no such integers": (bit_stream(3, 24), FormatError),
    "blocks packed to more": (packed_blocks(65, 64), FormatError),
    "blocks of no such integers": (packed_blocks(4, 128), FormatError),
    "fixed binary too wide": (fixed_binary(2**31, flat(8)), LimitError),
    "constant": (message(13, b""), UnsupportedError),
    "byte stream split": (message(21, b""), UnsupportedError),
    "unknown encoding": (message(22, b""), FormatError),
}


@folded(("value", "error"), REFUSED.values(), ids=list(REFUSED))
def test_message_is_refused(value: bytes, error: type[LanceError]) -> None:
    with pytest.raises(error):
        parse_page(PAGE, value, 3)


def test_encoding_of_a_later_version_is_named() -> None:
    with pytest.raises(UnsupportedError, match="'rle'") as caught:
        parse_page(PAGE, message(19, b""), 1)
    assert caught.value.feature == "rle"


def test_other_message_is_refused() -> None:
    with pytest.raises(FormatError, match="PageLayout"):
        parse_page("/lance.encodings21.PageLayout", flat(8), 1)


def test_nesting_is_bounded() -> None:
    value = flat(8)
    for _ in range(5):
        value = no_nulls(value)
    assert parse_page(PAGE, value, 1, Limits(nesting=6))
    with pytest.raises(LimitError):
        parse_page(PAGE, value, 1, Limits(nesting=5))
    for _ in range(5000):
        value = no_nulls(value)
    with pytest.raises(LanceError):
        parse_page(PAGE, value, 1)


VALUES = message(1, b"")


@pytest.mark.parametrize(
    ("value", "is_blob"),
    [
        (VALUES, False),
        (message(3, message(1, VALUES)), True),
        (message(2, number(1, 4096) + message(3, VALUES)), False),
        (message(2, message(3, message(3, message(1, VALUES)))), True),
    ],
)
def test_columns_of_blobs_are_recognised(value: bytes, is_blob: bool) -> None:
    assert parse_column_encoding(COLUMN, value) is is_blob


def test_column_encoding_is_refused() -> None:
    for value in (b"", message(3, b""), message(9, b""), b"\x0a"):
        with pytest.raises(FormatError):
            parse_column_encoding(COLUMN, value)
    with pytest.raises(FormatError, match="ArrayEncoding"):
        parse_column_encoding(PAGE, VALUES)
    deep = VALUES
    for _ in range(20):
        deep = message(3, message(1, deep))
    assert parse_column_encoding(COLUMN, deep)
    with pytest.raises(LimitError):
        parse_column_encoding(COLUMN, deep, Limits(nesting=10))


@folded("seed", range(20))
def test_any_bytes_give_a_node_or_an_error(seed: int) -> None:
    chance = random.Random(seed)
    values = [value for value, _ in NODES.values()]
    for _ in range(200):
        data = bytearray(chance.choice(values))
        for _ in range(chance.randint(1, 4)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        if chance.random() < 0.3:
            del data[chance.randrange(len(data)) :]
        for parse in (lambda raw: parse_page(PAGE, raw, 2), lambda raw: parse_column_encoding(COLUMN, raw)):
            try:
                parse(bytes(data))
            except LanceError:
                continue
