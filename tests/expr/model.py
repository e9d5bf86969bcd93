"""What a filter means, row by row, in exact Python: the judge of the generated filters.

It evaluates unbound trees as the tests make them, with types of its own reckoning, and shares nothing with the
package but the node classes. Numbers are ``int``, ``float`` and ``Fraction``; times are the integers Arrow stores.

Rows may have an answer, or an error: :class:`Judge` tells errors that any evaluation must meet from those
that a lazy AND, OR or CASE may avoid.
"""

from __future__ import annotations

import datetime as dt
import math
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa

from lancecy.expr.nodes import Call, Column, Expr, Literal

__all__ = ["Failure", "Judge", "Unjudged", "rows_of"]

Value = tuple[pa.DataType | None, Any]
"""A type and a value; the type of a constant without a stated one is None."""

PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
DAY = 86_400
I64, U64, F32, F64, TEXT, BOOL = (
    pa.int64(), pa.uint64(), pa.float32(), pa.float64(), pa.string(), pa.bool_(),
)  # fmt: skip
NULL: Value = (pa.null(), None)


class Failure(Exception):
    """A row has no value: overflow, division by zero, a value that does not convert."""


class Unjudged(Exception):
    """The model has no opinion, as of dates beyond Python's calendar."""


# Values


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    """Rows as dictionaries, temporal values as the integers that Arrow stores."""
    columns = {name: _stored(table.column(name)) for name in table.column_names}
    return [dict(zip(columns, row)) for row in zip(*columns.values())]


def _stored(column: pa.ChunkedArray) -> list[Any]:
    whole = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        return list(whole.storage.to_pylist())
    if pa.types.is_temporal(kind):
        return list(whole.view(pa.int32() if kind.bit_width == 32 else I64).to_pylist())
    if pa.types.is_float16(kind):
        return [None if v is None else float(v) for v in whole.to_pylist()]
    return list(whole.to_pylist())


def plain(kind: pa.DataType) -> pa.DataType:
    """Without dictionary and extension."""
    if isinstance(kind, pa.BaseExtensionType):
        return plain(kind.storage_type)
    return plain(kind.value_type) if pa.types.is_dictionary(kind) else kind


def family(kind: pa.DataType | None) -> str:
    """A word for a type."""
    t = pa.types
    names: dict[str, Sequence[Callable[[Any], bool]]] = {
        "null": (t.is_null,),
        "bool": (t.is_boolean,),
        "int": (t.is_integer,),
        "float": (t.is_floating,),
        "decimal": (t.is_decimal,),
        "text": (t.is_string, t.is_large_string, t.is_string_view),
        "bytes": (t.is_binary, t.is_large_binary, t.is_fixed_size_binary, t.is_binary_view),
        "instant": (t.is_date, t.is_timestamp),
        "time": (t.is_time,),
        "span": (t.is_duration,),
        "list": (t.is_list, t.is_large_list, t.is_fixed_size_list),
        "struct": (t.is_struct,),
    }
    if kind is None:
        return "constant"
    return next(name for name, tests in names.items() if any(test(kind) for test in tests))


def limits(kind: pa.DataType) -> tuple[int, int]:
    """Of an integer type."""
    bits = kind.bit_width
    if pa.types.is_unsigned_integer(kind):
        return 0, 2**bits - 1
    return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1


def nearest(number: Any, kind: pa.DataType) -> float:
    """The float of a type that is next to a number, ties to even, whatever the number's size."""
    if isinstance(number, float) and number - number != 0:
        return number
    if isinstance(number, (float, Decimal)) and number == 0:
        return math.copysign(0.0, number)
    digits, least = {16: (11, -24), 32: (24, -149), 64: (53, -1074)}[kind.bit_width]
    exact = Fraction(number)
    if exact == 0:
        return 0.0
    magnitude = abs(exact)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    exponent += magnitude >= Fraction(2) ** (exponent + 1)
    exponent -= magnitude < Fraction(2) ** exponent
    unit = Fraction(2) ** max(exponent - digits + 1, least)
    found = round(magnitude / unit) * unit
    largest = {16: 65504.0, 32: float(np.finfo(np.float32).max), 64: float(np.finfo(np.float64).max)}
    value = math.inf if found > Fraction(largest[kind.bit_width]) else float(found)
    return math.copysign(value, -1.0 if exact < 0 else 1.0)


