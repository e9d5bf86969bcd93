"""Numbers and messages shared by the compiled kernels and their NumPy twins.

Kernels find faults without the GIL and return a code and an index; :func:`fail` raises the
exception for them, so both implementations raise the same class with the same text and
position. ``_ext/cursor.pxd`` repeats the fault numbers; a test compares them.
"""

from __future__ import annotations

from enum import Enum
from typing import NoReturn

from lancecy.errors import ExpressionError, FormatError, TruncatedError

__all__ = ["COSINE", "DOT", "EQ", "GE", "GT", "L2", "LE", "LT", "NE", "Fault", "fail"]

EQ, NE, LT, LE, GT, GE = range(6)
L2, COSINE, DOT = range(3)


class Fault(Enum):
    """A fault: its number in the compiled kernels, the class and the text of its exception."""

    NEGATIVE = (1, FormatError, "run {index} has a negative position or length")
    TRUNCATED = (2, TruncatedError, "run {index} passes the end of the bytes present")
    OUT_SIZE = (3, ValueError, "out does not have the size that the runs add up to")
    VALUE_OFFSETS = (4, FormatError, "value offsets of row {index} descend or leave the file")
    LIST_OFFSETS = (5, FormatError, "list offsets of row {index} descend or leave their child page")
    TOO_MANY_BYTES = (6, FormatError, "more than 2^31-1 bytes of strings at row {index}")
    TOO_MANY_ITEMS = (7, FormatError, "more than 2^31-1 list items at row {index}")
    CODE = (8, FormatError, "code of row {index} is not in the dictionary")
    PAGE_STARTS = (9, FormatError, "row starts of pages do not begin at 0 or descend at page {index}")
    ROW = (10, FormatError, "row number {index} of the request is beyond the pages")
    BOUND_OFFSETS = (11, FormatError, "offsets of the bounds of unit {index} descend or leave their bytes")
    RUN = (12, FormatError, "run {index} is not within its chunk")
    CHUNK_NEGATIVE = (13, FormatError, "chunk {index} has a negative position or length")
    CHUNK_TRUNCATED = (14, TruncatedError, "chunk {index} passes the end of the bytes present")
    CHUNK_SHORT = (15, TruncatedError, "chunk {index} is too short for its values")
    CHUNK_COUNT = (16, FormatError, "chunk {index} claims more than 1024 values")
    BIT_WIDTH = (17, FormatError, "chunk {index} claims an impossible bit width")
    RUN_LENGTHS = (18, FormatError, "run lengths of chunk {index} do not fit its values")
    CODED_OFFSETS = (19, FormatError, "offsets of value {index} descend or leave the bytes present")
    SYMBOL = (20, FormatError, "value {index} has a code without a symbol, or ends in an escape")
    LZ4 = (21, FormatError, "block {index} is no LZ4 block of the length it claims")
    TEXT_OFFSETS = (22, FormatError, "offsets of string {index} descend or leave the bytes present")
    CHUNK_OFFSETS = (30, FormatError, "value offsets of row {index} descend or leave their chunk")
    ENDS = (31, FormatError, "end of row {index} descends or passes the values of its page")
    TOO_MANY = (32, FormatError, "more than 2^31-1 bytes or items at row {index}")
    LENGTH = (33, FormatError, "length of value {index} is negative")
    CHUNK_PARTS = (34, FormatError, "parts of chunk {index} pass its end")
    LEVEL = (35, FormatError, "level {index} is above what the layers of its page allow")
    LEVEL_ORDER = (36, FormatError, "entry {index} continues a list that is not there")
    GROUP_ROW = (37, FormatError, "range {index} asks for rows that its chunks do not have")
    ENTRY = (38, FormatError, "entry {index} is cut off")
    ENTRIES = (39, FormatError, "entry {index} is more than its page claims to have")
    JSON = (40, FormatError, "JSON value of row {index} is cut off, or of an unknown kind")
    JSON_TEXT = (41, FormatError, "text in the JSON value of row {index} is not UTF-8")
    JSON_DEPTH = (42, FormatError, "JSON value of row {index} is nested more than 128 deep")
    JSON_WALK = (
        43,
        ExpressionError,
        "the JSON path leads to the parts of row {index} in too many ways; write it with fewer .** and ranges",
    )
    LEVEL_COUNT = (44, FormatError, "chunk {index} has another number of levels than of values")
    MESSAGE = (45, FormatError, "the bytes are no column metadata: they cannot be read from page {index} on")
    BUFFERS = (46, FormatError, "page {index} has not as many positions of buffers as sizes")
    ROW_COUNT = (47, FormatError, "in chunk {index} other rows begin than the index of its page says")


_BY_NUMBER = {fault.value[0]: fault for fault in Fault}


def fail(fault: Fault | int, index: int) -> NoReturn:
    """Raise the exception of a fault.

    Parameters
    ----------
    fault : Fault or int
        Compiled kernels give its number.
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
    _, kind, text = (_BY_NUMBER[fault] if isinstance(fault, int) else fault).value
    message = text.format(index=index)
    if issubclass(kind, FormatError):
        raise kind(message, position=index)
    raise kind(message)
