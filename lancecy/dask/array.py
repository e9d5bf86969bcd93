"""A column as a Dask array: vectors as matrices, matrices as three-dimensional arrays.

:func:`to_dask_array` wraps a :class:`LanceColumn`, which has the shape of the column and reads
rows when it is sliced. Dask pushes slices into it, so that ``x[10:20]`` reads ten rows and not a
chunk. Shapes come from metadata and are exact.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancecy.api.datasets import Dataset, OpenOptions, opened, opening
from lancecy.interop.delayed import block_bytes
from lancecy.records import dataclass
from lancecy.scanning.context import ScanContext, context_for
from lancecy.scanning.plan import plan
from lancecy.scanning.run_task import read_rows
from lancecy.scanning.take import take_rows
from lancecy.scanning.task import ScanSpec

if TYPE_CHECKING:
    import os

    import dask.array as da

__all__ = ["LanceColumn", "to_dask_array"]

Array = NDArray[Any]


@opening
def to_dask_array(
    uri: str | os.PathLike[str] | Dataset,
    column: str,
    *,
    fill: object = None,
    chunks: int | None = None,
    blocksize: int | str | None = "128MiB",
    embed_credentials: bool = False,
    **options: Unpack[OpenOptions],
) -> da.Array:
    """A column of a Lance table as a Dask array, read when it is computed.

    Parameters
    ----------
    uri : str, path or lancecy.Dataset
        Must be reachable from the workers under the same name.
    column : str
        A column of numbers, booleans, dates, timestamps or durations; or of fixed-size lists of these, to any
        depth, or fixed-shape tensors. Dots lead into structs.
    fill : number, datetime64 or timedelta64, optional
        Replaces nulls, of values and of whole vectors. Without it, reading a null raises.
    chunks : int, optional
        Rows of a chunk.
    blocksize : int or text such as "128MiB", or None
        Bytes of a chunk, if ``chunks`` is not given; chunks then end where fragments and pages do. None
        makes one chunk per fragment.
    version, asof, storage_options, untrusted, allowed_bases, limits, replicas
        As for :func:`lancecy.dataset`; not allowed with a Dataset, which has fixed them.
    embed_credentials : bool
        Put the secrets in ``storage_options`` into the graph.

    Returns
    -------
    dask.array.Array
        (num_rows,) for plain columns, (num_rows, size) for vectors, (num_rows, size, size) for vectors of
        vectors. Timestamps are ``datetime64``, in UTC if they have a zone.

    Raises
    ------
    DatasetNotFoundError, NotFoundError, FormatError, UnsupportedError, StoreError
        The table cannot be opened.
    ColumnNotFoundError
        There is no such column.
    TypeError
        NumPy has no type for the values: text, decimals, lists of varying length, structs.
    ValueError
        ``fill`` is not a value of the column's type; ``chunks`` is not positive. When computed: a null without
        ``fill``.

    Examples
    --------
    >>> import lancecy
    >>> x = lancecy.to_dask_array("example.lance", "vec", chunks=250)
    >>> x.shape, x.dtype, x.numblocks
    ((1000, 4), dtype('float32'), (4, 1))
    >>> x[10:12, :2].compute()
    array([[10.  , 10.25],
           [11.  , 11.25]], dtype=float32)
    """
    import dask.array as da
    from dask.base import tokenize

    if chunks is not None and int(chunks) <= 0:
        raise ValueError(f"chunks must be positive, got {chunks}")
    source = opened(uri, **options)
    scanner = source.scanner([column])
    dtype, tail = _numpy_type(scanner.schema.field(0).type, column)
    planned = scanner.plan(block_bytes(blocksize), embed_credentials=embed_credentials)
    spec = source.scan_spec(scanner.request, embed_credentials)
    read = LanceColumn(spec, column, (planned.num_rows, *tail), dtype, _checked_fill(fill, dtype))
    rows = tuple(task.num_rows for task in planned.tasks) or (0,) if chunks is None else int(chunks)
    # One chunk across, because a vector is stored and read as a whole.
    array: da.Array = da.from_array(
        read,
        chunks=(rows, *tail),
        name=f"lancecy-scan-{tokenize(read, rows)}",
        asarray=False,
        inline_array=True,
        meta=np.empty((0,) * read.ndim, dtype),
    )
    return array


def _checked_fill(fill: object, dtype: np.dtype[Any]) -> Any:
    if fill is None:
        return None
    given = np.asarray(fill)
    if given.ndim == 0 and np.can_cast(np.min_scalar_type(given), dtype, "same_kind"):
        value = given.astype(dtype)[()]
        if dtype.kind not in "iu" or value == given[()]:
            return value
    raise ValueError(f"fill must be a value of {dtype}, not {fill!r}")


@dataclass(frozen=True, slots=True, eq=False)
class LanceColumn:
    """A column that reads rows when it is sliced; the array that Dask wraps, a few hundred bytes.

    Attributes
    ----------
    spec : ScanSpec
    column : str
    shape : tuple of int
    dtype : numpy.dtype
    fill : scalar or None
        Replaces nulls.
    """

    spec: ScanSpec
    column: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fill: Any = None

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> Array:
        """Values by NumPy indexing.

        Raises
        ------
        IndexError
            A row does not exist.
        ValueError
            A null without ``fill``.
        LanceError
            The table cannot be read.
        """
        first, *rest = key if isinstance(key, tuple) else (key,)
        if first is Ellipsis:
            first, rest = slice(None), [Ellipsis, *rest]
        rows, index = self._rows(first)
        found: Array = rows[(index, *rest)]
        return found

    def _rows(self, index: Any) -> tuple[Array, Any]:
        """Rows that contain the requested ones, and the positions of these among them."""
        if isinstance(index, slice):
            wanted = range(*index.indices(self.shape[0]))
            first, last = (min(wanted[0], wanted[-1]), max(wanted[0], wanted[-1])) if wanted else (0, -1)
            return self._read(first, last + 1), slice(None, None, wanted.step)
        if np.ndim(index) == 0:
            row = range(self.shape[0])[operator.index(index)]
            return self._read(row, row + 1), 0
        picked = np.asarray(index)
        if picked.dtype == bool:
            picked = np.flatnonzero(picked)
        return self._take(np.where(picked < 0, picked + self.shape[0], picked)), slice(None)

    def _take(self, rows: Array) -> Array:
        context = context_for(self.spec)
        table = take_rows(context, context.projection(self.spec.request), rows.astype(np.int64))
        return self._values(table)

    def _read(self, start: int, stop: int) -> Array:
        context = context_for(self.spec)
        starts = _row_starts(context)
        # Only the needed fragments are planned, because there are at least as many chunks as fragments.
        first = max(0, int(np.searchsorted(starts, start, side="right")) - 1)
        last = int(np.searchsorted(starts, stop, side="left"))
        request = replace(
            self.spec.request,
            fragments=tuple(f.id for f in context.fragments[first:last]),
            offset=start - int(starts[first]),
            limit=stop - start,
        )
        units = plan(context, request, self.spec).units if stop > start else ()
        table, _ = read_rows(self.spec, units, [self.column])
        return self._values(table)

    def _values(self, table: pa.Table) -> Array:
        """The only column of a table as one array."""
        parts = [_as_numpy(chunk, self.shape[1:], self.fill, self.column) for chunk in table[0].chunks]
        if len(parts) == 1:
            return parts[0]
        return np.concatenate([np.empty((0, *self.shape[1:]), self.dtype), *parts])

    def __dask_tokenize__(self) -> object:
        from dask.base import normalize_token

        from lancecy.dask.reader import Reader

        return normalize_token(
            (
                "lancecy.dask.LanceColumn",
                Reader(self.spec),
                self.column,
                self.shape,
                str(self.dtype),
                repr(self.fill),
            )
        )


_starts: WeakKeyDictionary[ScanContext, NDArray[np.int64]] = WeakKeyDictionary()


def _row_starts(context: ScanContext) -> NDArray[np.int64]:
    found = _starts.get(context)
    if found is None:
        found = _starts[context] = context.row_starts()
    return found


def _numpy_type(data_type: pa.DataType, column: str) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """NumPy's type of one value, and the shape of a row."""
    types = pa.types
    if isinstance(data_type, pa.FixedShapeTensorType) and data_type.permutation is None:
        return _numpy_type(data_type.value_type, column)[0], tuple(data_type.shape)
    if isinstance(data_type, pa.BaseExtensionType):
        return _numpy_type(data_type.storage_type, column)
    if types.is_fixed_size_list(data_type):
        dtype, tail = _numpy_type(data_type.value_type, column)
        return dtype, (data_type.list_size, *tail)
    if types.is_date(data_type):
        return np.dtype("datetime64[D]" if types.is_date32(data_type) else "datetime64[ms]"), ()
    if types.is_timestamp(data_type) or types.is_duration(data_type):
        name = "datetime64" if types.is_timestamp(data_type) else "timedelta64"
        return np.dtype(f"{name}[{data_type.unit}]"), ()
    if types.is_boolean(data_type) or types.is_integer(data_type) or types.is_floating(data_type):
        return np.dtype(data_type.to_pandas_dtype()), ()
    raise TypeError(
        f"column {column!r} has values of type {data_type}, which no NumPy array holds; "
        "lancecy.scan reads it into a frame"
    )


