"""write_chunks, compiled and in NumPy: bytes of known pages, generated pages, and arguments that do not fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from lancecy.errors import FormatError
from tests.kernels.both import Kernels, assert_same, i64, memory_of

PLAIN, INLINE, TEXT, RUNS = 1, 2, 3, 4
NONE, RAW, BLOCKS, LEVEL_RUNS = 0, 1, 2, 3


def u16(*levels: int) -> NDArray[np.uint16]:
    return np.array(levels, np.uint16)


def written(
    kernels: Kernels, program: list[int], values: bytes, **arrays: Any
) -> tuple[int, bytes, bytes, Any]:
    """Result, chunks, words and index of a page."""
    num_chunks = -(-program[2] // program[1])
    out, words = np.full(1 << 12, 0xA5, np.uint8), np.empty(num_chunks * program[3], np.uint8)
    index = None if arrays.get("rep") is None else np.empty(2 * num_chunks, np.int64)
    given = {"offsets": None, "rep": None, "definition": None, **arrays}
    total = kernels.write_chunks(
        values=memory_of(values), program=i64(*program), out=out, out_words=words, out_index=index, **given
    )
    return total, out[: max(total, 0)].tobytes(), words.tobytes(), index


def test_numbers_with_a_null_as_the_sheet_shows_them(kernels: Kernels) -> None:
    values = np.array([1, 0, 3], np.int64).tobytes()
    for word_bytes, head in ((2, "030006001800 0000"), (4, "0300060018000000")):
        program = [PLAIN, 512, 3, word_bytes, 0xFFFF, 0, NONE, 0, RAW, 16, 0, 0, 64]
        total, chunk, words, _ = written(kernels, program, values, definition=u16(0, 1, 0))
        assert (total, words) == (40, (64).to_bytes(word_bytes, "little"))
        assert chunk == bytes.fromhex(head) + bytes.fromhex("0000010000000000") + values


def test_lists_with_the_levels_and_the_index_of_the_sheet(kernels: Kernels) -> None:
    values = np.array([1, 2, 3], np.int64).tobytes()
    program = [PLAIN, 512, 3, 2, 0, 1, RAW, 16, RAW, 16, 0, 0, 64]
    levels = {"rep": u16(1, 0, 1, 1, 1), "definition": u16(0, 0, 2, 1, 0)}
    _, chunk, _, index = written(kernels, program, values, **levels)
    assert chunk[:8] == bytes.fromhex("05000A000A001800")
    assert chunk[8:18] == levels["rep"].tobytes()
    assert index.tolist() == [4, 0]


def test_rows_may_go_on_in_the_next_chunk(kernels: Kernels) -> None:
    program = [PLAIN, 2, 5, 2, 0, 1, RAW, 16, NONE, 0, 0, 0, 8]
    *_, words, index = written(kernels, program, bytes(5), rep=u16(1, 0, 0, 1, 0))
    # Rows of three and two values in chunks of two: the first goes on, and ends in the second with one value.
    assert index.tolist() == [0, 2, 1, 1, 1, 0]
    assert [word & 15 for word in np.frombuffer(words, np.uint16)] == [1, 1, 0]


def test_strings_count_from_the_start_of_their_buffer(kernels: Kernels) -> None:
    offsets = memory_of(np.array([0, 1, 3, 6], np.int32))
    program = [TEXT, 4096, 3, 2, 0, 0, NONE, 0, NONE, 0, 4]
    _, chunk, _, _ = written(kernels, program, b"abbccc", offsets=offsets)
    assert np.frombuffer(chunk, np.int32, 4, 8).tolist() == [16, 17, 19, 22]
    assert chunk[24:32] == b"abbccc\0\0"
    assert int.from_bytes(chunk[2:4], "little") == 24


def test_runs_are_split_at_255(kernels: Kernels) -> None:
    program = [RUNS, 4096, 300, 2, 0, 0, NONE, 0, NONE, 0, 2]
    _, chunk, _, _ = written(kernels, program, np.full(300, 7, np.uint16).tobytes())
    assert np.frombuffer(chunk, np.uint16, 3).tolist() == [0, 4, 2]
    assert chunk[8:12] == b"\7\0\7\0"
    assert list(chunk[16:18]) == [255, 45]


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_packed_integers_are_unpacked_again(kernels: Kernels, bits: int) -> None:
    rng = np.random.default_rng(bits)
    values = rng.integers(0, 1 << min(bits - 1, 20), 1500).astype(f"<u{bits // 8}")
    program = [INLINE, 1024, 1500, 4, 0, 0, NONE, 0, NONE, 0, bits // 8]
    out, words = np.empty(1 << 14, np.uint8), np.empty(8, np.uint8)
    total = kernels.write_chunks(memory_of(values), i64(*program), None, None, None, out, words, None)
    first = ((int(words.view(np.uint32)[0]) >> 4) + 1) * 8
    back = np.empty(1500, values.dtype)
    spans = (i64(8, first + 8), i64(first - 8, total - first - 8), i64(1024, 476))
    kernels.unpack_inline(out, *spans, bits, i64(0, 1), i64(0, 0), i64(1024, 476), back.view(np.uint8))
    assert np.array_equal(back, values)


def test_more_levels_than_a_head_can_state_are_not_written(kernels: Kernels) -> None:
    program = [PLAIN, 512, 1, 4, 0, 1, RAW, 16, RAW, 16, 0, 0, 64]
    levels = {"rep": np.ones(40_000, np.uint16), "definition": np.append(u16(0), np.ones(39_999, np.uint16))}
    out, words, index = np.empty(1 << 18, np.uint8), np.empty(4, np.uint8), np.empty(2, np.int64)
    arrays = (levels["rep"], levels["definition"], out, words, index)
    assert kernels.write_chunks(memory_of(bytes(8)), i64(*program), None, *arrays) == -1


def test_descending_offsets_are_refused(kernels: Kernels) -> None:
    program = [TEXT, 2, 4, 2, 0, 0, NONE, 0, NONE, 0, 4]
    offsets = memory_of(np.array([0, 1, 2, 1, 1], np.int32))
    with pytest.raises(FormatError) as caught:
        written(kernels, program, b"abc", offsets=offsets)
    assert caught.value.position == 2


@st.composite
def pages(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    """Pages of any kind, most of them whole, some with a number that cannot be."""
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    kind = draw(st.sampled_from([PLAIN, INLINE, TEXT, RUNS]))
    num_slots = draw(st.sampled_from([0, 1, 5, 40, 300, 1100]))
    unit = draw(st.sampled_from([4, 8] if kind == TEXT else [1, 2, 4, 8]))
    slots = 1024 if kind == INLINE else draw(st.sampled_from([2, 64, 4096]))
    word_bytes = draw(st.sampled_from([2, 4]))
    values = rng.integers(0, draw(st.sampled_from([1, 3, 256])), num_slots * unit).astype(np.uint8)
    offsets, parts = None, []
    if kind == TEXT:
        offsets = np.sort(rng.integers(0, values.size + 1, num_slots + 1)).astype(f"<i{unit}").view(np.uint8)
    if kind == PLAIN:
        parts = [0, 8 * unit, *draw(st.sampled_from([(), (0, 4), (1, 8)]))]
    has_rep, has_def = draw(st.booleans()), draw(st.booleans())
    visible_max = 1 if has_rep else 0xFFFF
    rep = definition = None
    if has_def:
        hidden = rng.integers(0, 40 if has_rep else 1)
        definition = rng.permutation(np.append(rng.integers(0, 2, num_slots), np.full(hidden, 2))).astype(
            np.uint16
        )
    if has_rep:
        rep = rng.integers(0, 2, num_slots if definition is None else definition.size).astype(np.uint16)
    codecs = [*([draw(st.integers(1, 3)), 2] if has_rep else [0, 0])]
    codecs += [*([draw(st.integers(1, 3)), 2] if has_def else [0, 0])]
    program = [kind, slots, num_slots, word_bytes, visible_max, 1, *codecs, unit, *parts]
    if draw(st.integers(0, 3)) == 0:
        at = draw(st.integers(0, len(program) - 1))
        program[at] = draw(st.sampled_from([-1, 0, 1, 2, 3, 7, 1 << 40, -(1 << 63)]))
    num_chunks = -(-num_slots // slots)
    inputs = {
        "values": values,
        "program": i64(*program),
        "offsets": offsets,
        "rep": rep,
        "definition": definition,
    }
    outs: dict[str, Any] = {
        "out": (draw(st.sampled_from([1 << 15, 1 << 15, 1 << 15, 100, 0])), np.uint8),
        "out_words": (num_chunks * word_bytes, np.uint8),
    }
    if has_rep:
        outs["out_index"] = (2 * num_chunks, np.int64)
    else:
        inputs["out_index"] = None
    return inputs, outs


@given(pages())
def test_both_write_the_same(call: tuple[dict[str, Any], dict[str, Any]]) -> None:
    assert_same("write_chunks", *call)
