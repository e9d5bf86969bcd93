"""Columns of single fragments, committed together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancecy
from lancecy import LanceOperation
from lancecy.errors import ColumnNotFoundError, SchemaError, UnsupportedError
from tests.changes.column_tables import FORMS, IDS, VERSIONS, checked, lance, made, refused

pytestmark = pytest.mark.interop


@pytest.mark.parametrize(("version", "stable", "deleted"), FORMS, ids=IDS)
def test_new_columns_of_all_fragments(tmp_path: Path, version: str, stable: bool, deleted: bool) -> None:
    ds = made(tmp_path / "t", version, stable, deleted)
    sent = []
    for part in ds.get_fragments():
        made_of, schema = part.merge_columns({"a": "id + 1"})
        sent.append(made_of.to_json())
        assert schema.fields()[-1].name() == "a"
    new = [lancecy.FragmentMetadata.from_json(part) for part in sent]
    ds = lancecy.commit(ds, LanceOperation.Merge(new, schema), read_version=ds.version)
    assert all(row["a"] == row["id"] + 1 for row in checked(ds))


def test_every_kind_of_values(tmp_path: Path) -> None:
    for name, values in {
        "function": lambda batch: {"a": [i + 1 for i in batch["id"].to_pylist()]},
        "rows": None,
        "merge": {"id": list(range(10)), "a": list(range(1, 11))},
        "field": pa.field("a", pa.int64()),
    }.items():
        ds, new = made(tmp_path / name, deleted=True), []
        for part in ds.get_fragments():
            ids = part.to_table(["id"])["id"].to_pylist()
            given: Any = {"a": [i + 1 for i in ids]} if values is None else values
            made_of, schema = part.merge(given, "id") if name == "merge" else part.merge_columns(given)
            new.append(made_of)
        ds = lancecy.commit(ds, LanceOperation.Merge(new, schema), read_version=ds.version)
        assert {row["a"] == (None if name == "field" else row["id"] + 1) for row in checked(ds)} == {True}, (
            name
        )


def test_pylance_commits_fragments_of_lancecy(tmp_path: Path) -> None:
    ds = made(tmp_path / "t")
    parts = [part.merge_columns({"a": "id + 1"}) for part in ds.get_fragments()]
    theirs = [lance.FragmentMetadata.from_json(__import__("json").dumps(part.to_json())) for part, _ in parts]
    schema = lance.dataset(ds.uri).get_fragment(0).merge_columns({"a": "id + 1"})[1]
    lance.LanceDataset.commit(ds.uri, lance.LanceOperation.Merge(theirs, schema), read_version=1)
    assert all(row["a"] == row["id"] + 1 for row in checked(lancecy.dataset(ds.uri)))


@pytest.mark.parametrize("version", VERSIONS)
def test_new_values_of_some_rows(tmp_path: Path, version: str) -> None:
    ds = made(tmp_path / "t", version, stable=True, deleted=True)
    points = pa.array([{"x": i, "y": 0.5} for i in range(4)], ds.schema.field("point").type)
    rows = {"id": [8, 7, 3, 8], "word": ["old", "gone", "three", "eight"], "point": points}
    found = [part.update_columns(rows, "id", with_offsets=True) for part in ds.get_fragments()]
    schema_ids = {field.name: field.id for field in ds.lance_schema.fields}
    assert schema_ids["word"] in found[0][1]
    offsets = {part.id: offsets for part, _, offsets in found}
    change = LanceOperation.Update(
        updated_fragments=[part for part, _, _ in found],
        fields_modified=found[0][1],
        update_mode="rewrite_columns",
        updated_fragment_offsets=offsets,
    )
    ds = lancecy.commit(ds, change, read_version=ds.version)
    new = {row["id"]: (row["word"], row["point"]["x"]) for row in checked(ds)}
    assert (new[8], new[3]) == (("eight", 3), ("three", 2))
    assert (new[4], new[9]) == (("w4", 4), ("w9", 9))
    versions = ds.to_table(["id", "_row_last_updated_at_version"]).to_pylist()
    assert {row["id"] for row in versions if row["_row_last_updated_at_version"] == ds.version} == {3, 8}


def test_rows_are_updated_by_their_ids(tmp_path: Path) -> None:
    ds = made(tmp_path / "t")
    rows = pa.table({"_rowid": pa.array([2, (1 << 32) + 1], pa.uint64()), "id": [20, 60]})
    found = [part.update_columns(rows) for part in ds.get_fragments()]
    change = LanceOperation.Update(updated_fragments=[part for part, _ in found], fields_modified=found[0][1])
    ds = lancecy.commit(ds, change, read_version=1)
    assert [row["id"] for row in checked(ds)] == [0, 1, 20, 3, 4, 5, 60, 7, 8, 9]


REFUSED: dict[str, tuple[type[Exception], str, Any]] = {
    "unknown": (ColumnNotFoundError, "no column 'nope'", {"id": [1], "nope": ["x"]}),
    "type": (SchemaError, "'word'", {"id": [1], "word": [1]}),
    "key": (ColumnNotFoundError, "no column 'id' in the rows", {"word": ["x"], "list": [[1]]}),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_updates(tmp_path: Path, name: str) -> None:
    error, match, rows = REFUSED[name]
    ds = made(tmp_path / "t")
    refused(ds, error, match, lambda: ds.get_fragments()[0].update_columns(rows, "id"))


def test_what_one_fragment_cannot_get(tmp_path: Path) -> None:
    ds = made(tmp_path / "t", "0.1")
    part = ds.get_fragments()[0]
    words = {"a": pa.array(["x"] * 5).dictionary_encode()}
    refused(ds, UnsupportedError, "dictionary", lambda: part.merge_columns(words))
    refused(ds, UnsupportedError, "first", lambda: part.update_columns({"word": ["w1"], "id": [3]}, "word"))

    @lancecy.batch_udf(checkpoint_file=tmp_path / "checkpoint")
    def kept(batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch

    refused(ds, ValueError, "checkpoint file", lambda: part.merge_columns(kept))
    refused(ds, SchemaError, "have 3 rows, where", lambda: part.merge_columns({"a": [1, 2, 3]}))
