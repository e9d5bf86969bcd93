# Stored JSON values: their parts, and writing one as text.
#
# A value is a tree of containers, which the functions below walk recursively to a bounded depth. Text is
# written as long as there is room, and counted beyond that.

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from cursor cimport FAULT_CODED_OFFSETS, FAULT_JSON, FAULT_JSON_DEPTH, FAULT_JSON_TEXT, FAULT_NONE
from text cimport clean_length, put_float, put_integer

cdef enum:
    # Headers of containers: kind and number of elements (of keys, for objects).
    JSON_ARRAY = 4
    JSON_OBJECT = 2
    JSON_SCALAR = 1
    JSON_COUNT = 0x1FFFFFFF
    # Entries of elements: kind and number of bytes.
    JSON_NULL = 0
    JSON_STRING = 1
    JSON_NUMBER = 2
    JSON_FALSE = 3
    JSON_TRUE = 4
    JSON_CONTAINER = 5
    JSON_SIZE = 0x0FFFFFFF
    # Nesting that the parser of the reference writer accepts.
    JSON_DEPTH = 128
    # Room for the text of any number.
    NUMBER_TEXT = 32

cdef struct TextWork:
    # All stored bytes, the powers of ten, and the output: `done` may exceed `room`; nothing is written there.
    const uint8_t *data
    const uint64_t *powers
    uint8_t *out
    int64_t room
    int64_t done


# -- output -----------------------------------------------------------------------------


cdef inline int64_t put_text(TextWork *work, const uint8_t *text, int64_t size) except -2 nogil:
    # bounds: text has `size` bytes; bytes that do not fit are only counted. Without room `out` is NULL, to
    # which not even no bytes may be copied.
    if size and size <= work.room - work.done:
        memcpy(work.out + work.done, text, size)
    work.done += size
    return 0


cdef inline int64_t put_byte(TextWork *work, uint8_t byte) except -2 nogil:
    # bounds: written only where there is room.
    if work.done < work.room:
        work.out[work.done] = byte
    work.done += 1
    return 0


cdef inline uint32_t json_word(const uint8_t *data) except? 0xE5C1A9D3 nogil:
    # A big-endian number. bounds: the caller has checked that four bytes are present.
    return <uint32_t> data[0] << 24 | <uint32_t> data[1] << 16 | <uint32_t> data[2] << 8 | data[3]


# -- text -------------------------------------------------------------------------------


cdef inline int64_t put_escape(TextWork *work, uint8_t byte) except -2 nogil:
    # bounds: both tables have an entry for every number used.
    cdef const uint8_t *letters = <const uint8_t *> b"btn_fr"
    cdef const uint8_t *hexadecimal = <const uint8_t *> b"0123456789abcdef"
    put_byte(work, 0x5C)
    if byte == 0x22 or byte == 0x5C:
        put_byte(work, byte)
    elif 8 <= byte <= 13 and byte != 11:
        put_byte(work, letters[byte - 8])
    else:
        put_text(work, <const uint8_t *> b"u00", 3)
        put_byte(work, hexadecimal[byte >> 4])
        put_byte(work, hexadecimal[byte & 15])
    return 0


cdef inline int32_t put_quoted(TextWork *work, const uint8_t *text, int64_t size) except -2 nogil:
    # bounds: text has `size` bytes, and so has each part that is written.
    cdef int64_t at = 0, length
    put_byte(work, 0x22)
    while True:
        length = clean_length(text + at, size - at)
        put_text(work, text + at, length)
        at += length
        if at == size:
            break
        if text[at] >= 0x80:
            return FAULT_JSON_TEXT
        put_escape(work, text[at])
        at += 1
    put_byte(work, 0x22)
    return FAULT_NONE


cdef inline int32_t put_plain(TextWork *work, const uint8_t *text, int64_t size) except -2 nogil:
    # The text itself, without quotes and escapes. bounds: text has `size` bytes.
    cdef int64_t at = clean_length(text, size)
    while at < size:
        if text[at] >= 0x80:
            return FAULT_JSON_TEXT
        at += 1
        at += clean_length(text + at, size - at)
    put_text(work, text, size)
    return FAULT_NONE


# -- numbers ----------------------------------------------------------------------------


cdef inline int32_t put_json_number(TextWork *work, const uint8_t *data, int64_t size) except -2 nogil:
    # bounds: data has `size` bytes; text has room for any number.
    cdef uint8_t text[NUMBER_TEXT]
    cdef uint8_t kind
    cdef uint64_t word = 0
    cdef int64_t i
    if size == 0 or size > 9:
        return FAULT_JSON
    kind = data[0]
    for i in range(1, size):
        word = word << 8 | data[i]
    size -= 1
    if (kind == 0x40 or kind == 0x50) and (size == 1 or size == 2 or size == 4 or size == 8):
        put_text(work, text, put_integer(kind == 0x40, word, size, text))
    elif kind == 0x60 and size == 8:
        put_text(work, text, put_float(work.powers, word, text))
    elif kind == 0 and size == 0:
        put_byte(work, 0x30)
    elif (kind == 0x10 or kind == 0x20 or kind == 0x30) and size == 0:
        # JSON has no notation for NaN and the infinities.
        put_text(work, <const uint8_t *> b"null", 4)
    else:
        return FAULT_JSON
    return FAULT_NONE


