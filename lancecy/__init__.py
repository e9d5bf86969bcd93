"""lancecy: the Lance columnar table format in Cython and NumPy, for Dask and Spark.

====================  ======================================================================
``dataset(uri)``      open a table; the :class:`Dataset` scans, filters, takes and counts
``write_dataset``     write rows to a new or existing table; ``write_fragments`` and ``commit`` for many writers
``write_dask``        write a Dask DataFrame: the workers write, one commit
``scan(uri)``         the table as a Dask DataFrame; ``to_dask_array``: a column as a Dask array
``copy``              copy a table with its versions, tags and branches to another store, or move bases there
``copy_dataset``      the same, byte for byte
``repair(uri)``       make a table with a damaged manifest writable again
``inspect(path)``     how one data file stores its columns
``LanceFileReader``   rows of one data file without its table; ``LanceFileWriter`` writes one
``spark``             the table as a Spark DataFrame (``spark.read``, ``spark.dataframe``)
``arrow``             bfloat16 and images as Arrow arrays
``blob_array``        blobs as an Arrow array (of bytes, URIs, ``Blob``); ``blob_field``: a column of them
``torch``             the table as tensors (``torch.LanceDataset``); ``sampler``: which rows, in which order
``col``, ``lit``      build filters in Python: ``col("a") > 5``
``namespace``         tables by name in a directory (``namespace.DirectoryNamespace``)
``SqlManifestStore``  commits through a database; ``ManifestKeyValue`` and ``ManifestItem``: through your own store
``Limits``            upper bounds for what files may claim
``LanceError``        base of every exception; the others are in ``lancecy.errors``
====================  ======================================================================

Importing the package is fast: every name is loaded at first use, no thread is started,
and pandas, Dask, Spark, PyTorch, Numba and fsspec are imported only when they are used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from lancecy.lazy_attributes import lazy_attributes

if TYPE_CHECKING:
    from lancecy import arrow as arrow
    from lancecy import blob as blob
    from lancecy import dask as dask
    from lancecy import errors as errors
    from lancecy import expr as expr
    from lancecy import fragment as fragment
    from lancecy import indices as indices
    from lancecy import interop as interop
    from lancecy import namespace as namespace
    from lancecy import optimize as optimize
    from lancecy import sampler as sampler
    from lancecy import spark as spark
    from lancecy import torch as torch
    from lancecy import udf as udf
    from lancecy.api.copies import copy as copy
    from lancecy.api.copies import copy_dataset as copy_dataset
    from lancecy.api.datasets import Dataset as Dataset
    from lancecy.api.datasets import LanceDataset as LanceDataset
    from lancecy.api.datasets import LanceFragment as LanceFragment
    from lancecy.api.datasets import dataset as dataset
    from lancecy.api.file_writer import LanceFileWriter as LanceFileWriter
    from lancecy.api.files import LanceFileReader as LanceFileReader
    from lancecy.api.repairs import repair as repair
    from lancecy.api.scanners import LanceScanner as LanceScanner
    from lancecy.api.scanners import Scanner as Scanner
    from lancecy.api.writers import commit as commit
    from lancecy.api.writers import write_dask as write_dask
    from lancecy.api.writers import write_dataset as write_dataset
    from lancecy.api.writers import write_fragments as write_fragments
    from lancecy.blobs import BlobFile as BlobFile
    from lancecy.blobs.arrays import Blob as Blob
    from lancecy.blobs.arrays import BlobArray as BlobArray
    from lancecy.blobs.arrays import BlobType as BlobType
    from lancecy.blobs.arrays import blob_array as blob_array
    from lancecy.blobs.arrays import blob_field as blob_field
    from lancecy.changes.batch_functions import BatchUDF as BatchUDF
    from lancecy.changes.batch_functions import batch_udf as batch_udf
    from lancecy.changes.transactions import Transaction as Transaction
    from lancecy.dask import plain as plain
    from lancecy.dask import scan as scan
    from lancecy.dask import to_dask_array as to_dask_array
    from lancecy.errors import LanceError as LanceError
    from lancecy.expr import Expr as Expr
    from lancecy.expr import col as col
    from lancecy.expr import lit as lit
    from lancecy.index.write.index_types import IndexConfig as IndexConfig
    from lancecy.inspection.files import inspect as inspect
    from lancecy.limits import Limits as Limits
    from lancecy.scanning.order import ColumnOrdering as ColumnOrdering
    from lancecy.schema_json import json_to_schema as json_to_schema
    from lancecy.schema_json import schema_to_json as schema_to_json
    from lancecy.session import Session as Session
    from lancecy.store.key_values import ManifestItem as ManifestItem
    from lancecy.store.key_values import ManifestKeyValue as ManifestKeyValue
    from lancecy.store.key_values.sql import SqlManifestStore as SqlManifestStore
    from lancecy.table.manifest import DataFile as DataFile
    from lancecy.write.indices import Index as Index
    from lancecy.write.indices import IndexFile as IndexFile
    from lancecy.write.metadata import FragmentMetadata as FragmentMetadata
    from lancecy.write.operations import LanceOperation as LanceOperation
    from lancecy.write.targets import DatasetBasePath as DatasetBasePath

__version__ = "0.1.0"

_HOMES = {
    "lancecy.api.copies": "copy copy_dataset",
    "lancecy.api.datasets": "Dataset LanceDataset LanceFragment dataset",
    "lancecy.api.file_writer": "LanceFileWriter",
    "lancecy.api.files": "LanceFileReader",
    "lancecy.api.repairs": "repair",
    "lancecy.api.scanners": "LanceScanner Scanner",
    "lancecy.api.writers": "commit write_dask write_dataset write_fragments",
    "lancecy.blobs": "BlobFile",
    "lancecy.blobs.arrays": "Blob BlobArray BlobType blob_array blob_field",
    "lancecy.changes.batch_functions": "BatchUDF batch_udf",
    "lancecy.changes.transactions": "Transaction",
    "lancecy.dask": "plain scan to_dask_array",
    "lancecy.errors": "LanceError",
    "lancecy.expr": "Expr col lit",
    "lancecy.index.write.index_types": "IndexConfig",
    "lancecy.inspection.files": "inspect",
    "lancecy.limits": "Limits",
    "lancecy.scanning.order": "ColumnOrdering",
    "lancecy.schema_json": "json_to_schema schema_to_json",
    "lancecy.session": "Session",
    "lancecy.store.key_values": "ManifestItem ManifestKeyValue",
    "lancecy.store.key_values.sql": "SqlManifestStore",
    "lancecy.table.manifest": "DataFile",
    "lancecy.write.indices": "Index IndexFile",
    "lancecy.write.metadata": "FragmentMetadata",
    "lancecy.write.operations": "LanceOperation",
    "lancecy.write.targets": "DatasetBasePath",
}
_OTHERS = (
    "__version__",
    "arrow",
    "blob",
    "dask",
    "errors",
    "expr",
    "fragment",
    "indices",
    "interop",
    "namespace",
    "optimize",
    "sampler",
    "spark",
    "torch",
    "udf",
)

__getattr__, __dir__, __all__ = lazy_attributes(__name__, _HOMES, _OTHERS)

# These modules have the names of functions, which an import of the module later would replace.
for _module in ("commit", "dataset"):
    importlib.import_module(f"{__name__}.{_module}")
    globals().pop(_module, None)
