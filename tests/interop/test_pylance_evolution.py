"""Columns added, dropped, renamed and cast, so that fragments have several files, dead ids and holes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.helpers.tables import random_table
from tests.interop import live

pytestmark = [pytest.mark.interop, pytest.mark.usefixtures("storage")]

FILTERS = ["id < 20", "id > 70"]


def started(path: Path) -> Any:
    live.write(live.mixed_table(77), path, max_rows_per_file=39)
    return live.peer(path)


def add_by_sql(dataset: Any) -> None:
    dataset.add_columns({"twice": "id * 2", "loud": "upper(word)", "both": "x > 0 AND flag"})


def add_by_function(dataset: Any) -> None:
    import lance

    @lance.batch_udf(
        output_schema=pa.schema([pa.field("v", pa.list_(pa.float32(), 3)), pa.field("s", pa.large_string())])
    )
    def made(batch: pa.RecordBatch) -> pa.RecordBatch:
        numbers = np.repeat(batch["id"].to_numpy(), 3).astype(np.float32)
        words = pa.array([f"row {i}" for i in batch["id"].to_pylist()], pa.large_string())
        return pa.record_batch([pa.FixedSizeListArray.from_arrays(numbers, 3), words], ["v", "s"])

    dataset.add_columns(made, read_columns=["id"])


def add_by_join(dataset: Any) -> None:
    schema = pa.schema([("key", pa.int64()), ("score", pa.float64()), ("labels", pa.list_(pa.string()))])
    other = random_table(schema, 77, seed=1).set_column(0, "key", pa.array(np.arange(77)[::-1]))
    dataset.merge(other, left_on="id", right_on="key")


def drop_one(dataset: Any) -> None:
    dataset.drop_columns(["flag"])


def drop_first_and_last(dataset: Any) -> None:
    dataset.drop_columns(["x", "when", "colour"])


def drop_inside_a_struct(dataset: Any) -> None:
    dataset.drop_columns(["point.a"])


def rename(dataset: Any) -> None:
    dataset.alter_columns({"path": "word", "name": "term"}, {"path": "point.b", "name": "bee"})


def cast(dataset: Any) -> None:
    dataset.alter_columns({"path": "k", "data_type": pa.int64()}, {"path": "x", "data_type": pa.float32()})


def cast_and_rename(dataset: Any) -> None:
    dataset.alter_columns({"path": "word", "name": "large", "data_type": pa.large_string()})


def swap_names(dataset: Any) -> None:
    """A name may come back as another column."""
    dataset.drop_columns(["word"])
    dataset.alter_columns({"path": "k", "name": "word"})


def loosen(dataset: Any) -> None:
    dataset.alter_columns({"path": "id", "nullable": True})


def delete_some(dataset: Any) -> None:
    dataset.delete("id % 5 = 1")


def compact(dataset: Any) -> None:
    dataset.optimize.compact_files(target_rows_per_fragment=1000)


STEPS = [
    add_by_sql, add_by_function, add_by_join, drop_one, drop_first_and_last, drop_inside_a_struct, rename, cast,
    cast_and_rename, swap_names, loosen,
]  # fmt: skip


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__name__)
def test_one_change(step: Callable[[Any], None], tmp_path: Path) -> None:
    step(started(tmp_path / "t"))

    live.assert_same(tmp_path / "t", filters=FILTERS)
    live.assert_same_rows(tmp_path / "t", 1)


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__name__)
def test_change_after_a_deletion_then_compacted(step: Callable[[Any], None], tmp_path: Path) -> None:
    """Added files hold values for deleted rows too; compaction writes fields in the order of the schema."""
    delete_some(started(tmp_path / "t"))
    step(live.peer(tmp_path / "t"))
    live.assert_same(tmp_path / "t", filters=FILTERS)
    compact(live.peer(tmp_path / "t"))

    live.assert_same(tmp_path / "t", filters=FILTERS)


@pytest.mark.parametrize("seed", range(3))
def test_changes_one_after_the_other(seed: int, storage: str, tmp_path: Path) -> None:
    rng = np.random.default_rng([seed, *storage.encode()])
    started(tmp_path / "t")
    order = [add_by_sql, drop_inside_a_struct, cast, rename, delete_some, add_by_join, compact]
    for at in rng.permutation(len(order)):
        step = order[at]
        if step is add_by_sql and "word" not in live.peer(tmp_path / "t").schema.names:
            continue
        step(live.peer(tmp_path / "t"))
        live.assert_same(tmp_path / "t", filters=FILTERS, seed=seed)


def test_append_after_columns_were_added_and_dropped(tmp_path: Path) -> None:
    add_by_sql(started(tmp_path / "t"))
    drop_first_and_last(live.peer(tmp_path / "t"))
    more = random_table(live.peer(tmp_path / "t").schema, 29, seed=4)
    live.append(more, tmp_path / "t")

    live.assert_same(tmp_path / "t", filters=["id > 5", "twice < 40", "loud IS NOT NULL"])


def test_filter_on_added_columns_uses_the_statistics_of_their_file(storage: str, tmp_path: Path) -> None:
    add_by_sql(started(tmp_path / "t"))

    dataset = live.assert_same(
        tmp_path / "t", filters=["twice < 20", "twice > 100 AND id < 60", "loud >= 'N'"]
    )
    pruned = dataset.scanner(filter="twice < 20").explain()
    whole = dataset.scanner().explain()
    # Only 0.1 files have bounds.
    assert (pruned.bytes_to_read < whole.bytes_to_read) == (storage == "legacy")
    assert pruned.pages > 0


def test_every_file_of_a_column_rewritten(tmp_path: Path) -> None:
    """Cast back and forth: each time the column gets a new id and the old one stays in the first file."""
    started(tmp_path / "t")
    for kind in (pa.int64(), pa.int16(), pa.int32()):
        live.peer(tmp_path / "t").alter_columns({"path": "k", "data_type": kind})
        live.assert_same(tmp_path / "t", filters=["k < 25"])


def test_nested_columns_by_path(tmp_path: Path) -> None:
    started(tmp_path / "t")

    live.assert_same(
        tmp_path / "t", columns=[["point.a"], ["point.b", "id"], ["id", "point.a", "point.b"], ["point", "k"]]
    )
