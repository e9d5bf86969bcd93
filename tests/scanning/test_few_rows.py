"""A few rows of many columns: decoded together, and the same as those of a whole column."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import lance
import numpy as np
import pyarrow as pa
import pytest

import lancecy
from lancecy.encodings.model.block import Block
from lancecy.encodings.model.layouts import MiniBlock
from lancecy.encodings.model.spec import SymbolCoded
from lancecy.errors import FormatError
from lancecy.file.v2 import several_files, values
from lancecy.file.v2.reader import V2Reader
from lancecy.file.v2.values import Prepared
from lancecy.rows import RowSelection
from lancecy.store.reads import Read, run
from tests.file.tables import load_table, open_data_file
from tests.helpers.compare import assert_tables_equal
from tests.helpers.mutate import place

ROWS, EACH = 20_000, 12
Chance = np.random.Generator
Made = Callable[[Chance, Any], pa.Array]
"""An array of ``ROWS`` values, null where the mask is true; the mask may be None."""


def lists(chance: Chance, items: pa.Array, mask: Any) -> pa.Array:
    ends = np.sort(chance.integers(0, len(items), ROWS - 1))
    offsets = pa.array(np.concatenate(([0], ends, [len(items)])).astype(np.int32))
    return pa.ListArray.from_arrays(offsets, items, mask=None if mask is None else pa.array(mask))


def structs(children: dict[str, pa.Array], mask: Any) -> pa.Array:
    nulls = None if mask is None else pa.array(mask)
    return pa.StructArray.from_arrays([*children.values()], [*children], mask=nulls)


def words(chance: Chance, count: int = ROWS) -> list[str]:
    return [f"word {n}" * (n % 3) for n in chance.integers(0, 1 << 20, count)]


def colours(chance: Chance) -> list[str]:
    return [["red", "green", "a rather long name of a colour"][n] for n in chance.integers(0, 3, ROWS)]


KINDS: dict[str, Made] = {
    "int": lambda chance, mask: pa.array(chance.integers(0, 1000, ROWS), pa.int32(), mask=mask),
    "float": lambda chance, mask: pa.array(chance.random(ROWS), mask=mask),
    "bool": lambda chance, mask: pa.array(chance.random(ROWS) < 0.5, mask=mask),
    "text": lambda chance, mask: pa.array(words(chance), mask=mask),
    "colour": lambda chance, mask: pa.array(colours(chance), mask=mask),
    "code": lambda chance, mask: pa.array(colours(chance), mask=mask).dictionary_encode(),
    "vector": lambda chance, _: pa.FixedSizeListArray.from_arrays(chance.random(4 * ROWS).astype("f4"), 4),
    "struct": lambda chance, mask: structs(
        {"n": pa.array(chance.integers(0, 99, ROWS)), "w": pa.array(words(chance), mask=mask)}, mask
    ),
    "list": lambda chance, mask: lists(chance, pa.array(chance.random(ROWS)), mask),
    "texts": lambda chance, mask: lists(chance, pa.array(words(chance, ROWS)), mask),
    "deep": lambda chance, mask: structs(
        {"s": structs({"l": lists(chance, pa.array(chance.random(ROWS)), None)}, mask)}, None
    ),
}
TOGETHER_20 = {"int", "float", "text", "colour", "vector", "struct"}
"""Kinds of columns of 2.0 that are read together: those of small pages are, too, but in another way."""


@functools.cache
def rows_of(kind: str, seed: int = 0) -> pa.Table:
    """Columns of one kind, every other one with nulls."""
    chance = np.random.default_rng(seed)
    columns = {}
    for number in range(EACH):
        share = (0, 0.2)[number % 2]
        has_nulls = share and kind not in ("struct", "deep")
        columns[f"{kind}{number}"] = KINDS[kind](chance, chance.random(ROWS) < share if has_nulls else None)
    return pa.table(columns)


def counting(monkeypatch: pytest.MonkeyPatch, name: str) -> list[int]:
    """How many columns of files a function read together, each time without an error."""
    found: list[int] = []
    read: Callable[..., Read[list[Block]]] = getattr(values, name)

    def counted(parts: Sequence[object], *about: object) -> Read[list[Block]]:
        blocks = yield from read(parts, *about)
        found.append(sum(len(getattr(part, "pages", (part,))) for part in parts))
        return blocks

    for module in (values, several_files):
        monkeypatch.setattr(module, name, counted, raising=False)
    return found


@pytest.fixture
def together(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many columns were read together, each time without an error."""
    return counting(monkeypatch, "read_columns")


