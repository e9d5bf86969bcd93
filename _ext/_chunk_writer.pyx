"""Writes the chunks of a mini-block page: levels and values, a word for each chunk, an index of rows.

What the chunks have in common is a program, as for reading: numbers that say how levels and values are
coded. Every chunk is written once, straight to its place; its head follows when the sizes of its parts are
known.
"""

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint64_t

from cursor cimport FAULT_NONE, FAULT_OUT_SIZE, FAULT_TEXT_OFFSETS, Fault, has, load_word, store_word
from page_parts cimport (
    BLOCK, LEVELS_BLOCKS, LEVELS_RUNS, Levels, PageSink, put_block, put_bytes, put_coded_levels,
    put_run_lengths, put_run_values, put_word, put_zeros,
)

from lancecy.kernels._codes import fail

__all__ = ["write_chunks"]

cdef enum:
    PLAIN = 1
    INLINE = 2
    TEXT = 3
    RUNS = 4
    NUMBERS = 11
    MOST_PARTS = 32
    MOST_LEVELS = 0xFFFF
    U16_CHUNK = 32768


cdef struct Page:
    int64_t kind
    int64_t slots
    int64_t num_slots
    int64_t word_bytes
    int64_t visible_max
    int64_t row_level
    int64_t unit
    int64_t num_parts
    const int64_t *parts
    const uint8_t *values
    int64_t values_size
    const uint8_t *offsets
    Levels rep
    Levels definition
    int64_t num_levels

cdef struct Chunk:
    # Slots and levels of the chunk, and the sizes of its parts: two of levels, then those of values.
    int64_t slot
    int64_t num_slots
    int64_t level
    int64_t num_levels
    int64_t num_sizes
    int64_t sizes[2 + MOST_PARTS]


cdef Levels _levels(const int64_t[::1] program, Py_ssize_t first, const uint16_t[::1] levels) except *:
    cdef Levels found
    found.kind, found.width, found.at = program[first], program[first + 1], NULL
    if (levels is None) != (found.kind == 0):
        raise ValueError("a program has levels that are not given, or none for those that are")
    if not 0 <= found.kind <= LEVELS_RUNS or (found.kind == LEVELS_BLOCKS and not 1 <= found.width <= 15):
        raise ValueError("a program has levels of an unknown kind")
    if found.kind and levels.shape[0] > 0:
        found.at = &levels[0]
    return found


cdef Page _page(const int64_t[::1] program, const uint8_t[::1] values, const uint8_t[::1] offsets) except *:
    cdef Page page
    if program.shape[0] < NUMBERS:
        raise ValueError("a program is too short")
    page.kind, page.slots, page.num_slots, page.word_bytes = program[0], program[1], program[2], program[3]
    page.visible_max, page.row_level, page.unit = program[4], program[5], program[10]
    page.num_parts, page.parts, page.offsets = 0, NULL, NULL
    if not PLAIN <= page.kind <= RUNS or page.num_slots < 0 or page.num_slots > 1 << 48:
        raise ValueError("a program has values of an unknown kind or number")
    if page.slots < 2 or page.slots > 1 << 15 or page.slots & (page.slots - 1):
        raise ValueError("chunks have 2, 4, ... or 32768 slots")
    if page.word_bytes != 2 and page.word_bytes != 4:
        raise ValueError("words of chunks have 2 or 4 bytes")
    page.values, page.values_size = NULL, values.shape[0]
    if values.shape[0] > 0:
        page.values = &values[0]
    if page.kind == PLAIN:
        page.num_parts = (program.shape[0] - NUMBERS) // 2
        if not 1 <= page.num_parts <= MOST_PARTS:
            raise ValueError("a program has no part of values, or too many")
        page.parts = &program[NUMBERS]
    elif page.kind == TEXT:
        if page.unit != 4 and page.unit != 8:
            raise ValueError("offsets have 4 or 8 bytes")
        if offsets is None or offsets.shape[0] != (page.num_slots + 1) * page.unit:
            raise ValueError("offsets are one more than the slots")
        page.offsets = &offsets[0]
    elif page.unit not in (1, 2, 4, 8) or page.num_slots * page.unit > values.shape[0]:
        raise ValueError("values are of another width or fewer than the slots")
    if page.kind == INLINE and page.slots != BLOCK:
        raise ValueError("chunks of packed integers have 1024 slots")
    return page


