"""Stable row ids: rows keep theirs through update, merge-insert and compaction."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lancecy
from tests.helpers.compare import assert_tables_equal, sorted_rows
from tests.interop import live

pytestmark = [pytest.mark.interop, pytest.mark.usefixtures("storage")]

VIRTUAL = ["_rowid", "_rowaddr", "_row_created_at_version", "_row_last_updated_at_version"]
FILTERS = (
    "_rowid > 90",
    "_rowid IN (0, 3, 50, 101, 108, 5000)",
    "_rowid = 3 OR id = 7",
    "_rowaddr < 4294967300 AND _rowid != 1",
    "_row_created_at_version > 1",
    "_row_last_updated_at_version > 2 AND id < 60",
    "NOT (_rowid > 20) AND k < 30",
    "_rowid % 7 = 0",
    "_row_created_at_version = _row_last_updated_at_version",
)


def assert_same_virtual(path: Path, seed: int = 0) -> None:
    """Fail unless both give rows the same ids, addresses and versions, find the same by them and filter alike."""
    mine, theirs = lancecy.dataset(path), live.peer(path)
    columns = ["id", *VIRTUAL]
    whole = theirs.to_table(columns=columns)
    assert_tables_equal(mine.to_table(columns=columns), whole)
    known = whole["_rowid"].to_numpy()
    rng = np.random.default_rng(seed)
    ids = rng.choice(known, 40)
    if mine.has_stable_row_ids:  # elsewhere pylance, as lancecy, refuses what was no row's address
        ids = np.concatenate([ids, rng.integers(0, int(known.max()) + 50, 40).astype(np.uint64)])
    rng.shuffle(ids)
    wanted = theirs._take_rows(ids.tolist(), columns=["_rowid", "id", "_rowaddr"])
    assert_tables_equal(mine.take_rows(ids, columns=["_rowid", "id", "_rowaddr"]), wanted)
    if live.STORAGE != "legacy":  # of which pylance 14 cannot filter on what is in no file
        for text in FILTERS:
            live.assert_same_filter(mine, theirs, text)


def started(path: Path) -> None:
    live.write(live.mixed_table(77), path, max_rows_per_file=39, enable_stable_row_ids=True)
    live.append(live.mixed_table(30, start=100, seed=6), path)


def ids_by_key(path: Path, version: int | None = None) -> dict[int, int]:
    table = lancecy.dataset(path, version=version).to_table(columns=["id"], with_row_id=True)
    return dict(zip(table["id"].to_pylist(), table["_rowid"].to_pylist(), strict=True))


def test_ids_count_up_over_fragments(tmp_path: Path) -> None:
    started(tmp_path / "t")

    assert live.assert_same(tmp_path / "t").has_stable_row_ids
    assert list(ids_by_key(tmp_path / "t").values()) == list(range(107))


def test_update_keeps_ids(tmp_path: Path) -> None:
    started(tmp_path / "t")
    live.peer(tmp_path / "t").update({"word": "'new'", "x": "x + 1"}, where="id % 4 = 1")

    live.assert_same(tmp_path / "t", filters=["word = 'new'", "id > 50"])
    assert_same_virtual(tmp_path / "t")
    assert ids_by_key(tmp_path / "t") == ids_by_key(tmp_path / "t", 2)


def test_merge_insert_keeps_ids_and_gives_new_ones(tmp_path: Path) -> None:
    started(tmp_path / "t")
    fresh = live.mixed_table(40, start=90, seed=9)
    merge = (
        live.peer(tmp_path / "t").merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    )
    merge.execute(fresh)

    live.assert_same(tmp_path / "t", filters=["id >= 90"])
    assert_same_virtual(tmp_path / "t")
    before, after = ids_by_key(tmp_path / "t", 2), ids_by_key(tmp_path / "t")
    assert {key: after[key] for key in before} == before
    assert min(after[key] for key in after.keys() - before.keys()) >= 107
    rows = lancecy.dataset(tmp_path / "t").to_table(filter="id >= 90", columns=["id", "k"])
    assert_tables_equal(sorted_rows(rows, "id"), fresh.select(["id", "k"]))


@pytest.mark.parametrize("gone", ["id % 2 = 0", "id < 60", "id IN (1, 38, 39, 76, 100, 129)", "id % 9 <> 4"])
def test_compaction_keeps_ids(gone: str, tmp_path: Path) -> None:
    """Different gaps leave their ids in different forms: ranges with holes, bitmaps, sorted arrays."""
    started(tmp_path / "t")
    live.peer(tmp_path / "t").delete(gone)
    kept = ids_by_key(tmp_path / "t")
    live.peer(tmp_path / "t").optimize.compact_files(target_rows_per_fragment=1000)

    assert len(live.assert_same(tmp_path / "t", filters=["id > 50"]).get_fragments()) == 1
    assert ids_by_key(tmp_path / "t") == kept
    assert_same_virtual(tmp_path / "t")


def test_everything_one_after_the_other(tmp_path: Path) -> None:
    started(tmp_path / "t")
    rng = np.random.default_rng(4)
    for round_ in range(4):
        live.peer(tmp_path / "t").update({"k": "k + 100"}, where=f"id % 7 = {round_}")
        live.assert_same(tmp_path / "t")
        live.peer(tmp_path / "t").delete(f"id % 11 = {round_}")
        live.append(live.mixed_table(11, start=1000 * (round_ + 1), seed=round_), tmp_path / "t")
        live.assert_same(tmp_path / "t", filters=["k > 100", f"id >= {rng.integers(0, 2000)}"])
        assert_same_virtual(tmp_path / "t", round_)
        live.peer(tmp_path / "t").optimize.compact_files(target_rows_per_fragment=60)
        live.assert_same(tmp_path / "t", filters=["k > 100"])
        assert_same_virtual(tmp_path / "t", round_)


def test_without_the_flag_ids_are_addresses(tmp_path: Path) -> None:
    live.write(live.mixed_table(50), tmp_path / "t", max_rows_per_file=26)
    live.peer(tmp_path / "t").delete("id = 3")

    dataset = live.assert_same(tmp_path / "t")
    table = dataset.to_table(columns=["id"], with_row_id=True, with_row_address=True)
    assert not dataset.has_stable_row_ids
    assert table["_rowid"].equals(table["_rowaddr"])
    assert pc.max(table["_rowaddr"]).as_py() == (1 << 32) + 23
    assert_same_virtual(tmp_path / "t")


def test_added_columns_and_overwrite_under_stable_ids(tmp_path: Path) -> None:
    started(tmp_path / "t")
    live.peer(tmp_path / "t").add_columns({"y": "k * 3"})
    live.assert_same(tmp_path / "t", filters=["y < 30"])
    assert_same_virtual(tmp_path / "t")
    live.write(pa.table({"id": range(5)}), tmp_path / "t", mode="overwrite")

    live.assert_same(tmp_path / "t")
    assert min(ids_by_key(tmp_path / "t").values()) >= 107
