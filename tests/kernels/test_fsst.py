"""fsst_offsets and fsst_decode, compiled and in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from lancecy.errors import FormatError
from tests.kernels.both import CYTHON, Kernels, assert_same, memory_of
from tests.kernels.chunks import EXTREMES

DTYPES = [np.int32, np.int64]
WORDS = [b"a", b"of", b"the", b"lake", b"river", b"forest", b"mountai", b"mountain"]


def table(words: list[bytes]) -> tuple[NDArray[np.uint64], NDArray[np.uint8]]:
    """Symbols 0, 1, 2, ... as the kernels take them."""
    symbols, lengths = np.zeros(256, np.uint64), np.zeros(256, np.uint8)
    for code, word in enumerate(words):
        symbols[code], lengths[code] = int.from_bytes(word, "little"), len(word)
    return symbols, lengths


def offsets_of(values: list[bytes], dtype: Any = np.int32, first: int = 0) -> NDArray[Any]:
    return np.cumsum([first, *(len(value) for value in values)]).astype(dtype)


def meaning(value: bytes) -> bytes:
    """What one coded value stands for, with the symbols of WORDS."""
    if not value:
        return b""
    if value[0] == 255:
        return value[1:2] + meaning(value[2:])
    return WORDS[value[0]] + meaning(value[1:])


def decode(
    kernels: Kernels,
    values: list[bytes],
    dtype: Any = np.int32,
    out_dtype: Any = np.int32,
    before: bytes = b"",
) -> tuple[list[int], bytes]:
    symbols, lengths = table(WORDS)
    coded = memory_of(before, *values, b"\x07after")
    offsets, out_offsets = offsets_of(values, dtype, len(before)), np.full(len(values) + 1, 77, out_dtype)
    total = kernels.fsst_offsets(lengths, offsets, coded, out_offsets)
    out = np.full(total, 0x77, np.uint8)
    kernels.fsst_decode(symbols, lengths, offsets, coded, out_offsets, out)
    return out_offsets.tolist(), out.tobytes()


def random_values(seed: int, count: int, most: int) -> list[bytes]:
    rng = np.random.default_rng(seed)
    values = []
    for size in rng.integers(0, most + 1, count):
        codes = rng.integers(0, 10, size).tolist()
        parts = [bytes([code]) if code < 8 else bytes([255, rng.integers(0, 256)]) for code in codes]
        values.append(b"".join(parts))
    return values


@pytest.mark.parametrize("out_dtype", DTYPES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("most", [1, 3, 8, 60])
def test_values_are_decoded(kernels: Kernels, most: int, dtype: Any, out_dtype: Any) -> None:
    values = random_values(most, 60, most)
    texts = [meaning(value) for value in values]
    offsets, text = decode(kernels, values, dtype, out_dtype)
    assert text == b"".join(texts)
    assert offsets == offsets_of(texts).tolist()


def test_values_may_begin_anywhere_in_their_bytes(kernels: Kernels) -> None:
    assert decode(kernels, [b"\x01\x02"], before=b"\xff\xfe\xfd") == ([0, 5], b"ofthe")


def test_an_escape_stands_for_the_byte_after_it(kernels: Kernels) -> None:
    assert decode(kernels, [b"\xff\xff", b"\xff\x00\x00", b"\xff\x07"]) == ([0, 1, 3, 4], b"\xff\x00a\x07")


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 9])
def test_symbols_of_every_length_end_exactly_where_the_output_does(
    kernels: Kernels, word: bytes, count: int
) -> None:
    assert decode(kernels, [bytes([WORDS.index(word)]) * count])[1] == word * count


def test_no_values_are_decoded_to_nothing(kernels: Kernels) -> None:
    assert decode(kernels, []) == ([0], b"")
    assert decode(kernels, [b"", b""]) == ([0, 0, 0], b"")


@pytest.mark.parametrize(
    "bad", [b"\x08", b"\x00\xfe", b"\x01\xff", b"\xff", b"\xff\xff\xff", b"\x00" * 9 + b"\xc8"]
)
@pytest.mark.parametrize("before", [0, 1, 20])
def test_codes_without_a_meaning_are_refused(kernels: Kernels, bad: bytes, before: int) -> None:
    values = [b"\x02\x03"] * before + [b"", bad]
    with pytest.raises(FormatError, match="without a symbol") as caught:
        decode(kernels, values)
    assert caught.value.position == before + 1


def test_a_code_without_a_meaning_is_refused_when_decoding_too(kernels: Kernels) -> None:
    symbols, lengths = table(WORDS)
    coded, offsets = memory_of(b"\x00\x00\x09\x00\x00"), np.array([0, 2, 2, 4, 5], np.int32)
    out_offsets = np.array([0, 2, 2, 4, 5], np.int32)
    with pytest.raises(FormatError, match="value 2 has a code without") as caught:
        kernels.fsst_decode(symbols, lengths, offsets, coded, out_offsets, np.empty(5, np.uint8))
    assert caught.value.position == 2


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("offsets", "row"), [([-1, 2], 0), ([0, 2, 1], 1), ([0, 10], 0), ([0, 3, 9, 9], 1), ([9, 9], 0)]
)
def test_offsets_that_descend_or_leave_the_bytes_are_refused(
    kernels: Kernels, offsets: list[int], row: int, dtype: Any
) -> None:
    symbols, lengths = table(WORDS)
    coded, out = memory_of(bytes(8)), np.empty(5, np.uint8)
    out_offsets = np.zeros(len(offsets), np.int32)
    with pytest.raises(FormatError, match=f"offsets of value {row}") as caught:
        kernels.fsst_offsets(lengths, np.array(offsets, dtype), coded, out_offsets)
    assert caught.value.position == row
    out_offsets[:] = [0, *[5] * (len(offsets) - 1)]
    with pytest.raises(FormatError, match=f"offsets of value {row}"):
        kernels.fsst_decode(symbols, lengths, np.array(offsets, dtype), coded, out_offsets, out)


@pytest.mark.parametrize("length", [9, 255])
def test_symbols_longer_than_a_word_are_the_callers_mistake(kernels: Kernels, length: int) -> None:
    symbols, lengths = table(WORDS)
    lengths[200] = length
    with pytest.raises(ValueError, match="at most 8") as caught:
        kernels.fsst_offsets(lengths, np.zeros(1, np.int32), memory_of(b""), np.zeros(1, np.int32))
    assert not isinstance(caught.value, FormatError)
    arrays = np.zeros(1, np.int32), memory_of(b""), np.zeros(1, np.int32), np.empty(0, np.uint8)
    with pytest.raises(ValueError, match="at most 8"):
        kernels.fsst_decode(symbols, lengths, *arrays)


def test_a_symbol_for_the_escape_is_the_callers_mistake(kernels: Kernels) -> None:
    _, lengths = table(WORDS)
    lengths[255] = 1
    with pytest.raises(ValueError, match="escape") as caught:
        kernels.fsst_offsets(lengths, np.zeros(1, np.int32), memory_of(b""), np.zeros(1, np.int32))
    assert not isinstance(caught.value, FormatError)


@pytest.mark.parametrize(
    ("out_offsets", "size"), [([0, 3], 4), ([0, 4], 4), ([0, 2], 2), ([1, 3], 3), ([0, 0], 0)]
)
def test_an_output_of_another_size_is_the_callers_mistake(
    kernels: Kernels, out_offsets: list[int], size: int
) -> None:
    symbols, lengths = table(WORDS)
    places = np.array([0, 1], np.int32), memory_of(b"\x02"), np.array(out_offsets, np.int32)
    with pytest.raises(ValueError, match="out does not") as caught:
        kernels.fsst_decode(symbols, lengths, *places, np.empty(size, np.uint8))
    assert not isinstance(caught.value, FormatError)


@pytest.mark.parametrize(
    ("lengths", "offsets", "out_offsets"), [(255, 1, 1), (256, 0, 0), (256, 2, 1), (256, 2, 3)]
)
def test_arrays_of_other_sizes_are_the_callers_mistake(
    kernels: Kernels, lengths: int, offsets: int, out_offsets: int
) -> None:
    arrays = np.zeros(lengths, np.uint8), np.zeros(offsets, np.int32), memory_of(b"")
    with pytest.raises(ValueError, match="entr") as caught:
        kernels.fsst_offsets(*arrays, np.zeros(out_offsets, np.int32))
    assert not isinstance(caught.value, FormatError)
    with pytest.raises(ValueError, match="entr"):
        kernels.fsst_decode(
            np.zeros(256, np.uint64), *arrays, np.zeros(out_offsets, np.int32), np.empty(0, "u1")
        )


def test_a_table_of_symbols_has_an_entry_for_every_code(kernels: Kernels) -> None:
    one = np.zeros(1, np.int32)
    with pytest.raises(ValueError, match="symbols needs 256"):
        kernels.fsst_decode(
            np.zeros(255, np.uint64), np.zeros(256, np.uint8), one, memory_of(b""), one, np.empty(0, "u1")
        )


@pytest.mark.slow
def test_more_text_than_32_bit_offsets_can_hold_is_refused() -> None:
    """On the compiled kernel alone: its twin would take minutes over 2**28 codes."""
    _, lengths = table(WORDS)
    coded = memory_of(b"\x07" * (2**28 + 1))
    offsets, out_offsets = np.array([0, 2**28 - 1, 2**28, 2**28 + 1], np.int64), np.zeros(4, np.int32)
    with pytest.raises(FormatError, match=r"more than 2\^31-1 bytes") as caught:
        CYTHON.fsst_offsets(lengths, offsets, coded, out_offsets)
    assert caught.value.position == 1
    assert CYTHON.fsst_offsets(lengths, offsets, coded, np.zeros(4, np.int64)) == 2**31 + 8


@st.composite
def offset_calls(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    codes = st.one_of(st.integers(0, 7), st.integers(0, 7), st.sampled_from([8, 255, 255]))
    values = [bytes(value) for value in draw(st.lists(st.lists(codes, max_size=12), max_size=8))]
    offsets = offsets_of(values, draw(st.sampled_from(DTYPES)))
    if draw(st.integers(0, 3)) == 0:
        info = np.iinfo(offsets.dtype)
        bad = [number for number in EXTREMES if info.min <= number <= info.max]
        offsets[draw(st.integers(0, len(values)))] = draw(
            st.one_of(st.integers(-1, 50), st.sampled_from(bad))
        )
    inputs = {"symbol_lengths": table(WORDS)[1], "offsets": offsets, "values": memory_of(*values)}
    size = len(values) + 1 + draw(st.sampled_from([0, 0, 0, 1, -1]))
    return inputs, {"out_offsets": (size, draw(st.sampled_from(DTYPES)))}


@given(offset_calls())
def test_fsst_offsets_does_what_its_twin_does(call: tuple[dict[str, Any], dict[str, Any]]) -> None:
    assert_same("fsst_offsets", *call)


@given(offset_calls(), st.sampled_from([0, 0, 0, 0, 1, -1, 9]))
def test_fsst_decode_does_what_its_twin_does(call: tuple[dict[str, Any], dict[str, Any]], slip: int) -> None:
    inputs, outs = call
    symbols, lengths = table(WORDS)
    measured = assert_same("fsst_offsets", inputs, outs)
    size, dtype = outs["out_offsets"]
    whole = np.frombuffer(measured.outs[0], dtype) if measured.outs else np.zeros(size, dtype)
    total = max(0, (int(whole[-1]) if whole.size else 0) + slip)
    whole = whole.copy()
    whole[-1:] = total
    arrays = {**inputs, "symbols": symbols, "symbol_lengths": lengths, "out_offsets": whole}
    assert_same("fsst_decode", arrays, {"out": (total, np.uint8)})
