"""Tables spread over several places: base paths of both kinds, shallow clones, branches."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancecy
from lancecy.errors import PathPolicyError
from tests.helpers.compare import assert_tables_equal
from tests.interop import live

pytestmark = [pytest.mark.interop, pytest.mark.usefixtures("storage")]

FILTERS = ["id < 20", "k = 7 OR id > 140", "word IS NOT NULL"]


def bases(root: Path, count: int, is_dataset_root: bool) -> list[Any]:
    from lance import DatasetBasePath

    return [
        DatasetBasePath(str(root / f"base {i}"), name=f"b{i}", is_dataset_root=is_dataset_root)
        for i in range(1, count + 1)
    ]


def spread(root: Path, count: int, is_dataset_root: bool) -> Path:
    """A table whose fragments lie in turn in each base, and some in its own root."""
    for i in range(1, count + 1):
        (root / f"base {i}").mkdir(parents=True)
    names = [f"b{i}" for i in range(1, count + 1)]
    path = root / "main"
    live.write(
        live.mixed_table(150), path, max_rows_per_file=26,
        initial_bases=bases(root, count, is_dataset_root), target_bases=names,
    )  # fmt: skip
    live.append(live.mixed_table(20, start=200, seed=6), path)
    live.append(live.mixed_table(45, start=300, seed=7), path, max_rows_per_file=26, target_bases=names[::-1])
    return path


def places(dataset: lancecy.Dataset) -> set[int | None]:
    return {file.base_id for fragment in dataset.get_fragments() for file in fragment.data_files()}


@pytest.mark.parametrize("is_dataset_root", [False, True])
@pytest.mark.parametrize("count", [2, 3])
def test_fragments_in_several_bases(count: int, is_dataset_root: bool, tmp_path: Path) -> None:
    path = spread(tmp_path, count, is_dataset_root)

    dataset = live.assert_same(path, filters=FILTERS)
    assert places(dataset) == {None, *range(1, count + 1)}
    assert {base.path for base in dataset.base_paths.values()} == {
        str(tmp_path / f"base {i}") for i in range(1, count + 1)
    }
    for i in range(1, count + 1):
        folder = tmp_path / f"base {i}" / ("data" if is_dataset_root else "")
        assert list(folder.glob("*.lance"))


@pytest.mark.parametrize("is_dataset_root", [False, True])
def test_deleting_updating_and_compacting_over_bases(is_dataset_root: bool, tmp_path: Path) -> None:
    path = spread(tmp_path, 3, is_dataset_root)
    live.peer(path).delete("id % 4 = 1")
    live.assert_same(path, filters=FILTERS)
    live.peer(path).update({"word": "'new'"}, where="id % 6 = 0")
    live.assert_same(path, filters=[*FILTERS, "word = 'new'"])
    live.peer(path).add_columns({"y": "k + 1"})
    live.assert_same(path, filters=[*FILTERS, "y = 8"])
    live.peer(path).optimize.compact_files(target_rows_per_fragment=60)

    live.assert_same(path, filters=FILTERS)
    for version in range(1, live.peer(path).version):
        live.assert_same_rows(path, version)


@pytest.mark.parametrize("spelling", ["{}", "{}/", "file://{}"])
def test_base_path_however_it_is_spelled(spelling: str, tmp_path: Path) -> None:
    from lance import DatasetBasePath

    (tmp_path / "side").mkdir()
    base = DatasetBasePath(spelling.format(tmp_path / "side"), name="side", is_dataset_root=False)
    live.write(live.mixed_table(30), tmp_path / "t", initial_bases=[base], target_bases=["side"])

    assert places(live.assert_same(tmp_path / "t", filters=FILTERS)) == {1}


@pytest.mark.filterwarnings("ignore:path of base 1:RuntimeWarning")
@pytest.mark.parametrize("path", ["side", "../cwd/a b%20/"])
def test_relative_base_is_below_the_working_directory(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lance import DatasetBasePath

    (tmp_path / "cwd").mkdir()
    monkeypatch.chdir(tmp_path / "cwd")
    rows = pa.table({"id": range(30), "k": range(30), "word": [f"w{i}" for i in range(30)]})
    base = DatasetBasePath(path, name="side", is_dataset_root=False)
    live.write(rows, tmp_path / "t", initial_bases=[base], target_bases=["side"])
    assert places(live.assert_same(tmp_path / "t", filters=FILTERS)) == {1}
    with pytest.raises(PathPolicyError, match="trusted local tables only"):
        lancecy.dataset(tmp_path / "t", untrusted=True, allowed_bases=[str(tmp_path)]).to_table()

    # Changed like any other table, and read from anywhere once the path is absolute.
    ds = lancecy.dataset(tmp_path / "t")
    ds.add_bases([lancecy.DatasetBasePath(tmp_path / "more", name="more")])
    ds.append(rows, target_bases=["more"])
    ds.append(rows, target_bases=["side"])
    ds.relocate_base("side", Path(path).absolute())
    monkeypatch.chdir(tmp_path)
    assert places(live.assert_same(tmp_path / "t", filters=FILTERS)) == {1, 2}


def test_own_root_takes_its_turn_among_all_bases(tmp_path: Path) -> None:
    path = spread(tmp_path, 2, True)
    live.append(live.mixed_table(80, start=600, seed=8), path, max_rows_per_file=13, target_all_bases=True)

    dataset = live.assert_same(path, filters=["id >= 600"])
    last = [fragment.data_files()[0].base_id for fragment in dataset.get_fragments()][-7:]
    assert last == [None, 1, 2, None, 1, 2, None]


def test_base_added_later(tmp_path: Path) -> None:
    path = spread(tmp_path, 2, True)
    from lance import DatasetBasePath

    (tmp_path / "late").mkdir()
    live.peer(path).add_bases([DatasetBasePath(str(tmp_path / "late"), name="late")])
    live.append(live.mixed_table(30, start=500, seed=8), path, target_bases=["late"])

    dataset = live.assert_same(path, filters=["id >= 500"])
    assert places(dataset) == {None, 1, 2, 3}
    assert places(dataset.checkout_version(3)) == {None, 1, 2}


def test_a_row_is_found_by_number_in_whatever_base_it_is(tmp_path: Path) -> None:
    path = spread(tmp_path, 3, False)
    live.peer(path).delete("id IN (0, 26, 51, 52, 149, 200)")
    mine, theirs = lancecy.dataset(path), live.peer(path)
    backwards = list(range(theirs.count_rows() - 1, -1, -7))

    assert_tables_equal(mine.take(backwards), theirs.take(backwards))


def test_missing_base_is_an_error_and_the_rest_still_reads(tmp_path: Path) -> None:
    path = spread(tmp_path, 2, False)
    shutil.rmtree(tmp_path / "base 2")
    dataset = lancecy.dataset(path)

    with pytest.raises(lancecy.LanceError):
        dataset.to_table()
    readable = [f for f in dataset.get_fragments() if f.data_files()[0].base_id != 2]
    expected = [
        f for f in live.peer(path).get_fragments() if f.fragment_id in {r.fragment_id for r in readable}
    ]
    for a, e in zip(readable, expected, strict=True):
        assert_tables_equal(a.to_table(), e.to_table())


def test_untrusted_table_may_not_point_outside_unless_allowed(tmp_path: Path) -> None:
    path = spread(tmp_path, 2, True)

    with pytest.raises(lancecy.LanceError):
        lancecy.dataset(path, untrusted=True).to_table()
    allowed = [str(tmp_path / "base 1"), str(tmp_path / "base 2")]
    dataset = lancecy.dataset(path, untrusted=True, allowed_bases=allowed)
    assert_tables_equal(dataset.to_table(), live.peer(path).to_table())


# --------------------------------------------------------------------------- clones and branches


def source(path: Path) -> None:
    live.write(live.mixed_table(77), path, max_rows_per_file=39)
    live.peer(path).delete("id % 5 = 2")


def test_shallow_clone(tmp_path: Path) -> None:
    source(tmp_path / "t")
    live.peer(tmp_path / "t").shallow_clone(str(tmp_path / "clone"), 2)

    dataset = live.assert_same(tmp_path / "clone", filters=FILTERS)
    assert dataset.version == 2
    assert_tables_equal(dataset.to_table(), lancecy.dataset(tmp_path / "t").to_table())


def test_clone_that_went_its_own_way(tmp_path: Path) -> None:
    """New files lie in the clone's own root, and so does the deletion file of a fragment that does not."""
    source(tmp_path / "t")
    live.peer(tmp_path / "t").shallow_clone(str(tmp_path / "clone"), 2)
    live.append(live.mixed_table(20, start=200, seed=6), tmp_path / "clone")
    live.peer(tmp_path / "clone").delete("id % 7 = 3")
    live.append(live.mixed_table(9, start=400, seed=7), tmp_path / "t")

    for version in (2, 3, 4):
        live.assert_same(tmp_path / "clone", version, filters=FILTERS)
    live.assert_same(tmp_path / "t", filters=FILTERS)


