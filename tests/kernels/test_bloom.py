"""set_filter_bits, compiled and in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.folded import folded
from tests.kernels.both import Kernels, assert_same


@given(st.lists(st.integers(0, 2**64 - 1), max_size=20), st.integers(1, 9))
def test_both_set_the_same_bits(hashes: list[int], blocks: int) -> None:
    assert_same("set_filter_bits", {"hashes": np.array(hashes, np.uint64)}, {"out": (32 * blocks, np.uint8)})


@folded("size", [0, 31, 33])
def test_a_filter_is_made_of_blocks(kernels: Kernels, size: int) -> None:
    with pytest.raises(ValueError, match="out"):
        kernels.set_filter_bits(np.array([1], np.uint64), np.zeros(size, np.uint8))