SELECTIONS: list[list[int]] = [
    [0],
    [7, 8, 9, 10, 11, 500, ROWS - 1],
    [19_000, 3, 3, 12_345, 40],
    list(range(50, ROWS, 371)),
]


@pytest.mark.interop
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
@pytest.mark.parametrize("writer", [lancecy, lance])
def test_a_few_rows_of_many_columns(
    tmp_path: Path, kind: str, version: str, writer: Any, together: list[int]
) -> None:
    rows, uri = rows_of(kind), str(tmp_path / "t")
    writer.write_dataset(rows, uri, data_storage_version=version)
    ds = lancecy.dataset(uri, session=lancecy.Session())
    assert_tables_equal(ds.head(10), rows.slice(0, 10))
    for chosen in SELECTIONS * 2:  # the second time the places of the rows are known
        assert_tables_equal(ds.take(chosen), rows.take(pa.array(chosen)))
    assert_tables_equal(ds.to_table(limit=100, offset=15_000), rows.slice(15_000, 100))
    if version != "2.0" or kind in TOGETHER_20:
        assert len(together) >= len(SELECTIONS)
    assert set(together) <= set(range(4, EACH * 2 + 1))


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_columns_of_several_kinds_of_several_files(tmp_path: Path, version: str, together: list[int]) -> None:
    kinds = ["float", "text", "struct", "list", "code"]
    parts = [
        pa.Table.from_arrays(
            [column for kind in kinds for column in rows_of(kind, seed).columns],
            [name for kind in kinds for name in rows_of(kind, seed).column_names],
        )
        for seed in range(3)
    ]
    uri = str(tmp_path / "t")
    for part in parts:
        lancecy.write_dataset(part, uri, mode="append", data_storage_version=version)
    expected = pa.concat_tables(parts).unify_dictionaries()
    ds = lancecy.dataset(uri, session=lancecy.Session())
    for chosen in ([5, ROWS + 5, 2 * ROWS + 5], list(range(100, 3 * ROWS, 999)), [3 * ROWS - 1, 0]):
        assert_tables_equal(ds.take(chosen), expected.take(pa.array(chosen)))
    assert sum(together) >= 3 * 3 * EACH


