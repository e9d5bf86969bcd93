"""Rules of binding for AND, OR, NOT, IS NULL and IS TRUE, comparisons, IN and LIKE."""

from __future__ import annotations

import pyarrow as pa

from lancecy.errors import ExpressionError
from lancecy.expr.binding.arithmetic import as_length, cast_to
from lancecy.expr.binding.binder import Binder
from lancecy.expr.binding.nested import compared_sides
from lancecy.expr.describe import describe, describe_type
from lancecy.expr.evaluation.evaluate import can_fail
from lancecy.expr.evaluation.exact import share_type
from lancecy.expr.evaluation.patterns import like_plan
from lancecy.expr.kinds import common_type, family, int_limits
from lancecy.expr.literals import Gap, fit, settle, smallest
from lancecy.expr.nodes import COMPARISONS, Call, Column, Constant, Expr, Literal, chain, is_nan, negate

__all__ = [
    "COMPARABLE",
    "both_zeros",
    "comparison",
    "invert",
    "is_null",
    "is_true",
    "like",
    "logic",
    "members",
    "not_distinct",
    "within",
]


_BOOL = pa.bool_()


def logic(binder: Binder, call: Call, wide: bool) -> Expr:
    """AND and OR: constants without effect are dropped, operands that may fail come last."""
    word, decisive = call.op.upper(), call.op == "or"
    bound = [binder.condition(arg, word) for arg in call.args]
    if any(isinstance(arg, Literal) and arg.value is decisive for arg in bound):
        return Literal(decisive, _BOOL)
    kept = [arg for arg in bound if not (isinstance(arg, Literal) and arg.value is not None)]
    if not kept:
        return Literal(not decisive, _BOOL)
    if decisive:
        kept = _merge_equalities(kept)
    kept.sort(key=can_fail)
    joined = chain(call.op, kept)
    return Call(call.op, joined.args, _BOOL) if isinstance(joined, Call) and joined.op == call.op else joined


def invert(binder: Binder, call: Call, wide: bool) -> Expr:
    """NOT; a double negation cancels."""
    inner = binder.condition(call.args[0], "NOT")
    if isinstance(inner, Call) and inner.op == "not":
        return inner.args[0]
    return binder.finish("not", (inner,), _BOOL)


def is_true(binder: Binder, call: Call, wide: bool) -> Expr:
    """IS TRUE of a condition."""
    return binder.finish("is_true", (binder.condition(call.args[0], "IS TRUE"),), _BOOL)


def is_null(binder: Binder, call: Call, wide: bool) -> Expr:
    """IS NULL of anything."""
    inner = binder.typed(call.args[0])
    if isinstance(inner, Literal):
        return Literal(inner.value is None, _BOOL)
    return Call("is_null", (inner,), _BOOL)


def _merge_equalities(parts: list[Expr]) -> list[Expr]:
    """Turn ``x = 1 OR x = 2`` into ``x IN (1, 2)``: one look-up for any number of constants."""
    groups: dict[Expr, dict[Constant, None]] = {}
    for part in parts:
        tested, values = _equality(part)
        if tested is not None:
            groups.setdefault(tested, {}).update(dict.fromkeys(values))
    merged: dict[Expr, None] = {}
    for part in parts:
        tested, _ = _equality(part)
        group = groups.get(tested) if tested is not None else None
        if tested is None or (group is not None and len(group) == 1):
            merged[part] = None
        elif group is not None:
            del groups[tested]
            listed = Literal(both_zeros(list(group), tested.type), tested.type)
            merged[Call("in", (tested, listed), _BOOL)] = None
    return list(merged)


def _equality(part: Expr) -> tuple[Expr | None, tuple[Constant, ...]]:
    """The operand and the constants of ``x = c`` or ``x IN (c, …)``; None for anything else, NaN included."""
    if isinstance(part, Call) and part.op in ("=", "in") and isinstance(part.args[1], Literal):
        value = part.args[1].value
        if not is_nan(value):
            return part.args[0], value if isinstance(value, tuple) else (value,)
    return None, ()


def both_zeros(values: list[Constant], data_type: pa.DataType | None) -> tuple[Constant, ...]:
    """Add the other zero to the members of a list: Arrow's is_in tells zeros apart, comparisons do not."""
    if family(data_type) == "float" and 0.0 in values:
        return (*[v for v in values if v is None or v != 0.0], 0.0, -0.0)
    return tuple(values)


