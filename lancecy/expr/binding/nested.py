"""Rules of binding for functions of lists, structs and maps.

Parameters of these functions (see ``functions``) have letters of their own: the elements of all lists ``L`` and the
values ``e`` of a call are converted to one type, as pylance does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import pyarrow as pa

from lancecy.errors import ExpressionError
from lancecy.expr.binding.arithmetic import as_length, cast_to
from lancecy.expr.binding.binder import Binder, counted
from lancecy.expr.describe import describe, describe_type
from lancecy.expr.evaluation.functions import Function
from lancecy.expr.evaluation.lists import list_of
from lancecy.expr.kinds import common_type, family, is_number, plain_members
from lancecy.expr.nodes import Call, Column, Expr, Literal, walk
from lancecy.expr.periods import period_of

__all__ = ["NESTED", "compared_sides", "is_nested_function", "nested_arguments"]

_OWN_LETTERS = frozenset("Levm")

Other: TypeAlias = Callable[[Binder, Call, Expr, str], Expr]
"""Binds an argument of a letter that other functions have, too."""


def is_nested_function(spec: Function) -> bool:
    """Whether a parameter of a function is of this module."""
    return any(parameter[0] in _OWN_LETTERS for parameter in spec.parameters)


def nested_arguments(binder: Binder, call: Call, spec: Function, other: Other) -> tuple[Expr, ...]:
    """The arguments of a call, lists and elements with one type of elements.

    Raises
    ------
    ExpressionError
        An argument is no list, or the types of elements do not mix.
    """
    found: list[Expr] = []
    letters = [spec.parameter(index) for index in range(len(call.args))]
    for arg, letter in zip(call.args, letters, strict=True):
        if letter == "L":
            found.append(_list(binder, call, arg))
        elif letter == "e":
            one = binder.typed(arg, wide=False)
            found.append(_plain(counted(arg, one) if call.op == "make_array" else one))
        elif letter == "v":
            found.append(_plain(counted(arg, binder.typed(arg, wide=False))))
        elif letter == "m":
            found.append(_map(binder, call, arg))
        else:
            found.append(other(binder, call, arg, letter))
    return _unified(call, found, letters)


def _list(binder: Binder, call: Call, arg: Expr) -> Expr:
    found = _plain(binder.typed(arg))
    if isinstance(found, Literal) and found.value is None and family(found.type) != "list":
        return Literal(None, pa.list_(pa.null()))
    if family(found.type) != "list":
        raise ExpressionError(
            f"{call.op}() needs a list, but {describe(found, 10)} is {describe_type(found.type)}"
        )
    return found


def _map(binder: Binder, call: Call, arg: Expr) -> Expr:
    found = binder.typed(arg)
    if not pa.types.is_map(found.type or pa.null()):
        raise ExpressionError(
            f"{call.op}() needs a map, but {describe(found, 10)} is {describe_type(found.type)}"
        )
    return found


def _plain(found: Expr) -> Expr:
    """The operand with members that Arrow's kernels support."""
    kind = found.type or pa.null()
    plain = plain_members(kind)
    return found if plain == kind else Call("cast", (found, Literal(None, plain)), plain)


def _unified(call: Call, found: Sequence[Expr], letters: Sequence[str]) -> tuple[Expr, ...]:
    """Lists and elements with one type of elements."""
    common: pa.DataType | None = pa.null()
    kinds = [_element_type(one, letter) for one, letter in zip(found, letters, strict=True) if letter in "Le"]
    for kind in kinds:
        common = _common(common or pa.null(), kind)
        if common is None:
            names = ", ".join(dict.fromkeys(map(describe_type, kinds)))
            raise ExpressionError(
                f"{call.op}() has elements of types that do not mix: {names}; CAST them to one"
            )
    return tuple(
        _with_elements(one, letter, common or pa.null()) for one, letter in zip(found, letters, strict=True)
    )


