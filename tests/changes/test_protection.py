"""A tag in the source keeps what a clone needs, from before the clone exists until the tag is deleted."""

from __future__ import annotations

import os
import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancecy
from lancecy.api import clones
from lancecy.changes.protection import tag_for
from lancecy.changes.shallow_clone import shallow_clone
from lancecy.errors import ConflictError, ExistsError, LanceError, MissingFileError, NotFoundError
from lancecy.table.refs import check_tag_name
from tests.contracts.store import in_child
from tests.helpers.folded import folded

pytestmark = pytest.mark.interop


def rows(*numbers: int) -> pa.Table:
    return pa.table({"a": list(numbers)})


def numbers(ds: Any) -> list[int]:
    return sorted(ds.to_table()["a"].to_pylist())


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A table of two versions that share no file."""
    lance.write_dataset(rows(1, 2), str(tmp_path / "t"))
    lance.write_dataset(rows(3), str(tmp_path / "t"), mode="overwrite")
    return tmp_path / "t"


def tags(path: Path) -> dict[str, Any]:
    """The tags of a table as pylance lists them."""
    found: dict[str, Any] = lance.dataset(str(path)).tags.list()
    return found


def clean(path: Path, library: Any) -> None:
    library.dataset(str(path)).cleanup_old_versions(timedelta(0), error_if_tagged_old_versions=False)


@pytest.mark.parametrize("library", [lancecy, lance])
def test_cleanups_of_both_libraries_keep_what_the_clone_needs(
    source: Path, tmp_path: Path, library: Any
) -> None:
    clone = lancecy.dataset(source).shallow_clone(tmp_path / "c.lance", 1, protect=True)
    ((name, tag),) = tags(source).items()
    assert name.startswith("clone-c.lance-")
    assert (tag["version"], tag["branch"], tag["metadata"]) == (1, None, {"clone": clone.uri})
    lance.write_dataset(rows(4), str(source), mode="overwrite")
    with pytest.raises((ConflictError, OSError), match="tag"):
        library.dataset(str(source)).cleanup_old_versions(timedelta(0))
    clean(source, library)
    assert numbers(clone) == numbers(lance.dataset(clone.uri)) == [1, 2]
    assert {version["version"] for version in lancecy.dataset(source).versions()} == {1, 3}

    lance.dataset(str(source)).tags.delete(name)
    clean(source, library)
    with pytest.raises(MissingFileError, match="a cleanup there removed version 1"):
        lancecy.dataset(clone.uri, session=lancecy.Session()).to_table()


def test_the_tag_can_be_named(source: Path, tmp_path: Path) -> None:
    lancecy.dataset(source).shallow_clone(tmp_path / "c", 1, protect="for-the-paper")
    assert list(tags(source)) == ["for-the-paper"]
    with pytest.raises(ExistsError, match="for-the-paper"):
        lancecy.dataset(source).shallow_clone(tmp_path / "d", 1, protect="for-the-paper")
    assert list(tags(source)) == ["for-the-paper"]
    assert not (tmp_path / "d").exists()


def test_names_that_no_tag_can_have(source: Path, tmp_path: Path) -> None:
    for name in ("", "a/b", ".a", "a..b"):
        with pytest.raises(ValueError, match="name of a tag"):
            lancecy.dataset(source).shallow_clone(tmp_path / "c", 1, protect=name)
        assert not (tmp_path / "c").exists()


def test_without_protect_there_is_no_tag(source: Path, tmp_path: Path) -> None:
    lancecy.dataset(source).shallow_clone(tmp_path / "c", 1)
    assert tags(source) == {}


def test_a_clone_that_fails_leaves_no_tag(source: Path, tmp_path: Path) -> None:
    lancecy.write_dataset(rows(7), tmp_path / "other")
    ds = lancecy.dataset(source)
    for place, version in ((tmp_path / "other", 1), (source / "c", 1), (tmp_path / "c", 9)):
        with pytest.raises(LanceError):
            ds.shallow_clone(place, version, protect=True)
        assert tags(source) == {}


def kill_before_the_clone(source: Path, target: Path, protect: bool | str) -> None:
    """A process dies between the tag and the clone."""

    def clone() -> None:
        pytest.MonkeyPatch().setattr(clones, "shallow_clone", lambda *_: os._exit(0))
        lancecy.dataset(source).shallow_clone(target, 1, protect=protect)

    in_child(clone)
    assert not target.exists()


@pytest.mark.parametrize("protect", [True, "keep"])
def test_the_call_of_a_killed_process_can_be_repeated(
    source: Path, tmp_path: Path, protect: bool | str
) -> None:
    kill_before_the_clone(source, tmp_path / "c", protect)
    left = tags(source)
    assert len(left) == 1
    clone = lancecy.dataset(source).shallow_clone(tmp_path / "c", 1, protect=protect)
    assert (numbers(clone), list(tags(source))) == ([1, 2], list(left))
    # The clone is there now, and a call that fails for that leaves its tag.
    with pytest.raises(ExistsError, match="has a table already"):
        lancecy.dataset(source).shallow_clone(tmp_path / "c", 1, protect=protect)
    assert list(tags(source)) == list(left)


@pytest.mark.parametrize(("target", "version"), [("d", 1), ("c", 2)])
def test_the_tag_of_another_clone_is_not_used(
    source: Path, tmp_path: Path, target: str, version: int
) -> None:
    kill_before_the_clone(source, tmp_path / "c", "keep")
    with pytest.raises(ExistsError, match="there is a tag 'keep' already"):
        lancecy.dataset(source).shallow_clone(tmp_path / target, version, protect="keep")
    lancecy.dataset(source).shallow_clone(tmp_path / target, version, protect=True)
    assert sorted(tag["version"] for tag in tags(source).values()) == sorted([1, version])


def test_an_interrupted_clone_leaves_no_tag_unless_it_was_made(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*arguments: Any) -> Any:
        if is_made:
            shallow_clone(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(clones, "shallow_clone", interrupted)
    for is_made in (False, True):
        with pytest.raises(KeyboardInterrupt):
            lancecy.dataset(source).shallow_clone(tmp_path / "c", 1, protect="keep")
        assert list(tags(source)) == ["keep"] * is_made


def test_the_tag_stays_where_an_interrupted_request_may_still_be_carried_out(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*arguments: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(clones, "shallow_clone", interrupted)
    with pytest.raises(KeyboardInterrupt) as told:
        lancecy.dataset(source).shallow_clone(f"memory://{tmp_path.name}/c", 1, protect="keep")
    assert "The tag 'keep' of" in told.value.__notes__[0]
    assert list(tags(source)) == ["keep"]


def test_processes_that_make_one_clone_share_its_tag(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def beaten(*arguments: Any) -> Any:
        shallow_clone(*arguments)
        raise ExistsError("another process has made it", kind="dataset", name="c")

    def late(*arguments: Any) -> Any:
        lancecy.dataset(source).tags.delete("keep")
        return shallow_clone(*arguments)

    ds = lancecy.dataset(source)
    monkeypatch.setattr(clones, "shallow_clone", beaten)
    with pytest.raises(ExistsError):
        ds.shallow_clone(tmp_path / "c", 1, protect="keep")
    assert list(tags(source)) == ["keep"]
    # The other way round: the process that made the tag has failed, and removed it.
    shutil.rmtree(tmp_path / "c")
    monkeypatch.setattr(clones, "shallow_clone", late)
    ds.shallow_clone(tmp_path / "c", 1, protect="keep")
    assert list(tags(source)) == ["keep"]


def test_the_tag_of_a_branch_is_in_the_main_table(source: Path, tmp_path: Path) -> None:
    branch = lance.dataset(str(source)).create_branch("dev", 2)
    lance.write_dataset(rows(5), branch.uri, mode="overwrite")
    lance.write_dataset(rows(6), branch.uri, mode="overwrite")
    clone = lancecy.dataset(source).shallow_clone(tmp_path / "c", ("dev", 3), protect="kept")
    assert (tags(source)["kept"]["branch"], tags(source)["kept"]["version"]) == ("dev", 3)
    clean(Path(branch.uri), lancecy)
    clean(source, lance)
    assert numbers(lancecy.dataset(clone.uri, session=lancecy.Session())) == [5]


def test_a_version_that_a_cleanup_removed_is_not_cloned(source: Path, tmp_path: Path) -> None:
    old = lancecy.dataset(source, version=1)
    clean(source, lancecy)
    with pytest.raises(NotFoundError, match="version 1"):
        old.shallow_clone(tmp_path / "c", protect=True)
    assert tags(source) == {}
    assert not (tmp_path / "c").exists()


@folded(
    "target",
    ["/a/b", "s3://b/t.lance", "/a/some name (1)", "/a/...", "/a/ü", "/a/" + "x" * 300, "/a/x..lock.lock/"],
)
def test_names_made_from_targets_are_names_of_tags(target: str) -> None:
    name = tag_for(target, 3)
    check_tag_name(name)
    assert name == tag_for(target, 3)
    assert len({name, tag_for(f"/x{target}", 3), tag_for(target, 4), tag_for(target, 3, "dev")}) == 4
    assert len(os.fsencode(name)) < 100
