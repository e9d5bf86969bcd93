"""Rules of binding for arithmetic, conversions, CASE and functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from typing import TypeAlias

import pyarrow as pa

from lancecy.errors import ColumnNotFoundError, ExpressionError
from lancecy.expr.binding.arithmetic import as_period, cast_to, operands
from lancecy.expr.binding.binder import Binder
from lancecy.expr.binding.conditions import COMPARABLE, members
from lancecy.expr.binding.nested import NESTED, is_nested_function, nested_arguments
from lancecy.expr.describe import describe, describe_type
from lancecy.expr.evaluation.decimals import round_decimal
from lancecy.expr.evaluation.functions import ALIASES, FUNCTIONS, Function, unknown_function
from lancecy.expr.evaluation.json_functions import number_text
from lancecy.expr.kinds import common_type, family, is_number, plain_type
from lancecy.expr.literals import Gap, cast_literal, fit, settle
from lancecy.expr.nodes import Call, Column, Expr, Literal, chain, negate
from lancecy.expr.periods import PERIOD_TYPE
from lancecy.expr.type_names import type_name

__all__ = [
    "arithmetic",
    "case",
    "cast",
    "concatenation",
    "function",
    "negative",
    "opaque",
    "search",
    "try_cast",
]

_MOST = 2**31


def concatenation(binder: Binder, call: Call, wide: bool) -> Expr:
    """``||``: values that are not text are written as text; null if any part is null."""
    parts = [binder.typed(arg) for arg in call.args]
    if any(isinstance(p, Literal) and p.value is None for p in parts):
        return Literal(None, pa.string())
    large = any(p.type == pa.large_string() for p in parts)
    target = pa.large_string() if large else pa.string()
    return binder.finish("||", tuple(binder.convert(p, target) for p in parts))


def arithmetic(binder: Binder, call: Call, wide: bool) -> Expr:
    """``+ - * / %``."""
    left, right = (binder.operand(arg, wide) for arg in call.args)
    for side, other in ((left, right), (right, left)):
        if isinstance(side, Literal) and side.value is None:
            if not (side.type and is_number(side.type) and _is_numeric(other)):
                return Literal(None, side.type or other.type or pa.int64())
            return Literal(None, binder.finish(call.op, operands(call.op, left, right, wide)).type)
    left, right = operands(call.op, left, right, wide)
    return binder.finish(call.op, (left, right))


def _is_numeric(side: Expr) -> bool:
    if side.type is not None:
        return is_number(side.type)
    return isinstance(side, Literal) and isinstance(side.value, int | float | Decimal)


def negative(binder: Binder, call: Call, wide: bool) -> Expr:
    """A minus sign; unsigned integers become signed."""
    inner = binder.typed(call.args[0], wide)
    if not is_number(inner.type) and family(inner.type) not in ("interval", "period"):
        raise ExpressionError(f"- needs a number, but {describe(inner)} is {describe_type(inner.type)}")
    if family(inner.type) == "integer":
        target = common_type(inner.type or pa.null(), pa.int64() if wide else pa.int8())
        inner = cast_to(inner, target or pa.int64())
    return binder.finish("neg", (inner,))


def cast(binder: Binder, call: Call, wide: bool) -> Expr:
    """CAST to the type of the second argument."""
    target = call.args[1].type
    if target is None:
        raise ExpressionError("CAST without a type")
    inner = binder.operand(call.args[0])
    if isinstance(inner, Literal):
        return _constant_cast(binder, inner, target, call.op)
    return binder.convert(inner, target, call.op)


def _constant_cast(binder: Binder, inner: Literal, target: pa.DataType, op: str = "cast") -> Expr:
    found = cast_literal(inner, target) or _exact_decimal(inner, target)
    return found or binder.convert(settle(inner), target, op)


def try_cast(binder: Binder, call: Call, wide: bool) -> Expr:
    """TRY_CAST: null where a value does not convert; a conversion that does not exist is an error as of CAST."""
    target = call.args[1].type or pa.null()
    inner = binder.operand(call.args[0])
    if isinstance(inner, Literal):
        try:
            return _constant_cast(binder, inner, target)
        except ExpressionError as error:
            if isinstance(error.__cause__, NotImplementedError):
                raise
            return Literal(None, target)
    found = binder.convert(inner, target)
    if found is inner or not isinstance(found, Call):
        return found
    return Call("try_cast", found.args, found.type)


def _exact_decimal(literal: Literal, target: pa.DataType) -> Literal | None:
    """A number as a decimal, exactly as written: not by way of a double."""
    value = literal.value
    if literal.type is not None or family(target) != "decimal" or not isinstance(value, (int, Decimal)):
        return None
    return None if isinstance(value, bool) else Literal(round_decimal(Decimal(value), target), target)


def case(binder: Binder, call: Call, wide: bool) -> Expr:
    """CASE: conditions, values of one type, a default."""
    conditions = [binder.condition(c, "WHEN") for c in call.args[:-1:2]]
    *values, default = binder.alike("CASE", [*call.args[1::2], call.args[-1]], wide)
    args = [part for pair in zip(conditions, values, strict=True) for part in pair]
    return binder.finish("case", (*args, default))


def opaque(binder: Binder, call: Call, wide: bool) -> Expr:
    """A part of a pyarrow expression that only pyarrow evaluates, with the type of its values."""
    return binder.finish("arrow", (call.args[0], *(binder.value(arg) for arg in call.args[1:])))


def search(binder: Binder, call: Call, wide: bool) -> Expr:
    """A search of a pyarrow expression in a column, which only pyarrow makes in bytes."""
    (found,) = call.args
    if isinstance(found, Call) and isinstance(found.args[0], Column):
        column = binder.column(found.args[0])
        if isinstance(column, Column) and column.type in (pa.binary(), pa.large_binary()):
            from lancecy.expr.arrow import search_in_bytes

            return opaque(binder, search_in_bytes(found, column), wide)
    return binder.value(found, wide)


def function(binder: Binder, call: Call, wide: bool) -> Expr:
    """A function, by its name."""
    name = ALIASES.get(call.op, call.op)
    if name in _LOWERED:
        count, lower = _LOWERED[name]
        if len(call.args) != count:
            raise _wrong_count(call, count, count)
        return lower(binder, call.args, wide)
    spec = FUNCTIONS.get(name)
    if spec is None:
        raise unknown_function(call.op)
    if len(call.args) < spec.least or (spec.most is not None and len(call.args) > spec.most):
        raise _wrong_count(call, spec.least, spec.most)
    if spec.parameters == ("x", "x*"):
        found = binder.alike(f"{call.op}()", list(call.args), wide)
        if name != "coalesce" and family(found[0].type) == "null":
            return found[0]
        if name != "coalesce" and family(found[0].type) not in COMPARABLE:
            raise ExpressionError(
                f"{call.op}() compares its values, and {describe_type(found[0].type)} has no order; name an element or "
                "a field, or add intervals to a date"
            )
        return binder.finish(name, tuple(found))
    if name in NESTED:
        return NESTED[name](binder, Call(name, call.args), spec, _other_argument)
    if name in ("array_has", "array_has_any"):
        return _has(binder, call, name)
    if is_nested_function(spec):
        return binder.finish(name, nested_arguments(binder, call, spec, _other_argument))
    args = _arguments(binder, call, spec)
    if name == "date_part":
        args = (args[0], as_period(args[1]))
    if name == "get_field":
        _check_field(*args)
    if name == "array_element":
        _check_position(*args)
    return binder.finish(name, args)


def _check_field(struct: Expr, name: Expr) -> None:
    """Refuse a field that the struct does not have.

    Raises
    ------
    ColumnNotFoundError
    """
    names = [] if struct.type is None else [struct.type.field(i).name for i in range(struct.type.num_fields)]
    wanted = name.value if isinstance(name, Literal) else None
    if wanted not in names:
        raise ColumnNotFoundError(str(wanted), names, where=describe(struct, 10))


def _check_position(values: Expr, position: Expr) -> None:
    """Refuse the constant position 0, which no list has.

    Raises
    ------
    ExpressionError
    """
    if isinstance(position, Literal) and position.value == 0:
        shown = describe(values, 10)
        raise ExpressionError(
            f"positions in a list start at 1, so {shown}[0] is null in every row: "
            f"write {shown}[1] for the first element, {shown}[-1] for the last"
        )


def _wrong_count(call: Call, least: int, most: int | None) -> ExpressionError:
    wanted = str(least) if least == most else f"{least} or more" if most is None else f"{least} to {most}"
    noun = "argument" if wanted == "1" else "arguments"
    return ExpressionError(f"{call.op}() takes {wanted} {noun}, not {len(call.args)}")


_Lowered: TypeAlias = Callable[[Binder, tuple[Expr, ...], bool], Expr]


def _nullif(binder: Binder, args: tuple[Expr, ...], wide: bool) -> Expr:
    condition, value = binder.condition(Call("=", args), "nullif()"), binder.typed(args[0], wide)
    other = binder.typed(args[1], wide)
    if is_number(value.type) and is_number(other.type):
        value = cast_to(value, common_type(value.type or pa.null(), other.type or pa.null()) or pa.null())
    return binder.finish("case", (condition, *binder.unify("nullif()", [Literal(None, pa.null()), value])))


def _ifnull(binder: Binder, args: tuple[Expr, ...], wide: bool) -> Expr:
    return binder.finish("coalesce", tuple(_with_texts(binder, "ifnull()", args, wide)))


def _nvl2(binder: Binder, args: tuple[Expr, ...], wide: bool) -> Expr:
    condition = binder.condition(negate(Call("is_null", args[:1])), "nvl2()")
    return binder.finish("case", (condition, *_with_texts(binder, "nvl2()", args[1:], wide)))


def _with_texts(binder: Binder, what: str, args: tuple[Expr, ...], wide: bool) -> list[Expr]:
    """Operands converted to one type: to text, if one of them is text."""
    found = [binder.typed(arg, wide) for arg in args]
    if any(family(one.type) == "text" for one in found):
        found = [_as_text(binder, what, one) for one in found]
    return binder.unify(what, found)


_UNWRITTEN = {
    **dict.fromkeys(("list", "struct", "other"), "name an element or a field of it"),
    "interval": "CAST it to bigint for the number in its unit",
    "period": "take a part of it with date_part()",
}
"""What has no text, and what to write."""


def _as_text(binder: Binder, what: str, found: Expr) -> Expr:
    """A bound operand as it is written as text."""
    if isinstance(found, Literal) and found.value is None:
        return Literal(None, pa.string())
    kind = family(found.type)
    remedy = _UNWRITTEN.get(kind)
    if remedy is not None:
        raise ExpressionError(
            f"{what} needs text, but {describe(found, 10)} is {describe_type(found.type)}; {remedy}"
        )
    return found if kind == "text" else binder.convert(found, pa.string())


def _has(binder: Binder, call: Call, name: str) -> Expr:
    """``array_has`` and ``array_has_any``; an index serves them if the column is looked through for constants."""
    lists, wanted = call.args
    if name == "array_has":
        if isinstance(wanted, Literal) and wanted.value is None:
            return Literal(None, pa.bool_())
        among = _among(binder, lists, wanted)
        if among is not None:
            return among
        constant = isinstance(wanted, Literal) and not _is_tuple(wanted)
        constant = constant or isinstance(binder.operand(wanted), Literal)
    else:
        constant = _is_tuple(wanted)
    column = binder.typed(lists)
    if isinstance(column, Literal) and column.value is None:
        return Literal(None, pa.bool_())
    if constant and (family(column.type) != "list" or _is_comparable(column)):
        return binder.finish(name, _arguments(binder, call, FUNCTIONS[name]))
    spec = Function(("L", "e" if name == "array_has" else "L"), FUNCTIONS[name].kernel)
    return binder.finish(name, nested_arguments(binder, call, spec, _other_argument))


def _among(binder: Binder, listed: Expr, wanted: Expr) -> Expr | None:
    """``array_has(make_array(x, 3), y)`` as ``y IN (x, 3)``, which pylance makes of it; None for other lists."""
    members = _members(listed)
    kinds = {family(binder.typed(one).type) for one in (wanted, *members)}
    if not members or not kinds <= COMPARABLE | {"null"}:
        return None
    return binder.typed(chain("or", [Call("=", (wanted, member)) for member in members]))


def _members(listed: Expr) -> tuple[Expr, ...]:
    """The elements of a list that is written out."""
    if isinstance(listed, Literal) and isinstance(listed.value, tuple):
        return tuple(Literal(value, listed.type) for value in listed.value)
    is_made = isinstance(listed, Call) and ALIASES.get(listed.op, listed.op) == "make_array"
    return listed.args if isinstance(listed, Call) and is_made else ()


def _is_tuple(arg: Expr) -> bool:
    return isinstance(arg, Literal) and isinstance(arg.value, tuple)


def _is_comparable(column: Expr) -> bool:
    element = column.type.value_type if column.type is not None else pa.null()
    return plain_type(element) == element and family(element) in COMPARABLE


def _has_all(binder: Binder, args: tuple[Expr, ...], wide: bool) -> Expr:
    column, listed = args
    if (
        not isinstance(listed, Literal)
        or not isinstance(listed.value, tuple)
        or _members(column)
        or not _is_comparable(binder.typed(column))
    ):
        spec = FUNCTIONS["array_has_all"]
        return binder.finish(
            "array_has_all", nested_arguments(binder, Call("array_has_all", args), spec, _other_argument)
        )
    if not listed.value:
        return binder.typed(Call(">=", (Call("array_length", (column,)), Literal(0))))
    # NULL stands for elements that are null, as it does not in array_has.
    wanted = [(v, "array_has") if v is not None else ((None,), "array_has_any") for v in listed.value]
    return binder.typed(chain("and", [Call(name, (column, Literal(v, listed.type))) for v, name in wanted]))


def _typeof(binder: Binder, args: tuple[Expr, ...], wide: bool) -> Expr:
    found = binder.root(args[0])
    return Literal(type_name(found.type or pa.null()), pa.string())


_LOWERED: dict[str, tuple[int, _Lowered]] = {
    "array_has_all": (2, _has_all),
    "arrow_typeof": (1, _typeof),
    "if": (3, lambda binder, args, wide: case(binder, Call("case", args), wide)),
    "ifnull": (2, _ifnull),
    "nullif": (2, _nullif),
    "nvl2": (3, _nvl2),
    "pi": (0, lambda binder, args, wide: Literal(math.pi, pa.float64())),
    "mod": (2, lambda binder, args, wide: arithmetic(binder, Call("%", args), wide)),
}


def _other_argument(binder: Binder, call: Call, arg: Expr, letters: str) -> Expr:
    """An argument of a function of lists that is no list and no element."""
    if letters[0] == "C":
        return _constant_argument(binder, call, arg, letters[1])
    return _data_argument(binder, call, arg, letters)


def _arguments(binder: Binder, call: Call, spec: Function) -> tuple[Expr, ...]:
    """The arguments of a call, as the function's parameters require them."""
    found: list[Expr] = []
    for index, arg in enumerate(call.args):
        letters = spec.parameter(index)
        if letters == "CL":
            found.append(_list_argument(call, found[0], arg))
        elif letters[0] == "D":
            found.append(_dual_argument(binder, call, arg, letters[1]))
        elif letters[0] == "C":
            found.append(_constant_argument(binder, call, arg, letters[1]))
        elif found and letters == "x" and family(found[0].type) == "list":
            found.append(_element_argument(binder, call, found[0], arg))
        else:
            found.append(_data_argument(binder, call, arg, letters))
    return tuple(found)


