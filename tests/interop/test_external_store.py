"""Tables that DynamoDB commits: both libraries read and write them, whatever a writer that died left."""

from __future__ import annotations

import datetime
import os
import pickle
import shutil
import signal
import subprocess
import sys
import textwrap
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancecy
from lancecy.errors import DatasetNotFoundError, FormatError, StoreError
from lancecy.store.fsspec import FsspecStore
from lancecy.table.paths import manifest_name
from tests.durability.committing import COMMITS
from tests.helpers.dynamodb import DynamoTable
from tests.helpers.s3 import SECRET, S3Server

pytestmark = [pytest.mark.s3, pytest.mark.interop]

BUCKET = "external"


class Table:
    """A table that DynamoDB commits, its objects and its items."""

    def __init__(self, dynamo: DynamoTable, path: str) -> None:
        self.path = path
        self.dynamo = dynamo
        self.options = dynamo.options
        self.uri = dynamo.uri(f"{BUCKET}/{path}")
        self.objects = FsspecStore(f"s3://{BUCKET}/{path}", dynamo.options)

    @property
    def items(self) -> dict[int, dict[str, Any]]:
        return self.dynamo.items(self.path)

    def manifests(self) -> list[str]:
        return sorted(meta.path.removeprefix("_versions/") for meta in self.objects.list("_versions"))

    def write(self, *values: int, **options: Any) -> lancecy.Dataset:
        return lancecy.write_dataset(_rows(*values), self.uri, storage_options=self.options, **options)

    def append(self, *values: int) -> lancecy.Dataset:
        return self.write(*values, mode="append")

    def pylance_append(self, *values: int) -> None:
        lance.write_dataset(_rows(*values), self.uri, mode="append", storage_options=self.options)

    def open(self, version: int | None = None) -> lancecy.Dataset:
        return lancecy.dataset(self.uri, version, storage_options=self.options)

    def rows(self) -> list[int]:
        values: list[int] = self.open().to_table()["a"].to_pylist()
        return values

    def pylance_rows(self) -> list[int]:
        values: list[int] = lance.dataset(self.uri, storage_options=self.options).to_table()["a"].to_pylist()
        return values

    def unfinish(self, version: int, *, keep_final: bool = False, sized: bool = True) -> str:
        """Make a version what a writer leaves that dies after its commit: a staged manifest and its item."""
        final = f"_versions/{manifest_name(version)}"
        staged = f"{final}-{uuid.uuid4()}"
        self.objects.put(staged, self.objects.get(final).tobytes())
        if not keep_final:
            self.objects.delete([final])
        item = {**self.items[version], "path": {"S": f"{self.path}/{staged}"}}
        if not sized:
            del item["size"]
        self.dynamo.put(item)
        return staged


def _rows(*values: int) -> pa.Table:
    return pa.table({"a": pa.array(values, pa.int64())})


@pytest.fixture(scope="module")
def dynamo(s3_server: S3Server) -> DynamoTable:
    s3_server.make_bucket(BUCKET)
    return DynamoTable(s3_server, f"interop-{uuid.uuid4().hex}")


@pytest.fixture
def table(dynamo: DynamoTable) -> Table:
    return Table(dynamo, f"dir/{uuid.uuid4().hex}")


def test_both_libraries_write_the_same_items_and_names(table: Table, dynamo: DynamoTable) -> None:
    theirs = Table(dynamo, f"{table.path}-of-pylance")
    table.write(1)
    lance.write_dataset(_rows(1), theirs.uri, storage_options=theirs.options)
    for _ in range(2):
        for one in (table, theirs):
            one.append(2)
            one.pylance_append(3)
    assert table.rows() == table.pylance_rows() == theirs.rows() == theirs.pylance_rows() == [1, 2, 3, 2, 3]
    assert table.manifests() == theirs.manifests() == sorted(map(manifest_name, range(1, 6)))
    sizes = {meta.path: str(meta.size) for meta in table.objects.list("_versions")}
    for version, item in table.items.items():
        path = f"_versions/{manifest_name(version)}"
        assert item == {
            "base_uri": {"S": table.path},
            "version": {"N": str(version)},
            "path": {"S": f"{table.path}/{path}"},
            "size": {"N": sizes[path]},
            "committer": {"S": "lancedb"},
        }
        assert {**theirs.items[version], "size": None} == {
            **item, "size": None, "base_uri": {"S": theirs.path}, "path": {"S": f"{theirs.path}/{path}"}
        }  # fmt: skip


