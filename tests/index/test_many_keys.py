"""Look-ups of many keys: lists of numbers in filters, and BTREE indices in memory."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lancecy
from lancecy.errors import ExpressionError
from lancecy.expr import Expr, parse
from lancecy.expr.nodes import Call, Column, Literal

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