cdef int64_t _num_visible(const Page *page) except -2 nogil:
    # Entries with a slot. bounds: the levels have num_levels entries.
    cdef int64_t i, count = 0
    if page.definition.at == NULL:
        return page.num_levels
    for i in range(page.num_levels):
        count += page.definition.at[i] <= page.visible_max
    return count


cdef int64_t _level_end(const Page *page, int64_t first, int64_t wanted, bint is_last) except -2 nogil:
    # The level after those of `wanted` slots and after the entries without a slot that follow these.
    # bounds: stays below num_levels; the levels have as many.
    cdef int64_t at = first
    if is_last:
        return page.num_levels
    if page.definition.at == NULL:
        return first + wanted
    while at < page.num_levels and (wanted > 0 or page.definition.at[at] > page.visible_max):
        wanted -= page.definition.at[at] <= page.visible_max
        at += 1
    return at


cdef int64_t _put_text(const Page *page, PageSink *sink, const Chunk *chunk, Fault *fault) except -2 nogil:
    # Offsets from the start of the buffer, the bytes, and zeros up to a whole offset.
    # bounds: offsets has num_slots + 1; the span of bytes is checked.
    cdef int64_t unit = page.unit, start = sink.at, i, head = (chunk.num_slots + 1) * unit
    cdef const uint8_t *at = page.offsets + chunk.slot * unit
    cdef int64_t first = <int64_t> load_word(at, <uint64_t> unit)
    cdef int64_t last = <int64_t> load_word(at + chunk.num_slots * unit, <uint64_t> unit)
    if last < first or not has(first, last - first, page.values_size):
        fault.code, fault.index = FAULT_TEXT_OFFSETS, chunk.slot
        return -1
    if not has(sink.at, head, sink.size):
        return -1
    for i in range(chunk.num_slots + 1):
        store_word(
            sink.out + start + i * unit,
            load_word(at + i * unit, <uint64_t> unit) + <uint64_t> (head - first),
            <uint64_t> unit,
        )
    sink.at += head
    if put_bytes(sink, page.values + first, last - first) < 0 or put_zeros(sink, -sink.at & (unit - 1)) < 0:
        return -1
    return sink.at - start


cdef int64_t _put_inline(const Page *page, PageSink *sink, const Chunk *chunk) except -2 nogil:
    # The bits that the largest value needs, and the packed block. bounds: values has num_slots of them.
    cdef const uint8_t *at = page.values + chunk.slot * page.unit
    cdef uint64_t joined = 0, shift = 3
    cdef int64_t i, width = 0, start = sink.at
    for i in range(chunk.num_slots):
        joined |= load_word(at + i * page.unit, <uint64_t> page.unit)
    while joined:
        joined >>= 1
        width += 1
    while <int64_t> 1 << (shift - 3) < page.unit:
        shift += 1
    if put_word(sink, <uint64_t> width, page.unit) < 0:
        return -1
    if put_block(sink, at, chunk.num_slots, shift, width) < 0:
        return -1
    return sink.at - start


cdef int64_t _put_part(
    const Page *page, PageSink *sink, const Chunk *chunk, int64_t part, Fault *fault
) except -2 nogil:
    # One buffer of values. bounds: a span of plain values is checked, those of runs in _page.
    cdef int64_t origin, bits, start, stop
    cdef const uint8_t *at = page.values + chunk.slot * page.unit
    if page.kind == TEXT:
        return _put_text(page, sink, chunk, fault)
    if page.kind == INLINE:
        return _put_inline(page, sink, chunk)
    if page.kind == RUNS:
        if part == 0:
            return put_run_values(sink, at, chunk.num_slots, page.unit)
        return put_run_lengths(sink, at, chunk.num_slots, page.unit)
    origin, bits = page.parts[2 * part], page.parts[2 * part + 1]
    if bits < 0 or bits > 1 << 16 or (page.slots * bits) & 7 or not 0 <= origin <= page.values_size:
        fault.code = FAULT_OUT_SIZE
        return -1
    start = origin + (chunk.slot * bits >> 3)
    stop = origin + ((chunk.slot + chunk.num_slots) * bits + 7 >> 3)
    if not has(start, stop - start, page.values_size):
        fault.code = FAULT_OUT_SIZE
        return -1
    return put_bytes(sink, page.values + start, stop - start)