def _as_numpy(array: pa.Array, tail: tuple[int, ...], fill: Any, column: str) -> Array:
    """(len(array), *tail) values; shares the column's memory if there are no nulls to fill."""
    rows = len(array)
    missing: list[Array] = []
    while True:
        if isinstance(array, pa.ExtensionArray):
            array = array.storage
        if array.null_count:
            if fill is None:
                raise ValueError(
                    f"column {column!r} has nulls, which NumPy arrays cannot hold: replace them with fill="
                )
            missing.append(array.is_null().to_numpy(zero_copy_only=False))
        if not pa.types.is_fixed_size_list(array.type):
            break
        size = array.type.list_size
        array = array.values.slice(array.offset * size, len(array) * size)
    return _filled(_leaf(array), (rows, *tail), missing, fill)


def _leaf(array: pa.Array) -> Array:
    """Values without their validity."""
    if array.null_count:
        buffers = [None, *array.buffers()[1:]]
        array = pa.Array.from_buffers(array.type, len(array), buffers, 0, array.offset)
    if pa.types.is_date64(array.type):
        array = array.view(pa.timestamp("ms"))
    return np.asarray(array.to_numpy(zero_copy_only=False))


def _filled(values: Array, shape: tuple[int, ...], missing: Sequence[Array], fill: Any) -> Array:
    found = values.reshape(shape)
    if not missing:
        return found
    found = found.copy()
    for mask in missing:
        # A mask of vectors is shorter than one of their elements.
        depth = next(d for d in range(1, len(shape) + 1) if mask.size == int(np.prod(shape[:d])))
        found[mask.reshape(shape[:depth])] = fill
    return found
