"""Opening a dataset at a version, and what hangs off it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from lancecy.errors import (
    DatasetNotFoundError,
    FormatError,
    LimitError,
    MissingFileError,
    NotFoundError,
    PathPolicyError,
    TruncatedError,
    UnsupportedError,
)
from lancecy.limits import Limits
from lancecy.proto import table_pb2
from lancecy.session import Session
from lancecy.store.local import LocalStore
from lancecy.store.memory import MemoryStore
from lancecy.store.uri import register_store
from lancecy.store.wrap import CountingStore
from lancecy.table.manifest import DeletionFileType, ExternalFile, Manifest
from lancecy.table.paths import Naming
from lancecy.table.snapshot import Snapshot
from tests.helpers.builders import (
    MADE_AT,
    deletion_arrow,
    deletion_bitmap,
    make_base,
    make_data_file,
    make_deletion_file,
    make_fragment,
    make_manifest,
    row_id_sequence,
    segment,
    version_sequence,
    write_manifest,
)
from tests.helpers.snapshots import snapshot_of
from tests.table.recording import RecordingSession


def table(folder: Path, *manifests: Manifest, naming: Naming = Naming.V2, **parts: Any) -> LocalStore:
    """A dataset of manifests only."""
    store = LocalStore(str(folder))
    for manifest in manifests or (make_manifest(),):
        write_manifest(store, manifest, naming, **parts)
    return store


def opened(store: LocalStore, **options: Any) -> Snapshot:
    return snapshot_of(store.uri, session=Session(), **options)


def versions(*numbers: int) -> list[Manifest]:
    return [make_manifest(version=n, timestamp=MADE_AT + timedelta(days=n)) for n in numbers]


def test_snapshot_shows_what_the_manifest_says(tmp_path: Path) -> None:
    snapshot = opened(table(tmp_path))
    assert (snapshot.version, snapshot.uri) == (9, str(tmp_path))
    assert snapshot.manifest == make_manifest()
    assert snapshot.schema.names == ("a", "s", "p")
    assert [f.id for f in snapshot.fragments] == [12, 15]
    assert snapshot.is_mapped
    assert snapshot.latest_version() == 9


@pytest.mark.parametrize("naming", list(Naming))
def test_version_and_time_choose_the_snapshot(tmp_path: Path, naming: Naming) -> None:
    store = table(tmp_path, *versions(1, 2, 5), naming=naming)
    assert opened(store).version == 5
    assert opened(store, version=2).version == 2
    assert opened(store, asof=MADE_AT + timedelta(days=4)).version == 2
    assert opened(store, version=5, asof="1990-01-01").version == 5
    with pytest.raises(NotFoundError, match="no version 4; it has 5, 2, 1"):
        opened(store, version=4)
    with pytest.raises(NotFoundError, match="no version as old"):
        opened(store, asof="1990-01-01")


@pytest.mark.parametrize("version", [True, "3", 2.0])
def test_version_is_a_number(tmp_path: Path, version: Any) -> None:
    with pytest.raises(TypeError, match="version is a number"):
        opened(table(tmp_path), version=version)


def test_missing_dataset_is_a_file_not_found_error(tmp_path: Path) -> None:
    for arguments in ({}, {"version": 3}, {"asof": "2030-01-01"}, {"recover": True}):
        with pytest.raises(FileNotFoundError, match="no Lance dataset") as caught:
            snapshot_of(str(tmp_path / "nope"), session=Session(), **arguments)
        assert isinstance(caught.value, DatasetNotFoundError)


def test_opening_takes_one_listing_and_one_read() -> None:
    store = CountingStore(MemoryStore("counted://one"))
    write_manifest(store, make_manifest())
    store.clear()
    register_store("counted", lambda uri, options, *, mapped, follow_symlinks: store)
    snapshot = snapshot_of("counted://one", session=Session())
    assert snapshot.row_counts.num_rows == 65
    assert [r.method for r in store.requests if r.method != "list"] == ["get"]
    assert store.count("list") <= 2


def test_unreadable_flag_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="4096"):
        opened(table(tmp_path, make_manifest(reader_flags=4096)))


def test_limits_apply(tmp_path: Path) -> None:
    store = table(tmp_path)
    with pytest.raises(LimitError, match=r"Limits\.fragments"):
        opened(store, limits=Limits(fragments=1))
    with pytest.raises(LimitError):
        snapshot_of(store.uri, session=Session(limits=Limits(fields=2)))


def test_options_are_remembered_for_the_tasks_of_this_process(tmp_path: Path) -> None:
    session = Session()
    snapshot_of(table(tmp_path).uri, session=session, storage_options={"key": "K"})
    assert session.options_for(str(tmp_path)) == {"key": "K"}


# -- rows --------------------------------------------------------------------------


def test_row_counts_are_known_where_the_manifest_says(tmp_path: Path) -> None:
    deleted, unknown = make_deletion_file(), make_deletion_file(num_deleted_rows=None)
    fragments = (
        make_fragment(1),
        make_fragment(2, deletion_file=deleted),
        make_fragment(3, deletion_file=unknown),
        make_fragment(4, physical_rows=None),
    )
    counts = opened(table(tmp_path, make_manifest(fragments=fragments))).row_counts
    assert counts.physical == (40, 40, 40, None)
    assert counts.live == (40, 37, None, None)
    assert counts.num_rows is None
    known = opened(table(tmp_path / "b", make_manifest(fragments=fragments[:2]))).row_counts
    assert known.num_rows == 77
    assert opened(table(tmp_path / "c", make_manifest(fragments=()))).row_counts.num_rows == 0


@pytest.mark.parametrize("untrusted", [False, True])
@pytest.mark.parametrize("form", list(DeletionFileType))
def test_deletions_are_loaded_once(tmp_path: Path, form: DeletionFileType, untrusted: bool) -> None:
    file = make_deletion_file(file_type=form)
    fragment = make_fragment(deletion_file=file)
    store = table(tmp_path, make_manifest(fragments=(fragment,)))
    data = deletion_arrow([39, 0, 7]) if form is DeletionFileType.ARROW else deletion_bitmap([39, 0, 7])
    store.put(f"_deletions/12-6-77.{'arrow' if form is DeletionFileType.ARROW else 'bin'}", data)
    snapshot = opened(store, untrusted=untrusted)
    vector = snapshot.deletions(fragment)
    assert vector is not None
    assert vector.offsets.tolist() == [0, 7, 39]
    assert snapshot.deletions(fragment, 40) is vector
    assert snapshot.deletions(make_fragment()) is None
    with pytest.raises(FormatError, match=r"row 39 of a fragment of 39 rows .*12-6-77"):
        snapshot.deletions(fragment, 39)


def linked_table(folder: Path) -> LocalStore:
    """A table whose deletion file and sequences are links to files elsewhere."""
    parts = {
        "_deletions/12-6-77.arrow": deletion_arrow([2]),
        "_ids/4.bin": row_id_sequence(segment("range_with_holes", [5, 6, 8])),
        "_ids/5.bin": version_sequence([(3, 3)]),
    }
    fragment = make_fragment(
        physical_rows=3,
        deletion_file=make_deletion_file(num_deleted_rows=1),
        row_ids=ExternalFile("_ids/4.bin", 0, len(parts["_ids/4.bin"])),
        created_at_versions=ExternalFile("_ids/5.bin", 0, len(parts["_ids/5.bin"])),
    )
    store = table(folder / "t", make_manifest(fragments=(fragment,), reader_flags=3))
    for path, data in parts.items():
        target, link = folder / Path(path).name, folder / "t" / path
        target.write_bytes(data)
        link.parent.mkdir(exist_ok=True)
        link.symlink_to(target)
    return store


@pytest.mark.parametrize("what", ["deletions", "row_ids", "created_versions"])
def test_trusted_reads_do_not_answer_for_untrusted_ones(tmp_path: Path, what: str) -> None:
    session, store = Session(), linked_table(tmp_path)
    trusted = snapshot_of(store.uri, session=session)
    (fragment,) = trusted.fragments
    found = getattr(trusted, what)(fragment)
    assert found is not None
    strict = snapshot_of(store.uri, session=session, untrusted=True)
    for _ in range(2):
        with pytest.raises(PathPolicyError, match="symbolic link"):
            getattr(strict, what)(fragment)
    again = snapshot_of(store.uri, session=session)
    assert getattr(again, what)(fragment) is found


@pytest.mark.parametrize(
    "options",
    [
        {"untrusted": True},
        {"allowed_bases": ["/elsewhere"]},
        {"storage_options": {"key": "K"}},
        {"limits": Limits(metadata_bytes=1 << 29)},
    ],
    ids=lambda options: next(iter(options)),
)
def test_cached_parts_are_those_of_one_way_to_open(tmp_path: Path, options: dict[str, Any]) -> None:
    fragment = make_fragment(deletion_file=make_deletion_file())
    session, store = Session(), table(tmp_path, make_manifest(fragments=(fragment,)))
    store.put("_deletions/12-6-77.arrow", deletion_arrow([39, 0, 7]))
    plain, other = (snapshot_of(store.uri, session=session, **given) for given in ({}, options))
    found = plain.deletions(fragment)
    assert found is not None
    assert snapshot_of(store.uri, session=session).deletions(fragment) is found
    assert other.deletions(fragment) is not found
    assert snapshot_of(store.uri, session=session, **options).deletions(fragment) is other.deletions(fragment)


def test_missing_or_damaged_deletion_file_is_named(tmp_path: Path) -> None:
    fragment = make_fragment(deletion_file=make_deletion_file())
    store = table(tmp_path, make_manifest(fragments=(fragment,)))
    with pytest.raises(MissingFileError, match=r"deletion file .*12-6-77\.arrow.* of fragment 12"):
        opened(store).deletions(fragment)
    store.put("_deletions/12-6-77.arrow", b"nonsense")
    with pytest.raises(FormatError, match=r"12-6-77\.arrow"):
        opened(store).deletions(fragment)


def test_sequences_are_decoded_inline_and_from_files(tmp_path: Path) -> None:
    ids = row_id_sequence(segment("range_with_holes", [5, 6, 8]))
    created = version_sequence([(2, 3), (1, 4)])
    inline = make_fragment(3, physical_rows=3, row_ids=ids, created_at_versions=created)
    external = make_fragment(
        4,
        physical_rows=3,
        row_ids=ExternalFile("_ids/4.bin", 2, len(ids)),
        last_updated_versions=ExternalFile("_ids/4.bin", 2 + len(ids), len(created)),
    )
    store = table(tmp_path, make_manifest(fragments=(inline, external), reader_flags=2))
    store.put("_ids/4.bin", b"xx" + ids + created + b"yy")
    snapshot = opened(store)
    for fragment in snapshot.fragments:
        sequence = snapshot.row_ids(fragment)
        assert sequence is not None
        assert sequence.ids(0, 3).tolist() == [5, 6, 8]
        assert snapshot.row_ids(fragment) is sequence
    both = [(snapshot.created_versions(f), snapshot.updated_versions(f)) for f in snapshot.fragments]
    found = [[v.between(0, 3).tolist() for v in pair if v is not None] for pair in both]
    assert found == [[[3, 3, 4], [1, 1, 1]], [[1, 1, 1], [3, 3, 4]]]


def test_missing_sequences_are_none(tmp_path: Path) -> None:
    snapshot = opened(table(tmp_path, make_manifest(fragments=(make_fragment(physical_rows=None),))))
    (fragment,) = snapshot.fragments
    assert snapshot.row_ids(fragment) is None
    assert snapshot.created_versions(fragment) is None


@pytest.mark.parametrize(
    ("where", "error"),
    [
        (ExternalFile("_ids/4.bin", 9, 2), TruncatedError),
        (ExternalFile("_ids/4.bin", 2**63, 1), TruncatedError),
        (ExternalFile("_ids/4.bin", 0, 11), TruncatedError),
        (ExternalFile("_ids/4.bin", 0, 2**40), LimitError),
        (ExternalFile("../4.bin", 0, 1), PathPolicyError),
        (ExternalFile("_ids/5.bin", 0, 1), MissingFileError),
        (ExternalFile("_ids/4.bin", 0, 10), FormatError),
    ],
)
def test_external_sequence_that_cannot_be_is_refused(
    tmp_path: Path, where: ExternalFile, error: type[Exception]
) -> None:
    store = table(tmp_path, make_manifest(fragments=(make_fragment(row_ids=where),)))
    store.put("_ids/4.bin", b"\xff" * 10)
    snapshot = opened(store)
    with pytest.raises(error):
        snapshot.row_ids(snapshot.fragments[0])


# -- files -------------------------------------------------------------------------


def test_source_has_the_size_of_the_store_not_of_the_manifest(tmp_path: Path) -> None:
    store = table(tmp_path)
    store.put("data/f.lance", b"x" * 2615)
    source = opened(store).source(make_data_file(file_size_bytes=845))
    assert (source.store.uri, source.path, source.size) == (str(tmp_path), "data/f.lance", 2615)
    assert source.identity
    with pytest.raises(DatasetNotFoundError, match=r"g\.lance"):
        opened(store).source(make_data_file(path="g.lance"))


def test_dictionary_values_are_in_the_manifest_file(tmp_path: Path) -> None:
    store = table(tmp_path, dictionaries=b"\x01\x02\x03")
    source = opened(store).dictionary_source()
    assert source.store.get(source.path, 0, 3).tobytes() == b"\x01\x02\x03"
    assert source.size == store.head(source.path).size


def test_identity_tells_tables_made_anew_apart(tmp_path: Path) -> None:
    first = opened(table(tmp_path / "a", make_manifest()))
    same = opened(table(tmp_path / "b", make_manifest()))
    later = opened(table(tmp_path / "c", make_manifest(timestamp=MADE_AT + timedelta(microseconds=1))))
    assert first.identity == same.identity != later.identity


def test_files_of_bases_are_read_from_there(tmp_path: Path) -> None:
    other = LocalStore(str(tmp_path / "other"))
    other.put("data/f.lance", b"12345")
    other.put("_deletions/12-6-77.arrow", deletion_arrow([1, 2, 3]))
    fragment = make_fragment(
        files=(make_data_file(base_id=1),), deletion_file=make_deletion_file(base_id=1), physical_rows=40
    )
    manifest = make_manifest(fragments=(fragment,), base_paths={1: make_base(1, other.uri)}, reader_flags=17)
    store = table(tmp_path / "t", manifest)
    snapshot = opened(store)
    assert snapshot.is_mapped
    assert snapshot.source(fragment.files[0]).size == 5
    vector = snapshot.deletions(fragment)
    assert vector is not None
    assert len(vector) == 3
    strict = opened(store, untrusted=True)
    assert not strict.is_mapped
    for act in (lambda: strict.source(fragment.files[0]), lambda: strict.deletions(fragment)):
        with pytest.raises(PathPolicyError, match="allowed_bases"):
            act()
    granted = opened(store, untrusted=True, allowed_bases=[str(tmp_path / "other")])
    assert granted.source(fragment.files[0]).size == 5


def test_links_are_not_followed_for_untrusted_tables(tmp_path: Path) -> None:
    store = table(tmp_path / "t")
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret")
    (tmp_path / "t" / "data").mkdir()
    (tmp_path / "t" / "data" / "f.lance").symlink_to(secret)
    assert opened(store).source(make_data_file()).size == 6
    with pytest.raises(PathPolicyError, match="symbolic link"):
        opened(store, untrusted=True).source(make_data_file())


def test_indices_are_carried(tmp_path: Path) -> None:
    entry = table_pb2.IndexMetadata(name="a_idx", fields=[0])
    entry.uuid.uuid = bytes(16)
    section = table_pb2.IndexSection(indices=[entry]).SerializeToString()
    (found,) = opened(table(tmp_path, indices=section)).indices()
    assert (found.name, found.raw) == ("a_idx", entry.SerializeToString())
    assert opened(table(tmp_path / "b")).indices() == ()


def test_credentials_in_the_uri_become_options_and_stay_out_of_it() -> None:
    session = RecordingSession()
    with pytest.raises(DatasetNotFoundError) as caught:
        snapshot_of(
            "ftp://me:hunter2@host/t", session=session, storage_options={"port": 21, "base_3.port": 22}
        )
    assert session.opened == [
        ("ftp://host/t", {"username": "me", "password": "hunter2", "port": 21}, True, True)
    ]
    assert "hunter2" not in str(caught.value)
