"""Fuzzed: looking rows up by the numbers of their sequences, against the numbers written out."""

from __future__ import annotations

import numpy as np

from lancecy.limits import Limits
from lancecy.table.rows.id_index_build import build_index
from lancecy.table.rows.id_search import OPERATORS, Ranges, bounds, rows_among, rows_where
from lancecy.table.rows.row_ids import RowIdSequence, VersionSequence
from lancecy.table.wire import row_ids as rowids_wire

__all__ = ["row_index", "row_search"]

# What is written out has to fit a fuzzer's patience.
_MOST = 1 << 14


def row_search(data: bytes, limits: Limits) -> None:
    """An operator, a value, and a sequence of row ids or of versions."""
    head, value, rest = data[0] if data else 0, int.from_bytes(data[1:9], "little"), data[9:]
    op = sorted(OPERATORS)[head % len(OPERATORS)]
    decode = rowids_wire.decode_versions if head & 128 else rowids_wire.decode_row_ids
    sequence: RowIdSequence | VersionSequence = decode(rest, None, limits)
    found, edges = rows_where(sequence, op, value), np.array([0, len(sequence) // 2, len(sequence)])
    lows, highs = bounds(sequence, edges)
    if not 0 < len(sequence) <= _MOST:
        return
    numbers = sequence.take(np.arange(len(sequence)))
    _check(found, OPERATORS[op](numbers, np.uint64(value)), op)
    some = np.unique(np.array([value, *numbers[:: max(1, head & 15)].tolist()], np.uint64))
    _check(rows_among(sequence, some), np.isin(numbers, some), "among")
    for part, low, high in zip(np.split(numbers, edges[1:-1]), lows.tolist(), highs.tolist(), strict=True):
        if part.size and not (low <= int(part.min()) and int(part.max()) <= high):
            raise AssertionError(f"bounds {low} to {high} of {part}")


def _check(found: Ranges, expected: np.ndarray, what: str) -> None:
    starts, stops = found
    rows = [
        row for start, stop in zip(starts.tolist(), stops.tolist(), strict=True) for row in range(start, stop)
    ]
    if rows != np.flatnonzero(expected).tolist():
        raise AssertionError(f"{what}: {rows} where {np.flatnonzero(expected).tolist()} are right")


def row_index(data: bytes, limits: Limits) -> None:
    """Two fragments' ids in one index; of the second some rows are deleted."""
    size, step = int.from_bytes(data[:2], "little"), 1 + (data[2] if len(data) > 2 else 0)
    first = rowids_wire.decode_row_ids(data[3 : 3 + size], None, limits)
    second = rowids_wire.decode_row_ids(data[3 + size :], None, limits)
    if len(first) + len(second) > _MOST:
        return
    deleted = np.arange(0, len(second), step)
    index = build_index([(0, first, None), (5, second, deleted)])
    alive = np.setdiff1d(np.arange(len(second)), deleted)
    ids = np.concatenate([first.take(np.arange(len(first))), second.take(alive)])
    places = np.concatenate([np.arange(len(first)), alive + (5 << 32)]).astype(np.uint64)
    addresses, found = index.find(ids)
    if not (found.all() and np.array_equal(addresses, places)):
        raise AssertionError(f"{ids}: {addresses} where {places} are right")
    others = np.setdiff1d(ids + np.uint64(1), np.concatenate([ids, second.take(deleted)]))
    if index.find(others)[1].any():
        raise AssertionError("rows that are not there are found")
