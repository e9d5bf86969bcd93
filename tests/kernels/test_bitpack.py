"""unpack_inline and unpack_blocks, compiled and in NumPy."""

from __future__ import annotations

import base64
import zlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from lancecy.errors import FormatError, TruncatedError
from tests.helpers.folded import folded
from tests.kernels.both import Kernels, assert_same, i64, memory_of
from tests.kernels.chunks import Run, all_runs, chunk_arrays, perhaps_spoiled, run_arrays, wanted

BITS = [8, 16, 32, 64]
WIDTHS = [(bits, width) for bits in BITS for width in range(bits + 1)]
ORDER = (0, 4, 2, 6, 1, 5, 3, 7)

# What pylance 14 wrote for the 1,024 numbers 0 1 2 3 4 0 1 2 ... of an int64 column in a 2.1 file.
FROM_PYLANCE = zlib.decompress(
    base64.b85decode(
        "c-pm&u?+wa5Je?A*NPbwrZ9n0YZ!yrzzimHFJgpKeR(gJ=iPffmzct-Yd4)TPaQgAlF95@q0Y6fJSZ-d9~2jg%N1NJk49V?"
        "acRV*5&9dgybI%<fH?"
    )
)


def numbers(bits: int, width: int, count: int, seed: int = 0) -> NDArray[Any]:
    """Random integers below 2**width."""
    whole = np.random.default_rng(seed).integers(0, 2**64, count, np.uint64, endpoint=False)
    return (whole >> np.uint64(64 - width) if width else whole * np.uint64(0)).astype(f"<u{bits // 8}")


