"""pandas dtypes for Arrow columns that survive every Dask operation.

``pandas.ArrowDtype`` writes nested types as text that it cannot parse, so Dask's
peer-to-peer shuffle and Parquet lose lists, vectors, structs, maps and fixed-size binary.
:class:`NestedArrowDtype` is the same storage under a name that can be parsed
(``lancecy[fixed_size_list<item: float>[32]]``). ``ArrowDtype`` also hashes an integer next
to a null as a float, so Dask's shuffles send equal keys to different partitions:
:class:`FlatArrowDtype` is ``ArrowDtype`` under the same name with one hash per value.
Dictionaries are decoded, because codes differ between partitions. Importing this module
registers the dtypes with pandas and Dask; unpickling one of their values on a worker imports
this module.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import date, time, timedelta
from decimal import Decimal
from functools import cached_property
from typing import Any, Literal, Self, TypeAlias, TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pandas.api.extensions import no_default, register_extension_dtype
from pandas.arrays import ArrowExtensionArray, ArrowStringArray

from lancecy.dask.aliases import parse_type_name, type_name

__all__ = [
    "FlatArrowArray",
    "FlatArrowDtype",
    "NestedArrowArray",
    "NestedArrowDtype",
    "ScannedArray",
    "empty_frame",
    "keeps_values",
    "pandas_array",
    "pandas_dtype",
    "plain",
    "to_frame",
]


_PREFIX, _SUFFIX = "lancecy[", "]"
_NULL_HASH = np.uint64(2**64 - 1)
_TOTALS = ("sum", "prod")
Column: TypeAlias = "pa.Array | pa.ChunkedArray"


class Total(np.float64):
    """A sum or product of floats that Dask takes for a column of one row.

    Dask joins the numbers of all partitions to a NumPy column. There NaN means null, so that the sum of the column
    leaves it out. Totals are joined to an Arrow column, where NaN is a value.
    """

    def __len__(self) -> int:
        return 1

    def __reduce__(self) -> tuple[object, ...]:
        return (Total, (float(self),))

    def sum(self, **kwargs: object) -> Total:  # type: ignore[override]
        """The total of this row."""
        return self

    def prod(self, **kwargs: object) -> Total:  # type: ignore[override]
        """The total of this row."""
        return self


class FlatArrowDtype(pd.ArrowDtype):  # type: ignore[misc]
    """``pandas.ArrowDtype`` whose values have the same hash in every partition.

    Parameters
    ----------
    pyarrow_dtype : pyarrow.DataType
        A number, boolean, date or time.

    Notes
    -----
    It equals ``pandas.ArrowDtype`` of the same type and has its name, so files written from such columns need no
    lancecy.

    Examples
    --------
    >>> import pandas as pd, pyarrow as pa
    >>> dtype = FlatArrowDtype(pa.int64())
    >>> str(dtype), dtype == pd.ArrowDtype(pa.int64())
    ('int64[pyarrow]', True)
    """

    is_of_lancecy = True

    def __eq__(self, other: object) -> bool:
        if isinstance(other, pd.ArrowDtype) and not isinstance(other, NestedArrowDtype):
            return bool(other.pyarrow_dtype == self.pyarrow_dtype)
        return bool(super().__eq__(other))

    def __hash__(self) -> int:
        return hash(pd.ArrowDtype(self.pyarrow_dtype))

    def __reduce__(self) -> tuple[object, ...]:
        return (FlatArrowDtype, (self.pyarrow_dtype,))

    def construct_array_type(self) -> type[FlatArrowArray]:
        """The array class that goes with this dtype."""
        return FlatArrowArray


@register_extension_dtype
class NestedArrowDtype(pd.ArrowDtype):  # type: ignore[misc]
    """Arrow storage under a name that pandas can parse.

    Parameters
    ----------
    pyarrow_dtype : pyarrow.DataType
        Any type; :func:`pandas_dtype` uses this class for those that ``ArrowDtype`` loses.

    Notes
    -----
    Parquet files written from such columns name this dtype: pandas and Dask need lancecy imported to read
    them (Arrow does not).

    Examples
    --------
    >>> import pandas as pd, pyarrow as pa
    >>> dtype = NestedArrowDtype(pa.list_(pa.float32(), 4))
    >>> dtype
    lancecy[fixed_size_list<item: float>[4]]
    >>> pd.Series([[1, 2, 3, 4]], dtype=str(dtype)).dtype == dtype
    True
    """

    is_of_lancecy = True

    @cached_property
    def _name(self) -> str:
        return _PREFIX + type_name(self.pyarrow_dtype) + _SUFFIX

    @property
    def name(self) -> str:
        """``lancecy[...]`` around the Arrow type."""
        return self._name

    @property
    def kind(self) -> str:
        """Always "O": with NumPy's kind of binary values, Dask would convert them to strings."""
        return "O"

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        """``object``, the only NumPy type for nested values."""
        return np.dtype(object)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            return other == self.name
        # By name, so that types that differ only in a child's name or metadata are not equal.
        return isinstance(other, NestedArrowDtype) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __reduce__(self) -> tuple[object, ...]:
        return (NestedArrowDtype, (self.pyarrow_dtype,))

    def _get_common_dtype(self, dtypes: list[Any]) -> Any:
        # Decimals come out of Dask's peer-to-peer shuffle as Python objects, because pyarrow writes "object"
        # for them whatever the dtype; Dask then asks for the common dtype of the two, which is this one.
        if pa.types.is_decimal(self.pyarrow_dtype) and all(
            d == self or d == np.dtype(object) for d in dtypes
        ):
            return self
        return super()._get_common_dtype(dtypes)

    def __from_arrow__(self, array: Column) -> NestedArrowArray:
        """The column with this dtype."""
        if array.type != self.pyarrow_dtype:
            array = array.cast(self.pyarrow_dtype)
        return NestedArrowArray._with_dtype(array, self)

    def construct_array_type(self) -> type[NestedArrowArray]:
        """The array class that goes with this dtype."""
        return NestedArrowArray

    @classmethod
    def construct_from_string(cls, string: str) -> NestedArrowDtype:
        """The dtype with this name.

        Raises
        ------
        TypeError
            The text is not a name of this class (pandas then tries the next class).
        """
        if not isinstance(string, str):
            raise TypeError(f"a dtype's name must be text, not {type(string).__name__}")
        if not (string.startswith(_PREFIX) and string.endswith(_SUFFIX)):
            raise TypeError(f"{string[:200]!r} is not the name of a {cls.__name__}")
        try:
            return cls(parse_type_name(string[len(_PREFIX) : -len(_SUFFIX)]))
        except ValueError as error:
            raise TypeError(str(error)) from error


