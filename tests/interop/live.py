"""Tables written by pylance on the spot, and lancecy held against pylance's reading of them.

pylance is imported inside functions: collecting these tests must not start its runtime.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import lancecy
from tests.helpers.compare import assert_schemas_equal, assert_tables_equal, storage_table
from tests.helpers.tables import random_table

__all__ = [
    "GROUP",
    "append",
    "assert_same",
    "assert_same_filter",
    "assert_same_rows",
    "cut",
    "mixed_table",
    "peer",
    "without_null_structs",
    "write",
]

GROUP = 13
"""Rows per group unless a test says otherwise: odd, small, and no divisor of any row count."""


STORAGE = "legacy"
"""Version of data files; the ``storage`` fixture sets others."""


def write(table: pa.Table | pa.RecordBatchReader, path: Path | str, **options: Any) -> Any:
    """Write a table; options as for ``lance.write_dataset``. Returns pylance's dataset."""
    import lance

    options = {"data_storage_version": STORAGE, "max_rows_per_group": GROUP, **options}
    if options["data_storage_version"] == "2.0" and isinstance(table, pa.Table):
        table = without_null_structs(table)
    return lance.write_dataset(table, str(path), **options)


def without_null_structs(table: pa.Table) -> pa.Table:
    """The same table, structs that are null having null children instead: files of 2.0 cannot tell them apart."""
    columns = [pa.chunked_array([_solid(c) for c in column.chunks], column.type) for column in table.columns]
    return pa.Table.from_arrays(columns, schema=table.schema)


def _solid(array: pa.Array) -> pa.Array:
    if array.offset and pa.types.is_nested(array.type):
        array = pa.concat_arrays([array, array.slice(0, 0)])  # the same values, no longer a slice
    if pa.types.is_struct(array.type):
        children = [_solid(child) for child in array.flatten()]
        return pa.StructArray.from_arrays(children, fields=list(array.type))
    if pa.types.is_list(array.type):
        mask = array.is_null() if array.null_count else None
        return pa.ListArray.from_arrays(array.offsets, _solid(array.values), type=array.type, mask=mask)
    return array


def append(table: pa.Table, path: Path | str, **options: Any) -> Any:
    """Append with the same options."""
    return write(table, path, mode="append", **options)


def peer(path: Path | str, version: int | None = None, **options: Any) -> Any:
    """pylance's view of a dataset."""
    import lance

    return lance.dataset(str(path), version=version, **options)


def mixed_table(
    rows: int, *, start: int = 0, seed: int = 5, nulls: float = 0.0, colour: bool = True
) -> pa.Table:
    """One column per way of encoding; ``id`` counts from ``start``; ``colour`` is a dictionary."""
    point = pa.struct([pa.field("a", pa.int32()), pa.field("b", pa.string())])
    schema = pa.schema(
        [
            pa.field("id", pa.int64(), False),
            pa.field("x", pa.float64()),
            pa.field("k", pa.int32()),
            pa.field("flag", pa.bool_()),
            pa.field("word", pa.string()),
            pa.field("raw", pa.large_binary()),
            pa.field("tags", pa.list_(pa.int16())),
            pa.field("names", pa.list_(pa.string())),
            pa.field("point", point),
            pa.field("points", pa.list_(point)),
            pa.field("vector", pa.list_(pa.float32(), 4)),
            pa.field("colour", pa.dictionary(pa.int8(), pa.string())),
            pa.field("when", pa.timestamp("us", "UTC")),
        ]
    )
    table = random_table(schema, rows, seed=seed, nulls=nulls)
    numbers = pa.array(np.arange(start, start + rows))
    small = pa.array((np.arange(rows) * 7919 + seed) % 50, pa.int32())
    table = table.set_column(0, schema.field(0), numbers).set_column(2, schema.field(2), small)
    return table if colour else table.drop_columns(["colour"])


def cut(table: pa.Table, *sizes: int) -> pa.Table:
    """The same rows in chunks of the given sizes and the rest; copies, since pylance fails on some slices."""
    parts, start = [], 0
    for size in (*sizes, table.num_rows - sum(sizes)):
        parts.append(table.take(pa.array(np.arange(start, start + size))))
        start += size
    return pa.concat_tables(parts)