_INSTANTS = ("date", "time", "timestamp", "text")
_ACCEPTED: dict[str, tuple[tuple[str, ...], str]] = {
    "s": (("text",), "text"),
    "y": (("text", "binary"), "text or binary"),
    "d": (("integer", "float", "decimal"), "a number"),
    "f": (("integer", "float", "decimal"), "a number"),
    "n": (("integer", "float", "decimal"), "a number"),
    "l": (("list",), "a list"),
    "i": (("integer",), "an integer"),
    "w": (("integer",), "an integer"),
    "k": (("integer", "text"), "an integer"),
    "r": (("struct",), "a struct"),
    "j": (("binary",), "a JSON column"),
    "t": (("date", "timestamp"), "a date or timestamp"),
    "q": (_INSTANTS, "a date, time or timestamp"),
    "p": ((*_INSTANTS, "interval", "period"), "a date, time, timestamp or interval"),
    "u": ((*_INSTANTS, "integer", "float", "decimal"), "a number, a date or timestamp, or text"),
    "g": (("interval", "period", "text"), "an interval such as interval '1 day'"),
    "z": (("timestamp",), "a timestamp"),
    "x": ((), ""),
}
_NULL_TYPES: dict[str, pa.DataType] = {
    "s": pa.string(),
    "a": pa.string(),
    "y": pa.string(),
    "d": pa.float64(),
    "f": pa.float64(),
    "n": pa.float64(),
    "t": pa.timestamp("us"),
    **dict.fromkeys("qpuz", pa.timestamp("ns")),
    "g": PERIOD_TYPE,
    **dict.fromkeys("ikw", pa.int64()),
    "l": pa.list_(pa.null()),
    "j": pa.large_binary(),
}


