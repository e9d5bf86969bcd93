"""Compact encodings that lancecy writes: which it takes for which values, and that pylance reads them whole and in part."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lancecy
from tests.helpers.compare import assert_tables_equal
from tests.interop import live

pytestmark = pytest.mark.interop

ROWS = 6_000
RANDOM = np.random.default_rng(3)
ORDINAL = np.arange(ROWS)
SOME = RANDOM.random(ROWS) < 0.1
RARE = ORDINAL % 1000 == 7
URLS = [f"https://www.example.com/{n % 61}/item?id={n * 7919 % 99_991}" for n in range(ROWS)]
LONG = [f"{'a sentence that goes on, ' * (n % 17 + 11)}and ends at {n}" for n in range(800)]
PRICES = (RANDOM.integers(1, 300, ROWS) - 0.01).round(2)
LISTS = [URLS[n : n + n % 4] if n % 9 else None for n in range(ROWS // 2)]

_IN_RUNS = "Rle(Flat64, Flat8)"
CASES: dict[str, tuple[pa.Array, str, str]] = {
    "symbols": (pa.array(URLS), "M[VI] Fsst(Var(Flat32))", "M[VI] Fsst(Var(Flat32))"),
    "symbols_null": (
        pa.array(URLS, mask=SOME),
        "M[NI] Fsst(Var(Flat32)) D=OB1",
        "M[NI] Fsst(Var(Flat32)) D=OB1",
    ),
    "large_symbols": (
        pa.array(URLS, pa.large_string()),
        "M[VI] Fsst(Var(Flat64))",
        "M[VI] Fsst(Var(Flat64))",
    ),
    "binary_symbols": (
        pa.array(URLS).cast(pa.binary()),
        "M[VI] Fsst(Var(Flat32))",
        "M[VI] Fsst(Var(Flat32))",
    ),
    "zipped_symbols": (
        pa.array(LONG, mask=np.arange(800) % 5 == 0),
        "Z[NI] Fsst(Var(Flat32)) r0d1 len32",
        "Z[NI] Fsst(Var(Flat32)) r0d1 len32",
    ),
    "repeated_symbols": (
        pa.array(["abcdefgh" * (n % 29) + str(n) for n in range(2000)]),
        "M[VI] Fsst(Var(Flat32))",
        "M[VI] Fsst(Var(Flat32))",
    ),
    "lists_of_symbols": (
        pa.array(LISTS),
        "M[VI/NEL] Fsst(Var(Flat32)) R=OB1 D=OB2",
        "M[VI/NEL] Fsst(Var(Flat32)) R=OB1 D=OB2",
    ),
    "zstd": (
        pa.array([b"", None, *(RANDOM.bytes(20_000) + bytes(20_000 + n) for n in range(9))], pa.binary()),
        "Z[NI] ZSTD(Var(Flat32)) r0d1 len32",
        "Z[NI] ZSTD(Var(Flat32)) r0d1 len32",
    ),
    "random": (
        pa.array([RANDOM.bytes(20) for _ in range(3000)], pa.binary()),
        "M[VI] Var(Flat32)",
        "M[VI] Var(Flat32)",
    ),
    "runs": (pa.array(10**12 + ORDINAL // 90), f"M[VI] {_IN_RUNS}", f"M[VI] {_IN_RUNS}"),
    "short_runs": (
        pa.array((ORDINAL // 300).astype(np.int8)),
        "M[VI] Rle(Flat8, Flat8)",
        "M[VI] Rle(Flat8, Flat8)",
    ),
    "codes_in_runs": (
        pa.array([f"category {n // 500}" for n in range(ROWS)]),
        "M[VI] Rle(Flat32, Flat8) dict=Var(Flat32)x12",
        "M[VI] Rle(Flat32, Flat8) dict=LZ4(Var(Flat32))x12",
    ),
    "keys_in_runs": (
        pa.array(np.repeat(np.arange(10**6, 10**6 + 9000), 6)),
        f"M[VI] {_IN_RUNS}",
        "M[VI] Rle(Flat32, Flat8) dict=OB64→20x9000",
    ),
    "prices": (pa.array(PRICES), "M[VI] Flat64", "M[VI] IBP32 dict=LZ4(Flat64)x299"),
    "negative": (
        pa.array(RANDOM.integers(-50, 50, ROWS), mask=SOME),
        "M[NI] Flat64 D=OB1",
        "M[NI] IBP32 D=OB1 dict=LZ4(Flat64)x100",
    ),
    "decimals": (
        pa.array((ORDINAL % 30).tolist(), pa.decimal128(20, 2)),
        "M[VI] IBP32 dict=Flat128x30",
        "M[VI] IBP32 dict=LZ4(Flat128)x30",
    ),
    "rare_nulls": (
        pa.array((ORDINAL * 7 % 256).astype(np.uint8), mask=RARE),
        "M[NI] Flat8 D=OB1",
        "M[NI] Flat8 D=RLE8",
    ),
    "long_lists": (
        pa.array([list(range(n, n + 900)) for n in range(7)], pa.list_(pa.int16())),
        "M[VI/VL] IBP16 R=OB1",
        "M[VI/VL] IBP16 R=RLE8",
    ),
    "few_rows": (pa.array([5, None, 7] * 33, pa.int32()), "M[NI] Flat32 D=OB1", "M[NI] Flat32 D=OB1"),
}


@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize("name", CASES)
def test_pylance_reads_what_takes_fewer_bytes(name: str, version: str, tmp_path: Path) -> None:
    array, *encodings = CASES[name]
    table = pa.table({"c": array, "n": np.arange(len(array))})
    uri = str(tmp_path / "t")
    ds = lancecy.write_dataset(table, uri, data_storage_version=version, durability="none")
    (file,) = (tmp_path / "t" / "data").glob("*.lance")
    column = lancecy.inspect(file).columns[0]
    assert column.encodings == ((encodings[version == "2.2"], 1),)
    other = live.peer(uri)
    rows = [len(array) - 1, 0, len(array) // 2]
    for found in (ds.to_table(), other.to_table()):
        assert_tables_equal(found, table)
    for taken in (ds.take(rows), other.take(rows)):
        assert_tables_equal(taken, table.take(rows))
    first = len(array) // 3
    assert_tables_equal(other.to_table(filter=f"n >= {first}", limit=5), table.slice(first, 5))


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_pages_of_a_column_may_be_coded_in_different_ways(version: Any, tmp_path: Path) -> None:
    parts = [URLS, ["only one"] * 4000, [f"{n}" for n in range(50)], [None] * 10, LONG]
    uri, tables = str(tmp_path / "t"), [pa.table({"c": pa.array(part, pa.string())}) for part in parts]
    for table in tables:
        lancecy.write_dataset(table, uri, mode="append", data_storage_version=version, durability="none")
    assert_tables_equal(live.peer(uri).to_table(), pa.concat_tables(tables))
    assert_tables_equal(lancecy.dataset(uri).to_table(), pa.concat_tables(tables))
