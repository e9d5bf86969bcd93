"""Filters and computed columns of any form, parsed to one expression tree.

SQL text, pyarrow expressions, terms of the builder, and the lists of ``(column, operator, value)`` that pandas and
Dask users write all become an :class:`~lancecy.expr.nodes.Expr`. Parsed text is cached.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from lancecy.errors import ExpressionError
from lancecy.expr.build import Term, as_expr, is_in
from lancecy.expr.nodes import COMPARISONS, Call, Column, Expr, chain, negate

if TYPE_CHECKING:
    Filter: TypeAlias = str | Term | Expr | pc.Expression | Sequence[object] | None

__all__ = ["parse"]

# Long texts, most of them lists of keys, are rarely parsed again much later, and what they become takes megabytes.
_LONG_TEXT = 10_000


def parse(x: Filter, schema: pa.Schema | None = None) -> Expr | None:
    """Parse a filter or a computed column of any form to an expression tree.

    Parameters
    ----------
    x : str, pyarrow.compute.Expression, Term, Expr, list or None
        A list is an AND of ``(column, operator, value)`` triples, a list of lists an OR of those.
    schema : pa.Schema, optional
        Not needed by any form so far; names are resolved by :func:`bind`.

    Returns
    -------
    Expr or None
        Names are resolved and types checked by :func:`bind`. None only for None.

    Raises
    ------
    ExpressionError
        It cannot be understood; ``text`` and ``position`` give the place.
    TypeError
        It is none of these forms.

    Examples
    --------
    >>> parse("a > 5 and b is null")
    <call a > 5 AND b IS NULL>
    >>> parse([("a", ">", 5), ("b", "in", [1, 2])])
    <call a > 5 AND b IN (1, 2)>
    """
    if x is None or isinstance(x, Expr):
        return x
    if isinstance(x, str):
        return _parse_text(x) if len(x) < _LONG_TEXT else _parse_long_text(x)
    if isinstance(x, Term):
        return x.expr
    if isinstance(x, pc.Expression):
        from lancecy.expr.arrow import from_arrow

        return from_arrow(x)
    if isinstance(x, (list, tuple)):
        return _parse_list(x)
    raise TypeError(
        f"a filter is SQL text, a pyarrow expression, or made of lancecy.col(...), not {type(x).__name__}"
    )


@lru_cache(maxsize=1024)
def _parse_text(text: str) -> Expr:
    from lancecy.expr.parsing.sql import from_sql

    return from_sql(text)


_parse_long_text = lru_cache(maxsize=8)(_parse_text.__wrapped__)


def _parse_list(items: Sequence[object]) -> Expr:
    if items and all(isinstance(item, (list, tuple)) for item in items):
        if all(len(item) == 3 and isinstance(item[0], str) for item in items):  # type: ignore[arg-type,index]
            return chain("and", [_parse_triple(*item) for item in items])  # type: ignore[misc]
        if not any(isinstance(item[0], str) for item in items if item):  # type: ignore[index]
            return chain("or", [_parse_list(item) for item in items])  # type: ignore[arg-type]
    raise ExpressionError(
        f"a list filter holds (column, operator, value) triples, not {items!r}", text=repr(items)
    )


def _parse_triple(name: str, op: str, value: object) -> Expr:
    known = {"==": "=", "<>": "!=", **{symbol: symbol for symbol in COMPARISONS}}
    column, op = Column((name,)), " ".join(str(op).lower().split())
    if op in known:
        return Call(known[op], (column, as_expr(value)))
    if op in ("in", "not in"):
        found = is_in(column, value)  # type: ignore[arg-type]
        return found if op == "in" else negate(found)
    if op in ("is", "is not") and value is None:
        null = Call("is_null", (column,))
        return null if op == "is" else negate(null)
    raise ExpressionError(f"operator {op!r} is not one of {', '.join(known)}, in, not in")
