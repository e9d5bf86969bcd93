"""Writes ``tests/golden/example.lance``, the table that examples in docstrings and README read.

Run by hand with pylance 14 (``python -m tests.meta.make_example``), never by a test. Two versions: 900 rows
in three fragments, then 100 rows more; pages of 100 rows.

======  ==============================  ===========================================
column  type                            value in row i
======  ==============================  ===========================================
id      int64                           i
k       int32                           i // 10
x       float64                         i / 4
s       string                          fruit i % 5: apple, apricot, banana, cherry, date
ts      timestamp[us]                   i hours after 2024-01-01
vec     fixed_size_list<float32>[4]     i, i + 0.25, i + 0.5, i + 0.75
======  ==============================  ===========================================
"""

from __future__ import annotations

import datetime as dt
import shutil
from typing import Any

import lance
import numpy as np
import pyarrow as pa

from tests.meta.example import EXAMPLE

FRUIT = ("apple", "apricot", "banana", "cherry", "date")


def rows(start: int, stop: int) -> pa.Table:
    """Rows ``start`` to ``stop`` of the example."""
    i = np.arange(start, stop)
    day = dt.datetime(2024, 1, 1)
    return pa.table(
        {
            "id": pa.array(i, pa.int64()),
            "k": pa.array(i // 10, pa.int32()),
            "x": pa.array(i / 4),
            "s": pa.array([FRUIT[n % 5] for n in i]),
            "ts": pa.array([day + dt.timedelta(hours=int(n)) for n in i], pa.timestamp("us")),
            "vec": pa.FixedSizeListArray.from_arrays(
                pa.array((i[:, None] + np.arange(4) / 4).astype(np.float32).ravel()), 4
            ),
        }
    )


def main() -> None:
    """Replace the table."""
    shutil.rmtree(EXAMPLE, ignore_errors=True)
    options: dict[str, Any] = {
        "data_storage_version": "legacy",
        "max_rows_per_file": 300,
        "max_rows_per_group": 100,
    }
    lance.write_dataset(rows(0, 900), str(EXAMPLE), **options)
    lance.write_dataset(rows(900, 1000), str(EXAMPLE), mode="append", **options)


if __name__ == "__main__":
    main()
