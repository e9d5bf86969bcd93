"""Tables of many fragments: a scan that needs a few rows looks at a few fragments."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lancecy
from lancecy.scanning import engine, filtering, outputs
from lancecy.store import local
from lancecy.store.maps import MapCache
from lancecy.table.wire import fragment, manifest
from tests.helpers.datasets import write_table

FRAGMENTS, ROWS = 300, 5


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table whose column ``id`` counts the rows."""
    place = str(tmp_path_factory.mktemp("many") / "t.lance")
    write_table(place, fragments=FRAGMENTS, rows=ROWS)
    return place


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Ids of the fragments that were made from the manifest."""
    ids: list[int] = []
    decode = fragment.decode_fragment

    def counted(message: Any, *rest: Any) -> Any:
        ids.append(message.id)
        return decode(message, *rest)

    manifest._kept.cache_clear()
    monkeypatch.setattr(manifest, "_RECENT", manifest._RecentFragments())
    monkeypatch.setattr(manifest, "decode_fragment", counted)
    yield ids
    manifest._kept.cache_clear()


def opened(root: str) -> lancecy.Dataset:
    return lancecy.dataset(root, session=lancecy.Session(threads=2))


def test_first_rows_are_read_from_the_first_fragments(root: str, made: list[int]) -> None:
    ds = opened(root)
    assert ds.head(12)["id"].to_pylist() == list(range(12))
    assert ds.to_table(["id"], limit=7, offset=9)["id"].to_pylist() == list(range(9, 16))
    assert len(set(made)) < 10
    # Rows and fragments are those of the whole table as before.
    assert len(ds.get_fragments()) == FRAGMENTS
    assert ds.to_table(["id"])["id"].to_pylist() == list(range(FRAGMENTS * ROWS))
    assert ds.head(3)["id"].to_pylist() == [0, 1, 2]


def test_limit_of_a_filter_is_reached_before_all_fragments_are_made(root: str, made: list[int]) -> None:
    found = opened(root).to_table(["id"], filter="id % 2 = 1", limit=4, offset=3)
    assert found["id"].to_pylist() == [7, 9, 11, 13]
    assert len(set(made)) < FRAGMENTS


def test_numbers_of_rows_count_from_the_start_of_the_table(root: str) -> None:
    found = opened(root).to_table(["_rowoffset"], filter="id % 2 = 1", limit=4, offset=3)
    assert found["_rowoffset"].to_pylist() == [7, 9, 11, 13]


@pytest.mark.slow
@pytest.mark.parametrize("limit", [0, 3, 10, 5000])
@pytest.mark.parametrize("offset", [0, 2, 90])
def test_rows_far_behind_are_found(root: str, limit: int, offset: int) -> None:
    passing = [n for n in range(FRAGMENTS * ROWS) if n % 16 == 0]
    found = opened(root).to_table(["id"], filter="id % 16 = 0", limit=limit, offset=offset)
    assert found["id"].to_pylist() == passing[offset : offset + limit]


def test_chosen_fragments_are_read_in_the_order_of_the_table(root: str) -> None:
    ds = opened(root)
    parts = ds.get_fragments()
    found = ds.scanner(["id"], fragments=[parts[200], parts[3], parts[3]], limit=8).to_table()
    assert found["id"].to_pylist() == [*range(15, 20), *range(1000, 1003)]


def test_plan_of_whole_fragments_makes_none_of_them(root: str, made: list[int]) -> None:
    ds = opened(root)
    plan = ds.scanner(["id"]).plan(blocksize=1 << 20)
    assert plan.num_rows == FRAGMENTS * ROWS and made == []
    ids = [fragment.fragment_id for fragment in ds.get_fragments()]
    assert [unit.fragment for task in plan.tasks for unit in task.units] == ids


def test_partitions_of_dask_make_the_first_fragment_and_the_last(root: str, made: list[int]) -> None:
    ds = opened(root)
    frame = lancecy.scan(ds, blocksize="1MiB")
    ids = ds._context.table.ids.tolist()
    assert frame.npartitions < FRAGMENTS and set(made) == {ids[0], ids[-1]}
    assert len(frame) == FRAGMENTS * ROWS and frame.divisions[-1] == FRAGMENTS * ROWS - 1


def test_a_session_holds_no_maps_but_the_most_recent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process may have 65,530 maps."""
    maps = MapCache(4)
    monkeypatch.setattr(local, "_MAPS", maps)
    monkeypatch.setattr(local, "_TOO_SMALL_TO_MAP", 0)
    uri, session = str(tmp_path / "t"), lancecy.Session()
    lancecy.write_dataset({"id": range(30), "text": ["a"] * 30}, uri, max_rows_per_file=1, durability="none")
    ds = lancecy.dataset(uri, session=session)
    for number in range(5):
        ds.delete(f"id = {number}", durability="none")
        assert ds.to_table(filter="text = 'a'").num_rows == 29 - number
        assert Path("/proc/self/maps").read_text().count(f"{uri}/data/") <= 4


def test_more_files_than_are_read_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    read, tested = outputs.outputs_joined, filtering._passing_group

    def counted_read(context: Any, units: Any, fields: Any) -> Any:
        sizes.append(len(units))
        return read(context, units, fields)

    def counted_test(context: Any, group: Any) -> Any:
        sizes.append(len(group))
        return tested(context, group)

    monkeypatch.setattr(engine, "outputs_joined", counted_read)
    monkeypatch.setattr(filtering, "_passing_group", counted_test)
    monkeypatch.setattr(filtering, "MOST_FILES", 4)
    monkeypatch.setattr(engine, "MOST_FILES", 4)
    rows = pa.table({"id": range(30), "text": [f"text {n % 3}" for n in range(30)]})
    ds = lancecy.write_dataset(rows, tmp_path / "t", max_rows_per_file=1, durability="none")
    assert ds.to_table().equals(rows)
    assert ds.to_table(filter="text = 'text 1'").equals(rows.filter(pc.equal(rows["text"], "text 1")))
    assert ds.count_rows("id > 6") == 23
    assert max(sizes) == 4
