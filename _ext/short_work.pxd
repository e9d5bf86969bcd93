# Work so short that giving up the interpreter's lock, about ten microseconds, would cost more.

cdef enum:
    FEW_VALUES = 2048
    FEW_BYTES = 16384
