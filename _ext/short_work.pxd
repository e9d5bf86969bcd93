# Work so short that handing the interpreter to another thread and waiting for it, about ten microseconds, costs more.

cdef enum:
    FEW_VALUES = 2048
    FEW_BYTES = 16384
