"""Filters and computed columns.

=============  ================================================================================
``nodes``      the tree: Column, Literal, Call
``build``      ``col("a") > 5``
``sql``        SQL text to a tree (sqlglot)
``convert``    pyarrow expressions to a tree
``parse``      any of these to a tree
``describe``   a tree to SQL text
``names``      column names to paths in a schema
``kinds``      families of types, common types
``times``      dates and intervals as text and as integers
``literals``   constants fitted to the types they are compared with
``arithmetic`` types of ``+ - * / %``
``functions``  the functions there are; ``lists`` and ``patterns`` are kernels of theirs
``bind``       a tree tied to a schema
``evaluate``   a bound tree over Arrow tables
``falsify``    a bound tree over statistics: which pages cannot match
=============  ================================================================================

What comparisons mean is the same in every form a filter can have. Floating point follows
Arrow: a NaN satisfies only ``!=`` and negations, and the two zeros are equal. pylance's SQL
ranks NaN above all numbers; on such rows the answers differ, on purpose. Logic is
three-valued, and a row is selected only where a filter is true.
"""

from __future__ import annotations

from lancecy.expr.bind import Bound, bind
from lancecy.expr.build import Term, col, lit
from lancecy.expr.describe import describe
from lancecy.expr.evaluate import evaluate, mask
from lancecy.expr.falsify import falsify
from lancecy.expr.nodes import Expr
from lancecy.expr.parse import parse

__all__ = ["Bound", "Expr", "Term", "bind", "col", "describe", "evaluate", "falsify", "lit", "mask", "parse"]
