"""An expression bound to a schema: the result of ``bind``, the input of ``evaluate`` and ``falsify``."""

from __future__ import annotations

from dataclasses import field

import pyarrow as pa

from lancecy.expr.describe import describe
from lancecy.expr.nodes import Column, Expr, walk
from lancecy.records import dataclass

__all__ = ["Bound"]


@dataclass(frozen=True, slots=True)
class Bound:
    """An expression bound to a schema. Immutable, picklable, compared by meaning.

    Attributes
    ----------
    expr : Expr
        The typed tree.
    type : pa.DataType
        Type of its values.
    columns : tuple of str
        Top-level columns it reads, in schema order.
    paths : tuple of tuple of str
        Fields it reads, such as ``("a", "b")``, in schema order of their columns.
    """

    expr: Expr
    # Extension types written in Python need not be hashable; the tree determines everything.
    type: pa.DataType = field(hash=False)
    columns: tuple[str, ...]
    paths: tuple[tuple[str, ...], ...]

    def restricted(self, expr: Expr) -> Bound:
        """Make a part of this tree an expression of its own.

        Parameters
        ----------
        expr : Expr
            A node of ``self.expr``, or several of them joined.
        """
        read = {node.path for node in walk(expr) if isinstance(node, Column)}
        paths = tuple(path for path in self.paths if path in read)
        return Bound(expr, expr.type or pa.null(), tuple(dict.fromkeys(path[0] for path in paths)), paths)

    def __str__(self) -> str:
        return describe(self.expr, max_values=10)
