"""Fixed-size lists of structs within lists, maps and each other, as deep as one likes.

Release 14 writes those of 2.2 unless lists outside are null or empty, and does not read them: what was written is
what must come back.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lancecy
from tests.helpers.compare import assert_tables_equal
from tests.interop import live
from tests.interop.test_pylance_nested import fresh, write

pytestmark = pytest.mark.interop

LEAVES = (pa.int32(), pa.string(), pa.bool_(), pa.float64(), pa.list_(pa.int16(), 2), pa.binary(260))
TABLES = 25


def parts_of(kind: pa.DataType) -> list[pa.DataType]:
    """Types one level down; a map's entries left out."""
    if pa.types.is_map(kind):
        return [kind.item_type]
    return [kind.field(i).type for i in range(kind.num_fields)]


def is_fixed(kind: pa.DataType) -> bool:
    return bool(pa.types.is_fixed_size_list(kind) and pa.types.is_struct(kind.value_type))


def is_varying(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_map(kind))


def has_fixed(kind: pa.DataType) -> bool:
    return is_fixed(kind) or any(map(has_fixed, parts_of(kind)))


def has_fixed_in_lists(kind: pa.DataType) -> bool:
    return (is_varying(kind) and has_fixed(kind)) or any(map(has_fixed_in_lists, parts_of(kind)))


def random_type(rng: np.random.Generator, depth: int, must: bool = True) -> pa.DataType:
    """A type nested some ``depth`` deep; with ``must`` it has a fixed-size list of structs."""
    chosen = rng.choice(["list", "large_list", "map", "struct", "fixed", "fixed"] + ["leaf"] * (not must))
    if depth <= 0:
        chosen = "fixed" if must else "leaf"
    if chosen == "leaf":
        return LEAVES[rng.integers(len(LEAVES))]
    must = must and chosen != "fixed"
    if chosen in ("struct", "fixed"):
        count = int(rng.integers(1, 3))
        holder = int(rng.integers(count))
        item = pa.struct([(f"f{i}", random_type(rng, depth - 1, must and i == holder)) for i in range(count)])
        return pa.list_(item, int(rng.integers(1, 4))) if chosen == "fixed" else item
    child = random_type(rng, depth - 1, must)
    if chosen == "map":
        return pa.map_(pa.string(), child)
    return pa.list_(child) if chosen == "list" else pa.large_list(child)


def random_value(rng: np.random.Generator, kind: pa.DataType, share: float, version: str) -> Any:
    """A value; ``share`` of all that may be null is."""
    types = pa.types
    whole = version == "2.2" and has_fixed_in_lists(kind)
    if not whole and rng.random() < share:
        return None
    if types.is_struct(kind):
        return {field.name: random_value(rng, field.type, share, version) for field in kind}
    if types.is_nested(kind):
        fixed = types.is_fixed_size_list(kind)
        count = kind.list_size if fixed else int(rng.integers(1 if whole else 0, 4))
        [item] = parts_of(kind)
        items = [random_value(rng, item, share, version) for _ in range(count)]
        return [(str(i), item) for i, item in enumerate(items)] if types.is_map(kind) else items
    number = int(rng.integers(1000))
    if types.is_boolean(kind):
        return number % 2 == 0
    if types.is_fixed_size_binary(kind):
        return str(number).encode().ljust(kind.byte_width)
    return str(number) if types.is_string(kind) else number


@pytest.mark.parametrize("version", ["2.2", "2.3"])
def test_random_fixed_lists_of_structs(version: str, tmp_path: Path) -> None:
    in_lists = 0
    for number in range(TABLES):
        rng = np.random.default_rng([number, int(version[-1])])
        kind = random_type(rng, int(rng.integers(1, 4)))
        in_lists += has_fixed_in_lists(kind)
        rows = int(rng.choice([1, 5, 60, 1200], p=[0.1, 0.2, 0.4, 0.3]))
        share = float(rng.choice([0, 0.1, 0.4]))
        values = pa.array([random_value(rng, kind, share, version) for _ in range(rows)], kind)
        table = pa.table({"id": np.arange(rows), "c": values})
        write(table, tmp_path / f"t{number}", version, rng)
        try:
            check(lancecy.dataset(tmp_path / f"t{number}"), fresh(table), rng)
        except AssertionError as error:
            raise AssertionError(f"table {number} of version {version}, {kind}: {error}") from error
    assert in_lists > TABLES // 3


def check(mine: lancecy.Dataset, table: pa.Table, rng: np.random.Generator) -> None:
    rows = table.num_rows
    assert_tables_equal(mine.to_table(), table, hint="full scan")
    offset, limit = int(rng.integers(0, rows)), int(rng.integers(1, rows + 1))
    assert_tables_equal(mine.to_table(offset=offset, limit=limit), table.slice(offset, limit), hint="range")
    picked = rng.integers(0, rows, min(2 * rows, 20))
    assert_tables_equal(mine.take(picked), table.take(pa.array(picked)), hint=f"take {picked.tolist()}")
    expected = table.filter(pa.array(np.arange(rows) % 7 == 1))
    assert_tables_equal(mine.to_table(filter="id % 7 = 1"), expected, hint="filter")


def test_fixed_lists_of_structs_of_many_small_fragments(tmp_path: Path) -> None:
    kind = pa.list_(pa.struct([("a", pa.int32())]), 2)
    values = [None if n % 5 == 3 else [{"a": 2 * n}, {"a": 2 * n + 1}] for n in range(60)]
    table = pa.table({"id": np.arange(60), "c": pa.array(values, kind)})
    for start in range(0, 60, 10):
        live.append(fresh(table.slice(start, 10)), tmp_path / "t", data_storage_version="2.2")
    ds = lancecy.dataset(tmp_path / "t")
    for seed in range(2):  # what was read before is read together
        check(ds, table, np.random.default_rng(seed))