def _common(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """The common type, in which integers take the type of floats, as pylance has it in lists."""
    if family(left) == "list" and family(right) == "list" and left != right:
        element = _common(left.value_type, right.value_type)
        return None if element is None else list_of(element, left, right)
    if {family(left), family(right)} == {"integer", "float"}:
        return left if family(left) == "float" else right
    return common_type(left, right)


def _element_type(found: Expr, letter: str) -> pa.DataType:
    kind = found.type or pa.null()
    return kind.value_type if letter == "L" else kind


def _with_elements(found: Expr, letter: str, element: pa.DataType) -> Expr:
    if letter == "e":
        return cast_to(found, element)
    if letter != "L" or found.type is None or found.type.value_type == element:
        return found
    large = pa.types.is_large_list(found.type)
    return cast_to(found, pa.large_list(element) if large else pa.list_(element))


def compared_sides(left: Expr, right: Expr) -> tuple[Expr, Expr] | None:
    """Two lists, structs or maps in one type; None if their members cannot be compared.

    Floating-point numbers of a constant become as wide as those of a column, as a constant beside a number does.
    """
    sides = _plain(left), _plain(right)
    kinds = [side.type or pa.null() for side in sides]
    target = _common(*kinds)
    if target is None:
        return None
    for side, other in zip(sides, reversed(kinds), strict=True):
        if not any(isinstance(node, Column) for node in walk(side)):
            target = _with_floats(target, other)
    return cast_to(sides[0], target), cast_to(sides[1], target)


def _with_floats(target: pa.DataType, like: pa.DataType) -> pa.DataType:
    """The type with the floating-point types that another has in their place."""
    if family(target) == family(like) == "float":
        return like
    if family(target) == family(like) == "list":
        return list_of(_with_floats(target.value_type, like.value_type), target)
    if family(target) == family(like) == "struct":
        pairs = zip(target, like, strict=True)
        return pa.struct([member.with_type(_with_floats(member.type, other.type)) for member, other in pairs])
    return target


def _concat(binder: Binder, call: Call, spec: Function, other: Other) -> Expr:
    """``array_concat``: a list among lists of lists is one of their elements."""
    found = [_list(binder, call, arg) for arg in call.args]
    deepest = max(_depth(one.type) for one in found)
    for index, one in enumerate(found):
        wrapped = one
        while _depth(wrapped.type) < deepest and not _is_null(wrapped):
            wrapped = binder.finish("make_array", (wrapped,))
        found[index] = wrapped
    return binder.finish("array_concat", _unified(call, found, ["L"] * len(found)))


def _depth(kind: pa.DataType | None) -> int:
    return 1 + _depth(kind.value_type) if kind is not None and family(kind) == "list" else 0


def _zip(binder: Binder, call: Call, spec: Function, other: Other) -> Expr:
    return binder.finish("arrays_zip", tuple(_list(binder, call, arg) for arg in call.args))


def _distance(binder: Binder, call: Call, spec: Function, other: Other) -> Expr:
    found = [_list(binder, call, arg) for arg in call.args]
    for one in found:
        element = _element_type(one, "L")
        if not is_number(element) and family(element) != "null":
            raise ExpressionError(
                f"array_distance() needs lists of numbers, but {describe(one, 10)} has {describe_type(element)}"
            )
    return binder.finish("array_distance", tuple(_with_elements(one, "L", pa.float64()) for one in found))


def _make_array(binder: Binder, call: Call, spec: Function, other: Other) -> Expr:
    found = nested_arguments(binder, call, spec, other)
    if not found:
        return binder.finish("make_array", ())
    # The type is stated, as trials of nested calls would make the inner ones once for each level.
    return binder.finish("make_array", found, pa.list_(found[0].type or pa.null()))


def _repeat(binder: Binder, call: Call, spec: Function, other: Other) -> Expr:
    value, count = nested_arguments(binder, call, spec, other)
    kind = value.type or pa.null()
    # The type is stated, as a trial on one row would already make all elements of a list.
    return binder.finish("array_repeat", (value, count), list_of(kind, kind))


def _cardinality(binder: Binder, call: Call, spec: Function, other: Other) -> Expr:
    (arg,) = call.args
    found = binder.typed(arg)
    is_map = pa.types.is_map(found.type or pa.null())
    return binder.finish("cardinality", (found if is_map else _list(binder, call, arg),))


def _series(binder: Binder, call: Call, spec: Function, other: Other) -> Expr:
    """``range`` and ``generate_series``, of integers or of dates and times."""
    found = [binder.typed(arg) for arg in call.args]
    kinds = [one.type for one in found[:2] if family(one.type) in ("date", "timestamp")]
    if not kinds:
        return binder.finish(call.op, tuple(other(binder, call, arg, "i") for arg in call.args))
    target = common_type(kinds[0], kinds[-1])
    step = found[2] if len(found) == 3 else None
    if step is not None and not _has_months(step):
        step = as_length(step)
    is_step = step is not None and (family(step.type) in ("interval", "period") or _is_null(step))
    alike = all(_is_null(one) or family(one.type) == family(kinds[0]) for one in found[:2])
    if step is None or not is_step or not alike or target is None:
        raise ExpressionError(
            f"{call.op}() of dates or times takes the first and the last, both of one type, and the step between them, "
            f"as in {call.op}(date '2024-01-01', date '2024-01-31', interval '1 day')"
        )
    target = pa.date32() if family(target) == "date" else pa.timestamp("ns", target.tz)
    step = cast_to(step, pa.duration("ns")) if _is_null(step) else step
    return binder.finish(call.op, (*(cast_to(one, target) for one in found[:2]), step))


def _has_months(step: Expr) -> bool:
    is_period = isinstance(step, Literal) and family(step.type) == "period" and isinstance(step.value, int)
    return is_period and period_of(step.value).months != 0  # type: ignore[attr-defined]


def _is_null(found: Expr) -> bool:
    return isinstance(found, Literal) and found.value is None


def _named_struct(binder: Binder, call: Call, spec: Function, other: Other) -> Expr:
    if len(call.args) % 2:
        raise ExpressionError("named_struct() takes names and values in turn: named_struct('a', 1, 'b', x)")
    parts: list[Expr] = []
    for name, value in zip(call.args[::2], call.args[1::2], strict=True):
        if not isinstance(name, Literal) or not isinstance(name.value, str) or not name.value:
            raise ExpressionError(
                f"the name of a field of named_struct() is text in quotes, and not empty, not {describe(name, 10)}"
            )
        if any(isinstance(part, Literal) and part.value == name.value for part in parts[::2]):
            raise ExpressionError(f"named_struct() has two fields {name.value!r}")
        parts += [Literal(name.value, pa.string()), _plain(counted(value, binder.typed(value, wide=False)))]
    return binder.finish("named_struct", tuple(parts))


def _map_of(binder: Binder, call: Call, spec: Function, other: Other) -> Expr:
    found = [_plain(binder.typed(arg, wide=False)) for arg in call.args]
    if len({family(one.type) == "list" for one in found}) > 1:
        raise ExpressionError("map() takes a list of keys and a list of values: map(['a', 'b'], [1, 2])")
    return binder.finish("map", tuple(found))


def _make_map(binder: Binder, call: Call, spec: Function, other: Other) -> Expr:
    if len(call.args) % 2:
        raise ExpressionError("make_map() takes keys and values in turn: make_map('a', 1, 'b', 2)")
    found = [
        nested_arguments(binder, Call("make_map", call.args[start::2]), _ELEMENTS, other) for start in (0, 1)
    ]
    return binder.finish("map", tuple(binder.finish("make_array", part) for part in found))


_ELEMENTS = Function(("e*",), lambda *values: None)


def _extract(binder: Binder, call: Call, spec: Function, other: Other) -> Expr:
    found, key = _map(binder, call, call.args[0]), binder.typed(call.args[1])
    wanted = (found.type or pa.null()).key_type
    if common_type(wanted, key.type or pa.null()) is None:
        raise ExpressionError(
            f"{call.op}() needs a key of type {describe_type(wanted)}, but {describe(key, 10)} is "
            f"{describe_type(key.type)}; CAST it"
        )
    return binder.finish("map_extract", (found, cast_to(key, wanted)))


NESTED: dict[str, Callable[[Binder, Call, Function, Other], Expr]] = {
    "arrays_zip": _zip,
    "array_concat": _concat,
    "array_distance": _distance,
    "array_repeat": _repeat,
    "cardinality": _cardinality,
    "generate_series": _series,
    "make_array": _make_array,
    "make_map": _make_map,
    "map": _map_of,
    "map_extract": _extract,
    "named_struct": _named_struct,
    "range": _series,
}
"""Functions whose arguments have rules that letters do not tell."""
