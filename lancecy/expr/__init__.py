"""Filters and computed columns.

===============  ==============================================================================
``nodes``        the tree: Column, Literal, Call
``build``        ``col("a") > 5``
``parsing``      SQL text, or any form of a filter, to a tree
``arrow``        pyarrow expressions to a tree
``describe``     a tree to SQL text
``kinds``        families of types, common types
``times``        dates and intervals as text and as integers
``periods``      intervals of months, days and a time
``type_names``   names of Arrow types as pylance writes them
``literals``     constants fitted to the types they are compared with
``clock``        ``now()`` and the like, replaced by the time at which a scan is described
``bound``        a tree bound to a schema
``binding``      binds a tree
``evaluation``   a bound tree over Arrow tables
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

from lancecy.expr.binding.bind import bind
from lancecy.expr.bound import Bound
from lancecy.expr.build import Term, col, lit
from lancecy.expr.clock import fix_clock, time_now
from lancecy.expr.describe import describe
from lancecy.expr.evaluation.evaluate import evaluate, evaluation_ns, mask
from lancecy.expr.falsify import falsify
from lancecy.expr.nodes import Expr, conjuncts
from lancecy.expr.parsing.parse import parse

__all__ = [
    "Bound",
    "Expr",
    "Term",
    "bind",
    "col",
    "conjuncts",
    "describe",
    "evaluate",
    "evaluation_ns",
    "falsify",
    "fix_clock",
    "lit",
    "mask",
    "parse",
    "time_now",
]
