"""A second meaning of filters: three-valued logic in plain Python, one row at a time.

Works on unbound trees with Python's exact numbers and shares no code with the package but the node classes.
Every value is a pair of a kind and something Python compares: instants are integers of nanoseconds.
"""

from __future__ import annotations

import datetime as dt
import operator
import re
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa

from lancecy.expr.nodes import Call, Column, Expr, Literal, walk
from lancecy.expr.periods import period_of

__all__ = ["answers", "selected"]

Value = tuple[str, Any]
NULL: Value = ("null", None)
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_EPOCH = dt.datetime(1970, 1, 1)


def selected(expr: Expr, table: pa.Table) -> list[int]:
    """Numbers of the rows the condition is true of."""
    return [row for row, answer in enumerate(answers(expr, table)) if answer is True]


def answers(expr: Expr, table: pa.Table) -> list[bool | None]:
    """True, False or None for every row."""
    written = {node.path[0] for node in walk(expr) if isinstance(node, Column)}
    names = [n for n in table.column_names if n in written or any(w.startswith(f"{n}.") for w in written)]
    columns = {name: _values(table.column(name)) for name in names}
    found = []
    for row in range(table.num_rows):
        kind, value = _eval(expr, {name: values[row] for name, values in columns.items()}, table.schema)
        assert kind in ("bool", "null"), (expr, kind)
        found.append(value)
    return found


def _values(column: pa.ChunkedArray) -> list[Any]:
    if pa.types.is_temporal(column.type):
        bits = column.type.bit_width
        stored = column.combine_chunks().view(pa.int32() if bits == 32 else pa.int64())
        return [None if v is None else int(v) for v in stored.to_pylist()]
    return list(column.to_pylist())


def _tag(value: Any, kind: pa.DataType) -> Value:
    """A stored value with its kind."""
    types = pa.types
    if value is None or types.is_null(kind):
        return NULL
    if types.is_dictionary(kind):
        return _tag(value, kind.value_type)
    if types.is_boolean(kind):
        return "bool", bool(value)
    if types.is_floating(kind):
        return {16: "f16", 32: "f32", 64: "f64"}[kind.bit_width], float(value)
    if types.is_integer(kind) or types.is_decimal(kind):
        return "exact", Fraction(value)
    if types.is_date(kind):
        return "instant", value * (86_400 * 10**9 if kind.bit_width == 32 else 10**6)
    if types.is_timestamp(kind):
        return ("utc " + kind.tz if kind.tz else "instant"), value * 10**9 // _PER_SECOND[kind.unit]
    if types.is_time(kind):
        return "time", value * 10**9 // _PER_SECOND[kind.unit]
    if types.is_interval(kind):
        return "interval", period_of(value).length()
    if types.is_duration(kind):
        return "interval", value * 10**9 // _PER_SECOND[kind.unit]
    if types.is_nested(kind):
        return "nested", value
    return ("text", value) if isinstance(value, str) else ("bytes", bytes(value))


def _eval(expr: Expr, row: dict[str, Any], schema: pa.Schema) -> Value:
    if isinstance(expr, Literal):
        return _constant(expr)
    if isinstance(expr, Column):
        return _column(expr, row, schema)
    assert isinstance(expr, Call)
    if expr.op in _SPECIAL:
        return _SPECIAL[expr.op](expr, row, schema)
    args = [_eval(arg, row, schema) for arg in expr.args]
    if NULL in args:
        return NULL
    return _PLAIN[expr.op](*args)


def _column(column: Column, row: dict[str, Any], schema: pa.Schema) -> Value:
    names = [column.path[0]] if column.path[0] in schema.names else ".".join(column.path).split(".")
    value, kind = row[names[0]], schema.field(names[0]).type
    for name in [*names[1:], *column.path[1:]]:
        kind = kind.field(name).type
        value = None if value is None else value[name]
    return _tag(value, kind)


def _constant(literal: Literal) -> Value:
    value = literal.value
    if literal.type is not None:
        return _tag(value, literal.type)
    if value is None:
        return NULL
    if isinstance(value, bool):
        return "bool", value
    if isinstance(value, (int, Decimal)):
        return "number", Fraction(value)
    if isinstance(value, float):
        return ("number", Fraction(value)) if np.isfinite(value) else ("f64", value)
    return ("text", value) if isinstance(value, str) else ("bytes", value)


