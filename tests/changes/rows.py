"""Rows to write, and tables as plain values to compare with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

import lancecy

__all__ = ["data_files", "numbers", "rows_of", "sorted_rows"]


def numbers(start: int, count: int) -> pa.Table:
    """Rows whose columns all follow from one number, nulls and nested values among them."""
    values = range(start, start + count)
    point = pa.array([None if i % 11 == 0 else {"x": i, "y": f"p{i}"} for i in values])
    return pa.table(
        {
            "n": pa.array(values, pa.int64()),
            "word": pa.array([None if i % 7 == 0 else f"w{i % 50}" for i in values]),
            "list": pa.array([list(range(i % 4)) for i in values], pa.list_(pa.int32())),
            "vector": pa.array([[i, i + 0.5] for i in values], pa.list_(pa.float32(), 2)),
            "label": pa.array([f"l{i % 3}" for i in values]).dictionary_encode(),
            "point": point if count else pa.array([], pa.struct({"x": pa.int64(), "y": pa.string()})),
        }
    )


def sorted_rows(data: Any) -> list[dict[str, Any]]:
    """Rows as plain values, by their number."""
    table = data if isinstance(data, pa.Table) else data.to_table()
    rows: list[dict[str, Any]] = table.to_pylist()
    return sorted(rows, key=lambda row: row["n"])


def data_files(*folders: Path) -> set[str]:
    """Names of every file in folders of data files, whatever it is."""
    return {
        path.name for folder in folders if folder.exists() for path in folder.rglob("*") if path.is_file()
    }


def rows_of(dataset: lancecy.Dataset) -> list[int]:
    """The numbers of a table's rows in table order."""
    found: list[int] = dataset.to_table(["n"])["n"].to_pylist()
    return found
