"""Numbers and messages shared by the compiled kernels and their NumPy twins.

Kernels find faults without the GIL and return a code and an index; :func:`fail` raises the
exception for them, so both implementations raise the same class with the same text and
position. ``_ext/cursor.pxd`` repeats the fault numbers; a test compares them.
"""

from __future__ import annotations

from typing import NoReturn

from lancecy.errors import ExpressionError, FormatError, TruncatedError

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
FAULT_RUN = 12
FAULT_CHUNK_NEGATIVE = 13
FAULT_CHUNK_TRUNCATED = 14
FAULT_CHUNK_SHORT = 15
FAULT_CHUNK_COUNT = 16
FAULT_BIT_WIDTH = 17
FAULT_RUN_LENGTHS = 18
FAULT_CODED_OFFSETS = 19
FAULT_SYMBOL = 20
FAULT_LZ4 = 21
FAULT_TEXT_OFFSETS = 22
FAULT_CHUNK_OFFSETS = 30
FAULT_ENDS = 31
FAULT_TOO_MANY = 32
FAULT_LENGTH = 33
FAULT_CHUNK_PARTS = 34
FAULT_LEVEL = 35
FAULT_LEVEL_ORDER = 36
FAULT_GROUP_ROW = 37
FAULT_ENTRY = 38
FAULT_ENTRIES = 39
FAULT_JSON = 40
FAULT_JSON_TEXT = 41
FAULT_JSON_DEPTH = 42
FAULT_JSON_WALK = 43

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
    FAULT_RUN: (FormatError, "run {index} is not within its chunk"),
    FAULT_CHUNK_NEGATIVE: (FormatError, "chunk {index} has a negative position or length"),
    FAULT_CHUNK_TRUNCATED: (TruncatedError, "chunk {index} passes the end of the bytes present"),
    FAULT_CHUNK_SHORT: (TruncatedError, "chunk {index} is too short for its values"),
    FAULT_CHUNK_COUNT: (FormatError, "chunk {index} claims more than 1024 values"),
    FAULT_BIT_WIDTH: (FormatError, "chunk {index} claims an impossible bit width"),
    FAULT_RUN_LENGTHS: (FormatError, "run lengths of chunk {index} do not fit its values"),
    FAULT_CODED_OFFSETS: (FormatError, "offsets of value {index} descend or leave the bytes present"),
    FAULT_SYMBOL: (FormatError, "value {index} has a code without a symbol, or ends in an escape"),
    FAULT_LZ4: (FormatError, "block {index} is no LZ4 block of the length it claims"),
    FAULT_TEXT_OFFSETS: (FormatError, "offsets of string {index} descend or leave the bytes present"),
    FAULT_CHUNK_OFFSETS: (FormatError, "value offsets of row {index} descend or leave their chunk"),
    FAULT_ENDS: (FormatError, "end of row {index} descends or passes the values of its page"),
    FAULT_TOO_MANY: (FormatError, "more than 2^31-1 bytes or items at row {index}"),
    FAULT_LENGTH: (FormatError, "length of value {index} is negative"),
    FAULT_CHUNK_PARTS: (FormatError, "parts of chunk {index} pass its end"),
    FAULT_LEVEL: (FormatError, "level {index} is above what the layers of its page allow"),
    FAULT_LEVEL_ORDER: (FormatError, "entry {index} continues a list that is not there"),
    FAULT_GROUP_ROW: (FormatError, "range {index} asks for rows that its chunks do not have"),
    FAULT_ENTRY: (FormatError, "entry {index} is cut off"),
    FAULT_ENTRIES: (FormatError, "entry {index} is more than its page claims to have"),
    FAULT_JSON: (FormatError, "JSON value of row {index} is cut off, or of an unknown kind"),
    FAULT_JSON_TEXT: (FormatError, "text in the JSON value of row {index} is not UTF-8"),
    FAULT_JSON_DEPTH: (FormatError, "JSON value of row {index} is nested more than 128 deep"),
    FAULT_JSON_WALK: (
        ExpressionError,
        "the JSON path leads to the parts of row {index} in too many ways; write it with fewer .** and ranges",
    ),
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
    ExpressionError
        A path asks for too much.
    ValueError
        An output array has the wrong size.
    """
    kind, text = FAULTS[code]
    message = text.format(index=index)
    if issubclass(kind, FormatError):
        raise kind(message, position=index)
    raise kind(message)
