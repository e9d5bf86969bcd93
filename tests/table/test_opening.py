"""Opening tables of many fragments and columns: checked at once, built when asked for."""

from __future__ import annotations

import pickle
import random
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lancecy
from lancecy.errors import LanceError
from lancecy.limits import Limits
from lancecy.proto import table_pb2
from lancecy.table.fragment_table import FragmentTable
from lancecy.table.manifest import Fragment, Manifest, table_of
from lancecy.table.versions.locate import parse_time
from lancecy.table.wire import manifest as manifest_wire
from lancecy.table.wire.fragments_bulk import MIN_FRAGMENTS, check_bulk
from tests.helpers.builders import (
    make_data_file,
    make_deletion_file,
    make_field,
    make_fragment,
    make_manifest,
    make_schema,
    manifest_file,
    manifest_message,
    memory_of,
)
from tests.helpers.datasets import write_table
from tests.helpers.folded import folded

PATH = "_versions/9.manifest"
MANY = MIN_FRAGMENTS + 12
ODD = 7


def fragments(count: int = MANY) -> tuple[Fragment, ...]:
    """Fragments of every ordinary kind, the first with id 0."""
    two = (make_data_file(), make_data_file(path="g.lance", column_indices=(4, 3, 2, 1, 0), base_id=3))
    return tuple(
        make_fragment(
            3 * number,
            files=(two, two[:1], ())[number % 3 if number % 5 else 0],
            physical_rows=30 + number,
            deletion_file=make_deletion_file(num_deleted_rows=number) if number % 4 == 1 else None,
            row_ids=b"\x0a\x00" if number % 6 == 0 else None,
        )
        for number in range(count)
    )


def message_of(**changes: Any) -> table_pb2.Manifest:
    return manifest_message(make_manifest(**{"fragments": fragments(), "max_fragment_id": 999, **changes}))


def decoded(message: table_pb2.Manifest | bytes, limits: Limits | None = None) -> Manifest:
    return manifest_wire.decode(memory_of(manifest_file(message)), PATH, limits or Limits())


def is_made(manifest: Manifest, name: str) -> bool:
    return name in vars(manifest)


@pytest.fixture
def one_by_one(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], Any]:
    """Runs a function with the bulk check switched off, so that every fragment is built at once."""

    def run(action: Callable[[], Any]) -> Any:
        with monkeypatch.context() as patch:
            patch.setattr(manifest_wire, "MIN_FRAGMENTS", 1 << 40)
            return action()

    return run


def outcome(action: Callable[[], Manifest]) -> tuple[Any, ...]:
    """What reading a manifest came to, comparable; nothing may fail after it was read."""
    try:
        manifest = action()
    except LanceError as error:
        return type(error), str(error)
    return manifest, manifest.num_rows


# -- fragments ------------------------------------------------------------------


def test_many_fragments_are_not_made_before_they_are_asked_for() -> None:
    manifest_wire._kept.cache_clear()
    manifest = decoded(message_of())
    assert manifest.num_rows == sum(f.live_rows or 0 for f in fragments())
    assert not is_made(manifest, "fragments")
    assert manifest.fragments == fragments()
    assert manifest.fragments is manifest.fragments


def test_few_fragments_are_made_at_once() -> None:
    few = fragments(MIN_FRAGMENTS - 1)
    manifest = decoded(message_of(fragments=few))
    assert manifest.fragments == few
    assert manifest.num_rows == sum(f.live_rows or 0 for f in few)


def test_manifest_is_equal_however_its_fragments_are_read(
    one_by_one: Callable[[Callable[[], Any]], Any],
) -> None:
    message = message_of()
    assert decoded(message) == one_by_one(lambda: decoded(message))


@pytest.mark.parametrize("field", ["physical_rows", "num_deleted_rows"])
def test_rows_are_unknown_where_one_fragment_does_not_state_them(field: str) -> None:
    parts = list(fragments())
    if field == "physical_rows":
        parts[ODD] = replace(parts[ODD], physical_rows=None)
    else:
        parts[ODD] = replace(parts[ODD], deletion_file=make_deletion_file(num_deleted_rows=None))
    manifest = decoded(message_of(fragments=tuple(parts)))
    assert manifest.num_rows is None
    assert manifest.fragments == tuple(parts)


