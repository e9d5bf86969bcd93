"""JSON text to its stored form, and back."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancecy.encodings.arrow.json import to_stored, to_texts
from lancecy.errors import SchemaError

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 64) - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text("abé\n", max_size=3), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(st.lists(VALUES, max_size=5))
def test_values_come_back_with_their_members_sorted(values: list[object]) -> None:
    texts = pa.array([*(json.dumps(value) for value in values), None], pa.string())
    found = to_texts(to_stored(texts)).to_pylist()
    assert found.pop() is None
    assert [json.loads(text) for text in found] == values
    for value, text in zip(values, found, strict=True):
        if isinstance(value, dict):
            assert list(json.loads(text)) == sorted(value, key=str.encode)


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("0", "20000000 20000001 00"),
        ("-0", "20000000 20000001 00"),
        ("-128", "20000000 20000002 4080"),
        ("-129", "20000000 20000003 40ff7f"),
        ("255", "20000000 20000002 50ff"),
        ("256", "20000000 20000003 500100"),
        ("18446744073709551615", "20000000 20000009 50ffffffffffffffff"),
        ("18446744073709551616", "20000000 20000009 6043f0000000000000"),
        ("1e400", "20000000 20000001 20"),
        ("-1e400", "20000000 20000001 30"),
        ('{"b":true,"a":[null]}', "40000002 10000001 10000001 50000008 40000000 6162 80000001 00000000"),
    ],
)
def test_bytes_are_those_of_pylance(text: str, stored: str) -> None:
    assert to_stored(pa.array([text])).to_pylist() == [bytes.fromhex(stored)]


@pytest.mark.parametrize(
    "text", ["{bad", "", "NaN", "[1,]", '{"a":1,"a":2}', r'"\ud83d"', "[" * 200 + "]" * 200, "[" * 5000]
)
def test_what_cannot_be_stored_is_refused_with_its_row(text: str) -> None:
    with pytest.raises(SchemaError, match="row 1 is not JSON that can be stored"):
        to_stored(pa.array(["1", text]))


def test_stored_values_are_taken_as_they_are() -> None:
    stored = to_stored(pa.array(['{"a":1}', None]))
    assert to_stored(stored) is stored
