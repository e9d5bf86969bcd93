"""Branches, beside pylance: made by one library, used, changed and deleted by the other."""

from __future__ import annotations

import json
import os
import re
import shutil
import uuid
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import lance
import pyarrow as pa
import pytest

import lancecy
from lancecy.errors import (
    ConflictError,
    ExistsError,
    FormatError,
    NotFoundError,
    RefNotFoundError,
    UnsupportedError,
)
from tests.helpers.s3 import S3Server

pytestmark = pytest.mark.interop

NOW = timedelta(0)


def rows(numbers: Iterable[int]) -> pa.Table:
    return pa.table({"a": [*numbers]})


def a_table(path: Path, versions: int = 3) -> lancecy.Dataset:
    """A table with one row per version."""
    ds = lancecy.write_dataset(rows([1]), path)
    for number in range(2, versions + 1):
        ds.append(rows([number]))
    return ds


def values(ds: Any) -> list[int]:
    found: list[int] = ds.to_table()["a"].to_pylist()
    return sorted(found)


def files(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def theirs(ds: lancecy.Dataset, branch: str | None = None) -> Any:
    peer = lance.dataset(str(ds.uri))
    return peer.checkout_version((branch, None)) if branch else peer


# --------------------------------------------------------------------------- creating


def test_branch_begins_at_the_opened_version_a_number_a_tag_or_another_branch(tmp_path: Path) -> None:
    ds = a_table(tmp_path / "t")
    theirs(ds).tags.create("first", 1)
    old = ds.checkout_version(2).create_branch("old")
    starts = {"newest": None, "number": 2, "tag": "first", "of-main": ("main", 1), "none": (None, None),
              "other": ("old", None), "other/2": ("old", 2)}  # fmt: skip
    made = {name: ds.create_branch(name, reference) for name, reference in starts.items()}
    versions = {"newest": 3, "number": 2, "tag": 1, "of-main": 1, "none": 3, "other": 2, "other/2": 2}
    assert old.version == 2 and {name: branch.version for name, branch in made.items()} == versions
    assert {name: values(branch) for name, branch in made.items()} == {
        name: [*range(1, version + 1)] for name, version in versions.items()
    }
    parents = {name: entry["parent_branch"] for name, entry in ds.branches.list().items()}
    assert {name for name, parent in parents.items() if parent == "old"} == {"other", "other/2"}


def test_pylance_lists_branches_as_lancecy_does(tmp_path: Path) -> None:
    ds = a_table(tmp_path / "t")
    ds.create_branch("team/one", 2).create_branch("two").create_branch("team/one/three")
    theirs(ds).create_branch("four", 1)
    assert ds.branches.list() == theirs(ds).branches.list()
    for order in (None, "asc", "desc"):
        assert ds.branches.list_ordered(order) == theirs(ds).branches.list_ordered(order)
    file = tmp_path / "t" / "_refs" / "branches" / "team%2Fone%2Fthree.json"
    written = json.loads(file.read_text())
    assert file.read_text() == json.dumps(written, indent=2)
    assert written["parentBranch"] == "two" and len(written["identifier"]["version_mapping"]) == 3
    assert [*written] == [*json.loads((file.parent / "four.json").read_text())]


@pytest.mark.parametrize("name", ["b", "team/b", "b/main", ".b", "b.", "HEAD", "x.lock/y", "übung", "b/data"])
def test_branch_of_any_name_is_used_by_both(name: str, tmp_path: Path) -> None:
    ds = a_table(tmp_path / "t")
    mine = ds.create_branch(name, 2)
    lance.write_dataset(rows([10]), mine.uri, mode="append")
    mine.checkout_latest().append(rows([11]))
    theirs(ds, name).delete("a = 1")
    mine = mine.checkout_latest()
    assert mine.version == 5 and values(mine) == values(theirs(ds, name)) == [2, 10, 11]
    assert lancecy.dataset(ds.uri, version=(name, 3)).count_rows() == 3
    assert values(ds.checkout_latest()) == [1, 2, 3]
    theirs(ds).branches.delete(name)
    assert not ds.branches.list() and not (tmp_path / "t" / "tree" / name / "_versions").exists()


@pytest.mark.parametrize(
    "name",
    [
        "",
        "main",
        "/a",
        "a/",
        "a//b",
        "a..b",
        "a\\b",
        "a b",
        "a.lock",
        "a/_indices/b",
        "main/x",
        "a" * 251,
        "é" * 42,
        "/".join(["a" * 90] * 3),
    ],
)
def test_branch_of_a_wrong_name_is_refused(name: str, tmp_path: Path) -> None:
    ds = a_table(tmp_path / "t")
    before = files(tmp_path)
    with pytest.raises(ValueError, match="cannot be the name of a branch"):
        ds.create_branch(name)
    assert files(tmp_path) == before


def test_branch_of_pylance_whose_name_begins_with_main_is_deleted_without_the_table(tmp_path: Path) -> None:
    ds = a_table(tmp_path / "t")
    theirs(ds).create_branch("main/x", 2)
    assert values(ds.checkout_version(("main/x", None))) == [1, 2]
    ds.branches.delete("main/x")
    assert not ds.branches.list() and values(lancecy.dataset(ds.uri)) == [1, 2, 3]


@pytest.mark.s3
def test_branches_in_a_bucket_are_used_and_deleted_by_both(s3_server: S3Server) -> None:
    uri, options = f"{s3_server.make_bucket('branches')}/{uuid.uuid4().hex}", s3_server.storage_options
    their_options = {"endpoint": s3_server.endpoint, "allow_http": "true", "region": "us-east-1",
                     "access_key_id": options["key"], "secret_access_key": options["secret"]}  # fmt: skip
    ds = lancecy.write_dataset(rows([1]), uri, storage_options=options)
    ds.create_branch("mine").append(rows([2]))
    peer = lance.dataset(uri, storage_options=their_options)
    peer.create_branch("theirs/too", ("mine", 2))
    ds.checkout_version(("theirs/too", None)).append(rows([3]))
    assert values(peer.checkout_version(("mine", None))) == [1, 2]
    assert values(peer.checkout_version(("theirs/too", None))) == [1, 2, 3]
    assert ds.branches.list() == peer.branches.list()
    with pytest.raises(ConflictError, match="theirs/too"):
        ds.branches.delete("mine")
    ds.branches.delete("theirs/too")
    peer.branches.delete("mine")
    assert not ds.branches.list() and not ds.branches.list_leftovers()
    assert values(ds.create_branch("mine")) == [1]


def test_of_many_threads_one_creates_the_branch(tmp_path: Path) -> None:
    ds = a_table(tmp_path / "t", 8)

    def create(version: int) -> int | ExistsError:
        try:
            return ds.checkout_version(version).create_branch("b").version
        except ExistsError as error:
            return error

    with ThreadPoolExecutor(8) as pool:
        results = [*pool.map(create, range(1, 9))]
    (version,) = [result for result in results if isinstance(result, int)]
    assert ds.branches.describe("b")["versions"] == [version] and not ds.branches.list_leftovers()
    assert values(theirs(ds, "b")) == [*range(1, version + 1)]


def test_existing_name_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    ds = a_table(tmp_path / "t")
    ds.create_branch("mine", 1)
    theirs(ds).create_branch("theirs", 1)
    before = files(tmp_path)
    for name in ("mine", "theirs"):
        with pytest.raises(ExistsError, match="there is a branch"):
            ds.create_branch(name, 2)
    assert files(tmp_path) == before


def test_reference_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    ds = a_table(tmp_path / "t")
    ds.create_branch("branch")
    for reference in (9, "tag", ("branches", 1), ("branch", 1)):
        with pytest.raises(NotFoundError):
            ds.create_branch("new", reference)
    assert [*ds.branches.list()] == ["branch"] and not (tmp_path / "t" / "tree" / "new").exists()


def test_branch_of_a_detached_version_is_refused(tmp_path: Path) -> None:
    ds = a_table(tmp_path / "t")
    new = lancecy.write_fragments(rows([9]), ds)
    detached = lancecy.commit(ds, lancecy.LanceOperation.Append(new), read_version=ds.version, detached=True)
    with pytest.raises(UnsupportedError, match="is detached"):
        detached.create_branch("b")
    assert not (tmp_path / "t" / "tree").exists()


def test_creation_that_fails_leaves_nothing(tmp_path: Path) -> None:
    ds = a_table(tmp_path / "t")
    old = ds.checkout_version(1)
    # Announced by a cleanup at work.
    guard = tmp_path / "t" / "_refs" / "guards" / "removal-00.json"
    guard.parent.mkdir(parents=True)
    guard.write_text('{"branch": null, "versions": [1, 2]}')
    before = {*tmp_path.rglob("*")}
    with pytest.raises(ConflictError, match="a cleanup is removing version 1"):
        old.create_branch("team/b")
    assert {*tmp_path.rglob("*")} == before
    guard.unlink()
    ds.cleanup_old_versions(NOW)
    with pytest.raises(NotFoundError, match="version 1"):
        old.create_branch("team/b")
    assert not ds.branches.list() and not ds.branches.list_leftovers()
    assert values(ds.create_branch("team/b")) == [1, 2, 3]


# --------------------------------------------------------------------------- using


def test_every_change_of_a_branch_stays_in_its_folder(tmp_path: Path) -> None:
    ds = a_table(tmp_path / "t")
    before = files(tmp_path)
    branch = ds.create_branch("b")
    branch.append(rows([4, 5]))
    branch.delete("a = 1")
    branch.update({"a": "a + 100"}, where="a = 2")
    branch.merge_insert("a").when_matched_update_all().when_not_matched_insert_all().execute(rows([3, 6]))
    branch.add_columns({"twice": "2 * a"})
    branch.drop_columns(["twice"])
    branch.optimize.compact_files()
    lancecy.write_dataset(rows([7]), branch, mode="append")
    assert values(branch.checkout_latest()) == values(theirs(ds, "b")) == [3, 4, 5, 6, 7, 102]
    branch.checkout_version(4).restore()
    assert values(branch.checkout_latest()) == [1, 2, 3, 4, 5]
    assert values(ds.checkout_latest()) == [1, 2, 3]
    after = files(tmp_path)
    assert {name: after[name] for name in before} == before
    new = {name for name in after if name not in before}
    assert {name for name in new if not name.startswith("t/tree/b/")} == {"t/_refs/branches/b.json"}
    assert any(name.startswith("t/tree/b/data/") for name in new)


def test_branch_opens_by_its_uri_and_knows_its_table(tmp_path: Path) -> None:
    ds = a_table(tmp_path / "t")
    ds.create_branch("team/b", 2).append(rows([9]))
    branch = lancecy.dataset(tmp_path / "t" / "tree" / "team" / "b")
    assert values(branch) == [1, 2, 9]
    assert branch.branches.list() == ds.branches.list()
    assert values(branch.checkout_version(("main", None))) == [1, 2, 3]
    assert values(branch.create_branch("c")) == [1, 2, 9]


def test_branches_of_a_clone_and_of_a_table_over_bases(tmp_path: Path) -> None:
    bases = [lancecy.DatasetBasePath(tmp_path / "disk", name="disk")]
    ds = lancecy.write_dataset(rows([1]), tmp_path / "t", initial_bases=bases, target_bases=["disk"])
    ds.append(rows([2]))
    theirs(ds).shallow_clone(str(tmp_path / "clone"), 2)
    for source in (ds, lancecy.dataset(tmp_path / "clone")):
        branch = source.create_branch("b")
        branch.append(rows([3]))
        assert values(branch) == values(theirs(source, "b")) == [1, 2, 3]


def test_metadata_is_replaced_and_read_by_pylance(tmp_path: Path) -> None:
    ds = a_table(tmp_path / "t")
    ds.create_branch("b")
    ds.branches.replace_metadata("b", {"owner": "Ada"})
    assert ds.branches.list() == theirs(ds).branches.list()
    assert theirs(ds).branches.list()["b"]["metadata"] == {"owner": "Ada"}
    with pytest.raises(NotFoundError, match="there are: b"):
        ds.branches.replace_metadata("bb", {})
    with pytest.raises(TypeError):
        ds.branches.replace_metadata("b", {"n": 1})  # type: ignore[dict-item]


def test_branch_is_described_with_its_versions_and_own_files(tmp_path: Path) -> None:
    ds = a_table(tmp_path / "t")
    ds.create_branch("b", 2).append(rows([9]))
    ds.create_branch("b/c").append(rows([9]))
    found = ds.branches.describe("b")
    own = [text for name, text in files(tmp_path / "t" / "tree" / "b").items() if not name.startswith("c/")]
    assert found["versions"] == [2, 3] and (found["num_files"], found["nbytes"]) == (
        len(own),
        sum(map(len, own)),
    )
    shown = repr(ds.branches)
    assert shown.startswith("2 branches of ")
    assert re.findall(r"^  (\S+) +(version \d of \S+)", shown, re.MULTILINE) == [
        ("b", "version 2 of main"),
        ("b/c", "version 3 of main"),
    ]


# --------------------------------------------------------------------------- deleting


def test_deleting_a_branch_touches_no_file_of_another(tmp_path: Path) -> None:
    ds = a_table(tmp_path / "t")
    names = ["a", "a/b", "a/data", "a/data/data", "a/b/c", "b"]
    for name in names:
        ds.create_branch(name, 2).append(rows([9]))
    for name in ("a/data", "a", "a/b", "b", "a/data/data", "a/b/c"):
        ds.branches.delete(name)
        names.remove(name)
        assert not ds.branches.list_leftovers()
        for left in names:
            assert values(ds.checkout_version((left, None))) == values(theirs(ds, left)) == [1, 2, 9]
    assert not (tmp_path / "t" / "tree").exists() and values(ds) == [1, 2, 3]


def test_branch_in_the_folder_of_an_index_keeps_its_files(tmp_path: Path) -> None:
    ds = a_table(tmp_path / "t")
    ds.create_branch("a")
    inner = "a/_indices/0123abcd-0000-4000-8000-0123456789ab"
    theirs(ds).create_branch(inner)
    ds.checkout_version((inner, None)).append(rows([4]))
    ds.branches.delete("a")
    assert values(ds.checkout_version((inner, None))) == [1, 2, 3, 4]


@pytest.mark.parametrize("made_by", ["lancecy", "pylance"])
def test_branch_that_others_need_is_not_deleted(made_by: str, tmp_path: Path) -> None:
    ds = a_table(tmp_path / "t")
    if made_by == "lancecy":
        ds.create_branch("a").create_branch("b").create_branch("c")
    else:
        theirs(ds).create_branch("a").create_branch("b").create_branch("c")
    theirs(ds).tags.create("t", ("c", 3))
    for name, user in (("a", "b, c"), ("b", "c"), ("c", "tags name versions of it: t")):
        with pytest.raises(ConflictError, match=user):
            ds.branches.delete(name)
        with pytest.raises(OSError, match="can not delete"):
            theirs(ds).branches.delete(name)
    theirs(ds).tags.delete("t")
    for name in ("c", "b", "a"):
        ds.branches.delete(name)
    assert not theirs(ds).branches.list()


def test_unknown_branch_is_named_with_near_ones(tmp_path: Path) -> None:
    ds = a_table(tmp_path / "t")
    ds.create_branch("trial")
    with pytest.raises(NotFoundError, match="'trail'; there are trial"):
        ds.branches.delete("trail")
    with pytest.raises(ValueError, match="without a branch"):
        ds.branches.delete("main")


@pytest.mark.parametrize("name", ["\udcff", "x" * 300, "a\0b", "%2e%2e"])
def test_name_that_nothing_can_have_is_not_found(name: str, tmp_path: Path) -> None:
    ds = a_table(tmp_path / "t")
    ds.create_branch("b")
    ds.tags.create("v1", 1)
    for call in (
        lambda: ds.checkout_version(name),
        lambda: ds.checkout_version((name, None)),
        lambda: ds.tags.delete(name),
        lambda: ds.branches.describe(name),
        lambda: ds.branches.delete(name),
    ):
        with pytest.raises(RefNotFoundError):
            call()


def test_branch_that_lost_its_folder_is_named_as_such(tmp_path: Path) -> None:
    ds = a_table(tmp_path / "t")
    ds.create_branch("team/b", 2)
    shutil.rmtree(tmp_path / "t" / "tree")
    for reference in (("team/b", None), ("team/b", 2)):
        with pytest.raises(
            RefNotFoundError, match=r"has a file, but no version in tree/team/b/: .*delete\('team/b'\)"
        ):
            lancecy.dataset(ds.uri, version=reference)
    ds.branches.delete("team/b")
    assert ds.create_branch("team/b", 2).count_rows() == 2


def test_branch_of_an_old_release_is_protected_by_the_name_of_its_parent(tmp_path: Path) -> None:
    ds = a_table(tmp_path / "t")
    ds.create_branch("a").create_branch("b")
    for name in ("a", "b"):
        file = tmp_path / "t" / "_refs" / "branches" / f"{name}.json"
        found = json.loads(file.read_text())
        # As 1.0.4 wrote them.
        file.write_text(
            json.dumps({key: found[key] for key in found if key not in ("identifier", "metadata")})
        )
    with pytest.raises(ConflictError, match="branches start from it: b"):
        ds.branches.delete("a")
    ds.branches.delete("b")
    # A child of such a branch is protected from pylance too.
    ds.create_branch("c", ("a", 3))
    with pytest.raises(OSError, match="can not delete"):
        theirs(ds).branches.delete("a")
    ds.create_branch("d", ("a", 3))
    assert ds.branches.list()["c"]["branch_identifier"][0] == ds.branches.list()["d"]["branch_identifier"][0]


def test_time_of_creation_beyond_all_dates_is_told(tmp_path: Path) -> None:
    ds = a_table(tmp_path / "t")
    ds.create_branch("a")
    file = tmp_path / "t" / "_refs" / "branches" / "a.json"
    for seconds in (10**14, 2**64 - 1):
        file.write_text(json.dumps({**json.loads(file.read_text()), "createAt": seconds}))
        assert ds.branches.list()["a"]["create_at"] == seconds
        with pytest.raises(FormatError, match=f"_refs/branches/a.json: createAt is {seconds}"):
            ds.branches.describe("a")


# --------------------------------------------------------------------------- what is left behind


def leave(ds: lancecy.Dataset, name: str) -> Path:
    """What a creation leaves that was interrupted between the first version and the file of the branch."""
    theirs(ds).create_branch(name)
    (Path(ds.uri) / "_refs" / "branches" / f"{quote(name, safe='')}.json").unlink()
    return Path(ds.uri) / "tree" / name


def test_leftover_is_told_listed_and_removed(tmp_path: Path) -> None:
    ds = a_table(tmp_path / "t")
    ds.create_branch("a/b").append(rows([9]))
    leave(ds, "a")
    advice = r"ds.branches.remove_leftover\('a'\) .* with older_than=timedelta\(0\) at once"
    with pytest.raises(ExistsError, match=advice):
        ds.create_branch("a")
    assert [*ds.branches.list_leftovers()] == ["a"]
    found = ds.branches.list_leftovers()["a"]
    assert found["num_files"] == 3 and found["modified"] is not None
    with pytest.raises(ConflictError, match="so young"):
        ds.branches.remove_leftover("a")
    ds.branches.remove_leftover("a", older_than=NOW)
    assert not ds.branches.list_leftovers()
    assert values(ds.checkout_version(("a/b", None))) == [1, 2, 3, 9]
    assert values(ds.create_branch("a", 1)) == [1]


def test_leftover_of_a_week_ago_is_removed_without_a_word(tmp_path: Path) -> None:
    ds = a_table(tmp_path / "t")
    for file in leave(ds, "a").rglob("*"):
        os.utime(file, (0, 0))
    ds.branches.remove_leftover("a")
    assert values(ds.create_branch("a")) == [1, 2, 3]


def test_existing_branch_is_no_leftover(tmp_path: Path) -> None:
    ds = a_table(tmp_path / "t")
    ds.create_branch("a").create_branch("b")
    with pytest.raises(ConflictError, match="exists"):
        ds.branches.remove_leftover("a", older_than=NOW)
    with pytest.raises(NotFoundError, match="nothing is left"):
        ds.branches.remove_leftover("c", older_than=NOW)
    for name in ("..", "../t2", "main", ""):
        with pytest.raises(ValueError, match="cannot be the name"):
            ds.branches.remove_leftover(name, older_than=NOW)
    # Its file is lost, and another branch needs its files.
    (tmp_path / "t" / "_refs" / "branches" / "a.json").unlink()
    with pytest.raises(ConflictError, match="branches start from it: b"):
        ds.branches.remove_leftover("a", older_than=NOW)
    assert values(ds.checkout_version(("b", None))) == [1, 2, 3]


def test_branch_that_another_process_creates_or_deletes_is_left_alone(tmp_path: Path) -> None:
    ds = a_table(tmp_path / "t")
    ds.create_branch("a")
    mark = tmp_path / "t" / "tree" / "a" / "_versions" / ".tmp_branch_1"
    mark.write_text("of another process")
    with pytest.raises(ConflictError, match="by another process"):
        ds.branches.delete("a")
    assert [*ds.branches.list()] == ["a"]
    ds.branches.delete("a", older_than=NOW)
    mark.parent.mkdir(parents=True)
    mark.write_text("of another process")
    with pytest.raises(ExistsError, match="by another process"):
        ds.create_branch("a")
    ds.branches.remove_leftover("a", older_than=NOW)
    assert values(ds.create_branch("a")) == [1, 2, 3]


# --------------------------------------------------------------------------- cleaning up


def test_cleanup_of_all_branches_frees_what_the_branches_alone_needed(tmp_path: Path) -> None:
    ds = a_table(tmp_path / "t", 2)
    branch = ds.create_branch("a")
    child = branch.create_branch("a/b")
    for table in (ds, branch, child):
        lancecy.write_dataset(rows([10]), table, mode="overwrite")
        lancecy.write_dataset(rows([20]), table, mode="append")
    # The first version of each branch stays, as the next one starts there; that of the last needs the table's files.
    alone = ds.checkout_latest().cleanup_old_versions(NOW, retain_versions=1, dry_run=True)
    assert alone.old_versions == 2 and alone.data_files_removed == 0
    expected = child.cleanup_old_versions(NOW, retain_versions=1, all_branches=True, dry_run=True)
    assert expected.old_versions > alone.old_versions
    before = files(tmp_path)
    assert child.cleanup_old_versions(NOW, retain_versions=1, all_branches=True) == expected
    gone = {name: text for name, text in before.items() if name not in files(tmp_path)}
    assert sum(map(len, gone.values())) == expected.bytes_removed
    for name in (None, "a", "a/b"):
        assert values(ds.checkout_version((name, None))) == values(theirs(ds, name)) == [10, 20]
    ds.branches.delete("a/b")
    ds.branches.delete("a")
    freed = ds.checkout_latest().cleanup_old_versions(NOW, retain_versions=1)
    assert freed.data_files_removed == 2 and values(ds.checkout_latest()) == [10, 20]


def test_cleanup_of_all_branches_removes_nothing_if_a_version_is_tagged(tmp_path: Path) -> None:
    ds = a_table(tmp_path / "t")
    branch = ds.create_branch("a")
    branch.append(rows([4]))
    branch.append(rows([5]))
    theirs(ds).tags.create("old", 1)
    before = files(tmp_path)
    with pytest.raises(ConflictError, match="tagged"):
        ds.cleanup_old_versions(NOW, all_branches=True)
    assert files(tmp_path) == before
    with pytest.raises(ValueError, match="one branch"):
        ds.cleanup_old_versions(versions=[1], all_branches=True)
    stats = ds.cleanup_old_versions(NOW, all_branches=True, error_if_tagged_old_versions=False)
    assert stats.old_versions == 3 - 1 + 1 and ds.branches.describe("a")["versions"] == [5]
