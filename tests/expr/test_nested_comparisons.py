"""Comparisons of lists, structs and maps: against a model in Python, and against pylance over files of all versions."""

from __future__ import annotations

import math
import random
import struct
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lancecy
from lancecy import col
from lancecy.errors import ExpressionError
from lancecy.expr import bind, evaluate
from lancecy.expr.evaluation.nested_comparisons import compare_nested
from tests.expr.test_answers import parsed
from tests.expr.test_exact import OPERATORS

PAIR = pa.struct({"x": pa.int32(), "y": pa.string()})
KINDS = [
    pa.list_(pa.int32()),
    pa.large_list(pa.float64()),
    pa.list_(pa.float16(), 2),
    pa.list_(pa.string()),
    pa.list_(pa.list_(pa.bool_())),
    pa.list_(PAIR),
    PAIR,
    pa.struct({"p": PAIR, "q": pa.list_(pa.binary(2))}),
    pa.map_(pa.string(), pa.int64()),
]


def some_value(kind: pa.DataType, rnd: random.Random, nullable: bool = True) -> Any:
    """A random value of few, so that many are equal."""
    if nullable and rnd.random() < 0.2:
        return None
    if pa.types.is_map(kind):
        return [(key, some_value(kind.item_type, rnd)) for key in rnd.sample("ab", rnd.randrange(3))]
    if pa.types.is_struct(kind):
        return {field.name: some_value(field.type, rnd) for field in kind}
    if pa.types.is_fixed_size_list(kind):
        return [some_value(kind.value_type, rnd) for _ in range(kind.list_size)]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [some_value(kind.value_type, rnd) for _ in range(rnd.randrange(3))]
    if pa.types.is_floating(kind):
        return rnd.choice([0.0, -0.0, 1.5, -1.5, math.nan, math.inf])
    if pa.types.is_string(kind):
        return rnd.choice(["", "a", "b", "ab", "ü"])
    if pa.types.is_boolean(kind):
        return rnd.random() < 0.5
    if pa.types.is_fixed_size_binary(kind):
        return rnd.choice([b"aa", b"ab", b"\xff\0"])
    return rnd.choice([-1, 0, 1, 300])


def rank(value: Any) -> Any:
    """A value that Python orders as the documentation of filters says."""
    if value is None:
        return (0,)
    if isinstance(value, dict):
        return (1, *map(rank, value.values()))
    if isinstance(value, (list, tuple)):
        return (1, *map(rank, value))
    if isinstance(value, float):
        (bits,) = struct.unpack("<q", struct.pack("<d", value))
        return (1, bits if bits >= 0 else bits ^ (2**63 - 1))
    return (1, value.encode() if isinstance(value, str) else value)


def expected(op: str, left: list[Any], right: list[Any]) -> list[bool | None]:
    return [
        None if one is None or other is None else OPERATORS[op](rank(one), rank(other))
        for one, other in zip(left, right, strict=True)
    ]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_first_difference_decides(kind: pa.DataType) -> None:
    rnd = random.Random(str(kind))
    left, right = ([some_value(kind, rnd) for _ in range(600)] for _ in range(2))
    constant = some_value(kind, rnd, nullable=False)
    one, other, scalar = pa.array(left, kind), pa.array(right, kind), pa.scalar(constant, kind)
    chunked = pa.chunked_array([one.slice(0, 7), one.slice(7, 0), one.slice(7)])
    # What Arrow gives back: a half float is not the number that was put in.
    left, right, constant = one.to_pylist(), other.to_pylist(), scalar.as_py()
    for op, of_python in OPERATORS.items():
        assert compare_nested(op, one, other).to_pylist() == expected(op, left, right)
        assert compare_nested(op, chunked, other).to_pylist() == expected(op, left, right)
        assert compare_nested(op, one.slice(5, 90), other.slice(5, 90)).to_pylist() == expected(
            op, left[5:95], right[5:95]
        )
        assert compare_nested(op, one, scalar).to_pylist() == expected(op, left, [constant] * 600)
        assert compare_nested(op, scalar, scalar).as_py() is of_python(0, 0)
        assert compare_nested(op, one, pa.scalar(None, kind)).null_count == 600


