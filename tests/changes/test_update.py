"""Updates of rows: new values of every kind, rows that move with all they have, refusals, and other writers."""

from __future__ import annotations

import datetime as dt
import random
import threading
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lancecy
from lancecy import col
from lancecy.arrow import BFloat16, bfloat16_array
from lancecy.changes.stored_rows import stored_rows
from lancecy.errors import (
    ColumnNotFoundError,
    ExpressionError,
    LanceError,
    RetryableConflictError,
    SchemaError,
)
from lancecy.expr import parse
from lancecy.progress import Step
from lancecy.scanning.request import ScanRequest
from tests.changes.rows import data_files
from tests.helpers.folded import folded

VERSIONS = ("legacy", "2.0", "2.1", "2.2")


def rows() -> pa.Table:
    days = [dt.datetime(2020, 1, day) for day in (1, 2, 3, 4)]
    structs = [{"x": 1, "y": "q"}, {"x": 2, "y": "r"}, None, {"x": None, "y": "t"}]
    return pa.table(
        {
            "a": pa.array([1, 2, 3, None], pa.int32()),
            "f": pa.array([1.0, 2.0, 3.5, None], pa.float32()),
            "s": pa.array(["a", "b", None, "d"]),
            "st": pa.array(structs, pa.struct({"x": pa.int64(), "y": pa.string()})),
            "l": pa.array([[1, 2], [], None, [3]], pa.list_(pa.int32())),
            "day": pa.array([day.date() for day in days]),
            "ts": pa.array(days, pa.timestamp("us")),
            "b": pa.array([b"x", b"y", None, b"z"]),
            "v": pa.array([[1, 2]] * 4, pa.list_(pa.float32(), 2)),
            "n": pa.array([1, 2, 3, 4], pa.int8()),
            "dec": pa.array([Decimal("1.25")] * 4, pa.decimal128(10, 2)),
            "flag": pa.array([True, False, None, True]),
            "json": pa.array(['{"k":1}', "[1,2.5]", None, '"x"'], pa.json_()),
            "word": pa.array(["p", "q", "p", None]).dictionary_encode(),
            "bf": bfloat16_array([1.5, 2.5, None, 4.5]),
        }
    )


def with_required(table: pa.Table, name: str) -> pa.Table:
    at = table.schema.get_field_index(name)
    return table.cast(table.schema.set(at, table.schema.field(at).with_nullable(False)))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> str:
    uri = str(tmp_path_factory.mktemp("update") / "t.lance")
    lancecy.write_dataset(with_required(rows(), "n"), uri)
    return uri


def restored(uri: str) -> lancecy.Dataset:
    """The first version, made the newest again: fast, and no case sees the changes of another."""
    first = lancecy.dataset(uri, version=1)
    first.restore()
    return first


@pytest.fixture
def ds(made: str) -> lancecy.Dataset:
    return restored(made)


def column(ds: lancecy.Dataset, name: str) -> list[Any]:
    """Values in the order of ``n``."""
    table = ds.to_table([name, "n"] if name != "n" else ["n"])
    values: list[Any] = table.take(pc.sort_indices(table["n"]))[name].to_pylist()
    return list(map(plain, values)) if name == "bf" else values


def plain(value: Any) -> Any:
    """A bfloat16 number as a float: lancecy's, or pylance's once a test has imported ``lance.arrow``."""
    value = BFloat16.from_bytes(value) if isinstance(value, bytes) else value
    return value.as_float() if hasattr(value, "as_float") else value


