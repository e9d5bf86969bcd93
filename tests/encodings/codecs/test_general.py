"""Compressed buffers: both schemes, the old form of ZSTD, and the memory that damaged buffers may take."""

from __future__ import annotations

import struct

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from lancecy.encodings.codecs.general import decompress, decompress_many
from lancecy.errors import FormatError, LimitError, TruncatedError
from lancecy.limits import DEFAULT_LIMITS, Limits
from tests.helpers.folded import folded

SCHEMES = ["lz4", "zstd"]
TEXTS = [b"", b"a", b"lance " * 700, bytes(300_000), np.random.default_rng(0).bytes(3000), b"xy" * 130]


def raw(scheme: str, text: bytes) -> bytes:
    """A text compressed with a codec, without the length before it."""
    if scheme == "lz4":
        block: bytes = pa.Codec("lz4_raw").compress(text, asbytes=True) if text else b"\0"
        return block
    frame: bytes = pa.Codec("zstd").compress(text, asbytes=True)
    return frame


def packed(scheme: str, text: bytes, *, size: int | None = None) -> bytes:
    """A compressed buffer of 2.0 or later, optionally with a wrong length."""
    return struct.pack("<I" if scheme == "lz4" else "<Q", len(text) if size is None else size) + raw(
        scheme, text
    )


def streamed(text: bytes) -> bytes:
    """A zstd frame whose header has no content size."""
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(text)
    frame: bytes = sink.getvalue().to_pybytes()
    return frame


def memory_of(data: bytes) -> NDArray[np.uint8]:
    return np.frombuffer(data, np.uint8)


def many(scheme: str, buffers: list[bytes], limits: Limits = DEFAULT_LIMITS) -> list[bytes]:
    lengths = np.array([len(buffer) for buffer in buffers], np.int64)
    memory = memory_of(b"odd" + b"".join(buffers) + b"more")
    result, starts, sizes = decompress_many(scheme, memory, np.cumsum(lengths) - lengths + 3, lengths, limits)
    assert int(sizes.sum()) == result.size
    return [
        result[start : start + size].tobytes()
        for start, size in zip(starts.tolist(), sizes.tolist(), strict=True)
    ]


@folded("scheme", SCHEMES)
@folded("text", TEXTS, ids=len)
def test_a_buffer_is_decompressed(scheme: str, text: bytes) -> None:
    assert decompress(scheme, memory_of(packed(scheme, text)), DEFAULT_LIMITS).tobytes() == text


@pytest.mark.parametrize("scheme", SCHEMES)
def test_many_buffers_are_decompressed_into_one(scheme: str) -> None:
    assert many(scheme, [packed(scheme, text) for text in TEXTS * 3]) == TEXTS * 3
    assert many(scheme, []) == []


@pytest.mark.parametrize("scheme", SCHEMES)
def test_an_empty_buffer_decompresses_to_an_empty_one(scheme: str) -> None:
    assert decompress(scheme, memory_of(b""), DEFAULT_LIMITS).size == 0
    assert many(scheme, [b"", packed(scheme, b"abc"), b"", b""]) == [b"", b"abc", b"", b""]


def test_buffers_as_pylance_writes_them_are_decompressed() -> None:
    """A dictionary of "ab" and "c" in a 2.2 file; an empty value in a 2.0 file."""
    strings = bytes.fromhex("20000000 14000000 00000000 02000000 03000000 616263")
    assert (
        decompress("lz4", memory_of(struct.pack("<IBB", 23, 0xF0, 8) + strings), DEFAULT_LIMITS).tobytes()
        == strings
    )
    empty = bytes(8) + bytes.fromhex("28b52ffd2000010000")
    assert decompress("zstd", memory_of(empty), DEFAULT_LIMITS).size == 0


@pytest.mark.parametrize("text", TEXTS, ids=len)
def test_a_bare_frame_is_decompressed(text: bytes) -> None:
    for frame in (raw("zstd", text), streamed(text)):
        assert decompress("zstd", memory_of(frame), DEFAULT_LIMITS).tobytes() == text


def test_frames_of_every_form_may_be_in_one_column() -> None:
    buffers, expected = [], []
    for text in TEXTS:
        unsized = struct.pack("<Q", len(text)) + streamed(text)
        buffers += [packed("zstd", text), raw("zstd", text), streamed(text), unsized, b""]
        expected += [text, text, text, text, b""]
    assert many("zstd", buffers) == expected


def test_a_length_that_looks_like_a_frame_is_recognised_by_the_bit_after_it() -> None:
    """28 B5 2F FD and a byte with bit 4 set begin a length: one too large for the bytes after it."""
    data = bytes.fromhex("28b52ffd10000000") + raw("zstd", b"abc")
    with pytest.raises(FormatError, match="more than its bytes can stand for"):
        decompress("zstd", memory_of(data), DEFAULT_LIMITS)


