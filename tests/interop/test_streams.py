"""Everything that speaks Arrow becomes one stream of batches."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as pads
import pytest

import lancecy
from lancecy.errors import SchemaError
from lancecy.interop import record_batches

TABLE = pa.table({"a": pa.array([1, 2, 3], pa.int64()), "s": ["x", None, "z"]})


class _Capsule:
    """Only the protocol, nothing of pyarrow."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return TABLE.__arrow_c_stream__(requested_schema)


class _ArrayCapsule:
    def __arrow_c_array__(self, requested_schema: object = None) -> object:
        return TABLE.to_batches()[0].__arrow_c_array__(requested_schema)


@pytest.mark.parametrize(
    "data",
    [
        TABLE,
        TABLE.to_batches()[0],
        TABLE.to_reader(),
        TABLE.to_batches(),
        iter([TABLE.slice(0, 1), TABLE.slice(1)]),
        pads.dataset(TABLE),
        pads.dataset(TABLE).scanner(),
        _Capsule(),
        _ArrayCapsule(),
        {"a": TABLE["a"], "s": TABLE["s"]},
        [{"a": 1, "s": "x"}, {"a": 2}, {"a": 3, "s": "z"}],
        TABLE.to_pandas(types_mapper=pd.ArrowDtype),
    ],
    ids=lambda data: type(data).__name__,
)
def test_rows_arrive(data: object) -> None:
    found = record_batches(data).read_all()
    assert found.to_pydict() == TABLE.to_pydict()


def test_objects_of_polars_are_values_and_not_their_addresses() -> None:
    objects = pl.Series("d", [Decimal("1.5"), None], dtype=pl.Object)
    frame = pl.DataFrame({"a": [1, 2]}).with_columns(objects)
    values = [Decimal("1.5"), None]
    assert record_batches(frame).read_all().to_pydict() == {"a": [1, 2], "d": values}
    assert record_batches({"d": objects}).read_all()["d"].to_pylist() == values
    wanted = pa.schema([("d", pa.decimal128(9, 3)), ("a", pa.int8())])
    assert record_batches(frame, wanted).read_all().schema == wanted
    with pytest.raises(SchemaError, match="column 'd' has no type .*row 0 is <object"):
        record_batches(pl.DataFrame({"d": pl.Series([object()], dtype=pl.Object)}))
    with pytest.raises(SchemaError, match="column 'n' is Int128"):
        record_batches(pl.DataFrame({"n": pl.Series([1], dtype=pl.Int128)}))


def test_lancecy_speaks_it_too() -> None:
    ds = lancecy.dataset(Path(__file__).parent.parent / "golden" / "example.lance")
    assert record_batches(ds).read_all().equals(ds.to_table())
    assert record_batches(ds.scanner(columns=["id"], limit=3)).read_all().num_rows == 3


def test_schema_casts_and_checks() -> None:
    wanted = pa.schema([("a", pa.int32()), ("s", pa.large_string())])
    assert record_batches(TABLE, wanted).read_all().schema == wanted
    with pytest.raises(SchemaError, match="column 'a' .*row 0 is 1099511627776"):
        record_batches(pa.table({"a": [2**40]}), pa.schema([("a", pa.int32())])).read_all()
    assert record_batches([], wanted).read_all().num_rows == 0


def test_iterables_are_read_as_they_are_consumed() -> None:
    made: list[int] = []

    def batches() -> Iterator[pa.RecordBatch]:
        for i in range(100):
            made.append(i)
            yield pa.record_batch({"a": np.full(10, i)})

    reader = record_batches(batches())
    assert next(reader).num_rows == 10
    assert len(made) < 4


def test_what_has_no_rows_is_refused() -> None:
    import dask.dataframe as dd

    for data in (5, "text", b"bytes", None):
        with pytest.raises(TypeError, match="rows cannot be read"):
            record_batches(data)
    with pytest.raises(TypeError, match="write_dask"):
        record_batches(dd.from_pandas(pd.DataFrame({"a": [1]}), npartitions=1))
    with pytest.raises(TypeError, match="give a schema"):
        record_batches(iter([]))


def test_batches_that_change_their_columns_are_refused() -> None:
    pieces = [pa.record_batch({"a": [1]}), pa.record_batch({"a": ["x"]})]
    with pytest.raises(SchemaError, match="a: string after a: int64"):
        record_batches(pieces).read_all()
