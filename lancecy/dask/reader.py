"""Partitions of a scan: the rows of each, and how one is read.

:class:`Parts` holds the numbers of all partitions in two arrays; :class:`Reader` is what all
partitions share, and reads one given its numbers. Both are plain data that pickles small, also
for ten thousand partitions, without file handles or secrets.

Rows are labelled as they are read: a row's label is its number in the table or partition with or
without a filter, so that pushing a filter into the read changes no label.

:class:`Source` is what an optimised scan reads: everything except the choice of columns.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, overload

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancecy.errors import FormatError
from lancecy.expr import Expr, describe
from lancecy.expr.nodes import Column, chain, walk
from lancecy.records import dataclass
from lancecy.scanning.run_task import read_rows
from lancecy.scanning.task import ScanSpec, ScanUnit
from lancecy.scanning.units import Picked

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "ROWS",
    "Kind",
    "Labels",
    "NarrowReader",
    "Part",
    "Parts",
    "Reader",
    "Reducer",
    "Source",
    "columns_of",
    "units_of",
]


Labels: TypeAlias = Literal["number", "rank", "rowid"]
"""Labels of rows: their number (counted from ``ScanUnit.position``), their rank among the
rows of their partition that pass the filter, or their row id."""

Kind: TypeAlias = Literal["frame", "series", "index"]
"""Kind of a partition: a frame, a single column as a series, or the labels."""

Part: TypeAlias = tuple[int, ...]
"""Five numbers per unit: fragment, start, stop, rows, position."""

_NUMBERS = 5
_POSITION = 4
ROWS = 3
"""Index of the live rows among the five numbers of a unit."""


class Parts(Sequence[Part]):
    """The partitions of a scan.

    Parameters
    ----------
    units : (num_units, 5) int64
        Fragment, start, stop, rows, position of each unit.
    edges : (num_parts + 1,) int64, ascending, first is 0
        First unit of each partition.
    divisions : tuple or None
        (num_parts + 1,) first label of each partition, and the last label; None if unknown.
    """

    def __init__(
        self, units: NDArray[np.int64], edges: NDArray[np.int64], divisions: tuple[Any, ...] | None = None
    ) -> None:
        self.units = units
        self.edges = edges
        self.divisions = divisions

    def __len__(self) -> int:
        return len(self.edges) - 1

    @overload
    def __getitem__(self, index: int) -> Part: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Part]: ...

    def __getitem__(self, index: int | slice) -> Part | Sequence[Part]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        index = range(len(self))[index]
        return tuple(self.units[self.edges[index] : self.edges[index + 1]].ravel().tolist())

    def __iter__(self) -> Iterator[Part]:
        return (self[i] for i in range(len(self)))

    @cached_property
    def rows(self) -> tuple[int, ...]:
        """Live rows of each partition, before filtering."""
        ends = np.concatenate([[0], np.cumsum(self.units[:, ROWS])])[self.edges]
        return tuple(np.diff(ends).tolist())

    def local(self) -> Parts:
        """The same partitions, each with positions that count from its own start; without divisions."""
        units = self.units.copy()
        before = np.cumsum(units[:, ROWS]) - units[:, ROWS]
        units[:, _POSITION] = before - np.repeat(before[self.edges[:-1]], np.diff(self.edges))
        return Parts(units, self.edges)

    def chosen(self, indices: Iterable[int]) -> Parts:
        """Only these partitions, in this order, without divisions."""
        picked = np.fromiter(indices, np.int64)
        counts = np.diff(self.edges)[picked]
        edges = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        which = np.arange(edges[-1]) + np.repeat(self.edges[picked] - edges[:-1], counts)
        return Parts(self.units[which], edges)

    def merged(self, firsts: Sequence[int]) -> Parts:
        """Fewer partitions of the same rows: each starts with one of ``firsts``, which starts with 0."""
        divisions = self.divisions
        if divisions is not None:
            divisions = (*(divisions[i] for i in firsts), divisions[-1])
        return Parts(self.units, np.append(self.edges[list(firsts)], self.edges[-1]), divisions)

    @cached_property
    def _digest(self) -> str:
        state = hashlib.sha256(self.units.tobytes())
        state.update(self.edges.tobytes())
        return state.hexdigest()

    def __dask_tokenize__(self) -> object:
        return ("lancecy.dask.Parts", self._digest, self.divisions is not None, _ends(self.divisions))

    def __reduce__(self) -> tuple[object, ...]:
        return (Parts, (self.units, self.edges, self.divisions))

    def __repr__(self) -> str:
        return f"Parts({len(self)})"


def _ends(divisions: tuple[Any, ...] | None) -> tuple[Any, ...]:
    # Those in between follow from the units.
    return () if not divisions else (divisions[0], divisions[-1])


def units_of(part: Part) -> list[ScanUnit]:
    """The units of a partition."""
    return [ScanUnit(*part[i : i + _NUMBERS]) for i in range(0, len(part), _NUMBERS)]


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads one partition; plain data shared by all partitions of a scan.

    Attributes
    ----------
    spec : ScanSpec
    labels : "number", "rank" or "rowid"
        Labels of the rows.
    limit : int or None
        Read only the first ``limit`` rows of each partition.
    """

    spec: ScanSpec
    labels: Labels = "number"
    limit: int | None = None

    def __call__(self, part: Part, *, columns: Sequence[str]) -> pd.DataFrame:
        """Read the partition as a frame of these columns.

        Parameters
        ----------
        part : tuple of int
            Five numbers per unit: fragment, start, stop, rows, position.
        columns : sequence of str
            Required, so that Dask passes an empty selection too.

        Raises
        ------
        LanceError
            The table cannot be read.
        """
        import pandas as pd

        from lancecy.dask.dtypes import to_frame

        table, index = self.table(part, columns)
        return pd.DataFrame(index=index) if table is None else to_frame(table, index)

    def table(self, part: Part, columns: Sequence[str]) -> tuple[pa.Table | None, pd.Index]:
        """The partition's columns (None if none are to be read) and its labels."""
        units = units_of(part)
        unfiltered = self.spec.request.filter is None
        if not columns and unfiltered and self.labels != "rowid":
            return None, _joined([(u.position, u.position + u.rows) for u in units])[: self.limit]
        wanted = [*columns, "_rowid"] if self.labels == "rowid" else list(columns)
        table, picked = read_rows(self.spec, units, wanted, self.limit)
        if unfiltered and self.limit is None:
            _check_promised(units, table.num_rows)
        if self.labels == "rowid":
            return table.drop_columns(["_rowid"]), _row_ids(table["_rowid"])
        label = _ranks if self.labels == "rank" else _numbers
        return table, _joined(label(units, picked))

    def filtered(self, condition: Expr) -> Reader:
        """A reader of only the rows for which the condition is true, with the same labels."""
        known = self.spec.request.filter
        both = condition if known is None else chain("and", [known, condition])
        request = dataclasses.replace(self.spec.request, filter=both)
        return dataclasses.replace(self, spec=dataclasses.replace(self.spec, request=request))

    def limited(self, limit: int) -> Reader:
        """A reader of only the first rows of each partition."""
        return dataclasses.replace(self, limit=limit)

    def __dask_tokenize__(self) -> object:
        """All state: Dask treats collections with equal tokens as the same."""
        from dask.base import normalize_token

        spec = [(f.name, getattr(self.spec, f.name)) for f in dataclasses.fields(self.spec)]
        return normalize_token(("lancecy.dask.Reader", spec, self.labels, self.limit))


