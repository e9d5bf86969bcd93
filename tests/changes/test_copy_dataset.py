"""Copies of a table with its versions, tags and branches, to any storage, also after interruptions."""

from __future__ import annotations

import itertools
import shutil
import uuid
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancecy
from lancecy.errors import (
    ConflictError,
    DatasetNotFoundError,
    ExistsError,
    FormatError,
    NotFoundError,
    PathPolicyError,
    StoreError,
)
from lancecy.progress import Step
from lancecy.write.targets import DatasetBasePath
from tests.helpers.s3 import S3Server

pytestmark = pytest.mark.interop
PLAN = "_versions/.tmp_copy.json"
HISTORY = {"main": [1, 2, 3, 4], "team/dev": [2, 3], "sub": [3, 4]}


def rows(numbers: Iterable[int]) -> pa.Table:
    return pa.table({"a": list(numbers)})


def a_table(place: str, options: dict[str, str] | None = None) -> Any:
    """Four versions with a deletion file and an index, a branch, a branch of it, and tags of both."""
    ds = lance.write_dataset(rows(range(10)), place, storage_options=options)
    ds = lance.write_dataset(rows(range(10, 20)), place, mode="append", storage_options=options)
    ds.delete("a = 1")
    ds.create_scalar_index("a", "BTREE")
    ds.tags.create("first", 1)
    dev = ds.create_branch("team/dev", 2)
    dev = lance.write_dataset(rows([50]), dev.uri, mode="append", storage_options=options)
    sub = dev.create_branch("sub", ("team/dev", None))
    lance.write_dataset(rows([60]), sub.uri, mode="append", storage_options=options)
    ds.tags.create("dev", ("team/dev", 3))
    return lance.dataset(place, storage_options=options)


def of_pylance(options: dict[str, Any] | None) -> dict[str, str] | None:
    return options and {
        "access_key_id": options["key"],
        "secret_access_key": options["secret"],
        "endpoint": options["client_kwargs"]["endpoint_url"],
        "region": "us-east-1",
        "allow_http": "true",
    }