cdef int64_t _put_chunk(const Page *page, PageSink *sink, Chunk *chunk, Fault *fault) except -2 nogil:
    # All parts of a chunk at multiples of 8 behind a head that is filled in at the end; its size, or -1.
    # bounds: sizes has room for two parts of levels and MOST_PARTS of values; room is checked by the parts.
    cdef int64_t start = sink.at, part, width, num_values = page.num_parts
    cdef int64_t num_levels = (page.rep.kind != 0) + (page.definition.kind != 0)
    if page.kind != PLAIN:
        num_values = 1 + (page.kind == RUNS)
    cdef int64_t head = 2 + 2 * num_levels + page.word_bytes * num_values
    chunk.num_sizes = 0
    if put_zeros(sink, head + 7 & -8) < 0:
        return -1
    for part in range(num_levels + num_values):
        if part < num_levels:
            chunk.sizes[part] = put_coded_levels(
                sink, &page.rep if part == 0 and page.rep.kind else &page.definition, chunk.level,
                chunk.num_levels,
            )
        else:
            chunk.sizes[part] = _put_part(page, sink, chunk, part - num_levels, fault)
        if chunk.sizes[part] < 0 or put_zeros(sink, -sink.at & 7) < 0:
            return -1
    store_word(sink.out + start, <uint64_t> (chunk.num_levels if num_levels else 0), 2)
    head = 2
    for part in range(num_levels + num_values):
        width = 2 if part < num_levels else page.word_bytes
        store_word(sink.out + start + head, <uint64_t> chunk.sizes[part], <uint64_t> width)
        head += width
    return sink.at - start


cdef bint _fits(const Page *page, const Chunk *chunk, int64_t size) except -1 nogil:
    # Whether the numbers of a chunk fit their words. bounds: sizes of the levels come first.
    cdef int64_t part
    if chunk.num_levels > MOST_LEVELS and (page.rep.kind or page.definition.kind):
        return False
    for part in range((page.rep.kind != 0) + (page.definition.kind != 0)):
        if chunk.sizes[part] > MOST_LEVELS:
            return False
    return size <= (U16_CHUNK if page.word_bytes == 2 else <int64_t> 1 << 31)


cdef int64_t _put_index(const Page *page, const Chunk *chunk, int64_t *entry) except -2 nogil:
    # Rows that end in the chunk, and the levels after the last end. bounds: entry has two numbers.
    cdef int64_t i, stop = chunk.level + chunk.num_levels, last = chunk.level
    entry[0] = 0
    for i in range(chunk.level + 1, stop + 1):
        if i == page.num_levels or page.rep.at[i] == page.row_level:
            entry[0] += 1
            last = i
    entry[1] = stop - last
    return 0


cdef int64_t _write(
    const Page *page, PageSink *sink, uint8_t *words, int64_t *index, Fault *fault
) except -2 nogil:
    # bounds: words and index have an entry for every chunk.
    cdef Chunk chunk
    cdef int64_t number = 0, size, log = 0
    while <int64_t> 1 << log < page.slots:
        log += 1
    chunk.slot = chunk.level = 0
    fault.code, fault.index = FAULT_NONE, 0
    while chunk.slot < page.num_slots:
        chunk.num_slots = min(page.slots, page.num_slots - chunk.slot)
        if chunk.slot + chunk.num_slots == page.num_slots:
            # The last chunk has the slots that are left, whatever its word says.
            log = 0
        chunk.num_levels = _level_end(page, chunk.level, chunk.num_slots, log == 0) - chunk.level
        size = _put_chunk(page, sink, &chunk, fault)
        if size < 0:
            fault.code = fault.code or FAULT_OUT_SIZE
            return -1
        if not _fits(page, &chunk, size):
            return -1
        store_word(
            words + number * page.word_bytes, <uint64_t> (2 * size - 16 | log), <uint64_t> page.word_bytes
        )
        if index != NULL:
            _put_index(page, &chunk, index + 2 * number)
        chunk.slot += chunk.num_slots
        chunk.level += chunk.num_levels
        number += 1
    return sink.at