def _data_argument(binder: Binder, call: Call, arg: Expr, letter: str) -> Expr:
    found = _stored_json(binder.value(arg)) if letter == "j" else None
    found = found or binder.typed(arg)
    if isinstance(found, Literal) and found.value is None:
        known = found.type if letter == "l" and family(found.type) == "list" else None
        return Literal(None, known or _NULL_TYPES.get(letter, found.type))
    if letter == "a":
        return _as_text(binder, f"{call.op}()", found)
    return _data_argument_of(call, found, letter)


def _data_argument_of(call: Call, found: Expr, letter: str) -> Expr:
    accepted, wanted = _ACCEPTED[letter]
    if accepted and family(found.type) not in accepted:
        hint = "" if letter in "lrj" else "; CAST it"
        raise ExpressionError(
            f"{call.op}() needs {wanted}, but {describe(found, 10)} is {describe_type(found.type)}{hint}"
        )
    if (letter == "f" and family(found.type) != "float") or (
        letter == "d" and family(found.type) == "integer"
    ):
        return cast_to(found, pa.float64())
    if letter == "j":
        return cast_to(found, pa.large_binary())
    return cast_to(found, pa.int64()) if letter in "ik" else found


def _stored_json(found: Expr) -> Expr | None:
    """A JSON column in its stored form, which scans read without making text of it."""
    return Call("stored", (found,), pa.large_binary()) if isinstance(found.type, pa.JsonType) else None


