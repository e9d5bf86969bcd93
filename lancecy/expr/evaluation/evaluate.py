"""Evaluation of bound expressions over Arrow tables with pyarrow's kernels.

Logic is three-valued (Kleene): null AND false is false, null OR true is true, NOT null is null. A comparison with a
constant is one kernel call on the unconverted column; ``exact`` compares operands of two types. Arithmetic is
checked: overflow and division by zero are errors, not wrong rows. AND, OR, CASE and coalesce evaluate operands that may
fail only where the earlier ones leave the answer open, so that ``x != 0 AND 10 / x > 2`` is safe.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancecy.encodings.arrow import conversions
from lancecy.encodings.arrow.columns import unsliced_rows
from lancecy.errors import ExpressionError, FormatError
from lancecy.expr.bound import Bound
from lancecy.expr.describe import describe
from lancecy.expr.evaluation import calendar, growth, json_functions
from lancecy.expr.evaluation.casts import cast_values
from lancecy.expr.evaluation.constants import COMPARISONS, is_in, looked_up
from lancecy.expr.evaluation.exact import compare, share_type
from lancecy.expr.evaluation.functions import FUNCTIONS
from lancecy.expr.evaluation.nested_comparisons import compare_nested
from lancecy.expr.evaluation.patterns import match_like
from lancecy.expr.evaluation.rows import by_group
from lancecy.expr.evaluation.try_casts import try_cast_values
from lancecy.expr.evaluation.values import divide, remainder, repeated, storage, to_numpy
from lancecy.expr.kinds import family, plain_type
from lancecy.expr.literals import array_of, scalar_of
from lancecy.expr.nodes import Call, Column, Expr, Literal, walk
from lancecy.limits import COMPUTED_BYTES

__all__ = ["can_fail", "compute", "evaluate", "evaluation_ns", "mask"]


Data: TypeAlias = Any
"""pa.Array, pa.ChunkedArray or, for constants, pa.Scalar."""

_TRUE, _FALSE, _UNKNOWN = (conversions.scalar_of(truth, pa.bool_()) for truth in (True, False, None))


def evaluate(bound: Bound, table: pa.Table | pa.RecordBatch) -> pa.ChunkedArray | pa.Array:
    """Evaluate an expression for every row.

    Parameters
    ----------
    bound : Bound
    table : pa.Table or pa.RecordBatch
        Has at least ``bound.columns``, with the types of the schema it was bound to.

    Returns
    -------
    pa.ChunkedArray or pa.Array
        One value per row, of type ``bound.type``. A column of the table itself is not copied.

    Raises
    ------
    ExpressionError
        A value overflows, divides by zero or does not convert, or text grows beyond
        :data:`lancecy.limits.COMPUTED_BYTES`; the message has the expression.
    FormatError
        Stored JSON is damaged; the message has the expression.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from lancecy.expr import bind, evaluate, parse
    >>> table = pa.table({"a": [1, None, 3]})
    >>> evaluate(bind(parse("a > 2 OR a IS NULL"), table.schema), table).to_pylist()
    [False, True, True]
    """
    try:
        with growth.allowance(COMPUTED_BYTES, lambda: 8 * sum(table.column(n).nbytes for n in bound.columns)):
            found = compute(bound.expr, table)
            if isinstance(found, pa.Scalar):
                growth.mixed("a constant", (found,), table.num_rows)
                if pa.types.is_nested(found.type):
                    growth.charge("a constant", pa.repeat(found, 1).nbytes * table.num_rows, "lists")
    except (pa.ArrowException, OverflowError, ExpressionError) as error:
        text = describe(bound.expr, max_values=10)
        why = error.what if isinstance(error, ExpressionError) else error
        raise ExpressionError(f"{why} (in {text})", text=text) from error
    except FormatError as error:
        raise error.within(describe(bound.expr, max_values=10)) from error.__cause__
    if isinstance(found, pa.Scalar):
        return repeated(found, table.num_rows)
    return found


def mask(bound: Bound, table: pa.Table | pa.RecordBatch) -> pa.ChunkedArray | pa.Array:
    """Evaluate a condition: boolean, null where it is unknown.

    Only rows that are true are selected; ``Table.filter`` drops nulls by itself.

    Raises
    ------
    ExpressionError
        The expression is not a condition, or fails on the data.
    """
    if not pa.types.is_boolean(bound.type):
        raise ExpressionError(f"{describe(bound.expr, 10)} is {bound.type}, not a condition")
    return evaluate(bound, table)


def compute(expr: Expr, table: pa.Table | pa.RecordBatch | None) -> Data:
    """Evaluate a bound node; constants give a scalar and need no table."""
    if isinstance(expr, Column):
        return _column(expr, table)
    if isinstance(expr, Literal):
        return scalar_of(expr)
    if not isinstance(expr, Call):
        raise TypeError(f"{type(expr).__name__} is not a node of an expression")
    lazy = _LAZY.get(expr.op)
    if lazy is not None:
        return lazy(expr, table)
    values = [compute(arg, table) for arg in expr.args]
    return _KERNELS[expr.op](*values)


def _column(column: Column, table: pa.Table | pa.RecordBatch | None) -> Data:
    if table is None:
        raise ExpressionError(f"{describe(column)} has no value without a table")
    values = table.column(column.path[0])
    if len(column.path) > 1:
        # Applies the nulls of the structs above.
        values = pc.struct_field(values, list(column.path[1:]))
    return values


@lru_cache(maxsize=4096)
def can_fail(expr: Expr) -> bool:
    """Whether evaluation may raise on some values: checked arithmetic, casts, calendars and growing text."""
    return any(isinstance(node, Call) and _may_raise(node) for node in walk(expr))


def _may_raise(call: Call) -> bool:
    if call.op in _FAILING_OF_COLUMNS:
        return not all(isinstance(arg, Literal) for arg in call.args[1:])
    return call.op in _FAILING


_FAILING = frozenset(
    (
        *"+ - * / % neg cast abs arrow unsafe_cast repeat replace".split(),
        *"at_time_zone date_bin date_part date_trunc from_unixtime make_date make_time to_char to_date to_local_time".split(),
        *"to_time to_timestamp to_timestamp_micros to_timestamp_millis to_timestamp_nanos to_timestamp_seconds".split(),
        "to_unixtime",
        *"stored json_get json_get_string json_get_int json_get_float json_get_bool".split(),
        *"json_extract json_exists json_array_contains json_array_length".split(),
        *"factorial gcd lcm chr overlay translate encode decode".split(),
        *"array_append array_concat array_distance array_prepend array_repeat array_resize array_slice".split(),
        *"array_to_string arrays_zip flatten generate_series make_array map range string_to_array".split(),
    )
)
# With constants these raise when they are bound, if at all.
_FAILING_OF_COLUMNS = frozenset(
    "split_part substr lpad rpad regexp_like regexp_match regexp_count regexp_instr regexp_replace".split()
)


# Logic


def _and(call: Call, table: Any) -> Data:
    return _logic(call, table, pc.and_kleene, decided=False)


def _or(call: Call, table: Any) -> Data:
    return _logic(call, table, pc.or_kleene, decided=True)


def _logic(call: Call, table: Any, join: Callable[..., Any], decided: bool) -> Data:
    found = compute(call.args[0], table)
    for arg in call.args[1:]:
        if can_fail(arg) and not isinstance(found, pa.Scalar):
            still_open = pc.fill_null(pc.not_equal(found, conversions.scalar_of(decided)), _TRUE)
            found = join(found, _where(arg, table, still_open))
        else:
            found = join(found, compute(arg, table))
    return found


def _where(expr: Expr, table: Any, rows: Data) -> Data:
    """Values of ``expr`` computed only where ``rows`` is true, null elsewhere."""
    wanted = to_numpy(rows)
    if wanted.all():
        return compute(expr, table)
    names = {node.path[0] for node in walk(expr) if isinstance(node, Column)}
    part = compute(
        expr, unsliced_rows(_without_views(table.select(sorted(names)))).filter(conversions.array_of(wanted))
    )
    if isinstance(part, pa.Scalar):
        return part
    places = conversions.array_of(np.cumsum(wanted) - 1, ~wanted)
    return part.take(places)


def _without_views(table: Any) -> Any:
    """The table with string and binary views as ordinary strings, as Arrow selects no rows of views."""
    for index, held in enumerate(table.schema):
        if pa.types.is_string_view(held.type) or pa.types.is_binary_view(held.type):
            values = pc.cast(table.column(index), plain_type(held.type))
            table = table.set_column(index, held.name, values)
    return table


def _case(call: Call, table: Any) -> Data:
    """CASE: the value of the first branch whose condition is true; later conditions are not evaluated there."""
    *branches, default = call.args
    conditions, values = branches[::2], branches[1::2]
    if table is not None:
        texts = tuple(scalar_of(v) for v in (*values, default) if isinstance(v, Literal))
        growth.mixed("CASE", texts, table.num_rows)
    if not any(can_fail(arg) for arg in call.args):
        tests = [compute(c, table) for c in conditions]
        if not all(isinstance(test, pa.Scalar) for test in tests):
            results = [compute(v, table) for v in (*values, default)]
            return pc.case_when(pc.make_struct(*tests), *results)
    if table is None:
        return _constant_case(conditions, values, default)
    waiting = conversions.array_of(np.ones(table.num_rows, np.bool_))
    tests, results = [], []
    for condition, value in zip(conditions, values, strict=True):
        hit = pc.and_(waiting, pc.fill_null(_full(_where(condition, table, waiting), table), _FALSE))
        tests.append(hit)
        results.append(_where(value, table, hit))
        waiting = pc.and_not(waiting, hit)
    results.append(_where(default, table, waiting))
    return pc.case_when(pc.make_struct(*tests), *results)


def _constant_case(conditions: Any, values: Any, default: Expr) -> Data:
    for condition, value in zip(conditions, values, strict=True):
        if compute(condition, None).as_py():
            return compute(value, None)
    return compute(default, None)


def _full(values: Data, table: Any) -> Data:
    return repeated(values, table.num_rows) if isinstance(values, pa.Scalar) else values


def _coalesce(call: Call, table: Any) -> Data:
    """The first value that is not null; later ones that may fail are computed only where all before are null."""
    kernel = FUNCTIONS["coalesce"].kernel
    first = next((place for place, arg in enumerate(call.args) if place and can_fail(arg)), len(call.args))
    found = kernel(*(compute(arg, table) for arg in call.args[:first]))
    for arg in call.args[first:]:
        if not isinstance(found, pa.Scalar):
            found = kernel(found, _where(arg, table, pc.is_null(found)))
        elif not found.is_valid:
            found = compute(arg, table)
    return found


# Comparisons


def _compare(op: str, kernel: Callable[..., Any]) -> Callable[[Call, Any], Data]:
    def run(call: Call, table: Any) -> Data:
        left, right = call.args
        judge = kernel
        if pa.types.is_nested(left.type):
            judge = partial(compare_nested, op)
        elif not share_type(left.type, right.type):
            # The binder leaves types without an exact common type as they are.
            judge = partial(compare, op)
        if isinstance(right, Literal):
            scalar = scalar_of(right)
            return _per_value(left, table, lambda values: judge(values, scalar))
        return judge(compute(left, table), compute(right, table))

    return run


def _per_value(tested: Expr, table: Any, run: Callable[[Data], Data]) -> Data:
    """Apply ``run`` to the operand; for dictionary columns, to the distinct values, and look up the answers."""
    decoded = isinstance(tested, Call) and tested.op == "decoded"
    coded = compute(tested.args[0] if isinstance(tested, Call) and decoded else tested, table)
    if not pa.types.is_dictionary(coded.type):
        return run(pc.cast(coded, tested.type) if decoded else coded)
    if not isinstance(coded, pa.ChunkedArray):
        return _per_code(coded, tested.type, run)
    if coded.num_chunks == 0:
        return run(pc.cast(coded, tested.type))
    return pa.chunked_array([_per_code(chunk, tested.type, run) for chunk in coded.chunks])


def _per_code(coded: pa.DictionaryArray, kind: Any, run: Callable[[Data], Data]) -> Data:
    if len(coded.dictionary) > len(coded):
        return run(_decode(coded, kind))
    values = coded.dictionary
    return looked_up(run(values if values.type == kind else pc.cast(values, kind)), coded.indices)


def _decode(coded: pa.DictionaryArray, kind: Any) -> pa.Array:
    # Converted before the look-up: Arrow cannot take from views, nor do anything else with half floats.
    values = coded.dictionary
    return (values if values.type == kind else pc.cast(values, kind)).take(coded.indices)


def _in(call: Call, table: Any) -> Data:
    tested, listed = call.args
    if not isinstance(listed, Literal) or not isinstance(listed.value, tuple):
        raise ExpressionError(f"{describe(listed)} is not a list of constants")
    has_null, members = None in listed.value, array_of(listed)

    def run(values: Data) -> Data:
        found = is_in(values, members)
        # is_in is false for a null; in SQL it is unknown, and so is a miss in a list that has a null.
        if has_null:
            return pc.if_else(found, _TRUE, _UNKNOWN)
        if isinstance(values, pa.Scalar) or values.null_count:
            return pc.if_else(pc.is_valid(values), found, _UNKNOWN)
        return found

    return _per_value(tested, table, run)


def _like(ignore_case: bool) -> Callable[[Call, Any], Data]:
    def run(call: Call, table: Any) -> Data:
        if not isinstance(call.args[1], Literal):
            return _like_columns(call, table, ignore_case)
        pattern, escape = (_constant(arg) for arg in call.args[1:])
        return _per_value(
            call.args[0], table, lambda values: match_like(values, pattern, escape, ignore_case)
        )

    return run


def _like_columns(call: Call, table: Any, ignore_case: bool) -> Data:
    """LIKE where each row has its own pattern."""
    escape = _constant(call.args[2])
    match = partial(match_like, escape=escape, ignore_case=ignore_case)
    return by_group(match, pa.bool_(), *(compute(arg, table) for arg in call.args[:2]))


def _constant(arg: Expr) -> Any:
    if not isinstance(arg, Literal):
        raise ExpressionError(f"{describe(arg)} is not constant")
    return arg.value


# Arithmetic and conversion


def _cast(call: Call, table: Any) -> Data:
    return cast_values(compute(call.args[0], table), call.args[1].type)


def _try_cast(call: Call, table: Any) -> Data:
    return try_cast_values(compute(call.args[0], table), call.args[1].type)


def _unsafe_cast(call: Call, table: Any) -> Data:
    values, target = compute(call.args[0], table), call.args[1].type
    if (family(values.type), family(target)) == ("text", "decimal"):
        # Arrow aborts the process for some exponents.
        return cast_values(values, target)
    return pc.cast(values, target, safe=False)


def _decode_call(call: Call, table: Any) -> Data:
    values = compute(call.args[0], table)
    if not pa.types.is_dictionary(values.type):
        return pc.cast(values, call.type)
    if isinstance(values, pa.ChunkedArray):
        return pa.chunked_array([_decode(chunk, call.type) for chunk in values.chunks], call.type)
    return _decode(values, call.type)


def _storage(values: Data) -> Data:
    # A JSON column whose stored form a scan has read, for the functions that take it.
    return storage(values) if isinstance(values.type, pa.BaseExtensionType) else json_functions.texts(values)


def _arrow(call: Call, table: Any) -> Data:
    from lancecy.expr.arrow import compute_opaque

    return compute_opaque(call, table)


def _function(name: str) -> Callable[[Call, Any], Data]:
    spec = FUNCTIONS[name]

    def run(call: Call, table: Any) -> Data:
        values: list[Any] = []
        for index, arg in enumerate(call.args):
            letters = spec.parameter(index)
            if letters == "CL" and isinstance(arg, Literal) and isinstance(arg.value, tuple):
                values.append(array_of(arg, True))
            elif letters[0] == "D" and isinstance(arg, Literal) and arg.value is not None:
                values.append(arg.value)
            elif letters[0] == "C" and letters != "CL":
                values.append(_constant(arg))
            else:
                values.append(compute(arg, table))
        return spec.kernel(*values)

    return run


_KERNELS: dict[str, Callable[..., Any]] = {
    "not": pc.invert,
    "is_null": pc.is_null,
    "is_true": lambda values: pc.fill_null(values, False),
    "+": calendar.plus,
    "-": calendar.take_away,
    "*": pc.multiply_checked,
    "/": divide,
    "%": remainder,
    "neg": calendar.negative,
    "||": lambda *values: growth.join("||", *values),
    "storage": _storage,
    "stored": json_functions.stored,
}

_LAZY: dict[str, Callable[[Call, Any], Any]] = {
    "and": _and,
    "or": _or,
    **{op: _compare(op, kernel) for op, kernel in COMPARISONS.items()},
    "in": _in,
    "like": _like(False),
    "ilike": _like(True),
    "case": _case,
    "cast": _cast,
    "try_cast": _try_cast,
    "unsafe_cast": _unsafe_cast,
    "decoded": _decode_call,
    "arrow": _arrow,
    **{name: _function(name) for name in FUNCTIONS},
    "coalesce": _coalesce,
}


# About how long each of these takes for a value, all others less than a nanosecond.
_NANOSECONDS = {
    "in": 3.0,
    "like": 20.0,
    "ilike": 30.0,
    "case": 10.0,
    "cast": 3.0,
    "try_cast": 3.0,
    "%": 3.0,
    "/": 3.0,
}
_OF_A_FUNCTION = 15.0


@lru_cache(maxsize=1024)
def evaluation_ns(expr: Expr) -> float:
    """About how many nanoseconds the evaluation of a bound expression takes for a row, apart from reading columns."""
    calls = (node.op for node in walk(expr) if isinstance(node, Call))
    return sum(_OF_A_FUNCTION if op in FUNCTIONS else _NANOSECONDS.get(op, 0.5) for op in calls)
