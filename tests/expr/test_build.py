"""The builder, the list form, and what expressions are as Python objects."""

from __future__ import annotations

import datetime as dt
import enum
import pickle
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lancecy
from lancecy.errors import ExpressionError
from lancecy.expr import Expr, Term, bind, col, describe, evaluate, lit, mask, parse
from lancecy.expr.nodes import Call, Column, Literal, chain, conjuncts, literal_of, negate
from tests.expr.corpus import filters
from tests.expr.tables import every_kind
from tests.expr.test_answers import parsed
from tests.helpers.folded import folded

TERMS: dict[str, Any] = {
    "a > 5": col("a") > 5,
    "a = 5": col("a") == 5,
    "a != 'x'": col("a") != "x",
    "a < b": col("a") < col("b"),
    "a >= 1.5": col("a") >= 1.5,
    "a <= X'00ff'": col("a") <= b"\x00\xff",
    "a > 1 AND b < 2": (col("a") > 1) & (col("b") < 2),
    "a > 1 OR b < 2": (col("a") > 1) | (col("b") < 2),
    "a AND TRUE": col("a") & True,
    "FALSE OR a": False | col("a"),
    "NOT a > 1": ~(col("a") > 1),
    "NOT (a AND b)": ~(col("a") & col("b")),
    "a AND b AND c AND d": col("a") & col("b") & (col("c") & col("d")),
    "(a OR b) AND c": (col("a") | col("b")) & col("c"),
    "a + 1 > 2": col("a") + 1 > 2,
    "1 + a > 2": 1 + col("a") > 2,
    "10 - a": 10 - col("a"),
    "a - (b - c)": col("a") - (col("b") - col("c")),
    "a - b - c": col("a") - col("b") - col("c"),
    "a * (b + 1)": col("a") * (col("b") + 1),
    "2 * a": 2 * col("a"),
    "a / 2": col("a") / 2,
    "1 / a": 1 / col("a"),
    "a % 2 = 0": col("a") % 2 == 0,
    "7 % a": 7 % col("a"),
    "- a": -col("a"),
    "a IN (1, 2)": col("a").isin([1, 2]),
    "a NOT IN ('x')": ~col("a").isin({"x"}),
    "a >= 1 AND a <= 3": col("a").between(1, 3),
    "a IS NULL": col("a").is_null(),
    "a IS NOT NULL": col("a").is_not_null(),
    "isnan(a)": col("a").is_nan(),
    "a LIKE 'x%'": col("a").like("x%"),
    "a ILIKE 'x%'": col("a").ilike("x%"),
    "a LIKE '!%' ESCAPE '!'": col("a").like("!%", escape="!"),
    "starts_with(a, 'x')": col("a").starts_with("x"),
    "ends_with(a, 'x')": col("a").ends_with("x"),
    "contains(a, 'x')": col("a").contains("x"),
    "CAST(a AS bigint) = 1": col("a").cast("int64") == 1,
    "CAST(a AS decimal(5, 2)) = 1": col("a").cast(pa.decimal128(5, 2)) == 1,
    "a.b = 1": col("a")["b"] == 1,
    "array_element(a, 1) = 1": col("a")[1] == 1,
    "get_field(array_element(a, 1), 'b') = 1": col("a")[1]["b"] == 1,
    "`two words` = 1": col("two words") == 1,
    "`select` = 1": col("select") == 1,
    "`tick``s` = 1": col("tick`s") == 1,
    "a = date '2024-05-17'": col("a") == dt.date(2024, 5, 17),
    "a = timestamp '2024-05-17 12:30:00.5'": col("a") == dt.datetime(2024, 5, 17, 12, 30, 0, 500_000),
    "a = timestamp '2024-05-17 12:30:00+00:00'": col("a") == dt.datetime(2024, 5, 17, 12, 30, tzinfo=dt.UTC),
    "a = time '12:30:00'": col("a") == dt.time(12, 30),
    "a = interval '1.5 seconds'": col("a") == dt.timedelta(seconds=1.5),
    "a = NULL": col("a") == None,  # noqa: E711
    "a = 5 ": col("a") == lit(5),
    "5 = a": lit(5) == col("a"),
    "a = 'it''s'": col("a") == "it's",
}


