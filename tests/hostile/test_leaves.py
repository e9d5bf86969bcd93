"""Leaves of one column that disagree about the structs and lists around them, which each of them stores.

The pages of one leaf are replaced by those of a leaf of another column, of the same type and other nulls. Each page is
sound, so that only a comparison of leaves finds the damage.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancecy
from lancecy.errors import FormatError
from tests.helpers.container import Container
from tests.helpers.mutate import place

PAIR = pa.struct({"a": pa.int64(), "b": pa.int64()})
LIST = pa.list_(PAIR)
ROW = {"a": 1, "b": 2}
COLUMNS: dict[str, tuple[pa.DataType, list[Any], list[Any], str]] = {
    "struct": (PAIR, [ROW, None, ROW, ROW], [ROW, ROW, None, ROW], "the nulls of 'x' in row 1"),
    "nulls of one": (PAIR, [ROW, None, ROW, ROW], [ROW] * 4, "the nulls of 'x' in row 1"),
    "list": (LIST, [[ROW], [], [ROW], []], [[ROW], [ROW], [], []], "the lengths of 'x' in row 1"),
    "null list": (LIST, [[ROW], [], [ROW], []], [[ROW], None, [ROW], []], "the nulls of 'x' in row 1"),
    "list of nulls": (
        LIST,
        [[ROW], [], [ROW, None], [ROW]],
        [[ROW], [], [ROW, ROW], [ROW]],
        "the nulls of 'x.item' in row 2",
    ),
}


def damaged(root: Path, name: str, version: Any, fragments: int = 3) -> lancecy.Dataset:
    """A table whose last fragment has the pages of ``y.b`` in place of those of ``x.b``."""
    kind, one, other, _ = COLUMNS[name]
    table = pa.table({"x": pa.array(one, kind), "y": pa.array(other, kind)})
    for _ in range(fragments):
        lance.write_dataset(table, str(root), mode="append", data_storage_version=version)
    paths = [
        root / "data" / f.path for part in lance.dataset(str(root)).get_fragments() for f in part.data_files()
    ]
    container = Container.load(paths[-1])
    columns = container.columns
    columns[1], columns[3] = columns[3], columns[1]
    place(paths[-1], container.build())
    return lancecy.dataset(root)


READS: dict[str, Callable[[lancecy.Dataset], object]] = {
    "together": lambda ds: ds.to_table(columns=["x"]),
    "twice": lambda ds: [ds.to_table(columns=["x"]) for _ in range(2) if ds.to_table(columns=["y"], limit=4)],
    "alone": lambda ds: ds.get_fragments()[-1].to_table(columns=["x"]),
    "batches": lambda ds: list(ds.to_batches(columns=["x"], batch_size=3)),
    "take": lambda ds: ds.take(list(range(12)), ["x"]),
}


@pytest.mark.parametrize("version", ["2.1", "2.2", "2.3"])
@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("name", COLUMNS)
def test_leaves_that_disagree(tmp_path: Path, name: str, read: str, version: str) -> None:
    ds = damaged(tmp_path / "t", name, version)
    with pytest.raises(FormatError, match=f"disagree about {COLUMNS[name][3]}, of pages 0 and 0") as caught:
        READS[read](ds)
    assert "column 0 'x'" in str(caught.value) and "of fragment 2" in str(caught.value)


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_filters_on_nulls_of_leaves_that_disagree(tmp_path: Path, version: str) -> None:
    ds = damaged(tmp_path / "t", "struct", version)
    with pytest.raises(FormatError, match="leaves 'x.a' and 'x.b' disagree about the nulls of 'x'"):
        ds.count_rows("x.a IS NULL OR x.b IS NULL")


def test_one_leaf_alone_is_read(tmp_path: Path) -> None:
    ds = damaged(tmp_path / "t", "struct", "2.1", 1)
    for leaf, nulls in (("a", [1]), ("b", [2])):
        found = ds.to_table(columns=[f"x.{leaf}"]).column(0).to_pylist()
        assert [row for row, value in enumerate(found) if value is None] == nulls


def test_leaves_of_sound_files_that_differ_below_nulls(tmp_path: Path) -> None:
    """Of structs in null lists, a sparse structure says whether they are null; levels say that they are."""
    kind = pa.list_(pa.struct({"u": pa.int32(), "v": pa.float64()}), 2)
    rows = [
        None if n % 3 else [{"u": 28, "v": n * 0.5}, None if n % 2 else {"u": None, "v": None}]
        for n in range(40)
    ]
    filled = pa.array([[{"u": 28, "v": 1.0}] * 2 if row is None else row for row in rows], kind)
    nulls = pa.array([row is None for row in rows])
    vectors = pa.FixedSizeListArray.from_arrays(filled.values, type=kind, mask=nulls)
    table = pa.table({"s": pa.StructArray.from_arrays([vectors], ["q"])})
    lance.write_dataset(table, str(tmp_path / "t"), data_storage_version="2.3")
    ds = lancecy.dataset(tmp_path / "t")
    assert ds.to_table().to_pylist() == [{"s": {"q": row}} for row in rows]
