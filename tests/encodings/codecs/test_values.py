"""Standalone buffers and the bounds of chunks, which tests of pages do not reach."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest

from lancecy.encodings.arrow.to_arrow import to_arrow
from lancecy.encodings.codecs.values import as_numbers, decode_block
from lancecy.encodings.model.block import VariableWidth
from lancecy.encodings.model.chunks import row_ranges, runs_within, touched
from lancecy.encodings.model.spec import (
    BlockDictionary,
    Compressed,
    Deltas,
    FixedListOf,
    InlinePacked,
    PackedBlocks,
    PackedFields,
    Plain,
    Repeated,
    RunLengths,
    Sequence,
    Spec,
    Variable,
)
from lancecy.errors import FormatError, LimitError, TruncatedError, UnsupportedError
from lancecy.limits import DEFAULT_LIMITS, Limits
from lancecy.rows import RowSelection
from lancecy.schema import Field
from tests.helpers.folded import folded

STRINGS32 = bytes.fromhex("20000000 14000000 00000000 02000000 03000000 616263")
STRINGS64 = struct.pack("<5Q", 64, 40, 0, 2, 3) + b"abc"


def values(spec: Spec, data: bytes, count: int, kind: str) -> list[Any]:
    # An odd address: buffers of a remote file may have any alignment.
    memory = np.frombuffer(b"#" + data, np.uint8)[1:]
    block = decode_block(spec, memory, count, DEFAULT_LIMITS)
    assert block.length == count
    rows: list[Any] = to_arrow(block, Field("c", 0, logical_type=kind)).to_pylist()
    return rows


@folded(
    ("spec", "data", "kind", "expected"),
    [
        (Plain(16), struct.pack("<2h", 1, -2), "int16", [1, -2]),
        (Plain(24), b"abcdef", "fixed_size_binary:3", [b"abc", b"def"]),
        (Variable(4), STRINGS32, "string", ["ab", "c"]),
        (Variable(8), STRINGS64, "large_string", ["ab", "c"]),
        (Compressed("lz4", Variable(4)), struct.pack("<IBB", 23, 0xF0, 8) + STRINGS32, "string", ["ab", "c"]),
        (
            RunLengths(Plain(16), Plain(8, buffer=1)),
            struct.pack("<Q2H2B", 4, 7, 9, 1, 2),
            "uint16",
            [7, 9, 9],
        ),
        (FixedListOf(2, Plain(8)), b"abcd", "fixed_size_list:uint8:2", [[97, 98], [99, 100]]),
        (InlinePacked(8), b"\0", "uint8", [0, 0, 0]),
        (PackedBlocks(0, 64, True), b"", "uint64", [0]),
    ],
    ids=str,
)
def test_standalone_block(spec: Spec, data: bytes, kind: str, expected: list[Any]) -> None:
    assert values(spec, data, len(expected), kind) == expected


def test_strings_may_start_after_a_gap_and_not_at_zero() -> None:
    data = struct.pack("<5I", 32, 22, 1, 2, 3) + b"??" + b"abc"
    assert values(Variable(4), data, 2, "string") == ["b", "c"]
    assert values(Variable(4), struct.pack("<3I", 32, 12, 0), 0, "string") == []


@folded(
    ("what", "data", "count"),
    [
        ("cannot hold 3 strings", STRINGS32[:20], 3),
        ("cannot hold", b"", 0),
        ("offsets of 64 bits", struct.pack("<I", 64) + STRINGS32[4:], 2),
        ("bytes of strings at 16", STRINGS32[:4] + struct.pack("<I", 16) + STRINGS32[8:], 2),
        ("bytes of strings at 24", STRINGS32[:4] + struct.pack("<I", 24) + STRINGS32[8:], 2),
        ("bytes of strings at -1", STRINGS32[:4] + b"\xff" * 4 + STRINGS32[8:], 2),
        ("descend or leave", struct.pack("<5i", 32, 20, 0, 2, 4) + b"abc", 2),
        ("descend or leave", struct.pack("<5i", 32, 20, 0, 2, 1) + b"abc", 2),
        ("descend or leave", struct.pack("<5i", 32, 20, -1, 2, 3) + b"abc", 2),
    ],
)
def test_damaged_strings_are_refused(what: str, data: bytes, count: int) -> None:
    with pytest.raises(FormatError, match=what):
        values(Variable(4), data, count, "string")


@pytest.mark.parametrize(
    ("spec", "data", "count"),
    [
        (Plain(64), bytes(15), 2),
        (Plain(1), b"", 1),
        (RunLengths(Plain(16), Plain(8, buffer=1)), b"1234567", 1),
    ],
)
def test_short_blocks_are_truncated(spec: Spec, data: bytes, count: int) -> None:
    with pytest.raises(TruncatedError):
        values(spec, data, count, "uint64")


def test_runs_whose_values_pass_the_end_are_refused() -> None:
    for size in (3, 1 << 63):
        with pytest.raises(FormatError, match="pass the end"):
            values(RunLengths(Plain(16), Plain(8, buffer=1)), struct.pack("<QH", size, 1), 1, "uint16")


BYTE_RUNS = RunLengths(Plain(8), Plain(8, buffer=1))
TENS = Sequence(16, 10, 10)


def lz4(data: bytes) -> bytes:
    return struct.pack("<IB", len(data), len(data) << 4) + data


@folded(
    ("spec", "data", "expected"),
    [
        (RunLengths(TENS, Plain(32)), struct.pack("<Q2I", 0, 1, 4), [10, 20, 20, 20, 20]),
        (RunLengths(TENS, Sequence(32, 2, 1)), b"", [10, 10, 20, 20, 20]),
        (RunLengths(TENS, Sequence(32, 0, 5)), b"", [20] * 5),
        (RunLengths(TENS, Compressed("lz4", Plain(8))), struct.pack("<Q", 0) + lz4(b"\1\4"), [10, *[20] * 4]),
        (
            RunLengths(Compressed("lz4", Plain(16)), Plain(8, buffer=1)),
            struct.pack("<Q", 9) + lz4(struct.pack("<2H", 7, 8)) + b"\3\2",
            [7, 7, 7, 8, 8],
        ),
        (
            RunLengths(Plain(16), Compressed("lz4", Plain(8, buffer=1), 1)),
            struct.pack("<Q2H", 4, 7, 8) + lz4(b"\3\2"),
            [7, 7, 7, 8, 8],
        ),
        (
            RunLengths(PackedBlocks(16, 16, True), Plain(8, buffer=1)),
            struct.pack("<Q2H", 4, 7, 8) + b"\3\2",
            [7, 7, 7, 8, 8],
        ),
        (RunLengths(BYTE_RUNS, Plain(8, buffer=2)), struct.pack("<QQ5B", 10, 1, 6, 3, 3, 0, 2), [6] * 5),
        (Deltas(16, 3, BYTE_RUNS), struct.pack("<Q4B", 2, 1, 2, 3, 1), [3, 4, 5, 6, 8]),
        (Deltas(16, 3, Deltas(8, 1, BYTE_RUNS)), struct.pack("<Q4B", 2, 1, 2, 2, 1), [3, 4, 6, 9, 14]),
        (
            Compressed("lz4", Deltas(16, 3, BYTE_RUNS)),
            lz4(struct.pack("<Q4B", 2, 1, 2, 3, 1)),
            [3, 4, 5, 6, 8],
        ),
        (
            BlockDictionary(Deltas(8, 0, BYTE_RUNS), Plain(16, buffer=2), 3),
            struct.pack("<2QQ4B3H", 12, 6, 2, 0, 1, 2, 2, 70, 80, 90),
            [70, 70, 70, 80, 90],
        ),
        (
            BlockDictionary(BYTE_RUNS, RunLengths(TENS, Plain(8, buffer=2)), 3),
            struct.pack("<2QQ4BQ2B", 12, 10, 2, 2, 0, 2, 3, 0, 2, 1),
            [20, 20, 10, 10, 10],
        ),
    ],
    ids=str,
)
def test_coded_runs(spec: Spec, data: bytes, expected: list[int]) -> None:
    memory = np.frombuffer(b"#" + data, np.uint8)[1:]
    assert as_numbers(decode_block(spec, memory, len(expected), DEFAULT_LIMITS)).tolist() == expected


@folded(
    ("what", "spec", "data"),
    [
        ("not of 5 values", RunLengths(TENS, Plain(32)), struct.pack("<Q2I", 0, 2, 2)),
        ("not of 5 values", RunLengths(TENS, Plain(64)), struct.pack("<Q2Q", 0, 6, (1 << 64) - 1)),
        ("not of 5 values", RunLengths(TENS, Sequence(32, 2, 0)), b""),
        ("not of 5 values", RunLengths(TENS, Repeated(None)), b""),
        ("no integers", RunLengths(TENS, Repeated(b"abc")), b""),
        ("no integers", RunLengths(Plain(8), Plain(24)), struct.pack("<QB", 1, 7) + bytes(3)),
        ("of 1 bits", RunLengths(TENS, Compressed("lz4", Plain(1))), struct.pack("<Q", 0) + lz4(b"a")),
        ("runs", RunLengths(PackedBlocks(8, 8, True), Plain(8)), struct.pack("<Q2B", 9, 1, 5)),
        ("too short", Deltas(8, 0, InlinePacked(8)), b"\1"),
    ],
    ids=str,
)
def test_damaged_coded_runs_are_refused(what: str, spec: Spec, data: bytes) -> None:
    with pytest.raises(FormatError, match=what):
        decode_block(spec, np.frombuffer(data, np.uint8), 5, DEFAULT_LIMITS)


def test_one_value_has_no_differences_and_needs_no_bytes() -> None:
    for spec in (Deltas(16, 3, BYTE_RUNS), Deltas(16, 3, Deltas(8, 0, BYTE_RUNS))):
        block = decode_block(spec, np.empty(0, np.uint8), 1, DEFAULT_LIMITS)
        assert as_numbers(block).tolist() == [3]


def test_runs_of_unknown_number_are_unsupported() -> None:
    spec = RunLengths(TENS, PackedBlocks(3, 32, True))
    with pytest.raises(UnsupportedError, match="values and lengths are coded"):
        decode_block(spec, np.frombuffer(struct.pack("<QI", 0, 5), np.uint8), 5, DEFAULT_LIMITS)
    with pytest.raises(UnsupportedError, match="coded offsets"):
        decode_block(Variable(4, 0, TENS), np.empty(0, np.uint8), 5, DEFAULT_LIMITS)


def test_runs_that_take_no_bytes_are_bounded() -> None:
    for spec in (RunLengths(TENS, Sequence(32, 1, 0)), RunLengths(TENS, Sequence(64, 1 << 40, 0))):
        with pytest.raises(LimitError):
            decode_block(spec, np.empty(0, np.uint8), 1 << 40, Limits(page_bytes=1 << 20))


def test_nodes_without_chunks_are_unsupported() -> None:
    with pytest.raises(UnsupportedError, match="PackedFields"):
        decode_block(PackedFields(()), np.empty(0, np.uint8), 3, DEFAULT_LIMITS)
    with pytest.raises(FormatError, match="integers are needed"):
        as_numbers(VariableWidth(0, 4, b"\0\0\0\0", b""))


def test_ranges_are_cut_at_chunks_whatever_their_shape() -> None:
    rng = np.random.default_rng(5)
    for _ in range(200):
        starts = np.cumsum([0, *rng.integers(0, 5, rng.integers(1, 9))])
        rows = np.flatnonzero(rng.random(int(starts[-1])) < 0.5)
        selection = RowSelection.take(int(starts[-1]), rows)
        runs = runs_within(starts, *row_ranges(selection))
        assert (runs.counts > 0).all()
        within = [
            (page, row)
            for page, start, count in zip(runs.pages, runs.starts, runs.counts, strict=True)
            for row in range(start, start + count)
        ]
        assert [int(starts[page] + row) for page, row in within] == rows.tolist()
        assert all(row < starts[page + 1] - starts[page] for page, row in within)
        chunks, numbered = touched(runs)
        assert chunks.tolist() == sorted(set(runs.pages.tolist()))
        assert chunks[numbered.pages].tolist() == runs.pages.tolist()
