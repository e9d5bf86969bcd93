"""json_texts, compiled and in Python."""

from __future__ import annotations

import json
import random
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from lancecy.errors import FormatError
from lancecy.kernels._powers import powers_of_ten
from tests.helpers.folded import folded
from tests.helpers.jsonb import nested, random_value, stored
from tests.kernels.both import CYTHON, REFERENCE, Kernels, memory_of, run
from tests.kernels.chunks import EXTREMES

NUMBERS = [
    (b"\x00", "0"),
    (b"\x50\x01", "1"),
    (b"\x50\xff", "255"),
    (b"\x40\xff", "-1"),
    (b"\x40\xff\x7f", "-129"),
    (b"\x40\x00\x05", "5"),
    (b"\x40\x80\x00\x00\x00", "-2147483648"),
    (b"\x50\xff\xff\xff\xff", "4294967295"),
    (b"\x40\x80" + bytes(7), "-9223372036854775808"),
    (b"\x50" + b"\xff" * 8, "18446744073709551615"),
    (b"\x50\x05\xf5\xe1\x00", "100000000"),
    (b"\x10", "null"),
    (b"\x20", "null"),
    (b"\x30", "null"),
]
FLOATS = [
    (0.0, "0.0"),
    (-0.0, "-0.0"),
    (1.5, "1.5"),
    (-2.0, "-2.0"),
    (100.0, "100.0"),
    (0.1, "0.1"),
    (0.30000000000000004, "0.30000000000000004"),
    (1e-5, "0.00001"),
    (-1.25e-5, "-0.0000125"),
    (1e-6, "1e-6"),
    (1e15, "1000000000000000.0"),
    (9007199254740993.0, "9007199254740992.0"),
    (1e16, "1e+16"),
    (1.2345678901234567e19, "1.2345678901234567e+19"),
    (1e23, "1e+23"),
    (5e-324, "5e-324"),
    (-1.7976931348623157e308, "-1.7976931348623157e+308"),
    (2.2250738585072014e-308, "2.2250738585072014e-308"),
    (float("inf"), "null"),
    (float("-inf"), "null"),
    (float("nan"), "null"),
]


def texts(kernels: Kernels, values: list[bytes], **options: Any) -> list[str]:
    """The texts a kernel returns for stored values that have bytes before and after them."""
    offsets = np.cumsum([3, *(len(value) for value in values)]).astype(np.int64)
    memory, ends = memory_of(b"\xff\xfe\xfd", *values, b"\x80\x00\x00\x01"), np.full(len(values) + 1, 77)
    total = kernels.json_texts(offsets, memory, ends, np.empty(0, np.uint8), **options)
    out, measured = np.full(total, 0x77, np.uint8), ends.copy()
    assert kernels.json_texts(offsets, memory, ends, out, **options) == total
    assert np.array_equal(ends, measured)
    return [out[a:b].tobytes().decode() for a, b in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)]


def test_values_are_written_as_json_does(kernels: Kernels) -> None:
    rng = random.Random(5)
    values = [random_value(rng) for _ in range(400)]
    found = texts(kernels, [stored(value) for value in values])
    assert [json.loads(text) for text in found] == values
    for value, text in zip(values, found, strict=True):
        if "." not in text and "e" not in text:  # floats have a test of their own
            shown = json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
            assert text == shown


@folded(("number", "text"), NUMBERS)
def test_numbers_of_every_width(kernels: Kernels, number: bytes, text: str) -> None:
    assert texts(kernels, [stored(number), stored([number, number])]) == [text, f"[{text},{text}]"]


def test_floats_have_a_dot_or_an_exponent(kernels: Kernels) -> None:
    assert texts(kernels, [stored(value) for value, _ in FLOATS]) == [text for _, text in FLOATS]


@pytest.mark.parametrize("step", [-2, -1, 0, 1, 2])
def test_floats_near_every_power_of_two_and_ten_are_the_shortest(step: int) -> None:
    """Floats whose neighbours are at different distances, and floats with the fewest digits."""
    powers = [2.0**power for power in range(-1074, 1024)] + [
        float(f"1e{power}") for power in range(-323, 309)
    ]
    bits = np.array(powers).view(np.int64) + step
    values = [stored(value) for value in bits[bits > 0].view(np.float64).tolist()]
    assert texts(CYTHON, values) == texts(REFERENCE, values)


