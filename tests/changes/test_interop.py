"""Tables that lancecy and pylance write in turns, compared with a plain model of their rows."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancecy
from lancecy import DatasetBasePath, LanceOperation
from lancecy.errors import SchemaError, UnsupportedError
from lancecy.write.schemas import schema_of
from tests.changes.rows import data_files, numbers, sorted_rows

pytestmark = pytest.mark.interop
lance = pytest.importorskip("lance")

VERSIONS = ("2.0", "2.1", "2.2")

Rows = dict[int, tuple[str | None, int | None]]


def table_of(rows: Rows) -> pa.Table:
    columns = {
        "n": pa.array(list(rows), pa.int64()),
        "word": pa.array([word for word, _ in rows.values()], pa.string()),
        "value": pa.array([value for _, value in rows.values()], pa.int64()),
    }
    return pa.table(columns)


def fresh(start: int, count: int) -> Rows:
    return {
        i: (None if i % 5 == 0 else f"w{i % 13}", None if i % 6 == 0 else i * 3)
        for i in range(start, start + count)
    }


def rows_in(table: pa.Table) -> Rows:
    found = {row["n"]: (row["word"], row["value"]) for row in table.to_pylist()}
    assert len(found) == table.num_rows, "a row is there twice"
    return found


def check(uri: str, model: Rows) -> None:
    """Both libraries see the rows of the model, also where filters and indices choose them."""
    theirs, mine = lance.dataset(uri), lancecy.dataset(uri)
    theirs.validate()
    assert mine.version == theirs.version
    assert rows_in(theirs.to_table()) == model
    assert rows_in(mine.to_table()) == model
    assert theirs.count_rows() == mine.count_rows() == len(model)
    for chosen in ("n >= 40 and n < 90", "word = 'w3'", "value is null"):
        assert rows_in(theirs.to_table(filter=chosen)) == rows_in(mine.to_table(filter=chosen))
    assert rows_in(theirs.to_table(filter="n = 41")) == {n: row for n, row in model.items() if n == 41}


class Story:
    """A table, its model, and what either library may do to both."""

    def __init__(self, uri: str, chance: random.Random, targets: list[str] | None) -> None:
        self.uri, self.chance, self.targets = uri, chance, targets
        self.model: Rows = {}
        self.next = 0

    def new(self) -> Rows:
        count = self.chance.randint(1, 40)
        rows = fresh(self.next, count)
        self.next += count
        return rows

    def append_mine(self) -> None:
        rows = self.new()
        lancecy.dataset(self.uri).append(table_of(rows), max_rows_per_file=15, target_bases=self.targets)
        self.model.update(rows)

    def append_theirs(self) -> None:
        rows = self.new()
        lance.write_dataset(table_of(rows), self.uri, mode="append")
        self.model.update(rows)

    def _gone(self) -> int:
        rest = self.chance.randint(0, 8)
        self.model = {n: row for n, row in self.model.items() if n % 9 != rest}
        return rest

    def delete_mine(self) -> None:
        lancecy.dataset(self.uri).delete(f"n % 9 = {self._gone()}")

    def delete_theirs(self) -> None:
        lance.dataset(self.uri).delete(f"n % 9 = {self._gone()}")

    def update_theirs(self) -> None:
        rest = self.chance.randint(0, 6)
        lance.dataset(self.uri).update({"value": "n + 1000"}, where=f"n % 7 = {rest}")
        changed = {n: (word, n + 1000) for n, (word, _) in self.model.items() if n % 7 == rest}
        self.model.update(changed)

    def merge_theirs(self) -> None:
        rows = {**dict.fromkeys(list(self.model)[:3], ("merged", 1)), **self.new()}
        merging = lance.dataset(self.uri).merge_insert("n")
        merging.when_matched_update_all().when_not_matched_insert_all().execute(table_of(rows))
        self.model.update(rows)

    def compact_theirs(self) -> None:
        lance.dataset(self.uri).optimize.compact_files()

    def index_theirs(self) -> None:
        dataset = lance.dataset(self.uri)
        if dataset.count_rows():
            dataset.create_scalar_index("n", "BTREE", replace=True)
            dataset.create_scalar_index("word", "BITMAP", replace=True)

    def optimize_theirs(self) -> None:
        lance.dataset(self.uri).optimize.optimize_indices()

    def overwrite_mine(self) -> None:
        rows = self.new()
        lancecy.dataset(self.uri).insert(table_of(rows), mode="overwrite")
        self.model = rows

    def restore_mine(self) -> None:
        before, model = lancecy.dataset(self.uri), dict(self.model)
        self.append_mine()
        before.restore()
        self.model = model

    def maps_mine(self) -> None:
        dataset = lancecy.dataset(self.uri)
        dataset.update_config({"a": str(self.next)})
        dataset.update_field_metadata({"n": {"k": str(self.next)}})
        assert lance.dataset(self.uri).config()["a"] == str(self.next)


MINE = (
    "append_mine",
    "delete_mine",
    "append_mine",
    "restore_mine",
    "maps_mine",
    "delete_mine",
    "overwrite_mine",
)
THEIRS = (
    "append_theirs",
    "index_theirs",
    "delete_theirs",
    "update_theirs",
    "compact_theirs",
    "merge_theirs",
    "optimize_theirs",
)


@pytest.mark.parametrize(
    ("version", "stable", "based", "rounds"),
    [("2.0", False, False, 5), ("2.1", False, True, 6), ("2.1", True, False, 25), ("2.2", True, True, 7)],
)
def test_turns_of_both_libraries_agree_with_a_model(
    tmp_path: Path, version: str, stable: bool, based: bool, rounds: int
) -> None:
    uri, chance = str(tmp_path / "t"), random.Random(rounds)
    bases = [DatasetBasePath(tmp_path / f"b{i}", name=f"b{i}", is_dataset_root=i == 2) for i in (1, 2)]
    story = Story(uri, chance, ["b1", "b2"] if based else None)
    story.model = story.new()
    lancecy.write_dataset(
        table_of(story.model),
        uri,
        data_storage_version=version,
        enable_stable_row_ids=stable,
        initial_bases=bases if based else None,
        target_bases=story.targets,
        max_rows_per_file=7,
    )
    check(uri, story.model)
    for _ in range(rounds):
        for name in (chance.choice(MINE), chance.choice(THEIRS)):
            step: Callable[[], None] = getattr(story, name)
            step()
        check(uri, story.model)


@pytest.mark.parametrize("version", VERSIONS)
def test_rows_of_many_types_are_read_by_pylance(tmp_path: Path, version: str) -> None:
    rows = numbers(0, 300) if version != "2.0" else numbers(0, 300).drop_columns(["point"])
    ds = lancecy.write_dataset(rows, tmp_path / "t", data_storage_version=version, max_rows_per_file=90)
    theirs = lance.dataset(ds.uri)
    theirs.validate()
    assert sorted_rows(theirs.to_table()) == sorted_rows(rows)
    assert theirs.data_storage_version == version


def test_schema_is_what_pylance_makes_of_it(tmp_path: Path) -> None:
    types = {
        "i": pa.int32(),
        "s": pa.string(),
        "d": pa.dictionary(pa.int32(), pa.string()),
        "l": pa.list_(pa.int64()),
        "st": pa.struct([pa.field("a", pa.int64(), False), pa.field("b", pa.string())]),
        "ls": pa.large_list(pa.struct({"k": pa.int8()})),
        "f": pa.list_(pa.float32(), 2),
        "null": pa.null(),
        "fixed": pa.binary(16),
        "m": pa.map_(pa.string(), pa.int32()),
        "bytes": pa.large_binary(),
        "view": pa.string_view(),
        "uuid": pa.uuid(),
        "tensor": pa.fixed_shape_tensor(pa.float32(), [2, 3]),
        "time": pa.timestamp("us", "UTC"),
        "decimal": pa.decimal128(30, 2),
    }
    schema = pa.schema(types, metadata={"k": "v"})
    schema = schema.set(0, schema.field("i").with_metadata({"x": "y"}))
    lance.write_dataset(schema.empty_table(), tmp_path / "t", data_storage_version="2.2")
    theirs, mine = lancecy.dataset(tmp_path / "t").lance_schema, schema_of(schema)
    # pylance marks dictionaries once there are rows.
    assert [replace(field, dictionary=None) for field in mine.fields] == list(theirs.fields)
    assert mine.metadata == theirs.metadata
    ours = lancecy.write_dataset(schema.empty_table(), tmp_path / "o", data_storage_version="2.2")
    assert lance.dataset(ours.uri).schema == lance.dataset(tmp_path / "t").schema


def test_stable_row_ids_of_both_go_on(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lancecy.write_dataset(table_of(fresh(0, 5)), uri, enable_stable_row_ids=True)
    lance.write_dataset(table_of(fresh(5, 5)), uri, mode="append")
    lancecy.dataset(uri).append(table_of(fresh(10, 5)))
    lance.dataset(uri).update({"value": "1"}, where="n = 3")
    lance.dataset(uri).optimize.compact_files()
    names = ["n", "_rowid", "_row_created_at_version", "_row_last_updated_at_version"]
    mine = lancecy.dataset(uri).to_table(names).sort_by("n")
    theirs = lance.dataset(uri).to_table(names).sort_by("n")
    assert mine.to_pydict() == theirs.to_pydict()
    assert mine["_rowid"].to_pylist() == list(range(15))
    assert mine["_row_created_at_version"].to_pylist() == [1] * 5 + [2] * 5 + [3] * 5


def test_pylance_writes_to_bases_that_were_registered_here(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    ds = lancecy.write_dataset(
        table_of(fresh(0, 5)), uri, initial_bases=[DatasetBasePath(tmp_path / "b1", "b1")]
    )
    ds.add_bases([DatasetBasePath(tmp_path / "b2", "b2", is_dataset_root=True)])
    lance.write_dataset(table_of(fresh(5, 5)), uri, mode="append", target_bases=["b2"])
    ds.append(table_of(fresh(10, 5)), target_bases=["b1"])
    assert [len(data_files(tmp_path / place)) for place in ("b1", "b2/data", "t/data")] == [1, 1, 1]
    check(uri, fresh(0, 15))


def test_fragments_of_either_are_committed_by_the_other(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lancecy.write_dataset(table_of(fresh(0, 5)), uri)
    mine = lancecy.write_fragments(table_of(fresh(5, 5)), uri)
    sent = [lance.FragmentMetadata.from_json(json.dumps(part.to_json())) for part in mine]
    lance.LanceDataset.commit(uri, lance.LanceOperation.Append(sent), read_version=1)
    theirs = lance.fragment.write_fragments(table_of(fresh(10, 5)), uri)
    got = [lancecy.FragmentMetadata.from_json(json.dumps(part.to_json())) for part in theirs]
    lancecy.commit(uri, LanceOperation.Append(got), read_version=1)
    check(uri, fresh(0, 15))
    deleted = lance.dataset(uri)
    deleted.delete("n = 12")
    living = [part.metadata.to_json() for part in lance.dataset(uri).get_fragments()]
    again = [lancecy.FragmentMetadata.from_json(json.dumps(part)).to_json() for part in living]
    assert again == living


def test_searches_of_pylance_stay_right(tmp_path: Path) -> None:
    rows = numbers(0, 600).select(["n", "vector"])
    words = pa.array([f"quail number {i}" if i % 2 else f"zebra number {i}" for i in range(600)])
    uri = str(tmp_path / "t")
    ds = lancecy.write_dataset(rows.append_column("text", words), uri, max_rows_per_file=200)
    theirs = lance.dataset(uri)
    theirs.create_scalar_index("text", "INVERTED")
    theirs.create_index("vector", "IVF_FLAT", num_partitions=2)
    ds = ds.checkout_latest()
    ds.delete("n % 3 = 0")
    ds.append(rows.slice(0, 1).append_column("text", pa.array(["a lonely zebra"])))
    theirs = lance.dataset(uri)
    theirs.validate()
    found = theirs.to_table(columns=["n"], full_text_query="zebra", limit=1000)["n"].to_pylist()
    assert sorted(found) == sorted([0, *(i for i in range(600) if i % 3 and i % 2 == 0)])
    nearest: dict[str, Any] = {"column": "vector", "q": [301.0, 301.5], "k": 3, "nprobes": 2}
    close = theirs.to_table(columns=["n"], nearest=nearest)["n"].to_pylist()
    assert sorted(close) == [299, 301, 302]


def test_table_of_old_files_is_deleted_from_and_replaced(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    old: Rows = {n: (f"w{n}", n) for n in range(20)}  # files of 0.1 hold no nulls of numbers
    lance.write_dataset(table_of(old), uri, data_storage_version="legacy", max_rows_per_file=6)
    ds = lancecy.dataset(uri)
    ds.delete("n % 4 = 1")
    check(uri, {n: row for n, row in old.items() if n % 4 != 1})
    with pytest.raises(UnsupportedError, match=r"column 'value' has nulls.*write version 2.0"):
        ds.append(table_of(fresh(20, 5)))
    with pytest.raises(SchemaError, match="0.1"):
        ds.append(table_of(fresh(20, 1)), data_storage_version="2.1")
    assert len(data_files(tmp_path / "t" / "data")) == 4
    ds.insert(table_of(fresh(30, 5)), mode="overwrite", data_storage_version="2.1")
    lance.write_dataset(table_of(fresh(35, 5)), uri, mode="append")
    ds.checkout_latest().delete("n = 36")
    check(uri, {n: row for n, row in fresh(30, 10).items() if n != 36})


def test_json_is_stored_byte_for_byte_as_pylance_does(tmp_path: Path) -> None:
    texts = [
        '{"b":1,"a":[1,2.5,-3,null,true,false,"x\\u00e9"],"c":{}}',
        *(
            "123456789012345678901234567890",
            "-9223372036854775808",
            "18446744073709551615",
            "-0",
            "1e400",
            "1.5e-7",
        ),
        *('{"z": 0.1, "": 200, "a": {"x": [[], [{}]]}}', '"text"', "null", "[]", "-129", "65536", None),
    ]
    column = pa.ExtensionArray.from_storage(pa.json_(), pa.array(texts, pa.string()))
    table = pa.table({"j": column, "s": pa.StructArray.from_arrays([column], ["j"])})
    for version in ("0.1", "2.0", "2.1", "2.2"):
        mine, theirs = (str(tmp_path / f"{who}{version}") for who in ("mine", "theirs"))
        lancecy.write_dataset(table, mine, data_storage_version=version)
        lance.write_dataset(table, theirs, data_storage_version="legacy" if version == "0.1" else version)
        assert lance.dataset(mine).to_table() == lance.dataset(theirs).to_table()
        if version != "0.1":
            raw = [
                lance.file.LanceFileReader(str(next(Path(uri, "data").iterdir()))).read_all().to_table()
                for uri in (mine, theirs)
            ]
            assert raw[0]["j"].to_pylist() == raw[1]["j"].to_pylist()
        lancecy.write_dataset(table, theirs, mode="append")
        lance.write_dataset(table, mine, mode="append")
        assert lance.dataset(mine).to_table() == lancecy.dataset(theirs).to_table()
        assert lance.dataset(mine).count_rows("json_get_int(j, 'b') = 1") == 2


def nested_json() -> dict[str, pa.Array]:
    """JSON at every depth, among nulls and over text that is none."""
    texts = pa.array(['{"a": 1, "b": [1, 2.5]}', "null", None, "no json", "[]", '"x"', "1", "-2"])
    json = pa.ExtensionArray.from_storage(pa.json_(), texts)
    item, gone = pa.field("item", json.type), pa.array([False, True, False])
    lists = pa.ListArray.from_arrays([0, 3, 4, 8], json, type=pa.list_(item), mask=gone)
    member = pa.StructArray.from_arrays(
        [json, pa.array(range(8))],
        fields=[pa.field("j", json.type), pa.field("n", pa.int64())],
        mask=pa.array([False, False, False, True, False, False, False, False]),
    )
    keys = pa.array([f"k{i}" for i in range(8)])
    return {
        "lists": lists,
        "structs": member.slice(0, 3),
        "lists of structs": pa.ListArray.from_arrays([0, 3, 4, 8], member, mask=gone),
        "structs of lists": pa.StructArray.from_arrays([lists], ["l"]),
        "maps": pa.MapArray.from_arrays(
            [0, 3, 3, 7], keys, pa.concat_arrays([json.slice(0, 3), json.slice(4), json.slice(0, 1)])
        ),
        "fixed": pa.FixedSizeListArray.from_arrays(member.slice(2), 2),
    }


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_json_within_others_is_stored_as_pylance_does(tmp_path: Path, version: str) -> None:
    for name, column in nested_json().items():
        if (name in ("maps", "fixed") and version < "2.2") or (version == "2.0" and "structs" in name):
            continue
        mine, theirs = (str(tmp_path / f"{who} {name}") for who in ("mine", "theirs"))
        table = pa.table({"c": column})
        # pylance makes JSON of what lies under nulls as well, and fails over it.
        clean = lancecy.write_dataset(table, mine, data_storage_version=version).to_table()
        lance.write_dataset(clean, theirs, data_storage_version=version)
        assert stored(mine) == stored(theirs)
        assert lance.dataset(mine).schema == lance.dataset(theirs).schema
        lancecy.write_dataset(table, theirs, mode="append")
        lance.write_dataset(clean, mine, mode="append")
        found = lancecy.dataset(theirs)
        assert found.verify().is_ok
        assert found.to_table() == lancecy.dataset(mine).to_table() == lance.dataset(mine).to_table()


def stored(uri: str) -> list[object]:
    """What column c of the only data file of a table holds."""
    (path,) = Path(uri, "data").iterdir()
    found: list[object] = lance.file.LanceFileReader(str(path)).read_all().to_table()["c"].to_pylist()
    return found


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_dictionaries_of_bits_and_halves_go_both_ways(tmp_path: Path, version: str) -> None:
    codes = pa.array([None if i % 5 == 0 else i % 2 for i in range(3000)], pa.int8())
    values = {"bit": pa.array([True, False]), "half": pa.array([1, 2], pa.int8()).cast(pa.float16())}
    columns = {name: pa.DictionaryArray.from_arrays(codes, array) for name, array in values.items()}
    table = pa.table({**columns, "list": pa.ListArray.from_arrays(list(range(3001)), columns["bit"])})
    expected = [row for _ in range(2) for row in table.to_pylist()]
    mine, theirs = str(tmp_path / "mine"), str(tmp_path / "theirs")
    lancecy.write_dataset(table, mine, data_storage_version=version)
    lance.write_dataset(table, theirs, data_storage_version=version)
    lance.write_dataset(table, mine, mode="append")
    lancecy.write_dataset(table, theirs, mode="append")
    for uri in (mine, theirs):
        assert lancecy.dataset(uri).verify().is_ok
        assert lance.dataset(uri).to_table().to_pylist() == expected
        assert lancecy.dataset(uri).to_table().to_pylist() == expected
