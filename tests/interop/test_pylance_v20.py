"""Files of version 2.0: whatever pylance writes, both read alike, whole and in parts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lancecy
from tests.helpers.compare import assert_tables_equal, storage_table
from tests.helpers.tables import all_types, random_table
from tests.interop import live

pytestmark = pytest.mark.interop

# What pylance cannot write at 2.0 or does not give back: nested types with nulls in structs are mended below.
TYPES = {name: kind for name, kind in all_types().items() if name != "decimal_negative_scale"}


def write(table: pa.Table | pa.RecordBatchReader, path: Path, **options: Any) -> None:
    live.write(table, path, data_storage_version="2.0", **options)


def whole_structs(array: pa.Array) -> pa.Array:
    """The array without nulls of structs, which 2.0 cannot say; for arrays without an offset."""
    kind = array.type
    if pa.types.is_struct(kind):
        children = [whole_structs(array.field(i)) for i in range(kind.num_fields)]
        return pa.Array.from_buffers(kind, len(array), [None], children=children)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        buffers = array.buffers()[: 1 if pa.types.is_fixed_size_list(kind) else 2]
        return pa.Array.from_buffers(kind, len(array), buffers, children=[whole_structs(array.values)])
    return array


def table_of(rows: int, nulls: float, types: dict[str, pa.DataType] = TYPES, seed: int = 3) -> pa.Table:
    made = random_table(pa.schema(list(types.items())), rows, nulls=nulls, seed=seed)
    return pa.table({name: whole_structs(made[name].combine_chunks()) for name in types})


def text(kind: pa.DataType, scheme: str) -> pa.Schema:
    return pa.schema([pa.field("s", kind, metadata={"lance-encoding:compression": scheme})])


def words(rows: int, distinct: int, kind: pa.DataType, nulls: float = 0.1) -> pa.Array:
    rng = np.random.default_rng(rows)
    numbers = rng.integers(0, distinct, rows)
    values = [None if rng.random() < nulls else f"wörd {n} " * (n % 4) for n in numbers.tolist()]
    return pa.array(values, pa.string()).cast(kind)


def in_small_batches(table: pa.Table, rows: int) -> pa.RecordBatchReader:
    """The writer takes each slice for as large as the whole and makes many small pages of them."""

    def batches() -> Iterator[pa.RecordBatch]:
        for start in range(0, table.num_rows, rows):
            yield from table.slice(start, rows).to_batches()

    return pa.RecordBatchReader.from_batches(table.schema, batches())


@pytest.mark.parametrize("nulls", [0.0, 0.2, 1.0])
@pytest.mark.parametrize("rows", [1, 64, 700])
def test_every_type(rows: int, nulls: float, tmp_path: Path) -> None:
    write(table_of(rows, nulls), tmp_path / "t")
    live.assert_same(tmp_path / "t", takes=False)  # pylance panics on takes of vectors of booleans


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()], ids=str)
@pytest.mark.parametrize("distinct", [7, 5000])
@pytest.mark.parametrize("rows", [99, 2000])
def test_strings_of_few_and_of_many_values(
    kind: pa.DataType, distinct: int, rows: int, tmp_path: Path
) -> None:
    columns = {
        "some": words(rows, distinct, kind),
        "none": words(rows, distinct, kind, nulls=0.0),
        "all": pa.nulls(rows, kind),
        "empty": pa.array([""] * rows).cast(kind),
        "lists": pa.array([[b"a", None], None, []] * (rows // 3) + [None] * (rows % 3), pa.list_(kind)),
    }
    write(pa.table(columns), tmp_path / "t")
    live.assert_same(tmp_path / "t")


@pytest.mark.parametrize("scheme", ["zstd", "lz4", "none", "fsst", "unknown"])
@pytest.mark.parametrize("kind", [pa.string(), pa.binary(), pa.large_string()], ids=str)
@pytest.mark.parametrize("rows", [10, 8000])
def test_compressed_strings(kind: pa.DataType, scheme: str, rows: int, tmp_path: Path) -> None:
    if scheme == "fsst" and kind == pa.large_string():
        scheme = "zstd"  # pylance panics
    write(pa.table([words(rows, 5000, kind)], schema=text(kind, scheme)), tmp_path / "t")
    live.assert_same(tmp_path / "t")


def test_nulls_over_values_that_nobody_sees(tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    rows = 300

    def nulled(array: pa.Array) -> pa.Array:
        bitmap = pa.array(rng.random(rows) < 0.6).buffers()[1]
        children = [array.values] if pa.types.is_nested(array.type) else []
        return pa.Array.from_buffers(
            array.type, rows, [bitmap, *array.buffers()[1 : 3 - len(children)]], children=children
        )

    offsets = np.concatenate(([0], np.cumsum(rng.integers(0, 4, rows)))).astype(np.int32)
    values = pa.array(rng.integers(0, 1000, int(offsets[-1])))
    table = pa.table(
        {
            "ints": nulled(pa.array(rng.integers(0, 1000, rows))),
            "strings": nulled(pa.array([f"hidden {i}" for i in range(rows)])),
            "few": nulled(pa.array([f"hidden {i % 3}" for i in range(rows)])),
            "lists": nulled(pa.ListArray.from_arrays(pa.array(offsets), values)),
        }
    )
    write(table, tmp_path / "t")
    live.assert_same(tmp_path / "t", filters=["ints > 500", "strings is null"])


def test_slices_as_they_are(tmp_path: Path) -> None:
    flat = {name: kind for name, kind in TYPES.items() if "struct" not in name}
    write(table_of(400, 0.2, flat).slice(13, 211), tmp_path / "t")
    live.assert_same(tmp_path / "t", takes=False)


@pytest.mark.parametrize("nulls", [0.0, 0.01, 0.3])
def test_many_small_pages(nulls: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANCE_FILE_WRITER_MAX_PAGE_BYTES", "4096")
    kinds = ["int32", "bool", "string", "large_binary", "list_int", "list_string", "vector_float32"]
    table = table_of(15_000, nulls, {kind: TYPES[kind] for kind in kinds})
    table = table.append_column("word", words(15_000, 50, pa.string(), nulls))
    write(in_small_batches(table, 100), tmp_path / "t")
    live.assert_same(tmp_path / "t", filters=["int32 > 0", "word = 'wörd 1 '"])


def test_pages_of_several_forms_in_one_column(tmp_path: Path) -> None:
    part = 3000
    kinds = [
        words(part, n, pa.string(), nulls) for n, nulls in ((5, 0.1), (5000, 0.1), (4000, 0.0), (1, 1.0))
    ]
    strings = pa.concat_arrays([*kinds, pa.array([""] * part), *kinds])
    numbers = [pa.array(range(part)), pa.nulls(part, pa.int64()), pa.array([None, *range(part - 1)])] * 3
    lists = pa.ListArray.from_arrays(pa.array(range(9 * part + 1), pa.int32()), strings)
    table = pa.table({"s": strings, "n": pa.concat_arrays(numbers), "l": lists})
    write(in_small_batches(table, 60), tmp_path / "t")
    live.assert_same(tmp_path / "t", filters=["n > 2990", "s is null"])


@pytest.mark.parametrize("key", [pa.int8(), pa.uint16(), pa.int32()], ids=str)
def test_dictionaries_of_many_pages(key: pa.DataType, tmp_path: Path) -> None:
    strings = words(60_000, 50, pa.string())
    encoded = strings.dictionary_encode()
    column = pa.DictionaryArray.from_arrays(encoded.indices.cast(key), encoded.dictionary)
    write(in_small_batches(pa.table({"d": column}), 100), tmp_path / "t")
    dataset = lancecy.dataset(tmp_path / "t")
    whole = dataset.to_table()["d"]
    assert whole.type == column.type
    # pylance's own answer is not compared: Arrow joins no dictionaries with null items.
    assert whole.cast(pa.string()).combine_chunks() == strings
    rows = np.random.default_rng(1).integers(0, 60_000, 500)
    assert dataset.take(rows)["d"].cast(pa.string()).combine_chunks() == strings.take(pa.array(rows))
    assert dataset.to_table(filter="d = 'wörd 5 '").num_rows == strings.to_pylist().count("wörd 5 ")


def test_packed_structs_and_lists_of_them(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    rows = 500
    fields = [
        pa.field("a", pa.int32()),
        pa.field("b", pa.float64()),
        pa.field("c", pa.int8()),
        pa.field("d", pa.list_(pa.float32(), 3)),
        pa.field("e", pa.binary(5)),
    ]
    arrays = [
        pa.array(rng.integers(0, 99, rows), pa.int32()),
        pa.array(rng.random(rows)),
        pa.array(rng.integers(0, 99, rows), pa.int8()),
        pa.FixedSizeListArray.from_arrays(pa.array(rng.random(3 * rows), pa.float32()), 3),
        pa.array([b"%5d" % i for i in range(rows)], pa.binary(5)),
    ]
    packed = pa.StructArray.from_arrays(arrays, fields=fields)
    marked = pa.field("p", packed.type, metadata={"packed": "true"})
    item = pa.field("item", packed.type, metadata={"lance-encoding:packed": "true"})
    offsets = pa.array(np.arange(0, rows + 1, 5), pa.int32())
    lists = pa.ListArray.from_arrays(offsets, packed).cast(pa.list_(item))
    write(pa.table([packed], schema=pa.schema([marked])), tmp_path / "packed")
    live.assert_same(tmp_path / "packed")
    write(pa.table([lists], schema=pa.schema([pa.field("l", lists.type)])), tmp_path / "lists")
    live.assert_same(tmp_path / "lists")


def test_members_of_structs_alone(tmp_path: Path) -> None:
    write(
        table_of(300, 0.2, {"struct": TYPES["struct"], "struct_nested": TYPES["struct_nested"]}),
        tmp_path / "t",
    )
    live.assert_same(
        tmp_path / "t", columns=[["struct.c", "struct.a"], ["struct_nested.p.y", "struct_nested.l"]]
    )


def test_blobs_are_read_as_descriptors(tmp_path: Path) -> None:
    values = [None if i % 7 == 0 else b"x" * (i % 5) for i in range(700)]
    field = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    table = pa.table(
        [pa.array(range(700)), pa.array(values, pa.large_binary())],
        schema=pa.schema([("i", pa.int64()), field]),
    )
    write(table, tmp_path / "t")
    mine, theirs = lancecy.dataset(tmp_path / "t"), live.peer(tmp_path / "t")
    assert_tables_equal(mine.to_table(), theirs.to_table())
    assert_tables_equal(mine.to_table(limit=30, offset=400), theirs.to_table(limit=30, offset=400))
    rows = [699, 3, 3, 0, 70]
    assert_tables_equal(mine.take(rows), theirs.to_table().take(pa.array(rows)))


@pytest.mark.parametrize("seed", range(12))
def test_random_nested_tables(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    leaves = [
        TYPES[name]
        for name in ("int16", "bool", "string", "binary", "dictionary_int8", "vector_float32", "null")
    ]

    def kind(depth: int) -> pa.DataType:
        choice = int(rng.integers(4)) if depth else 3
        if choice == 0:
            return pa.list_(kind(depth - 1))
        if choice == 1:
            return pa.large_list(kind(depth - 1))
        if choice == 2:
            return pa.struct([pa.field(f"f{i}", kind(depth - 1)) for i in range(int(rng.integers(1, 4)))])
        return leaves[int(rng.integers(len(leaves)))]

    types = {f"c{i}": kind(4) for i in range(4)}
    rows = int(rng.choice([1, 20, 400]))
    write(table_of(rows, float(rng.choice([0, 0.1, 0.6])), types, seed), tmp_path / "t")
    live.assert_same(tmp_path / "t", seed=seed)


def test_histories(tmp_path: Path) -> None:
    path = tmp_path / "t"
    write(live.mixed_table(500).drop_columns(["points"]), path, max_rows_per_file=200)
    dataset = live.peer(path)
    dataset.delete("id % 7 = 2")
    dataset.add_columns({"more": "id + 1"})
    dataset.alter_columns({"path": "k", "data_type": pa.int64()})
    dataset.drop_columns(["raw"])
    mine = live.assert_same(path, filters=["id > 100 and k < 20", "word = 'a'"])
    assert_tables_equal(storage_table(mine.to_table()), storage_table(live.peer(path).to_table()))
