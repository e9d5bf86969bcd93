"""The compiled kernels against their NumPy twins on random input, hostile input included."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.kernels.both import assert_same, i64, lay_out, memory_of, pages

EXTREMES = [-(2**63), -(2**62), -9, -8, -1, 255, 2**31 - 1, 2**32, 2**60, 2**61, 2**62, 2**63 - 8, 2**63 - 1]
BOUNDS_DTYPES = [np.int64, np.uint64, np.float64]
CODE_DTYPES = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]

memories = st.binary(max_size=120).map(memory_of)
small = st.integers(0, 130)
hostile = st.one_of(small, st.sampled_from(EXTREMES))
slips = st.sampled_from([0, 0, 0, 0, 0, 1, -1])
offset_dtypes = st.sampled_from([np.int32, np.int64])


def column(draw: st.DrawFn, numbers: st.SearchStrategy[int], size: int) -> NDArray[np.int64]:
    return i64(*draw(st.lists(numbers, min_size=size, max_size=size)))


def size_for(draw: st.DrawFn, counts: NDArray[np.int64], unit: int = 1) -> int:
    """An output of the size that valid counts require; sometimes one element too many or too few."""
    total = int(counts[(counts >= 0) & (counts < 1000)].sum())
    return max(0, (total + unit - 1) // unit + draw(slips))


@st.composite
def span_calls(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    num_runs = draw(st.integers(0, 6))
    numbers = draw(st.sampled_from([st.integers(0, 20), hostile]))
    positions, lengths = column(draw, numbers, num_runs), column(draw, numbers, num_runs)
    inputs = {"memory": draw(memories), "positions": positions, "lengths": lengths}
    return inputs, {"out": (size_for(draw, lengths), np.uint8)}


@given(span_calls())
def test_copy_spans(call: tuple[dict[str, Any], dict[str, Any]]) -> None:
    assert_same("copy_spans", *call)


@given(
    memories,
    st.lists(st.one_of(st.integers(0, 60), hostile), max_size=20),
    st.sampled_from([-1, 0, 1, 2, 3, 4, 8, 16, 20]),
    slips,
)
def test_gather_fixed(memory: NDArray[np.uint8], positions: list[int], width: int, slip: int) -> None:
    size = max(0, len(positions) * width + slip)
    inputs = {"memory": memory, "positions": i64(*positions), "width": width}
    assert_same("gather_fixed", inputs, {"out": (size, np.uint8)})


@st.composite
def bit_calls(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    num_runs = draw(st.integers(0, 6))
    numbers = draw(st.sampled_from([st.integers(0, 40), small, hostile]))
    names = ("positions", "bit_offsets", "counts")
    inputs = {name: column(draw, numbers, num_runs) for name in names}
    return {"memory": draw(memories), **inputs}, {"out": (size_for(draw, inputs["counts"], 8), np.uint8)}


@given(memories, st.one_of(small, hostile), st.one_of(st.integers(0, 300), hostile), st.integers(0, 300))
def test_find_bits(bits: NDArray[np.uint8], first: int, count: int, room: int) -> None:
    assert_same("find_bits", {"bits": bits, "first": first, "count": count}, {"out": (room, np.int64)})


@given(memories, st.integers(-1, 9), memories, st.integers(-2, 60), st.integers(-1, 60), st.integers(0, 300))
def test_filter_fixed(
    values: NDArray[np.uint8], width: int, bits: NDArray[np.uint8], first: int, count: int, room: int
) -> None:
    if width > 0 and count >= 0:
        values = np.resize(values, count * width) if values.size else np.zeros(count * width, np.uint8)
    inputs = {"values": values, "width": width, "bits": bits, "first": first, "count": count}
    assert_same("filter_fixed", inputs, {"out": (room, np.uint8)})


@given(
    st.lists(st.integers(-3, 40) | hostile, max_size=40),
    st.booleans(),
    st.sampled_from(["<i4", "<i8"]),
    memories,
    st.integers(-1, 60),
    st.integers(0, 50),
    st.integers(0, 9),
)
def test_filter_lists(
    offsets: list[int], ascend: bool, dtype: str, bits: NDArray[np.uint8], first: int, room: int, size: int
) -> None:
    limits = np.iinfo(dtype)
    within = np.clip(sorted(offsets) if ascend else offsets, limits.min, limits.max).astype(dtype)
    inputs = {"offsets": within, "bits": bits, "first": first}
    assert_same("filter_lists", inputs, {"out_offsets": (room, dtype), "out_bits": (size, np.uint8)})


@given(bit_calls())
def test_copy_bits(call: tuple[dict[str, Any], dict[str, Any]]) -> None:
    assert_same("copy_bits", *call)


@st.composite
def offset_runs(
    draw: st.DrawFn, width: int
) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]:
    """Memory, positions and counts of valid pages of offsets, each damaged in at most one place."""
    lengths = draw(st.lists(st.lists(st.integers(0, 4), max_size=80), max_size=5))
    arrays = pages(lengths, first=draw(st.integers(0, 9)), dtype=f"<i{width}")
    memory, positions = lay_out(arrays, gap=draw(st.binary(max_size=9)))
    counts = i64(*(len(page) for page in lengths))
    if draw(st.booleans()) and memory.size >= width:
        memory = memory.copy()
        at = draw(st.integers(0, memory.size - width))
        number = draw(hostile) % 2 ** (8 * width)
        memory[at : at + width] = np.frombuffer(number.to_bytes(width, "little"), np.uint8)
    if draw(slips) and positions.size:
        array = draw(st.sampled_from([positions, counts]))
        array[draw(st.integers(0, positions.size - 1))] = draw(hostile)
    return memory, positions, counts


def offset_outs(draw: st.DrawFn, counts: NDArray[np.int64]) -> dict[str, tuple[int, Any]]:
    runs = max(0, counts.size + draw(slips) * draw(slips))
    outs = {"out_offsets": (size_for(draw, counts) + 1, draw(offset_dtypes))}
    return {**outs, "out_starts": (runs, np.int64), "out_lengths": (counts.size, np.int64)}


@st.composite
def varwidth_calls(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    memory, positions, counts = draw(offset_runs(8))
    outs = offset_outs(draw, counts)
    bits = max(0, (outs["out_offsets"][0] + 6) // 8 + draw(slips) * draw(slips))
    inputs = {
        "memory": memory,
        "positions": positions,
        "counts": counts,
        "file_size": draw(st.one_of(st.just(2**40), st.integers(-1, 1500), st.just(2**63 - 1))),
        "nullable": draw(st.booleans()),
    }
    return inputs, {**outs, "out_validity": (bits, np.uint8)}


@given(varwidth_calls())
def test_varwidth_offsets(call: tuple[dict[str, Any], dict[str, Any]]) -> None:
    assert_same("varwidth_offsets", *call)


@st.composite
def list_calls(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    width = draw(st.sampled_from([4, 4, 8, 8, 8, 3]))
    memory, positions, counts = draw(offset_runs(4 if width == 4 else 8))
    bound = draw(st.sampled_from([st.just(1700), st.integers(0, 900), hostile]))
    inputs = {
        "memory": memory,
        "positions": positions,
        "counts": counts,
        "width": width,
        "child_lengths": column(draw, bound, max(0, counts.size + draw(slips) * draw(slips))),
    }
    return inputs, offset_outs(draw, counts)


@given(list_calls())
def test_list_offsets(call: tuple[dict[str, Any], dict[str, Any]]) -> None:
    assert_same("list_offsets", *call)


@given(
    st.sampled_from(CODE_DTYPES),
    st.one_of(st.integers(-1, 300), st.sampled_from([2**31, 2**63 - 1])),
    st.data(),
)
def test_check_codes(dtype: str, num_values: int, data: st.DataObject) -> None:
    limits = np.iinfo(dtype)
    top = max(0, min(num_values - 1, int(limits.max)))
    codes = st.integers(0, top)
    if data.draw(st.booleans()):
        codes = st.one_of(codes, st.integers(int(limits.min), int(limits.max)))
    array = np.array(data.draw(st.lists(codes, max_size=150)), dtype)
    inputs = {"codes": array, "num_values": num_values}
    assert_same("check_codes", inputs, {})
    size = max(0, (array.size + 7) // 8 + data.draw(slips))
    assert_same("check_codes", inputs, {"out_validity": (size, np.uint8)})


@given(st.sampled_from(BOUNDS_DTYPES), st.integers(0, 5), st.data())
def test_compare_bounds(dtype: Any, op: int, data: st.DataObject) -> None:
    numbers: st.SearchStrategy[Any]
    if dtype is np.float64:
        numbers = st.one_of(st.floats(), st.sampled_from([0.0, -0.0, 1.0]))
    else:
        limits = np.iinfo(dtype)
        numbers = st.one_of(st.integers(0, 5), st.integers(int(limits.min), int(limits.max)))
    units = data.draw(st.lists(st.tuples(numbers, numbers), max_size=20))
    lows, highs = (np.array([unit[side] for unit in units], dtype) for side in range(2))
    pool = [number for unit in units for number in unit]
    value = data.draw(st.one_of(numbers, st.sampled_from(pool)) if pool else numbers)
    inputs = {"op": op, "lows": lows, "highs": highs, "value": value}
    assert_same("compare_bounds", inputs, {"out_empty": (len(units), np.uint8)})


@given(st.integers(0, 5), st.binary(max_size=3), st.data())
def test_compare_bytes_bounds(op: int, value: bytes, data: st.DataObject) -> None:
    inputs: dict[str, Any] = {"op": op, "value": value}
    count = data.draw(st.integers(0, 12))
    for side in ("low", "high"):
        words = data.draw(
            st.lists(st.one_of(st.binary(max_size=3), st.just(value)), min_size=count, max_size=count)
        )
        offsets = np.concatenate(([0], np.cumsum([len(word) for word in words]))).astype(np.int64)
        if data.draw(slips):
            offsets[data.draw(st.integers(0, count))] = data.draw(hostile)
        present = data.draw(st.lists(st.booleans(), min_size=count, max_size=count))
        inputs[f"{side}_offsets"] = offsets
        inputs[f"{side}_bytes"] = memory_of(*words)
        inputs[f"has_{side}"] = np.array(present, bool)
    assert_same("compare_bytes_bounds", inputs, {"out_empty": (count, np.uint8)})
