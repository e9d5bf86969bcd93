"""Twins of ``_fullzip``: one entry at a time, in Python."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lancecy.kernels._codes import Fault, fail
from lancecy.kernels.reference.checks import checked, same_length

__all__ = ["zip_fixed", "zip_variable"]

Int64 = NDArray[np.int64]
Levels = NDArray[np.uint16]

MAX_LEVEL = 0xFFFF


class _Walk:
    """Walk over control words, shared by both layouts of entries."""

    def __init__(
        self,
        memory: NDArray[np.uint8],
        spans: tuple[Int64, Int64],
        word: tuple[int, int],
        most: tuple[int, int, int],
        outs: tuple[Levels | None, Levels | None],
    ) -> None:
        same_length("starts and stops differ in length", *spans)
        if word[0] not in {0, 1, 2, 4} or not 0 <= word[1] <= 31:
            raise ValueError("word_bytes must be 0, 1, 2 or 4, and def_bits at most 31")
        if not all(0 <= level <= MAX_LEVEL for level in most):
            raise ValueError("visible_max, max_rep and max_def must be levels")
        present = [out for out in outs if out is not None]
        same_length("out_rep and out_def differ in length", *present)
        self.capacity = present[0].size if present else None
        self.bytes = memory.tobytes()
        self.word_bytes, self.def_bits = word
        self.visible_max, self.max_rep, self.max_def = most
        self.out_rep, self.out_def = outs
        self.entries = 0
        self.spans = list(zip(spans[0].tolist(), spans[1].tolist(), strict=True))

    def check(self) -> None:
        """Check that every span lies in memory."""
        for i, (start, stop) in enumerate(self.spans):
            if start < 0 or stop < start:
                fail(Fault.NEGATIVE, i)
            if stop > len(self.bytes):
                fail(Fault.TRUNCATED, i)

    def level(self, at: int, stop: int) -> int:
        """Read one control word and return its definition level."""
        if stop - at < self.word_bytes:
            fail(Fault.ENTRY, self.entries)
        word = int.from_bytes(self.bytes[at : at + self.word_bytes], "little")
        rep, definition = word >> self.def_bits, word & ((1 << self.def_bits) - 1)
        if rep > self.max_rep or definition > self.max_def:
            fail(Fault.LEVEL, self.entries)
        if self.entries == self.capacity:
            fail(Fault.ENTRIES, self.entries)
        if self.out_rep is not None:
            self.out_rep[self.entries] = rep
        if self.out_def is not None:
            self.out_def[self.entries] = definition
        return definition

    def need(self, enough: bool, fault: Fault) -> None:
        """Refuse the entry unless ``enough``."""
        if not enough:
            fail(fault, self.entries)


@checked
def zip_fixed(
    memory: NDArray[np.uint8],
    starts: Int64,
    stops: Int64,
    word_bytes: int,
    def_bits: int,
    value_bytes: int,
    visible_max: int,
    max_rep: int,
    max_def: int,
    out_rep: Levels | None,
    out_def: Levels | None,
    out_values: NDArray[np.uint8],
) -> tuple[int, int]:
    """As :func:`lancecy.kernels.zip_fixed`."""
    most = (visible_max, max_rep, max_def)
    walk = _Walk(memory, (starts, stops), (word_bytes, def_bits), most, (out_rep, out_def))
    if value_bytes < 0 or word_bytes + value_bytes == 0:
        raise ValueError("value_bytes is negative, or entries have no bytes")
    if out_values.size % max(1, value_bytes) or (value_bytes == 0 and out_values.size):
        raise ValueError("out_values does not hold a whole number of values")
    walk.check()
    slots = 0
    for at, stop in walk.spans:
        while at < stop:
            definition = walk.level(at, stop)
            at += word_bytes
            if definition <= visible_max:
                walk.need(stop - at >= value_bytes, Fault.ENTRY)
                walk.need((slots + 1) * value_bytes <= out_values.size, Fault.ENTRIES)
                out_values[slots * value_bytes : (slots + 1) * value_bytes] = memory[at : at + value_bytes]
                at += value_bytes
                slots += 1
            walk.entries += 1
    return walk.entries, slots


@checked
def zip_variable(
    memory: NDArray[np.uint8],
    starts: Int64,
    stops: Int64,
    word_bytes: int,
    def_bits: int,
    length_bytes: int,
    visible_max: int,
    max_rep: int,
    max_def: int,
    out_rep: Levels | None,
    out_def: Levels | None,
    out_starts: Int64,
    out_lengths: Int64,
) -> tuple[int, int]:
    """As :func:`lancecy.kernels.zip_variable`."""
    most = (visible_max, max_rep, max_def)
    walk = _Walk(memory, (starts, stops), (word_bytes, def_bits), most, (out_rep, out_def))
    if length_bytes not in {4, 8}:
        raise ValueError("length_bytes must be 4 or 8")
    same_length("out_starts and out_lengths differ in length", out_starts, out_lengths)
    walk.check()
    slots = 0
    for at, stop in walk.spans:
        while at < stop:
            definition = walk.level(at, stop)
            at += word_bytes
            length = 0
            if definition == 0:
                walk.need(stop - at >= length_bytes, Fault.ENTRY)
                length = int.from_bytes(memory[at : at + length_bytes].tobytes(), "little")
                at += length_bytes
                walk.need(length <= stop - at, Fault.ENTRY)
            if definition <= visible_max:
                walk.need(slots < out_starts.size, Fault.ENTRIES)
                out_starts[slots], out_lengths[slots] = at, length
                slots += 1
            at += length
            walk.entries += 1
    return walk.entries, slots
