"""Binding an expression to a schema: names resolved, types checked, literals typed.

The bound tree consists of the same nodes, each with its type, in a smaller language: constants are folded, literals
have exactly the type of the column they are compared with, implicit conversions are visible as casts, IS [NOT]
DISTINCT FROM and the like are spelled out. ``evaluate`` defines its meaning; ``falsify`` reads the same tree.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import pyarrow as pa

from lancecy.errors import ExpressionError
from lancecy.expr.binding import conditions, values
from lancecy.expr.binding.binder import Binder, Rule, as_condition
from lancecy.expr.bound import Bound
from lancecy.expr.describe import describe
from lancecy.expr.evaluation import growth
from lancecy.expr.nodes import COMPARISONS, Column, Expr, walk
from lancecy.limits import CONSTANT_BYTES

__all__ = ["bind"]


def bind(expr: Expr, schema: pa.Schema, *, boolean: bool = False) -> Bound:
    """Bind an expression to a schema.

    Parameters
    ----------
    expr : Expr
        From :func:`parse` or a term's ``.expr``.
    schema : pa.Schema
        Schema of the tables it will be evaluated on. Binding to the same object again costs microseconds.
    boolean : bool
        Require a condition, as for a filter.

    Raises
    ------
    ColumnNotFoundError
        A name is not in the schema; the message has the nearest ones.
    ExpressionError
        Types do not fit, an unknown function, a constant part that fails.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from lancecy.expr import parse
    >>> bound = bind(parse("s.x > 5"), pa.schema({"s": pa.struct({"x": pa.int8()})}))
    >>> bound.columns, bound.paths, bound.type
    (('s',), (('s', 'x'),), DataType(bool))
    """
    return _bind_cached(expr, _Identity(schema), boolean)


class _Identity:
    """A schema compared by identity: hashing one by value takes longer than binding."""

    __slots__ = ("schema",)

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and self.schema is other.schema

    def __hash__(self) -> int:
        return id(self.schema)


@lru_cache(maxsize=256)
def _bind_cached(expr: Expr, key: _Identity, boolean: bool) -> Bound:
    binder = Binder(key.schema, _RULES, values.function)
    try:
        with growth.allowance(CONSTANT_BYTES):
            typed = binder.root(expr)
        if boolean:
            typed = as_condition(typed, "a filter")
    except ExpressionError as error:
        error.text = error.text or describe(expr, max_values=10)
        raise
    paths = {node.path for node in walk(typed) if isinstance(node, Column)}
    order = binder.names.positions
    ordered = tuple(sorted(paths, key=lambda path: (order[path[0]], path)))
    columns = tuple(dict.fromkeys(path[0] for path in ordered))
    return Bound(typed, typed.type or pa.null(), columns, ordered)


_RULES: Mapping[str, Rule] = {
    "and": conditions.logic,
    "or": conditions.logic,
    "not": conditions.invert,
    "is_true": conditions.is_true,
    "is_null": conditions.is_null,
    **dict.fromkeys(COMPARISONS, conditions.comparison),
    "is_not_distinct": conditions.not_distinct,
    "in": conditions.within,
    "like": conditions.like,
    "ilike": conditions.like,
    "||": values.concatenation,
    **dict.fromkeys("+-*/%", values.arithmetic),
    "neg": values.negative,
    "cast": values.cast,
    "try_cast": values.try_cast,
    "unsafe_cast": values.cast,
    "case": values.case,
    "arrow": values.opaque,
    "search": values.search,
}