FIRST = "n = 1"
SETS: list[tuple[dict[str, Any], str | None, list[Any]]] = [
    ({"a": "a + 1"}, None, [2, 3, 4, None]),
    ({"a": "a + 1"}, "s = 'b'", [1, 3, 3, None]),
    ({"a": 5}, FIRST, [5, 2, 3, None]),
    ({"a": "5"}, FIRST, [5, 2, 3, None]),
    ({"a": "'7'"}, FIRST, [7, 2, 3, None]),
    ({"a": None}, None, [None] * 4),
    ({"a": "null"}, FIRST, [None, 2, 3, None]),
    ({"a": "f * 2"}, None, [2, 4, 7, None]),
    ({"a": "CASE WHEN n > 2 THEN n ELSE a END"}, None, [1, 2, 3, 4]),
    ({"a": col("a") * 2}, None, [2, 4, 6, None]),
    ({"a": (col("a") * 2).expr}, None, [2, 4, 6, None]),
    ({"a": pc.field("a") + 1}, None, [2, 3, 4, None]),
    ({"a": pa.scalar(3)}, FIRST, [3, 2, 3, None]),
    ({"a": np.int64(3)}, FIRST, [3, 2, 3, None]),
    ({"a": "flag"}, None, [1, 0, None, 1]),
    ({"f": "0.1"}, FIRST, [np.float32(0.1), 2, 3.5, None]),
    ({"f": "a / 2"}, None, [0, 1, 1, None]),
    ({"f": "cast('nan' as double)"}, "false", [1, 2, 3.5, None]),
    ({"s": "upper(s) || '!'"}, None, ["A!", "B!", None, "D!"]),
    ({"s": "a"}, None, ["1", "2", "3", None]),
    ({"s": "'it''s'"}, FIRST, ["it's", "b", None, "d"]),
    ({"st.x": "5"}, None, [{"x": 5, "y": y} for y in ("q", "r", None, "t")]),
    ({"st.x": "st.x + 1"}, None, [{"x": 2, "y": "q"}, {"x": 3, "y": "r"}, None, {"x": None, "y": "t"}]),
    ({"st.x": 7, "st.y": "'k'"}, FIRST, [{"x": 7, "y": "k"}, *rows()["st"].to_pylist()[1:]]),
    ({"st": {"x": 9, "y": "z"}}, FIRST, [{"x": 9, "y": "z"}, *rows()["st"].to_pylist()[1:]]),
    ({"st": {"y": "z"}}, FIRST, [{"x": None, "y": "z"}, *rows()["st"].to_pylist()[1:]]),
    ({"st": None}, FIRST, [None, *rows()["st"].to_pylist()[1:]]),
    ({"l": "[4, 5]"}, FIRST, [[4, 5], [], None, [3]]),
    ({"l": [4, None]}, FIRST, [[4, None], [], None, [3]]),
    ({"l": []}, FIRST, [[], [], None, [3]]),
    ({"day": "'2024-05-06'"}, FIRST, [dt.date(2024, 5, 6), *rows()["day"].to_pylist()[1:]]),
    ({"day": dt.date(2024, 5, 6)}, FIRST, [dt.date(2024, 5, 6), *rows()["day"].to_pylist()[1:]]),
    ({"ts": dt.date(2024, 5, 6)}, FIRST, [dt.datetime(2024, 5, 6), *rows()["ts"].to_pylist()[1:]]),
    ({"ts": "day"}, None, rows()["ts"].to_pylist()),
    ({"ts": np.datetime64("2024-05-06")}, FIRST, [dt.datetime(2024, 5, 6), *rows()["ts"].to_pylist()[1:]]),
    ({"ts": pd.Timestamp("2024-05-06")}, FIRST, [dt.datetime(2024, 5, 6), *rows()["ts"].to_pylist()[1:]]),
    ({"ts": pd.NaT}, FIRST, [None, *rows()["ts"].to_pylist()[1:]]),
    ({"a": pd.NA}, FIRST, [None, 2, 3, None]),
    ({"b": b"\0\xff"}, FIRST, [b"\0\xff", b"y", None, b"z"]),
    ({"b": "X'00ff'"}, FIRST, [b"\0\xff", b"y", None, b"z"]),
    ({"b": bytearray(b"q")}, FIRST, [b"q", b"y", None, b"z"]),
    ({"v": "[3.0, 4.5]"}, FIRST, [[3, 4.5], *[[1, 2]] * 3]),
    ({"v": np.array([3, 4.5])}, FIRST, [[3, 4.5], *[[1, 2]] * 3]),
    ({"dec": "dec * 2"}, FIRST, [Decimal("2.50"), *[Decimal("1.25")] * 3]),
    ({"dec": Decimal("3.5")}, FIRST, [Decimal("3.50"), *[Decimal("1.25")] * 3]),
    ({"flag": "a = 1"}, None, [True, False, False, None]),
    ({"json": {"k": [1, 2]}}, FIRST, ['{"k":[1,2]}', "[1,2.5]", None, '"x"']),
    ({"json": "'[3]'"}, FIRST, ["[3]", "[1,2.5]", None, '"x"']),
    ({"json": None}, FIRST, [None, "[1,2.5]", None, '"x"']),
    ({"word": "'new'"}, FIRST, ["new", "q", "p", None]),
    ({"word": "s"}, None, ["a", "b", None, "d"]),
    ({"bf": 8}, FIRST, [8, 2.5, None, 4.5]),
    ({"bf": "a * 0.5"}, None, [0.5, 1, 1.5, None]),
    ({"bf": "bf"}, None, [1.5, 2.5, None, 4.5]),
]


