"""A long list of fragments as columns, checked at once, so that opening a table need not build them.

Messages become columns (``message_columns``). A value missing in a message would shift its column, so a mark
that no accepted message can hold precedes each message; marks in a file only make their number wrong.

For anything unusual :func:`check_bulk` returns None, and ``wire.manifest`` checks the fragments one by one and
raises the error, if there is one.

Facts: table sheet, section 2.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lancecy.limits import Limits
from lancecy.table.fragment_table import FileForm, FragmentTable
from lancecy.table.wire.message_columns import parsed_columns

__all__ = ["MIN_FRAGMENTS", "check_bulk"]

Int64 = NDArray[np.int64]

MIN_FRAGMENTS = 48
"""Shorter lists are faster to build than to check in bulk."""

# Beyond the range of fragment ids, row counts and field ids.
_MARK = (1 << 64) - 1
_FIELD_MARK = -(1 << 31)
_VARINT_MARK = b"\xff" * 9 + b"\x01"
_DELETION_MARK = b"\x20" + _VARINT_MARK
_NO_FILE = b"\xff"
"""Stands among the files for the beginning of a fragment; it is no message."""
_FRAGMENT_MARK = b"".join(
    (
        b"\x08" + _VARINT_MARK,
        b"\x12" + bytes([len(_NO_FILE)]) + _NO_FILE,
        b"\x1a" + bytes([len(_DELETION_MARK)]) + _DELETION_MARK,
        b"\x20" + _VARINT_MARK,
    )
)
_PACKED_MARK = b"\x0a\x80\x80\x80\x80\xf8\xff\xff\xff\xff\x01"
# Versions and bases have 32 bits: as a mark the largest number would read as 2**32 - 1, which no file states.
_FILE_MARK = b"".join(
    (
        b"\x12" + _PACKED_MARK,
        b"\x1a" + _PACKED_MARK,
        *(bytes([number << 3]) + _VARINT_MARK for number in (4, 5, 6, 7)),
    )
)
_SMALL_MARK = (1 << 32) - 1


def check_bulk(manifest: bytes, count: int, limits: Limits) -> FragmentTable | None:
    """The fragments of a manifest as columns, None if any of them needs a separate check.

    Parameters
    ----------
    manifest : bytes
        A serialized ``lance.table.Manifest`` that was already parsed, so its parts are valid messages.
    count : int
        Number of its fragments.

    Returns
    -------
    FragmentTable or None
        Not None only if ids ascend and fit into 32 bits, row counts are within ``limits``, deletions
        do not exceed them and have a known type, every file names as many columns as fields or
        none, and no unsupported feature is used. None implies nothing.
    """
    pieces = list(parsed_columns("Manifest", manifest).fragments)
    if len(pieces) != count:
        return None
    table = parsed_columns("Fragments", _marked(_FRAGMENT_MARK, pieces))
    if table.overlays or table.row_id_columns or table.updated_columns or table.created_columns:
        return None
    ids = _aligned(np.array(table.id, np.uint64), count)
    rows = _aligned(np.array(table.physical_rows, np.uint64), count)
    deletions = _deletions(list(table.deletion_files), count)
    pieces = list(table.files)
    edges = np.flatnonzero(np.array([piece == _NO_FILE for piece in pieces], np.bool_))
    files = _files([piece for piece in pieces if piece != _NO_FILE])
    if ids is None or rows is None or deletions is None or files is None or edges.size != count:
        return None
    if ids[-1] >> 32 or np.any(ids[:-1] >= ids[1:]):
        return None
    # The second bound keeps the sum exact for any limit of a user.
    deleted, has_deletions = deletions
    if int(rows.max()) > min(limits.rows_per_file, 1 << 40) or np.any((rows > 0) & (deleted > rows)):
        return None
    live = np.where(rows > 0, rows - deleted, -1)
    first_file = np.append(edges - np.arange(count), len(pieces) - count)
    return FragmentTable(ids, rows, live, has_deletions, first_file, *files)


def _files(pieces: list[bytes]) -> tuple[tuple[FileForm, ...], Int64, NDArray[np.float64], Int64] | None:
    """Forms, form, size and base of every data file; None unless each has one column for each field, or names none."""
    table, count = parsed_columns("Files", _marked(_FILE_MARK, pieces)), len(pieces)
    stored = np.array(table.fields, np.int32)
    fields = _widths(stored, _FIELD_MARK, count)
    columns = _widths(np.array(table.column_indices, np.int32), _FIELD_MARK, count)
    if fields is None or columns is None or np.any((columns != 0) & (columns != fields)):
        return None
    major = _aligned(np.array(table.major, np.uint64), count, _SMALL_MARK)
    minor = _aligned(np.array(table.minor, np.uint64), count, _SMALL_MARK)
    size = _aligned(np.array(table.size, np.uint64), count)
    base = _aligned(np.array(table.base_id, np.uint64), count, _SMALL_MARK, absent=-1)
    if major is None or minor is None or size is None or base is None:
        return None
    forms, form_of = _forms(stored[stored != _FIELD_MARK], fields, (major == 0) & (minor < 3))
    return forms, form_of, size.astype(np.float64), base


def _forms(
    fields: NDArray[np.int32], widths: Int64, is_legacy: NDArray[np.bool_]
) -> tuple[tuple[FileForm, ...], Int64]:
    """The distinct forms of files, and the form of each file."""
    if widths.size and (widths == widths[0]).all() and (is_legacy == is_legacy[0]).all():
        rows = fields.reshape(widths.size, -1)
        if (rows == rows[0]).all():
            return (FileForm(tuple(rows[0].tolist()), bool(is_legacy[0])),), np.zeros(widths.size, np.int64)
    ends = np.cumsum(widths)
    data, places = (
        fields.tobytes(),
        zip((4 * (ends - widths)).tolist(), (4 * ends).tolist(), is_legacy.tolist(), strict=True),
    )
    found: dict[tuple[bytes, bool], int] = {}
    form_of = [found.setdefault((data[start:stop], legacy), len(found)) for start, stop, legacy in places]
    forms = (FileForm(tuple(np.frombuffer(data, np.int32).tolist()), legacy) for data, legacy in found)
    return tuple(forms), np.array(form_of, np.int64)


def _deletions(files: list[bytes], count: int) -> tuple[Int64, NDArray[np.bool_]] | None:
    """(count,) deleted rows of each fragment, and whether it has a deletion file; None also where one does not state them."""
    table = parsed_columns("DeletionFiles", b"".join(files))
    stated = np.array(table.num_deleted_rows, np.uint64)
    # A count of 0 is unknown, like a missing one.
    if stated.size != len(files) or not stated.all() or any(kind not in (0, 1) for kind in table.file_type):
        return None
    found = _aligned(stated, count)
    return None if found is None else (found, found > 0)


def _aligned(values: NDArray[np.uint64], count: int, mark: int = _MARK, absent: int = 0) -> Int64 | None:
    """(count,) the one value after each mark, ``absent`` without one.

    None if a mark has several, marks are missing, or a value is beyond the range of int64.
    """
    widths = _widths(values, mark, count)
    if widths is None or np.any(widths > 1):
        return None
    found = np.full(count, absent, np.int64)
    found[widths == 1] = values[values != mark].view(np.int64)
    return None if np.any(found < min(absent, 0)) else found


def _widths(values: NDArray[Any], mark: int, count: int) -> NDArray[np.int64] | None:
    """(count,) number of values after each mark; None if the numbers of marks and messages differ."""
    (marks,) = np.nonzero(values == mark)
    if marks.size != count:
        return None
    widths = np.empty(count, np.int64)
    np.subtract(marks[1:], marks[:-1], out=widths[:-1])
    widths[-1:] = values.size - marks[-1:]
    return widths - 1


def _marked(mark: bytes, pieces: Iterable[bytes]) -> bytes:
    return mark.join([b"", *pieces])
