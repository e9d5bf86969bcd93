"""The pandas index recorded in a table's schema metadata; invalid records are ignored.

pandas stores a JSON text under the key ``pandas``, from which pyarrow restores the index. The text may come from
any writer, and pyarrow takes its shape for granted: a text that is not JSON, or that names missing columns, would
make every table that carries it unreadable as a DataFrame.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

__all__ = ["to_frame"]

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


def to_frame(table: pa.Table, types_mapper: Callable[[pa.DataType], Any]) -> Any:
    """Convert a table to a DataFrame, with the index recorded in its metadata if there is one.

    Parameters
    ----------
    table : pa.Table
    types_mapper : function
        From Arrow type to pandas dtype, as for ``pa.Table.to_pandas``.

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
        return table.to_pandas(types_mapper=types_mapper)
    if _is_sound(metadata[_KEY]):
        try:
            return table.to_pandas(types_mapper=types_mapper)
        except _COMPLAINTS:
            # The values themselves may be at fault: then the error is raised below.
            pass
    del metadata[_KEY]
    return table.replace_schema_metadata(metadata or None).to_pandas(types_mapper=types_mapper)


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
