"""json_select, compiled and in Python."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from lancecy.errors import ExpressionError, FormatError
from lancecy.expr.evaluation.json_paths import element_steps, key_steps, path_steps
from tests.helpers.folded import folded
from tests.helpers.jsonb import nested, random_value, stored
from tests.kernels.both import CYTHON, REFERENCE, Kernels, memory_of, run
from tests.kernels.chunks import EXTREMES
from tests.kernels.test_jsonb import texts

DOCUMENT = {"a": {"b": [10, 20, {"c": "x"}], "": 3}, "n": None, "0": [1.5, [True]], "é": "é"}


def selected(
    kernels: Kernels, values: list[bytes], path: Any, mode: int = 0, **options: Any
) -> list[bytes | None]:
    """The stored parts, with bytes before and after the values; measured once, then written."""
    offsets = np.cumsum([3, *(len(value) for value in values)]).astype(np.int64)
    memory = memory_of(b"\xff\xfe\xfd", *values, b"\x80\x00\x00\x01")
    ends, found = np.full(len(values) + 1, 77), np.full(len(values), 77, np.uint8)
    call = offsets, memory, path.steps, path.names, mode, ends
    total = kernels.json_select(*call, np.empty(0, np.uint8), found, **options)
    out, measured = np.full(total, 0x77, np.uint8), ends.copy()
    assert kernels.json_select(*call, out, found, **options) == total
    assert np.array_equal(ends, measured)
    parts = [out[a:b].tobytes() for a, b in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)]
    return [part if hit else None for part, hit in zip(parts, found.tolist(), strict=True)]


def selection(kernels: Kernels, value: Any, path: Any, mode: int = 0) -> Any:
    """The selected part as ``json.loads`` gives it; ``...`` if there is none."""
    (part,) = selected(kernels, [stored(value)], path, mode)
    return ... if part is None else json.loads(texts(kernels, [part])[0])


@folded(
    ("path", "expected"),
    [
        ("$", DOCUMENT),
        ("$.a.b[0]", 10),
        ("$.a.b[3]", ...),
        ("$.a.b[-1]", ...),
        ("$.a.b[last]", {"c": "x"}),
        ("$.a.b[last - 1]", 20),
        ("$.a.b[1, 0]", [20, 10]),
        ("$.a.b[-5 to 1]", [10, 20]),
        ("$.a.b[1 to last].c", "x"),
        ("$.a.b[0][0]", ...),
        ("$.n", None),
        ("$.n.x", ...),
        ("$.é", "é"),
        ("$.*.b", [10, 20, {"c": "x"}]),
        ("$[*].n", None),
        ('$["0"][*][*]', [1.5, True]),
        ("$.a.**{1}", [3, [10, 20, {"c": "x"}]]),
        ("$.**.c", "x"),
        ("$.**{2 to last}.c", "x"),
        ("$.**{0}.n", None),
    ],
)
def test_paths(kernels: Kernels, path: str, expected: Any) -> None:
    assert selection(kernels, DOCUMENT, path_steps(path)) == expected


@folded(
    ("value", "key", "expected"),
    [
        (DOCUMENT, "é", "é"),
        (DOCUMENT, "b", ...),
        (DOCUMENT, "0", [1.5, [True]]),
        ([5, [6]], "1", [6]),
        ([5, [6]], "+0", 5),
        ([5, [6]], "2", ...),
        ([5, [6]], "-1", ...),
        ([5, [6]], "", ...),
        ("text", "0", ...),
        ({"": 7}, "", 7),
    ],
)
def test_keys(kernels: Kernels, value: Any, key: str, expected: Any) -> None:
    assert selection(kernels, value, key_steps(key)) == expected


def test_one_part_all_parts_or_the_first(kernels: Kernels) -> None:
    path, many = path_steps("$.a[*]"), {"a": [[1], 2, None]}
    assert [selection(kernels, many, path, mode) for mode in range(3)] == [
        [[1], 2, None],
        [1],
        [[1], 2, None],
    ]
    assert [selection(kernels, {"a": [7]}, path, mode) for mode in range(3)] == [7, 7, [7]]
    assert selected(kernels, [stored({}), b""], path, 2) == [None, None]


def test_elements_of_arrays_alone(kernels: Kernels) -> None:
    steps = element_steps("$.*")
    assert selection(kernels, {"a": [1, [2]], "b": 3, "c": {"d": [4]}}, steps, 2) == [1, [2]]


def test_nulls_and_values_without_bytes(kernels: Kernels) -> None:
    values, validity = [stored([1]), b"\xff", b""], np.array([0b101], np.uint8)
    assert selected(kernels, values, path_steps("$"), validity=validity) == [stored([1]), None, stored(None)]
    assert selected(kernels, [], path_steps("$")) == []


@folded("value", [{"a": [1, 2.5, "x\n"]}, {"b": 1, "a": {"": None}}])
def test_values_cut_off_where_the_path_leads(kernels: Kernels, value: Any) -> None:
    data = stored(value)
    for size in range(1, len(data)):
        with pytest.raises(FormatError, match="row 2") as caught:
            selected(kernels, [b"", data, data[:size]], path_steps("$.**.zz"))
        assert caught.value.position == 2


@folded(
    "bad",
    ["5fffffff", "9fffffff", "e0000000", "20000000", "20000000 60000000", "40000001 10000001 70000000 61"],
)
def test_values_of_unknown_kinds(kernels: Kernels, bad: str) -> None:
    with pytest.raises(FormatError, match="JSON value of row 1 is cut off, or of an unknown kind"):
        selected(kernels, [stored(0), bytes.fromhex(bad)], path_steps("$.*"))


def test_depth_is_bounded(kernels: Kernels) -> None:
    path = path_steps("$" + "[0]" * 100 + ".**")
    assert selected(kernels, [nested(128)], path)[0] is not None
    for depth in (129, 5000):
        with pytest.raises(FormatError, match="row 0 is nested more than 128 deep"):
            selected(kernels, [nested(depth)], path)


@pytest.mark.slow
def test_ways_to_the_parts_are_bounded(kernels: Kernels) -> None:
    # Two .** meet every value of a deep document often, which is still little for its bytes.
    assert selected(kernels, [nested(128)], path_steps("$.**.**.zz")) == [None]
    for path in ("$.**.**.**.**.**.zz", "$" + "[0,0]" * 40, "$" + ".**" * 60 + ".zz"):
        with pytest.raises(ExpressionError, match="the parts of row 1 in too many ways"):
            selected(kernels, [stored(1), nested(120)], path_steps(path))


def test_bytes_that_change_meanwhile_do_not_leave_the_output() -> None:
    # The output covers the entries, so that the second walk finds larger elements than the first.
    memory = memory_of(stored([True] * 3), bytes(range(60))).copy()
    path, offsets = path_steps("$[0, 1, 2]"), np.array([0, memory.size])
    ends, found = np.empty(2, np.int64), np.empty(1, np.uint8)
    with pytest.raises(FormatError, match="row 0 is cut off"):
        CYTHON.json_select(offsets, memory, path.steps, path.names, 0, ends, memory[4:20], found)
    assert memory[20:].tobytes() == bytes(range(4, 60))


@folded(
    "steps",
    [
        [7, 0, 0, 0],
        [0, 0, 2, 0],
        [6, 1, 0, 0],
        [1, 1 << 32, 0, 0],
        [1, 0, 0, 4],
        [0, 0, 0],
        [2, 0, 0, 0] * 129,
    ],
)
def test_steps_that_are_none_are_the_callers_mistake(kernels: Kernels, steps: list[int]) -> None:
    path = path_steps("$.a")
    broken = type(path)(np.array(steps, np.int64), path.names)
    with pytest.raises(ValueError, match=r"step|steps") as caught:
        selected(kernels, [stored([1])], broken)
    assert not isinstance(caught.value, FormatError)


@folded(("ends", "found", "mode"), [(1, 1, 0), (2, 0, 0), (2, 1, 3), (2, 1, -1)])
def test_arrays_of_other_sizes_are_the_callers_mistake(
    kernels: Kernels, ends: int, found: int, mode: int
) -> None:
    path, nothing = path_steps("$"), np.empty(0, np.uint8)
    with pytest.raises(ValueError, match=r"entry for every value|mode"):
        kernels.json_select(
            np.zeros(2, np.int64),
            nothing,
            path.steps,
            path.names,
            mode,
            np.zeros(ends, np.int64),
            nothing,
            np.zeros(found, np.uint8),
        )


@st.composite
def calls(draw: st.DrawFn) -> tuple[dict[str, Any], int]:
    """Stored values, sound or not, and any path."""
    rng = random.Random(draw(st.integers(0, 2**32)))
    values = [bytearray(stored(random_value(rng))) for _ in range(draw(st.integers(0, 5)))]
    for value in values:
        for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):
            place = rng.randrange(len(value) + 1)
            value[place : place + rng.randrange(3)] = rng.choice(
                [b"", b"\0", b"\x7f", b"\x80", b"\xff", b"\x50"]
            )
    offsets: NDArray[np.int64] = np.cumsum([0, *map(len, values)]).astype(np.int64)
    if draw(st.integers(0, 9)) == 0:
        offsets[draw(st.integers(0, len(values)))] = draw(
            st.one_of(st.integers(-1, 50), st.sampled_from(EXTREMES))
        )
    names = "abcdé\n".encode()
    step = st.tuples(st.integers(0, 6), st.integers(-2, 4), st.integers(-2, 5), st.integers(0, 7))
    steps = [
        (kind, max(0, first), max(0, first, last), flags) if kind in (0, 6) else (kind, first, last, flags)
        for kind, first, last, flags in draw(st.lists(step, max_size=4))
    ]
    validity = None
    if draw(st.booleans()):
        validity = np.frombuffer(rng.randbytes((len(values) + 7) // 8), np.uint8)
    inputs = {
        "offsets": offsets,
        "values": memory_of(*map(bytes, values)),
        "steps": np.array(steps, np.int64).reshape(-1),
        "names": memory_of(names),
        "mode": draw(st.integers(0, 2)),
        "validity": validity,
    }
    return inputs, draw(st.integers(0, 300))


@given(calls())
def test_json_select_does_what_its_twin_does(call: tuple[dict[str, Any], int]) -> None:
    inputs, room = call
    count = inputs["offsets"].size
    outs = {"out_offsets": (count, np.int64), "out_found": (count - 1, np.uint8), "out": (room, np.uint8)}
    compiled, twin = (run(kernels, "json_select", inputs, outs) for kernels in (CYTHON, REFERENCE))
    assert (compiled.error, compiled.position, compiled.text) == (twin.error, twin.position, twin.text)
    assert compiled.value == twin.value
    assert compiled.outs[:2] == twin.outs[:2]
    if isinstance(compiled.value, int) and compiled.value <= room:
        assert compiled.outs == twin.outs
