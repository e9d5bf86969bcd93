"""fsst_decode, compiled and in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from lancecy.errors import FormatError, TruncatedError
from tests.helpers.folded import folded
from tests.kernels.both import CYTHON, REFERENCE, Kernels, i64, memory_of, run
from tests.kernels.chunks import EXTREMES

DTYPES = [np.int32, np.int64]
WORDS = [b"a", b"of", b"the", b"lake", b"river", b"forest", b"mountai", b"mountain"]


def table(words: list[bytes]) -> tuple[NDArray[np.uint64], NDArray[np.uint8]]:
    """Symbols 0, 1, 2, ... as the kernel takes them."""
    symbols, lengths = np.zeros(256, np.uint64), np.zeros(256, np.uint8)
    for code, word in enumerate(words):
        symbols[code], lengths[code] = int.from_bytes(word, "little"), len(word)
    return symbols, lengths


def offsets_of(values: list[bytes], dtype: Any = np.int32, first: int = 0) -> NDArray[Any]:
    return np.cumsum([first, *(len(value) for value in values)]).astype(dtype)


def meaning(value: bytes) -> bytes:
    """The text of one coded value, with the symbols of WORDS."""
    text = b""
    at = 0
    while at < len(value):
        escapes = value[at] == 255
        at += escapes
        text += value[at : at + 1] if escapes else WORDS[value[at]]
        at += 1
    return text


def spans_of(memory: NDArray[np.uint8], start: int = 0, stop: int | None = None) -> dict[str, Any]:
    """One span."""
    length = (memory.size if stop is None else stop) - start
    return {"memory": memory, "positions": i64(start), "lengths": i64(length)}


def call(
    kernels: Kernels,
    spans: dict[str, Any],
    offsets: NDArray[Any],
    room: int,
    first: int = 0,
    start: int = 0,
    out_dtype: Any = np.int32,
    words: list[bytes] = WORDS,
) -> tuple[int, NDArray[Any], bytes]:
    """Number of values done, their offsets and their text."""
    symbols, lengths = table(words)
    out, out_offsets = np.full(room, 0x77, np.uint8), np.full(offsets.size, 77, out_dtype)
    arrays = {"offsets": offsets, "first": first, "start": start, "out_offsets": out_offsets, "out": out}
    done = kernels.fsst_decode(symbols, lengths, **spans, **arrays)
    return done, out_offsets, out[: out_offsets[done]].tobytes()


def decode(
    kernels: Kernels,
    values: list[bytes],
    dtype: Any = np.int32,
    out_dtype: Any = np.int32,
    before: bytes = b"",
) -> tuple[list[int], bytes]:
    coded = memory_of(before, *values, b"\x07after")
    offsets = offsets_of(values, dtype, len(before))
    done, out_offsets, text = call(kernels, spans_of(coded), offsets, 8 * coded.size, out_dtype=out_dtype)
    assert done == len(values)
    return out_offsets.tolist(), text


def random_values(seed: int, count: int, most: int, escapes: float = 0.2) -> list[bytes]:
    rng = np.random.default_rng(seed)
    values = []
    for size in rng.integers(0, most + 1, count):
        codes = rng.integers(0, 8, size).tolist()
        parts = [bytes([255, code]) if rng.random() < escapes else bytes([code]) for code in codes]
        values.append(b"".join(parts))
    return values


@folded("out_dtype", DTYPES)
@folded("dtype", DTYPES)
@folded(("most", "escapes"), [(1, 0.2), (3, 0), (8, 0.1), (60, 0), (60, 0.02), (60, 0.6)])
def test_values_are_decoded(kernels: Kernels, most: int, escapes: float, dtype: Any, out_dtype: Any) -> None:
    values = random_values(most, 60, most, escapes)
    texts = [meaning(value) for value in values]
    offsets, text = decode(kernels, values, dtype, out_dtype)
    assert text == b"".join(texts)
    assert offsets == offsets_of(texts).tolist()


@folded("escape_at", [None, 2046, 2047, 2048, 2049, 4095])
def test_values_and_escapes_may_lie_across_blocks_of_codes(kernels: Kernels, escape_at: int | None) -> None:
    """A block has 2,048 codes."""
    codes = bytearray(np.random.default_rng(1).integers(0, 8, 5000, np.uint8))
    if escape_at is not None:
        codes[escape_at : escape_at + 2] = b"\xff\x41"
    values = [bytes(codes[:2000]), bytes(codes[2000:2045]), b"", bytes(codes[2045:4094]), bytes(codes[4094:])]
    texts = [meaning(value) for value in values]
    offsets, text = decode(kernels, values)
    assert text == b"".join(texts)
    assert offsets == offsets_of(texts).tolist()


def test_values_may_begin_anywhere_in_their_bytes(kernels: Kernels) -> None:
    assert decode(kernels, [b"\x01\x02"], before=b"\xff\xfe\xfd") == ([0, 5], b"ofthe")


def test_values_may_lie_in_several_spans(kernels: Kernels) -> None:
    memory = memory_of(b"\x07\x01\x02\x09\x09\x00\xff\x21\x09\x03")
    spans = {"memory": memory, "positions": i64(5, -9, 1, 9), "lengths": i64(3, 0, 2, 1)}
    done, offsets, text = call(kernels, spans, np.array([0, 3, 3, 4, 6]), 50)
    assert (done, text) == (4, b"a!ofthelake")
    assert offsets.tolist() == [0, 2, 2, 4, 11]


def test_an_escape_stands_for_the_byte_after_it(kernels: Kernels) -> None:
    assert decode(kernels, [b"\xff\xff", b"\xff\x00\x00", b"\xff\x07"]) == ([0, 1, 3, 4], b"\xff\x00a\x07")


@folded("word", WORDS)
@folded("count", [1, 2, 3, 4, 5, 9])
def test_symbols_of_every_length_end_exactly_where_the_output_does(
    kernels: Kernels, word: bytes, count: int
) -> None:
    coded = memory_of(bytes([WORDS.index(word)]) * count)
    done, _, text = call(kernels, spans_of(coded), np.array([0, count]), len(word) * count)
    assert (done, text) == (1, word * count)


def test_no_values_are_decoded_to_nothing(kernels: Kernels) -> None:
    assert decode(kernels, []) == ([0], b"")
    assert decode(kernels, [b"", b""]) == ([0, 0, 0], b"")


@folded("most", [3, 60])
@folded("seed", range(4))
def test_decoding_stops_at_the_first_value_without_room_and_goes_on_from_there(
    kernels: Kernels, seed: int, most: int
) -> None:
    values = random_values(seed, 90, most)
    texts = [meaning(value) for value in values]
    expected = offsets_of(texts)
    coded, offsets = memory_of(*values), offsets_of(values)
    for room in range(0, int(expected[-1]), 1 + int(expected[-1]) // 37):
        done, found, text = call(kernels, spans_of(coded), offsets, room)
        assert done == np.searchsorted(expected, room, side="right") - 1
        assert found[: done + 1].tolist() == expected[: done + 1].tolist()
        assert (found[done + 1 :] == 77).all()
        assert text == b"".join(texts[:done])
        rest = call(kernels, spans_of(coded), offsets, int(expected[-1]), done, len(text))
        assert rest[0] == len(values)
        assert rest[1][done:].tolist() == expected[done:].tolist()
        assert rest[2][len(text) :] == b"".join(texts[done:])


@folded("bad", [b"\x08", b"\x00\xfe", b"\x01\xff", b"\xff", b"\xff\xff\xff", b"\x00" * 9 + b"\xc8"])
@folded("before", [0, 1, 20, 1500])
def test_codes_without_a_meaning_are_refused(kernels: Kernels, bad: bytes, before: int) -> None:
    values = [b"\x02\x03"] * before + [b"", bad]
    with pytest.raises(FormatError, match="without a symbol") as caught:
        decode(kernels, values)
    assert caught.value.position == before + 1


def test_an_escape_has_its_byte_in_its_own_span(kernels: Kernels) -> None:
    spans = {"memory": memory_of(b"\x00\xff\x21"), "positions": i64(0, 2), "lengths": i64(2, 1)}
    with pytest.raises(FormatError, match="ends in an escape") as caught:
        call(kernels, spans, np.array([0, 1, 3]), 50)
    assert caught.value.position == 1


@folded("dtype", DTYPES)
@folded(
    ("offsets", "row"),
    [([-1, 2], 0), ([0, 2, 1], 1), ([0, 10], 0), ([0, 3, 9, 9], 1), ([9, 9], 0), ([-1], 0), ([9], 0)],
)
def test_offsets_that_descend_or_leave_the_bytes_are_refused(
    kernels: Kernels, offsets: list[int], row: int, dtype: Any
) -> None:
    with pytest.raises(FormatError, match=f"offsets of value {row}") as caught:
        call(kernels, spans_of(memory_of(bytes(8))), np.array(offsets, dtype), 50)
    assert caught.value.position == row


@folded(
    ("position", "length", "error"),
    [(0, -1, FormatError), (-1, 1, FormatError), (0, 9, TruncatedError), (9, 1, TruncatedError)],
)
def test_spans_outside_memory_are_refused(
    kernels: Kernels, position: int, length: int, error: type[FormatError]
) -> None:
    spans = {"memory": memory_of(bytes(8)), "positions": i64(0, position), "lengths": i64(1, length)}
    with pytest.raises(error, match="run 1") as caught:
        call(kernels, spans, np.array([0, 1]), 50)
    assert caught.value.position == 1


@pytest.mark.parametrize("length", [9, 255])
def test_symbols_longer_than_a_word_are_the_callers_mistake(kernels: Kernels, length: int) -> None:
    symbols, lengths = table(WORDS)
    lengths[200] = length
    arrays = memory_of(b""), i64(), i64(), np.zeros(1, np.int32), 0, 0, np.zeros(1, np.int32)
    with pytest.raises(ValueError, match="at most 8") as caught:
        kernels.fsst_decode(symbols, lengths, *arrays, np.empty(0, np.uint8))
    assert not isinstance(caught.value, FormatError)


def test_a_symbol_for_the_escape_is_the_callers_mistake(kernels: Kernels) -> None:
    with pytest.raises(ValueError, match="escape") as caught:
        call(kernels, spans_of(memory_of(b"")), np.zeros(1, np.int32), 0, words=[b"a"] * 256)
    assert not isinstance(caught.value, FormatError)


@folded(("first", "start"), [(-1, 0), (2, 0), (0, -1), (0, 6), (2**40, 0)])
def test_a_place_to_go_on_that_is_not_there_is_the_callers_mistake(
    kernels: Kernels, first: int, start: int
) -> None:
    with pytest.raises(ValueError, match="out of range") as caught:
        call(kernels, spans_of(memory_of(b"\x02")), np.array([0, 1]), 5, first, start)
    assert not isinstance(caught.value, FormatError)


@folded(
    ("symbols", "sizes", "spans", "offsets", "out_offsets"),
    [(255, 256, 1, 1, 1), (256, 255, 1, 1, 1), (256, 256, 2, 1, 1), (256, 256, 1, 0, 0), (256, 256, 1, 2, 3)],
)
def test_arrays_of_other_sizes_are_the_callers_mistake(
    kernels: Kernels, symbols: int, sizes: int, spans: int, offsets: int, out_offsets: int
) -> None:
    arrays = (
        np.zeros(symbols, np.uint64),
        np.zeros(sizes, np.uint8),
        memory_of(b""),
        i64(0),
        np.zeros(spans, "i8"),
    )
    places = np.zeros(offsets, np.int32), 0, 0, np.zeros(out_offsets, np.int32)
    with pytest.raises(ValueError, match="entr|differ") as caught:
        kernels.fsst_decode(*arrays, *places, np.empty(0, np.uint8))
    assert not isinstance(caught.value, FormatError)


@pytest.mark.slow
def test_32_bit_offsets_take_no_more_room_than_they_count() -> None:
    """On the compiled kernel alone: its twin would take minutes over 2**28 codes."""
    spans, (symbols, lengths) = spans_of(memory_of(b"\x07" * (2**28 + 1))), table(WORDS)
    offsets = np.array([0, 2**28 - 1, 2**28, 2**28 + 1], np.int64)
    out, narrow, wide = np.empty(2**31 + 8, np.uint8), np.empty(4, np.int32), np.empty(4, np.int64)

    def done(room: int, out_offsets: NDArray[Any]) -> int:
        places = {"offsets": offsets, "first": 0, "start": 0, "out_offsets": out_offsets, "out": out[:room]}
        return int(CYTHON.fsst_decode(symbols, lengths, **spans, **places))

    assert (done(2**31 - 1, narrow), narrow[1]) == (1, 2**31 - 8)
    assert (done(2**31 + 8, wide), wide[3]) == (3, 2**31 + 8)
    assert out[-8:].tobytes() == WORDS[7]
    with pytest.raises(ValueError, match="32-bit offsets"):
        done(2**31, narrow)


@st.composite
def calls(draw: st.DrawFn) -> dict[str, Any]:
    codes = st.one_of(st.integers(0, 7), st.integers(0, 7), st.sampled_from([8, 255, 255]))
    values = [bytes(value) for value in draw(st.lists(st.lists(codes, max_size=12), max_size=8))]
    offsets = offsets_of(values, draw(st.sampled_from(DTYPES)))
    if draw(st.integers(0, 3)) == 0:
        info = np.iinfo(offsets.dtype)
        bad = [number for number in EXTREMES if info.min <= number <= info.max]
        offsets[draw(st.integers(0, len(values)))] = draw(
            st.one_of(st.integers(-1, 50), st.sampled_from(bad))
        )
    whole = b"".join(values)
    cuts = sorted(draw(st.lists(st.integers(0, len(whole)), max_size=3)))
    positions, stops = i64(0, *cuts), i64(*cuts, len(whole))
    if draw(st.integers(0, 5)) == 0:
        positions[draw(st.integers(0, len(cuts)))] = draw(st.sampled_from(EXTREMES))
    symbols, sizes = table(WORDS)
    return {
        "symbols": symbols,
        "symbol_lengths": sizes,
        "memory": memory_of(whole),
        "positions": positions,
        "lengths": stops - i64(0, *cuts),
        "offsets": offsets,
        "first": draw(st.one_of(st.just(0), st.integers(-1, len(values) + 1))),
        "start": draw(st.one_of(st.just(0), st.integers(-1, 60))),
    }


@given(calls(), st.integers(0, 200), st.sampled_from([0, 0, 0, 1, -1]), st.sampled_from(DTYPES))
def test_fsst_decode_does_what_its_twin_does(
    inputs: dict[str, Any], room: int, slip: int, dtype: Any
) -> None:
    outs = {"out_offsets": (max(0, inputs["offsets"].size + slip), dtype), "out": (room, np.uint8)}
    compiled, twin = (run(kernels, "fsst_decode", inputs, outs) for kernels in (CYTHON, REFERENCE))
    assert (compiled.error, compiled.position, compiled.text) == (twin.error, twin.position, twin.text)
    assert compiled.value == twin.value
    if compiled.error is None:
        offsets, other = (np.frombuffer(outcome.outs[0], dtype) for outcome in (compiled, twin))
        assert offsets.tolist() == other.tolist()
        text = slice(inputs["start"], int(offsets[compiled.value]))  # type: ignore[call-overload]
        assert compiled.outs[1][text] == twin.outs[1][text]