def seconds(kind: pa.DataType, value: int) -> Fraction:
    """A stored temporal value in seconds."""
    if pa.types.is_date(kind):
        return Fraction(value * DAY) if kind.bit_width == 32 else Fraction(value, 1000)
    return Fraction(value, PER_SECOND[kind.unit])


def exact(value: Value) -> Any:
    """Something whose comparisons are those of the value."""
    kind, held = value
    if family(kind) in ("instant", "time", "span"):
        return seconds(kind, held)
    if isinstance(held, float):
        return held if held - held != 0 else Fraction(held)
    return Fraction(held) if isinstance(held, (int, Decimal)) and not isinstance(held, bool) else held


def settled(value: Value) -> Value:
    """A constant with the type it has by itself."""
    kind, held = value
    if kind is not None:
        return value
    if held is None:
        return NULL
    if isinstance(held, bool):
        return BOOL, held
    if isinstance(held, int) and -(2**63) <= held < 2**64:
        return (I64 if held < 2**63 else U64), held
    if isinstance(held, (int, float, Decimal)):
        number = held if isinstance(held, float) else Fraction(held)
        return F64, nearest(number, F64)
    return (TEXT if isinstance(held, str) else pa.binary()), held


# Comparisons

ORDER: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


def compared(op: str, left: Value, right: Value) -> bool | None:
    """``left op right``."""
    if left[0] is None and right[0] is None:
        left, right = settled(left), settled(right)
    if left[1] is None or right[1] is None:
        return None
    if isinstance(left[1], str) != isinstance(right[1], str):
        left, right = _read(left), _read(right)
    if left[0] is None:
        left = placed(left, right[0])
    if right[0] is None:
        right = placed(right, left[0])
    return bool(ORDER[op](exact(left), exact(right)))


def _read(value: Value) -> Value:
    """Text as the moment it names."""
    if not isinstance(value[1], str):
        return value
    moment = dt.datetime.fromisoformat(value[1]) - dt.datetime(1970, 1, 1)
    return pa.timestamp("us"), moment // dt.timedelta(microseconds=1)


def placed(constant: Value, kind: pa.DataType | None) -> Value:
    """An untyped constant beside a value: a float takes the value's own type, unless that has none so large."""
    held = constant[1]
    if family(kind) != "float" or kind is None or (isinstance(held, float) and held - held != 0):
        return constant
    largest = {16: 65504.0, 32: float(np.finfo(np.float32).max), 64: float(np.finfo(np.float64).max)}
    if abs(Fraction(held)) > Fraction(largest[kind.bit_width]):
        return constant
    # Twice, as a number in text is read as a double.
    found = nearest(nearest(Fraction(held) if held else held, F64), kind)
    return kind, found


# Types


def is_number(kind: pa.DataType | None) -> bool:
    return family(kind) in ("int", "float", "decimal")


def digits_of(kind: pa.DataType) -> tuple[int, int]:
    """Precision and scale of a decimal, or of one that holds an integer type."""
    if pa.types.is_decimal(kind):
        return kind.precision, kind.scale
    return {8: 3, 16: 5, 32: 10, 64: 20}[kind.bit_width], 0


def decimal_type(precision: int, scale: int, wide: bool = False) -> pa.DataType:
    return (
        pa.decimal256(min(precision, 76), scale)
        if wide or precision > 38
        else pa.decimal128(precision, scale)
    )


