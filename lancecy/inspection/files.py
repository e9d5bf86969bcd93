"""Inspects one data file: columns, pages, encodings, buffers, bytes per value.

Reads only the metadata at the end of the file. A file of any version will do,
also one that belongs to no table.
"""

from __future__ import annotations

import html
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

from lancecy.encodings.model.notation import notation
from lancecy.encodings.model.pages import Column
from lancecy.errors import DatasetNotFoundError, printable, with_short_tracebacks
from lancecy.file.describe import ColumnDescription, FileDescription, describe_file
from lancecy.limits import Limits
from lancecy.records import dataclass
from lancecy.scanning.explain import human_bytes
from lancecy.session import Session, default
from lancecy.store.reads import SourceFile, run

__all__ = ["ColumnInspection", "FileInspection", "PageInspection", "inspect"]

_MAX_LINES = 200
_MAX_ENCODINGS = 4
_HEADER = ("column", "type", "pages", "values", "bytes", "per value", "encoding")


@dataclass(frozen=True, slots=True)
class PageInspection:
    """One page of a column.

    Attributes
    ----------
    values : int
        Rows; in 2.0 and 0.1, elements for a column below a list.
    encoding : str
        In the notation of the file sheets.
    buffers : tuple of (position, size), bytes
        Position in the file and size.
    """

    values: int
    encoding: str
    buffers: tuple[tuple[int, int], ...]

    @property
    def nbytes(self) -> int:
        """Bytes of all buffers."""
        return sum(size for _, size in self.buffers)


@dataclass(frozen=True, slots=True)
class ColumnInspection:
    """One physical column.

    Attributes
    ----------
    name : str
        With dots for nested columns.
    type : str
        As the format states it.
    num_pages, num_values : int
    nbytes : int
        Encoded bytes in the file.
    encodings : tuple of (str, int)
        Each encoding of its pages and the number of pages, most frequent first.
    problem : str
        Why the column cannot be read; "" if it can.
    """

    name: str
    type: str
    num_pages: int
    num_values: int
    nbytes: int
    encodings: tuple[tuple[str, int], ...]
    problem: str = ""
    _column: Column | None = field(default=None, repr=False, compare=False)

    @property
    def bytes_per_value(self) -> float:
        """Average encoded bytes of one value; 0 without values."""
        return self.nbytes / self.num_values if self.num_values else 0.0

    @property
    def pages(self) -> tuple[PageInspection, ...]:
        """Every page; made at each call, because a column may have very many."""
        column = self._column
        if column is None:
            return ()
        return tuple(_page(column, number) for number in range(column.num_pages))

    def to_dict(self, pages: bool = False) -> dict[str, Any]:
        """Plain values, fit for JSON.

        Parameters
        ----------
        pages : bool
            Include every page and its buffers.
        """
        found: dict[str, Any] = {
            "name": self.name,
            "type": self.type,
            "num_pages": self.num_pages,
            "num_values": self.num_values,
            "nbytes": self.nbytes,
            "bytes_per_value": self.bytes_per_value,
            "encodings": dict(self.encodings),
        }
        if self.problem:
            found["problem"] = self.problem
        if pages:
            found["pages"] = [
                {"values": p.values, "encoding": p.encoding, "buffers": [list(b) for b in p.buffers]}
                for p in self.pages
            ]
        return found


@dataclass(frozen=True, slots=True)
class FileInspection:
    """The contents of a data file; ``str()`` and notebooks show a table.

    Attributes
    ----------
    uri : str
    version : str
        Of the file format: "0.1", "2.0", ...
    num_rows : int
    size, metadata_bytes : int
        Size of the file, and of its metadata.
    columns : tuple of ColumnInspection
        Physical columns in file order.
    """

    uri: str
    version: str
    num_rows: int
    size: int
    metadata_bytes: int
    columns: tuple[ColumnInspection, ...]

    def to_dict(self, pages: bool = False) -> dict[str, Any]:
        """Plain values, fit for JSON.

        Parameters
        ----------
        pages : bool
            Include every page of every column.
        """
        return {
            "uri": self.uri,
            "version": self.version,
            "num_rows": self.num_rows,
            "size": self.size,
            "metadata_bytes": self.metadata_bytes,
            "columns": [column.to_dict(pages) for column in self.columns],
        }

    def _title(self) -> str:
        return (
            f"{self.uri}: version {self.version}, {self.num_rows:,} rows, {len(self.columns):,} columns, "
            f"{human_bytes(self.size)} ({human_bytes(self.metadata_bytes)} of metadata)"
        )

    def _rows(self) -> Iterator[tuple[str, ...]]:
        for column in self.columns[:_MAX_LINES]:
            yield _cells(column)
        if len(self.columns) > _MAX_LINES:
            yield (f"… {len(self.columns) - _MAX_LINES:,} more", *[""] * (len(_HEADER) - 1))

    def __str__(self) -> str:
        rows = [_HEADER, *self._rows()]
        widths = [max(len(row[i]) for row in rows) for i in range(len(_HEADER))]
        lines = [self._title()]
        for row in rows:
            cells = [
                c.rjust(w) if 2 <= i <= 5 else c.ljust(w)
                for i, (c, w) in enumerate(zip(row, widths, strict=True))
            ]
            lines.append("  ".join(cells).rstrip())
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{name}</th>" for name in _HEADER)
        body = "".join(
            "<tr>"
            + "".join(f"<td style='text-align:left'>{html.escape(cell)}</td>" for cell in row)
            + "</tr>"
            for row in self._rows()
        )
        return f"<div>{html.escape(self._title())}<table><tr>{head}</tr>{body}</table></div>"


