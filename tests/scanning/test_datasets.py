"""Datasets in the hands of a user: DataFrames, and what errors say."""

from __future__ import annotations

import json
import pickle
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lancecy
from lancecy.errors import ColumnNotFoundError, FormatError, nearest, printable
from lancecy.file import tail
from lancecy.schema import Field, Schema
from lancecy.store.uri import open_store
from tests.helpers.builders import write_manifest
from tests.helpers.datasets import SCHEMA, write_table

pd = pytest.importorskip("pandas")


def column(name: str | None, **changes: Any) -> dict[str, Any]:
    """What pandas says of a column."""
    return {
        "name": name,
        "field_name": name,
        "pandas_type": "int64",
        "numpy_type": "int64",
        "metadata": None,
        **changes,
    }


def said(**changes: Any) -> bytes:
    """What pandas says of a frame with ``id`` as its index."""
    names = [column("x"), column("id")]
    return json.dumps({"index_columns": ["id"], "columns": names, "column_indexes": [], **changes}).encode()


def table_with(folder: Path, text: bytes) -> lancecy.Dataset:
    """A table whose schema metadata has this text under ``pandas``."""
    root = write_table(str(folder / "t"), fragments=2, rows=5, deleted={0: [1]})
    manifest = lancecy.dataset(root)._snapshot.manifest
    schema = Schema(SCHEMA.fields, {"pandas": text, "other": b"kept"})
    write_manifest(open_store(root), replace(manifest, version=manifest.version + 1, schema=schema))
    return lancecy.dataset(root)


def test_index_that_pandas_described_is_made_again(tmp_path: Path) -> None:
    frame = table_with(tmp_path, said()).to_pandas(["id", "x"])
    assert frame.index.name == "id"
    assert list(frame.index) == [0, 2, 3, 4, 5, 6, 7, 8, 9]
    assert list(frame.columns) == ["x"]


_RANGE = {"kind": "range", "name": None, "start": 0, "stop": 9, "step": 1}
_BAD = {
    "no JSON": b"not json",
    "no text": b"\xff\xfe\x00",
    "nothing": b"",
    "nested deep": b"[" * 100_000,
    "a list": b"[]",
    "a number": b"5",
    "null": b"null",
    "empty": b"{}",
    "columns are text": said(columns="id"),
    "columns are numbers": said(columns=[1, 2]),
    "column without types": said(columns=[{"name": "id"}]),
    "column without a name": said(columns=[column(None, field_name=None)]),
    "name is a list": said(columns=[{**column("id"), "name": ["id"]}]),
    "metadata is text": said(columns=[column("id", metadata="x")]),
    "unknown type": said(columns=[column("gone", numpy_type="no-such-type")]),
    "unknown zone": said(columns=[column("x", pandas_type="datetimetz", metadata={"timezone": "No/Where"})]),
    "index of nothing": said(index_columns=["zz"]),
    "index is a number": said(index_columns=[3]),
    "index is a map": said(index_columns={"a": 1}),
    "index of unknown kind": said(index_columns=[{"kind": "tree"}]),
    "range without a step": said(index_columns=[{**_RANGE, "step": 0}]),
    "range of text": said(index_columns=[{**_RANGE, "stop": "9"}]),
    "range of everything": said(index_columns=[{**_RANGE, "stop": 10**30}]),
    "two levels of names": said(index_columns=[], column_indexes=[column("a"), column("b")]),
    "levels are text": said(column_indexes=["a"]),
    "attributes are text": said(attributes="x"),
}


@pytest.mark.parametrize("name", _BAD)
def test_what_pandas_cannot_have_said_is_passed_over(tmp_path: Path, name: str) -> None:
    ds = table_with(tmp_path, _BAD[name])
    frame = ds.to_pandas(["id", "x"])
    assert list(frame.columns) == ["id", "x"]
    assert list(frame["id"]) == [0, 2, 3, 4, 5, 6, 7, 8, 9]
    assert list(ds.get_fragments()[1].to_pandas(["id"])["id"]) == [5, 6, 7, 8, 9]
    assert list(ds.to_pandas({"y": "id * 2"}, filter="id > 7")["y"]) == [16, 18]
    assert ds.schema.metadata == {b"pandas": _BAD[name], b"other": b"kept"}


