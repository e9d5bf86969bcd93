"""sort_words, compiled and in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.folded import folded
from tests.kernels.both import Kernels, assert_same

WORDS = st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 5), max_size=40)


@given(WORDS, st.integers(0, 64), st.integers(0, 64))
def test_both_sort_words_by_the_same_bits(words: list[int], one: int, other: int) -> None:
    first, stop = sorted((one, other))
    arguments = {"words": np.array(words, np.uint64), "first_bit": first, "stop_bit": stop}
    assert_same("sort_words", arguments, {name: (len(words), np.uint64) for name in ("out", "out_room")})


@folded("bits", [(0, 64), (0, 11), (3, 30), (21, 64), (5, 5)])
def test_words_are_in_the_order_of_a_stable_sort(kernels: Kernels, bits: tuple[int, int]) -> None:
    first, stop = bits
    words = np.random.default_rng(7).integers(0, 2**64, 5000, np.uint64)
    keys = (words << np.uint64(64 - stop)) >> np.uint64(64 - stop + first) if stop > first else words * 0
    out, room = np.empty((2, words.size), np.uint64)
    kernels.sort_words(words, out, room, first, stop)
    assert np.array_equal(out, words[np.argsort(keys, kind="stable")])
    assert np.array_equal(out, room)


@folded("bits", [(-1, 5), (5, 65), (6, 5)])
def test_bits_are_those_of_a_word(kernels: Kernels, bits: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="no such bits"):
        kernels.sort_words(*np.zeros((3, 2), np.uint64), *bits)


def test_room_has_the_size_of_the_words(kernels: Kernels) -> None:
    words, more = np.zeros(2, np.uint64), np.zeros(3, np.uint64)
    for out, room in ((more, words.copy()), (words.copy(), more)):
        with pytest.raises(ValueError, match="out"):
            kernels.sort_words(words, out, room, 0, 64)
