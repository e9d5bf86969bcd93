"""Numbers and messages shared by the compiled kernels and their NumPy twins.

Kernels find faults without the GIL and hand them out as a code and an index;
:func:`fail` turns the pair into the exception, so both implementations raise the
same class with the same text and position. The fault numbers stand a second time
in ``_ext/cursor.pxd``; a test compares them.

Imports only ``errors``.
"""

from __future__ import annotations

from typing import NoReturn

from lancecy.errors import FormatError, TruncatedError

__all__ = ["EQ", "FAULTS", "GE", "GT", "LE", "LT", "NE", "fail"]

EQ, NE, LT, LE, GT, GE = range(6)

FAULT_NEGATIVE = 1
FAULT_TRUNCATED = 2
FAULT_OUT_SIZE = 3
FAULT_VALUE_OFFSETS = 4
FAULT_LIST_OFFSETS = 5
FAULT_TOO_MANY_BYTES = 6
FAULT_TOO_MANY_ITEMS = 7
FAULT_CODE = 8
FAULT_PAGE_STARTS = 9
FAULT_ROW = 10
FAULT_BOUND_OFFSETS = 11

FAULTS: dict[int, tuple[type[Exception], str]] = {
    FAULT_NEGATIVE: (FormatError, "run {index} has a negative position or length"),
    FAULT_TRUNCATED: (TruncatedError, "run {index} passes the end of the bytes present"),
    FAULT_OUT_SIZE: (ValueError, "out does not have the size that the runs add up to"),
    FAULT_VALUE_OFFSETS: (FormatError, "value offsets of row {index} descend or leave the file"),
    FAULT_LIST_OFFSETS: (FormatError, "list offsets of row {index} descend or leave their child page"),
    FAULT_TOO_MANY_BYTES: (FormatError, "more than 2^31-1 bytes of strings at row {index}"),
    FAULT_TOO_MANY_ITEMS: (FormatError, "more than 2^31-1 list items at row {index}"),
    FAULT_CODE: (FormatError, "code of row {index} is not in the dictionary"),
    FAULT_PAGE_STARTS: (FormatError, "row starts of pages do not begin at 0 or descend at page {index}"),
    FAULT_ROW: (FormatError, "row number {index} of the request is beyond the pages"),
    FAULT_BOUND_OFFSETS: (FormatError, "offsets of the bounds of unit {index} descend or leave their bytes"),
}


def fail(code: int, index: int) -> NoReturn:
    """Raise the exception of a fault code.

    Parameters
    ----------
    code : int
        One of the keys of ``FAULTS``.
    index : int
        First bad run, row or unit; becomes ``position`` of the error.

    Raises
    ------
    FormatError, TruncatedError
        The input is bad; ``position`` is ``index``.
    ValueError
        An output array does not fit (a mistake of the caller).
    """
    kind, text = FAULTS[code]
    message = text.format(index=index)
    if issubclass(kind, FormatError):
        raise kind(message, position=index)
    raise kind(message)
