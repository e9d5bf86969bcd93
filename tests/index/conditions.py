"""Random tables and conditions, each condition as SQL text and as a function of a row."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

__all__ = ["SCHEMA", "Test", "random_rows", "random_test"]

Row = dict[str, Any]
SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "i": pa.int32(),
        "f": pa.float64(),
        "s": pa.string(),
        "b": pa.bool_(),
        "st": pa.struct({"x": pa.int64()}),
        "tags": pa.list_(pa.string()),
    }
)
_FLOATS = (None, math.nan, 0.0, -0.0, 1.5, -2.0, math.inf, -math.inf, 0.25)
_TEXTS = (None, "", "a", "ab", "abc", "b", "zz", "é")
_TAGS: tuple[list[str | None] | None, ...] = (
    None,
    [],
    [None],
    ["a"],
    ["a", "b"],
    ["b", None],
    ["c", "c"],
    ["a", "b", "c"],
)


def random_rows(chance: random.Random, count: int, first: int) -> pa.Table:
    """Rows with nulls, NaN, signed zeros, empty texts and lists."""
    rows = [
        {
            "id": first + number,
            "i": chance.choice((None, *range(-5, 6))),
            "f": chance.choice(_FLOATS),
            "s": chance.choice(_TEXTS),
            "b": chance.choice((None, True, False)),
            "st": {"x": chance.choice((None, 1, 2))},
            "tags": chance.choice(_TAGS),
        }
        for number in range(count)
    ]
    return pa.Table.from_pylist(rows, SCHEMA)


@dataclass(frozen=True)
class Test:
    """A condition: its text, and whether it is true, false or null for a row."""

    __test__ = False
    text: str
    holds: Callable[[Row], bool | None]


def random_test(chance: random.Random, depth: int = 2) -> Test:
    """A condition of comparisons, IN, IS NULL, BETWEEN, LIKE and list functions, joined by AND, OR and NOT."""
    if depth == 0 or chance.random() < 0.4:
        return _leaf(chance)
    kind = chance.choice(("AND", "OR", "NOT"))
    one, other = random_test(chance, depth - 1), random_test(chance, depth - 1)
    if kind == "NOT":
        return Test(f"NOT ({one.text})", lambda row: _not(one.holds(row)))
    join = _all if kind == "AND" else _any
    return Test(f"({one.text} {kind} {other.text})", lambda row: join((one.holds(row), other.holds(row))))


def _leaf(chance: random.Random) -> Test:
    column = chance.choice(("i", "f", "s", "b", "st.x", "tags"))
    if column == "b":
        return _of_booleans(chance)
    if column == "tags":
        return _of_lists(chance)
    constants: dict[str, Callable[[], Any]] = {
        "i": lambda: chance.randint(-6, 6),
        "f": lambda: chance.choice((0.0, -0.0, 1.5, -2.0, 0.3, 1e300)),
        "s": lambda: chance.choice(("", "a", "ab", "b", "é", "x")),
        "st.x": lambda: chance.randint(0, 3),
    }
    return _of_values(chance, column, constants[column])


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


def _of_lists(chance: random.Random) -> Test:
    wanted = [chance.choice("abcx") for _ in range(chance.randint(1, 3))]
    listed = "[" + ", ".join(f"'{tag}'" for tag in wanted) + "]"

    def among(join: Callable[[Sequence[bool]], bool]) -> Callable[[Row], bool | None]:
        return lambda row: None if row["tags"] is None else join([tag in row["tags"] for tag in wanted])

    return chance.choice(
        (
            Test(f"array_has_any(tags, {listed})", among(any)),
            Test(f"array_has_all(tags, {listed})", among(all)),
            Test(f"array_has(tags, '{wanted[0]}')", among(lambda found: found[0])),
            Test("tags IS NULL", lambda row: row["tags"] is None),
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
    if kind < 6:
        op = chance.choice(tuple(_COMPARE))
        return Test(f"{column} {op} {_sql(low)}", tested(lambda found: _COMPARE[op](found, low)))
    if kind == 6:
        values = [low, high, constant()]
        text = f"{column} IN ({', '.join(map(_sql, values))})"
        return Test(text, tested(lambda found: any(found == one for one in values)))
    if kind == 7:
        return Test(f"{column} IS NULL", lambda row: value(row) is None)
    if kind == 8 or column != "s":
        text = f"{column} BETWEEN {_sql(low)} AND {_sql(high)}"
        return Test(text, tested(lambda found: low <= found <= high))
    return Test("s LIKE 'a%'", tested(lambda found: found.startswith("a")))


def _sql(value: object) -> str:
    return f"'{value}'" if isinstance(value, str) else repr(value)


def _not(value: bool | None) -> bool | None:
    return None if value is None else not value


def _all(values: Sequence[bool | None]) -> bool | None:
    return False if False in values else None if None in values else True


def _any(values: Sequence[bool | None]) -> bool | None:
    return True if True in values else None if None in values else False