def common(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    """The type of a CASE, coalesce, greatest or least of both."""
    if left == right or pa.types.is_null(right):
        return left
    if pa.types.is_null(left):
        return right
    one, two = family(left), family(right)
    if is_number(left) and is_number(right):
        return common_number(left, right)
    if one == two == "text":
        return pa.large_string()
    if one == two == "instant":
        if pa.types.is_date(left) and pa.types.is_date(right):
            return pa.date64()
        zone = next((t.tz for t in (left, right) if pa.types.is_timestamp(t)), None)
        return pa.timestamp(max(unit(left), unit(right), key=PER_SECOND.__getitem__), tz=zone)
    if one == two == "span":
        return pa.duration(max(unit(left), unit(right), key=PER_SECOND.__getitem__))
    raise Unjudged(f"{left} and {right}")


def unit(kind: pa.DataType) -> str:
    if pa.types.is_date(kind):
        return "s" if kind.bit_width == 32 else "ms"
    return str(kind.unit)


def common_number(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    kinds = {family(left), family(right)}
    if "float" in kinds:
        return F32 if kinds == {"float"} and max(left.bit_width, right.bit_width) <= 32 else F64
    if "decimal" not in kinds:
        for kind in (pa.int8(), pa.int16(), pa.int32(), I64, pa.uint8(), pa.uint16(), pa.uint32(), U64):
            if all(
                limits(kind)[0] <= limits(t)[0] and limits(t)[1] <= limits(kind)[1] for t in (left, right)
            ):
                return kind
        return pa.decimal128(20, 0)
    (p1, s1), (p2, s2) = digits_of(left), digits_of(right)
    scale = max(s1, s2)
    return decimal_type(max(p1 - s1, p2 - s2) + scale, scale)


def converted(value: Value, target: pa.DataType) -> Value:
    """A value cast to another type; what does not fit fails."""
    kind, held = value
    if held is None or kind == target:
        return target, held
    source, wanted = family(kind), family(target)
    if wanted == "float" and source in ("int", "float", "decimal"):
        return target, nearest(held, target)
    if wanted == "int" and source in ("int", "float", "decimal", "bool"):
        return target, _whole(held, target)
    if wanted == "decimal" and source in ("int", "decimal", "float"):
        return target, _as_decimal(held, target)
    if source == wanted and source in ("instant", "span", "time"):
        return target, _in_unit(seconds(kind, held), target)
    if wanted == "text" and source in ("int", "bool", "text"):
        return target, str(held).lower() if isinstance(held, bool) else str(held)
    if wanted == "bool" and source == "int":
        return target, held != 0
    raise Unjudged(f"{kind} as {target}")


def _whole(held: Any, target: pa.DataType) -> int:
    if isinstance(held, float) and held - held != 0:
        raise Failure(f"{held} as {target}")
    number = int(held)
    if not limits(target)[0] <= number <= limits(target)[1]:
        raise Failure(f"{held} as {target}")
    return number


def _as_decimal(held: Any, target: pa.DataType) -> Fraction:
    if isinstance(held, float) and held - held != 0:
        raise Failure(f"{held} as {target}")
    scaled = abs(Fraction(held)) * Fraction(10) ** target.scale
    rounded = math.floor(scaled + Fraction(1, 2))
    if rounded >= 10**target.precision:
        raise Failure(f"{held} as {target}")
    found: Fraction = Fraction(rounded if held > 0 else -rounded) / Fraction(10) ** target.scale
    return found


def _in_unit(instant: Fraction, target: pa.DataType) -> int:
    """Stored value of an instant or span; digits the type lacks are cut as Arrow cuts them."""
    if pa.types.is_date(target):
        if pa.types.is_date32(target):
            number = math.floor(instant / DAY)
            if not -(2**31) <= number < 2**31:
                raise Failure("a date beyond date32")
            return number
        return math.floor(instant / DAY) * DAY * 1000
    scaled = instant * PER_SECOND[target.unit]
    number = math.floor(scaled)
    if not -(2**63) <= number < 2**63:
        raise Failure(f"{instant} seconds as {target}")
    return number


# The judge


@dataclass
class Judge:
    """Answers of one expression over rows.

    Attributes
    ----------
    schema : pa.Schema
    may_fail : bool
        Some part of some row had no value, though another may have decided the row.
    must_fail : bool
        Some row has no value.
    """

    schema: pa.Schema
    may_fail: bool = False
    must_fail: bool = False
    row: dict[str, Any] = field(default_factory=dict)

    def answers(self, expr: Expr, rows: Sequence[dict[str, Any]]) -> list[Any]:
        """The value of every row, None where it is null or fails.

        Raises
        ------
        Unjudged
        """
        found = []
        for row in rows:
            self.row = row
            try:
                found.append(self.value(expr)[1])
            except Failure:
                self.may_fail = self.must_fail = True
                found.append(None)
        return found

    def value(self, expr: Expr) -> Value:
        """The value in the row at hand."""
        if isinstance(expr, Literal):
            return _literal(expr)
        if isinstance(expr, Column):
            return self.column(expr)
        assert isinstance(expr, Call)
        special = getattr(self, "do_" + _NAMES.get(expr.op, expr.op), None)
        if special is not None:
            found: Value = special(expr)
            return found
        args = [self.typed(arg) for arg in expr.args]
        if any(value is None for _, value in args):
            return _FUNCTIONS[expr.op](*map(_sample, args))[0], None
        return _FUNCTIONS[expr.op](*args)

    def typed(self, expr: Expr) -> Value:
        """The value, a constant with the type it has by itself."""
        return settled(self.value(expr))

    def tried(self, expr: Expr) -> Value | Failure:
        """The value or its failure, which is taken down."""
        try:
            return self.value(expr)
        except Failure as failure:
            self.may_fail = True
            return failure

    def column(self, column: Column) -> Value:
        path = column.path if column.path[0] in self.row else tuple(".".join(column.path).split("."))
        kind, held = self.schema.field(path[0]).type, self.row[path[0]]
        for name in path[1:]:
            kind = kind.field(name).type
            held = None if held is None else held[name]
        kind = plain(kind)
        if pa.types.is_decimal(kind) and held is not None:
            held = Fraction(held)
        return kind, held

    # -- logic

    def do_and(self, call: Call) -> Value:
        return self.logic(call, decisive=False)

    def do_or(self, call: Call) -> Value:
        return self.logic(call, decisive=True)

    def logic(self, call: Call, decisive: bool) -> Value:
        found = [self.tried(arg) for arg in call.args]
        answers = [value[1] for value in found if not isinstance(value, Failure)]
        if decisive in answers:
            return BOOL, decisive
        for value in found:
            if isinstance(value, Failure):
                raise value
        return BOOL, None if None in answers else not decisive

    def do_not(self, call: Call) -> Value:
        held = self.value(call.args[0])[1]
        return BOOL, None if held is None else not held

    def do_is_true(self, call: Call) -> Value:
        return BOOL, self.value(call.args[0])[1] is True

    def do_is_null(self, call: Call) -> Value:
        return BOOL, self.value(call.args[0])[1] is None

    def do_case(self, call: Call) -> Value:
        values = [self.tried(arg) for arg in call.args]
        if any(isinstance(v, Failure) for v in (*values[1::2], values[-1])):
            raise Unjudged("the type of what failed is not known")
        kinds = [settled(v)[0] for v in (*values[1::2], values[-1]) if not isinstance(v, Failure)]
        target = _common_of(kinds)
        for value in (*values[1::2], values[-1]):
            try:
                self.part(value, target)
            except Failure:
                # A constant that does not convert fails, whether or not it is chosen.
                self.may_fail = True
        for condition, value in zip(values[:-1:2], values[1::2]):
            if isinstance(condition, Failure):
                raise condition
            if condition[1] is True:
                return self.part(value, target)
        return self.part(values[-1], target)

    def part(self, value: Value | Failure, target: pa.DataType) -> Value:
        if isinstance(value, Failure):
            raise value
        return converted(settled(value), target)

    # -- comparisons

    def do_compare(self, call: Call) -> Value:
        left, right = (self.value(arg) for arg in call.args)
        return BOOL, compared(call.op, left, right)

    def do_is_not_distinct(self, call: Call) -> Value:
        left, right = (self.value(arg) for arg in call.args)
        if left[1] is None or right[1] is None:
            return BOOL, left[1] is right[1]
        return BOOL, compared("=", left, right)

    def do_in(self, call: Call) -> Value:
        listed = call.args[1]
        assert isinstance(listed, Literal) and isinstance(listed.value, tuple)
        if set(listed.value) <= {None}:
            # Decided without a look at the value.
            self.tried(call.args[0])
            return BOOL, None if listed.value else False
        found = self.tried(call.args[0])
        if isinstance(found, Failure):
            if None in listed.value:
                # Decided without a look at the value, if its type holds none of the others.
                raise Unjudged("a list with a null")
            raise found
        tested = settled(found)
        if tested[1] is None:
            return BOOL, None
        if any(
            compared("=", tested, _literal(Literal(v, listed.type))) for v in listed.value if v is not None
        ):
            return BOOL, True
        return BOOL, None if None in listed.value else False

    # -- values

    def do_arithmetic(self, call: Call) -> Value:
        left, right = (self.value(arg) for arg in call.args)
        if left[1] is not None and right[1] is not None:
            return arithmetic(call.op, left, right)
        if NULL in (settled(left), settled(right)):
            return (settled(left)[0] if settled(right) == NULL else settled(right)[0]), None
        try:
            # A side that is converted first may fail beside a null too.
            arithmetic(call.op, _sample(left), _sample(right))
        except Failure:
            self.may_fail = True
        left, right = (side if side[0] is None else _sample((side[0], None)) for side in (left, right))
        try:
            return arithmetic(call.op, left, right)[0], None
        except Failure:
            raise Unjudged("the type of a null") from None

    def do_neg(self, call: Call) -> Value:
        kind, held = self.typed(call.args[0])
        if family(kind) == "int":
            kind = common_number(kind, I64)
        if held is None:
            return kind, None
        if (family(kind) == "int" and held == limits(kind)[0]) or (
            family(kind) == "span" and held == -(2**63)
        ):
            raise Failure("the smallest integer has no counterpart")
        return kind, -held

    def do_cast(self, call: Call) -> Value:
        target = call.args[1].type
        assert target is not None
        value = self.typed(call.args[0])
        return converted(value, target)

    def do_alike(self, call: Call) -> Value:
        values = [self.typed(arg) for arg in call.args]
        target = _common_of([kind for kind, _ in values])
        held = [v for v in (converted(value, target)[1] for value in values) if v is not None]
        if not held:
            return target, None
        if call.op == "coalesce":
            return target, held[0]
        ordered = [v for v in held if v == v]
        return target, held[0] if not ordered else max(ordered) if call.op == "greatest" else min(ordered)

    def do_nullif(self, call: Call) -> Value:
        left, right = (self.value(arg) for arg in call.args)
        kind, held = settled(left)
        return kind, None if compared("=", left, right) else held

    def do_isnan(self, call: Call) -> Value:
        _, held = self.typed(call.args[0])
        return BOOL, None if held is None else held != held

    def do_concat(self, call: Call) -> Value:
        return TEXT, "".join(v for _, v in (self.typed(arg) for arg in call.args) if v is not None)

    def do_array_has_any(self, call: Call) -> Value:
        kind, held = self.typed(call.args[0])
        listed = call.args[1]
        assert isinstance(listed, Literal) and isinstance(listed.value, tuple)
        if held is None:
            return BOOL, None
        wanted = [_literal(Literal(v, listed.type)) for v in listed.value if v is not None]
        return BOOL, any(_has(kind.value_type, held, one) for one in wanted)  # type: ignore[union-attr]

    def do_array_has(self, call: Call) -> Value:
        kind, held = self.typed(call.args[0])
        if held is None:
            return BOOL, None
        return BOOL, _has(kind.value_type, held, self.value(call.args[1]))  # type: ignore[union-attr]

    def do_array_element(self, call: Call) -> Value:
        (kind, held), (_, place) = (self.typed(arg) for arg in call.args)
        inner: pa.DataType = kind.value_type  # type: ignore[union-attr]
        if held is None or not place or not -len(held) <= place <= len(held):
            return inner, None
        return inner, held[place - 1 if place > 0 else place]


def _sample(value: Value) -> Value:
    """The value, or another of its type if it is null: shows the type of a result."""
    kind, held = value
    if held is not None:
        return value
    samples = {"text": "a", "bytes": b"a", "bool": True, "list": (), "decimal": Fraction(1), "float": 1.0}
    return (I64, 1) if family(kind) == "null" else (kind, samples.get(family(kind), 1))


def _literal(literal: Literal) -> Value:
    value = literal.value
    if literal.type is not None and pa.types.is_decimal(literal.type) and value is not None:
        value = Fraction(value)  # type: ignore[assignment,arg-type]
    # A constant half is a float, as a half's arithmetic is.
    return (F32 if literal.type == pa.float16() else literal.type), value


def _common_of(kinds: Sequence[pa.DataType]) -> pa.DataType:
    found: pa.DataType = pa.null()
    for kind in kinds:
        found = common(found, F32 if kind is not None and pa.types.is_float16(kind) else kind)
    return found


def _has(kind: pa.DataType, held: Sequence[Any], wanted: Value) -> bool:
    if wanted[1] is None:
        return False
    return any(compared("=", (kind, v), wanted) for v in held if v is not None)


# Arithmetic


def arithmetic(op: str, left: Value, right: Value) -> Value:
    """``left op right`` of numbers, integers as bigint."""
    if {"instant", "span"} & {family(left[0]), family(right[0])}:
        return _temporal(op, left, right)
    if left[0] is None and right[0] is None:
        left, right = settled(left), settled(right)
    narrow = op in ("/", "%") and U64 in (left[0], right[0])
    left, right = _met(left, right[0], narrow), _met(right, left[0], narrow)
    one, two = (_readable(kind) for kind in (left[0], right[0]))
    if "float" in (family(one), family(two)):
        return _float_arithmetic(op, (one, left[1]), (two, right[1]))
    if family(one) == family(two) == "int":
        return _int_arithmetic(op, (one, left[1]), (two, right[1]))
    (p1, s1), (p2, s2) = digits_of(one), digits_of(two)
    wide = 76 if "256" in f"{one} {two}" else 38
    digits = p1 + p2 + 1 if op == "*" else max(p1 - s1, p2 - s2) + max(s1, s2) + 1
    if op in ("/", "%"):
        raise Unjudged("division of decimals")
    if digits > wide or min(s1, s2) < 0:
        raise Failure(f"{digits} digits")
    scale = s1 + s2 if op == "*" else max(s1, s2)
    result = {"+": operator.add, "-": operator.sub, "*": operator.mul}[op](
        Fraction(left[1]), Fraction(right[1])
    )
    return decimal_type(digits, scale, wide == 76), result


def _temporal(op: str, left: Value, right: Value) -> Value:
    """Sums and differences of moments and spans, in the finer unit of both."""
    (one, a), (two, b) = left, right
    if isinstance(a, str) or isinstance(b, str) or one is None or two is None:
        raise Unjudged("text as a time")
    kinds = family(one), family(two)
    if kinds == ("instant", "span") and pa.types.is_date(one):
        one, a = converted(left, pa.timestamp("us"))
    assert one is not None
    finer = max(unit(one), unit(two), key=PER_SECOND.__getitem__)
    zone = one.tz if pa.types.is_timestamp(one) else None
    moments = pa.timestamp(finer, zone)
    first = converted((one, a), moments if kinds[0] == "instant" else pa.duration(finer))[1]
    second = converted((two, b), moments if kinds[1] == "instant" else pa.duration(finer))[1]
    result = first + second if op == "+" else first - second
    if not -(2**63) <= result < 2**63:
        raise Failure(f"{result} overflows")
    return moments if kinds == ("instant", "span") else pa.duration(finer), result


def _readable(kind: pa.DataType | None) -> pa.DataType:
    assert kind is not None
    return F32 if pa.types.is_float16(kind) else kind


def _met(side: Value, other: pa.DataType | None, narrow: bool) -> Value:
    kind, held = side
    if kind is not None:
        return side
    met = _readable(other) if other is not None else pa.null()
    if family(met) == "float":
        found = placed(side, met)
        if found[0] is not None:
            return found
        # One that the type has no room for makes both sides doubles.
        return settled(side) if not isinstance(held, float) or math.isfinite(held) else (met, held)
    if family(met) == "int" and isinstance(held, int) and narrow:
        return (met, held) if limits(met)[0] <= held <= limits(met)[1] else settled(side)
    if family(met) == "decimal" and isinstance(held, (int, Decimal)):
        digits, exponent = len(Decimal(held).as_tuple().digits), int(Decimal(held).as_tuple().exponent)
        scale = max(0, -exponent)
        precision = max(digits + max(0, exponent), scale, 1)
        return settled(side) if precision > 38 else (pa.decimal128(precision, scale), Fraction(held))
    return settled(side)


def _float_arithmetic(op: str, left: Value, right: Value) -> Value:
    kinds = [family(left[0]), family(right[0])]
    if "int" in kinds:
        target = left[0] if kinds[0] == "float" else right[0]
    else:
        target = common_number(left[0], right[0])
    make: Any = np.float32 if target == F32 else np.float64
    a, b = (make(nearest(v, target)) for v in (left[1], right[1]))
    compute: Any = {
        "+": operator.add,
        "-": operator.sub,
        "*": operator.mul,
        "/": operator.truediv,
        "%": np.fmod,
    }[op]
    with np.errstate(all="ignore"):
        return target, float(compute(a, b))


def _int_arithmetic(op: str, left: Value, right: Value) -> Value:
    (one, a), (two, b) = left, right
    shared = common_number(one, two)
    if family(shared) == "decimal" and op in ("/", "%"):
        raise Failure("bigint and bigint unsigned")
    if op in ("/", "%"):
        if b == 0:
            raise Failure("division by zero")
        quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        result = quotient if op == "/" else a - b * quotient
    else:
        result = {"+": operator.add, "-": operator.sub, "*": operator.mul}[op](a, b)
    if family(shared) == "decimal" or (shared == U64 and op == "-"):
        return decimal_type(41 if op == "*" else 21, 0), Fraction(result)
    target = U64 if shared == U64 else I64
    if not limits(target)[0] <= result <= limits(target)[1]:
        raise Failure(f"{result} overflows")
    return target, result


# Functions


def _like(ignore_case: bool) -> Callable[..., Value]:
    def run(value: Value, pattern: Value, escape: Value = (TEXT, "\\")) -> Value:
        found, index, text = "", 0, pattern[1]
        while index < len(text):
            if text[index] == escape[1] and index + 1 < len(text):
                index += 1
                found += re.escape(text[index])
            else:
                found += {"%": ".*", "_": "."}.get(text[index], re.escape(text[index]))
            index += 1
        flags = re.DOTALL | (re.IGNORECASE if ignore_case else 0)
        return BOOL, re.fullmatch(found, value[1], flags) is not None

    return run


def _float(kind: pa.DataType, held: Any) -> tuple[pa.DataType, float]:
    """An argument that is taken as a float."""
    target = _readable(kind) if family(kind) == "float" else F64
    return target, nearest(held, target)


def _rounding(compute: Callable[[float], float]) -> Callable[[Value], Value]:
    def run(value: Value) -> Value:
        kind, number = _float(value[0], value[1])
        return kind, number if number - number != 0 else math.copysign(compute(number), number)

    return run


def _sqrt(value: Value) -> Value:
    kind, number = _float(value[0], value[1])
    make: Any = np.float32 if kind == F32 else np.float64
    with np.errstate(all="ignore"):
        return kind, float(np.sqrt(make(number)))


def _signum(value: Value) -> Value:
    kind, number = _float(value[0], value[1])
    if number == 0:
        return kind, 0.0
    return kind, number if number != number else math.copysign(1.0, number)


def _abs(value: Value) -> Value:
    kind, held = value
    if family(kind) == "int" and abs(held) > limits(kind)[1]:
        raise Failure("the smallest integer has no counterpart")
    return kind, abs(held)


def _substr(text: Value, start: Value, length: Value = (I64, None)) -> Value:
    begin = max(0, start[1] - 1)
    stop = None if length[1] is None else max(0, start[1] - 1 + length[1])
    return TEXT, text[1][begin:stop] if stop is None or stop > begin else ""


def _cased(change: Callable[[str], str]) -> Callable[[Value], Value]:
    def run(value: Value) -> Value:
        found = [change(c) for c in value[1]]
        if any(len(c) != 1 for c in found):
            raise Unjudged("a letter becomes two")
        return TEXT, "".join(found)

    return run


def _moment(kind: pa.DataType, held: int) -> dt.datetime:
    """The reading of a value on its own clock."""
    instant = seconds(kind, held)
    try:
        moment = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=math.floor(instant))
        zone = kind.tz if pa.types.is_timestamp(kind) else None
        return moment.astimezone(ZoneInfo(zone)) if zone else moment
    except (OverflowError, ValueError) as error:
        raise Unjudged("beyond Python's calendar") from error


def _date_part(part: Value, value: Value) -> Value:
    moment = _moment(*value)
    found = {
        "year": moment.year,
        "quarter": (moment.month + 2) // 3,
        "month": moment.month,
        "week": moment.isocalendar().week,
        "day": moment.day,
        "doy": moment.timetuple().tm_yday,
        "dow": moment.isoweekday() % 7,
        "isodow": moment.isoweekday(),
        "hour": moment.hour,
        "minute": moment.minute,
        "second": moment.second,
    }
    return pa.int32(), found[part[1]]


def _sized(measure: Callable[[Any], int]) -> Callable[[Value], Value]:
    return lambda value: (pa.int32() if family(value[0]) == "text" else I64, measure(value[1]))


def _octets(value: Value) -> Value:
    return pa.int32(), len(value[1].encode() if isinstance(value[1], str) else value[1])


def _text_test(judge: Callable[[str, str], bool]) -> Callable[[Value, Value], Value]:
    return lambda value, part: (BOOL, judge(value[1], part[1]))


_NAMES = {
    **dict.fromkeys(ORDER, "compare"),
    **dict.fromkeys("+-*/%", "arithmetic"),
    **dict.fromkeys(("coalesce", "greatest", "least"), "alike"),
}

_FUNCTIONS: dict[str, Callable[..., Value]] = {
    "like": _like(False),
    "ilike": _like(True),
    "||": lambda *parts: (TEXT, "".join(converted(part, TEXT)[1] for part in parts)),
    "abs": _abs,
    "ceil": _rounding(lambda v: float(math.ceil(v))),
    "floor": _rounding(lambda v: float(math.floor(v))),
    "trunc": _rounding(lambda v: float(math.trunc(v))),
    "sqrt": _sqrt,
    "signum": _signum,
    "regexp_like": _text_test(lambda text, part: re.search(part, text) is not None),
    "length": _sized(len),
    "octet_length": _octets,
    "lower": _cased(str.lower),
    "upper": _cased(str.upper),
    "reverse": lambda value: (TEXT, value[1][::-1]),
    "btrim": lambda value: (TEXT, value[1].strip(" ")),
    "ltrim": lambda value: (TEXT, value[1].lstrip(" ")),
    "rtrim": lambda value: (TEXT, value[1].rstrip(" ")),
    "substr": _substr,
    "left": lambda value, count: (TEXT, value[1][: count[1]]),
    "right": lambda value, count: (TEXT, value[1][-count[1] :] if count[1] else ""),
    "repeat": lambda value, count: (TEXT, value[1] * max(0, count[1])),
    "replace": lambda value, old, new: (TEXT, value[1].replace(old[1], new[1])),
    "strpos": lambda value, part: (pa.int32(), value[1].find(part[1]) + 1),
    "starts_with": _text_test(str.startswith),
    "ends_with": _text_test(str.endswith),
    "contains": _text_test(lambda text, part: part in text),
    "array_length": _sized(len),
    "empty": lambda value: (BOOL, len(value[1]) == 0),
    "date_part": _date_part,
}
