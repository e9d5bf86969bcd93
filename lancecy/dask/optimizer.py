"""A scan as an expression of Dask's query optimiser.

This module and ``steps`` use Dask's private interface: expression classes and their hooks
are not stable. Importing it raises ``ImportError`` for a Dask that it does not support, and
:func:`lancecy.scan` then uses ``dask.dataframe.from_map``: the same rows and labels, but more is
read. Besides selecting columns, which ``from_map`` does too,

- lengths of scans without a filter come from row counts, without a task; those of filtered scans
  read only the filter's columns;
- filters on which pandas and :mod:`lancecy.expr` certainly agree (``predicates``) are pushed into
  the read, where statistics prune pages; the rest of a condition stays above;
- labels alone are computed without reading columns, and ``head`` reads only the rows it shows;
- partitions that became small by selecting columns are read together, if that is not observable;
  a column that costs less to read than a task costs is reduced by one task.
"""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
from dask._collections import new_collection
from dask._task_spec import Task
from dask.dataframe.dask_expr import _accessor, _expr, _reductions, _repartition
from dask.dataframe.dask_expr._expr import PartitionsFiltered
from dask.dataframe.dask_expr.io.io import IO, BlockwiseIO
from dask.dataframe.dispatch import make_meta, meta_nonempty

from lancecy.dask import predicates
from lancecy.dask.reader import ROWS, NarrowReader, Parts, Reader, Reducer, Source, columns_of
from lancecy.errors import ExpressionError
from lancecy.expr import Expr
from lancecy.expr.nodes import chain, negate

__all__ = ["LanceScan", "collection"]

# Plans of up to this many partitions are not merged: their tasks keep the machine busy and cost little.
_FEWEST_PARTS = 16

# Reading and reducing this many bytes of a local column takes less time than planning and sending a few tasks.
_ONE_TASK_BYTES = 64 << 20
_ONE_TASK_UNITS = 256
# Reductions of a column that take no longer than reading the column.
_LIGHT = (
    _reductions.Sum,
    _reductions.Prod,
    _reductions.Min,
    _reductions.Max,
    _reductions.Any,
    _reductions.All,
    _reductions.Count,
)

_COMPARISONS: Mapping[type, str] = {
    _expr.EQ: "=",
    _expr.NE: "!=",
    _expr.LT: "<",
    _expr.LE: "<=",
    _expr.GT: ">",
    _expr.GE: ">=",
}
_MIRRORED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}

# Expressions that map each row to one row, independently of partitions and other rows.
_ROW_BY_ROW = (
    _expr.Projection,
    _expr.Binop,
    _expr.Unaryop,
    _expr.Isin,
    _expr.IsNa,
    _expr.NotNull,
    _expr.Between,
    _expr.AsType,
    _expr.Abs,
    _expr.Round,
    _expr.Clip,
    _accessor.PropertyMap,
    _accessor.FunctionMap,
)


