"""unpack_stream, compiled and in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from lancecy.errors import FormatError, TruncatedError
from tests.helpers.folded import folded
from tests.kernels.both import Kernels, assert_same, i64, memory_of
from tests.kernels.chunks import EXTREMES, cut, hostile

BITS = [8, 16, 32, 64]
WIDTHS = [(bits, width) for bits in BITS for width in range(1, bits + 1)]


def numbers(bits: int, width: int, count: int, *, signed: bool, seed: int = 0) -> NDArray[Any]:
    """Random integers of ``width`` bits, including the sign bit if signed."""
    whole = np.random.default_rng(seed).integers(0, 2**64, count, np.uint64)
    if signed:
        return (whole.view(np.int64) >> (64 - width)).astype(f"<i{bits // 8}")
    return (whole >> np.uint64(64 - width)).astype(f"<u{bits // 8}")


def stream_of(values: NDArray[Any], width: int, *, skip: int = 0) -> NDArray[np.uint8]:
    """The values as one large number, after ``skip`` bits that are all set."""
    whole = (1 << skip) - 1
    for i, value in enumerate(values.tolist()):
        whole |= (value % 2**width) << (skip + i * width)
    return memory_of(whole.to_bytes((skip + values.size * width + 7) // 8, "little"))


def unpack(
    kernels: Kernels, memory: NDArray[np.uint8], runs: list[tuple[int, int, int]], kind: tuple[int, int, bool]
) -> NDArray[Any]:
    width, bits, signed = kind
    positions, offsets, counts = (i64(*column) for column in zip(*runs, strict=True))
    out = np.full(int(counts.sum()) * bits // 8, 0x77, np.uint8)
    kernels.unpack_stream(memory, positions, offsets, counts, width, bits, signed, out)
    return out.view(f"<{'i' if signed else 'u'}{bits // 8}")


@folded("signed", [False, True])
@folded(("bits", "width"), WIDTHS)
def test_streams_of_every_width_are_unpacked(kernels: Kernels, bits: int, width: int, signed: bool) -> None:
    values = numbers(bits, width, 75, signed=signed)
    memory = stream_of(values, width)
    runs = [(0, 0, 75), (0, 3 * width, 70), (0, 74 * width, 1), (0, width, 0)]
    result = unpack(kernels, memory, runs, (width, bits, signed))
    np.testing.assert_array_equal(result, np.concatenate([values, values[3:73], values[74:]]))


@folded("skip", range(17))
@folded(("bits", "width"), [(8, 7), (8, 8), (16, 14), (16, 15), (32, 29), (32, 31), (64, 63)])
def test_a_stream_may_begin_at_any_bit(kernels: Kernels, bits: int, width: int, skip: int) -> None:
    values = numbers(bits, width, 40, signed=True)
    memory = stream_of(values, width, skip=skip)
    result = unpack(kernels, memory, [(0, skip, 40)], (width, bits, True))
    np.testing.assert_array_equal(result, values)
    start = skip // 8
    result = unpack(kernels, memory, [(start, skip - 8 * start, 40)], (width, bits, True))
    np.testing.assert_array_equal(result, values)


def test_the_highest_bit_is_a_sign_only_where_there_are_signs(kernels: Kernels) -> None:
    memory = memory_of(b"\xff")
    assert unpack(kernels, memory, [(0, 0, 8)], (1, 8, True)).tolist() == [-1] * 8
    assert unpack(kernels, memory, [(0, 0, 8)], (1, 8, False)).tolist() == [1] * 8


def test_several_streams_follow_each_other(kernels: Kernels) -> None:
    first, second = (numbers(32, 11, count, signed=False, seed=count) for count in (30, 9))
    memory = memory_of(stream_of(first, 11), stream_of(second, 11))
    runs = [(42, 0, 9), (0, 0, 30), (42, 22, 3)]
    result = unpack(kernels, memory, runs, (11, 32, False))
    np.testing.assert_array_equal(result, np.concatenate([second, first, second[2:5]]))


@folded(("position", "offset"), [(-1, 0), (0, -1), (-(2**63), 5), (5, -(2**63))])
def test_a_negative_place_is_refused_unless_nothing_is_there(
    kernels: Kernels, position: int, offset: int
) -> None:
    memory = memory_of(bytes(16))
    with pytest.raises(FormatError, match="run 1 has a negative") as caught:
        unpack(kernels, memory, [(0, 0, 1), (position, offset, 1)], (3, 8, False))
    assert caught.value.position == 1
    assert unpack(kernels, memory, [(position, offset, 0)], (3, 8, False)).size == 0


@folded(("position", "offset"), [(2, 6), (3, 0), (0, 22), (2**63 - 1, 0), (0, 2**63 - 1), (2**62, 2**63 - 8)])
def test_a_stream_beyond_the_end_is_refused(kernels: Kernels, position: int, offset: int) -> None:
    with pytest.raises(TruncatedError, match="run 1 passes the end"):
        unpack(kernels, memory_of(bytes(3)), [(0, 21, 1), (position, offset, 1)], (3, 8, False))


@folded(("bits", "width"), [(8, 0), (8, 9), (64, 65), (12, 4), (0, 0), (16, -1)])
def test_widths_that_do_not_exist_are_the_callers_mistake(kernels: Kernels, bits: int, width: int) -> None:
    with pytest.raises(ValueError, match="bits") as caught:
        kernels.unpack_stream(memory_of(bytes(9)), i64(), i64(), i64(), width, bits, False, np.empty(0, "u1"))
    assert not isinstance(caught.value, FormatError)


@folded("size", [0, 6, 10, 9])
def test_the_output_has_to_fit(kernels: Kernels, size: int) -> None:
    with pytest.raises(ValueError, match="out does not") as caught:
        kernels.unpack_stream(memory_of(bytes(9)), i64(0), i64(0), i64(4), 3, 16, False, np.empty(size, "u1"))
    assert not isinstance(caught.value, FormatError)


@pytest.mark.parametrize("sizes", [(2, 1, 1), (1, 2, 1), (1, 1, 2)])
def test_arrays_of_different_lengths_are_the_callers_mistake(
    kernels: Kernels, sizes: tuple[int, int, int]
) -> None:
    arrays = [np.zeros(size, np.int64) for size in sizes]
    with pytest.raises(ValueError, match="differ in length"):
        kernels.unpack_stream(memory_of(bytes(9)), *arrays, 3, 8, False, np.empty(0, "u1"))


@st.composite
def calls(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    bits = draw(st.sampled_from(BITS))
    width = draw(st.integers(1, bits))
    runs = draw(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 70), st.integers(0, 40)), max_size=5))
    memory = cut(draw, memory_of(np.random.default_rng(width).bytes(40 * bits // 8 + 40)))
    columns = {
        "positions": i64(*(run[0] for run in runs)),
        "bit_offsets": i64(*(run[1] for run in runs)),
        "counts": i64(*(run[2] for run in runs)),
    }
    if draw(st.booleans()) and runs:
        key = draw(st.sampled_from(sorted(columns)))
        columns[key][draw(st.integers(0, len(runs) - 1))] = draw(
            st.one_of(hostile, st.sampled_from(EXTREMES))
        )
    size = sum(run[2] for run in runs) * bits // 8 + draw(st.sampled_from([0, 0, 0, 0, bits // 8, 1]))
    kind = {"packed_bits": width, "bits": bits, "signed": draw(st.booleans())}
    return {"memory": memory, **columns, **kind}, {"out": (size, np.uint8)}


@given(calls())
def test_unpack_stream_does_what_its_twin_does(call: tuple[dict[str, Any], dict[str, Any]]) -> None:
    assert_same("unpack_stream", *call)
