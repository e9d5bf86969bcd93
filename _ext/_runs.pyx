"""Decodes run-length encoding: values and the number of repeats of each.

A chunk is walked once from its start; a run of values that begins where the previous one ended, or later in
the same chunk, continues from there. Short repeats are common, so values of 1, 2, 4 and 8 bytes are stored as
whole words of copies if the output has room beyond them: the excess is overwritten by the next values.
"""

from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from cursor cimport (
    FAULT_CHUNK_NEGATIVE,
    FAULT_CHUNK_TRUNCATED,
    FAULT_NONE,
    FAULT_OUT_SIZE,
    FAULT_RUN_LENGTHS,
    ChunkRuns,
    Fault,
    check_chunk_runs,
    chunk_runs,
    has,
    load_word,
    store64,
)

from lancecy.kernels._codes import fail

__all__ = ["expand_runs"]

cdef struct Lengths:
    # Position and size of the run lengths of each chunk.
    const int64_t *positions
    const int64_t *nbytes
    uint64_t width

cdef struct Place:
    # A walk along the runs of one chunk: the next run, the number of runs, the repeats left of its value, and
    # the number of values before those.
    int64_t chunk
    int64_t run
    int64_t num_runs
    int64_t left
    int64_t done

cdef struct Output:
    uint8_t *next
    uint8_t *end
    int64_t width


cdef inline int64_t _repeat(const uint8_t *value, int64_t copies, Output *out) except -1 nogil:
    # Append copies of a value of out.width bytes.
    # bounds: the caller has shown that out has room for them. Whole words are stored only while there is
    # room for 16 bytes; the rest doubles the existing copies, or is a single copy.
    cdef int64_t width = out.width, total = copies * width, filled = width, part
    cdef uint8_t *first = out.next
    cdef uint64_t word
    out.next += total
    if width <= 8 and width & (width - 1) == 0:
        # The value repeated within a word: multiplied by a word with a one at the start of each copy.
        word = load_word(value, <uint64_t> width)
        if width < 8:
            word *= <uint64_t> -1 // ((<uint64_t> 1 << (8 * width)) - 1)
        while first < out.next and out.end - first >= 16:
            store64(first, word)
            store64(first + 8, word)
            first += 16
        if first >= out.next:
            return 0
        total = out.next - first
    memcpy(first, value, width)
    while filled < total:
        part = min(filled, total - filled)
        memcpy(first + filled, first, part)
        filled += part
    return 0


cdef int64_t _open(
    const ChunkRuns *chunks, const Lengths *lengths, int64_t chunk, int64_t width, int64_t memory_size,
    Place *place, Fault *fault,
) except -1 nogil:
    # Start a chunk whose values are known to be in memory. bounds: chunk is below num_chunks, by
    # check_chunk_runs.
    place.chunk, place.run, place.left, place.done = chunk, 0, 0, 0
    place.num_runs = chunks.lengths[chunk] // width
    fault.index = chunk
    if lengths.positions[chunk] < 0 or lengths.nbytes[chunk] < 0:
        fault.code = FAULT_CHUNK_NEGATIVE
    elif not has(lengths.positions[chunk], lengths.nbytes[chunk], memory_size):
        fault.code = FAULT_CHUNK_TRUNCATED
    elif lengths.nbytes[chunk] // <int64_t> lengths.width != place.num_runs:
        fault.code = FAULT_RUN_LENGTHS
    return 0


cdef int64_t _walk(
    const uint8_t *values, const uint8_t *lengths, uint64_t length_width, Place *place, int64_t stop,
    Output *out, bint wanted,
) except -2 nogil:
    # Advance to value number `stop`, copying the values passed if requested; -1 if the chunk ends before.
    # bounds: values and lengths have num_runs entries each; a repeat is cut to the values still requested, so
    # it neither overflows nor passes the room in out, which has stop - place.done values.
    cdef int64_t copies
    cdef uint64_t length
    while place.done < stop:
        if place.left == 0:
            if place.run == place.num_runs:
                return -1
            length = load_word(lengths + place.run * <int64_t> length_width, length_width)
            # More than any chunk can need.
            place.left = <int64_t> min(length, <uint64_t> 1 << 62)
            place.run += 1
            continue
        copies = min(place.left, stop - place.done)
        if wanted:
            _repeat(values + (place.run - 1) * out.width, copies, out)
        place.left -= copies
        place.done += copies
    return 0


