# Programs of mini-block chunks: how their levels and values are coded (header-only). _chunk_values.pyx
# describes the numbers.

from libc.stdint cimport INT32_MAX, int64_t, uint64_t

from bitpack cimport Packing, packing_of
from chunk_parts cimport Header, header_of
from fastlanes cimport ones

cdef enum:
    PLAIN = 1
    INLINE = 2
    BLOCKS = 3
    TEXT = 4
    NUMBERS = 13
    MOST_PROGRAMS = 64

cdef struct Codec:
    # Of levels or values: an integer of `nbytes` each, or bytes of strings.
    int64_t kind
    int64_t nbytes
    Packing packing
    bint raw_tail

cdef struct Program:
    Header header
    Py_ssize_t buffer
    Codec levels
    Codec values


cdef inline Codec _codec(
    const int64_t[:, ::1] numbers, Py_ssize_t row, Py_ssize_t first, bint is_level
) except *:
    # bounds: checked by Cython.
    cdef Codec codec
    cdef int64_t bits = numbers[row, first + 1], packed = numbers[row, first + 2]
    codec.kind, codec.nbytes, codec.raw_tail = numbers[row, first], bits >> 3, numbers[row, first + 3] != 0
    codec.packing = packing_of(8)
    if not (0 if is_level else PLAIN) <= codec.kind <= (BLOCKS if is_level else TEXT):
        raise ValueError("a program has an unknown kind of levels or values")
    if codec.kind == 0:
        return codec
    if (
        bits <= 0 or bits & 7 or bits >> 3 > INT32_MAX or (is_level and bits != 16)
        or (codec.kind == TEXT and bits != 32 and bits != 64)
        or (codec.kind == BLOCKS and not 0 <= packed <= bits)
    ):
        raise ValueError("a program has levels or values of an impossible width")
    if codec.kind == INLINE or codec.kind == BLOCKS:
        codec.packing = packing_of(bits)
    if codec.kind == BLOCKS:
        codec.packing.width, codec.packing.mask = <uint64_t> packed, ones(<uint64_t> packed)
    return codec


cdef inline Program _program(const int64_t[:, ::1] numbers, Py_ssize_t row) except *:
    # bounds: checked by Cython.
    cdef Program program
    program.header = header_of(numbers[row, 1] != 0, numbers[row, 2] != 0, numbers[row, 3], numbers[row, 0])
    program.buffer = numbers[row, 4]
    if not 0 <= program.buffer < program.header.num_buffers:
        raise ValueError("a program has no buffer of that number")
    program.levels = _codec(numbers, row, 5, True)
    program.values = _codec(numbers, row, 9, False)
    if program.levels.kind != 0 and program.header.def_bytes == 0:
        raise ValueError("a program has levels that no chunk has")
    return program


cdef inline bint programs_into(const int64_t[:, ::1] numbers, Program *programs) except -1:
    # Parse all programs; true if some want levels. bounds: there is room for MOST_PROGRAMS.
    cdef Py_ssize_t row
    cdef bint has_levels = False
    if numbers.shape[1] != NUMBERS:
        raise ValueError("a program has 13 numbers")
    if not 0 < numbers.shape[0] <= MOST_PROGRAMS:
        raise ValueError("there must be one program, and at most 64")
    for row in range(numbers.shape[0]):
        programs[row] = _program(numbers, row)
        has_levels = has_levels or programs[row].levels.kind != 0
        if (
            programs[row].values.nbytes != programs[0].values.nbytes
            or (programs[row].values.kind == TEXT) != (programs[0].values.kind == TEXT)
        ):
            raise ValueError("programs differ in the width of their values")
    return has_levels
