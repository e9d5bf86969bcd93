"""The row-id index: made of ranges and of arrays, asked for ids, and rows taken by it beside pylance."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import lancecy
from lancecy.kernels import rowindex_jit
from lancecy.table.rowids import ArraySegment, RangeSegment, RowIdSequence, Segment
from lancecy.table.rowindex import RowIndex
from lancecy.table.rowindex_build import build_index

from .scale import VERSIONS, rows
from .tables import ROWS_PER_FILE, scalars

FRAGMENTS = 20
# Ids per row of the seven-column table: 20 million in arrays, 1,000 million in ranges.
ARRAY_IDS, RANGE_IDS = 20, 1000

Part = tuple[int, RowIdSequence, "np.ndarray | None"]


def _sequence(segment: Segment) -> RowIdSequence:
    return RowIdSequence((segment,), np.array([0, segment.count], np.int64))


def _ranges() -> list[Part]:
    size = RANGE_IDS * rows() // FRAGMENTS
    return [(i, _sequence(RangeSegment(i * size, (i + 1) * size)), None) for i in range(FRAGMENTS)]


def _deleted() -> list[Part]:
    """Ranges of which every hundredth row, on average, is deleted."""
    size = 5 * rows()
    random = np.random.default_rng(11)
    gone = [np.flatnonzero(random.random(size) < 0.01) for _ in range(FRAGMENTS)]
    return [(i, _sequence(RangeSegment(i * size, (i + 1) * size)), gone[i]) for i in range(FRAGMENTS)]


def _arrays() -> list[Part]:
    """Ids in no order, as after updates and compactions of many rows."""
    ids = np.random.default_rng(12).permutation(ARRAY_IDS * rows()).astype(np.uint32)
    return [(i, _sequence(ArraySegment(0, part)), None) for i, part in enumerate(np.split(ids, FRAGMENTS))]


def _scattered() -> list[Part]:
    """Ids anywhere in 63 bits, which no table that counts its ids has."""
    ids = np.unique(np.random.default_rng(13).integers(0, 2**63, ARRAY_IDS * rows(), np.uint64))
    ids = np.random.default_rng(14).permutation(ids)
    return [
        (i, _sequence(ArraySegment(0, part)), None) for i, part in enumerate(np.array_split(ids, FRAGMENTS))
    ]


FORMS = {"ranges": _ranges, "deleted": _deleted, "arrays": _arrays, "scattered": _scattered}


def _warm() -> None:
    """Have Numba loaded and all loops compiled: that is paid once and not what is measured."""
    numbers = np.array([3, 1, 2], np.uint64)
    rowindex_jit.implementation(1 << 30).count_runs(numbers)
    index = build_index([(0, _sequence(ArraySegment(0, np.array([9, 2, 5], np.uint64))), None)])
    index.find(numbers)


class Index:
    """Making it and asking it: both in ids per second."""

    params = tuple(FORMS)
    param_names = ("form",)
    timeout = 600

    def setup(self, form: str) -> None:
        _warm()
        self.parts = FORMS[form]()
        self.index: RowIndex = build_index(self.parts)
        held = int(self.parts[-1][1].segments[0].take(np.array([0], np.int64))[0])
        if form == "scattered":
            ids = np.concatenate([part[1].segments[0].offsets[:50_000] for part in self.parts])  # type: ignore[union-attr]
        else:
            total = sum(len(part[1]) for part in self.parts)
            ids = np.random.default_rng(15).integers(0, max(held, total), rows())
        self.ids = np.random.default_rng(16).permutation(ids).astype(np.uint64)
        self.index.find(self.ids)

    def time_build(self, form: str) -> None:
        build_index(self.parts)

    def time_find(self, form: str) -> None:
        self.index.find(self.ids)

    def peakmem_build(self, form: str) -> None:
        build_index(self.parts)

    def track_bytes_per_id(self, form: str) -> float:
        return self.index.nbytes / len(self.index)

    track_bytes_per_id.unit = "bytes"  # type: ignore[attr-defined]


def _table(version: Any, updated: bool) -> str:
    """The seven-column table with stable row ids; or, without the dictionary that pylance 14 cannot update in files
    of 0.1, with every tenth row moved by an update.
    """
    import lance

    path = Path(f"rowids-{version}-{'updated' if updated else 'written'}.lance")
    if not path.exists():
        table = scalars(rows())
        dataset = lance.write_dataset(
            table.drop_columns(["cat"]) if updated else table,
            str(path),
            data_storage_version=version,
            max_rows_per_file=ROWS_PER_FILE,
            enable_stable_row_ids=True,
        )
        if updated:
            dataset.update({"x": "x + 1"}, where="k % 10 = 3")
    return str(path)


class TakeRows:
    """A thousand rows by row id, in random order; pylance's the same way."""

    params = (VERSIONS, (False, True))
    param_names = ("version", "updated")
    timeout = 600

    def setup_cache(self) -> dict[str, str]:
        return {
            f"{version}{updated}": _table(version, updated)
            for version in VERSIONS
            for updated in (False, True)
        }

    def setup(self, paths: dict[str, str], version: str, updated: bool) -> None:
        import lance

        path = paths[f"{version}{updated}"]
        self.dataset = lancecy.dataset(path)
        self.peer: Any = lance.dataset(path)
        self.ids = np.random.default_rng(9).integers(0, rows(), 1000)
        self.listed = self.ids.tolist()
        self.dataset.take_rows(self.ids)

    def time_take_rows(self, paths: dict[str, str], version: str, updated: bool) -> None:
        self.dataset.take_rows(self.ids)

    def time_take_rows_of_pylance(self, paths: dict[str, str], version: str, updated: bool) -> None:
        self.peer._take_rows(self.listed)

    def time_find(self, paths: dict[str, str], version: str, updated: bool) -> None:
        self.dataset.context.row_index().find(self.ids.astype(np.uint64))

    def time_filter_by_row_id(self, paths: dict[str, str], version: str, updated: bool) -> None:
        self.dataset.to_table(
            columns=["id"], filter=f"_rowid >= {rows() // 2} AND _rowid < {rows() // 2 + 1000}"
        )
