"""Handmade mini-block pages: the examples of the file sheet, partial reads, and refused pages."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lancecy.errors import FormatError, LimitError, TruncatedError
from lancecy.limits import Limits
from tests.helpers.pages21 import (
    LZ4,
    ZSTD,
    BuiltPage,
    bss,
    cached,
    chunk,
    column_of,
    fixed_list,
    flat,
    general,
    index_of,
    inline,
    leaf_field,
    message,
    mini_block,
    number,
    out_of_line,
    packed,
    rle,
    rows_of,
    u16,
    variable,
    words,
)

INT64 = leaf_field("int64")
LIST = (leaf_field("list"), leaf_field("int64", "item", 4))


def i64(*values: int) -> bytes:
    return np.array(values, "<i8").tobytes()


def page(encoding: bytes, *parts: bytes, rows: int, logs: tuple[int, ...] = (), **options: Any) -> BuiltPage:
    """A page without lists from its chunks."""
    large = options.get("large", False)
    layout = mini_block(encoding, options.pop("num_items", rows), **options)
    buffers = [words(parts, logs, large), b"".join(parts)]
    return BuiltPage(layout, buffers, rows, (2, 2) if large else (2, 1))


# -- the sheet's examples -----------------------------------------------------------------


@pytest.mark.parametrize("large", [False, True])
def test_nullable_integers_as_in_the_sheet(large: bool) -> None:
    words_ = b"\x40\x00" + b"\x00\x00" * large
    head = b"\x03\x00\x06\x00\x18\x00" + (b"\x00\x00" if large else b"\xfe\xfe")
    body = head + b"\x00\x00\x01\x00\x00\x00\xfe\xfe" + i64(1, 0, 3)
    layout = mini_block(flat(64), 3, (3,), definition=flat(16), large=large)
    assert rows_of(BuiltPage(layout, [words_, body], 3, (2, 1 + large)), INT64) == [1, None, 3]


def test_lists_as_in_the_sheet() -> None:
    body = b"\x05\x00\x0a\x00\x0a\x00\x18\x00" + u16(1, 0, 1, 1, 1) + b"\xfe" * 6
    body += u16(0, 0, 2, 1, 0) + b"\xfe" * 6 + i64(1, 2, 3)
    layout = mini_block(flat(64), 3, (1, 6), rep=flat(16), definition=flat(16))
    built = BuiltPage(layout, [words([body]), body, index_of((4, 0))], 4)
    assert rows_of(built, *LIST) == [[1, 2], [], None, [3]]
    for wanted in ([0], [1, 2], [0, 3], [2, 3]):
        assert rows_of(built, *LIST, rows=wanted) == [[[1, 2], [], None, [3]][i] for i in wanted]


def test_strings_as_in_the_sheet() -> None:
    buffer = struct.pack("<4I", 16, 17, 19, 22) + b"abbcccHH"
    built = page(variable(), chunk([buffer]), rows=3)
    assert rows_of(built, leaf_field("string")) == ["a", "bb", "ccc"]
    assert rows_of(built, leaf_field("string"), rows=[1]) == ["bb"]


def test_fixed_lists_with_null_items_as_in_the_sheet() -> None:
    values = np.array([1, 0, 0, 0, 3, 4], "<i2").tobytes()
    part = chunk([b"\x31", values], 3, definition=u16(0, 1, 0))
    built = page(fixed_list(2, flat(16), True), part, rows=3, layers=(3,), definition=flat(16), num_buffers=2)
    field = leaf_field("fixed_size_list:int16:2")
    assert rows_of(built, field) == [[1, None], None, [3, 4]]
    assert rows_of(built, field, rows=[0, 2]) == [[1, None], [3, 4]]


# -- codecs in chunks ----------------------------------------------------------------------


def test_last_chunk_may_be_larger_than_the_others() -> None:
    built = page(
        flat(64), chunk([i64(0, 1)]), chunk([i64(2, 3)]), chunk([i64(*range(4, 11))]), rows=11, logs=(1, 1)
    )
    assert rows_of(built, INT64) == list(range(11))
    assert rows_of(built, INT64, rows=[1, 2, 9]) == [1, 2, 9]


def test_runs_of_booleans_cross_bytes_and_chunks() -> None:
    flags = np.random.default_rng(3).integers(0, 2, 300).astype(bool)
    parts = [chunk([np.packbits(flags[a:b], bitorder="little").tobytes()]) for a, b in ((0, 256), (256, 300))]
    built = page(flat(1), *parts, rows=300, logs=(8,))
    wanted = [0, 7, 8, 9, 250, 251, 255, 256, 299]
    assert rows_of(built, leaf_field("bool")) == flags.tolist()
    assert rows_of(built, leaf_field("bool"), rows=wanted) == flags[wanted].tolist()


def test_inline_packing_keeps_a_width_per_chunk() -> None:
    zeros = struct.pack("<H", 0)
    ones = struct.pack("<H", 1) + b"\xff" * 128
    built = page(inline(16), chunk([zeros]), chunk([ones]), rows=1024 + 5, logs=(10,))
    assert rows_of(built, leaf_field("uint16")) == [0] * 1024 + [1] * 5
    assert rows_of(built, leaf_field("uint16"), rows=[1023, 1024]) == [0, 1]


def test_packing_out_of_line_may_leave_the_tail_raw() -> None:
    full, tail = b"\xff" * 256, np.array([3, 9, 0], "<u2").tobytes()
    built = page(out_of_line(16, 2), chunk([full + tail]), rows=1027)
    assert rows_of(built, leaf_field("uint16")) == [3] * 1024 + [3, 9, 0]


def test_runs_are_spread_over_rows() -> None:
    built = page(
        rle(flat(32), flat(8)), chunk([np.array([7, 9], "<i4").tobytes(), b"\x03\x02"]), rows=5, num_buffers=2
    )
    assert rows_of(built, leaf_field("int32")) == [7, 7, 7, 9, 9]
    assert rows_of(built, leaf_field("int32"), rows=[2, 3]) == [7, 9]


def test_split_bytes_are_joined() -> None:
    values = np.array([1.5, -2.25, 3.0], "<f4")
    streams = np.ascontiguousarray(values.view(np.uint8).reshape(3, 4).T).tobytes()
    assert rows_of(page(bss(32), chunk([streams]), rows=3), leaf_field("float")) == [1.5, -2.25, 3.0]


def literal_lz4(data: bytes) -> bytes:
    """An LZ4 block of literals only, with the length before it."""
    assert len(data) < 15 + 255
    token = bytes([len(data) << 4]) if len(data) < 15 else bytes([0xF0, len(data) - 15])
    return struct.pack("<I", len(data)) + token + data


def test_first_buffer_of_a_chunk_is_compressed_and_the_rest_is_not() -> None:
    encoding = general(LZ4, rle(flat(32), flat(8)))
    part = chunk([literal_lz4(np.array([7, 9], "<i4").tobytes()), b"\x03\x02"])
    built = page(encoding, part, part, rows=9, logs=(2,), num_buffers=2)
    assert rows_of(built, leaf_field("int32")) == [7, 7, 7, 9, 7, 7, 7, 9, 9]
    assert rows_of(built, leaf_field("int32"), rows=[4, 8]) == [7, 9]


def test_packed_rows_become_fields() -> None:
    rows = b"".join(struct.pack("<qh", i, -i) for i in range(3))
    children = (leaf_field("int64", "a", 4), leaf_field("int16", "b", 5))
    field = leaf_field("struct", children=children)
    built = page(packed([64, 16], flat(80)), chunk([rows]), rows=3)
    assert rows_of(built, field) == [{"a": i, "b": -i} for i in range(3)]


@pytest.mark.parametrize("version", [(2, 1), (2, 2)])
def test_dictionary_of_strings_with_a_null_that_points_nowhere(version: tuple[int, int]) -> None:
    block = struct.pack("<5I", 32, 20, 0, 2, 3) + b"abc"
    encoding, dictionary = (
        (variable(), block) if version == (2, 1) else (general(LZ4, variable()), literal_lz4(block))
    )
    part = chunk([np.array([1, 99, 0], "<i4").tobytes()], 3, definition=u16(0, 1, 0))
    layout = mini_block(flat(32), 3, (3,), definition=flat(16), dictionary=encoding, num_dictionary_items=2)
    built = BuiltPage(layout, [words([part]), part, dictionary], 3)
    assert rows_of(built, leaf_field("string")) == ["c", None, "ab"]
    assert rows_of(built, leaf_field("string"), rows=[1, 2]) == [None, "ab"]
    assert rows_of(built, leaf_field("dict:string:int32:false")) == ["c", None, "ab"]


def test_code_without_an_item_is_refused() -> None:
    layout = mini_block(flat(32), 3, dictionary=flat(64), num_dictionary_items=2)
    part = chunk([np.array([1, 2, 0], "<i4").tobytes()])
    built = BuiltPage(layout, [words([part]), part, i64(5, 6)], 3)
    with pytest.raises(FormatError, match="page 0") as caught:
        rows_of(built, INT64)
    assert caught.value.position == 1


# -- requests -------------------------------------------------------------------------------


def wide_page(chunks: int) -> BuiltPage:
    """Chunks of 512 numbers, more than is fetched whole."""
    parts = [chunk([i64(*range(512 * k, 512 * k + 512))]) for k in range(chunks)]
    return page(flat(64), *parts, rows=512 * chunks, logs=(9,) * (chunks - 1))


def asked(built: Any) -> list[list[tuple[int, int]]]:
    """Ranges per round, relative to the first buffer."""
    origin = int(built.column.positions[0])
    return [
        [
            (p - origin, n)
            for r in requests
            for p, n in zip(r.positions.tolist(), r.lengths.tolist(), strict=True)
        ]
        for requests in built.files.rounds
    ]


@pytest.mark.parametrize("is_mapped", [True, False])
def test_whole_page_is_one_round_and_a_part_reads_its_chunks_only(is_mapped: bool) -> None:
    built = column_of(wide_page(100), is_mapped=is_mapped)
    assert rows_of(built, INT64) == list(range(51_200))
    assert len(asked(built)) == 1
    built = column_of(wide_page(100), is_mapped=is_mapped)
    wanted = [5, 511, 512, 1024 + 3, 512 * 60]
    assert rows_of(built, INT64, rows=wanted) == wanted
    first, second = asked(built)
    start, size = int(built.column.positions[1] - built.column.positions[0]), 4096 + 8
    assert first == [(0, 200)]
    # Chunks 0 to 2 are adjacent, chunk 60 is alone; the store merges adjacent ranges.
    assert second == [(start + k * size, size) for k in (0, 1, 2, 60)]


def test_rows_that_lie_densely_in_a_page_are_one_round() -> None:
    built = column_of(wide_page(100))
    wanted = list(range(0, 51_200, 5_000))
    assert rows_of(built, INT64, rows=wanted) == wanted
    assert len(asked(built)) == 1


def test_rows_over_several_pages_ask_once_for_all_of_them() -> None:
    built = column_of(wide_page(60), wide_page(90), wide_page(60))
    wanted = [1, 30_719, 30_720, 76_799]
    assert rows_of(built, INT64, rows=wanted) == [1, 30_719, 0, 46_079]
    assert len(built.files.rounds) == 2
    assert rows_of(built, INT64) == [*range(30_720), *range(46_080), *range(30_720)]


def list_page() -> tuple[BuiltPage, list[Any]]:
    """Five chunks of four values; a row over three of them, preambles, nulls, and a row end at a chunk's end."""
    lists = [
        [0],
        None,
        [1, 2, 3, 4, 5, 6, 7, 8, 9],
        [],
        [10],
        [11],
        [12, 13],
        None,
        [],
        [14, 15],
        [16, 17, 18],
    ]
    rep: list[int] = []
    levels: list[int] = []
    values: list[int] = []
    for row in lists:
        rep += [1] + [0] * (len(row or [0]) - 1)
        levels += [1 if row is None else 2] if not row else [0] * len(row)
        values += row or []
    parts: list[bytes] = []
    entries: list[tuple[int, int]] = []
    start = slot = 0
    for count in (4, 4, 4, 4, 3):
        stop, seen = start, 0
        while stop < len(rep) and (seen < count or levels[stop]):
            seen += not levels[stop]
            stop += 1
        part = chunk(
            [i64(*values[slot : slot + count])],
            stop - start,
            rep=u16(*rep[start:stop]),
            definition=u16(*levels[start:stop]),
        )
        goes_on = stop < len(rep) and not rep[stop]
        begun = [i for i in range(start, stop) if rep[i]]
        ended = len(begun) + (bool(entries) and entries[-1][1] > 0) - goes_on
        entries.append((ended, (stop - (begun[-1] if begun else start)) if goes_on else 0))
        parts.append(part)
        start, slot = stop, slot + count
    layout = mini_block(flat(64), 19, (1, 6), rep=flat(16), definition=flat(16))
    buffers = [words(parts, (2, 2, 2, 2)), b"".join(parts), index_of(*entries)]
    return BuiltPage(layout, buffers, len(lists)), lists


