"""Manifests of sound tables with one fact changed: some are of old releases and serve, the others are refused by name."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancecy
from lancecy.errors import ColumnNotFoundError, FormatError, LanceError, LimitError, SchemaError
from lancecy.proto import table_pb2
from lancecy.table.wire.manifest import encode


def made(folder: Path, data: Any = None, **options: Any) -> Path:
    """A table of three fragments of three rows, or of this data."""
    rows = pa.table({"id": range(9)}) if data is None else data
    lancecy.write_dataset(rows, folder / "t", max_rows_per_file=3, **options)
    return folder / "t"


def edit(
    table: Path,
    change: Callable[[table_pb2.Manifest], object],
    change_indices: Callable[[table_pb2.IndexSection], object] | None = None,
) -> None:
    """Change the newest manifest in place."""
    newest = min((table / "_versions").glob("*.manifest"))
    data = newest.read_bytes()

    def section(at: int) -> bytes:
        return data[at + 4 : at + 4 + struct.unpack_from("<I", data, at)[0]]

    message = table_pb2.Manifest.FromString(section(struct.unpack_from("<q", data, len(data) - 16)[0]))
    indices = section(message.index_section) if message.HasField("index_section") else None
    if change_indices is not None:
        found = table_pb2.IndexSection.FromString(indices or b"")
        change_indices(found)
        indices = found.SerializeToString()
    change(message)
    newest.write_bytes(encode(message, indices))


def nothing(_: table_pb2.Manifest) -> None:
    """Leave the manifest as it is."""


def full_bitmap(containers: int) -> bytes:
    """A roaring bitmap of 65,536 numbers in each of these containers, in 14 bytes each."""
    head = 4 + (containers + 7) // 8
    places = (struct.pack("<I", head + 8 * containers + 6 * n) for n in range(containers))
    keys = (struct.pack("<HH", n, 65535) for n in range(containers))
    cookie = struct.pack("<I", 12347 | (containers - 1) << 16) + b"\xff" * ((containers + 7) // 8)
    return cookie + b"".join(keys) + b"".join(places) + struct.pack("<HHH", 1, 0, 65535) * containers


def test_fragments_without_a_number_of_rows_are_compacted(tmp_path: Path) -> None:
    table = made(tmp_path)
    lancecy.dataset(table).create_scalar_index("id", "BTREE")
    lancecy.dataset(table).delete("id = 4")
    edit(table, lambda message: message.ClearField("writer_version"))
    ds = lancecy.dataset(table)
    assert ds.optimize.compact_files().fragments_removed == 3
    assert ds.to_table()["id"].to_pylist() == [0, 1, 2, 3, 5, 6, 7, 8]
    assert ds.to_table(filter="id IN (3, 4, 5)")["id"].to_pylist() == [3, 5]


def test_fragments_that_share_an_id_before_others(tmp_path: Path) -> None:
    table = made(tmp_path)

    def number(message: table_pb2.Manifest) -> None:
        for fragment, given in zip(message.fragments, (0, 0, 1), strict=True):
            fragment.id = given

    edit(table, number)
    ds = lancecy.dataset(table)
    assert ds.to_table()["id"].to_pylist() == list(range(9))
    assert ds.take([4, 8])["id"].to_pylist() == [4, 8]
    assert ds.to_table(filter="id > 6")["id"].to_pylist() == [7, 8]
    assert lancecy.scan(table).compute(scheduler="synchronous")["id"].tolist() == list(range(9))


def test_an_index_that_claims_a_hundred_million_fragments(tmp_path: Path) -> None:
    table = made(tmp_path)
    lancecy.dataset(table).create_scalar_index("id", "BTREE")
    edit(table, nothing, lambda section: setattr(section.indices[0], "fragment_bitmap", full_bitmap(1500)))
    with pytest.warns(RuntimeWarning, match="a bitmap names 98,304,000 fragments"):
        assert lancecy.dataset(table).count_rows("id > 3") == 5
    with pytest.raises(LimitError, match="create the index again"):
        lancecy.dataset(table).list_indices()
    lancecy.dataset(table).drop_index("id_idx")
    assert lancecy.dataset(table).list_indices() == []


def test_changes_of_a_fragment_that_claims_four_billion_rows(tmp_path: Path) -> None:
    table = made(tmp_path)
    lancecy.dataset(table).delete("id = 1")
    edit(table, lambda message: setattr(message.fragments[0], "physical_rows", 1 << 32))
    with pytest.raises(FormatError, match="the data files hold 3"):
        lancecy.dataset(table).changes(1).count_rows()


def test_an_append_to_a_number_that_has_a_member(tmp_path: Path) -> None:
    table = made(tmp_path, {"a": [1], "b": [2]})
    edit(table, lambda message: setattr(message.fields[1], "parent_id", message.fields[0].id))
    with pytest.raises(FormatError, match="field 'a' of type int64 has 1 children"):
        lancecy.dataset(table).append(pa.table({"a": [5]}))


@pytest.mark.parametrize(
    "changes", [{"createdAt": "0001-01-01T00:00:00+14:00"}, {"metadata": {"k": "\ud800"}}]
)
def test_tags_with_values_that_cannot_be_written(tmp_path: Path, changes: dict[str, Any]) -> None:
    table = made(tmp_path)
    lancecy.dataset(table).tags.create("a", 1)
    file = table / "_refs" / "tags" / "a.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))
    works: list[Callable[[Any], object]] = [lambda ds: ds.tags.list(), lambda ds: ds.tags.update("a", 1)]
    for work in works:
        with pytest.raises(LanceError, match=r"_refs/tags/a\.json"):
            work(lancecy.dataset(table))


def test_metadata_that_is_no_text(tmp_path: Path) -> None:
    rows = {
        "id": range(9),
        "s": [{"a": [n]} for n in range(9)],
        "m": pa.array([[("k", 1)]] * 9, pa.map_(pa.string(), pa.int8())),
    }
    table = made(tmp_path, pa.table(rows), data_storage_version="2.2")

    def spoil(message: table_pb2.Manifest) -> None:
        for field in message.fields:
            field.metadata["k"] = b"\xff"
        message.schema_metadata["k"] = b"\xff"

    edit(table, spoil)
    ds = lancecy.dataset(table)
    assert ds.schema_metadata == {"k": "\ufffd"}
    assert ds.to_polars().shape == ds.to_polars_lazy().collect().shape == (9, 3)
    assert ds.to_polars()["s"].to_list() == rows["s"]
    assert ds.update_schema_metadata({"q": "r"}) == {"k": "\ufffd", "q": "r"}


@pytest.mark.parametrize("name", ["_rowid", "_rowaddr"])
def test_a_column_with_the_name_of_one_that_a_scan_adds(tmp_path: Path, name: str) -> None:
    table = made(tmp_path, {"a": [1], "b": ["x"]})
    edit(table, lambda message: setattr(message.fields[1], "name", name))
    ds = lancecy.dataset(table)
    assert ds.to_table().to_pylist() == [{"a": 1, name: "x"}]
    with pytest.raises(SchemaError, match=f"a column '{name}' of its own"):
        ds.to_table(with_row_id=name == "_rowid", with_row_address=name == "_rowaddr")


def test_blobs_of_a_column_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ColumnNotFoundError, match="no column 'ids'"):
        lancecy.dataset(made(tmp_path)).take_blobs("ids", indices=[0])
