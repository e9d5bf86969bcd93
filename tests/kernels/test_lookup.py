"""take_offsets, take_values and take_fixed, compiled and in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from lancecy.errors import FormatError
from tests.helpers.folded import folded
from tests.kernels.both import Kernels, assert_same, i64, memory_of
from tests.kernels.chunks import EXTREMES

CODES = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]
OFFSETS = [np.int32, np.int64]
WORDS = [b"", b"a", b"lance", b"sixteen letters.", b"seventeen letters", b"x" * 32, b"y" * 33, b"z" * 70]


def offsets_of(words: list[bytes], dtype: Any = np.int32, first: int = 0) -> NDArray[Any]:
    return np.cumsum([first, *(len(word) for word in words)]).astype(dtype)


def bitmap(valid: list[int]) -> NDArray[np.uint8]:
    return np.packbits(np.array(valid, np.uint8), bitorder="little")


def take(
    kernels: Kernels,
    codes: NDArray[Any],
    words: list[bytes] | None = None,
    validity: NDArray[np.uint8] | None = None,
    dtypes: tuple[Any, Any] = (np.int32, np.int32),
) -> tuple[list[int], bytes]:
    words = WORDS if words is None else words
    dictionary, values = offsets_of(words, dtypes[0], 3), memory_of(b"???", *words)
    offsets = np.full(codes.size + 1, 77, dtypes[1])
    total = kernels.take_offsets(codes, dictionary, offsets, validity)
    out = np.full(total, 0x77, np.uint8)
    kernels.take_values(codes, dictionary, values, offsets, out, validity)
    return offsets.tolist(), out.tobytes()


@folded("out_dtype", OFFSETS)
@folded("dtype", OFFSETS)
@folded("codes_dtype", CODES)
def test_strings_are_looked_up(kernels: Kernels, codes_dtype: str, dtype: Any, out_dtype: Any) -> None:
    codes = np.random.default_rng(1).integers(0, len(WORDS), 200).astype(codes_dtype)
    codes.flags.writeable = False
    texts = [WORDS[code] for code in codes.tolist()]
    offsets, text = take(kernels, codes, dtypes=(dtype, out_dtype))
    assert text == b"".join(texts)
    assert offsets == offsets_of(texts).tolist()


@folded("word", WORDS)
@folded("count", [1, 2, 5])
def test_strings_of_every_length_end_exactly_where_the_output_does(
    kernels: Kernels, word: bytes, count: int
) -> None:
    assert take(kernels, np.zeros(count, np.int32), [word])[1] == word * count
    assert take(kernels, np.ones(count, np.int32), [b"q" * 40, word])[1] == word * count


@folded("codes_dtype", CODES)
def test_the_code_of_a_null_may_be_anything(kernels: Kernels, codes_dtype: str) -> None:
    info = np.iinfo(codes_dtype)
    codes = np.array([2, info.max, 1, info.min, 2, 5, 99, 1, 2, info.max], codes_dtype)
    validity = bitmap([1, 0, 1, 0, 1, 1, 0, 1, 1, 0])
    offsets, text = take(kernels, codes, validity=validity)
    assert text == b"lancealance" + b"x" * 32 + b"alance"
    assert np.diff(offsets).tolist() == [5, 0, 1, 0, 5, 32, 0, 1, 5, 0]
    values, out = np.arange(8, dtype="<i4") + 10, np.full(10, 7, "<i4")
    kernels.take_fixed(codes, values.view(np.uint8), 4, out.view(np.uint8), validity)
    assert out.tolist() == [12, 0, 11, 0, 12, 15, 0, 11, 12, 0]


@folded("width", [1, 2, 4, 5, 8, 16])
def test_nulls_need_no_dictionary(kernels: Kernels, width: int) -> None:
    validity = bitmap([0, 0, 0])
    assert take(kernels, np.array([0, 7, -1], np.int8), [], validity) == ([0, 0, 0, 0], b"")
    out = np.full(3 * width, 7, np.uint8)
    kernels.take_fixed(np.array([0, 7, -1], np.int8), memory_of(b""), width, out, validity)
    assert not out.any()


def test_no_rows_need_nothing(kernels: Kernels) -> None:
    assert take(kernels, np.empty(0, np.uint8), []) == ([0], b"")
    kernels.take_fixed(np.empty(0, np.uint8), memory_of(b""), 4, np.empty(0, np.uint8))


@folded("codes_dtype", CODES)
@folded("width", [1, 2, 3, 4, 8, 12, 16, 20])
def test_values_of_one_width_are_looked_up(kernels: Kernels, width: int, codes_dtype: str) -> None:
    rng = np.random.default_rng(width)
    values, codes = rng.integers(0, 256, (90, width)).astype(np.uint8), rng.integers(0, 90, 150)
    valid = rng.integers(0, 2, 150).astype(bool)
    out = np.full((150, width), 7, np.uint8)
    kernels.take_fixed(codes.astype(codes_dtype), values.reshape(-1), width, out.reshape(-1))
    np.testing.assert_array_equal(out, values[codes])
    kernels.take_fixed(
        codes.astype(codes_dtype),
        values.reshape(-1),
        width,
        out.reshape(-1),
        np.packbits(valid, bitorder="little"),
    )
    np.testing.assert_array_equal(out, np.where(valid[:, None], values[codes], 0))


@folded("codes_dtype", CODES)
@folded("width", [1, 2, 4, 7, 8, 16])
def test_codes_outside_the_dictionary_are_refused(kernels: Kernels, codes_dtype: str, width: int) -> None:
    info = np.iinfo(codes_dtype)
    for code in {8, int(info.max), int(info.min) or 9}:
        codes = np.array([1, 2, code, 9], codes_dtype)
        with pytest.raises(FormatError, match="code of row 2") as caught:
            take(kernels, codes)
        assert caught.value.position == 2
        places = offsets_of(WORDS), memory_of(*WORDS), np.array([0, 1, 6, 6, 6], np.int32)
        with pytest.raises(FormatError, match="code of row 2"):
            kernels.take_values(codes, *places, np.empty(6, np.uint8))
        with pytest.raises(FormatError, match="code of row 2"):
            kernels.take_fixed(codes, memory_of(bytes(8 * width)), width, np.empty(4 * width, np.uint8))


@folded("dtype", OFFSETS)
@folded(
    ("start", "stop"),
    [(0, -1), (9, 4), (-9, -3), (-1, 5), (0, -(2**31)), (2**31 - 1, -(2**31)), (-(2**31), 2**31 - 1)],
)
def test_offsets_of_a_dictionary_that_descend_are_refused(
    kernels: Kernels, start: int, stop: int, dtype: Any
) -> None:
    dictionary, codes = np.array([0, 0, start, stop], dtype), np.array([0, 2, 0])
    with pytest.raises(FormatError, match="offsets of value 1") as caught:
        kernels.take_offsets(codes, dictionary, np.zeros(4, np.int64))
    assert caught.value.position == 1
    places = dictionary, memory_of(bytes(9)), np.zeros(4, np.int64)
    with pytest.raises(FormatError, match="offsets of value 1"):
        kernels.take_values(codes, *places, np.empty(0, np.uint8))


@pytest.mark.parametrize(("start", "stop"), [(2**63 - 1, -(2**63)), (5, -(2**63)), (-(2**63), 2**63 - 1)])
def test_offsets_so_far_apart_that_they_wrap_are_refused(kernels: Kernels, start: int, stop: int) -> None:
    dictionary = np.array([start, stop])
    with pytest.raises(FormatError, match="offsets of value 0"):
        kernels.take_offsets(np.zeros(1, np.int8), dictionary, np.zeros(2, np.int64))
    places = dictionary, memory_of(bytes(9)), np.array([0, 1])
    with pytest.raises(FormatError, match="offsets of value 0"):
        kernels.take_values(np.zeros(1, np.int8), *places, np.empty(1, np.uint8))


@folded(("start", "stop"), [(0, 10), (9, 10), (10, 10), (2**31 - 2, 2**31 - 1)])
def test_values_of_a_dictionary_beyond_its_bytes_are_refused(kernels: Kernels, start: int, stop: int) -> None:
    out_offsets, out = np.array([0, 1], np.int32), np.empty(1, np.uint8)
    with pytest.raises(FormatError, match="offsets of value 0"):
        kernels.take_values(
            np.zeros(1, np.int8), np.array([start, stop], np.int32), memory_of(bytes(9)), out_offsets, out
        )


def test_more_text_than_32_bit_offsets_can_hold_is_refused(kernels: Kernels) -> None:
    dictionary, codes = np.array([0, 2**30, 2**31 - 1]), np.array([0, 1, 0])
    with pytest.raises(FormatError, match=r"more than 2\^31-1 bytes") as caught:
        kernels.take_offsets(codes, dictionary, np.zeros(4, np.int32))
    assert caught.value.position == 2
    assert kernels.take_offsets(codes, dictionary, np.zeros(4, np.int64)) == 2**31 - 1 + 2**30


def test_more_text_than_64_bits_can_count_is_refused(kernels: Kernels) -> None:
    with pytest.raises(FormatError, match="more than"):
        kernels.take_offsets(np.zeros(3, np.int8), np.array([0, 2**62]), np.zeros(4, np.int64))


@folded("out_offsets", [[0, 1, 5, 6], [0, 1, 6, 7], [1, 1, 6, 6], [0, 0, 5, 6]])
@folded("size", [6, 7])
def test_offsets_that_do_not_fit_the_strings_are_the_callers_mistake(
    kernels: Kernels, out_offsets: list[int], size: int
) -> None:
    places = offsets_of(WORDS), memory_of(*WORDS), np.array(out_offsets, np.int32)
    with pytest.raises(ValueError, match="out does not") as caught:
        kernels.take_values(np.array([1, 2, 0]), *places, np.empty(size, np.uint8))
    assert not isinstance(caught.value, FormatError)


@folded(("dictionary", "out"), [(0, 4), (3, 3), (3, 5), (3, 0)])
def test_offsets_of_other_sizes_are_the_callers_mistake(kernels: Kernels, dictionary: int, out: int) -> None:
    codes, places, results = np.zeros(3, np.int8), np.zeros(dictionary, np.int32), np.zeros(out, np.int32)
    with pytest.raises(ValueError, match="dict_offsets needs") as caught:
        kernels.take_offsets(codes, places, results)
    assert not isinstance(caught.value, FormatError)
    with pytest.raises(ValueError, match="dict_offsets needs"):
        kernels.take_values(codes, places, memory_of(b""), results, np.empty(0, np.uint8))


@folded(("nbytes", "width", "size"), [(8, 0, 0), (8, -1, 3), (8, 3, 9), (8, 4, 11), (8, 4, 16), (8, 2, 7)])
def test_values_and_outputs_of_other_sizes_are_the_callers_mistake(
    kernels: Kernels, nbytes: int, width: int, size: int
) -> None:
    with pytest.raises(ValueError, match="width|one value per code") as caught:
        kernels.take_fixed(np.zeros(3, np.int8), memory_of(bytes(nbytes)), width, np.empty(size, np.uint8))
    assert not isinstance(caught.value, FormatError)


@pytest.mark.parametrize("size", [0, 2])
def test_validity_needs_one_bit_per_row(kernels: Kernels, size: int) -> None:
    codes, validity = np.zeros(8, np.int8), np.zeros(size, np.uint8)
    with pytest.raises(ValueError, match="one bit per row"):
        kernels.take_offsets(codes, i64(0, 1), np.zeros(9, np.int32), validity)
    with pytest.raises(ValueError, match="one bit per row"):
        kernels.take_fixed(codes, memory_of(b"a"), 1, np.empty(8, np.uint8), validity)


@st.composite
def code_arrays(draw: st.DrawFn, num_values: int) -> dict[str, Any]:
    dtype = draw(st.sampled_from(CODES))
    info = np.iinfo(dtype)
    good = st.integers(0, max(0, min(num_values - 1, int(info.max))))
    codes = draw(st.lists(good, max_size=40))
    if draw(st.booleans()) and codes:
        codes[draw(st.integers(0, len(codes) - 1))] = draw(st.integers(int(info.min), int(info.max)))
    validity = None
    if draw(st.booleans()):
        size = max(0, (len(codes) + 7) // 8 + draw(st.sampled_from([0, 0, 0, 0, 1, -1])))
        validity = np.frombuffer(draw(st.binary(min_size=size, max_size=size)), np.uint8)
    return {"codes": np.array(codes, dtype), "validity": validity}


@given(st.lists(st.sampled_from(WORDS), max_size=9), st.data(), st.sampled_from([0, 0, 0, 1, -1]))
def test_take_offsets_and_values_do_what_their_twins_do(
    words: list[bytes], data: st.DataObject, slip: int
) -> None:
    inputs = data.draw(code_arrays(len(words)))
    dictionary = offsets_of(words, data.draw(st.sampled_from(OFFSETS)))
    if data.draw(st.integers(0, 3)) == 0:
        info = np.iinfo(dictionary.dtype)
        bad = [number for number in EXTREMES if info.min <= number <= info.max]
        dictionary[data.draw(st.integers(0, len(words)))] = data.draw(st.sampled_from(bad))
    size, dtype = inputs["codes"].size + 1 + slip, data.draw(st.sampled_from(OFFSETS))
    inputs["dict_offsets"] = dictionary
    measured = assert_same("take_offsets", inputs, {"out_offsets": (max(0, size), dtype)})
    offsets = np.frombuffer(measured.outs[0], dtype) if measured.outs else np.zeros(max(0, size), dtype)
    total = max(
        0, (int(offsets[-1]) if offsets.size else 0) % 10_000 + data.draw(st.sampled_from([0, 0, 0, 1, -1]))
    )
    arrays = {**inputs, "dict_values": memory_of(*words), "out_offsets": offsets}
    assert_same("take_values", arrays, {"out": (total, np.uint8)})


@given(
    st.integers(0, 300),
    st.sampled_from([1, 2, 3, 4, 8, 16, 17]),
    st.data(),
    st.sampled_from([0, 0, 0, 1, -1]),
)
def test_take_fixed_does_what_its_twin_does(
    num_values: int, width: int, data: st.DataObject, slip: int
) -> None:
    inputs = data.draw(code_arrays(num_values))
    values = memory_of(np.random.default_rng(width).bytes(num_values * width))
    size = max(0, inputs["codes"].size * width + slip)
    assert_same("take_fixed", {**inputs, "values": values, "width": width}, {"out": (size, np.uint8)})
