"""AND and OR of what indices say about one fragment.

An answer is *exact*, or it has *at most* these rows. Both have every row for which the condition is true. The third
kind, *at least*, does not occur: a NOT is moved down to the conditions on single columns (``query``), and those are
answered as a whole, NOT included. Three-valued logic allows it: ``NOT (a AND b)`` is true for the rows for which
``NOT a`` or ``NOT b`` is true, whatever is null. So sets of rows for which a condition is null never leave the module
of their index.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lancecy.records import dataclass
from lancecy.rows import RowSelection

__all__ = ["RowAnswer", "all_of", "any_of"]


@dataclass(frozen=True, slots=True, eq=False)
class RowAnswer:
    """Rows of a fragment for which a condition is true, or may be.

    Attributes
    ----------
    rows : RowSelection
        All rows for which it is true; ascending.
    is_exact : bool
        Whether it is true for all of them.
    names : tuple of str
        The indices that were used.
    """

    rows: RowSelection
    is_exact: bool
    names: tuple[str, ...] = ()


def all_of(answers: Sequence[RowAnswer | None]) -> RowAnswer | None:
    """The answer to several conditions joined by AND; None if nothing is known.

    Parameters
    ----------
    answers : sequence of RowAnswer or None
        None: nothing is known of that condition.
    """
    known = [answer for answer in answers if answer is not None]
    if not known:
        return None
    rows = known[0].rows
    for other in known[1:]:
        rows = rows.intersect(other.rows)
    return RowAnswer(rows, len(known) == len(answers) and all(a.is_exact for a in known), _names(known))


def any_of(answers: Sequence[RowAnswer | None]) -> RowAnswer | None:
    """The answer to several conditions joined by OR; None if nothing is known of one of them.

    Parameters
    ----------
    answers : sequence of RowAnswer or None
        At least one.
    """
    known = [answer for answer in answers if answer is not None]
    if len(known) < len(answers):
        return None
    rows = known[0].rows
    for other in known[1:]:
        rows = _union(rows, other.rows)
    return RowAnswer(rows, all(answer.is_exact for answer in known), _names(known))


def _union(one: RowSelection, other: RowSelection) -> RowSelection:
    if one.is_all or not len(other):
        return one
    if other.is_all or not len(one):
        return other
    if one.indices is not None and other.indices is not None:
        return RowSelection.ascending(one.num_rows, np.union1d(one.indices, other.indices))
    return RowSelection.from_mask(one.to_mask() | other.to_mask())


def _names(answers: Sequence[RowAnswer]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for answer in answers for name in answer.names))
