"""What a search for nearest neighbours asks for: the user's mapping as one frozen value that pickles small.

Names and defaults are those of pylance's ``nearest``. Arguments that only steer an index are checked and then ignored,
since every row is compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancecy.encodings.arrow.columns import bare_type
from lancecy.errors import UnsupportedError, nearest, printable
from lancecy.keyword_options import whole_number
from lancecy.records import dataclass
from lancecy.schema import Schema

__all__ = ["DISTANCE", "QUERY_INDEX", "Nearest", "in_range", "make_nearest"]

DISTANCE = "_distance"
"""Column of float32 that a search adds."""

QUERY_INDEX = "query_index"
"""Column of int32 that a search with a list of queries adds: the number of the query."""

_DEFAULT_K = 10
_METRICS = {"l2": "l2", "euclidean": "l2", "cosine": "cosine", "dot": "dot", "hamming": "hamming"}
_FOR_INDICES = {
    "nprobes": 1,
    "minimum_nprobes": 1,
    "maximum_nprobes": 1,
    "refine_factor": 1,
    "ef": 1,
    "query_parallelism": -1,
}
"""Whole numbers that steer an index, and the least of each."""
_IGNORED = ("use_index", "approx_mode", "search_effort")
_NAMES = ("column", "q", "k", "metric", "distance_type", "distance_range", *_FOR_INDICES, *_IGNORED)
_DTYPES = {pa.float16(): np.float16, pa.float32(): np.float32, pa.float64(): np.float64, pa.uint8(): np.uint8}


@dataclass(frozen=True, slots=True)
class Nearest:
    """A search for the rows whose vectors are nearest to some queries.

    Attributes
    ----------
    column : str
    path : tuple of str
        The column's place in the schema.
    queries : bytes
        ``num_queries * dimension`` numbers of ``dtype``.
    dtype : str
        Of the vectors: "float16", "float32", "float64" or "uint8".
    dimension : int
    k : int
        Rows per query.
    metric : str
        "l2" (squared), "cosine", "dot" or "hamming".
    low, high : float or None
        Distances returned: ``low <= distance < high``; None where there is no bound.
    batched : bool
        A list of queries was given, so the result tells which one each row is for.
    prefilter : bool
        The filter chooses the rows that are compared, not those of the result.
    """

    column: str
    path: tuple[str, ...]
    queries: bytes
    dtype: str
    dimension: int
    k: int
    metric: str
    low: float | None = None
    high: float | None = None
    batched: bool = False
    prefilter: bool = False

    @property
    def vectors(self) -> NDArray[Any]:
        """(num_queries, dimension): the queries in the type of the column."""
        return np.frombuffer(self.queries, self.dtype).reshape(-1, self.dimension)

    @property
    def own_fields(self) -> tuple[pa.Field, ...]:
        """The columns that the search adds."""
        distance = pa.field(DISTANCE, pa.float32(), True)
        return (pa.field(QUERY_INDEX, pa.int32(), False), distance) if self.batched else (distance,)

    def __str__(self) -> str:
        count = len(self.vectors)
        bounds = [f"from {self.low:g}" if self.low is not None else ""]
        bounds.append(f"below {self.high:g}" if self.high is not None else "")
        within = " ".join(bound for bound in bounds if bound)
        return (
            f"{self.k:,} nearest by {self.metric} in {printable(self.column)!r}"
            f"{f' for each of {count:,} queries' if self.batched else ''}{f', distance {within}' if within else ''}"
        )


def make_nearest(given: Mapping[str, Any], schema: Schema, prefilter: bool = False) -> Nearest:
    """Check the mapping of a search.

    Parameters
    ----------
    given : mapping
        ``column``, ``q``, and others of pylance's names.
    schema : Schema
    prefilter : bool

    Raises
    ------
    TypeError
        An unknown name, ``column`` or ``q`` missing, or values of another type, a column without vectors among them.
    ValueError
        A number out of range, an unknown metric or one that the vectors do not have, queries of another dimension.
    ColumnNotFoundError
        No such column.
    UnsupportedError
        A column of multivectors.
    """
    _check_names(given)
    name = given["column"]
    if not isinstance(name, str):
        raise TypeError(f"nearest['column'] is text, not {name!r}")
    path = schema.resolve(name)
    value_type, dimension = _vector_type(name, schema.path(path)[-1].arrow_type)
    queries, batched = _queries(given["q"], dimension, np.dtype(_DTYPES[value_type]))
    low, high = _range(given.get("distance_range"))
    for taken in (DISTANCE, *((QUERY_INDEX,) if batched else ())):
        if taken in schema.names:
            raise ValueError(
                f"the table has a column {taken!r}, which is the name of a column of the search's result: rename it"
            )
    k = given.get("k")
    return Nearest(
        column=name,
        path=path,
        queries=queries.tobytes(),
        dtype=queries.dtype.name,
        dimension=dimension,
        k=_DEFAULT_K if k is None else _at_least("k", k, 1),
        metric=_metric(given, value_type, name),
        low=low,
        high=high,
        batched=batched,
        prefilter=prefilter,
    )


def _check_names(given: Mapping[str, Any]) -> None:
    if not isinstance(given, Mapping):
        raise TypeError(f"nearest is a mapping with 'column' and 'q', not {type(given).__name__}")
    for name in given:
        if name not in _NAMES:
            close = nearest(str(name), _NAMES, limit=1)
            raise TypeError(
                f"nearest has no entry {name!r}{f'; did you mean {close[0]!r}?' if close else ''}"
            )
    for name in ("column", "q"):
        if given.get(name) is None:
            raise TypeError(f"nearest needs the entry {name!r}")
    for name, least in _FOR_INDICES.items():
        if given.get(name) is not None:
            _at_least(name, given[name], least)
    few, most = given.get("minimum_nprobes"), given.get("maximum_nprobes")
    if few is not None and most is not None and few > most:
        raise ValueError("nearest['minimum_nprobes'] must be at most nearest['maximum_nprobes']")


def _at_least(name: str, value: Any, least: int) -> int:
    number = whole_number(f"nearest[{name!r}]", value)
    if number < least:
        raise ValueError(f"nearest[{name!r}] must be at least {least}, got {number}")
    return number


def _vector_type(name: str, data_type: pa.DataType) -> tuple[pa.DataType, int]:
    """Type of the numbers of a vector, and how many there are."""
    found = data_type.storage_type if isinstance(data_type, pa.FixedShapeTensorType) else bare_type(data_type)
    shown = printable(name)
    if pa.types.is_list(found) and pa.types.is_fixed_size_list(bare_type(found.value_type)):
        raise UnsupportedError(
            f"column {shown!r} holds multivectors (several vectors per row), which lancecy does not search; "
            "compare them with to_table(columns=[…])",
            feature="multivectors",
        )
    if not pa.types.is_fixed_size_list(found):
        cast = "; ds.alter_columns({'path': …, 'data_type': pa.list_(pa.float32(), size)}) makes vectors of lists"
        remedy = cast if pa.types.is_list(found) or pa.types.is_large_list(found) else ""
        raise TypeError(
            f"column {shown!r} must hold vectors (lists of one fixed size), and is of {data_type}{remedy}"
        )
    if found.value_type not in _DTYPES:
        raise ValueError(
            f"vectors of column {shown!r} are of {found.value_type}; a search knows float16, float32, float64 and uint8"
        )
    if found.list_size < 1:
        raise ValueError(f"vectors of column {shown!r} have no numbers")
    return found.value_type, int(found.list_size)


def _metric(given: Mapping[str, Any], value_type: pa.DataType, column: str) -> str:
    both = [given[key] for key in ("metric", "distance_type") if given.get(key) is not None]
    for name in both:
        if not isinstance(name, str):
            raise TypeError(f"nearest['metric'] is text, not {name!r}")
        if name.lower() not in _METRICS:
            raise ValueError(f"nearest has no metric {name!r}; it has l2, cosine, dot and hamming")
    names = {_METRICS[name.lower()] for name in both}
    if len(names) > 1:
        raise ValueError(f"nearest has metric={both[0]!r} and distance_type={both[1]!r}: give one")
    is_bytes = pa.types.is_uint8(value_type)
    metric = names.pop() if names else ("hamming" if is_bytes else "l2")
    if (metric == "hamming") != is_bytes:
        kinds = "uint8" if metric == "hamming" else "float16, float32 and float64"
        raise ValueError(
            f"metric {metric!r} is for vectors of {kinds}; those of column {printable(column)!r} are of {value_type}"
        )
    return metric


def _range(given: Any) -> tuple[float | None, float | None]:
    if given is None:
        return None, None
    if not isinstance(given, Sequence) or len(given) != 2:
        raise TypeError(f"nearest['distance_range'] is a pair (low, high) of numbers or None, not {given!r}")
    low, high = (None if bound is None else float(bound) for bound in given)
    return low, high


def _queries(given: Any, dimension: int, dtype: np.dtype[Any]) -> tuple[NDArray[Any], bool]:
    """(num_queries, dimension) numbers in the type of the vectors, and whether a list of queries was given."""
    found = _numbers(given)
    if found.ndim not in (1, 2) or not found.size:
        raise ValueError(
            f"nearest['q'] must be a vector or a list of vectors, not an array of shape {found.shape}"
        )
    if found.shape[-1] != dimension:
        raise ValueError(f"queries have {found.shape[-1]} numbers, and the vectors of the column {dimension}")
    batched = found.ndim == 2
    found = found.reshape(-1, dimension)
    if dtype == np.uint8:
        if not ((found >= 0) & (found <= 255) & (found == np.floor(found))).all():
            raise ValueError("queries of a column of uint8 must be whole numbers from 0 to 255")
    elif dtype == np.float16:
        with np.errstate(over="ignore"):
            found = found.astype(np.float32)
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(found.astype(dtype)), batched


def _numbers(given: Any) -> NDArray[np.float64]:
    """The queries as float64; null is NaN."""
    if isinstance(given, pa.Scalar | pa.Array | pa.ChunkedArray):
        given = given.as_py() if isinstance(given, pa.Scalar) else given.to_pylist()
    what = "nearest['q'] must be a vector of numbers, or a list of vectors of one length"
    if isinstance(given, str | bytes | Mapping):
        raise TypeError(f"{what}, not {type(given).__name__}")
    try:
        plain = np.asarray(given)
        if plain.dtype.kind not in "fiuO":
            raise TypeError(f"{what}, not {plain.dtype}")
        # None becomes NaN.
        return plain.astype(np.float64)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{what}: {error}") from error


def in_range(distances: NDArray[np.float32], search: Nearest) -> NDArray[np.bool_]:
    """Which distances a search may return: numbers, and within its bounds.

    Parameters
    ----------
    distances : (n,) float32
    search : Nearest
    """
    kept: NDArray[np.bool_] = ~np.isnan(distances)
    if search.low is not None:
        kept &= distances >= np.float32(search.low)
    if search.high is not None:
        kept &= distances < np.float32(search.high)
    return kept
