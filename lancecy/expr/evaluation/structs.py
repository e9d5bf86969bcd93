"""Functions that make structs and maps, and read maps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from lancecy.errors import ExpressionError
from lancecy.expr.evaluation import growth
from lancecy.expr.evaluation.list_edits import make
from lancecy.expr.evaluation.list_keys import keys, keys_of_all
from lancecy.expr.evaluation.lists import (
    by_rows,
    elements_of,
    flat_of,
    from_index,
    lists_of,
    made,
)
from lancecy.expr.evaluation.values import Data
from lancecy.expr.kinds import family

__all__ = ["entries", "extract", "make_map", "map_keys", "map_of", "map_values", "named_struct", "struct"]


def struct(*members: Data) -> Data:
    """``struct(x, …)``: a struct with fields ``c0``, ``c1``, …"""
    return _struct([f"c{number}" for number in range(len(members))], members)


def named_struct(*parts: Any) -> Data:
    """``named_struct('a', x, …)``: a struct with these fields."""
    return _struct([name.as_py() for name in parts[::2]], parts[1::2])


def _struct(names: list[str], members: tuple[Data, ...]) -> Data:
    def run(rows: int, *values: Any) -> pa.Array:
        arrays = []
        for value in values:
            array, index = elements_of(value, rows)
            if isinstance(value, pa.Scalar):
                growth.charge("struct()", max(0, rows - 1) * array.nbytes, "lists")
                array = array.take(pa.array(index))
            arrays.append(array)
        return pa.StructArray.from_arrays(arrays, names)

    return by_rows(run, *members)


def map_of(names: Data, values: Data) -> Data:
    """``map(keys, values)`` of two lists, or of one key and one value; null where a list is.

    Raises
    ------
    ExpressionError
        The lists differ in length, or a key is null or there twice.
    """
    if family(names.type) != "list":
        names, values = make(names), make(values)

    def run(rows: int, of_keys: Any, of_values: Any) -> pa.Array:
        one, two = flat_of(of_keys, rows), flat_of(of_values, rows)
        valid = one.valid & two.valid
        if (one.sizes[valid] != two.sizes[valid]).any():
            raise ExpressionError("map() needs as many values as keys")
        sizes = np.where(valid, one.sizes, 0)
        found, items = (side.values.filter(pa.array(valid[side.rows])) for side in (one, two))
        if found.null_count:
            raise ExpressionError("a key of map() is null; keys have a value, as coalesce() gives one")
        owners = np.repeat(np.arange(rows), sizes)
        numbers = keys(found)
        if len(np.unique(owners * (numbers.max(initial=0) + 1) + numbers)) < len(owners):
            raise ExpressionError("a key of map() is there twice; array_distinct() drops repeated elements")
        offsets = pa.array(np.concatenate([[0], np.cumsum(sizes)]), pa.int32())
        mask = None if valid.all() else pa.array(~valid)
        return pa.MapArray.from_arrays(offsets, found, items, mask=mask)

    return by_rows(run, names, values)


def make_map(*parts: Data) -> Data:
    """``make_map(key, value, …)``."""
    return map_of(make(*parts[::2]), make(*parts[1::2]))


def map_keys(maps: Data) -> Data:
    """The keys of a map as a list."""
    return _parts(maps, 0)


def map_values(maps: Data) -> Data:
    """The values of a map as a list."""
    return _parts(maps, 1)


def _parts(maps: Data, field: int) -> Data:
    def run(rows: int, values: Any) -> pa.Array:
        of = lists_of(values, rows)
        part = of.values.field(field)
        return made("map_keys()", pa.list_(part.type), [part], of.starts, of.sizes, of.valid)

    return by_rows(run, maps)


def entries(maps: Data) -> Data:
    """The entries of a map as a list of structs ``key``, ``value``."""
    kind = maps.type
    pair = pa.struct([pa.field("key", kind.key_type, nullable=False), pa.field("value", kind.item_type)])
    target = pa.list_(pa.field("item", pair, nullable=False))

    def run(rows: int, values: Any) -> pa.Array:
        of = lists_of(values, rows)
        pairs = pa.StructArray.from_arrays([of.values.field(0), of.values.field(1)], fields=list(pair))
        return made("map_entries()", target, [pairs], of.starts, of.sizes, of.valid)

    return by_rows(run, maps)


def extract(maps: Data, key: Data) -> Data:
    """A list of the value of a key: of null where there is none."""

    def run(rows: int, values: Any, wanted: Any) -> pa.Array:
        flat = flat_of(values, rows)
        sought, index = elements_of(wanted, rows)
        own, other = keys_of_all(flat.values.field(0), sought)
        hits = np.flatnonzero((own == other[index][flat.rows]) & (own != 0))
        items = flat.values.field(1)
        places = np.full(rows, len(items))
        places[flat.rows[hits]] = hits
        ones = np.ones(rows, np.int64)
        parts = [items, pa.nulls(1, items.type)]
        return from_index("map_extract()", pa.list_(items.type), parts, places, ones)

    return by_rows(run, maps, key)