@folded("text", TERMS)
def test_term_reads_as_the_sql_it_stands_for(text: str) -> None:
    term = TERMS[text]
    assert isinstance(term, Term)
    assert describe(term.expr) == text.strip()
    assert parse(term) is term.expr
    assert parse(term.expr) is term.expr
    assert describe(parsed(text)) == text.strip()
    again = pickle.loads(pickle.dumps(term))
    assert again.expr == term.expr
    assert len(pickle.dumps(term.expr)) < 1000
    assert term.__dask_tokenize__() == again.__dask_tokenize__()


def test_public_names() -> None:
    assert lancecy.col is col
    assert lancecy.lit is lit
    assert lancecy.Expr is Expr
    assert repr(col("a") > 1) == "<term a > 1>"
    assert repr((col("a") > 1).expr) == "<call a > 1>"
    assert repr(col("a").isin(range(100))) == "<term a IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, … 90 more)>"


@folded(
    ("value", "expected"),
    [
        (np.int8(5), Literal(5)), (np.float32(0.5), Literal(0.5)), (np.float64(0.5), Literal(0.5)), (np.bool_(True), Literal(True)),
        (np.str_("x"), Literal("x")), (bytearray(b"x"), Literal(b"x")), (memoryview(b"x"), Literal(b"x")),
        (np.datetime64("1970-01-02"), Literal(1, pa.date32())), (np.datetime64(5, "ns"), Literal(5, pa.timestamp("ns"))),
        (pd.Timestamp(5, tz="Asia/Tokyo"), Literal(5, pa.timestamp("ns", "UTC"))), (pd.Timedelta(5), Literal(5, pa.duration("ns"))),
        (np.timedelta64(5, "s"), Literal(5, pa.duration("s"))), (pd.Timestamp(5), Literal(5, pa.timestamp("ns"))),
        (enum.IntEnum("E", "A B").B, Literal(2)), (Decimal("1.50"), Literal(Decimal("1.50"))),  # type: ignore[attr-defined]
        (pa.scalar(5, pa.int8()), Literal(5, pa.int8())), (pa.scalar(None, pa.int8()), Literal(None, pa.int8())),
        (pa.scalar("x", pa.large_string()), Literal("x", pa.large_string())), (pa.scalar(0.1, pa.float32()), Literal(float(np.float32(0.1)), pa.float32())),
        (pa.array(["x"]).dictionary_encode()[0], Literal("x", pa.string())), (pa.scalar(5, pa.date64()), Literal(5, pa.date64())),
    ],
)  # fmt: skip
def test_constants_of_other_libraries(value: Any, expected: Literal) -> None:
    assert literal_of(value) == expected


def test_typed_literals_keep_their_type() -> None:
    table = pa.table({"x": pa.array([0.1, 0.5], pa.float32())})
    for term, expected in (
        (col("x") == 0.1, [True, False]),
        (col("x") == lit(0.1, pa.float64()), [False, False]),
        (col("x") == lit(0.1, pa.float32()), [True, False]),
        (col("x") < lit(0.1, pa.float64()), [False, False]),
        (col("x") <= lit(0.5, pa.float64()), [True, True]),
    ):
        assert evaluate(bind(term.expr, table.schema), table).to_pylist() == expected


def test_equal_expressions_are_equal_and_others_are_not() -> None:
    groups: list[list[Expr]] = [
        [Literal(1)], [Literal(True)], [Literal(1.0)], [Literal(Decimal(1))], [Literal("1")], [Literal(b"1")], [Literal(0.0)],
        [Literal(-0.0)], [Literal(float("nan")), Literal(float("nan"))], [Literal(1, pa.int8())], [Literal((1, 2))],
        [Literal((1.0, 2))], [Literal((1, 2), pa.int8())], [Column(("a",))], [Column(("a",), exact=False)], [Column(("a", "b"))],
        [(col("a") > 5).expr, (col("a") > 5).expr], [(col("a") > 5.0).expr], [(col("a") > True).expr],
    ]  # fmt: skip
    for index, group in enumerate(groups):
        for other_index, other in enumerate(groups):
            for one in group:
                for two in other:
                    assert (one == two) == (index == other_index), (one, two)
                    if index == other_index:
                        assert hash(one) == hash(two)
    assert Literal(1) != 1
    assert len({parsed(t) for g in filters().values() for t in g}) > 1500