@pytest.mark.parametrize("path", ["a b/c%20d", "ä ö", "a%2520b", "a+b&c=d'(!)"])
def test_paths_in_uris_mean_the_same_to_both(dynamo: DynamoTable, path: str) -> None:
    uri = dynamo.uri(f"{BUCKET}/{uuid.uuid4().hex}/{path}")
    lance.write_dataset(_rows(1), uri, storage_options=dynamo.options)
    ds = lancecy.write_dataset(_rows(2), uri, mode="append", storage_options=dynamo.options)
    assert ds.to_table()["a"].to_pylist() == [1, 2]
    assert lance.dataset(ds.uri, storage_options=dynamo.options).count_rows() == 2
    assert lancecy.dataset(ds.uri, storage_options=dynamo.options).uri == ds.uri


def test_uris_without_a_table_or_a_folder_are_refused(dynamo: DynamoTable) -> None:
    for uri, what in (
        ("s3+ddb://b/t", "DynamoDB table is missing"),
        ("s3+ddb://b/t?ddbTableName=", "DynamoDB table is missing"),
        ("s3+ddb://b/t?ddbTableName=versions&x=1", "exactly one query parameter"),
        ("s3+ddb://b/t?table=versions", "exactly one query parameter"),
        ("s3+ddb://b?ddbTableName=versions", "not a whole bucket"),
        ("s3+ddb://b/t?ddbTableName=a/b", "no name of a DynamoDB table"),
        ("s3+ddb://b/t#x?ddbTableName=versions", "fragment"),
    ):
        with pytest.raises(ValueError, match=what):
            lancecy.dataset(uri, storage_options=dynamo.options)


# -- items that others left -----------------------------------------------------------------------


@pytest.mark.parametrize("sized", [True, False], ids=["size", "no size"])
@pytest.mark.parametrize("keep_final", [True, False], ids=["copied", "staged"])
def test_reader_finishes_what_a_writer_left(table: Table, keep_final: bool, sized: bool) -> None:
    table.write(1)
    table.append(2)
    before = table.items

    def numbered() -> Any:
        return table.open(2).to_table()["a"].to_pylist()

    for use in (table.rows, table.pylance_rows, numbered):
        staged = table.unfinish(2, keep_final=keep_final, sized=sized)
        assert use() == [1, 2]
        assert table.items == before
        assert staged.removeprefix("_versions/") not in table.manifests()


def test_staged_manifest_that_another_reader_has_removed_is_no_error(table: Table) -> None:
    table.write(1)
    table.append(2)
    staged = table.unfinish(2, keep_final=True)
    table.objects.delete([staged])
    assert table.rows() == [1, 2]
    assert table.items[2]["path"]["S"].endswith(".manifest")


def test_version_whose_manifests_are_both_gone_is_refused(table: Table) -> None:
    table.write(1)
    table.append(2)
    staged = table.unfinish(2)
    table.objects.delete([staged])
    for use in (table.rows, lambda: table.append(3)):
        with pytest.raises(FormatError, match=r"has version 2 .* and the object store has neither"):
            use()
    table.dynamo.delete(table.path, 2)
    assert table.rows() == [1]
    assert table.append(3).version == 2


def test_sizes_that_disagree_are_refused(table: Table) -> None:
    table.write(1)
    table.append(2)
    table.dynamo.put({**table.items[2], "size": {"N": "7"}})
    for use in (table.rows, lambda: table.open(2)):
        with pytest.raises(FormatError, match="and 7 according to its external manifest store"):
            use()
    assert table.open(1).count_rows() == 1
    with pytest.raises(ValueError, match="size mismatch"):
        table.pylance_rows()


def test_attributes_of_old_writers_are_no_obstacle(table: Table) -> None:
    table.write(1)
    table.append(2)
    item = {**table.items[2], "e_tag": {"S": '"0123"'}}
    del item["size"]
    table.dynamo.put(item)
    assert table.rows() == table.pylance_rows() == [1, 2]
    table.append(3)
    assert table.rows() == table.pylance_rows() == [1, 2, 3]


def test_item_of_another_place_is_refused(table: Table) -> None:
    table.write(1)
    for path in (
        f"{table.path}/_versions/7.manifest",
        "elsewhere/_versions/1.manifest",
        f"{table.path}/data/x",
    ):
        table.dynamo.put({**table.items[1], "path": {"S": path}})
        with pytest.raises(FormatError, match="no name of its manifest"):
            table.rows()


def test_deleted_newest_item_shows_the_version_before_and_loses_nothing(table: Table) -> None:
    table.write(1)
    table.append(2)
    table.append(3)
    table.dynamo.delete(table.path, 3)
    assert table.rows() == table.pylance_rows() == [1, 2]
    # A writer finds the manifest of version 3 in its way, and goes on behind it.
    assert table.append(4).version == 4
    assert table.rows() == table.pylance_rows() == [1, 2, 3, 4]


