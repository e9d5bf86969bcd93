"""Committing to real stores: what is carried along, what is refused, and what is left behind."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lancecy import __version__
from lancecy.errors import (
    CommitError,
    CommitUnknownError,
    ConflictError,
    ExistsError,
    FormatError,
    LimitError,
    NotFoundError,
    PathPolicyError,
    SchemaError,
    StoreError,
    UnsupportedError,
)
from lancecy.proto import table_pb2
from lancecy.schema import Field, Schema
from lancecy.session import Session
from lancecy.store.base import Memory, ObjectMeta, PutMode
from lancecy.store.local import LocalStore
from lancecy.store.memory import MemoryStore
from lancecy.store.wrap import CountingStore, Pairs, WrappedStore
from lancecy.table.commit.driver import _place, check_create, commit_to
from lancecy.table.commit.options import Committed, Origin, Policy
from lancecy.table.location import TableLocation
from lancecy.table.manifest import DataFile, Fragment
from lancecy.table.operations import (
    Append,
    Delete,
    MapUpdate,
    Operation,
    Overwrite,
    ReserveFragments,
    Restore,
    UpdateConfig,
    new_transaction,
)
from lancecy.table.operations.apply import WRITER
from lancecy.table.paths import Naming, manifest_name
from lancecy.table.versions import LocalLink, VersionStore
from lancecy.table.versions.locate import at_version, latest, locations, read
from lancecy.table.wire.manifest import encode
from lancecy.table.wire.manifest_file import ManifestFile, decode_manifest_file
from tests.helpers.builders import make_deletion_file, make_manifest, memory_of, write_manifest
from tests.helpers.external_versions import external_versions
from tests.helpers.faults import Fault, FaultyStore

SCHEMA = Schema((Field("a", 0, logical_type="int64"), Field("b", 1, logical_type="string", nullable=False)))
SESSION = Session()


class Table:
    """A table of a memory store whose data files are bytes without meaning."""

    def __init__(self, store: Any = None, **options: Any) -> None:
        self.store = store if store is not None else MemoryStore()
        self.count = 0
        if options.pop("create", True):
            self.change(Overwrite(self.files(1), SCHEMA, data_version="2.1", **options), None)

    def files(self, count: int, *, size: int = 30, **changes: Any) -> tuple[Fragment, ...]:
        made = []
        for _ in range(count):
            self.count += 1
            path = f"file{self.count}.lance"
            self.store.put(f"data/{path}", bytes(size))
            file = DataFile(path, (0, 1), (0, 1), 2, 1, size)
            made.append(Fragment(0, (file,), physical_rows=9 + self.count))
        return tuple(Fragment(**{**_parts(f), **changes}) for f in made)

    def change(self, operation: Operation, version: int | None = -1, **given: Any) -> Committed:
        if version == -1:
            version = latest(self.store).version
        policy, given_versions = given.pop("policy", None), given.pop("versions", None)
        identity = given.pop("identity", None)
        origin = None if version is None else Origin(version, latest(self.store).naming, identity)
        transaction = new_transaction(operation, version or 0, **given)
        return commit_to(
            self.store, transaction, origin, SESSION, TableLocation(self.store.uri), policy, given_versions
        )

    def stored(self, version: int | None = None) -> ManifestFile:
        location = latest(self.store) if version is None else at_version(self.store, version)
        return decode_manifest_file(self.store.get(location.path), location.path, location.version)

    def rewrite(self, change: Any, **sections: Any) -> None:
        """Replace the newest manifest by one that another writer might have left."""
        stored, location = self.stored(), latest(self.store)
        message = table_pb2.Manifest()
        message.CopyFrom(stored.message)
        change(message)
        parts = {"indices": stored.indices, "transaction": stored.transaction, **sections}
        self.store.put(location.path, encode(message, **parts))


def _parts(fragment: Fragment) -> dict[str, Any]:
    return {name: getattr(fragment, name) for name in Fragment.__dataclass_fields__}


def _unknown(number: int, data: bytes) -> bytes:
    """A length-delimited field that no release knows."""
    return bytes([number << 3 & 0x7F | 0x82, number >> 4, len(data)]) + data


# -- what is carried ------------------------------------------------------------------------------


def test_fields_nobody_knows_survive_every_change() -> None:
    table = Table()

    def mark(message: table_pb2.Manifest) -> None:
        message.MergeFromString(_unknown(90, b"of the manifest"))
        message.fields[0].MergeFromString(_unknown(91, b"of a field"))
        message.fragments[0].MergeFromString(_unknown(92, b"of a fragment"))
        message.fragments[0].files[0].MergeFromString(_unknown(93, b"of a file"))

    table.rewrite(mark)
    for operation in (
        Append(table.files(2)),
        Delete({0: np.array([2, 5])}),
        UpdateConfig(MapUpdate({"k": "v"}), field_metadata={0: MapUpdate({"f": "g"})}),
        ReserveFragments(2),
        Restore(2),
    ):
        table.change(operation)
        data = table.stored().message.SerializeToString()
        marks = (b"of the manifest", b"of a field", b"of a fragment", b"of a file")
        assert [mark for mark in marks if mark not in data] == []


def test_transaction_of_a_delete_keeps_what_nobody_knows_of_a_fragment() -> None:
    table = Table()
    table.rewrite(lambda message: message.fragments[0].MergeFromString(_unknown(92, b"of a fragment")))
    table.change(Delete({0: np.array([2])}))
    assert b"of a fragment" in (table.stored().transaction or b"")


def test_inline_transaction_and_file_are_the_same_bytes() -> None:
    table = Table()
    table.change(Append(table.files(1)), properties={"__lance_commit_message": "more"})
    stored = table.stored()
    name = stored.manifest.transaction_file
    assert name is not None and name.startswith("1-") and name.endswith(".txn")
    assert table.store.get(f"_transactions/{name}").tobytes() == stored.transaction


def test_index_section_moves_with_its_bytes() -> None:
    table = Table()
    entry = table_pb2.IndexMetadata(uuid=table_pb2.UUID(uuid=bytes(16)), name="i", fragment_bitmap=b"x")
    entry.MergeFromString(_unknown(95, b"of an index"))
    section = table_pb2.IndexSection(indices=[entry]).SerializeToString()
    table.rewrite(lambda message: None, indices=section)
    table.change(Append(table.files(1)))
    assert table.stored().indices == section
    table.change(Overwrite(table.files(1), SCHEMA))
    assert table.stored().indices is None
    table.change(Restore(2))
    assert table.stored().indices == section


def test_rows_in_a_write_ahead_log_are_not_cut_off() -> None:
    table = Table()
    entry = table_pb2.IndexMetadata(uuid=table_pb2.UUID(uuid=bytes(16)), name="__lance_mem_wal")
    section = table_pb2.IndexSection(indices=[entry]).SerializeToString()
    table.rewrite(lambda message: None, indices=section)
    for operation in (Overwrite(table.files(1), SCHEMA), Restore(1)):
        with pytest.raises(UnsupportedError, match="write-ahead log"):
            table.change(operation)
    table.change(Append(table.files(1)))
    assert table.stored().indices == section


def test_dictionary_values_of_old_tables_keep_their_place() -> None:
    table = Table()
    values = b"0123456789values of a dictionary"

    def old(message: table_pb2.Manifest) -> None:
        message.fields[1].dictionary.offset, message.fields[1].dictionary.length = 10, 3
        message.data_format.version = "0.1"
        for file in message.fragments[0].files:
            file.file_major_version, file.file_minor_version = 0, 2

    table.rewrite(old, dictionaries=values)
    table.change(UpdateConfig(MapUpdate({"k": "v"})))
    assert table.stored().dictionaries == values
    assert table.store.get(latest(table.store).path).tobytes().startswith(values)


def test_tag_and_auxiliary_data_of_old_releases_are_of_one_version() -> None:
    table = Table()

    def mark(message: table_pb2.Manifest) -> None:
        message.tag, message.version_aux_data = "v1", 17

    for operation in (Append(table.files(1)), Delete({0: np.array([2])}), Restore(1)):
        table.rewrite(mark)
        table.change(operation)
        stored = table.stored().message
        assert (stored.tag, stored.version_aux_data) == ("", 0)


def test_version_says_who_wrote_it() -> None:
    writer = Table().stored().manifest.writer
    assert writer is not None and (writer.library, writer.version) == WRITER == ("lancecy", __version__)


def test_flags_follow_the_content() -> None:
    table = Table()
    assert table.stored().manifest.reader_flags == table.stored().manifest.writer_flags == 0
    table.change(UpdateConfig(MapUpdate({"k": "v"})))
    table.change(Delete({0: np.array([1])}))
    manifest = table.stored().manifest
    assert (manifest.reader_flags, manifest.writer_flags) == (1, 9)
    table.change(UpdateConfig(MapUpdate({"k": None})))
    table.change(Delete(removed=(0,)))
    manifest = table.stored().manifest
    assert (manifest.reader_flags, manifest.writer_flags, manifest.fragments) == (0, 0, ())


def test_flag_of_stable_row_ids_stays_on_an_empty_table() -> None:
    table = Table(stable_row_ids=True)
    table.change(Delete(removed=(0,)))
    assert table.stored().manifest.reader_flags == 2
    table.change(Append(table.files(1)))
    assert table.stored().manifest.fragments[0].row_ids is not None


def test_fragments_of_the_oldest_releases_get_ids() -> None:
    table = Table()
    table.change(Append(table.files(2)))

    def old(message: table_pb2.Manifest) -> None:
        message.ClearField("max_fragment_id")
        for fragment in message.fragments:
            fragment.id = 0

    table.rewrite(old)
    table.change(Append(table.files(1)))
    assert [fragment.id for fragment in table.stored().manifest.fragments] == [0, 1, 2, 3]


def test_missing_version_of_data_files_is_said_from_now_on() -> None:
    table = Table()
    table.rewrite(lambda message: message.ClearField("data_format"))
    table.change(Append(table.files(1)))
    assert table.stored().manifest.data_version == "2.1"


# -- what is refused ------------------------------------------------------------------------------


def test_table_is_created_once() -> None:
    table = Table()
    with pytest.raises(ExistsError, match="append to it or overwrite it"):
        table.change(Overwrite(table.files(1), SCHEMA, data_version="2.1"), None)
    assert len(locations(table.store)) == 1


@pytest.mark.parametrize("change", [Append(()), Restore(1), UpdateConfig(), Delete()])
def test_only_overwrite_creates(change: Operation) -> None:
    table = Table(create=False)
    with pytest.raises(ValueError, match="makes no table"):
        table.change(change, None)


def test_new_table_says_the_version_of_its_files() -> None:
    table = Table(create=False)
    with pytest.raises(ValueError, match="version of its data files"):
        table.change(Overwrite((), SCHEMA), None)


def test_missing_file_is_not_committed() -> None:
    table = Table()
    fragments = table.files(2)
    table.store.delete([f"data/{fragments[1].files[0].path}"])
    with pytest.raises(CommitError, match="'file3.lance' is missing; nothing was committed"):
        table.change(Append(fragments))
    assert latest(table.store).version == 1


def test_torn_file_is_not_committed() -> None:
    table = Table()
    fragments = table.files(1)
    table.store.put(f"data/{fragments[0].files[0].path}", bytes(29))
    with pytest.raises(CommitError, match="29 bytes instead of 30"):
        table.change(Append(fragments))
    table.change(Append(fragments), policy=Policy(check_files=False))


@pytest.mark.parametrize(("seconds_ago", "is_looked_at"), [(0, False), (11, True), (-60, True)])
def test_only_files_that_no_cleanup_can_have_removed_are_not_looked_at(
    seconds_ago: int, is_looked_at: bool
) -> None:
    table = Table()
    fragments = table.files(1)
    table.store.delete([f"data/{fragments[0].files[0].path}"])
    # A minute ahead: the clock was set back since.
    policy = Policy(written_ns=time.time_ns() - seconds_ago * 10**9)
    with pytest.raises(CommitError, match="is missing") if is_looked_at else nullcontext():
        table.change(Append(fragments), policy=policy)


def test_same_files_are_not_added_twice() -> None:
    table = Table()
    fragments = table.files(1)
    table.change(Append(fragments))
    with pytest.raises(ConflictError, match="part of the table already"):
        table.change(Append(fragments))
    with pytest.raises(ConflictError, match="in this change twice"):
        table.change(Append(table.files(1) * 2))
    assert latest(table.store).version == 2


@pytest.mark.parametrize(("changes", "error", "words"), [
    ({"physical_rows": None}, ValueError, "how many rows"),
    ({"files": ()}, ValueError, "no files"),
    ({"deletion_file": make_deletion_file()}, ValueError, "deleted rows"),
    ({"files": (DataFile("x.lance", (0,), (0,), 2, 1, 30),)}, SchemaError, "'b' may not be null"),
    ({"files": (DataFile("x.lance", (0, 1), (0, 1), 2, 1, 30, base_id=4),)}, SchemaError, "base 4"),
    ({"files": (DataFile("x.lance", (0, 1), (), 0, 2, 30),)}, SchemaError, "0.1"),
    ({"files": (DataFile("../x.lance", (0, 1), (0, 1), 2, 1, 30),)}, PathPolicyError, "separator"),
])  # fmt: skip
def test_fragment_that_does_not_fit_is_refused(
    changes: dict[str, Any], error: type[Exception], words: str
) -> None:
    table = Table()
    with pytest.raises(error, match=words):
        table.change(Append(table.files(1, **changes)))
    assert latest(table.store).version == 1


@pytest.mark.parametrize("change", [
    lambda message: setattr(message, "max_fragment_id", 2**32 - 1),
    lambda message: message.MergeFrom(table_pb2.Manifest(next_row_id=2**64 - 3, reader_feature_flags=2)),
])  # fmt: skip
def test_ids_that_are_used_up_are_an_error(change: Any) -> None:
    table = Table()
    table.rewrite(change)
    with pytest.raises(LimitError, match="used up"):
        table.change(Append(table.files(1)))


def test_last_version_is_the_last() -> None:
    table = Table()
    last = 2**63 - 1
    table.rewrite(lambda message: setattr(message, "version", last))
    stored = table.store.get(latest(table.store).path)
    table.store.delete([latest(table.store).path])
    table.store.put(f"_versions/{manifest_name(last)}", stored.tobytes())
    with pytest.raises((LimitError, ConflictError, FormatError), match="used up"):
        table.change(Append(table.files(1)))


def test_rows_to_delete_are_offsets_of_rows() -> None:
    table = Table()
    for rows in ([-1], [10], [3, 2], [3, 3]):
        with pytest.raises(ValueError, match="ascending offsets"):
            table.change(Delete({0: np.array(rows)}))
    with pytest.raises(ConflictError, match="fragment 8 is not in version 1"):
        table.change(Delete({8: np.array([1])}))
    with pytest.raises(SchemaError, match="no fragment 8"):
        table.change(Delete(removed=(8,)))


def test_version_to_restore_has_to_be_there() -> None:
    table = Table()
    with pytest.raises(NotFoundError, match="no version 7"):
        table.change(Restore(7))


def test_stable_row_ids_are_not_lost_by_a_restore() -> None:
    table = Table(stable_row_ids=True)
    table.change(Append(table.files(1)))
    old = at_version(table.store, 1)
    stored = table.stored(1)
    stored.message.reader_feature_flags = stored.message.writer_feature_flags = 0
    table.store.put(old.path, encode(stored.message, None, stored.transaction))
    with pytest.raises(UnsupportedError, match="no stable row ids"):
        table.change(Restore(1), 2)


def test_metadata_of_a_field_that_is_not_there_is_refused() -> None:
    with pytest.raises(SchemaError, match="no field with id 9"):
        Table().change(UpdateConfig(field_metadata={9: MapUpdate({"k": "v"})}))


def test_flag_that_is_not_kept_up_refuses_every_change() -> None:
    table = Table()
    table.rewrite(lambda message: setattr(message, "writer_feature_flags", 1024))
    with pytest.raises(UnsupportedError, match="1024 .tagged fragment-reuse"):
        table.change(UpdateConfig(MapUpdate({"k": "v"})))


# -- others were there ----------------------------------------------------------------------------


def test_table_made_anew_is_another_table() -> None:
    table = Table()
    identity = table.stored().identity
    again = Table(MemoryStore())
    with pytest.raises(ConflictError, match="created again"):
        again.change(Append(again.files(1)), 1, identity=identity)
    again.change(Append(again.files(1)))
    with pytest.raises(ConflictError, match="created again"):
        again.change(Append(again.files(1)), 1, identity=identity)


@pytest.mark.parametrize("how", ["no transaction", "damaged transaction", "file only", "old field"])
def test_version_that_does_not_say_what_made_it_conflicts(how: str) -> None:
    table = Table()
    table.change(Append(table.files(1)))
    stored, name = table.stored(), table.stored().manifest.transaction_file
    if how == "no transaction":
        table.store.delete([f"_transactions/{name}"])
    data = b"\xff\xff" if how == "damaged transaction" else None
    table.rewrite(lambda message: None, transaction=data)
    if how == "old field":
        body = table_pb2.Manifest()
        body.CopyFrom(stored.message)
        body.ClearField("transaction_section")
        body.transaction_section_deprecated = 0
        section = struct.pack("<I", len(stored.transaction or b"")) + (stored.transaction or b"")
        raw = body.SerializeToString()
        file = (
            section + struct.pack("<I", len(raw)) + raw + struct.pack("<qhh4s", len(section), 0, 2, b"LANC")
        )
        table.store.put(latest(table.store).path, file)
    if how in ("file only", "old field"):
        assert table.change(Append(table.files(1)), 1).version == 3
    else:
        with pytest.raises(ConflictError, match="kind unknown"):
            table.change(Append(table.files(1)), 1)
        assert table.change(Append(table.files(1)), 2).version == 3


def test_versions_that_were_removed_conflict_with_everything() -> None:
    table = Table()
    for _ in range(3):
        table.change(Append(table.files(1)))
    table.store.delete([at_version(table.store, 3).path])
    with pytest.raises(ConflictError, match="version 3 was removed"):
        table.change(Append(table.files(1)), 2)
    assert table.change(Append(table.files(1))).version == 5


def test_both_namings_are_kept_and_never_mixed() -> None:
    table = Table(create=False)
    table.change(Overwrite(table.files(1), SCHEMA, data_version="2.1"), None, policy=Policy(naming=Naming.V1))
    for _ in range(11):
        table.change(Append(table.files(1)))
    assert {location.naming for location in locations(table.store)} == {Naming.V1}
    assert latest(table.store).version == 12
    assert table.change(Append(table.files(1)), 3).version == 13
    table.store.rename("_versions/13.manifest", f"_versions/{manifest_name(13)}")
    with pytest.raises(ConflictError, match="renamed"):
        commit_to(
            table.store,
            new_transaction(Append(()), 12),
            Origin(12, Naming.V1),
            SESSION,
            TableLocation(table.store.uri),
        )


def test_token_makes_a_change_happen_once_however_often_it_is_tried() -> None:
    table = Table()
    policy = Policy(once=True)
    operation = Append(table.files(1))
    assert table.change(operation, token="job", policy=policy) == Committed(latest(table.store), 1)
    table.change(Append(table.files(1)))
    assert table.change(operation, token="job", policy=policy).version == 2
    assert table.change(operation, 1, token="job", policy=policy).version == 2
    assert latest(table.store).version == 3


@pytest.mark.parametrize("versions", [LocalLink(), external_versions()], ids=["link", "external"])
def test_local_disk_is_left_clean(tmp_path: Path, versions: VersionStore) -> None:
    table = Table(LocalStore(str(tmp_path)), create=False)
    table.change(Overwrite(table.files(1), SCHEMA, data_version="2.1"), None, versions=versions)
    table.change(Append(table.files(1)), versions=versions)
    table.change(Delete({0: np.array([1])}), versions=versions)
    assert table.change(Append(table.files(1)), 1, versions=versions).version == 4
    names = sorted(path.relative_to(tmp_path).parts[0] for path in tmp_path.rglob("*") if path.is_file())
    assert {name: names.count(name) for name in set(names)} == {
        "_versions": 4, "_transactions": 4, "_deletions": 1, "data": 3
    }  # fmt: skip
    assert list(tmp_path.rglob("*tmp*")) == []


# -- stores ---------------------------------------------------------------------------------------


class _Careless(MemoryStore):
    """Says it creates atomically, and replaces."""

    def put(self, path: str, data: bytes | memoryview, mode: PutMode = PutMode.OVERWRITE) -> ObjectMeta:
        return super().put(path, data)


def test_store_that_ignores_conditional_put_is_refused() -> None:
    store = _Careless()
    with pytest.raises(UnsupportedError, match="silently lose"):
        Table(store)
    assert [meta.path for meta in store.list("_versions")] == []


def test_store_is_asked_once() -> None:
    store = CountingStore(MemoryStore())
    check_create(store)
    asked = store.count("put")
    check_create(store)
    assert store.count("put") == asked == 2


def test_failing_store_leaves_the_table_as_it_was() -> None:
    table = Table()
    inner = table.store
    for place in range(1, 8):
        operation = Append(table.files(1))
        table.store = FaultyStore(inner, [Fault(nth=place, error=StoreError("gone"), sticky=True)])
        with pytest.raises((StoreError, CommitError)):
            table.change(operation, 1)
        table.store = inner
        assert latest(inner).version == 1


def test_lost_answer_of_a_network_is_found_out() -> None:
    table = Table()
    table.store = FaultyStore(table.store, [Fault("put", nth=3, error=StoreError("gone"), applied=True)])
    assert table.change(Append(table.files(1))).version == 2


def test_version_that_a_disk_failed_to_make_durable_is_not_acknowledged(tmp_path: Path) -> None:
    table = Table(LocalStore(str(tmp_path)))
    operation = Append(table.files(1))
    inner = table.store
    table.store = FaultyStore(inner, [Fault("put", nth=2, error=StoreError("no sync"), applied=True)])
    with pytest.raises(CommitUnknownError, match="failed to make it durable"):
        table.change(operation, versions=LocalLink())
    assert latest(inner).version == 2


def test_what_is_written_is_read_as_it_was_meant() -> None:
    store = MemoryStore()
    write_manifest(store, make_manifest(version=1, data_version="0.1"))
    before: Memory = store.get(latest(store).path)
    assert read(store, latest(store))[0].version == 1
    with pytest.raises(FormatError, match="is of version 1"):
        decode_manifest_file(memory_of(before.tobytes()), "x", 2)


@pytest.mark.parametrize(("uri", "place"), [
    ("s3://bucket/a/b", "s3://bucket"), ("private-memory://0a1b", "private-memory://0a1b"),
])  # fmt: skip
def test_buckets_are_trusted_one_by_one(uri: str, place: str) -> None:
    assert _place(uri) == place


def test_a_file_system_is_asked_once_for_all_its_folders(tmp_path: Path) -> None:
    check_create(LocalStore(str(tmp_path / "new" / "one.lance")))
    assert list(tmp_path.iterdir()) == []
    (other := tmp_path / "other.lance").mkdir()
    unchanged = other.stat().st_mtime_ns
    check_create(LocalStore(str(other)))
    assert other.stat().st_mtime_ns == unchanged
    assert _place("/proc") != _place(str(other))


# -- races ----------------------------------------------------------------------------------------


class BusyStore(WrappedStore):
    """A store where others append while a writer reads manifests: once for each, so many times."""

    def __init__(self, inner: MemoryStore, others: list[Table]) -> None:
        super().__init__(inner)
        self.others = others

    def _request(self, method: str, path: str, ranges: Pairs, call: Callable[[], Any]) -> Any:
        if method == "get" and path.startswith("_versions/") and self.others:
            other = self.others.pop()
            other.change(Append(other.files(1)))
        return call()


def test_versions_made_while_others_are_read_cost_no_race() -> None:
    table = Table()
    for _ in range(4):
        table.change(Append(table.files(1)))
    mine = table.files(1)
    busy = BusyStore(table.store, [table] * 3)
    transaction = new_transaction(Append(mine), 1)
    origin = Origin(1, latest(table.store).naming)
    done = commit_to(busy, transaction, origin, SESSION, TableLocation(table.store.uri))
    assert (done.version, done.attempts, busy.others) == (9, 1, [])
