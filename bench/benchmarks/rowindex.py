"""The row-id index: building, searching and first use, for every form of sequence; takes compared with pylance."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import lancecy
from lancecy.kernels import rowindex_jit
from lancecy.table.rows.id_index import RowIndex
from lancecy.table.rows.id_index_build import build_index
from lancecy.table.rows.row_ids import ArraySegment, HolesSegment, RangeSegment, RowIdSequence, Segment

from .scale import VERSIONS, rows
from .tables import ROWS_PER_FILE, scalars

FRAGMENTS = 20
# Ids per row of the seven-column table: 20 million in arrays, 100 million in gappy ranges, 1,000 million in ranges.
ARRAY_IDS, GAPPY_IDS, RANGE_IDS = 20, 100, 1000

Part = tuple[int, RowIdSequence, "np.ndarray | None"]


def _sequence(*segments: Segment) -> RowIdSequence:
    counts = [segment.count for segment in segments]
    return RowIdSequence(segments, np.cumsum([0, *counts], dtype=np.int64))


def _range(fragment: int, size: int) -> RangeSegment:
    return RangeSegment(fragment * size, (fragment + 1) * size)


def _gone(size: int, share: float) -> list[np.ndarray]:
    random = np.random.default_rng(11)
    return [np.flatnonzero(random.random(size) < share) for _ in range(FRAGMENTS)]


def _ranges() -> list[Part]:
    size = RANGE_IDS * rows() // FRAGMENTS
    return [(i, _sequence(_range(i, size)), None) for i in range(FRAGMENTS)]


def _deleted() -> list[Part]:
    """Ranges with on average every hundredth row deleted."""
    size = GAPPY_IDS * rows() // FRAGMENTS
    return [(i, _sequence(_range(i, size)), gone) for i, gone in enumerate(_gone(size, 0.01))]


def _holes() -> list[Part]:
    """Ranges without every hundredth id; ranges with bitmaps are read as these."""
    size = GAPPY_IDS * rows() // FRAGMENTS
    return [
        (i, _sequence(_with_holes(_range(i, size), gone)), None) for i, gone in enumerate(_gone(size, 0.01))
    ]


def _with_holes(whole: RangeSegment, holes: np.ndarray) -> HolesSegment:
    return HolesSegment(whole.start, whole.stop, holes - np.arange(holes.size))


def _sorted() -> list[Part]:
    """Ascending ids, on average every twentieth: sorted arrays."""
    size = ARRAY_IDS * rows()
    kept = [np.flatnonzero(np.random.default_rng(i).random(size) < 0.05) for i in range(FRAGMENTS)]
    return [(i, _sequence(ArraySegment(i * size, ids.astype(np.uint32))), None) for i, ids in enumerate(kept)]


def _arrays() -> list[Part]:
    """Unordered ids, as after updates and compactions of many rows."""
    ids = np.random.default_rng(12).permutation(ARRAY_IDS * rows()).astype(np.uint32)
    return [(i, _sequence(ArraySegment(0, part)), None) for i, part in enumerate(np.split(ids, FRAGMENTS))]


def _scattered() -> list[Part]:
    """Random ids of 63 bits, which no table with consecutive ids has."""
    ids = np.unique(np.random.default_rng(13).integers(0, 2**63, ARRAY_IDS * rows(), np.uint64))
    ids = np.random.default_rng(14).permutation(ids)
    return [
        (i, _sequence(ArraySegment(0, part)), None) for i, part in enumerate(np.array_split(ids, FRAGMENTS))
    ]


def _moved() -> list[Part]:
    """Ranges with every tenth row moved to another fragment: ids that overlap."""
    size = ARRAY_IDS * rows() // FRAGMENTS
    gone = _gone(size, 0.1)
    parts: list[Part] = [(i, _sequence(_range(i, size)), part) for i, part in enumerate(gone)]
    moved = np.concatenate([part + i * size for i, part in enumerate(gone)])
    moved = np.random.default_rng(15).permutation(moved).astype(np.uint32)
    return [
        *parts,
        (FRAGMENTS, _sequence(RangeSegment(1 << 40, (1 << 40) + 9), ArraySegment(0, moved)), None),
    ]


FORMS = {
    "ranges": _ranges,
    "deleted": _deleted,
    "holes": _holes,
    "sorted": _sorted,
    "arrays": _arrays,
    "scattered": _scattered,
    "moved": _moved,
}


def _some_ids(parts: list[Part], count: int) -> np.ndarray:
    random = np.random.default_rng(16)
    share = count // len(parts) + 1
    ids = [part[1].take(random.integers(0, len(part[1]), share)) for part in parts]
    return random.permutation(np.concatenate(ids))[:count]


class Index:
    """Building and searching it, with preloaded Numba kernels and with their twins."""

    params = (tuple(FORMS), ("numba", "numpy"))
    param_names = ("form", "kernels")
    timeout = 600

    def setup(self, form: str, kernels: str) -> None:
        if kernels == "numpy":
            os.environ["LANCECY_KERNELS"] = "reference"
        rowindex_jit._State.is_chosen = kernels == "numba"
        self.parts = FORMS[form]()
        self.index: RowIndex = build_index(self.parts)
        self.ids = _some_ids(self.parts, rows())
        self.index.find(self.ids)

    def teardown(self, form: str, kernels: str) -> None:
        os.environ.pop("LANCECY_KERNELS", None)

    def time_build(self, form: str, kernels: str) -> None:
        build_index(self.parts)

    def time_find(self, form: str, kernels: str) -> None:
        self.index.find(self.ids)

    def peakmem_build(self, form: str, kernels: str) -> None:
        build_index(self.parts)

    def track_bytes_per_id(self, form: str, kernels: str) -> float:
        return self.index.nbytes / len(self.index)

    track_bytes_per_id.unit = "bytes"  # type: ignore[attr-defined]


# Building and searching an index of ids in no order, seconds, in a process that has only imported the table layer.
FIRST_USE = """
import sys, time
import numpy as np
from lancecy.table.rows.row_ids import ArraySegment, RowIdSequence
from lancecy.table.rows.id_index_build import build_index
ids = np.random.default_rng(1).permutation(int(sys.argv[1])).astype(np.uint32)
part = 0, RowIdSequence((ArraySegment(0, ids),), np.array([0, ids.size])), None
wanted = ids[::10].astype(np.uint64)
start = time.perf_counter()
build_index([part]).find(wanted)
print(time.perf_counter() - start)
"""


class FirstUse:
    """First use in a fresh process: without machine code on disk, with it, and with the twins."""

    params = (("cold", "warm", "numpy"), (1000, 100_000, 1_000_000, 10_000_000))
    param_names = ("kernels", "ids")
    timeout = 600

    def track_first_use(self, kernels: str, ids: int) -> float:
        with tempfile.TemporaryDirectory() as folder:
            environment = {**os.environ, "NUMBA_CACHE_DIR": folder}
            if kernels == "numpy":
                environment["LANCECY_KERNELS"] = "reference"
            command = [sys.executable, "-c", FIRST_USE, str(ids)]
            times = []
            for _ in range(1 if kernels == "cold" else 4):
                done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
                times.append(float(done.stdout))
        return times[0] if kernels == "cold" else min(times[1:])

    track_first_use.unit = "seconds"  # type: ignore[attr-defined]


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
    """A thousand rows by row id, in random order, in lancecy and pylance."""

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
