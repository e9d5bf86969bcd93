"""Shapes of fixed width: numbers, times, decimals, fixed binaries and vectors of them."""

from __future__ import annotations

import decimal
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tests.helpers.shapes_base import ROWS, Make, Rng, Shape, distinct, holes, masked

__all__ = ["shapes"]

DAY = 86_400_000


def shapes() -> dict[str, Shape]:
    """Name -> shape."""
    return {
        **{
            name: Shape(make) for name, make in {**_integers(), **_others(), **_fixed(), **_vectors()}.items()
        },
        "i64_nonnull_field": Shape(lambda rng: pa.array(rng.integers(0, 1000, ROWS)), nullable=False),
        **_asked_for(),
    }


def _between(low: int, high: int, kind: Any = np.int64, rows: int = ROWS) -> Make:
    return lambda rng: pa.array(rng.integers(low, high, rows, dtype=kind))


def _full(kind: Any, rows: int = ROWS) -> Make:
    info = np.iinfo(kind)
    return lambda rng: pa.array(rng.integers(info.min, info.max, rows, dtype=kind, endpoint=True))


def _with_holes(make: Make, share: float, rows: int = ROWS) -> Make:
    return lambda rng: masked(make(rng), holes(rng, rows, share))


def _every(make: Make, step: int, rest: int = 0) -> Make:
    """Null in each ``step``-th row."""

    def made(rng: Rng) -> pa.Array:
        values = make(rng)
        return masked(values, np.arange(len(values)) % step == rest)

    return made


def _fixed_values(values: Sequence[Any], kind: pa.DataType | None = None) -> Make:
    return lambda rng: pa.array(values, kind)