@folded("updates, where, wanted", SETS)
def test_values_of_every_kind(
    made: str, updates: dict[str, Any], where: str | None, wanted: list[Any]
) -> None:
    ds = restored(made)
    before = ds.to_table()
    (name,) = {key.partition(".")[0] for key in updates}
    assert ds.update(updates, where)["num_rows_updated"] in (0, 1, 4)
    assert column(ds, name) == wanted
    kept, found = (table.take(pc.sort_indices(table["n"])) for table in (before, ds.to_table()))
    for other in set(before.schema.names) - {name}:
        for one, two in zip(kept[other].to_pylist(), found[other].to_pylist(), strict=True):
            assert plain(one) == plain(two) if other == "bf" else one == two, other


def test_an_expression_sees_the_row_as_it_was(ds: lancecy.Dataset) -> None:
    assert ds.update({"a": "cast(n as int)", "n": "cast(coalesce(a, 9) as tinyint)"})["num_rows_updated"] == 4
    assert sorted(zip(column(ds, "n"), column(ds, "a"), strict=True)) == [(1, 1), (2, 2), (3, 3), (9, 4)]


def test_rows_that_do_not_match_stay_and_nothing_is_written_without_a_match(ds: lancecy.Dataset) -> None:
    version, files = ds.version, data_files(Path(ds.uri) / "data")
    assert ds.update({"a": "a + 1"}, "n > 100") == {"num_rows_updated": 0}
    assert (ds.version, data_files(Path(ds.uri) / "data")) == (version, files)
    # An unknown predicate is not true.
    assert ds.update({"a": "0"}, "a > 1") == {"num_rows_updated": 2}
    assert column(ds, "a") == [1, 0, 0, None]
    assert (ds.version, lancecy.dataset(ds.uri).version) == (version + 1, version + 1)


def test_rows_are_chosen_by_their_ids(tmp_path: Path) -> None:
    ds = lancecy.write_dataset(
        {"n": np.arange(30)}, tmp_path / "t", max_rows_per_file=10, enable_stable_row_ids=True
    )
    for _ in range(2):
        assert ds.update({"n": "n + 100"}, "_rowid = 13") == {"num_rows_updated": 1}
    assert ds.to_table(filter="_rowid = 13")["n"].to_pylist() == [213]
    found = ds.explain_update({"n": "0"}, "_rowid = 13")
    assert [(line.rows, line.updated_rows) for line in found.fragments] == [(1, 1)]


def test_a_division_is_tried_on_matching_rows_only(ds: lancecy.Dataset) -> None:
    ds.update({"a": "12 / (a - 1)"}, "a != 1")
    assert column(ds, "a") == [1, 12, 6, None]


