"""Filters that test for nulls read no values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lancecy
from lancecy.encodings.v20 import binary as v20_binary
from lancecy.encodings.v21 import fullzip, miniblock
from lancecy.expr import bind, parse
from lancecy.scanning.column_forms import null_tests
from lancecy.schema import Field, Schema
from tests.helpers.golden import all_goldens, blob_goldens
from tests.helpers.nulls import assert_nulls_alone

TEXT = Field("t", 1, logical_type="string")
PAIR = Field(
    "s",
    2,
    logical_type="struct",
    children=(Field("a", 3, 2, "int64"), Field("b", 4, 2, "list", children=(Field("item", 5, 4, "string"),))),
)
CODED = Field("d", 6, logical_type="dict:string:int8:false")
NUMBER = Field("n", 7, logical_type="int64")
NOTHING = Field("z", 8, logical_type="null")
JSON = Field("j", 9, logical_type="json")
FIELDS = (TEXT, PAIR, CODED, NUMBER, NOTHING, JSON)


def asked_for(text: str, returned: tuple[Field, ...] = ()) -> dict[str, set[int]]:
    """Names of the fields whose nulls alone a filter needs, and the nodes."""
    expr = parse(text)
    assert expr is not None
    bound = bind(expr, Schema(FIELDS).arrow, boolean=True)
    fields = tuple(field for field in FIELDS if field.name in bound.columns)
    found = null_tests(bound, fields, returned)
    return {field.name: set(nodes) for field, nodes in found.tested.items()}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("t is null", {"t": {1}}),
        ("t is not null", {"t": {1}}),
        ("d is null and n > 3", {"d": {6}}),
        ("j is null or not (t is null)", {"j": {9}, "t": {1}}),
        ("s is null", {"s": {2}}),
        ("s.b is null and s.a is not null", {"s": {3, 4}}),
        ("case when t is null then n > 1 else true end", {"t": {1}}),
        ("t is null or t = 'x'", {}),
        ("s.a is null and s.a > 1", {}),
        ("s.a is null and s.b is null and s is not null", {}),
        ("s.b is null and s.a = 1", {}),
        ("length(t) is null", {}),
        ("z is null", {}),
        ("n > 1", {}),
    ],
)
def test_fields_that_are_tested_for_nulls_only(text: str, expected: dict[str, set[int]]) -> None:
    assert asked_for(text) == expected


def test_small_values_that_are_returned_are_read_once() -> None:
    text = "n is null and t is null and s is null"
    assert asked_for(text, (NUMBER, TEXT, PAIR)) == {"t": {1}, "s": {2}}
    assert set(asked_for(text, (TEXT,))) == {"n", "t", "s"}


@pytest.mark.slow
def test_goldens_of_every_release_have_the_same_nulls_without_values() -> None:
    tables = (*all_goldens(), *blob_goldens())
    assert sum(assert_nulls_alone(lancecy.dataset(golden.path)) for golden in tables) > 500


# -- tables -----------------------------------------------------------------------------


def table_of(rows: int) -> pa.Table:
    """One column per way of saying what is null; every third value is."""
    mask = np.arange(rows) % 3 == 1
    lengths = np.where(mask, 0, np.arange(rows) % 4)
    offsets = pa.array(np.concatenate(([0], np.cumsum(lengths))), pa.int32())
    items = pa.StructArray.from_arrays(
        [pa.array(np.arange(offsets[-1].as_py())), pa.array(["x"] * offsets[-1].as_py())], ["a", "b"]
    )
    texts = pa.array([f"text {i}" for i in range(rows)], mask=mask)
    columns: dict[str, Any] = {
        "id": np.arange(rows),
        "t": texts,
        "big": pa.array([f"{i}" * 4000 for i in range(rows)], mask=mask),
        "d": pa.array([f"code {i % 7}" for i in range(rows)], mask=mask).dictionary_encode(),
        # Few values, which 2.1 and later write as codes and a dictionary.
        "few": pa.array([f"code {i % 7}" for i in range(rows)], mask=mask),
        "l": pa.ListArray.from_arrays(offsets, items, mask=pa.array(mask)),
        "v": pa.FixedSizeListArray.from_arrays(pa.array(np.arange(rows * 300.0)), 300, mask=pa.array(mask)),
        "j": pa.array([None if hide else '{"a":1}' for hide in mask.tolist()], pa.json_()),
        "n": pa.array(np.arange(rows), mask=mask),
    }
    return pa.table(columns)


@pytest.fixture(scope="module", params=["2.0", "2.1", "2.2", "2.3"])
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    lance = pytest.importorskip("lance")
    root: Path = tmp_path_factory.mktemp("presence") / request.param
    table, options = table_of(500), {"data_storage_version": request.param, "max_rows_per_file": 250}
    lance.write_dataset(table, str(root), **options).delete("id % 50 = 7")
    return root


NAMES = ("t", "big", "d", "few", "l", "v", "j", "n")


@pytest.mark.interop
@pytest.mark.parametrize("name", NAMES)
def test_answers_are_those_of_the_values(path: Path, name: str) -> None:
    dataset = lancecy.dataset(path)
    whole = dataset.to_table()
    for text, mask in (
        (f"{name} is null", whole[name].is_null()),
        (f"{name} is not null", whole[name].is_valid()),
    ):
        expected = whole.filter(mask)
        assert dataset.count_rows(text) == expected.num_rows
        assert dataset.to_table(["id"], filter=text)["id"].equals(expected["id"])
        assert dataset.to_table(filter=text).select(["id", name]).equals(expected.select(["id", name]))
        few = dataset.to_table(["id", name], filter=f"{text} and id % 4 = 1")
        assert few.equals(
            expected.select(["id", name]).filter(pc.equal(pc.bit_wise_and(expected["id"], 3), 1))
        )


@pytest.mark.interop
def test_values_are_not_decoded(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = lancecy.dataset(path)
    # Codes of 2.0 files name null items.
    names = [name for name in NAMES if path.name != "2.0" or name not in ("d", "few")]
    expected = {name: dataset.to_table([name])[name].null_count for name in names}

    def refuse(*_: object) -> None:
        raise AssertionError("a value was decoded")

    for module, function in [
        (miniblock, "decode"),
        (miniblock, "decode_block"),
        (fullzip, "decode_zipped"),
        (fullzip, "decode_spans"),
        (v20_binary, "_read_bytes"),
    ]:
        monkeypatch.setattr(module, function, refuse)
    fresh = lancecy.dataset(path)
    assert {name: fresh.count_rows(f"{name} is null") for name in names} == expected


@pytest.mark.interop
@pytest.mark.parametrize("version", ["2.0", "2.2"])
def test_fragments_without_the_column_and_files_of_several_versions(tmp_path: Path, version: str) -> None:
    import lance

    options: dict[str, Any] = {"data_storage_version": "legacy"}
    lance.write_dataset(table_of(40).select(["id", "l"]), str(tmp_path / "t"), **options)
    legacy = lancecy.dataset(tmp_path / "t")
    assert legacy.count_rows("l is null") == legacy.to_table()["l"].null_count
    root = str(tmp_path / version)
    options = {"data_storage_version": version}
    lance.write_dataset(table_of(30).select(["id"]), root, **options)
    lance.write_dataset(table_of(60).select(["id"]), root, mode="append", **options)
    dataset = lance.dataset(root)
    dataset.add_columns({"w": "nullif(cast(id as string), '4')"})
    dataset.add_columns(pa.schema([pa.field("late", pa.list_(pa.int64()))]))
    mine = lancecy.dataset(root)
    whole = mine.to_table()
    for name in ("w", "late"):
        assert mine.count_rows(f"{name} is null") == whole[name].null_count
        assert (
            mine.count_rows(f"{name} is null and id < 9")
            == whole.filter(pc.less(whole["id"], 9))[name].null_count
        )


@pytest.mark.interop
@pytest.mark.parametrize("version", ["2.1", "2.2", "2.3"])
def test_structs_within_structs(tmp_path: Path, version: str) -> None:
    import lance

    inner = pa.array(
        [None, {"x": None, "y": [1]}, {"x": "a", "y": None}, {"x": "b", "y": []}, None, {"x": None}]
    )
    outer = pa.StructArray.from_arrays(
        [inner, pa.array(range(6))], ["i", "k"], mask=pa.array([False] * 4 + [True] * 2)
    )
    options: dict[str, Any] = {"data_storage_version": version}
    lance.write_dataset(pa.table({"o": outer, "n": range(6)}), str(tmp_path / "t"), **options)
    dataset = lancecy.dataset(tmp_path / "t")
    for text, expected in {
        "o is null": [4, 5],
        "o.i is null": [0, 4, 5],
        "o.i.x is null": [0, 1, 4, 5],
        "o.i.y is null": [0, 2, 4, 5],
        "o.i.x is null and o.k is not null": [0, 1],
        "o.i.x is null and o.i.y is not null": [1],
        "o.i.x is null and o.i.x is not null": [],
    }.items():
        assert dataset.to_table(["n"], filter=text)["n"].to_pylist() == expected, text
