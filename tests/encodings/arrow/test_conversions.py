"""Conversions without pandas give what pyarrow's own give."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancecy.encodings.arrow.conversions import array_of, numbers_of, scalar_of, values_of

INTEGERS = (pa.int8(), pa.uint8(), pa.int16(), pa.uint32(), pa.int64(), pa.uint64())
VALUES = (
    *((kind, value) for kind in INTEGERS for value in (0, 1, 127)),
    (pa.int64(), -(1 << 63)),
    (pa.uint64(), (1 << 64) - 1),
    (pa.float64(), 0.1),
    (pa.float64(), float("inf")),
    (pa.float64(), 3),
    (pa.float32(), 0.1),
    (pa.bool_(), True),
    (pa.bool_(), False),
    (pa.string(), ""),
    (pa.string(), "äö"),
    (pa.large_string(), "text"),
    (pa.binary(), b"x"),
    (pa.date32(), None),
    (pa.list_(pa.int8()), [1, None]),
    (pa.timestamp("us", "UTC"), 5),
)


@pytest.mark.parametrize(("kind", "value"), VALUES, ids=str)
def test_values_are_those_of_pyarrow(kind: pa.DataType, value: Any) -> None:
    assert scalar_of(value, kind).equals(pa.scalar(value, kind))
    for values in ([value], [value, value], [value, None], []):
        made = values_of(values, kind)
        made.validate(full=True)
        assert made.equals(pa.array(values, kind))


@pytest.mark.parametrize("value", [5, 1 << 40, 0.5, True, "a", b"a", None, [1]], ids=str)
def test_type_of_a_value_is_that_of_pyarrow(value: Any) -> None:
    assert scalar_of(value).equals(pa.scalar(value)) and values_of([value]).equals(pa.array([value]))


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.int8(), 128),
        (pa.uint8(), -1),
        (pa.int64(), 1 << 63),
        (pa.int64(), "a"),
        (pa.string(), 1),
        (pa.bool_(), 1),
    ],
    ids=str,
)
def test_value_of_another_type_is_refused_as_by_pyarrow(kind: pa.DataType, value: Any) -> None:
    for make, given_value in ((scalar_of, value), (values_of, [value])):
        with pytest.raises((pa.ArrowException, OverflowError)):
            make(given_value, kind)


@given(
    st.lists(st.booleans(), max_size=40),
    st.integers(0, 40),
    st.sampled_from(["?", "i1", "<u4", "<i8", "<f4", "<f8"]),
)
def test_arrays_convert_as_by_pyarrow(bits: list[bool], start: int, dtype: str) -> None:
    numbers = np.array(bits, dtype)
    missing = np.arange(numbers.size) % 3 == 0
    for mask in (None, missing):
        made = array_of(numbers, mask)
        made.validate(full=True)
        assert made.equals(pa.array(numbers, mask=mask))
        part = made.slice(start)
        np.testing.assert_array_equal(numbers_of(part), part.to_numpy(zero_copy_only=False))
