# The walk along a path through a stored JSON value.
#
# A path is followed depth first, which finds the parts in the order of the document. A first walk counts the
# parts and keeps the first; where there are several, a second one writes them as an array.

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcmp, memcpy

from cursor cimport FAULT_JSON, FAULT_JSON_DEPTH, FAULT_JSON_WALK, FAULT_NONE
from jsonb cimport (
    JSON_ARRAY,
    JSON_COUNT,
    JSON_DEPTH,
    JSON_OBJECT,
    JSON_SIZE,
    JsonItems,
    JsonNode,
    json_child,
    json_items,
    json_word,
)

cdef enum:
    # Steps of a path.
    STEP_NAME = 0
    STEP_RANGE = 1
    STEP_ELEMENTS = 2
    STEP_ITEMS = 3
    STEP_MEMBERS = 4
    STEP_DESCEND = 5
    STEP_KEY = 6
    # Flags of ranges.
    FIRST_FROM_LAST = 1
    LAST_FROM_LAST = 2
    MORE_RANGES = 4
    # What is wanted of the parts found.
    ONE_VALUE = 0
    FIRST_VALUE = 1
    ARRAY_OF_VALUES = 2
    # Returned when nothing more is wanted of a value; no fault.
    DONE = -1

cdef struct PathStep:
    int64_t kind
    int64_t first
    int64_t last
    int64_t flags

cdef struct PathWalk:
    # The path, and the parts found in one value: how many, their bytes, and the first.
    const uint8_t *data
    const PathStep *steps
    int64_t num_steps
    const uint8_t *names
    int64_t mode
    int64_t found
    int64_t num_bytes
    JsonNode first
    # Containers and elements that may still be visited, over all values.
    int64_t visits_left
    # While an array is written, where its next entry and its next bytes go, and how much room is left of
    # each; NULL while parts are counted.
    uint8_t *entry
    uint8_t *bytes
    int64_t entries_left
    int64_t bytes_left


cdef inline int64_t put_json_word(uint8_t *out, uint32_t word) except -2 nogil:
    # Big-endian. bounds: the caller has room for four bytes.
    out[0], out[1] = word >> 24 & 0xFF, word >> 16 & 0xFF
    out[2], out[3] = word >> 8 & 0xFF, word & 0xFF
    return 0


cdef inline int32_t path_match(PathWalk *walk, const JsonNode *node) except -2 nogil:
    # bounds: node is within the data; an array is written as far as it has room.
    if walk.entry != NULL:
        # The bytes may belong to a file that is being written to: a first walk may have counted others.
        if walk.entries_left == 0 or node.size > walk.bytes_left:
            return FAULT_JSON
        put_json_word(walk.entry, node.kind << 28 | <uint32_t> node.size)
        if node.size:
            memcpy(walk.bytes, walk.data + node.at, node.size)
        walk.entry += 4
        walk.bytes += node.size
        walk.entries_left -= 1
        walk.bytes_left -= node.size
        return FAULT_NONE
    if walk.found == 0:
        walk.first = node[0]
    walk.found += 1
    walk.num_bytes += node.size
    if walk.mode == FIRST_VALUE:
        return DONE
    return FAULT_JSON_WALK if walk.found > JSON_COUNT else FAULT_NONE


cdef inline int32_t path_visit(PathWalk *walk, int64_t count) except -2 nogil:
    # Several .** or ranges lead to the same values in very many ways. Only the first walk is counted.
    if walk.entry == NULL:
        walk.visits_left -= count
    return FAULT_JSON_WALK if walk.visits_left < 0 else FAULT_NONE


cdef inline int32_t follow_path(
    PathWalk *walk, const JsonNode *node, int64_t step, int64_t depth
) except -2 nogil:
    # bounds: steps has num_steps entries.
    cdef int64_t kind, number
    cdef JsonItems items
    cdef int32_t fault
    if step == walk.num_steps:
        return path_match(walk, node)
    kind = walk.steps[step].kind
    if kind == STEP_DESCEND:
        return path_descend(walk, node, step, depth, 0)
    fault = json_items(walk.data, node, &items)
    if fault == FAULT_NONE:
        fault = path_visit(walk, 1 + items.count)
    if fault != FAULT_NONE:
        return fault
    if items.kind != 0 and depth > JSON_DEPTH:
        return FAULT_JSON_DEPTH
    if items.kind == JSON_OBJECT:
        if kind == STEP_NAME or kind == STEP_KEY:
            return path_member(walk, &items, step, depth)
        if kind == STEP_MEMBERS:
            return path_members(walk, &items, step + 1, depth, -1)
    elif items.kind == JSON_ARRAY:
        if kind == STEP_RANGE:
            return path_ranges(walk, &items, step, depth)
        if kind == STEP_ELEMENTS or kind == STEP_ITEMS:
            return path_elements(walk, &items, 0, items.count - 1, step + 1, depth, -1)
        if kind == STEP_KEY and walk.steps[step].flags >= 0:
            number = walk.steps[step].flags
            return path_elements(walk, &items, number, number, step + 1, depth, -1)
        return FAULT_NONE
    return follow_path(walk, node, step + 1, depth) if kind == STEP_ELEMENTS else FAULT_NONE


