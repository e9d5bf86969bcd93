"""What the recipes of golden tables share: writing in a format version with any release, and a table to write.

Runs inside old environments: Python 3.10 and pyarrow 10 suffice.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tests.helpers.tables import random_table, stored_form

__all__ = [
    "Made",
    "Recipe",
    "fresh",
    "is_cpp",
    "join",
    "numbered",
    "plain",
    "same_dictionaries",
    "stored",
    "versioned",
    "without",
    "write",
]

GROUP = 10
"""Rows per group: small, and no divisor of any row count used here."""


@dataclass
class Made:
    """What a recipe leaves behind: expected rows by version, and what a reader of the note should know."""

    versions: dict[int, pa.Table]
    story: str
    left_out: dict[str, str] = field(default_factory=dict)
    ordered_by: str | None = None
    """Column that identifies rows whose order the writer chose (after updates and merges)."""
    unread: frozenset[int] = frozenset()
    """Versions that the writer itself cannot read: nobody but the rules vouches for their answers."""
    fragile: bool = False
    """Whether the writer may fail on its own table, which then counts as not read by it."""
    refused: str = ""
    """Why nobody but the writer can read the table; such a table is there to be refused."""
    references: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Tags and branches: branch and version that each names or starts from, and its number of rows."""


@dataclass(frozen=True)
class Recipe:
    make: Callable[[str], Made]
    releases: tuple[str, ...]


DIALECT = ["legacy"]
"""Version that recipes write at the moment: legacy is 0.1."""


def versioned(version: str, make: Callable[[str], Made]) -> Callable[[str], Made]:
    """A recipe that writes another version of the format."""

    def made(path: str) -> Made:
        DIALECT[0] = version
        found = make(path)
        DIALECT[0] = "legacy"
        return found

    return made


def stored(table: pa.Table) -> pa.Table:
    """What the version being written keeps of a table: 0.1 loses most nulls, later ones none that is written here."""
    return stored_form(table) if DIALECT[0] == "legacy" else table.combine_chunks()


def write(table: pa.Table, path: str, mode: str = "create", **options: Any) -> None:
    """``lance.write_dataset`` in the version asked for, however the release spells that."""
    known = inspect.signature(lance.write_dataset).parameters
    if "data_storage_version" in known:
        options.setdefault("data_storage_version", DIALECT[0])
    elif "use_legacy_format" in known:
        options["use_legacy_format"] = DIALECT[0] == "legacy"
    options = {"max_rows_per_group": GROUP, **options}
    if is_cpp():
        # Of several files written at once, that release lists whichever thread was done first as the first.
        options.pop("max_rows_per_file", None)
    lance.write_dataset(table, path, mode=mode, **options)


def is_cpp() -> bool:
    """Whether this is a release of the C++ era."""
    return not hasattr(lance, "LanceDataset")


def same_dictionaries(first: pa.Table, second: pa.Table) -> pa.Table:
    """Both tables one after the other in a single chunk; the random dictionaries of one type are all the same."""
    joined = [pa.concat_arrays([a.chunk(0), b.chunk(0)]) for a, b in zip(first.columns, second.columns)]
    return pa.Table.from_arrays(joined, schema=first.schema)


def numbered(table: pa.Table, start: int = 0) -> pa.Table:
    """With ``id`` counting up from ``start``."""
    at = table.column_names.index("id")
    numbers = pa.array(np.arange(start, start + table.num_rows), table.schema.field(at).type)
    return table.set_column(at, table.schema.field(at), numbers)


def fresh(table: pa.Table) -> pa.Table:
    """Copied, so that no array is a slice."""
    return table.take(pa.array(np.arange(table.num_rows)))


def plain(rows: int, start: int, seed: int) -> pa.Table:
    """A narrow table with one column per way of encoding."""
    schema = pa.schema(
        [
            pa.field("id", pa.int64()),
            pa.field("x", pa.float32()),
            pa.field("flag", pa.bool_()),
            pa.field("word", pa.string()),
            pa.field("tags", pa.list_(pa.int16())),
            pa.field("point", pa.struct([pa.field("a", pa.int32()), pa.field("b", pa.string())])),
            pa.field("vector", pa.list_(pa.float32(), 4)),
            pa.field("colour", pa.dictionary(pa.int8(), pa.string())),
        ]
    )
    return numbered(random_table(schema, rows, seed=seed), start)


def join(*tables: pa.Table) -> pa.Table:
    """Stored form of tables written one after the other."""
    whole = tables[0]
    for table in tables[1:]:
        whole = same_dictionaries(whole, table)
    return stored(whole)


def without(table: pa.Table, gone: pa.Array | pa.ChunkedArray) -> pa.Table:
    return table.filter(pc.invert(gone))
