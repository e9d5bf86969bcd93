"""Many small fragments and many small columns: read together, and as one by one where something is wrong."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lancecy
from lancecy.encodings.batch import SmallPage, read_small
from lancecy.encodings.model.block import Block
from lancecy.encodings.several_files import rows_of_all
from lancecy.errors import FormatError
from lancecy.limits import Limits
from lancecy.rows import RowSelection
from lancecy.scanning import filtering, outputs
from lancecy.scanning.fragment import read_together
from lancecy.scanning.parts import open_parts, open_several
from lancecy.store import local_files
from lancecy.store.reads import Read
from tests.helpers.compare import assert_tables_equal
from tests.helpers.container import Container
from tests.helpers.datasets import expected, write_table
from tests.helpers.mutate import place

FRAGMENTS, ROWS = 12, 5
EVERY = range(FRAGMENTS * ROWS)
GONE = {3: [0, 4], 7: [1, 2, 3]}


@pytest.fixture
def together(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many pages or files were read together, each time."""
    found: list[int] = []

    def counted(pages: Sequence[SmallPage], limits: Limits) -> Read[list[Block]]:
        found.append(len(pages))
        return read_small(pages, limits)

    def joined(selections: Sequence[RowSelection]) -> RowSelection:
        found.append(len(selections))
        return rows_of_all(selections)

    monkeypatch.setattr("lancecy.file.v2.values.read_small", counted)
    monkeypatch.setattr("lancecy.file.v2.several_files.rows_of_all", joined)
    return found


def few_rows(root: Path, data_version: str, **how: object) -> lancecy.Dataset:
    """A table whose fragments each are one page of one chunk."""
    how = {"fragments": FRAGMENTS, "rows": 4, "rows_per_page": 4, "data_version": data_version, **how}
    return lancecy.dataset(write_table(str(root / "t"), **how))  # type: ignore[arg-type]


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_small_fragments_are_read_together(tmp_path: Path, version: str, together: list[int]) -> None:
    ds = few_rows(tmp_path, version)
    assert_tables_equal(ds.to_table(), expected(range(48)))
    assert len(together) >= 3 and set(together) == {FRAGMENTS}
    assert_tables_equal(ds.take([47, 0, 13, 13, 21]), expected([47, 0, 13, 13, 21]))
    together.clear()
    found = ds.to_table(["s", "id"], filter="id % 5 = 3")
    assert_tables_equal(found, expected(range(3, 48, 5)).select(["s", "id"]))
    assert together == [FRAGMENTS, found.num_rows]
    assert ds.count_rows("x > 7") == 33