def test_table_without_items_is_listed(table: Table) -> None:
    plain = f"s3://{BUCKET}/{table.path}"
    lancecy.write_dataset(_rows(1), plain, storage_options=table.options)
    assert table.rows() == table.pylance_rows() == [1]
    assert table.append(2).version == 2
    assert list(table.items) == [2]
    assert table.rows() == table.pylance_rows() == [1, 2]
    assert table.open(1).count_rows() == 1


def test_detached_version_of_pylance_is_not_the_newest(table: Table) -> None:
    table.write(1)
    table.append(2)
    restore = lance.LanceOperation.Restore(1)
    made = lance.LanceDataset.commit(
        table.uri, restore, read_version=2, storage_options=table.options, detached=True
    )
    assert table.rows() == [1, 2]
    assert table.open(made.version).count_rows() == 1
    ours = lancecy.commit(
        table.uri,
        lancecy.LanceOperation.Restore(1),
        read_version=2,
        storage_options=table.options,
        detached=True,
    )
    assert ours.version >> 63 and ours.version not in table.items
    assert table.append(3).version == 3


def test_copy_without_its_external_store_opens_at_the_last_finished_version(
    table: Table, tmp_path: Path
) -> None:
    table.write(1)
    table.append(2)
    table.append(3)
    table.unfinish(3)
    for meta in table.objects.list(""):
        (tmp_path / meta.path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / meta.path).write_bytes(table.objects.get(meta.path).tobytes())
    for copy in (str(tmp_path), f"s3://{BUCKET}/{table.path}"):
        options = table.options if "://" in copy else None
        assert lancecy.dataset(copy, storage_options=options).to_table()["a"].to_pylist() == [1, 2]
    assert lance.dataset(str(tmp_path)).to_table()["a"].to_pylist() == [1, 2]
    assert table.rows() == [1, 2, 3]
    shutil.rmtree(tmp_path)