def test_hash_is_that_of_the_process_that_unpickled_it() -> None:
    # Hashes of strings differ between processes, so they must not travel.
    expr = (col("a") > "x").expr
    assert b"_hash" not in pickle.dumps(expr)
    again = pickle.loads(pickle.dumps(expr))
    assert again == expr
    assert hash(again) == hash(expr)


def test_chains_are_flat_and_negation_cancels() -> None:
    a, b, c = (Column((name,)) for name in "abc")
    assert chain("and", [chain("and", [a, b]), c]) == Call("and", (a, b, c))
    assert chain("or", [a]) is a
    assert negate(negate(a)) is a
    assert conjuncts(chain("and", [a, chain("or", [b, c])])) == (a, Call("or", (b, c)))
    assert conjuncts(a) == (a,)
    assert len(getattr(parsed(" AND ".join(["a"] * 3000)), "args", ())) == 3000


def test_list_form_of_pandas_and_dask() -> None:
    assert parse([("a", ">", 5), ("b", "==", "x")]) == Call(
        "and", ((col("a") > 5).expr, (col("b") == "x").expr)
    )
    assert (
        describe(_parse([[("a", ">", 5)], [("b", "in", [1, 2]), ("c", "not in", {3})]]))
        == "a > 5 OR b IN (1, 2) AND c NOT IN (3)"
    )
    assert (
        describe(_parse([("a", "is", None), ("b", "is not", None), ("c", "!=", 1.5)]))
        == "a IS NULL AND b IS NOT NULL AND c != 1.5"
    )
    assert describe(_parse([("a.b", "=", 1)])) == "`a.b` = 1"


def _parse(items: Any) -> Expr:
    found = parse(items)
    assert found is not None
    return found


def test_none_is_no_filter() -> None:
    assert parse(None) is None


def test_text_is_parsed_once_and_bound_once_per_schema() -> None:
    schema = pa.schema([("a", pa.int32())])
    assert parse("a > 12345") is parse("a > 12345")
    assert bind(parsed("a > 12345"), schema) is bind(parsed("a > 12345"), schema)
    assert bind(parsed("a > 12345"), schema) is not bind(parsed("a > 12345"), pa.schema([("a", pa.int64())]))
    assert bind(parsed("a > 12345"), schema) == bind(parsed("a > 12345"), pa.schema([("a", pa.int32())]))


def test_bound_knows_its_columns_in_schema_order() -> None:
    bound = bind(parsed("st.in.y = 'p' AND i8 > 1 AND st.x IS NULL AND id = 1"), every_kind().schema)
    assert bound.columns == ("id", "i8", "st")
    assert bound.paths == (("id",), ("i8",), ("st", "in", "y"), ("st", "x"))
    assert bound.type == pa.bool_()
    assert str(bound) == "st.in.y = 'p' AND i8 > 1 AND st.x IS NULL AND id = 1".replace("in.y", "`in`.y")
    again = pickle.loads(pickle.dumps(bound))
    assert again == bound
    assert hash(again) == hash(bound)
    constant = bind(parsed("1 = 1"), every_kind().schema)
    assert constant.columns == ()
    assert constant.expr == Literal(True, pa.bool_())


def test_bound_column_alone_keeps_its_type_and_memory() -> None:
    table = every_kind()
    for name in table.column_names:
        bound = bind(col(name).expr, table.schema)
        assert bound.type == table.schema.field(name).type
        assert evaluate(bound, table) is not None
    values = evaluate(bind(col("i64").expr, table.schema), table)
    assert values.chunk(0).buffers()[1].address == table["i64"].chunk(0).buffers()[1].address