_READS = ("cast", "decoded", "try_cast")
COMPARABLE = frozenset(
    ("boolean", "integer", "float", "decimal", "text", "binary", "date", "timestamp", "time", "interval")
)


def comparison(binder: Binder, call: Call, wide: bool) -> Expr:
    """``= != < <= > >=``."""
    left, right = (binder.operand(arg) for arg in call.args)
    return _compare(binder, call.op, left, right)


def _compare(binder: Binder, op: str, left: Expr, right: Expr) -> Expr:
    left, right = as_length(left), as_length(right)
    if isinstance(left, Literal) and isinstance(right, Literal) and left.type is right.type is None:
        left, right = settle(left), settle(right)
    if isinstance(left, Literal) and (not isinstance(right, Literal) or left.type is None):
        # The typed side decides how an untyped constant is read.
        left, right, op = right, left, COMPARISONS[op]
    if isinstance(right, Literal):
        return _with_constant(binder, op, left, right)
    if _is_nested(left) and _is_nested(right):
        sides = compared_sides(left, right)
        if sides is None:
            raise _unlike(left, right, "CAST one side")
        return binder.finish(op, sides)
    target = common_type(left.type or pa.null(), right.type or pa.null())
    if target is not None and family(target) == "null":
        return Literal(None, _BOOL)
    if target is None or family(target) not in COMPARABLE:
        raise _unlike(
            left, right, "CAST one side" if target is None else "name an element or a field of each"
        )
    if not share_type(left.type or pa.null(), right.type or pa.null()):
        return Call(op, (left, right), _BOOL)
    return Call(op, (cast_to(left, target), cast_to(right, target)), _BOOL)


def _is_nested(side: Expr) -> bool:
    return side.type is not None and (family(side.type) in ("list", "struct") or pa.types.is_map(side.type))


def _unlike(left: Expr, right: Expr, remedy: str) -> ExpressionError:
    return ExpressionError(
        f"{describe(left)} is {describe_type(left.type)} and {describe(right)} is "
        f"{describe_type(right.type)}: these cannot be compared; {remedy}"
    )


def _with_constant(binder: Binder, op: str, left: Expr, right: Literal) -> Expr:
    """Comparison with a literal, which is converted to the type of the operand."""
    if right.value is None or family(left.type) == "null":
        return Literal(None, _BOOL)
    if isinstance(left, Literal) and left.value is None:
        return Literal(None, _BOOL)
    if family(left.type) not in COMPARABLE:
        remedy = (
            "a list or struct, or name an element or a field" if _is_nested(left) else "a value of its type"
        )
        raise ExpressionError(
            f"{describe(left)} is {describe_type(left.type)}, which cannot be compared with {describe(right)}; "
            f"compare it with {remedy}"
        )
    try:
        placed = _fit_operand(left, right)
    except ExpressionError as error:
        raise ExpressionError(f"{describe(Call(op, (left, right)), 10)}: {error.what}") from error
    if isinstance(placed, Gap):
        return _in_gap(binder, op, left, placed)
    if placed.type != left.type:
        left = cast_to(left, placed.type or pa.null())
    return binder.finish(op, (left, placed), _BOOL)


def _in_gap(binder: Binder, op: str, left: Expr, gap: Gap) -> Expr:
    """Comparison with a constant between two values of the operand's type, or beyond all of them."""
    least = smallest(left.type or pa.null())
    never = (cast_to(left, least.type or pa.null()), least)
    if op == "!=":
        return negate(binder.finish("<", never, _BOOL))
    neighbour = None if op == "=" else gap.below if op in ("<", "<=") else gap.above
    if neighbour is None:
        return binder.finish("<", never, _BOOL)
    return binder.finish("<=" if op in ("<", "<=") else ">=", (left, neighbour), _BOOL)


def _fit_operand(operand: Expr, literal: Literal) -> Literal | Gap:
    """Fit a literal to an operand; to half floats first if the operand is read from them."""
    target = operand.type or pa.null()
    inner = operand.args[0].type if isinstance(operand, Call) and operand.op in _READS else None
    if inner is None or not pa.types.is_float16(inner) or target != pa.float32():
        return fit(literal, target)
    placed = fit(literal, inner)
    if isinstance(placed, Literal):
        return Literal(placed.value, target)
    below, above = (
        None if side is None else Literal(side.value, target) for side in (placed.below, placed.above)
    )
    return Gap(below, above)


