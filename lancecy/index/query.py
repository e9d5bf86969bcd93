"""A condition of a filter as a tree of conditions on single columns.

A part that reads one column stays whole, whatever it does with it. Parts on several columns are split at AND and OR,
with NOT moved down by De Morgan's laws. A condition on elements of a list is split as far as it goes. A column of an
extension type is read as the values under it, which are what indices have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeAlias

import pyarrow as pa

from lancecy.expr import Bound, Expr
from lancecy.expr.evaluation.evaluate import can_fail
from lancecy.expr.kinds import family
from lancecy.expr.nodes import Call, Column, Literal, negate, walk
from lancecy.index.answers import RowAnswer, all_of, any_of
from lancecy.index.condition import Condition
from lancecy.records import dataclass

__all__ = ["Query", "Types", "answer", "query_of", "ruled_out"]

Types: TypeAlias = Mapping[tuple[str, ...], pa.DataType]
"""The columns with an index, and the types of its values."""


@dataclass(frozen=True, slots=True)
class Query:
    """A node of the tree.

    Attributes
    ----------
    op : str
        "and", "or" or "condition".
    parts : tuple of Query or None
        Of AND and OR; None is a part that no index can answer.
    condition : Condition or None
    """

    op: str
    parts: tuple[Query | None, ...] = ()
    condition: Condition | None = None


def query_of(bound: Bound, expr: Expr, indexed: Types) -> Query | None:
    """The tree of a condition; None if no index can answer it.

    Parameters
    ----------
    bound : Bound
        The filter.
    expr : Expr
        One of its conditions.
    indexed : mapping of path to type
    """
    return _query(bound, expr, indexed, negated=False)


def answer(query: Query, ask: Callable[[Condition], RowAnswer | None]) -> RowAnswer | None:
    """The answer to a tree; None if nothing is known.

    Parameters
    ----------
    query : Query
    ask : function of a Condition
        Answers a condition on one column.
    """
    if query.condition is not None:
        return ask(query.condition)
    found = [None if part is None else answer(part, ask) for part in query.parts]
    return all_of(found) if query.op == "and" else any_of(found)


def ruled_out(query: Query, ask: Callable[[Condition], frozenset[int]]) -> frozenset[int]:
    """The fragments without a row for which a tree is true, as far as known.

    Parameters
    ----------
    query : Query
    ask : function of a Condition
        Those of a condition on one column.
    """
    if query.condition is not None:
        return ask(query.condition)
    parts = [frozenset[int]() if part is None else ruled_out(part, ask) for part in query.parts]
    return frozenset.union(*parts) if query.op == "and" else frozenset.intersection(*parts)


def _query(bound: Bound, expr: Expr, indexed: Types, negated: bool) -> Query | None:
    paths = {node.path for node in walk(expr) if isinstance(node, Column)}
    if not paths.intersection(indexed):
        return None
    path = next(iter(paths))
    if len(paths) == 1 and (family(indexed[path]) != "list" or _is_of_elements(expr)):
        stored = None if can_fail(expr) else _of_stored(expr)
        if stored is None:
            return None
        whole = negate(stored) if negated else stored
        if whole.type is None:
            whole = Call("not", (stored,), pa.bool_())
        return Query("condition", condition=Condition(bound.restricted(whole), path))
    if not isinstance(expr, Call) or expr.op not in ("and", "or", "not"):
        return None
    if expr.op == "not":
        return _query(bound, expr.args[0], indexed, not negated)
    parts = tuple(_query(bound, arg, indexed, negated) for arg in expr.args)
    op = {"and": "or", "or": "and"}[expr.op] if negated else expr.op
    useful = any(parts) if op == "and" else all(parts)
    return Query(op, parts) if useful else None


def _of_stored(expr: Expr) -> Expr | None:
    """The same condition on the values under extension types; None if it needs the extensions."""
    if isinstance(expr, Column):
        return None if isinstance(expr.type, pa.BaseExtensionType) else expr
    if not isinstance(expr, Call):
        return expr
    column = expr.args[0] if expr.op in ("storage", "is_null") else None
    if isinstance(column, Column) and isinstance(column.type, pa.BaseExtensionType):
        stored = replace(column, type=column.type.storage_type)
        return stored if expr.op == "storage" else replace(expr, args=(stored,))
    args = tuple(_of_stored(arg) for arg in expr.args)
    found = tuple(arg for arg in args if arg is not None)
    return replace(expr, args=found) if len(found) == len(args) else None


def _is_of_elements(expr: Expr) -> bool:
    """Whether a condition on a list is true if it is true for one of its elements."""
    if not isinstance(expr, Call) or expr.op not in ("array_has", "array_has_any"):
        return False
    lists, wanted = expr.args
    if isinstance(lists, Call) and lists.op in ("decode", "storage"):
        lists = lists.args[0]
    # Elements that are null are in no index.
    return (
        isinstance(lists, Column)
        and isinstance(wanted, Literal)
        and not (isinstance(wanted.value, tuple) and None in wanted.value)
    )
