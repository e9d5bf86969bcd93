"""Columns that a filter tests for nulls and nothing else.

A scan reads only their levels or bitmaps, as null stubs (``encodings.blocks.null_only``). The filter then runs over
the stubs without the calls that prepare values for comparison: a stub is no dictionary and no JSON.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from lancecy.expr import Bound, Expr
from lancecy.expr.nodes import Call, Column
from lancecy.schema import Field

__all__ = ["NullTests", "null_tests"]

Path = tuple[str, ...]

_CONVERSIONS = frozenset(("decode", "storage"))
"""Calls that change the form of every value, and return null for null."""


@dataclass(frozen=True, slots=True)
class NullTests:
    """The fields of a filter that are read for their nulls only.

    Attributes
    ----------
    bound : Bound
        The filter, bound for tables with stubs of these fields.
    tested : mapping of Field to frozenset of int
        Pruned top-level fields, and the tested nodes of each.
    """

    bound: Bound
    tested: Mapping[Field, frozenset[int]] = field(default_factory=dict)


@lru_cache(maxsize=256)
def null_tests(bound: Bound, fields: tuple[Field, ...], returned: tuple[Field, ...]) -> NullTests:
    """Find the fields of a filter whose values need not be read.

    Parameters
    ----------
    bound : Bound
    fields : tuple of Field
        Fields of the filter, pruned.
    returned : tuple of Field
        Fields of the output: one that is read anyway is tested as it is, if reading it costs little.
    """
    uses: dict[Path, bool] = {}
    for path, is_test in _uses(bound.expr):
        uses[path] = uses.get(path, True) and is_test
    tested: dict[Field, frozenset[int]] = {}
    for top in fields:
        nodes = [_node(top, path) for path, is_test in uses.items() if path[0] == top.name and is_test]
        others = [path for path, is_test in uses.items() if path[0] == top.name and not is_test]
        if nodes and not others and _worthwhile(nodes) and (top not in returned or _is_large(top)):
            tested[top] = frozenset(node.id for node in nodes if node is not None)
    if not tested:
        return NullTests(bound)
    names = {top.name for top in tested}
    return NullTests(replace(bound, expr=_unconverted(bound.expr, names)), tested)


def _uses(expr: Expr) -> Iterator[tuple[Path, bool]]:
    """Yield every column of the tree, and whether it is tested for nulls there."""
    if isinstance(expr, Column):
        yield expr.path, False
    elif isinstance(expr, Call):
        column = _tested(expr)
        if column is not None:
            yield column.path, True
            return
        for arg in expr.args:
            yield from _uses(arg)


def _tested(call: Call) -> Column | None:
    """The column that ``call`` tests for nulls."""
    if call.op != "is_null":
        return None
    inner = call.args[0]
    while isinstance(inner, Call) and inner.op in _CONVERSIONS:
        inner = inner.args[0]
    return inner if isinstance(inner, Column) else None


def _unconverted(expr: Expr, names: set[str]) -> Expr:
    if not isinstance(expr, Call):
        return expr
    column = _tested(expr)
    if column is not None:
        return replace(expr, args=(column,)) if column.path[0] in names else expr
    args = tuple(_unconverted(arg, names) for arg in expr.args)
    return expr if args == expr.args else replace(expr, args=args)


def _node(top: Field, path: Path) -> Field | None:
    """The field at a path, if only structs are above it."""
    node = top
    for name in path[1:]:
        found = next((child for child in node.children if child.name == name), None)
        if found is None or not node.is_struct:
            return None
        node = found
    return node


def _worthwhile(nodes: Sequence[Field | None]) -> bool:
    """Whether these nodes can be read as stubs: known, apart from each other, and with nulls."""
    ids: set[int] = set()
    for node in nodes:
        if node is None or node.logical_type == "null" or not ids.isdisjoint(node.ids):
            return False
        ids |= node.ids
    return True


def _is_large(top: Field) -> bool:
    """Whether values take much longer to read than nulls: they are nested or vary in length."""
    return bool(top.children) or top.logical_type in _LARGE or top.logical_type.startswith("fixed_size_list")


_LARGE = frozenset(("string", "large_string", "binary", "large_binary", "json"))