@dataclass(frozen=True, slots=True)
class NarrowReader:
    """A reader of some columns as a frame, of one column as a series, or of the labels.

    Attributes
    ----------
    reader : Reader
    columns : tuple of str
    kind : "frame", "series" or "index"
    """

    reader: Reader
    columns: tuple[str, ...]
    kind: Kind = "frame"

    def __call__(self, part: Part) -> pd.DataFrame | pd.Series | pd.Index:
        """Read the partition."""
        if self.kind == "frame":
            return self.reader(part, columns=self.columns)
        table, index = self.reader.table(part, self.columns)
        if self.kind == "index" or table is None:
            return index
        return _series(table, index)


def _series(table: pa.Table, index: pd.Index | None = None) -> pd.Series:
    """The only column of a table."""
    import pandas as pd

    from lancecy.dask.dtypes import pandas_array

    return pd.Series(pandas_array(table.column(0)), index=index, name=table.column_names[0], copy=False)


@dataclass(frozen=True, slots=True, eq=False)
class Reducer:
    """Reads a column of all partitions at once, on the threads of this process, and reduces it.

    Attributes
    ----------
    reader : Reader
        Without a limit; its labels are ignored.
    column : str
    chunk, aggregate : callable
        Reduce a series; combine a list of such reductions.
    chunk_kwargs, aggregate_kwargs : dict
    """

    reader: Reader
    column: str
    chunk: Callable[..., Any]
    aggregate: Callable[..., Any]
    chunk_kwargs: dict[str, Any]
    aggregate_kwargs: dict[str, Any]

    def __call__(self, part: Part) -> Any:
        """The reduction over these units.

        Raises
        ------
        LanceError
            The table cannot be read.
        """
        spec, units = self.reader.spec, units_of(part)
        table, _ = read_rows(spec, units, [self.column])
        if spec.request.filter is None:
            _check_promised(units, table.num_rows)
        return self.reduced(_series(table))

    def reduced(self, series: pd.Series) -> Any:
        """Reduce with Dask's own steps for a series; the second step gives the result its type."""
        return self.aggregate([self.chunk(series, **self.chunk_kwargs)], **self.aggregate_kwargs)