def _integers() -> dict[str, Make]:
    numbers = np.arange(ROWS)
    big = 1 << 62
    picks = _between(-big, big, rows=20)
    return {
        "i64_seq": lambda rng: pa.array(numbers),
        "i64_seq_big": lambda rng: pa.array(numbers + 10**12),
        "i64_rand_full": _between(-big, big),
        "i64_rand_small": _between(0, 1000),
        "i64_neg_small": _between(-1000, 1000),
        "i64_lowcard_big": lambda rng: distinct(rng, picks(rng), ROWS),
        "i64_runs": lambda rng: pa.array(np.repeat(np.arange(ROWS // 100), 100)),
        "i64_longruns": lambda rng: pa.array(np.repeat(np.arange(5) * 7, 2000)),
        "i32_seq": lambda rng: pa.array(numbers.astype(np.int32)),
        "i32_rand_full": _full(np.int32),
        "i32_lowcard_big": lambda rng: distinct(rng, _full(np.int32, 20)(rng), ROWS),
        "i16_rand": _full(np.int16),
        "i16_small": _between(0, 50, np.int16),
        "i8_rand": _full(np.int8),
        "u8_small": _between(0, 5, np.uint8),
        "u8_runs": lambda rng: pa.array(np.repeat(np.arange(ROWS // 100).astype(np.uint8), 100)),
        "u16_rand": _full(np.uint16),
        "u32_rand": _full(np.uint32),
        "u64_rand": _full(np.uint64),
        "i64_tiny": _fixed_values([5, 6, 7]),
        "i64_one": _fixed_values([5]),
        "i64_100": lambda rng: pa.array(np.arange(100)),
        "i64_1000rand": _between(-big, big, rows=1000),
        "i64_nulls": _with_holes(_between(0, 1000), 0.1),
        "i64_nulls_tiny": _fixed_values([1, None, 3]),
        "i64_nulls_rand_full": _with_holes(_between(-big, big), 0.1),
        "i64_rare_null": _with_holes(_between(0, 1000), 0.001),
        "i64_mostly_null": _with_holes(_between(0, 1000), 0.99),
        "i64_nullruns": lambda rng: masked(pa.array(numbers), numbers // 500 % 2 == 1),
        "i64_const": lambda rng: pa.array(np.full(ROWS, 42)),
        "i64_const_nulls": lambda rng: masked(pa.array(np.full(ROWS, 42)), holes(rng, ROWS, 0.1)),
        "i64_allnull": lambda rng: pa.nulls(ROWS, pa.int64()),
        "null_type": lambda rng: pa.nulls(ROWS),
        "u64_half_null": _with_holes(_full(np.uint64, 3000), 0.5, 3000),
    }


def _others() -> dict[str, Make]:
    numbers = np.arange(ROWS)

    def normal(kind: Any) -> Make:
        return lambda rng: pa.array(rng.standard_normal(ROWS).astype(kind))

    def stamps(kind: pa.DataType) -> Make:
        return lambda rng: pa.array(1_600_000_000 * 10**6 + np.cumsum(rng.integers(1, 10**6, ROWS))).cast(
            kind
        )

    def booleans(rng: Rng) -> pa.Array:
        return pa.array(rng.random(ROWS) < 0.5)

    def not_numbers(rng: Rng) -> pa.Array:
        values = rng.standard_normal(ROWS).astype(np.float32)
        values[rng.random(ROWS) < 0.2] = np.nan
        return pa.array(values, from_pandas=False)

    return {
        "f64_rand": normal(np.float64),
        "f32_rand": normal(np.float32),
        "f16_rand": normal(np.float16),
        "f64_lowcard": lambda rng: pa.array(rng.standard_normal(10)[rng.integers(0, 10, ROWS)]),
        "f32_lowcard": lambda rng: pa.array(
            rng.standard_normal(10).astype(np.float32)[rng.integers(0, 10, ROWS)]
        ),
        "f64_integral": lambda rng: pa.array(numbers.astype(np.float64)),
        "f64_zero": lambda rng: pa.array(np.zeros(ROWS)),
        "f64_nulls": _with_holes(normal(np.float64), 0.1),
        "f32_nan": not_numbers,
        "f64_dict_null": lambda rng: masked(distinct(rng, [0.25, 1e300, -7.0], ROWS), holes(rng, ROWS, 0.3)),
        "bool_rand": booleans,
        "bool_true": lambda rng: pa.array(np.ones(ROWS, np.bool_)),
        "bool_nulls": _with_holes(booleans, 0.1),
        "bool_runs": lambda rng: pa.array(numbers // 500 % 2 == 0),
        "bool_tiny": _fixed_values([True, False, True]),
        "bool_fullnull_chunks": lambda rng: masked(pa.array(np.ones(ROWS, np.bool_)), numbers % 2 == 1),
        "ts_us": stamps(pa.timestamp("us")),
        "ts_ns_tz": stamps(pa.timestamp("ns", "UTC")),
        "ts_s": lambda rng: pa.array(1_600_000_000 + numbers).cast(pa.timestamp("s")),
        "date32": lambda rng: pa.array((10_000 + numbers // 10).astype(np.int32)).cast(pa.date32()),
        "date64": lambda rng: pa.array((10_000 + numbers // 10) * DAY).view(pa.date64()),
        "time32_ms": lambda rng: pa.array(rng.integers(0, DAY, ROWS).astype(np.int32)).view(pa.time32("ms")),
        "time64_us": lambda rng: pa.array(rng.integers(0, DAY * 1000, ROWS)).view(pa.time64("us")),
        "duration_ms": lambda rng: pa.array(rng.integers(0, DAY, ROWS)).view(pa.duration("ms")),
    }


def _decimals(numbers: Sequence[int], kind: pa.DataType) -> pa.Array:
    width = kind.bit_width // 8
    raw = b"".join(int(n).to_bytes(width, "little", signed=True) for n in numbers)
    return pa.Array.from_buffers(kind, len(numbers), [None, pa.py_buffer(raw)])


def _fixed_binaries(rng: Rng, rows: int, width: int) -> pa.Array:
    return pa.Array.from_buffers(pa.binary(width), rows, [None, pa.py_buffer(rng.bytes(rows * width))])


def _fixed() -> dict[str, Make]:
    wide = decimal.Decimal(10) ** 30

    def few(kind: pa.DataType) -> Make:
        return lambda rng: _decimals(rng.integers(0, 10**9, 30).tolist(), kind).take(
            pa.array(rng.integers(0, 30, ROWS))
        )

    def some(kind: pa.DataType, factor: int) -> Make:
        return lambda rng: _decimals([int(n) * factor for n in rng.integers(-(10**9), 10**9, ROWS)], kind)

    def binary(width: int, rows: int = ROWS) -> Make:
        return lambda rng: _fixed_binaries(rng, rows, width)

    return {
        "dec128": some(pa.decimal128(18, 2), 1),
        "dec128_wide": some(pa.decimal128(38, 4), int(wide) // 100),
        "dec128_lowcard": few(pa.decimal128(18, 2)),
        "dec256": some(pa.decimal256(50, 2), int(wide)),
        "dec256_lowcard": few(pa.decimal256(50, 2)),
        "fsb16": binary(16),
        "fsb5": binary(5),
        "fsb16_lowcard": lambda rng: _fixed_binaries(rng, 10, 16).take(pa.array(rng.integers(0, 10, ROWS))),
        "fsb32_const": lambda rng: _fixed_binaries(rng, 1, 32).take(pa.array(np.zeros(ROWS, np.int64))),
        "fsb33_const": lambda rng: _fixed_binaries(rng, 1, 33).take(pa.array(np.zeros(ROWS, np.int64))),
        "fsb300": binary(300, 500),
        "fsb300_null": _every(binary(300, 500), 3),
        "fsb255": binary(255, 500),
        "fsb256": binary(256, 500),
        "uuid": lambda rng: pa.ExtensionArray.from_storage(pa.uuid(), _fixed_binaries(rng, 1000, 16)),
    }


def vectors(child: pa.Array, size: int) -> pa.Array:
    """Fixed-size lists over the items."""
    return pa.FixedSizeListArray.from_arrays(child, size)


def _floats(rng: Rng, count: int, kind: Any = np.float32) -> pa.Array:
    return pa.array(rng.standard_normal(count).astype(kind))


def _vectors() -> dict[str, Make]:
    def floats(rows: int, size: int, kind: Any = np.float32, share: float = 0.0) -> Make:
        def made(rng: Rng) -> pa.Array:
            child = _floats(rng, rows * size, kind)
            return vectors(masked(child, holes(rng, rows * size, share)) if share else child, size)

        return made

    def matrices(rng: Rng) -> pa.Array:
        return vectors(vectors(_floats(rng, 6 * 2000), 3), 2)

    def matrices_with_holes(rng: Rng) -> pa.Array:
        numbers = masked(_floats(rng, 6 * 2000), holes(rng, 6 * 2000, 0.1))
        inner = masked(vectors(numbers, 3), holes(rng, 2 * 2000, 0.1))
        return masked(vectors(inner, 2), holes(rng, 2000, 0.1))

    def flags(size: int) -> Make:
        return lambda rng: vectors(pa.array(rng.random(ROWS * size) < 0.5), size)

    def nothing(rng: Rng) -> pa.Array:
        return vectors(pa.nulls(600 * 3, pa.int32()), 3)

    return {
        "emb_f32_1536": floats(200, 1536),
        "emb_f32_1536_null": _with_holes(floats(200, 1536), 0.2, 200),
        "emb_f16_768": floats(200, 768, np.float16),
        "emb_u8_128": lambda rng: vectors(pa.array(rng.integers(0, 256, 128_000).astype(np.uint8)), 128),
        "emb_f32_4": floats(ROWS, 4),
        "emb_f32_4_null": _with_holes(floats(ROWS, 4), 0.2),
        "emb_f32_4_itemnull": _with_holes(floats(ROWS, 4, share=0.1), 0.2),
        "emb_f32_128_itemnull": _with_holes(floats(500, 128, share=0.1), 0.2, 500),
        "emb_f32_128_itemnull_novalid": floats(500, 128, share=0.1),
        "fsl_bool_8": flags(8),
        "fsl_bool_3": flags(3),
        "fsl_i32_3": lambda rng: vectors(pa.array(rng.integers(0, 10, 3 * ROWS).astype(np.int32)), 3),
        "fsl_fsl": matrices,
        "fsl_fsl_null": matrices_with_holes,
        "fsl_allsame": lambda rng: vectors(pa.array(np.tile(np.arange(4, dtype=np.float32), ROWS)), 4),
        "fsl_items_allnull": nothing,
        "fsl_63": floats(500, 63),
        "fsl_64": floats(500, 64),
        "fsl_allnull": lambda rng: pa.nulls(700, pa.list_(pa.float32(), 4)),
    }


def _asked_for() -> dict[str, Shape]:
    """Shapes whose field metadata chooses the encoding."""
    halves: Make = lambda rng: pa.array(rng.integers(0, 1000, ROWS) * 0.5)  # noqa: E731
    found: dict[str, Shape] = {}
    for scheme in ("zstd", "lz4", "fsst", "none"):
        asked = {"lance-encoding:compression": scheme}
        found[f"cfg_{scheme}_i64"] = Shape(_between(0, 1000), metadata=asked)
        found[f"cfg_{scheme}_f64"] = Shape(halves, metadata=asked)
        found[f"cfg_{scheme}_runs"] = Shape(_integers()["i64_runs"], metadata=asked)
        found[f"cfg_{scheme}_full"] = Shape(_full(np.int64, 3000), metadata=asked)
    walk: Make = lambda rng: pa.array(np.cumsum(rng.standard_normal(ROWS)).astype(np.float32))  # noqa: E731
    long_walk: Make = lambda rng: pa.array(np.cumsum(rng.standard_normal(ROWS)))  # noqa: E731
    split = {"lance-encoding:bss": "on"}
    full_zip = {"lance-encoding:structural-encoding": "fullzip"}
    found["cfg_bss_f32"] = Shape(walk, metadata={**split, "lance-encoding:compression": "zstd"})
    found["cfg_bss_f64"] = Shape(long_walk, metadata={**split, "lance-encoding:compression": "lz4"})
    found["cfg_fullzip_i64"] = Shape(_full(np.int64), metadata=full_zip)
    found["cfg_fullzip_i64_null"] = Shape(_with_holes(_full(np.int64), 0.1), metadata=full_zip)
    found["cfg_fullzip_bool"] = Shape(_others()["bool_rand"], metadata=full_zip)
    found["cfg_fullzip_bool_null"] = Shape(_others()["bool_nulls"], metadata=full_zip)
    found["cfg_miniblock_emb"] = Shape(
        lambda rng: vectors(_floats(rng, 200 * 512), 512),
        metadata={"lance-encoding:structural-encoding": "miniblock"},
    )
    return found