def test_names_are_taken_as_they_stand_before_dots_divide_them() -> None:
    table = pa.table(
        {
            "a.b": [1, 2],
            "a": [{"b": 3, "c.d": 5}, {"b": 4, "c.d": 6}],
            "Case": [7, 8],
            "x": [1, 2],
            "X": [3, 4],
        }
    )

    def values(expr: Expr) -> list[Any]:
        return evaluate(bind(expr, table.schema), table).to_pylist()  # type: ignore[no-any-return]

    assert values(col("a.b").expr) == [1, 2]
    assert values(col("a")["b"].expr) == [3, 4]
    assert values(parsed("a.b")) == [1, 2]
    assert values(parsed("`a.b`")) == [1, 2]
    assert values(parsed("`a`.`b`")) == [3, 4]
    assert values(parsed("a.`c.d`")) == [5, 6]
    assert values(col("a.`c.d`").expr) == [5, 6]
    assert values(col("a")["c.d"].expr) == [5, 6]
    assert values(parsed("case_ = 1 OR TRUE".replace("case_ = 1 OR ", ""))) == [True, True]
    assert values(parsed("CASE WHEN TRUE THEN `Case` END")) == [7, 8]
    assert values(parsed("x")) == [1, 2]
    assert values(parsed("X")) == [3, 4]
    for text in ("`case`", "A.B.C"):
        with pytest.raises(KeyError):
            values(parsed(text))
    with pytest.raises(KeyError, match="no column"):
        values(col("CASE").expr)


def test_types_that_only_arrow_has() -> None:
    halves = pa.table({"h": pa.array([np.float16(0.1), np.float16(0.5)])})
    assert evaluate(bind((col("h") == lit(0.5, pa.float16())).expr, halves.schema), halves).to_pylist() == [
        False,
        True,
    ]
    assert evaluate(bind((col("h") < lit(0.1, pa.float64())).expr, halves.schema), halves).to_pylist() == [
        True,
        False,
    ]
    hundreds = pa.table({"n": pa.array([Decimal("1E+2"), Decimal("5E+2")], pa.decimal128(5, -2))})
    for term, text in (
        (col("n") == 500, "n = decimal(5, -2) '5E+2'"),
        (col("n") > 450, "n >= decimal(5, -2) '5E+2'"),
    ):
        bound = bind(term.expr, hundreds.schema)
        assert str(bound) == text
        assert evaluate(bound, hundreds).to_pylist() == [False, True]
    with pytest.raises(ExpressionError, match="negative scales"):
        bind((col("n") + 1).expr, hundreds.schema)
    views = pa.table({"v": pa.array([b"a", b"b"], pa.binary_view())})
    assert evaluate(bind((col("v") == b"b").expr, views.schema), views).to_pylist() == [False, True]


def test_what_only_describes_itself() -> None:
    texts = {
        describe(col("x").isin([1.5, float("nan"), None]).expr): "x IN (1.5, CAST('nan' AS double), NULL)",
        describe(literal_of(pa.scalar(10**18, pa.timestamp("s")))): f"timestamp[s]({10**18})",
        describe((col("a") == b"x" * 300).expr): f"a = X'{'78' * 250}…'",
        describe((True & col("a")).expr): "TRUE AND a",
        describe(col("a").cast(pa.list_(pa.int8())).expr): "CAST(a AS list<item: int8>)",
        describe(col("a").cast(pa.uuid()).expr): "CAST(a AS extension<arrow.uuid>)",
    }
    for text, expected in texts.items():
        assert text == expected


def test_missing_values_of_pandas_are_null() -> None:
    for value in (pd.NaT, pd.NA, np.datetime64("NaT")):
        assert literal_of(value).value is None


def test_extension_columns_compare_as_their_storage() -> None:
    ids = pa.array([b"a" * 16, b"b" * 16, None], pa.binary(16))
    table = pa.table({"u": pa.ExtensionArray.from_storage(pa.uuid(), ids)})
    for text, expected in {
        f"u = X'{'61' * 16}'": [True, False, None],
        f"u > X'{'61' * 16}'": [False, True, None],
        "u IS NULL": [False, False, True],
        f"u IN (X'{'62' * 16}', X'00')": [False, True, None],
    }.items():
        bound = bind(parsed(text), table.schema)
        assert evaluate(bound, table).to_pylist() == expected
        assert mask(bound, table.to_batches()[0]).to_pylist() == expected
    assert bind(col("u").expr, table.schema).type == pa.uuid()


