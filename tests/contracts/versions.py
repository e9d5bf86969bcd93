"""What every version store promises; a test module inherits the class and gives it a ``table``.

The contract runs over real stores. The simulator runs the same version stores under faults.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest

from lancecy.errors import ConflictError, FormatError, LanceError, StoreError
from lancecy.store.base import Store
from lancecy.table.answers import answer, run_on
from lancecy.table.paths import Naming
from lancecy.table.requests import Pause, Request, Steps
from lancecy.table.versions import ManifestLocation, Outcome, VersionStore

__all__ = ["Published", "VersionStoreContract"]

STRANGERS = (
    "latest_version_hint.json",
    "99.manifest#1",
    "99.manifest-7b1c2e9e-0000-4000-8000-000000000000",
    f"d{(1 << 63) + 4}.manifest",
    ".tmp_99.manifest",
    "notes/99.manifest",
    "99999999999999999999.manifest",
)


@dataclass(frozen=True)
class Published:
    """A version store and the store of its table."""

    store: Store
    versions: VersionStore

    def publish(self, version: int, data: bytes, naming: Naming = Naming.V2) -> Outcome:
        return run_on(self.versions.publish(version, naming, data), self.store)

    def latest(self) -> int | None:
        found = run_on(self.versions.latest(), self.store)
        return None if found is None else found.version

    def replace(self, version: int, seen: bytes, data: bytes) -> bool:
        location = self.at(version)
        assert location is not None
        return run_on(self.versions.replace(location, seen, data), self.store)

    def all(self, above: int = 0, naming: Naming | None = None) -> list[int]:
        return [found.version for found in run_on(self.versions.versions(above, naming), self.store)]

    def read(self, location: ManifestLocation | None) -> bytes:
        assert location is not None
        return self.store.get(location.path).tobytes()

    def at(self, version: int) -> ManifestLocation | None:
        return run_on(self.versions.at(version), self.store)


def _until(steps: Steps[Any], store: Store, count: int) -> None:
    """Answer so many requests of a generator; then its process is gone."""
    try:
        request = next(steps)
        for _ in range(count):
            request = _answered(steps, request, store)
    except StopIteration:
        pass


def _answered(steps: Steps[Any], request: Request, store: Store) -> Request:
    """The request after one that a store answers."""
    try:
        found = answer(request, store)
    except LanceError as error:
        return steps.throw(error)
    return steps.send(found)


def _is_done(steps: Steps[Any], store: Store, count: int) -> bool:
    """Whether a generator returns although only so many requests are answered and all later ones fail."""
    try:
        request = next(steps)
        for number in itertools.count():
            if isinstance(request, Pause):
                request = steps.send(None)
            elif number < count:
                request = _answered(steps, request, store)
            else:
                request = steps.throw(StoreError("the storage is gone"))
    except StopIteration:
        return True
    except StoreError:
        return False
    return False


class VersionStoreContract:
    """Tests over the fixture ``table``: a ``Published`` of an empty table, which the subclass defines."""

    def test_table_without_versions_has_none(self, table: Published) -> None:
        assert table.latest() is None
        assert table.all() == []
        assert table.at(1) is None

    @pytest.mark.parametrize("naming", list(Naming))
    def test_published_versions_are_found(self, table: Published, naming: Naming) -> None:
        for version in range(1, 13):
            assert table.publish(version, b"manifest %d" % version, naming) is Outcome.WON
            assert table.latest() == version
        assert table.all() == list(range(1, 13))
        assert table.all(9) == table.all(9, naming) == [10, 11, 12]
        assert table.read(table.at(9)) == b"manifest 9"
        assert run_on(table.versions.at(9, naming), table.store) == ManifestLocation.canonical(9, naming)
        assert table.at(13) is None

    def test_published_version_never_changes(self, table: Published) -> None:
        assert table.publish(1, b"mine") is Outcome.WON
        assert table.publish(1, b"theirs") is Outcome.LOST
        assert table.read(table.at(1)) == b"mine"
        assert table.all() == [1]

    def test_published_version_has_its_final_name(self, table: Published) -> None:
        for naming in Naming:
            table.publish(naming.value, b"x", naming)
            assert table.store.head(ManifestLocation.canonical(naming.value, naming).path).size == 1

    def test_other_files_are_no_versions(self, table: Published) -> None:
        table.publish(7, b"x")
        for name in STRANGERS:
            table.store.put(f"_versions/{name}", b"?")
        assert (table.latest(), table.all()) == (7, [7])

    def test_manifest_files_include_detached_ones_and_those_of_branches(self, table: Published) -> None:
        table.publish(7, b"x")
        detached, branch = f"_versions/d{(1 << 63) + 4}.manifest", "tree/a/b/_versions/3.manifest"
        for path in (detached, branch, "tree/a/b/data/3.manifest"):
            table.store.put(path, b"?")
        found = {file.meta.path: file.name for file in run_on(table.versions.manifests(), table.store)}
        assert set(found) == {ManifestLocation.canonical(7, Naming.V2).path, detached, branch}
        assert found[detached].detached and not found[branch].detached

    def test_renamed_manifests_are_a_conflict_for_a_writer(self, table: Published) -> None:
        for version in (1, 2, 3):
            table.publish(version, b"x", Naming.V2)
        with pytest.raises(ConflictError, match="renamed"):
            table.all(2, Naming.V1)

    def test_two_naming_schemes_are_an_error(self, table: Published) -> None:
        table.publish(1, b"x", Naming.V1)
        table.store.put(ManifestLocation.canonical(2, Naming.V2).path, b"x")
        with pytest.raises(FormatError, match="both naming schemes"):
            table.all()

    def test_removed_versions_are_gone(self, table: Published) -> None:
        for version in (1, 2, 3):
            table.publish(version, b"x")
        paths = [ManifestLocation.canonical(version, Naming.V2).path for version in (1, 2)]
        for _ in range(2):
            run_on(table.versions.remove(paths), table.store)
            assert (table.latest(), table.all()) == (3, [3])
            assert table.at(2) is None

    def test_damaged_version_is_replaced_and_keeps_its_number(self, table: Published) -> None:
        for version in (1, 2, 3):
            table.publish(version, b"torn %d" % version)
        for _ in range(2):  # a second repair does no harm
            assert table.replace(3, b"torn 3", b"sound 3")
            assert table.replace(2, b"torn 2", b"sound 2")
        assert [table.read(table.at(version)) for version in (1, 2, 3)] == [b"torn 1", b"sound 2", b"sound 3"]
        assert (table.latest(), table.all()) == (3, [1, 2, 3])
        assert table.publish(3, b"late") is Outcome.LOST

    def test_version_with_another_manifest_than_the_damaged_one_is_not_replaced(
        self, table: Published
    ) -> None:
        table.publish(1, b"finished meanwhile")
        assert not table.replace(1, b"finish", b"sound")
        assert table.read(table.at(1)) == b"finished meanwhile"

    def test_removed_version_is_not_made_again_by_a_late_repair(self, table: Published) -> None:
        for version in (1, 2):
            table.publish(version, b"torn")
        location = table.at(1)
        assert location is not None
        run_on(table.versions.remove([location.path]), table.store)
        assert not run_on(table.versions.replace(location, b"torn", b"sound"), table.store)
        assert table.all() == [2]

    def test_failed_replacement_is_reported_and_can_be_repeated(self, table: Published) -> None:
        table.publish(1, b"torn")
        location = table.at(1)
        assert location is not None
        for count in range(6):
            done = _is_done(table.versions.replace(location, b"torn", b"sound"), table.store, count)
            assert table.read(table.at(1)) == (b"sound" if done else b"torn")
        assert done

    def test_one_of_many_writers_wins_each_version(self, table: Published) -> None:
        for version in range(1, 6):
            with ThreadPoolExecutor(8) as pool:
                found = list(pool.map(lambda n, v=version: table.publish(v, b"%d" % n), range(8)))
            assert found.count(Outcome.WON) == 1
            assert set(found) <= {Outcome.WON, Outcome.LOST}
            assert table.read(table.at(version)) == b"%d" % found.index(Outcome.WON)

    def test_writer_that_dies_anywhere_leaves_a_table_that_goes_on(
        self, make_table: Callable[[], Published]
    ) -> None:
        seen = set()
        for count in range(12):
            table = make_table()
            table.publish(1, b"first")
            _until(table.versions.publish(2, Naming.V2, b"second"), table.store, count)
            newest = table.latest()
            seen.add(newest)
            assert table.all() == list(range(1, newest + 1 if newest else 0))
            if newest == 2:
                assert table.read(table.at(2)) == b"second"
                assert table.store.get(ManifestLocation.canonical(2, Naming.V2).path).tobytes() == b"second"
            assert table.publish((newest or 0) + 1, b"next") is Outcome.WON
            assert table.read(table.at((newest or 0) + 1)) == b"next"
        assert seen == {1, 2}
