"""Rules of binding for AND, OR, NOT, IS NULL and IS TRUE."""

from __future__ import annotations

import pyarrow as pa

from lancecy.expr.binding.binder import Binder
from lancecy.expr.evaluation.evaluate import can_fail
from lancecy.expr.kinds import family
from lancecy.expr.nodes import Call, Constant, Expr, Literal, chain, is_nan

__all__ = ["both_zeros", "invert", "is_null", "is_true", "logic"]

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
