"""The functions of JSON columns, as a user calls them; the answers are those of pylance 14."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lancecy
from lancecy import col
from lancecy.errors import ExpressionError, FormatError
from lancecy.expr import Bound, describe, evaluate, parse
from lancecy.expr import bind as bind_tree
from lancecy.expr.evaluation import growth
from lancecy.expr.evaluation.evaluate import compute
from tests.helpers.folded import folded
from tests.helpers.jsonb import nested, stored

DOCUMENTS = [
    '{"name": "Ada", "age": 36, "tags": ["math", 1, null, [2]], "address": {"city": "London", "zip": "7"}}',
    '{"name": "Bob", "age": 1.5, "tags": [], "active": "Yes", "0": "zero"}',
    "[5, [6, 7], {}]",
    '"text"',
    "null",
    None,
]


def bound_to(expression: str, schema: pa.Schema) -> Bound:
    tree = parse(expression)
    assert tree is not None
    return bind_tree(tree, schema)


def answers(expression: str, documents: Sequence[str | None] = DOCUMENTS) -> list[Any]:
    """Values of a computed column of a table with these documents."""
    table = pa.table({"i": range(len(documents)), "j": pa.array(documents, pa.json_())})
    ds = lancecy.write_dataset(table, "memory://json.lance", mode="overwrite")
    found: list[Any] = ds.to_table(columns={"x": expression})["x"].to_pylist()
    return found


def of(function: str, value: str) -> Any:
    """What a function returns for the member of a document."""
    return answers(f"{function}(j, 'a')", [f'{{"a": {value}}}'])[0]


@folded(
    ("expression", "expected"),
    [
        ("json_get_string(j, 'name')", ["Ada", "Bob", None, None, None, None]),
        ("json_get_string(j, 'age')", ["36", "1.5", None, None, None, None]),
        ("json_get_string(j, 0)", [None, "zero", "5", None, None, None]),
        ("json_get_int(j, 'age')", [36, 2, None, None, None, None]),
        ("json_get_float(j, 'age')", [36.0, 1.5, None, None, None, None]),
        ("json_get_bool(j, 'active')", [None, True, None, None, None, None]),
        ("json_get_int(json_get(j, 'address'), 'zip')", [7, None, None, None, None, None]),
        ("json_get_int(json_get(j, '1'), '+1')", [None, None, 7, None, None, None]),
        ("json_extract(j, '$.address.city')", ['"London"', None, None, None, None, None]),
        ("json_extract(j, '$.tags[0, 3]')", ['["math",[2]]', None, None, None, None, None]),
        ("json_extract(j, 'tags[2]')", ["null", None, None, None, None, None]),
        (
            "json_extract(j, '$')",
            [*(d and json.dumps(json.loads(d), separators=(",", ":"), sort_keys=True) for d in DOCUMENTS)],
        ),
        ("json_exists(j, '$.tags[*]')", [True, False, False, False, False, None]),
        ("json_exists(j, '$[*]')", [True, True, True, True, True, None]),
        ("json_array_contains(j, '$.tags', 'math')", [True, False, False, False, False, None]),
        ("json_array_contains(j, '$.tags', 1)", [True, False, False, False, False, None]),
        ("json_array_contains(j, '$.tags', 1.0)", [False, False, False, False, False, None]),
        ("json_array_contains(j, '$.tags', CAST('nan' AS double))", [False] * 5 + [None]),
        ("json_array_contains(j, '$.tags', '[2]')", [True, False, False, False, False, None]),
        ("json_array_length(j, '$.tags')", [4, 0, None, None, None, None]),
        ("json_array_length(j, '$')", [0, 0, 3, 0, 0, None]),
        ("json_array_length(j, '$[*]')", [0, 0, 0, 0, 0, None]),
        ("json_get(j, NULL) IS NULL", [True] * 6),
        ("json_array_contains(j, '$.tags', NULL)", [None] * 6),
        ("JSON_GET_STRING(j, 'name') || '!'", ["Ada!", "Bob!", None, None, None, None]),
    ],
)
def test_answers(expression: str, expected: list[Any]) -> None:
    assert answers(expression) == expected


def test_types_of_the_answers() -> None:
    ds = lancecy.write_dataset({"j": pa.array(["{}"], pa.json_())}, "memory://types.lance")
    names = "get get_string get_int get_float get_bool extract exists array_length".split()
    found = ds.to_table(columns={name: f"json_{name}(j, 'a')" for name in names}).schema.types
    assert found == [
        *(pa.large_binary(), pa.string(), pa.int64(), pa.float64(), pa.bool_()),
        *(pa.string(), pa.bool_(), pa.int64()),
    ]


@folded(
    ("value", "expected"),
    [
        ("7", 7),
        ("1.5", 2),
        ("-2.5", -3),
        ("0.49999999999999994", 0),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("true", 1),
        ("false", 0),
        ("null", None),
        ('"+12"', 12),
        ('"0000000000000000000001"', 1),
        ('"-9223372036854775808"', -(2**63)),
        ('"2.5"', 3),
        ('"1e3"', 1000),
    ],
)
def test_integers(value: str, expected: int | None) -> None:
    assert of("json_get_int", value) == expected


NO_INTEGERS = '9223372036854775808 1e300 "x" "" "0x1" "1_0" "9223372036854775808" "inf" "nan" [1] {}'


@folded("value", NO_INTEGERS.split())
def test_values_that_are_no_integers(value: str) -> None:
    with pytest.raises(
        ExpressionError, match=r"json_get_int\(\) found .*, which is no integer of 64 bits"
    ) as caught:
        of("json_get_int", value)
    assert "json_get_int(j, 'a')" in str(caught.value)


@folded(
    ("value", "expected"),
    [
        ("7", 7.0),
        ("18446744073709551615", 2.0**64),
        ("true", 1.0),
        ('"-1.5e3"', -1500.0),
        ('".5"', 0.5),
        ('"5."', 5.0),
        ('"+inf"', math.inf),
        ('"-INFINITY"', -math.inf),
        ('"1e400"', math.inf),
    ],
)
def test_floats(value: str, expected: float) -> None:
    assert of("json_get_float", value) == expected


def test_text_may_be_nan() -> None:
    assert math.isnan(of("json_get_float", '"NaN"'))


@folded("value", ['"x"', '"."', '" 7"', '"e1"', '"true"', "[1]", "{}"])
def test_values_that_are_no_numbers(value: str) -> None:
    with pytest.raises(ExpressionError, match=r"json_get_float\(\) found .*, which is no number"):
        of("json_get_float", value)


@folded(
    ("value", "expected"),
    [("true", True), ("false", False), ('"TRUE"', True), ('"no"', False), ("null", None)],
)
def test_booleans(value: str, expected: bool | None) -> None:
    assert of("json_get_bool", value) is expected


@folded("value", ["1", "0.0", '"1"', '" yes"', "[]", "{}"])
def test_values_that_are_no_booleans(value: str) -> None:
    with pytest.raises(ExpressionError, match=r"json_get_bool\(\) found .*, which is no boolean"):
        of("json_get_bool", value)


def test_text_comes_without_quotes_and_escapes() -> None:
    assert of("json_get_string", json.dumps('a"b\n😀')) == 'a"b\n😀'
    assert of("json_extract", json.dumps('a"b\n😀')) == '"a\\"b\\n😀"'
    with pytest.raises(ExpressionError, match=r"json_get_string\(\) found \[1\], which is no text"):
        of("json_get_string", "[1]")


def test_numbers_that_json_cannot_write() -> None:
    documents = ['{"a": 1e999}', '{"a": -1e999}', '{"a": 1}', "{}"]
    assert answers("json_get_float(j, 'a')", documents) == [math.inf, -math.inf, 1.0, None]
    assert answers("json_get_string(j, 'a')", documents) == ["inf", "-inf", "1", None]
    assert answers("json_extract(j, '$.a')", documents) == ["null", "null", "1", None]


@folded("size", [0, 1, 20])
def test_slices_and_chunks(size: int) -> None:
    values = [None if i % 4 == 3 else stored({"a": i}) for i in range(20)]
    expected = [None if i % 4 == 3 else i > 5 for i in range(20)]
    for kind in (pa.large_binary(), pa.binary()):
        column = pa.array(values, kind)
        table = pa.table({"b": pa.chunked_array([column[3:7], column[:0], column[7:]], kind)}).slice(1, size)
        bound = bound_to("json_get_int(b, 'a') > 5", table.schema)
        assert evaluate(bound, table).to_pylist() == expected[4 : 4 + size]
        for name in "json_exists(b, '$.a')", "json_extract(b, '$.a')", "json_array_contains(b, '$', 1)":
            found = evaluate(bound_to(name, table.schema), table).to_pylist()
            assert [x is None for x in found] == [v is None for v in values[4 : 4 + size]]


def test_conditions_before_guard_values_that_do_not_convert() -> None:
    guarded = "json_extract(j, '$.age') IS NOT NULL AND json_get_int(j, 'name') > 1"
    with pytest.raises(ExpressionError, match='found "Ada", which is no integer'):
        answers(guarded)
    assert answers("i >= 2 AND json_get_int(j, 'name') > 1") == [False, False, None, None, None, None]
    assert answers("CASE WHEN i >= 2 THEN json_get_int(j, 'name') ELSE 0 END") == [
        0,
        0,
        None,
        None,
        None,
        None,
    ]


BAD_PATHS = (
    "$[٣] $.a[laſt] $.**{٢} "
    "$. $[ $] $a $..a $.a[] $.a[1.5] $['a'] $.a[\"\"] $.a-b @ $$ $.a[99999999999] $.**{last} $.a\\.b $.a[1,]"
)


@folded(
    ("number", "element"),
    [("2.0", "2.0"), ("1e16", "1e16"), ("1e0", "1.0"), ("-1.50", "-1.5"), ("5", "5"), ("true", "true")],
)
def test_numbers_as_values_have_the_text_of_json(number: str, element: str) -> None:
    found = answers(f"json_array_contains(j, '$', {number})", [f"[null, {element}]", "[1.25, 7]"])
    assert found == [True, False]
    keys = answers(f"json_get_int(j, {number})", ['{"1": 7, "1.0": 8}'])
    assert keys == [8 if number == "1e0" else None]


@folded("path", BAD_PATHS.split())
def test_paths_that_are_none(path: str) -> None:
    quoted = path.replace("'", "''")
    with pytest.raises(ExpressionError, match=r"no JSON path, from character|has a filter or an operator"):
        answers(f"json_extract(j, '{quoted}')")


@folded("path", ["$.a[*]?(@.b > 1)", "$.a > 1", "$.a + 1", "exists($.a)"])
def test_filters_in_paths_are_not_supported(path: str) -> None:
    with pytest.raises(ExpressionError, match=r"has a filter or an operator at character \d+: only names"):
        answers(f"json_exists(j, '{path}')")


def test_paths_have_a_bounded_number_of_steps() -> None:
    assert answers(f"json_exists(j, '${'.a' * 127}')") == [False] * 5 + [None]
    with pytest.raises(ExpressionError, match="128 steps, where 127 are possible"):
        answers(f"json_exists(j, '${'.a' * 128}')")


@folded(
    ("expression", "message"),
    [
        ("json_get(i, 'a')", "json_get() needs a JSON column, but i is bigint"),
        ("json_get('{}', 'a')", "json_get() needs a JSON column, but '{}' is string"),
        ("json_get(j, i)", "json_get() needs text in quotes here, a constant, not i"),
        ("json_get(j)", "json_get() takes 2 arguments, not 1"),
        ("json_array_contains(j, '$')", "json_array_contains() takes 3 arguments, not 2"),
        ("json_gt(j, 'a')", "did you mean json_get"),
    ],
)
def test_arguments_that_do_not_fit(expression: str, message: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        answers(expression)
    assert message in str(caught.value)


def test_the_builder_and_text_mean_the_same() -> None:
    from lancecy.expr import Expr, Term
    from lancecy.expr.nodes import Call, Literal

    call: Expr = Call("json_get_int", (col("j").expr, Literal("age")))
    table = pa.table({"j": pa.array(DOCUMENTS, pa.json_())})
    ds = lancecy.write_dataset(table, "memory://builder.lance")
    assert ds.count_rows(Term(call) > 2) == ds.count_rows("json_get_int(j, 'age') > 2") == 1


def test_expressions_on_tables_in_memory_make_the_stored_form() -> None:
    table = pa.table(
        {"j": pa.chunked_array([DOCUMENTS[:2], [], DOCUMENTS[2:]], pa.string()).cast(pa.json_())}
    )
    bound = bound_to("json_get_int(j, 'age') > 2", table.schema)
    assert describe(bound.expr) == "json_get_int(j, 'age') > 2"
    assert evaluate(bound, table).to_pylist() == [True, False, None, None, None, None]
    bad = pa.table({"j": pa.ExtensionArray.from_storage(pa.json_(), pa.array(["{"]))})
    with pytest.raises(ExpressionError, match="row 0 is not JSON"):
        evaluate(bound, bad)


def test_binary_columns_hold_stored_values() -> None:
    document = stored({"a": 5})
    values = [document, None, stored([1])]
    for kind in (pa.large_binary(), pa.binary()):
        table = pa.table({"b": pa.array(values, kind)})
        bound = bound_to("json_get_int(b, 'a')", table.schema)
        assert evaluate(bound, table).to_pylist() == [5, None, None]
        assert evaluate(bound, table.slice(1)).to_pylist() == [None, None]
    constant = bound_to(f"json_get_int(X'{document.hex()}', 'a')", table.schema)
    assert evaluate(constant, table).to_pylist() == [5, 5, 5]


FUNCTIONS = [
    *(f"json_{name}(b, 'a')" for name in ("get", "get_string", "get_int", "get_float", "get_bool")),
    *(f"json_{name}(b, '$.**.zz')" for name in ("extract", "exists", "array_length")),
    "json_extract(b, '$.**')",
    "json_array_contains(b, '$.**', '1')",
]


@pytest.mark.slow
@folded("expression", FUNCTIONS)
def test_hostile_values_are_format_errors(expression: str) -> None:
    document = stored({"a": [1, {"b": "x"}, 2.5, "\n"], "c": None})
    rng = np.random.default_rng(7)
    hostile = [document[:size] for size in range(1, len(document))]
    for _ in range(2000):
        broken = np.frombuffer(document, np.uint8).copy()
        broken[rng.integers(0, broken.size, rng.integers(1, 4))] = rng.integers(0, 256)
        hostile.append(broken.tobytes())
    hostile += [
        nested(129),
        nested(5000),
        b"\x9f\xff\xff\xff",
        b"\x40\x00\x00\x01\x1f\xff\xff\xff" + bytes(4),
    ]
    bound = bound_to(expression, pa.schema({"b": pa.large_binary()}))
    refused = 0
    for value in hostile:
        try:
            evaluate(bound, pa.table({"b": pa.array([value], pa.large_binary())}))
        except (FormatError, ExpressionError):
            refused += 1
    assert refused > 20


def test_parts_that_grow_are_bounded() -> None:
    document = stored(["x" * (1 << 20)])
    path = "$[" + ",".join(["0"] * 120) + "]" + "[*]" * 3
    table = pa.table({"b": pa.array([document] * 12, pa.large_binary())})
    bound = bound_to(f"json_extract(b, '{path}')", table.schema)
    with pytest.raises(ExpressionError, match=r"json_extract\(\) would make [\d,]+ bytes"):
        evaluate(bound, table)


def test_parts_are_charged_once() -> None:
    table = pa.table({"b": pa.array([stored(["x" * 100])], pa.large_binary())})
    extract = bound_to("json_extract(b, '$[0, 0, 0, 0]')", table.schema)
    size = 4 + 4 * 104
    with growth.allowance(size):
        assert len(compute(extract.expr, table)[0].as_py()) == 4 * 103 + 1
    with growth.allowance(size - 1), pytest.raises(ExpressionError, match="would make 420 bytes"):
        compute(extract.expr, table)


def test_paths_that_lead_too_many_ways() -> None:
    table = pa.table({"b": pa.array([nested(120)], pa.large_binary())})
    bound = bound_to("json_exists(b, '$.**.**.**.**.**.zz')", table.schema)
    with pytest.raises(ExpressionError, match=r"in too many ways; .* \(in json_exists\(b"):
        evaluate(bound, table)


@folded("version", ["0.1", "2.0", "2.1", "2.2"])
def test_filters_of_tables_of_every_version(version: str, tmp_path: Path) -> None:
    table = pa.table({"i": range(600), "j": pa.array(DOCUMENTS * 100, pa.json_())})
    uri = str(tmp_path / version)
    ds = lancecy.write_dataset(table, uri, data_storage_version=version, max_rows_per_file=250)
    ds.delete("i % 12 = 0")
    kept = ds.to_table(columns=["i"], filter="json_get_int(j, 'age') > 30")["i"].to_pylist()
    assert kept == list(range(6, 600, 12))
    assert ds.count_rows("NOT json_exists(j, '$.name')") == 300
    assert lancecy.scan(uri, filter="json_get_string(j, 'name') = 'Bob'").shape[0].compute() == 100
