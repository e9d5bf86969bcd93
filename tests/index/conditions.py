"""Random rows and conditions, each condition as SQL text and as a function of a row."""

from __future__ import annotations

import datetime
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

__all__ = ["SCHEMA", "Test", "random_rows", "random_test"]

Row = dict[str, Any]
SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "i": pa.int32(),
        "f": pa.float64(),
        "g": pa.float32(),
        "s": pa.string(),
        "b": pa.bool_(),
        "u": pa.uint64(),
        "d": pa.date32(),
        "t": pa.timestamp("us"),
        "y": pa.binary(),
        "m": pa.decimal128(9, 2),
        "st": pa.struct({"x": pa.int64()}),
        "tags": pa.list_(pa.string()),
        "nums": pa.list_(pa.int64()),
    }
)
_DAY = datetime.date(2024, 2, 27)
_TIME = datetime.datetime(2024, 2, 28, 23, 59, 59, 999_999)
_MICROSECOND = datetime.timedelta(microseconds=1)
_FLOATS = (math.nan, 0.0, -0.0, 1.5, -2.0, math.inf, -math.inf, 0.25)
_VALUES: dict[str, tuple[Any, ...]] = {
    "i": tuple(range(-5, 6)),
    "f": _FLOATS,
    "g": _FLOATS,
    "s": ("", "a", "ab", "abc", "b", "zz", "é", "xabcx", "ABCD", "aébc", "abc def"),
    "b": (True, False),
    "u": (0, 1, 7, 2**63, 2**64 - 1),
    "d": tuple(_DAY + datetime.timedelta(days) for days in range(5)),
    "t": tuple(_TIME + _MICROSECOND * n for n in range(4)),
    "y": (b"", b"\0", b"a", b"a\xff", b"\xff"),
    "m": (Decimal("0.00"), Decimal("-1.25"), Decimal("1.25"), Decimal("99.99")),
    "st": (1, 2),
    "tags": ([], [None], ["a"], ["a", "b"], ["b", None], ["c", "c"], ["a", "b", "c"]),
    "nums": ([], [None], [1], [1, 2], [2, None], [3, 3], [1, 2, 3]),
}
_NULLS = 0.12


def random_rows(chance: random.Random, count: int, first: int) -> pa.Table:
    """Rows with nulls, NaN, signed zeros, empty texts and lists, the bounds of types."""
    columns: dict[str, list[Any]] = {"id": list(range(first, first + count))}
    for name, values in _VALUES.items():
        columns[name] = [None if chance.random() < _NULLS else chance.choice(values) for _ in range(count)]
    columns["st"] = [{"x": x} for x in columns["st"]]
    return pa.table(columns, SCHEMA)


@dataclass(frozen=True)
class Test:
    """A condition: its text, and whether it is true, false or null for a row."""

    __test__ = False
    text: str
    holds: Callable[[Row], bool | None]


def random_test(chance: random.Random, depth: int = 2, columns: Sequence[str] = tuple(_VALUES)) -> Test:
    """A condition of comparisons, IN, IS NULL, BETWEEN, LIKE, contains and list functions, joined by AND, OR and NOT.

    Parameters
    ----------
    chance : random.Random
    depth : int
        Of AND, OR and NOT.
    columns : sequence of str
        Those it is about.
    """
    if depth == 0 or chance.random() < 0.4:
        return _leaf(chance, chance.choice(columns))
    kind = chance.choice(("AND", "OR", "NOT"))
    one, other = (random_test(chance, depth - 1, columns) for _ in range(2))
    if kind == "NOT":
        return Test(f"NOT ({one.text})", lambda row: _not(one.holds(row)))
    join = _all if kind == "AND" else _any
    return Test(f"({one.text} {kind} {other.text})", lambda row: join((one.holds(row), other.holds(row))))


def _leaf(chance: random.Random, column: str) -> Test:
    if column == "b":
        return _of_booleans(chance)
    if column in ("tags", "nums"):
        return _of_lists(chance, column)
    if column == "s" and chance.random() < 0.4:
        return _of_texts(chance)
    constants: dict[str, tuple[Any, ...]] = {
        "i": tuple(range(-6, 7)),
        "f": (0.0, -0.0, 1.5, -2.0, 0.3, 1e300),
        "g": (0.0, -0.0, 1.5, -2.0, 0.25),
        "st": (0, 1, 2, 3),
        "s": ("", "a", "ab", "b", "é", "x", "abc"),
        "d": (_DAY, _DAY + datetime.timedelta(2), _DAY + datetime.timedelta(9)),
        "t": (_TIME, _TIME + _MICROSECOND * 2),
    }
    values = constants.get(column, _VALUES[column])
    return _of_values(chance, "st.x" if column == "st" else column, lambda: chance.choice(values))


