"""Deleted rows, in both forms of deletion file, wherever they fall."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import lancecy
from tests.helpers.compare import assert_tables_equal
from tests.interop import live

pytestmark = [pytest.mark.interop, pytest.mark.usefixtures("storage")]

FILTERS = ["id < 20", "k = 7", "word IS NULL", "k > 20 AND flag", "point.a < 0 OR id > 60"]


def deletion_suffixes(path: Path) -> set[str]:
    return {file.suffix for file in (path / "_deletions").iterdir()}


@pytest.mark.parametrize(
    "predicate",
    [
        "id = 0",
        "id = 76",
        "id IN (12, 13, 25, 26, 38, 39)",
        "id >= 13 AND id < 26",
        "id < 30",
        "id % 2 = 0",
        "id % 13 <> 5",
        "id >= 39 AND id < 52 AND id <> 45",
    ],
)
def test_deleted_rows_are_gone(predicate: str, tmp_path: Path) -> None:
    live.write(live.mixed_table(77), tmp_path / "t", max_rows_per_file=39)
    live.peer(tmp_path / "t").delete(predicate)

    live.assert_same(tmp_path / "t", filters=FILTERS)
    assert deletion_suffixes(tmp_path / "t") <= {".arrow"}


def test_many_deletions_are_a_bitmap(tmp_path: Path) -> None:
    rows = 9000
    table = pa.table({"id": np.arange(rows), "s": [f"s{i % 100}" for i in range(rows)]})
    live.write(table, tmp_path / "t", max_rows_per_group=1000)
    live.peer(tmp_path / "t").delete("id % 3 <> 1 AND id <> 8999")

    live.assert_same(tmp_path / "t", filters=["id > 8990", "s = 's41'", "id BETWEEN 995 AND 1005"])
    assert deletion_suffixes(tmp_path / "t") == {".bin"}


def test_bitmap_with_runs_and_far_offsets(tmp_path: Path) -> None:
    """Long runs and offsets beyond 65,535 use other containers of the bitmap."""
    rows = 150_000
    live.write(pa.table({"id": np.arange(rows, dtype=np.int32)}), tmp_path / "t", max_rows_per_group=10_000)
    live.peer(tmp_path / "t").delete(
        "(id >= 1000 AND id < 60000) OR (id > 70000 AND id % 5 = 0) OR id = 149999"
    )

    mine, theirs = lancecy.dataset(tmp_path / "t"), live.peer(tmp_path / "t")
    assert deletion_suffixes(tmp_path / "t") == {".bin"}
    assert mine.count_rows() == theirs.count_rows()
    assert_tables_equal(mine.to_table(with_row_address=True), theirs.to_table(with_row_address=True))
    live.assert_same_filter(mine, theirs, "id > 59990 AND id < 70010")
    picked = np.random.default_rng(1).integers(0, theirs.count_rows(), 500)
    assert_tables_equal(mine.take(picked), theirs.to_table().take(pa.array(picked)))


def test_deleting_again_and_again_adds_up(tmp_path: Path) -> None:
    live.write(live.mixed_table(77), tmp_path / "t", max_rows_per_file=39)
    for digit in range(6):
        live.peer(tmp_path / "t").delete(f"id % 10 = {digit}")

    for version in range(1, 8):
        live.assert_same(tmp_path / "t", version, filters=FILTERS[:2])


def test_whole_fragment_deleted(tmp_path: Path) -> None:
    live.write(live.mixed_table(117), tmp_path / "t", max_rows_per_file=39)
    live.peer(tmp_path / "t").delete("id >= 39 AND id < 78")

    dataset = live.assert_same(tmp_path / "t", filters=FILTERS)
    assert [fragment.fragment_id for fragment in dataset.get_fragments()] == [0, 2]


def test_every_row_deleted(tmp_path: Path) -> None:
    live.write(live.mixed_table(30), tmp_path / "t")
    live.peer(tmp_path / "t").delete("true")

    dataset = live.assert_same(tmp_path / "t", filters=FILTERS)
    assert dataset.get_fragments() == []


def test_rows_appended_after_a_deletion(tmp_path: Path) -> None:
    live.write(live.mixed_table(30), tmp_path / "t")
    live.peer(tmp_path / "t").delete("id > 3 AND id < 11")
    live.append(live.mixed_table(30, start=100, seed=6), tmp_path / "t")
    live.peer(tmp_path / "t").delete("id = 100 OR id = 129")

    live.assert_same(tmp_path / "t", filters=FILTERS)


@pytest.mark.parametrize("seed", range(3))
def test_random_deletions(seed: int, storage: str, tmp_path: Path) -> None:
    rng = np.random.default_rng([seed, *storage.encode()])
    rows = int(rng.integers(40, 300))
    live.write(
        live.mixed_table(rows, seed=seed), tmp_path / "t", max_rows_per_file=int(rng.integers(20, 200))
    )
    for share in rng.random(3):
        gone = rng.permutation(rows)[: int(rows * share * 0.5)]
        live.peer(tmp_path / "t").delete(f"id IN ({', '.join(map(str, gone))}, -1)")
        live.assert_same(tmp_path / "t", filters=FILTERS, seed=seed)
