"""Pages of 2.3: dense structures with the codecs that only this version has, and sparse structures."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lancecy.encodings.blocks.scatter import scatter
from lancecy.encodings.codecs.arithmetic import has_payload
from lancecy.encodings.codecs.values import as_numbers, decode_block
from lancecy.encodings.model.block import Block, FixedList, FixedWidth, Structured, VariableWidth
from lancecy.encodings.model.layouts import ConstantPage, FullZip, Layer, MiniBlock, Planar, SparseLayer
from lancecy.encodings.model.spec import (
    BlockDictionary,
    Compressed,
    Deltas,
    PackedBlocks,
    Plain,
    Repeated,
    RunLengths,
    Sequence,
    Spec,
    Variable,
)
from lancecy.encodings.v21.leaf import read_leaf
from lancecy.encodings.v21.planar.sparse import integers
from lancecy.encodings.v21.repdef import rows_per_value
from lancecy.encodings.v21.wire.decode import parse_page
from lancecy.errors import FormatError, LanceError, LimitError, UnsupportedError
from lancecy.limits import DEFAULT_LIMITS, Limits
from lancecy.rows import RowSelection
from lancecy.schema import Field
from lancecy.store.reads import Ranges, Span, run
from tests.helpers.folded import folded
from tests.helpers.leaves import block_rows
from tests.helpers.pages21 import (
    BuiltColumn,
    BuiltPage,
    chunk,
    column_of,
    constant,
    constant_page,
    flat,
    leaf_field,
    message,
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


def column_23(
    layout: bytes, buffers: list[bytes], count: int, limits: Limits = DEFAULT_LIMITS
) -> BuiltColumn:
    """A column of one page, whose metadata states ``count`` values."""
    built = column_of(BuiltPage(constant_page(), [], 0))
    data, positions = bytearray(b"#" * 7), []
    for part in buffers:
        positions.append(len(data))
        data += part
    column = replace(
        built.column,
        specs=(parse(layout, len(buffers), limits),),
        row_starts=np.array([0, count]),
        first_buffer=np.array([0, len(buffers)]),
        positions=np.array(positions, np.int64),
        sizes=np.array([len(part) for part in buffers], np.int64),
    )
    return BuiltColumn(column, built.files.add("data/y.lance", bytes(data)), built.files, count)


def rows_of(
    layout: bytes,
    buffers: list[bytes],
    count: int,
    kind: str | tuple[Field, ...],
    rows: list[int] | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> list[Any]:
    """Rows of one page of 2.3."""
    chain = (leaf_field(kind),) if isinstance(kind, str) else kind
    built = column_23(layout, buffers, count * rows_per_value(chain), limits)
    chosen = RowSelection.all(count) if rows is None else RowSelection.take(count, rows)
    read = read_leaf(chain, built.column, built.source, chosen, limits)
    return block_rows(run(read, built.files.fetch), chain)


WORDS = ["a", "bb", "ccc", "dddd", "", "ff"]


def string_page(
    encoding: bytes, coded: list[bytes], sizes: tuple[int, int] = (4, 2), texts: list[str] = WORDS
) -> tuple[bytes, list[bytes]]:
    """Two chunks of ``texts``; ``coded`` is the buffer of offsets of each, if there are any."""
    first, second = "".join(texts[: sizes[0]]).encode(), "".join(texts[sizes[0] :]).encode()
    buffers = [[*coded[i : i + 1], text] for i, text in enumerate((first, second))]
    parts = [chunk(parts, large=True) for parts in buffers]
    layout = dense(1) + chunked(encoding, len(texts), len(buffers[0]))
    return layout, [words(parts, (2,), True), b"".join(parts)]


# -- codecs --------------------------------------------------------------------------------


def test_strings_whose_offsets_are_in_the_message() -> None:
    # As pylance writes ["a", "bb", "ccc"]: only the text is stored.
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


@pytest.mark.parametrize("rows", [None, [0], [3, 4], [1, 2, 5]])
def test_strings_whose_offsets_come_in_runs(rows: list[int] | None) -> None:
    texts = ["", "", "ab", "cd", "", "ef"]
    expected = texts if rows is None else [texts[i] for i in rows]
    # Offsets 0 0 0 2 4 and 0 0 2: values from the message, and stored lengths of runs.
    coded = [struct.pack("<Q3I", 0, 3, 1, 1), struct.pack("<Q2I", 0, 2, 1)]
    steps = [struct.pack("<Q4B", 2, 0, 2, 2, 2), struct.pack("<Q4B", 2, 0, 2, 1, 1)]
    for offsets, stored in (
        (rle(ranges(32, 0, 2), flat(32)), coded),
        (deltas(32, 0, rle(flat(8), flat(8))), steps),
    ):
        layout, buffers = string_page(strings(offsets), stored, texts=texts)
        assert rows_of(layout, buffers, 6, "string", rows) == expected
    # Each chunk: 0 0 2 2 2.
    part = chunk([b"ab"], large=True)
    layout = dense(1) + chunked(strings(rle(ranges(32, 0, 2), ranges(32, 2, 1))), 8)
    buffers = [words([part, part], (2,), True), part + part]
    assert rows_of(layout, buffers, 8, "string") == ["", "ab", "", ""] * 2
    assert rows_of(layout, buffers, 8, "string", [1, 6]) == ["ab", ""]


@pytest.mark.parametrize("rows", [None, [0, 2], [4], [1, 5]])
def test_runs_with_packed_values(rows: list[int] | None) -> None:
    parts = [
        chunk([np.array(values, "<i4").tobytes(), bytes(lengths)], large=True)
        for values, lengths in (((7, 9), (3, 1)), ((5, 6), (1, 1)))
    ]
    layout = dense(1) + chunked(rle(out_of_line(32, 32), flat(8)), 6, 2)
    buffers = [words(parts, (2,), True), b"".join(parts)]
    expected = [7, 7, 7, 9, 5, 6]
    assert rows_of(layout, buffers, 6, "int32", rows) == [expected[i] for i in rows or range(6)]
    parts[1] = parts[0]
    with pytest.raises(FormatError, match="runs are not of 2 values") as caught:
        rows_of(layout, [buffers[0], b"".join(parts)], 6, "int32")
    assert caught.value.position == 1


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
    # One buffer for the positions of nulls and one for the item counts; the ranges need none.
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


@pytest.mark.parametrize(
    ("what", "values"),
    [
        ("no values", message(2, message(4, b""))),
        (
            "indexed values",
            message(2, message(5, message(1, flat(8)) + message(2, message(1, flat(8)) + number(3, 8)))),
        ),
    ],
)
def test_what_no_writer_combines_is_unsupported_by_name(what: str, values: bytes) -> None:
    buffers = [] if what == "no values" else [b"abc", b"abc"]
    with pytest.raises(UnsupportedError, match="page 0") as caught:
        rows_of(dense(1) + values, buffers, 3, "int8")
    assert caught.value.feature == f"dense structure with {what}"
    assert "planar pages" in str(caught.value)
    assert "column 'c'" in str(caught.value)


SPARSE = message(1, message(2, message(1, message(1, b""))))


@folded(
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


# -- sparse structures ------------------------------------------------------------------------


def u64(*numbers: int) -> bytes:
    return np.array(numbers, "<u8").tobytes()


def validity(meaning: int = 0, *positions: int) -> tuple[bytes, list[bytes]]:
    """A ValiditySet of stored positions; meaning 1 = nulls, 2 = valids."""
    if not positions:
        return number(1, meaning), []
    return number(1, meaning) + message(2, flat(64)) + number(3, len(positions)), [u64(*positions)]


def item_layer(meaning: int = 0, *positions: int) -> tuple[bytes, list[bytes]]:
    body, buffers = validity(meaning, *positions)
    return message(1, body), buffers


def list_layer(
    counts: dict[int, int], meaning: int = 0, *positions: int, children: int | None = None, **changes: int
) -> tuple[bytes, list[bytes]]:
    """Lists with items by position; ``children`` and ``listed`` are what the message claims."""
    valid, stored = validity(meaning, *positions)
    body = number(1, sum(counts.values()) if children is None else children) + message(2, flat(64))
    body += number(3, changes.get("listed", len(counts))) + message(4, flat(64)) + message(5, valid)
    return message(2, body), [u64(*counts), u64(*counts.values()), *stored]


def fixed_layer(size: int, meaning: int = 0, *positions: int) -> tuple[bytes, list[bytes]]:
    body, buffers = validity(meaning, *positions)
    return message(3, number(1, size) + message(2, body)), buffers


def sparse(
    values: bytes, stored: list[bytes], *layers: tuple[bytes, list[bytes]]
) -> tuple[bytes, list[bytes]]:
    """Layout and buffers of a page; layers are given from the row inwards."""
    body = b"".join(message(1, layer) for layer, _ in layers)
    return message(1, message(2, body)) + values, stored + [part for _, parts in layers for part in parts]


def small_chunk(*numbers: int) -> tuple[bytes, list[bytes]]:
    part = chunk([np.array(numbers, "<i2").tobytes()], large=True)
    return chunked(flat(16), 0), [words([part], (), True), part]


def zipped_words(*texts: str) -> tuple[bytes, list[bytes]]:
    entries = [struct.pack("<I", len(text)) + text.encode() for text in texts]
    body = message(1, variable()) + number(4, 32) + number(5, len(texts)) + number(6, len(texts))
    ends = np.cumsum([0, *map(len, entries)]).astype(np.uint8).tobytes()
    return body, [b"".join(entries), ends]


def nested(*kinds: str) -> tuple[Field, ...]:
    """A chain of fields of these types."""
    chain: tuple[Field, ...] = ()
    for level, kind in reversed(list(enumerate(kinds))):
        chain = (leaf_field(kind, f"f{level}", level, children=chain[:1]), *chain)
    return chain


NULLS, VALIDS = 1, 2
NONE = message(2, message(4, b""))
SHORT = "fixed_size_list:struct:2"

# name -> fields, layers and values, rows
PAGES: dict[str, tuple[tuple[Field, ...], tuple[bytes, list[bytes]], list[Any]]] = {
    "nulls": (
        nested("int16"),
        sparse(*small_chunk(7, 0, 9, 8), item_layer(NULLS, 1)),
        [7, None, 9, 8],
    ),
    "all null": (nested("int16"), sparse(NONE, [], item_layer(VALIDS)), [None] * 4),
    "strings": (
        nested("string"),
        sparse(
            message(2, message(2, zipped_words("a", "bb")[0])),
            zipped_words("a", "bb")[1],
            item_layer(VALIDS, 1, 4),
        ),
        [None, "a", None, None, "bb"],
    ),
    "strings with nulls": (
        nested("string"),
        sparse(
            message(2, message(2, zipped_words("a", "bb")[0])),
            zipped_words("a", "bb")[1],
            item_layer(NULLS, 1),
        ),
        ["a", None, "bb"],
    ),
    "indexed strings": (
        nested("string"),
        sparse(
            message(2, message(5, message(1, flat(8)) + message(2, zipped_words("a", "bb")[0]))),
            [b"\1\0\1\x63\0", *zipped_words("a", "bb")[1]],
            item_layer(NULLS, 3),
        ),
        ["bb", "a", "bb", None, "a"],
    ),
    "constant": (
        nested("int16"),
        sparse(message(2, message(3, message(1, b"\5\0"))), [], item_layer(VALIDS, 0, 2)),
        [5, None, 5],
    ),
    "constant strings": (
        nested("string"),
        sparse(message(2, message(3, message(1, b"xyz"))), [], item_layer(VALIDS, 0, 2)),
        ["xyz", None, "xyz"],
    ),
    "lists": (
        nested("list", "int16"),
        sparse(*small_chunk(1, 2, 3), list_layer({0: 2, 3: 1}, NULLS, 2), item_layer()),
        [[1, 2], [], None, [3]],
    ),
    "null items": (
        nested("large_list", "int16"),
        sparse(*small_chunk(0, 2, 3), list_layer({1: 3}), item_layer(NULLS, 0, 2)),
        [[], [None, 2, None], []],
    ),
    "empty lists": (
        nested("list", "int16"),
        sparse(NONE, [], list_layer({}, VALIDS, 1), item_layer()),
        [None, [], None],
    ),
    "lists of lists": (
        nested("list", "list", "int16"),
        sparse(
            *small_chunk(1, 2), list_layer({0: 3, 2: 1}), list_layer({1: 1, 3: 1}, NULLS, 2), item_layer()
        ),
        [[[], [1], None], [], [[2]]],
    ),
    "structs": (
        nested("struct", "int16"),
        sparse(*small_chunk(1, 0, 0), item_layer(NULLS, 1), item_layer(VALIDS, 0)),
        [{"f1": 1}, None, {"f1": None}],
    ),
    "lists of fixed lists": (
        nested("list", SHORT, "struct", "int16"),
        sparse(
            *small_chunk(1, 2, 3, 4), list_layer({1: 2}), fixed_layer(2, NULLS, 0), item_layer(), item_layer()
        ),
        [[], [None, [{"f3": 3}, {"f3": 4}]], []],
    ),
    "values within null fixed lists": (
        nested(SHORT, "struct", "string"),
        sparse(
            message(2, message(2, zipped_words("a", "bb")[0])),
            zipped_words("a", "bb")[1],
            fixed_layer(2, NULLS, 0),
            item_layer(NULLS, 5),
            item_layer(VALIDS, 1, 2, 4, 5),
        ),
        [None, [{"f2": "a"}, {"f2": None}], [{"f2": "bb"}, None]],
    ),
    "fixed lists of lists": (
        nested(SHORT, "struct", "list", "int16"),
        sparse(
            *small_chunk(1, 2), fixed_layer(2), item_layer(NULLS, 2), list_layer({1: 1, 3: 1}), item_layer()
        ),
        [[{"f2": []}, {"f2": [1]}], [None, {"f2": [2]}]],
    ),
}


@folded("name", PAGES)
def test_sparse_pages(name: str) -> None:
    chain, (layout, buffers), expected = PAGES[name]
    count = len(expected)
    assert rows_of(layout, buffers, count, chain) == expected
    for chosen in range(1, 1 << count):  # every possible selection
        rows = [row for row in range(count) if chosen >> row & 1]
        assert rows_of(layout, buffers, count, chain, rows) == [expected[row] for row in rows]


def test_a_struct_without_fields_has_no_values() -> None:
    layout, buffers = sparse(NONE, [], item_layer(NULLS, 1))
    assert rows_of(layout, buffers, 3, nested("struct")) == [{}, None, {}]
    layout, buffers = sparse(NONE, [], item_layer(VALIDS))
    assert rows_of(layout, buffers, 3, nested("struct")) == [None] * 3


LISTS = nested("list", "int16")


@folded(
    ("what", "layers", "chain"),
    [
        ("3 positions among 2 slots", [item_layer(NULLS, 0, 1, 2)], nested("int16")),
        ("descend or leave", [item_layer(NULLS, 1, 0)], nested("int16")),
        ("descend or leave", [item_layer(NULLS, 1, 1)], nested("int16")),
        ("descend or leave", [item_layer(NULLS, 2)], nested("int16")),
        ("descend or leave", [item_layer(NULLS, 1 << 63)], nested("int16")),
        ("2 layers in a column of 1", [item_layer(), item_layer()], nested("int16")),
        ("does not fit the schema", [list_layer({0: 2})], nested("int16")),
        ("does not fit the schema", [item_layer(), item_layer()], LISTS),
        (
            "does not fit the schema",
            [fixed_layer(3), item_layer(), item_layer()],
            nested(SHORT, "struct", "int16"),
        ),
        ("descend or leave", [list_layer({2: 2}), item_layer()], LISTS),
        ("has none", [list_layer({0: 0, 1: 2}), item_layer()], LISTS),
        ("has none", [list_layer({0: 1 << 63, 1: 2}, children=2), item_layer()], LISTS),
        ("not the 3 that there are", [list_layer({0: 2}, children=3), item_layer()], LISTS),
        (
            "not the 2 that there are",
            [list_layer({0: (1 << 63) - 1, 1: (1 << 63) - 1}, children=2), item_layer()],
            LISTS,
        ),
        ("2 lists that have items, and 1 items", [list_layer({0: 1, 1: 1}, children=1), item_layer()], LISTS),
        (
            "16 bytes of plain values, where 24",
            [list_layer({0: 1, 1: 1}, children=9, listed=3), item_layer()],
            LISTS,
        ),
    ],
    ids=str,
)
def test_damaged_structure_is_refused(
    what: str, layers: list[tuple[bytes, list[bytes]]], chain: tuple[Field, ...]
) -> None:
    rows = 3 if "16 bytes" in what else 2
    layout, buffers = sparse(*small_chunk(1, 2), *layers)
    with pytest.raises(FormatError, match=what):
        rows_of(layout, buffers, rows, chain)


def test_values_must_be_those_of_the_structure() -> None:
    layout, buffers = sparse(NONE, [], item_layer(NULLS, 1))
    with pytest.raises(FormatError, match="2 that are not null"):
        rows_of(layout, buffers, 3, "int16")
    layout, buffers = sparse(*small_chunk(1, 2), item_layer())
    with pytest.raises(FormatError):
        rows_of(layout, buffers, 1 << 20, "int16")
    body, stored = zipped_words("a", "bb")
    layout, buffers = sparse(message(2, message(2, body)), stored, item_layer(VALIDS, 1))
    with pytest.raises(FormatError, match="2 values for 1 slots"):
        rows_of(layout, buffers, 3, "string")
    indexed = message(2, message(5, message(1, flat(8)) + message(2, body)))
    layout, buffers = sparse(indexed, [b"\0\1\2", *stored], item_layer())
    with pytest.raises(FormatError, match="2"):
        rows_of(layout, buffers, 3, "string")
    assert rows_of(layout, buffers, 3, "string", [0, 1]) == ["a", "bb"]


def told(count: int, items: int) -> tuple[bytes, list[bytes]]:
    """One list of so many items, without stored bytes."""
    body = number(1, items) + message(2, ranges(64, 0, 1)) + number(3, count)
    return message(2, body + message(4, ranges(64, items, 0))), []


def test_items_that_take_no_bytes_are_bounded() -> None:
    limits = replace(DEFAULT_LIMITS, bare_elements=1000)
    layout, buffers = sparse(NONE, [], told(1, 1000), item_layer(VALIDS))
    assert rows_of(layout, buffers, 1, LISTS, limits=limits) == [[None] * 1000]
    for items in (1001, 1 << 40):
        layout, buffers = sparse(NONE, [], told(1, items), item_layer(VALIDS))
        with pytest.raises(LimitError, match="take no bytes"):
            rows_of(layout, buffers, 1, LISTS, limits=limits)
    # Lists of lists: only the innermost are backed by chunks.
    layout, buffers = sparse(*small_chunk(1, 2), told(1, 1 << 40), list_layer({0: 2}), item_layer())
    with pytest.raises(LimitError, match="take no bytes"):
        rows_of(layout, buffers, 1, nested("list", "list", "int16"))
    # Rows take no stored bytes either, but their decoded form takes memory.
    value = message(2, message(3, message(1, b"\5\0")))
    layout, buffers = sparse(value, [], item_layer(VALIDS, 0))
    with pytest.raises(LimitError, match="slots of a page"):
        rows_of(layout, buffers, 1 << 40, "int16")


@folded("name", PAGES)
def test_damaged_sparse_pages_fail_as_ours_if_at_all(name: str) -> None:
    chain, (layout, buffers), expected = PAGES[name]
    rng = np.random.default_rng(len(name))
    limits = replace(DEFAULT_LIMITS, page_bytes=1 << 20, bare_elements=1 << 12)
    outcomes: set[type] = set()
    for _ in range(150):
        parts = [bytearray(layout), *map(bytearray, buffers)]
        filled = [part for part in parts if part]
        part = filled[int(rng.integers(len(filled)))]
        part[rng.integers(len(part))] = rng.integers(256)
        rows = None if rng.random() < 0.5 else np.flatnonzero(rng.random(len(expected)) < 0.7).tolist()
        try:
            got = rows_of(bytes(parts[0]), [bytes(p) for p in parts[1:]], len(expected), chain, rows, limits)
            outcomes.add(type(got))
        except LanceError as error:
            outcomes.add(type(error))
    assert FormatError in outcomes


def test_a_part_of_a_sparse_page_takes_two_rounds_and_little_of_it() -> None:
    texts = [f"{i:04d}" * 64 for i in range(1000)]
    body, stored = zipped_words(*texts)
    stored[1] = np.arange(0, 1001 * 260, 260, dtype="<u4").tobytes()
    positions = [3 * i for i in range(1000)]
    layout, buffers = sparse(message(2, message(2, body)), stored, item_layer(VALIDS, *positions))
    built = column_23(layout, buffers, 3000)
    asked: list[int] = []

    def fetch(wanted: list[Ranges]) -> list[Span]:
        asked.append(sum(int(ranges.lengths.sum()) for ranges in wanted))
        return built.files.fetch(wanted)

    chain = nested("string")
    for rows, data in (([0, 1, 1500, 2998], 2 * 260), (list(range(3000)), 1000 * 260)):
        asked.clear()
        chosen = RowSelection.all(3000) if len(rows) == 3000 else RowSelection.take(3000, rows)
        read = read_leaf(chain, built.column, built.source, chosen, DEFAULT_LIMITS)
        expected = [None if row % 3 else texts[row // 3] for row in rows]
        assert block_rows(run(read, fetch), chain) == expected
        assert len(asked) == (1 if len(rows) == 3000 else 2)
        assert sum(asked) == data + 1001 * 4 + 1000 * 8


def test_values_of_every_kind_are_put_in_their_slots() -> None:
    mask = np.array([False, True, False, True, True])
    bits = FixedWidth(3, 1, np.array([0b101], np.uint8), np.array([0b110], np.uint8), 1)
    texts = VariableWidth(3, 4, np.array([0, 1, 1, 3], "<i4"), np.frombuffer(b"abc", np.uint8))
    pairs = FixedList(3, 2, FixedWidth(6, 16, np.arange(6, dtype="<i2")))
    holes = FixedList(
        3, 2, FixedWidth(6, 1, np.array([0b111111], np.uint8), np.array([0b101010], np.uint8), 3)
    )
    both = nested("struct", "string")
    cases: list[tuple[Block, tuple[Field, ...], list[Any]]] = [
        (bits, nested("bool"), [None, False, True]),
        (texts, nested("string"), ["a", "", "bc"]),
        (pairs, nested("fixed_size_list:int16:2"), [[0, 1], [2, 3], [4, 5]]),
        (holes, nested("fixed_size_list:bool:2"), [[None, True]] * 3),
        (Structured(3, {1: texts}), both, [{"f1": "a"}, {"f1": ""}, {"f1": "bc"}]),
    ]
    for block, chain, values in cases:
        spread = block_rows(scatter(block, None, mask, DEFAULT_LIMITS), chain)
        assert [spread[i] for i in (1, 3, 4)] == values
        assert len(spread) == 5
        picked = scatter(block, np.array([2, 0, 2]), mask, DEFAULT_LIMITS)
        assert [block_rows(picked, chain)[i] for i in (1, 3, 4)] == [values[i] for i in (2, 0, 2)]
        whole = scatter(block, np.array([1, 1]), None, DEFAULT_LIMITS)
        assert block_rows(whole, chain) == [values[1]] * 2
        assert scatter(block, None, None, DEFAULT_LIMITS) is block


@pytest.mark.parametrize(
    ("spec", "data", "expected"),
    [
        (Repeated(None), b"", [0] * 5),
        (Deltas(8, 2, Plain(8)), b"\0\1\2\3", [2, 2, 3, 5, 8]),
        (
            Deltas(64, 3, RunLengths(Plain(8), Plain(8, buffer=1))),
            b"\2\0\0\0\0\0\0\0\1\2\3\1",
            [3, 4, 5, 6, 8],
        ),
        (RunLengths(Sequence(64, 4, 1), Plain(32)), struct.pack("<Q3I", 0, 2, 1, 2), [4, 4, 5, 6, 6]),
        (RunLengths(Sequence(64, 4, 1), Sequence(32, 2, 1)), b"", [4, 4, 5, 5, 5]),
        (
            RunLengths(Deltas(8, 1, Plain(8)), Plain(8, buffer=1)),
            struct.pack("<Q3B", 1, 7, 3, 2),
            [1, 1, 1, 8, 8],
        ),
        (Compressed("zstd", Plain(8)), pa.compress(bytes(range(5)), "zstd", asbytes=True), [0, 1, 2, 3, 4]),
    ],
    ids=str,
)
def test_numbers_of_a_structure(spec: Spec, data: bytes, expected: list[int]) -> None:
    stored = struct.pack("<Q", 5) + data if isinstance(spec, Compressed) else data
    assert integers(spec, np.frombuffer(stored, np.uint8), 5, DEFAULT_LIMITS).tolist() == expected
    assert integers(spec, np.frombuffer(stored, np.uint8), 0, DEFAULT_LIMITS).size == 0


@pytest.mark.parametrize(
    ("what", "spec", "data"),
    [
        ("not of 5 values", RunLengths(Sequence(64, 4, 1), Plain(32)), struct.pack("<Q2I", 0, 2, 1)),
        (
            "not of 5 values",
            RunLengths(Sequence(64, 4, 1), Plain(64)),
            struct.pack("<Q2Q", 0, 6, (1 << 64) - 1),
        ),
        ("not of 5 values", RunLengths(Sequence(64, 4, 1), Sequence(32, 2, 0)), b""),
        ("not of 5 values", RunLengths(Sequence(64, 4, 1), Repeated(None)), b""),
        ("pass the end", RunLengths(Sequence(64, 4, 1), Plain(32)), struct.pack("<QI", 9, 5)),
        ("no integers", Plain(24), b"123456789012345"),
        ("coded", RunLengths(Sequence(64, 4, 1), PackedBlocks(3, 32, True)), struct.pack("<QI", 0, 5)),
    ],
    ids=str,
)
def test_damaged_numbers_of_a_structure_are_refused(what: str, spec: Spec, data: bytes) -> None:
    with pytest.raises((FormatError, UnsupportedError), match=what):
        integers(spec, np.frombuffer(data, np.uint8), 5, DEFAULT_LIMITS)