def assert_same(
    path: Path | str,
    version: int | None = None,
    *,
    filters: Sequence[str] = (),
    columns: Sequence[Sequence[str]] = (),
    seed: int = 0,
    takes: bool = True,
) -> lancecy.Dataset:
    """Fail unless lancecy and pylance read the same table in every way there is; returns lancecy's dataset.

    Compared are schema, count, full scan, columns alone, ``columns``, row addresses, slices by limit and offset, takes
    in random order, each fragment, streamed batches, and ``filters`` (pylance without statistics). Every third column
    is read alone and the others together; another version or number of rows begins with another one.
    ``takes=False`` leaves out pylance's own take, which panics on vectors of booleans.
    """
    mine, theirs, whole = assert_same_rows(path, version)
    where = f"version {theirs.version}"
    _assert_same_columns(mine, theirs, whole, columns, where)
    _assert_same_slices(mine, whole, np.random.default_rng(seed), where)
    if takes and whole.num_rows:
        few = np.random.default_rng(seed).integers(0, whole.num_rows, 7).tolist()
        assert_tables_equal(
            storage_table(mine.take(few)), storage_table(theirs.take(few)), hint=f"{where}, take"
        )
    _assert_same_fragments(mine, theirs, where)
    for text in filters:
        assert_same_filter(mine, theirs, text, hint=where)
    return mine


def assert_same_rows(path: Path | str, version: int | None = None) -> tuple[lancecy.Dataset, Any, pa.Table]:
    """Fail unless version, schema, count and a full scan are the same; returns both datasets and pylance's rows.

    Enough for a version that ``assert_same`` has already been through when it was the latest: its files do not change.
    """
    mine, theirs = lancecy.dataset(path, version=version), peer(path, version)
    where = f"version {theirs.version}"
    assert mine.version == theirs.version, where
    whole = storage_table(theirs.to_table())
    assert_schemas_equal(mine.schema, whole.schema, hint=where)
    assert mine.count_rows() == theirs.count_rows() == whole.num_rows, where
    assert_tables_equal(storage_table(mine.to_table()), whole, hint=f"{where}, full scan")
    return mine, theirs, whole


def _assert_same_columns(
    mine: lancecy.Dataset, theirs: Any, whole: pa.Table, columns: Sequence[Sequence[str]], where: str
) -> None:
    alone = whole.column_names[(mine.version + whole.num_rows) % 3 :: 3]
    others = [name for name in whole.column_names if name not in alone]
    for chosen in (*([name] for name in alone), *([others] if others else [])):
        assert_tables_equal(storage_table(mine.to_table(columns=chosen)), whole.select(chosen), hint=where)
    for names in columns:
        expected = storage_table(theirs.to_table(columns=list(names)))
        assert_tables_equal(
            storage_table(mine.to_table(columns=list(names))), expected, hint=f"{where}, {names}"
        )
    first = whole.column_names[:1]
    expected = theirs.to_table(columns=first, with_row_id=True, with_row_address=True)
    actual = mine.to_table(columns=first, with_row_id=True, with_row_address=True)
    for name in (*first, "_rowid", "_rowaddr"):
        assert_tables_equal(
            storage_table(actual.select([name])), storage_table(expected.select([name])), hint=where
        )


def _assert_same_slices(mine: lancecy.Dataset, whole: pa.Table, rng: np.random.Generator, where: str) -> None:
    rows = whole.num_rows
    for limit, offset in [(0, 0), (1, 0), (5, rows // 2), (GROUP * 2, max(0, rows - GROUP)), (rows + 9, 3)]:
        got = storage_table(mine.to_table(limit=limit, offset=offset))
        assert_tables_equal(got, whole.slice(offset, limit), hint=f"{where}, limit {limit} offset {offset}")
    picked = rng.integers(0, rows, min(2 * rows, 50)) if rows else np.empty(0, np.int64)
    taken = storage_table(mine.take(picked))
    assert_tables_equal(taken, whole.take(pa.array(picked)), hint=f"{where}, take")
    batches = list(mine.to_batches(batch_size=GROUP - 2))
    assert all(0 < batch.num_rows <= GROUP - 2 for batch in batches), where
    streamed = pa.Table.from_batches(batches, mine.schema)
    assert_tables_equal(storage_table(streamed), whole, hint=f"{where}, batches")


def _assert_same_fragments(mine: lancecy.Dataset, theirs: Any, where: str) -> None:
    pairs = list(zip(mine.get_fragments(), theirs.get_fragments(), strict=True))
    for a, e in pairs:
        assert a.fragment_id == e.fragment_id, where
        assert (a.count_rows(), a.num_deletions, a.physical_rows) == (
            e.count_rows(), e.num_deletions, e.physical_rows,
        ), where  # fmt: skip
        hint = f"{where}, fragment {a.fragment_id}"
        assert_tables_equal(storage_table(a.to_table()), storage_table(e.to_table()), hint=hint)


def assert_same_filter(mine: lancecy.Dataset, theirs: Any, text: str, *, hint: str = "") -> pa.Table:
    """Fail unless both select the same rows, lancecy with its statistics and without; returns them."""
    expected = storage_table(theirs.to_table(filter=text, use_stats=False))
    for use_stats in (True, False):
        got = storage_table(mine.to_table(filter=text, use_stats=use_stats))
        assert_tables_equal(got, expected, hint=f"{hint}, filter {text!r}, use_stats={use_stats}")
    assert mine.count_rows(filter=text) == expected.num_rows, f"{hint}, filter {text!r}"
    return expected