def test_small_fragments_of_any_version(tmp_path: Path, data_version: str) -> None:
    ds = few_rows(tmp_path, data_version, rows=ROWS, rows_per_page=2, deleted=GONE)
    alive = [n for n in EVERY if n % ROWS not in GONE.get(n // ROWS, ())]
    assert_tables_equal(ds.to_table(), expected(alive))
    assert_tables_equal(ds.to_table(filter="s is null"), expected([n for n in alive if n % 7 == 3]))
    odd = [n for n in alive if n % 2]
    assert_tables_equal(ds.to_table(filter="id % 2 = 1"), expected(odd))
    assert_tables_equal(ds.to_table(filter="id % 2 = 1", limit=4, offset=3), expected(odd[3:7]))
    assert_tables_equal(ds.take([0, 20, 21, 40]), expected([alive[n] for n in (0, 20, 21, 40)]))
    found = ds.to_table(["id"], filter="id > 9 and _rowaddr > 0", with_row_address=True)
    assert found["id"].to_pylist() == [n for n in alive if n > 9]


def test_filters_see_the_virtual_columns_of_each_small_fragment(tmp_path: Path) -> None:
    ds = few_rows(tmp_path, "2.1")
    addresses = ds.to_table(["id"], with_row_address=True)
    listed = ", ".join(str(addresses["_rowaddr"][n].as_py()) for n in (5, 17, 30))
    assert ds.to_table(["id"], filter=f"_rowaddr in ({listed}) or id = 2")["id"].to_pylist() == [2, 5, 17, 30]


def test_an_error_names_the_fragment_and_the_column(tmp_path: Path) -> None:
    ds = few_rows(tmp_path, "2.1")
    path = tmp_path / "t" / "data" / "part-9.lance"
    data = bytearray(path.read_bytes())
    at = data.index(np.arange(8, 12, dtype="<i8").tobytes())
    data[at - 8 : at] = b"\xff" * 8  # the header of the chunk with the ids
    path.write_bytes(data)
    with pytest.raises(FormatError, match="part-9.lance") as caught:
        ds.to_table()
    assert "fragment 9" in str(caught.value) and "'id'" in str(caught.value)
    assert_tables_equal(ds.to_table(["s", "x"]), expected(range(48)).select(["s", "x"]))


def test_a_file_that_is_listed_twice_has_the_fields_of_each_entry(tmp_path: Path) -> None:
    ds = few_rows(tmp_path, "2.1")
    snapshot, session = ds._snapshot, lancecy.Session(threads=1)
    [fragment, *_] = snapshot.fragments
    [file] = fragment.files
    found = []
    for part in (slice(0, 2), slice(2, 4)):
        listed = replace(file, fields=file.fields[part], column_indices=file.column_indices[part])
        some = replace(fragment, files=(listed,))
        [opened] = open_parts(snapshot, some, session, snapshot.dictionary_source())
        found.append(opened.ids)
    assert found == [{0, 1}, {2, 3}]


def test_a_file_is_looked_at_once_while_it_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = few_rows(tmp_path, "2.1")._snapshot
    looks: list[str] = []
    real = local_files.stat_regular

    def counted(root: str, path: str, follow: bool) -> os.stat_result:
        looks.append(path)
        return real(root, path, follow)

    monkeypatch.setattr(local_files, "stat_regular", counted)
    session = lancecy.Session(threads=1)
    opened = open_several(snapshot, snapshot.fragments, session, snapshot.dictionary_source())
    assert opened is not None
    assert looks == [part.source.path for parts in opened for part in parts]
    assert len(looks) == FRAGMENTS


@pytest.mark.parametrize("version", ["0.1", "2.0", "2.1"])
@pytest.mark.parametrize("fragments", [1, FRAGMENTS])
def test_text_that_is_none_is_named_with_its_file(tmp_path: Path, version: str, fragments: int) -> None:
    ds = few_rows(tmp_path, version, fragments=fragments)
    path = tmp_path / "t" / "data" / "part-5.lance"
    path.write_bytes(path.read_bytes().replace(b"row-000002", b"row-\xff00002"))
    with pytest.raises(FormatError, match="UTF-8") as caught:
        ds.to_table()
    assert "'s'" in str(caught.value)
    assert str(caught.value).endswith("(in data/part-5.lance of fragment 5)")


def test_several_small_units_and_large_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is small is measured: the same rows with everything large, and with groups of a few rows."""
    ds = few_rows(tmp_path, "2.2")
    for column_bytes, rows in ((0, 8192), (64 << 10, 8), (64 << 10, 0)):
        monkeypatch.setattr(outputs, "SMALL_COLUMN_BYTES", column_bytes)
        monkeypatch.setattr(filtering, "SMALL_ROWS", rows)
        assert_tables_equal(ds.to_table(), expected(range(48)))
        assert_tables_equal(ds.to_table(filter="x >= 8"), expected(range(16, 48)))


@pytest.fixture(params=[1, 3], ids=["one file", "three files"])
def two_columns(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A table of numbers, whose columns ``id`` and ``x`` have one page in each file."""
    path = tmp_path / "t"
    for file in range(request.param):
        rows = {"id": np.arange(300) + 300 * file, "x": np.arange(300) ** 2 % 997}
        lancecy.write_dataset(rows, path, mode="append", data_storage_version="2.1")
    return path


def test_few_values_are_read_with_those_of_the_filter(
    two_columns: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[object] = []

    def counting(read: Callable[..., object]) -> Callable[..., object]:
        def counted(*given: Any) -> object:
            reads.extend([given] if given[1] else [])  # the fields
            return read(*given)

        return counted

    monkeypatch.setattr(outputs, "read_together", counting(read_together))
    monkeypatch.setattr(outputs, "read_columns", counting(outputs.read_columns))
    monkeypatch.setattr(filtering, "read_columns", outputs.read_columns)
    ds = lancecy.dataset(two_columns)
    found = ds.to_table(columns=["x"], filter="id % 300 IN (7, 250)").column("x").to_pylist()
    assert found == [49, 250 * 250 % 997] * (ds.count_rows() // 300)
    assert len(reads) == 1


def test_damaged_values_of_rows_that_do_not_pass_are_not_missed(two_columns: Path) -> None:
    for path in (two_columns / "data").iterdir():
        data = bytearray(path.read_bytes())
        start = Container.load(path).columns[1].pages[0].buffer_offsets[1]
        data[start : start + 8] = b"\xff" * 8
        place(path, bytes(data))
    ds = lancecy.dataset(two_columns)
    assert ds.to_table(columns=["id", "x"], filter="id < 0").num_rows == 0
    with pytest.raises(FormatError, match="column 1 'x'"):
        ds.to_table(columns=["id", "x"], filter="id = 5")