def _alike(left: Value, right: Value) -> tuple[Any, Any]:
    """Two values that Python can compare."""
    (one, a), (two, b) = left, right
    if one == "number" and two.startswith("f"):
        return _rounded(a, two), b
    if two == "number" and one.startswith("f"):
        return a, _rounded(b, one)
    if "text" in (one, two) and one != two and {one, two} != {"text", "number"}:
        return (_read(a, two), b) if one == "text" else (a, _read(b, one))
    if {one.split()[0], two.split()[0]} == {"instant", "utc"}:
        zone = (one if one.startswith("utc") else two).split()[1]
        return (_to_utc(a, zone) if one == "instant" else a), (_to_utc(b, zone) if two == "instant" else b)
    return a, b


def _rounded(number: Fraction, kind: str) -> float:
    """The literal as the column's own type holds it."""
    make: Any = {"f16": np.float16, "f32": np.float32, "f64": np.float64}[kind]
    largest = float(np.finfo(make).max)
    if abs(number) > Fraction(largest):
        # Beyond the largest value and below infinity, as no value of the type is.
        return _Between(largest if number > 0 else -largest)
    return float(make(float(number)))


class _Between(float):
    """A number next to the largest finite one, away from zero: equal to nothing."""

    def __eq__(self, other: object) -> bool:
        return False

    def __ne__(self, other: object) -> bool:
        return True

    def __lt__(self, other: Any) -> bool:
        return bool(float(other) > abs(self) if float.__gt__(self, 0.0) else float(other) >= -abs(self))

    def __le__(self, other: Any) -> bool:
        return bool(self < other)

    def __gt__(self, other: Any) -> bool:
        return bool(float(other) <= abs(self) if float.__gt__(self, 0.0) else float(other) < -abs(self))

    def __ge__(self, other: Any) -> bool:
        return bool(self > other)

    __hash__ = float.__hash__


def _read(text: str, kind: str) -> int:
    if kind == "time":
        clock = dt.time.fromisoformat(text)
        return (clock.hour * 3600 + clock.minute * 60 + clock.second) * 10**9 + clock.microsecond * 1000
    moment = dt.datetime.fromisoformat(text)
    naive = moment.replace(tzinfo=None)
    nanos = (naive - _EPOCH) // dt.timedelta(microseconds=1) * 1000
    if kind.startswith("utc"):
        if moment.tzinfo is None:
            return _to_utc(nanos, kind.split()[1])
        offset = moment.utcoffset()
        assert offset is not None
        return nanos - int(offset.total_seconds()) * 10**9
    return nanos


