"""``arrow_cast``, which names Arrow types."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lancecy
from lancecy.errors import ExpressionError
from lancecy.expr.parsing.arrow_types import arrow_type
from tests.helpers.folded import folded

NAMES = [
    *(
        "Boolean",
        "Int8",
        "UInt16",
        "Int64",
        "Float16",
        "Float32",
        "Float64",
        "Utf8",
        "LargeUtf8",
        "Date32",
    ),
    *(
        "Time64(Nanosecond)",
        "Duration(Second)",
        "Duration(ms)",
        "Timestamp(Microsecond, None)",
        "Timestamp(s)",
    ),
    *('Timestamp(Nanosecond, Some("+00:00"))', 'Timestamp(Nanosecond, "UTC")', "Decimal128(10, 2)"),
    *("Decimal256(40, 2)",),
]


@pytest.mark.interop
@folded("name", NAMES)
def test_values_and_types_are_pylances(tmp_path: Path, name: str) -> None:
    lance = pytest.importorskip("lance")
    theirs = lance.write_dataset(pa.table({"n": [1, None, 0]}), tmp_path / "t", mode="overwrite")
    columns = {"found": f"arrow_cast(n, '{name}')"}
    assert lancecy.dataset(tmp_path / "t").to_table(columns) == theirs.to_table(columns=columns)


@pytest.mark.interop
def test_a_column_of_null_vectors_is_pylances(tmp_path: Path) -> None:
    lance = pytest.importorskip("lance")
    columns = {
        "v": "arrow_cast(NULL, 'FixedSizeList(4, Float32)')",
        "w": "arrow_cast(NULL, 'List(LargeUtf8)')",
    }
    for writer, place in ((lance, "theirs"), (lancecy, "mine")):
        writer.write_dataset(pa.table({"n": [1, 2]}), tmp_path / place).add_columns(columns)
    mine = lancecy.dataset(tmp_path / "mine")
    assert mine.schema.field("v").type == pa.list_(pa.float32(), 4)
    assert mine.to_table() == lance.dataset(tmp_path / "theirs").to_table()


def test_a_cast_filters(tmp_path: Path) -> None:
    ds = lancecy.write_dataset({"n": [1, 2, 3], "t": ["1", "2", "x"]}, tmp_path / "t")
    assert ds.to_table(filter="ARROW_CAST(n, 'Utf8') = t")["n"].to_pylist() == [1, 2]
    with pytest.raises(ExpressionError, match="300"):
        ds.to_table({"n": "arrow_cast(n * 100, 'UInt8')"})


@folded(
    ("name", "found"),
    [
        ("FixedSizeList(3 x Float64)", pa.list_(pa.float64(), 3)),
        ("List( List(Int8) )", pa.list_(pa.list_(pa.int8()))),
        ("FixedSizeBinary(16)", pa.binary(16)),
        ("LargeList(Timestamp(us))", pa.large_list(pa.timestamp("us"))),
        ("Time32(Second)", pa.time32("s")),
    ],
)
def test_names_are_types(name: str, found: pa.DataType) -> None:
    assert arrow_type(name) == found


@folded(
    ("text", "message"),
    [
        ("arrow_cast(n, 'int32')", "did you mean Int32"),
        ("arrow_cast(n, 'Int32(4)')", "no type 'Int32(4)'"),
        ("arrow_cast(n, 'Time32(Nanosecond)')", "no type"),
        ("arrow_cast(n, 'Timestamp(Day, None)')", "no type"),
        ("arrow_cast(n, 'Decimal128(40, 2)')", "no type"),
        ("arrow_cast(n, '" + "List(" * 500 + "Int8" + ")" * 500 + "')", "no type"),
        ("arrow_cast(n, n)", "takes a value and the name"),
        ("arrow_cast(n)", "takes a value and the name"),
    ],
)
def test_what_is_no_type_is_refused(tmp_path: Path, text: str, message: str) -> None:
    ds = lancecy.write_dataset({"n": [1]}, tmp_path / "t", mode="overwrite")
    with pytest.raises(ExpressionError) as caught:
        ds.to_table({"found": text})
    assert message in str(caught.value)
