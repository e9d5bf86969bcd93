"""Results of scans as pandas DataFrames, whose blob columns have files, bytes or descriptors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from lancecy.api.binary_scans import blob_columns, column_paths
from lancecy.api.scanners import BlobMode, Scanner
from lancecy.blobs.take import take_blobs
from lancecy.errors import UnsupportedError, printable
from lancecy.schema import Field, join_name

__all__ = ["frame_with_blobs"]

_ADDRESS = "_rowaddr"
_HANDLING: Mapping[str, str] = {
    "lazy": "blobs_descriptions",
    "bytes": "all_binary",
    "descriptions": "blobs_descriptions",
}


def frame_with_blobs(
    remake: Callable[[Mapping[str, Any]], Scanner],
    has_handling: bool,
    scanner: Scanner,
    convert: Callable[[pa.Table], Any],
    blob_mode: BlobMode | None,
) -> Any:
    """The result of a scan as a pandas DataFrame.

    Parameters
    ----------
    remake : function
        Describes the same scan with other options.
    has_handling : bool
        Whether ``blob_handling`` was given.
    scanner : Scanner
    convert : function
        Makes a frame of a table.
    blob_mode : "lazy", "bytes" or "descriptions", optional
        See :meth:`lancecy.Dataset.to_pandas`.

    Raises
    ------
    ValueError
        There is no such mode.
    UnsupportedError
        The mode is lazy, and a blob is in a list.
    """
    if blob_mode is not None and blob_mode not in _HANDLING:
        raise ValueError(f"blob_mode is {blob_mode!r}, not one of {', '.join(_HANDLING)}")
    if blob_mode is None and has_handling:
        return convert(scanner.to_table())
    if blob_mode == "bytes" or has_handling:
        scanner = remake({"blob_handling": _HANDLING[blob_mode or "lazy"]})
    if blob_mode in ("bytes", "descriptions"):
        return convert(scanner.to_table())
    found = blob_columns(scanner._context, scanner.request)
    for name, field in found.items():
        if blob_mode is not None and sum(node.is_blob for node in field.walk()) > len([*_blob_paths(field)]):
            raise UnsupportedError(
                f"blob_mode='lazy' is not supported for column {printable(name)!r}, which has blobs in lists: take "
                "blob_mode='bytes', or leave it out",
                feature="blob_mode",
            )
    found = {name: field for name, field in found.items() if [*_blob_paths(field)]}
    if not found or (blob_mode is None and scanner.request.with_deleted):
        return convert(scanner.to_table())
    addressed = remake({"blob_handling": _HANDLING["lazy"], "with_row_address": True})
    return _frame_of_files(addressed, found, convert, _ADDRESS in scanner.schema.names)


def _frame_of_files(
    scanner: Scanner, columns: Mapping[str, Field], convert: Callable[[pa.Table], Any], with_address: bool
) -> Any:
    """The result of a scan that has the addresses of the rows, with a file for each blob, None for nulls."""
    context, table = scanner._context, scanner.to_table()
    paths = column_paths(context, scanner.request)
    take = partial(take_blobs, context, addresses=table[_ADDRESS].combine_chunks())
    # A table of its own, whose columns may be freed.
    frame = convert(table.select([name for name in table.column_names if with_address or name != _ADDRESS]))
    for name, field in columns.items():
        values = table[name].to_pylist()
        for inner in _blob_paths(field):
            files = take(join_name((*paths[name], *inner)))
            values = [_placed(value, inner, file) for value, file in zip(values, files, strict=True)]
        made = np.empty(len(table), object)
        made[:] = values
        frame[name] = made
    return frame


def _blob_paths(field: Field) -> Iterator[tuple[str, ...]]:
    """The ways from a column to its blobs that are in no list."""
    if field.is_blob:
        yield ()
    elif field.is_struct:
        for child in field.children:
            yield from ((child.name, *inner) for inner in _blob_paths(child))


def _placed(value: Any, path: tuple[str, ...], file: Any) -> Any:
    """A value with the file in place of the descriptor; structs that are null stay so."""
    if not path:
        return file
    if value is None:
        return None
    return {**value, path[0]: _placed(value[path[0]], path[1:], file)}
