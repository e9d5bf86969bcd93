"""Creation of data files: from a version to a ``FileWriter``; the counterpart of ``open``."""

from __future__ import annotations

from lancecy.file.base import FileWriteOptions, FileWriter
from lancecy.file.v0.writer import V0Writer
from lancecy.file.v2.writer import V2Writer
from lancecy.file.writable import check_writable
from lancecy.schema import Schema
from lancecy.store.base import Store

__all__ = ["check_writable", "create_file"]


def create_file(
    store: Store, path: str, schema: Schema, version: str = "2.1", options: FileWriteOptions | None = None
) -> FileWriter:
    """Create a data file.

    Parameters
    ----------
    store : Store
    path : str
        Path in the store; the file appears there when it is finished.
    schema : Schema
        With field ids.
    version : "0.1", "2.0", "2.1" or "2.2"
    options : WriteOptions, optional

    Raises
    ------
    UnsupportedError
        The version cannot hold the schema, or is not supported; no file is created.
    StoreError
        The file could not be created.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from lancecy.schema import Field
    >>> from lancecy.store.memory import MemoryStore
    >>> schema = Schema((Field("a", 0, logical_type="int64"),))
    >>> writer = create_file(MemoryStore("doc-create"), "data/x.lance", schema)
    >>> writer.write(pa.record_batch({"a": [1, 2, 3]}))
    >>> writer.finish().num_rows
    3
    """
    options = options or FileWriteOptions()
    if version == "0.1":
        return V0Writer(store, path, schema, options)
    return V2Writer(store, path, schema, version, options)