cdef inline int32_t path_descend(
    PathWalk *walk, const JsonNode *node, int64_t step, int64_t depth, int64_t level
) except -2 nogil:
    # A value and the values below it, within the levels of the step.
    # bounds: steps has an entry for step.
    cdef JsonItems items
    cdef int32_t fault = path_visit(walk, 1)
    if fault == FAULT_NONE and level >= walk.steps[step].first:
        fault = follow_path(walk, node, step + 1, depth)
    if fault != FAULT_NONE or level >= walk.steps[step].last:
        return fault
    fault = json_items(walk.data, node, &items)
    if fault != FAULT_NONE or items.kind == 0:
        return fault
    if depth > JSON_DEPTH:
        return FAULT_JSON_DEPTH
    if items.kind == JSON_OBJECT:
        return path_members(walk, &items, step, depth, level + 1)
    return path_elements(walk, &items, 0, items.count - 1, step, depth, level + 1)


cdef inline int32_t path_skip(
    PathWalk *walk, int64_t entry, int64_t count, int64_t *at, int64_t stop
) except -2 nogil:
    # Pass over elements or keys described from `entry` on.
    # bounds: `count` entries of four bytes are within the data, and so is all before stop.
    cdef int64_t i, size
    for i in range(count):
        size = json_word(walk.data + entry + 4 * i) & JSON_SIZE
        if size > stop - at[0]:
            return FAULT_JSON
        at[0] += size
    return FAULT_NONE


cdef inline int32_t path_elements(
    PathWalk *walk, const JsonItems *items, int64_t first, int64_t last, int64_t step, int64_t depth, int64_t
    level
) except -2 nogil:
    # Elements from first up to last, as far as they exist. From level 0 on, `step` is a descent that goes on.
    # bounds: json_items has checked that all entries are within the data.
    cdef int64_t i, at = items.at
    cdef JsonNode node
    cdef int32_t fault
    first, last = max(first, 0), min(last, items.count - 1)
    if first > last:
        return FAULT_NONE
    fault = path_skip(walk, items.entries, first, &at, items.stop)
    for i in range(first, last + 1):
        if fault == FAULT_NONE:
            fault = json_child(walk.data, items.entries + 4 * i, at, items.stop, &node)
        if fault != FAULT_NONE:
            break
        at += node.size
        if level < 0:
            fault = follow_path(walk, &node, step, depth + 1)
        else:
            fault = path_descend(walk, &node, step, depth + 1, level)
    return fault


cdef inline int32_t path_ranges(
    PathWalk *walk, const JsonItems *items, int64_t step, int64_t depth
) except -2 nogil:
    # All ranges of one pair of brackets, each from the start.
    # bounds: the last range has no MORE_RANGES.
    cdef int64_t first, last, after = step + 1
    cdef int32_t fault = FAULT_NONE
    while walk.steps[after - 1].flags & MORE_RANGES:
        after += 1
    while step < after and fault == FAULT_NONE:
        first, last = walk.steps[step].first, walk.steps[step].last
        if walk.steps[step].flags & FIRST_FROM_LAST:
            first += items.count - 1
        if walk.steps[step].flags & LAST_FROM_LAST:
            last += items.count - 1
        fault = path_elements(walk, items, first, last, after, depth, -1)
        step += 1
    return fault


cdef inline int32_t path_members(
    PathWalk *walk, const JsonItems *items, int64_t step, int64_t depth, int64_t level
) except -2 nogil:
    # The values of an object are elements, once its keys are passed over. bounds: items is one opened object.
    cdef JsonItems members = items[0]
    cdef int32_t fault = path_skip(walk, items.entries, items.count, &members.at, items.stop)
    members.entries += 4 * items.count
    if fault != FAULT_NONE:
        return fault
    return path_elements(walk, &members, 0, items.count - 1, step, depth, level)


cdef inline int32_t path_member(
    PathWalk *walk, const JsonItems *items, int64_t step, int64_t depth
) except -2 nogil:
    # The first member of that name.
    # bounds: json_items has checked all entries; a key is compared once its bytes are known to be there.
    cdef int64_t i, size, at = items.at, hit = -1
    cdef int64_t length = walk.steps[step].last - walk.steps[step].first
    cdef const uint8_t *name = walk.names + walk.steps[step].first
    cdef JsonNode node
    cdef int32_t fault
    for i in range(items.count):
        size = json_word(walk.data + items.entries + 4 * i) & JSON_SIZE
        if size > items.stop - at:
            return FAULT_JSON
        if hit < 0 and size == length and (size == 0 or memcmp(walk.data + at, name, size) == 0):
            hit = i
        at += size
    if hit < 0:
        return FAULT_NONE
    fault = path_skip(walk, items.entries + 4 * items.count, hit, &at, items.stop)
    if fault == FAULT_NONE:
        fault = json_child(walk.data, items.entries + 4 * (items.count + hit), at, items.stop, &node)
    return follow_path(walk, &node, step + 1, depth + 1) if fault == FAULT_NONE else fault
