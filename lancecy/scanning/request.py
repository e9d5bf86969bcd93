"""The request of a scan: the user's arguments as one frozen value that pickles small."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import pyarrow as pa

from lancecy.errors import ExpressionError
from lancecy.expr import Expr, fix_clock, parse, time_now
from lancecy.expr.build import Filter
from lancecy.expr.nodes import Column
from lancecy.keyword_options import whole_number
from lancecy.records import dataclass

__all__ = [
    "NULL_IF_DELETED",
    "ROW_OFFSET",
    "VIRTUAL_COLUMNS",
    "Columns",
    "ScanRequest",
    "at_instant",
    "default_batch_size",
    "make_request",
    "positive",
]

ROW_OFFSET = "_rowoffset"
"""The virtual column that numbers the live rows of the table, as ``Dataset.take`` does."""

VIRTUAL_COLUMNS = (
    "_rowid",
    "_rowaddr",
    ROW_OFFSET,
    "_row_created_at_version",
    "_row_last_updated_at_version",
)
"""Columns of uint64 that no file holds, see ``scanning.virtual``. A stored column of the same name hides one."""

NULL_IF_DELETED = frozenset(("_rowid", "_rowaddr"))
"""The virtual columns that are null for deleted rows."""

_MOST = 1 << 60
"""Counts are at most so large, so that the sum of a limit and an offset is an int64."""

_ALL = "*"

Columns: TypeAlias = "Sequence[str] | Mapping[str, object] | None"
"""Names, or a mapping from output name to SQL text or expression; None means every column, as "*" does among names."""


@dataclass(frozen=True, slots=True)
class ScanRequest:
    """One scan.

    Attributes
    ----------
    columns : tuple of (str, Expr or None), or None
        Output name and expression; None as the expression means the column of that name.
        None as a whole means every top-level column.
    filter : Expr or None
        Rows for which it is true are returned; null counts as false.
    limit, offset : int
        Count rows that pass, in table order.
    batch_size : int or None, rows
    batch_bytes : int or None, bytes
        A batch of a stream ends at whichever comes first.
    with_row_address, with_row_id : bool
        Append ``_rowid`` and ``_rowaddr`` (uint64).
    fragments : tuple of int or None
        Ids of the fragments to read; None means all.
    ordered : bool
        Return rows in table order.
    use_stats : bool
        Skip pages whose statistics prove that no row matches.
    index_use : bool or None
        Use indices: False, no; True, and raise if one cannot be read; None, and warn then.
    in_codes : tuple of str
        Text columns that are returned as Arrow dictionaries.
    with_deleted : bool
        Return deleted rows too, whose row id and address are null.
    """

    columns: tuple[tuple[str, Expr | None], ...] | None = None
    filter: Expr | None = None
    limit: int | None = None
    offset: int = 0
    batch_size: int | None = None
    batch_bytes: int | None = None
    with_row_address: bool = False
    with_row_id: bool = False
    fragments: tuple[int, ...] | None = None
    ordered: bool = True
    use_stats: bool = True
    index_use: bool | None = None
    in_codes: tuple[str, ...] = ()
    with_deleted: bool = False

    def narrowed(self, names: Sequence[str]) -> ScanRequest:
        """The same request with only these of its columns.

        Raises
        ------
        ValueError
            A name is not among the columns of this scan (only when they were listed).
        """
        known: dict[str, Expr | None] | None = None
        if self.columns is not None:
            known = {**dict.fromkeys(VIRTUAL_COLUMNS), **dict(self.columns)}
            missing = [n for n in names if n not in known]
            if missing:
                raise ValueError(f"columns {missing} are not part of this scan, which has {list(known)}")
        columns = tuple((name, None if known is None else known[name]) for name in names)
        return replace(self, columns=columns, with_row_id=False, with_row_address=False)


def at_instant(
    columns: Columns, filter: object, schema: pa.Schema, instant: int
) -> tuple[Columns, Expr | None]:
    """Columns and a filter whose ``now()`` and the like have the value of one instant.

    For callers that describe a scan once and make several requests from it.

    Parameters
    ----------
    columns, filter : as for :func:`make_request`
    schema : pa.Schema
    instant : int
        From :func:`lancecy.expr.time_now`.

    Raises
    ------
    ExpressionError
        A filter or computed column that cannot be parsed.
    """
    if isinstance(columns, Mapping):
        found = {str(name): _computed(name, value, schema, instant) for name, value in columns.items()}
        columns = {name: name if expr is None else expr for name, expr in found.items()}
    return columns, _parsed(filter, schema, instant)


def _parsed(value: object, schema: pa.Schema, instant: int) -> Expr | None:
    expr = parse(value, schema)
    return None if expr is None else fix_clock(expr, schema, instant)


def _is_column(expr: Expr | None, name: str) -> bool:
    """Whether an output of this name is the column itself."""
    return expr is None or (isinstance(expr, Column) and expr.path == (name,))


def _column_list(
    columns: Columns, schema: pa.Schema, instant: int
) -> tuple[tuple[str, Expr | None], ...] | None:
    if columns is None:
        return None
    if isinstance(columns, str):
        raise TypeError(f"columns must be a list of names or a mapping, not the text {columns!r}")
    if not isinstance(columns, Iterable):
        raise TypeError(f"columns must be a list of names or a mapping, not {columns!r}")
    if isinstance(columns, Mapping):
        return tuple((str(name), _computed(name, value, schema, instant)) for name, value in columns.items())
    names = list(columns)
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"a column name must be text, not {type(name).__name__}")
    if _ALL in names and _ALL not in schema.names:
        names = [each for name in names for each in (schema.names if name == _ALL else (name,))]
    repeated = sorted(name for name, count in Counter(names).items() if count > 1)
    if repeated:
        raise ValueError(f"columns named twice: {', '.join(repeated)}")
    return tuple((name, None) for name in names)


def _computed(name: str, value: object, schema: pa.Schema, instant: int) -> Expr | None:
    if isinstance(value, str) and value == name and name in schema.names:
        return None
    expr = _parsed(value, schema, instant)
    if expr is None:
        raise ExpressionError(f"column {name!r} has no expression")
    return expr


def _count(name: str, value: int | None) -> int | None:
    if value is None:
        return None
    number = whole_number(name, value)
    if number < 0:
        raise ValueError(f"{name} must not be negative, got {number}")
    return min(number, _MOST)


def default_batch_size() -> int | None:
    """Rows of a batch that ``LANCE_DEFAULT_BATCH_SIZE`` asks for, if it is set.

    Raises
    ------
    ValueError
        It is no number above zero.
    """
    text = os.environ.get("LANCE_DEFAULT_BATCH_SIZE", "").strip()
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and int(text)):
        raise ValueError(
            f"the environment variable LANCE_DEFAULT_BATCH_SIZE is {text!r}, not a number of rows"
        )
    return int(text)


def positive(name: str, value: int | None) -> int | None:
    """A number above zero; None stays None. A number beyond all rows and bytes becomes one that int64 holds.

    Parameters
    ----------
    name : str
        The argument, for errors.
    value : int or None

    Raises
    ------
    TypeError
        Not a whole number.
    ValueError
        Zero or less.
    """
    if value is None:
        return None
    number = whole_number(name, value)
    if number <= 0:
        raise ValueError(f"{name} must be positive, got {value}")
    return min(number, _MOST)


def make_request(
    schema: pa.Schema,
    columns: Columns = None,
    filter: Filter = None,
    limit: int | None = None,
    offset: int | None = None,
    batch_size: int | None = None,
    batch_bytes: int | None = None,
    with_row_address: bool = False,
    with_row_id: bool = False,
    fragments: Sequence[int] | None = None,
    ordered: bool = True,
    use_stats: bool = True,
    index_use: bool | None = None,
    read_dictionary: Sequence[str] = (),
    with_deleted: bool = False,
) -> ScanRequest:
    """Check the user's arguments and make a request from them.

    ``_rowid`` and ``_rowaddr`` in ``columns`` are the same as the two flags. ``now()`` and the like become the time
    of this call, so that all tasks of the scan agree.

    Raises
    ------
    ValueError, TypeError
        Invalid arguments: negative counts, a name twice, wrong types.
    ExpressionError
        A filter or computed column that cannot be parsed.
    """
    instant = time_now()
    listed = _column_list(columns, schema, instant)
    for name, option in (("_rowid", with_row_id), ("_rowaddr", with_row_address)):
        if option and any(name == given and not _is_column(expr, name) for given, expr in listed or ()):
            raise ValueError(
                f"the computed column {name!r} has the name of one that the scan adds: name it otherwise, or leave out "
                f"{'with_row_id' if name == '_rowid' else 'with_row_address'}"
            )
    if with_deleted and not with_row_id and (listed is None or ("_rowid", None) not in listed):
        raise ValueError(
            "include_deleted_rows=True needs with_row_id=True: the row id, which is null, tells the rows that are deleted"
        )
    return ScanRequest(
        columns=listed,
        filter=_parsed(filter, schema, instant),
        limit=_count("limit", limit),
        offset=_count("offset", offset) or 0,
        batch_size=positive("batch_size", batch_size),
        batch_bytes=positive("batch_size_bytes", batch_bytes),
        with_row_address=bool(with_row_address),
        with_row_id=bool(with_row_id),
        fragments=None if fragments is None else tuple(whole_number("a fragment", f) for f in fragments),
        ordered=bool(ordered),
        # What is known of living rows does not hold for all.
        use_stats=bool(use_stats) and not with_deleted,
        index_use=None if index_use is None else bool(index_use),
        in_codes=tuple(read_dictionary),
        with_deleted=bool(with_deleted),
    )
