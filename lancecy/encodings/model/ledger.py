"""Bytes of a file that its columns take, so that overlapping claims do not multiply bytes.

Positions of a damaged file may all be in bounds and yet overlap: columns share pages, lists share elements, strings
share text. No writer does that, so each byte of a file may be taken once, by one column.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

from lancecy.errors import FormatError

__all__ = ["ByteLedger"]


class ByteLedger:
    """Counts the bytes of one file that its columns take; their sum never exceeds the file size.

    A column counts with the most bytes that one read of it took. In a file with overlapping columns, the first read
    that exceeds the file size fails, whichever column it is. Safe to share between threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken: dict[tuple[int, str], int] = {}
        self._total = 0

    def charge(self, column_id: int, part: str, nbytes: int, file_size: int) -> None:
        """Count bytes of the file for a part of a column.

        Parameters
        ----------
        column_id : int
        part : str
            Such as "pages" or "values"; parts of one column do not overlap in the file.
        nbytes : int, bytes
            Distinct bytes, however often each is read.
        file_size : int, bytes
            The same in all calls.

        Raises
        ------
        FormatError
            The file has fewer bytes left; nothing is counted then.

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
        self.charge_all({(column_id, part): nbytes}, file_size)

    def charge_all(self, taken: Mapping[tuple[int, str], int], file_size: int) -> None:
        """:meth:`charge` for several columns or parts of columns.

        Parameters
        ----------
        taken : mapping of (int, str) to int, bytes
            Number of bytes, by column and part.
        file_size : int, bytes

        Raises
        ------
        FormatError
            The file has fewer bytes left; only those that had room before are counted then.
        """
        with self._lock:
            for key, nbytes in taken.items():
                known = self._taken.get(key, 0)
                others = self._total - known
                if nbytes > file_size - others:
                    raise FormatError(
                        f"{key[1]} of column {key[0]} take {nbytes} bytes, where {max(0, file_size - others)} "
                        f"of {file_size} are left: columns overlap"
                    )
                if nbytes > known:
                    self._taken[key], self._total = nbytes, others + nbytes
