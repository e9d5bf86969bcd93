"""Converts frames to pandas' own dtypes."""

from __future__ import annotations

from typing import Any, TypeVar

__all__ = ["plain"]

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
