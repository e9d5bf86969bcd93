"""Shapes of varying width: strings, binaries, dictionaries and blobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tests.helpers.shapes_base import (
    COLOURS,
    ROWS,
    Make,
    Rng,
    Shape,
    distinct,
    holes,
    pieces,
    text,
    words,
)

__all__ = ["shapes"]


def shapes() -> dict[str, Shape]:
    """Name -> shape."""
    plain = {**_strings(), **_texts(), **_binaries(), **_dictionaries()}
    return {**{name: Shape(make) for name, make in plain.items()}, **_asked_for()}


def _cast(make: Make, kind: pa.DataType) -> Make:
    return lambda rng: make(rng).cast(kind)


def _holed(make: Make, share: float) -> Make:
    def made(rng: Rng) -> pa.Array:
        values = make(rng)
        return pa.array(_listed(values, holes(rng, len(values), share)), values.type)

    return made


def _listed(values: pa.Array, gone: Any) -> list[Any]:
    return [None if g else v for v, g in zip(values.to_pylist(), gone, strict=True)]


def _few(rows: int, pool: Sequence[str] = COLOURS) -> Make:
    return lambda rng: distinct(rng, list(pool), rows)


def _strings() -> dict[str, Make]:
    def numbered(rows: int, form: str) -> Make:
        return lambda rng: pa.array([form.format(i) for i in range(rows)])

    def some_empty(rng: Rng) -> pa.Array:
        values = [f"value {i}" for i in range(ROWS)]
        return pa.array(["" if gone else v for v, gone in zip(values, holes(rng, ROWS, 0.3), strict=True)])

    def pool(rng: Rng, size: int, form: str) -> pa.Array:
        return distinct(rng, [form.format(i) for i in range(size)], 2 * ROWS if size == 2000 else ROWS)

    return {
        "str_lowcard": _few(ROWS),
        "str_lowcard_100": _few(100),
        "str_lowcard_99": _few(99),
        "str_lowcard_null": _holed(_few(ROWS), 0.1),
        "str_midcard": lambda rng: pool(rng, 2900, "a value of thirty-one bytes{:04}"),
        "str_bigdict": lambda rng: pool(rng, 2000, "one of two thousand values, which are long {:08}"),
        "str_rand16": lambda rng: words(rng, ROWS, 16),
        "str_rand16_null": _holed(lambda rng: words(rng, ROWS, 16), 0.2),
        "str_rand16_small": lambda rng: words(rng, 500, 16),
        "str_short_unique": numbered(ROWS, "{}"),
        "str_tiny": lambda rng: pa.array(["a", "bb", "ccc"]),
        "str_tiny_null": lambda rng: pa.array(["a", None, "", "ccc"]),
        "str_empty": lambda rng: pa.array([""] * ROWS),
        "str_empty_null": lambda rng: pa.array(["", None] * 300),
        "str_const": lambda rng: pa.array(["eleven byte"] * ROWS),
        "str_const_null": lambda rng: pa.array(["eleven byte", None, "eleven byte"] * 1000),
        "str_const_4": lambda rng: pa.array(["four"] * ROWS),
        "str_allnull": lambda rng: pa.nulls(ROWS, pa.string()),
        "str_some_empty": some_empty,
        "str_255": lambda rng: words(rng, 500, 255),
        "str_256": lambda rng: words(rng, 500, 256),
        "str_wide_lowcard": _few(2000, [f"{i} " * 100 for i in range(100, 120)]),
        "str_wide_lowcard_null": _holed(_few(2000, [f"{i} " * 100 for i in range(100, 120)]), 0.2),
        "str_view": _cast(numbered(ROWS, "{}"), pa.string_view()),
        "large_string_allnull": lambda rng: pa.nulls(150, pa.large_string()),
        "large_string": _cast(lambda rng: text(rng, ROWS, 12, 12), pa.large_string()),
        "large_string_lowcard": _cast(_few(ROWS), pa.large_string()),
        "dict_big_values": lambda rng: pool(rng, 300, "x" * 195 + "{:05}").take(
            pa.array(rng.integers(0, ROWS, 2 * ROWS))
        ),
    }


def _texts() -> dict[str, Make]:
    def mixed(rng: Rng) -> pa.Array:
        values = [f"short {i}" for i in range(5000)]
        for row in range(500, 5000, 1000):
            values[row] = f"long {row} " * 180
        return pa.array(values)

    def huge(rng: Rng) -> pa.Array:
        return text(rng, 20, 9_000, 11_000)

    return {
        "text_60": lambda rng: text(rng, ROWS, 12, 12),
        "text_60_null": _holed(lambda rng: text(rng, ROWS, 12, 12), 0.1),
        "text_200": lambda rng: text(rng, 2000, 20, 36),
        "text_long": lambda rng: text(rng, 2000, 50, 300),
        "text_long_null": lambda rng: pa.array(_listed(text(rng, 2000, 50, 300), np.arange(2000) % 7 == 0)),
        "text_long_few": lambda rng: text(rng, 10, 100, 110),
        "text_huge": huge,
        "text_huge_null": _holed(huge, 0.3),
        "str_mixlen": mixed,
    }


def _bytes(rng: Rng, rows: int, size: int) -> pa.Array:
    offsets = np.arange(rows + 1, dtype=np.int32) * size
    return pa.BinaryArray.from_buffers(
        pa.binary(), rows, [None, pa.py_buffer(offsets), pa.py_buffer(rng.bytes(rows * size))]
    )


def _binaries() -> dict[str, Make]:
    def random(rows: int, size: int) -> Make:
        return lambda rng: _bytes(rng, rows, size)

    def with_nulls(make: Make, step: int) -> Make:
        def made(rng: Rng) -> pa.Array:
            values = make(rng)
            return pa.array(_listed(values, np.arange(len(values)) % step == 1), values.type)

        return made

    return {
        "bin_rand20": random(ROWS, 20),
        "bin_lowcard": _cast(_few(ROWS), pa.binary()),
        "bin_100kb": random(30, 100_000),
        "bin_100kb_compressible": lambda rng: pa.array([bytes([i]) * 100_000 for i in range(30)]),
        "bin_100kb_const": lambda rng: pa.array([bytes(100_000)] * 7),
        "large_bin_100kb": _cast(random(30, 100_000), pa.large_binary()),
        "large_bin_100kb_null": with_nulls(_cast(random(30, 100_000), pa.large_binary()), 4),
        "bin_1kb": random(300, 1000),
        "bin_1kb_null": with_nulls(random(300, 1000), 3),
        "bin_255": random(500, 255),
        "bin_256": random(500, 256),
        "bin_32k": random(20, 32_768),
        "bin_32k1": random(20, 32_769),
        "bin_view": lambda rng: pa.array([b"%d" % i for i in range(ROWS)], pa.binary_view()),
    }


def _dictionaries() -> dict[str, Make]:
    def coded(key: pa.DataType, values: pa.Array, rows: int = ROWS, share: float = 0.0) -> Make:
        def made(rng: Rng) -> pa.Array:
            gone = holes(rng, rows, share)
            codes = pa.array(np.where(gone, 0, rng.integers(0, len(values), rows)), mask=gone).cast(key)
            return pa.DictionaryArray.from_arrays(codes, values)

        return made

    colours = pa.array(COLOURS)

    def several(rng: Rng) -> pa.ChunkedArray:
        batches = []
        for i in range(4):
            pool = pa.array([f"batch {i} value {j}" for j in range(3)])
            codes = pa.array(rng.integers(0, 3, 2500).astype(np.int32))
            batches.append(pa.DictionaryArray.from_arrays(codes, pool))
        return pa.chunked_array(batches)

    def repeated(rng: Rng) -> pa.ChunkedArray:
        batches = []
        for _ in range(9):
            codes = pa.array(np.zeros(80, np.int8))
            batches.append(pa.DictionaryArray.from_arrays(codes, pa.array([1 << 40])))
        return pa.chunked_array(batches)

    found: dict[str, Make] = {
        "dict_i32_str": coded(pa.int32(), colours),
        "dict_i8_str_null": coded(pa.int8(), colours, share=0.2),
        "dict_u16_i64": coded(pa.uint16(), pa.array(np.arange(7) * 10**12)),
        "dict_i32_str_nullvalue": coded(pa.int32(), pa.array(["a", None, "b", "c"])),
        "dict_i32_str_const": coded(pa.int32(), pa.array(["only"])),
        "dict_i64_largestr": coded(pa.int64(), colours.cast(pa.large_string())),
        "dict_i16_bin": coded(pa.int16(), colours.cast(pa.binary())),
        "dict_u32_f64": coded(pa.uint32(), pa.array([0.5, 1.5, 2.5]), share=0.1),
        "dict_u8_many": coded(pa.uint8(), pa.array([f"value {i}" for i in range(200)])),
        "dict_i32_2000_i64": coded(pa.int32(), pa.array(np.arange(2000) * 1_000_003)),
        "dict_multi": several,
        "dict_rle": repeated,
    }
    return {**found, "dict_pieces": lambda rng: pieces(coded(pa.int8(), colours, share=0.2)(rng), 3)}


def _asked_for() -> dict[str, Shape]:
    """Shapes whose field metadata chooses the encoding."""
    found: dict[str, Shape] = {}
    for scheme in ("zstd", "lz4", "fsst", "none"):
        asked = {"lance-encoding:compression": scheme}
        found[f"cfg_{scheme}_text"] = Shape(lambda rng: text(rng, ROWS, 12, 12), metadata=asked)
        found[f"cfg_{scheme}_text_null"] = Shape(_texts()["text_60_null"], metadata=asked)
        found[f"cfg_{scheme}_text_long"] = Shape(lambda rng: text(rng, 2000, 50, 300), metadata=asked)
    found["cfg_zstd_large_bin"] = Shape(
        _cast(lambda rng: _bytes(rng, 500, 90), pa.large_binary()),
        metadata={"lance-encoding:compression": "zstd"},
    )
    found["cfg_fullzip_str"] = Shape(
        _strings()["str_short_unique"], metadata={"lance-encoding:structural-encoding": "fullzip"}
    )
    found["cfg_miniblock_text_long"] = Shape(
        lambda rng: text(rng, 2000, 50, 300), metadata={"lance-encoding:structural-encoding": "miniblock"}
    )
    for size in (1, 16, 128):
        found[f"minichunk_{size}k"] = Shape(
            lambda rng: text(rng, ROWS, 9, 12), metadata={"lance-encoding:minichunk-size": str(size << 10)}
        )
    blob = {"lance-encoding:blob": "true"}
    found["blob_v1"] = Shape(_blobs, metadata=blob)
    found["blob_v1_full"] = Shape(lambda rng: _bytes(rng, 30, 500).cast(pa.large_binary()), metadata=blob)
    return found


def _blobs(rng: Rng) -> pa.Array:
    values: list[bytes | None] = [rng.bytes(20_000) for _ in range(40)]
    values[3] = values[17] = values[39] = None
    values[5] = values[18] = b""
    return pa.array(values, pa.large_binary())