def test_any_rows_of_lists_over_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lancecy.encodings.v21.miniblock._SMALL_PAGE", 0)
    built, lists = list_page()
    assert rows_of(built, *LIST) == lists
    for first in range(len(lists)):
        for last in range(first, len(lists)):
            wanted = sorted({first, last, (first + last) // 2})
            assert rows_of(built, *LIST, rows=wanted) == [lists[i] for i in wanted]
            whole = list(range(first, last + 1))
            assert rows_of(built, *LIST, rows=whole) == lists[first : last + 1]


def test_rows_of_lists_without_an_index_are_found_in_the_levels() -> None:
    built, lists = list_page()
    layout = mini_block(flat(64), 19, (1, 6), rep=flat(16), definition=flat(16), depth=0)
    bare = replace(built, layout=layout, buffers=built.buffers[:2])
    assert rows_of(bare, *LIST, rows=[2, 9]) == [lists[2], lists[9]]


# -- damage -----------------------------------------------------------------------------------


def flat_page(**changes: Any) -> BuiltPage:
    built = page(flat(64), chunk([i64(0, 1)]), chunk([i64(2, 3, 4)]), rows=5, logs=(1,))
    return replace(built, **changes)


DAMAGED: list[tuple[str, BuiltPage]] = [
    ("3 bytes of chunk words", flat_page(buffers=[b"\0\0\0", flat_page().buffers[1]])),
    ("0 bytes of chunk words", flat_page(buffers=[b"", b""])),
    ("chunks take", flat_page(buffers=[flat_page().buffers[0], flat_page().buffers[1] + bytes(8)])),
    ("items are left", page(flat(64), chunk([i64(0)]), chunk([i64(1)]), rows=2, logs=(2,))),
    ("items are left", page(flat(1), chunk([b"\1"]), rows=(1 << 16) + 1)),
    ("6 items in a page of 5 rows", flat_page(layout=mini_block(flat(64), 6))),
    ("chunk 1", page(flat(64), chunk([i64(0, 1)]), chunk([i64(2)]), rows=5, logs=(1,))),
    ("chunk 0 has 1025 values", page(inline(8), chunk([b"\0"]), rows=1025)),
    ("for 3 values", page(flat(64), chunk([i64(1, 2, 3)], 2, definition=u16(0, 0)), rows=3, layers=(3,), definition=flat(16))),
    ("parts of chunk 0 pass", page(flat(64), b"\x00\x00\x40\x00\xfe\xfe\xfe\xfe" + i64(1), rows=1)),
    ("values of 32 bits, where the column is int64", page(flat(32), chunk([bytes(4)]), rows=1)),
    ("strings with 64-bit", page(variable(64), chunk([struct.pack("<QQ", 16, 16)]), rows=1)),
    ("offsets of strings", page(variable(), chunk([b"\1\2\3"]), rows=1)),
    ("layers in a column of 1", flat_page(layout=mini_block(flat(64), 5, (1, 1)))),
    ("a column of 5 values in a file of 6 rows", flat_page()),
]  # fmt: skip


@pytest.mark.parametrize(("what", "built"), DAMAGED, ids=[str(i) for i in range(len(DAMAGED))])
def test_damage_is_refused_by_name(what: str, built: BuiltPage) -> None:
    with pytest.raises(FormatError, match=what):
        rows_of(built, INT64, num_rows=6 if "file of 6" in what else None)


def relabelled(**changes: Any) -> BuiltPage:
    """The list page with another layout message."""
    options = {"rep": flat(16), "definition": flat(16), "layers": (1, 6), "num_items": 19, **changes}
    return replace(list_page()[0], layout=mini_block(flat(64), **options))


def reindexed(*entries: tuple[int, int]) -> BuiltPage:
    built = list_page()[0]
    return replace(built, buffers=[*built.buffers[:2], index_of(*entries)])


def joined_rows() -> BuiltPage:
    """The list page, whose first two rows are one by their levels, but not by the index."""
    built = list_page()[0]
    chunks = bytearray(built.buffers[1])
    assert chunks[8:14] == u16(1, 1, 1)
    chunks[10:12] = u16(0)
    return replace(built, buffers=[built.buffers[0], bytes(chunks), built.buffers[2]])


DAMAGED_LISTS: list[tuple[str, BuiltPage]] = [
    ("repetition index of 16 bytes for 5 chunks", reindexed((11, 0))),
    ("more rows than the page has", reindexed((1 << 63, 0), (0, 0), (0, 0), (0, 0), (0, 0))),
    ("counts 5 rows", reindexed((1, 0), (1, 0), (1, 0), (1, 0), (1, 0))),
    ("counts 11 rows", reindexed((2, 0), (2, 0), (3, 0), (2, 0), (2, 1))),
    ("counts 12 rows", reindexed((2, 0), (2, 0), (3, 0), (2, 0), (3, 0))),
    ("range|rows", reindexed((0, 1), (0, 1), (0, 1), (0, 1), (11, 0))),
    ("levels of the chunks are for", relabelled(layers=(3, 5))),
    ("chunk 0 other rows begin", joined_rows()),
    ("items are left", relabelled(num_items=1 << 40)),
    ("items are left", relabelled(num_items=15)),
]


@pytest.mark.parametrize(("what", "built"), DAMAGED_LISTS, ids=[what for what, _ in DAMAGED_LISTS])
def test_damaged_lists_are_refused(what: str, built: BuiltPage) -> None:
    with pytest.raises(FormatError, match=what):
        rows_of(built, *LIST, rows=[1, 4, 7])


@pytest.mark.parametrize(("what", "built"), DAMAGED_LISTS, ids=[what for what, _ in DAMAGED_LISTS])
def test_damaged_lists_among_sound_ones_are_refused(what: str, built: BuiltPage) -> None:
    sound, _ = list_page()
    with pytest.raises(FormatError, match=f"({what}).*page 1"):
        rows_of(cached(column_of(sound, built, sound)), *LIST, rows=[1, *range(11, 21), 32])


def test_an_index_that_takes_rows_from_the_next_page_is_refused() -> None:
    more = reindexed((2, 0), (2, 0), (3, 0), (2, 0), (3, 0))
    fewer = reindexed((2, 0), (1, 0), (3, 0), (2, 0), (2, 0))
    with pytest.raises(FormatError, match="page 0"):
        rows_of(cached(column_of(more, fewer)), *LIST, rows=[4, 13, 14])


@pytest.mark.parametrize("is_mapped", [True, False])
def test_any_rows_of_lists_over_pages(is_mapped: bool) -> None:
    sound, lists = list_page()
    built, expected = cached(column_of(*[sound] * 4, is_mapped=is_mapped)), lists * 4
    assert rows_of(built, *LIST) == expected
    for first in range(len(expected)):
        for last in range(first, len(expected)):
            for wanted in (sorted({first, last, (first + last) // 2}), list(range(first, last + 1))):
                assert rows_of(built, *LIST, rows=wanted) == [expected[i] for i in wanted]


def test_strings_that_overlap_do_not_multiply() -> None:
    # Every second value claims the whole chunk; the offsets between them go back.
    text = 4000
    offsets = np.full(401, 1604, "<u4")
    offsets[1::2] = 1604 + text
    built = page(variable(), chunk([offsets.tobytes() + b"x" * text]), rows=400)
    with pytest.raises(FormatError):
        rows_of(built, leaf_field("string"))
    with pytest.raises(FormatError, match="overlap"):
        rows_of(built, leaf_field("string"), rows=list(range(0, 400, 2)))


def test_bytes_that_are_missing_are_truncation() -> None:
    with pytest.raises(TruncatedError) as caught:
        rows_of(page(flat(64), chunk([i64(0, 1)]), chunk([i64(2)]), rows=5, logs=(1,)), INT64)
    assert caught.value.position == 1


def test_expansion_is_bounded_by_limits() -> None:
    built = page(inline(64), *[chunk([bytes(8)])] * 3, rows=3 * 1024, logs=(10, 10))
    assert rows_of(built, INT64, limits=Limits(page_bytes=3 * 8192)) == [0] * 3072
    with pytest.raises(LimitError) as caught:
        rows_of(built, INT64, limits=Limits(page_bytes=3 * 8192 - 1))
    assert caught.value.limit == "page_bytes"
    huge = struct.pack("<Q", 1 << 40) + b"\x28\xb5\x2f\xfd\x20\x01"
    with pytest.raises(FormatError):
        rows_of(page(general(ZSTD, flat(64)), chunk([huge]), rows=1), INT64)


def test_field_of_a_later_version_is_passed_over() -> None:
    # Field 99 of the layout is of a later version.
    known = mini_block(flat(64), 2)
    body = known[2:] + number(99, 5)
    built = page(flat(64), chunk([i64(4, 5)]), rows=2)
    assert rows_of(replace(built, layout=message(1, body)), INT64) == [4, 5]