def test_clone_of_a_clone_of_a_table_over_bases(tmp_path: Path) -> None:
    path = spread(tmp_path, 2, True)
    live.peer(path).delete("id % 5 = 2")
    live.peer(path).shallow_clone(str(tmp_path / "one"), live.peer(path).version)
    live.append(live.mixed_table(20, start=800, seed=9), tmp_path / "one")
    live.peer(tmp_path / "one").shallow_clone(str(tmp_path / "two"), live.peer(tmp_path / "one").version)
    live.peer(tmp_path / "two").delete("id % 3 = 1")

    live.assert_same(tmp_path / "two", filters=FILTERS)
    assert len(lancecy.dataset(tmp_path / "two").base_paths) >= 3


@pytest.mark.parametrize("name", ["dev", "team/dev"])
def test_branch_by_its_uri(name: str, tmp_path: Path) -> None:
    source(tmp_path / "t")
    branch = live.peer(tmp_path / "t").create_branch(name, 2)
    live.append(live.mixed_table(30, start=300, seed=6), tmp_path / "t")
    folder = tmp_path / "t" / "tree" / name
    live.append(live.mixed_table(11, start=600, seed=7), folder)
    live.peer(folder).delete("id = 605 OR id = 11")

    assert branch.version == 2
    for version in (2, 3, 4):
        live.assert_same(folder, version, filters=[*FILTERS, "id >= 300"])
    live.assert_same(tmp_path / "t", filters=["id >= 300"])