@with_short_tracebacks
def inspect(
    path: str | os.PathLike[str],
    storage_options: Mapping[str, Any] | None = None,
    *,
    limits: Limits | None = None,
    session: Session | None = None,
) -> FileInspection:
    """Inspect how one data file stores its columns; reads only its metadata.

    Parameters
    ----------
    path : str or path
        A ``.lance`` file: a local path or any URL that fsspec knows.
    storage_options : mapping, optional
        As for :func:`lancecy.dataset`.
    limits : Limits, optional
        Upper bounds for what the file may claim.
    session : Session, optional
        By default the session of the process.

    Returns
    -------
    FileInspection

    Raises
    ------
    DatasetNotFoundError
        There is no such file.
    FormatError
        It is damaged or not a Lance data file.
    StoreError
        The storage refused.

    Notes
    -----
    The notation of encodings: ``M``, ``Z``, ``K`` and ``B`` are the layouts mini-block, full-zip, constant and
    blob of version 2.1 and later. Brackets hold the layers of nulls and lists from the value outward (``VI`` and
    ``NI``: items without and with nulls; ``VL``, ``NL``, ``EL``, ``NEL``: lists that are neither null nor empty,
    may be null, may be empty, may be both). ``R=`` and ``D=`` are the encodings of repetition and definition levels.

    Examples
    --------
    >>> import glob, lancecy
    >>> shown = lancecy.inspect(glob.glob("example.lance/data/*.lance")[0])
    >>> shown.num_rows > 0, shown.columns[0].num_values > 0
    (True, True)
    """
    active = session or default()
    if limits is not None:
        active = active.with_limits(limits)
    store, name = active.file_store(path, storage_options)
    if Path(path).is_dir():
        raise DatasetNotFoundError(
            f"{printable(os.fspath(path))} is a folder: name one file, such as those in the folder data of a table",
            kind="object",
            name=name,
        )
    meta = store.head(name)
    source = SourceFile(store, name, meta.size, meta.identity)
    return _inspection(f"{store.uri}/{name}", run(describe_file(source, active.limits), active.fetch))


def _inspection(uri: str, found: FileDescription) -> FileInspection:
    version = ".".join(map(str, found.version))
    columns = tuple(_column(column) for column in found.columns)
    return FileInspection(printable(uri), version, found.num_rows, found.size, found.metadata_bytes, columns)


def _column(found: ColumnDescription) -> ColumnInspection:
    pages = found.pages
    if pages is None:
        return ColumnInspection(found.name, found.logical_type, 0, 0, 0, (), found.problem)
    # Pages share their descriptions, so each description is formatted once.
    specs = {id(spec): spec for spec in pages.specs}
    texts: Counter[str] = Counter()
    for key, count in Counter(map(id, pages.specs)).items():
        texts[notation(specs[key])] += count
    return ColumnInspection(
        found.name,
        found.logical_type,
        pages.num_pages,
        pages.num_rows,
        pages.nbytes,
        tuple(texts.most_common()),
        _column=pages,
    )


def _page(column: Column, number: int) -> PageInspection:
    page = column.page(number)
    buffers = tuple(zip(page.positions.tolist(), page.sizes.tolist(), strict=True))
    return PageInspection(page.num_rows, notation(page.spec), buffers)


def _cells(column: ColumnInspection) -> tuple[str, ...]:
    return (
        column.name,
        column.type,
        f"{column.num_pages:,}",
        f"{column.num_values:,}",
        human_bytes(column.nbytes),
        f"{column.bytes_per_value:.2f} B",
        column.problem or _encodings(column.encodings),
    )


def _encodings(encodings: Sequence[tuple[str, int]]) -> str:
    shown = [
        text if count == 1 and len(encodings) == 1 else f"{text} ×{count:,}" for text, count in encodings
    ]
    if len(shown) > _MAX_ENCODINGS:
        shown = [*shown[:_MAX_ENCODINGS], f"… {len(shown) - _MAX_ENCODINGS:,} more"]
    return "; ".join(shown)
