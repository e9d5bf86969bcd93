"""Random tables: few values a column, files without nulls, with some and of nothing else, rows deleted after writing."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

import lancecy

__all__ = ["DOMAINS", "NESTED", "NUMBERS", "ORDERED", "RandomTable"]

_WORDS = ["", "a", "b", "Ärger", "日本", "long " * 9]
_DAY = dt.datetime(2024, 2, 28, 23, 59)
DOMAINS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "flag": (pa.bool_(), [True, False]),
    "i8": (pa.int8(), [-128, -1, 0, 1, 127]),
    "i32": (pa.int32(), [-5, 0, 3, 2**31 - 1]),
    "i64": (pa.int64(), [-7, 0, 1, 2**53 + 1, 2**53 + 2]),
    "u8": (pa.uint8(), [0, 1, 255]),
    "u64": (pa.uint64(), [0, 1, 2**63 + 1, 2**63 + 2]),
    "f32": (pa.float32(), [-0.25, 0.0, 0.5, 8.0]),
    "f64": (pa.float64(), [-1.25, 0.0, 2.5, 1e6]),
    "text": (pa.string(), _WORDS),
    "large": (pa.large_string(), _WORDS),
    "blob": (pa.binary(), [b"", b"\0", b"ab"]),
    "fixed": (pa.binary(3), [b"\0\0\0", b"abc"]),
    "day": (pa.date32(), [_DAY.date(), dt.date(1969, 12, 31)]),
    "ts": (pa.timestamp("us"), [_DAY, dt.datetime(1969, 7, 20, 20, 17)]),
    "tz": (
        pa.timestamp("ms", "Asia/Tokyo"),
        [_DAY.replace(tzinfo=dt.UTC), dt.datetime(1999, 1, 1, tzinfo=dt.UTC)],
    ),
    "dur": (pa.duration("us"), [dt.timedelta(0), dt.timedelta(days=-1, microseconds=5)]),
    "time": (pa.time64("us"), [dt.time(0), dt.time(23, 59, 59, 999999)]),
    "dec": (pa.decimal128(12, 2), [Decimal("-1.25"), Decimal("0.00"), Decimal("99999.99")]),
    "cat": (pa.dictionary(pa.int8(), pa.string()), ["red", "green", "blue"]),
    "code": (pa.dictionary(pa.int16(), pa.int64()), [10, 20, 30]),
    "vec": (pa.list_(pa.float32(), 2), [[0.0, 1.0], [2.0, 3.0]]),
    "list": (pa.list_(pa.int32()), [[], [1], [1, None, 3]]),
    "rec": (pa.struct({"a": pa.int64(), "d": pa.dictionary(pa.int8(), pa.string())}), [{"a": 1, "d": "x"}]),
}
NESTED = ("vec", "list", "rec")
NUMBERS = ("i8", "i32", "f32", "f64", "code")
ORDERED = (*NUMBERS, "i64", "u8", "u64", "text", "large", "day", "ts", "tz", "dur", "time", "dec", "cat")


class RandomTable:
    """A table of which everything follows from (seed, index).

    Numbers are multiples of a quarter, so that sums do not depend on their order.

    Attributes
    ----------
    table : pyarrow.Table
        ``id`` numbers the rows.
    rows_per_file : int
    deleted : set of int
        Ids of rows that are deleted after writing.
    version : str
        Of the data files.
    dice : numpy.random.Generator
        What it gives next belongs to the query.
    """

    def __init__(self, seed: int, index: int, without: tuple[str, ...] = ()) -> None:
        self.seed, self.index = seed, index
        self.dice = np.random.default_rng((seed, index))
        known = [n for n in DOMAINS if n not in without]
        self.names = [str(n) for n in self.dice.permutation(known)[: self.dice.integers(3, 8)]]
        self.keys = [n for n in self.names if n not in NESTED] or ["id"]
        rows = int(self.dice.choice([1, 30, 90, 200]))
        self.rows_per_file = int(self.dice.choice([7, 20, 64]))
        self.table = pa.table({"id": pa.array(range(rows)), **{n: self._column(n, rows) for n in self.names}})
        share = self.dice.choice([0, 0, 0.1, 0.7])
        self.deleted = {i for i in range(rows) if self.dice.random() < share}
        # Files of version 2.0 hold no structs that are null.
        self.version = str(self.dice.choice(["2.1", "2.2"] if "rec" in self.names else ["2.0", "2.1", "2.2"]))

    def _column(self, name: str, rows: int) -> pa.ChunkedArray:
        kind, values = DOMAINS[name]
        chunks = []
        for start in range(0, rows, self.rows_per_file):
            count = min(self.rows_per_file, rows - start)
            share = self.dice.choice([0, 0, 0.3, 1], p=[0.4, 0.2, 0.35, 0.05])
            picked = self.dice.permutation(len(values))[: self.dice.integers(1, len(values) + 1)]
            codes = self.dice.choice(picked, count)
            chunk = [None if self.dice.random() < share else values[c] for c in codes]
            chunks.append(pa.array(chunk, kind))
        return pa.chunked_array(chunks, kind)

    def pick(self, *choices: Any) -> Any:
        """One of them."""
        return choices[self.dice.integers(len(choices))]

    def key(self, among: tuple[str, ...] = tuple(DOMAINS)) -> str:
        """A column of the table that is not nested and has one of these names, or ``id``."""
        return str(self.pick(*([n for n in self.keys if n in among] or ["id"])))

    def value(self, name: str) -> Any:
        """A value that the column may have."""
        return int(self.dice.integers(200)) if name == "id" else self.pick(*DOMAINS[name][1])

    def live(self) -> pa.Table:
        """The rows that are not deleted."""
        kept = [row for row in self.table.to_pylist() if row["id"] not in self.deleted]
        return pa.Table.from_pylist(kept, self.table.schema)

    def write(self, place: str, **options: Any) -> lancecy.Dataset:
        """The table in fragments, less the deleted rows."""
        ds = lancecy.write_dataset(
            self.table,
            place,
            max_rows_per_file=self.rows_per_file,
            data_storage_version=self.version,
            **options,
        )
        if self.deleted:
            ds.delete(f"id IN ({', '.join(map(str, sorted(self.deleted)))})")
        return ds
