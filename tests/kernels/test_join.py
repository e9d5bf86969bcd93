"""hash_rows, index_words and find_words, compiled and in NumPy."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancecy.errors import FormatError
from tests.helpers.folded import folded
from tests.kernels.both import Kernels, assert_same, memory_of

# From the specification of xxHash: XXH64 with seed 0.
KNOWN = {
    b"": 0xEF46DB3751D8E999,
    b"a": 0xD24EC4F1A98C6E5B,
    b"abc": 0x44BC2CF5AD770999,
    b"Nobody inspects the spammish repetition": 0xFBCEA83C8A378BF1,
}


def index_of(kernels: Kernels, words: list[int], slots: int = 0) -> tuple[np.ndarray, ...]:
    table = np.array(words, np.uint64)
    size = slots or max(2, 1 << (2 * len(words)).bit_length())
    arrays = np.empty(size, np.int64), np.empty(len(words), np.int64), np.empty(size, np.uint8)
    repeated = kernels.index_words(table, *arrays)
    assert repeated == len(words) - len(set(words))
    return table, *arrays


@folded("dtype", [np.int32, np.int64])
def test_hashes_are_those_of_xxhash(kernels: Kernels, dtype: type) -> None:
    offsets: np.ndarray = np.cumsum([2, *map(len, KNOWN)]).astype(dtype)
    out = np.empty(len(KNOWN), np.uint64)
    kernels.hash_rows(offsets, memory_of(b"xx", *KNOWN), out)
    assert out.tolist() == list(KNOWN.values())


@folded("offsets, row", [([0, 2, 1], 1), ([0, 4], 0), ([-1, 2], 0)])
def test_offsets_beyond_the_bytes_are_refused(kernels: Kernels, offsets: list[int], row: int) -> None:
    with pytest.raises(FormatError) as caught:
        kernels.hash_rows(np.array(offsets), memory_of(b"abc"), np.empty(len(offsets) - 1, np.uint64))
    assert caught.value.position == row


@given(st.lists(st.binary(max_size=80), max_size=6), st.sampled_from([np.int32, np.int64]))
def test_both_hash_alike(rows: list[bytes], dtype: type) -> None:
    offsets: np.ndarray = np.cumsum([0, *map(len, rows)]).astype(dtype)
    inputs = {"offsets": offsets, "values": memory_of(*rows)}
    assert_same("hash_rows", inputs, {"out": (len(rows), np.uint64)})


@folded("count", [0, 1, 2, 100, 1000])
def test_words_are_found_with_all_their_rows(kernels: Kernels, count: int) -> None:
    """Every word of the index is found, and the chain leads to the other rows that have it."""
    rng = np.random.default_rng(count)
    words = rng.integers(0, max(1, count // 2), count, dtype=np.uint64) << np.uint64(40)
    rows_of = defaultdict(list)
    for row, word in enumerate(words.tolist()):
        rows_of[word].append(row)
    table, slots, chain, marks = index_of(kernels, words.tolist())
    queries = np.arange(max(2, count), dtype=np.uint64) << np.uint64(40)
    at, rows = np.empty((2, queries.size), np.int64)
    found = kernels.find_words(queries, table, slots, marks, at, rows)
    asked = queries.tolist()
    assert at[:found].tolist() == [index for index, word in enumerate(asked) if word in rows_of]
    for query, last in zip(at[:found].tolist(), rows[:found].tolist(), strict=True):
        walk, row = [], last
        while row >= 0:
            walk.append(row)
            row = int(chain[row])
        assert walk[::-1] == rows_of[asked[query]]


def test_words_in_the_same_place_are_told_apart(kernels: Kernels) -> None:
    words = list(range(64))
    table, slots, _, marks = index_of(kernels, words, slots=128)
    at, rows = np.empty((2, 200), np.int64)
    assert kernels.find_words(np.arange(200, dtype=np.uint64), table, slots, marks, at, rows) == 64
    assert at[:64].tolist() == rows[:64].tolist() == words


@folded(
    "start, step, order",
    [
        (0, 1, "up"),
        (0, 1, "down"),
        (0, 1, "mixed"),
        (2**63 - 3000, 1, "up"),
        (2**64 - 60_000, 10, "up"),
        (5, 2**50, "up"),
    ],
)
def test_few_words_are_found_in_many_queries_of_any_order(
    kernels: Kernels, start: int, step: int, order: str
) -> None:
    """Blocks of queries without a word between their ends are left out; no word is lost by that."""
    queries = np.uint64(start) + np.arange(6000, dtype=np.uint64) * np.uint64(step)
    chosen = [0, 1, 511, 512, 1023, 1024, 3000, 5998, 5999]
    words = [*queries[chosen].tolist(), start + 7 * step + step // 2, start - 1 if start else 2**64 - 1]
    wanted = np.isin(queries, np.array(words, np.uint64))
    shuffled = {"up": np.arange(6000), "down": np.arange(6000)[::-1]}
    turn = shuffled.get(order, np.random.default_rng(1).permutation(6000))
    queries, wanted = np.ascontiguousarray(queries[turn]), wanted[turn]
    table, slots, _, marks = index_of(kernels, words)
    at, rows = np.empty((2, queries.size), np.int64)
    found = kernels.find_words(queries, table, slots, marks, at, rows)
    assert at[:found].tolist() == np.flatnonzero(wanted).tolist()
    assert table[rows[:found]].tolist() == queries[at[:found]].tolist()


@given(
    st.lists(st.integers(0, 9), max_size=8),
    st.lists(st.sampled_from([-1, 0, 1, 7, 8, 2**62, -(2**63)]), min_size=16, max_size=16),
    st.binary(min_size=2, max_size=2),
)
def test_lookups_in_any_index_end(words: list[int], slots: list[int], marks: bytes) -> None:
    """Also in one that another process filled with anything."""
    inputs = {
        "queries": np.arange(10, dtype=np.uint64),
        "words": np.array(words, np.uint64),
        "slots": np.array(slots, np.int64),
        "marks": memory_of(marks),
    }
    assert_same("find_words", inputs, {"out_queries": (10, np.int64), "out_rows": (10, np.int64)})


@given(st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 9), max_size=20), st.sampled_from([1, 8, 64]))
def test_both_index_alike(words: list[int], marks: int) -> None:
    inputs = {"words": np.array(words, np.uint64)}
    outputs = {
        "out_slots": (64, np.int64),
        "out_chain": (len(words), np.int64),
        "out_marks": (marks, np.uint8),
    }
    assert_same("index_words", inputs, outputs)


@folded("slots, chain, marks", [(3, 2, 4), (2, 2, 4), (4, 1, 4), (4, 2, 3), (4, 2, 0), (0, 2, 4)])
def test_sizes_of_an_index_are_checked(kernels: Kernels, slots: int, chain: int, marks: int) -> None:
    words = np.array([1, 2], np.uint64)
    with pytest.raises(ValueError, match="must"):
        kernels.index_words(
            words, np.empty(slots, np.int64), np.empty(chain, np.int64), np.empty(marks, "u1")
        )
