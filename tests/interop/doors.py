"""A table with a column of every type that engines push filters on."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa

__all__ = ["ROWS", "every_type"]

ROWS = 700


def every_type() -> pa.Table:
    """700 rows: nulls in some columns, NaN in ``f``."""
    rng, ids = np.random.default_rng(11), np.arange(ROWS)
    noise = np.where(rng.random(ROWS) < 0.1, np.nan, rng.normal(size=ROWS))
    noon = dt.datetime(2020, 1, 1)
    hours = [noon + dt.timedelta(hours=int(i)) for i in ids]
    columns: dict[str, pa.Array] = {
        "id": pa.array(ids),
        "i8": pa.array(rng.integers(-100, 100, ROWS).astype("i1")),
        "u16": pa.array(rng.integers(0, 60_000, ROWS).astype("u2")),
        "u64": pa.array(rng.integers(0, 2**63, ROWS).astype("u8")),
        "f": pa.array(noise, mask=rng.random(ROWS) < 0.1),
        "s": pa.array([None if i % 7 == 0 else f"s{i % 50}" for i in ids]),
        "ls": pa.array([f"s{i % 50}" for i in ids], pa.large_string()),
        "b": pa.array([bytes([i % 250]) for i in ids]),
        "d": pa.array([Decimal(int(i)) / 100 for i in ids], pa.decimal128(12, 2)),
        "day": pa.array([dt.date(2020, 1, 1) + dt.timedelta(days=int(i) % 400) for i in ids]),
        "ts": pa.array(hours, pa.timestamp("us")),
        "tz": pa.array([h.replace(tzinfo=dt.UTC) for h in hours], pa.timestamp("us", "UTC")),
        "t64": pa.array(ids * 1000, pa.time64("us")),
        "dur": pa.array(ids * 1000, pa.duration("us")),
        "flag": pa.array([None if i % 11 == 0 else i % 3 == 0 for i in ids]),
        "kind": pa.array([f"c{i % 5}" for i in ids]).dictionary_encode(),
        "st": pa.StructArray.from_arrays([pa.array(ids), pa.array([f"x{i}" for i in ids])], ["a", "b"]),
        "vec": pa.FixedSizeListArray.from_arrays(pa.array(rng.normal(size=ROWS * 4).astype("f4")), 4),
        "list": pa.array([list(range(int(i) % 4)) for i in ids]),
    }
    return pa.table(columns)
