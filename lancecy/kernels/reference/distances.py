"""Twins of ``_distances``: sums over lanes as array expressions, in the same order of additions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lancecy.kernels._codes import COSINE, DOT, L2
from lancecy.kernels.reference.checks import checked, require

__all__ = ["hamming_distances", "vector_distances"]

_LANES = 16

Numbers = NDArray[np.float32] | NDArray[np.float64]


def _check(vectors: NDArray[Any], queries: NDArray[Any], dimension: int, out: NDArray[Any]) -> None:
    if dimension <= 0:
        raise ValueError("dimension is not positive")
    if vectors.size % dimension or queries.size % dimension:
        raise ValueError("vectors or queries are not a multiple of the dimension")
    if out.size != (vectors.size // dimension) * (queries.size // dimension):
        raise ValueError("out does not have one entry per vector and query")


def _sums(terms: NDArray[Any]) -> NDArray[Any]:
    """Sums of the rows of (rows, dimension) terms."""
    rows, dimension = terms.shape
    lanes = np.zeros((rows, _LANES), terms.dtype)
    for start in range(0, dimension, _LANES):
        part = terms[:, start : start + _LANES]
        lanes[:, : part.shape[1]] += part
    width = _LANES // 2
    while width:
        lanes[:, :width] += lanes[:, width : 2 * width]
        width //= 2
    return lanes[:, 0]


@checked
def vector_distances(
    metric: int,
    vectors: Numbers,
    queries: Numbers,
    dimension: int,
    out_norms: Numbers,
    out: NDArray[np.float32],
) -> None:
    """As :func:`lancecy.kernels.vector_distances`."""
    require(queries, vectors.dtype.type)
    require(out_norms, vectors.dtype.type)
    if metric not in (L2, COSINE, DOT):
        raise ValueError("metric is not one of 0..2")
    _check(vectors, queries, dimension, out)
    wanted: NDArray[Any] = queries.reshape(-1, dimension)
    rows: NDArray[Any] = vectors.reshape(-1, dimension)
    if out_norms.size != len(wanted):
        raise ValueError("out_norms does not have one entry per query")
    if not len(wanted):
        return
    with np.errstate(all="ignore"):
        out_norms[:] = np.sqrt(_sums(wanted * wanted))
        for number, norm in enumerate(out_norms):
            found, query = out.reshape(len(wanted), len(rows))[number], wanted[number]
            if metric == L2:
                found[:] = _sums(np.square(rows - query))
                continue
            products = _sums(rows * query)
            if metric == COSINE:
                norms = np.sqrt(_sums(rows * rows)) * norm
                products = np.where(norms > 0, products / norms, np.nan).astype(rows.dtype)
            found[:] = 1 - products


@checked
def hamming_distances(
    vectors: NDArray[np.uint8], queries: NDArray[np.uint8], dimension: int, out: NDArray[np.float32]
) -> None:
    """As :func:`lancecy.kernels.hamming_distances`."""
    _check(vectors, queries, dimension, out)
    wanted: NDArray[Any] = queries.reshape(-1, dimension)
    rows: NDArray[Any] = vectors.reshape(-1, dimension)
    for number in range(len(wanted)):
        out.reshape(len(wanted), len(rows))[number] = np.bitwise_count(rows ^ wanted[number]).sum(axis=1)
