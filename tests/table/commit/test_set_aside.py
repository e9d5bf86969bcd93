"""Damaged manifests are set aside: interrupted at every request, by two at once, and never a sound one."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancecy
from lancecy.errors import ConflictError, FormatError, LanceError, LimitError, StoreError, UnsupportedError
from lancecy.limits import DEFAULT_LIMITS, Limits
from lancecy.store.local import LocalStore
from lancecy.table.answers import answer
from lancecy.table.commit.set_aside import SetAside, set_aside
from lancecy.table.paths import Naming, manifest_name
from lancecy.table.requests import HeadFile, Pause, Put, Read, Request, Steps
from lancecy.table.versions import version_store
from tests.helpers.builders import make_manifest, write_manifest

Hook = Callable[[int, Request], Any]
NEWEST = 5


def made(folder: Path, first: int = 0, **options: Any) -> LocalStore:
    """A table whose version ``v`` has the rows ``first`` to ``first + v``."""
    for number in range(NEWEST):
        lancecy.write_dataset(
            pa.table({"n": [first + number]}), folder, mode="append" if number else "create", **options
        )
    return LocalStore(str(folder))


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("original") / "t"
    made(folder)
    return folder


@pytest.fixture
def store(original: Path, tmp_path: Path) -> LocalStore:
    shutil.copytree(original, tmp_path / "t")
    return LocalStore(str(tmp_path / "t"))


def path_of(version: int, naming: Naming = Naming.V2) -> str:
    return f"_versions/{manifest_name(version, naming)}"


def damage(store: LocalStore, *versions: int, data: bytes = b"torn") -> None:
    for version in versions:
        store.put(path_of(version), data + b" %d" % version)


def files(store: LocalStore) -> dict[str, bytes]:
    return {meta.path: store.get(meta.path).tobytes() for meta in store.list("")}


def rows(store: LocalStore, version: int | None = None) -> list[int]:
    found: list[int] = lancecy.dataset(store.uri, version=version).to_table()["n"].to_pylist()
    return found


class Died(BaseException):
    """The process is gone."""


def run(steps: Steps[Any], store: LocalStore, before: Hook = lambda number, request: None) -> Any:
    """Run a generator over a store without its pauses.

    ``before`` is called before each request, and may answer it.
    """

    def answered(number: int, request: Request) -> Any:
        given = before(number, request)
        if given is not None or isinstance(request, Pause):
            return given
        if isinstance(request, HeadFile):
            return store.head(f"data/{request.file.path}")
        return answer(request, store)

    try:
        number, request = 0, next(steps)
        while True:
            try:
                found = answered(number, request)
            except LanceError as error:
                request = steps.throw(error)
            else:
                request = steps.send(found)
            number += 1
    except StopIteration as end:
        return end.value


def repair(
    store: LocalStore, before: Hook = lambda number, request: None, *, every: bool = True,
    limits: Limits = DEFAULT_LIMITS,
) -> tuple[SetAside, ...]:  # fmt: skip
    found: tuple[SetAside, ...] = run(
        set_aside(version_store(store), limits, every=every, foreign=every), store, before
    )
    return found


def requests_of_a_repair(store: LocalStore) -> int:
    seen: list[Request] = []
    repair(store, lambda number, request: seen.append(request))
    return len(seen)


def copies(store: LocalStore, folder: Path, count: int) -> Iterator[LocalStore]:
    for number in range(count):
        shutil.copytree(store.uri, folder / str(number))
        yield LocalStore(str(folder / str(number)))


def test_damaged_newest_version_gets_the_rows_of_the_one_before(store: LocalStore) -> None:
    damage(store, 5)
    before = files(store)
    (one,) = repair(store)
    assert (one.version, one.rows_of, one.problem) == (5, 4, "a manifest file of 6 bytes")
    assert str(one) == (
        f"version 5 was damaged (a manifest file of 6 bytes) and has the rows of version 4; its bytes are in {one.kept_as}"
    )
    after = files(store)
    assert after[one.kept_as] == b"torn 5"
    new = after.keys() - before.keys()
    assert {path.partition("/")[0] for path in new} == {"_damaged", "_transactions"} and len(new) == 2
    assert {path for path in before if after[path] != before[path]} == {path_of(5)}
    assert rows(store) == rows(store, 4) == [0, 1, 2, 3]
    assert repair(store) == () and files(store) == after


def test_the_version_says_what_happened_to_it(store: LocalStore) -> None:
    damage(store, 5)
    (one,) = repair(store)
    written = [data for path, data in files(store).items() if path.startswith("_transactions/4-")]
    assert sum(one.kept_as.encode() in data for data in written) == 1
    versions = lancecy.dataset(store.uri).versions()
    assert versions[4]["timestamp"] == versions[3]["timestamp"]


def test_no_older_manifest_is_read_unless_every_one_is_asked_for(store: LocalStore) -> None:
    damage(store, 2, 5)
    read: list[str] = []
    found = repair(
        store,
        lambda _, request: read.append(request.path) if isinstance(request, Read) else None,
        every=False,
    )
    assert [one.version for one in found] == [5]
    assert path_of(3) not in read
    assert [one.version for one in repair(store)] == [2]


def test_every_damaged_version_keeps_its_number(store: LocalStore) -> None:
    damage(store, 2, 4, 5)
    found = repair(store)
    assert [(one.version, one.rows_of) for one in found] == [(5, 3), (4, 3), (2, 1)]
    assert [rows(store, version) for version in range(1, 6)] == [[0], [0], [0, 1, 2], [0, 1, 2], [0, 1, 2]]


def test_damaged_versions_that_no_sound_one_precedes_are_removed(store: LocalStore) -> None:
    damage(store, 1, 2)
    found = repair(store)
    assert [(one.version, one.rows_of) for one in found] == [(1, None), (2, None)]
    assert "is removed" in str(found[0])
    assert [version["version"] for version in lancecy.dataset(store.uri).versions()] == [3, 4, 5]
    assert {files(store)[one.kept_as] for one in found} == {b"torn 1", b"torn 2"}
    assert rows(store) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("versions", [pytest.param((5,), marks=pytest.mark.slow), (2, 4, 5), (1, 3)], ids=str)
def test_a_repair_that_dies_anywhere_is_finished_by_the_next(
    store: LocalStore, tmp_path: Path, versions: tuple[int, ...]
) -> None:
    damage(store, *versions)
    (undisturbed,) = copies(store, tmp_path / "undisturbed", 1)
    count = requests_of_a_repair(undisturbed)
    assert count > 8
    for last, copy in enumerate(copies(store, tmp_path / "died", count)):

        def die(number: int, request: Request, last: int = last) -> None:
            if number == last:
                raise Died

        with pytest.raises(Died):
            repair(copy, die)
        # Whatever it left undone, a sound version was never lost.
        assert sorted(set(range(1, 6)) - set(versions)) == [
            version for version in range(1, 6) if version not in versions and rows(copy, version) == [*range(version)]
        ]  # fmt: skip
        repair(copy)
        assert files(copy) == files(undisturbed)


@pytest.mark.parametrize("versions", [(5,), (2, 4, 5), (1, 3)], ids=str)
def test_two_repairs_at_once_write_the_same(
    store: LocalStore, tmp_path: Path, versions: tuple[int, ...]
) -> None:
    damage(store, *versions)
    (undisturbed,) = copies(store, tmp_path / "undisturbed", 1)
    count = requests_of_a_repair(undisturbed)
    for place, copy in enumerate(copies(store, tmp_path / "both", count)):

        def let_another_one_run(number: int, request: Request, place: int = place, copy: Any = copy) -> None:
            if number == place:
                repair(copy)

        assert {one.version for one in repair(copy, let_another_one_run)} <= {*versions}
        found, expected = files(copy), files(undisturbed)
        # The slower one may have written a transaction that no version names.
        more = found.keys() - expected.keys()
        assert len(more) <= 1 and all(path.startswith("_transactions/") for path in more)
        assert all(found[path] == expected[path] for path in expected), place


def test_a_storage_that_fails_leaves_what_it_was_or_what_it_becomes(
    store: LocalStore, tmp_path: Path
) -> None:
    damage(store, 4, 5)
    (undisturbed,) = copies(store, tmp_path / "undisturbed", 1)
    count = requests_of_a_repair(undisturbed)
    for place, copy in enumerate(copies(store, tmp_path / "failed", count)):

        def fail(number: int, request: Request, place: int = place) -> None:
            if number >= place and not isinstance(request, Pause):
                raise StoreError("the storage is gone")

        with pytest.raises(StoreError, match="is gone"):
            repair(copy, fail)
        found, damaged, repaired = files(copy), files(store), files(undisturbed)
        assert all(found[path] in (damaged.get(path), repaired[path]) for path in found)
        repair(copy)
        assert files(copy) == files(undisturbed)


def test_one_failing_request_is_tried_again(store: LocalStore, tmp_path: Path) -> None:
    damage(store, 5)
    (undisturbed,) = copies(store, tmp_path / "undisturbed", 1)
    count = requests_of_a_repair(undisturbed)
    for place, copy in enumerate(copies(store, tmp_path / "failed", count)):
        # The first listing tells whether the storage is there at all; what changes anything is tried again.
        def fail_once(number: int, request: Request, place: int = place) -> None:
            if number == place and isinstance(request, Put | Read):
                raise StoreError("503")

        assert len(repair(copy, fail_once)) == 1
        assert files(copy) == files(undisturbed)


@pytest.mark.parametrize("grows", [True, False])
def test_a_manifest_that_is_being_written_is_not_touched(store: LocalStore, grows: bool) -> None:
    damage(store, 5)
    written = [b"torn 5"]

    def go_on_writing(number: int, request: Request) -> None:
        if isinstance(request, Pause):
            written.append(b"torn" * (number if grows else 1) + b"%d" % number)
            with open(f"{store.uri}/{path_of(5)}", "wb") as file:
                file.write(written[-1])

    before = files(store)
    with pytest.raises(ConflictError, match="changes while it is read.*later"):
        repair(store, go_on_writing)
    assert files(store) == {**before, path_of(5): written[-1]}


def test_a_manifest_that_is_finished_at_the_last_moment_stays(store: LocalStore) -> None:
    whole = store.get(path_of(5)).tobytes()
    damage(store, 5)

    def finish(number: int, request: Request) -> None:
        if isinstance(request, Put) and request.path.startswith("_transactions/"):
            store.put(path_of(5), whole)

    assert repair(store, finish) == ()
    assert store.get(path_of(5)).tobytes() == whole


def test_a_manifest_cut_short_on_its_way_is_not_damaged(store: LocalStore) -> None:
    before = files(store)

    def cut(number: int, request: Request) -> Any:
        is_newest = isinstance(request, Read) and request.path == path_of(5)
        return store.get(path_of(5), 0, 50) if is_newest else None

    with pytest.raises(ConflictError, match="changes while it is read"):
        repair(store, cut)
    assert files(store) == before


def test_a_table_without_any_sound_version_is_left_alone(store: LocalStore) -> None:
    damage(store, 1, 2, 3, 4, 5)
    before = files(store)
    for every in (False, True):
        with pytest.raises(
            FormatError, match="6 bytes; no other version is sound either, so the table cannot be repaired"
        ):
            repair(store, every=every)
    assert files(store) == before


def test_what_this_release_or_its_limits_refuse_is_no_damage(store: LocalStore) -> None:
    write_manifest(store, make_manifest(version=6, reader_flags=4096))
    before = files(store)
    assert repair(store) == ()
    with pytest.raises(LimitError):
        repair(store, limits=Limits(fragments=1))
    damage(store, 7)
    before = files(store)
    with pytest.raises(UnsupportedError):
        repair(store)
    assert files(store) == before


def test_v1_names_stay(tmp_path: Path) -> None:
    store = made(tmp_path / "t", enable_v2_manifest_paths=False)
    store.put(path_of(5, Naming.V1), b"")
    (one,) = repair(store)
    assert (one.version, one.rows_of) == (5, 4)
    assert rows(store) == [0, 1, 2, 3] and path_of(5, Naming.V1) in files(store)


def test_files_of_0_1_with_dictionaries_stay_readable(tmp_path: Path) -> None:
    words = pa.table({"n": pa.array(["a", "b", "a"]).dictionary_encode()})
    lancecy.write_dataset(words, tmp_path / "t", data_storage_version="legacy")
    lancecy.write_dataset(words, tmp_path / "t", mode="append")
    store = LocalStore(str(tmp_path / "t"))
    damage(store, 2)
    repair(store)
    assert lancecy.dataset(store.uri).to_table()["n"].to_pylist() == ["a", "b", "a"]


# -- another table's manifest -------------------------------------------------------------------------


def transaction_of(store: LocalStore, version: int) -> str:
    (path,) = (path for path in files(store) if path.startswith(f"_transactions/{version - 1}-"))
    return path


def test_newest_manifest_of_another_table_is_set_aside(store: LocalStore, tmp_path: Path) -> None:
    other = made(tmp_path / "other", first=100)
    store.put(path_of(5), other.get(path_of(5)).tobytes())
    assert repair(store, every=False) == ()
    (one,) = repair(store)
    assert (one.version, one.rows_of) == (5, 4) and "another table's" in one.problem
    assert files(store)[one.kept_as] == files(other)[path_of(5)]
    assert rows(store) == [0, 1, 2, 3]


@pytest.mark.parametrize("there", ["transaction", "data", "no transaction at all"])
def test_manifest_is_another_tables_only_if_everything_says_so(
    store: LocalStore, tmp_path: Path, there: str
) -> None:
    other = made(tmp_path / "other", first=100)
    store.put(path_of(5), other.get(path_of(5)).tobytes())
    names = [path for path in files(other) if path.startswith("data/")]
    copied = {"transaction": transaction_of(other, 5), "data": names[-1]}
    if there in copied:
        store.put(copied[there], other.get(copied[there]).tobytes())
    else:
        store.delete([path for path in files(store) if path.startswith("_transactions/")])
    before = files(store)
    assert repair(store) == () and files(store) == before


def test_manifest_of_another_tables_other_version_is_damaged(store: LocalStore) -> None:
    store.put(path_of(5), store.get(path_of(2)).tobytes())
    (one,) = repair(store, every=False)
    assert one.problem == "the manifest named for version 5 is of version 2"
    assert rows(store) == [0, 1, 2, 3] and rows(store, 2) == [0, 1]
