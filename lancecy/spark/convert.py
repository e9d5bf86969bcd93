"""Converts Arrow values to the exact types that Spark accepts.

:class:`Converter` is made once per scan from two schemas and then applied to batches, on
the driver or on executors. Leaves are cast with Arrow's checked casts, nested types are
rebuilt around their converted children. No value is lost silently: nanoseconds that Spark
cannot hold, and nulls in columns declared without, raise errors that name the column.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancecy.encodings.arrow.nulls import null_mask
from lancecy.errors import FormatError, UnsupportedError, printable
from lancecy.records import dataclass
from lancecy.spark.types import spark_arrow_schema

__all__ = ["Converter"]

_MAX_OFFSET = (1 << 31) - 1


@dataclass(frozen=True)
class Converter:
    """Converts batches of one schema to batches that Spark accepts.

    Attributes
    ----------
    schema : pyarrow.Schema
        Schema of the input.
    truncate_nanoseconds : bool
        Round nanosecond times down to Spark's microseconds instead of raising for those that do not fit.
    wanted : pyarrow.Schema or None
        Schema of the output, if it declares fewer nullable columns than the input; with the types of
        :func:`lancecy.spark.spark_arrow_schema`.
    """

    schema: pa.Schema
    truncate_nanoseconds: bool = False
    wanted: pa.Schema | None = None

    @cached_property
    def target(self) -> pa.Schema:
        """Schema of the output."""
        return spark_arrow_schema(self.schema) if self.wanted is None else self.wanted

    def narrowed(self, names: Sequence[str]) -> Converter:
        """A converter for batches of these columns only."""
        schemas = [pa.schema([schema.field(name) for name in names]) for schema in (self.schema, self.target)]
        return Converter(schemas[0], self.truncate_nanoseconds, schemas[1])

    def batches(self, table: pa.Table, max_rows: int) -> Iterator[pa.RecordBatch]:
        """Converted batches of at most ``max_rows`` rows.

        Raises
        ------
        UnsupportedError, FormatError
            As for :meth:`batch`.
        """
        for start in range(0, table.num_rows, max_rows):
            yield self._converted([_one(column) for column in table.slice(start, max_rows).columns])

    def batch(self, given: pa.RecordBatch) -> pa.RecordBatch:
        """Convert one batch.

        Raises
        ------
        UnsupportedError
            Spark cannot represent a value; the message names the column and the remedy.
        FormatError
            A null in a column that is declared non-nullable.
        """
        # A batch without columns would lose its number of rows.
        return self._converted(given.columns) if given.num_columns else given

    def _converted(self, arrays: list[pa.Array]) -> pa.RecordBatch:
        columns = [self._column(array, field) for array, field in zip(arrays, self.target, strict=True)]
        return pa.RecordBatch.from_arrays(columns, schema=self.target)

    def _column(self, array: pa.Array, wanted: pa.Field) -> pa.Array:
        try:
            converted = self._convert(array, wanted.type)
        except pa.ArrowException as error:
            raise _no_fit(wanted.name, array.type, wanted.type, error) from error
        _check_nulls(converted, wanted, wanted.name)
        return converted

    def _convert(self, array: pa.Array, wanted: pa.DataType) -> pa.Array:
        if array.type.equals(wanted, check_metadata=True) and not _holds_times(wanted):
            # PySpark rebuilds nested arrays, and fails on slices.
            return pa.concat_arrays([array]) if array.offset and pa.types.is_nested(wanted) else array
        types = pa.types
        kind = array.type
        if isinstance(kind, pa.BaseExtensionType):
            return self._convert(array.storage, wanted)
        if types.is_dictionary(kind):
            values = self._convert(array.dictionary, wanted)
            return pa.DictionaryArray.from_arrays(array.indices, values).dictionary_decode()
        if types.is_run_end_encoded(kind):
            return self._convert(pc.run_end_decode(array), wanted)
        if types.is_map(kind):
            return self._map(array, wanted)
        if types.is_list(wanted):
            return self._list(array, wanted)
        if types.is_struct(kind):
            children = [self._convert(array.field(i), wanted.field(i).type) for i in range(kind.num_fields)]
            return pa.StructArray.from_arrays(children, fields=list(wanted), mask=null_mask(array))
        return self._leaf(array, wanted)

    def _list(self, array: pa.Array, wanted: pa.ListType) -> pa.Array:
        types = pa.types
        if types.is_fixed_size_list(array.type):
            offsets, values = _fixed_spans(array)
        elif types.is_list_view(array.type) or types.is_large_list_view(array.type):
            offsets, values = _view_spans(array)
        else:
            offsets, values = _spans(array)
        converted = self._convert(values, wanted.value_type)
        return pa.ListArray.from_arrays(offsets, converted, type=wanted, mask=null_mask(array))

    def _map(self, array: pa.MapArray, wanted: pa.MapType) -> pa.Array:
        offsets, entries = _spans(array)
        keys = self._convert(entries.field(0), wanted.key_type)
        items = self._convert(entries.field(1), wanted.item_type)
        return pa.MapArray.from_arrays(offsets, keys, items, type=wanted, mask=null_mask(array))

    def _leaf(self, array: pa.Array, wanted: pa.DataType) -> pa.Array:
        if getattr(array.type, "unit", None) == "ns" and not pa.types.is_date(array.type):
            floored = _floor_to_microseconds(array)
            # Arrow's casts check timestamps and durations, but silently drop nanoseconds of times of day.
            if not self.truncate_nanoseconds and not floored.equals(array):
                raise pa.ArrowInvalid("nanoseconds below a microsecond would be lost")
            array = floored
        return array.cast(wanted)


def _holds_times(kind: pa.DataType) -> bool:
    """Whether the type contains times of day, whose nanoseconds Spark's TIME(6) cannot hold."""
    if pa.types.is_nested(kind):
        return any(_holds_times(kind.field(i).type) for i in range(kind.num_fields))
    return bool(pa.types.is_time(kind))


