"""Wide values, packed structs and forced full-zip columns by pylance: whole, by ranges and by rows."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lancecy

pytestmark = pytest.mark.interop

ROWS = 1500
FULL_ZIP = {"lance-encoding:structural-encoding": "fullzip"}
PACKED = {"lance-encoding:packed": "true"}

_random = random.Random(11)


def text(size: int) -> str:
    return "".join(_random.choices("abcdefgh ", k=size))


def unless(every: int, i: int, value: Any) -> Any:
    return None if i % every == 0 else value


VECTOR = pa.list_(pa.float32(), 64)
COLUMNS: dict[str, tuple[pa.DataType, Any, dict[str, str]]] = {
    "binaries": (pa.binary(), lambda i: _random.randbytes(300), {}),
    "binaries with nulls": (pa.binary(), lambda i: unless(3, i, _random.randbytes(i % 900)), {}),
    "long binaries": (pa.large_binary(), lambda i: unless(7, i, bytes([i % 251]) * 33_000), {}),
    "long text": (pa.string(), lambda i: text(600), {}),
    "long large text with nulls": (pa.large_string(), lambda i: unless(5, i, text(500)), {}),
    "text with one long value": (pa.string(), lambda i: text(2000 if i == 777 else i % 20), {}),
    "fixed binaries": (pa.binary(300), lambda i: unless(6, i, _random.randbytes(300)), {}),
    "vectors": (VECTOR, lambda i: [float(i + j) for j in range(64)], {}),
    "vectors with nulls": (VECTOR, lambda i: unless(4, i, [float(i + j) for j in range(64)]), {}),
    "vectors with nulls inside": (
        VECTOR,
        lambda i: unless(4, i, [unless(9, i + j, float(j)) for j in range(64)]),
        {},
    ),
    "vectors of nothing but nulls": (VECTOR, lambda i: [None] * 64, FULL_ZIP),
    "lists of text": (
        pa.list_(pa.string()),
        lambda i: unless(9, i, [unless(3, j + 1, text(400)) for j in range(i % 4)]),
        {},
    ),
    "lists of vectors": (
        pa.large_list(VECTOR),
        lambda i: unless(9, i, [unless(3, j + 1, [float(i + k) for k in range(64)]) for j in range(i % 4)]),
        {},
    ),
    "integers": (pa.int64(), lambda i: i * 7919, FULL_ZIP),
    "integers with nulls": (pa.int32(), lambda i: unless(3, i, i), FULL_ZIP),
    "booleans": (pa.bool_(), lambda i: i % 3 == 0, FULL_ZIP),
    "booleans with nulls": (pa.bool_(), lambda i: unless(4, i, i % 3 == 0), FULL_ZIP),
    "short text": (pa.string(), lambda i: unless(8, i, text(i % 9)), FULL_ZIP),
    "lists of integers": (
        pa.list_(pa.int16()),
        lambda i: unless(6, i, [unless(4, j + 1, i + j) for j in range(i % 5)]),
        FULL_ZIP,
    ),
    "packed": (
        pa.struct([("a", pa.int64()), ("b", pa.float32()), ("c", pa.int16())]),
        lambda i: unless(7, i, {"a": i, "b": i / 2, "c": i % 99}),
        PACKED,
    ),
}
ONLY_22: dict[str, tuple[pa.DataType, Any, dict[str, str]]] = {
    "packed with vectors": (
        pa.struct([("v", VECTOR), ("w", pa.int32())]),
        lambda i: unless(7, i, {"v": [float(i)] * 64, "w": i}),
        PACKED,
    ),
    "packed with text": (
        pa.struct([("x", pa.int64()), ("s", pa.string())]),
        lambda i: {"x": i, "s": "s" * (i % 9)},
        PACKED,
    ),
    "packed with text and nulls": (
        pa.struct([("s", pa.string()), ("v", pa.list_(pa.int16(), 3)), ("z", pa.large_binary())]),
        lambda i: unless(7, i, {"s": text(i % 60), "v": [i % 99, 2, 3], "z": b"z" * (i % 400)}),
        PACKED,
    ),
    "packed in lists": (
        pa.list_(pa.field("item", pa.struct([("x", pa.int64()), ("s", pa.string())]), metadata=PACKED)),
        lambda i: unless(7, i, [{"x": i, "s": "s" * j} for j in range(i % 4)]),
        {},
    ),
}
CASES = [("2.1", name) for name in COLUMNS] + [("2.2", name) for name in {**COLUMNS, **ONLY_22}]


def written(tmp_path: Path, version: str, name: str, rows: int = ROWS) -> tuple[Path, pa.ChunkedArray]:
    """The path of a table, and its column as pylance reads it."""
    import lance

    kind, make, metadata = {**COLUMNS, **ONLY_22}[name]
    field = pa.field("c", kind, metadata=metadata)
    values = pa.array([make(i) for i in range(rows)], kind)
    table = pa.table([values], schema=pa.schema([field]))
    ds = lance.write_dataset(table, str(tmp_path / "t.lance"), data_storage_version=version)  # type: ignore[arg-type]
    return tmp_path / "t.lance", ds.to_table().column(0)


def assert_equal(found: pa.ChunkedArray, wanted: pa.ChunkedArray) -> None:
    for chunk in found.chunks:
        chunk.validate(full=True)
    assert found.type == wanted.type
    assert found.to_pylist() == wanted.to_pylist()


@pytest.mark.parametrize(("version", "name"), CASES)
def test_columns_are_read_as_pylance_reads_them(tmp_path: Path, version: str, name: str) -> None:
    path, wanted = written(tmp_path, version, name, 300 if name == "long binaries" else ROWS)
    ds, rows = lancecy.dataset(path), len(wanted)
    assert_equal(ds.to_table().column(0), wanted)
    for start, stop in ((0, 1), (rows - 1, rows), (rows // 3, rows // 2)):
        part = ds.to_table(offset=start, limit=stop - start).column(0)
        assert_equal(part, wanted.slice(start, stop - start))
    for share in (0.003, 0.3):
        picked = np.flatnonzero(np.random.default_rng(3).random(rows) < share)
        assert_equal(ds.take(picked).column(0), wanted.take(pa.array(picked)))


@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize("name", ["long text", "vectors with nulls", "lists of text", "binaries with nulls"])
def test_remote_rows_are_read_in_one_or_two_rounds(tmp_path: Path, version: str, name: str) -> None:
    from lancecy.rows import RowSelection
    from tests.helpers.leaves import leaf_rows, open_leaves
    from tests.helpers.pages import Files

    path, wanted = written(tmp_path, version, name)
    (file,) = (path / "data").glob("*.lance")
    data, files = file.read_bytes(), Files(is_mapped=False)
    (leaf,) = open_leaves(data, files)
    files.rounds.clear()
    assert leaf_rows(leaf, RowSelection.take(ROWS, [5, 6, 900])) == wanted.take([5, 6, 900]).to_pylist()
    assert len(files.rounds) == (1 if name == "vectors with nulls" else 2)
    nbytes = sum(int(request.lengths.sum()) for requests in files.rounds for request in requests)
    assert nbytes < len(data) / 100
    files.rounds.clear()
    assert leaf_rows(leaf) == wanted.to_pylist()
    assert len(files.rounds) == 1
