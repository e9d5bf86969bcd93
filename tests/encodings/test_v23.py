"""Pages of 2.3: dense structures over the codecs that only this version has, and sparse ones as messages."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lancecy.encodings.layouts import ConstantPage, FullZip, Layer, MiniBlock, Planar, SparseLayer
from lancecy.encodings.sequences import has_payload
from lancecy.encodings.spec import (
    BlockDictionary,
    Deltas,
    PackedBlocks,
    Plain,
    Repeated,
    RunLengths,
    Sequence,
    Spec,
    Variable,
)
from lancecy.encodings.structural import read_leaf
from lancecy.encodings.v21_wire import parse_page
from lancecy.encodings.values import as_numbers, decode_block
from lancecy.errors import FormatError, LanceError, LimitError, UnsupportedError
from lancecy.limits import DEFAULT_LIMITS, Limits
from lancecy.rows import RowSelection
from lancecy.store.reads import run
from tests.helpers.leaves import block_rows
from tests.helpers.pages21 import (
    BuiltPage,
    chunk,
    column_of,
    constant,
    constant_page,
    flat,
    leaf_field,
    message,
    mini_block,
    number,
    out_of_line,
    rle,
    variable,
    words,
)

PLANAR = "/lance.encodings23.PlanarLayout"


def ranges(bits: int, start: int, step: int) -> bytes:
    return message(14, number(1, bits) + number(2, start) + number(3, step))


def deltas(bits: int, base: int, values: bytes) -> bytes:
    return message(15, number(1, bits) + number(2, base) + message(3, values))


def dictionary(codes: bytes, items: bytes, count: int) -> bytes:
    return message(7, message(1, codes) + message(2, items) + number(3, count))


def strings(offsets: bytes) -> bytes:
    return message(2, message(1, offsets))


def dense(*layers: int) -> bytes:
    return message(1, message(1, message(1, bytes(layers))))


def chunked(values: bytes, num_items: int, num_buffers: int = 1, **levels: bytes) -> bytes:
    parts = message(1, levels.get("rep")) + message(2, levels.get("definition"))
    body = message(1, values) + message(2, parts) + number(5, num_buffers) + number(6, num_items)
    return message(2, message(1, body))


def parse(layout: bytes, num_buffers: int, limits: Limits = DEFAULT_LIMITS) -> Planar:
    parsed = parse_page(PLANAR, layout, (2, 3), num_buffers, limits)
    assert isinstance(parsed, Planar)
    return parsed


def rows_of(
    layout: bytes, buffers: list[bytes], count: int, kind: str, rows: list[int] | None = None
) -> list[Any]:
    """Rows of one page of 2.3."""
    placeholder = mini_block(flat(8), count) if buffers else constant_page()
    built = column_of(BuiltPage(placeholder, buffers, count))
    column = replace(built.column, specs=(parse(layout, len(buffers)),))
    chosen = RowSelection.all(count) if rows is None else RowSelection.take(count, rows)
    chain = (leaf_field(kind),)
    read = read_leaf(chain, column, built.source, chosen, DEFAULT_LIMITS)
    return block_rows(run(read, built.files.fetch), chain)


WORDS = ["a", "bb", "ccc", "dddd", "", "ff"]


def string_page(
    encoding: bytes, coded: list[bytes], sizes: tuple[int, int] = (4, 2)
) -> tuple[bytes, list[bytes]]:
    """Two chunks of ``WORDS``; ``coded`` is the buffer of offsets of each, if there are any."""
    first, second = "".join(WORDS[: sizes[0]]).encode(), "".join(WORDS[sizes[0] :]).encode()
    buffers = [[*coded[i : i + 1], text] for i, text in enumerate((first, second))]
    parts = [chunk(parts, large=True) for parts in buffers]
    layout = dense(1) + chunked(encoding, len(WORDS), len(buffers[0]))
    return layout, [words(parts, (2,), True), b"".join(parts)]


# -- codecs --------------------------------------------------------------------------------


def test_strings_whose_offsets_are_told_by_the_message() -> None:
    # As pylance writes ["a", "bb", "ccc"]: nothing but the text is stored.
    part = chunk([b"abbccc"], large=True)
    layout = dense(1) + chunked(strings(deltas(32, 0, ranges(32, 1, 1))), 3)
    buffers = [words([part], (), True), part]
    assert rows_of(layout, buffers, 3, "string") == ["a", "bb", "ccc"]
    assert rows_of(layout, buffers, 3, "string", [2]) == ["ccc"]
    fives = chunk([b"xxxxxyyyyy"], large=True)
    layout = dense(1) + chunked(strings(ranges(32, 0, 5)), 2)
    assert rows_of(layout, [words([fives], (), True), fives], 2, "string") == ["xxxxx", "yyyyy"]
    nothing = chunk([b""], large=True)
    layout = dense(1) + chunked(strings(constant()), 3)
    assert rows_of(layout, [words([nothing], (), True), nothing], 3, "string") == [""] * 3


@pytest.mark.parametrize("rows", [None, [0], [3, 4], [1, 2, 5]])
def test_strings_with_offsets_in_a_buffer_of_their_own(rows: list[int] | None) -> None:
    coded = [struct.pack("<4B", 1, 2, 3, 4), struct.pack("<2B", 0, 2)]
    layout, buffers = string_page(strings(deltas(32, 0, flat(8))), coded)
    expected = WORDS if rows is None else [WORDS[i] for i in rows]
    assert rows_of(layout, buffers, 6, "string", rows) == expected
    plain = [struct.pack("<5I", 0, 1, 3, 6, 10), struct.pack("<3I", 0, 0, 2)]
    layout, buffers = string_page(strings(out_of_line(32, 32)), plain)
    assert rows_of(layout, buffers, 6, "string", rows) == expected


def test_runs_with_packed_lengths() -> None:
    values = np.array([7, 9], "<i4").tobytes()
    part = chunk([values, b"\x03\x02"], large=True)
    layout = dense(1) + chunked(rle(flat(32), out_of_line(8, 3)), 5, 2)
    buffers = [words([part], (), True), part]
    assert rows_of(layout, buffers, 5, "int32") == [7, 7, 7, 9, 9]
    assert rows_of(layout, buffers, 5, "int32", [2, 3]) == [7, 9]


@pytest.mark.parametrize(
    ("spec", "data", "expected"),
    [
        (Sequence(16, 5, 3), b"", [5, 8, 11, 14]),
        (Sequence(8, 254, 1), b"", [254, 255, 0, 1]),
        (Sequence(64, 3, 2**64 - 1), b"", [3, 2, 1, 0]),
        (Deltas(32, 7, Sequence(32, 1, 1)), b"", [7, 8, 10, 13]),
        (Deltas(16, 1, Plain(8)), b"\1\0\5", [1, 2, 2, 7]),
        (
            BlockDictionary(Plain(8), Sequence(16, 10, 10), 3),
            struct.pack("<2Q4B", 4, 0, 2, 0, 1, 1),
            [30, 10, 20, 20],
        ),
        (BlockDictionary(Sequence(8, 0, 0), Sequence(16, 10, 10), 3), b"", [10] * 4),
    ],
    ids=str,
)
def test_numbers_that_follow_from_others(spec: Spec, data: bytes, expected: list[int]) -> None:
    block = decode_block(spec, np.frombuffer(data, np.uint8), 4, DEFAULT_LIMITS)
    numbers = as_numbers(block)
    assert numbers.tolist() == expected


def test_numbers_without_bytes_are_bounded() -> None:
    for spec in (Sequence(8, 0, 1), Deltas(8, 0, Sequence(8, 0, 1))):
        with pytest.raises(LimitError):
            decode_block(spec, np.empty(0, np.uint8), 1000, Limits(page_bytes=7999))


@pytest.mark.parametrize(
    ("spec", "data"),
    [
        (BlockDictionary(Plain(8), Sequence(16, 10, 10), 2), struct.pack("<2Q4B", 4, 0, 2, 0, 1, 1)),
        (BlockDictionary(Plain(8), Plain(8), 2), struct.pack("<2Q4B", 4, 1, 0, 0, 1, 1)),
        (BlockDictionary(Plain(8), Plain(8), 2), struct.pack("<2Q", 1 << 63, 1)),
        (BlockDictionary(Plain(8), Plain(8), 2), b"123"),
        (Deltas(16, 1, Plain(8)), b"\1\0"),
    ],
    ids=str,
)
def test_damaged_numbers_are_refused(spec: Spec, data: bytes) -> None:
    with pytest.raises(FormatError):
        decode_block(spec, np.frombuffer(data, np.uint8), 4, DEFAULT_LIMITS)


@pytest.mark.parametrize(
    ("what", "coded"),
    [
        ("descend or leave", [struct.pack("<5i", 0, 1, 3, 6, 11), struct.pack("<3i", 0, 0, 2)]),
        ("descend or leave", [struct.pack("<5i", -1, 1, 3, 6, 10), struct.pack("<3i", 0, 0, 2)]),
        ("descend", [struct.pack("<5i", 0, 4, 3, 6, 10), struct.pack("<3i", 0, 0, 2)]),
    ],
)
def test_damaged_offsets_are_refused(what: str, coded: list[bytes]) -> None:
    layout, buffers = string_page(strings(out_of_line(32, 32)), coded)
    with pytest.raises(FormatError, match=what):
        rows_of(layout, buffers, 6, "string")


def test_which_nodes_take_a_buffer() -> None:
    told = Sequence(8, 0, 1)
    free: list[Spec] = [
        told,
        Repeated(None),
        Deltas(8, 0, told),
        RunLengths(told, told),
        BlockDictionary(told, told, 2),
    ]
    assert not any(has_payload(spec) for spec in free)
    stored: list[Spec] = [Plain(8), RunLengths(told, Plain(8)), Deltas(8, 0, Plain(8))]
    assert all(has_payload(spec) for spec in stored)


# -- messages ------------------------------------------------------------------------------


def test_dense_layouts_are_those_of_22() -> None:
    offsets = deltas(32, 0, out_of_line(32, 3))
    layout = dense(3) + chunked(strings(offsets), 9, 2, definition=flat(16))
    expected = Variable(4, 1, Deltas(32, 0, PackedBlocks(3, 32, True)))
    block = MiniBlock((Layer.NULLABLE_ITEM,), None, Plain(16), expected, None, 0, 2, False, 9, True)
    assert parse(layout, 2) == Planar(block)
    value = dense(1) + message(2, message(3, message(1, b"ab")))
    assert parse(value, 0) == Planar(ConstantPage((Layer.ALL_VALID_ITEM,), b"ab", None, None, 0, 0))
    body = message(1, variable()) + message(2, number(2, 1)) + number(4, 32) + number(5, 9) + number(6, 8)
    zipped = FullZip((Layer.NULLABLE_ITEM,), 0, 1, None, 32, 9, 8, Variable(4))
    assert parse(dense(3) + message(2, message(2, body)), 2) == Planar(zipped)


def test_sparse_layers_and_their_buffers() -> None:
    nulls = number(1, 1) + message(2, deltas(64, 1, out_of_line(64, 7))) + number(3, 109)
    lists = message(2, number(1, 30) + message(2, ranges(64, 0, 5)) + number(3, 6) + message(4, flat(64)))
    fixed = message(3, number(1, 4) + message(2, number(1, 2)))
    layers = message(1, message(1, nulls)) + message(1, lists) + message(1, fixed)
    layout = message(1, message(2, layers)) + message(2, message(4, b""))
    # A buffer for the positions of nulls and one for the numbers of items; the ranges need none.
    planar = parse(layout, 2)
    assert planar.values is None
    assert planar.sparse == (
        SparseLayer(
            "item",
            validity="nulls",
            valid_positions=Deltas(64, 1, PackedBlocks(7, 64, True)),
            num_valid_positions=109,
        ),
        SparseLayer("list", num_children=30, positions=Sequence(64, 0, 5), counts=Plain(64), num_positions=6),
        SparseLayer("fixed_list", size=4, validity="valids"),
    )
    with pytest.raises(FormatError, match="has 1 buffers, its layout needs 2"):
        parse(layout, 1)


def test_sparse_pages_are_unsupported_by_name() -> None:
    layout = message(1, message(2, message(1, message(1, number(1, 2))))) + message(2, message(4, b""))
    with pytest.raises(UnsupportedError, match="page 0") as caught:
        rows_of(layout, [], 3, "int64")
    assert caught.value.feature == "sparse structure"


SPARSE = message(1, message(2, message(1, message(1, b""))))


@pytest.mark.parametrize(
    ("what", "layout", "num_buffers"),
    [
        ("lacks structure", b"", 0),
        ("without a structure", message(1, b""), 0),
        ("lacks values", dense(1), 0),
        ("without values", dense(1) + message(2, b""), 0),
        ("without layers", dense() + message(2, message(4, b"")), 0),
        ("without layers", message(1, message(2, b"")) + message(2, message(4, b"")), 0),
        ("of no kind", message(1, message(2, message(1, b""))) + message(2, message(4, b"")), 0),
        ("2 value buffers, their encoding has 1", dense(1) + chunked(flat(8), 9, 2), 2),
        ("sparse page has levels", SPARSE + chunked(flat(8), 9, definition=flat(16)), 2),
        ("no repetition levels", dense(1, 2) + message(2, message(3, message(1, b"a"))), 0),
        ("neither a width", dense(1) + message(2, message(2, message(1, flat(8)))), 1),
        ("full-zip values of 12", dense(1) + message(2, message(2, message(1, flat(8)) + number(3, 12))), 1),
        ("offsets of strings of 16", dense(1) + chunked(strings(out_of_line(16, 3)), 9, 2), 2),
    ],
    ids=str,
)
def test_contradiction_is_refused_by_name(what: str, layout: bytes, num_buffers: int) -> None:
    with pytest.raises(FormatError, match=what):
        parse(layout, num_buffers)


def test_any_bytes_give_a_layout_or_an_error_of_ours() -> None:
    rng = np.random.default_rng(12)
    valid = [
        dense(3) + chunked(strings(deltas(32, 0, out_of_line(32, 3))), 9, 2, definition=flat(16)),
        SPARSE + chunked(dictionary(flat(8), ranges(16, 1, 1), 3), 9),
        dense(1) + message(2, message(3, message(1, b"ab"))),
    ]
    outcomes: set[type] = set()
    for _ in range(2000):
        data = bytearray(valid[rng.integers(3)])
        for _ in range(int(rng.integers(1, 4))):
            data[rng.integers(len(data))] = rng.integers(256)
        try:
            outcomes.add(type(parse(bytes(data), int(rng.integers(4)))))
        except LanceError as error:
            outcomes.add(type(error))
    assert {Planar, FormatError} <= outcomes
