"""Finding manifests: by listing, by number, by time."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lancecy.errors import DatasetNotFoundError, FormatError, LimitError, NotFoundError
from lancecy.limits import Limits
from lancecy.store.base import Store, StoreTraits
from lancecy.store.local import LocalStore
from lancecy.store.memory import MemoryStore
from lancecy.store.wrap import CountingStore
from lancecy.table.paths import Naming
from lancecy.table.versions import locate
from tests.helpers.builders import MADE_AT, encode_manifest, make_fragment, make_manifest, write_manifest
from tests.helpers.folded import folded

OBJECT_STORE = StoreTraits(lists_in_order=True, create_is_atomic=True)
SOME = (1, 2, 9, 10, 11)


@pytest.fixture(params=["local", "memory", "in order"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """A disk, a dictionary, and something that lists as S3 does."""
    if request.param == "local":
        return LocalStore(str(tmp_path / "t.lance"))
    return MemoryStore(traits=OBJECT_STORE) if request.param == "in order" else MemoryStore()


def fill(store: Store, naming: Naming, versions: tuple[int, ...] = SOME) -> None:
    for version in versions:
        made = MADE_AT + timedelta(hours=version)
        write_manifest(store, make_manifest(version=version, timestamp=made), naming)


@pytest.mark.parametrize("naming", list(Naming))
def test_latest_is_the_largest_version_whatever_the_names(store: Store, naming: Naming) -> None:
    fill(store, naming)
    found = locate.latest(store)
    assert (found.version, found.naming) == (11, naming)
    assert found.size == store.head(found.path).size


@pytest.mark.parametrize("naming", list(Naming))
def test_other_names_in_the_folder_do_not_matter(store: Store, naming: Naming) -> None:
    fill(store, naming)
    for name in (
        "latest_version_hint.json",
        "99.manifest#1",
        "99.manifest-7b1c2e9e-0000-4000-8000-000000000000",
        f"d{(1 << 63) + 4}.manifest",
        ".tmp_99.manifest",
        "notes/99.manifest",
        "99999999999999999999.manifest",
    ):
        store.put(f"_versions/{name}", b'{"version":99}')
    store.put("99.manifest", b"x")
    assert locate.latest(store).version == 11
    assert [v.version for v in locate.list_versions(store)] == list(SOME)


def test_no_dataset_is_said_so(store: Store) -> None:
    store.put("data/x.lance", b"x")
    store.put("_versions/foo.manifest", b"x")
    for look in (locate.latest, locate.locations, lambda s: locate.at_version(s, 3)):
        with pytest.raises(DatasetNotFoundError, match="no Lance dataset"):
            look(store)


def test_two_naming_schemes_are_an_error(tmp_path: Path) -> None:
    for first, second in ((1, 2), (2, 1), (19, 3), (100, 2)):
        store = LocalStore(str(tmp_path / f"{first}-{second}"))
        fill(store, Naming.V1, (first,))
        fill(store, Naming.V2, (second,))
        with pytest.raises(FormatError, match="both naming schemes"):
            locate.latest(store)
        with pytest.raises(FormatError, match="both naming schemes"):
            locate.locations(store)


def test_v2_names_on_an_object_store_take_one_short_listing() -> None:
    inner = MemoryStore(traits=OBJECT_STORE)
    fill(inner, Naming.V2)
    store = CountingStore(inner)
    assert locate.latest(store).version == 11
    assert store.count() == store.count("list") == 1


def test_v2_names_on_a_disk_stat_the_newest_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = LocalStore(str(tmp_path))
    fill(store, Naming.V2, tuple(range(1, 200)))
    from lancecy.store import local_files

    seen: list[str] = []
    original = local_files._entry_status

    def counting(entry: os.DirEntry[str], follow: bool) -> os.stat_result | None:
        seen.append(entry.name)
        return original(entry, follow)

    monkeypatch.setattr(local_files, "_entry_status", counting)
    assert locate.latest(store).version == 199
    assert len(seen) == 1


@pytest.mark.parametrize("naming", list(Naming))
def test_version_is_found_by_number(store: Store, naming: Naming) -> None:
    fill(store, naming)
    found = locate.at_version(store, 9)
    assert (found.version, found.naming) == (9, naming)
    manifest, memory = locate.read(store, found)
    assert manifest.version == 9
    assert memory.size == found.size


def test_detached_version_is_found_by_number_only(store: Store) -> None:
    fill(store, Naming.V2)
    detached = (1 << 63) + 8
    write_manifest(store, make_manifest(version=detached))
    assert locate.at_version(store, detached).version == detached
    assert locate.latest(store).version == 11


@folded("version", [3, 12, 0, -1, 2**64, 2**70, (1 << 63) + 1])
def test_missing_version_is_named_with_those_there_are(store: Store, version: int) -> None:
    fill(store, Naming.V2)
    with pytest.raises(NotFoundError) as caught:
        locate.at_version(store, version)
    assert caught.value.kind == "version"
    assert not isinstance(caught.value, DatasetNotFoundError)
    if 0 < version < 2**64:
        assert caught.value.known[:2] == ["11", "10"]


def test_name_and_content_must_agree_on_the_version(store: Store) -> None:
    store.put("_versions/4.manifest", encode_manifest(make_manifest(version=77)))
    with pytest.raises(FormatError, match=r"version 4 is of version 77"):
        locate.read(store, locate.latest(store))


def test_huge_manifest_file_is_not_copied(tmp_path: Path) -> None:
    LocalStore(str(tmp_path)).put("_versions/4.manifest", b"x")
    with (tmp_path / "_versions" / "4.manifest").open("wb") as file:
        file.truncate(1 << 40)
    untrusted = LocalStore(str(tmp_path), mapped=False)
    with pytest.raises(LimitError, match="metadata_bytes"):
        locate.read(untrusted, locate.latest(untrusted), Limits())


# -- versions and times ---------------------------------------------------------


@pytest.mark.parametrize("naming", list(Naming))
def test_versions_are_listed_in_order_and_read_when_asked(naming: Naming) -> None:
    inner = MemoryStore(traits=OBJECT_STORE)
    fill(inner, naming)
    store = CountingStore(inner)
    versions = locate.list_versions(store)
    assert [v.version for v in versions] == list(SOME)
    assert store.count("get", "get_many", "head") == 0
    assert versions[2].timestamp == MADE_AT + timedelta(hours=9)
    assert versions[2].timestamp == MADE_AT + timedelta(hours=9)
    assert versions[2].summary["total_fragments"].isdigit()
    assert store.count("get") == 1


def test_summary_counts_files_and_rows() -> None:
    store = MemoryStore()
    fragments = (make_fragment(3, physical_rows=None), make_fragment(4, physical_rows=30))
    write_manifest(store, make_manifest(version=2, fragments=fragments))
    (version,) = locate.list_versions(store)
    assert version.summary == {
        "total_data_file_rows": "30",
        "total_data_files": "2",
        "total_deletion_file_rows": "0",
        "total_deletion_files": "0",
        "total_files_size": "0",
        "total_fragments": "2",
        "total_rows": "30",
    }


@folded(("hours", "version"), [(1, 1), (8.9, 2), (9, 9), (9.999, 9), (10, 10), (11, 11), (5000, 11)])
def test_as_of_is_the_newest_at_or_before(store: Store, hours: float, version: int) -> None:
    fill(store, Naming.V2)
    moment = MADE_AT + timedelta(hours=hours)
    assert locate.as_of(store, moment).version == version
    assert locate.as_of(store, moment.isoformat()).version == version
    assert locate.as_of(store, moment.astimezone().replace(tzinfo=None)).version == version


def test_as_of_before_the_first_version_is_not_found(store: Store) -> None:
    fill(store, Naming.V2)
    with pytest.raises(NotFoundError, match="no version as old as"):
        locate.as_of(store, MADE_AT)


def test_as_of_reads_from_the_newest_back_only_as_far_as_needed() -> None:
    inner = MemoryStore(traits=OBJECT_STORE)
    fill(inner, Naming.V2)
    store = CountingStore(inner)
    assert locate.as_of(store, MADE_AT + timedelta(hours=10)).version == 10
    assert store.count("get") == 2


def test_version_without_a_time_counts_as_old(store: Store) -> None:
    write_manifest(store, make_manifest(version=3, timestamp=None))
    assert locate.as_of(store, "1999-01-01").version == 3


def test_times_are_understood() -> None:
    moment = datetime(2024, 5, 1, 12, tzinfo=UTC)
    assert locate.parse_time("2024-05-01T12:00:00Z") == moment
    assert locate.parse_time("2024-05-01 13:00+01:00") == moment
    assert locate.parse_time(moment.astimezone().strftime("%Y-%m-%d %H:%M:%S")) == moment
    with pytest.raises(ValueError, match="ISO 8601"):
        locate.parse_time("yesterday")
    with pytest.raises(TypeError, match="not 5"):
        locate.parse_time(5)  # type: ignore[arg-type]
