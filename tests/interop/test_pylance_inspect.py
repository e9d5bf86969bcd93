"""``lancecy.inspect`` of what pylance writes: the encodings of the sheet's tables, and the bytes pylance counts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import lancecy
from tests.interop import live

pytestmark = pytest.mark.interop

ROWS = 10_000
WORDS = pa.array([f"word {i % 7}" for i in range(ROWS)])
NUMBERS = np.arange(ROWS, dtype=np.int64)
NULLS = np.random.default_rng(1).random(ROWS) < 0.1
SHAPES = {
    "i64_seq": (pa.array(NUMBERS), "M[VI] IBP64", "M[VI] IBP64", "Flat64"),
    "i64_nulls": (
        pa.array(NUMBERS % 1000, mask=NULLS),
        "M[NI] IBP64 D=OB1",
        "M[NI] IBP32 D=OB1 dict=IBP64x1000",
        "Nullable(Flat64)",
    ),
    "f64_rand": (
        pa.array(np.random.default_rng(2).standard_normal(ROWS)),
        "M[VI] Flat64",
        "M[VI] Flat64",
        "Flat64",
    ),
    "i64_const": (pa.array(NUMBERS * 0 + 7), "M[VI] Rle(Flat64, Flat8)", "K[VI] inline(8B)", "Flat64"),
    "i64_allnull": (pa.nulls(ROWS, pa.int64()), "K[NI]", "K[NI]", "AllNull"),
    "str_lowcard": (
        WORDS,
        "M[VI] IBP32 dict=Var(Flat32)x7",
        "M[VI] IBP32 dict=LZ4(Var(Flat32))x7",
        "Dictionary(Flat8, Binary(Flat64, Flat8))x7",
    ),
    "emb_f32_96": (
        pa.FixedSizeListArray.from_arrays(
            pa.array(np.random.default_rng(3).random(ROWS * 96, np.float32)), 96
        ),
        "Z[VI] FSL[96](Flat32) r0d0 v3072",
        "Z[VI] FSL[96](Flat32) r0d0 v3072",
        "FSL[96](Flat32)",
    ),
}


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
@pytest.mark.parametrize("name", SHAPES)
def test_encodings_are_those_of_the_sheet(name: str, version: str, tmp_path: Path) -> None:
    array, *texts = SHAPES[name]
    live.write(pa.table({"c": array}), tmp_path / "t", data_storage_version=version)
    (file,) = (tmp_path / "t" / "data").glob("*.lance")
    (column,) = lancecy.inspect(file).columns
    expected = dict(zip(("2.1", "2.2", "2.0"), texts, strict=True))[version]
    assert [text for text, _ in column.encodings] == [expected]
    assert column.num_values == ROWS


def test_nested_columns_have_the_names_of_their_paths(storage: str, tmp_path: Path) -> None:
    table = live.mixed_table(500)
    live.write(table, tmp_path / "t")
    (file,) = (tmp_path / "t" / "data").glob("*.lance")
    shown = lancecy.inspect(file)
    names = [column.name for column in shown.columns]
    assert {"id", "word", "point.a", "point.b", "vector"} <= set(names)
    assert any(name.startswith("points.") for name in names)
    assert {name.split(".")[0] for name in names} == set(table.column_names)
    assert sum(column.nbytes for column in shown.columns) <= shown.size
    sizes = lancecy.dataset(tmp_path / "t").stats.data_stats()
    for top in ("id", "word", "point"):
        told = sum(c.nbytes for c in shown.columns if c.name.split(".")[0] == top)
        assert sizes[top] == told