class ScannedArray(ArrowExtensionArray):  # type: ignore[misc]
    """Values of a column of a scan, except text; shares memory with the Arrow column."""

    _dtype_class: type[FlatArrowDtype | NestedArrowDtype]

    def __init__(self, values: Column) -> None:
        super().__init__(values)
        self._dtype = self._dtype_class(self._pa_array.type)

    @classmethod
    def _with_dtype(cls, pa_array: Column, dtype: FlatArrowDtype | NestedArrowDtype) -> Self:
        result = cls(pa_array)
        result._dtype = dtype
        return result

    def _from_pyarrow_array(self, pa_array: Column) -> pd.api.extensions.ExtensionArray:
        # Results of another type (masks, counts, struct fields) get the dtype that a scan gives that type.
        if pa_array.type != self._dtype.pyarrow_dtype:
            return pandas_array(pa_array)
        return self._with_dtype(pa_array, self._dtype)

    def _cmp_method(self, other: object, op: Callable[[Any, Any], Any]) -> Any:
        return _scanned(super()._cmp_method(other, op))

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        # pandas converts results to Arrow columns only for its own class.
        plain = [ArrowExtensionArray(x._pa_array) if isinstance(x, ScannedArray) else x for x in inputs]
        result = getattr(ufunc, method)(*plain, **kwargs)
        if isinstance(result, tuple):
            return tuple(map(_scanned, result))
        return _scanned(result)