def test_dictionaries_are_tested_by_their_values_whatever_the_chunks() -> None:
    one = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 0], pa.int8()), pa.array(["a", "b"]))
    two = pa.DictionaryArray.from_arrays(
        pa.array([2, 1, 0], pa.int8()), pa.array(["b", None, "c", "unused", "unused2"])
    )
    table = pa.table({"d": pa.chunked_array([one, two, one.slice(1, 2)])})
    expected: dict[str, list[Any]] = {
        "d = 'a'": [True, False, None, True, False, None, False, False, None],
        "d > 'a'": [False, True, None, False, True, None, True, True, None],
        "d IN ('a', 'c')": [True, False, None, True, True, None, False, False, None],
        "d IN ('a', NULL)": [True, None, None, True, None, None, None, None, None],
        "d LIKE '_'": [True, True, None, True, True, None, True, True, None],
        "d IS NULL": [False, False, True, False, False, True, False, False, True],
        "upper(d) = 'A'": [True, False, None, True, False, None, False, False, None],
        "d = d": [True, True, None, True, True, None, True, True, None],
    }
    for text, answers in expected.items():
        assert evaluate(bind(parsed(text), table.schema), table).to_pylist() == answers, text
    empty = pa.table({"d": pa.chunked_array([], one.type)})
    assert evaluate(bind(parsed("d = 'a'"), empty.schema), empty).to_pylist() == []


def test_guards_hold_for_case_and_order_does_not_matter() -> None:
    table = pa.table({"x": [0, 1, 2, None], "y": ["0", "x", "2", None]})
    answers: dict[str, list[Any]] = {
        "x != 0 AND 10 / x > 5": [False, True, False, None],
        "10 / x > 5 AND x != 0": [False, True, False, None],
        "x = 0 OR 10 / x > 5": [True, True, False, None],
        "NOT (x = 0 OR 10 / x > 5)": [False, False, True, None],
        "regexp_like(y, '^[0-9]+$') AND CAST(y AS int) = 2": [False, False, True, None],
        "CASE WHEN regexp_like(y, '^[0-9]+$') THEN CAST(y AS int) ELSE -1 END": [0, -1, 2, -1],
        "CASE WHEN x = 0 THEN NULL ELSE 10 / x END": [None, 10, 5, None],
        "coalesce(nullif(x, 0), NULL, 10 / (x + 5), x + 1)": [2, 1, 2, None],
        "coalesce(CASE WHEN x IN (0, 2) THEN x END, 10 / x)": [0, 10, 2, None],
        "ifnull(CAST(nullif(y, 'x') AS int), 7)": [0, 7, 2, 7],
        "coalesce(5, 1 / x)": [5, 5, 5, 5],
        "CASE WHEN 10 / (x + 1) > 4 THEN 10 / (x + 1) WHEN x IS NULL THEN 1 / 1 ELSE x END": [10, 5, 2, 1],
    }
    for text, expected in answers.items():
        bound = bind(parsed(text), table.schema)
        assert evaluate(bound, table).to_pylist() == expected, text
        assert evaluate(bound, table.slice(1)).to_pylist() == expected[1:], text


def test_comparison_with_a_literal_is_one_kernel_on_the_column_as_it_is() -> None:
    table = pa.table({"k": pa.array(range(1000), pa.int32()), "s": pa.array(["a"] * 1000)})
    for text in ("k < 10", "s = 'a'", "k < 10.5", "k >= -99999999999", "10 > k"):
        bound = bind(parsed(text), table.schema)
        assert isinstance(bound.expr, Call)
        assert [type(arg) for arg in bound.expr.args] == [Column, Literal], text
        assert bound.expr.args[1].type == bound.expr.args[0].type
        assert evaluate(bound, table).equals(_direct(bound.expr, table))


def _direct(call: Call, table: pa.Table) -> Any:
    kernel = {"<": pc.less, "<=": pc.less_equal, ">": pc.greater, ">=": pc.greater_equal, "=": pc.equal}[
        call.op
    ]
    column, literal = call.args
    assert isinstance(column, Column) and isinstance(literal, Literal)
    return kernel(table[column.path[0]], pa.scalar(literal.value, literal.type))


@pytest.mark.parametrize("kind", [np.int64, np.uint8, np.int32])
def test_element_of_a_list_may_be_any_integer(kind: type[np.integer]) -> None:
    found, expected = col("l")[kind(1)].expr, col("l")[1].expr  # type: ignore[index]
    assert found == expected
    # The number itself becomes Python's own, or it would print as np.int64(1).
    assert repr(found) == repr(expected)


@pytest.mark.parametrize("key", [True, 1.0, None, ("a",)])
def test_element_that_is_neither_name_nor_integer_is_refused(key: object) -> None:
    with pytest.raises(TypeError, match="named by a string"):
        col("l")[key]  # type: ignore[index]
