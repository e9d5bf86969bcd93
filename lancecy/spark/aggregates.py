"""Partial aggregates of a whole scan, computed by the executors that read it.

Spark passes every row of a Python worker through a loop in the JVM, which costs several times more than
reading the row. For ``sum``, ``avg``, ``min``, ``max`` and ``count`` without groups, a worker can compute the
partial results: one row per partition goes to Spark, which merges them with its own functions, so that types,
names and overflow behaviour are Spark's.

 ``spark.pushdown`` decides which aggregates are computed here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancecy.records import dataclass
from lancecy.spark.tasks import TaskReader
from lancecy.spark.workers import Carried

__all__ = ["Aggregate", "AggregateReader", "Function"]

Function: TypeAlias = Literal["sum", "avg", "min", "max", "count"]

_OWN = "system.builtin."
_MAX, _MIN = (1 << 63) - 1, -(1 << 63)


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One aggregate function of one column.

    Attributes
    ----------
    function : "sum", "avg", "min", "max" or "count"
    column : str or None
        None counts rows.
    """

    function: Function
    column: str | None = None

    def is_supported(self, kind: pa.DataType | None) -> bool:
        """Whether merging partial results of a column of this type (one of Spark's) gives exactly Spark's result."""
        if self.function == "count":
            return True
        if kind is None:
            return False
        if self.function in ("sum", "avg"):
            # The precision of decimal sums depends on settings of the session.
            return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))
        return not (pa.types.is_nested(kind) or pa.types.is_null(kind))

    def fields(self, name: str, kind: pa.DataType | None) -> list[pa.Field]:
        """Columns of partial results, with names that begin with ``name``; ``kind`` is the type of the input."""
        if self.function == "count":
            return [pa.field(name, pa.int64(), nullable=False)]
        if self.function == "avg":
            return [pa.field(name, pa.float64()), pa.field(f"{name}_n", pa.int64(), nullable=False)]
        if self.function == "sum":
            return [pa.field(name, pa.int64() if pa.types.is_integer(kind) else pa.float64())]
        return [pa.field(name, kind)]

    def merged(self, name: str) -> str:
        """SQL that merges such columns; with qualified names, because a session may redefine functions."""
        if self.function == "count":
            return f"{_OWN}coalesce({_OWN}sum({name}), 0L)"
        if self.function == "avg":
            return f"{_OWN}try_divide({_OWN}sum({name}), {_OWN}sum({name}_n))"
        return f"{_OWN}{self.function}({name})"

    def state(self) -> State:
        """The initial state."""
        if self.function == "count":
            return _Count()
        if self.function == "avg":
            return _Average()
        return _Sum() if self.function == "sum" else _Extreme(self.function)


class State(Protocol):
    """The state of an aggregate after some batches."""

    def add(self, column: pa.Array | None, num_rows: int) -> None:
        """Add a column of ``num_rows`` rows; None stands for rows themselves, which are never null."""

    def results(self) -> list[list[Any]]:
        """Values of each field; more than one only if no single value represents the result."""


class _Count:
    def __init__(self) -> None:
        self.count = 0

    def add(self, column: pa.Array | None, num_rows: int) -> None:
        self.count += num_rows - (0 if column is None else column.null_count)

    def results(self) -> list[list[Any]]:
        return [[self.count]]


class _Sum:
    """Exact sum of integers of any size."""

    def __init__(self) -> None:
        self.total: int | float | None = None

    def add(self, column: pa.Array, num_rows: int) -> None:
        found = _wide_sum(column) if column.type == pa.int64() else pc.sum(column).as_py()
        if found is not None:
            self.total = found if self.total is None else self.total + found

    def results(self) -> list[list[Any]]:
        return [_addends(self.total) if isinstance(self.total, int) else [self.total]]