@folded("scheme", SCHEMES)
@folded("slip", [-1, 1, 100])
@folded("count", [1, 3])
def test_a_buffer_that_claims_another_length_is_refused(scheme: str, slip: int, count: int) -> None:
    good = [packed(scheme, text) for text in TEXTS[2:5]]
    bad = packed(scheme, b"abc" * 200, size=600 + slip)
    with pytest.raises(FormatError) as caught:
        many(scheme, [*good[: count - 1], bad, *good[: count - 1]])
    assert caught.value.position == count - 1


def test_frames_cannot_make_up_for_each_other() -> None:
    """Their total length is as claimed, their single lengths are not."""
    buffers = [packed("zstd", b"abc" * 20, size=61), packed("zstd", b"abc" * 20, size=59)]
    with pytest.raises(FormatError) as caught:
        many("zstd", buffers)
    assert caught.value.position == 0


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_buffer_that_is_cut_off_is_refused(scheme: str) -> None:
    whole = packed(scheme, b"lance " * 20 + np.random.default_rng(0).bytes(50))
    for length in range(1, len(whole)):
        with pytest.raises(FormatError):
            decompress(scheme, memory_of(whole[:length]), DEFAULT_LIMITS)


@pytest.mark.parametrize("frame", [raw("zstd", b"abc" * 90), streamed(b"abc" * 90)])
def test_a_bare_frame_that_is_cut_off_is_refused(frame: bytes) -> None:
    for length in range(1, len(frame)):
        with pytest.raises(FormatError):
            decompress("zstd", memory_of(frame[:length]), DEFAULT_LIMITS)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_length_beyond_the_compression_ratio_is_refused_before_memory_is_allocated(scheme: str) -> None:
    largest = 2**32 - 1 if scheme == "lz4" else 2**64 - 1
    with pytest.raises(FormatError, match="more than its bytes can stand for") as caught:
        many(scheme, [packed(scheme, b"abc"), packed(scheme, b"abc", size=largest)])
    assert caught.value.position == 1


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_length_beyond_the_limit_is_refused(scheme: str) -> None:
    limits = Limits(page_bytes=1000)
    assert decompress(scheme, memory_of(packed(scheme, bytes(1000))), limits).size == 1000
    with pytest.raises(LimitError, match=r"Limits\.page_bytes") as caught:
        decompress(scheme, memory_of(packed(scheme, bytes(1001))), limits)
    assert caught.value.claimed == 1001


@pytest.mark.parametrize("make", [streamed, lambda text: raw("zstd", text)])
def test_a_bare_frame_beyond_the_limit_is_refused(make: object) -> None:
    frame = memory_of(make(bytes(5 << 20)))  # type: ignore[operator]
    assert decompress("zstd", frame, Limits(page_bytes=5 << 20)).size == 5 << 20
    with pytest.raises(LimitError, match=r"Limits\.page_bytes"):
        decompress("zstd", frame, Limits(page_bytes=(5 << 20) - 1))


def test_many_buffers_may_pass_the_limit_together_only_if_their_bytes_back_it() -> None:
    plain = packed("lz4", np.random.default_rng(0).bytes(900))
    assert len(many("lz4", [plain] * 50, Limits(page_bytes=1000))) == 50
    dense = packed("zstd", bytes(100_000))
    assert len(many("zstd", [dense] * 5, Limits(page_bytes=500_000))) == 5
    with pytest.raises(LimitError, match="6 buffers") as caught:
        many("zstd", [dense] * 6, Limits(page_bytes=500_000))
    assert caught.value.claimed == 600_000


@folded(
    ("position", "length"), [(-1, 1), (0, -1), (5, 1), (0, 6), (2**63 - 1, 1), (1, 2**63 - 1), (-(2**63), 2)]
)
@folded("scheme", SCHEMES)
def test_buffers_that_are_not_there_are_refused(scheme: str, position: int, length: int) -> None:
    places = np.array([0, position]), np.array([0, length])
    with pytest.raises(TruncatedError) as caught:
        decompress_many(scheme, memory_of(bytes(5)), *places, DEFAULT_LIMITS)
    assert caught.value.position == 1


def test_schemes_that_do_not_exist_are_the_callers_mistake() -> None:
    with pytest.raises(ValueError, match="'brotli'") as caught:
        decompress("brotli", memory_of(b""), DEFAULT_LIMITS)
    assert not isinstance(caught.value, FormatError)


@given(st.sampled_from(SCHEMES), st.lists(st.binary(max_size=40), max_size=4), st.data())
def test_damaged_buffers_are_refused_or_take_memory_within_the_limit(
    scheme: str, texts: list[bytes], data: st.DataObject
) -> None:
    whole = bytearray(b"".join(packed(scheme, text) for text in texts))
    lengths = np.array([len(packed(scheme, text)) for text in texts], np.int64)
    for _ in range(data.draw(st.integers(1, 3)) if whole else 0):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    limits = Limits(page_bytes=2000)
    try:
        result, _, sizes = decompress_many(
            scheme, memory_of(bytes(whole)), np.cumsum(lengths) - lengths, lengths, limits
        )
    except FormatError:
        return
    assert result.size == sizes.sum() <= max(2000, 256 * len(whole))