def test_reader_that_cannot_finish_a_version_refuses_it(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.write(1)
    table.append(2)
    table.unfinish(2)

    def refuse(*_: object) -> None:
        raise StoreError("this login may not write")

    ds = table.open(1)
    monkeypatch.setattr(FsspecStore, "copy_from", refuse)
    with pytest.raises(StoreError, match=r"version 2 is committed.*credentials that may write"):
        table.rows()
    assert ds.to_table()["a"].to_pylist() == [1]
    monkeypatch.undo()
    assert table.rows() == [1, 2]


# -- operations -----------------------------------------------------------------------------------


def test_every_kind_of_change_works(table: Table) -> None:
    ds = table.write(1, 2, 3)
    ds.delete("a = 1")
    ds.merge_insert("a").when_not_matched_insert_all().execute(_rows(4))
    ds.optimize.compact_files()
    ds.tags.create("two", 2)
    table.open(1).restore()
    ds = table.append(5)
    assert table.rows() == table.pylance_rows() == [1, 2, 3, 5]
    assert [one["version"] for one in ds.versions()] == sorted(table.items)
    ds.cleanup_old_versions(retain_versions=1, error_if_tagged_old_versions=False)
    assert sorted(table.items) == [one["version"] for one in table.open().versions()] == [2, ds.version]
    assert table.open(2).to_table()["a"].to_pylist() == [2, 3]
    assert table.pylance_rows() == [1, 2, 3, 5]


def test_branches_have_items_of_their_own_as_long_as_they_live(table: Table, dynamo: DynamoTable) -> None:
    ds = table.write(1)
    branch = ds.create_branch("try")
    assert branch.uri == dynamo.uri(f"{BUCKET}/{table.path}/tree/try")
    lancecy.write_dataset(_rows(2), branch, mode="append")
    lance.write_dataset(_rows(3), branch.uri, mode="append", storage_options=table.options)
    for opened in (
        ds.checkout_version(("try", None)),
        lancecy.dataset(branch.uri, storage_options=table.options),
    ):
        assert opened.to_table()["a"].to_pylist() == [1, 2, 3]
    key = f"{table.path}/tree/try"
    assert sorted(dynamo.items(key)) == [1, 2, 3]
    ds.branches.delete("try")
    assert dynamo.items(key) == {}
    assert ds.create_branch("try").to_table()["a"].to_pylist() == [1]
    assert table.rows() == table.pylance_rows() == [1]


@pytest.mark.parametrize("inner", [False, True], ids=["of the table", "of a branch"])
def test_cleanups_of_pylance_keep_the_files_that_branches_need(table: Table, inner: bool) -> None:
    source = table.write(1, 2, 3)
    if inner:
        source = source.create_branch("outer")
    source.delete("a = 1")
    source.create_branch("try")
    source.delete("a = 2")
    theirs = lance.dataset(table.uri, storage_options=table.options)
    at = theirs.checkout_version(("outer", None)) if inner else theirs
    at.cleanup_old_versions(older_than=datetime.timedelta(0))
    opened = table.open().checkout_version(("try", None))
    assert opened.to_table()["a"].to_pylist() == [2, 3]
    assert theirs.checkout_version(("try", None)).to_table()["a"].to_pylist() == [2, 3]


def test_cleanup_finishes_a_branch_before_it_looks_for_leftovers(table: Table) -> None:
    ds = table.write(1)
    branch = lancecy.write_dataset(_rows(2), ds.create_branch("try"), mode="append")
    Table(table.dynamo, f"{table.path}/tree/try").unfinish(branch.version)
    ds.cleanup_old_versions(older_than=datetime.timedelta(0), delete_unverified=True)
    assert ds.checkout_version(("try", None)).to_table()["a"].to_pylist() == [1, 2]


def test_clones_and_bases_are_on_s3(table: Table, dynamo: DynamoTable) -> None:
    ds = table.write(1)
    target = dynamo.uri(f"{BUCKET}/{table.path}-clone")
    clone = ds.shallow_clone(target, 1, storage_options=table.options)
    assert clone.to_table()["a"].to_pylist() == [1]
    assert lance.dataset(target, storage_options=table.options).to_table()["a"].to_pylist() == [1]
    theirs = dynamo.uri(f"{BUCKET}/{table.path}-their-clone")
    made = lance.dataset(table.uri, storage_options=table.options).shallow_clone(
        theirs, 1, storage_options=table.options
    )
    assert made.count_rows() == 1
    # pylance names the table with its query as the base of the clone.
    assert lancecy.dataset(theirs, storage_options=table.options).to_table()["a"].to_pylist() == [1]
    deep = ds.deep_clone(dynamo.uri(f"{BUCKET}/{table.path}-deep"), storage_options=table.options)
    assert deep.to_table()["a"].to_pylist() == [1]
    base = lancecy.DatasetBasePath(f"s3://{BUCKET}/{table.path}-base", "hot")
    two = Table(dynamo, f"{table.path}-two")
    two.write(7, initial_bases=[base], target_bases=["hot"])
    assert two.rows() == two.pylance_rows() == [7]


def test_damaged_newest_version_is_repaired(table: Table) -> None:
    table.write(1)
    table.append(2)
    path = f"_versions/{manifest_name(2)}"
    size = table.objects.head(path).size
    table.objects.put(path, b"\0" * size)
    with pytest.raises(FormatError, match=r"lancecy\.repair"):
        table.rows()
    lancecy.repair(table.uri, storage_options=table.options)
    assert table.rows() == table.pylance_rows() == [1]
    table.append(3)
    assert table.rows() == table.pylance_rows() == [1, 3]


def test_nothing_secret_leaves_the_process(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    ds = table.write(1)
    sent = pickle.dumps(ds)
    assert SECRET.encode() not in sent
    with pytest.raises((StoreError, DatasetNotFoundError)) as caught:
        lancecy.dataset(f"s3+ddb://{BUCKET}/none?ddbTableName=not-there", storage_options=table.options)
    assert SECRET not in f"{ds!r} {ds.uri} {caught.value} {table.objects!r}"
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    copy: lancecy.Dataset = pickle.loads(sent)
    assert copy.to_table()["a"].to_pylist() == [1]
    assert copy.uri == table.uri


# -- writers that are killed ----------------------------------------------------------------------

WRITER = """\
import json, os, signal, sys
import pyarrow as pa
import lancecy
from lancecy.table.requests import Copy, KeyValueCall, Put, Remove
from lancecy.table.versions.external import ExternalVersions

uri, options, values, step = json.loads(sys.argv[1])
whole = ExternalVersions.publish
# What a writer that is killed after each of these steps was the last to do.
STEPS = {"staged": Put, "committed": KeyValueCall, "copied": Copy, "pointed": KeyValueCall, "removed": Remove}
left = list(STEPS)[: 1 + list(STEPS).index(step)] if step else []

def publish(*given):
    steps, waiting = whole(*given), [STEPS[name] for name in left]
    answer = problem = None
    while True:
        try:
            request = steps.send(answer) if problem is None else steps.throw(problem)
        except StopIteration as end:
            return end.value
        answer = problem = None
        try:
            answer = yield request
        except Exception as error:
            problem = error
        # An item that another writer has put is no step.
        done = problem is None and (answer is True or not isinstance(request, KeyValueCall))
        if waiting and done and isinstance(request, waiting[0]):
            del waiting[0]
            if not waiting:
                os.kill(os.getpid(), signal.SIGKILL)

for count, value in enumerate(values):
    if step and count == len(values) - 1:
        ExternalVersions.publish = publish
    while True:
        try:
            lancecy.write_dataset(
                pa.table({"a": pa.array([value], pa.int64())}), uri, mode="append", storage_options=options
            )
        except lancecy.errors.ContentionError:
            continue
        break
    print(value, flush=True)
"""

OF_PYLANCE = """\
import json, sys
import pyarrow as pa
import lance

uri, options, values, _ = json.loads(sys.argv[1])
for value in values:
    while True:
        try:
            lance.write_dataset(pa.table({"a": pa.array([value], pa.int64())}), uri, mode="append", storage_options=options)
        except OSError as error:
            # pylance gives up after 30 seconds of lost races.
            if not any(text in str(error).lower() for text in ("conflict", "concurrent writers")):
                raise
        else:
            break
    print(value, flush=True)
"""


def _started(script: str, table: Table, values: list[int], step: str | None = None) -> subprocess.Popen[str]:
    import json

    place = str(Path(lancecy.__file__).parents[1])
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script), json.dumps([table.uri, table.options, values, step])],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": place, "RAYON_NUM_THREADS": "1"},
    )