def table() -> pa.Table:
    rnd, rows = random.Random(5), 400
    kinds = {
        "i": pa.list_(pa.int32()),
        "j": pa.list_(pa.int64()),
        "v": pa.list_(pa.float32(), 2),
        "s": PAIR,
        "o": pa.struct({"p": PAIR, "q": pa.list_(pa.int32())}),
        "l": pa.list_(PAIR),
    }
    columns = {
        name: pa.array([some_value(kind, rnd) for _ in range(rows)], kind) for name, kind in kinds.items()
    }
    return pa.table({"id": pa.array(range(rows)), **columns})


FILTERS = [
    *(f"i {op} [1]" for op in OPERATORS),
    *(f"i {op} j" for op in OPERATORS),
    *(f"s {op} named_struct('x', 1, 'y', 'a')" for op in OPERATORS),
    *(f"o.p {op} s" for op in OPERATORS),
    *(f"l {op} l" for op in OPERATORS),
    "[1] = i",
    "i = [1, 300]",
    "v = [1.5, 1.5]",
    "v > [0.0, 0.0]",
    "i IN ([1], [0, 1])",
    "i NOT IN ([1], [0, 1])",
    "i IN ([1], o.q)",
    "i IS DISTINCT FROM j",
    "i IS NOT DISTINCT FROM o.q",
    "i BETWEEN [0] AND [1]",
    "nullif(i, [1]) IS NULL",
    "NOT (s = o.p) AND id > 20",
    "i = [1] OR i = [0] OR id = 3",
]


@pytest.mark.interop
@pytest.mark.parametrize("version", ["0.1", "2.0", "2.1", "2.2"])
def test_rows_are_those_of_pylance(tmp_path: Path, version: Any) -> None:
    rows = table()
    if version in ("0.1", "2.0"):
        # These files hold no null structs, and 0.1 no null lists.
        names = ["id", "i", "j", "v"]
        rows = rows.select(names).filter(pc.and_(rows["i"].is_valid(), rows["v"].is_valid()))
    path = str(tmp_path / "t")
    theirs = lance.write_dataset(rows, path, data_storage_version=version, max_rows_per_file=150)
    ours = lancecy.dataset(path)
    filters = [f for f in FILTERS if "s " in rows.schema.names or not any(n in f for n in ("s", "o.", "l "))]
    assert len(filters) >= 15
    for text in filters:
        found = ours.to_table(columns=["id"], filter=text)["id"].to_pylist()
        assert found == theirs.to_table(columns=["id"], filter=text)["id"].to_pylist(), text
        assert ours.count_rows(text) == len(found)


def rows_of(condition: Any, rows: pa.Table) -> list[int]:
    found = evaluate(bind(parsed(condition), rows.schema), rows)
    return [int(row) for row in np.flatnonzero(found.to_numpy(zero_copy_only=False) == True)]  # noqa: E712


