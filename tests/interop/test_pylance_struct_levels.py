"""Members that allow no null below structs that are null: the layers of pages are those that pylance writes and reads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancecy
from tests.helpers.compare import assert_tables_equal
from tests.interop import live

pytestmark = pytest.mark.interop

LEAVES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "int": (pa.int64(), [1, 2]),
    "bool": (pa.bool_(), [True, False]),
    "text": (pa.string(), ["a", "bcd"]),
    "wide text": (pa.large_string(), ["a" * 300, "b" * 256]),
    "bytes of one width": (pa.binary(300), [b"a" * 300, b"b" * 300]),
    "decimal": (pa.decimal128(20, 3), [1, 2]),
    "vector": (pa.list_(pa.float32(), 2), [[1.0, 2.0], [3.0, 4.0]]),
    "wide vector": (pa.list_(pa.float32(), 80), [[1.0] * 80, [2.0] * 80]),
    "dictionary": (pa.dictionary(pa.int8(), pa.string()), ["a", "b"]),
    "list": (pa.list_(pa.field("item", pa.int32(), False)), [[1, 2], []]),
    "list of structs": (
        pa.list_(pa.field("item", pa.struct([pa.field("y", pa.int8(), False)]), False)),
        [[{"y": 1}], [{"y": 2}, {"y": 3}]],
    ),
    "map": (pa.map_(pa.string(), pa.field("value", pa.int8(), False)), [[("a", 1)], []]),
    "fixed list of structs": (
        pa.list_(pa.struct([pa.field("y", pa.int8(), False)]), 2),
        [[{"y": 1}, {"y": 2}], [{"y": 3}, {"y": 4}]],
    ),
}
ONLY_FROM_2_2 = ("map", "fixed list of structs")
UNLIKE = ("fixed list of structs",)
"""pylance's own layers of these stop at the fixed-size list; it does not read all of its own pages."""


def must(name: str, kind: pa.DataType) -> pa.Field:
    return pa.field(name, kind, nullable=False)


def columns(kind: pa.DataType, values: list[Any]) -> dict[str, pa.Array]:
    """Structs around a member that allows no null: none of the values there, one of them, and both."""
    one, other = ({"x": value} for value in values)
    inner = pa.struct([must("x", kind)])
    around: dict[str, tuple[pa.DataType, Callable[[Any], Any]]] = {
        "two": (pa.struct([pa.field("in", inner)]), lambda v: v and {"in": v}),
        "sure": (pa.struct([must("in", inner)]), lambda v: v and {"in": v}),
        "three": (
            pa.struct([must("a", pa.struct([must("in", inner)]))]),
            lambda v: v and {"a": {"in": v}},
        ),
        "listed": (pa.list_(inner), lambda v: [v, None]),
        "listed_two": (pa.list_(pa.struct([pa.field("in", inner)])), lambda v: [v and {"in": v}, None]),
    }
    made: dict[str, pa.Array] = {}
    for name, (outer, wrap) in around.items():
        made[f"{name}_none"] = pa.array([wrap(None), wrap(None), None], outer)
        made[f"{name}_one"] = pa.array([wrap(None), wrap(one), None], outer)
        made[f"{name}_both"] = pa.array([wrap(other), None, wrap(one)], outer)
    for name in ("two", "listed_two"):
        empty = {"in": None} if name == "two" else [None, {"in": None}, None]
        made[f"{name}_inner"] = pa.array([None, empty, empty], around[name][0])
    return made


def table_of(name: str) -> pa.Table:
    kind, values = LEAVES[name]
    made = columns(kind, values)
    if name in UNLIKE:
        # No fixed-size list of structs may be in a list.
        made = {key: array for key, array in made.items() if not key.startswith("listed")}
    return pa.table(made)


def layers_of(root: Path) -> dict[str, str]:
    """Layers by column, in the words of the notation."""
    (path,) = (root / "data").iterdir()
    found = lancecy.inspect(path)
    return {
        column.name: column.encodings[0][0].partition("[")[2].partition("]")[0] for column in found.columns
    }


cases = pytest.mark.parametrize(
    ("name", "version"),
    [(n, v) for n in LEAVES for v in ("2.1", "2.2") if v == "2.2" or n not in ONLY_FROM_2_2],
)


@cases
def test_layers_are_pylances_when_members_below_null_structs_allow_no_null(
    name: str, version: str, tmp_path: Path
) -> None:
    table = table_of(name)
    lancecy.write_dataset(table, tmp_path / "mine", data_storage_version=version)
    live.write(table, tmp_path / "theirs", data_storage_version=version)
    mine, theirs = layers_of(tmp_path / "mine"), layers_of(tmp_path / "theirs")
    if name in UNLIKE:
        assert all("VI" not in layers for layers in mine.values())
    else:
        assert mine == theirs


@cases
def test_pylance_reads_and_compacts_when_members_below_null_structs_allow_no_null(
    name: str, version: str, tmp_path: Path
) -> None:
    table, path = table_of(name), tmp_path / "t"
    for mode in ("create", "append"):
        lancecy.write_dataset(table, path, mode=mode, data_storage_version=version)
    whole = pa.concat_tables([table, table])
    theirs = live.peer(path)
    assert_tables_equal(theirs.to_table(), whole)
    assert_tables_equal(theirs.take([5, 1, 4]), whole.take([5, 1, 4]))
    for column in table.column_names:
        assert_tables_equal(theirs.to_table(columns=[column]), whole.select([column]))
    kept = theirs.to_table(filter="two_one IS NULL")
    assert_tables_equal(kept, whole.filter(whole["two_one"].is_null()))

    theirs.optimize.compact_files()
    assert_tables_equal(live.peer(path).to_table(), whole)
    assert_tables_equal(lancecy.dataset(path).to_table(), whole)