def contents(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def numbers(ds: Any) -> list[int]:
    return sorted(ds.to_table()["a"].to_pylist())


def history(ds: Any, versions: Mapping[str, Sequence[int]]) -> dict[tuple[str | None, int], list[int]]:
    """The values in every version of every branch."""
    pairs = [(None if branch == "main" else branch, v) for branch, found in versions.items() for v in found]
    return {pair: numbers(ds.checkout_version(pair)) for pair in pairs}


class Interrupted(Exception):
    """Raised by a callback of these tests."""


class StopsAtVersion(lancecy.SqlManifestStore):
    """A manifest store whose process stops right after it has put the item of one version."""

    def __init__(self, url: str, version: int) -> None:
        super().__init__(url)
        self.version = version

    def put_if_absent(self, table: str, version: int, item: lancecy.ManifestItem) -> bool:
        found = super().put_if_absent(table, version, item)
        if version == self.version:
            raise Interrupted
        return found


def stop_after(steps: int) -> Any:
    """A callback that ends the work at its nth call."""
    count = itertools.count(1)

    def callback(step: Step) -> None:
        if next(count) > steps:
            raise Interrupted

    return callback


class TestResult:
    def test_both_libraries_read_every_version_tag_and_branch(self, tmp_path: Path) -> None:
        source = a_table(str(tmp_path / "t"))
        copy = lancecy.copy_dataset(tmp_path / "t", tmp_path / "copy", verify=True)
        assert (copy.versions, copy.tags) == (HISTORY, ["dev", "first"])
        assert (copy.left_out_tags, copy.left_out_branches) == ([], [])
        theirs, mine = lance.dataset(str(tmp_path / "copy")), lancecy.dataset(copy.uri)
        assert history(theirs, HISTORY) == history(mine, HISTORY) == history(source, HISTORY)
        assert theirs.tags.list() == source.tags.list() == mine.tags.list()
        assert theirs.branches.list() == source.branches.list() == mine.branches.list()
        assert numbers(lance.dataset(copy.uri, version="dev")) == [*range(20), 50]

    def test_it_has_the_same_files_and_a_version_more_of_each_branch(self, tmp_path: Path) -> None:
        a_table(str(tmp_path / "t"))
        (tmp_path / "t/data/leftover.lance").write_bytes(b"of a failed write")
        copy = lancecy.copy_dataset(tmp_path / "t", tmp_path / "copy")
        before, after = contents(tmp_path / "t"), contents(tmp_path / "copy")
        assert before.pop("data/leftover.lance")
        before = {
            name: data for name, data in before.items() if not name.endswith("latest_version_hint.json")
        }
        assert {name: after[name] for name in before if name in after} == before
        added = sorted(after.keys() - before.keys())
        assert [name.rsplit("/", 1)[0] for name in added] == [
            f"tree/{branch}/{folder}"
            for branch in ("sub", "team/dev")
            for folder in ("_transactions", "_versions")
        ]
        kept = [name for name in before if "_versions/" not in name and "_refs/" not in name]
        assert (copy.num_files, copy.nbytes) == (len(kept), sum(len(before[name]) for name in kept))

    def test_it_needs_the_source_no_more(self, tmp_path: Path) -> None:
        before = history(a_table(str(tmp_path / "t")), HISTORY)
        lancecy.copy_dataset(lancecy.dataset(tmp_path / "t"), tmp_path / "copy")
        shutil.rmtree(tmp_path / "t")
        for branch in (None, "team/dev", "sub"):
            theirs = lance.dataset(str(tmp_path / "copy")).checkout_version((branch, None))
            assert numbers(theirs) == before[branch, HISTORY[branch or "main"][-1]]
            mine = lancecy.dataset(tmp_path / "copy", (branch, None))
            mine.delete("a = 5")
            theirs = lance.write_dataset(rows([99]), mine.uri, mode="append")
            mine = mine.checkout_latest()
            assert numbers(theirs) == numbers(mine)
            assert mine.verify().is_ok

    @pytest.mark.filterwarnings("ignore:base .* where nothing is any more:RuntimeWarning")
    def test_a_table_that_was_moved_before(self, tmp_path: Path) -> None:
        before = history(a_table(str(tmp_path / "t")), HISTORY)
        shutil.move(tmp_path / "t", tmp_path / "moved")
        lancecy.copy_dataset(tmp_path / "moved", tmp_path / "copy")
        shutil.rmtree(tmp_path / "moved")
        assert history(lancecy.dataset(tmp_path / "copy"), HISTORY) == before
        newest = lance.dataset(str(tmp_path / "copy")).checkout_version(("sub", None))
        assert numbers(newest) == before["sub", 4]

    def test_a_branch_names_the_whole_table(self, tmp_path: Path) -> None:
        a_table(str(tmp_path / "t"))
        copy = lancecy.copy_dataset(tmp_path / "t/tree/team/dev", tmp_path / "copy")
        assert copy.versions == HISTORY

    def test_a_branch_that_became_the_main_table(self, tmp_path: Path) -> None:
        ds = lancecy.write_dataset(rows([1]), tmp_path / "t")
        ds.create_branch("dev").append(rows([2]))
        ds.fast_forward("dev")
        before = numbers(ds)
        lancecy.copy_dataset(ds, tmp_path / "copy")
        shutil.rmtree(tmp_path / "t")
        assert numbers(lance.dataset(str(tmp_path / "copy"))) == before == [1, 2]

    def test_blobs_beside_data_files(self, tmp_path: Path) -> None:
        field = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
        table = pa.table([[b"x" * 1000, b"y"]], schema=pa.schema([field]))
        lancecy.write_dataset(table, tmp_path / "t", data_storage_version="2.2")
        copy = lancecy.copy_dataset(tmp_path / "t", tmp_path / "copy")
        shutil.rmtree(tmp_path / "t")
        found = lancecy.dataset(copy.uri).take_blobs("b", indices=[0, 1])
        assert [blob.read() for blob in found if blob] == [b"x" * 1000, b"y"]

    def test_other_places_stay(self, tmp_path: Path) -> None:
        base = DatasetBasePath(str(tmp_path / "b1"), name="b1")
        lancecy.write_dataset(rows(range(5)), tmp_path / "t", initial_bases=[base], target_bases=["b1"])
        copy = lancecy.copy_dataset(tmp_path / "t", tmp_path / "copy")
        assert not (tmp_path / "copy/data").exists()
        shutil.rmtree(tmp_path / "t")
        assert numbers(lance.dataset(copy.uri)) == numbers(lancecy.dataset(copy.uri)) == list(range(5))


class TestVersions:
    def test_a_number_of_newest_versions(self, tmp_path: Path) -> None:
        source = a_table(str(tmp_path / "t"))
        copy = lancecy.copy_dataset(tmp_path / "t", tmp_path / "copy", 3)
        assert copy.versions == {"main": [2, 3, 4], "team/dev": [2, 3], "sub": [3, 4]}
        assert (copy.tags, copy.left_out_tags) == (["dev"], ["first"])
        found = lance.dataset(copy.uri)
        assert history(found, copy.versions) == history(source, copy.versions)
        assert list(found.tags.list()) == ["dev"]

    def test_a_list_of_versions(self, tmp_path: Path) -> None:
        source = a_table(str(tmp_path / "t"))
        copy = lancecy.copy_dataset(tmp_path / "t", tmp_path / "copy", [1])
        assert copy.versions == {"main": [1]}
        assert (copy.left_out_tags, copy.left_out_branches) == (["dev"], ["team/dev", "sub"])
        assert len(list((tmp_path / "copy/data").iterdir())) == 1
        assert not (tmp_path / "copy/tree").exists()
        found = lance.dataset(copy.uri)
        assert (list(found.tags.list()), found.branches.list()) == (["first"], {})
        assert history(found, copy.versions) == history(source, copy.versions)

    def test_a_file_that_only_a_branch_needs(self, tmp_path: Path) -> None:
        """The only version of the main table that is copied has other files than the branch."""
        ds = lancecy.write_dataset(rows([1]), tmp_path / "t")
        ds.create_branch("dev").append(rows([2]))
        lancecy.write_dataset(rows([3]), tmp_path / "t", mode="overwrite")
        lancecy.dataset(tmp_path / "t").create_branch("late").append(rows([4]))
        copy = lancecy.copy_dataset(tmp_path / "t", tmp_path / "copy")
        shutil.rmtree(tmp_path / "t")
        newest = {
            branch: lance.dataset(copy.uri).checkout_version((branch, None)) for branch in ("dev", "late")
        }
        assert {branch: numbers(ds) for branch, ds in newest.items()} == {"dev": [1, 2], "late": [3, 4]}

    def test_wrong_versions(self, tmp_path: Path) -> None:
        ds = lancecy.write_dataset(rows([1]), tmp_path / "t")
        for wrong, error in [
            (0, ValueError),
            ([], ValueError),
            ([-1], ValueError),
            ("3", TypeError),
            (True, TypeError),
            ([1.5], TypeError),
        ]:
            with pytest.raises(error, match="versions is"):
                lancecy.copy_dataset(ds, tmp_path / "copy", wrong)  # type: ignore[arg-type]
        with pytest.raises(NotFoundError, match="no version 7 to copy; the table has 1"):
            lancecy.copy_dataset(ds, tmp_path / "copy", [1, 7])
        assert not (tmp_path / "copy").exists()


class TestInterruptions:
    def test_at_every_step(self, tmp_path: Path) -> None:
        source = a_table(str(tmp_path / "t"))
        before, seen = history(source, HISTORY), 0
        for number in itertools.count():
            target = tmp_path / f"copy{number}"
            try:
                lancecy.copy_dataset(tmp_path / "t", target, progress=stop_after(number))
            except Interrupted:
                if list(target.glob("_versions/*.manifest")):
                    assert (target / PLAN).exists(), number
                    theirs, mine = lance.dataset(str(target)), lancecy.dataset(target)
                    assert numbers(theirs) == numbers(mine) == before[None, 4], number
                    assert theirs.tags.list() == source.tags.list() == mine.tags.list(), number
                    assert theirs.branches.list() == source.branches.list() == mine.branches.list(), number
                    seen += 1
                copy = lancecy.copy_dataset(tmp_path / "t", target)
            else:
                break
            assert copy.versions == HISTORY, number
            assert not (target / PLAN).exists(), number
            assert history(lance.dataset(str(target)), HISTORY) == before, number
        assert number > 8 and seen

    @pytest.mark.parametrize("library", [lancecy, lance])
    @pytest.mark.parametrize("names", ["V1", "V2"])
    def test_it_continues_after_a_write_to_the_unfinished_copy(
        self, tmp_path: Path, library: Any, names: str
    ) -> None:
        source, target = tmp_path / "t", tmp_path / "copy"
        ds = lance.write_dataset(rows([1]), str(source), enable_v2_manifest_paths=names == "V2")
        for number in (2, 3):
            lance.write_dataset(rows([number]), str(source), mode="overwrite")
        ds.tags.create("first", 1)

        def stop(step: Step) -> None:
            if list(target.glob("_versions/*.manifest")):
                raise Interrupted

        with pytest.raises(Interrupted):
            lancecy.copy_dataset(source, target, progress=stop)
        assert [version["version"] for version in lancecy.dataset(target).versions()] == [3]
        library.write_dataset(rows([4]), str(target), mode="append")
        library.dataset(str(target)).cleanup_old_versions(timedelta(0), error_if_tagged_old_versions=False)
        assert lancecy.copy_dataset(source, target).versions == {"main": [1, 2, 3]}
        found = {version: numbers(lance.dataset(str(target), version)) for version in (1, 2, 3, 4)}
        assert found == {1: [1], 2: [2], 3: [3], 4: [3, 4]}
        assert numbers(lancecy.dataset(target, version="first")) == [1]

    def test_it_continues_after_a_version_that_only_the_manifest_store_has(self, tmp_path: Path) -> None:
        """An external manifest store has the version, and its manifest no final name yet."""
        for number in (1, 2, 3):
            lancecy.write_dataset(rows([number]), tmp_path / "t", mode="overwrite")
        target, url = tmp_path / "copy", f"sqlite:///{tmp_path}/versions.db"
        with pytest.raises(Interrupted):
            lancecy.copy_dataset(
                tmp_path / "t", target, target_options={"manifest_store": StopsAtVersion(url, 2)}
            )
        assert len(list(target.glob("_versions/*.manifest-*"))) == 1

        copy = lancecy.copy_dataset(tmp_path / "t", target, target_options={"manifest_store": url})

        assert copy.versions == {"main": [1, 2, 3]}
        assert [numbers(lance.dataset(str(target), version)) for version in (1, 2, 3)] == [[1], [2], [3]]

    def test_between_branches_and_their_new_versions(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        import lancecy.changes.copy_dataset as module

        def fails(*arguments: Any) -> None:
            raise StoreError("the disk is gone")

        a_table(str(tmp_path / "t"))
        monkeypatch.setattr(module, "commit_operation", fails)
        with pytest.raises(StoreError, match="the disk is gone") as told:
            lancecy.copy_dataset(tmp_path / "t", tmp_path / "copy")
        assert "the same call continues it" in told.value.__notes__[0]
        monkeypatch.undo()
        lancecy.copy_dataset(tmp_path / "t", tmp_path / "copy")
        shutil.rmtree(tmp_path / "t")
        assert numbers(lance.dataset(str(tmp_path / "copy")).checkout_version(("sub", None))) == [
            *range(20),
            50,
            60,
        ]

    def test_versions_made_meanwhile_are_not_copied(self, tmp_path: Path) -> None:
        a_table(str(tmp_path / "t"))
        with pytest.raises(Interrupted):
            lancecy.copy_dataset(tmp_path / "t", tmp_path / "copy", progress=stop_after(5))
        lancecy.dataset(tmp_path / "t").append(rows([70]))
        lancecy.dataset(tmp_path / "t", ("sub", None)).append(rows([71]))
        assert lancecy.copy_dataset(tmp_path / "t", tmp_path / "copy").versions == HISTORY
        assert lancecy.dataset(tmp_path / "copy").version == 4

    def test_a_damaged_file_of_an_earlier_call(self, tmp_path: Path) -> None:
        lancecy.write_dataset(rows(range(5)), tmp_path / "t")
        with pytest.raises(Interrupted):
            lancecy.copy_dataset(tmp_path / "t", tmp_path / "copy", progress=stop_after(4))
        (file,) = (tmp_path / "copy/data").iterdir()
        file.write_bytes(bytes(file.stat().st_size))
        copy = lancecy.copy_dataset(tmp_path / "t", tmp_path / "copy", verify=True)
        assert numbers(lance.dataset(copy.uri)) == list(range(5))

    def test_another_copy_is_not_continued(self, tmp_path: Path) -> None:
        for name in ("t", "other"):
            lancecy.write_dataset(rows(range(5)), tmp_path / name)
        with pytest.raises(Interrupted):
            lancecy.copy_dataset(tmp_path / "t", tmp_path / "copy", progress=stop_after(3))
        for source, versions in (("other", None), ("t", [1])):
            with pytest.raises(ExistsError, match="has the unfinished copy of .*/t with versions=None"):
                lancecy.copy_dataset(tmp_path / source, tmp_path / "copy", versions)
        (tmp_path / "copy" / PLAN).write_text("[1]")
        with pytest.raises(FormatError, match="the plan of an unfinished copy is damaged"):
            lancecy.copy_dataset(tmp_path / "t", tmp_path / "copy")


class TestRefusals:
    def test_a_dry_run_writes_nothing_and_says_the_same(self, tmp_path: Path) -> None:
        a_table(str(tmp_path / "t"))
        told = lancecy.copy_dataset(tmp_path / "t", tmp_path / "copy", 2, dry_run=True)
        assert not (tmp_path / "copy").exists()
        assert lancecy.copy_dataset(tmp_path / "t", tmp_path / "copy", 2) == told

    def test_places(self, tmp_path: Path) -> None:
        ds = lancecy.write_dataset(rows([1]), tmp_path / "t")
        with pytest.raises(PathPolicyError):
            lancecy.copy_dataset(ds, tmp_path / "t/inside")
        lancecy.write_dataset(rows([2]), tmp_path / "other")
        with pytest.raises(ExistsError, match="has a table already"):
            lancecy.copy_dataset(ds, tmp_path / "other")
        assert numbers(lancecy.dataset(tmp_path / "other")) == [2]
        with pytest.raises(DatasetNotFoundError):
            lancecy.copy_dataset(tmp_path / "none", tmp_path / "copy")

    def test_a_cleanup_meanwhile(self, tmp_path: Path) -> None:
        lancecy.write_dataset(rows([1]), tmp_path / "t")
        for number in (2, 3):
            lancecy.write_dataset(rows([number]), tmp_path / "t", mode="overwrite")

        def clean(step: Step) -> None:
            if step.what == when:
                lancecy.dataset(tmp_path / "t").cleanup_old_versions(timedelta(0))

        for when in ("read versions", "copy"):
            with pytest.raises(ConflictError, match="version 1 of main was removed while it was copied"):
                lancecy.copy_dataset(tmp_path / "t", tmp_path / when, progress=clean)
            assert not list(tmp_path.glob(f"{when}/_versions/*.manifest"))
            shutil.rmtree(tmp_path / "t")
            lancecy.write_dataset(rows([1]), tmp_path / "t")
            lancecy.write_dataset(rows([2]), tmp_path / "t", mode="overwrite")

    def test_a_planned_version_that_a_cleanup_removed(self, tmp_path: Path) -> None:
        lancecy.write_dataset(rows([1]), tmp_path / "t")
        lancecy.write_dataset(rows([2]), tmp_path / "t", mode="overwrite")
        with pytest.raises(Interrupted):
            lancecy.copy_dataset(tmp_path / "t", tmp_path / "copy", progress=stop_after(3))
        lancecy.dataset(tmp_path / "t").cleanup_old_versions(timedelta(0))
        with pytest.raises(ConflictError, match="version 1 of main was removed since the copy began"):
            lancecy.copy_dataset(tmp_path / "t", tmp_path / "copy")

    def test_a_lost_file(self, tmp_path: Path) -> None:
        lancecy.write_dataset(rows([1]), tmp_path / "t")
        (file,) = (tmp_path / "t/data").iterdir()
        lancecy.write_dataset(rows([2]), tmp_path / "t", mode="overwrite")
        file.unlink()
        with pytest.raises(DatasetNotFoundError, match=f"'data/{file.name}' of version 1 of main is missing"):
            lancecy.copy_dataset(tmp_path / "t", tmp_path / "copy")
        assert lancecy.copy_dataset(tmp_path / "t", tmp_path / "copy", [2]).versions == {"main": [2]}

    def test_a_tag_on_a_version_that_is_gone_is_left_out(self, tmp_path: Path) -> None:
        ds = lancecy.write_dataset(rows([1]), tmp_path / "t")
        ds.tags.create("good", 1)
        tag = tmp_path / "t/_refs/tags/good.json"
        (tag.parent / "gone.json").write_text(tag.read_text().replace('"version": 1', '"version": 9'))
        copy = lancecy.copy_dataset(ds, tmp_path / "copy")
        assert (copy.tags, copy.left_out_tags) == (["good"], ["gone"])


class TestStorage:
    def test_from_any_storage_to_any(self, tmp_path: Path, s3_server: S3Server) -> None:
        options = s3_server.storage_options
        unique = uuid.uuid4().hex
        one, two = (f"{s3_server.make_bucket(f'copy-{name}')}/{unique}" for name in ("one", "two"))
        a_table(str(tmp_path / "t"))
        lancecy.copy_dataset(tmp_path / "t", f"{one}/a", target_options=options, verify=True)
        before = history(lance.dataset(str(tmp_path / "t")), HISTORY)
        shutil.rmtree(tmp_path / "t")
        lancecy.copy_dataset(f"{one}/a", f"{two}/b", [1, 2], options)
        back = lancecy.copy_dataset(f"{two}/b", tmp_path / "back", storage_options=options, target_options={})
        assert back.versions == {"main": [1, 2], "team/dev": [2, 3, 4, 5], "sub": [3, 4, 5, 6]}
        for place, given in ((f"{one}/a", options), (f"{two}/b", options), (str(tmp_path / "back"), None)):
            for branch, version in ((None, 2), ("team/dev", 3), ("sub", 4)):
                reference = (branch, version if branch is None else None)
                theirs = lance.dataset(place, storage_options=of_pylance(given)).checkout_version(reference)
                mine = lancecy.dataset(place, reference, storage_options=given)
                assert numbers(theirs) == numbers(mine) == before[branch, version], (place, branch)


def test_clone_of_a_branch_has_a_branch_of_the_same_name(tmp_path: Path) -> None:
    """The branch of the branch then has two bases of one name: the clone's source, and its parent."""
    lancecy.write_dataset(rows([1]), tmp_path / "source").create_branch("dev")
    lancecy.dataset(tmp_path / "source").shallow_clone(tmp_path / "t", ("dev", None))
    dev = lancecy.dataset(tmp_path / "t").create_branch("dev")
    dev.append(rows([2]))
    dev.create_branch("sub")
    copied = lancecy.copy_dataset(tmp_path / "t", tmp_path / "copy")
    assert copied.versions == {"main": [1], "dev": [1, 2], "sub": [2]}
    shutil.rmtree(tmp_path / "t")
    for ds in (lancecy.dataset(tmp_path / "copy"), lance.dataset(tmp_path / "copy")):
        assert ds.checkout_version(("sub", None)).to_table()["a"].to_pylist() == [1, 2]
    (tmp_path / "copy").rename(tmp_path / "moved")
    sub = lancecy.dataset(tmp_path / "moved" / "tree" / "sub")
    with pytest.warns(RuntimeWarning, match="relocate_base gives the base this path"):
        sub.relocate_base(tmp_path / "copy" / "tree" / "dev", tmp_path / "moved" / "tree" / "dev")
    assert sub.checkout_latest().to_table()["a"].to_pylist() == [1, 2]
