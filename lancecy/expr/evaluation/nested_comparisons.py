"""Comparisons of lists, structs and maps by what they hold, in order: the first difference decides."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from lancecy.expr.evaluation.constants import COMPARISONS
from lancecy.expr.evaluation.list_keys import keys_of_all
from lancecy.expr.evaluation.lists import by_rows, elements_of
from lancecy.expr.evaluation.values import Data

__all__ = ["compare_nested"]


def compare_nested(op: str, left: Data, right: Data) -> Data:
    """Compare lists, structs or maps of one type.

    Members are the same if their bits are: NaN is itself, and above all numbers; -0.0 is below 0.0; a null is a null,
    and below all values. A list is below those that continue it.

    Parameters
    ----------
    op : "=", "!=", "<", "<=", ">" or ">="
    left, right : pa.Array, pa.ChunkedArray or pa.Scalar

    Returns
    -------
    pa.Array, pa.ChunkedArray or pa.Scalar
        Boolean, null where either side is.

    Raises
    ------
    ExpressionError
        Members have a type whose values cannot be told apart.

    Examples
    --------
    >>> compare_nested("=", pa.array([[1, None], [2], None]), pa.scalar([1, None])).to_pylist()
    [True, False, None]
    """

    def run(rows: int, one: Any, other: Any) -> pa.Array:
        (one, mine), (other, theirs) = elements_of(one, rows), elements_of(other, rows)
        first, second = keys_of_all(one, other, ordered=op not in ("=", "!="))
        sides = (pa.array(numbers, mask=numbers == 0) for numbers in (first[mine], second[theirs]))
        return COMPARISONS[op](*sides)

    return by_rows(run, left, right)