def test_values_that_do_not_convert_still_say_so(tmp_path: Path) -> None:
    from lancecy.scanning.pandas_metadata import to_frame

    def refuse(data_type: pa.DataType) -> Any:
        raise TypeError("no such dtype")

    table = table_with(tmp_path, said()).to_table()
    with pytest.raises(TypeError, match="no such dtype"):
        to_frame(table, refuse)


# -- errors ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "shown"),
    [("a\0b", r"'a\x00b'"), ("a\nb'c", r'''"a\nb'c"'''), ("a\x1b[1m", r"'a\x1b[1m'"), ("plain", "'plain'")],
)
def test_control_characters_are_escaped_once(raw: str, shown: str) -> None:
    assert repr(printable(raw)) == shown
    assert f"no column {shown} in" in str(ColumnNotFoundError(raw, ["x"]))
    assert shown in str(FormatError(f"{printable(raw)!r} is wrong"))


def test_column_with_a_nul_is_named_once_escaped(tmp_path: Path) -> None:
    ds = lancecy.dataset(write_table(str(tmp_path / "t"), fragments=1))
    with pytest.raises(ColumnNotFoundError) as caught:
        ds.to_table(["i\0d"])
    assert r"'i\x00d'" in str(caught.value)
    assert pickle.loads(pickle.dumps(caught.value)).name == r"i\x00d"


def test_name_asked_for_is_not_proposed() -> None:
    assert nearest("item", ["item", "items", "other"]) == ["items"]
    error = ColumnNotFoundError("l.item", ["l.item"])
    assert error.known == []
    assert "did you mean" not in str(error)


def test_items_of_a_list_are_not_proposed_to_who_asks_for_them() -> None:
    schema = pa.schema([("l", pa.list_(pa.field("item", pa.int64())))])
    item = Field("item", 1, parent_id=0, logical_type="int64")
    fields = Schema((Field("l", 0, logical_type="list", children=(item,)),))
    assert fields.arrow == schema
    with pytest.raises(ColumnNotFoundError) as caught:
        fields.path(("l", "item"))
    assert "did you mean 'l.item'" not in str(caught.value)


