"""lz4_blocks, compiled and in NumPy, against blocks of a compressor and blocks made by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from lancecy.errors import FormatError, TruncatedError
from tests.helpers.folded import folded
from tests.kernels.both import Kernels, assert_same, i64, memory_of
from tests.kernels.chunks import cut, spoil

RNG = np.random.default_rng(4)
TEXTS = [
    b"a",
    b"abcdefgh" * 3,
    bytes(5000),
    b"ab" * 700,
    b"abcdefg" * 300 + b"tail",
    RNG.bytes(3000),
    np.repeat(RNG.integers(0, 9, 400), 3).astype("<i8").tobytes(),
    b" ".join(RNG.choice([b"alpha", b"beta", b"gamma", b"https://"], 900).tolist()),
    RNG.bytes(300) + bytes(600) + RNG.bytes(300) * 2,
]


def compressed(text: bytes) -> bytes:
    block: bytes = pa.Codec("lz4_raw").compress(text, asbytes=True)
    return block


def sequence(literals: bytes, distance: int = 0, length: int = 0) -> bytes:
    """One sequence; without a match it is the last one."""
    match = length - 4 if length else 0
    token = min(15, len(literals)) << 4 | min(15, match)
    return b"".join(
        (
            bytes([token]),
            _more(len(literals)),
            literals,
            distance.to_bytes(2, "little") if length else b"",
            _more(match),
        )
    )


def _more(length: int) -> bytes:
    return b"" if length < 15 else b"\xff" * ((length - 15) // 255) + bytes([(length - 15) % 255])


def unpack(kernels: Kernels, blocks: list[bytes], sizes: list[int], gap: bytes = b"") -> bytes:
    lengths = [len(block) for block in blocks]
    positions = np.cumsum([0, *(len(gap) + length for length in lengths)])[:-1] + len(gap)
    out = np.full(sum(sizes), 0x77, np.uint8)
    memory = memory_of(*(part for block in blocks for part in (gap, block)))
    kernels.lz4_blocks(memory, positions, i64(*lengths), i64(*sizes), out)
    return out.tobytes()


def test_blocks_of_a_compressor_are_unpacked(kernels: Kernels) -> None:
    blocks, sizes = [compressed(text) for text in TEXTS], [len(text) for text in TEXTS]
    assert unpack(kernels, blocks, sizes, gap=b"odd") == b"".join(TEXTS)
    for block, text in zip(blocks, TEXTS, strict=True):
        assert unpack(kernels, [block], [len(text)]) == text


def test_an_empty_block_is_one_token(kernels: Kernels) -> None:
    assert unpack(kernels, [b"\x00", b"\x10a", b"\x00"], [0, 1, 0]) == b"a"
    assert unpack(kernels, [], []) == b""


@folded("length", [4, 5, 15, 18, 19, 20, 33, 274, 1000])
@folded("distance", [1, 2, 3, 7, 8, 9, 15, 16, 17, 40])
@folded("after", [b"", b"x", b"y" * 40])
def test_matches_of_every_kind_repeat_what_is_there(
    kernels: Kernels, distance: int, length: int, after: bytes
) -> None:
    before = bytes(range(40))
    text = bytearray(before)
    for _ in range(length):
        text.append(text[-distance])
    block = sequence(before, distance, length) + sequence(after)
    assert unpack(kernels, [block], [len(text) + len(after)]) == bytes(text) + after


@folded("count", [0, 1, 14, 15, 16, 17, 31, 269, 270, 271, 525, 3000])
def test_literals_of_every_length_are_copied(kernels: Kernels, count: int) -> None:
    text = np.random.default_rng(count).bytes(count)
    assert unpack(kernels, [sequence(text)], [count]) == text


BROKEN = {
    "nothing": (b"", 0),
    "no literals after their token": (b"\x20a", 2),
    "fewer than claimed": (sequence(b"abc"), 4),
    "more than claimed": (sequence(b"abc"), 2),
    "distance 0": (sequence(b"abcd", 0, 4) + sequence(b"e"), 9),
    "distance before the start": (sequence(b"abcd", 5, 4) + sequence(b"e"), 9),
    "match beyond the end": (sequence(b"abcd", 1, 9) + sequence(b""), 12),
    "no sequence after a match": (sequence(b"abcd", 1, 4), 8),
    "half a distance": (b"\x40abcd\x01", 9),
    "no distance": (b"\x10a" + b"\x00", 5),
    "literal length goes on": (b"\xf0\xff\xff", 600),
    "match length goes on": (b"\x1fa\x01\x00\xff", 300),
    "literal length beyond the block": (b"\xf0\xff\xff\x00a", 525),
}


@folded("name", BROKEN)
def test_broken_blocks_are_refused(kernels: Kernels, name: str) -> None:
    block, size = BROKEN[name]
    with pytest.raises(FormatError, match="block 1 is no LZ4 block") as caught:
        unpack(kernels, [sequence(b"abc" * 20), block], [60, size])
    assert caught.value.position == 1


def test_a_match_does_not_reach_into_the_block_before(kernels: Kernels) -> None:
    with pytest.raises(FormatError, match="block 1"):
        unpack(kernels, [sequence(b"abcdefgh"), sequence(b"a", 2, 4) + sequence(b"")], [8, 5])


@folded("text", TEXTS[1:])
def test_blocks_that_are_cut_off_are_refused(kernels: Kernels, text: bytes) -> None:
    block = compressed(text)
    for length in {0, 1, len(block) // 2, len(block) - 1}:
        with pytest.raises(FormatError):
            unpack(kernels, [block[:length]], [len(text)])


@folded(
    ("position", "length", "size", "kind"),
    [
        (-1, 2, 1, FormatError),
        (0, -1, 1, FormatError),
        (0, 2, -1, FormatError),
        (1, 2, 1, TruncatedError),
        (2**63 - 1, 2**63 - 1, 1, TruncatedError),
        (0, 2**62, 1, TruncatedError),
    ],
)
def test_blocks_that_are_not_there_are_refused(
    kernels: Kernels, position: int, length: int, size: int, kind: type[FormatError]
) -> None:
    with pytest.raises(kind, match="chunk 0") as caught:
        kernels.lz4_blocks(memory_of(b"\x10a"), i64(position), i64(length), i64(size), np.empty(1, np.uint8))
    assert type(caught.value) is kind


@folded("sizes", [[3], [4, 3], [2**63 - 1], [2**62, 2**62]])
def test_the_output_has_to_fit(kernels: Kernels, sizes: list[int]) -> None:
    lengths = i64(*[4] * len(sizes))
    with pytest.raises(ValueError, match="out does not") as caught:
        kernels.lz4_blocks(memory_of(b"\x30abc"), lengths - 4, lengths, i64(*sizes), np.empty(5, np.uint8))
    assert not isinstance(caught.value, FormatError)


@pytest.mark.parametrize("sizes", [(2, 1, 1), (1, 2, 1), (1, 1, 2)])
def test_arrays_of_different_lengths_are_the_callers_mistake(
    kernels: Kernels, sizes: tuple[int, int, int]
) -> None:
    arrays = [np.zeros(size, np.int64) for size in sizes]
    with pytest.raises(ValueError, match="differ in length"):
        kernels.lz4_blocks(memory_of(b"\x00"), *arrays, np.empty(0, np.uint8))


texts = st.one_of(
    st.binary(max_size=60),
    st.lists(st.sampled_from([b"a", b"bc", b"lance"]), max_size=60).map(b"".join),
    st.tuples(st.binary(min_size=1, max_size=9), st.integers(1, 60)).map(lambda part: part[0] * part[1]),
)


def damaged(draw: st.DrawFn, block: bytes) -> bytes:
    changed = bytearray(block)
    for _ in range(draw(st.sampled_from([0, 0, 1, 3]))):
        if changed:
            changed[draw(st.integers(0, len(changed) - 1))] = draw(st.integers(0, 255))
    return bytes(changed)


@st.composite
def calls(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    whole = draw(st.lists(texts, max_size=4))
    blocks = [damaged(draw, compressed(text) if text else b"\x00") for text in whole]
    lengths: NDArray[np.int64] = i64(*(len(block) for block in blocks))
    call: dict[str, Any] = {
        "memory": cut(draw, memory_of(*blocks)),
        "positions": np.cumsum(lengths) - lengths,
        "lengths": lengths,
        "sizes": i64(*(len(text) for text in whole)),
    }
    spoil(draw, call)
    size = sum(len(text) for text in whole) + draw(st.sampled_from([0, 0, 0, 0, 1]))
    return call, {"out": (size, np.uint8)}


@given(calls())
def test_lz4_blocks_does_what_its_twin_does(call: tuple[dict[str, Any], dict[str, Any]]) -> None:
    assert_same("lz4_blocks", *call)
