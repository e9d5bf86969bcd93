"""pyarrow expressions: the rows are those of ``Table.filter``, whether a part has a node of ours or not."""

from __future__ import annotations

import datetime as dt
import pickle
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lancecy.errors import ExpressionError
from lancecy.expr import bind, describe, evaluate, mask, parse
from lancecy.expr.nodes import Expr, walk
from tests.expr.tables import every_kind
from tests.helpers.folded import folded

f = pc.field
NAN = float("nan")

CONSTANTS: dict[str, list[Any]] = {
    "i8": [1, -128, 127, 5, 1000],
    "i64": [1, 2**53 + 1, -(2**63)],
    "u8": [0, 255],
    "f32": [0.5, 0.1, 0, -0.0, NAN, float("inf")],
    "f64": [0.1, 0, 1, -0.0, NAN, 2.0**53],
    "s": ["a", "", "zz"],
    "ls": ["abc"],
    "dict": ["u"],
    "bin": [b"a", b""],
    "b": [True, False],
    "d": [dt.date(2020, 1, 1)],
    "ts_us": [dt.datetime(2020, 1, 1, 12, 30, 15), dt.date(2020, 1, 1)],
    "ts_ns": [pa.scalar(1_577_881_815_000_000_001, pa.timestamp("ns"))],
    "tz": [dt.datetime(2020, 1, 1, 12, 30, 15, tzinfo=dt.UTC)],
    "t64": [dt.time(1)],
    "du_s": [dt.timedelta(seconds=1)],
    "dec": [Decimal("1.10"), Decimal("1.105"), 2],
}
COMPARISONS = [
    make
    for column, constants in CONSTANTS.items()
    for value in constants
    for make in (
        f(column) == pc.scalar(value),
        f(column) != pc.scalar(value),
        f(column) < pc.scalar(value),
        f(column) <= pc.scalar(value),
        f(column) > pc.scalar(value),
        f(column) >= pc.scalar(value),
    )
]

CONVERTED = [
    f("b"),
    ~f("b"),
    pc.scalar(True),
    (f("i8") > 1) & f("b"),
    (f("i8") > 1) | f("b"),
    ~((f("i8") > 1) & f("b")),
    ~((f("i8") > 1) | f("b") & (f("s") == "a")),
    f("i8").is_null(),
    f("f64").is_null(nan_is_null=True),
    ~f("f64").is_null(nan_is_null=True),
    f("i8").is_valid(),
    f("f64").is_nan(),
    ~f("f64").is_nan(),
    f("i8").isin([1, 2]),
    ~f("i8").isin([1, 2]),
    f("i8").isin([1, None]),
    ~f("i8").isin([1, None]),
    f("i8").isin([]),
    ~f("i8").isin([]),
    f("f64").isin([NAN, 1.0]),
    ~f("f64").isin([NAN, 1.0]),
    f("s").isin(["a", "abc"]),
    f("dict").isin(["u"]),
    f("d").isin([dt.date(2020, 1, 1)]),
    pc.is_in(f("i8"), value_set=pa.array([1, None]), skip_nulls=True),
    ~pc.is_in(f("i8"), value_set=pa.array([1, None]), skip_nulls=True),
    f("i32").cast("int64") > 1,
    f("i32").cast(pa.float64()) > 1.5,
    f("i16").cast("int8", safe=False) == 44,
    f("id") + f("i8") > 2,
    f("id") * 2.5 > 2,
    f("id") - f("i8") == 0,
    f("f64") / 2 > 0.2,
    f("i32") / 2 == 1,
    f("st", "x") == 1,
    f(("st", "in", "y")) == "p",
    f("st", "x").is_null(),
    f("two words") > 3,
    pc.starts_with(f("s"), "a"),
    pc.ends_with(f("s"), "c"),
    pc.match_substring(f("s"), "b"),
    pc.match_substring_regex(f("s"), "^A"),
    pc.match_substring_regex(f("s"), "^A", ignore_case=True),
    pc.match_like(f("s"), "a%"),
    pc.match_like(f("s"), "A_c", ignore_case=True),
    pc.match_like(f("s"), "100\\%\\_x"),
    pc.utf8_lower(f("s")) == "abc",
    pc.coalesce(f("i32"), 5) == 5,
    f("i8") == pa.scalar(None),
    f("i8") == pa.scalar(None, pa.int8()),
]

