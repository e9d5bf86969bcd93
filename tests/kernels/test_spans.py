"""copy_spans and gather_fixed, compiled and in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from lancecy.errors import FormatError, TruncatedError
from tests.kernels.both import Kernels, assert_same, i64, memory_of

FAR = 2**63 - 1
BYTES = memory_of(bytes(range(100)))


def test_copy_spans_puts_spans_together_in_the_order_given(kernels: Kernels) -> None:
    out = np.empty(9, np.uint8)
    assert kernels.copy_spans(BYTES, i64(97, 5, 6), i64(3, 2, 4), out) == 9
    assert out.tolist() == [97, 98, 99, 5, 6, 6, 7, 8, 9]


def test_copy_spans_of_nothing_reads_nothing(kernels: Kernels) -> None:
    assert kernels.copy_spans(memory_of(), i64(), i64(), np.empty(0, np.uint8)) == 0
    assert kernels.copy_spans(memory_of(), i64(-4, FAR), i64(0, 0), np.empty(0, np.uint8)) == 0


def test_copy_spans_may_end_where_memory_ends(kernels: Kernels) -> None:
    out = np.empty(100, np.uint8)
    kernels.copy_spans(BYTES, i64(0), i64(100), out)
    np.testing.assert_array_equal(out, BYTES)


@pytest.mark.parametrize("size", [2**22 - 1, 2**22, 2**22 + 77])
def test_copy_spans_of_many_bytes_takes_spans_of_any_length_to_any_place(size: int) -> None:
    """From 4 MiB on, copies bypass the caches."""
    rng = np.random.default_rng(size)
    lengths = rng.choice([0, 1, 3, 63, 64, 65, 255, 256, 257, 1000, 70_001], 400)
    lengths = lengths[np.cumsum(lengths) <= size]
    lengths = np.append(lengths, size - lengths.sum())
    memory = memory_of(rng.integers(0, 256, 1 << 17, np.uint8), bytes(size))
    positions = rng.integers(0, 1 << 16, lengths.size)
    inputs = {"memory": memory, "positions": positions, "lengths": lengths}
    assert assert_same("copy_spans", inputs, {"out": (size, np.uint8)}).error is None


@pytest.mark.parametrize("position", [98, 100, 101, FAR, FAR - 2])
def test_copy_spans_refuses_a_span_beyond_the_end(kernels: Kernels, position: int) -> None:
    with pytest.raises(TruncatedError, match="run 1") as caught:
        kernels.copy_spans(BYTES, i64(1, position), i64(2, 3), np.empty(5, np.uint8))
    assert caught.value.position == 1


@pytest.mark.parametrize(("position", "length"), [(-1, 3), (-(2**63), 3), (0, -3), (0, -(2**63))])
def test_copy_spans_refuses_negative_numbers(kernels: Kernels, position: int, length: int) -> None:
    with pytest.raises(FormatError, match="negative") as caught:
        kernels.copy_spans(BYTES, i64(1, position), i64(2, length), np.empty(5, np.uint8))
    assert caught.value.position == 1
    assert not isinstance(caught.value, TruncatedError)


@pytest.mark.parametrize("size", [0, 4, 6])
def test_copy_spans_needs_an_output_of_the_exact_size(kernels: Kernels, size: int) -> None:
    with pytest.raises(ValueError, match="out") as caught:
        kernels.copy_spans(BYTES, i64(1, 7), i64(2, 3), np.empty(size, np.uint8))
    assert not isinstance(caught.value, FormatError)


def test_copy_spans_does_not_overflow_when_lengths_add_up_to_more_than_64_bits(kernels: Kernels) -> None:
    with pytest.raises(ValueError, match="out"):
        kernels.copy_spans(BYTES, i64(0, 0, 0), i64(FAR, FAR, 2), np.empty(0, np.uint8))


@pytest.mark.parametrize("width", [1, 2, 3, 4, 7, 8, 12, 16, 17, 64])
def test_gather_fixed_copies_values_of_any_width_from_odd_positions(kernels: Kernels, width: int) -> None:
    positions = i64(100 - width, 0, 13, 13, 1)
    out = np.empty(5 * width, np.uint8)
    kernels.gather_fixed(BYTES, positions, width, out)
    assert out.reshape(5, width).tolist() == [list(range(p, p + width)) for p in positions]


@pytest.mark.parametrize("width", [1, 2, 4, 8, 16, 24])
@pytest.mark.parametrize("position", [100, FAR, 2**62])
def test_gather_fixed_refuses_a_value_beyond_the_end(kernels: Kernels, width: int, position: int) -> None:
    positions = i64(3, 4, position, position)
    with pytest.raises(TruncatedError) as caught:
        kernels.gather_fixed(BYTES, positions, width, np.empty(4 * width, np.uint8))
    assert caught.value.position == 2


@pytest.mark.parametrize("width", [1, 2, 4, 8, 16, 24])
def test_gather_fixed_refuses_a_negative_position(kernels: Kernels, width: int) -> None:
    with pytest.raises(FormatError, match="negative") as caught:
        kernels.gather_fixed(BYTES, i64(3, -1, 100), width, np.empty(3 * width, np.uint8))
    assert caught.value.position == 1


@pytest.mark.parametrize("width", [1, 8, 200])
def test_gather_fixed_refuses_memory_shorter_than_one_value(kernels: Kernels, width: int) -> None:
    with pytest.raises(TruncatedError) as caught:
        kernels.gather_fixed(BYTES[: width // 2], i64(0), width, np.empty(width, np.uint8))
    assert caught.value.position == 0


def test_gather_fixed_of_nothing_needs_no_memory(kernels: Kernels) -> None:
    assert kernels.gather_fixed(memory_of(), i64(), 8, np.empty(0, np.uint8)) is None


@pytest.mark.parametrize(("width", "size"), [(0, 0), (-4, 8), (4, 7), (4, 12), (4, 0)])
def test_gather_fixed_refuses_a_wrong_width_or_output(kernels: Kernels, width: int, size: int) -> None:
    with pytest.raises(ValueError, match="width|out") as caught:
        kernels.gather_fixed(BYTES, i64(3, 4), width, np.empty(size, np.uint8))
    assert not isinstance(caught.value, FormatError)
