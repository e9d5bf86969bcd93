"""Structs and lists whose children lie in several files, under extension types or not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lancecy
from lancecy.errors import FormatError
from lancecy.schema import Field
from tests.helpers.pages import list_offsets, plain
from tests.scanning.handmade import Parts, write_handmade

STORAGE = pa.struct([("a", pa.int64()), ("b", pa.int64())])


class Flexible(pa.ExtensionType):  # type: ignore[misc]
    """Takes whatever storage the file has."""

    def __init__(self, storage: pa.DataType = STORAGE) -> None:
        super().__init__(storage, "lancecy.test.flexible")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: pa.DataType, serialized: bytes) -> Flexible:
        return cls(storage)


class Fixed(pa.ExtensionType):  # type: ignore[misc]
    """Always has the same storage, whatever it is asked to take."""

    def __init__(self) -> None:
        super().__init__(STORAGE, "lancecy.test.fixed")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: pa.DataType, serialized: bytes) -> Fixed:
        return cls()


class Picky(pa.ExtensionType):  # type: ignore[misc]
    """Breaks over any other storage."""

    def __init__(self) -> None:
        super().__init__(STORAGE, "lancecy.test.picky")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: pa.DataType, serialized: bytes) -> Picky:
        if storage != STORAGE:
            raise RuntimeError("not my storage")
        return cls()


@pytest.fixture(scope="module", autouse=True)
def registered() -> Iterator[None]:
    kinds: list[pa.ExtensionType] = [Flexible(), Fixed(), Picky()]
    for kind in kinds:
        pa.register_extension_type(kind)
    yield
    for kind in kinds:
        pa.unregister_extension_type(kind.extension_name)


A, B = [plain([1, 2, 3, 4], "<i8")], [plain([10, 20, 30, 40], "<i8")]
LAYOUTS: dict[str, Parts] = {
    "one file": [({1: A, 2: B}, (0,))],
    "two files": [({1: A}, (0,)), ({2: B}, ())],
    "one child": [({1: A}, (0,))],
    "neither": [({9: A}, ())],
}


def struct_table(root: Path, layout: str, extension: str) -> lancecy.Dataset:
    metadata = (
        {"ARROW:extension:name": extension.encode(), "ARROW:extension:metadata": b""} if extension else {}
    )
    children = (Field("a", 1, 0, "int64"), Field("b", 2, 0, "int64"))
    fields = [
        Field("s", 0, logical_type="struct", children=children, metadata=metadata),
        Field("k", 9, logical_type="int64"),
    ]
    return lancecy.dataset(write_handmade(str(root), fields, [LAYOUTS[layout]] * 2, 4))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("extension", ["", "flexible", "fixed", "picky"])
def test_struct_under_an_extension_type(tmp_path: Path, layout: str, extension: str) -> None:
    ds = struct_table(tmp_path / "t", layout, f"lancecy.test.{extension}" if extension else "")
    a = [1, 2, 3, 4] if layout != "neither" else [None] * 4
    b = [10, 20, 30, 40] if layout in ("one file", "two files") else [None] * 4
    rows = [None if layout == "neither" else {"a": x, "b": y} for x, y in zip(a, b, strict=True)]
    assert isinstance(ds.schema.field("s").type, pa.BaseExtensionType) is bool(extension)

    whole = ds.to_table()
    whole.validate(full=True)
    assert whole.schema.equals(ds.schema) and whole["s"].to_pylist() == rows * 2
    for name, values in (("s.a", a), ("s.b", b)):
        table = ds.to_table([name])
        assert table.schema == pa.schema([(name, pa.int64())]) and table[name].to_pylist() == values * 2
        assert ds.take([7, 0], [name])[name].to_pylist() == [values[3], values[0]]
    assert ds.to_table(["s", "s.b"])["s.b"].to_pylist() == b * 2
    assert (
        ds.to_table(["s.b"], filter="s.a > 2")["s.b"].to_pylist()
        == [y for x, y in zip(a, b) if x and x > 2] * 2
    )
    assert (
        ds.to_table(["s"], filter="s.a > 2")["s"].to_pylist()
        == [r for r in rows if r and (r["a"] or 0) > 2] * 2
    )
    both = [r for r in rows if r and (r["a"] or 0) > 1 and (r["b"] or 99) < 40]
    assert ds.to_table(["s"], filter="s.a > 1 AND s.b < 40")["s"].to_pylist() == both * 2
    assert ds.to_table({"y": "s.a + s.b"}).num_rows == 8
    assert ds.to_table({"y": "s.a + 1"})["y"].to_pylist() == [None if x is None else x + 1 for x in a] * 2
    assert ds.to_table(["k"], order_by=[("s.a", "descending")]).num_rows == 8


def list_table(root: Path, second: list[int], width: int = 4) -> lancecy.Dataset:
    """Lists of structs whose children ``a`` and ``b`` are in two files, with offsets of their own."""
    kind = "list.struct" if width == 4 else "large_list.struct"
    item = Field("item", 1, 0, "struct", children=(Field("a", 2, 1, "int64"), Field("b", 3, 1, "int64")))
    files: Any = [
        ({0: [list_offsets([0, 2, 2, 5], width)], 2: [plain(np.arange(5), "<i8")]}, (1,)),
        ({0: [list_offsets(second, width)], 3: [plain(np.arange(5) * 10, "<i8")]}, (1,)),
    ]
    fields = [Field("l", 0, logical_type=kind, children=(item,))]
    return lancecy.dataset(write_handmade(str(root), fields, [files], 3))


@pytest.mark.parametrize("width", [4, 8])
def test_lists_are_joined_over_files(tmp_path: Path, width: int) -> None:
    ds = list_table(tmp_path / "t", [0, 2, 2, 5], width)
    pairs = [{"a": n, "b": n * 10} for n in range(5)]
    lists = [pairs[:2], [], pairs[2:]]
    table = ds.to_table()
    table.validate(full=True)
    assert table.schema.equals(ds.schema) and table["l"].to_pylist() == lists
    assert ds.take([2, 0], ["l"])["l"].to_pylist() == [lists[2], lists[0]]


def test_lists_of_other_lengths_in_another_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="disagree about the lengths of the lists of column 'l'"):
        list_table(tmp_path / "t", [0, 1, 2, 5]).to_table()
