"""Columns of 2.0 decoded from pages by hand: values of one width, lists, structs; no container around them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lancecy.encodings.model.block import AllNull, FixedWidth, Pieces
from lancecy.errors import FormatError, LanceError, LimitError, UnsupportedError
from lancecy.limits import Limits
from lancecy.rows import RowSelection
from lancecy.schema import Field
from tests.helpers.folded import folded
from tests.helpers.pages import Files
from tests.helpers.v20 import (
    ALL_NULL,
    STRUCT,
    Page,
    binary,
    bit_stream,
    ended,
    fixed_list,
    flat,
    list_of,
    mutated,
    no_nulls,
    packed,
    packed_blocks,
    read_blocks,
    read_column,
    some_nulls,
)


def leaf(kind: str, field_id: int = 0, *, nullable: bool = True) -> Field:
    return Field("x", field_id, logical_type=kind, nullable=nullable)


def list_field(child: Field, kind: str = "list") -> Field:
    return Field("x", 0, logical_type=kind, children=(child,))


def bitmap(flags: Sequence[bool]) -> bytes:
    return np.packbits(np.array(flags, np.uint8), bitorder="little").tobytes()


def plain(values: Sequence[int | None], dtype: str = "<i4") -> Page:
    """A page as the reference writes it: with a bitmap only if there are nulls."""
    bits = np.dtype(dtype).itemsize * 8
    data = np.array([0x55 if v is None else v for v in values], dtype).tobytes()
    if all(v is None for v in values):
        return Page(ALL_NULL, len(values))
    if None not in values:
        return Page(no_nulls(flat(bits)), len(values), [data])
    validity = bitmap([v is not None for v in values])
    return Page(some_nulls(flat(1), flat(bits, 1)), len(values), [validity, data])


SELECTIONS: dict[str, list[int] | slice] = {
    "all": slice(None),
    "middle": slice(3, 13),
    "one": slice(9, 10),
    "none": slice(5, 5),
    "scattered": [0, 2, 3, 4, 7, 11, 15],
    "last": [16],
}


def selection(chosen: list[int] | slice, num_rows: int) -> RowSelection:
    if isinstance(chosen, slice):
        return RowSelection.range(num_rows, *chosen.indices(num_rows)[:2])
    return RowSelection.take(num_rows, chosen)


def pick(values: Sequence[Any], chosen: list[int] | slice) -> list[Any]:
    return list(values[chosen]) if isinstance(chosen, slice) else [values[i] for i in chosen]


every_selection = folded("chosen", SELECTIONS.values(), ids=list(SELECTIONS))
mapped_or_not = folded("is_mapped", [True, False])


# -- values of one width ------------------------------------------------------------------

MIXED: list[list[int | None]] = [[1, 2, 3], [None, 5, None], [], [None] * 4, [7, 8], [9, None, 10, 11, 12]]
FLAT: list[int | None] = [value for page in MIXED for value in page]


@mapped_or_not
@every_selection
@folded("gap", [0, 3, 64])
@folded(("kind", "dtype"), [("int8", "<i1"), ("uint16", "<u2"), ("int32", "<i4"), ("int64", "<i8")])
def test_pages_with_and_without_nulls(
    kind: str, dtype: str, gap: int, chosen: list[int] | slice, is_mapped: bool
) -> None:
    pages = [plain(values, dtype) for values in MIXED]
    array = read_column(leaf(kind), {0: pages}, selection(chosen, 17), is_mapped=is_mapped, gap=gap)
    assert array.to_pylist() == pick(FLAT, chosen)


@mapped_or_not
@every_selection
def test_booleans(chosen: list[int] | slice, is_mapped: bool) -> None:
    flags = [bool(i % 3) for i in range(17)]
    valid = [i % 5 != 0 for i in range(17)]
    # Spare bits after the last value are arbitrary.
    spare = bytes([bitmap(flags[:9])[0], bitmap(flags[:9])[1] | 0xFE])
    pages = [
        Page(no_nulls(flat(1)), 9, [spare]),
        Page(some_nulls(flat(1), flat(1, 1)), 8, [bitmap(valid[9:]), bitmap(flags[9:])]),
    ]
    expected = flags[:9] + [f if v else None for f, v in zip(flags[9:], valid[9:], strict=True)]
    array = read_column(leaf("bool"), {0: pages}, selection(chosen, 17), is_mapped=is_mapped)
    assert array.to_pylist() == pick(expected, chosen)


def test_booleans_said_to_be_compressed() -> None:
    array = read_column(leaf("bool"), {0: [Page(flat(1, 0, "zstd"), 3, [b"\x05"])]})
    assert array.to_pylist() == [True, False, True]


@pytest.mark.parametrize(
    "kind", ["string", "fixed_size_list:float:3", "dict:string:int8:false", "decimal:128:9:2"]
)
def test_pages_of_nulls_fit_every_type(kind: str) -> None:
    assert read_column(leaf(kind), {0: [Page(ALL_NULL, 5)]}).to_pylist() == [None] * 5


def test_wrapper_may_be_missing_or_doubled() -> None:
    data = struct.pack("<2i", 3, 4)
    for encoding in (flat(32), no_nulls(flat(32)), no_nulls(no_nulls(flat(32)))):
        assert read_column(leaf("int32"), {0: [Page(encoding, 2, [data])]}).to_pylist() == [3, 4]


def test_buffers_may_be_numbered_in_any_order() -> None:
    page = Page(some_nulls(flat(1, 1), flat(32, 0)), 2, [struct.pack("<2i", 3, 4), b"\x02"])
    assert read_column(leaf("int32"), {0: [page]}).to_pylist() == [None, 4]


def test_thousands_of_pages_are_one_block() -> None:
    pages = [plain([i], "<i8") for i in range(3000)]
    block = read_blocks(leaf("int64"), {0: pages})
    assert isinstance(block, FixedWidth)
    assert np.frombuffer(block.values, np.int64).tolist() == list(range(3000))  # type: ignore[call-overload]


def test_large_runs_of_a_map_are_not_copied() -> None:
    values = np.arange(1 << 17, dtype=np.int64)
    valid = np.ones(values.size, np.uint8)
    valid[5] = 0
    nulls = np.packbits(valid, bitorder="little").tobytes()
    pages = [
        Page(no_nulls(flat(64)), values.size, [values.tobytes()]),
        Page(some_nulls(flat(1), flat(64, 1)), values.size, [nulls, values.tobytes()]),
        Page(some_nulls(flat(1), flat(64, 1)), values.size, [nulls, values.tobytes()]),
    ]
    files = Files()
    block = read_blocks(leaf("int64"), {0: pages}, files=files, gap=64)
    assert isinstance(block, Pieces)
    assert [piece.length for piece in block.blocks] == [values.size] * 3
    for piece in block.blocks:
        assert isinstance(piece, FixedWidth)
        assert np.shares_memory(np.frombuffer(piece.values, np.uint8), files.contents["f"])  # type: ignore[call-overload]
    assert [piece.null_count for piece in block.blocks] == [0, 1, 1]  # type: ignore[union-attr]


def test_part_of_a_page_asks_for_its_bytes_only() -> None:
    files = Files(is_mapped=False)
    pages = [Page(some_nulls(flat(1), flat(32, 1)), 100, [bytes(13), bytes(400)])]
    read_blocks(leaf("int32"), {0: pages}, RowSelection.range(100, 50, 60), files=files)
    assert len(files.rounds) == 1
    assert sorted(int(request.lengths.sum()) for request in files.rounds[0]) == [2, 40]


# -- fixed-size lists -----------------------------------------------------------------------


@mapped_or_not
@every_selection
def test_fixed_lists_with_nulls_at_any_level(chosen: list[int] | slice, is_mapped: bool) -> None:
    values = np.arange(34, dtype="<f4")
    lists: list[Any] = [[float(2 * i), float(2 * i + 1)] for i in range(17)]
    row_valid = [i % 4 != 1 for i in range(17)]
    item_valid = [i % 3 != 0 for i in range(34)]
    items = [[v if item_valid[2 * i + j] else None for j, v in enumerate(row)] for i, row in enumerate(lists)]
    shapes = [
        (no_nulls(fixed_list(2, no_nulls(flat(32)))), [], lists),
        (
            some_nulls(flat(1), fixed_list(2, no_nulls(flat(32, 1)))),
            [bitmap(row_valid)],
            [row if ok else None for row, ok in zip(lists, row_valid, strict=True)],
        ),
        (
            some_nulls(flat(1), fixed_list(2, some_nulls(flat(1, 1), flat(32, 2)))),
            [bitmap(row_valid), bitmap(item_valid)],
            [row if ok else None for row, ok in zip(items, row_valid, strict=True)],
        ),
        (fixed_list(2, some_nulls(flat(1), flat(32, 1))), [bitmap(item_valid)], items),
    ]
    for encoding, nulls, expected in shapes:
        page = Page(encoding, 17, [*nulls, values.tobytes()])
        field = leaf("fixed_size_list:float:2")
        array = read_column(field, {0: [page]}, selection(chosen, 17), is_mapped=is_mapped)
        assert array.to_pylist() == pick(expected, chosen)


def test_nested_fixed_lists_and_bits() -> None:
    data = np.arange(12, dtype="<i2").tobytes()
    page = Page(no_nulls(fixed_list(2, no_nulls(fixed_list(3, no_nulls(flat(16)))))), 2, [data])
    array = read_column(leaf("fixed_size_list:fixed_size_list:int16:3:2"), {0: [page]})
    assert array.to_pylist() == np.arange(12).reshape(2, 2, 3).tolist()
    flags = [bool(i % 2) for i in range(15)]
    page = Page(no_nulls(fixed_list(5, no_nulls(flat(1)))), 3, [bitmap(flags)])
    array = read_column(leaf("fixed_size_list:bool:5"), {0: [page]}, RowSelection.range(3, 1, 3))
    assert array.to_pylist() == [flags[5:10], flags[10:]]
    page = Page(fixed_list(2, ALL_NULL), 3)
    assert read_column(leaf("fixed_size_list:bool:2"), {0: [page]}).to_pylist() == [[None, None]] * 3


# -- compressed and packed --------------------------------------------------------------------


def compressed(scheme: str, data: bytes, *, has_prefix: bool = True) -> bytes:
    if scheme == "lz4":
        block: bytes = pa.Codec("lz4_raw").compress(data, asbytes=True)
        return struct.pack("<I", len(data)) + block
    frame: bytes = pa.Codec("zstd").compress(data, asbytes=True)
    prefix = struct.pack("<Q", len(data)) if has_prefix else b""
    return prefix + frame


@mapped_or_not
@every_selection
@folded(("scheme", "has_prefix"), [("zstd", True), ("zstd", False), ("lz4", True)])
def test_compressed_values(scheme: str, has_prefix: bool, chosen: list[int] | slice, is_mapped: bool) -> None:
    values = np.arange(17, dtype="<i8") * 1000
    parts = [values[:6], values[6:7], values[7:]]
    pages = [
        Page(no_nulls(flat(64, 0, scheme)), p.size, [compressed(scheme, p.tobytes(), has_prefix=has_prefix)])
        for p in parts
    ]
    array = read_column(leaf("int64"), {0: pages}, selection(chosen, 17), is_mapped=is_mapped)
    assert array.to_pylist() == pick(values.tolist(), chosen)


def stream(values: Sequence[int], width: int) -> bytes:
    total = sum((v & ((1 << width) - 1)) << (i * width) for i, v in enumerate(values))
    return total.to_bytes(-(-len(values) * width // 8), "little")


def blocks(values: Sequence[int], width: int, bits: int) -> bytes:
    """FastLanes blocks, packed value by value."""
    out, lanes, groups = b"", 1024 // bits, [0, 4, 2, 6, 1, 5, 3, 7]
    for first in range(0, len(values), 1024):
        block = [*values[first : first + 1024], *[0] * 1024][:1024]
        streams = [0] * lanes
        for lane in range(lanes):
            for row in range(bits):
                index = groups[row // 8] * 16 + row % 8 * 128 + lane
                streams[lane] |= (block[index] & ((1 << width) - 1)) << (row * width)
        words = np.zeros((width, lanes), f"<u{bits // 8}")
        for word in range(width):
            words[word] = [(s >> (word * bits)) & ((1 << bits) - 1) for s in streams]
        out += words.tobytes()
    return out


@mapped_or_not
@every_selection
@folded(
    ("width", "bits", "signed"),
    [
        (1, 8, False),
        (3, 8, True),
        (7, 16, False),
        (13, 32, False),
        (4, 32, True),
        (41, 64, True),
        (64, 64, False),
    ],
)
def test_stream_of_bits(
    width: int, bits: int, signed: bool, chosen: list[int] | slice, is_mapped: bool
) -> None:
    chance = np.random.default_rng(width)
    low, high = (-(1 << (width - 1)), 1 << (width - 1)) if signed else (0, min(1 << width, 2**63))
    values = chance.integers(low, high, 17).tolist()
    pages = [
        Page(no_nulls(bit_stream(width, bits, 0, signed)), 11, [stream(values[:11], width)]),
        Page(no_nulls(bit_stream(width, bits, 0, signed)), 6, [stream(values[11:], width)]),
    ]
    field = leaf(f"{'' if signed else 'u'}int{bits}")
    array = read_column(field, {0: pages}, selection(chosen, 17), is_mapped=is_mapped)
    assert array.to_pylist() == pick(values, chosen)


@mapped_or_not
@folded(("width", "bits"), [(3, 8), (8, 8), (5, 16), (11, 32), (37, 64), (64, 64)])
def test_packed_blocks(width: int, bits: int, is_mapped: bool) -> None:
    values = np.random.default_rng(width).integers(0, 1 << min(width, 63), 3000).tolist()
    pages = [
        Page(packed_blocks(width, bits), 2500, [blocks(values[:2500], width, bits)]),
        Page(packed_blocks(width, bits), 500, [blocks(values[2500:], width, bits)]),
    ]
    for chosen in (slice(None), slice(1000, 1030), slice(2047, 2600), [0, 1023, 1024, 2499, 2500, 2999]):
        rows = selection(chosen, 3000)
        array = read_column(leaf(f"uint{bits}"), {0: pages}, rows, is_mapped=is_mapped)
        assert array.to_pylist() == pick(values, chosen)


def test_packed_blocks_read_only_those_wanted() -> None:
    files = Files(is_mapped=False)
    page = Page(packed_blocks(11, 32), 5000, [bytes(128 * 11 * 5)])
    read_blocks(leaf("uint32"), {0: [page]}, RowSelection.range(5000, 1030, 1040), files=files)
    assert [int(request.lengths.sum()) for request in files.rounds[0]] == [128 * 11]


# -- lists ------------------------------------------------------------------------------------


def list_page(ends: Sequence[int], adjustment: int, num_items: int) -> Page:
    data = np.array(ends, np.uint64).tobytes()
    return Page(list_of(no_nulls(flat(64)), adjustment, num_items), len(ends), [data])


# Elements 90 and 91 lie under a null list; no page of elements ends where a page of lists does.
LISTS = [
    list_page([2, 8, 2, 5], 6, 5),
    list_page([0], 1, 0),
    Page(list_of(flat(64), 9, 0), 0, [b""]),
    list_page([(1 << 40) + 2, 3, 3, 7], 1 << 40, 7),
]
ITEMS = [plain([1, 2, 3]), plain([]), plain([4, 5, 90, 91, 6, 7, None]), plain([9, 10])]
EXPECTED: list[Any] = [[1, 2], None, [], [3, 4, 5], [], None, [6], [], [7, None, 9, 10]]


LIST_SELECTIONS: list[list[int] | slice] = [
    slice(None),
    slice(3, 7),
    slice(1, 2),
    slice(5, 5),
    [0, 3, 5, 6],
    [8],
    [1, 2, 4],
]


@mapped_or_not
@folded("kind", ["list", "large_list"])
@folded("chosen", LIST_SELECTIONS, ids=str)
def test_lists_whose_items_are_cut_elsewhere(chosen: list[int] | slice, kind: str, is_mapped: bool) -> None:
    field = list_field(leaf("int32", 1), kind)
    array = read_column(field, {0: LISTS, 1: ITEMS}, selection(chosen, 9), is_mapped=is_mapped)
    assert array.to_pylist() == pick(EXPECTED, chosen)


def test_whole_lists_take_one_round_and_parts_two() -> None:
    field = list_field(leaf("int32", 1))
    pages = {0: [list_page([2, 3], 9, 3)], 1: [plain([1, 2, 3])]}
    for rows, rounds in ((RowSelection.all(2), 1), (RowSelection.range(2, 1, 2), 2)):
        files = Files(is_mapped=False)
        read_blocks(field, pages, rows, files=files)
        assert len(files.rounds) == rounds


def test_lists_without_items() -> None:
    field = list_field(leaf("string", 1))
    for items in ([], [Page(ALL_NULL, 0)], [Page(binary(flat(64), flat(8, 1), 0), 0, [b"", b""])]):
        array = read_column(field, {0: [list_page([1, 0, 1], 1, 0)], 1: items})
        assert array.to_pylist() == [None, [], None]


def test_lists_of_strings_and_of_structs() -> None:
    words = [b"a", None, b"ccc", b""]
    array = read_column(list_field(leaf("string", 1)), {0: [list_page([1, 4], 5, 4)], 1: [ended(words)]})
    assert array.to_pylist() == [["a"], [None, "ccc", ""]]
    item = Field("item", 1, 0, "struct", children=(Field("n", 2, 1, "int32"), Field("s", 3, 1, "string")))
    pages = {
        0: [list_page([1, 4], 5, 4)],
        1: [Page(STRUCT, 4)],
        2: [plain([1, None, 3, 4])],
        3: [ended(words)],
    }
    array = read_column(list_field(item), pages, RowSelection.range(2, 1, 2))
    assert array.to_pylist() == [[{"n": None, "s": None}, {"n": 3, "s": "ccc"}, {"n": 4, "s": ""}]]


@mapped_or_not
def test_list_ends_may_be_packed_by_page(is_mapped: bool) -> None:
    first = Page(list_of(bit_stream(4, 64), 6, 5), 4, [stream([2, 8, 2, 5], 4)])
    second = Page(list_of(packed_blocks(3, 64), 4, 2), 2, [blocks([1, 6], 3, 64)])
    third = list_page([1], 9, 1)
    pages = {0: [first, second, third], 1: [plain([1, 2, 3, 4, 5, 6, 7, 8])]}
    field = list_field(leaf("int32", 1))
    expected = [[1, 2], None, [], [3, 4, 5], [6], None, [8]]
    for chosen in (slice(None), slice(3, 7), [1, 3, 5, 6]):
        rows = selection(chosen, 7)
        array = read_column(field, pages, rows, is_mapped=is_mapped)
        assert array.to_pylist() == pick(expected, chosen)


def test_lists_of_lists() -> None:
    inner = Field("item", 1, 0, "list", children=(leaf("int32", 2),))
    pages = {
        0: [list_page([2, 2], 5, 2), list_page([1], 2, 1)],
        1: [list_page([1, 3, 4], 5, 4)],
        2: [plain([1, 2]), plain([3, 4])],
    }
    assert read_column(list_field(inner), pages).to_pylist() == [[[1], [2, 3]], [], [[4]]]
    array = read_column(list_field(inner), pages, RowSelection.take(3, [2]))
    assert array.to_pylist() == [[[4]]]


# -- structs, packed structs, blobs ---------------------------------------------------------------

POINT = Field(
    "p",
    0,
    logical_type="struct",
    children=(
        Field("a", 1, 0, "int32"),
        Field("b", 2, 0, "fixed_size_list:int16:2"),
        Field("c", 3, 0, "fixed_size_binary:3"),
    ),
)


def test_struct_has_one_empty_page() -> None:
    children = {
        1: [plain([1]), plain([2, 3])],
        2: [Page(fixed_list(2, flat(16)), 3, [bytes(12)])],
        3: [Page(flat(24), 3, [b"abcdefghi"])],
    }
    array = read_column(POINT, {0: [Page(STRUCT, 3)], **children})
    assert array.to_pylist()[2] == {"a": 3, "b": [0, 0], "c": b"ghi"}
    bare = Field("e", 0, logical_type="struct")
    assert read_column(bare, {0: [Page(STRUCT, 2)]}).to_pylist() == [{}, {}]
    for pages in ([Page(STRUCT, 1), Page(STRUCT, 2)], [plain([1, 2, 3])], [Page(ALL_NULL, 3)]):
        with pytest.raises(FormatError, match="struct"):
            read_column(POINT, {0: pages, **children})


@mapped_or_not
def test_packed_structs(is_mapped: bool) -> None:
    rows = [struct.pack("<i2h3s", i, i + 1, i + 2, b"abc") for i in range(17)]
    encoding = packed([flat(32), no_nulls(fixed_list(2, no_nulls(flat(16)))), flat(24)])
    pages = [Page(encoding, 10, [b"".join(rows[:10])]), Page(encoding, 7, [b"".join(rows[10:])])]
    expected = [{"a": i, "b": [i + 1, i + 2], "c": b"abc"} for i in range(17)]
    for chosen in SELECTIONS.values():
        array = read_column(POINT, {0: pages}, selection(chosen, 17), is_mapped=is_mapped)
        assert array.to_pylist() == pick(expected, chosen)


def test_packed_structs_must_have_the_fields_of_the_type() -> None:
    for children in (
        [flat(32)],
        [flat(32), fixed_list(3, flat(16)), flat(24)],
        [flat(32), flat(32), flat(24)],
    ):
        with pytest.raises(FormatError):
            read_column(POINT, {0: [Page(packed(children), 1, [bytes(100)])]})


def test_blobs_are_positions_and_sizes() -> None:
    field = Field("b", 0, logical_type="large_binary", metadata={"lance-encoding:blob": b"true"})
    rows = struct.pack("<6Q", 64, 5, 1, 0, 0, 0)
    page = Page(packed([flat(64), flat(64)]), 3, [rows])
    array = read_column(field, {0: [page]}, blobs=[0])
    assert array.type == pa.struct({"position": pa.uint64(), "size": pa.uint64()})
    expected = [{"position": p, "size": n} for p, n in ((64, 5), (1, 0), (0, 0))]
    assert array.to_pylist() == expected
    array = read_column(field, {0: [Page(ALL_NULL, 2), page]}, blobs=[0])
    assert array.to_pylist() == [None, None, *expected]


# -- refused pages ----------------------------------------------------------------------------------

INTS = leaf("int32")
LIST = list_field(leaf("int32", 1))
BAD: dict[str, tuple[Field, dict[int, Sequence[Page]]]] = {
    "wider values": (INTS, {0: [Page(flat(64), 2, [bytes(16)])]}),
    "narrower values": (INTS, {0: [Page(flat(16), 2, [bytes(16)])]}),
    "too few bytes": (INTS, {0: [Page(flat(32), 3, [bytes(11)])]}),
    "too few bits": (leaf("bool"), {0: [Page(flat(1), 9, [bytes(1)])]}),
    "short validity": (INTS, {0: [Page(some_nulls(flat(1), flat(32, 1)), 9, [b"\0", bytes(36)])]}),
    "strings in a page of integers": (leaf("string"), {0: [plain([1])]}),
    "integers in a page of strings": (INTS, {0: [ended([b"a"])]}),
    "list as one wide value": (leaf("fixed_size_list:float:2"), {0: [Page(flat(64), 1, [bytes(8)])]}),
    "list of another size": (
        leaf("fixed_size_list:float:2"),
        {0: [Page(fixed_list(3, flat(32)), 1, [bytes(12)])]},
    ),
    "fixed lists too short": (
        leaf("fixed_size_list:float:2"),
        {0: [Page(fixed_list(2, flat(32)), 2, [bytes(15)])]},
    ),
    "struct page for integers": (INTS, {0: [Page(STRUCT, 1)]}),
    "list page for integers": (INTS, {0: [list_page([0], 1, 0)]}),
    "stream too short": (INTS, {0: [Page(bit_stream(5, 32), 4, [bytes(2)])]}),
    "stream of other integers": (INTS, {0: [Page(bit_stream(5, 16), 4, [bytes(9)])]}),
    "blocks too short": (INTS, {0: [Page(packed_blocks(5, 32), 1025, [bytes(128 * 5 + 500)])]}),
    "compressed too short": (INTS, {0: [Page(flat(32, 0, "lz4"), 4, [compressed("lz4", bytes(15))])]}),
    "not compressed": (INTS, {0: [Page(flat(32, 0, "zstd"), 4, [b"\x28\xb5\x2f\xfd garbage"])]}),
    "nulls where there are none": (leaf("int32", nullable=False), {0: [plain([1, None])]}),
    "all null where there are none": (leaf("int32", nullable=False), {0: [Page(ALL_NULL, 2)]}),
    "list of nulls": (LIST, {0: [Page(ALL_NULL, 2)], 1: []}),
    "list of integers": (LIST, {0: [plain([1])], 1: []}),
    "list ends of 32 bits": (LIST, {0: [Page(list_of(flat(32), 5, 1), 1, [bytes(4)])], 1: [plain([1])]}),
    "list ends that descend": (LIST, {0: [list_page([2, 1], 9, 2)], 1: [plain([1, 2])]}),
    "list ends past the items": (LIST, {0: [list_page([3], 9, 2)], 1: [plain([1, 2, 3])]}),
    "list without adjustment": (LIST, {0: [list_page([1], 0, 1)], 1: [plain([1])]}),
    "items that are missing": (LIST, {0: [list_page([3], 4, 3)], 1: [plain([1, 2])]}),
    "items without a column": (LIST, {0: [list_page([3], 4, 3)]}),
    "ends that are null": (LIST, {0: [Page(list_of(ALL_NULL, 4, 3), 1)], 1: [plain([1, 2, 3])]}),
    "rows that children lack": (POINT, {0: [Page(STRUCT, 3)], 1: [plain([1, 2])], 2: [], 3: []}),
}


@mapped_or_not
@folded(("field", "pages"), BAD.values(), ids=list(BAD))
def test_bad_pages_are_refused(field: Field, pages: dict[int, Sequence[Page]], is_mapped: bool) -> None:
    with pytest.raises(FormatError):
        read_column(field, pages, is_mapped=is_mapped)


def test_list_ends_may_not_descend_between_runs() -> None:
    page = list_page([3, 3, 1], 9, 3)
    with pytest.raises(FormatError):
        read_column(LIST, {0: [page], 1: [plain([1, 2, 3])]}, RowSelection.take(3, [0, 2]))


def test_types_of_later_versions_are_refused() -> None:
    with pytest.raises(UnsupportedError):
        read_column(leaf("map"), {0: [plain([1])]})


def test_elements_that_take_no_bytes_are_bounded() -> None:
    pages = {0: [list_page([10_000], 10_001, 10_000)], 1: [Page(ALL_NULL, 10_000)]}
    field = list_field(leaf("null", 1))
    assert len(read_column(field, pages, limits=Limits(bare_elements=10_000))[0]) == 10_000
    with pytest.raises(LimitError):
        read_column(field, pages, limits=Limits(bare_elements=9_999))


def test_nothing_selected_reads_nothing() -> None:
    files = Files()
    block = read_blocks(INTS, {0: [plain([1, 2])]}, RowSelection.range(2, 1, 1), files=files)
    assert isinstance(block, AllNull)
    assert (block.length, files.rounds) == (0, [])


FUZZED: list[tuple[Field, dict[int, Sequence[Page]]]] = [
    (INTS, {0: [plain(values) for values in MIXED]}),
    (LIST, {0: LISTS, 1: ITEMS}),
    (INTS, {0: [Page(packed_blocks(5, 32), 20, [bytes(640)]), Page(bit_stream(5, 32), 9, [bytes(6)])]}),
    (
        leaf("fixed_size_list:int32:2"),
        {0: [Page(fixed_list(2, some_nulls(flat(1), flat(32, 1))), 4, [b"\x5a", bytes(32)])]},
    ),
    (INTS, {0: [Page(flat(32, 0, "lz4"), 4, [compressed("lz4", bytes(16))])]}),
    (POINT, {0: [Page(packed([flat(32), fixed_list(2, flat(16)), flat(24)]), 2, [bytes(22)])]}),
]


@pytest.mark.parametrize("seed", range(6))
def test_mutated_pages_give_values_or_errors(seed: int) -> None:
    chance = np.random.default_rng(seed)
    for _ in range(60):
        field, columns = FUZZED[seed % len(FUZZED)]
        try:
            array = read_column(field, mutated(columns, chance), is_mapped=bool(chance.integers(2)))
        except LanceError:
            continue
        assert len(array) >= 0
