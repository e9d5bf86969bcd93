"""Tables as pandas frames: the dtypes of the columns, and the index recorded in the schema metadata if it is valid.

pandas stores a JSON text under the key ``pandas``, from which pyarrow restores the index. The text may come from
any writer, and pyarrow takes its shape for granted: a text that is not JSON, or that names missing columns, would
make every table that carries it unreadable as a DataFrame.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, TypedDict, Unpack, get_args

import numpy as np
import pyarrow as pa

__all__ = [
    "PANDAS_DEFAULTS",
    "DtypeBackend",
    "PandasOptions",
    "check_dtype_backend",
    "pandas_frame",
    "to_frame",
]

DtypeBackend: TypeAlias = Literal["pyarrow", "numpy_nullable", "numpy"]
"""The dtypes of a frame: those of Arrow, pandas' own with nulls, or those of NumPy."""


class PandasOptions(TypedDict, total=False):
    """Arguments of ``pyarrow.Table.to_pandas``, under its names."""

    types_mapper: Callable[[pa.DataType], Any] | None
    categories: Sequence[str] | None
    strings_to_categorical: bool
    zero_copy_only: bool
    integer_object_nulls: bool
    date_as_object: bool
    timestamp_as_object: bool
    use_threads: bool
    deduplicate_objects: bool
    ignore_metadata: bool
    safe: bool
    split_blocks: bool
    self_destruct: bool
    maps_as_pydicts: str | None
    coerce_temporal_nanoseconds: bool


_TRUE = ("date_as_object", "use_threads", "deduplicate_objects", "safe")
PANDAS_DEFAULTS: dict[str, Any] = {
    **dict.fromkeys(PandasOptions.__annotations__, False),
    **dict.fromkeys(("types_mapper", "categories", "maps_as_pydicts")),
    **dict.fromkeys(_TRUE, True),
}
"""Default of each option, those of pyarrow."""

_KEY = b"pandas"
# About 200 bytes a column; a text beyond what any limit on columns allows is invalid.
_MAX_BYTES = 64 << 20
_MAX_LEVELS = 64
# Errors that pyarrow and pandas were seen to raise over such a text, and those that their checks are made of.
_COMPLAINTS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    MemoryError,
    RecursionError,
    SyntaxError,
    TypeError,
    ValueError,
    NotImplementedError,
    pa.ArrowException,
)


def check_dtype_backend(dtype_backend: str) -> None:
    """Refuse a kind of dtypes that does not exist.

    Parameters
    ----------
    dtype_backend : str

    Raises
    ------
    ValueError
        Not one of ``DtypeBackend``.
    """
    if dtype_backend not in get_args(DtypeBackend):
        raise ValueError(
            f"dtype_backend is {dtype_backend!r}; it can be {', '.join(map(repr, get_args(DtypeBackend)))}"
        )


def pandas_frame(
    table: pa.Table, dtype_backend: DtypeBackend = "pyarrow", **options: Unpack[PandasOptions]
) -> Any:
    """Convert a table to a DataFrame with dtypes of a kind.

    Parameters
    ----------
    table : pa.Table
    dtype_backend : "pyarrow", "numpy_nullable" or "numpy"
        As in pandas. With "numpy_nullable", columns without such a dtype get the one of "numpy".
    **options
        As for ``pyarrow.Table.to_pandas``. With any of them, the dtypes are those that it gives.

    Returns
    -------
    pandas.DataFrame

    Raises
    ------
    ValueError
        No such kind.

    Examples
    --------
    >>> table = pa.table({"a": [1, None]})
    >>> [str(pandas_frame(table, kind)["a"].dtype) for kind in ("pyarrow", "numpy_nullable", "numpy")]
    ['int64[pyarrow]', 'Int64', 'float64']
    """
    import pandas as pd

    check_dtype_backend(dtype_backend)
    if options:
        return to_frame(table, **options)
    if dtype_backend == "pyarrow":
        return to_frame(table, pd.ArrowDtype)
    return to_frame(_with_numpy_names(table), _nullable if dtype_backend == "numpy_nullable" else None)