OPAQUE = [
    pc.if_else(f("b"), f("i8"), f("i16")) > 1,
    pc.round(f("f64"), 1) == 0.1,
    pc.starts_with(f("s"), "A", ignore_case=True),
    (f("i8") > 0) & (pc.list_value_length(f("l")) == 2),
    pc.year(f("d")) == 2020,
    ~(pc.year(f("ts_us")) == 2020),
    pc.xor(f("b"), f("i8") > 0),
    pc.add(f("i8"), pa.scalar(1, pa.int8())) == -128,
    pc.utf8_length(f("st", "in", "y")) == 1,
    pc.match_substring(f("bin"), b"\xff"),
    ~pc.starts_with(f("bin"), b"\xff\xff"),
]


def converted(expression: pc.Expression) -> Expr:
    found = parse(expression)
    assert found is not None
    return found


def rows_of(expression: pc.Expression) -> list[int]:
    table = every_kind()
    bound = bind(converted(expression), table.schema, boolean=True)
    rows: list[int] = (
        table.select(list(dict.fromkeys(["id", *bound.columns])))
        .filter(evaluate(bound, table))["id"]
        .to_pylist()
    )
    return rows


def rows_of_arrow(expression: pc.Expression) -> list[int]:
    # Columns that Arrow's own engine stumbles over are not needed by any expression here.
    table = every_kind().drop_columns(["f16", "sv", "nothing"])
    rows: list[int] = table.filter(expression)["id"].to_pylist()
    return rows


def arrow_can_compare(expression: pc.Expression) -> bool:
    """False where Arrow casts the column to the literal's type and values beyond 2**53 or its digits fail."""
    try:
        rows_of_arrow(expression)
    except pa.ArrowInvalid as error:
        if "not in range" in str(error) or "Precision is not great enough" in str(error):
            return False
        raise
    return True


@pytest.mark.slow
@folded("number", range(len(COMPARISONS)))
def test_comparison_selects_the_rows_of_table_filter(number: int) -> None:
    expression = COMPARISONS[number]
    assert not any(getattr(node, "op", "") == "arrow" for node in walk(converted(expression)))
    rows = rows_of(expression)
    if arrow_can_compare(expression):
        assert rows == rows_of_arrow(expression)


@folded("number", range(len(CONVERTED)))
def test_expression_becomes_nodes_and_selects_the_rows_of_table_filter(number: int) -> None:
    expression = CONVERTED[number]
    found = converted(expression)
    assert not any(getattr(node, "op", "") == "arrow" for node in walk(found)), found
    assert rows_of(expression) == rows_of_arrow(expression)
    assert pickle.loads(pickle.dumps(found)) == found


@folded("number", range(len(OPAQUE)))
def test_part_without_a_node_is_left_to_pyarrow(number: int) -> None:
    expression = OPAQUE[number]
    found = converted(expression)
    assert any(getattr(node, "op", "") == "arrow" for node in walk(found)), found
    assert "pyarrow(" in describe(found)
    assert rows_of(expression) == rows_of_arrow(expression)
    again = pickle.loads(pickle.dumps(found))
    assert again == found
    table = every_kind()
    bound = bind(again, table.schema)
    assert (
        mask(bound, table.combine_chunks().to_batches()[0]).to_pylist() == evaluate(bound, table).to_pylist()
    )


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()])
@pytest.mark.parametrize("path", [("x",), ("st", "x")])
def test_searches_in_bytes_are_left_to_pyarrow(kind: pa.DataType, path: tuple[str, ...]) -> None:
    """Only those for bytes that are no UTF-8 were; text was looked for in text only."""
    values = pa.array([b"ab", b"xaby", b"", None, b"\xffAB"], kind)
    table = pa.table({"x": values, "st": pa.StructArray.from_arrays([values], ["x"])})
    for expression in (
        pc.match_substring(f(*path), "ab"),
        ~pc.match_substring(f(*path), b"ab"),
        pc.starts_with(f(*path), "ab") | pc.ends_with(f(*path), "aby"),
        pc.match_like(f(*path), "a%"),
        pc.match_like(f(*path), "%Ab", ignore_case=True),
        pc.match_substring_regex(f(*path), "a.y"),
        pc.match_substring_regex(f(*path), "A", ignore_case=True),
    ):
        found = pickle.loads(pickle.dumps(converted(expression)))
        bound = bind(found, table.schema, boolean=True)
        assert bound.paths == (path,)
        assert table.filter(evaluate(bound, table)) == table.filter(expression), expression
    with pytest.raises(ExpressionError, match=r"contains\(\) needs text, but x is"):
        bind(parse("contains(x, 'ab')"), table.schema)  # type: ignore[arg-type]


