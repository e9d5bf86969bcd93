"""Leaves of 2.1 and 2.2 files by pylance: random nesting, rows over many pages and chunks, and how little is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lancecy.rows import RowSelection
from tests.helpers.leaves import Leaf, leaf_rows, only_leaf, open_leaves
from tests.helpers.pages import Files

pytestmark = pytest.mark.interop

SIMPLE = (
    pa.int64(),
    pa.int32(),
    pa.string(),
    pa.bool_(),
    pa.float64(),
    pa.list_(pa.int16(), 3),
    pa.binary(),
    pa.uint8(),
)


def random_type(rng: np.random.Generator, version: str, depth: int = 0) -> pa.DataType:
    kind = int(rng.integers(8, 12)) if depth == 0 else int(rng.integers(0, 12 if depth < 4 else 8))
    if kind < 8:
        return SIMPLE[kind]
    child = random_type(rng, version, depth + 1)
    if kind == 8:
        return pa.list_(child)
    if kind == 9:
        return pa.large_list(child)
    if kind == 10 and version != "2.1":
        return pa.map_(pa.string(), child)
    fields = [pa.field("x", child)]
    if rng.random() < 0.5:
        fields.append(pa.field("y", random_type(rng, version, depth + 1)))
    return pa.struct(fields)


def random_value(rng: np.random.Generator, kind: pa.DataType, nulls: float) -> Any:
    types = pa.types
    if rng.random() < nulls:
        return None
    if types.is_map(kind):
        return [(f"k{j}", random_value(rng, kind.item_type, nulls)) for j in range(rng.integers(0, 4))]
    if types.is_list(kind) or types.is_large_list(kind):
        count = int(rng.integers(0, 60)) if rng.random() < 0.05 else int(rng.integers(0, 4))
        return [random_value(rng, kind.value_type, nulls) for _ in range(count)]
    if types.is_struct(kind):
        return {field.name: random_value(rng, field.type, nulls) for field in kind}
    if types.is_fixed_size_list(kind):
        return [None if rng.random() < nulls else int(rng.integers(99)) for _ in range(kind.list_size)]
    if types.is_string(kind):
        return f"k{rng.integers(9)}" if rng.random() < 0.8 else f"longer text {rng.integers(10**9)}"
    if types.is_binary(kind):
        return rng.bytes(int(rng.integers(0, 12)))
    if types.is_boolean(kind):
        return bool(rng.random() < 0.5)
    return int(rng.integers(0, 4 if kind == pa.uint8() else rng.choice([10, 10**6])))


def write(table: pa.Table, path: Path, version: str, batch_rows: int = 1 << 30, **options: Any) -> list[Any]:
    """Write one file; returns the rows of column 0 as pylance reads them."""
    from lance.file import LanceFileReader, LanceFileWriter

    with LanceFileWriter(str(path), table.schema, version=version, **options) as writer:
        for start in range(0, table.num_rows, batch_rows):
            # Copies: pylance fails on some slices.
            wanted = np.arange(start, min(start + batch_rows, table.num_rows))
            writer.write_batch(table.take(pa.array(wanted)))
    rows: list[Any] = LanceFileReader(str(path)).read_all().to_table().column(0).to_pylist()
    return rows


def assert_leaf(leaf: Leaf, rows: list[Any], rng: np.random.Generator) -> None:
    """All rows, some ranges and some takes of one leaf."""
    expected = [only_leaf(row, leaf.chain) for row in rows]
    assert leaf_rows(leaf) == expected
    for share in (0.0, 0.03, 0.5, 0.95):
        indices = np.flatnonzero(rng.random(len(rows)) < share)
        indices = indices if indices.size else np.array([rng.integers(len(rows))])
        taken = leaf_rows(leaf, RowSelection.take(len(rows), indices))
        assert taken == [expected[i] for i in indices]
        start, stop = np.sort(rng.integers(0, len(rows) + 1, 2)).tolist()
        assert leaf_rows(leaf, RowSelection.range(len(rows), start, stop)) == expected[start:stop]


@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize("seed", range(14))
def test_random_nesting_is_read_as_pylance_does(tmp_path: Path, version: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    kind = random_type(rng, version)
    nulls = float(rng.choice([0, 0.02, 0.1, 0.5]))
    count = int(rng.choice([3, 60, 900, 2500]))
    table = pa.table({"c": pa.array([random_value(rng, kind, nulls) for _ in range(count)], kind)})
    options = {"max_page_bytes": 4096} if seed % 3 == 0 else {}
    rows = write(table, tmp_path / "x.lance", version, max(1, count // int(rng.integers(1, 4))), **options)
    files = Files(is_mapped=seed % 2 == 0)
    for leaf in open_leaves((tmp_path / "x.lance").read_bytes(), files):
        assert_leaf(leaf, rows, rng)


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_lists_cut_into_many_pages(tmp_path: Path, version: str) -> None:
    rng = np.random.default_rng(3)
    rows = [
        None if i % 19 == 0 else [] if i % 7 == 0 else list(range(i, i + i % 9 + 900 * (i % 2000 == 1)))
        for i in range(40_000)
    ]
    write(pa.table({"c": pa.array(rows, pa.list_(pa.int64()))}), tmp_path / "x.lance", version)
    (leaf,) = open_leaves((tmp_path / "x.lance").read_bytes())
    assert leaf.column.num_pages > 2
    assert_leaf(leaf, rows, rng)


@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize(
    ("column", "share"),
    [
        (pa.array(np.random.default_rng(1).integers(-(2**62), 2**62, 300_000)), 0.02),
        (pa.array([f"text {i * 7919 % 300_000}" for i in range(300_000)]), 0.05),
        (pa.array(np.arange(300_000), mask=np.arange(300_000) % 10 == 0), 0.05),
        (pa.ListArray.from_arrays(np.arange(0, 300_001, 3, dtype="i4"), pa.array(np.arange(300_000))), 0.05),
    ],
    ids=["flat", "strings", "packed with nulls", "lists"],
)
def test_few_rows_read_few_bytes_in_two_rounds(
    tmp_path: Path, version: str, column: pa.Array, share: float
) -> None:
    write(pa.table({"c": column}), tmp_path / "x.lance", version)
    data = (tmp_path / "x.lance").read_bytes()
    files = Files(is_mapped=False)
    (leaf,) = open_leaves(data, files)
    files.rounds.clear()
    wanted = [5, 70_000, 70_001, 99_999]
    rows = leaf_rows(leaf, RowSelection.take(leaf.num_rows, wanted))
    assert rows == column.take(pa.array(wanted)).to_pylist()
    assert len(files.rounds) == 2
    nbytes = sum(int(request.lengths.sum()) for requests in files.rounds for request in requests)
    assert nbytes < share * len(data)
    files.rounds.clear()
    assert len(leaf_rows(leaf)) == leaf.num_rows
    assert len(files.rounds) == 1
