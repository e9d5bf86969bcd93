"""Which fragments a compaction rewrites together: options, configuration, and the plans of pylance."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lancecy
from lancecy.changes.compaction_options import CompactionSettings
from lancecy.changes.compaction_plan import planned_groups
from lancecy.errors import UnsupportedError
from tests.helpers.folded import folded


def table(path: Path, sizes: list[int]) -> lancecy.Dataset:
    ds = None
    for start, size in enumerate(sizes):
        rows = pa.table({"n": np.arange(size) + 1000 * start})
        ds = lancecy.write_dataset(rows, path, mode="append" if ds else "create", durability="none")
    assert ds is not None
    return ds


def groups(ds: lancecy.Dataset, **options: Any) -> list[list[int]]:
    settings = CompactionSettings.of(options, ds.config)
    return [[fragment.id for fragment in group] for group in planned_groups(ds.context, settings)]


def test_neighbours_below_the_target_are_merged(tmp_path: Path) -> None:
    ds = table(tmp_path, [400] * 6)
    assert groups(ds, target_rows_per_fragment=1000) == [[0, 1, 2], [3, 4, 5]]
    assert groups(ds, target_rows_per_fragment=10_000) == [[0, 1, 2, 3, 4, 5]]
    assert groups(ds, target_rows_per_fragment=400) == []


def test_rest_joins_the_last_group(tmp_path: Path) -> None:
    assert groups(table(tmp_path, [600] * 3), target_rows_per_fragment=1000) == [[0, 1, 2]]


def test_a_small_fragment_between_large_ones_is_left_alone(tmp_path: Path) -> None:
    assert groups(table(tmp_path, [500, 10, 500]), target_rows_per_fragment=500) == []


def test_a_fragment_is_rewritten_alone_if_more_than_the_threshold_is_deleted(tmp_path: Path) -> None:
    ds = table(tmp_path, [1000])
    ds.delete("n < 100")
    assert groups(ds, target_rows_per_fragment=500) == []
    ds.delete("n = 100")
    assert groups(ds, target_rows_per_fragment=500) == [[0]]
    assert groups(ds, target_rows_per_fragment=500, materialize_deletions=False) == []
    assert groups(ds, target_rows_per_fragment=500, materialize_deletions_threshold=0.2) == []


def test_limits_end_a_compaction_before_the_group_that_exceeds_them(tmp_path: Path) -> None:
    ds = table(tmp_path, [10] * 6)
    small = {"target_rows_per_fragment": 20}
    assert groups(ds, **small, max_source_fragments=5) == [[0, 1], [2, 3]]
    assert groups(ds, **small, max_source_rows=20) == [[0, 1]]
    assert groups(ds, **small, max_source_bytes=1) == []
    assert groups(ds, **small, excluded_fragment_ids=[2, 99]) == [[0, 1], [3, 4, 5]]


def test_configuration_is_the_default_and_arguments_override_it(tmp_path: Path) -> None:
    ds = table(tmp_path, [10] * 4)
    ds.update_config({"lance.compaction.target_rows_per_fragment": "20", "lance.compaction.unknown": "x"})
    assert groups(ds) == [[0, 1], [2, 3]]
    assert groups(ds, target_rows_per_fragment=100) == [[0, 1, 2, 3]]
    ds.update_config({"lance.compaction.materialize_deletions": "perhaps"})
    with pytest.raises(ValueError, match=r"sets lance.compaction.materialize_deletions to 'perhaps'"):
        groups(ds)


@folded(
    ("option", "value", "error", "message"),
    [
        ("target_rows_per_fragmnt", 3, ValueError, "did you mean 'target_rows_per_fragment'"),
        ("target_rows_per_fragment", 0, ValueError, "must be at least 1"),
        ("target_rows_per_fragment", "9", TypeError, "whole number"),
        ("materialize_deletions_threshold", -0.5, ValueError, "share of rows"),
        ("materialize_deletions_threshold", "0.5", TypeError, "is a number"),
        ("compaction_mode", "copy", ValueError, "it can be 'reencode'"),
        ("excluded_fragment_ids", ["a"], TypeError, "a fragment id is a whole number"),
        ("target_bases", "hot", TypeError, "list of names"),
        ("defer_index_remap", True, UnsupportedError, "index of moved rows"),
    ],
)
def test_options_are_checked(option: str, value: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        CompactionSettings.of({option: value})


def test_settings_go_through_json() -> None:
    settings = CompactionSettings.of({"batch_size": 7, "excluded_fragment_ids": [1], "target_bases": ["b"]})
    assert CompactionSettings.from_json(settings.to_json()) == settings


@pytest.mark.interop
def test_groups_are_those_of_pylance(tmp_path: Path) -> None:
    lance = pytest.importorskip("lance")
    from lance.optimize import Compaction

    for seed in range(12):
        chosen, path = random.Random(seed), tmp_path / str(seed)
        ds: Any = None
        count = 0
        for _ in range(chosen.randint(2, 12)):
            size = chosen.choice([1, 5, 10, 20, 30, 50])
            rows = pa.table({"a": range(count, count + size), "b": range(size)})
            ds = lance.write_dataset(rows, path, mode="append", enable_stable_row_ids=seed % 2 == 0)
            count += size
            if chosen.random() < 0.2:
                ds.create_scalar_index("a", "BTREE", replace=True)
            if chosen.random() < 0.1:
                ds.create_scalar_index("b", "BITMAP", replace=True)
            if chosen.random() < 0.1:
                ds.optimize.optimize_indices()
        for _ in range(chosen.randint(0, 3)):
            first = chosen.randint(0, count)
            ds.delete(f"a >= {first} and a < {first + chosen.randint(0, 20)}")
        for _ in range(6):
            options = random_options(chosen)
            tasks = Compaction.plan(ds, options).tasks  # type: ignore[arg-type]
            theirs = [[part.id for part in task.fragments] for task in tasks]
            assert groups(lancecy.dataset(path), **options) == theirs, (seed, options)


def random_options(chosen: random.Random) -> dict[str, Any]:
    possible: dict[str, Any] = {
        "materialize_deletions": chosen.random() < 0.5,
        "materialize_deletions_threshold": chosen.choice([0.0, 0.05, 0.1, 0.2, 0.5, 1.0]),
        "max_source_fragments": chosen.randint(1, 6),
        "max_source_rows": chosen.randint(1, 90),
        "max_source_bytes": chosen.randint(1, 5000),
        "excluded_fragment_ids": [chosen.randint(0, 12)],
    }
    options = {name: value for name, value in possible.items() if chosen.random() < 0.25}
    return {**options, "target_rows_per_fragment": chosen.choice([1, 10, 20, 25, 40, 60, 100, 1000])}