_ODDITIES: dict[str, Callable[[table_pb2.DataFragment], object]] = {
    "id beyond 32 bits": lambda f: setattr(f, "id", 2**32),
    "id that is the mark": lambda f: setattr(f, "id", 2**64 - 1),
    "id in use": lambda f: setattr(f, "id", 3),
    "id out of order": lambda f: setattr(f, "id", 1),
    "too many rows": lambda f: setattr(f, "physical_rows", 2**32 + 1),
    "rows that are the mark": lambda f: setattr(f, "physical_rows", 2**64 - 1),
    "more deleted than there are": lambda f: setattr(f.deletion_file, "num_deleted_rows", 38),
    "deleted that are the mark": lambda f: setattr(f.deletion_file, "num_deleted_rows", 2**64 - 1),
    "unknown kind of deletion file": lambda f: setattr(f.deletion_file, "file_type", 7),
    "fewer columns than fields": lambda f: f.files[0].column_indices.extend([0, 1]),
    "fields that are the mark": lambda f: f.files[0].fields.append(-(2**31)),
    "columns that are the mark": lambda f: f.files[0].column_indices.extend([-(2**31)] * 5),
    "overlay": lambda f: f.overlays.append(b""),
    "hidden row ids": lambda f: f.row_id_column.SetInParent(),
    "hidden created versions": lambda f: f.created_at_version_column.SetInParent(),
    "hidden updated versions": lambda f: f.last_updated_at_version_column.SetInParent(),
    "external row ids": lambda f: f.external_row_ids.CopyFrom(table_pb2.ExternalFile(path="x", size=3)),
    "no files": lambda f: f.ClearField("files"),
}


@folded("name", _ODDITIES)
def test_one_odd_fragment_among_many_reads_as_if_looked_at_alone(
    name: str, one_by_one: Callable[[Callable[[], Any]], Any]
) -> None:
    message = message_of()
    _ODDITIES[name](message.fragments[ODD])
    found = outcome(lambda: decoded(message))
    assert found == one_by_one(lambda: outcome(lambda: decoded(message)))


@pytest.mark.parametrize("name", ["too many rows", "overlay", "fewer columns than fields"])
def test_one_impossible_fragment_among_many_is_refused_when_opened(name: str) -> None:
    message = message_of()
    _ODDITIES[name](message.fragments[ODD])
    with pytest.raises(LanceError):
        decoded(message)


@folded(
    "extra",
    [
        b"\x08\x02\x08\x15",  # id, twice
        b"\x20\x05\x20\x25",  # physical rows, twice
        b"\x1a\x02\x20\x01\x1a\x02\x20\x02",  # deletion file, in two parts
        b"\x1a\x04\x20\x01\x20\x02",  # its count, twice
        b"\x1a\x00",  # a deletion file that says nothing
        b"\x1a\x02\x20\x00",  # one that says 0, which is as little
        b"\x20\x00",  # no rows, which is unknown
        b"\x12\x05\x10\x01\x10\x02\x18",  # a file whose message is cut
    ],
)
def test_fields_given_twice_read_as_protobuf_merges_them(
    extra: bytes, one_by_one: Callable[[Callable[[], Any]], Any]
) -> None:
    raw = [part.SerializeToString() for part in message_of().fragments]
    raw[ODD] += extra
    body = message_of(fragments=()).SerializeToString()
    body += b"".join(b"\x12" + _length(len(part)) + part for part in raw)
    found = outcome(lambda: decoded(body))
    assert found == one_by_one(lambda: outcome(lambda: decoded(body)))


def _length(number: int) -> bytes:
    return bytes([number]) if number < 128 else bytes([number & 127 | 128, number >> 7])


def test_limit_on_rows_holds_for_many_fragments() -> None:
    with pytest.raises(LanceError, match="rows_per_file"):
        decoded(message_of(), Limits(rows_per_file=60))


def test_limit_on_fragments_comes_first() -> None:
    with pytest.raises(LanceError, match=r"Limits\.fragments"):
        decoded(message_of(), Limits(fragments=MANY - 1))


def test_fragments_without_ids_are_numbered_however_many() -> None:
    message = message_of(fragments=(make_fragment(0),) * MANY, max_fragment_id=None)
    assert [f.id for f in decoded(message).fragments] == list(range(MANY))


def test_damage_reads_the_same_at_once_and_one_by_one(
    one_by_one: Callable[[Callable[[], Any]], Any],
) -> None:
    rng = random.Random(11)
    data = message_of().SerializeToString()
    errors = in_bulk = 0
    for _ in range(1500):
        damaged = bytearray(data)
        for _ in range(rng.randrange(1, 4)):
            place = rng.randrange(len(damaged))
            damaged[place] = rng.choice([0xFF, 0, damaged[place] ^ 1 << rng.randrange(8), rng.randrange(256)])
        body = bytes(damaged)
        read = partial(outcome, partial(decoded, body))
        found = read()
        assert found == one_by_one(read)
        errors += isinstance(found[0], type)
        if isinstance(found[0], Manifest):
            table = check_bulk(body, len(found[0].fragments), Limits())
            in_bulk += table is not None
            assert table is None or columns_of(table) == columns_of(table_of(found[0].fragments))
    assert errors > 100
    assert in_bulk > 100


def columns_of(table: FragmentTable) -> list[object]:
    """All columns of fragments; the form of each file instead of its number."""
    forms = [table.forms[number] for number in table.form_of.tolist()]
    arrays = (
        table.ids,
        table.rows,
        table.live,
        table.has_deletions,
        table.first_file,
        table.sizes,
        table.bases,
    )
    return [forms, *(array.tolist() for array in arrays)]


