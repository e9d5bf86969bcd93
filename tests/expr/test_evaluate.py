"""Answers that Arrow's kernels do not give by themselves: rows they drop, and types they have no kernel for."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest

from lancecy.errors import ExpressionError
from lancecy.expr import bind, col, evaluate, lit, mask
from lancecy.expr.nodes import Call, Literal, literal_of
from tests.expr.test_answers import parsed
from tests.helpers.folded import folded

WORDS = ["a", None, None, "d"]
ZONED = pa.timestamp("us", "America/New_York")


def table() -> pa.Table:
    noon = dt.datetime(2024, 3, 9, 12, tzinfo=dt.UTC)
    return pa.table(
        {
            "s": pa.array(WORDS),
            "t": pa.array(["x", None, "y", None]),
            "ls": pa.array(WORDS, pa.large_string()),
            "dict": pa.array(WORDS).dictionary_encode(),
            "sv": pa.array(WORDS, pa.string_view()),
            "bv": pa.array([b"a", None, b"", b"d"], pa.binary_view()),
            "fb": pa.array([b"aa", None, b"bb", b"cc"], pa.binary(2)),
            "n": pa.array([1, 0, None, 2]),
            "tz": pa.array([noon, None, noon, noon], ZONED),
            "later": pa.array([noon + dt.timedelta(hours=1), noon, None, noon], ZONED),
        }
    )


def values(text: str) -> list[object]:
    found: list[object] = evaluate(bind(parsed(text), table().schema), table()).to_pylist()
    return found


@folded(
    ("text", "expected"),
    [
        ("concat(s)", ["a", "", "", "d"]), ("concat(s, t)", ["ax", "", "y", "d"]), ("concat(s, s) = 'dd'", [False] * 3 + [True]),
        ("concat(ls, t)", ["ax", "", "y", "d"]), ("concat(dict, sv)", ["aa", "", "", "dd"]), ("concat(NULL, s)", ["a", "", "", "d"]),
    ],
)  # fmt: skip
def test_concat_has_as_many_rows_where_all_values_are_null(text: str, expected: list[object]) -> None:
    assert values(text) == expected


@folded("text", ["ls || t", "t || ls", "ls || dict", "ls || 'x'", "ls || sv", "ls || n"])
def test_large_text_is_joined_too(text: str) -> None:
    left, right = text.split(" || ")
    names = {"'x'": ["x"] * 4}
    parts = [names.get(side) or table()[side].to_pylist() for side in (left, right)]
    expected = [None if None in pair else "".join(map(str, pair)) for pair in zip(*parts)]
    assert values(text) == expected


@folded(
    ("text", "expected"),
    [
        ("n != 0 AND 2 / n > 0 AND sv = 'a'", [True, False, None, False]),
        ("n = 0 OR 2 / n = 1 AND bv = X'64'", [False, True, None, True]),
        ("CASE WHEN n = 0 THEN FALSE ELSE 4 / n + length(sv) > 4 END", [True, False, None, False]),
    ],
)
def test_rows_of_views_are_selected_for_what_may_fail(text: str, expected: list[object]) -> None:
    assert values(text) == expected


def test_reading_a_view_is_not_a_conversion_that_may_fail() -> None:
    for text in ("n > 0 AND sv = 'a'", "sv = 'a' OR n > 0"):
        assert str(bind(parsed(text), table().schema)) == text


@folded(
    ("text", "expected"),
    [
        ("greatest(tz, later) = later", [True, True, None, True]), ("least(tz, later) = tz", [True, None, True, True]),
        ("least(tz, timestamp '2024-03-09 11:59:59Z') < tz", [True, None, True, True]),
        ("greatest(tz, NULL) = tz", [True, None, True, True]),
    ],
)  # fmt: skip
def test_instants_with_a_zone_have_a_greatest_and_a_least(text: str, expected: list[object]) -> None:
    assert values(text) == expected
    assert bind(parsed("greatest(tz, later)"), table().schema).type == ZONED


@folded(
    ("text", "expected"),
    [
        ("fb IN (X'00')", [False, None, False, False]), ("fb IN (X'00', X'6161')", [True, None, False, False]),
        ("fb NOT IN (X'61', X'616161')", [True, None, True, True]), ("fb IN (X'00', NULL)", [None] * 4),
    ],
)  # fmt: skip
def test_bytes_of_another_width_are_in_no_list(text: str, expected: list[object]) -> None:
    assert values(text) == expected


def test_intervals_longer_than_a_column_holds_are_compared_and_mixed() -> None:
    spans = pa.table({u: pa.array([1, -1, 2**63 - 1, None]).view(pa.duration(u)) for u in ("s", "ms", "us")})
    answers = {
        "us < interval '9223372036854775.807 seconds'": [True, True, True, None],
        "us IN (interval '9223372036854775.807 seconds', interval '0.000001 seconds')": [
            True,
            False,
            False,
            None,
        ],
        "ms = interval '9223372036854775.807 seconds'": [False, False, True, None],
        "s = interval '9223372036854775807 seconds'": [False, False, True, None],
        "interval '9223372036854775.807 seconds' > interval '1 second'": [True] * 4,
        "coalesce(ms, interval '9223372036854775.807 seconds') > us": [True, False, True, None],
    }
    for text, expected in answers.items():
        assert evaluate(bind(parsed(text), spans.schema), spans).to_pylist() == expected, text


def test_the_longest_interval_below_zero_has_no_counterpart() -> None:
    spans = pa.table({"x": pa.array([5, -(2**63)]).view(pa.duration("ms"))})
    bound = bind(parsed("-x < x"), spans.schema)
    assert evaluate(bound, spans.slice(0, 1)).to_pylist() == [True]
    with pytest.raises(ExpressionError, match="overflow"):
        evaluate(bound, spans)


def test_constant_halves_are_compared_and_computed_with() -> None:
    half, table = lit(0.5, pa.float16()), pa.table({"n": [1, 0], "h": pa.array([0.5, 2.0], pa.float16())})
    for term, expected in (
        (half < lit(2.0, pa.float16()), [True, True]),
        (half == col("h"), [True, False]),
        (col("n") * half < half, [False, True]),
        (col("n") > half, [True, False]),
    ):
        assert evaluate(bind(term.expr, table.schema), table).to_pylist() == expected, term


@pytest.mark.parametrize("op", ["+", "-", "*", "/", "%"])
def test_null_with_a_type_gives_the_type_of_a_value_with_it(op: str) -> None:
    schema = pa.schema([("i", pa.int64()), ("t", pa.int8()), ("d", pa.float64()), ("n", pa.decimal128(9, 2))])
    for kind in ("TINYINT", "INT", "BIGINT", "FLOAT", "DOUBLE"):
        for other in ("i", "t", "d", "2.5", "7", "300000000000"):
            for text in (f"CAST(NULL AS {kind}) {op} {other}", f"{other} {op} CAST(NULL AS {kind})"):
                found = bind(parsed(text), schema).expr
                assert isinstance(found, Literal)
                assert found.value is None
                assert found.type == bind(parsed(text.replace("NULL", "3")), schema).type, text


def test_constant_with_a_type_says_how_one_without_is_read() -> None:
    """As a column of the type would, on either side."""
    day, tenth = literal_of(dt.date(2020, 1, 1)), Literal(float(np.float32(0.1)), pa.float32())
    for text, typed in (("2020-01-01", day), (0.1, tenth)):
        for sides in ((Literal(text), typed), (typed, Literal(text))):
            assert bind(Call("=", sides), pa.schema([])).expr == Literal(True, pa.bool_())


def test_dictionaries_of_views_and_of_halves_are_looked_up() -> None:
    """By their values where they are compared, and row by row where a function or a larger dictionary asks for it."""
    words = pa.array(["a", "bb", None, "a"]).dictionary_encode()
    halves = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 0]), pa.array([0.5, 2.0], pa.float16()))
    table = pa.table(
        {"w": words.cast(pa.dictionary(pa.int32(), pa.string_view())), "h": halves, "n": [1, 0, 1, 1]}
    )
    answers = {
        "w = 'a'": [True, False, None, True],
        "length(w) = 2": [False, True, None, False],
        "w || 'x' = 'ax'": [True, False, None, True],
        "h > 1": [False, True, None, False],
        "h + 1 = 3": [False, True, None, False],
        "n != 0 AND 2 / n > 1 AND length(w) = 1": [True, False, None, True],
    }
    for text, expected in answers.items():
        bound = bind(parsed(text), table.schema)
        assert evaluate(bound, table).to_pylist() == expected, text
        assert evaluate(bound, table.slice(0, 1)).to_pylist() == expected[:1], text


@folded(
    "text",
    ["9007199254740993 != 9007199254740992.0", "9007199254740992.0 < 9007199254740993", "1 = 1.0", "0.5 < 1"],
)
def test_constants_without_a_type_are_compared_exactly(text: str) -> None:
    assert bind(parsed(text), pa.schema([])).expr == Literal(True, pa.bool_())


@pytest.mark.parametrize("kind", [pa.int8(), pa.int16(), pa.int32(), pa.int64()], ids=str)
@pytest.mark.parametrize("text", ["n % m", "n % -1", "mod(n, -1)"])
def test_nothing_remains_of_the_smallest_integer_when_divided_by_minus_one(
    kind: pa.DataType, text: str
) -> None:
    least = -(2 ** (kind.bit_width - 1))
    rows = pa.table({"n": pa.array([least, 5, None], kind), "m": pa.array([-1, -1, -1], kind)})
    found = evaluate(bind(parsed(text), rows.schema), rows)
    assert found.to_pylist() == [0, 0, None]
    bound = bind(parsed(f"{text} = 0"), rows.schema, boolean=True)
    assert mask(bound, rows).to_pylist() == [True, True, None]


@folded("type", ["int32", "uint32", "int64", "uint64"])
def test_remainders_of_many_values_beside_the_bounds_of_32_bits(type: str) -> None:
    most = np.iinfo(type).max
    bounds = [bound for bound in (99, (1 << 31) - 1, (1 << 32) - 1, 1 << 32, most) if bound <= most]
    random = np.random.default_rng(9)
    for bound in bounds:
        # In every piece of the column but the last one all values are below 100.
        numbers = np.append(random.integers(0, 100, 140_000, type), random.integers(0, bound, 99, type))
        rows = pa.table({"n": np.append(numbers, np.array([bound], type))})
        for divisor in (100, *bounds):
            expr = (col("n") % lit(divisor, pa.from_numpy_dtype(type))).expr
            found = evaluate(bind(expr, rows.schema), rows).to_numpy()
            assert np.array_equal(found, np.remainder(rows["n"].to_numpy(), np.array(divisor, type)))


@folded("type", [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)])
def test_remainders_by_a_constant_have_the_sign_of_the_dividend(type: str) -> None:
    limits, random = np.iinfo(type), np.random.default_rng(4)
    numbers = random.integers(limits.min, limits.max, 300, type, endpoint=True)
    numbers = np.concatenate([numbers, np.array([limits.min, limits.max, 0, 1], type)])
    whole = pa.array(numbers, mask=random.random(numbers.size) < 0.2)
    divisors = {1, 2, 3, 100, -1, -3, limits.max, limits.min + 1} - {0}
    pieces = (
        whole,
        whole.slice(13),
        whole.slice(3, 0),
        pa.chunked_array([whole.slice(0, 3), whole.slice(3)]),
    )
    for divisor in (number for number in divisors if limits.min <= number <= limits.max):
        for piece in pieces:
            table_ = pa.table({"n": piece})
            expr = (col("n") % lit(divisor, whole.type)).expr
            signs = [(n, -1 if n is not None and n < 0 else 1) for n in piece.to_pylist()]
            wanted = [None if n is None else sign * (abs(n) % abs(divisor)) for n, sign in signs]
            assert evaluate(bind(expr, table_.schema), table_).to_pylist() == wanted, divisor
