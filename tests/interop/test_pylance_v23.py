"""Sparse pages of 2.3 by pylance: nulls and lists told by positions, over every kind of values.

The shapes of ``tests.helpers.shapes`` have few of them over zipped values and none over indexed ones.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lancecy
from tests.helpers.compare import assert_tables_equal, storage_table
from tests.helpers.layouts import describe_table
from tests.helpers.shapes import shape_table, write_shape

pytestmark = pytest.mark.interop

ROWS = 3000
Make = Callable[[np.random.Generator], pa.Array]


def text(rng: np.random.Generator, size: int) -> str:
    return rng.integers(97, 123, size).astype(np.uint8).tobytes().decode()


def seldom(values: Callable[[np.random.Generator], list[Any]], kind: pa.DataType, step: int = 150) -> Make:
    """One of some values every ``step`` rows, null between."""

    def make(rng: np.random.Generator) -> pa.Array:
        some = values(rng)
        rows = [some[int(rng.integers(len(some)))] if i % step == 7 else None for i in range(ROWS)]
        return pa.array(rows, kind)

    return make


def inside(values: Callable[[np.random.Generator], list[Any]], kind: pa.DataType, count: int = 20) -> Make:
    """Lists of lists, nearly all of them empty."""

    def make(rng: np.random.Generator) -> pa.Array:
        some = values(rng)
        lists = [[some[i % len(some)], None, some[0]] for i in range(count)]
        rows = [[[]] * 70_000 + lists, [[some[0], None]], [], [[], [some[-1]], []]]
        return pa.array(rows, pa.list_(pa.list_(kind)))

    return make


def in_structs(values: Callable[[np.random.Generator], list[Any]], kind: pa.DataType) -> Make:
    def make(rng: np.random.Generator) -> pa.Array:
        some = values(rng)
        rows = [
            {"a": some[i % len(some)] if i % 40 == 0 else None} if i % 8 == 0 else None for i in range(ROWS)
        ]
        return pa.array(rows, pa.struct([pa.field("a", kind)]))

    return make


def texts(size: int, count: int = 3) -> Callable[[np.random.Generator], list[Any]]:
    return lambda rng: [text(rng, size) for _ in range(count)]


def blobs(size: int, count: int = 3) -> Callable[[np.random.Generator], list[Any]]:
    return lambda rng: [rng.bytes(size) for _ in range(count)]


def vectors(size: int, holes: bool) -> Callable[[np.random.Generator], list[Any]]:
    return lambda rng: [
        [None if holes and i % 5 == k else float(x) for i, x in enumerate(rng.random(size))] for k in range(3)
    ]


def packed(rng: np.random.Generator) -> list[Any]:
    return [{"n": i, "s": text(rng, 600)} for i in range(3)]


VECTOR = pa.list_(pa.float32(), 128)
PACKED = pa.struct([pa.field("n", pa.int64()), pa.field("s", pa.string())])

# name -> rows, start of the values' description, field metadata
SHAPES: dict[str, tuple[Make, str, dict[str, str] | None]] = {
    "zipped_text": (seldom(texts(600, 20), pa.string()), "Z Var", None),
    "zipped_large_binary": (seldom(blobs(5000, 300), pa.large_binary()), "Z Var", None),
    "zipped_zstd": (seldom(texts(40_000, 40), pa.string(), 300), "Z ZSTD", None),
    "zipped_fixed_binary": (seldom(blobs(300), pa.binary(300)), "Z Flat2400", None),
    "zipped_vectors": (seldom(vectors(128, False), VECTOR), "Z FSL[128](", None),
    "zipped_vectors_holes": (seldom(vectors(128, True), VECTOR), "Z FSL[128,valid]", None),
    "zipped_packed": (seldom(packed, PACKED), "Z VPacked", {"lance-encoding:packed": "true"}),
    "indexed_text": (seldom(texts(40_000), pa.string(), 15), "I ", None),
    "indexed_large_binary": (seldom(blobs(40_000), pa.large_binary()), "I ", None),
    "indexed_in_lists": (inside(texts(40_000), pa.string(), 60), "I ", None),
    "indexed_in_structs": (in_structs(texts(40_000), pa.string()), "I ", None),
    "lists_of_text": (inside(texts(600), pa.string()), "Z Var", None),
    "lists_of_fixed_binary": (inside(blobs(300), pa.binary(300)), "Z Flat2400", None),
    "lists_of_vectors": (inside(vectors(128, False), VECTOR), "Z FSL[128](", None),
    "lists_of_short_text": (inside(texts(3), pa.string(), 60), "M ", None),
    "lists_of_numbers": (inside(lambda rng: rng.integers(0, 1000, 9).tolist(), pa.int64()), "M ", None),
    "lists_of_booleans": (inside(lambda rng: [True, False], pa.bool_()), "M ", None),
    "lists_of_codes": (inside(texts(3), pa.dictionary(pa.int32(), pa.string())), "M ", None),
    "lists_of_one_number": (inside(lambda rng: [7], pa.int64()), "K(8B)", None),
    "structs_of_one_number": (in_structs(lambda rng: [7.5], pa.float32()), "K(4B)", None),
}


def write(values: pa.Array, path: Path, metadata: dict[str, str] | None = None, **options: Any) -> Any:
    import lance

    schema = pa.schema([pa.field("v", values.type, metadata=metadata)])
    return lance.write_dataset(
        pa.table([values], schema=schema), str(path), data_storage_version="2.3", **options
    )


@pytest.mark.parametrize("name", SHAPES)
def test_sparse_shape_reads_as_pylance_reads_it(name: str, tmp_path: Path) -> None:
    make, values, metadata = SHAPES[name]
    theirs = write(make(np.random.default_rng(len(name))), tmp_path / "t", metadata)
    described = describe_table(tmp_path / "t")
    assert described.startswith("S{"), described
    assert f"}}×{values}" in described, described
    check(tmp_path / "t", storage_table(theirs.to_table()), len(name))


def check(path: Path, whole: pa.Table, seed: int) -> None:
    mine, rows, rng = lancecy.dataset(path), whole.num_rows, np.random.default_rng(seed)
    assert_tables_equal(storage_table(mine.to_table()), whole, hint="full scan")
    for offset, limit in [
        (0, 1),
        (rows - 1, 5),
        (rows // 3, rows // 3 + 1),
        (7, 1),
        (int(rng.integers(rows)), 200),
    ]:
        got = storage_table(mine.to_table(offset=offset, limit=limit))
        assert_tables_equal(got, whole.slice(offset, limit), hint=f"offset {offset} limit {limit}")
    picked = rng.integers(0, rows, 60)
    for chosen in (picked, np.unique(picked), picked[:1], np.arange(7, rows, 150)):
        got = storage_table(mine.take(chosen))
        assert_tables_equal(got, whole.take(pa.array(chosen)), hint=f"take {chosen.tolist()}")


def test_what_pylance_writes_and_cannot_read_comes_back_as_it_was(tmp_path: Path) -> None:
    name = "list_fsl_struct_null"
    write_shape(name, tmp_path / "t", "2.3")
    check(tmp_path / "t", storage_table(shape_table(name)), 3)


@pytest.mark.parametrize("seed", range(40))
def test_random_sparse_columns(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng([23, seed])
    values = scattered(random_kind(rng, int(rng.integers(1, 5))), int(rng.choice([900, 4000])), rng)
    theirs = write(values, tmp_path / "t", max_rows_per_file=int(rng.choice([700, 1 << 20])))
    check(tmp_path / "t", storage_table(theirs.to_table()), seed)


def test_random_columns_are_sparse_for_the_most_part(tmp_path: Path) -> None:
    described = []
    for seed in range(20):
        rng = np.random.default_rng([23, seed])
        values = scattered(random_kind(rng, int(rng.integers(1, 5))), int(rng.choice([900, 4000])), rng)
        write(values, tmp_path / str(seed))
        described.append(describe_table(tmp_path / str(seed)))
    assert sum("S{" in text for text in described) > 10
    for part in (r"S\{.*list.*list", r"S\{.*fsl", r"×K\(", r"valids=\w+"):
        assert any(re.search(part, text) for text in described), (part, described)


def random_kind(rng: np.random.Generator, depth: int) -> pa.DataType:
    if depth == 0:
        return (pa.int64(), pa.float32(), pa.bool_(), pa.string(), pa.null())[int(rng.integers(5))]
    inner = random_kind(rng, depth - 1)
    kind = int(rng.integers(5))
    if kind == 3:
        return pa.large_list(inner)
    if kind == 4 and pa.types.is_struct(inner):
        return pa.list_(inner, 2)
    return pa.struct([pa.field("a", inner)]) if kind > 1 else pa.list_(inner)


def scattered(kind: pa.DataType, count: int, rng: np.random.Generator) -> pa.Array:
    """Values of a type, of which few differ from the rest; how few, each level draws anew."""
    share = float(rng.choice([0.0, 0.01, 0.4, 0.99]))
    gone = pa.array(rng.random(count) < share)
    if pa.types.is_struct(kind):
        return pa.StructArray.from_arrays(
            [scattered(kind[0].type, count, rng)], fields=[kind[0]], mask=gone if share else None
        )
    if pa.types.is_fixed_size_list(kind):
        # pylance cannot read its own nulls of these in lists.
        return pa.FixedSizeListArray.from_arrays(scattered(kind.value_type, count * 2, rng), 2)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        sizes = rng.integers(1, 4, count) * (rng.random(count) < rng.choice([0.003, 0.3]))
        sizes[gone.to_numpy(zero_copy_only=False)] = 0
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        child = scattered(kind.value_type, int(offsets[-1]), rng)
        made = pa.ListArray if pa.types.is_list(kind) else pa.LargeListArray
        width = pa.int32() if pa.types.is_list(kind) else pa.int64()
        return made.from_arrays(pa.array(offsets, width), child, mask=gone if share else None)
    if pa.types.is_null(kind):
        return pa.nulls(count)
    if rng.random() < 0.7:
        values: Any = [{"string": "the same", "bool": True}.get(str(kind), 7)] * count
    else:
        values = (
            [text(rng, 300) for _ in range(count)] if pa.types.is_string(kind) else rng.random(count) * 100
        )
    array = pa.array(values) if pa.types.is_string(kind) else pa.array(values).cast(kind, safe=False)
    return pa.array(array.to_pylist(), kind, mask=gone.to_numpy(zero_copy_only=False))