@pytest.mark.parametrize("count", [MIN_FRAGMENTS - 1, MANY])
def test_columns_are_those_of_the_fragments(count: int) -> None:
    manifest_wire._kept.cache_clear()
    manifest = decoded(message_of(fragments=fragments(count)))
    table = manifest.fragment_table
    assert is_made(manifest, "fragments") == (count < MIN_FRAGMENTS)
    assert columns_of(table) == columns_of(table_of(fragments(count)))
    assert manifest.fragment(5) == fragments()[5]
    assert table.find(15) == 5 and table.find(16) is None and table.find(10**6) is None
    assert table.first_bases(np.arange(count)).max() == -1 and table.bases.max() == 3


# -- columns of data ------------------------------------------------------------


def test_schema_is_made_when_it_is_asked_for() -> None:
    manifest_wire._kept.cache_clear()
    manifest = decoded(message_of())
    assert not is_made(manifest, "schema")
    assert manifest.schema == make_schema()
    assert manifest.schema is manifest.schema


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda m: setattr(m.fields[0], "id", 4), "occurs twice"),
        (lambda m: setattr(m.fields[0], "id", -1), "is negative"),
        (lambda m: setattr(m.fields[0], "parent_id", 77), "does not precede"),
        (lambda m: setattr(m.fields[0], "name", "s"), "are called 's'"),
        (lambda m: setattr(m.fields[0].dictionary, "offset", -8), "dictionary of field 'a'"),
    ],
)
def test_impossible_field_is_refused_when_opened(
    change: Callable[[table_pb2.Manifest], object], complaint: str
) -> None:
    message = message_of()
    change(message)
    with pytest.raises(LanceError, match=complaint):
        decoded(message)


def test_thousands_of_columns_come_back_in_order() -> None:
    schema = replace(make_schema(), fields=tuple(make_field(f"c{i}", i) for i in range(3000)))
    assert decoded(message_of(schema=schema)).schema == schema


# -- a manifest that is not made yet ---------------------------------------------


def test_manifest_that_is_not_made_yet_pickles_whole() -> None:
    manifest = decoded(message_of())
    copy = pickle.loads(pickle.dumps(manifest))
    assert copy == decoded(message_of())
    assert copy.num_rows == manifest.num_rows


def test_threads_that_ask_at_once_get_equal_fragments() -> None:
    manifest, found = decoded(message_of()), []
    barrier = threading.Barrier(4)

    def ask() -> None:
        barrier.wait()
        found.append((manifest.fragments, manifest.schema))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [(fragments(), make_schema())] * 4


def test_manifest_has_no_other_attributes() -> None:
    with pytest.raises(AttributeError, match="no attribute 'rows'"):
        decoded(message_of()).rows  # noqa: B018


# -- datasets --------------------------------------------------------------------


def test_rows_of_a_table_of_many_fragments_are_counted_without_making_them(tmp_path: Path) -> None:
    root = write_table(str(tmp_path / "t"), fragments=MANY, rows=3, deleted={2: [0], 5: [1, 2]})
    ds = lancecy.dataset(root)
    assert ds.count_rows() == len(ds) == 3 * MANY - 3
    assert not is_made(ds._snapshot.manifest, "fragments")
    assert not is_made(ds._snapshot.manifest, "schema")
    assert ds.to_table(["id"]).num_rows == 3 * MANY - 3


def test_rows_are_counted_from_the_files_where_the_manifest_does_not_say(tmp_path: Path) -> None:
    root = write_table(
        str(tmp_path / "t"), fragments=MANY, rows=3, deleted={2: [0], 5: [1, 2]}, counts_known=False
    )
    assert lancecy.dataset(root).count_rows() == 3 * MANY - 3


@pytest.mark.parametrize("kind", [int, np.int64, np.uint8, np.int32])
def test_version_may_be_any_integer(tmp_path: Path, kind: Callable[[int], Any]) -> None:
    root = write_table(str(tmp_path / "t"), fragments=1, version=4)
    ds = lancecy.dataset(root, version=kind(4))
    assert ds.version == 4
    assert type(ds.checkout_version(kind(4)).version) is int


@pytest.mark.parametrize("version", [True, np.True_, 4.0, "4", np.float64(4)])
def test_version_that_is_no_integer_is_refused(tmp_path: Path, version: Any) -> None:
    root = write_table(str(tmp_path / "t"), fragments=1, version=4)
    with pytest.raises(TypeError, match="version is a number"):
        lancecy.dataset(root, version=version)


@pytest.mark.parametrize("given", [datetime(2024, 5, 1, 12), "2024-05-01 12:00:00", "2024-05-01T12:00"])
def test_time_without_a_zone_is_local(monkeypatch: pytest.MonkeyPatch, given: datetime | str) -> None:
    # As pylance has it, which compares asof with the local times that its versions() gives.
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        assert parse_time(given) == datetime(2024, 5, 1, 16, tzinfo=UTC)
    finally:
        monkeypatch.undo()
        time.tzset()
