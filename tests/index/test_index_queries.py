"""Filters answered with indices give the rows of plain scans and of a model, whatever happened to the table.

The indices are those of the reference implementation, and both libraries change the table.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancecy
from tests.helpers.compare import assert_tables_equal
from tests.index.conditions import random_rows, random_test

pytestmark = pytest.mark.interop
lance = pytest.importorskip("lance")

SCALAR = ("BTREE", "BITMAP", "ZONEMAP", "BLOOMFILTER")
TABLES, QUERIES = 20, 50


def _append(uri: str, chance: random.Random) -> None:
    lance.write_dataset(random_rows(chance, 50, 1000), uri, mode="append")


def _delete(uri: str, chance: random.Random) -> None:
    lance.dataset(uri).delete(f"id % {chance.randint(2, 5)} = 0")


def _update(uri: str, chance: random.Random) -> None:
    new = chance.choice(({"i": "3", "f": "cast('NaN' as double)"}, {"s": "'ab'"}, {"tags": "['x']"}))
    lance.dataset(uri).update(new, where=f"id % {chance.randint(2, 5)} = 1")


def _compact(uri: str, chance: random.Random) -> None:
    lance.dataset(uri).optimize.compact_files()


def _fold(uri: str, chance: random.Random) -> None:
    options = chance.choice(({}, {"num_indices_to_merge": 0}))
    # It cannot extend an index on a child of a struct.
    with suppress(OSError):
        lance.dataset(uri).optimize.optimize_indices(**options)


def _append_ours(uri: str, chance: random.Random) -> None:
    lancecy.write_dataset(random_rows(chance, 50, 2000), uri, mode="append", durability="none")


def _delete_ours(uri: str, chance: random.Random) -> None:
    lancecy.dataset(uri).delete(f"id % {chance.randint(2, 5)} = 0")


def _update_ours(uri: str, chance: random.Random) -> None:
    lancecy.dataset(uri).update({"i": "4"}, where=f"id % {chance.randint(2, 5)} = 1")


def _merge_ours(uri: str, chance: random.Random) -> None:
    keys = range(0, 60, chance.randint(3, 9))
    rows = pa.table({"id": pa.array(keys, pa.int64()), "i": pa.array([9] * len(keys), pa.int32())})
    lancecy.dataset(uri).merge_insert("id").when_matched_update_all().execute(rows)


CHANGES: tuple[Callable[[str, random.Random], None], ...] = (
    _append, _delete, _update, _compact, _fold, _append_ours, _delete_ours, _update_ours, _merge_ours,
)  # fmt: skip


def _random_table(uri: str, chance: random.Random) -> lancecy.Dataset:
    """A table with some indices and a history."""
    made = lance.write_dataset(
        random_rows(chance, chance.choice((5, 200)), 0),
        uri,
        max_rows_per_file=chance.choice((60, 1000)),
        enable_stable_row_ids=chance.random() < 0.5,
        data_storage_version=chance.choice(("2.0", "2.1", "2.2")),
    )
    for column in ("i", "f", "s", "b", "st.x"):
        for kind in chance.sample(SCALAR, chance.choice((0, 1, 1, 2))):
            if (column, kind) != ("b", "BLOOMFILTER"):  # it has none for booleans
                made.create_scalar_index(column, kind, name=f"{column}_{kind}", replace=False)
    if chance.random() < 0.6:
        made.create_scalar_index("tags", "LABEL_LIST")
    for _ in range(chance.randint(0, 4)):
        chance.choice(CHANGES)(uri, chance)
    return lancecy.dataset(uri)


@pytest.mark.parametrize("seed", range(TABLES))
def test_answers_are_those_of_plain_scans_and_of_a_model(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    ds = _random_table(str(tmp_path / "t"), chance)
    everything = ds.to_table(with_row_id=True)
    rows: list[dict[str, Any]] = everything.to_pylist()
    for _ in range(QUERIES):
        test = random_test(chance)
        plain = ds.to_table(filter=test.text, with_row_id=True, use_scalar_index=False)
        assert_tables_equal(ds.to_table(filter=test.text, with_row_id=True), plain)
        assert plain["_rowid"].to_pylist() == [row["_rowid"] for row in rows if test.holds(row)], test.text
        assert ds.count_rows(test.text) == plain.num_rows
