"""Filters and computed columns.

===============  ==============================================================================
``nodes``        the tree: Column, Literal, Call
``build``        ``col("a") > 5``
``sql``          SQL text to a tree; ``sql_dialect`` configures sqlglot
``convert``      pyarrow expressions to a tree
``parse``        any of these to a tree
``describe``     a tree to SQL text
``names``        column names to paths in a schema
``kinds``        families of types, common types
``times``        dates and intervals as text and as integers
``exact``        comparisons of two types that have no exact common type
``literals``     constants fitted to the types they are compared with
``arithmetic``   types of ``+ - * / %``
``functions``    the table of functions; ``lists``, ``patterns``, ``instants``, ``values`` are kernels
``casts``        CAST between types; ``decimals`` are rounded there
``growth``       functions whose text may grow, and the bound on it
``bound``        a tree bound to a schema
``bind``         binds a tree: ``binder`` walks it by the rules in ``bind_*``
``evaluate``     a bound tree over Arrow tables
``falsify``      a bound tree over statistics: which pages cannot match
===============  ==============================================================================

Logic is three-valued, and a row is selected only where a filter is true. Comparisons mean
the same in every form a filter can have:

- Floating point follows Arrow: a NaN satisfies only ``!=`` and negations, and the two zeros
  are equal. pylance's SQL ranks NaN above all numbers; on such rows we differ, on purpose.
- Numbers are compared exactly, whatever their types: ``int8_column < 1000`` is true,
  ``int_column = 1.5`` is false, and no integer or decimal is rounded to meet a float. So are
  dates, timestamps, times and intervals of different units. The one exception is pylance's:
  a number written without a type becomes a value of the float column it meets, so that
  ``float32_column = 0.1`` finds what was stored as 0.1. ``lit(0.1, pa.float64())``, like a
  double in a pyarrow expression, stays exact.
- Arithmetic, CASE, coalesce, greatest and least give one type: an integer or a decimal that
  meets a float there becomes a double first.
- Integers divide to integers, truncating. Overflow and division by zero are errors, where
  pylance wraps around; ``x != 0 AND 10 / x > 2`` is safe in either order.
- CAST gives the exact value, the nearest one (floats, decimals), or an error.
"""

from __future__ import annotations

from lancecy.expr.bind import bind
from lancecy.expr.bound import Bound
from lancecy.expr.build import Term, col, lit
from lancecy.expr.describe import describe
from lancecy.expr.evaluate import evaluate, mask
from lancecy.expr.falsify import falsify
from lancecy.expr.nodes import Expr, conjuncts
from lancecy.expr.parse import parse

__all__ = [
    "Bound",
    "Expr",
    "Term",
    "bind",
    "col",
    "conjuncts",
    "describe",
    "evaluate",
    "falsify",
    "lit",
    "mask",
    "parse",
]
