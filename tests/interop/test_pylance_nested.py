"""Random nested tables: whatever is nested in what, nulls at every level, read by both alike.

``LANCECY_RANDOM_TABLES`` asks for more or fewer columns over all versions together.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lancecy
from tests.helpers.compare import assert_tables_equal
from tests.helpers.nested import random_nested_table
from tests.helpers.shapes import VERSIONS
from tests.interop import live

pytestmark = pytest.mark.interop

COLUMNS = 8
"""Random columns in one table."""
FILES = 10
"""Tables of one test: one test is one seed."""
TABLES = int(os.environ.get("LANCECY_RANDOM_TABLES", "2400"))
SEEDS = max(1, TABLES // (COLUMNS * FILES * len(VERSIONS)))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_nested_tables(seed: int, version: str, tmp_path: Path) -> None:
    for number in range(FILES):
        rng = np.random.default_rng([seed, number, int(version[-1])])
        rows = int(rng.choice([1, 7, 120, 700, 3000], p=[0.05, 0.15, 0.4, 0.3, 0.1]))
        table = random_nested_table(rng, version, COLUMNS, rows)
        path = tmp_path / f"t{number}"
        theirs = write(table, path, version, rng)
        try:
            check(path, fresh(table), theirs, rng)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, table {number}, version {version}: {error}") from error


def fresh(table: pa.Table) -> pa.Table:
    """Copied, so that no array is a slice of another."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return pa.ipc.open_file(sink.getvalue()).read_all()


def write(table: pa.Table, path: Path, version: str, rng: np.random.Generator) -> Any:
    """In batches of random sizes, and half the time in pages of one or a few batches."""
    rows, count = table.num_rows, int(rng.choice([1, 2, 9]))
    borders = np.unique(np.concatenate([[0, rows], rng.integers(0, rows + 1, count - 1)]))
    parts = live.cut(table, *np.diff(borders)[:-1].tolist())
    if rng.random() < 0.5:
        return live.write(parts, path, data_storage_version=version, max_rows_per_group=1024)
    return paged(parts, path, version, cached=int(rng.choice([1, 5000, 50_000])))


def paged(table: pa.Table, path: Path, version: str, cached: int) -> Any:
    """As ``write_dataset`` writes it, but for a data file whose columns flush a page at ``cached`` bytes."""
    import lance
    from lance.file import LanceFileWriter

    dataset = live.write(table, path, data_storage_version=version)
    with LanceFileWriter(
        str(path / "data" / "paged.lance"), table.schema, version=version, data_cache_bytes=cached
    ) as file:
        for batch in table.to_batches():
            file.write_batch(batch)
    [fragment] = [f.metadata for f in dataset.get_fragments()]
    size = (path / "data" / "paged.lance").stat().st_size
    [held] = fragment.files
    fragment.files = [
        lance.fragment.DataFile(
            "paged.lance",
            held.fields,
            held.column_indices,
            held.file_major_version,
            held.file_minor_version,
            size,
        )
    ]
    replaced = lance.LanceOperation.Overwrite(table.schema, [fragment])
    return lance.LanceDataset.commit(str(path), replaced, read_version=dataset.version)


def check(path: Path, table: pa.Table, theirs: Any, rng: np.random.Generator) -> None:
    """Whole, by column, in ranges, picked, and filtered by the row number."""
    mine, rows = lancecy.dataset(path), table.num_rows
    assert_tables_equal(mine.to_table(), table, hint="full scan against what was written")
    whole = readable(theirs)
    if whole is not None:
        assert_tables_equal(mine.to_table(), whole, hint="full scan against pylance")
    name = str(rng.choice(table.column_names))
    assert_tables_equal(mine.to_table(columns=[name]), table.select([name]), hint="one column")
    for _ in range(2):
        offset, limit = int(rng.integers(0, rows)), int(rng.integers(1, rows + 1))
        got = mine.to_table(offset=offset, limit=limit)
        assert_tables_equal(got, table.slice(offset, limit), hint=f"offset {offset} limit {limit}")
    picked = rng.integers(0, rows, min(2 * rows, 40))
    assert_tables_equal(mine.take(picked), table.take(pa.array(picked)), hint=f"take {picked.tolist()}")
    step = int(rng.integers(2, 30))
    expected = table.filter(pa.array(np.arange(rows) % step == 1))
    assert_tables_equal(mine.to_table(filter=f"id % {step} = 1"), expected, hint=f"id % {step} = 1")


def readable(theirs: Any) -> pa.Table | None:
    """What pylance reads, or None where 14.0.2 does not get through its own file (structs in several pages)."""
    try:
        return theirs.to_table()
    except (OSError, pa.ArrowInvalid) as error:
        if "Incorrect number of nulls" not in str(error):
            raise
        return None


@pytest.mark.parametrize("version", VERSIONS)
def test_matrices_are_cut_where_a_sibling_has_pages(version: str, tmp_path: Path) -> None:
    """Arrow (26.0) takes the wrong rows of a slice of fixed-size lists of fixed-size lists; none may get to it."""
    rows = 700
    numbers = pa.array(np.arange(2 * rows).astype(np.int8))
    matrices = pa.FixedSizeListArray.from_arrays(pa.FixedSizeListArray.from_arrays(numbers, 1), 2)
    words = pa.array([f"a word of row {i}" for i in range(rows)])
    both = pa.StructArray.from_arrays([matrices, words], names=["m", "w"])
    table = pa.table({"id": pa.array(np.arange(rows)), "s": both, "m": matrices})
    parts = live.cut(table, 100, 100, 100, 100, 100, 100)
    theirs = paged(parts, tmp_path / "t", version, cached=3000)
    check(tmp_path / "t", fresh(table), theirs, np.random.default_rng(3))
    for step in (2, 3, 50):
        got = lancecy.dataset(tmp_path / "t").to_table(filter=f"id % {step} = 1")
        expected = fresh(table).filter(pa.array(np.arange(rows) % step == 1))
        assert_tables_equal(got, expected, hint=f"id % {step} = 1")
