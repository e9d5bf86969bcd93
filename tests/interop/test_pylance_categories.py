"""Nulls of pandas categoricals: pylance stores their code -1 and cannot read it back; lancecy can."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest

import lancecy
from lancecy.errors import FormatError

pytestmark = pytest.mark.interop


def write(path: Path, table: pa.Table) -> lancecy.Dataset:
    import lance

    lance.write_dataset(table, str(path), data_storage_version="legacy", max_rows_per_group=3)
    return lancecy.dataset(path)


def test_code_minus_one_of_a_categorical_is_a_null(tmp_path: Path) -> None:
    words = pd.Categorical(["a", None, "b", None, "b"], categories=["a", "b"])
    codes = pa.array(words.codes)
    column = pa.DictionaryArray.from_buffers(
        pa.dictionary(pa.int8(), pa.string()),
        5,
        [pa.array([True, False, True, False, True]).buffers()[1], codes.buffers()[1]],
        pa.array(["a", "b"]),
        null_count=2,
    )
    ds = write(tmp_path / "t", pa.table({"c": column}))
    assert ds.to_table()["c"].to_pylist() == ["a", None, "b", None, "b"]
    assert ds.take([3, 4])["c"].to_pylist() == [None, "b"]
    assert ds.to_table(filter="c IS NULL").num_rows == 2


def test_other_codes_without_a_value_are_damage(tmp_path: Path) -> None:
    ds = write(tmp_path / "t", pa.table({"c": pa.array(["a", "b", "a", "b"]).dictionary_encode()}))
    file = next((tmp_path / "t" / "data").iterdir())
    data = bytearray(file.read_bytes())
    data[0:4] = (7).to_bytes(4, "little")
    file.write_bytes(data)
    with pytest.raises(FormatError, match="c"):
        ds.checkout_version(1).to_table()
