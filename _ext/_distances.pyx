"""Distances between vectors and queries: every vector of one block of memory with every query.

A vector has ``dimension`` numbers, and vectors lie one after the other. Sums are kept in 16 lanes, number
``i`` of a vector in lane ``i % 16``, which the compiler keeps in vector registers; the lanes are added in
halves at the end. The order of additions is therefore that of the twin, whatever the processor.
"""

from libc.math cimport NAN, sqrt, sqrtf
from libc.stdint cimport int64_t, uint8_t

from cursor cimport load64, ones64, prefetch

__all__ = ["hamming_distances", "vector_distances"]

# As L2, COSINE, DOT of lancecy/kernels/_codes.py.
cdef enum:
    METRIC_L2 = 0
    METRIC_COSINE = 1
    METRIC_DOT = 2

cdef enum:
    LANES = 16
    # A processor's own prefetching stops at the end of a page, which is little more than a vector.
    BYTES_AHEAD = 3072

ctypedef fused Number:
    float
    double


cdef inline double _total(Number *lanes) except? -1 nogil:
    # bounds: lanes has LANES entries.
    cdef Py_ssize_t width = LANES // 2, i
    while width > 0:
        for i in range(width):
            lanes[i] += lanes[i + width]
        width = width // 2
    return lanes[0]


