"""Several versions: listing, opening by number and by time, schemas that change, both kinds of manifest names."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

import lancecy
from lancecy.errors import DatasetNotFoundError, NotFoundError
from tests.helpers.compare import assert_tables_equal
from tests.interop import live

pytestmark = [pytest.mark.interop, pytest.mark.usefixtures("storage")]


def plain(rows: int, start: int = 0, seed: int = 5) -> pa.Table:
    """Without a dictionary: pylance can neither restore such a table nor create an empty one in this format."""
    return live.mixed_table(rows, start=start, seed=seed, colour=False)


def history(path: Path, **options: bool) -> None:
    """Five versions: created, appended, deleted from, overwritten by another schema, restored to the third."""
    live.write(plain(50), path, max_rows_per_file=26, **options)
    live.append(plain(20, start=200, seed=6), path)
    live.peer(path).delete("id % 3 = 0")
    other = pa.table({"name": ["x", "y", "z"], "id": pa.array([1.5, 2.5, -0.0], pa.float32())})
    live.write(other, path, mode="overwrite")
    live.peer(path, 3).restore()


@pytest.mark.parametrize("v2_names", [False, True])
def test_every_version_is_readable(v2_names: bool, tmp_path: Path) -> None:
    history(tmp_path / "t", enable_v2_manifest_paths=v2_names)

    for version in range(1, 6):
        live.assert_same(tmp_path / "t", version, filters=["id > 1"])
    assert live.assert_same(tmp_path / "t").version == 5


def test_checkout_gives_another_dataset_and_leaves_this_one(tmp_path: Path) -> None:
    history(tmp_path / "t")
    dataset = lancecy.dataset(tmp_path / "t", version=2)
    other = dataset.checkout_version(4)

    assert (dataset.version, other.version, dataset.latest_version) == (2, 4, 5)
    assert dataset.count_rows() == 70
    assert other.schema.names == ["name", "id"]
    assert dataset.checkout_latest().version == 5


def test_versions_are_listed_with_their_times(tmp_path: Path) -> None:
    history(tmp_path / "t")
    mine, theirs = lancecy.dataset(tmp_path / "t").versions(), live.peer(tmp_path / "t").versions()

    assert [v["version"] for v in mine] == [v["version"] for v in theirs]
    for a, e in zip(mine, theirs, strict=True):
        # pylance gives the local time without saying so.
        assert abs(a["timestamp"].astimezone(UTC) - e["timestamp"].astimezone(UTC)) < timedelta(
            milliseconds=1
        )


def test_as_of_a_time(tmp_path: Path) -> None:
    live.write(plain(5), tmp_path / "t")
    time.sleep(0.05)
    between = datetime.now(UTC)
    time.sleep(0.05)
    live.append(plain(7, start=50), tmp_path / "t")

    assert lancecy.dataset(tmp_path / "t", asof=between).version == 1
    assert lancecy.dataset(tmp_path / "t", asof=between.isoformat()).version == 1
    assert lancecy.dataset(tmp_path / "t", asof=datetime.now(UTC)).version == 2
    with pytest.raises(NotFoundError):
        lancecy.dataset(tmp_path / "t", asof=between - timedelta(days=1))


def test_missing_version_and_missing_table(tmp_path: Path) -> None:
    live.write(plain(5), tmp_path / "t")

    with pytest.raises(NotFoundError):
        lancecy.dataset(tmp_path / "t", version=2)
    with pytest.raises(DatasetNotFoundError):
        lancecy.dataset(tmp_path / "nothing")


def test_names_migrated_from_the_first_kind_to_the_second(tmp_path: Path) -> None:
    history(tmp_path / "t", enable_v2_manifest_paths=False)
    live.peer(tmp_path / "t").migrate_manifest_paths_v2()
    live.append(plain(9, start=900), tmp_path / "t")

    assert all(len(p.name) > 20 for p in (tmp_path / "t" / "_versions").glob("*.manifest"))
    for version in range(1, 7):
        live.assert_same(tmp_path / "t", version)


def test_more_than_nine_versions_are_ordered_by_number(tmp_path: Path) -> None:
    """As text, ``9.manifest`` comes after ``12.manifest``."""
    for i in range(12):
        table = plain(3, start=10 * i)
        live.write(table, tmp_path / "t", mode="append" if i else "create", enable_v2_manifest_paths=False)

    assert live.assert_same(tmp_path / "t").version == 12
    assert live.assert_same(tmp_path / "t", 9).count_rows() == 27


def test_versions_removed_by_cleanup(tmp_path: Path) -> None:
    history(tmp_path / "t")
    live.peer(tmp_path / "t").cleanup_old_versions(older_than=timedelta(0), delete_unverified=True)

    assert [v["version"] for v in lancecy.dataset(tmp_path / "t").versions()] == [5]
    live.assert_same(tmp_path / "t")
    with pytest.raises(NotFoundError):
        lancecy.dataset(tmp_path / "t", version=3)


def test_table_without_fragments(tmp_path: Path) -> None:
    table = plain(10)
    live.write(table.slice(0, 0), tmp_path / "t")

    dataset = live.assert_same(tmp_path / "t", filters=["id > 1", "word IS NULL"])
    assert dataset.get_fragments() == []
    assert_tables_equal(dataset.to_table(), table.schema.empty_table())
    live.append(table, tmp_path / "t")
    live.assert_same(tmp_path / "t")


def test_restored_version_can_be_appended_to(tmp_path: Path) -> None:
    history(tmp_path / "t")
    live.append(plain(15, start=700, seed=8), tmp_path / "t")

    live.assert_same(tmp_path / "t", filters=["id >= 700"])


def test_table_moved_elsewhere(tmp_path: Path) -> None:
    history(tmp_path / "t")
    before = lancecy.dataset(tmp_path / "t").to_table()
    (tmp_path / "t").rename(tmp_path / "elsewhere")

    assert_tables_equal(lancecy.dataset(tmp_path / "elsewhere").to_table(), before)


def test_an_open_dataset_does_not_see_what_comes_later(tmp_path: Path) -> None:
    live.write(plain(10), tmp_path / "t")
    dataset = lancecy.dataset(tmp_path / "t")
    live.append(plain(10, start=50), tmp_path / "t")
    live.peer(tmp_path / "t").delete("id < 5")

    assert dataset.count_rows() == 10
    assert dataset.to_table()["id"].to_pylist() == list(range(10))
    assert dataset.latest_version == 3
