"""Pages or fragments in which a condition cannot be true, by their statistics.

Each node gets three proofs per unit: that it is *never true*, *never false* and *never null* in any of its rows. NOT
exchanges the first two, AND and OR combine them, so that negations are as exact as their operands. An expression
without a rule proves nothing, and then the unit is read: pruning may read too much, never too little.

Bounds need not be tight. A NaN may be anywhere in a floating-point column that may have one: it makes every
comparison false except ``!=``. Source: file sheet 0.1, section 6.7.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancecy import kernels
from lancecy.expr.bound import Bound
from lancecy.expr.evaluation.patterns import like_plan
from lancecy.expr.kinds import family
from lancecy.expr.nodes import Call, Column, Constant, Expr, Literal, is_nan
from lancecy.records import dataclass
from lancecy.stats import ByteBounds, ColumnStats, NumericBounds, StatsTable

__all__ = ["falsify"]

Units: TypeAlias = NDArray[np.bool_]

_CODES = {
    "=": kernels.EQ,
    "!=": kernels.NE,
    "<": kernels.LT,
    "<=": kernels.LE,
    ">": kernels.GT,
    ">=": kernels.GE,
}
_OPPOSITE = {"=": "!=", "!=": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_COMPILED = (np.dtype(np.int64), np.dtype(np.uint64), np.dtype(np.float64))
# A longer list is tested as one range, unless its values can be searched in sorted order.
_FEW = 16


def falsify(bound: Bound, stats: StatsTable) -> Units:
    """Find the units in which no row satisfies a condition.

    Parameters
    ----------
    bound : Bound
        A condition; nothing is proved for other expressions.
    stats : StatsTable
        Columns it lacks are unknown.

    Returns
    -------
    (num_units,) bool, fresh memory
        True: proved that no row satisfies the condition. False: unknown.

    Raises
    ------
    FormatError
        The arrays of ``stats`` do not fit together.

    Examples
    --------
    >>> import numpy as np, pyarrow as pa
    >>> from lancecy.expr import bind, parse
    >>> from lancecy.stats import ColumnStats, NumericBounds
    >>> known = np.array([True, True])
    >>> bounds = NumericBounds(np.array([0, 100]), np.array([99, 199]), known)
    >>> stats = StatsTable(np.array([100, 100]), {("k",): ColumnStats(bounds, known, ~known)})
    >>> falsify(bind(parse("k < 10"), pa.schema({"k": pa.int64()})), stats)
    array([False,  True])
    """
    found: Units = _prove(bound.expr, stats).never_true | (stats.row_counts == 0)
    return found


@dataclass(frozen=True, slots=True)
class _Proof:
    """The proofs of a condition for each unit; arrays are shared and must not be written to."""

    never_true: Units
    never_false: Units
    never_null: Units

    def inverted(self) -> _Proof:
        return _Proof(self.never_false, self.never_true, self.never_null)


def _prove(expr: Expr, stats: StatsTable) -> _Proof:
    if isinstance(expr, Call):
        rule = _RULES.get(expr.op)
        if rule is not None:
            return rule(expr, stats)
    elif isinstance(expr, Literal):
        return _constant(expr, stats)
    elif isinstance(expr, Column) and expr.type == pa.bool_():
        return _compare_column("=", _known(expr, stats), Literal(True, pa.bool_()), stats)
    return _unknown(stats)


def _known(tested: Expr, stats: StatsTable) -> ColumnStats | None:
    """Statistics of an operand's values: of a column, also decoded or widened."""
    if isinstance(tested, Column):
        return stats.columns.get(tested.path)
    if not isinstance(tested, Call) or tested.op not in ("decoded", "storage", "cast"):
        return None
    column = tested.args[0]
    found = stats.columns.get(column.path) if isinstance(column, Column) else None
    if found is not None and tested.op == "decoded" and found.bounds is None:
        return None  # a code that is no null may name a value that is; where there are bounds, they are the values'
    if tested.op == "cast" and (column.type != pa.float16() or family(tested.type) != "float"):
        return None
    return found