def _dual_argument(binder: Binder, call: Call, arg: Expr, letter: str) -> Expr:
    """An argument that is a constant or a column."""
    found = binder.operand(arg)
    is_null = isinstance(found, Literal) and found.value is None
    if is_null or (isinstance(found, Literal) and letter != "S"):
        target = pa.int64() if letter == "I" else pa.string()
        return Literal(None, target) if is_null else _constant_argument(binder, call, found, letter, "")
    if letter == "S":
        return _as_text(binder, f"{call.op}()", settle(found) if isinstance(found, Literal) else found)
    return _data_argument_of(call, found, "i" if letter == "I" else "s")


def _constant_argument(
    binder: Binder, call: Call, arg: Expr, letter: str, only: str = ", a constant"
) -> Expr:
    found = binder.value(arg)
    if letter == "S" and isinstance(found, Literal) and not isinstance(found.value, str):
        found = settle(found)
        if found.value is None:
            return Literal(None, pa.string())
        if isinstance(found.value, float):
            return Literal(number_text(found.value), pa.string())
        found = binder.convert(found, pa.string())
    kind = int if letter == "I" else str
    value = found.value if isinstance(found, Literal) else None
    if not isinstance(value, kind) or isinstance(value, bool):
        wanted = "an integer" if letter == "I" else "text in quotes"
        raise ExpressionError(f"{call.op}() needs {wanted} here{only}, not {describe(found, 10)}")
    if isinstance(value, int) and abs(value) > _MOST:
        raise ExpressionError(f"{value} is too large for {call.op}()")
    return Literal(value, pa.int64() if letter == "I" else pa.string())


def _list_argument(call: Call, column: Expr, arg: Expr) -> Expr:
    if not isinstance(arg, Literal) or not isinstance(arg.value, tuple):
        shown = describe(arg, 10)
        raise ExpressionError(f"{call.op}() needs a list of constants such as [1, 2], not {shown}")
    element = _element_type(call, column)
    return Literal(tuple(members(Column(("element",), True, element), arg)), element)


def _element_argument(binder: Binder, call: Call, column: Expr, arg: Expr) -> Expr:
    element, found = _element_type(call, column), binder.operand(arg)
    if not isinstance(found, Literal):
        raise TypeError(f"{type(found).__name__} is not a constant")
    placed = fit(found, element)
    return Literal(None, element) if isinstance(placed, Gap) else placed


def _element_type(call: Call, column: Expr) -> pa.DataType:
    element = column.type.value_type if column.type is not None else pa.null()
    if plain_type(element) != element or family(element) not in COMPARABLE:
        raise ExpressionError(f"{call.op}() cannot compare elements of type {describe_type(element)}")
    return element