@given(st.lists(st.integers(0, 2**64 - 1), min_size=60, max_size=60))
def test_floats_of_any_bits_are_the_shortest(numbers: list[int]) -> None:
    values = [stored(b"\x60" + number.to_bytes(8, "big")) for number in numbers]
    assert texts(CYTHON, values) == texts(REFERENCE, values)


def test_powers_of_ten_are_rounded_up() -> None:
    words = powers_of_ten().tolist()
    for number, power in enumerate(range(-292, 325)):
        found = words[2 * number] << 64 | words[2 * number + 1]
        assert found >> 127 == 1
        exact = 10 ** abs(power)
        if power >= 0:
            shift = exact.bit_length() - 128
            assert (found - 1) << max(shift, 0) < exact << max(-shift, 0) <= found << max(shift, 0)
        else:
            unit = 1 << (127 + exact.bit_length())
            assert (found - 1) * exact < unit <= found * exact


def test_text_of_every_length_and_place(kernels: Kernels) -> None:
    """Text with one character that needs an escape or is not ASCII, at each position in a word of eight bytes."""
    values = ["x" * count for count in range(20)]
    values += ["y" * place + special + "z" * 9 for special in '"\\\n\x1fé\u2028😀' for place in range(10)]
    found = texts(kernels, [stored(value) for value in values])
    assert found == [json.dumps(value, ensure_ascii=False) for value in values]


def test_all_characters_below_a_space_are_escaped(kernels: Kernels) -> None:
    value = "".join(map(chr, range(0x30)))
    assert texts(kernels, [stored(value)]) == [json.dumps(value)]


NOT_UTF8 = "80 c080 c3 e0a0 eda080 e08080 f4908080 f0808080 f5808080 c328 ff e28028"


@folded("bad", NOT_UTF8.split())
@folded("before", [0, 7])
def test_text_that_is_not_utf8_is_refused(kernels: Kernels, bad: str, before: int) -> None:
    text = b"q" * before + bytes.fromhex(bad)
    entry = struct.pack(">II", 0x20000000, 0x10000000 | len(text))
    with pytest.raises(FormatError, match="text in the JSON value of row 1 is not UTF-8") as caught:
        texts(kernels, [stored("é"), entry + text])
    assert caught.value.position == 1


def test_nulls_have_no_text_and_their_bytes_are_not_looked_at(kernels: Kernels) -> None:
    values = [stored(1), b"\xff\xff", b"", stored("x"), b""]
    validity = np.array([0b01001], np.uint8)
    assert texts(kernels, values, validity=validity) == ["1", "", "", '"x"', ""]


def test_a_value_without_bytes_is_null(kernels: Kernels) -> None:
    assert texts(kernels, [b"", stored([])]) == ["null", "[]"]


def test_no_values(kernels: Kernels) -> None:
    assert texts(kernels, []) == []


@folded("value", [{"a": [1, 2.5, "x\n"]}, ["é", {"": None}], True, -129, "text"])
def test_values_cut_off(kernels: Kernels, value: Any) -> None:
    data = stored(value)
    for size in range(1, len(data)):
        with pytest.raises(FormatError, match="row 2") as caught:
            texts(kernels, [b"", data, data[:size]])
        assert caught.value.position == 2


@folded(
    "bad",
    [
        "9fffffff",
        "5fffffff",
        "e0000000",
        "00000000",
        "20000000 60000000",
        "20000000 70000000",
        "20000000 20000000",
        "20000000 20000001 40",
        "20000000 20000001 50",
        "20000000 20000001 60",
        "20000000 20000001 70",
        "20000000 20000002 0001",
        "20000000 20000002 1000",
        "20000000 20000004 40010203",
        "20000000 20000005 603f800000",
        "20000000 2000000a 60000000000000000000",
        "20000000 50000003 800000",
        "40000001 10000001 20000002 61 70",
        "40000001 1fffffff 00000000",
        "80000002 50000004 00000000 00000000",
    ],
)
def test_values_of_unknown_kinds(kernels: Kernels, bad: str) -> None:
    with pytest.raises(FormatError, match="JSON value of row 1 is cut off, or of an unknown kind") as caught:
        texts(kernels, [stored(0), bytes.fromhex(bad)])
    assert caught.value.position == 1


