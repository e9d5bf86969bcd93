"""Values with row ids, sorted by value with bounded memory: sorted runs in temporary files, which are merged.

A merge loads the beginning of every run. Whatever is not above the smallest of their last values is complete, so it is
sorted at once and leaves; runs that have little left are loaded further. Runs that begin above it wait, with one piece
in memory: runs of ascending rows follow one another.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Self, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancecy.encodings.arrow.columns import as_array
from lancecy.encodings.arrow.conversions import array_of, numbers_of
from lancecy.encodings.arrow.from_arrow import size_of
from lancecy.index.write.base import IndexBuilder
from lancecy.index.write.order import ascending, changes
from lancecy.records import dataclass

__all__ = ["Pairs", "SortedBuilder", "SortedPairs"]

UInt64: TypeAlias = NDArray[np.uint64]
Int64: TypeAlias = NDArray[np.int64]

_RUN_BYTES = 34 << 20
_RUN_ROWS = 1 << 21
"""Values and ids that are sorted at once, and their number; sorting takes about 60 bytes for each."""
_PIECE_ROWS, _PIECE_BYTES = 1 << 12, 32 << 10
"""Most rows of a run that are loaded at once, and about how many bytes."""


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Some values, each with the id of its row.

    Attributes
    ----------
    values : (n,) pyarrow.Array
    ids : (n,) uint64
    """

    values: pa.Array
    ids: UInt64

    def sorted(self) -> Pairs:
        """The pairs in the order of their values."""
        return self.taken(ascending(self.values))

    def taken(self, positions: Int64) -> Pairs:
        """The pairs at some positions.

        Parameters
        ----------
        positions : (m,) int64
        """
        return Pairs(self.values.take(array_of(positions)), self.ids[positions])


class SortedPairs:
    """Takes pairs in any order, and returns them sorted by value; equal values in any order of their ids.

    Parameters
    ----------
    kind : pyarrow.DataType
        Type of the values.
    run_bytes : int
        Values and ids that are sorted at once.

    Examples
    --------
    >>> with SortedPairs(pa.int64()) as pairs:
    ...     pairs.add(pa.array([3, None, 1]), np.array([0, 1, 2], np.uint64))
    ...     [block.ids.tolist() for block in pairs.blocks()]
    [[1, 2, 0]]
    """

    def __init__(self, kind: pa.DataType, run_bytes: int = _RUN_BYTES) -> None:
        self._kind, self._most = kind, run_bytes
        self._waiting: list[Pairs] = []
        self._nbytes = self._rows = 0
        self._runs: list[Path] = []
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def add(self, values: pa.Array, ids: UInt64) -> None:
        """Take pairs.

        Parameters
        ----------
        values : (n,) pyarrow.Array
        ids : (n,) uint64
        """
        if not len(values):
            return
        self._waiting.append(Pairs(values, ids))
        self._nbytes += size_of(values) + ids.nbytes
        self._rows += ids.size
        if self._nbytes >= self._most or self._rows >= _RUN_ROWS:
            self._spill()

    def blocks(self) -> Iterator[Pairs]:
        """All pairs in order, block by block; once."""
        if not self._runs:
            run = self._run()
            if run is not None:
                yield run
            return
        self._spill()
        yield from _merged([_Run(path) for path in self._runs], self._most // 4)

    def close(self) -> None:
        """Remove the temporary files."""
        self._waiting, self._runs = [], []
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self) -> Pairs | None:
        """What waits, sorted."""
        waiting, self._waiting = self._waiting, []
        self._nbytes = self._rows = 0
        if not waiting:
            return None
        values = as_array(pa.chunked_array([pairs.values for pairs in waiting], self._kind))
        together = Pairs(values, np.concatenate([pairs.ids for pairs in waiting]))
        del waiting
        return together.sorted()

    def _spill(self) -> None:
        run = self._run()
        if run is None:
            return
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="lancecy-index-")
        path = Path(self._folder.name) / f"{len(self._runs)}.arrow"
        batch = pa.record_batch({"values": run.values, "ids": array_of(run.ids)})
        row_bytes = (size_of(run.values) + run.ids.nbytes) / run.ids.size
        piece = max(1, min(_PIECE_ROWS, int(_PIECE_BYTES / row_bytes)))
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, batch.schema) as writer:
            writer.write_table(pa.Table.from_batches([batch]), max_chunksize=piece)
        self._runs.append(path)