def _all(stats: StatsTable, value: bool) -> Units:
    return np.full(stats.num_units, value)


def _unknown(stats: StatsTable) -> _Proof:
    nothing = _all(stats, False)
    return _Proof(nothing, nothing, nothing)


def _constant(literal: Literal, stats: StatsTable) -> _Proof:
    value = literal.value
    return _Proof(
        _all(stats, value is not True), _all(stats, value is not False), _all(stats, value is not None)
    )


def _and(call: Call, stats: StatsTable) -> _Proof:
    """AND: true needs all, false needs one; null needs one that is null."""
    proofs = [_prove(arg, stats) for arg in call.args]
    return _Proof(
        np.logical_or.reduce([p.never_true for p in proofs]),
        np.logical_and.reduce([p.never_false for p in proofs]),
        np.logical_and.reduce([p.never_null for p in proofs]),
    )


def _or(call: Call, stats: StatsTable) -> _Proof:
    proofs = [_prove(arg, stats) for arg in call.args]
    return _Proof(
        np.logical_and.reduce([p.never_true for p in proofs]),
        np.logical_or.reduce([p.never_false for p in proofs]),
        np.logical_and.reduce([p.never_null for p in proofs]),
    )


def _not(call: Call, stats: StatsTable) -> _Proof:
    return _prove(call.args[0], stats).inverted()


def _is_true(call: Call, stats: StatsTable) -> _Proof:
    inner = _prove(call.args[0], stats)
    return _Proof(inner.never_true, inner.never_false & inner.never_null, _all(stats, True))


def _is_null(call: Call, stats: StatsTable) -> _Proof:
    tested = call.args[0]
    known = _known(tested, stats)
    if known is not None:
        return _Proof(known.no_nulls, known.all_null, _all(stats, True))
    inner = _prove(tested, stats) if tested.type == pa.bool_() else _unknown(stats)
    return _Proof(inner.never_null, inner.never_true & inner.never_false, _all(stats, True))


def _compare(call: Call, stats: StatsTable) -> _Proof:
    left, right = call.args
    if isinstance(right, Literal):
        return _compare_column(call.op, _known(left, stats), right, stats)
    return _unknown(stats)


def _of_column(
    known: ColumnStats | None, stats: StatsTable, never: Callable[[ColumnStats], tuple[Units, Units]]
) -> _Proof:
    """Proof for a test that is null exactly where its column is.

    ``never`` gives the units in which non-null values cannot make it true, and cannot make it false.
    """
    if known is None:
        return _unknown(stats)
    never_true, never_false = (
        never(known) if known.bounds is not None else (_all(stats, False), _all(stats, False))
    )
    return _Proof(never_true | known.all_null, never_false | known.all_null, known.no_nulls)


def _compare_column(op: str, column: ColumnStats | None, literal: Literal, stats: StatsTable) -> _Proof:
    value = _stored(literal)

    def never(known: ColumnStats) -> tuple[Units, Units]:
        true, false = _none_within(known, op, value), _none_within(known, _OPPOSITE[op], value)
        if known.may_have_nan or is_nan(value):
            # A NaN on either side satisfies only !=.
            nothing = np.zeros_like(true)
            return (nothing, false) if op == "!=" else (true, nothing)
        return true, false

    return _of_column(column, stats, never)


def _none_within(known: ColumnStats, op: str, value: Any) -> Units:
    """Units with no value v between the bounds such that ``v op value``, apart from NaN."""
    if isinstance(known.bounds, NumericBounds):
        return _none_numeric(known.bounds, op, value)
    if isinstance(known.bounds, ByteBounds) and isinstance(value, bytes):
        return _none_bytes(known.bounds, op, value)
    return np.zeros(known.no_nulls.size, dtype=bool)