class LanceScan(PartitionsFiltered, BlockwiseIO):
    """The partitions of a scan: a frame of some columns, one column as a series, or the labels.

    Parameters
    ----------
    source : Source
    columns : list of str or None
        None for all.
    _partitions : sequence of int or None
        Numbers of the partitions to read, None for all.
    kind : "frame", "series" or "index"
    together : bool
        Whether partitions may be read together because that is not observable.
    """

    _parameters = ["source", "columns", "_partitions", "kind", "together"]  # noqa: RUF012
    _defaults = {"columns": None, "_partitions": None, "kind": "frame", "together": False}  # noqa: RUF012
    _absorb_projections = True

    # -- the interface of Dask's sources ---------------------------------------------------------

    @functools.cached_property
    def _name(self) -> str:
        return f"lancecy-scan-{self.deterministic_token}"

    @property
    def _funcname(self) -> str:
        return "lancecy-scan"

    def _tree_repr_argument_construction(self, i: int, op: Any, header: str) -> str:
        if self._parameters[i] == "source":
            return f"{header} {op.summary}"
        shown: str = super()._tree_repr_argument_construction(i, op, header)  # type: ignore[no-untyped-call]
        return shown

    @functools.cached_property
    def _read_columns(self) -> list[str]:
        chosen = self.operands[1]
        return list(self.source.meta.columns) if chosen is None else list(chosen)

    @property
    def columns(self) -> list[Any]:
        """Names of the columns, or the name of the labels."""
        return [self._meta.name] if self.kind == "index" else self._read_columns

    @functools.cached_property
    def _meta(self) -> Any:
        return self.source.meta_of(self.kind, tuple(self._read_columns))

    def __dask_tokenize__(self) -> str:
        if not self._determ_token:
            # The source's token covers everything else, and is computed once.
            partitions = None if self.operands[2] is None else list(self.operands[2])
            state = (self.source.token, self.operands[1], partitions, self.kind, self.together)
            self._determ_token = _digest(state)
        return self._determ_token

    def _divisions(self) -> tuple[Any, ...]:
        parts = self.source.parts
        return parts.divisions or (None,) * (len(parts) + 1)

    @functools.cached_property
    def _read(self) -> NarrowReader:
        return NarrowReader(self.source.reader, tuple(self._read_columns), self.kind)

    def _filtered_task(self, name: Any, index: int) -> Task:
        return Task(name, self._read, self.source.parts[index], _data_producer=True)

    # -- rewrites by the optimiser ---------------------------------------------------------------

    def _changed(self, **operands: Any) -> Any:
        return self.substitute_parameters(operands)

    def _simplify_up(self, parent: Any, dependents: Any) -> Any:
        """A cheaper form of the parent, or None."""
        better = self._absorbed(parent, dependents)
        if better is None and self._is_scattered and _ignores_partitions(self, parent, dependents):
            better = parent.substitute(self, self._changed(together=True))
        return better

    def _absorbed(self, parent: Any, dependents: Any) -> Any:
        if isinstance(parent, _reductions.Len | _expr.Lengths):
            return self._length(parent)
        if isinstance(parent, _expr.Index):
            return self._changed(columns=[], kind="index")
        if isinstance(parent, _expr.Head):
            return self._with_limit(parent)
        if isinstance(parent, _expr.Projection):
            return self._with_columns(parent, dependents)
        if isinstance(parent, _expr.Filter) and parent.frame._name == self._name:
            return self._with_filter(parent) if self._may_filter(parent, dependents) else None
        if type(parent) in _LIGHT:
            return self._reduced(parent) if self._is_reduced_at_once(parent, dependents) else None
        return None

    def _tune_down(self) -> Any:
        return self._merged() if self.together else None

    # -- reductions ------------------------------------------------------------------------------------

    def _is_reduced_at_once(self, parent: Any, dependents: Any) -> bool:
        """Whether one task may read and reduce a column of all partitions; nothing else may use the column."""
        source: Source = self.source
        if self.kind != "series" or source.is_limited or not source.is_near or not _is_flat(self._meta.dtype):
            return False
        units = self._chosen_parts.units
        if len(units) > _ONE_TASK_UNITS or self._row_bytes * int(units[:, ROWS].sum()) > _ONE_TASK_BYTES:
            return False
        # Dask checks other numbers itself.
        if not _is_known_split(parent.split_every):
            return False
        return {user._name for user in _users(self, dependents)} == {parent._name}

    def _reduced(self, parent: Any) -> Any:
        reduction: Any = LanceReduction
        chosen = replace(self.source, parts=self._chosen_parts) if self._filtered else self.source
        kwargs = (parent.chunk_kwargs, parent.aggregate_kwargs)
        return reduction(chosen, self._read_columns[0], type(parent), *kwargs)

    @functools.cached_property
    def _chosen_parts(self) -> Parts:
        parts: Parts = self.source.parts
        return parts.chosen(self._partitions) if self._filtered else parts

    # -- lengths ---------------------------------------------------------------------------------------

    def _length(self, parent: Any) -> Any:
        source: Source = self.source
        if source.is_limited:
            return None
        if source.is_filtered:
            # Counting rows needs no column.
            bare = self._changed(columns=[], kind="frame")
            return None if bare._name == self._name else type(parent)(bare, *parent.operands[1:])
        rows = tuple(source.parts.rows[i] for i in self._partitions)
        return _expr.Literal(sum(rows) if isinstance(parent, _reductions.Len) else rows)

    def _with_limit(self, parent: Any) -> Any:
        """The first rows of a partition, without reading its other rows."""
        if self.source.is_limited or not isinstance(parent.n, int) or parent.n < 0:
            return None
        return parent.substitute(self, self._changed(source=self.source.limited(parent.n)))

    # -- columns ---------------------------------------------------------------------------------------

    def _with_columns(self, parent: Any, dependents: Any) -> Any:
        if self.kind != "frame":
            return None
        if parent.ndim == 1 and self._is_read_alone(parent, dependents):
            return self._changed(columns=parent.columns, kind="series")
        return super()._simplify_up(parent, dependents)  # type: ignore[no-untyped-call]

    def _is_read_alone(self, series: Any, dependents: Any) -> bool:
        """Whether only this column of the scan is used, or it is filtered immediately."""
        users = {user._name for user in _users(self, dependents)}
        if users == {series._name}:
            return True
        if series._name not in users:
            return False
        filters = {user._name: user for user in _users(series, dependents)}
        return len(filters) == 1 and all(
            isinstance(f, _expr.Filter) and f.frame._name == series._name and self._is_pushable(f)
            for f in filters.values()
        )

    # -- filters ---------------------------------------------------------------------------------------

    def _filter_passthrough_available(self, parent: Any, dependents: Any) -> bool:
        """Whether the filter can be pushed; if so, Dask does not move a selection of columns below it."""
        return self._may_filter(parent, dependents)

    def _may_filter(self, parent: Any, dependents: Any) -> bool:
        # A single filter only: with several, the table would be read several times.
        return (
            any(user._name == parent._name for user in _users(self, dependents))
            and bool(_expr.is_filter_pushdown_available(self, parent, dependents))
            and self._is_pushable(parent)
        )

    def _is_pushable(self, parent: Any) -> bool:
        pushed, rest = self._split(parent.predicate)
        if not pushed or self.source.is_limited or self.source.reader.labels == "rank":
            return False
        return all(_is_row_by_row(condition, self) for condition in rest)

    def _split(self, predicate: Any) -> tuple[list[Expr], list[Any]]:
        """Split conditions joined by AND into those that the reader supports and the others."""
        pushed: list[Expr] = []
        rest: list[Any] = []
        for condition in _conditions(predicate):
            try:
                found = _translated(condition, self)
            except ExpressionError:  # nested deeper than the reader's expressions allow
                found = None
            if found is None:
                rest.append(condition)
            else:
                pushed.append(found)
        return pushed, rest

    def _with_filter(self, parent: Any) -> Any:
        """The filtered rows, with as much of the condition as possible pushed into the read."""
        pushed, rest = self._split(parent.predicate)
        source: Source = self.source
        smaller = self._changed(source=source.filtered(chain("and", pushed)))
        if not rest:
            return smaller
        above = functools.reduce(lambda a, b: a & b, [r.substitute(self, smaller) for r in rest])
        return type(parent)(smaller, above)

    def _reads_same_rows(self, other: Any) -> bool:
        """Whether another expression is this scan, except for the columns."""
        return (
            isinstance(other, LanceScan)
            and other.source.token == self.source.token
            and list(other._partitions) == list(self._partitions)
        )

    # -- reading partitions together ---------------------------------------------------------------------

    @property
    def _share(self) -> float:
        """Bytes of the columns read, as a fraction of those of all columns."""
        total = sum(self.source.weights.values())
        return self._row_bytes / total if total else 1.0

    @property
    def _row_bytes(self) -> float:
        """Bytes of one row of the columns that are read or tested.

        Infinite if one is computed or absent from the examined files, since its size is unknown.
        """
        names = {*self._read_columns, *columns_of(self.source.reader.spec.request.filter)}
        return sum(self.source.weights.get(name) or math.inf for name in names)

    @property
    def _bucket(self) -> int:
        """How many partitions to read together: up to the planned size, while enough partitions remain."""
        count = len(self._partitions)
        fewest = max(_FEWEST_PARTS, math.isqrt(count))
        return max(1, min(int(1 / max(self._share, 1e-6)), count // fewest))

    @property
    def _is_scattered(self) -> bool:
        apart = self.together or self.source.is_limited or self.kind == "index"
        return not apart and self._bucket > 1

    def _merged(self) -> Any:
        source: Source = self.source
        parts = self._chosen_parts
        if self._filtered and self.divisions[0] is not None:
            parts = Parts(parts.units, parts.edges, self.divisions)
        merged = parts.merged(range(0, len(parts), self._bucket))
        return self._changed(source=replace(source, parts=merged), _partitions=None, together=False)


class LanceReduction(_expr.Expr):
    """The reduction of a column of a scan, in one task.

    Parameters
    ----------
    source : Source
    column : str
    kind : type
        Dask's expression of the reduction.
    chunk_kwargs, aggregate_kwargs : dict
        Arguments of its two steps.
    """

    _parameters = ["source", "column", "kind", "chunk_kwargs", "aggregate_kwargs"]  # noqa: RUF012

    @functools.cached_property
    def _name(self) -> str:
        return f"lancecy-scan-{self.kind.__name__.lower()}-{self.deterministic_token}"

    @functools.cached_property
    def _reduce(self) -> Reducer:
        kind = self.kind
        kwargs = (self.chunk_kwargs, self.aggregate_kwargs)
        return Reducer(self.source.reader, self.column, kind.chunk, kind.aggregate, *kwargs)

    @functools.cached_property
    def _meta(self) -> Any:
        rows = meta_nonempty(self.source.meta_of("series", (self.column,)))
        return make_meta(self._reduce.reduced(rows))

    def _tree_repr_argument_construction(self, i: int, op: Any, header: str) -> str:
        name = self._parameters[i]
        if name == "source":
            return f"{header} {op.summary}"
        shown = {"column": op, "kind": getattr(op, "__name__", "")}.get(name)
        return header if shown is None else f"{header} {name}={shown}"

    def __dask_tokenize__(self) -> str:
        if not self._determ_token:
            self._determ_token = _digest((self.source.token, *self.operands[1:]))
        return self._determ_token

    def _divisions(self) -> tuple[None, None]:
        return (None, None)

    def _layer(self) -> dict[Any, Task]:
        key = (self._name, 0)
        return {key: Task(key, self._reduce, tuple(self.source.parts.units.ravel().tolist()))}


def _digest(state: tuple[Any, ...]) -> str:
    """Digest of values whose ``repr`` is complete; equal for equal values."""
    return hashlib.sha256(repr(state).encode(errors="surrogatepass")).hexdigest()[:32]


def _users(expr: Any, dependents: Any) -> list[Any]:
    """Expressions that use this one, none if some of them are unknown.

    Dask collects them before each pass over the tree, so expressions made during the pass are missing. A
    caller that needs all of them must check that the current expression is among them.
    """
    found = [reference() for reference in dependents.get(expr._name, ())]
    # Expressions overload ==, so `in` would evaluate the truth of an expression.
    return [] if any(user is None for user in found) else found


def _conditions(predicate: Any) -> Iterator[Any]:
    if isinstance(predicate, _expr.And):
        yield from _conditions(predicate.left)
        yield from _conditions(predicate.right)
    else:
        yield predicate


def _translated(node: Any, scan: LanceScan) -> Expr | None:
    """A condition on the columns of a scan, translated for its reader, or None."""
    if isinstance(node, _expr.And | _expr.Or):
        sides = [_translated(side, scan) for side in (node.left, node.right)]
        known = [side for side in sides if side is not None]
        return chain("and" if isinstance(node, _expr.And) else "or", known) if len(known) == 2 else None
    if isinstance(node, _expr.Invert):
        inner = _translated(node.operands[0], scan)
        return None if inner is None else negate(inner)
    op = _COMPARISONS.get(type(node))
    if op is not None:
        return _comparison(node, op, scan)
    column = _column(node.operands[0] if isinstance(node, _TESTS) else node, scan)
    return None if column is None else _test(node, *column)


_TESTS = (_expr.Isin, _expr.IsNa, _expr.NotNull, _expr.Between)


def _test(node: Any, name: str, data_type: Any) -> Expr | None:
    if isinstance(node, _expr.IsNa):
        return predicates.is_null(name)
    if isinstance(node, _expr.NotNull):
        return negate(predicates.is_null(name))
    if isinstance(node, _expr.Between):
        return predicates.between(name, data_type, node.left, node.right, node.inclusive)
    if isinstance(node, _expr.Isin):
        return predicates.is_in(name, data_type, _listed(node.operands[1]))
    return predicates.is_true(name, data_type)


def _comparison(node: Any, op: str, scan: LanceScan) -> Expr | None:
    left, right = (_column(side, scan) for side in (node.left, node.right))
    if left is not None and right is not None:
        return predicates.both_columns(left[0], right[0], left[1], right[1], op)
    if left is not None and not isinstance(node.right, _expr.Expr):
        return predicates.compare(*left, op, node.right)
    if right is not None and not isinstance(node.left, _expr.Expr):
        return predicates.compare(*right, _MIRRORED[op], node.left)
    return None


def _column(node: Any, scan: LanceScan) -> tuple[str, Any] | None:
    """Name and Arrow type of a column of the scan that conditions may name."""
    if isinstance(node, _expr.Projection) and node.ndim == 1 and scan._reads_same_rows(node.frame):
        name = node.operands[1]
    elif scan._reads_same_rows(node) and node.kind == "series":
        name = node._read_columns[0]
    else:
        return None
    source: Source = scan.source
    if name not in source.pushable:
        return None
    data_type = predicates.pushed_type(source.meta.dtypes[name])
    return None if data_type is None else (name, data_type)


def _listed(values: Any) -> object:
    """The values given to ``isin``, which Dask wraps into a task."""
    if isinstance(values, _expr._DelayedExpr):
        delayed = values.operands[0]
        node = dict(delayed.dask).get(delayed.key)
        return getattr(node, "value", node)
    return values


def _is_row_by_row(node: Any, scan: LanceScan) -> bool:
    """Whether a condition's value for a row of the scan depends on that row only."""
    if isinstance(node, _expr._DelayedExpr) or node._name == scan._name:
        return True
    return isinstance(node, _ROW_BY_ROW) and all(
        _is_row_by_row(operand, scan) for operand in node.operands if isinstance(operand, _expr.Expr)
    )


def _ignores_partitions(scan: LanceScan, parent: Any, dependents: Any) -> bool:
    """Whether every use of a scan is row by row and ends in a reduction.

    Functions that see whole partitions (``map_partitions``, ``head``, random samples, writing files) would see
    different ones.
    """
    seen: set[str] = set()
    stack: list[Any] = [scan]
    while stack:
        node = stack.pop()
        if node._name in seen:
            continue
        seen.add(node._name)
        users = _users(node, dependents)
        if not users or (node is scan and parent._name not in {u._name for u in users}):
            return False
        for user in users:
            if _is_reduction(user):
                continue
            if not isinstance(user, (*_ROW_BY_ROW, _expr.Filter)) or not _reads_only(user, scan):
                return False
            stack.append(user)
    return True


def _is_known_split(split_every: Any) -> bool:
    """Whether Dask accepts this number of branches in trees of reductions."""
    return split_every is None or split_every is False or (isinstance(split_every, int) and split_every >= 2)


def _is_flat(dtype: Any) -> bool:
    """Whether values are numbers, booleans or times, all of one width."""
    import pandas as pd

    return isinstance(dtype, pd.ArrowDtype) and pa.types.is_primitive(dtype.pyarrow_dtype)


# Reductions that see partitions or report on them.
_PARTITION_BY_PARTITION = (_reductions.CustomReduction, _reductions.MemoryUsage)


def _is_reduction(node: Any) -> bool:
    if isinstance(node, _repartition.Repartition):
        return bool(node.new_partitions == 1)
    if not isinstance(node, _reductions.ApplyConcatApply) or isinstance(node, _PARTITION_BY_PARTITION):
        return False
    return type(node.split_out) is int and node.split_out == 1


def _reads_only(node: Any, scan: LanceScan) -> bool:
    """Whether all partitions below are those of this scan."""
    return all(leaf._name == scan._name for leaf in node.find_operations((IO, LanceReduction)))


def collection(source: Source) -> Any:
    """The scan as a Dask DataFrame.

    Parameters
    ----------
    source : Source
        With at least one partition.
    """
    scan: Any = LanceScan  # Dask does not annotate its constructor
    return new_collection(scan(source))


def _check() -> None:
    """Check with an empty scan that this Dask behaves as the code above expects.

    Raises
    ------
    ImportError
        It does not.
    """
    import numpy as np

    from lancecy.dask.dtypes import empty_frame
    from lancecy.scanning.request import ScanRequest
    from lancecy.scanning.task import ScanSpec
    from lancecy.table.location import TableLocation

    reader = Reader(ScanSpec(TableLocation("memory://lancecy-check"), 1, ScanRequest()))
    units = [(0, i, i + 1, 1, i) for i in range(64)]
    parts = Parts(np.array(units, np.int64), np.arange(65), (*range(64), 63))
    meta = empty_frame(pa.schema({"a": pa.int64(), "b": pa.int64(), "c": pa.float64(), "d": pa.binary()}))
    frame = collection(
        Source(reader, parts, meta, {"a": 8, "b": 8, "c": 8, "d": 800}, frozenset("abc"), True)
    )
    try:
        _check_answers(frame)
    except (AttributeError, KeyError, TypeError, ValueError, RuntimeError, AssertionError) as error:
        raise ImportError(f"this release of Dask has other expressions: {error}") from error


def _check_answers(frame: Any) -> None:
    if len(frame) != 64 or len(frame.partitions[2:5].index) != 3 or frame.divisions[-1] != 63:
        raise ValueError("lengths are not answered")
    scans = list(
        frame[(frame.a > 1) & (frame.b != 2)].c.mean().optimize(fuse=False).expr.find_operations(LanceScan)
    )
    if [s._read_columns for s in scans] != [["c"]] or len(scans[0]._partitions) >= 64:
        raise ValueError("columns are not selected")
    if columns_of(scans[0].source.reader.spec.request.filter) != {"a", "b"}:
        raise ValueError("filters are not pushed")
    if (
        not isinstance(frame.c.sum().optimize(fuse=False).expr, LanceReduction)
        or frame.c.max().dtype != float
    ):
        raise ValueError("reductions are not taken")
    if len(frame.map_partitions(len).optimize().__dask_graph__()) != 64:
        raise ValueError("partitions are lost")


_check()