@pytest.mark.interop
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_a_row_of_each_of_many_files(tmp_path: Path, kind: str, version: str, together: list[int]) -> None:
    rows, uri, writer = rows_of(kind).select([0, 1]), str(tmp_path / "t"), cast(Any, lance)
    writer.write_dataset(rows, uri, data_storage_version=version, max_rows_per_file=ROWS // 20)
    ds = lancecy.dataset(uri)
    ds.delete("_rowid < 5")
    expected = rows.slice(5)
    for chosen in ([*range(0, ROWS - 5, 990)], [7, 6, 5000, 5000, 19_000, 12_345], [1]):
        assert_tables_equal(ds.take(chosen), expected.take(pa.array(chosen)))
    assert together or kind not in ("float", "vector")


@pytest.mark.parametrize("version", ["2.0", "2.1"])
@pytest.mark.parametrize("damaged", [3, 8])
def test_an_error_names_the_damaged_file(tmp_path: Path, version: str, damaged: int) -> None:
    rows, uri = rows_of("float").select([0, 2]), tmp_path / "t"
    ds = lancecy.write_dataset(rows, uri, data_storage_version=version, max_rows_per_file=ROWS // 10)
    name = ds.get_fragments()[damaged].data_files()[0].path
    place(uri / "data" / name, b"\xff" * 20_000 + (uri / "data" / name).read_bytes()[20_000:])
    ds = lancecy.dataset(uri, session=lancecy.Session())
    chosen = [*range(50, ROWS, 1990)]
    if version == "2.1":
        with pytest.raises(FormatError, match=name):
            ds.take(chosen)
    others = [row for row in chosen if row // 2000 != damaged]
    assert_tables_equal(ds.take(others), rows.take(pa.array(others)))


def parsed_fields(uri: Path) -> tuple[Path, list[Prepared]]:
    """The only data file of a table, and its fields with their columns."""
    table = load_table(uri)
    data_file = table.manifest.fragments[0].files[0]
    reader, files, fields = open_data_file(table, data_file)
    run(reader.read(fields, RowSelection.all(ROWS)), files.fetch)
    assert isinstance(reader, V2Reader)
    return uri / "data" / data_file.path, [reader.columns.prepared[field] for field in fields]


def overwrite(file: Path, at: int, size: int) -> None:
    stored = bytearray(file.read_bytes())
    stored[at : at + size] = b"\xff" * size
    file.write_bytes(stored)


@pytest.mark.parametrize("version", ["2.0", "2.1"])
def test_an_error_names_the_damaged_column(tmp_path: Path, version: str) -> None:
    rows, uri = rows_of("text"), tmp_path / "t"
    lancecy.write_dataset(rows, uri, data_storage_version=version)
    file, fields = parsed_fields(uri)
    column = fields[3].column
    overwrite(file, int(column.positions[0]), int(column.sizes[0]))
    ds = lancecy.dataset(uri, session=lancecy.Session())
    with pytest.raises(FormatError, match="text3"):
        ds.take([1, 2, 3])
    others = [name for name in rows.column_names if name != "text3"]
    assert_tables_equal(ds.take([1, 2, 3], others), rows.select(others).slice(1, 3))


def test_an_error_names_the_column_whose_table_of_symbols_is_damaged(tmp_path: Path) -> None:
    chance = np.random.default_rng(0)
    texts = [[f"the value of a row, {n:06d}" for n in chance.integers(0, 10**6, ROWS)] for _ in range(5)]
    rows, uri = pa.table({f"text{number}": text for number, text in enumerate(texts)}), tmp_path / "t"
    lancecy.write_dataset(rows, uri, data_storage_version="2.1")
    file, fields = parsed_fields(uri)
    spec = fields[3].column.specs[0]
    assert isinstance(spec, MiniBlock)
    assert isinstance(spec.values, SymbolCoded)
    table = bytes(spec.values.table)
    assert file.read_bytes().count(table) == 1
    overwrite(file, file.read_bytes().index(table) + 100, len(table) - 100)
    ds = lancecy.dataset(uri, session=lancecy.Session())
    with pytest.raises(FormatError, match="text3"):
        ds.take([1, 2, 3])
    others = ["text0", "text1", "text2", "text4"]
    assert_tables_equal(ds.take([1, 2, 3], others), rows.select(others).slice(1, 3))


def test_columns_of_more_pages_than_a_kernel_call_may_have_are_read_alone(
    tmp_path: Path, together: list[int]
) -> None:
    rows, uri = rows_of("float").select(["float0", "float2", "float4", "float6"]), str(tmp_path / "t")
    num_pages, each = 70, 100
    rows = rows.slice(0, num_pages * each)
    lancecy.write_dataset(rows, uri, data_storage_version="2.1", max_rows_per_file=each)
    lancecy.dataset(uri).optimize.compact_files(compaction_mode="force_binary_copy", durability="none")
    ds = lancecy.dataset(uri, session=lancecy.Session())
    assert len(ds.get_fragments()) == 1
    for num_read, groups in ((5, [4]), (30, [2, 2]), (num_pages, [])):
        chosen = list(range(7, num_read * each, 50))
        assert_tables_equal(ds.take(chosen), rows.take(pa.array(chosen)))
        assert together == groups
        together.clear()


@pytest.mark.parametrize("version", ["2.0", "2.1"])
@pytest.mark.parametrize("kinds", [["float"], ["float", "int"]])
def test_many_small_files_are_joined(
    tmp_path: Path, version: str, kinds: list[str], together: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    small, uri = counting(monkeypatch, "read_small"), str(tmp_path / "t")
    tables = [rows_of(kind) for kind in kinds]
    columns = {name: table[name] for table in tables for name in table.column_names}
    rows = pa.table(columns).slice(0, 4000)
    lancecy.write_dataset(rows, uri, data_storage_version=version, max_rows_per_file=50)
    ds = lancecy.dataset(uri, session=lancecy.Session())
    chosen = list(range(3, 4000, 20))
    for _ in range(2):
        assert_tables_equal(ds.take(chosen), rows.take(pa.array(chosen)))
    assert together + small == []