def not_distinct(binder: Binder, call: Call, wide: bool) -> Expr:
    """IS NOT DISTINCT FROM: equality that is never null; two nulls are equal."""
    left, right = (binder.operand(arg) for arg in call.args)
    for one, other in ((left, right), (right, left)):
        if isinstance(one, Literal) and one.value is None:
            if isinstance(other, Literal):
                return Literal(other.value is None, _BOOL)
            return Call("is_null", (other,), _BOOL)
    equal = binder.finish("is_true", (_compare(binder, "=", left, right),), _BOOL)
    if isinstance(left, Literal) or isinstance(right, Literal):
        return equal
    both = Call("and", (Call("is_null", (left,), _BOOL), Call("is_null", (right,), _BOOL)), _BOOL)
    return Call("or", (equal, both), _BOOL)


def within(binder: Binder, call: Call, wide: bool) -> Expr:
    """IN a list of constants, converted to the operand's type; constants it cannot hold never match."""
    tested, listed = binder.typed(call.args[0]), call.args[1]
    if not isinstance(listed, Literal) or not isinstance(listed.value, tuple):
        raise ExpressionError(f"IN takes a list of constants, not {describe(listed, 10)}")
    if not listed.value:
        return Literal(False, _BOOL)
    if family(tested.type) == "null" or (isinstance(tested, Literal) and tested.value is None):
        return Literal(None, _BOOL)
    if not any(value is not None for value in listed.value):
        return Literal(None, _BOOL)
    if family(tested.type) not in COMPARABLE:
        raise ExpressionError(f"{describe(tested)} is {describe_type(tested.type)}, which IN cannot compare")
    values = members(tested, listed)
    if not values:
        return _in_gap(binder, "=", tested, Gap(None, None))
    if values == [None]:
        return Literal(None, _BOOL)
    if len(set(values)) == 1:
        return binder.finish("=", (tested, Literal(values[0], tested.type)), _BOOL)
    return binder.finish("in", (tested, Literal(tuple(values), tested.type)), _BOOL)


def members(tested: Expr, listed: Literal) -> list[Constant]:
    """Distinct values of a list in the operand's type, with None for a null.

    Values the type cannot hold are left out, and so is NaN, which equals nothing.

    Raises
    ------
    ExpressionError
        A value cannot be compared with the operand.
    """
    found: dict[Constant, None] = {}
    values = listed.value if isinstance(listed.value, tuple) else ()
    if listed.type is None and isinstance(tested, Column) and family(tested.type) == "integer":
        # Whole numbers need no conversion: a list of keys may be long.
        low, high = int_limits(tested.type or pa.int64())
        whole = [value for value in values if type(value) is int and low <= value <= high]
        if len(whole) == len(values):
            return list(dict.fromkeys(whole))
    for value in values:
        if value is None:
            found[None] = None
            continue
        placed = _fit_operand(tested, Literal(value, listed.type))
        if isinstance(placed, Literal) and placed.type == tested.type and not is_nan(placed.value):
            found[placed.value] = None
    return list(both_zeros(list(found), tested.type))


def like(binder: Binder, call: Call, wide: bool) -> Expr:
    """LIKE and ILIKE: the pattern is a constant, or a column of patterns."""
    tested, pattern = binder.text(call.args[0], call.op.upper()), binder.operand(call.args[1])
    escape = binder.value(call.args[2]) if len(call.args) > 2 else Literal("\\")
    parts = [p.value if isinstance(p, Literal) else 0 for p in (pattern, escape)]
    if None in parts:
        return Literal(None, _BOOL)
    if isinstance(parts[1], str) and not isinstance(pattern, Literal) and family(pattern.type) == "text":
        return binder.finish(call.op, (tested, pattern, Literal(parts[1], pa.string())), _BOOL)
    if not all(isinstance(p, str) for p in parts):
        raise ExpressionError(f"{call.op.upper()} takes a pattern in quotes, not {describe(pattern)}")
    like_plan(str(parts[0]), str(parts[1]))
    args = (tested, Literal(parts[0], pa.string()), Literal(parts[1], pa.string()))
    return binder.finish(call.op, args, _BOOL)
