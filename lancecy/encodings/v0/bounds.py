"""What the pages of a 0.1 file can hold at most, so that overlapping claims do not multiply bytes.

Positions and offsets in a file are single checks away from being in bounds, yet many of them may name
the same bytes: columns that share pages, lists that share elements, strings that share text. No writer
does that, hence each byte of a file is worth what it decodes to once, times how often the caller asks
for the same row: ``ByteLedger`` holds that for the columns of a file, ``check_elements`` for the lists
of a page.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from lancecy.errors import FormatError
from lancecy.rows import PageRuns

__all__ = ["Asked", "ByteLedger", "check_elements"]

Int64 = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Asked:
    """The rows a caller asked for, before lists turned them into elements.

    Attributes
    ----------
    runs : PageRuns
    """

    runs: PageRuns

    @cached_property
    def times(self) -> int:
        """How often the most wanted row is wanted: the deepest overlap of runs, at least 1.

        Examples
        --------
        >>> pages, starts, counts = np.zeros(3, np.int64), np.array([4, 0, 4]), np.array([1, 9, 1])
        >>> Asked(PageRuns(pages, starts, counts)).times
        3
        """
        # Rows of a page are below 2**32, so this is a line on which pages lie one after the other.
        begin = (self.runs.pages << 32) + self.runs.starts
        end = begin + self.runs.counts
        if bool((begin[1:] >= end[:-1]).all()):
            return 1
        # Ends go first, so that runs which touch do not overlap; sorting is stable.
        order = np.argsort(np.concatenate((end, begin)), kind="stable")
        depth = np.cumsum(np.where(order < end.size, -1, 1))
        return max(1, int(depth.max(initial=1)))


class ByteLedger:
    """How many bytes of one file its columns have taken so far; together never more than it has.

    What a column takes is the most that one read of it took. Reading the columns of an overlapping file
    therefore fails at the column that is too much, whichever that is. Safe to share between threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken: dict[tuple[int, str], int] = {}
        self._total = 0

    def charge(self, column_id: int, part: str, nbytes: int, file_size: int) -> None:
        """Note that a part of a column takes some bytes of the file.

        Parameters
        ----------
        column_id : int
        part : str
            Such as "pages" or "values"; parts of a column are apart from each other in the file.
        nbytes : int, bytes
            Each byte counted once, however often it is wanted.
        file_size : int, bytes
            The same in all calls.

        Raises
        ------
        FormatError
            It is more than the file has left; nothing is noted then.

        Examples
        --------
        >>> ledger = ByteLedger()
        >>> ledger.charge(0, "pages", 60, file_size=100)
        >>> ledger.charge(0, "pages", 50, file_size=100)
        >>> ledger.charge(1, "pages", 50, file_size=100)
        Traceback (most recent call last):
        ...
        lancecy.errors.FormatError: pages of column 1 take 50 bytes, where 40 of 100 are left: columns overlap
        """
        key = (column_id, part)
        with self._lock:
            others = self._total - self._taken.get(key, 0)
            if nbytes > file_size - others:
                raise FormatError(
                    f"{part} of column {column_id} take {nbytes} bytes, where {max(0, file_size - others)} "
                    f"of {file_size} are left: columns overlap"
                )
            if nbytes > self._taken.get(key, 0):
                self._taken[key], self._total = nbytes, others + nbytes

    def has(self, column_id: int, part: str, nbytes: int) -> bool:
        """Whether at least so many bytes are already noted."""
        return nbytes <= self._taken.get((column_id, part), 0)


def check_elements(total: int, child_lengths: Int64, runs: PageRuns, asked: Asked) -> None:
    """Refuse lists that have more elements than their pages: then lists of a page share elements.

    Parameters
    ----------
    total : int
        Elements of all selected lists.
    child_lengths : (num_runs,) int64
        Elements of the child page that each run points into.
    runs : PageRuns
        The selected lists.
    asked : Asked

    Raises
    ------
    FormatError
        More than each distinct page holds, as often as its rows are asked for.
    """
    if total <= int(child_lengths.min(initial=0)):
        return
    # Runs are mostly in page order; a page may still come up several times.
    _, first = np.unique(runs.pages, return_index=True)
    stored = int(child_lengths[first].sum())
    if total <= stored or total <= stored * asked.times:
        return
    raise FormatError(f"lists of {total} elements in pages of {stored}: lists overlap")
