"""Random histories: whatever pylance did to a table, both read every version of it alike."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.helpers.tables import random_table
from tests.interop import live

pytestmark = [pytest.mark.interop, pytest.mark.usefixtures("storage")]


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable ids"])
@pytest.mark.parametrize("seed", range(3))
def test_random_history(seed: int, stable: bool, storage: str, tmp_path: Path) -> None:
    rng = np.random.default_rng([seed, stable, *storage.encode()])
    path, start = tmp_path / "t", 0
    live.write(live.mixed_table(60, seed=seed), path, max_rows_per_file=30, enable_stable_row_ids=stable)
    for step in range(10):
        start = change(path, rng, start + 1000, step)
        live.assert_same(
            path, filters=[f"k < {rng.integers(0, 60)}", f"id > {rng.integers(0, start)}"], seed=step
        )
    for version in range(1, live.peer(path).version + 1, 3):
        live.assert_same_rows(path, version)


def change(path: Path, rng: np.random.Generator, start: int, step: int) -> int:
    """Do one random thing to the table; returns the next free id."""
    kind = rng.choice(["append", "delete", "update", "merge", "compact", "add", "drop", "cast"])
    dataset = live.peer(path)
    if kind == "append":
        more = random_table(dataset.schema, int(rng.integers(1, 50)), seed=step)
        keys = pa.array(np.arange(start, start + more.num_rows), dataset.schema.field("id").type)
        more = more.set_column(0, dataset.schema.field("id"), keys)
        live.append(more, path, max_rows_per_group=int(rng.integers(1, 30)))
    elif kind == "delete":
        dataset.delete(f"id % {rng.integers(3, 12)} = {rng.integers(0, 3)}")
    elif kind == "update":
        dataset.update({"word": f"'step {step}'"}, where=f"id % {rng.integers(2, 9)} = 1")
    elif kind == "merge":
        keys = pa.array(np.arange(start - 10, start + 10), dataset.schema.field("id").type)
        fresh = random_table(dataset.schema, 20, seed=step).set_column(0, dataset.schema.field("id"), keys)
        merge = dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
        merge.execute(fresh)
    elif kind == "compact":
        dataset.optimize.compact_files(target_rows_per_fragment=int(rng.integers(20, 200)))
    elif kind == "add":
        dataset.add_columns({f"added_{step}": "id + 1"})
    elif kind == "drop":
        dataset.drop_columns(
            [str(rng.choice([n for n in dataset.schema.names if n not in ("id", "word", "k")]))]
        )
    elif dataset.schema.field("k").type == pa.int32():
        dataset.alter_columns({"path": "k", "data_type": pa.int64()})
    return start