STEPS = {"staged": 1, "committed": 2, "copied": 2, "pointed": 2, "removed": 2}


@pytest.mark.slow
def test_writer_killed_after_any_step_leaves_a_table_that_goes_on(dynamo: DynamoTable) -> None:
    first: dict[str, Callable[[Table], list[int]]] = {"lancecy": Table.rows, "pylance": Table.pylance_rows}

    def check(case: tuple[str, str]) -> None:
        step, reader = case
        table = Table(dynamo, f"killed/{uuid.uuid4().hex}")
        table.write(1)
        writer = _started(WRITER, table, [2], step)
        said, errors = writer.communicate(timeout=300)
        assert (writer.returncode, said) == (-signal.SIGKILL, ""), errors
        newest = STEPS[step]
        assert first[reader](table) == [1, 2][:newest]
        assert table.rows() == table.pylance_rows() == [1, 2][:newest]
        table.pylance_append(3)
        table.append(4)
        assert table.rows() == table.pylance_rows() == [*[1, 2][:newest], 3, 4]
        assert sorted(table.items) == list(range(1, newest + 3))

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(check, [(step, reader) for step in STEPS for reader in first]))


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_eight_writers_of_both_libraries_lose_nothing(dynamo: DynamoTable) -> None:
    table = Table(dynamo, f"race/{uuid.uuid4().hex}")
    table.write(0)
    scripts = [WRITER, OF_PYLANCE] * 4
    writers = [
        _started(script, table, list(range(n * 100, n * 100 + COMMITS)))
        for n, script in enumerate(scripts, 1)
    ]
    # And four that die, one after each step of its last commit.
    dying = [
        _started(WRITER, table, [*range(n * 100, n * 100 + 5)], step) for n, step in enumerate(STEPS, 20)
    ]
    acknowledged = [0]
    for writer in (*writers, *dying):
        said, errors = writer.communicate(timeout=900)
        acknowledged += [int(line) for line in said.split()]
        # Another process may have taken the step before the one that was to die after it.
        assert writer.returncode == 0 or (writer in dying and writer.returncode == -signal.SIGKILL), errors
    rows = table.rows()
    assert len(rows) == len(set(rows))
    assert rows == table.pylance_rows()
    assert set(acknowledged) <= set(rows)
    assert len(acknowledged) == 1 + 8 * COMMITS + len(STEPS) * 4
    # Of those that died, all but the one that had only staged its manifest had committed.
    assert len(rows) == len(acknowledged) + len(STEPS) - 1
    versions = [one["version"] for one in table.open().versions()]
    assert versions == sorted(table.items) == list(range(1, len(rows) + 1))
    assert table.manifests() == sorted(
        {*map(manifest_name, versions)} | {n for n in table.manifests() if "-" in n}
    )
    for version in versions[::40]:
        theirs = lance.dataset(table.uri, version, storage_options=table.options)
        assert table.open(version).count_rows() == theirs.count_rows() == version
