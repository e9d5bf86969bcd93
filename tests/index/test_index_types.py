"""Indices of every type of column answer as plain scans do."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

import lancecy

pytestmark = pytest.mark.interop
lance = pytest.importorskip("lance")

_DAY = datetime.date(2024, 5, 17)
_NUMBERS = [5, None, 0, 3, 100, 7, None, 64, 1, 3] * 4
COLUMNS = {
    **{f"i{bits}": pa.array(_NUMBERS, getattr(pa, f"int{bits}")()) for bits in (8, 16, 32, 64)},
    **{f"u{bits}": pa.array(_NUMBERS, getattr(pa, f"uint{bits}")()) for bits in (8, 16, 32, 64)},
    **{
        f"f{bits}": pa.array(_NUMBERS, pa.float64()).cast(getattr(pa, f"float{bits}")())
        for bits in (16, 32, 64)
    },
    "text": pa.array([None if n is None else "x" * n for n in _NUMBERS], pa.large_string()),
    "bytes": pa.array([None if n is None else bytes(n) for n in _NUMBERS], pa.binary()),
    "fixed": pa.array([None if n is None else bytes((n, 1)) for n in _NUMBERS], pa.binary(2)),
    "day": pa.array([None if n is None else _DAY + datetime.timedelta(n) for n in _NUMBERS], pa.date32()),
    "date64": pa.array([None if n is None else _DAY + datetime.timedelta(n) for n in _NUMBERS], pa.date64()),
    **{f"ts_{unit}": pa.array(_NUMBERS, pa.int64()).cast(pa.timestamp(unit, "UTC")) for unit in ("s", "ns")},
    "time": pa.array(_NUMBERS, pa.int32()).cast(pa.time32("ms")),
    "time_ns": pa.array(_NUMBERS, pa.int64()).cast(pa.time64("ns")),
    "span": pa.array(_NUMBERS, pa.int64()).cast(pa.duration("us")),
    "money": pa.array([None if n is None else Decimal(n) / 4 - 7 for n in _NUMBERS], pa.decimal128(9, 2)),
    "large": pa.array([None if n is None else Decimal(n) - 70 for n in _NUMBERS], pa.decimal256(50, 3)),
}


def test_indices_on_columns_of_every_type(tmp_path: Path) -> None:
    made = lance.write_dataset(pa.table(COLUMNS), tmp_path / "t", max_rows_per_file=25)
    kinds = ("BTREE", "BITMAP", "ZONEMAP")
    for number, name in enumerate(COLUMNS):
        try:
            made.create_scalar_index(name, kinds[number % len(kinds)])
        except OSError:
            made.create_scalar_index(name, "BTREE")
    ds = lancecy.dataset(tmp_path / "t")
    for name, values in COLUMNS.items():
        column, value = lancecy.col(name), values[3]
        for test in (column == value, ~(column < value), column.is_null(), column.isin([value, values[4]])):
            plain = ds.to_table([name], filter=test, use_scalar_index=False)
            assert ds.to_table([name], filter=test, use_scalar_index=True).equals(plain), (name, test)
        # No value of the column lies above this one, which zone maps show too.
        sources = ds.scanner(filter=column > values[4]).explain().fragments[0].sources
        assert len(sources[0].indices) == 1, name
