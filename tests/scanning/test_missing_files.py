"""A file of a table that is gone: the error says what needed it, where it should be, and what to do."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancecy
from lancecy.errors import DatasetNotFoundError, MissingFileError, NotFoundError


def over_two_disks(place: Path) -> lancecy.Dataset:
    """Fragment 0 lies on disk2, which is base 1, and fragment 1 on disk3."""
    disks = [lancecy.DatasetBasePath(place / f"disk{n}", name=f"disk{n}") for n in (2, 3)]
    ds: lancecy.Dataset = lancecy.write_dataset(
        {"id": range(100), "word": ["w"] * 100},
        place / "t.lance",
        initial_bases=disks,
        target_bases=["disk2", "disk3"],
        max_rows_per_file=50,
    )
    return ds


READS: dict[str, Callable[[lancecy.Dataset], Any]] = {
    "table": lambda ds: ds.to_table(),
    "batches": lambda ds: list(ds.to_batches()),
    "filter": lambda ds: ds.to_table(columns=["id"], filter="word = 'w'"),
    "count": lambda ds: ds.count_rows("id > 60"),
    "take": lambda ds: ds.take([70]),
    "fragment": lambda ds: ds.get_fragments()[1].to_table(),
    "partition": lambda ds: [part.compute() for part in ds.to_delayed()],
    "delete": lambda ds: ds.delete("id > 60"),
}


@pytest.mark.parametrize("opened_before", [False, True], ids=["unread", "read before"])
@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_data_file_of_a_base_that_moved(
    tmp_path: Path, read: Callable[[lancecy.Dataset], Any], opened_before: bool
) -> None:
    ds = over_two_disks(tmp_path)
    if opened_before:
        ds.to_table()
    else:
        ds = lancecy.dataset(tmp_path / "t.lance", session=lancecy.Session())
    (tmp_path / "disk3").rename(tmp_path / "new")
    with pytest.raises(MissingFileError) as caught:
        read(ds)
    error = caught.value
    (file,) = (tmp_path / "new").iterdir()
    assert (error.fragment, error.base, error.path) == (1, 2, file.name)
    place = tmp_path / "disk3"
    assert f"data file '{file.name}' of fragment 1 is missing in base 2 'disk3' ({place})" in str(error)
    assert "checkout_latest" in str(error)
    assert "relocate_base" in str(error)
    assert isinstance(error, DatasetNotFoundError | FileNotFoundError | LookupError)
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), vars(copy)) == (type(error), str(error), vars(error))

    ds.relocate_base("disk3", tmp_path / "new")
    assert ds.count_rows() == ds.to_table().num_rows == 100


def test_version_that_was_cleaned_up_since_it_was_opened(tmp_path: Path) -> None:
    old = lancecy.write_dataset({"id": range(100)}, tmp_path / "t.lance")
    old.to_table()
    newer = lancecy.write_dataset({"id": range(5)}, tmp_path / "t.lance", mode="overwrite")
    newer.cleanup_old_versions(retain_versions=1)
    with pytest.raises(
        MissingFileError, match=r"fragment 0 is missing.*cleaned up.*checkout_latest"
    ) as caught:
        old.to_table()
    assert caught.value.base is None
    assert "relocate_base" not in str(caught.value)
    assert old.checkout_latest().count_rows() == 5
    planned = old.to_delayed()[0]
    with pytest.raises(NotFoundError, match=r"cleaned up since this scan was planned.*checkout_latest"):
        planned.compute()


def test_deletion_file(tmp_path: Path) -> None:
    ds = lancecy.write_dataset({"id": range(100)}, tmp_path / "t.lance")
    ds.delete("id < 10")
    shutil.rmtree(tmp_path / "t.lance" / "_deletions")
    unread = lancecy.dataset(tmp_path / "t.lance", session=lancecy.Session())
    for read in (unread.to_table, lambda: unread.count_rows("id > 3"), lambda: unread.delete("id = 50")):
        with pytest.raises(
            MissingFileError, match=r"deletion file '_deletions/0-1-.*' of fragment 0"
        ) as caught:
            read()
        assert caught.value.fragment == 0


def test_deletion_file_that_a_delete_goes_on_from(tmp_path: Path) -> None:
    ds = lancecy.write_dataset({"id": range(100)}, tmp_path / "t.lance")
    ds.delete("id < 10")
    ds.to_table()  # the session knows the deleted rows from now on
    shutil.rmtree(tmp_path / "t.lance" / "_deletions")
    with pytest.raises(MissingFileError, match="deletion file"):
        ds.delete("id = 50")
    assert ds.latest_version == 2


@pytest.mark.parametrize("data_version", ["0.1", "2.1"])
def test_file_that_goes_while_it_is_read(tmp_path: Path, data_version: str) -> None:
    lancecy.write_dataset({"id": range(100)}, tmp_path / "t.lance", data_storage_version=data_version)
    ds = lancecy.dataset(tmp_path / "t.lance", session=lancecy.Session())
    ds.scanner(filter="id > 3").explain()
    shutil.rmtree(tmp_path / "t.lance" / "data")
    with pytest.raises(MissingFileError, match="data file .* of fragment 0"):
        ds.to_table(filter="id > 50")


@pytest.mark.interop
def test_blob_files(tmp_path: Path) -> None:
    import lance

    (tmp_path / "own.bin").write_bytes(b"mine")
    values = [b"small", bytes(80_000), bytes(5_000_000), f"file://{tmp_path / 'own.bin'}"]
    table = pa.table({"b": lance.blob_array(values)})
    lance.write_dataset(
        table,
        str(tmp_path / "t.lance"),
        data_storage_version="2.2",
        allow_external_blob_outside_bases=True,
    )
    ds = lancecy.dataset(tmp_path / "t.lance", session=lancecy.Session())
    small, shared, large, outside = ds.take_blobs("b", indices=range(4))
    assert small is not None
    assert shared is not None
    assert large is not None
    assert outside is not None
    assert large.read(1) == b"\0"
    for path in [*(tmp_path / "t.lance").rglob("*.blob"), tmp_path / "own.bin"]:
        path.unlink()
    for blob in (shared, large):
        with pytest.raises(MissingFileError, match=r"blob file '.*\.blob' of fragment 0 .*checkout_latest"):
            blob.read()
    with pytest.raises(MissingFileError, match=r"a blob of fragment 0 is 'own\.bin' in .* put back there"):
        outside.read()
    assert small.read() == b"small"
