"""Packed structs and structs without members, written here, read and appended to by pylance; and the other way round."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lancecy
from lancecy.errors import UnsupportedError

pytestmark = pytest.mark.interop

PACKED = {"lance-encoding:packed": "true"}
A, B = pa.field("a", pa.int32()), pa.field("b", pa.float64())
VECTOR, CODE = pa.field("v", pa.list_(pa.float32(), 3)), pa.field("c", pa.binary(3))
TIMES = [
    pa.field("t", pa.timestamp("us", "UTC")),
    pa.field("d", pa.decimal128(38, 2)),
    pa.field("h", pa.float16()),
]
TEXTS = [pa.field("s", pa.string()), pa.field("n", pa.int8()), pa.field("x", pa.large_binary()), VECTOR]


def rows(kind: pa.DataType, count: int, nulls: bool, seed: int = 3) -> pa.Array:
    rng = np.random.default_rng(seed)
    members = [_member(kind.field(i).type, count, rng) for i in range(kind.num_fields)]
    mask = pa.array(rng.random(count) < 0.2) if nulls else None
    return pa.StructArray.from_arrays(members, fields=list(kind), mask=mask)


def _member(kind: pa.DataType, count: int, rng: np.random.Generator) -> pa.Array:
    if pa.types.is_fixed_size_list(kind):
        return pa.FixedSizeListArray.from_arrays(_member(kind.value_type, 3 * count, rng), 3)
    if pa.types.is_fixed_size_binary(kind):
        return pa.array([rng.bytes(kind.byte_width) for _ in range(count)], kind)
    if pa.types.is_string(kind) or pa.types.is_large_binary(kind):
        return pa.array([b"x" * int(n) for n in rng.integers(0, 40, count)]).cast(kind)
    return pa.array(rng.integers(0, 90, count)).cast(kind)


def lists(items: pa.Array) -> pa.Array:
    offsets = np.minimum(np.cumsum([0, *([2, 0, 3, 1] * (len(items) // 4))]), len(items))
    mask = pa.array(np.arange(offsets.size - 1) % 5 == 1)
    kind = pa.list_(pa.field("item", items.type, metadata=PACKED))
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), items, type=kind, mask=mask)


def column(name: str, nulls: bool) -> tuple[pa.Field, pa.Array]:
    kinds = {
        "two": [A, B],
        "one": [A],
        "codes": [A, VECTOR, CODE],
        "times": TIMES,
        "texts": TEXTS,
        "wide": [A],
    }
    if name == "wide":
        kinds["wide"] = [A, pa.field("w", pa.binary(1500)), pa.field("w2", pa.binary(3000))]
    kind = pa.struct(kinds[name.rsplit(maxsplit=1)[-1]])
    array = rows(kind, 300 if name == "wide" else 3000, nulls)
    if name.startswith("lists of"):
        array = lists(array)
        return pa.field("p", array.type), array
    if name.startswith("struct of"):
        inner = pa.field("q", kind, metadata=PACKED)
        mask = pa.array(np.arange(len(array)) % 7 == 0) if nulls else None
        array = pa.StructArray.from_arrays(
            [array, pa.array(range(len(array)))], fields=[inner, A.with_type(pa.int64())], mask=mask
        )
        return pa.field("p", array.type), array
    return pa.field("p", kind, metadata=PACKED), array


FITS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("two", "one", "times", "lists of two", "struct of two"), ("2.0", "2.1", "2.2")),
    **dict.fromkeys(("codes",), ("2.0", "2.2")),
    **dict.fromkeys(("texts", "lists of texts", "struct of texts"), ("2.2",)),
}


@pytest.mark.parametrize(
    ("name", "version"), [(name, v) for name, versions in FITS.items() for v in versions]
)
def test_packed_structs_go_both_ways(tmp_path: Path, name: str, version: str) -> None:
    for nulls in (False, True):
        if nulls and version == "2.0":
            continue
        field, array = column(name, nulls)
        table = pa.table(
            [pa.array(range(len(array))), array], schema=pa.schema([pa.field("i", pa.int64()), field])
        )
        mine, theirs = (str(tmp_path / f"{who}{nulls}") for who in ("mine", "theirs"))
        # Slices, several batches and files.
        options: dict[str, Any] = {"data_storage_version": version, "max_rows_per_file": 1700}
        lancecy.write_dataset(pa.table(table.slice(5)).to_reader(400), mine, **options)
        lance.write_dataset(table.take(list(range(5, len(array)))), theirs, **options)
        expected = table.slice(5)
        for uri in (mine, theirs):
            assert lance.dataset(uri).schema.equals(lance.dataset(theirs).schema, check_metadata=True)
        lancecy.dataset(theirs).append(table)
        lance.write_dataset(table, mine, mode="append")
        expected = pa.concat_tables([expected, table])
        for uri in (mine, theirs):
            check(uri, expected)


def check(uri: str, expected: pa.Table) -> None:
    found = lance.dataset(uri)
    found.validate()
    assert found.to_table() == expected
    mine = lancecy.dataset(uri)
    assert mine.verify().is_ok
    assert mine.to_table() == expected
    picked = [0, len(expected) // 2, len(expected) - 1]
    assert mine.take(picked) == expected.take(picked)
    if not pa.types.is_list(expected.schema.types[-1]):
        # pylance 14.0.2 panics over a null list of packed structs that is taken alone.
        assert found.take(picked) == expected.take(picked)


@pytest.mark.parametrize(
    ("field", "version", "message"),
    [
        (
            pa.field("p", pa.struct([A, pa.field("s", pa.string())]), metadata=PACKED),
            "2.1",
            "'s'.*write version 2.2",
        ),
        (pa.field("p", pa.struct([VECTOR]), metadata=PACKED), "2.1", "'v'.*write version 2.2"),
        (
            pa.field("p", pa.struct([pa.field("s", pa.bool_())]), metadata=PACKED),
            "2.2",
            "'s'.*leave the metadata",
        ),
        (
            pa.field("p", pa.struct([pa.field("s", pa.struct([A]))]), metadata=PACKED),
            "2.2",
            "leave the metadata",
        ),
        (
            pa.field("p", pa.struct([A]), metadata={"lance-encoding:packed": "1"}),
            "2.1",
            "with the value true",
        ),
        (pa.field("p", pa.struct([]), metadata=PACKED), "2.1", "give it a member"),
        (pa.field("p", pa.list_(pa.struct([]))), "2.1", "give it a member"),
    ],
)
def test_what_packed_structs_cannot_hold_is_refused(
    tmp_path: Path, field: pa.Field, version: str, message: str
) -> None:
    with pytest.raises(UnsupportedError, match=message):
        lancecy.write_dataset(pa.schema([field]).empty_table(), tmp_path / "t", data_storage_version=version)


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_nulls_in_packed_structs_are_refused(tmp_path: Path, version: str) -> None:
    for values in (
        [{"a": 1, "b": None}],
        [{"a": 1, "b": 2.0}, None] if version == "2.0" else [{"a": None, "b": 1.0}],
    ):
        field = pa.field("p", pa.struct([A, B]), metadata=PACKED)
        table = pa.table([pa.array(values, field.type)], schema=pa.schema([field]))
        with pytest.raises(UnsupportedError, match="null"):
            lancecy.write_dataset(table, tmp_path / "t", data_storage_version=version)


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_wide_packed_structs(tmp_path: Path, version: str) -> None:
    field, array = column("wide", False)
    table = pa.table([array], schema=pa.schema([field]))
    if version == "2.1":
        with pytest.raises(UnsupportedError, match="too wide.*write version 2.2"):
            lancecy.write_dataset(table, tmp_path / "t", data_storage_version=version)
    else:
        lancecy.write_dataset(table, tmp_path / "t", data_storage_version=version)
        check(str(tmp_path / "t"), table)


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_structs_without_members_go_both_ways(tmp_path: Path, version: str) -> None:
    nothing = pa.array([{}] * 400, pa.struct([]))
    around = pa.StructArray.from_arrays([pa.array(range(400)), nothing], ["n", "e"])
    inner = pa.StructArray.from_arrays([nothing], ["e"])
    columns = {"i": pa.array(range(400)), "s": around, "o": inner, "e": nothing}
    if version == "2.0":
        columns["b"] = pa.StructArray.from_arrays([nothing, pa.array(range(400))], ["e", "n"])
        columns["l"] = pa.ListArray.from_arrays(pa.array(range(401), pa.int32()), nothing)
    table = pa.table(columns)
    mine, theirs = str(tmp_path / "mine"), str(tmp_path / "theirs")
    lancecy.write_dataset(table.slice(3), mine, data_storage_version=version)
    lance.write_dataset(table.slice(3), theirs, data_storage_version=version)  # type: ignore[arg-type]
    lancecy.dataset(theirs).append(table)
    lance.write_dataset(table, mine, mode="append")
    for uri in (mine, theirs):
        check(uri, pa.concat_tables([table.slice(3), table]))
    if version > "2.0":
        null = pa.array([{}, None], pa.struct([]))
        before = pa.StructArray.from_arrays([nothing, pa.array(range(400))], ["e", "n"])
        for refused in ({"c": null}, {"c": before}, {"c": nothing, "i": pa.array(range(400))}):
            with pytest.raises(UnsupportedError, match="give it a member"):
                lancecy.write_dataset(pa.table(refused), tmp_path / "gone", data_storage_version=version)