def _none_numeric(bounds: NumericBounds, op: str, value: Any) -> Units:
    if isinstance(value, bytes) or is_nan(value):
        # A NaN is never equal, less or greater; the caller handles !=.
        return np.full(bounds.known.size, is_nan(value) and op != "!=")
    lows: Any = bounds.lows
    if lows.dtype == bounds.highs.dtype and lows.dtype in _COMPILED and _exact(value, lows.dtype):
        empty = np.zeros(bounds.known.size, dtype=np.uint8)
        kernels.compare_bounds(_CODES[op], lows, bounds.highs, value, empty)  # type: ignore[arg-type]
        found: Units = bounds.known & empty.view(bool)
        return found
    return _none_of_objects(bounds, op, value)


def _exact(value: Any, kind: np.dtype[Any]) -> bool:
    """Whether the constant is the same number in the type of the bounds."""
    if kind == np.float64:
        return isinstance(value, float) or abs(value) <= 2**53
    limits = np.iinfo(kind)
    return isinstance(value, int) and limits.min <= value <= limits.max


def _none_of_objects(bounds: NumericBounds, op: str, value: Any) -> Units:
    """:func:`_none_numeric` for bounds of other types, mainly decimals: Python's exact comparisons."""
    found = np.zeros(bounds.known.size, dtype=bool)
    units = np.flatnonzero(bounds.known)
    lows, highs = bounds.lows[units].astype(object), bounds.highs[units].astype(object)
    empty: dict[str, Callable[[], Any]] = {
        "=": lambda: (lows > value) | (highs < value),
        "!=": lambda: (lows == value) & (highs == value),
        "<": lambda: lows >= value,
        "<=": lambda: lows > value,
        ">": lambda: highs <= value,
        ">=": lambda: highs < value,
    }
    found[units] = empty[op]().astype(bool) & (lows <= highs).astype(bool)
    return found


def _none_bytes(bounds: ByteBounds, op: str, value: bytes) -> Units:
    if op == "!=":
        # The kernel does not decide this; nothing is unequal if nothing is less and nothing is greater.
        return _none_bytes(bounds, "<", value) & _none_bytes(bounds, ">", value)
    empty = np.zeros(bounds.has_low.size, dtype=np.uint8)
    kernels.compare_bytes_bounds(
        _CODES[op],
        bounds.low_offsets,
        bounds.low_bytes,
        bounds.high_offsets,
        bounds.high_bytes,
        bounds.has_low,
        bounds.has_high,
        value,
        empty,
    )
    return empty.view(bool)


def _stored(literal: Literal) -> Any:
    """The constant in the form of the statistics: booleans as 0 and 1, decimals unscaled, text as UTF-8."""
    return _stored_value(literal.value, literal.type)


def _stored_value(value: Constant, data_type: pa.DataType | None) -> Any:
    kind = family(data_type)
    if kind == "boolean":
        return int(bool(value))
    if kind == "decimal" and data_type is not None:
        # Exact: a literal of a decimal type has exactly the scale of the type.
        sign, digits, exponent = value.as_tuple()  # type: ignore[union-attr]
        unscaled = int("".join(map(str, digits)) or "0") * 10 ** max(0, int(exponent) + data_type.scale)
        return -unscaled if sign else unscaled
    return value.encode() if isinstance(value, str) else value


def _in(call: Call, stats: StatsTable) -> _Proof:
    tested, listed = call.args
    if not isinstance(listed, Literal) or not isinstance(listed.value, tuple):
        return _unknown(stats)
    has_null = None in listed.value
    values = [_stored_value(v, listed.type) for v in listed.value if v is not None]

    def never(known: ColumnStats) -> tuple[Units, Units]:
        true = _outside(known, values)
        # All values of a unit equal one in the list: nothing between its bounds differs from it.
        false = np.zeros_like(true)
        if not known.may_have_nan:
            for value in values[:_FEW]:
                false |= _none_within(known, "!=", value)
        return true, false

    proof = _of_column(_known(tested, stats), stats, never)
    if not has_null:
        return proof
    # A miss is null if the list has a null, never false.
    return _Proof(proof.never_true, _all(stats, True), proof.never_null & proof.never_false)