def test_constants_of_python_numpy_and_arrow() -> None:
    rows = pa.table(
        {
            "i": pa.array([[1], [2, 3], None, [], [1, None]], pa.list_(pa.int32())),
            "v": pa.array([[0.1, 0.2], [0.5, 1.0], None, [0.0, 0.0], [1.0, 2.0]], pa.list_(pa.float32(), 2)),
            "s": pa.array([{"x": 1, "y": "a"}, {"x": 1, "y": None}, None, {"x": 2, "y": "a"}, None], PAIR),
            "m": pa.array([[("a", 1)], [], None, [("a", 2)], None], pa.map_(pa.string(), pa.int64())),
            "ll": pa.array([[[1], [2]], [[1, 2]], [[]], [], None], pa.list_(pa.list_(pa.int32()))),
        }
    )
    for condition, wanted in [
        (col("i") == [1], [0]),
        (col("i") == [1, None], [4]),
        (col("i") != (1,), [1, 3, 4]),
        (col("i") == np.array([2, 3]), [1]),
        (col("i") == pa.scalar([], pa.list_(pa.int32())), [3]),
        (col("i").isin([[1], [], None]), [0, 3]),
        ([("i", "=", [2, 3])], [1]),
        ([("i", "not in", [[2, 3], [1]])], [3, 4]),
        (pc.field("i") == pa.scalar([1], pa.list_(pa.int32())), [0]),
        (pc.field("s") == pa.scalar({"x": 1, "y": "a"}, PAIR), [0]),
        (col("v") == [0.1, 0.2], [0]),
        (col("v") == np.array([0.5, 1.0], np.float32), [1]),
        (col("s") == {"x": 1, "y": None}, [1]),
        (col("s").isin([{"x": 1, "y": "a"}, {"x": 2, "y": "a"}]), [0, 3]),
        (col("ll") == [[1], [2]], [0]),
        (col("ll") == np.array([[1, 2]]), [1]),
        (col("m") == pa.scalar([("a", 2)], pa.map_(pa.string(), pa.int64())), [3]),
        ("m = map(['a'], [1])", [0]),
        ("i IN (NULL)", []),
        ("i NOT IN ([1], NULL)", []),
        ("i = NULL", []),
        ("i IS NOT DISTINCT FROM NULL", [2]),
        ("[1, 2] = [1, 2] AND s.x = 2", [3]),
    ]:
        assert rows_of(condition, rows) == wanted, condition
    assert repr(lancecy.lit([1, 2])) == "<term make_array(1, 2)>"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "i = 5",
            "i is list<item: int32>, which cannot be compared with 5; compare it with a list or struct",
        ),
        ("i = ['a']", "i is list<item: int32> and make_array.'a'. is list<item: string>.*CAST one side"),
        ("i = s", "i is list<item: int32> and s is struct<x: int32, y: string>.*CAST one side"),
        ("s = named_struct('x', 1)", "s is struct.*these cannot be compared; CAST one side"),
        ("i IN (1)", "i is list<item: int32>, which IN cannot compare"),
    ],
)
def test_types_that_differ_are_named(text: str, message: str) -> None:
    with pytest.raises(ExpressionError, match=message):
        bind(parsed(text), pa.schema({"i": pa.list_(pa.int32()), "s": PAIR}))


def test_indices_and_changes_take_them(tmp_path: Path) -> None:
    rows = table()
    dataset = lancecy.write_dataset(rows, tmp_path / "t")
    texts = ["i = [1]", "id < 50 AND i = [1]", "id = 7 OR i = [1, 0]", "i != [1] AND array_has(i, 1)"]
    before = [dataset.to_table(columns=["id", "i"], filter=text) for text in texts]
    assert all(found.num_rows for found in before)
    dataset.create_scalar_index("id", "BTREE")
    dataset.create_scalar_index("i", "LABEL_LIST")
    for text, found in zip(texts, before, strict=True):
        assert dataset.to_table(columns=["id", "i"], filter=text).equals(found)
        assert (
            lancecy.scan(tmp_path / "t", filter=text, columns=["id"]).compute()["id"].tolist()
            == found["id"].to_pylist()
        )
    ones = dataset.count_rows("i = [1]")
    dataset.update({"i": "[7]"}, where="i = [1]")
    assert (dataset.count_rows("i = [1]"), dataset.count_rows("i = [7]")) == (0, ones)
    changed = rows.slice(0, 9).set_column(1, "i", pa.array([[8]] * 9, pa.list_(pa.int32())))
    dataset.merge_insert("id").when_matched_update_all("target.i = [7] OR target.i != source.j").execute(
        changed
    )
    assert dataset.count_rows("i = [8]") > 0
    dataset.delete("i = [8]")
    assert dataset.count_rows("i = [8]") == 0