class FlatArrowArray(ScannedArray):
    """Values of a :class:`FlatArrowDtype` column; shares memory with the Arrow column."""

    _dtype_class = FlatArrowDtype

    @property
    def unit(self) -> str:
        """Unit of timestamps and durations, by which Dask converts their standard deviation.

        Raises
        ------
        AttributeError
            The values are neither.
        """
        kind = self._pa_array.type
        if not pa.types.is_timestamp(kind) and not pa.types.is_duration(kind):
            raise AttributeError(f"values of type {kind} have no unit")
        return str(kind.unit)

    def _hash_pandas_object(
        self, *, encoding: str, hash_key: str, categorize: bool
    ) -> np.ndarray[Any, np.dtype[np.uint64]]:
        hashed: np.ndarray[Any, np.dtype[np.uint64]]
        values, kind = self._pa_array, self._pa_array.type
        if values.null_count and (pa.types.is_integer(kind) or pa.types.is_boolean(kind)):
            # pandas would hash integers next to a null as floats, and booleans as objects.
            filled = values.fill_null(False if pa.types.is_boolean(kind) else 0).to_numpy()
            hashed = pd.util.hash_array(filled, encoding, hash_key)
            return np.where(values.is_null().to_numpy(), _NULL_HASH, hashed)
        if pa.types.is_floating(kind):
            # pandas hashes bits, so zeros of either sign and NaNs with different bits get different hashes.
            floats = values.to_numpy() + np.zeros((), kind.to_pandas_dtype())
            floats[np.isnan(floats)] = np.nan
            hashed = pd.util.hash_array(floats, encoding, hash_key)
            return hashed
        hashed = super()._hash_pandas_object(encoding=encoding, hash_key=hash_key, categorize=categorize)
        return hashed

    def _reduce(self, name: str, *, skipna: bool = True, keepdims: bool = False, **kwargs: Any) -> Any:
        result = super()._reduce(name, skipna=skipna, keepdims=keepdims, **kwargs)
        # Without skipna Dask leaves out nothing, and results may be null.
        is_total = name in _TOTALS and skipna and not kwargs.get("min_count")
        return Total(result) if is_total and isinstance(result, float) else result

    def _groupby_op(self, *, how: str, min_count: int, **kwargs: Any) -> Any:
        result = super()._groupby_op(how=how, min_count=min_count, **kwargs)
        may_be_null = min_count > 0 or not kwargs.get("skipna", True)
        if how in _TOTALS and not may_be_null and pa.types.is_floating(self._pa_array.type):
            # pandas makes NaN null, which the total over partitions would leave out.
            result = self._from_pyarrow_array(result._pa_array.fill_null(np.nan))
        return result

    def factorize(self, use_na_sentinel: bool = True) -> tuple[Any, pd.api.extensions.ExtensionArray]:
        """Codes and distinct values, as in pandas."""
        values = self._one_spelling()
        if pa.types.is_floating(values._pa_array.type):
            # Dictionaries with NaN are never equal, and Arrow does not unify dictionaries with a null.
            values = self._with_dtype(pa.chunked_array([values._pa_array.combine_chunks()]), self.dtype)
        codes, uniques = ArrowExtensionArray.factorize(values, use_na_sentinel)
        return codes, uniques

    def unique(self) -> Self:
        """The distinct values, as in pandas."""
        found: Self = ArrowExtensionArray.unique(self._one_spelling())
        return found

    def value_counts(self, dropna: bool = True) -> pd.Series:
        """Counts of each value, as in pandas."""
        return ArrowExtensionArray.value_counts(self._one_spelling(), dropna)

    def duplicated(
        self, keep: Literal["first", "last", False] = "first"
    ) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Whether an equal value precedes (or follows) each value."""
        # pandas would compare integers next to a null as floats, where different large integers are equal.
        codes, _ = self.factorize(use_na_sentinel=False)
        found: np.ndarray[Any, np.dtype[np.bool_]] = pd.Series(codes).duplicated(keep).to_numpy()
        return found

    def _one_spelling(self) -> Self:
        """The same values with one zero and one NaN: Arrow distinguishes them by their bits."""
        values, kind = self._pa_array, self._pa_array.type
        if not (pa.types.is_float32(kind) or pa.types.is_float64(kind)):
            return self
        same = pc.if_else(pc.is_nan(values), pa.scalar(np.nan, kind), pc.add(values, pa.scalar(0.0, kind)))
        return self._with_dtype(same, self.dtype)


class NestedArrowArray(ScannedArray):
    """Values of a :class:`NestedArrowDtype` column; shares memory with the Arrow column."""

    _dtype_class = NestedArrowDtype

    def to_numpy(
        self, dtype: Any = None, copy: bool = False, na_value: object = no_default
    ) -> np.ndarray[Any, np.dtype[Any]]:
        """The values as a NumPy array, of objects if NumPy has no type for them."""
        try:
            converted: np.ndarray[Any, np.dtype[Any]] = super().to_numpy(dtype, copy, na_value)
        except pa.ArrowNotImplementedError:
            # Arrow cannot convert some nestings (lists of fixed-size binary): those go through Python values.
            missing = self._dtype.na_value if na_value is no_default else na_value
            converted = np.empty(len(self), dtype=object)
            converted[:] = [missing if v is None else v for v in self._pa_array.to_pylist()]
        return converted


def _scanned(result: Any) -> Any:
    """A result with the array classes of a scan, if it is an Arrow column."""
    return pandas_array(result._pa_array) if type(result) is ArrowExtensionArray else result


def _is_lost(arrow_type: pa.DataType) -> bool:
    """Whether ``pandas.ArrowDtype`` of this type does not survive Dask.

    Names of nested types and decimals cannot be parsed; Dask converts binary types to strings.
    """
    types = pa.types
    kinds = (types.is_nested, types.is_decimal, types.is_fixed_size_binary)
    return any(kind(arrow_type) for kind in (*kinds, types.is_binary, types.is_large_binary))


def _plain_type(arrow_type: pa.DataType) -> pa.DataType:
    """The type without extension types, dictionaries, views and children's metadata, as pandas keeps it unchanged."""
    types = pa.types
    if isinstance(arrow_type, pa.BaseExtensionType):
        return _plain_type(arrow_type.storage_type)
    if types.is_string_view(arrow_type):
        return pa.string()
    if types.is_binary_view(arrow_type):
        return pa.binary()
    if types.is_run_end_encoded(arrow_type) or types.is_dictionary(arrow_type):
        return _plain_type(arrow_type.value_type)
    if types.is_fixed_size_list(arrow_type):
        return pa.list_(_plain_field(arrow_type.value_field), arrow_type.list_size)
    if types.is_large_list(arrow_type) or types.is_large_list_view(arrow_type):
        return pa.large_list(_plain_field(arrow_type.value_field))
    if types.is_list(arrow_type) or types.is_list_view(arrow_type):
        return pa.list_(_plain_field(arrow_type.value_field))
    if types.is_map(arrow_type):
        return pa.map_(_plain_field(arrow_type.key_field), _plain_field(arrow_type.item_field))
    if types.is_struct(arrow_type):
        return pa.struct([_plain_field(f) for f in arrow_type])
    return arrow_type


