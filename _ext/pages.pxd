# Finds the page of a row (header-only).

from libc.stdint cimport int64_t


cdef inline Py_ssize_t first_descent(const int64_t[::1] page_starts) except -2 nogil:
    cdef Py_ssize_t i
    if page_starts[0] != 0:
        return 0
    for i in range(1, page_starts.shape[0]):
        if page_starts[i] < page_starts[i - 1]:
            return i
    return -1


cdef inline Py_ssize_t page_of(
    const int64_t *starts, Py_ssize_t num_pages, Py_ssize_t near, int64_t row
) except -2 nogil:
    # bounds: starts has num_pages + 1 ascending entries, 0 = starts[0] <= row < starts[num_pages] and
    # near < num_pages, so every index below is in 0..num_pages. Rows mostly ascend: the search starts at
    # `near`.
    cdef Py_ssize_t low = near, high = near + 1, step = 1, middle
    if row < starts[near]:
        low, high = 0, near
    else:
        while starts[high] <= row:
            low = high
            step *= 2
            high = num_pages if num_pages - low < step else low + step
    while high - low > 1:
        middle = low + ((high - low) >> 1)
        if starts[middle] <= row:
            low = middle
        else:
            high = middle
    return low
