"""Nested shapes: lists, structs, maps, packed structs, and fixed-size lists of structs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tests.helpers.shapes_base import COLOURS, ROWS, Make, Rng, Shape, distinct, holes, lists, masked, text
from tests.helpers.shapes_numbers import vectors

__all__ = ["shapes"]

PACKED = {"lance-encoding:packed": "true"}


def shapes() -> dict[str, Shape]:
    """Name -> shape."""
    plain = {**_lists(), **_bare_lists(), **_structs(), **_mixtures(), **_fixed_lists()}
    packed = {name: Shape(make, metadata=PACKED) for name, make in _packed().items()}
    alone = frozenset({"fsl_struct", "fsl_struct_null"})
    return {**{name: Shape(make, alone=name in alone) for name, make in plain.items()}, **packed}


def struct(children: Mapping[str, pa.Array], missing: Any = None) -> pa.Array:
    """A struct of the children; ``missing`` marks the null ones."""
    fields = [pa.field(name, child.type) for name, child in children.items()]
    whole = pa.StructArray.from_arrays(list(children.values()), fields=fields)
    return whole if missing is None else masked(whole, missing)


def _small(rng: Rng, count: int, share: float = 0.0) -> pa.Array:
    values = pa.array(rng.integers(0, 1000, count))
    return masked(values, holes(rng, count, share)) if share else values


def _lengths(rng: Rng, rows: int, low: int = 0, high: int = 5) -> NDArray[np.int64]:
    return rng.integers(low, high + 1, rows)


def _lists() -> dict[str, Make]:
    def numbers(low: int, gone: float = 0.0, items: float = 0.0, rows: int = ROWS) -> Make:
        def made(rng: Rng) -> pa.Array:
            sizes = _lengths(rng, rows, low)
            missing = holes(rng, rows, gone) if gone else None
            return lists(sizes, _small(rng, int(sizes.sum()), items), missing=missing)

        return made

    def strings(rng: Rng) -> pa.Array:
        sizes = _lengths(rng, ROWS)
        return lists(sizes, pa.array([f"unique {i}" for i in range(int(sizes.sum()))]))

    def colours(rng: Rng) -> pa.Array:
        sizes = _lengths(rng, ROWS)
        return lists(sizes, distinct(rng, list(COLOURS), int(sizes.sum())))

    def texts(share: float) -> Make:
        def made(rng: Rng) -> pa.Array:
            sizes = _lengths(rng, 300, 0, 3)
            items = text(rng, int(sizes.sum()), 70, 90)
            if not share:
                return lists(sizes, items)
            gone = holes(rng, len(items), share)
            items = pa.array(
                [None if g else v for v, g in zip(items.to_pylist(), gone, strict=True)], pa.string()
            )
            return lists(sizes, items, missing=holes(rng, 300, share))

        return made

    def embeddings(share: float) -> Make:
        def made(rng: Rng) -> pa.Array:
            sizes = _lengths(rng, 100, 0, 3)
            items = vectors(pa.array(rng.standard_normal(int(sizes.sum()) * 256).astype(np.float32)), 256)
            if not share:
                return lists(sizes, items)
            return lists(sizes, masked(items, holes(rng, len(items), share)), missing=holes(rng, 100, share))

        return made

    return {
        "list_i64": numbers(1),
        "list_i64_empty": numbers(0),
        "list_i64_null": numbers(1, gone=0.2),
        "list_i64_null_empty": numbers(0, gone=0.2, items=0.1),
        "list_i64_itemnull": numbers(1, items=0.1),
        "list_i64_tiny": lambda rng: pa.array([[1, 2], [], None, [3]], pa.list_(pa.int64())),
        "list_i64_long": lambda rng: lists([20_000] * 5, _small(rng, 100_000)),
        "list_str": strings,
        "list_str_lowcard": colours,
        "list_text_long": texts(0.0),
        "list_text_long_null": texts(0.2),
        "list_emb": embeddings(0.0),
        "list_emb_null": embeddings(0.2),
    }


def _bare_lists() -> dict[str, Make]:
    def floats(rng: Rng) -> pa.Array:
        sizes = _lengths(rng, ROWS)
        return lists(sizes, pa.array(rng.standard_normal(int(sizes.sum())).astype(np.float32)), large=True)

    def flags(rng: Rng) -> pa.Array:
        sizes = _lengths(rng, ROWS)
        return lists(sizes, pa.array(rng.random(int(sizes.sum())) < 0.5))

    def constant(kind: pa.DataType, value: object, rows: int = 1000) -> Make:
        def made(rng: Rng) -> pa.Array:
            sizes = np.arange(rows) % 4
            return lists(sizes, pa.array([value] * int(sizes.sum()), kind))

        return made

    def doubled(rng: Rng) -> pa.Array:
        inner_sizes = _lengths(rng, 6000, 0, 3)
        numbers = pa.array(rng.integers(0, 100, int(inner_sizes.sum())))
        inner = lists(
            inner_sizes, masked(numbers, holes(rng, len(numbers), 0.1)), missing=holes(rng, 6000, 0.1)
        )
        sizes = _lengths(rng, 3000, 0, 3)
        sizes[np.cumsum(sizes) > 6000] = 0
        return lists(sizes, inner, missing=holes(rng, 3000, 0.1))

    numbers = pa.list_(pa.int64())
    return {
        "large_list_f32": floats,
        "list_allempty": lambda rng: pa.array([[]] * 1000, numbers),
        "list_allnull": lambda rng: pa.nulls(1000, numbers),
        "list_null_or_empty": lambda rng: pa.array([None, []] * 500, numbers),
        "list_of_null_items": lambda rng: pa.array([[None, None], []] * 500, numbers),
        "list_const": constant(pa.int64(), 7),
        "list_const_str": constant(pa.string(), "seven"),
        "large_list_str": lambda rng: constant(pa.large_string(), "large")(rng).cast(
            pa.large_list(pa.large_string())
        ),
        "list_null_type": constant(pa.null(), None, 99),
        "list_list_i64": doubled,
        "list_bool": flags,
    }


def _rows(rng: Rng, rows: int, share: float) -> dict[str, pa.Array]:
    numbers, floats = pa.array(np.arange(rows)), pa.array(rng.standard_normal(rows))
    colours = distinct(rng, [f"one of fifty {i}" for i in range(50)], rows)
    if share:
        numbers, floats = masked(numbers, holes(rng, rows, share)), masked(floats, holes(rng, rows, share))
        colours = masked(colours, holes(rng, rows, share))
    return {"a": numbers, "b": colours, "c": floats}


def _structs() -> dict[str, Make]:
    def nested(rng: Rng) -> pa.Array:
        inner = struct(_rows(rng, ROWS, 0.1), holes(rng, ROWS, 0.1))
        number = masked(pa.array(np.arange(ROWS, dtype=np.int32)), holes(rng, ROWS, 0.1))
        return struct({"inner": inner, "n": number}, holes(rng, ROWS, 0.1))

    def leaf_holes(rng: Rng) -> pa.Array:
        leaf = masked(pa.array(np.arange(3000)), np.arange(3000) % 5 == 0)
        return struct({"a": leaf, "s": struct({"t": pa.array([f"{i}" for i in range(3000)])})})

    kind = pa.struct([pa.field("a", pa.int64()), pa.field("b", pa.string()), pa.field("c", pa.float64())])
    return {
        "struct_nonnull": lambda rng: struct(_rows(rng, ROWS, 0.0)),
        "struct_null": lambda rng: struct(_rows(rng, ROWS, 0.1), holes(rng, ROWS, 0.1)),
        "struct_childnull": lambda rng: struct(_rows(rng, ROWS, 0.2)),
        "struct_nested_null": nested,
        "struct_allnull": lambda rng: pa.nulls(1000, kind),
        "struct_allvalid_leafnull": leaf_holes,
        "empty_struct": lambda rng: pa.array([{}] * 100, pa.struct([])),
        "struct_of_null": lambda rng: struct({"n": pa.nulls(300), "k": pa.array(np.arange(300))}),
    }


def _mixtures() -> dict[str, Make]:
    def items(rng: Rng, count: int, share: float) -> pa.Array:
        sizes = _lengths(rng, count, 0, 3) if share else np.full(count, 2)
        floats = pa.array(rng.standard_normal(int(sizes.sum())).astype(np.float32))
        if not share:
            floats = pa.array(np.full(2 * count, 0.5, np.float32))
            numbers, letters = pa.array(np.arange(count)), pa.array(["x"] * count)
            return struct({"a": numbers, "b": letters, "c": lists(sizes, floats)})
        inner = lists(sizes, masked(floats, holes(rng, len(floats), share)), missing=holes(rng, count, share))
        rows = _rows(rng, count, share)
        colours = masked(distinct(rng, list(COLOURS), count), holes(rng, count, share))
        return struct({"a": rows["a"], "b": colours, "c": inner}, holes(rng, count, share))

    def list_struct(share: float) -> Make:
        def made(rng: Rng) -> pa.Array:
            sizes = _lengths(rng, 2000, 0 if share else 1, 3)
            missing = holes(rng, 2000, share) if share else None
            return lists(sizes, items(rng, int(sizes.sum()), share), missing=missing)

        return made

    def struct_list(rng: Rng) -> pa.Array:
        sizes, others = _lengths(rng, 2000), _lengths(rng, 2000)
        numbers = lists(
            sizes, pa.array(np.arange(int(sizes.sum()), dtype=np.int32)), missing=holes(rng, 2000, 0.1)
        )
        count = int(others.sum())
        inner = struct(
            {"n": masked(pa.array(np.arange(count)), holes(rng, count, 0.1))}, holes(rng, count, 0.1)
        )
        return struct(
            {"l": numbers, "s": lists(others, inner, missing=holes(rng, 2000, 0.1))}, holes(rng, 2000, 0.1)
        )

    def maps(rng: Rng) -> pa.Array:
        names = ("height", "width", "depth")
        rows = [
            None
            if rng.random() < 0.1
            else [(n, _maybe(rng, 0.2, int(rng.integers(0, 3)))) for n in names[: i % 4]]
            for i in range(2000)
        ]
        return pa.array(rows, pa.map_(pa.string(), pa.int64()))

    def map_struct(rng: Rng) -> pa.Array:
        rows = [[(j, {"x": float(j)}) for j in range(i % 4)] for i in range(900)]
        return pa.array(rows, pa.map_(pa.int32(), pa.struct([pa.field("x", pa.float64())])))

    return {
        "list_struct": list_struct(0.1),
        "list_struct_nonnull": list_struct(0.0),
        "struct_list": struct_list,
        "map_str_i64": maps,
        "map_i32_struct": map_struct,
        "list_map": lambda rng: lists(np.arange(600) % 3, maps(rng)),
    }


def _maybe(rng: Rng, share: float, value: object) -> object:
    return None if rng.random() < share else value


def _fixed_lists() -> dict[str, Make]:
    def of_structs(rng: Rng, rows: int, size: int, share: float) -> pa.Array:
        count = rows * size
        numbers, words = pa.array(np.arange(count)), pa.array([f"{i}" for i in range(count)])
        if not share:
            return vectors(struct({"a": numbers, "b": words}), size)
        children = {
            "a": masked(numbers, holes(rng, count, share)),
            "b": masked(words, holes(rng, count, share)),
        }
        return masked(vectors(struct(children, holes(rng, count, share)), size), holes(rng, rows, share))

    def list_of_them(share: float) -> Make:
        def made(rng: Rng) -> pa.Array:
            sizes = np.where(np.arange(200) % 5 < 3, 1 + np.arange(200) % 3, 0)
            return lists(sizes, of_structs(rng, int(sizes.sum()), 2, share))

        return made

    def over_lists(rng: Rng) -> pa.Array:
        sizes = np.arange(600) % 5
        inner = lists(sizes, pa.array(np.arange(int(sizes.sum()))))
        return vectors(struct({"l": inner}), 2)

    def of_vectors(rng: Rng) -> pa.Array:
        sizes = np.arange(300) % 4
        floats = pa.array(rng.standard_normal(int(sizes.sum()) * 8).astype(np.float32))
        return lists(sizes, vectors(floats, 8))

    return {
        "fsl_struct": lambda rng: of_structs(rng, 1000, 3, 0.0),
        "fsl_struct_null": lambda rng: of_structs(rng, 1000, 3, 0.1),
        "list_fsl_struct": list_of_them(0.0),
        "list_fsl_struct_null": list_of_them(0.1),
        "fsl_struct_list": over_lists,
        "list_fsl_f32_8": of_vectors,
    }


def _packed() -> dict[str, Make]:
    def fixed(rng: Rng, rows: int = 3000) -> pa.Array:
        numbers = pa.array(np.arange(rows))
        small = pa.array(rng.integers(-99, 99, rows).astype(np.int16))
        return struct({"a": numbers, "b": pa.array(rng.standard_normal(rows).astype(np.float32)), "c": small})

    def varying(rng: Rng, rows: int = 1000) -> pa.Array:
        return struct({"a": pa.array(np.arange(rows)), "b": text(rng, rows, 0, 9)})

    def sevenths(make: Make) -> Make:
        def made(rng: Rng) -> pa.Array:
            values = make(rng)
            return masked(values, np.arange(len(values)) % 7 == 3)

        return made

    return {
        "packed_struct": fixed,
        "packed_struct_null": sevenths(fixed),
        "packed_struct_var": varying,
        "packed_struct_var_null": sevenths(varying),
    }