cdef int64_t _expand(
    const uint8_t *memory, int64_t memory_size, const ChunkRuns *chunks, const Lengths *lengths, Output *out,
    Fault *fault,
) except -1 nogil:
    # bounds: check_chunk_runs has shown that the values of chunks of runs are in memory and that out holds
    # all runs; _open does so for the lengths.
    cdef Place place = Place(-1, 0, 0, 0, 0)
    cdef Py_ssize_t r
    cdef int64_t chunk, start, stop
    cdef const uint8_t *values
    cdef const uint8_t *counts
    for r in range(chunks.num_runs):
        if chunks.run_counts[r] == 0:
            continue
        chunk, start = chunks.chunks[r], chunks.starts[r]
        stop = start + chunks.run_counts[r]
        if chunk != place.chunk or start < place.done:
            _open(chunks, lengths, chunk, out.width, memory_size, &place, fault)
            if fault.code != FAULT_NONE:
                return 0
        values, counts = memory + chunks.positions[chunk], memory + lengths.positions[chunk]
        if (
            _walk(values, counts, lengths.width, &place, start, out, False) < 0
            or _walk(values, counts, lengths.width, &place, stop, out, True) < 0
        ):
            fault.code, fault.index = FAULT_RUN_LENGTHS, chunk
            return 0
    return 0


def expand_runs(
    const uint8_t[::1] memory not None,
    const int64_t[::1] value_positions not None,
    const int64_t[::1] value_lengths not None,
    const int64_t[::1] length_positions not None,
    const int64_t[::1] length_lengths not None,
    const int64_t[::1] counts not None,
    int64_t width,
    int64_t length_width,
    const int64_t[::1] run_chunks not None,
    const int64_t[::1] run_starts not None,
    const int64_t[::1] run_counts not None,
    uint8_t[::1] out not None,
):
    """Repeat each value as often as its run length says.

    Parameters
    ----------
    memory : (nbytes,) uint8, may be read-only
    value_positions, value_lengths : (num_chunks,) int64, bytes
        The values of each chunk.
    length_positions, length_lengths : (num_chunks,) int64, bytes
        Their run lengths, unsigned and little-endian; 0 is allowed.
    counts : (num_chunks,) int64, values
        Values beyond this number are ignored.
    width : int, bytes
        Width of one value, at least 1.
    length_width : int, bytes
        Width of one run length: 1, 2, 4 or 8.
    run_chunks, run_starts, run_counts : (num_runs,) int64
        Chunk, first value and number of values of each run. Other chunks are ignored.
    out : (sum(run_counts) * width,) uint8
        The values of all runs.

    Raises
    ------
    FormatError
        A run is not within its chunk (``position`` is the run); a chunk has a negative position or length, or
        not as many run lengths as values, or these end before the requested values (the chunk).
    TruncatedError
        A chunk passes the end of ``memory`` (the chunk).
    ValueError
        A width is another number or an array does not have its size.

    Notes
    -----
    Linear in run lengths and results if the runs of a chunk ascend; otherwise a chunk is walked repeatedly.

    Source: RLE, file versions 2.1 and later.

    Examples
    --------
    >>> import numpy as np
    >>> from lancecy.kernels import expand_runs
    >>> memory, out = np.array([7, 9, 3, 2], np.uint8), np.empty(3, np.uint8)
    >>> zero, two, five = np.array([0]), np.array([2]), np.array([5])
    >>> one, three = np.array([1]), np.array([3])
    >>> expand_runs(memory, zero, two, two, two, five, 1, 1, zero, one, three, out)
    >>> out.tolist()
    [7, 7, 9]
    """
    cdef Fault fault = Fault(FAULT_NONE, 0)
    cdef ChunkRuns chunks
    cdef Lengths lengths = Lengths(NULL, NULL, <uint64_t> length_width)
    cdef Output output = Output(NULL, NULL, width)
    cdef const uint8_t *source = &memory[0] if memory.shape[0] > 0 else NULL
    if width < 1:
        raise ValueError("width must be at least 1")
    if length_width not in (1, 2, 4, 8):
        raise ValueError("length_width must be 1, 2, 4 or 8")
    if length_positions.shape[0] != counts.shape[0] or length_lengths.shape[0] != counts.shape[0]:
        raise ValueError("the arrays of the chunks differ in length")
    if out.shape[0] % width:
        fail(FAULT_OUT_SIZE, 0)
    chunks = chunk_runs(value_positions, value_lengths, counts, run_chunks, run_starts, run_counts)
    if counts.shape[0] > 0:
        lengths.positions, lengths.nbytes = &length_positions[0], &length_lengths[0]
    if out.shape[0] > 0:
        output.next = &out[0]
        output.end = output.next + out.shape[0]
    with nogil:
        check_chunk_runs(&chunks, memory.shape[0], out.shape[0] // width, &fault)
        if fault.code == FAULT_NONE and output.next is not NULL:
            _expand(source, memory.shape[0], &chunks, &lengths, &output, &fault)
    if fault.code != FAULT_NONE:
        fail(fault.code, fault.index)