# -- values -----------------------------------------------------------------------------


cdef inline int32_t put_json_value(
    TextWork *work, uint32_t entry, int64_t at, int64_t size, int64_t depth
) except -2 nogil:
    # bounds: `size` bytes from `at` on are within the data.
    cdef uint32_t kind = entry >> 28 & 7
    if kind == JSON_CONTAINER:
        return put_json(work, at, at + size, depth + 1)
    if kind == JSON_STRING:
        return put_quoted(work, work.data + at, size)
    if kind == JSON_NUMBER:
        return put_json_number(work, work.data + at, size)
    if kind == JSON_NULL:
        put_text(work, <const uint8_t *> b"null", 4)
    elif kind == JSON_TRUE:
        put_text(work, <const uint8_t *> b"true", 4)
    elif kind == JSON_FALSE:
        put_text(work, <const uint8_t *> b"false", 5)
    else:
        return FAULT_JSON
    return FAULT_NONE


cdef inline int32_t put_json_elements(
    TextWork *work, int64_t entries, int64_t count, int64_t at, int64_t stop, int64_t depth
) except -2 nogil:
    # Elements described from `entries` on, whose bytes begin at `at`.
    # bounds: `count` entries of four bytes are within the data, and so is all before stop.
    cdef int64_t i, size
    cdef uint32_t entry
    cdef int32_t fault
    for i in range(count):
        if i > 0:
            put_byte(work, 0x2C)
        entry = json_word(work.data + entries + 4 * i)
        size = entry & JSON_SIZE
        if size > stop - at:
            return FAULT_JSON
        fault = put_json_value(work, entry, at, size, depth)
        if fault != FAULT_NONE:
            return fault
        at += size
    return FAULT_NONE


cdef inline int32_t put_json_members(
    TextWork *work, int64_t entries, int64_t count, int64_t at, int64_t stop, int64_t depth
) except -2 nogil:
    # Keys, then values, described from `entries` on; the bytes of the keys begin at `at`.
    # bounds: 2 * count entries of four bytes are within the data, and so is all before stop.
    cdef int64_t i, size, key = at
    cdef uint32_t entry
    cdef int32_t fault
    for i in range(count):
        size = json_word(work.data + entries + 4 * i) & JSON_SIZE
        if size > stop - at:
            return FAULT_JSON
        at += size
    for i in range(count):
        if i > 0:
            put_byte(work, 0x2C)
        size = json_word(work.data + entries + 4 * i) & JSON_SIZE
        # The bytes may belong to a file that is being written to: what was checked above may have changed.
        if size > stop - key:
            return FAULT_JSON
        fault = put_quoted(work, work.data + key, size)
        key += size
        if fault != FAULT_NONE:
            return fault
        put_byte(work, 0x3A)
        entry = json_word(work.data + entries + 4 * (count + i))
        size = entry & JSON_SIZE
        if size > stop - at:
            return FAULT_JSON
        fault = put_json_value(work, entry, at, size, depth)
        if fault != FAULT_NONE:
            return fault
        at += size
    return FAULT_NONE


cdef inline int32_t put_json(TextWork *work, int64_t start, int64_t stop, int64_t depth) except -2 nogil:
    # bounds: start .. stop is within the data, and entries are read only once they are known to be.
    cdef uint32_t header, kind
    cdef int64_t count, entries = start + 4
    cdef int32_t fault = FAULT_JSON
    if depth > JSON_DEPTH:
        return FAULT_JSON_DEPTH
    if stop - start < 4:
        return FAULT_JSON
    header = json_word(work.data + start)
    kind, count = header >> 29, header & JSON_COUNT
    if kind == JSON_SCALAR:
        count = 1
    if count * (2 if kind == JSON_OBJECT else 1) > (stop - entries) >> 2:
        return FAULT_JSON
    if kind == JSON_SCALAR:
        return put_json_elements(work, entries, 1, entries + 4, stop, depth)
    if kind == JSON_ARRAY:
        put_byte(work, 0x5B)
        fault = put_json_elements(work, entries, count, entries + 4 * count, stop, depth)
        put_byte(work, 0x5D)
    elif kind == JSON_OBJECT:
        put_byte(work, 0x7B)
        fault = put_json_members(work, entries, count, entries + 8 * count, stop, depth)
        put_byte(work, 0x7D)
    return fault


