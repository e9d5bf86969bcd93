"""Chunks and runs for the kernels of 2.1 and later, valid and damaged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.kernels.both import i64, memory_of

EXTREMES = [-(2**63), -(2**62), -1, 2**31, 2**60, 2**62, 2**63 - 1]

hostile = st.one_of(st.integers(-2, 40), st.sampled_from(EXTREMES))


@dataclass(frozen=True)
class Run:
    """Values ``start`` to ``start + count`` of a chunk."""

    chunk: int
    start: int
    count: int


def run_arrays(runs: Sequence[Run]) -> dict[str, NDArray[np.int64]]:
    """The three arrays of runs, under the names of the kernels."""
    return {
        "run_chunks": i64(*(run.chunk for run in runs)),
        "run_starts": i64(*(run.start for run in runs)),
        "run_counts": i64(*(run.count for run in runs)),
    }


def chunk_arrays(chunks: Sequence[bytes], counts: Sequence[int], *, gap: bytes = b"") -> dict[str, Any]:
    """Memory with the chunks in order, ``gap`` bytes before each, and the arrays that describe them."""
    positions, at = [], 0
    for chunk in chunks:
        at += len(gap)
        positions.append(at)
        at += len(chunk)
    return {
        "memory": memory_of(*(part for chunk in chunks for part in (gap, chunk))),
        "positions": i64(*positions),
        "lengths": i64(*(len(chunk) for chunk in chunks)),
        "counts": i64(*counts),
    }


def wanted(values: Sequence[NDArray[Any]], runs: Sequence[Run]) -> NDArray[Any]:
    """The values of runs of chunks."""
    parts = [values[run.chunk][run.start : run.start + run.count] for run in runs]
    return np.concatenate([values[0][:0], *parts])


def all_runs(counts: Sequence[int]) -> list[Run]:
    """Every chunk in full."""
    return [Run(chunk, 0, count) for chunk, count in enumerate(counts)]


@st.composite
def runs_within(draw: st.DrawFn, counts: Sequence[int]) -> list[Run]:
    """Up to six runs, in any order, that lie in chunks of these counts."""
    runs = []
    for _ in range(draw(st.integers(0, 6)) if counts else 0):
        chunk = draw(st.integers(0, len(counts) - 1))
        start = draw(st.integers(0, counts[chunk]))
        runs.append(Run(chunk, start, draw(st.integers(0, counts[chunk] - start))))
    return runs


def spoil(draw: st.DrawFn, call: dict[str, Any]) -> None:
    """Randomly put one hostile number into an array of positions, lengths, counts or runs."""
    keys = sorted(key for key, value in call.items() if getattr(value, "dtype", None) == np.int64)
    key = draw(st.sampled_from(keys))
    if draw(st.booleans()) and call[key].size:
        call[key] = call[key].copy()
        call[key][draw(st.integers(0, call[key].size - 1))] = draw(hostile)


def perhaps_spoiled(
    draw: st.DrawFn, call: dict[str, Any], counts: Sequence[int], width: int
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Arguments of a call with runs of such chunks, hostile or not, and its output with ``width`` bytes per value."""
    call["memory"] = cut(draw, call["memory"])
    runs = draw(runs_within(counts))
    call |= run_arrays(runs)
    spoil(draw, call)
    size = sum(run.count for run in runs) * width + draw(st.sampled_from([0, 0, 0, 0, width, 1]))
    return call, {"out": (size, np.uint8)}


def cut(draw: st.DrawFn, memory: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The memory, randomly truncated."""
    if draw(st.integers(0, 3)):
        return memory
    return memory_of(memory[: draw(st.integers(0, memory.size))])
