"""NGRAM: the rows of each run of three letters or digits in texts, as a set of row ids.

``ngram_postings.lance`` has the columns ``tokens`` and ``posting_list``, one row per run. Texts are taken in lower case
and without accents, and a run is written as a number: digits are 1 to 10, letters 11 to 36, in base 37. Only runs of ASCII
are looked up here: every text with such a run in any case is in its set, whatever stands around it.

A text that has all runs of a pattern may still not match it, so an answer is always *at most*.

Source: sheet of indices, section B8; what pylance 14 writes for every character up to U+3000.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import product
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancecy.encodings.arrow.conversions import numbers_of
from lancecy.errors import FormatError, UnsupportedError
from lancecy.expr.evaluation.patterns import like_texts
from lancecy.expr.kinds import family
from lancecy.expr.nodes import Call, Column, Expr, Literal
from lancecy.index.bitmap import KeyedSets
from lancecy.index.condition import Condition
from lancecy.index.found import FoundRows
from lancecy.index.row_sets import decode_row_map
from lancecy.index.segment import Segment
from lancecy.kernels.sorting import sorted_order
from lancecy.records import dataclass

__all__ = ["NGRAM_COLUMNS", "NGRAM_FILE", "NGram", "needed_runs"]

Int64: TypeAlias = NDArray[np.int64]
UInt32: TypeAlias = NDArray[np.uint32]
UInt64: TypeAlias = NDArray[np.uint64]
Runs: TypeAlias = frozenset[int]

NGRAM_FILE = "ngram_postings.lance"
NGRAM_COLUMNS = ("tokens", "posting_list")
_BASE = 37
_RUNS = re.compile("(?=([0-9A-Za-z]{3}))")
# Further runs of a pattern leave out few more rows.
_MOST_RUNS = 16
_MOST_WAYS = 64


@dataclass(frozen=True, slots=True, eq=False)
class NGram:
    """An opened NGRAM segment.

    Attributes
    ----------
    sets : KeyedSets
    order : (n,) int64
        Row of each run in the file, runs ascending.
    runs : (n,) uint32
        Ascending.
    """

    sets: KeyedSets
    order: Int64
    runs: UInt32

    @classmethod
    def open(cls, segment: Segment) -> NGram:
        """Open the file of a segment.

        Raises
        ------
        FormatError, LimitError, UnsupportedError
            It is damaged, or not of texts.
        DatasetNotFoundError
            It is missing.
        """
        if family(segment.data_type) != "text":
            raise UnsupportedError(f"an NGRAM index on {segment.data_type}", feature="NGRAM of such columns")
        sets = KeyedSets.open(segment, pa.uint32(), NGRAM_FILE, NGRAM_COLUMNS)
        # Rows of nulls may have no run.
        known = np.flatnonzero(numbers_of(sets.keys.is_valid()))
        runs = numbers_of(sets.keys.drop_null())
        order = sorted_order(runs)
        found = runs[order]
        if bool((found[1:] == found[:-1]).any()):
            raise FormatError("a run of letters is there twice").within(sets.file.source.path)
        return cls(sets, known[order], found)

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self.sets.nbytes + int(self.order.nbytes + self.runs.nbytes)

    def find(self, condition: Condition, segment: Segment) -> FoundRows | None:
        """The rows whose text has the runs that a condition needs; None if it needs none.

        Raises
        ------
        FormatError, LimitError
            The sets are damaged.
        """
        ways = needed_runs(condition.bound.expr)
        if ways is None:
            return None
        found = [self._ids(way, segment) for way in ways]
        ids = np.concatenate([np.empty(0, np.uint64), *found])
        return FoundRows(segment.places.of_ids(ids), is_exact=False)

    def _ids(self, wanted: Runs, segment: Segment) -> UInt64:
        """Ids of the rows that have all of some runs."""
        numbers = np.array(sorted(wanted)[:_MOST_RUNS], np.uint32)
        at = np.searchsorted(self.runs, numbers)
        if bool((at == self.runs.size).any()) or bool((self.runs[at] != numbers).any()):
            return np.empty(0, np.uint64)
        limits = self.sets.file.limits
        sets = self.sets.sets(np.sort(self.order[at]))
        each = sorted((segment.places.ids_in(decode_row_map(memory, limits)) for memory in sets), key=len)
        found = each[0]
        for other in each[1:]:
            found = _in_both(found, other)
        return found


def _in_both(few: UInt64, many: UInt64) -> UInt64:
    """The ids that are in both of two ascending arrays without duplicates; ``many`` is the longer one."""
    at = np.searchsorted(many, few)
    inside = few[: np.searchsorted(at, many.size)]
    found: UInt64 = inside[many[at[: inside.size]] == inside]
    return found


def needed_runs(expr: Expr) -> tuple[Runs, ...] | None:
    """The runs of letters that a text has for which a condition is true: all runs of one of the sets.

    Parameters
    ----------
    expr : Expr
        Bound; on one column.

    Returns
    -------
    tuple of frozenset of int, or None
        None if a text without any run may do.

    Examples
    --------
    >>> from lancecy.expr import bind, parse
    >>> import pyarrow as pa
    >>> bound = bind(parse("s LIKE '%abc%0z1'"), pa.schema({"s": pa.string()}), boolean=True)
    >>> [sorted(runs) for runs in needed_runs(bound.expr)]
    [[2703, 15516]]
    """
    if not isinstance(expr, Call):
        return None
    if expr.op in ("and", "or"):
        parts = [needed_runs(arg) for arg in expr.args]
        return _of_all(parts) if expr.op == "and" else _of_any(parts)
    if expr.op == "is_true":
        return needed_runs(expr.args[0])
    texts = _TEXTS.get(expr.op)
    if texts is None or not isinstance(expr.args[0], Column):
        return None
    constants = [arg.value if isinstance(arg, Literal) else None for arg in expr.args[1:]]
    return _of_any([_of_texts(way) for way in texts(*constants)])


def _of_all(parts: list[tuple[Runs, ...] | None]) -> tuple[Runs, ...] | None:
    """What all of some conditions need."""
    known = sorted((part for part in parts if part is not None), key=len)
    if not known:
        return None
    found = known[0]
    for other in known[1:]:
        if len(found) * len(other) > _MOST_WAYS:
            break
        found = tuple(one | more for one, more in product(found, other))
    return found


def _of_any(parts: list[tuple[Runs, ...] | None]) -> tuple[Runs, ...] | None:
    """What one of some conditions needs."""
    found = tuple(dict.fromkeys(way for part in parts if part is not None for way in part))
    return None if len(found) > _MOST_WAYS or any(part is None for part in parts) else found


def _of_texts(texts: list[str] | None) -> tuple[Runs, ...] | None:
    """What a text needs that contains all of some texts."""
    found = frozenset(_number(match[1].lower()) for text in texts or () for match in _RUNS.finditer(text))
    return (found,) if found else None


def _number(run: str) -> int:
    first, second, third = (int(char, 36) + 1 for char in run)
    return (first * _BASE + second) * _BASE + third


def _contained(text: object, *more: object) -> list[list[str] | None]:
    return [[text] if isinstance(text, str) and not more else None]


def _listed(values: object) -> list[list[str] | None]:
    """Texts one of which the whole text is; a null is equal to none."""
    each = values if isinstance(values, tuple) else (values,)
    return [[value] if isinstance(value, str) else None for value in each if value is not None]


def _pattern(pattern: object, escape: object = "") -> list[list[str] | None]:
    return [like_texts(pattern, escape) if isinstance(pattern, str) and isinstance(escape, str) else None]


def _expression(pattern: object, *flags: object) -> list[list[str] | None]:
    """A regular expression without special characters is a text."""
    is_plain = isinstance(pattern, str) and re.fullmatch(r"[\w ]*", pattern) is not None
    return _contained(pattern, *flags) if is_plain else [None]


# Ways to be true; each the texts that are contained, None if unknown.
_TEXTS: dict[str, Callable[..., list[list[str] | None]]] = {
    "=": _listed,
    "in": _listed,
    "like": _pattern,
    "ilike": _pattern,
    "contains": _contained,
    "starts_with": _contained,
    "ends_with": _contained,
    "regexp_like": _expression,
    "regexp_match": _expression,
}
