"""``read_dictionary``: texts returned as Arrow dictionaries, equal to the texts of a plain scan."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lancecy
from lancecy.encodings.codecs import dictionaries
from lancecy.errors import ColumnNotFoundError
from lancecy.scanning import filtering

_TEXTS = ["s", "unique", "same", "large", "nothing"]
SCANS: dict[str, dict[str, Any]] = {
    "all": {},
    "every third": {"filter": "id % 3 = 0"},
    "by itself": {"filter": "s = 'kind 3'"},
    "by another text": {"columns": ["s"], "filter": "unique LIKE '%9 %'"},
    "with a computed text": {"columns": {"s": "s", "loud": "upper(s)", "again": "unique"}},
    "one row": {"filter": "id = 77"},
    "no row": {"filter": "id < 0"},
    "a few": {"limit": 5, "offset": 1990},
}


def _rows() -> pa.Table:
    numbers = np.random.default_rng(5).integers(0, 40, 4000).tolist()
    kinds = pa.array([None if n == 7 else f"kind {n}" for n in numbers])
    return pa.table(
        {
            "id": range(4000),
            "s": kinds,
            "unique": [f"text {i} {'x' * (i % 7)}" for i in range(4000)],
            "same": ["same"] * 4000,
            "large": kinds.cast(pa.large_string()),
            "nothing": pa.nulls(4000, pa.string()),
            "member": pa.StructArray.from_arrays([kinds], ["s"]),
        }
    )


@pytest.fixture(scope="module", params=["legacy", "2.0", "2.1", "2.2"])
def ds(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> lancecy.Dataset:
    path = tmp_path_factory.mktemp("coded") / "t.lance"
    rows = _rows()
    lancecy.write_dataset(rows[:2000], path, data_storage_version=request.param)
    return lancecy.write_dataset(rows[2000:], path, mode="append")


@pytest.mark.parametrize("name", SCANS)
def test_dictionaries_have_the_texts_of_a_plain_scan(ds: lancecy.Dataset, name: str) -> None:
    plain = ds.to_table(**SCANS[name])
    coded = ds.to_table(read_dictionary=_TEXTS, **SCANS[name])
    coded.validate(full=True)
    for field in coded.schema:
        is_coded = field.name in (*_TEXTS, "again")
        assert pa.types.is_dictionary(field.type) == is_coded, field
    assert coded.cast(plain.schema).equals(plain)
    assert ds.scanner(read_dictionary=_TEXTS, **SCANS[name]).schema == coded.schema


def test_only_named_columns_are_dictionaries(ds: lancecy.Dataset) -> None:
    for batch in ds.to_batches(["id", "s", "unique"], read_dictionary=["s"], batch_size=700):
        kinds = [pa.types.is_dictionary(field.type) for field in batch.schema]
        assert kinds == [False, True, False]


def test_true_means_what_the_files_store_so(ds: lancecy.Dataset) -> None:
    schema = ds.scanner(read_dictionary=True).schema
    coded = [field.name for field in schema if pa.types.is_dictionary(field.type)]
    # 2.2 has pages for a single value.
    assert coded == {"2.1": ["s", "same", "large"], "2.2": ["s", "large"]}.get(ds.data_storage_version, [])
    assert ds.to_table(read_dictionary=True).cast(ds.schema).equals(ds.to_table())


def test_taken_and_streamed_through_a_pyarrow_dataset(ds: lancecy.Dataset) -> None:
    door = ds.to_pyarrow_dataset(read_dictionary=["s"])
    assert pa.types.is_dictionary(door.schema.field("s").type)
    assert door.take([5, 1]).schema.field("s").type == door.schema.field("s").type
    assert door.take([5, 1], columns=["s"])["s"].to_pylist() == ds.take([5, 1])["s"].to_pylist()
    assert {batch.schema.field("s").type for batch in door.to_batches()} == {door.schema.field("s").type}


def test_what_is_no_text_is_refused(ds: lancecy.Dataset) -> None:
    with pytest.raises(ValueError, match="read_dictionary names 'id', a column of int64"):
        ds.to_table(read_dictionary=["id"])
    with pytest.raises(ValueError, match=r"read_dictionary names 'member\.s'"):
        ds.to_table(read_dictionary=["member.s"])
    with pytest.raises(ColumnNotFoundError, match="wrong"):
        ds.to_table(read_dictionary=["wrong"])
    with pytest.raises(TypeError, match="read_dictionary"):
        ds.to_table(read_dictionary="s")


def test_pages_with_a_dictionary_are_not_expanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ds = lancecy.write_dataset({"s": ["red", "green", None, "blue"] * 5000}, tmp_path / "t.lance")

    def refuse(*_: object) -> None:
        raise AssertionError("texts were looked up")

    monkeypatch.setattr(dictionaries, "taken", refuse)
    assert ds.to_table(read_dictionary=["s"])["s"].to_pylist()[:4] == ["red", "green", None, "blue"]


FILTERS = [
    "s = 'kind 3'",
    "s != 'kind 3'",
    "s IN ('kind 1', 'kind 2', 'no kind')",
    "s NOT IN ('kind 1')",
    "s >= 'kind 30' AND large < 'kind 35'",
    "s LIKE '%9' OR same = 'other'",
    "NOT (large LIKE 'kind 1_') AND id % 2 = 0",
    "s IS NULL OR s = 'kind 4'",
    "s = large AND s = 'kind 5'",
    "upper(s) = 'KIND 6'",
    "nothing = 'x' OR s = 'kind 6'",
]


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_texts_that_a_filter_compares_are_compared_in_codes(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = pa.concat_tables([_rows()] * 5)
    ds = lancecy.write_dataset(rows, tmp_path / "t", data_storage_version=version)
    for text in FILTERS:
        with monkeypatch.context() as patch:
            patch.setattr(filtering, "_MIN_CODED", 1 << 40)
            by_texts = ds.to_table(filter=text)
        for _ in range(2):
            assert ds.to_table(filter=text) == by_texts, text
            assert ds.to_table(["id"], filter=text)["id"].equals(by_texts["id"]), text
        assert pa.Table.from_batches(list(ds.to_batches(filter=text)), ds.schema) == by_texts
        assert ds.to_table(filter=text, limit=7, offset=3) == by_texts.slice(3, 7)
        assert ds.count_rows(text) == len(by_texts)
    if version != "2.0":  # in which only pylance writes texts with a dictionary
        monkeypatch.delattr(dictionaries, "taken")  # which expands texts
        assert ds.count_rows("s = 'kind 3'") == ds.count_rows("large = 'kind 3'") > 0