def _plain_field(field: pa.Field) -> pa.Field:
    return pa.field(field.name, _plain_type(field.type), field.nullable)


def keeps_values(arrow_type: pa.DataType) -> bool:
    """Whether a frame has the stored values of a column of this Arrow type, not converted ones."""
    if pa.types.is_dictionary(arrow_type):
        return keeps_values(arrow_type.value_type)
    return bool(arrow_type.equals(_plain_type(arrow_type), check_metadata=True))


def pandas_dtype(arrow_type: pa.DataType) -> pd.api.extensions.ExtensionDtype:
    """The pandas dtype that a scan gives a column of this Arrow type.

    Returns
    -------
    ExtensionDtype
        ``StringDtype("pyarrow")`` for text, :class:`NestedArrowDtype` for types that ``ArrowDtype`` would lose
        (lists, vectors, structs, maps, binary, decimals), :class:`FlatArrowDtype` for the rest. Dictionaries are
        represented by their values, extension types by their storage.

    Examples
    --------
    >>> [str(pandas_dtype(t)) for t in (pa.string(), pa.int64(), pa.binary(16))]
    ['string', 'int64[pyarrow]', 'lancecy[fixed_size_binary[16]]']
    """
    plain = _plain_type(arrow_type)
    if pa.types.is_string(plain) or pa.types.is_large_string(plain):
        return pd.StringDtype("pyarrow")
    return NestedArrowDtype(plain) if _is_lost(plain) else FlatArrowDtype(plain)


def pandas_array(column: Column) -> pd.api.extensions.ExtensionArray:
    """The column as a pandas array of its :func:`pandas_dtype`, sharing its memory unless it is decoded."""
    plain = _plain_type(column.type)
    if not column.type.equals(plain, check_metadata=True):
        column = _decoded(column).cast(plain)
    if pa.types.is_string(plain) or pa.types.is_large_string(plain):
        return ArrowStringArray(column, dtype=pd.StringDtype("pyarrow"))
    return NestedArrowArray(column) if _is_lost(plain) else FlatArrowArray(column)


