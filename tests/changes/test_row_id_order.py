"""Tables whose row ids are not in order: nothing is written to them until they are mended."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner

import lancecy
from lancecy.cli.main import main
from lancecy.errors import FormatError, LanceError, LimitError
from lancecy.proto import table_pb2
from lancecy.store.local import LocalStore
from lancecy.table.operations import RepairRowIds
from lancecy.table.rows.roaring import encode as encode_bitmap
from lancecy.table.rows.row_ids import ArraySegment, RowIdSequence
from lancecy.table.versions.locate import latest
from lancecy.table.wire.manifest import encode
from lancecy.table.wire.manifest_file import ManifestFile, decode_manifest_file
from lancecy.table.wire.row_ids import encode_row_ids
from tests.helpers.committing import change
from tests.helpers.folded import folded

Change = Callable[[table_pb2.Manifest], None]


def rows(start: int, count: int = 10) -> pa.Table:
    return pa.table({"n": np.arange(start, start + count)})


def made(path: Path, parts: int = 3) -> lancecy.Dataset:
    """Fragments of ten rows each, with the row ids 0 to 9, 10 to 19 and so on."""
    ds = lancecy.write_dataset(rows(0), path, enable_stable_row_ids=True, durability="none")
    for number in range(1, parts):
        ds.append(rows(10 * number), durability="none")
    return ds


def stored(path: Path) -> tuple[ManifestFile, Path]:
    location = latest(LocalStore(str(path)))
    file = path / location.path
    return decode_manifest_file(np.fromfile(file, np.uint8), str(file), location.version), file


def spoiled(path: Path, spoil: Change, indices: bytes | None = None) -> lancecy.Dataset:
    """The newest manifest as a careless writer might have left it."""
    found, file = stored(path)
    message = table_pb2.Manifest()
    message.CopyFrom(found.message)
    spoil(message)
    file.write_bytes(encode(message, indices or found.indices, found.transaction))
    return lancecy.dataset(path)


def forget(*numbers: int) -> Change:
    def spoil(message: table_pb2.Manifest) -> None:
        for fragment in message.fragments:
            if fragment.id in numbers:
                fragment.ClearField("row_id_sequence")

    return spoil


def forget_all(message: table_pb2.Manifest) -> None:
    forget(0, 1, 2)(message)
    message.next_row_id = 0


def lower(message: table_pb2.Manifest) -> None:
    message.next_row_id = 25


def shorten(message: table_pb2.Manifest) -> None:
    message.fragments[1].inline_row_ids = message.fragments[1].inline_row_ids[:0]


def ids_of(ds: Any) -> dict[int, int]:
    table = ds.to_table(columns=["n"], with_row_id=True)
    return dict(zip(table["n"].to_pylist(), table["_rowid"].to_pylist(), strict=True))


SPOILED = [
    (forget(1), "fragment 1 has no row ids"),
    (forget_all, r"3 fragments \(0, 1, 2\) have no row ids"),
    (lower, "stated to be 25, but row id 29 is in use"),
    (shorten, "row ids of fragment 1 are damaged"),
]


def files_in(path: Path) -> set[Path]:
    return {file for file in path.rglob("*") if file.is_file()}


# -- refused --------------------------------------------------------------------------------------

WRITES: list[Callable[[lancecy.Dataset], object]] = [
    lambda ds: ds.append(rows(90)),
    lambda ds: ds.insert(rows(90), mode="overwrite"),
    lambda ds: ds.delete("n = 3"),
    lambda ds: ds.update_config({"a": "b"}),
    lambda ds: ds.restore(),
    lambda ds: lancecy.write_dataset(rows(90), ds.uri, mode="append"),
    lambda ds: lancecy.write_fragments(rows(90), ds.uri),
]


@folded("number", range(len(WRITES)))
@folded(("spoil", "words"), SPOILED)
def test_a_write_is_refused_before_it_writes_anything(
    spoil: Change, words: str, number: int, tmp_path: Path
) -> None:
    path = tmp_path / f"{spoil.__name__}{words[:10]}-{number}"
    made(path)
    ds = spoiled(path, spoil)
    before = files_in(path)
    with pytest.raises(FormatError, match=f"{words}.*repair"):
        WRITES[number](ds)
    left = {file.relative_to(path).parts[0] for file in files_in(path) - before}
    assert left <= {"_transactions"}
    assert latest(LocalStore(str(path))).version == 3


def test_a_table_without_the_flag_is_not_asked(tmp_path: Path) -> None:
    lancecy.write_dataset(rows(0), tmp_path / "t")
    ds = spoiled(tmp_path / "t", lambda message: setattr(message, "next_row_id", 0))
    ds.append(rows(10))
    assert not ds.repair()
    assert (ds.version, ds.count_rows()) == (2, 20)


def test_a_writer_that_planned_before_is_refused_at_the_commit(tmp_path: Path) -> None:
    ds = made(tmp_path / "t")
    fragments = lancecy.write_fragments(rows(30), ds.uri)
    spoiled(tmp_path / "t", lower)
    with pytest.raises(LanceError, match="repair"):
        lancecy.commit(ds.uri, lancecy.LanceOperation.Append(fragments), read_version=3)


def test_a_sound_version_can_be_restored_and_gives_no_id_twice(tmp_path: Path) -> None:
    made(tmp_path / "t")
    ds = spoiled(tmp_path / "t", lower)
    ds.checkout_version(1).restore()
    ds = lancecy.dataset(tmp_path / "t")
    ds.append(rows(50))
    assert min(i for n, i in ids_of(ds).items() if n >= 50) == 30


# -- named and mended -----------------------------------------------------------------------------


@folded(("spoil", "words"), SPOILED)
def test_verify_names_it_with_the_remedy(spoil: Change, words: str, tmp_path: Path) -> None:
    path = tmp_path / f"{spoil.__name__}{words[:10]}"
    assert made(path).verify()
    found = [finding for finding in spoiled(path, spoil).verify().findings if finding.kind == "row ids"]
    assert found
    if spoil is not shorten:
        assert lancecy.dataset(path).verify(columns=["n"], fragments=[0]).is_ok is False
        pattern = words.replace("\\", "")
        assert any(pattern in finding.problem and "repair" in finding.problem for finding in found)


def test_fragments_without_ids_get_new_ones_above_all_others(tmp_path: Path) -> None:
    known = ids_of(made(tmp_path / "t"))
    ds = spoiled(tmp_path / "t", forget(0, 2))
    report = ds.repair()
    assert (report.fragments, report.rows, report.indices) == ((0, 2), 20, ())
    assert (report.was_next_row_id, report.next_row_id, ds.version) == (30, 50, 4)
    after = ids_of(ds)
    assert {n: after[n] for n in range(10, 20)} == {n: known[n] for n in range(10, 20)}
    assert sorted(after[n] for n in (*range(10), *range(20, 30))) == list(range(30, 50))
    assert ds.verify()
    assert not ds.repair()
    assert ds.version == 4
    ds.append(rows(30))
    assert len(set(ids_of(ds).values())) == 40


def test_a_next_id_that_is_too_low_is_raised(tmp_path: Path) -> None:
    known = ids_of(made(tmp_path / "t"))
    ds = spoiled(tmp_path / "t", lower)
    report = ds.repair()
    assert report
    assert (report.fragments, report.was_next_row_id, report.next_row_id) == ((), 25, 30)
    assert ids_of(ds) == known
    ds.append(rows(30))
    assert sorted(ids_of(ds).values()) == list(range(40))


def test_ids_of_deleted_rows_count_as_given_out(tmp_path: Path) -> None:
    made(tmp_path / "t").delete("n >= 25")
    ds = spoiled(tmp_path / "t", lower)
    with pytest.raises(FormatError, match="row id 29 is in use"):
        ds.append(rows(30))
    assert ds.repair().next_row_id == 30


def test_damaged_ids_are_not_replaced(tmp_path: Path) -> None:
    made(tmp_path / "t")
    ds = spoiled(tmp_path / "t", shorten)
    with pytest.raises(FormatError, match="fragment 1 are damaged.*Restore"):
        ds.repair()
    assert lancecy.dataset(tmp_path / "t").version == 3
    with pytest.raises(FormatError, match="fragment 1 are damaged.*restore a version where they are intact"):
        ds.append(rows(30))
    ds.checkout_version(2).restore()
    with pytest.raises(FormatError, match="fragment 1 are damaged"):
        spoiled(tmp_path / "t", shorten).append(rows(30))
    lancecy.dataset(tmp_path / "t").checkout_version(1).restore()
    lancecy.dataset(tmp_path / "t").append(rows(30))


def test_a_repair_says_so_where_the_largest_row_id_is_in_use(tmp_path: Path) -> None:
    def spoil(message: table_pb2.Manifest) -> None:
        ids = RowIdSequence((ArraySegment(2**64 - 10, np.arange(10, dtype=np.uint64)),), np.array([0, 10]))
        message.fragments[1].inline_row_ids = encode_row_ids(ids)

    made(tmp_path)
    ds = spoiled(tmp_path, spoil)
    with pytest.raises(LimitError, match="row id 18446744073709551615 is in use, so there is no next one"):
        ds.repair()
    assert lancecy.dataset(tmp_path).version == ds.version


def test_rows_that_share_an_id_are_named_and_left_to_the_user(tmp_path: Path) -> None:
    made(tmp_path / "t")

    def twice(message: table_pb2.Manifest) -> None:
        message.fragments[2].inline_row_ids = message.fragments[0].inline_row_ids
        message.next_row_id = 3

    ds = spoiled(tmp_path / "t", twice)
    (finding,) = [f for f in ds.verify().findings if "live rows have the id of another" in f.problem]
    assert "10 live rows" in finding.problem
    with pytest.raises(FormatError, match="two rows have the row id.*_rowaddr"):
        ds.repair()
    # What can be mended is, so that the way out which the message names is open.
    ds = lancecy.dataset(tmp_path / "t")
    assert ds.delete("_rowaddr >= 8589934592") == {"num_deleted_rows": 10}
    ds.append(rows(20))
    assert len(set(ids_of(ds).values())) == 30
    assert ds.verify()


def test_indices_that_cover_mended_fragments_are_dropped(tmp_path: Path) -> None:
    made(tmp_path / "t")

    def index(number: int, **given: Any) -> table_pb2.IndexMetadata:
        return table_pb2.IndexMetadata(
            uuid=table_pb2.UUID(uuid=bytes([number]) * 16), name=f"i{number}", **given
        )

    bitmaps = [encode_bitmap(np.array(numbers)) for numbers in ([0, 1], [1, 2])]
    entries = [
        index(0, fields=[0], fragment_bitmap=bitmaps[0]),
        index(1, fields=[0], fragment_bitmap=bitmaps[1]),
        index(2, fields=[0]),
        index(3),
    ]
    section = table_pb2.IndexSection(indices=entries).SerializeToString()
    ds = spoiled(tmp_path / "t", forget(2), section)
    assert ds.repair().indices == ("i1", "i2")
    kept, _ = stored(tmp_path / "t")
    expected = table_pb2.IndexSection(indices=[entries[0], entries[3]]).SerializeToString()
    assert kept.indices == expected


def test_a_repair_goes_on_top_of_what_others_did_meanwhile(tmp_path: Path) -> None:
    made(tmp_path / "t")
    ds = spoiled(tmp_path / "t", lower)
    ds.repair()
    origin = lancecy.dataset(tmp_path / "t").checkout_version(3)
    ds.append(rows(30))
    change(ds.uri, RepairRowIds(), snapshot=origin.context.snapshot)
    found, _ = stored(tmp_path / "t")
    assert (found.version, found.manifest.next_row_id, len(found.manifest.fragments)) == (6, 40, 4)


def test_the_command_line_mends(tmp_path: Path) -> None:
    made(tmp_path / "t")
    spoiled(tmp_path / "t", forget(1))
    run = CliRunner()
    assert run.invoke(main, ["verify", str(tmp_path / "t"), "--quiet"]).exit_code == 1
    found = run.invoke(main, ["repair", str(tmp_path / "t"), "--json"])
    told = json.loads(found.output)
    assert (told["fragments"], told["rows"], told["version"], told["next_row_id"]) == (1, 10, 4, 40)
    assert run.invoke(main, ["verify", str(tmp_path / "t"), "--quiet"]).exit_code == 0


# -- pylance --------------------------------------------------------------------------------------


@pytest.mark.interop
@folded(("spoil", "words"), SPOILED[:3])
def test_pylance_reads_and_changes_what_was_mended(spoil: Change, words: str, tmp_path: Path) -> None:
    import lance

    path = tmp_path / f"{spoil.__name__}{words[:10]}"
    made(path)
    ds = spoiled(path, spoil)
    ds.repair()
    theirs = lance.dataset(str(path))
    theirs.validate()
    (transaction,) = theirs.get_transactions(1)
    assert transaction is not None and type(transaction.operation).__name__ == "Merge"
    assert ids_of(theirs) == ids_of(ds)
    theirs.update({"n": "n + 1000"}, where="n < 5")
    lance.write_dataset(rows(200), str(path), mode="append")
    ds = lancecy.dataset(path)
    ds.append(rows(300))
    found = ids_of(ds)
    assert len(found) == 50 == len(set(found.values()))
    assert ds.verify()
    lance.dataset(str(path)).validate()


@pytest.mark.interop
def test_what_pylance_does_to_a_table_is_in_order(tmp_path: Path) -> None:
    import lance

    path = str(tmp_path / "t")
    lance.write_dataset(rows(0, 50), path, enable_stable_row_ids=True, max_rows_per_file=10)
    ds = lance.dataset(path)
    ds.update({"n": "n + 1000"}, where="n % 7 = 0")
    ds.merge_insert("n").when_matched_update_all().when_not_matched_insert_all().execute(rows(45))
    ds.delete("n % 5 = 0")
    ds.optimize.compact_files()
    ds.restore()
    mine = lancecy.dataset(path)
    mine.append(rows(500))
    assert not mine.repair()
    assert len(set(ids_of(mine).values())) == mine.count_rows()
    mine.checkout_version(2).restore()
    lancecy.dataset(path).append(rows(600))
    assert lancecy.dataset(path).verify()
