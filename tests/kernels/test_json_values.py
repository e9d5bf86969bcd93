"""json_scalars and json_array_has, compiled and in Python."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from lancecy.errors import FormatError
from tests.helpers.folded import folded
from tests.helpers.jsonb import stored
from tests.kernels.both import CYTHON, REFERENCE, Kernels, memory_of, run
from tests.kernels.test_json_path import calls

VALUES = [
    (None, 0, 0, 0.0),
    (0, 1, 0, 0.0),
    (b"\x50\xff", 1, 255, 255.0),
    (b"\x40\xff", 1, -1, -1.0),
    (b"\x40\x80\x00", 1, -32768, -32768.0),
    (b"\x40\x7f\xff\xff\xff", 1, 2**31 - 1, 2.0**31 - 1),
    (-(2**63), 1, -(2**63), -(2.0**63)),
    (2**63 - 1, 1, 2**63 - 1, 2.0**63),
    (2**63, 2, 0, 2.0**63),
    (2**64 - 1, 2, 0, 2.0**64),
    (2**53 + 1, 1, 2**53 + 1, 2.0**53),
    (-0.5, 3, 0, -0.5),
    (b"\x20", 3, 0, math.inf),
    (b"\x30", 3, 0, -math.inf),
    (False, 4, 0, 0.0),
    (True, 5, 0, 0.0),
    ("12", 6, 0, 0.0),
    ([1, [2]], 7, 2, 0.0),
    ({"a": 1, "b": 2}, 8, 2, 0.0),
]


def laid_out(values: list[bytes]) -> tuple[Any, Any]:
    return np.cumsum([3, *map(len, values)]).astype(np.int64), memory_of(b"\xff\xfe\xfd", *values, b"\x80")


def scalars(kernels: Kernels, values: list[bytes], **options: Any) -> list[tuple[int, int, float]]:
    kinds, integers, floats = (
        np.full(len(values), 77, np.uint8),
        np.full(len(values), 77),
        np.full(len(values), 7.7),
    )
    kernels.json_scalars(*laid_out(values), kinds, integers, floats, **options)
    return list(zip(kinds.tolist(), integers.tolist(), floats.tolist(), strict=True))


def hits(kernels: Kernels, values: list[bytes], text: str, **options: Any) -> list[int]:
    out = np.full(len(values), 77, np.uint8)
    kernels.json_array_has(*laid_out(values), memory_of(text.encode()), out, **options)
    found: list[int] = out.tolist()
    return found


def test_kinds_and_numbers(kernels: Kernels) -> None:
    found = scalars(kernels, [stored(value) for value, *_ in VALUES])
    assert found == [tuple(rest) for _, *rest in VALUES]


def test_nan(kernels: Kernels) -> None:
    ((kind, integer, number),) = scalars(kernels, [stored(b"\x10")])
    assert (kind, integer, math.isnan(number)) == (3, 0, True)


def test_nulls_and_values_without_bytes(kernels: Kernels) -> None:
    values, validity = [b"\xff", b"", stored(1)], np.array([0b110], np.uint8)
    assert [kind for kind, *_ in scalars(kernels, values, validity=validity)] == [0, 0, 1]
    assert hits(kernels, values, "1", validity=validity) == [0, 0, 0]


@folded(
    ("text", "expected"),
    [
        ("1", 1),
        ("x", 1),
        ('"x"', 1),
        ("", 0),
        ("null", 1),
        ("[1]", 1),
        ("[ 1 ]", 0),
        ("1.0", 0),
        ('"', 0),
        ("é", 1),
    ],
)
def test_elements_by_their_text(kernels: Kernels, text: str, expected: int) -> None:
    array = stored([1, "x", None, [1], "é", {"k": "long " * 9}])
    assert hits(kernels, [stored({"0": 1}), array, stored("x"), stored([])], text) == [0, expected, 0, 0]


def test_empty_text_and_text_of_one_quote(kernels: Kernels) -> None:
    values = [stored([""]), stored(['"'])]
    assert (hits(kernels, values, ""), hits(kernels, values, '\\"')) == ([1, 0], [0, 1])


@folded(
    "bad",
    ["20000000 20000001 40", "20000000 20000002 0001", "20000000 20000005 603f800000", "9fffffff", "20"],
)
def test_values_that_are_none(kernels: Kernels, bad: str) -> None:
    with pytest.raises(FormatError, match="row 1 is cut off, or of an unknown kind") as caught:
        scalars(kernels, [stored(0), bytes.fromhex(bad)])
    assert caught.value.position == 1


def test_elements_that_are_none(kernels: Kernels) -> None:
    with pytest.raises(FormatError, match="text in the JSON value of row 0 is not UTF-8"):
        hits(kernels, [bytes.fromhex("80000001 10000001 ff")], "x")


def test_arrays_of_other_sizes_are_the_callers_mistake(kernels: Kernels) -> None:
    offsets, memory = laid_out([stored(1)])
    with pytest.raises(ValueError, match="entry for every value"):
        kernels.json_scalars(offsets, memory, np.empty(2, np.uint8), np.empty(1, np.int64), np.empty(1))
    with pytest.raises(ValueError, match="entry for every value"):
        kernels.json_array_has(offsets, memory, memory, np.empty(0, np.uint8))


@given(calls())
def test_both_do_what_their_twins_do(call: tuple[dict[str, Any], int]) -> None:
    inputs, _ = call
    column = {key: inputs[key] for key in ("offsets", "values", "validity")}
    count = column["offsets"].size - 1
    outs = {
        "out_kinds": (count, np.uint8),
        "out_integers": (count, np.int64),
        "out_floats": (count, np.float64),
    }
    assert run(CYTHON, "json_scalars", column, outs) == run(REFERENCE, "json_scalars", column, outs)
    text = {**column, "text": memory_of(b"1")}
    hit = {"out": (count, np.uint8)}
    assert run(CYTHON, "json_array_has", text, hit) == run(REFERENCE, "json_array_has", text, hit)
