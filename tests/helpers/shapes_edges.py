"""Shapes at the edges: many pages, chunk borders, bit widths, lists that are nearly all empty, refused types."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pyarrow as pa

from tests.helpers.shapes_base import COLOURS, Make, Rng, Shape, distinct, holes, lists, masked, pieces, words
from tests.helpers.shapes_nested import struct
from tests.helpers.shapes_numbers import vectors

__all__ = ["shapes"]

BORDERS = (1023, 1024, 1025, 2048, 4096, 4097, 8192)


def shapes() -> dict[str, Shape]:
    """Name -> shape."""
    plain = {**_sparse(), **_deep(), **_widths(), **_borders(), **_refused(), **_paged()}
    slow = {name: Shape(make, slow=True) for name, make in _big().items()}
    packed = pa.struct([pa.field("a", pa.int64()), pa.field("b", pa.float64())])
    kind = pa.list_(pa.field("item", packed, True, {"lance-encoding:packed": "true"}))
    return {
        **{name: Shape(make) for name, make in plain.items()},
        "list_packed": Shape(_packed_items(kind)),
        **slow,
    }


def _packed_items(kind: pa.DataType) -> Make:
    def made(rng: Rng) -> pa.Array:
        rows = [[{"a": j, "b": i / 2} for j in range(i % 3)] for i in range(900)]
        return pa.array(rows, kind)

    return made


def _big() -> dict[str, Make]:
    count = 3_000_000

    def numbers(rng: Rng) -> pa.Array:
        return pa.array(rng.integers(-(1 << 62), 1 << 62, count))

    def ints(rng: Rng) -> pa.Array:
        sizes = rng.integers(0, 20, 300_000)
        return lists(sizes, pa.array(rng.integers(0, 1 << 20, int(sizes.sum())).astype(np.int32)))

    def embeddings(rng: Rng) -> pa.Array:
        return vectors(pa.array(rng.standard_normal(6000 * 1536, np.float32)), 1536)

    def nulls_first(rng: Rng) -> pa.ChunkedArray:
        return pa.chunked_array([pa.nulls(1_200_000, pa.int64()), pa.array(np.arange(1_200_000))])

    return {
        "big_i64_3M": numbers,
        "big_i64_3M_chunked": lambda rng: pieces(numbers(rng), 30),
        "big_bool_3M": lambda rng: pa.array(rng.random(count) < 0.5),
        "big_emb_6000": embeddings,
        "big_emb_chunked": lambda rng: pieces(embeddings(rng), 6),
        "allnull_then_values": nulls_first,
        "big_list_i32": ints,
        "big_list_chunked": lambda rng: pieces(ints(rng), 10),
        "big_text": lambda rng: pieces(words(rng, 400_000, 60), 4),
        "sparse_list": _one_in(1_000_000, 10_000),
    }


def _one_in(rows: int, step: int) -> Make:
    """Lists, one of them with one item each ``step`` rows."""

    def made(rng: Rng) -> pa.Array:
        return lists(np.arange(rows) % step == 0, pa.array(np.arange(rows // step) * 7))

    return made


def _paged() -> dict[str, Make]:
    """Several pages of unlike encodings in one column: each batch is larger than a page may be."""
    rows, width = 40_000, 240

    def wide(raw: bytes, gone: Any = None) -> pa.Array:
        values = pa.Array.from_buffers(pa.binary(width), rows, [None, pa.py_buffer(raw)])
        return values if gone is None else masked(values, gone)

    def unlike(rng: Rng) -> pa.ChunkedArray:
        thirds = np.arange(rows) % 3 == 0
        random = [rng.bytes(rows * width) for _ in range(2)]
        nothing = pa.nulls(rows, pa.binary(width))
        return pa.chunked_array(
            [wide(random[0]), wide(bytes(rows * width)), nothing, wide(random[1], thirds)]
        )

    def mixed_nulls(rng: Rng) -> pa.ChunkedArray:
        parts = []
        for i in range(6):
            part = pa.array(rng.integers(0, 9, 5000))
            parts.append(masked(part, holes(rng, 5000, 0.2)) if i % 2 else part)
        return pa.chunked_array(parts)

    return {"pages_unlike": unlike, "mix_nulls_chunked": mixed_nulls}


def _sparse() -> dict[str, Make]:
    def tail(rng: Rng) -> pa.Array:
        sizes = np.where(np.arange(200_000) < 5000, 3, 0)
        return lists(sizes, pa.array(np.arange(15_000)))

    def inner_empty(rows: int, inner: int, kind: str) -> Make:
        def made(rng: Rng) -> pa.Array:
            total = rows * inner
            sizes = np.zeros(total, np.int64)
            sizes[[0, -1]] = (2, 1) if rows > 1 else (1, 1)
            if kind == "int64":
                return lists([inner] * rows, lists(sizes, pa.array(np.arange(int(sizes.sum())))))
            items = pa.array(["first", None, "last"][: int(sizes.sum())])
            return lists([inner] * rows, lists(sizes, items, missing=np.arange(total) % 3 == 1))

        return made

    def constant(rng: Rng) -> pa.Array:
        gone = np.arange(200_000) % 5000 != 0
        return masked(pa.array(np.where(gone, 0, 5)), gone)

    def some_text(rng: Rng) -> pa.Array:
        wide = [f"{i} " * 100 for i in range(100, 105)]
        return pa.array([wide[i % 7 % 5] if i % 50 == 0 else None for i in range(20_000)])

    def some(items: pa.Array, size: int) -> pa.Array:
        return lists(np.where(np.arange(10_000) % 50 == 0, size, 0), items)

    def some_vectors(rng: Rng) -> pa.Array:
        numbers = np.tile(np.arange(100, dtype=np.float32), 600)
        return some(pa.FixedSizeListArray.from_arrays(pa.array(numbers), 100), 3)

    def some_bytes(rng: Rng) -> pa.Array:
        return some(pa.array([rng.bytes(400) for _ in range(400)]), 2)

    return {
        "sparse_text": some_text,
        "sparse_list_vectors": some_vectors,
        "sparse_list_bytes": some_bytes,
        "sparse_list_tail": tail,
        "one_row_200k_items": lambda rng: lists([200_000], pa.array(np.arange(200_000))),
        "one_row_300k_empty_inner": inner_empty(1, 300_001, "int64"),
        "rows_70k_empty_inner": inner_empty(2, 70_001, "int64"),
        "rows_70k_null_inner_str": inner_empty(2, 70_001, "string"),
        "sparse_struct_list": lambda rng: struct({"l": _one_in(150_000, 5000)(rng)}),
        "sparse_nullable": constant,
    }


def _deep() -> dict[str, Make]:
    def threefold(rng: Rng) -> pa.Array:
        third = lists(np.zeros(400, np.int64), pa.array([], pa.int64()), missing=np.arange(400) % 3 == 0)
        second = lists(np.arange(600) % 3 % 2, third.slice(0, 200), missing=np.arange(600) % 3 == 2)
        return lists(np.arange(500) % 3, second, missing=np.arange(500) % 9 == 0)

    def threefold_full(rng: Rng) -> pa.Array:
        third = lists(np.arange(900) % 4, masked(pa.array(np.arange(2000)), np.arange(2000) % 7 == 0))
        second = lists(np.arange(600) % 3, third, missing=np.arange(600) % 11 == 0)
        return lists(np.arange(500) % 3, second, missing=np.arange(500) % 9 == 0)

    def null_outside(holed_items: bool) -> Make:
        def made(rng: Rng) -> pa.Array:
            count = 3000
            number = masked(pa.array(np.full(count, 9, np.int32)), np.arange(count) % 2 == 1)
            items = struct({"n": number}, np.arange(count) % 5 == 0 if holed_items else None)
            sizes = np.full(2000, 1) if not holed_items else np.arange(2000) % 3
            inner = lists(sizes, items, missing=np.arange(2000) % 7 == 0 if holed_items else None)
            return struct({"l": inner}, np.arange(2000) % 4 == 0)

        return made

    def coded(rng: Rng) -> pa.Array:
        codes = pa.array(rng.integers(0, 3, 400).astype(np.int32))
        items = pa.DictionaryArray.from_arrays(codes, pa.array(["x", "yy", "zzz"]))
        return lists(np.full(200, 2), items)

    return {
        "list_list_list": threefold,
        "list_list_list_full": threefold_full,
        "list_null_struct_outer": null_outside(True),
        "nullstruct_allvalid_list": null_outside(False),
        "list_dict": coded,
        "struct_struct_list_dict": lambda rng: struct(
            {"s": struct({"l": coded(rng)}, np.arange(200) % 3 == 0)}
        ),
    }


def _widths() -> dict[str, Make]:
    def below(bits: int, kind: Any, rows: int = 3000) -> Make:
        return lambda rng: pa.array(rng.integers(0, (1 << bits) - 1, rows, dtype=kind, endpoint=True))

    def mixed(rng: Rng) -> pa.Array:
        parts = [rng.integers(0, 1 << w, 1024, dtype=np.int64) for w in range(1, 63)]
        return pa.array(np.concatenate(parts))

    def zeros_between(rng: Rng) -> pa.Array:
        values = rng.integers(0, 9, 8 * 1024)
        values.reshape(8, 1024)[::2] = 0
        return pa.array(values)

    found: dict[str, Make] = {"bw_mixed": mixed, "bw_zero_chunk": zeros_between}
    for bits in (1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63):
        found[f"bw64_{bits}"] = below(bits, np.uint64)
    for bits in (1, 2, 3, 7, 8, 9, 15, 16, 17, 31):
        found[f"bw32_{bits}"] = below(bits, np.uint32)
    for bits in (1, 2, 3, 7, 8, 9, 15):
        found[f"bw16_{bits}"] = below(bits, np.uint16)
    for bits in (1, 2, 3, 5, 7):
        found[f"bw8_{bits}"] = below(bits, np.uint8)
    return found


def _borders() -> dict[str, Make]:
    def made(rows: int) -> dict[str, Make]:
        def narrow(rng: Rng) -> pa.Array:
            return pa.array(rng.integers(0, 1000, rows).astype(np.int32))

        return {
            f"ibp_{rows}": narrow,
            f"def_{rows}": lambda rng: masked(narrow(rng), holes(rng, rows, 0.1)),
            f"flat_{rows}": lambda rng: pa.array(rng.standard_normal(rows)),
            f"rle_{rows}": lambda rng: pa.array((np.arange(rows) // 300).astype(np.int32)),
            f"bool_{rows}": lambda rng: masked(pa.array(rng.random(rows) < 0.5), holes(rng, rows, 0.2)),
            f"str_{rows}": lambda rng: masked(distinct(rng, list(COLOURS), rows), holes(rng, rows, 0.2)),
        }

    return {name: make for rows in BORDERS for name, make in made(rows).items()}


def _refused() -> dict[str, Make]:
    """Types that no version stores; here so that a release that starts to is noticed."""
    rows = 20
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([5, 20], pa.int32()), pa.array(["a", "b"]))
    views = pa.array([[1, 2], [3]] * 10, pa.list_view(pa.int64()))
    return {
        "interval_mdn": lambda rng: pa.array([(1, 2, 3)] * rows, pa.month_day_nano_interval()),
        "list_view": lambda rng: views,
        "ree": lambda rng: runs,
        "dec32": lambda rng: pa.array([1] * rows, pa.decimal32(9, 0)),
        "dec64": lambda rng: pa.array([1] * rows, pa.decimal64(18, 0)),
        "time64_ns": lambda rng: pa.array([datetime.time(1, 2, 3, i) for i in range(rows)], pa.time64("ns")),
    }
