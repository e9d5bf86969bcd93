"""Rows of several files of 2.x, decoded together and file by file: the same rows, for every kind of column."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lancecy
from lancecy.encodings.several_files import is_apart
from lancecy.errors import FormatError
from lancecy.file.v2.reader import V2Reader
from lancecy.store.reads import Fetch, Ranges, Read, Span, run

ROWS, FILES = 1200, 4
TEXTS = [None if n % 11 == 3 else f"text number {n * 7919 % 10007}" for n in range(ROWS)]
WORDS = [f"word {n % 7}" for n in range(ROWS)]
NUMBERS = [None if n % 13 == 5 else n * n for n in range(ROWS)]
LISTS = [None if n % 17 == 4 else TEXTS[n : n + n % 4] for n in range(ROWS)]
STRUCTS = [{"a": n % 100, "b": TEXTS[n], "c": LISTS[n]} for n in range(ROWS)]
COLUMNS: dict[str, pa.Array] = {
    "number": pa.array(NUMBERS, pa.int64()),
    "flag": pa.array([n % 3 == 0 for n in range(ROWS)]),
    "text": pa.array(TEXTS),
    "word": pa.array(WORDS),
    "category": pa.array(WORDS).dictionary_encode(),
    "bytes": pa.array([text and text.encode() for text in TEXTS], pa.large_binary()),
    "list": pa.array(LISTS, pa.list_(pa.string())),
    "lists": pa.array([LISTS[n : n + n % 3] for n in range(ROWS)], pa.list_(pa.list_(pa.string()))),
    "struct": pa.array(STRUCTS),
    "structs": pa.array([STRUCTS[n : n + n % 3] for n in range(ROWS)]),
    "vector": pa.FixedSizeListArray.from_arrays(pa.array(np.arange(ROWS * 4, dtype=np.float32)), 4),
    "wide": pa.FixedSizeListArray.from_arrays(pa.array(np.arange(ROWS * 64, dtype=np.float64)), 64),
}


@pytest.fixture(params=["2.0", "2.1", "2.2"])
def tables(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[lancecy.Dataset, pa.Table]:
    table = pa.table({"key": pa.array(range(ROWS)), **COLUMNS})
    ds = lancecy.write_dataset(
        table, str(tmp_path / "t"), data_storage_version=request.param, max_rows_per_file=ROWS // FILES
    )
    return ds, table


def _by_file(ds: lancecy.Dataset, **scan: Any) -> pa.Table:
    return pa.concat_tables([ds.to_table(fragments=[f], **scan) for f in ds.get_fragments()])


def _same(one: pa.Table, other: pa.Table) -> bool:
    """Whether two tables hold the same values, whatever their dictionaries."""
    return bool(one.to_pylist() == other.to_pylist())


def test_rows_of_several_files_are_those_of_each(tables: tuple[lancecy.Dataset, pa.Table]) -> None:
    ds, table = tables
    for _ in range(2):  # the second time, pages and programs are known
        for name in COLUMNS:
            assert _same(ds.to_table(columns=[name]), table.select([name])), name
            assert _same(ds.take([3, 5, 299, 300, 650, 1199], columns=[name]), table.select([name]).take([3, 5, 299, 300, 650, 1199])), name  # fmt: skip
            found = ds.to_table(columns=[name], filter="key % 37 = 4")
            assert _same(found, table.select([name]).take(list(range(4, ROWS, 37)))), name
            assert _same(found, _by_file(ds, columns=[name], filter="key % 37 = 4")), name


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
@pytest.mark.parametrize("nulls", [0, 1, 3])
def test_a_file_without_bytes_of_a_column_is_read_with_others(
    version: str, nulls: int, tmp_path: Path
) -> None:
    values = [COLUMNS["number"][start : start + 300] for start in (0, 300, 600)]
    chunks = [*values[:nulls], pa.nulls(300, pa.int64()), *values[nulls:]]
    table = pa.table({"key": pa.array(range(ROWS)), "number": pa.chunked_array(chunks)})
    ds = lancecy.write_dataset(
        table, str(tmp_path / "t"), data_storage_version=version, max_rows_per_file=ROWS // FILES
    )
    for _ in range(3):
        assert _same(ds.to_table(), table)
        assert _same(ds.to_table(columns=["number"], filter="key >= 250"), table.select(["number"])[250:])


def test_deleted_rows_and_other_fields_are_left_out(tables: tuple[lancecy.Dataset, pa.Table]) -> None:
    ds, table = tables
    ds.delete("key % 5 = 1 or key between 290 and 320")
    left = [n for n in range(ROWS) if n % 5 != 1 and not 290 <= n <= 320]
    for name in COLUMNS:
        for _ in range(2):
            assert _same(ds.to_table(columns=[name]), table.select([name]).take(left)), name
    assert ds.to_table(columns={"x": "key * 2"}, filter="text is not null")["x"].to_pylist() == [
        2 * n for n in left if TEXTS[n] is not None
    ]


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
@pytest.mark.parametrize("odd", [[0], [17, 39], [*range(0, 40, 2)]], ids=["the first", "two", "every second"])
def test_files_of_other_encodings_are_among_many(version: str, odd: list[int], tmp_path: Path) -> None:
    parts = []
    for file in range(40):
        numbers = range(file * 20, file * 20 + 20)
        changed = file in odd
        parts.append(
            pa.table(
                {
                    "key": pa.array(numbers, pa.int64()),
                    "number": pa.array([None if changed and n % 3 else n * n for n in numbers], pa.int64()),
                    "text": pa.array(["" if changed else f"text {n} of some words" * 4 for n in numbers]),
                    "list": pa.array([[n] if changed else [n, None, n][: n % 4] for n in numbers]),
                    "struct": pa.array(
                        [None if changed and version != "2.0" else {"a": n} for n in numbers],
                        pa.struct({"a": pa.int64()}),
                    ),
                }
            )
        )
    table = pa.concat_tables(parts)
    ds = lancecy.write_dataset(table, str(tmp_path / "t"), data_storage_version=version, max_rows_per_file=20)
    some = [0, 19, 20, 345, 346, 777, 799]
    for _ in range(3):
        assert _same(ds.to_table(), table)
        assert _same(ds.take(some), table.take(some))
        found = ds.to_table(columns=["text", "number", "struct"], filter="key % 7 = 2")
        assert _same(found, table.select(["text", "number", "struct"]).take(list(range(2, 800, 7))))


def test_files_with_other_dictionaries_give_distinct_categories(tmp_path: Path) -> None:
    parts = [pa.table({"c": pa.array(words).dictionary_encode()}) for words in (["a", "b"], ["b", "c", "a"])]
    for version in ("2.0", "2.1"):
        root = str(tmp_path / version)
        for part in parts:
            ds = lancecy.write_dataset(part, root, data_storage_version=version, mode="append")
        for _ in range(3):
            assert ds.to_table()["c"].cast(pa.string()).to_pylist() == ["a", "b", "b", "c", "a"]
            assert ds.to_table().to_pandas()["c"].tolist() == ["a", "b", "b", "c", "a"]


@pytest.mark.parametrize("version", ["2.0", "2.1"])
def test_a_damaged_file_is_named(version: str, tmp_path: Path) -> None:
    texts = pa.table({"s": [f"text {n}" for n in range(400)]})
    ds = lancecy.write_dataset(
        texts, str(tmp_path / "t"), data_storage_version=version, max_rows_per_file=100
    )
    assert _same(ds.to_table(), texts)
    broken = sorted((tmp_path / "t" / "data").iterdir())[2]
    data = bytearray(broken.read_bytes())
    at = 0 if version == "2.0" else 64  # the first end of a string, or the header of the first chunk
    data[at : at + 8] = b"\xff" * 8
    broken.write_bytes(data)
    for _ in range(2):
        with pytest.raises(FormatError, match=broken.name) as caught:
            ds.to_table()
        assert "'s'" in str(caught.value)


@pytest.mark.parametrize("version", ["2.0", "2.1"])
def test_damaged_metadata_of_an_opened_file_are_named(version: str, tmp_path: Path) -> None:
    numbers = pa.array(range(400))
    ds = lancecy.write_dataset(
        pa.table({"a": numbers, "b": numbers}),
        str(tmp_path / "t"),
        data_storage_version=version,
        max_rows_per_file=100,
    )
    broken = sorted((tmp_path / "t" / "data").iterdir())[2]
    data = bytearray(broken.read_bytes())
    at = data.rfind(b"/lance.encodings")  # the encoding of the last column
    data[at : at + 8] = b"\xff" * 8
    broken.write_bytes(data)
    ds = lancecy.dataset(ds.uri, session=lancecy.Session())
    ds.to_table(columns=["a"])
    for _ in range(2):
        with pytest.raises(FormatError, match=broken.name) as caught:
            ds.to_table(columns=["b"])
        assert "column 1 'b'" in str(caught.value)


def test_columns_with_more_rows_than_their_field_are_not_joined(tmp_path: Path) -> None:
    ds = lancecy.write_dataset(
        pa.table({"a": [[1], [2, 3]]}), str(tmp_path / "t"), data_storage_version="2.0"
    )
    ds.to_table()
    files = ds._context.files(0)
    (part,) = files.parts
    assert isinstance(part.reader, V2Reader)
    (known,) = part.reader.columns.prepared.values()
    assert not is_apart(known.field, known.columns)
    (child,) = known.field.children
    assert is_apart(known.field, {**known.columns, child.id: known.columns[known.field.id]})


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_any_value_takes_two_rounds_of_reads(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    uri = f"memory://joined-files-{version}"
    lancecy.write_dataset(pa.table(COLUMNS), uri, data_storage_version=version)
    ds = lancecy.dataset(uri, session=lancecy.Session())
    ds._context.files(0).prepare(ds._snapshot.schema.fields, ds._context.session)
    rounds: list[int] = []

    def counted(read: Read[Any], fetch: Fetch) -> Any:
        def one(requests: list[Ranges]) -> list[Span]:
            rounds.append(len(requests))
            return fetch(requests)

        return run(read, one)

    monkeypatch.setattr("lancecy.scanning.fragment.run", counted)
    found = {}
    for name in COLUMNS:
        rounds.clear()
        ds.take([607], columns=[name])
        found[name] = len(rounds)
    assert {name: count for name, count in found.items() if not 1 <= count <= 2} == {}


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
@pytest.mark.parametrize("cache_bytes", [256 << 20, 0])
def test_small_columns_of_several_files_are_fetched_once(
    version: str, cache_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri, names = f"memory://kept-columns-{version}-{cache_bytes}", ["text", "bytes", "vector"]
    table = pa.table({name: COLUMNS[name] for name in names})
    lancecy.write_dataset(table, uri, data_storage_version=version, max_rows_per_file=ROWS // FILES)
    ds = lancecy.dataset(uri, session=lancecy.Session(cache_bytes=cache_bytes))
    rounds: list[int] = []

    def counted(read: Read[Any], fetch: Fetch) -> Any:
        def one(requests: list[Ranges]) -> list[Span]:
            rounds.append(len(requests))
            return fetch(requests)

        return run(read, one)

    monkeypatch.setattr("lancecy.scanning.fragment.run", counted)
    some = [3, 299, 300, 650, 1199]
    assert _same(ds.take(some), table.take(some))
    assert _same(ds.to_table(), table)
    rounds.clear()
    for _ in range(2):
        assert _same(ds.take(some), table.take(some))
        assert _same(ds.to_table(), table)
    assert (rounds == []) == (cache_bytes > 0)
