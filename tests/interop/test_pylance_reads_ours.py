"""Files that lancecy writes, read by pylance: every type, every shape, random nesting, many pages, ranges and rows."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lancecy
from lancecy.errors import UnsupportedError
from tests.helpers.compare import assert_arrays_equal
from tests.helpers.nested import random_nested_table
from tests.helpers.shapes import SHAPES, recorded, shape_table
from tests.helpers.tables import all_types_table
from tests.helpers.written import VERSIONS, Written, read_mine, read_theirs, write

pytestmark = pytest.mark.interop

TABLES = int(os.environ.get("LANCECY_RANDOM_TABLES", "2400"))
COLUMNS, FILES = 4, 20
SEEDS = max(1, TABLES // (COLUMNS * FILES * len(VERSIONS)))

UNREAD = ("list_fsl_struct", "fsl_struct_list")
"""Shapes that pylance writes and does not read."""


def assert_same(written: Written, table: pa.Table) -> None:
    mine, theirs = read_mine(written), read_theirs(written)
    for name in table.column_names:
        mine[name].validate(full=True)
        assert_columns_equal(mine[name], table[name], f"{name} read by lancecy")
        assert_columns_equal(theirs[name], table[name], f"{name} read by pylance")


def assert_columns_equal(found: pa.ChunkedArray, column: pa.ChunkedArray, path: str) -> None:
    """Chunk by chunk: Arrow joins no dictionaries that hold nulls, as those of 2.0 files do."""
    kind = _without_views(column.type)
    expected = column if kind == column.type else column.cast(kind)
    if found.num_chunks <= 1:
        assert_arrays_equal(found, expected, path=path)
        return
    start = 0
    for chunk in found.chunks:
        assert_arrays_equal(chunk, expected.slice(start, len(chunk)), path=f"{path} from row {start}")
        start += len(chunk)
    assert start == len(column)


def _without_views(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_string_view(kind):
        return pa.string()
    return pa.binary() if pa.types.is_binary_view(kind) else kind


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", [n for n in SHAPES if not SHAPES[n].slow and not n.startswith("blob_")])
def test_every_shape(name: str, version: str, tmp_path: Path) -> None:
    if recorded()[name][version] is None or name.startswith(UNREAD):
        with pytest.raises(UnsupportedError):
            write(shape_table(name), version, tmp_path)
        assert not list(tmp_path.iterdir())
    else:
        assert_same(write(shape_table(name), version, tmp_path), shape_table(name))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("nulls", [0.0, 0.3, 1.0])
def test_every_type(nulls: float, version: str, tmp_path: Path) -> None:
    for rows in (1, 500):
        table = all_types_table(rows, nulls=nulls)
        if nulls and version == "2.0":
            table = table.select([f.name for f in table.schema if "struct" not in str(f.type)])
        assert_same(write(table, version, tmp_path / str(rows)), table)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_nested_columns(seed: int, version: str, tmp_path: Path) -> None:
    for number in range(FILES):
        rng = np.random.default_rng([seed, number, int(version[-1])])
        rows = int(rng.choice([1, 5, 300, 1500, 5000], p=[0.1, 0.2, 0.4, 0.2, 0.1]))
        table = random_nested_table(rng, version, COLUMNS, rows)
        options: dict[str, Any] = {}
        if rng.random() < 0.4:
            options["rows"] = int(rng.integers(max(1, rows // 20), rows + 1))
        if rng.random() < 0.4:
            options["page_bytes"] = int(rng.choice([500, 10_000]))
        written = write(table, version, tmp_path / str(number), **options)
        try:
            assert_same(written, table)
        except (AssertionError, pa.ArrowInvalid) as error:
            raise AssertionError(f"seed {seed}, file {number}, {version}, {options}: {error}") from error


@pytest.mark.parametrize("page_bytes", [1, 1 << 20])
@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_structs_around_lists_are_null_in_some_pages_or_none(
    version: str, page_bytes: int, tmp_path: Path
) -> None:
    """pylance (14.0.2) does not get through its own pages of these: it loses count of structs or lists."""
    inner = pa.struct([("l", pa.list_(pa.int64()))])
    lists = pa.struct([("ll", pa.list_(pa.list_(pa.int64())))])
    full, none = {"l": [1, 2, 3]}, {"l": None}
    two = {"ll": [[1, 2], [3]]}
    columns: dict[str, tuple[pa.DataType, list[Any]]] = {
        "struct": (inner, [full, full, None, full, {"l": []}, none]),
        "listed": (pa.list_(inner), [[full, full], [full], [None, full], None, [], [none]]),
        "never_null": (pa.list_(inner), [[full, full], [full], [full], [], None, [full]]),
        "twice": (pa.struct([("a", inner)]), [{"a": full}] * 3 + [None, {"a": None}, {"a": none}]),
        "sure": (pa.struct([pa.field("a", inner, False)]), [{"a": full}] * 3 + [None, {"a": none}, None]),
        "lists": (pa.list_(lists), [[two, two], [two], [None, two], [], None, [two]]),
        "mapped": (pa.list_(pa.struct([("a", pa.list_(inner))])), [[{"a": [full]}], [], [None]] * 2),
    }
    table = pa.table({name: pa.array(rows, kind) for name, (kind, rows) in columns.items()})
    written = write(table, version, tmp_path, page_bytes=page_bytes)
    pages = {column.num_pages for column in lancecy.inspect(written.path).columns}
    assert pages == ({6} if page_bytes == 1 else {1})
    assert_same(written, table)


@pytest.mark.parametrize("page_bytes", [1, 1 << 20])
def test_fixed_size_lists_of_structs_are_null_in_some_pages_only(page_bytes: int, tmp_path: Path) -> None:
    """pylance (14.0.2) does not get through its own pages of these."""
    inner = pa.struct([("a", pa.int64()), ("s", pa.struct([("w", pa.string())]))])
    full: dict[str, Any] = {"a": 1, "s": {"w": "x"}}
    rows = [[full, full], [full, None], None, [{"a": None, "s": None}, full], [full, full]]
    table = pa.table({"v": pa.array(rows, pa.list_(inner, 2))})
    assert_same(write(table, "2.2", tmp_path, page_bytes=page_bytes), table)


@pytest.mark.parametrize("version", VERSIONS)
def test_rows_and_ranges(version: str, tmp_path: Path) -> None:
    from lance.file import LanceFileReader

    rows = 5000
    rng = np.random.default_rng(4)
    table = pa.table(
        {
            "n": pa.array(rng.integers(0, 9, rows), mask=rng.random(rows) < 0.2),
            "w": [None if i % 9 == 0 else f"word {i}" for i in range(rows)],
            "long": ["text " * (i % 90) for i in range(rows)],
            "l": [None if i % 7 == 0 else list(range(i % 5)) for i in range(rows)],
            "v": pa.FixedSizeListArray.from_arrays(pa.array(rng.random(rows * 80, np.float32)), 80),
            "k": pa.array([f"key {i % 20}" for i in range(rows)]),
        }
    )
    written = write(table, version, tmp_path, rows=700, page_bytes=20_000)
    reader = LanceFileReader(str(written.path))
    taken = np.sort(rng.choice(rows, 50, replace=False)).tolist()
    for found, expected in (
        (reader.take_rows(taken).to_table(), table.take(taken)),
        (reader.read_range(1234, 999).to_table(), table.slice(1234, 999)),
    ):
        for name in table.column_names:
            assert_columns_equal(found[name], expected[name], name)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_file_without_rows(version: str, tmp_path: Path) -> None:
    from lance.file import LanceFileReader

    table = pa.table({"n": pa.array([], pa.int64()), "l": pa.array([], pa.list_(pa.string()))})
    written = write([pa.RecordBatch.from_pylist([], table.schema)], version, tmp_path)
    assert LanceFileReader(str(written.path)).read_all().to_table().num_rows == 0


@pytest.mark.parametrize("version", VERSIONS)
def test_pages_of_the_usual_size(version: str, tmp_path: Path) -> None:
    rows = 1_500_000
    rng = np.random.default_rng(6)
    table = pa.table({"f": rng.random(rows), "n": pa.array(np.arange(rows), mask=np.arange(rows) % 11 == 0)})
    assert_same(write(table, version, tmp_path, rows=100_000), table)