class SortedBuilder(IndexBuilder):
    """Base of builders that write the values in their order.

    Parameters
    ----------
    kind : pyarrow.DataType
        Type of the values.
    """

    def __init__(self, kind: pa.DataType) -> None:
        self._kind = kind
        self._pairs = SortedPairs(kind)

    def add(self, values: pa.Array, ids: UInt64) -> None:
        """See ``IndexBuilder.add``."""
        self._pairs.add(values, ids)

    def close(self) -> None:
        """See ``IndexBuilder.close``."""
        self._pairs.close()


class _Run:
    """A sorted run in a temporary file, with the pairs that are loaded.

    Parameters
    ----------
    path : Path
    """

    def __init__(self, path: Path) -> None:
        # Mapped pages would stay in memory.
        self._reader = pa.ipc.open_file(pa.OSFile(str(path), "rb"))
        self._next = 0
        self.loaded: list[Pairs] = []

    @property
    def is_read(self) -> bool:
        """Whether everything was loaded."""
        return bool(self._next == self._reader.num_record_batches)

    def load(self, most: int) -> None:
        """Load further pairs, until about ``most`` bytes are loaded."""
        nbytes = sum(size_of(pairs.values) + pairs.ids.nbytes for pairs in self.loaded)
        while not self.is_read and (nbytes < most or not self.loaded):
            batch = self._reader.get_batch(self._next)
            self._next += 1
            pairs = Pairs(batch["values"], numbers_of(batch["ids"]))
            self.loaded.append(pairs)
            nbytes += size_of(pairs.values) + pairs.ids.nbytes


def _merged(runs: list[_Run], most: int) -> Iterator[Pairs]:
    """The pairs of all runs, in order."""
    while runs:
        for run in runs:
            if not run.loaded:
                run.load(1)
        first = _first_in_order(runs)
        for run in first:
            # More than a piece: otherwise most of what is sorted stays, and is sorted again.
            run.load(max(most // len(first), 2 * _PIECE_BYTES))
        # Further values may reach into runs that were to wait.
        first = _first_in_order(runs)
        pieces = [pairs for run in first for pairs in run.loaded]
        ends = np.cumsum([sum(pairs.ids.size for pairs in run.loaded) for run in first])
        together = Pairs(
            as_array(pa.chunked_array([pairs.values for pairs in pieces])),
            np.concatenate([pairs.ids for pairs in pieces]),
        )
        del pieces
        order = ascending(together.values)
        ordered = together.taken(order)
        complete = _complete(ordered.values, order, ends, [run.is_read for run in first])
        yield Pairs(ordered.values[:complete], ordered.ids[:complete])
        _keep(first, together, ends, np.sort(order[complete:]))
        runs = [run for run in runs if run.loaded or not run.is_read]


def _first_in_order(runs: list[_Run]) -> list[_Run]:
    """The runs that begin below the last loaded value of every run with more to load; its own is among them."""
    lasts = [run.loaded[-1].values[-1:] for run in runs if not run.is_read]
    if not lasts:
        return runs
    firsts = [run.loaded[0].values[:1] for run in runs]
    order = ascending(as_array(pa.chunked_array([*firsts, *lasts])))
    stop = int(np.flatnonzero(order >= len(runs))[0])
    more = [run for run in runs if not run.is_read]
    owner = more[int(order[stop]) - len(runs)]
    begun = set(order[:stop].tolist())
    return [run for number, run in enumerate(runs) if number in begun or run is owner]


def _complete(ordered: pa.Array, order: Int64, ends: Int64, is_read: list[bool]) -> int:
    """The number of pairs that are not above the last loaded one of any run with more to load."""
    last = [int(end) - 1 for end, done in zip(ends, is_read, strict=True) if not done]
    if not last:
        return order.size
    # Equal values come in any order: those of all runs are complete.
    at = int(np.flatnonzero(np.isin(order, last))[0])
    above = np.flatnonzero(changes(ordered)[at + 1 :])
    return at + 1 + int(above[0]) if above.size else order.size


def _keep(runs: list[_Run], together: Pairs, ends: Int64, kept: Int64) -> None:
    """Leave each run with those of its pairs at the ascending positions ``kept``."""
    cuts = np.searchsorted(kept, ends)
    for run, start, stop in zip(runs, [0, *cuts[:-1].tolist()], cuts.tolist(), strict=True):
        run.loaded = [together.taken(kept[start:stop])] if stop > start else []
