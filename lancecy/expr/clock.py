"""The time in filters and computed columns: ``now()``, ``current_date`` and the like, replaced by their values.

Parsing and binding are cached and know no time. Whoever describes a scan takes the time once and puts it into the
tree, so that all tasks of the scan, on any machine, compare with the same instant.
"""

from __future__ import annotations

import time

import pyarrow as pa

from lancecy.errors import ColumnNotFoundError, ExpressionError
from lancecy.expr.binding.binder import Names
from lancecy.expr.evaluation.functions import BARE_CLOCK, CLOCK
from lancecy.expr.kinds import CLOCK_TYPE
from lancecy.expr.nodes import Call, Column, Expr, Literal, walk
from lancecy.expr.periods import DAY_NS

__all__ = ["fix_clock", "time_now"]


def time_now() -> int:
    """The present instant: nanoseconds since 1970 in UTC, in whole microseconds.

    Engines without nanoseconds, such as Spark, can hold it.
    """
    return time.time_ns() // 1000 * 1000


def fix_clock(expr: Expr, schema: pa.Schema, instant: int | None = None) -> Expr:
    """Replace ``now()``, ``current_date`` and the like by their values.

    Parameters
    ----------
    expr : Expr
        Not bound.
    schema : pa.Schema
        ``current_date``, ``current_time`` and ``current_timestamp`` without parentheses mean a column of that name
        if the schema has one.
    instant : int, optional
        From :func:`time_now`, which is the default.

    Raises
    ------
    ExpressionError
        A call has arguments.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from lancecy.expr import fix_clock, parse
    >>> fix_clock(parse("day < current_date"), pa.schema({"day": pa.date32()}), 1_700_000_000 * 10**9)
    <call day < date '2023-11-14'>
    """
    if not any(_clock_name(node) for node in walk(expr)):
        return expr
    return _fixed(expr, Names(schema), time_now() if instant is None else instant)


def _clock_name(node: Expr) -> str:
    """The name of the function of time that a node may be a call of; "" for other nodes."""
    if isinstance(node, Call):
        return node.op if node.op in CLOCK else ""
    if isinstance(node, Column) and not node.exact and len(node.path) == 1:
        name = node.path[0].lower()
        return name if name in BARE_CLOCK else ""
    return ""


def _fixed(expr: Expr, names: Names, instant: int) -> Expr:
    name = _clock_name(expr)
    if name and not (isinstance(expr, Column) and _is_column(expr, names)):
        if isinstance(expr, Call) and expr.args:
            raise ExpressionError(f"{name}() takes no arguments, not {len(expr.args)}")
        return _value(name, instant)
    if isinstance(expr, Call):
        return Call(expr.op, tuple(_fixed(arg, names, instant) for arg in expr.args), expr.type)
    return expr


def _is_column(column: Column, names: Names) -> bool:
    try:
        names.resolve(column.path, column.exact)
    except ColumnNotFoundError:
        return False
    return True


def _value(name: str, instant: int) -> Literal:
    day, of_day = divmod(instant, DAY_NS)
    if name in ("current_date", "today"):
        return Literal(day, pa.date32())
    return Literal(of_day, pa.time64("ns")) if name == "current_time" else Literal(instant, CLOCK_TYPE)
