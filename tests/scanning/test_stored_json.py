"""JSON columns read in their stored form for the functions that take it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancecy
from lancecy.encodings.arrow import to_arrow
from lancecy.encodings.arrow.json import to_texts
from lancecy.errors import FormatError
from tests.helpers.folded import folded

DOCUMENTS = ['{"a": 1}', '{"a": 2, "b": [1]}', None, "[3]"] * 3
TEXTS = ['{"a":1}', '{"a":2,"b":[1]}', None, "[3]"] * 3


@pytest.fixture
def ds() -> lancecy.Dataset:
    documents = pa.array(DOCUMENTS, pa.json_())
    nested = pa.StructArray.from_arrays(
        [documents, pa.array(range(12))], ["j", "n"], mask=pa.array([i == 4 for i in range(12)])
    )
    lists = pa.ListArray.from_arrays(pa.array(range(13), pa.int32()), documents)
    table = pa.table({"i": range(12), "j": documents, "s": nested, "l": lists})
    return lancecy.write_dataset(table, "memory://stored.lance", mode="overwrite", max_rows_per_file=5)


@pytest.fixture
def made_text(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many values were made text each time."""
    counts: list[int] = []
    original = to_texts

    def counted(stored: Any, *args: Any) -> Any:
        counts.append(len(stored))
        return original(stored, *args)

    monkeypatch.setattr(to_arrow, "to_texts", counted)
    return counts


def test_a_filter_makes_no_text(ds: lancecy.Dataset, made_text: list[int]) -> None:
    assert ds.count_rows("json_get_int(j, 'a') = 2") == 3
    assert ds.to_table(columns=["i"], filter="json_exists(j, '$.b') AND j IS NOT NULL")["i"].to_pylist() == [
        1,
        5,
        9,
    ]
    assert ds.to_table(columns={"x": "json_get_int(s.j, 'a')"})["x"].to_pylist()[:6] == [
        1,
        2,
        None,
        None,
        None,
        2,
    ]
    assert made_text == []


def test_only_rows_that_are_returned_become_text(ds: lancecy.Dataset, made_text: list[int]) -> None:
    found = ds.to_table(columns=["j"], filter="json_get_int(j, 'a') = 2")
    assert found.schema.field("j").type == pa.json_()
    assert found["j"].to_pylist() == [TEXTS[1]] * 3
    assert sum(made_text) == 3


def test_a_column_and_a_function_of_it(ds: lancecy.Dataset) -> None:
    found = ds.to_table(columns={"j": "j", "x": "json_get_int(j, 'a')", "t": "j || '!'"})
    assert found["j"].to_pylist() == TEXTS
    assert found["x"].to_pylist() == [1, 2, None, None] * 3
    assert found["t"].to_pylist() == [text and text + "!" for text in TEXTS]
    assert found.schema.field("j").type == pa.json_()


@folded(
    ("filter", "expected"),
    [
        ("json_get_int(j, 'a') = 2 AND j LIKE '%b%'", [1, 5, 9]),
        ("json_get_int(s.j, 'a') = 1", [0, 8]),
        ("json_get_int(s.j, 'a') = 2 AND s.n > 5", [9]),
        ("json_get_int(j, 'a') = 1 OR j IS NULL", [0, 2, 4, 6, 8, 10]),
        ("json_get_int(j, 'a') = json_get_int(s.j, 'a')", [0, 1, 5, 8, 9]),
        ("json_get_int(array_element(l, 1), 'a') = 2", [1, 5, 9]),
    ],
)
def test_filters(ds: lancecy.Dataset, filter: str, expected: list[int]) -> None:
    found = ds.to_table(filter=filter)
    assert found["i"].to_pylist() == expected
    assert found["j"].to_pylist() == [TEXTS[i] for i in expected]
    assert found["s"].to_pylist() == [None if i == 4 else {"j": TEXTS[i], "n": i} for i in expected]


@folded("version", ["0.1", "2.0", "2.1"])
def test_errors_name_the_column_and_the_file(version: str, tmp_path: Path) -> None:
    uri = tmp_path / version
    documents = pa.array([f'{{"member": {i}}}' for i in range(11, 14)], pa.json_())
    lancecy.write_dataset({"i": range(3), "doc": documents}, uri, data_storage_version=version)
    (file,) = uri.glob("data/*.lance")
    data = bytearray(file.read_bytes())
    entry = data.index(bytes.fromhex("40000001 10000006")) + 4
    data[entry : entry + 4] = bytes.fromhex("1fffffff")
    file.write_bytes(data)
    ds = lancecy.dataset(uri)
    place = re.escape(f"data/{file.name} of fragment 0)")
    with pytest.raises(FormatError, match=rf"cut off.*\(in json_get_int\(doc, 'member'\) > 1 of {place}"):
        ds.count_rows("json_get_int(doc, 'member') > 1")
    with pytest.raises(FormatError, match=rf"cut off.*\(in json_extract\(doc, '\$.x'\) of {place}"):
        ds.to_table(columns={"x": "json_extract(doc, '$.x')"})
    for columns in ({"doc": "doc"}, {"doc": "doc", "x": "json_get(doc, 'x') IS NULL OR i > 0"}):
        with pytest.raises(FormatError, match=rf"cut off.*\(in (column 'doc'|json_get.*) of {place}"):
            ds.to_table(columns=columns)


def test_deletes_and_orders(ds: lancecy.Dataset) -> None:
    found = ds.to_table(columns=["i"], filter="json_get_int(j, 'a') > 0", order_by="j")
    assert found["i"].to_pylist() == [0, 4, 8, 1, 5, 9]
    computed = ds.to_table(columns={"a": "json_get_int(j, 'a')"}, order_by="a", limit=4)
    assert computed["a"].to_pylist() == [1, 1, 1, 2]
    ds.delete("json_get_int(j, 'a') = 2")
    assert ds.to_table(columns=["i"])["i"].to_pylist() == [0, 2, 3, 4, 6, 7, 8, 10, 11]


def test_a_struct_around_json_is_returned_with_its_text(ds: lancecy.Dataset) -> None:
    found = ds.to_table(
        columns={"s": "s", "x": "json_get_int(s.j, 'a')"}, filter="json_get_int(s.j, 'a') = 2"
    )
    assert found["s"].to_pylist() == [{"j": TEXTS[i], "n": i} for i in (1, 5, 9)]
    assert found["x"].to_pylist() == [2, 2, 2]


def test_dask_scans_and_takes(ds: lancecy.Dataset) -> None:
    assert ds.take([1, 4], columns={"x": "json_extract(j, '$.a')"})["x"].to_pylist() == ["2", "1"]
    frame = lancecy.scan(
        ds, filter="json_get_int(j, 'a') = 2", columns={"x": "json_array_length(j, '$.b')", "j": "j"}
    )
    assert frame.compute()["x"].tolist() == [1, 1, 1]
