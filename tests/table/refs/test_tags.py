"""``ds.tags`` beside pylance: what one library makes, the other lists, moves and deletes."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancecy
from lancecy import errors
from lancecy.limits import Limits

pytestmark = pytest.mark.interop


@pytest.fixture
def root(tmp_path: Path) -> str:
    """Versions 1 to 3 of the main table, and 2 and 3 of the branch team/test."""
    root = str(tmp_path / "t")
    for number in range(3):
        theirs = lance.write_dataset(pa.table({"a": [number]}), root, mode="append" if number else "create")
    lance.write_dataset(pa.table({"a": [9]}), theirs.create_branch("team/test", 2), mode="append")
    return root


def file_of(root: str, tag: str) -> Path:
    return Path(root) / "_refs" / "tags" / f"{tag}.json"


def both(call: Callable[[Any], Any], root: str) -> None:
    """Run the same lines in both libraries, each with its own tags, and compare what is listed then."""
    listed = []
    for library in (lance, lancecy):
        ds = library.dataset(root)
        call(ds)
        listed.append(
            [(name, {**tag, "created_at": 0, "updated_at": 0}) for name, tag in ds.tags.list_ordered()]
        )
        for name in list(ds.tags.list()):
            ds.tags.delete(name)
    assert listed[0] == listed[1]


def test_the_same_lines_make_the_same_tags(root: str) -> None:
    def make(ds: Any) -> None:
        ds.tags.create("newest")
        ds.tags.create("main", 1)
        ds.tags.create("copy", "main")
        ds.tags.create("pair", ("main", 2))
        ds.tags.create("any", (None, None))
        ds.tags.create("tried", ("team/test", 2))
        ds.tags.create("tip", ("team/test", None))
        ds.checkout_version(2).tags.create("old")
        branch = ds.checkout_version(("team/test", None))
        branch.tags.create("here")
        branch.tags.create("number", 2)
        branch.tags.update("pair", 3)
        branch.tags.update("old")
        ds.tags.replace_metadata("old", {"k": "ü"})

    both(make, root)


def test_the_order_is_that_of_pylance(root: str) -> None:
    theirs, mine = lance.dataset(root), lancecy.dataset(root)
    for name, version in {"b": 1, "c": 3, "a": 3, "d": 2, "e": 1}.items():
        mine.tags.create(name, version)
    for order in (None, "asc", "desc"):
        assert mine.tags.list_ordered(order) == theirs.tags.list_ordered(order)
    assert list(mine.tags.list()) == ["a", "b", "c", "d", "e"]
    with pytest.raises(ValueError, match="order is 'asc' or 'desc', not 'up'"):
        mine.tags.list_ordered("up")  # type: ignore[arg-type]


def test_pylance_uses_the_tags_of_lancecy(root: str) -> None:
    mine, theirs = lancecy.dataset(root), lance.dataset(root)
    mine.tags.create("v1", 1, {"by": "me"})
    assert theirs.tags.list() == mine.tags.list()
    assert theirs.tags.get_version("v1") == theirs.checkout_version("v1").version == 1
    theirs.tags.update("v1", 2)
    theirs.tags.replace_metadata("v1", {"by": "them"})
    found = mine.tags.list()["v1"]
    assert (found["version"], found["metadata"]) == (2, {"by": "them"})
    theirs.tags.delete("v1")
    assert mine.tags.list() == {}


def test_lancecy_uses_the_tags_of_pylance(root: str) -> None:
    mine, theirs = lancecy.dataset(root), lance.dataset(root)
    theirs.tags.create("v1", 1)
    before = mine.tags.list()["v1"]
    assert mine.tags.list() == theirs.tags.list()
    mine.tags.update("v1", ("team/test", 3))
    after = theirs.tags.list()["v1"]
    assert (after["branch"], after["version"], after["created_at"]) == ("team/test", 3, before["created_at"])
    moved, made = after["updated_at"], before["updated_at"]
    assert moved is not None and made is not None and moved > made
    mine.tags.replace_metadata("v1", {"k": "v"})
    assert theirs.tags.list()["v1"] == {**after, "metadata": {"k": "v"}}
    mine.tags.delete("v1")
    assert theirs.tags.list() == {}


def test_the_files_are_those_of_pylance(root: str) -> None:
    lance.dataset(root).tags.create("theirs", 2)
    lancecy.dataset(root).tags.create("mine", 2)
    mine, theirs = (json.loads(file_of(root, name).read_text()) for name in ("mine", "theirs"))
    now = datetime.now(UTC)
    for name in ("createdAt", "updatedAt"):
        assert now - timedelta(minutes=5) < datetime.fromisoformat(mine[name]) <= now
        mine[name] = theirs[name]
    assert mine == theirs
    assert not list((Path(root) / "_refs" / "guards").iterdir())


def test_a_name_is_taken_once(root: str) -> None:
    ds = lancecy.dataset(root)
    ds.tags.create("v1", 1)
    for kind in (errors.RefExistsError, errors.ExistsError, ValueError, FileExistsError):
        with pytest.raises(kind, match="there is a tag 'v1' already: update moves it"):
            ds.tags.create("v1", 2)
    assert ds.tags.get_version("v1") == 1


MISSING: dict[str, Callable[[lancecy.Dataset], object]] = {
    "no tag 'firts'; it has first": lambda ds: ds.tags.get_version("firts"),
    "no tag 'fisrt'; it has first": lambda ds: ds.tags.delete("fisrt"),
    "no tag 'frist'; it has first": lambda ds: ds.tags.update("frist", 1),
    "no tag 'furst'; it has first": lambda ds: ds.tags.replace_metadata("furst", {}),
    "no tag 'a/b'; it has first": lambda ds: ds.tags.delete("a/b"),
    r"no tag '\.\./x'; it has first": lambda ds: ds.tags.delete("../x"),
    "no tag 'firs'; it has first": lambda ds: ds.tags.create("new", "firs"),
    r"t has no version 99; it has 3, 2, 1": lambda ds: ds.tags.create("new", 99),
    r"t has no version 98; it has 3, 2, 1": lambda ds: ds.tags.update("first", 98),
    r"there is no version -1": lambda ds: ds.tags.create("new", -1),
    r"team/test has no version 1; it has 3, 2": lambda ds: ds.tags.create("new", ("team/test", 1)),
    "no branch 'team/tset'; it has team/test": lambda ds: ds.tags.create("new", ("team/tset", 1)),
    "no branch 'team/tsets'; it has team/test": lambda ds: ds.tags.create("new", ("team/tsets", None)),
}


@pytest.mark.parametrize("message", MISSING)
def test_what_does_not_exist_is_named(root: str, message: str) -> None:
    ds = lancecy.dataset(root)
    ds.tags.create("first", 1)
    before = ds.tags.list()
    with pytest.raises(errors.NotFoundError, match=message):
        MISSING[message](ds)
    assert ds.tags.list() == before


@pytest.mark.parametrize("name", ["", "a/b", "x y", ".a", "a.", "a..b", "a.lock", "ü", "v%31", "a" * 251])
def test_a_tag_cannot_have_every_name(root: str, name: str) -> None:
    with pytest.raises(ValueError, match="cannot be the name of a tag"):
        lancecy.dataset(root).tags.create(name, 1)
    assert lancecy.dataset(root).tags.list() == {}


def test_a_tag_that_pylance_cannot_list_is_read_and_deleted(root: str) -> None:
    theirs, mine = lance.dataset(root), lancecy.dataset(root)
    theirs.tags.create("größe", 1)
    with pytest.raises(ValueError, match="Not found"):
        theirs.tags.list()
    assert mine.tags.list()["größe"]["version"] == 1
    assert lancecy.dataset(root, version="größe").version == 1
    mine.tags.delete("größe")
    assert theirs.tags.list() == {}


WRONG_TYPES: dict[str, Callable[[Any], object]] = {
    "metadata is a mapping": lambda tags: tags.create("a", 1, {"k": 1}),
    "metadata is ": lambda tags: tags.replace_metadata("v1", ["k"]),
    "tag is text": lambda tags: tags.create(5),
    "version is a number": lambda tags: tags.create("a", 1.5),
}


@pytest.mark.parametrize("message", WRONG_TYPES)
def test_arguments_of_wrong_types_are_named(root: str, message: str) -> None:
    ds = lancecy.dataset(root)
    ds.tags.create("v1", 1)
    with pytest.raises(TypeError, match=message):
        WRONG_TYPES[message](ds.tags)
    assert list(ds.tags.list()) == ["v1"]


DAMAGED = {
    "no JSON": "is no JSON",
    "[1]": "is no JSON object",
    "{}": "names no version",
    '{"version": "1", "manifestSize": 1}': "version is '1' instead of a number from 1",
    '{"version": 0}': "version is 0 instead of a number from 1",
    '{"version": 18446744073709551616}': "version is 18446744073709551616 instead",
    '{"branch": "../../x", "version": 1}': "branch is '../../x' instead of the name of a branch",
    '{"branch": 5, "version": 1}': "branch is 5 instead",
    '{"version": 1, "metadata": {"k": 1}}': "metadata is .* instead of an object of texts",
    '{"version": 1, "createdAt": "yesterday"}': "createdAt is 'yesterday' instead of a time",
    "[" * 100_000: "is no JSON",
}


@pytest.mark.parametrize("text", DAMAGED)
def test_a_damaged_tag_is_named_and_others_can_be_used(root: str, text: str) -> None:
    ds = lancecy.dataset(root)
    ds.tags.create("good", 2)
    file_of(root, "bad").write_text(text)
    for use in (
        ds.tags.list,
        ds.tags.list_ordered,
        lambda: ds.checkout_version("bad"),
        lambda: ds.tags.update("bad", 1),
    ):
        with pytest.raises(errors.FormatError, match=f"_refs/tags/bad.json.*{DAMAGED[text]}"):
            use()
    assert ds.checkout_version("good").version == ds.tags.get_version("good") == 2
    ds.tags.update("good", 3)
    ds.tags.delete("bad")
    assert list(ds.tags.list()) == ["good"]


def test_a_tag_file_that_is_too_large_is_not_read(root: str) -> None:
    ds = lancecy.dataset(root, limits=Limits(metadata_bytes=100_000))
    ds.tags.create("good", 2)
    with file_of(root, "bad").open("wb") as file:
        file.truncate(1 << 40)
    for use in (ds.tags.list, lambda: ds.checkout_version("bad"), lambda: ds.tags.get_version("bad")):
        with pytest.raises(errors.LimitError, match="size of _refs/tags/bad.json of .* is beyond the limit"):
            use()
    assert ds.checkout_version("good").version == 2


def test_the_size_of_the_manifest_is_only_a_hint(root: str) -> None:
    file_of(root, "x").parent.mkdir(parents=True, exist_ok=True)
    file_of(root, "x").write_text('{"version": 2, "manifestSize": 123456789012}')
    ds = lancecy.dataset(root, version="x")
    assert ds.version == 2 and ds.tags.list()["x"]["created_at"] is None
    ds.tags.update("x", 3)
    assert ds.tags.list()["x"]["manifest_size"] < 10_000


def test_a_tag_of_a_version_that_is_gone_is_listed_and_moved(root: str) -> None:
    ds = lancecy.dataset(root)
    ds.tags.create("x", 1)
    max((Path(root) / "_versions").glob("*.manifest")).unlink()
    with pytest.raises(errors.NotFoundError, match="tag 'x' of .* names a version that was removed"):
        ds.checkout_version("x")
    with pytest.raises(errors.NotFoundError, match="has no version 1; it has 3, 2"):
        ds.tags.replace_metadata("x", {})
    assert ds.tags.get_version("x") == 1
    ds.tags.update("x", 2)
    assert ds.checkout_version("x").version == 2


def test_tags_follow_the_dataset(root: str) -> None:
    ds = lancecy.dataset(root)
    tags = ds.tags
    ds.append({"a": [5]})
    tags.create("now")
    assert tags.get_version("now") == 4
    assert f" of {root}\n  tag " in repr(tags)


def test_a_cleanup_keeps_what_is_tagged(root: str) -> None:
    ds = lancecy.dataset(root)
    ds.tags.create("keep", 1)
    ds.cleanup_old_versions(timedelta(0), error_if_tagged_old_versions=False)
    assert ds.checkout_version("keep").count_rows() == 1
    ds.tags.delete("keep")
    ds.cleanup_old_versions(timedelta(0))
    with pytest.raises(errors.NotFoundError):
        ds.checkout_version(1)
