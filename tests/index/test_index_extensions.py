"""Indices of extension types hold the values under them: what either library makes, both use, and answers stay right."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lancecy
from lancecy.errors import ExpressionError, IndexTypeError

pytestmark = pytest.mark.interop
lance: Any = pytest.importorskip("lance")

IDS = [uuid.UUID(int=number * 0x9E3779B97F4A7C15_F39CC0605CEDC834 % 2**128) for number in range(60)]
FORMS = [("2.0", False, "u"), ("2.2", True, "st.u"), ("2.2", False, "u")]
KINDS = ["BTREE", "BITMAP", "ZONEMAP"]


def uuids(keys: Sequence[bytes | None]) -> pa.Array:
    return pa.ExtensionArray.from_storage(pa.uuid(), pa.array(keys, pa.binary(16)))


def rows(count: int, first: int = 0) -> pa.Table:
    """Rows with a number, a UUID of 60 or none, and the same in a struct."""
    chance = random.Random(first)
    keys = uuids([None if chance.random() < 0.1 else chance.choice(IDS).bytes for _ in range(count)])
    return pa.table(
        {"n": range(first, first + count), "u": keys, "st": pa.StructArray.from_arrays([keys], ["u"])}
    )


def text(key: uuid.UUID) -> str:
    return f"X'{key.hex}'"


def filters(column: str) -> tuple[str, ...]:
    low, high = sorted(IDS[4:6])
    return (
        f"{column} = {text(IDS[3])}",
        f"{column} = {text(uuid.UUID(int=1))}",
        f"{column} IN ({text(IDS[3])}, {text(IDS[4])}, {text(IDS[5])})",
        f"{column} != {text(IDS[3])}",
        f"NOT {column} IN ({text(IDS[3])}, {text(IDS[4])})",
        f"{column} IS NULL",
        f"{column} IS NOT NULL",
        f"{column} > {text(high)}",
        f"{column} >= {text(low)} AND {column} < {text(high)}",
        f"{column} BETWEEN {text(low)} AND {text(high)}",
        f"{column} = {text(IDS[3])} OR n < 10",
        f"{column} < {text(high)} AND n % 2 = 0",
    )


def check_answers(uri: str, column: str) -> None:
    """Check that both libraries answer filters with the index as they do without."""
    ds, theirs = lancecy.dataset(uri), lance.dataset(uri)
    for where in filters(column):
        plain = sorted(ds.to_table(["n"], filter=where, use_scalar_index=False)["n"].to_pylist())
        assert sorted(ds.to_table(["n"], filter=where, use_scalar_index=True)["n"].to_pylist()) == plain, (
            where
        )
        assert sorted(theirs.to_table(["n"], filter=where)["n"].to_pylist()) == plain, where
        assert ds.count_rows(where) == len(plain), where


def used(ds: Any, where: Any) -> tuple[str, ...]:
    """Names of the indices that a scan of lancecy uses."""
    lines = ds.scanner(filter=where).explain().fragments
    return tuple(dict.fromkeys(name for line in lines for s in line.sources for name in s.indices))


def uncovered(ds: Any, name: str) -> int:
    return int(ds.index_statistics(name)["num_unindexed_rows"])


@pytest.mark.parametrize(("version", "stable", "column"), FORMS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("maker", [lance, lancecy], ids=["pylance", "lancecy"])
def test_an_index_of_uuids_serves_both_libraries_whatever_happens_to_the_table(
    tmp_path: Path, maker: Any, kind: str, version: str, stable: bool, column: str
) -> None:
    options: dict[str, Any] = {"enable_stable_row_ids": stable, "data_storage_version": version}
    ds = lancecy.write_dataset(rows(600), tmp_path / "t", max_rows_per_file=250, durability="none", **options)
    uri, name, where = ds.uri, f"{column}_idx", f"{column} = {text(IDS[3])}"
    maker.dataset(uri).create_scalar_index(column, kind)
    assert "ScalarIndexQuery" in lance.dataset(uri).scanner(filter=where).explain_plan()
    # Zone maps of pylance (14.0.2) have no bounds of values of fixed width, and know only the nulls.
    is_bounded = kind != "ZONEMAP" or maker is lancecy
    asked = f"{column} < X'{bytes(16).hex()}'" if is_bounded else f"{column} IS NULL"
    assert used(lancecy.dataset(uri), asked) == (f"{name} ({kind})",)
    check_answers(uri, column)
    lancecy.dataset(uri).append(rows(200, 600), durability="none")
    lancecy.dataset(uri).delete(f"{column} = {text(IDS[9])} OR n % 10 = 3", durability="none")
    check_answers(uri, column)
    ds = lancecy.dataset(uri)
    assert uncovered(ds, name) > 0
    ds.optimize.optimize_indices()
    assert uncovered(lancecy.dataset(uri), name) == 0
    check_answers(uri, column)
    lancecy.dataset(uri).update({"n": "n + 5000"}, where=f"{column} = {text(IDS[7])}", durability="none")
    check_answers(uri, column)
    lancecy.dataset(uri).optimize.compact_files()
    lancecy.dataset(uri).optimize.optimize_indices()
    assert uncovered(lancecy.dataset(uri), name) == 0
    check_answers(uri, column)
    lancecy.dataset(uri).append(rows(100, 9000), durability="none")
    lance.dataset(uri).optimize.optimize_indices()
    check_answers(uri, column)


@pytest.mark.parametrize("kind", KINDS)
def test_uuids_are_compared_as_expressions_of_every_kind(tmp_path: Path, kind: str) -> None:
    ds = lancecy.write_dataset(rows(600), tmp_path / "t", durability="none")
    ds.create_scalar_index("u", kind, durability="none")
    key, field = IDS[3], pc.field("u")
    expected = ds.to_table(filter=f"u = {text(key)}", use_scalar_index=False)
    assert expected.num_rows
    for same in (
        field == pa.scalar(key, pa.uuid()),
        field == pa.scalar(key.bytes, pa.binary(16)),
        field == key.bytes,
        field.isin([key.bytes]),
        field.isin(uuids([key.bytes])),
        lancecy.col("u") == key,
        lancecy.col("u") == key.bytes,
        f"u = 0x{key.hex}",
        f"u = arrow_cast({text(key)}, 'FixedSizeBinary(16)')",
    ):
        assert ds.to_table(filter=same).equals(expected), same
    assert used(ds, lancecy.col("u") < bytes(16)) == (f"u_idx ({kind})",)
    # A key of another width equals no value, and has its place in their order.
    assert ds.count_rows("u = X'00'") == 0 and ds.count_rows("u > X'00'") == ds.count_rows("u IS NOT NULL")
    with pytest.raises(ExpressionError, match=f"^u = '{key}': .* write this UUID as {text(key)}$"):
        ds.to_table(filter=f"u = '{key}'")


@pytest.mark.parametrize(
    ("kind", "stored", "make"),
    [
        (pa.uuid(), pa.binary(16), lambda n: uuid.UUID(int=n * 7919 % 100_003).bytes),
        (pa.binary(5), pa.binary(5), lambda n: f"{n:05d}".encode()),
        (pa.large_binary(), pa.large_binary(), lambda n: f"{n:05d}".encode()),
        (pa.large_string(), pa.large_string(), lambda n: f"k{n}"),
        (pa.string_view(), pa.string_view(), lambda n: f"k{n}"),
        (pa.opaque(pa.int64(), "t", "v"), pa.int64(), lambda n: n),
    ],
    ids=["uuid", "fixed", "large_binary", "large_string", "view", "opaque"],
)
def test_an_upsert_by_such_keys_is_the_same_with_an_index(
    tmp_path: Path, kind: pa.DataType, stored: pa.DataType, make: Callable[[int], Any]
) -> None:
    def keyed(numbers: Sequence[int], value: int) -> pa.Table:
        keys = pa.array([*(make(n) for n in numbers), None], stored)
        if isinstance(kind, pa.BaseExtensionType):
            keys = pa.ExtensionArray.from_storage(kind, keys)
        return pa.table({"k": keys, "n": [*numbers, -1], "v": [value] * len(keys)})

    found = []
    for index in (None, "BTREE", "BITMAP"):
        ds = lancecy.write_dataset(
            keyed(range(5000), 0), tmp_path / f"{index}", max_rows_per_file=2000, durability="none"
        )
        if index is not None:
            ds.create_scalar_index("k", index, durability="none")
        ds.delete("n % 100 = 7", durability="none")
        merge = ds.merge_insert("k").when_matched_update_all().when_not_matched_insert_all()
        stats = merge.durability("none").execute(keyed(range(4700, 5100), 1))
        found.append((stats, ds.to_table().sort_by([("n", "ascending"), ("v", "ascending")])))
    assert found[0] == found[1] == found[2]


def test_zone_maps_of_a_writer_and_of_a_table_are_alike(tmp_path: Path) -> None:
    keys = sorted(key.bytes for key in IDS for _ in range(300))
    data = pa.table({"n": range(len(keys)), "u": uuids(keys)})
    written = lancecy.write_dataset(data, tmp_path / "w", zonemaps=True, durability="none")
    later = lancecy.write_dataset(data, tmp_path / "l", durability="none")
    assert later.create_zonemaps(durability="none") == ("n_zonemap_idx", "u_zonemap_idx")
    where = f"u = X'{keys[-1].hex()}'"
    for ds in (written, later):
        assert used(ds, where) == ("u_zonemap_idx (ZONEMAP)",)
        theirs = lance.dataset(ds.uri)
        assert ds.count_rows(where) == theirs.count_rows(where) == 300
        assert "ScalarIndexQuery" in theirs.scanner(filter=where).explain_plan()


STORED: dict[str, tuple[Any, ...]] = {
    "int64": (pa.array([5, None, 0, 3, 100, 7, None, 64], pa.int64()), "u = 3", "u > 6"),
    "int8": (pa.array([5, None, 0, 3, 100, 7, None, 64], pa.int8()), "u = 3", "u > 6"),
    "string": (pa.array(["a", None, "ab", "b"]), "u = 'ab'", "u LIKE 'a%'"),
    "float": (pa.array([1.5, None, 0.0, -2.0], pa.float32()), "u = 1.5", "u < 0"),
    "timestamp": (pa.array([5, None, 9], pa.timestamp("us")), "u > timestamp '1970-01-01 00:00:00.000006'"),
    "binary": (pa.array([b"a", None, b""]), "u = X'61'", "u < X'61'"),
}


@pytest.mark.parametrize("name", STORED)
def test_other_extension_types_are_indexed_by_their_values(tmp_path: Path, name: str) -> None:
    values, *wheres = STORED[name]
    kind = pa.opaque(values.type, "kind", "vendor")
    data = pa.table({"n": range(len(values)), "u": pa.ExtensionArray.from_storage(kind, values)})
    for maker in (lance, lancecy):
        for index in (*KINDS, "BLOOMFILTER"):
            uri = str(tmp_path / f"{maker.__name__}_{index}")
            lancecy.write_dataset(data, uri, durability="none")
            maker.dataset(uri).create_scalar_index("u", index)
            ds = lancecy.dataset(uri)
            assert used(ds, "u IS NULL") == (f"u_idx ({index})",)
            for where in (*wheres, "u IS NULL", "u IS NOT NULL"):
                plain = ds.to_table(filter=where, use_scalar_index=False)
                assert ds.to_table(filter=where, use_scalar_index=True).equals(plain), (where, index)
                assert lance.dataset(uri).to_table(["n"], filter=where)["n"].equals(plain["n"]), (
                    where,
                    index,
                )


def test_what_is_not_indexed_is_refused_and_scanned(tmp_path: Path) -> None:
    """pylance indexes the stored form of JSON, which filters of texts do not see, and zone maps of any type."""
    texts = pa.array(['{"a": 1}', None, '{"a": 2}'])
    data = pa.table(
        {
            "j": pa.ExtensionArray.from_storage(pa.json_(), texts),
            "u": uuids([IDS[0].bytes, None, IDS[1].bytes]),
            "c": pa.array(["x", None, "y"]).dictionary_encode(),
            "nothing": pa.nulls(3),
            "list": pa.array(np.arange(3)[:, None].tolist()),
        }
    )
    ds = lancecy.write_dataset(data, tmp_path / "t", durability="none")
    for column, kind in (("j", "BTREE"), ("u", "BLOOMFILTER"), ("c", "ZONEMAP"), ("nothing", "ZONEMAP")):
        with pytest.raises(IndexTypeError, match=column):
            ds.create_scalar_index(column, kind)
    for column, kind in (("j", "BTREE"), ("c", "ZONEMAP"), ("nothing", "ZONEMAP"), ("list", "ZONEMAP")):
        lance.dataset(ds.uri).create_scalar_index(column, kind)
    ds = lancecy.dataset(ds.uri)
    # With its zone map, pylance (14.0.2) finds no null in a column of nothing else.
    for where, count in (
        ("json_get_int(j, 'a') = 2", 1),
        ("j IS NULL", 1),
        ("c = 'y'", 1),
        ("nothing IS NULL", 3),
    ):
        assert used(ds, where) == ()
        assert ds.count_rows(where) == count, where
