"""Look-ups of many keys: lists of numbers in filters, and BTREE indices in memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import lancecy
from lancecy.errors import ExpressionError
from lancecy.expr import Expr, parse
from lancecy.expr.nodes import Call, Column, Literal
from lancecy.index.sorted_values import PageEdges

NUMBERS = (-3, *range(40), 2**40)
LISTED = ", ".join(map(str, NUMBERS))
LONG = Call("in", (Column(("a",), exact=False), Literal(NUMBERS)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"a IN ({LISTED})", LONG),
        (f"a in({LISTED})", LONG),
        (f"NOT (a IN ( {LISTED} ))", Call("not", (LONG,))),
        (f"a NOT IN ({LISTED})", Call("not", (LONG,))),
        (f"b = 'a in ({LISTED})'", Call("=", (Column(("b",), exact=False), Literal(f"a in ({LISTED})")))),
        (f"`a in ({LISTED})` = 1", Call("=", (Column((f"a in ({LISTED})",)), Literal(1)))),
        (f"a IN ({LISTED}) AND a IN ({LISTED})", Call("and", (LONG, LONG))),
        (f"a IN ({LISTED}) -- and more", LONG),
    ],
)
def test_a_long_list_is_read_as_a_short_one(text: str, expected: Expr) -> None:
    assert parse(text) == expected


def test_errors_behind_a_long_list_have_their_position() -> None:
    text = f"a IN ({LISTED}) AND"
    with pytest.raises(ExpressionError) as caught:
        parse(text)
    assert caught.value.position == len(text) - len("AND")
    with pytest.raises(ExpressionError, match="is not a column name"):
        parse(f"a.in ({LISTED})")


def test_values_that_the_column_cannot_hold_match_nothing(tmp_path: Path) -> None:
    ds = lancecy.write_dataset({"a": pa.array([-3, 5, 100], pa.int8())}, tmp_path / "t", durability="none")
    assert ds.to_table(filter=f"a IN ({LISTED})")["a"].to_pylist() == [-3, 5]
    assert ds.count_rows(f"NOT a IN ({LISTED})") == 1


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint64(), pa.date32(), pa.timestamp("us")])
@pytest.mark.parametrize("nulls", [0, 3, 8, 9])
def test_pages_of_keys_are_those_that_may_have_them(kind: pa.DataType, nulls: int) -> None:
    """Pages of four sorted values, of which the first are null; neighbours share values."""
    numbers = [1, 3, 3, 3, 3, 3, 3, 3, 3, 9, 9, 12, 15, 100, 101, 110, 110, 110, 110, 110, 127]
    stored = pa.array([None] * nulls + numbers, pa.int64() if kind.bit_width == 64 else pa.int32())
    values = stored.cast(kind)
    pages = [values.slice(start, 4) for start in range(0, len(values), 4)]
    lows = pa.concat_arrays([page.slice(0, 1) for page in pages])
    highs = pa.concat_arrays([page.slice(len(page) - 1, 1) for page in pages])
    edges = PageEdges.of(lows, highs)
    assert edges is not None
    dtype = edges.lows.dtype
    for keys in ([3], [2], [127], [0], [128 - 1], [9, 12, 100], [1, 110], [2, 4, 5], [*range(127)], []):
        wanted = pa.array(keys, stored.type).cast(kind)
        expected = {n for n, page in enumerate(pages) for key in wanted if key in page.drop_null()}
        found = edges.pages_of(np.array(keys, dtype)).tolist()
        assert found == sorted(set(found))
        assert expected <= set(found)
        assert len(found) <= len(expected) + 2 * len(keys)


def test_pages_in_no_order_have_no_edges() -> None:
    def edges(lows: list[int | None], highs: list[int | None], kind: pa.DataType) -> PageEdges | None:
        return PageEdges.of(pa.array(lows, kind), pa.array(highs, kind))

    kind = pa.int32()
    assert edges([None, 5], [4, 6], kind) is not None
    disordered: list[tuple[list[int | None], list[int | None]]] = [
        ([1, 0], [4, 6]),
        ([5, 6], [4, 7]),
        ([1, 3], [4, 6]),
        ([1, 5], [4, None]),
        ([1, None], [4, 6]),
    ]
    for lows, highs in disordered:
        assert edges(lows, highs, kind) is None
    assert edges([1], [2], pa.float64()) is None
    assert PageEdges.of(pa.array(["a"]), pa.array(["b"])) is None
    nothing = edges([], [], kind)
    assert nothing is not None
    assert nothing.pages_of(np.array([5], np.int32)).size == 0


@pytest.mark.interop
@pytest.mark.parametrize(
    "kind", [pa.int16(), pa.uint64(), pa.date32(), pa.timestamp("ms", "UTC"), pa.string()]
)
def test_many_keys_are_looked_up_in_an_index(tmp_path: Path, kind: pa.DataType) -> None:
    lance = pytest.importorskip("lance")
    numbers = [None if n % 10 == 0 else n // 2 for n in range(4000)]
    wide = pa.array(numbers, pa.int32() if kind != pa.timestamp("ms", "UTC") else pa.int64())
    column = wide.cast(kind)
    made = lance.write_dataset(
        pa.table({"n": wide.cast(pa.int64()), "key": column}), tmp_path / "t", max_rows_per_file=1500
    )
    made.create_scalar_index("key", "BTREE")
    made.delete("n = 501")
    ds = lancecy.dataset(tmp_path / "t")
    wanted = [*range(1, 2500, 7)]
    for _ in range(2):
        text = lancecy.col("key").isin(list(pa.array(wanted).cast(wide.type).cast(kind)))
        found = ds.to_table(filter=text)
        assert found["n"].to_pylist() == [n for n in numbers if n in set(wanted) and n != 501]
        assert found.equals(ds.to_table(filter=text, use_scalar_index=False))
        some = text & (lancecy.col("key") > pa.scalar(wanted[9], wide.type).cast(kind))
        assert ds.count_rows(some) == ds.to_table(filter=some, use_scalar_index=False).num_rows
    assert "key_idx (BTREE)" in str(ds.scanner(filter=text).explain())
