"""Tags, branches and clones made by one library, used, changed and deleted by the other."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancecy
from lancecy.errors import LanceError
from lancecy.write.targets import DatasetBasePath

pytestmark = pytest.mark.interop

PAIRS = {"lancecy": (lancecy, lance), "pylance": (lance, lancecy)}
START = [*range(10)]
REFUSED = (LanceError, OSError, ValueError)


def rows(numbers: Iterable[int]) -> pa.Table:
    return pa.table({"a": pa.array(numbers, pa.int64())})


def values(ds: Any) -> list[int]:
    return sorted(ds.to_table()["a"].to_pylist())


def table(maker: Any, path: Path) -> Any:
    """Version 2 has ten rows in two fragments."""
    maker.write_dataset(rows(START[:6]), str(path))
    return maker.write_dataset(rows(START[6:]), str(path), mode="append")


def over_bases(is_root: bool) -> Callable[[Any, Path], Any]:
    """A table with files of two bases and its own folder."""

    def made(maker: Any, path: Path) -> Any:
        base = DatasetBasePath if maker is lancecy else lance.DatasetBasePath
        places = {name: path.with_name(name) for name in ("b1", "b2")}
        for place in places.values():
            place.mkdir()
        options = {"target_bases": [*places], "max_rows_per_file": 3}
        bases = [base(str(place), name, is_dataset_root=is_root) for name, place in places.items()]
        maker.write_dataset(rows(START[:6]), str(path), initial_bases=bases, **options)
        return maker.write_dataset(rows(START[6:]), str(path), mode="append")

    return made


def clone(kind: str, reference: Any, make: Callable[[Any, Path], Any] = table) -> Callable[[Any, Path], str]:
    def made(maker: Any, path: Path) -> str:
        main = make(maker, path)
        if isinstance(reference, tuple):
            main.create_branch("team/dev", 2)
        if reference == "tagged":
            main.tags.create("tagged", 2)
        getattr(main, kind)(str(path.with_name("clone")), reference)
        return str(path.with_name("clone"))

    return made


def clone_of_clone(maker: Any, path: Path) -> str:
    first = clone("shallow_clone", 2)(maker, path)
    second = str(path.with_name("second"))
    maker.dataset(first).shallow_clone(second, 2)
    return second


def branch(*names: str) -> Callable[[Any, Path], str]:
    """A branch of the table, and one of each branch before."""

    def made(maker: Any, path: Path) -> str:
        ds = table(maker, path)
        for name in names:
            ds = ds.create_branch(name)
        return f"{path}/tree/{names[-1]}"

    return made


def branch_of_a_clone(maker: Any, path: Path) -> str:
    ds = maker.dataset(clone("shallow_clone", 2)(maker, path)).create_branch("of-clone")
    return str(ds.uri)


BRANCHES = {
    "branch": branch("dev"),
    "nested name": branch("team/dev"),
    "branch of branch": branch("dev", "inner"),
    "branch inside of another's folder": branch("dev", "dev/inner"),
    "branch of a clone": branch_of_a_clone,
}
CLONES = {
    "shallow clone": clone("shallow_clone", 2),
    "shallow clone of a tag": clone("shallow_clone", "tagged"),
    "clone of clone": clone_of_clone,
    "clone of a branch": clone("shallow_clone", ("team/dev", 2)),
    "multi-base clone": clone("shallow_clone", 2, over_bases(is_root=False)),
    "deep clone": clone("deep_clone", 2),
    "deep clone of a branch": clone("deep_clone", ("team/dev", 2)),
    # pylance 14 makes no deep clones of files in other bases than roots.
    "deep multi-base clone": clone("deep_clone", 2, over_bases(is_root=True)),
}


def check_changes(uri: str, user: Any, maker: Any) -> None:
    """Every change by the other library is read by both, and the maker goes on from there."""
    expected = START
    for number, writer in ((100, user), (200, maker)):
        writer.write_dataset(rows([number]), uri, mode="append")
        expected = [*expected, number]
        assert values(lancecy.dataset(uri)) == values(lance.dataset(uri)) == sorted(expected)
        writer.dataset(uri).delete(f"a = {expected[0]}")
        expected = expected[1:]
        assert values(lancecy.dataset(uri)) == values(lance.dataset(uri)) == sorted(expected)
        writer.dataset(uri).update({"a": "a + 1000"}, where=f"a = {number}")
        expected = [*expected[:-1], number + 1000]
        assert values(lancecy.dataset(uri)) == values(lance.dataset(uri)) == sorted(expected)
        writer.dataset(uri).optimize.compact_files()
        assert values(lancecy.dataset(uri)) == values(lance.dataset(uri)) == sorted(expected)
    user.dataset(uri).restore() if user is lance else user.dataset(uri, version=2).restore()
    assert lancecy.dataset(uri).version == lance.dataset(uri).version


@pytest.mark.parametrize("by", PAIRS)
@pytest.mark.parametrize("kind", BRANCHES)
def test_a_branch_of_one_is_changed_and_deleted_by_the_other(kind: str, by: str, tmp_path: Path) -> None:
    maker, user = PAIRS[by]
    uri = BRANCHES[kind](maker, tmp_path / "t")
    root, _, name = uri.partition("/tree/")
    assert values(user.dataset(uri)) == values(user.dataset(root).checkout_version((name, 2))) == START
    check_changes(uri, user, maker)
    user.dataset(root).tags.create("on-branch", (name, 2))
    assert values(maker.dataset(root, version="on-branch")) == START
    for library in (maker, user):
        with pytest.raises(REFUSED):
            library.dataset(root).branches.delete(name)
    maker.dataset(root).tags.delete("on-branch")
    user.dataset(root).branches.delete(name)
    assert name not in maker.dataset(root).branches.list()
    for library in (maker, user):
        for other in library.dataset(root).branches.list():
            assert values(library.dataset(root).checkout_version((other, None))) == START
        assert values(library.dataset(root)) == START
    assert maker.dataset(root).create_branch(name).version == 2


@pytest.mark.parametrize("by", PAIRS)
@pytest.mark.parametrize("kind", CLONES)
def test_a_clone_of_one_is_changed_and_removed_by_the_other(kind: str, by: str, tmp_path: Path) -> None:
    maker, user = PAIRS[by]
    uri = CLONES[kind](maker, tmp_path / "t")
    assert values(lancecy.dataset(uri)) == values(lance.dataset(uri)) == START
    check_changes(uri, user, maker)
    user.dataset(uri).tags.create("first", 2)
    assert values(maker.dataset(uri, version="first")) == START
    shutil.rmtree(uri)
    for library in (maker, user):
        assert values(library.dataset(str(tmp_path / "t"))) == START


@pytest.mark.parametrize("by", PAIRS)
def test_a_tag_of_one_is_used_moved_and_deleted_by_the_other(by: str, tmp_path: Path) -> None:
    maker, user = PAIRS[by]
    root = table(maker, tmp_path / "t").uri
    maker.dataset(root).tags.create("v", 1)
    assert values(user.dataset(root, version="v")) == START[:6]
    maker.dataset(root).tags.create("later", 2)
    user.dataset(root).tags.update("v", 2)
    assert values(maker.dataset(root, version="v")) == START
    for library in (maker, user):
        with pytest.raises(REFUSED):
            library.dataset(root).tags.create("v", 1)
    user.dataset(root).tags.delete("v")
    assert list(maker.dataset(root).tags.list()) == list(user.dataset(root).tags.list()) == ["later"]
