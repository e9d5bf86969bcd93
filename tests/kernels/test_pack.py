"""Packing is undone by unpacking, at every width of every word."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancecy.errors import FormatError, TruncatedError
from tests.kernels.both import Kernels, assert_same, i64, memory_of
from tests.kernels.test_twins import column


def random_blocks(bits: int, width: int, count: int) -> Any:
    rng = np.random.default_rng(bits * 100 + width)
    drawn = rng.integers(0, 2**64, count * 1024, np.uint64, endpoint=False)
    kept = drawn >> np.uint64(64 - width) if width else np.zeros_like(drawn)
    return kept.astype(f"<u{bits // 8}")


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_unpacking_undoes_packing(kernels: Kernels, bits: int) -> None:
    for width in range(bits + 1):
        values = random_blocks(bits, width, 2)
        out = np.full(2 * 128 * width, 0xA5, np.uint8)
        kernels.pack_blocks(values.view(np.uint8), bits, i64(width, width), out, i64(0, 128 * width))
        back = np.empty(2048, values.dtype)
        one = (i64(0), i64(out.size), i64(2048))
        kernels.unpack_blocks(out, *one, bits, width, False, i64(0), i64(0), i64(2048), back.view(np.uint8))
        assert np.array_equal(back, values), width


def test_blocks_have_widths_and_places_of_their_own(kernels: Kernels) -> None:
    values = random_blocks(32, 5, 3)
    out = np.full(1024, 0xA5, np.uint8)
    kernels.pack_blocks(values.view(np.uint8), 32, i64(5, 0, 1), out, i64(300, 0, 0))
    alone = np.empty(128, np.uint8)
    kernels.pack_blocks(values[2048:].view(np.uint8), 32, i64(1), alone, i64(0))
    assert np.array_equal(out[:128], alone)
    assert set(out[128:300].tolist()) == set(out[940:].tolist()) == {0xA5}


@st.composite
def calls(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    bits = draw(st.sampled_from([8, 16, 32, 64, 7]))
    count = draw(st.integers(0, 2))
    stored = max(0, count + draw(st.sampled_from([0, 0, 0, 1, -1])))
    seed = draw(st.integers(0, 9))
    values = np.random.default_rng(seed).integers(0, 256, stored * 128 * bits, np.uint8)
    widths = column(draw, st.integers(-1, bits + 1), count)
    places = column(draw, st.one_of(st.integers(0, 300), st.sampled_from([-1, 2**63 - 1])), count)
    inputs = {"values": values, "bits": bits, "widths": widths, "positions": places}
    return inputs, {"out": (draw(st.integers(0, 2 * 128 * 64)), np.uint8)}


@given(calls())
def test_both_pack_the_same(call: tuple[dict[str, Any], dict[str, Any]]) -> None:
    assert_same("pack_blocks", *call)


@pytest.mark.parametrize(
    ("bits", "width", "position", "error"),
    [(8, 9, 0, FormatError), (8, -1, 0, FormatError), (8, 1, 1, ValueError), (8, 1, -1, FormatError)],
)
def test_impossible_blocks_are_refused(
    kernels: Kernels, bits: int, width: int, position: int, error: type[Exception]
) -> None:
    with pytest.raises(error):
        kernels.pack_blocks(memory_of(bytes(1024)), bits, i64(width), np.zeros(128, np.uint8), i64(position))


def test_values_that_are_no_whole_blocks_are_refused(kernels: Kernels) -> None:
    with pytest.raises(TruncatedError):
        kernels.pack_blocks(memory_of(bytes(1023)), 8, i64(1), np.zeros(128, np.uint8), i64(0))
    with pytest.raises(ValueError, match="words of 12 bits"):
        kernels.pack_blocks(memory_of(bytes(1024)), 12, i64(1), np.zeros(128, np.uint8), i64(0))