def _to_utc(nanos: int, zone: str) -> int:
    local = (_EPOCH + dt.timedelta(microseconds=nanos // 1000)).replace(tzinfo=ZoneInfo(zone))
    offset = local.utcoffset()
    assert offset is not None
    return nanos - int(offset.total_seconds()) * 10**9


def _comparison(compare: Callable[[Any, Any], bool]) -> Callable[[Value, Value], Value]:
    return lambda left, right: ("bool", bool(compare(*_alike(left, right))))


def _decide(call: Call, row: dict[str, Any], schema: pa.Schema, decisive: bool) -> Value:
    """AND and OR. An operand that fails does so only if no other decides: order does not matter."""
    found: list[Any] = []
    failure: ZeroDivisionError | None = None
    for arg in call.args:
        try:
            found.append(_eval(arg, row, schema)[1])
        except ZeroDivisionError as error:
            failure = error
    if decisive in found:
        return "bool", decisive
    if failure is not None:
        raise failure
    return NULL if None in found else ("bool", not decisive)


def _and(call: Call, row: dict[str, Any], schema: pa.Schema) -> Value:
    return _decide(call, row, schema, False)


def _or(call: Call, row: dict[str, Any], schema: pa.Schema) -> Value:
    return _decide(call, row, schema, True)


def _is_null(call: Call, row: dict[str, Any], schema: pa.Schema) -> Value:
    return "bool", _eval(call.args[0], row, schema) == NULL


def _is_true(call: Call, row: dict[str, Any], schema: pa.Schema) -> Value:
    return "bool", _eval(call.args[0], row, schema)[1] is True


def _not_distinct(call: Call, row: dict[str, Any], schema: pa.Schema) -> Value:
    left, right = (_eval(arg, row, schema) for arg in call.args)
    if left == NULL or right == NULL:
        return "bool", left == right
    return _comparison(operator.eq)(left, right)


def _in(call: Call, row: dict[str, Any], schema: pa.Schema) -> Value:
    tested, listed = call.args
    assert isinstance(listed, Literal) and isinstance(listed.value, tuple)
    values: tuple[Expr, ...] = tuple(Literal(v, listed.type) for v in listed.value)
    return _or(Call("or", tuple(Call("=", (tested, v)) for v in values)), row, schema)


def _case(call: Call, row: dict[str, Any], schema: pa.Schema) -> Value:
    for condition, value in zip(call.args[:-1:2], call.args[1::2]):
        if _eval(condition, row, schema)[1] is True:
            return _eval(value, row, schema)
    return _eval(call.args[-1], row, schema)


def _like(call: Call, row: dict[str, Any], schema: pa.Schema) -> Value:
    parts = [_eval(arg, row, schema) for arg in call.args]
    if NULL in parts:
        return NULL
    texts = [value for _, value in parts]
    escape = texts[2] if len(texts) > 2 else "\\"
    flags = re.DOTALL | (re.IGNORECASE if call.op == "ilike" else 0)
    return "bool", re.fullmatch(_pattern(texts[1], escape), texts[0], flags) is not None


def _pattern(text: str, escape: str) -> str:
    found, index = "", 0
    while index < len(text):
        if text[index] == escape and index + 1 < len(text):
            index += 1
            found += re.escape(text[index])
        else:
            found += {"%": ".*", "_": "."}.get(text[index], re.escape(text[index]))
        index += 1
    return found


def _arithmetic(compute: Callable[[Any, Any], Any]) -> Callable[[Value, Value], Value]:
    def run(left: Value, right: Value) -> Value:
        a, b = _alike(left, right)
        if isinstance(a, float) or isinstance(b, float):
            # The operands of one float type, the result in it.
            kind = min(k for k, _ in (left, right) if k.startswith("f"))
            kind = max(k for k, _ in (left, right) if k.startswith("f")) if kind != "f16" else kind
            make: Any = {"f16": np.float32, "f32": np.float32, "f64": np.float64}[kind]
            with np.errstate(all="ignore"):
                return kind, float(make(compute(make(float(a)), make(float(b)))))
        return "exact", compute(a, b)

    return run


def _divide(a: Any, b: Any) -> Any:
    if isinstance(a, Fraction):
        return Fraction(int(a / b)) if a.denominator == b.denominator == 1 else a / b
    return a / b


def _remainder(a: Any, b: Any) -> Any:
    return a - b * int(a / b) if isinstance(a, Fraction) else np.fmod(a, b)


_SPECIAL: dict[str, Callable[[Call, dict[str, Any], pa.Schema], Value]] = {
    "and": _and,
    "or": _or,
    "is_null": _is_null,
    "is_true": _is_true,
    "is_not_distinct": _not_distinct,
    "in": _in,
    "case": _case,
    "like": _like,
    "ilike": _like,
}
_PLAIN: dict[str, Callable[..., Value]] = {
    "not": lambda value: ("bool", not value[1]),
    "=": _comparison(operator.eq),
    "!=": _comparison(operator.ne),
    "<": _comparison(operator.lt),
    "<=": _comparison(operator.le),
    ">": _comparison(operator.gt),
    ">=": _comparison(operator.ge),
    "+": _arithmetic(operator.add),
    "-": _arithmetic(operator.sub),
    "*": _arithmetic(operator.mul),
    "/": _arithmetic(_divide),
    "%": _arithmetic(_remainder),
    "neg": lambda value: (value[0], -value[1]),
    "starts_with": lambda value, text: ("bool", value[1].startswith(text[1])),
    "isnan": lambda value: ("bool", value[1] != value[1]),
}
