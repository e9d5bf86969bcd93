"""Bytes of a file that its columns take, so that overlapping claims do not multiply bytes.

Each position in a file may be in bounds, yet many may name the same bytes: columns that share pages, lists that
share elements, strings that share text. No writer does that, so each byte of a file counts once, for any
column.
"""

from __future__ import annotations

import threading

from lancecy.errors import FormatError

__all__ = ["ByteLedger"]


class ByteLedger:
    """Counts the bytes of one file that its columns take; together never more than it has.

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
        """Whether at least so many bytes are noted."""
        return nbytes <= self._taken.get((column_id, part), 0)
