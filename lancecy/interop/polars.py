"""A dataset as a Polars ``LazyFrame``, or rows of it as a ``DataFrame``.

For a lazy frame, Polars passes the columns, predicate, number of rows and batch size that it needs to a function. Columns and
limits are pushed down, and the parts of the predicate that a scan can apply. Texts that files store with a dictionary are
passed as views of its values.

A pushed part keeps every row that the predicate keeps. Polars filters the rows again unless the part keeps no other ones.
Where both differ in meaning, the part is adapted: Polars orders NaN above all numbers and a scan leaves it unordered, so
comparisons with a lower bound keep NaN.

The predicate is read from ``Expr.meta.serialize(format="json")``. That form is not stable: what is not
recognised is not pushed down.
"""

from __future__ import annotations

import io
import itertools
import json
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancecy import kernels
from lancecy.encodings.arrow.columns import validity_of
from lancecy.encodings.arrow.nulls import with_members
from lancecy.encodings.blocks.memory import allocate
from lancecy.errors import needing
from lancecy.expr.build import Filter
from lancecy.expr.clock import time_now
from lancecy.expr.nodes import chain
from lancecy.expr.parsing.parse import parse
from lancecy.interop.source import Scan, Source
from lancecy.scanning.request import at_instant

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Pushed", "as_views", "pushed", "to_polars", "to_polars_lazy"]


_FRAME_ROWS = 1 << 20
_VIEW = 16
"""Bytes of a view."""

_COMPARISONS: dict[str, Callable[[Any, Any], pc.Expression]] = {
    "Eq": lambda a, b: a == b,
    "NotEq": lambda a, b: a != b,
    "Lt": lambda a, b: a < b,
    "LtEq": lambda a, b: a <= b,
    "Gt": lambda a, b: a > b,
    "GtEq": lambda a, b: a >= b,
}
_MIRRORED = {"Eq": "Eq", "NotEq": "NotEq", "Lt": "Gt", "LtEq": "GtEq", "Gt": "Lt", "GtEq": "LtEq"}
_UPWARDS = ("Gt", "GtEq")
_BOUNDS = {"Both": ("GtEq", "LtEq"), "Left": ("GtEq", "Lt"), "Right": ("Gt", "LtEq"), "None": ("Gt", "Lt")}


class Pushed(NamedTuple):
    """A filter that keeps at least the rows that a predicate keeps.

    Attributes
    ----------
    filter : pyarrow.compute.Expression
    is_exact : bool
        It keeps no other rows.
    """

    filter: pc.Expression
    is_exact: bool


def pushed(predicate: pl.Expr, schema: pa.Schema) -> Pushed | None:
    """The part of a predicate that a scan can apply, or None.

    Parameters
    ----------
    predicate : polars.Expr
    schema : pyarrow.Schema
        Of the table.
    """
    try:
        tree = json.loads(predicate.meta.serialize(format="json"))
    except (TypeError, ValueError, json.JSONDecodeError):
        return None
    return _Pusher(schema).implied(tree)


class _Pusher:
    def __init__(self, schema: pa.Schema) -> None:
        self.kinds = {field.name: field.type for field in schema}

    def implied(self, node: Any) -> Pushed | None:
        """A filter that is true wherever ``node`` is."""
        kind, body = _only(node)
        if kind == "BinaryExpr":
            return self.binary(body)
        if kind == "Function":
            return self.function(body)
        truth = self.column(node)
        if truth is None or not pa.types.is_boolean(self.kinds[truth]):
            return None
        return Pushed(pc.field(truth), True)

    def binary(self, body: dict[str, Any]) -> Pushed | None:
        op, left, right = body.get("op"), body.get("left"), body.get("right")
        if op in ("And", "LogicalAnd"):
            return _all_of([self.implied(left), self.implied(right)])
        if op in ("Or", "LogicalOr"):
            one, other = self.implied(left), self.implied(right)
            if one is None or other is None:
                return None
            return Pushed(one.filter | other.filter, one.is_exact and other.is_exact)
        if op not in _COMPARISONS:
            return None
        column, value = self.column(left), right
        if column is None:
            column, value, op = self.column(right), left, _MIRRORED[op]
        return None if column is None else self.compared(column, op, _value(value))

    def function(self, body: dict[str, Any]) -> Pushed | None:
        inputs, (kind, function) = body.get("input", []), _only(body.get("function"))
        column = self.column(inputs[0]) if inputs else None
        if column is None:
            return None
        field = pc.field(column)
        if kind == "StringExpr" and function == "StartsWith":
            start = _value(inputs[1])
            if start is None or not start.is_valid:
                return None
            return Pushed(pc.starts_with(field, start.as_py()), False)
        if kind != "Boolean":
            return None
        name, options = (function, {}) if isinstance(function, str) else _only(function)
        if name in ("IsNull", "IsNotNull"):
            return Pushed(field.is_null() if name == "IsNull" else field.is_valid(), True)
        if name == "IsIn" and not (options or {}).get("nulls_equal"):
            return self.member(column, inputs[1])
        if name == "IsBetween" and (options or {}).get("closed") in _BOUNDS:
            bounds = zip(_BOUNDS[options["closed"]], inputs[1:], strict=True)
            return _all_of([self.compared(column, op, _value(node)) for op, node in bounds])
        return None

    def column(self, node: Any) -> str | None:
        kind, name = _only(node)
        return name if kind == "Column" and name in self.kinds else None

    def compared(self, column: str, op: str, value: pa.Scalar | None) -> Pushed | None:
        kind = self.kinds[column]
        if value is None or not value.is_valid or not _alike(_of_values(kind), value.type):
            return None
        is_exact = _is_compared_equally(kind, value.type)
        found = _COMPARISONS[op](pc.field(column), value)
        if not pa.types.is_floating(kind):
            return Pushed(found, is_exact)
        if value.as_py() != value.as_py():
            # In Polars only NaN is equal to or above NaN; everything else is below or unequal.
            return Pushed(pc.field(column).is_nan(), True) if op in ("Eq", "GtEq") else None
        return Pushed(found | pc.field(column).is_nan() if op in _UPWARDS else found, is_exact)

    def member(self, column: str, node: Any) -> Pushed | None:
        kind, values = self.kinds[column], _value(node)
        if values is None or not _is_list(values.type):
            return None
        wanted = values.values
        if wanted is None or wanted.null_count or not _alike(_of_values(kind), wanted.type):
            return None
        found = pc.field(column).isin(wanted)
        if pa.types.is_floating(kind):
            return Pushed(found | pc.field(column).is_nan(), False)
        return Pushed(found, _is_compared_equally(kind, wanted.type))