def test_searches_read_as_sql() -> None:
    found = ~pc.match_like(f("s"), "a%") & pc.match_substring(f("s"), "b")
    assert describe(converted(found)) == "s NOT LIKE 'a%' AND contains(s, 'b')"


def test_opaque_part_names_its_columns() -> None:
    expression = (pc.year(f("d")) == pc.month(f("ts_us"))) & (pc.utf8_length(f("st", "in", "y")) > f("i8"))
    bound = bind(converted(expression), every_kind().schema)
    assert bound.columns == ("i8", "d", "ts_us", "st")
    assert ("st", "in", "y") in bound.paths


def test_exactness_beyond_what_arrow_compares() -> None:
    # pyarrow casts int64 to double here and raises.
    table = pa.table(
        {"i": pa.array([2**53, 2**53 + 1, None]), "u": pa.array([2**64 - 1, 0, None], pa.uint64())}
    )
    for expression, expected in (
        (f("i") == float(2**53), [True, False, None]),
        (f("i") < 2.0**53 + 2, [True, True, None]),
        (f("u") > -1, [True, True, None]),
        (f("u") == pa.scalar(-1, pa.int8()), [False, False, None]),
    ):
        assert evaluate(bind(converted(expression), table.schema), table).to_pylist() == expected


def test_typed_double_meets_float_column_exactly_and_untyped_number_in_its_own_precision() -> None:
    table = pa.table({"x": pa.array([0.1, 0.5], pa.float32())})
    assert table.filter(f("x") == 0.1).num_rows == 0
    assert evaluate(bind(converted(f("x") == 0.1), table.schema), table).to_pylist() == [False, False]
    assert evaluate(bind(converted(f("x") > 0.1), table.schema), table).to_pylist() == [True, True]
    found = parse("x = 0.1")
    assert found is not None
    assert evaluate(bind(found, table.schema), table).to_pylist() == [True, False]


@pytest.mark.slow
def test_deep_chain_is_flat() -> None:
    expression = f("i8") == 0
    for value in range(1, 3000):
        expression = expression | (f("i8") == value)
    found = converted(expression)
    assert len(getattr(found, "args", ())) == 3000
    assert rows_of(expression) == [0, 1, 3, 6, 7]
    mixed = f("i8") == 0
    for value in range(1, 40):
        mixed = (mixed | (f("i8") == value)) if value % 2 else (mixed & (f("i8") != value))
    assert rows_of(mixed) == rows_of_arrow(mixed)


def test_columns_by_position_are_refused_by_name() -> None:
    with pytest.raises(ExpressionError, match="by name"):
        parse(f(0) == 1)
    with pytest.raises(ExpressionError, match="by name"):
        parse(f("st", 0) == 1)


def test_scalar_types_survive() -> None:
    stamp = pa.scalar(np.datetime64("2020-01-01T00:00:00.000000001"))
    (found,) = [n for n in walk(converted(f("ts_ns") == stamp)) if getattr(n, "type", None) is not None]
    assert found.type == pa.timestamp("ns") and getattr(found, "value", None) == 1_577_836_800_000_000_001


def test_unknown_function_arguments_stay_opaque() -> None:
    nested: Any = pc.struct_field(f("st"), [0])
    found = converted(nested == 1)
    assert any(getattr(node, "op", "") == "arrow" for node in walk(found))
    assert rows_of(nested == 1) == rows_of_arrow(nested == 1)
