"""Functions of lists, structs and maps: layouts, slices, chunks, NaN, limits and errors; values are in ``list_values``."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lancecy.errors import ColumnNotFoundError, ExpressionError
from lancecy.expr import bind, evaluate
from tests.expr.test_answers import parsed


def _values(text: str, table: pa.Table) -> list[Any]:
    found = evaluate(bind(parsed(text), table.schema), table)
    found.validate(full=True)
    values: list[Any] = found.to_pylist()
    return values


CALLS = [
    "array_append(l, i)",
    "array_prepend(i, l)",
    "array_concat(l, m, l)",
    "array_union(l, m)",
    "array_except(l, m)",
    "array_intersect(m, l)",
    "array_has(l, i)",
    "array_has_any(l, m)",
    "array_has_all(l, m)",
    "array_position(l, i)",
    "array_positions(m, i)",
    "array_remove_all(l, i)",
    "array_replace_all(l, i, 7)",
    "array_slice(l, i, -1)",
    "array_sort(l, 'DESC')",
    "array_reverse(f)",
    "array_resize(f, i, 5)",
    "array_resize(l, 3, i)",
    "array_repeat(l, i)",
    "array_repeat(f, 2)",
    "array_max(l)",
    "array_any_value(l)",
    "array_to_string(l, '-', '*')",
    "array_to_string(n, '-', '*')",
    "array_dims(n)",
    "array_length(n, 2)",
    "flatten(n)",
    "flatten(make_array(f, f))",
    "array_sort(n)",
    "array_distinct(n)",
    "array_max(n)",
    "arrays_zip(l, f, n)",
    "make_array(i, 1)",
    "make_array(g, g)",
    "array_element(g, 2)",
    "array_append(g, f)",
    "array_distance(f, f)",
    "generate_series(i, 3)",
    "struct(l, i, g)",
    "map(array_distinct(array_compact(l)), array_distinct(array_compact(l)))",
    "string_to_array(s, ',')",
    "string_to_array(s, NULL)",
    "string_to_array(s, s)",
    "coalesce(l, m)",
    "CASE WHEN i > 1 THEN array_append(l, 1) ELSE m END",
]


def _integer(rng: np.random.Generator) -> int | None:
    return None if rng.random() < 0.2 else int(rng.integers(0, 4))


def _lists(rng: np.random.Generator, rows: int) -> list[list[int | None] | None]:
    sizes = [None if rng.random() < 0.2 else int(rng.integers(0, 4)) for _ in range(rows)]
    return [None if size is None else [_integer(rng) for _ in range(size)] for size in sizes]


def _table(rows: int) -> pa.Table:
    rng = np.random.default_rng(rows)
    pairs = [None if rng.random() < 0.2 else rng.integers(0, 4, 2).tolist() for _ in range(rows)]
    nested = [None if rng.random() < 0.2 else _lists(rng, 2) for _ in range(rows)]
    return pa.table(
        {
            "l": pa.array(_lists(rng, rows), pa.list_(pa.int64())),
            "m": pa.array(_lists(rng, rows), pa.large_list(pa.int64())),
            "n": pa.array(nested, pa.list_(pa.list_(pa.int64()))),
            "f": pa.array(pairs, pa.list_(pa.int64(), 2)),
            "g": pa.array([pair and [pair, pair] for pair in pairs], pa.list_(pa.list_(pa.int64(), 2), 2)),
            "i": pa.array([_integer(rng) for _ in range(rows)]),
            "s": pa.array(["a,b", "", None, "é"] * (rows // 4)),
        }
    )


@pytest.mark.parametrize("text", CALLS)
def test_slices_and_chunks_have_the_values_of_the_whole(text: str) -> None:
    table = _table(40)
    whole = _values(text, table)
    assert _values(text, table.slice(7, 21)) == whole[7:28]
    assert _values(text, table.slice(3, 0)) == []
    # Each column with other chunks, an empty one among them.
    columns = [
        pa.chunked_array(
            [
                column.chunk(0)[:at],
                column.chunk(0)[at:at],
                column.chunk(0)[at : at + 9],
                column.chunk(0)[at + 9 :],
            ]
        )
        for at, column in enumerate(table.columns, 3)
    ]
    assert _values(text, pa.table(columns, names=table.column_names)) == whole


def test_elements_under_null_lists_are_none() -> None:
    mask = pa.array([False, True, False])
    lists = pa.ListArray.from_arrays(pa.array([0, 2, 4, 5], pa.int32()), pa.array([1, 2, 3, 4, 5]), mask=mask)
    fixed = pa.FixedSizeListArray.from_arrays(pa.array([1, 2, 3, 4, 5, 6]), 2, mask=mask)
    table = pa.table({"l": lists, "f": fixed})
    assert _values("array_append(l, 9)", table) == [[1, 2, 9], [9], [5, 9]]
    assert _values("array_append(f, 9)", table) == [[1, 2, 9], [9], [5, 6, 9]]
    assert _values("array_concat(l, f)", table) == [[1, 2, 1, 2], None, [5, 5, 6]]
    assert _values("flatten(make_array(f, f))", table) == [[1, 2, 1, 2], [], [5, 6, 5, 6]]
    assert _values("array_any_value(make_array(l, f))", table) == [[1, 2], None, [5]]
    assert _values("array_any_value(array_slice(l, 2, 2))", table) == [2, None, None]


def test_nan_and_zeros_are_themselves_but_in_tests_they_compare_as_numbers() -> None:
    table = pa.table({"l": pa.array([[math.nan, 0.0, -0.0, math.nan, None]]), "x": [math.nan], "z": [-0.0]})
    expected: dict[str, list[Any]] = {
        "array_distinct(l)": [[math.nan, 0.0, -0.0, None]],
        "array_position(l, x)": [1],
        "array_positions(l, z)": [[3]],
        "array_remove_all(l, x)": [[0.0, -0.0, None]],
        "array_sort(l)": [[None, -0.0, 0.0, math.nan, math.nan]],
        "array_max(l)": [math.nan],
        "array_min(l)": [-0.0],
        "array_has(l, x)": [False],
        "array_has(l, CAST('NaN' AS double))": [False],
        "array_has(array_slice(l, 2, 2), z)": [True],
        "array_has_any(l, make_array(x))": [False],
        "array_has_all(array_slice(l, 2, 2), make_array(z))": [True],
    }
    for text, values in expected.items():
        assert str(_values(text, table)) == str(values), text


def test_members_of_other_layouts_are_read_as_their_plain_type() -> None:
    table = pa.table(
        {
            "d": pa.array([["a", "b"], None, ["a"]], pa.list_(pa.dictionary(pa.int8(), pa.string()))),
            "v": pa.array([["x"], [None], []], pa.list_(pa.string_view())),
            "h": pa.array([[1.5, None], [], [np.float16(2)]], pa.list_(pa.float16())),
            "t": ["a", "x", "b"],
        }
    )
    assert _values("array_has(d, t)", table) == [True, None, False]
    assert _values("array_append(v, t)", table) == [["x", "a"], [None, "x"], ["b"]]
    assert _values("array_reverse(d)", table) == [["b", "a"], None, ["a"]]
    assert _values("array_sort(h)", table) == [[None, 1.5], [], [2.0]]
    assert _values("array_distinct(h)", table) == [[1.5, None], [], [2.0]]
    assert _values("struct(v, t)['c0'][1]", table) == ["x", None, None]


@pytest.mark.parametrize(
    "name", ["array_length(l)", "cardinality(l)", "array_ndims(l)", "array_position(l, 1)"]
)
def test_a_number_of_elements_is_unsigned_as_a_column_and_signed_inside(name: str) -> None:
    table = _table(8)
    schema = table.schema
    assert bind(parsed(name), schema).type == pa.uint64()
    assert bind(parsed(f"{name} - 5"), schema).type == pa.int64()
    assert bind(parsed(f"make_array({name})"), schema).type == pa.list_(pa.uint64())
    assert bind(parsed(f"coalesce({name}, 0)"), schema).type == pa.int64()
    lengths = [None if value is None else len(value) - 5 for value in table["l"].to_pylist()]
    assert _values("array_length(l) - 5", table) == lengths


def test_integers_in_lists_take_the_type_of_floats() -> None:
    schema = pa.schema({"f": pa.list_(pa.float32()), "i": pa.list_(pa.int8()), "j": pa.int8()})
    types = {
        "array_append(f, 1)": pa.list_(pa.float32()),
        "array_append(f, 1.5)": pa.list_(pa.float64()),
        "array_append(i, j)": pa.list_(pa.int8()),
        "array_append(i, 1)": pa.list_(pa.int64()),
        "array_concat(i, f)": pa.list_(pa.float32()),
        "make_array(i, f)": pa.list_(pa.list_(pa.float32())),
    }
    assert {text: bind(parsed(text), schema).type for text in types} == types


GROWING = [
    "array_repeat(i, 1000000000)",
    "array_repeat(i, 9223372036854775807)",
    "array_resize(l, 1000000000)",
    "array_resize(l, 9223372036854775807, 1)",
    "range(i * 1000000000)",
    "range(-9223372036854775808, 9223372036854775807)",
    "generate_series(i, 9223372036854775807)",
    "flatten(array_repeat(array_repeat(i, 20000), 20000))",
    "array_concat(" + ", ".join(["array_repeat(s, 100000)"] * 20) + ")",
    "array_to_string(array_repeat(s, 100000), repeat(s, 1000))",
    "make_array(repeat('a', 1000000))",
    "arrays_zip(array_repeat(i, 100000000), l)",
]


@pytest.mark.parametrize("text", GROWING)
def test_lists_are_bounded_before_memory_is_allocated(text: str) -> None:
    table = pa.table({"i": [1] * 2000, "l": [[1]] * 2000, "s": ["abc"] * 2000})
    with pytest.raises(ExpressionError, match="bytes of|elements"):
        evaluate(bind(parsed(text), table.schema), table)


ERRORS = {
    "array_append(i, 1)": r"array_append\(\) needs a list, but i is bigint",
    "array_append(l, 'a')": r"array_append\(\) has elements of types that do not mix: bigint, string; CAST them to one",
    "make_array(i, 'a')": r"make_array\(\) has elements of types that do not mix: bigint, string",
    "array_distance(n, n)": r"array_distance\(\) needs lists of numbers, but n has list",
    "array_distance(f, [1])": r"array_distance\(\) needs lists of one length, not of 2 and 1 elements",
    "array_resize(l, -1)": r"array_resize\(\) cannot make a list of -1 elements",
    "array_slice(l, 1, 2, 0)": r"the step of array_slice\(\) cannot be 0",
    "range(date '1970-01-01', CAST(2000000000 AS date), interval '1 month')": r"range\(\) takes at most 10,000 steps",
    "range(date '1970-01-01', date '1970-12-01', interval '1 month -40 days')": r"the step of range\(\) leads back",
    "array_sort(l, 'x')": r"the order of array_sort\(\) is 'ASC' or 'DESC', not 'x'",
    "array_sort(l, 'ASC', 'x')": "'NULLS FIRST' or 'NULLS LAST', not 'x'",
    "array_to_string(make_array(struct(i)), ',')": r"array_to_string\(\) has no text for elements of type struct",
    "range(1, 5, 0)": r"the step of range\(\) cannot be 0",
    "range(date '2020-01-01', date '2020-01-03')": r"range\(date '2024-01-01', date '2024-01-31', interval '1 day'\)",
    "range(date '2020-01-01', date '2020-01-03', interval '12 hours')": "needs steps of whole days; CAST the dates",
    "range(1.5)": r"range\(\) needs an integer, but 1.5 is double",
    "l[1:2]": r"a part of a list is written array_slice\(l, 2, 3\)",
    "named_struct('a')": r"named_struct\(\) takes 2 or more arguments",
    "named_struct('a', 1, 'b')": r"named_struct\(\) takes names and values in turn",
    "named_struct(s, 1)": "the name of a field of named_struct.* is text in quotes, and not empty, not s",
    "named_struct('a', 1, 'a', 2)": r"named_struct\(\) has two fields 'a'",
    "map(['a', 'a'], [1, 2])": r"a key of map\(\) is there twice",
    "map([s], [1])": r"a key of map\(\) is null; keys have a value",
    "map(['a'], [1, 2])": r"map\(\) needs as many values as keys",
    "map('a', l)": r"map\(\) takes a list of keys and a list of values",
    "make_map('a')": r"make_map\(\) takes keys and values in turn",
    "map_keys(l)": r"map_keys\(\) needs a map, but l is list",
    "map_extract(map(['a'], [1]), 1)": r"map_extract\(\) needs a key of type string, but 1 is bigint",
    "string_to_array(i, ',')": r"string_to_array\(\) needs text, but i is bigint; CAST it",
}


@pytest.mark.parametrize("text", ERRORS)
def test_errors_name_the_function_and_the_remedy(text: str) -> None:
    table = _table(8)
    with pytest.raises(ExpressionError, match=ERRORS[text]):
        evaluate(bind(parsed(text), table.schema), table)


def test_keys_of_a_map_may_be_a_column_without_nulls() -> None:
    table = pa.table({"k": [1, 2], "s": ["a", "b"]})
    assert _values("map([k], [s])", table) == [[(1, "a")], [(2, "b")]]
    assert _values("make_map(s, k, 'z', 0)", table) == [[("a", 1), ("z", 0)], [("b", 2), ("z", 0)]]
    assert _values("map_extract(map([k], [s]), 2)", table) == [[None], ["b"]]


def test_fields_of_a_struct_that_a_call_makes_are_found_by_name() -> None:
    with pytest.raises(ColumnNotFoundError, match="no column 'b' in named_struct"):
        bind(parsed("named_struct('a', i)['b']"), _table(8).schema)