def _all_of(parts: list[Pushed | None]) -> Pushed | None:
    """What two conditions imply together; None if neither is known."""
    known = [part for part in parts if part is not None]
    if len(known) == 2:
        return Pushed(known[0].filter & known[1].filter, known[0].is_exact and known[1].is_exact)
    return Pushed(known[0].filter, False) if known else None


def _of_values(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _only(node: Any) -> tuple[str, Any]:
    """Name and content of a variant; a string is a variant without content."""
    if isinstance(node, dict) and len(node) == 1:
        ((name, body),) = node.items()
        return name, body
    return (node, {}) if isinstance(node, str) else ("", {})


def _columns(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        for name, body in node.items():
            if name == "Column":
                yield str(body)
            else:
                yield from _columns(body)
    elif isinstance(node, list) and not all(isinstance(part, int) for part in node):
        for part in node:
            yield from _columns(part)


def _value(node: Any) -> pa.Scalar | None:
    """The value of an expression without columns, evaluated by Polars."""
    import polars as pl

    if next(_columns(node), None) is not None or "Literal" not in (node if isinstance(node, dict) else {}):
        return None
    try:
        expression = pl.Expr.deserialize(io.StringIO(json.dumps(node)), format="json")
        found = pl.select(expression).to_series().to_arrow()
    except (pl.exceptions.PolarsError, TypeError, ValueError):
        return None
    return found[0] if len(found) == 1 else None


def _alike(column: pa.DataType, value: pa.DataType) -> bool:
    """Whether a scan compares the two as Polars does: both integers, both text, or the same type.

    Polars rounds an integer that is compared with a float; a scan does not.
    """
    groups = (pa.types.is_integer, _is_text, _is_bytes, pa.types.is_decimal, pa.types.is_time)
    return (
        any(group(column) and group(value) for group in groups)
        or column == value
        or _same_instant(column, value)
    )


def _is_compared_equally(column: pa.DataType, value: pa.DataType) -> bool:
    """Whether a scan and Polars keep the same rows: Polars converts no values, and orders no categories."""
    same = (
        pa.types.is_integer,
        pa.types.is_floating,
        pa.types.is_date,
        pa.types.is_timestamp,
        pa.types.is_boolean,
    )
    return (_is_text(column) and _is_text(value)) or (column == value and any(kind(column) for kind in same))


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind))


def _same_instant(column: pa.DataType, value: pa.DataType) -> bool:
    """Times of any unit, if both have a zone or neither has."""
    if pa.types.is_timestamp(column) and pa.types.is_timestamp(value):
        return (column.tz is None) == (value.tz is None)
    return bool(pa.types.is_duration(column) and pa.types.is_duration(value))


# -- frames -----------------------------------------------------------------------------------


def to_polars_lazy(source: Source, filter: Filter = None) -> pl.LazyFrame:
    """The dataset as a lazy frame; see :meth:`lancecy.Dataset.to_polars_lazy`.

    Parameters
    ----------
    source : Dataset
    filter : str, pyarrow.compute.Expression, lancecy.Expr or None
        Applied by the scan, in addition to what Polars pushes down.

    Raises
    ------
    ImportError
        Polars is not installed.
    """
    with needing("to_polars_lazy", "polars"):
        from polars.io.plugins import register_io_source
    # A scan returns blobs as their descriptions.
    schema = _frame(source.scanner().schema.empty_table()).schema
    return register_io_source(_Reader(source, filter), schema=schema, is_pure=True)


