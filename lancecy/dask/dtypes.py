"""pandas dtypes for Arrow columns that survive every Dask operation.

``pandas.ArrowDtype`` writes nested types as text it cannot read back, so Dask's
peer-to-peer shuffle and Parquet lose lists, vectors, structs, maps, dictionaries and
fixed-size binary. :class:`NestedArrowDtype` is the same storage under a name that can be
parsed (``lancecy[fixed_size_list<item: float>[32]]``). Importing this module registers it
with pandas and with Dask; unpickling one of its values on a worker imports this module.

Imports pandas, pyarrow and ``dask.aliases``; nothing at ``import lancecy`` imports this module.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, time, timedelta
from decimal import Decimal
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa
from pandas.api.extensions import no_default, register_extension_dtype
from pandas.arrays import ArrowExtensionArray, ArrowStringArray

from lancecy.dask.aliases import parse_type_name, type_name

__all__ = [
    "NestedArrowArray",
    "NestedArrowDtype",
    "empty_frame",
    "keeps_type",
    "pandas_array",
    "pandas_dtype",
    "to_frame",
]

_PREFIX, _SUFFIX = "lancecy[", "]"
Column: TypeAlias = "pa.Array | pa.ChunkedArray"


@register_extension_dtype
class NestedArrowDtype(pd.ArrowDtype):  # type: ignore[misc]
    """Arrow storage under a name that pandas can parse back.

    Parameters
    ----------
    pyarrow_dtype : pyarrow.DataType
        Any type; :func:`pandas_dtype` uses this class for those that ``ArrowDtype`` loses.

    Notes
    -----
    Parquet files written from such columns name this dtype: reading them as pandas or Dask frames needs
    lancecy imported (Arrow itself does not look). Dask takes dictionaries in Parquet for categoricals:
    read those with ``dd.read_parquet(path, categories=[])``.

    Examples
    --------
    >>> import pandas as pd, pyarrow as pa
    >>> dtype = NestedArrowDtype(pa.list_(pa.float32(), 4))
    >>> dtype
    lancecy[fixed_size_list<item: float>[4]]
    >>> pd.Series([[1, 2, 3, 4]], dtype=str(dtype)).dtype == dtype
    True
    """

    @cached_property
    def _name(self) -> str:
        return _PREFIX + type_name(self.pyarrow_dtype) + _SUFFIX

    @property
    def name(self) -> str:
        """``lancecy[...]`` around the Arrow type."""
        return self._name

    @property
    def kind(self) -> str:
        """Always "O": NumPy's kind of binary values would make Dask convert them to strings."""
        return "O"

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        """``object``: what NumPy can hold of nested values."""
        return np.dtype(object)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            return other == self.name
        # By name, so that types that differ only in a child's name or metadata are not taken for equal.
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
        """The column with this dtype; Dask's shuffle hands over the values of dictionaries of numbers."""
        wanted = self.pyarrow_dtype
        if pa.types.is_dictionary(wanted) and not pa.types.is_dictionary(array.type):
            array = array.cast(wanted.value_type).dictionary_encode()
        if array.type != wanted:
            array = array.cast(wanted)
        return NestedArrowArray._with_dtype(array, self)

    def construct_array_type(self) -> type[NestedArrowArray]:
        """The array class that goes with this dtype."""
        return NestedArrowArray

    @classmethod
    def construct_from_string(cls, string: str) -> NestedArrowDtype:
        """Dtype of a name.

        Raises
        ------
        TypeError
            The text is not a name of this class (pandas then asks the next class).
        """
        if not isinstance(string, str):
            raise TypeError(f"a dtype's name must be text, not {type(string).__name__}")
        if not (string.startswith(_PREFIX) and string.endswith(_SUFFIX)):
            raise TypeError(f"{string[:200]!r} is no {cls.__name__}")
        try:
            return cls(parse_type_name(string[len(_PREFIX) : -len(_SUFFIX)]))
        except ValueError as error:
            raise TypeError(str(error)) from error


class NestedArrowArray(ArrowExtensionArray):  # type: ignore[misc]
    """Values of a :class:`NestedArrowDtype` column; shares memory with the Arrow column."""

    def __init__(self, values: Column) -> None:
        super().__init__(values)
        self._dtype = NestedArrowDtype(self._pa_array.type)

    def _from_pyarrow_array(self, pa_array: Column) -> pd.api.extensions.ExtensionArray:
        # Results of another type (masks, counts, struct fields) are ordinary columns again.
        if pa_array.type != self._dtype.pyarrow_dtype:
            return pandas_array(pa_array)
        return self._with_dtype(pa_array, self._dtype)

    def to_numpy(
        self, dtype: Any = None, copy: bool = False, na_value: object = no_default
    ) -> np.ndarray[Any, np.dtype[Any]]:
        """The values as a NumPy array, of objects where NumPy has no type for them."""
        try:
            converted: np.ndarray[Any, np.dtype[Any]] = super().to_numpy(dtype, copy, na_value)
        except pa.ArrowNotImplementedError:
            # Arrow refuses some nestings (lists of fixed-size binary): those go through Python values.
            missing = self._dtype.na_value if na_value is no_default else na_value
            converted = np.empty(len(self), dtype=object)
            converted[:] = [missing if v is None else v for v in self._pa_array.to_pylist()]
        return converted

    @classmethod
    def _with_dtype(cls, pa_array: Column, dtype: NestedArrowDtype) -> NestedArrowArray:
        result = cls(pa_array)
        result._dtype = dtype
        return result