def _nullable(kind: pa.DataType) -> Any:
    """The dtype of pandas with nulls for an Arrow type, as ``pandas.read_parquet`` chooses it; None without one."""
    import pandas as pd

    types = pa.types
    if types.is_string(kind) or types.is_large_string(kind):
        return pd.StringDtype()
    if types.is_integer(kind) or types.is_boolean(kind) or types.is_float32(kind) or types.is_float64(kind):
        name = "boolean" if types.is_boolean(kind) else kind.to_pandas_dtype().__name__.capitalize()
        return pd.api.types.pandas_dtype(name.replace("Uint", "UInt"))
    return None


def _with_numpy_names(table: pa.Table) -> pa.Table:
    """The table without the dtypes of other kinds in its pandas metadata, which pyarrow would restore."""
    metadata = dict(table.schema.metadata or {})
    if _KEY not in metadata or not _is_sound(metadata[_KEY]):
        return table
    said = json.loads(metadata[_KEY])
    for column in said["columns"]:
        if not _is_numpy(column["numpy_type"]):
            column["numpy_type"] = "object"
    return table.replace_schema_metadata({**metadata, _KEY: json.dumps(said).encode()})


def _is_numpy(name: str) -> bool:
    try:
        np.dtype(name)
    except (TypeError, ValueError, SyntaxError):
        return False
    return True


def to_frame(
    table: pa.Table,
    types_mapper: Callable[[pa.DataType], Any] | None = None,
    *,
    self_destruct: bool = False,
    **options: Any,
) -> Any:
    """Convert a table to a DataFrame, with the index recorded in its metadata if there is one.

    Parameters
    ----------
    table : pa.Table
    types_mapper : function or None
        From Arrow type to pandas dtype, as for ``pa.Table.to_pandas``.
    self_destruct : bool
        Free columns of the table while it is converted; not with such metadata, which may be wrong.
    **options
        Other arguments of ``pa.Table.to_pandas``.

    Returns
    -------
    pandas.DataFrame

    Raises
    ------
    ValueError, TypeError, NotImplementedError
        The values themselves do not convert.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pa.table({"a": [1, 2]}).replace_schema_metadata({"pandas": "no JSON"})
    >>> to_frame(table, pd.ArrowDtype).shape
    (2, 1)
    """
    metadata = dict(table.schema.metadata or {})
    if _KEY not in metadata:
        return table.to_pandas(types_mapper=types_mapper, self_destruct=self_destruct, **options)
    if _is_sound(metadata[_KEY]):
        try:
            return table.to_pandas(types_mapper=types_mapper, **options)
        except _COMPLAINTS:
            # The values themselves may be at fault: then the error is raised below.
            pass
    del metadata[_KEY]
    return table.replace_schema_metadata(metadata or None).to_pandas(types_mapper=types_mapper, **options)


def _is_sound(text: bytes) -> bool:
    """Whether the text has the shape that pandas writes."""
    if len(text) > _MAX_BYTES:
        return False
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return (
        isinstance(said, dict)
        and _are(said.get("columns"), _is_column)
        and _are(said.get("index_columns"), _is_index, _MAX_LEVELS)
        and _are(said.get("column_indexes", []), _is_column, _MAX_LEVELS)
        and isinstance(said.get("attributes", {}), dict)
    )


def _are(parts: object, sound: Callable[[Any], bool], most: int = 1 << 20) -> bool:
    return isinstance(parts, list) and len(parts) <= most and all(sound(part) for part in parts)


def _is_column(part: object) -> bool:
    return (
        isinstance(part, Mapping)
        and all(isinstance(part.get(key), str) for key in ("pandas_type", "numpy_type"))
        and isinstance(part.get("name"), str | None)
        and isinstance(part.get("field_name"), str | None)
        and isinstance(part.get("metadata"), dict | None)
    )


def _is_index(part: object) -> bool:
    """Whether an index is a column's name, or a range that is not stored."""
    if isinstance(part, str):
        return True
    if not isinstance(part, Mapping) or part.get("kind") != "range":
        return False
    bounds = [part.get(key) for key in ("start", "stop", "step")]
    return all(type(bound) is int and abs(bound) < 1 << 63 for bound in bounds) and bounds[2] != 0