def _of_booleans(chance: random.Random) -> Test:
    return chance.choice(
        (
            Test("b", lambda row: row["b"]),
            Test("NOT b", lambda row: _not(row["b"])),
            Test("b IS NULL", lambda row: row["b"] is None),
            Test("b = true", lambda row: row["b"]),
            Test("b IS NOT TRUE", lambda row: row["b"] is not True),
        )
    )


def _of_lists(chance: random.Random, column: str) -> Test:
    wanted = [
        chance.choice("abcx" if column == "tags" else (1, 2, 3, 9)) for _ in range(chance.randint(1, 3))
    ]
    listed = "[" + ", ".join(map(_sql, wanted)) + "]"

    def among(join: Callable[[Sequence[bool]], bool]) -> Callable[[Row], bool | None]:
        return lambda row: None if row[column] is None else join([one in row[column] for one in wanted])

    return chance.choice(
        (
            Test(f"array_has_any({column}, {listed})", among(any)),
            Test(f"array_has_all({column}, {listed})", among(all)),
            Test(f"array_has({column}, {_sql(wanted[0])})", among(lambda found: found[0])),
            Test(f"{column} IS NULL", lambda row: row[column] is None),
        )
    )


def _of_texts(chance: random.Random) -> Test:
    word = chance.choice(("abc", "bc", "abcx", "xab", "abcd", "ABC", "aéb", "def", "zzz"))

    def tested(test: Callable[[str], bool]) -> Callable[[Row], bool | None]:
        return lambda row: None if row["s"] is None else test(row["s"])

    return chance.choice(
        (
            Test(f"contains(s, '{word}')", tested(lambda text: word in text)),
            Test(f"s LIKE '%{word}%'", tested(lambda text: word in text)),
            Test(f"s LIKE '{word}%'", tested(lambda text: text.startswith(word))),
            Test(f"s LIKE '%{word}'", tested(lambda text: text.endswith(word))),
            Test(f"starts_with(s, '{word}')", tested(lambda text: text.startswith(word))),
            Test(f"s ILIKE '%{word}%'", tested(lambda text: word.lower() in text.lower())),
            Test(f"s NOT LIKE '%{word}%'", tested(lambda text: word not in text)),
        )
    )


_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def _of_values(chance: random.Random, column: str, constant: Callable[[], Any]) -> Test:
    def value(row: Row) -> Any:
        return row["st"]["x"] if column == "st.x" else row[column]

    def tested(test: Callable[[Any], bool]) -> Callable[[Row], bool | None]:
        return lambda row: None if value(row) is None else test(value(row))

    kind, low, high = chance.randint(0, 9), constant(), constant()
    if kind < 5:
        op = chance.choice(tuple(_COMPARE))
        return Test(f"{column} {op} {_sql(low)}", tested(lambda found: _COMPARE[op](found, low)))
    if kind < 7:
        values = [low, high, *(constant() for _ in range(chance.choice((1, 6))))]
        is_in = Test(
            f"{column} IN ({', '.join(map(_sql, values))})",
            tested(lambda found: any(found == one for one in values)),
        )
        text = is_in.text.replace(" IN ", " NOT IN ", 1)
        return is_in if kind == 5 else Test(text, lambda row: _not(is_in.holds(row)))
    if kind == 7:
        return Test(f"{column} IS NULL", lambda row: value(row) is None)
    if kind == 8:
        return Test(f"{column} IS NOT NULL", lambda row: value(row) is not None)
    text = f"{column} BETWEEN {_sql(low)} AND {_sql(high)}"
    return Test(text, tested(lambda found: low <= found <= high))


def _sql(value: object) -> str:
    match value:
        case str():
            return f"'{value}'"
        case bytes():
            return f"X'{value.hex()}'"
        case datetime.datetime():
            return f"timestamp '{value}'"
        case datetime.date():
            return f"date '{value}'"
        case Decimal():
            return str(value)
        case _:
            return repr(value)


def _not(value: bool | None) -> bool | None:
    return None if value is None else not value


def _all(values: Sequence[bool | None]) -> bool | None:
    return False if False in values else None if None in values else True


def _any(values: Sequence[bool | None]) -> bool | None:
    return True if True in values else None if None in values else False