def _decoded(column: Column) -> pa.ChunkedArray:
    """The column with dictionaries decoded, except those in lists, which Arrow's cast decodes."""
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    found = [_decoded_chunk(chunk) for chunk in chunks]
    return pa.chunked_array(found, found[0].type if found else column.type)


def _decoded_chunk(array: pa.Array) -> pa.Array:
    if pa.types.is_dictionary(array.type):
        return array.dictionary.take(array.indices)
    if not pa.types.is_struct(array.type) or not array.type.num_fields:
        return array
    # Below a null struct a code is arbitrary: flattening makes it null, if the field is nullable.
    masked = array.flatten()
    parts = [_decoded_chunk(masked[i] if f.nullable else array.field(i)) for i, f in enumerate(array.type)]
    fields = [f.with_type(part.type) for f, part in zip(array.type, parts, strict=True)]
    return pa.StructArray.from_arrays(parts, fields=fields, mask=array.is_null())


def to_frame(table: pa.Table, index: pd.Index | None = None) -> pd.DataFrame:
    """The table as a DataFrame of Arrow-backed columns, sharing its memory.

    pandas metadata in the schema is ignored: an index that another writer stored is an ordinary column.

    Parameters
    ----------
    table : pyarrow.Table
        Column names are unique.
    index : pandas.Index or None
        (num_rows,); None numbers the rows from zero.
    """
    if index is None:
        index = pd.RangeIndex(table.num_rows)
    arrays = {
        name: pandas_array(column) for name, column in zip(table.column_names, table.columns, strict=True)
    }
    return pd.DataFrame(arrays, index=index, columns=pd.Index(table.column_names, dtype=object), copy=False)


def empty_frame(schema: pa.Schema) -> pd.DataFrame:
    """An empty frame with the dtypes of a scan of this schema: Dask's ``meta``."""
    # Not Schema.empty_table: it builds an array of each type from a Python list, which fails for tensors.
    table = pa.Table.from_arrays([pa.chunked_array([], field.type) for field in schema], schema=schema)
    return to_frame(table, pd.RangeIndex(0))


def _sample(arrow_type: pa.DataType) -> Any:
    """A valid value of a type, on which Dask tries functions."""
    types = pa.types
    if types.is_struct(arrow_type):
        return {f.name: _sample(f.type) for f in arrow_type}
    if types.is_map(arrow_type):
        return [(_sample(arrow_type.key_type), _sample(arrow_type.item_type))]
    if types.is_fixed_size_list(arrow_type):
        return [_sample(arrow_type.value_type)] * arrow_type.list_size
    if types.is_list(arrow_type) or types.is_large_list(arrow_type):
        return [_sample(arrow_type.value_type)]
    if types.is_fixed_size_binary(arrow_type):
        return bytes(arrow_type.byte_width)
    if types.is_decimal(arrow_type):
        return Decimal(0)
    for matches, value in _SAMPLES:
        if matches(arrow_type):
            return value
    return None


_SAMPLES: tuple[tuple[Callable[[pa.DataType], bool], Any], ...] = (
    (pa.types.is_boolean, True),
    (pa.types.is_integer, 1),
    (pa.types.is_floating, 1.5),
    (lambda t: pa.types.is_string(t) or pa.types.is_large_string(t), "a"),
    (lambda t: pa.types.is_binary(t) or pa.types.is_large_binary(t), b"a"),
    (pa.types.is_temporal, 0),
)


