"""Twins of ``_dictionary`` and ``_lookup``: codes checked as arrays, and values row by row."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from lancecy.kernels._codes import Fault, fail
from lancecy.kernels.reference.checks import checked, require

__all__ = ["check_codes", "take_fixed", "take_offsets", "take_values"]


Codes = (
    NDArray[np.int8]
    | NDArray[np.int16]
    | NDArray[np.int32]
    | NDArray[np.int64]
    | NDArray[np.uint8]
    | NDArray[np.uint16]
    | NDArray[np.uint32]
    | NDArray[np.uint64]
)


@checked
def check_codes(codes: Codes, num_values: int, out_validity: NDArray[np.uint8] | None = None) -> int:
    """As :func:`lancecy.kernels.check_codes`."""
    if num_values < 0:
        raise ValueError("num_values is negative")
    # NumPy compares with Python integers exactly, whatever the dtype of the array.
    inside = (codes >= 0) & (codes < num_values)
    if out_validity is None:
        bad = np.flatnonzero(~inside)
        if bad.size:
            fail(Fault.CODE, int(bad[0]))
        return 0
    if out_validity.size != (codes.size + 7) // 8:
        raise ValueError("out_validity needs one bit per row")
    out_validity[:] = np.packbits(inside, bitorder="little")
    return codes.size - int(inside.sum())


Offsets = NDArray[np.int32] | NDArray[np.int64]
Validity = NDArray[np.uint8] | None


def _rows(codes: Codes, num_values: int, validity: Validity) -> Iterator[int | None]:
    """The code of every row, None for nulls; each is in the dictionary."""
    bits = np.ones(codes.size, np.uint8)
    if validity is not None:
        bits = np.unpackbits(validity, count=codes.size, bitorder="little")
    for row, (code, is_valid) in enumerate(zip(codes.tolist(), bits.tolist(), strict=True)):
        if is_valid and not 0 <= code < num_values:
            fail(Fault.CODE, row)
        yield code if is_valid else None


def _check_bits(codes: Codes, validity: Validity) -> None:
    if validity is not None and validity.size != (codes.size + 7) // 8:
        raise ValueError("validity needs one bit per row")


def _spans(
    codes: Codes, dict_offsets: Offsets, out_offsets: Offsets, validity: Validity, num_bytes: int
) -> Iterator[tuple[int, int]]:
    """Start and end of every row's value; 0 and 0 for nulls."""
    offsets = dict_offsets.tolist()
    for row, code in enumerate(_rows(codes, len(offsets) - 1, validity)):
        start, stop = (0, 0) if code is None else (offsets[code], offsets[code + 1])
        if not 0 <= start <= stop <= num_bytes:
            fail(Fault.CODED_OFFSETS, row)
        yield start, stop


@checked
def _check_offsets(codes: Codes, dict_offsets: Offsets, offsets: Offsets, validity: Validity) -> None:
    if dict_offsets.size < 1 or offsets.size != codes.size + 1:
        raise ValueError("dict_offsets needs an entry more than values and out_offsets one more than codes")
    _check_bits(codes, validity)


@checked
def take_offsets(codes: Codes, dict_offsets: Offsets, out_offsets: Offsets, validity: Validity = None) -> int:
    """As :func:`lancecy.kernels.take_offsets`."""
    _check_offsets(codes, dict_offsets, out_offsets, validity)
    most = int(np.iinfo(out_offsets.dtype).max)
    total = 0
    out_offsets[0] = 0
    for row, (start, stop) in enumerate(_spans(codes, dict_offsets, out_offsets, validity, 2**63)):
        total += stop - start
        if total > most:
            fail(Fault.TOO_MANY_BYTES, row)
        out_offsets[row + 1] = total
    return total


def take_values(
    codes: Codes,
    dict_offsets: Offsets,
    dict_values: NDArray[np.uint8],
    out_offsets: Offsets,
    out: NDArray[np.uint8],
    validity: Validity = None,
) -> None:
    """As :func:`lancecy.kernels.take_values`."""
    require(dict_values, np.uint8)
    require(out, np.uint8, writable=True)
    _check_offsets(codes, dict_offsets, out_offsets, validity)
    done = 0
    ends = out_offsets.tolist()
    for row, (start, stop) in enumerate(_spans(codes, dict_offsets, out_offsets, validity, dict_values.size)):
        done += stop - start
        if done > out.size or done != ends[row + 1]:
            fail(Fault.OUT_SIZE, row)
        out[done - (stop - start) : done] = dict_values[start:stop]
    if ends[0] != 0 or done != out.size:
        fail(Fault.OUT_SIZE, codes.size)


@checked
def take_fixed(
    codes: Codes,
    values: NDArray[np.uint8],
    width: int,
    out: NDArray[np.uint8],
    validity: Validity = None,
) -> None:
    """As :func:`lancecy.kernels.take_fixed`."""
    if width < 1 or values.size % width:
        raise ValueError("width must be at least 1 and divide the size of values")
    if out.size != codes.size * width:
        raise ValueError("out does not have one value per code")
    _check_bits(codes, validity)
    for row, code in enumerate(_rows(codes, values.size // width, validity)):
        value = 0 if code is None else values[code * width : code * width + width]
        out[row * width : row * width + width] = value