def test_depth_is_bounded(kernels: Kernels) -> None:
    assert texts(kernels, [nested(128)]) == ["[" * 129 + "]" * 129]
    for depth in (129, 5000):
        with pytest.raises(FormatError, match="row 0 is nested more than 128 deep"):
            texts(kernels, [nested(depth)])


@folded(("offsets", "row"), [([-1, 2], 0), ([0, 4, 1], 1), ([0, 10], 0), ([9, 9], 0)])
def test_offsets_that_descend_or_leave_the_bytes(kernels: Kernels, offsets: list[int], row: int) -> None:
    ends, out = np.empty(len(offsets), np.int64), np.empty(9, np.uint8)
    with pytest.raises(FormatError, match=f"offsets of value {row}") as caught:
        kernels.json_texts(np.array(offsets), memory_of(b"\x80\0\0\0" * 2), ends, out)
    assert caught.value.position == row


@folded(("offsets", "ends", "bits"), [(0, 0, 0), (2, 3, 1), (2, 2, 2), (10, 10, 1), (2, 2, 0)])
def test_arrays_of_other_sizes_are_the_callers_mistake(
    kernels: Kernels, offsets: int, ends: int, bits: int
) -> None:
    arrays = np.zeros(offsets, np.int64), memory_of(b""), np.zeros(ends, np.int64), np.empty(0, np.uint8)
    with pytest.raises(ValueError, match=r"one entry more|a bit for every") as caught:
        kernels.json_texts(*arrays, np.full(bits, 255, np.uint8))
    assert not isinstance(caught.value, FormatError)


@st.composite
def calls(draw: st.DrawFn) -> tuple[dict[str, Any], int]:
    """Stored values with bytes changed, removed or inserted, and the capacity for their texts."""
    rng = random.Random(draw(st.integers(0, 2**32)))
    values = [bytearray(stored(random_value(rng))) for _ in range(draw(st.integers(0, 5)))]
    for value in values:
        for _ in range(draw(st.sampled_from([0, 0, 1, 2]))):
            place = rng.randrange(len(value) + 1)
            value[place : place + rng.randrange(3)] = rng.choice(
                [b"", b"\0", b"\x7f", b"\x80", b"\xff", b"\x50"]
            )
    offsets: NDArray[np.int64] = np.cumsum([0, *map(len, values)]).astype(np.int64)
    if draw(st.integers(0, 5)) == 0:
        offsets[draw(st.integers(0, len(values)))] = draw(
            st.one_of(st.integers(-1, 50), st.sampled_from(EXTREMES))
        )
    validity = None
    if draw(st.booleans()):
        validity = np.frombuffer(rng.randbytes((len(values) + 7) // 8), np.uint8)
    inputs = {
        "offsets": offsets,
        "values": memory_of(*map(bytes, values)),
        "validity": validity,
        "plain": draw(st.booleans()),
    }
    return inputs, draw(st.integers(0, 300))


@given(calls())
def test_json_texts_does_what_its_twin_does(call: tuple[dict[str, Any], int]) -> None:
    inputs, room = call
    outs = {"out_offsets": (inputs["offsets"].size, np.int64), "out": (room, np.uint8)}
    compiled, twin = (run(kernels, "json_texts", inputs, outs) for kernels in (CYTHON, REFERENCE))
    assert (compiled.error, compiled.position, compiled.text) == (twin.error, twin.position, twin.text)
    assert compiled.value == twin.value
    assert compiled.outs[:1] == twin.outs[:1]
    if isinstance(compiled.value, int) and compiled.value <= room:
        assert compiled.outs == twin.outs


def test_plain_text_has_no_quotes_and_escapes(kernels: Kernels) -> None:
    values = ["", 'a"b\\c\n\x1fé\u2028😀', "x" * 20 + '"', 1.5, None, ["a"]]
    plain = ["", 'a"b\\c\n\x1fé\u2028😀', "x" * 20 + '"', "1.5", "null", '["a"]']
    assert texts(kernels, [*map(stored, values), b""], plain=True) == [*plain, "null"]


@folded("bad", NOT_UTF8.split())
def test_plain_text_that_is_not_utf8_is_refused(kernels: Kernels, bad: str) -> None:
    text = b"q\n" + bytes.fromhex(bad)
    with pytest.raises(FormatError, match="text in the JSON value of row 0 is not UTF-8"):
        texts(kernels, [struct.pack(">II", 0x20000000, 0x10000000 | len(text)) + text], plain=True)