REFUSED: list[tuple[dict[Any, Any], type[Exception], str]] = [
    ({"a": "1.5"}, SchemaError, "column 'a' is int32, and cannot be set to the double value 1.5"),
    ({"a": 1.5}, SchemaError, "column 'a' is int32, and cannot be set to 1.5"),
    ({"a": "f * 1.5"}, SchemaError, r"value 1.5 in row 0.*CAST"),
    ({"a": "'x'"}, SchemaError, "column 'a' is int32.*'x'"),
    ({"a": "s"}, SchemaError, "column 'a' is int32.*'a' in row 0"),
    ({"a": "l"}, SchemaError, "column 'a' is int32"),
    ({"a": "3000000000"}, SchemaError, "3000000000"),
    ({"a": [1, 2]}, SchemaError, r"column 'a' is int32, and cannot be set to \[1, 2\]"),
    ({"n": "null"}, SchemaError, "column 'n' may not be null, and would be in every row"),
    ({"n": None}, SchemaError, "column 'n' may not be null"),
    ({"n": "a"}, SchemaError, "column 'n' may not be null, and would be in row 3"),
    ({"n": "cast(n as int) * 50"}, SchemaError, "150 in row 2"),
    ({"f": "1e300"}, SchemaError, "too large for float"),
    ({"dec": "dec * 1.1"}, SchemaError, r"column 'dec'.*in row 0"),
    ({"ts": "'today'"}, SchemaError, "column 'ts'"),
    ({"ts": pd.Timestamp("2024-05-06 00:00:00.000000001")}, SchemaError, "column 'ts'.*lose data"),
    ({"v": [1.0]}, SchemaError, "column 'v'"),
    ({"st": {"z": 1}}, SchemaError, "no member 'z'"),
    ({"st": {"x": 1.5}}, SchemaError, "column 'st'"),
    ({"json": "'{'"}, SchemaError, "not JSON"),
    ({"f": "0", "a": "1 / (a - 1)"}, ExpressionError, "divide by zero .*in column 'a'"),
    ({"a": "1 / 0"}, ExpressionError, "divide by zero"),
    ({"a": "9223372036854775807 + n"}, ExpressionError, "overflow"),
    ({"a": "a +"}, ExpressionError, "a +"),
    ({"a": " "}, ExpressionError, "empty"),
    ({"a": "nope"}, ColumnNotFoundError, "nope"),
    ({"nope": "1"}, ColumnNotFoundError, "nope"),
    ({"A": "1"}, ColumnNotFoundError, "did you mean 'a'"),
    ({"_rowid": "1"}, ColumnNotFoundError, "_rowid"),
    ({"st.z": "1"}, ColumnNotFoundError, "st.z"),
    ({"l.item": "1"}, ColumnNotFoundError, "l.item"),
    ({"st": None, "st.x": 1}, ValueError, "'st.x' is set twice"),
    ({"a": 1, "`a`": 2}, ValueError, "'a' is set twice"),
    ({}, ValueError, "at least one column"),
    ({3: "1"}, TypeError, "3 is no name"),
]


def test_text_that_is_no_expression_is_told_to_be_quoted(made: str) -> None:
    for text, what in {
        "hello": "no column 'hello'",
        "hello world": "near 'world'",
        "it's": "not closed",
    }.items():
        with pytest.raises((ColumnNotFoundError, ExpressionError), match=what) as raised:
            lancecy.dataset(made).update({"s": text})
        assert raised.value.__notes__ == [
            "Values of an update are SQL: text has quotes of its own, as in \"'text'\"."
        ]


@folded("updates, kind, message", REFUSED)
def test_refused_updates_leave_the_table_as_it_was(
    ds: lancecy.Dataset, updates: dict[Any, Any], kind: type[Exception], message: str
) -> None:
    version, files, before = ds.version, data_files(Path(ds.uri)), ds.to_table()
    with pytest.raises(kind, match=message):
        ds.update(updates)
    assert (lancecy.dataset(ds.uri).version, data_files(Path(ds.uri))) == (version, files)
    assert ds.to_table().equals(before)


def test_arguments_are_checked(ds: lancecy.Dataset) -> None:
    wrong: list[tuple[type[Exception], Any, dict[str, Any]]] = [
        (TypeError, "a = 1", {}),
        (TypeError, {"a": "1"}, {"conflict_retries": "2"}),
        (ValueError, {"a": "1"}, {"durability": "maybe"}),
        (TypeError, {"a": "1"}, {"progress": 3}),
        (SchemaError, {"a": "1"}, {"data_storage_version": "legacy"}),
        (ExpressionError, {"a": "1"}, {"where": "a"}),
        (TypeError, {"a": "1"}, {"were": "a = 1"}),
    ]
    for kind, updates, options in wrong:
        with pytest.raises(kind):
            ds.update(updates, **options)
    assert column(ds, "a") == [1, 2, 3, None]


def test_members_that_may_not_be_null(tmp_path: Path) -> None:
    point = pa.struct([pa.field("x", pa.int64(), False), pa.field("y", pa.string())])
    table = pa.table({"n": [0, 1], "p": pa.array([{"x": 1, "y": "a"}, None], point)})
    ds = lancecy.write_dataset(table, tmp_path / "t")
    with pytest.raises(SchemaError, match=r"'p.x' may not be null, and would be in row 0"):
        ds.update({"p.x": None})
    with pytest.raises(SchemaError, match=r"'p.x' may not be null, and would be in row 1"):
        ds.update({"p.y": "'b'"})
    with pytest.raises(SchemaError, match="'x' may not be null"):
        ds.update({"p": {"y": "b"}})
    ds.update({"p.x": "p.x + 1"})
    assert ds.to_table()["p"].to_pylist() == [{"x": 2, "y": "a"}, None]
    ds.update({"p.x": 5}, "n = 1")
    assert ds.to_table()["p"].to_pylist() == [{"x": 2, "y": "a"}, {"x": 5, "y": None}]