def _check_promised(units: Sequence[ScanUnit], num_rows: int) -> None:
    """Raise FormatError unless the units have as many rows as the manifest states."""
    promised = sum(unit.rows for unit in units)
    if num_rows != promised:
        fragments = sorted({unit.fragment for unit in units})
        where = f"fragment {fragments[0]}" if len(fragments) == 1 else f"fragments {fragments}"
        raise FormatError(f"the manifest states {promised} live rows in {where}, not {num_rows}")


Span: TypeAlias = "tuple[int, int] | NDArray[np.int64]"


def _numbers(units: Sequence[ScanUnit], picked: Sequence[Picked]) -> Iterator[Span]:
    """Numbers of the rows that pass the filter."""
    for unit, (files, rows) in zip(units, picked, strict=False):  # a limit ends early
        if len(rows) == unit.rows:
            yield unit.position, unit.position + unit.rows
        elif unit.rows == unit.stop - unit.start:
            yield rows.to_indices() + (unit.position - unit.start)
        else:
            live = files.live(unit.start, unit.stop).to_indices()
            yield np.searchsorted(live, rows.to_indices()) + unit.position


def _ranks(units: Sequence[ScanUnit], picked: Sequence[Picked]) -> Iterator[Span]:
    """Ranks of the rows among those of their partition that pass; a partition starts at position 0."""
    rank = 0
    for unit, (_, rows) in zip(units, picked, strict=False):  # a limit ends early
        rank = rank if unit.position else 0
        yield rank, rank + len(rows)
        rank += len(rows)


def _row_ids(ids: pa.ChunkedArray) -> pd.Index:
    import pandas as pd

    return pd.Index(ids.to_numpy(), name="_rowid")


def _joined(spans: Iterable[Span]) -> pd.Index:
    """The spans joined; a range if there is one."""
    import pandas as pd

    found = [s for s in spans if not (isinstance(s, tuple) and s[0] == s[1])]
    ranges = [s for s in found if isinstance(s, tuple)]
    if len(ranges) == len(found) and all(a[1] == b[0] for a, b in itertools.pairwise(ranges)):
        return pd.RangeIndex(ranges[0][0], ranges[-1][1]) if ranges else pd.RangeIndex(0)
    return pd.Index(
        np.concatenate([np.arange(*s, dtype=np.int64) if isinstance(s, tuple) else s for s in found])
    )


@dataclass(frozen=True, eq=False, repr=False)
class Source:
    """The rows of a scan and how to read them, without the choice of columns.

    Attributes
    ----------
    reader : Reader
    parts : Parts
    meta : pandas.DataFrame
        An empty frame with all columns of the scan.
    weights : mapping of str to float
        Bytes of one row of each column.
    pushable : frozenset of str
        Columns that pushed conditions may name: stored columns under their own names.
    is_near : bool
        Whether reading needs no storage requests.
    """

    reader: Reader
    parts: Parts
    meta: pd.DataFrame
    weights: Mapping[str, float]
    pushable: frozenset[str]
    is_near: bool = False

    @cached_property
    def token(self) -> str:
        """Token that is equal for sources with the same rows."""
        from dask.base import tokenize

        token: str = tokenize(self.reader, self.parts, [(n, str(t)) for n, t in self.meta.dtypes.items()])
        return token

    def __dask_tokenize__(self) -> object:
        return ("lancecy.dask.Source", self.token)

    @cached_property
    def _metas(self) -> dict[tuple[Kind, tuple[str, ...]], Any]:
        return {}

    def meta_of(self, kind: Kind, columns: tuple[str, ...]) -> Any:
        """An empty frame of these columns, series of the only one, or index."""
        found = self._metas.get((kind, columns))
        if found is None:
            frame = self.meta[list(columns)]
            found = {"frame": frame, "index": frame.index}.get(kind)
            found = self._metas[kind, columns] = frame[columns[0]] if found is None else found
        return found

    def __repr__(self) -> str:
        spec = self.reader.spec
        return f"<{spec.uri} version {spec.version}>"

    @property
    def summary(self) -> str:
        """The source for ``expr.tree_repr()``: the table, and what is pushed into reading it."""
        request = self.reader.spec.request
        parts = [f"source={self!r}"]
        if request.filter is not None:
            parts.append(f"filter=[{describe(request.filter, max_values=10)}]")
        if self.reader.limit is not None:
            parts.append(f"limit={self.reader.limit}")
        return " ".join(parts)

    @property
    def is_filtered(self) -> bool:
        """Whether the reader has a filter."""
        return self.reader.spec.request.filter is not None

    @property
    def is_limited(self) -> bool:
        """Whether the reader has a limit."""
        return self.reader.limit is not None

    def limited(self, limit: int) -> Source:
        """The source with only the first rows of each partition."""
        return replace(self, reader=self.reader.limited(limit))

    def filtered(self, condition: Expr) -> Source:
        """The source with only the rows for which a condition is true, with the same labels."""
        return replace(self, reader=self.reader.filtered(condition))


def columns_of(condition: Expr | None) -> set[str]:
    """Top-level columns that a condition names."""
    return set() if condition is None else {n.path[0] for n in walk(condition) if isinstance(n, Column)}