# -- parts ------------------------------------------------------------------------------


cdef struct JsonNode:
    # A value within the data: its kind as entries have it, and where its bytes are.
    uint32_t kind
    int64_t at
    int64_t size


cdef struct JsonItems:
    # Elements of an array, or keys and values of an object: number, first entry, first byte, and end of all
    # bytes.
    uint32_t kind
    int64_t count
    int64_t entries
    int64_t at
    int64_t stop


cdef inline int32_t json_child(
    const uint8_t *data, int64_t entry, int64_t at, int64_t stop, JsonNode *node
) except -2 nogil:
    # The element described at `entry`, whose bytes begin at `at`.
    # bounds: the caller has checked that the four bytes of the entry are within the data, and all before
    # stop.
    cdef uint32_t word = json_word(data + entry)
    node.kind = word >> 28 & 7
    node.size = word & JSON_SIZE
    node.at = at
    return FAULT_JSON if node.size > stop - at or node.kind > JSON_CONTAINER else FAULT_NONE


cdef inline int32_t json_root(
    const uint8_t *data, int64_t start, int64_t stop, JsonNode *node
) except -2 nogil:
    # A stored value; no bytes mean null, and a container of one scalar means that.
    # bounds: start .. stop is within the data, and entries are read only once they are known to be.
    cdef int64_t depth = 0
    cdef int32_t fault
    node.kind = JSON_CONTAINER if stop > start else JSON_NULL
    node.at = start
    node.size = stop - start
    while node.kind == JSON_CONTAINER:
        if node.size < 4:
            return FAULT_JSON
        if json_word(data + node.at) >> 29 != JSON_SCALAR:
            return FAULT_NONE
        depth += 1
        if depth > JSON_DEPTH:
            return FAULT_JSON_DEPTH
        if node.size < 8:
            return FAULT_JSON
        fault = json_child(data, node.at + 4, node.at + 8, node.at + node.size, node)
        if fault != FAULT_NONE:
            return fault
    return FAULT_NONE


cdef inline int32_t json_items(const uint8_t *data, const JsonNode *node, JsonItems *items) except -2 nogil:
    # Open an array or object. A kind of zero means that the value is neither.
    # bounds: the bytes of the node are within the data, and entries are counted against them.
    cdef uint32_t header
    items.kind, items.count = 0, 0
    if node.kind != JSON_CONTAINER:
        return FAULT_NONE
    if node.size < 4:
        return FAULT_JSON
    header = json_word(data + node.at)
    items.kind = header >> 29
    items.count = header & JSON_COUNT
    items.entries = node.at + 4
    items.stop = node.at + node.size
    if items.kind != JSON_ARRAY and items.kind != JSON_OBJECT:
        return FAULT_JSON
    if items.count * (2 if items.kind == JSON_OBJECT else 1) > (node.size - 4) >> 2:
        return FAULT_JSON
    items.at = items.entries + items.count * (8 if items.kind == JSON_OBJECT else 4)
    return FAULT_NONE


# -- columns ----------------------------------------------------------------------------


cdef struct JsonColumn:
    # Stored values: offsets, bytes, and a bitmap of those that are not null, or NULL.
    const int64_t *offsets
    int64_t num_values
    const uint8_t *data
    int64_t num_bytes
    const uint8_t *validity


cdef inline JsonColumn json_column(
    const int64_t[::1] offsets, const uint8_t[::1] values, const uint8_t[::1] validity
) except *:
    cdef JsonColumn column = JsonColumn(NULL, offsets.shape[0] - 1, NULL, values.shape[0], NULL)
    if offsets.shape[0] < 1:
        raise ValueError("offsets need one entry more than values")
    column.offsets = &offsets[0]
    if values.shape[0] > 0:
        column.data = &values[0]
    if validity is not None:
        if validity.shape[0] != (column.num_values + 7) >> 3:
            raise ValueError("validity does not have a bit for every value")
        if validity.shape[0] > 0:
            column.validity = &validity[0]
    return column


cdef inline bint json_is_null(const JsonColumn *column, int64_t row) except -2 nogil:
    # bounds: row is below num_values, and validity has a bit for each.
    return column.validity != NULL and not column.validity[row >> 3] >> (row & 7) & 1


cdef inline int32_t json_span(
    const JsonColumn *column, int64_t row, int64_t *start, int64_t *stop
) except -2 nogil:
    # bounds: row is below num_values, which is one less than the offsets.
    start[0], stop[0] = column.offsets[row], column.offsets[row + 1]
    if start[0] < 0 or stop[0] < start[0] or stop[0] > column.num_bytes:
        return FAULT_CODED_OFFSETS
    return FAULT_NONE