def write_chunks(
    const uint8_t[::1] values not None,
    const int64_t[::1] program not None,
    const uint8_t[::1] offsets or None,
    const uint16_t[::1] rep or None,
    const uint16_t[::1] definition or None,
    uint8_t[::1] out not None,
    uint8_t[::1] out_words not None,
    int64_t[::1] out_index or None,
):
    """Write the chunks of a page.

    Parameters
    ----------
    values : (nbytes,) uint8, may be read-only
        All values: numbers, bytes of strings, or the parts of fixed-size lists one after the other.
    program : (11 + 2 * num_parts,) int64
        Kind of values (1 plain, 2 packed with the width before each 1,024, 3 strings, 4 runs),
        slots per chunk, slots, bytes of a chunk's word (2 or 4), highest definition level with a
        slot, repetition level of a new row; kind (0 none, 1 plain, 2 packed blocks, 3 runs) and
        bits of the repetition levels, and of the definition levels; bytes of a packed value, of one
        in runs, or of an offset. For each part of plain values its position and bits.
    offsets : ((slots + 1) * width,) uint8 or None
        Of the strings in ``values``; ascending.
    rep, definition : (num_levels,) uint16 or None
    out : (size,) uint8
        For the chunks.
    out_words : (num_chunks * word bytes,) uint8
    out_index : (2 * num_chunks,) int64 or None
        Of rows; given exactly if there are repetition levels.

    Returns
    -------
    int
        Bytes of all chunks; -1 if the levels or bytes of a chunk are more than its head can state.

    Raises
    ------
    FormatError
        Offsets descend or leave ``values``; ``position`` is the first value of the chunk.
    ValueError
        A program that cannot be, arrays that do not fit it or each other, or too little room in ``out``.

    Source: file sheet 2.1, sections 3.1 to 3.5.

    Examples
    --------
    >>> import numpy as np
    >>> from lancecy.kernels import write_chunks
    >>> values, program = np.arange(3).view(np.uint8), np.array([1, 512, 3, 2, 0, 0, 0, 0, 0, 0, 0, 0, 64])
    >>> out, words = np.empty(32, np.uint8), np.empty(2, np.uint8)
    >>> write_chunks(values, program, None, None, None, out, words, None)
    32
    >>> words.tolist(), out[:4].tolist(), out[8:].view(np.int64).tolist()
    ([48, 0], [0, 0, 24, 0], [0, 1, 2])
    """
    cdef Page page = _page(program, values, offsets)
    cdef PageSink sink
    cdef Fault fault
    cdef int64_t done = 0, num_chunks = (page.num_slots + page.slots - 1) // page.slots
    page.rep, page.definition = _levels(program, 6, rep), _levels(program, 8, definition)
    page.num_levels = page.num_slots
    if rep is not None:
        page.num_levels = rep.shape[0]
    elif definition is not None:
        page.num_levels = definition.shape[0]
    if rep is not None and definition is not None and rep.shape[0] != definition.shape[0]:
        raise ValueError("there are not as many repetition as definition levels")
    if out_words.shape[0] != num_chunks * page.word_bytes or (rep is None) != (out_index is None) or (
        out_index is not None and out_index.shape[0] != 2 * num_chunks
    ):
        raise ValueError("out_words or out_index do not fit the chunks")
    if num_chunks == 0:
        return 0
    sink.out, sink.size, sink.at = NULL, out.shape[0], 0
    if out.shape[0] > 0:
        sink.out = &out[0]
    with nogil:
        if _num_visible(&page) != page.num_slots:
            done = -3
        else:
            done = _write(
                &page, &sink, &out_words[0], NULL if page.rep.kind == 0 else &out_index[0], &fault
            )
    if done == -3:
        raise ValueError("levels are not of as many slots as there are")
    if done < 0 and fault.code != FAULT_NONE:
        fail(fault.code, fault.index)
    return done