def _one(column: pa.ChunkedArray) -> pa.Array:
    if column.num_chunks == 1:
        return column.chunk(0)
    combined = column.combine_chunks()
    return pa.concat_arrays(combined.chunks) if isinstance(combined, pa.ChunkedArray) else combined


def _spans(array: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Offsets from zero and the child values of a (sliced) list or map array."""
    offsets = array.offsets
    first, last = (offsets[0].as_py(), offsets[-1].as_py()) if len(array) else (0, 0)
    rebased = pc.subtract(offsets, first) if len(array) else pa.array([0], pa.int32())
    return rebased.cast(pa.int32()), array.values.slice(first, last - first)


def _fixed_spans(array: pa.FixedSizeListArray) -> tuple[pa.Array, pa.Array]:
    size = array.type.list_size
    if len(array) * size > _MAX_OFFSET:
        raise pa.ArrowInvalid(f"{len(array)} lists of {size} elements are more than one Spark batch can hold")
    offsets = pa.array(np.arange(len(array) + 1, dtype=np.int32) * np.int32(size))
    return offsets, array.values.slice(array.offset * size, len(array) * size)


def _view_spans(array: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Offsets and child values of a list view, copied into the order of its lists."""
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
    offsets = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))
    return pa.array(offsets).cast(pa.int32()), array.flatten()


def _floor_to_microseconds(array: pa.Array) -> pa.Array:
    """The same type, rounded down to microseconds (towards the past, as in Spark)."""
    as_instants = array.view(pa.int64()).view(pa.timestamp("ns"))
    return pc.floor_temporal(as_instants, unit="microsecond").view(pa.int64()).view(array.type)


def _no_fit(name: str, given: pa.DataType, wanted: pa.DataType, error: Exception) -> UnsupportedError:
    remedy = ""
    if "ns" in str(given):
        remedy = "; pass truncate_nanoseconds=True to round down to microseconds"
    return UnsupportedError(
        f"column {name!r} of Arrow type {printable(str(given))} holds a value that Spark cannot hold: "
        f"{printable(str(error))}{remedy}",
        feature=f"Spark: {printable(str(given))}",
    )


def _check_nulls(array: pa.Array, field: pa.Field, path: str) -> None:
    """Refuse nulls in non-nullable columns, on which Spark's generated code would crash."""
    if not field.nullable and array.null_count:
        raise FormatError(f"column {path!r} holds nulls although its field is not nullable")
    kind = field.type
    if pa.types.is_map(kind):
        # Flattening drops values below null parents, which nothing reads.
        entries = pa.ListArray.from_arrays(array.offsets, array.values, mask=null_mask(array)).flatten()
        _check_nulls(entries.field(0), kind.key_field, f"{path}.key")
        _check_nulls(entries.field(1), kind.item_field, f"{path}.value")
    elif pa.types.is_struct(kind) and any(_is_strict(child) for child in kind):
        present = array.drop_null() if array.null_count else array
        for index, child in enumerate(kind):
            _check_nulls(present.field(index), child, f"{path}.{child.name}")
    elif pa.types.is_list(kind) and _is_strict(kind.value_field):
        _check_nulls(array.flatten(), kind.value_field, f"{path}[]")


def _is_strict(field: pa.Field) -> bool:
    """Whether the field, or any field below it, is non-nullable."""
    kind = field.type
    if not field.nullable or pa.types.is_map(kind):
        return True
    if pa.types.is_struct(kind):
        return any(_is_strict(child) for child in kind)
    return bool(pa.types.is_list(kind)) and _is_strict(kind.value_field)