@pytest.mark.parametrize("version", ["2.0", "2.2"])
def test_sizes_are_exact_where_metadata_was_too_large_to_be_read_on_opening(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    uri = write_table(str(tmp_path / "t"), data_version=version)
    whole = lancecy.dataset(uri, untrusted=True)
    monkeypatch.setattr(tail, "TAIL_BYTES", 64)
    ds = lancecy.dataset(uri, untrusted=True)
    first = ds.context.fragments[0]
    fields = ds.context.snapshot.schema.fields
    by_manifest = ds.context.bytes_per_row(first, fields)
    assert not ds.context.files(first.id).knows(fields)
    assert ds.context.bytes_per_row(first, fields) == by_manifest
    assert ds.stats.data_stats() == whole.stats.data_stats()
    assert len(set(ds.stats.data_stats().values())) > 1
    again = lancecy.dataset(uri, untrusted=True)
    found, known = (d.scanner(["s"], filter="id < 30").explain() for d in (again, whole))
    assert found == known
    sizes = [d.context.row_bytes(np.array([1]), fields, exact=True) for d in (again, whole)]
    assert sizes[0] == sizes[1]


def test_session_of_a_fragment_takes_the_same_columns(tmp_path: Path) -> None:
    ds = lancecy.write_dataset({"i": range(20), "k": range(20)}, tmp_path / "t", max_rows_per_file=10)
    ds.delete("i IN (1, 12)")
    fragment = ds.get_fragments()[1]
    assert fragment.open_session().take([2, 0]).to_pydict() == {"i": [13, 10], "k": [13, 10]}
    assert fragment.open_session({"x": "i + 1"}, True).take([2]).to_pydict() == {
        "x": [14],
        "_rowaddr": [(1 << 32) + 3],
    }
    assert fragment.open_session(["k"], with_row_address=True).take([]).column_names == ["k", "_rowaddr"]
    with pytest.raises(ColumnNotFoundError):
        fragment.open_session(["z"])
    with pytest.raises(IndexError):
        fragment.open_session(["k"]).take([9])


def test_what_a_dataset_made_stays_at_its_version_when_the_dataset_moves(tmp_path: Path) -> None:
    ds = lancecy.write_dataset({"n": range(6)}, tmp_path / "t.lance", max_rows_per_file=3)
    fragments, scanner = ds.get_fragments(), ds.scanner()
    lazy, arrow, query = ds.to_polars_lazy(), ds.to_pyarrow_dataset(), ds.sql("SELECT * FROM dataset")
    ds.delete("n = 1")
    ds.add_columns({"m": "n"})
    ds.optimize.compact_files()
    assert [task.spec.version for task in scanner.plan().tasks] == [1, 1]
    assert scanner.count_rows() == scanner.to_table().num_rows == 6
    for fragment, rows in zip(fragments, ([0, 1, 2], [3, 4, 5]), strict=True):
        assert fragment.to_table().to_pydict() == {"n": rows}
        assert fragment.take([1]).to_pydict() == {"n": rows[1:2]}
        assert fragment.count_rows() == fragment.count_rows("n >= 0") == 3
    assert lazy.collect().to_dict(as_series=False) == arrow.to_table().to_pydict() == {"n": [*range(6)]}
    assert pa.Table.from_batches(query.build().to_batch_records()).to_pydict() == {"n": [*range(6)]}
    assert ds.get_fragments()[0].to_table().to_pydict() == {"n": [0, 2, 3, 4, 5], "m": [0, 2, 3, 4, 5]}


@pytest.mark.parametrize("stable", [False, True])
def test_comparisons_stay_at_their_versions_when_the_dataset_moves(stable: bool, tmp_path: Path) -> None:
    ds = lancecy.write_dataset({"n": [1, 2]}, tmp_path / "t.lance", enable_stable_row_ids=stable)
    ds.append({"n": [3, 4]})
    opened = lancecy.dataset(tmp_path / "t.lance")
    made: list[Any] = [ds.changes(since=1), ds.diff(1), opened.diff(1, ds)]
    ds.append({"n": [5]})
    ds.add_columns({"m": "n"})
    for found in made:
        assert found.to_table()["n"].to_pylist() == [3, 4]
    assert made[0].schema.names == ["n", "_rowid", "_change_type", "_commit_version"]


@pytest.mark.parametrize(
    "options",
    [
        {"filter": lancecy.col("n") > 1, "order_by": [("n", "descending")]},
        {"columns": {"twice": "n * 2"}, "limit": 2},
        {"include_deleted_rows": True, "with_row_id": True},
        {"nearest": {"column": "v", "q": [2.0, 0.0], "k": 2}},
    ],
    ids=["order", "computed", "deleted", "nearest"],
)
def test_scanners_and_statistics_are_pickled_at_their_version(
    options: dict[str, Any], tmp_path: Path
) -> None:
    vectors = pa.array([[n, 0.0] for n in range(4)], pa.list_(pa.float32(), 2))
    ds = lancecy.write_dataset({"n": range(4), "v": vectors}, tmp_path / "t.lance")
    ds.delete("n = 1")
    scanner, stats = ds.scanner(**options), ds.stats
    expected, counts = scanner.to_table(), stats.dataset_stats()
    ds.delete("n = 2")
    for copy in (pickle.loads(pickle.dumps((scanner, stats))), deepcopy((scanner, stats))):
        assert copy[0].to_table().equals(expected)
        assert copy[0].schema == expected.schema
        assert copy[1].dataset_stats() == counts