class _Average:
    def __init__(self) -> None:
        self.sum, self.count = _Sum(), _Count()

    def add(self, column: pa.Array, num_rows: int) -> None:
        self.sum.add(column, num_rows)
        self.count.add(column, num_rows)

    def results(self) -> list[list[Any]]:
        total = self.sum.total
        return [[None if total is None else float(total)], *self.count.results()]


class _Extreme:
    def __init__(self, function: Function) -> None:
        self.function = function
        self.found: pa.Array | None = None

    def add(self, column: pa.Array, num_rows: int) -> None:
        mine = _extreme(column, self.function)
        if self.found is not None:
            mine = _extreme(pa.concat_arrays([self.found, mine]), self.function)
        self.found = mine

    def results(self) -> list[list[Any]]:
        return [[None if self.found is None else self.found[0]]]


def _wide_sum(column: pa.Array) -> int | None:
    """Exact sum of an int64 column; Arrow's sum wraps around."""
    if column.null_count == len(column):
        return None
    bounds = pc.min_max(column).as_py()
    if max(-bounds["min"], bounds["max"]) * len(column) <= _MAX:
        total: int = pc.sum(column).as_py()
        return total
    values = column.drop_null().to_numpy()
    return (int((values >> 32).sum()) << 32) + int((values & np.int64(0xFFFFFFFF)).sum())


def _addends(total: int) -> list[int]:
    """The total, or, if it does not fit, int64 values whose sum overflows in Spark as the rows themselves would.

    The rows of a task are added in order, so the first two overflow whatever other tasks return. If the
    session lets sums wrap around, the third corrects the result.
    """
    if _MIN <= total <= _MAX:
        return [total]
    end = _MAX if total > 0 else _MIN
    rest = (total - 2 * end + (1 << 63)) % (1 << 64) - (1 << 63)
    return [end, end, rest]


def _extreme(column: pa.Array, function: Function) -> pa.Array:
    """The least or largest value as an array of one, null if there is none. In Spark NaN is above all numbers."""
    if pa.types.is_floating(column.type):
        nan = pc.fill_null(pc.is_nan(column), False)
        if pc.any(nan).as_py():
            numbers = column.filter(pc.invert(nan)).drop_null()
            if function == "max" or not len(numbers):
                return pa.array([float("nan")], column.type)
            column = numbers
    if pa.types.is_duration(column.type):
        return _extreme(column.view(pa.int64()), function).view(column.type)  # Arrow does not order them
    found = pc.min(column) if function == "min" else pc.max(column)
    return pa.repeat(found, 1)


@dataclass(frozen=True, slots=True)
class AggregateReader(Carried):
    """Reads parts of a table on an executor and returns partial results instead of rows.

    Attributes
    ----------
    reader : TaskReader
        Reads the columns that are needed.
    aggregates : tuple of Aggregate
    """

    reader: TaskReader
    aggregates: tuple[Aggregate, ...]

    @property
    def target(self) -> pa.Schema:
        """Schema of the result: the fields of the n-th aggregate, whose names begin with ``pn``."""
        held = self.reader.converter.target
        return pa.schema(
            [
                field
                for number, a in enumerate(self.aggregates)
                for field in a.fields(f"p{number}", None if a.column is None else held.field(a.column).type)
            ]
        )

    def __call__(self, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """One batch for all the parts whose numbers are in the first column."""
        states = [aggregate.state() for aggregate in self.aggregates]
        for batch in self.reader(numbers):
            for aggregate, state in zip(self.aggregates, states, strict=True):
                column = None if aggregate.column is None else batch.column(aggregate.column)
                state.add(column, batch.num_rows)
        yield _rows([values for state in states for values in state.results()], self.target)


def _rows(columns: Sequence[list[Any]], target: pa.Schema) -> pa.RecordBatch:
    """Columns padded to one length; padding does not change any aggregate."""
    longest = max(len(values) for values in columns)
    filled = [
        values + [None if field.nullable else 0] * (longest - len(values))
        for values, field in zip(columns, target, strict=True)
    ]
    arrays = [pa.array(values, field.type) for values, field in zip(filled, target, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=target)
