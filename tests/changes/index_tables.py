"""Tables with values that indices rank in their own way, and the comparison of pylance's answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lancecy

lance: Any = pytest.importorskip("lance")

FORMS = [("legacy", False), ("2.0", False), ("2.1", False), ("2.1", True), ("2.2", True)]

FILTERS = (
    "a = 7",
    "a < 0",
    "a >= 100 and a <= 120",
    "a is null",
    "a is not null",
    "not (a = 7)",
    "a in (1, 2, 3)",
    "f = 0.0",
    "f > 1.0",
    "f < -0.0",
    "f is null",
    "f = cast('NaN' as double)",
    "f = 2.5 or a = 8",
    "s = 'ab'",
    "s > 'a'",
    "s is null",
    "s in ('b', 'zz')",
    "d = date '1970-01-05'",
    "flag",
    "flag = false",
    "flag is null",
    "u > 9223372036854775900",
    "a = 7 and f > 0",
)
NESTED = ("st.x = 3", "st.x is null", "st.x > 5")
LISTS = (
    "array_has(l, 'a')",
    "array_has_any(l, ['a', 'c'])",
    "array_has_all(l, ['a', 'b'])",
    "not array_has(l, 'a')",
    "array_has(l, 'missing')",
)
COLUMNS = ("a", "f", "s", "d", "flag", "u")


def rows(version: str, num_rows: int = 6000, seed: int = 0) -> pa.Table:
    """Rows with nulls, NaN, both zeros, empty and null lists, and null structs where the version has them."""
    rng = np.random.default_rng(seed)

    def gone() -> np.ndarray[Any, Any]:
        return rng.random(num_rows) < 0.1

    def picked(values: list[Any]) -> list[Any]:
        return [values[i] for i in rng.integers(0, len(values), num_rows)]

    found = {
        "a": pa.array(rng.integers(-500, 500, num_rows), mask=gone()),
        "f": pa.array([1.0, 0.0, -0.0, np.nan, np.inf, -np.inf, 2.5, None], pa.float64()).take(
            pa.array(rng.integers(0, 8, num_rows))
        ),
        "s": pa.array(picked(["", "a", "ab", "b", "zz", "é", None])),
        "d": pa.array(rng.integers(0, 100, num_rows), pa.int32()).cast(pa.date32()),
        "flag": pa.array(picked([True, False, None])),
        "u": pa.array(rng.integers(2**63, 2**64 - 1, num_rows, dtype=np.uint64)),
        "l": pa.array(
            picked([["a"], ["a", "b"], ["b", "b"], [], ["c", None], [None], None]), pa.list_(pa.string())
        ),
    }
    if version != "legacy":
        members = pa.array(rng.integers(0, 9, num_rows), mask=gone())
        mask = gone() & (version != "2.0")
        found["st"] = pa.StructArray.from_arrays([members], ["x"], mask=pa.array(mask))
    return pa.table(found)


def made(path: Path, version: str, stable: bool) -> lancecy.Dataset:
    """A table of several fragments with deleted rows; with stable row ids, also with moved ones."""
    ds = lance.write_dataset(
        rows(version),
        path,
        max_rows_per_file=2000,
        enable_stable_row_ids=stable,
        data_storage_version=version,
    )
    ds.delete("a = 3 or a >= 200 and a < 210")
    if stable:
        ds.update({"a": "a + 1"}, where="a > 400")
        ds.delete("a = 450")
        ds.optimize.compact_files()
    return lancecy.dataset(path)


def filters_of(version: str) -> tuple[str, ...]:
    """The filters that are compared in tables of a version."""
    return FILTERS if version == "legacy" else FILTERS + NESTED


def check_answers(path: str | Path, filters: tuple[str, ...], must_use: bool = True) -> None:
    """Check that pylance answers filters with indices as it does without, and uses indices."""
    ds = lance.dataset(str(path))
    for text in filters:
        plain = ds.scanner(filter=text, use_scalar_index=False, with_row_id=True).to_table()
        found = ds.scanner(filter=text, with_row_id=True).to_table()
        assert sorted(found["_rowid"].to_pylist()) == sorted(plain["_rowid"].to_pylist()), text
        if must_use:
            plan = ds.scanner(filter=text).explain_plan()
            assert "ScalarIndexQuery" in plan or "MaterializeIndex" in plan, (text, plan)
