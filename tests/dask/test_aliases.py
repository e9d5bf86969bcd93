"""Names of Arrow types: readable where they can be, exact always."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancecy.dask.aliases import parse_type_name, type_name
from tests.helpers.folded import folded
from tests.helpers.tables import all_types

EXTRA = {
    "map": pa.map_(pa.string(), pa.list_(pa.int8())),
    "sorted_map": pa.map_(pa.string(), pa.int8(), keys_sorted=True),
    "ordered": pa.dictionary(pa.int8(), pa.string(), ordered=True),
    "element": pa.list_(pa.field("element", pa.int32(), False)),
    "empty_struct": pa.struct([]),
    "odd_names": pa.struct([pa.field("a: b", pa.int8()), pa.field(" not null", pa.int8(), False)]),
    "same_names": pa.struct([pa.field("a", pa.int8()), pa.field("a", pa.int16())]),
    "metadata": pa.struct([pa.field("a", pa.int8(), metadata={"k": "v"})]),
    "newline": pa.struct([pa.field("a\nb", pa.int8())]),
    "zone": pa.timestamp("ns", "America/Argentina/Buenos_Aires"),
    "decimal32": pa.decimal32(5, 2),
    "views": pa.list_view(pa.string_view()),
    "runs": pa.run_end_encoded(pa.int32(), pa.string()),
    "interval": pa.month_day_nano_interval(),
}


@folded("kind", [*all_types().values(), *EXTRA.values()], ids=str)
def test_name_parses_back_exactly(kind: pa.DataType) -> None:
    name = type_name(kind)
    assert name.isprintable()
    assert parse_type_name(name).equals(kind, check_metadata=True)


@folded("kind", all_types().values(), ids=str)
def test_name_of_a_usual_type_is_its_arrow_text(kind: pa.DataType) -> None:
    assert type_name(kind) == str(kind)


def test_types_that_arrow_prints_alike_have_different_names() -> None:
    bare = pa.struct([pa.field("a", pa.int8())])
    assert len({type_name(bare), type_name(EXTRA["metadata"])}) == 2


@pytest.mark.parametrize(
    "text",
    [
        "",
        "int63",
        "list<",
        "list<item>",
        "list<item: int8",
        "list<item: int8> ",
        "struct<a int8>",
        "fixed_size_list<item: int8>",
        "fixed_size_list<item: int8>[99999999999]",
        "dictionary<values=string, indices=float, ordered=0>",
        "dictionary<values=string, indices=int8, ordered=2>",
        "decimal128(99, 2)",
        "timestamp[weeks, tz=UTC]",
        "list<item: " * 5000 + "int8" + ">" * 5000,
        "x = base64 !!!",
        "x = base64 AAAA",
        "x = base64 ",
    ],
)
def test_text_that_names_no_type_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_type_name(text)


@given(st.text(alphabet="listruc<>: int8,[]()float_d=0", max_size=60))
def test_any_text_parses_or_is_a_value_error(text: str) -> None:
    try:
        found = parse_type_name(text)
    except ValueError:
        return
    assert isinstance(found, pa.DataType)