# -- rows that move -------------------------------------------------------------------------------


def all_types(count: int, version: str) -> pa.Table:
    """Columns of every kind that a file version has, with nulls."""
    numbers = range(count)
    columns: dict[str, Any] = {
        "n": pa.array(numbers, pa.int64()),
        # Files of 0.1 have no null numbers.
        "x": pa.array([None if i % 5 == 0 and version != "legacy" else i for i in numbers], pa.int64()),
        "word": pa.array([None if i % 7 == 0 else f"w{i % 4}" for i in numbers]).dictionary_encode(),
        "v": pa.array([[i, i + 0.5] for i in numbers], pa.list_(pa.float32(), 2)),
        "list": pa.array([list(range(i % 4)) for i in numbers], pa.list_(pa.int32())),
        "st": pa.array([{"x": i, "t": f"t{i}"} for i in numbers]),
        "bf": bfloat16_array([i * 0.5 for i in numbers]),
    }
    if version != "legacy":
        columns["json"] = pa.array([None if i % 6 == 0 else f'{{"i":{i}}}' for i in numbers], pa.json_())
        missing = {"j": None} if version == "2.0" else None
        columns["maybe"] = pa.array(
            [missing if i % 3 == 0 else {"j": f"[{i}]"} for i in numbers], pa.struct({"j": pa.string()})
        )
    return pa.table(columns)


@pytest.mark.interop
@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable-ids"])
@pytest.mark.parametrize("version", VERSIONS)
def test_rows_move_with_all_they_have(tmp_path: Path, version: str, stable: bool) -> None:
    import lance

    uri, table = str(tmp_path / "t.lance"), all_types(40, version)
    lancecy.write_dataset(
        table, uri, data_storage_version=version, max_rows_per_file=16, enable_stable_row_ids=stable
    )
    ds = lancecy.dataset(uri)
    ids = dict(
        zip(*(ds.to_table(["n"], with_row_id=True)[k].to_pylist() for k in ("n", "_rowid")), strict=True)
    )
    # The second fragment goes away, and parts of the others.
    assert (
        ds.update({"x": "n + 1000", "st.t": "'new'"}, "n >= 16 AND n < 32 OR n % 4 = 1")["num_rows_updated"]
        == 22
    )
    assert [f.fragment_id for f in ds.get_fragments()] == [0, 2, 3]
    wanted = [
        {**row, "x": row["n"] + 1000, "st": {**row["st"], "t": "new"}}
        if 16 <= row["n"] < 32 or row["n"] % 4 == 1
        else row
        for row in ({**row, "bf": plain(row["bf"])} for row in table.to_pylist())
    ]
    theirs = lance.dataset(uri)
    theirs.validate()
    for found in (lancecy.dataset(uri), theirs):
        rows_found = sorted(found.to_table().to_pylist(), key=lambda row: row["n"])
        assert [{**row, "bf": plain(row["bf"])} for row in rows_found] == wanted
        assert found.count_rows("x > 1000") == 22
        assert found.count_rows("st.t = 'new' AND word = 'w1'") == sum(
            row["st"]["t"] == "new" and row["word"] == "w1" for row in wanted
        )
    versions = ("_row_created_at_version", "_row_last_updated_at_version")
    if stable:
        found_table = ds.to_table(["n", *versions], with_row_id=True)
        assert dict(zip(*(found_table[k].to_pylist() for k in ("n", "_rowid")), strict=True)) == ids
        for row in found_table.to_pylist():
            changed = 16 <= row["n"] < 32 or row["n"] % 4 == 1
            assert [row[name] for name in versions] == [1, 2 if changed else 1]
    (transaction,) = ds.get_transactions(1)
    assert transaction is not None
    assert type(transaction.operation).__name__ == "Update"