cdef inline double _squares(const Number *a, const Number *b, Py_ssize_t count) except? -1 nogil:
    # Sum of squared differences. bounds: both have count entries; memory beyond is prefetched, never read.
    cdef Number lanes[LANES]
    cdef Number gap
    cdef Py_ssize_t i, block, lane
    for lane in range(LANES):
        lanes[lane] = 0
    for block in range(count // LANES):
        i = block * LANES
        prefetch(<const uint8_t *> (a + i) + BYTES_AHEAD)
        for lane in range(LANES):
            gap = a[i + lane] - b[i + lane]
            lanes[lane] += gap * gap
    i = count - count % LANES
    for lane in range(count - i):
        gap = a[i + lane] - b[i + lane]
        lanes[lane] += gap * gap
    return _total(lanes)


cdef inline double _product(const Number *a, const Number *b, Py_ssize_t count) except? -1 nogil:
    # Sum of products. bounds: both have count entries; memory beyond is prefetched, never read.
    cdef Number lanes[LANES]
    cdef Py_ssize_t i, block, lane
    for lane in range(LANES):
        lanes[lane] = 0
    for block in range(count // LANES):
        i = block * LANES
        prefetch(<const uint8_t *> (a + i) + BYTES_AHEAD)
        for lane in range(LANES):
            lanes[lane] += a[i + lane] * b[i + lane]
    i = count - count % LANES
    for lane in range(count - i):
        lanes[lane] += a[i + lane] * b[i + lane]
    return _total(lanes)


cdef inline double _root(Number value) except? -1 nogil:
    return sqrtf(value) if Number is float else sqrt(value)


cdef inline double _cosine(const Number *a, const Number *b, Py_ssize_t count, Number norm) except? -1 nogil:
    # bounds: both have count entries; norm is that of b. A vector without a direction has no angle.
    cdef Number norms = <Number> _root(<Number> _product(a, a, count)) * norm
    return <Number> 1 - <Number> _product(a, b, count) / norms if norms > 0 else NAN


cdef int64_t _fill(
    int64_t metric,
    const Number *vectors,
    Py_ssize_t rows,
    const Number *queries,
    Py_ssize_t num_queries,
    Py_ssize_t dimension,
    const Number *norms,
    float *out,
) except -1 nogil:
    # bounds: the caller checked that vectors, queries, norms and out have as many entries as are reached.
    cdef Py_ssize_t row, query
    cdef const Number *vector
    cdef const Number *wanted
    for row in range(rows):
        vector = vectors + row * dimension
        for query in range(num_queries):
            wanted = queries + query * dimension
            if metric == METRIC_L2:
                out[query * rows + row] = <float> _squares(vector, wanted, dimension)
            elif metric == METRIC_COSINE:
                out[query * rows + row] = <float> _cosine(vector, wanted, dimension, norms[query])
            else:
                out[query * rows + row] = <float> (<Number> 1 - <Number> _product(vector, wanted, dimension))
    return 0


cdef int64_t _check(Py_ssize_t vectors, Py_ssize_t queries, int64_t dimension, Py_ssize_t out) except -1:
    if dimension <= 0:
        raise ValueError("dimension is not positive")
    if vectors % dimension or queries % dimension:
        raise ValueError("vectors or queries are not a multiple of the dimension")
    if out != (vectors // dimension) * (queries // dimension):
        raise ValueError("out does not have one entry per vector and query")
    return 0


def vector_distances(
    int64_t metric,
    const Number[::1] vectors not None,
    const Number[::1] queries not None,
    int64_t dimension,
    Number[::1] out_norms not None,
    float[::1] out not None,
):
    """Distances between vectors and queries of floating-point numbers.

    Parameters
    ----------
    metric : int
        0 the sum of squared differences, 1 one minus the cosine of the angle, 2 one minus the product.
    vectors : (rows * dimension,) float32 or float64
    queries : (num_queries * dimension,) of the same dtype
    dimension : int
    out_norms : (num_queries,) of the same dtype
        Lengths of the queries.
    out : (num_queries * rows,) float32
        Distances of the first query to all vectors, then those of the second, and so on. Computed in the
        dtype of the vectors and then rounded.

    Raises
    ------
    TypeError, ValueError
        An unknown metric, or arrays whose sizes or dtypes do not fit.

    Notes
    -----
    The angle with a vector of zeros, or of infinite length, is NaN.

    Examples
    --------
    >>> import numpy as np
    >>> from lancecy.kernels import L2, vector_distances
    >>> vectors = np.array([0, 0, 3, 4], np.float32)
    >>> norms, out = np.empty(1, np.float32), np.empty(2, np.float32)
    >>> vector_distances(L2, vectors, np.array([0, 1], np.float32), 2, norms, out)
    >>> out.tolist()
    [1.0, 18.0]
    """
    cdef Py_ssize_t rows, num_queries, query
    cdef const Number *wanted
    if metric < METRIC_L2 or metric > METRIC_DOT:
        raise ValueError("metric is not one of 0..2")
    _check(vectors.shape[0], queries.shape[0], dimension, out.shape[0])
    num_queries = queries.shape[0] // dimension
    rows = vectors.shape[0] // dimension
    if out_norms.shape[0] != num_queries:
        raise ValueError("out_norms does not have one entry per query")
    if num_queries == 0:
        return
    with nogil:
        for query in range(num_queries):
            wanted = &queries[query * dimension]
            out_norms[query] = <Number> _root(<Number> _product(wanted, wanted, dimension))
        if rows > 0:
            _fill(
                metric, &vectors[0], rows, &queries[0], num_queries, dimension, &out_norms[0], &out[0]
            )


cdef int64_t _different_bits(const uint8_t *a, const uint8_t *b, Py_ssize_t count) except -1 nogil:
    # bounds: both have count entries.
    cdef Py_ssize_t i
    cdef int64_t found = 0
    for i in range(0, count - 7, 8):
        found += <int64_t> ones64(load64(a + i) ^ load64(b + i))
    for i in range(count - count % 8, count):
        found += <int64_t> ones64(a[i] ^ b[i])
    return found


def hamming_distances(
    const uint8_t[::1] vectors not None,
    const uint8_t[::1] queries not None,
    int64_t dimension,
    float[::1] out not None,
):
    """Numbers of bits that differ between vectors and queries of bytes.

    Parameters
    ----------
    vectors : (rows * dimension,) uint8
    queries : (num_queries * dimension,) uint8
    dimension : int, bytes
    out : (num_queries * rows,) float32
        Distances of the first query to all vectors, then those of the second, and so on.

    Raises
    ------
    TypeError, ValueError
        Arrays whose sizes or dtypes do not fit.

    Examples
    --------
    >>> import numpy as np
    >>> from lancecy.kernels import hamming_distances
    >>> out = np.empty(2, np.float32)
    >>> hamming_distances(np.array([1, 255], np.uint8), np.array([3], np.uint8), 1, out)
    >>> out.tolist()
    [1.0, 6.0]
    """
    cdef Py_ssize_t rows, num_queries, row, query
    cdef const uint8_t *vector
    _check(vectors.shape[0], queries.shape[0], dimension, out.shape[0])
    num_queries = queries.shape[0] // dimension
    rows = vectors.shape[0] // dimension
    with nogil:
        for row in range(rows):
            vector = &vectors[row * dimension]
            for query in range(num_queries):
                out[query * rows + row] = <float> _different_bits(
                    vector, &queries[query * dimension], dimension
                )