def _outside(known: ColumnStats, values: list[Any]) -> Units:
    """Units in which no value can be one of these."""
    if len(values) > _FEW:
        searched = _outside_sorted(known, values)
        if searched is not None:
            return searched
        return _none_within(known, "<=", max(values)) | _none_within(known, ">=", min(values))
    found = np.ones(known.no_nulls.size, dtype=bool)
    for value in values:
        found &= _none_within(known, "=", value)
    return found


def _outside_sorted(known: ColumnStats, values: Iterable[Any]) -> Units | None:
    """:func:`_outside` by binary search of the bounds in sorted values; None if NumPy cannot hold both exactly."""
    bounds = known.bounds
    if not isinstance(bounds, NumericBounds):
        return None
    lows: Any = bounds.lows
    highs: Any = bounds.highs
    if (
        lows.dtype != highs.dtype
        or lows.dtype not in _COMPILED
        or not all(_exact(v, lows.dtype) for v in values)
    ):
        return None
    ordered = np.sort(np.array(list(values), dtype=lows.dtype))
    # As many values are below the low bound as are up to the high one: none lies between.
    below, not_above = (
        np.searchsorted(ordered, lows, side="left"),
        np.searchsorted(ordered, highs, side="right"),
    )
    found: Units = (below == not_above) & (lows <= highs) & bounds.known
    return found


def _starts_with(call: Call, stats: StatsTable) -> _Proof:
    tested, prefix = call.args
    if isinstance(prefix, Literal) and isinstance(prefix.value, str):
        return _prefix(_known(tested, stats), prefix.value, True, stats)
    return _unknown(stats)


def _like(call: Call, stats: StatsTable) -> _Proof:
    tested, pattern, escape = call.args
    if not isinstance(pattern, Literal) or not isinstance(escape, Literal):
        return _unknown(stats)
    plan, known = like_plan(str(pattern.value), str(escape.value)), _known(tested, stats)
    if plan.how == "equals":
        return _compare_column("=", known, Literal(plan.text, tested.type), stats)
    return _prefix(known, plan.prefix, plan.how == "prefix", stats)


def _prefix(column: ColumnStats | None, text: str, decides: bool, stats: StatsTable) -> _Proof:
    """Proof for a test that needs a prefix; ``decides`` if the prefix is all it needs."""
    start = text.encode()
    stop = _successor(start)

    def never(known: ColumnStats) -> tuple[Units, Units]:
        true = _none_within(known, ">=", start)
        if stop is not None:
            true = true | _none_within(known, "<", stop)
        false = np.zeros_like(true)
        if decides:
            false = _none_within(known, "<", start)
            if stop is not None:
                false = false & _none_within(known, ">=", stop)
        return true, false

    return _of_column(column, stats, never)


def _successor(start: bytes) -> bytes | None:
    """The first byte string after all that begin with ``start``; None if there is none."""
    kept = start.rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else None


def _is_nan(call: Call, stats: StatsTable) -> _Proof:
    tested = call.args[0]
    known = _known(tested, stats)
    if known is None:
        return _unknown(stats)
    return _Proof(known.all_null | (not known.may_have_nan), known.all_null, known.no_nulls)


_RULES: dict[str, Callable[[Call, StatsTable], _Proof]] = {
    "and": _and,
    "or": _or,
    "not": _not,
    "is_true": _is_true,
    "is_null": _is_null,
    **dict.fromkeys(_CODES, _compare),
    "in": _in,
    "like": _like,
    "starts_with": _starts_with,
    "isnan": _is_nan,
}