@pytest.mark.interop
@pytest.mark.parametrize(("version", "members"), [("2.0", 2), ("2.1", 2), ("2.2", 2), ("2.2", 4)])
def test_blobs_move_with_their_bytes(
    tmp_path: Path, version: str, members: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    import lance
    from lance.blob import blob_array, blob_field

    monkeypatch.setattr("lancecy.changes.stored_rows._BLOB_BYTES", 9000)
    # In the data file, beside others in an object, and alone in one.
    values = [b"small", b"", None, b"p" * 80_000, b"q" * 5_000_000, b"r" * 100]
    if members == 4:
        blob, blobs = blob_field("blob"), blob_array(values)
    else:
        blob = pa.field("blob", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
        blobs = pa.array(values, pa.large_binary())
    table = pa.table([pa.array(range(6)), blobs], schema=pa.schema([pa.field("n", pa.int64()), blob]))
    uri = str(tmp_path / "t.lance")
    lancecy.write_dataset(table, uri, data_storage_version=version)
    ds = lancecy.dataset(uri)
    ds.update({"n": "n + 10"}, "n != 1")
    ds.update({"blob": b"given"}, "n = 15")
    order = [1, 10, 12, 13, 14, 15]
    wanted = [b"", values[0], None, values[3], values[4], b"given"]
    ds.optimize.compact_files()
    for found in (lancecy.dataset(uri), lance.dataset(uri)):
        numbers = found.to_table(columns=["n"])["n"].to_pylist()
        taken = found.take_blobs("blob", indices=[numbers.index(n) for n in order])
        read = [None if one is None else one.readall() for one in taken]
        # pylance has no file for a blob without bytes.
        assert [value or None for value in read] == [value or None for value in wanted]
    assert sum(path.stat().st_size for path in Path(uri).rglob("*.lance")) > 0


@pytest.mark.interop
def test_blobs_outside_of_the_table_keep_their_places(tmp_path: Path) -> None:
    import lance
    from lance.blob import Blob, blob_array, blob_field

    (tmp_path / "outside.bin").write_bytes(b"outside")
    table = pa.table(
        [pa.array([1]), blob_array([Blob.from_uri((tmp_path / "outside.bin").as_uri())])],
        schema=pa.schema([pa.field("n", pa.int64()), blob_field("blob")]),
    )
    uri = str(tmp_path / "t.lance")
    lance.write_dataset(table, uri, data_storage_version="2.2", allow_external_blob_outside_bases=True)
    before = lance.dataset(uri).to_table()["blob"].to_pylist()
    lancecy.dataset(uri).update({"n": "2"})
    for found in (lance.dataset(uri), lancecy.dataset(uri)):
        assert found.to_table().to_pylist() == [{"n": 2, "blob": before[0]}]
        assert [data for _, data in found.read_blobs("blob", indices=[0])] == [b"outside"]


def test_dictionaries_of_old_tables_get_no_new_values(tmp_path: Path) -> None:
    table = pa.table({"n": [1, 2], "word": pa.array(["p", "q"]).dictionary_encode()})
    ds = lancecy.write_dataset(table, tmp_path / "t", data_storage_version="legacy")
    ds.update({"word": "'q'"}, "n = 1")
    assert column(ds, "word") == ["q", "q"]
    files = data_files(tmp_path / "t")
    with pytest.raises(LanceError, match="word"):
        ds.update({"word": "'new'"}, "n = 1")
    assert (ds.checkout_latest().version, data_files(tmp_path / "t")) == (2, files)


def test_columns_that_files_lack_stay_null(tmp_path: Path) -> None:
    ds = lancecy.write_dataset({"n": [1, 2], "x": [5, 6]}, tmp_path / "t")
    ds.append({"n": [3]})
    ds.update({"n": "n * 10"})
    assert ds.to_table().to_pylist() == [{"n": 10, "x": 5}, {"n": 20, "x": 6}, {"n": 30, "x": None}]


def test_rows_are_read_in_windows_with_their_addresses(tmp_path: Path) -> None:
    ds = lancecy.write_dataset({"n": np.arange(200_000)}, tmp_path / "t", max_rows_per_file=70_000)
    ds.delete("n % 2 = 0")
    found = list(stored_rows(ds.context, ScanRequest(), budget=1 << 20))
    assert len(found) > 3
    addresses = np.concatenate([rows.addresses for rows in found])
    numbers = np.concatenate([rows.batch["n"].to_numpy() for rows in found])
    assert numbers.tolist() == list(range(1, 200_000, 2))
    assert (
        (addresses >> np.uint64(32)) * 70_000 + (addresses & np.uint64(0xFFFFFFFF))
    ).tolist() == numbers.tolist()


def test_what_a_filter_leaves_is_read_fragment_by_fragment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lancecy.changes.stored_rows._SMALLEST_WINDOW", 1 << 10)
    ds = lancecy.write_dataset({"n": np.arange(8000)}, tmp_path / "t", max_rows_per_file=1000)
    (few,) = stored_rows(ds.context, ScanRequest(filter=parse("n % 100 = 7")))
    assert few.batch["n"].to_pylist() == list(range(7, 8000, 100))
    monkeypatch.setattr("lancecy.scanning.outputs._WORTH_NANOSECONDS", 0.0)
    found = list(stored_rows(ds.context, ScanRequest(filter=parse("n % 100 = 7"))))
    assert [rows.batch["n"].to_pylist() for rows in found] == [
        list(range(1000 * fragment + 7, 1000 * (fragment + 1), 100)) for fragment in range(8)
    ]
    (whole,) = stored_rows(ds.context, ScanRequest())
    assert whole.batch.num_rows == 8000


def test_progress_counts_the_rows(tmp_path: Path) -> None:
    ds = lancecy.write_dataset({"n": np.arange(1000)}, tmp_path / "t")
    steps: list[Step] = []
    ds.update({"n": "n + 1"}, "n < 300", progress=steps.append)
    assert (steps[-1].what, steps[-1].done, steps[-1].total) == ("write", 300, 300)


def test_an_update_is_explained_before_it_is_made(tmp_path: Path) -> None:
    data = {"n": np.arange(1000), "x": np.arange(1000) * 0.5, "s": ["text"] * 1000}
    ds = lancecy.write_dataset(data, tmp_path / "t", max_rows_per_file=300)
    ds.delete("n >= 310 AND n < 320")
    found = ds.explain_update({"x": "x * 2", "s": "'a'"}, "n < 340")
    assert (found.updated_rows, found.rows, found.num_fragments, found.removed_fragments) == (330, 990, 4, 1)
    assert [(line.fragment, line.rows, line.updated_rows) for line in found.fragments] == [
        (0, 300, 300),
        (1, 290, 30),
    ]
    assert found.assignments == ("x = x * 2", "s = 'a'")
    assert 0 < found.bytes_to_write < sum(path.stat().st_size for path in (tmp_path / "t" / "data").iterdir())
    assert found.bytes_to_read > found.bytes_to_search > 0
    assert "330 of 990 move" in repr(found)
    assert found.to_dict()["fragments"][1]["updated_rows"] == 30
    assert "<table>" in found._repr_html_()
    whole = ds.explain_update({"x": 0.0})
    assert (whole.updated_rows, whole.where, whole.bytes_to_search) == (990, None, 0)
    assert whole.bytes_to_read < whole.bytes_to_write, "the column that is set is not read"
    many = lancecy.write_dataset({"n": np.arange(50)}, tmp_path / "many", max_rows_per_file=2)
    text = str(many.explain_update({"n": "0"}))
    assert text.endswith("5 more fragments")
    assert ds.explain_update({"x": "0"}, "n < 0").updated_rows == 0
    with pytest.raises(ColumnNotFoundError):
        ds.explain_update({"y": "0"})
    assert ds.checkout_latest().version == 2, "nothing was changed"


# -- other writers --------------------------------------------------------------------------------


@pytest.fixture(params=[False, True], ids=["addresses", "stable-ids"])
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """One fragment of ten rows."""
    uri = str(tmp_path / "t")
    lancecy.write_dataset({"n": np.arange(10), "x": [0] * 10}, uri, enable_stable_row_ids=request.param)
    return uri


def test_updates_of_other_rows_of_a_fragment_both_land(shared: str) -> None:
    mine, other = lancecy.dataset(shared), lancecy.dataset(shared)
    other.update({"x": "1"}, "n < 3")
    mine.update({"x": "2"}, "n >= 7", conflict_retries=0)
    other.delete("n = 5")
    assert lancecy.dataset(shared).to_table().sort_by("n")["x"].to_pylist() == [1, 1, 1, 0, 0, 0, 2, 2, 2]


def test_updates_of_the_same_rows_see_each_other(shared: str) -> None:
    mine, other = lancecy.dataset(shared), lancecy.dataset(shared)
    other.update({"x": "x + 1"}, "n < 5")
    files = data_files(Path(shared) / "data")
    with pytest.raises(RetryableConflictError):
        mine.update({"x": "x + 10"}, "n < 7", conflict_retries=0)
    assert data_files(Path(shared) / "data") == files, "an attempt left files"
    assert mine.update({"x": "x + 10"}, "n < 7") == {"num_rows_updated": 7}
    table = lancecy.dataset(shared).to_table().sort_by("n")
    assert table["x"].to_pylist() == [11, 11, 11, 11, 11, 10, 10, 0, 0, 0]
    assert len(data_files(Path(shared) / "data")) == 3


def test_a_row_deleted_meanwhile_stays_deleted(shared: str) -> None:
    mine = lancecy.dataset(shared)
    lancecy.dataset(shared).delete("n = 3")
    assert mine.update({"x": "5"}, "n IN (2, 3)") == {"num_rows_updated": 1}
    assert mine.to_table(filter="n < 5").sort_by("n").to_pylist() == [
        {"n": 0, "x": 0},
        {"n": 1, "x": 0},
        {"n": 2, "x": 5},
        {"n": 4, "x": 0},
    ]


def test_an_update_meets_a_compaction_a_new_column_and_a_rename(shared: str) -> None:
    lancecy.dataset(shared).append({"n": [10], "x": [0]})
    mine, other = lancecy.dataset(shared), lancecy.dataset(shared)
    other.optimize.compact_files()
    assert mine.update({"x": "1"}, "n IN (2, 10)") == {"num_rows_updated": 2}
    mine, other = lancecy.dataset(shared), lancecy.dataset(shared)
    other.add_columns({"twice": "n * 2"})
    assert mine.update({"x": "x + 1"}, "n = 2") == {"num_rows_updated": 1}
    mine, other = lancecy.dataset(shared), lancecy.dataset(shared)
    other.alter_columns({"path": "twice", "name": "double"})
    assert mine.update({"x": "x + 1"}, "n = 2") == {"num_rows_updated": 1}
    found = lancecy.dataset(shared).to_table(filter="x > 0").sort_by("n").to_pylist()
    assert found == [{"n": 2, "x": 3, "double": 4}, {"n": 10, "x": 1, "double": 20}]


def test_no_update_of_several_writers_is_lost(shared: str) -> None:
    def write() -> None:
        for _ in range(4):
            lancecy.dataset(shared).update({"x": "x + 1"}, conflict_retries=100)

    writers = [threading.Thread(target=write) for _ in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert lancecy.dataset(shared).to_table()["x"].to_pylist() == [12] * 10


# -- histories ------------------------------------------------------------------------------------


@pytest.mark.interop
@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable-ids"])
@pytest.mark.parametrize("version", VERSIONS)
def test_random_histories_agree_with_pylance_and_a_model(tmp_path: Path, version: Any, stable: bool) -> None:
    import lance

    chance, uri = random.Random(f"{version}{stable}"), str(tmp_path / "t.lance")
    table = pa.table({"n": range(60), "x": range(60), "s": [f"s{i % 7}" for i in range(60)]})
    lance.write_dataset(
        table, uri, data_storage_version=version, max_rows_per_file=25, enable_stable_row_ids=stable
    )
    model = {row["n"]: (row["x"], row["s"]) for row in table.to_pylist()}
    if version != "legacy":
        lance.dataset(uri).create_scalar_index("x", "BTREE")
    for _ in range(12):
        low, width, rest = chance.randint(0, 60), chance.randint(0, 30), chance.randint(0, 4)
        where = f"n >= {low} AND n < {low + width} AND n % 5 != {rest}"
        hit = [n for n in model if low <= n < low + width and n % 5 != rest]
        kind = chance.choice(["mine", "mine", "theirs", "delete", "append"])
        if kind == "append":
            first = max(model, default=0) + 1
            lancecy.dataset(uri).append({"n": [first], "x": [0], "s": ["new"]})
            model[first] = (0, "new")
        elif kind == "delete":
            gone = hit[:3]
            lancecy.dataset(uri).delete(f"n IN ({', '.join(map(str, [-1, *gone]))})")
            model = {n: row for n, row in model.items() if n not in gone}
        else:
            library: Any = lancecy if kind == "mine" else lance
            done = library.dataset(uri).update({"x": "x + n", "s": "s || '.'"}, where)
            assert done["num_rows_updated"] == len(hit)
            model.update({n: (model[n][0] + n, model[n][1] + ".") for n in hit})
        theirs, mine = lance.dataset(uri), lancecy.dataset(uri)
        theirs.validate()
        for found in (theirs, mine):
            assert {r["n"]: (r["x"], r["s"]) for r in found.to_table().to_pylist()} == model
            for bound in (10, 70):
                wanted = sum(x > bound for x, _ in model.values())
                assert found.count_rows(f"x > {bound}") == wanted