def packed(values: NDArray[Any], width: int) -> bytes:
    """One block of up to 1,024 values, put together bit by bit as the format's formula says."""
    bits = values.itemsize * 8
    lanes = 1024 // bits
    padded = [*values.tolist(), *[0] * (1024 - values.size)]
    words = [0] * (lanes * width)
    for row in range(bits):
        word, shift = divmod(row * width, bits)
        for lane in range(lanes):
            value = padded[ORDER[row // 8] * 16 + row % 8 * 128 + lane] << shift
            if width:
                words[lanes * word + lane] |= value % 2**bits
            if value >> bits:
                words[lanes * (word + 1) + lane] |= value >> bits
    return np.array(words, values.dtype).tobytes()


def inline_chunk(values: NDArray[Any], width: int) -> bytes:
    return width.to_bytes(values.itemsize, "little") + packed(values, width)


def blocks(values: NDArray[Any], width: int, *, raw_tail: bool = False) -> bytes:
    full = values.size // 1024 * 1024 if raw_tail else values.size
    parts = [packed(values[at : min(at + 1024, full)], width) for at in range(0, full, 1024)]
    return b"".join(parts) + values[full:].tobytes()


def inline(kernels: Kernels, call: dict[str, Any], bits: int, runs: list[Run]) -> NDArray[Any]:
    out = np.full(sum(run.count for run in runs) * bits // 8, 0x77, np.uint8)
    kernels.unpack_inline(**call, bits=bits, **run_arrays(runs), out=out)
    return out.view(f"<u{bits // 8}")


def outline(
    kernels: Kernels, call: dict[str, Any], packing: tuple[int, int, bool], runs: list[Run]
) -> NDArray[Any]:
    bits, width, raw_tail = packing
    out = np.full(sum(run.count for run in runs) * bits // 8, 0x77, np.uint8)
    kernels.unpack_blocks(
        **call, bits=bits, packed_bits=width, raw_tail=raw_tail, **run_arrays(runs), out=out
    )
    return out.view(f"<u{bits // 8}")


PIECES = [Run(0, 0, 1024), Run(1, 0, 300), Run(0, 1023, 1), Run(0, 5, 3), Run(1, 60, 200), Run(0, 127, 130)]


@folded(("bits", "width"), WIDTHS)
def test_inline_blocks_of_every_width_are_unpacked(kernels: Kernels, bits: int, width: int) -> None:
    values = [numbers(bits, width, 1024), numbers(bits, width, 300, seed=1)]
    call = chunk_arrays([inline_chunk(block, width) for block in values], [1024, 300], gap=b"odd")
    result = inline(kernels, call, bits, PIECES)
    np.testing.assert_array_equal(result, wanted(values, PIECES))


@folded("raw_tail", [False, True])
@folded(("bits", "width"), WIDTHS)
def test_blocks_of_every_width_are_unpacked(kernels: Kernels, bits: int, width: int, raw_tail: bool) -> None:
    values = [numbers(bits, width, 2100), numbers(bits, width, 300, seed=1)]
    chunks = [blocks(part, width, raw_tail=raw_tail) for part in values]
    runs = [Run(0, 0, 2100), Run(1, 0, 300), Run(0, 1020, 8), Run(0, 2040, 60), Run(0, 2099, 1)]
    call = chunk_arrays(chunks, [2100, 300], gap=b"odd")
    np.testing.assert_array_equal(outline(kernels, call, (bits, width, raw_tail), runs), wanted(values, runs))


def test_a_block_that_pylance_wrote_is_unpacked(kernels: Kernels) -> None:
    call = chunk_arrays([FROM_PYLANCE], [1024])
    np.testing.assert_array_equal(inline(kernels, call, 64, [Run(0, 0, 1024)]), np.arange(1024) % 5)


@pytest.mark.slow
@folded("bits", BITS)
@folded("count", [1, 2, 3, 4, 5, 17, 64])
def test_any_run_of_a_block_is_what_the_whole_block_says(kernels: Kernels, bits: int, count: int) -> None:
    values = numbers(bits, bits - 3, 1024)
    call = chunk_arrays([inline_chunk(values, bits - 3)], [1024])
    runs = [Run(0, start, count) for start in range(0, 1025 - count, 1 if count < 5 else 7)]
    np.testing.assert_array_equal(inline(kernels, call, bits, runs), wanted([values], runs))


def test_padding_after_a_block_is_not_looked_at(kernels: Kernels) -> None:
    values = numbers(32, 9, 1000)
    call = chunk_arrays([inline_chunk(values, 9) + b"\xfe" * 12], [1000])
    np.testing.assert_array_equal(inline(kernels, call, 32, [Run(0, 0, 1000)]), values)


@folded("tail", [1, 100, 575, 576, 577, 1023])
def test_the_length_tells_whether_a_tail_is_packed(kernels: Kernels, tail: int) -> None:
    """At width 9 of 16 bits a block has 576 words, as many as a raw tail of 576 values."""
    values = numbers(16, 9, 1024 + tail)
    for is_raw in (False, True):
        chunk = blocks(values, 9, raw_tail=is_raw)
        if is_raw or tail != 576:
            call = chunk_arrays([chunk], [values.size])
            runs = all_runs([values.size])
            np.testing.assert_array_equal(outline(kernels, call, (16, 9, True), runs), values)


def test_a_tail_in_2_0_is_packed_whatever_the_length_says(kernels: Kernels) -> None:
    values = numbers(16, 9, 576)
    call = chunk_arrays([packed(values, 9)], [576])
    np.testing.assert_array_equal(outline(kernels, call, (16, 9, False), [Run(0, 0, 576)]), values)


def test_chunks_that_no_run_names_may_be_anything(kernels: Kernels) -> None:
    values = numbers(8, 3, 1024)
    call = chunk_arrays([inline_chunk(values, 3)], [1024])
    call["positions"] = i64(-5, 0, 2**60)
    call["lengths"] = i64(9, call["lengths"][0], -1)
    call["counts"] = i64(-1, 1024, 2**62)
    np.testing.assert_array_equal(inline(kernels, call, 8, [Run(1, 2, 9)]), values[2:11])
    assert inline(kernels, call, 8, [Run(99, -7, 0)]).size == 0


@folded("run", [Run(1, 0, 1), Run(-1, 0, 1), Run(0, -1, 2), Run(0, 100, 1), Run(0, 2**63 - 1, 1)])
def test_a_run_outside_its_chunk_is_refused(kernels: Kernels, run: Run) -> None:
    call = chunk_arrays([inline_chunk(numbers(8, 3, 100), 3)], [100])
    runs = [Run(0, 0, 1), run]
    with pytest.raises(FormatError, match="run 1 is not within") as caught:
        inline(kernels, call, 8, runs)
    assert caught.value.position == 1
    with pytest.raises(FormatError, match="run 1 is not within"):
        outline(kernels, call, (8, 3, False), runs)


@folded("bits", BITS)
def test_a_width_beyond_the_words_is_refused(kernels: Kernels, bits: int) -> None:
    for width in {bits + 1, 2**bits - 1}:
        chunk = width.to_bytes(bits // 8, "little") + bytes(128 * 65)
        call = chunk_arrays([inline_chunk(numbers(bits, 1, 9), 1), chunk], [9, 9])
        with pytest.raises(FormatError, match="chunk 1 claims an impossible bit width") as caught:
            inline(kernels, call, bits, [Run(0, 0, 9), Run(1, 0, 1)])
        assert caught.value.position == 1


def test_more_values_than_a_block_has_are_refused(kernels: Kernels) -> None:
    call = chunk_arrays([inline_chunk(numbers(8, 1, 1024), 1)], [1025])
    with pytest.raises(FormatError, match="more than 1024"):
        inline(kernels, call, 8, [Run(0, 0, 1)])


@folded("bits", BITS)
@folded("missing", [1, 130, 100_000])
def test_a_block_that_is_cut_off_is_refused(kernels: Kernels, bits: int, missing: int) -> None:
    chunk = inline_chunk(numbers(bits, 5, 1024), 5)
    call = chunk_arrays([chunk[: max(0, len(chunk) - missing)]], [1024])
    with pytest.raises(TruncatedError, match="chunk 0 is too short"):
        inline(kernels, call, bits, [Run(0, 3, 1)])
    call = chunk_arrays([chunk], [1024])
    call["memory"] = memory_of(call["memory"][: max(0, len(chunk) - missing)])
    with pytest.raises(TruncatedError, match="chunk 0 passes the end"):
        inline(kernels, call, bits, [Run(0, 3, 1)])


@folded("raw_tail", [False, True])
@folded("count", [3000, 2**40, 2**62, 2**63 - 1])
def test_blocks_for_fewer_values_than_claimed_are_refused(
    kernels: Kernels, count: int, raw_tail: bool
) -> None:
    call = chunk_arrays([blocks(numbers(64, 64, 2048), 64) + bytes(7)], [count])
    with pytest.raises(TruncatedError, match="chunk 0 is too short"):
        outline(kernels, call, (64, 64, raw_tail), [Run(0, 0, 2)])


@folded(("bits", "width"), [(0, 0), (7, 1), (24, 3), (128, 3), (8, 9), (64, 65), (16, -1)])
def test_numbers_of_bits_that_do_not_exist_are_the_callers_mistake(
    kernels: Kernels, bits: int, width: int
) -> None:
    arrays = {**chunk_arrays([bytes(200)], [10]), **run_arrays([]), "out": np.empty(0, np.uint8)}
    with pytest.raises(ValueError, match="bits") as caught:
        kernels.unpack_blocks(**arrays, bits=bits, packed_bits=width, raw_tail=True)
    assert not isinstance(caught.value, FormatError)
    if bits not in BITS:
        with pytest.raises(ValueError, match="bits must be"):
            kernels.unpack_inline(**arrays, bits=bits)


@folded("size", [0, 19, 21, 22])
def test_the_output_has_to_fit(kernels: Kernels, size: int) -> None:
    call = {**chunk_arrays([inline_chunk(numbers(16, 1, 20), 1)], [20]), **run_arrays([Run(0, 0, 10)])}
    with pytest.raises(ValueError, match="out does not") as caught:
        kernels.unpack_inline(**call, bits=16, out=np.empty(size, np.uint8))
    assert not isinstance(caught.value, FormatError)
    with pytest.raises(ValueError, match="out does not"):
        kernels.unpack_blocks(**call, bits=16, packed_bits=0, raw_tail=False, out=np.empty(size, np.uint8))


@folded("key", ["lengths", "counts", "run_starts", "run_counts"])
def test_arrays_of_different_lengths_are_the_callers_mistake(kernels: Kernels, key: str) -> None:
    call = {**chunk_arrays([inline_chunk(numbers(8, 1, 9), 1)], [9]), **run_arrays([Run(0, 0, 9)])}
    call[key] = np.append(call[key], call[key])
    with pytest.raises(ValueError, match="differ in length") as caught:
        kernels.unpack_inline(**call, bits=8, out=np.empty(9, np.uint8))
    assert not isinstance(caught.value, FormatError)


@st.composite
def inline_calls(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    bits = draw(st.sampled_from(BITS))
    counts = draw(st.lists(st.integers(0, 1024), max_size=3))
    chunks = []
    for seed, count in enumerate(counts):
        width = draw(st.integers(0, bits))
        chunks.append(inline_chunk(numbers(bits, width, count, seed), width))
    call = chunk_arrays(chunks, counts, gap=draw(st.binary(max_size=5)))
    return perhaps_spoiled(draw, {**call, "bits": bits}, counts, bits // 8)


@given(inline_calls())
def test_unpack_inline_does_what_its_twin_does(call: tuple[dict[str, Any], dict[str, Any]]) -> None:
    assert_same("unpack_inline", *call)


@st.composite
def block_calls(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    bits = draw(st.sampled_from(BITS))
    width = draw(st.integers(0, bits))
    counts = draw(st.lists(st.integers(0, 2500), max_size=2))
    raw_tail = draw(st.booleans())
    chunks = [
        blocks(numbers(bits, width, count, count), width, raw_tail=raw_tail and draw(st.booleans()))
        for count in counts
    ]
    call = chunk_arrays(chunks, counts, gap=draw(st.binary(max_size=5)))
    packing = {"bits": bits, "packed_bits": width, "raw_tail": raw_tail}
    return perhaps_spoiled(draw, {**call, **packing}, counts, bits // 8)


@given(block_calls())
def test_unpack_blocks_does_what_its_twin_does(call: tuple[dict[str, Any], dict[str, Any]]) -> None:
    assert_same("unpack_blocks", *call)