def _is_lost(arrow_type: pa.DataType) -> bool:
    """Whether ``pandas.ArrowDtype`` of this type does not survive Dask.

    Nested, dictionary and decimal names cannot be parsed; of binary types Dask makes strings.
    """
    types = pa.types
    kinds = (types.is_nested, types.is_dictionary, types.is_decimal, types.is_fixed_size_binary)
    return any(kind(arrow_type) for kind in (*kinds, types.is_binary, types.is_large_binary))


def _plain_type(arrow_type: pa.DataType) -> pa.DataType:
    """The type without extension types, views and children's metadata: what pandas can carry unchanged."""
    types = pa.types
    if isinstance(arrow_type, pa.BaseExtensionType):
        return _plain_type(arrow_type.storage_type)
    if types.is_string_view(arrow_type):
        return pa.string()
    if types.is_binary_view(arrow_type):
        return pa.binary()
    if types.is_run_end_encoded(arrow_type):
        return _plain_type(arrow_type.value_type)
    if types.is_dictionary(arrow_type):
        return pa.dictionary(arrow_type.index_type, _plain_type(arrow_type.value_type), arrow_type.ordered)
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


def keeps_type(arrow_type: pa.DataType) -> bool:
    """Whether a column of this Arrow type is stored in a frame as it is, and not as something simpler."""
    return bool(arrow_type.equals(_plain_type(arrow_type), check_metadata=True))


def pandas_dtype(arrow_type: pa.DataType) -> pd.api.extensions.ExtensionDtype:
    """The pandas dtype a column of this Arrow type gets in a scan.

    Returns
    -------
    ExtensionDtype
        ``StringDtype("pyarrow")`` for text, :class:`NestedArrowDtype` for what ``ArrowDtype`` would lose
        (lists, vectors, structs, maps, dictionaries, binary, decimals), ``ArrowDtype`` for the rest.
        Extension types are represented by their storage.

    Examples
    --------
    >>> [str(pandas_dtype(t)) for t in (pa.string(), pa.int64(), pa.binary(16))]
    ['string', 'int64[pyarrow]', 'lancecy[fixed_size_binary[16]]']
    """
    plain = _plain_type(arrow_type)
    if pa.types.is_string(plain) or pa.types.is_large_string(plain):
        return pd.StringDtype("pyarrow")
    return NestedArrowDtype(plain) if _is_lost(plain) else pd.ArrowDtype(plain)


def pandas_array(column: Column) -> pd.api.extensions.ExtensionArray:
    """The column as a pandas array of its :func:`pandas_dtype`, sharing its memory."""
    plain = _plain_type(column.type)
    if not column.type.equals(plain, check_metadata=True):
        column = column.cast(plain)
    if pa.types.is_string(plain) or pa.types.is_large_string(plain):
        return ArrowStringArray(column, dtype=pd.StringDtype("pyarrow"))
    return NestedArrowArray(column) if _is_lost(plain) else ArrowExtensionArray(column)


def to_frame(table: pa.Table, index: pd.Index | None = None) -> pd.DataFrame:
    """The table as a DataFrame of Arrow-backed columns, sharing its memory.

    pandas metadata in the schema is ignored: an index stored there by another writer is a column like any other.

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
    """A frame of no rows with the dtypes that a scan of this schema has: Dask's ``meta``."""
    # Not Schema.empty_table: it builds an array of each type from a Python list, which tensors refuse.
    table = pa.Table.from_arrays([pa.chunked_array([], field.type) for field in schema], schema=schema)
    return to_frame(table, pd.RangeIndex(0))


def _sample(arrow_type: pa.DataType) -> Any:
    """Some valid value of a type, for Dask to try functions on."""
    types = pa.types
    if types.is_struct(arrow_type):
        return {f.name: _sample(f.type) for f in arrow_type}
    if types.is_map(arrow_type):
        return [(_sample(arrow_type.key_type), _sample(arrow_type.item_type))]
    if types.is_fixed_size_list(arrow_type):
        return [_sample(arrow_type.value_type)] * arrow_type.list_size
    if types.is_list(arrow_type) or types.is_large_list(arrow_type):
        return [_sample(arrow_type.value_type)]
    if types.is_dictionary(arrow_type):
        return _sample(arrow_type.value_type)
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
    from dask.dataframe.extensions import make_array_nonempty, make_scalar

    @make_array_nonempty.register(NestedArrowDtype)  # type: ignore[untyped-decorator]
    def nonempty(dtype: NestedArrowDtype) -> NestedArrowArray:
        arrow_type = dtype.pyarrow_dtype
        return NestedArrowArray(pa.array([_sample(arrow_type)] * 2, arrow_type))

    # Without these Dask cannot plan reductions (min, max, sum) that end in one of these Python values.
    for kind in (Decimal, date, time, timedelta):
        try:
            make_scalar.dispatch(kind)
        except TypeError:
            make_scalar.register(kind)(_same)


def _same(value: Any) -> Any:
    return value


_register_with_dask()
