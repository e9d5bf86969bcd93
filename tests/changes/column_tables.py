"""Tables for changes of columns: two fragments, with or without deleted rows, checked against both libraries."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancecy
from tests.changes.rows import data_files

__all__ = ["FORMS", "IDS", "VERSIONS", "checked", "made", "refused", "state"]

lance = pytest.importorskip("lance")

VERSIONS = ("0.1", "2.0", "2.1", "2.2")
FORMS = list(product(VERSIONS, (False, True), (False, True)))
"""File version, whether row ids are stable, whether rows are deleted."""
IDS = [f"{v}-{'stable' if s else 'plain'}-{'deleted' if d else 'whole'}" for v, s, d in FORMS]


def made(path: Path, version: str = "2.1", stable: bool = False, deleted: bool = False) -> lancecy.Dataset:
    """A table with rows 0 to 9 in two fragments, without rows 1 and 7 if some are deleted."""
    values = range(10)
    rows = {
        "id": pa.array(values, pa.int64()),
        "word": pa.array([None if i % 4 == 3 else f"w{i}" for i in values]),
        "point": pa.array(
            [{"x": i, "y": i / 2} for i in values], pa.struct({"x": pa.int32(), "y": pa.float64()})
        ),
        "list": pa.array([[i] * (i % 3) for i in values], pa.list_(pa.int32())),
    }
    ds = lancecy.write_dataset(
        rows, path, max_rows_per_file=5, data_storage_version=version, enable_stable_row_ids=stable
    )
    if deleted:
        ds.delete("id IN (1, 7)")
    return ds


def checked(ds: lancecy.Dataset) -> list[dict[str, Any]]:
    """The rows, which pylance reads alike; the table is valid for both libraries."""
    theirs = lance.dataset(ds.uri)
    theirs.validate()
    mine, other = lancecy.dataset(ds.uri).to_table(), theirs.to_table()
    assert mine.schema.equals(other.schema)
    assert mine.to_pylist() == other.to_pylist()
    assert ds.version == theirs.version
    assert ds.verify().is_ok
    rows: list[dict[str, Any]] = mine.to_pylist()
    return rows


def state(ds: lancecy.Dataset) -> Any:
    """What a refused change leaves as it was: version, schema, rows and files."""
    newest = lancecy.dataset(ds.uri)
    return newest.version, newest.schema, newest.to_table().to_pylist(), data_files(Path(ds.uri, "data"))


def refused(ds: lancecy.Dataset, error: type[BaseException], match: str, change: Any) -> None:
    """A change that is refused with an error, and leaves the table and its files as they were."""
    before = state(ds)
    with pytest.raises(error, match=match):
        change()
    assert state(ds) == before
