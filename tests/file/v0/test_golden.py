"""Data files of real releases through the file layer alone: whole, and row by row."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pytest

from lancecy.rows import RowSelection
from lancecy.store.reads import run
from tests.file.tables import TableOnDisk, arrow_columns, load_table, open_data_file
from tests.helpers.compare import assert_arrays_equal
from tests.helpers.folded import folded
from tests.helpers.golden import Golden, all_goldens

GOLDENS = [g for g in all_goldens() if load_table(g.path).data_files]


def selections(num_rows: int, rng: np.random.Generator) -> dict[str, RowSelection]:
    mask = rng.random(num_rows) < 0.3
    edges = np.sort(rng.choice(num_rows + 1, min(num_rows + 1, 6), replace=False)).astype(np.int64)
    pairs = edges[: edges.size // 2 * 2].reshape(-1, 2)
    return {
        "one row": RowSelection.range(num_rows, num_rows // 2, num_rows // 2 + 1),
        "middle": RowSelection.range(num_rows, num_rows // 4, num_rows - num_rows // 4),
        "nothing": RowSelection.range(num_rows, 3, 3),
        "mask": RowSelection.from_mask(mask),
        "ranges": RowSelection(num_rows, pairs[:, 0].copy(), pairs[:, 1].copy()),
        "take": RowSelection.take(num_rows, rng.integers(0, num_rows, 40)),
        "backwards": RowSelection.take(num_rows, np.arange(num_rows)[::-1]),
    }


def check_selections(table: TableOnDisk) -> int:
    rng = np.random.default_rng(len(table.root.name))
    checked = 0
    for file in table.data_files:
        reader, files, fields = open_data_file(table, file)
        if reader.num_rows == 0:
            continue
        everything = arrow_columns(reader, files, fields)
        for name, selection in selections(reader.num_rows, rng).items():
            rows = pa.array(selection.to_indices())
            for field, column in arrow_columns(reader, files, fields, selection).items():
                column.validate(full=True)
                hint = f"{file.path}, {name}"
                assert_arrays_equal(column, everything[field].take(rows), path=field.name, hint=hint)
                checked += 1
    return checked


@pytest.mark.slow
@pytest.mark.parametrize("is_mapped", [True, False])
@folded("golden", GOLDENS, ids=lambda g: g.name)
def test_any_selection_is_decode_all_then_select(golden: Golden, is_mapped: bool) -> None:
    assert check_selections(load_table(golden.path, is_mapped=is_mapped)) > 0


@pytest.mark.slow
@folded("golden", GOLDENS, ids=lambda g: g.name)
def test_sizes_told_without_reading_are_those_of_the_pages(golden: Golden) -> None:
    table = load_table(golden.path)
    for file in table.data_files:
        reader, _, fields = open_data_file(table, file)
        size = (table.root / "data" / file.path).stat().st_size
        for field in fields:
            pages = reader.page_bytes(field)
            assert pages.shape == (reader.page_starts(field).size - 1,)
            assert (pages >= 0).all()
            assert reader.column_bytes(field) == min(int(pages.sum()), size)
        assert sum(reader.column_bytes(f) for f in fields) < 2 * size


@pytest.mark.slow
@folded("golden", GOLDENS, ids=lambda g: g.name)
def test_stored_bounds_hold_for_what_is_read(golden: Golden) -> None:
    table = load_table(golden.path)
    for file in table.data_files:
        reader, files, fields = open_data_file(table, file)
        columns = arrow_columns(reader, files, fields)
        for field, column in columns.items():
            stats = run(reader.stats({(field.name,): (field,)}), files.fetch)
            known = stats.columns.get((field.name,))
            starts = reader.page_starts(field).tolist()
            if known is None:
                continue
            for unit, (start, stop) in enumerate(itertools.pairwise(starts)):
                page = column.slice(start, stop - start)
                nulls = len(page) if pa.types.is_null(page.type) else page.null_count
                assert not (known.no_nulls[unit] and nulls), (field.name, unit)
                assert not (known.all_null[unit] and nulls < len(page)), (field.name, unit)
