"""Filters of the keys that merges inserted."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancecy.proto import transaction_pb2
from lancecy.table.commit.conflicts import Verdict, check
from lancecy.table.operations import Append, Update
from lancecy.table.operations.key_filter import KeyFilter
from tests.helpers.builders import make_fragment
from tests.helpers.folded import folded

Message = transaction_pb2.Transaction.KeyExistenceFilter
# XXH64 of the eight bytes of the number 7.
SEVEN = 0x876CD406AFDE455
LISTED, BLOOM, LARGE = 1000, 5000, 50_000


def hashes(seed: int, count: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2**64, count, dtype=np.uint64)


def through_bytes(made: KeyFilter) -> KeyFilter:
    message = Message()
    made.encode(message)
    return KeyFilter.decode(Message.FromString(message.SerializeToString()))


def reference_bloom(*words: tuple[int, int]) -> KeyFilter:
    """A filter as pylance writes it, with these words set."""
    bitmap = np.zeros(8192, np.uint32)
    for index, word in words:
        bitmap[index] = word
    bloom = Message.BloomFilter(
        bitmap=bitmap.tobytes(), num_bits=262144, number_of_items=8192, probability=0.00057
    )
    return KeyFilter.decode(Message(field_ids=[0], bloom=bloom))


def bloom_of_seven() -> KeyFilter:
    """The filter that pylance 14.0.2 writes for an inserted row with the int64 key 7."""
    words = [16, 128, 134217728, 512, 2, 4194304, 512, 4096]
    return reference_bloom(*enumerate(words, 264))


@folded("count", [0, 1, LISTED, BLOOM, LARGE])
def test_filter_survives_its_bytes(count: int) -> None:
    made = KeyFilter.of((3, 1), hashes(1, count))
    found = through_bytes(made)
    assert found == made and hash(found) == hash(made)
    assert found.fields == (3, 1)
    assert (found.hashes is None) == (count > LISTED)


@folded("mine", [1, LISTED, BLOOM, LARGE])
@folded("theirs", [1, LISTED, BLOOM, LARGE])
def test_one_shared_key_is_always_found(mine: int, theirs: int) -> None:
    shared = hashes(3, 1)
    one = KeyFilter.of((0,), np.concatenate([hashes(1, mine - 1), shared]))
    other = KeyFilter.of((0,), np.concatenate([hashes(2, theirs - 1), shared]))
    assert one.may_share(other) and other.may_share(one)
    assert through_bytes(one).may_share(through_bytes(other))


@folded("mine, theirs", [(0, 0), (0, LARGE), (LISTED, LISTED), (1, BLOOM), (1, LARGE)])
def test_other_keys_are_told_apart(mine: int, theirs: int) -> None:
    one, other = KeyFilter.of((0,), hashes(1, mine)), KeyFilter.of((0,), hashes(2, theirs))
    assert not one.may_share(other) and not other.may_share(one)


def test_bloom_filters_of_other_keys_are_told_apart() -> None:
    """Two filters have common bits long before they have a common key."""
    one = KeyFilter.of((0,), hashes(1, 1100))
    other = KeyFilter.of((0,), hashes(2, 1100))
    assert one.hashes is None and other.hashes is None
    assert not one.may_share(other)


def test_keys_of_other_columns_cannot_be_compared() -> None:
    assert KeyFilter.of((0,), hashes(1, 1)).may_share(KeyFilter.of((1,), hashes(2, 1)))
    assert KeyFilter.of((0, 1), hashes(1, 0)).may_share(KeyFilter.of((1, 0), hashes(2, 0)))


def test_filters_of_pylance_hold_the_same_hashes() -> None:
    seven, eight = (KeyFilter.of((0,), np.array([key], np.uint64)) for key in (SEVEN, SEVEN ^ 1 << 63))
    assert seven.may_share(bloom_of_seven()) and bloom_of_seven().may_share(seven)
    assert not eight.may_share(bloom_of_seven())
    many = KeyFilter.of((0,), np.append(hashes(5, 1100), np.uint64(SEVEN)))
    assert many.may_share(bloom_of_seven())
    assert (many.items, many.probability) == (8192, 0.00057), "pylance compares no other filters"


def test_empty_bloom_filter_says_nothing() -> None:
    """pylance leaves out keys of some types, and writes a filter without any."""
    assert KeyFilter.of((0,), hashes(1, 1)).may_share(reference_bloom())
    assert reference_bloom().may_share(reference_bloom())
    assert not KeyFilter.of((0,), hashes(1, 0)).may_share(reference_bloom())


def test_filter_without_data_has_no_keys() -> None:
    assert not KeyFilter.decode(Message(field_ids=[0])).may_share(bloom_of_seven())


def test_sizes_that_differ_cannot_be_compared() -> None:
    one, other = KeyFilter.of((0,), hashes(1, BLOOM)), KeyFilter.of((0,), hashes(2, LARGE))
    assert len(one.bloom) < len(other.bloom) and one.may_share(other)


def test_filter_has_a_largest_size() -> None:
    made = KeyFilter.of((0,), hashes(1, 1_000_000))
    assert len(made.bloom) == 1 << 20
    assert made.may_share(KeyFilter.of((0,), hashes(1, 1)))


@folded("bitmap", [b"", b"x", b"\xff" * 31, b"\xff" * 33, b"\xff" * 32])
def test_damaged_bloom_filter_may_share_any_key(bitmap: bytes) -> None:
    message = Message(field_ids=[0], bloom=Message.BloomFilter(bitmap=bitmap, num_bits=7))
    found = KeyFilter.decode(message)
    assert found.may_share(KeyFilter.of((0,), hashes(1, 3))) and found.may_share(found)


@given(st.binary(max_size=200))
def test_any_message_gives_a_filter(data: bytes) -> None:
    message = Message()
    try:
        message.ParseFromString(data)
    except Exception:
        return
    found = KeyFilter.decode(message)
    again = through_bytes(found)
    assert again == found
    assert isinstance(found.may_share(bloom_of_seven()), bool)


def test_filter_has_equality() -> None:
    made = KeyFilter.of((0,), hashes(1, 2))
    assert made == KeyFilter.of((0,), hashes(1, 2)[::-1])
    assert made != KeyFilter.of((0,), hashes(2, 2)) and made != "filter"


def test_bloom_filter_of_given_hashes_has_eight_bits_for_each() -> None:
    made = KeyFilter.of((0,), hashes(1, 1025))
    words = np.unpackbits(np.frombuffer(made.bloom, np.uint8)).sum()
    assert words == pytest.approx(8 * 1025, rel=0.05)


def test_update_that_inserted_no_key_is_no_conflict_with_an_append() -> None:
    fragment = make_fragment(0)
    for keys, expected in ((hashes(1, 0), Verdict.COMPATIBLE), (hashes(1, 1), Verdict.RETRY)):
        mine = Update(fragments=(fragment,), keys=KeyFilter.of((0,), keys))
        assert check(mine, Append((fragment,))) == expected