def to_polars(scan: Scan) -> pl.DataFrame:
    """The rows of a scan as a frame; see :meth:`lancecy.Scanner.to_polars`.

    Parameters
    ----------
    scan : Scanner

    Raises
    ------
    ImportError
        Polars is not installed.
    """
    with needing("to_polars", "polars"):
        import polars  # noqa: F401
    return _frame(scan.to_table())


def _frame(rows: pa.Table | pa.RecordBatch) -> pl.DataFrame:
    import polars as pl

    if not _is_text_only(rows.schema.metadata):
        rows = rows.replace_schema_metadata(None)
    if not all(map(_is_readable, rows.schema)):
        rows = rows.cast(pa.schema(map(_without_metadata, rows.schema), rows.schema.metadata))
    return cast("pl.DataFrame", pl.from_arrow(rows))


def _is_readable(field: pa.Field) -> bool:
    """Whether Polars, which panics otherwise, can read the metadata of a field and of those below it."""
    kind = field.type
    return _is_text_only(field.metadata) and all(_is_readable(kind.field(i)) for i in range(kind.num_fields))


def _is_text_only(metadata: Mapping[bytes, bytes] | None) -> bool:
    try:
        for part in itertools.chain.from_iterable((metadata or {}).items()):
            part.decode()
    except UnicodeDecodeError:
        return False
    return True


def _without_metadata(field: pa.Field) -> pa.Field:
    return pa.field(field.name, with_members(field.type, _without_metadata), field.nullable)


def _with_texts(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The rows with columns that were read in codes as texts, where the schema says so."""
    columns = [
        as_views(column)
        if isinstance(column, pa.DictionaryArray) and _is_text(schema.field(name).type)
        else column
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    ]
    return pa.record_batch(columns, names=batch.schema.names)


def as_views(coded: pa.DictionaryArray) -> pa.Array:
    """Texts as views of the dictionary they are read with, without copies: Polars has them in this form.

    Parameters
    ----------
    coded : pa.DictionaryArray
        Of strings.

    Examples
    --------
    >>> as_views(pa.array(["a", None, "a"]).dictionary_encode()).to_pylist()
    ['a', None, 'a']
    """
    texts, codes = coded.dictionary, coded.indices
    if texts.null_count or not 0 < len(texts) <= len(codes):
        return coded.cast(texts.type).cast(pa.string_view())
    views = texts.cast(pa.string_view())
    _, stored, *data = views.buffers()
    words = np.frombuffer(stored, np.uint8)[_VIEW * views.offset :][: _VIEW * len(views)]
    numbers = np.frombuffer(codes.buffers()[1], codes.type.to_pandas_dtype())[codes.offset :][: len(codes)]
    validity = validity_of(codes)
    bits = None if validity is None else np.frombuffer(validity, np.uint8)[: (len(codes) + 7) // 8]
    memory, room = allocate(_VIEW * len(codes))
    kernels.take_fixed(numbers, words, _VIEW, room, bits)
    buffers = [validity, memory, *data]
    return pa.Array.from_buffers(pa.string_view(), len(codes), buffers, codes.null_count)


class _Reader:
    """The function that Polars calls; pickles with the dataset, without its secrets."""

    def __init__(self, source: Source, filter: Filter) -> None:
        self.source = source
        # Polars may read the frame many times: all of them with the time at which it was made.
        _, self.filter = at_instant(None, filter, source.schema, time_now())

    def __call__(
        self,
        with_columns: list[str] | None,
        predicate: pl.Expr | None,
        n_rows: int | None,
        batch_size: int | None,
    ) -> Iterator[pl.DataFrame]:
        scan, left = self.scan(with_columns, predicate, n_rows, batch_size)
        for batch in scan.to_reader():
            frame = _frame(_with_texts(batch, self.source.schema))
            if left is not None:
                frame = frame.filter(left)
            yield frame if with_columns is None else frame.select(with_columns)

    def scan(
        self, columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, batch_size: int | None
    ) -> tuple[Any, pl.Expr | None]:
        """The scan with everything that can be pushed down, and the predicate if Polars is to filter its rows."""
        kept: object = self.filter
        # ``head(5).filter(...)`` gives both: n_rows counts rows before the predicate, which must not be pushed then.
        if predicate is not None and n_rows is None:
            part = pushed(predicate, self.source.schema)
            if part is not None:
                kept = _and(kept, part.filter)
                predicate = None if part.is_exact else predicate
        if columns is not None and predicate is not None:
            columns = [*columns, *(n for n in predicate.meta.root_names() if n not in columns)]
        # Polars asks for 100,000 rows and takes larger frames in less time.
        rows = None if batch_size is None else max(batch_size, _FRAME_ROWS)
        scan = self.source.scanner(columns, kept, batch_size=rows, limit=n_rows, read_dictionary=True)
        return scan, predicate


def _and(first: Any, second: Any) -> Filter:
    """Both filters; each may be of any notation."""
    known = [part for part in (parse(first), parse(second)) if part is not None]
    return chain("and", known) if known else None