def _register_with_dask() -> None:
    from dask.dataframe import backends  # registers Dask's own functions first
    from dask.dataframe.dispatch import (
        concat_dispatch,
        from_pyarrow_table_dispatch,
        get_parallel_type,
        make_meta_dispatch,
    )
    from dask.dataframe.extensions import make_array_nonempty, make_scalar

    make_array_nonempty.register(FlatArrowDtype, make_array_nonempty.dispatch(pd.ArrowDtype))

    @make_array_nonempty.register(NestedArrowDtype)  # type: ignore[untyped-decorator]
    def nonempty(dtype: NestedArrowDtype) -> NestedArrowArray:
        arrow_type = dtype.pyarrow_dtype
        return NestedArrowArray(pa.array([_sample(arrow_type)] * 2, arrow_type))

    convert = backends.get_pandas_dataframe_from_pyarrow

    @from_pyarrow_table_dispatch.register(pd.DataFrame)  # type: ignore[untyped-decorator]
    def restored(meta: pd.DataFrame, table: pa.Table, **kwargs: Any) -> pd.DataFrame:
        return _with_flat_columns(convert(meta, table, **kwargs), meta)

    # Dask needs these to plan reductions (min, max, sum) whose results are such Python values.
    for kind in (Decimal, date, time, timedelta):
        try:
            make_scalar.dispatch(kind)
        except TypeError:
            make_scalar.register(kind)(_same)
    make_meta_dispatch.register(bytes)(_same_meta)
    make_meta_dispatch.register(Total)(_plain_meta)
    get_parallel_type.register(Total)(get_parallel_type.dispatch(pd.Series))
    concat_dispatch.register(Total)(_joined_totals)
    with suppress(ImportError, AttributeError):
        from lancecy.dask import steps

        steps.register()


def _with_flat_columns(frame: pd.DataFrame, meta: pd.DataFrame) -> pd.DataFrame:
    """The frame with lancecy's classes for dtypes that Dask's shuffle restored by pandas' name."""
    for number, dtype in enumerate(meta.dtypes):
        found = frame.iloc[:, number].array
        if isinstance(dtype, FlatArrowDtype) and found.dtype == dtype:
            frame.isetitem(number, FlatArrowArray(found._pa_array))
    if isinstance(meta.index.dtype, FlatArrowDtype) and frame.index.dtype == meta.index.dtype:
        frame.index = pd.Index(FlatArrowArray(frame.index.array._pa_array), name=frame.index.name)
    return frame


def _same(value: Any) -> Any:
    return value


def _same_meta(value: bytes, index: object = None) -> bytes:
    return value


def _plain_meta(value: Total, index: object = None) -> np.float64:
    return np.float64(value)


def _joined_totals(totals: list[Any], **kwargs: Any) -> pd.Series:
    known = [None if total is pd.NA else total for total in totals]
    return pd.Series(FlatArrowArray(pa.array(known, pa.float64())))


_register_with_dask()


Frame = TypeVar("Frame")


def plain(frame: Frame) -> Frame:
    """The same data without lancecy's dtypes, so that its receivers and readers of its files need no lancecy.

    Parameters
    ----------
    frame : Dask or pandas DataFrame or Series

    Returns
    -------
    As given
        Vectors, lists, structs, maps, binary, decimals, numbers and times have ``pandas.ArrowDtype``, sharing
        memory; all other columns are unchanged.

    Raises
    ------
    TypeError
        It is not a frame.

    Notes
    -----
    pandas cannot parse its own names of nested Arrow types (pandas-dev/pandas #53011). Read Parquet files
    written from a plain frame with ``pd.read_parquet(path, dtype_backend="pyarrow")``; Arrow, DuckDB, Polars and
    Spark ignore the names. For the same reason Dask's shuffle on a cluster loses plain nested columns: shuffle
    first.

    Examples
    --------
    >>> import lancecy
    >>> ddf = lancecy.scan("example.lance", columns=["id", "vec"])
    >>> str(ddf.vec.dtype), str(lancecy.plain(ddf).vec.dtype)
    ('lancecy[fixed_size_list<item: float>[4]]', 'fixed_size_list<item: float>[4][pyarrow]')
    """
    import pandas as pd

    if isinstance(frame, pd.DataFrame | pd.Series):
        changed: Frame = _changed(frame)
        return changed
    if not hasattr(frame, "map_partitions") or not hasattr(frame, "_meta"):
        raise TypeError(f"plain() takes a Dask or pandas frame, not a {type(frame).__name__}")
    mapped: Frame = frame.map_partitions(_changed, meta=_changed(frame._meta), enforce_metadata=False)
    return mapped


def _changed(data: Any) -> Any:
    """The data with ArrowDtype instead of lancecy's dtypes."""
    import pandas as pd

    from lancecy.dask.dtypes import ScannedArray

    if isinstance(data, pd.Series):
        return _changed(data.to_frame()).iloc[:, 0].rename(data.name)
    columns = {
        name: pd.Series(pd.arrays.ArrowExtensionArray(column.array._pa_array), index=data.index)
        for name, column in data.items()
        if isinstance(column.array, ScannedArray)
    }
    return data.assign(**columns) if columns else data
