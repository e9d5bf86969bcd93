"""Golden tables of the 2.x versions: every type, every encoding a release chooses or is asked for, blobs, mixtures.

Runs inside old environments: releases since 0.13.0 under the pyarrow of today.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import lance
import numpy as np
import pyarrow as pa

from tests.golden.recipe import DIALECT, Made, numbered, plain, same_dictionaries, stored, without, write
from tests.helpers.tables import all_types, random_table

__all__ = [
    "make_asked",
    "make_blobs",
    "make_encodings",
    "make_equal_lengths",
    "make_lost_structs",
    "make_maps",
    "make_mixed",
    "make_preview",
    "make_symbols",
    "make_types",
    "with_environment",
]


FEWER = frozenset(
    """null bool int8 uint16 int64 float16 float64 string large_string binary date32 time_us timestamp_ny duration_ms
    decimal decimal256 fixed_binary_3 dictionary_int8 dictionary_of_int64 vector_float32 vector_bool matrix list_int
    large_list_int list_string list_list list_struct list_vector list_dictionary list_null struct struct_nested
    struct_vector""".split()
)
"""Types of the tables of old releases, to keep those small."""


def make_types(path: str) -> Made:
    """Every type the release can store and give back: 29 rows without nulls, then 14 with nulls where they can be."""
    types, left_out = _writable(path)
    schema = pa.schema([pa.field(name, kind) for name, kind in types.items()])
    full = numbered(random_table(schema, 29, seed=11))
    holes = numbered(_storable(random_table(schema, 14, seed=12, nulls=0.3)), 29)
    table = pa.concat_tables([full, holes])
    # The border of files is that of the batches: early releases write the bitmaps of slices from their first bit.
    write(table, path, max_rows_per_file=29)
    story = "Every type, nulls in the last 14 rows."
    return Made({1: same_dictionaries(full, holes)}, story, left_out, fragile=True)


def _writable(path: str) -> tuple[dict[str, pa.DataType], dict[str, str]]:
    """Types that this release writes and reads back right, found by trying each; and why not the others."""
    from tests.helpers.compare import assert_tables_equal

    types: dict[str, pa.DataType] = {"id": pa.int32()}
    left_out = {}
    for name, kind in all_types().items():
        if name not in FEWER and lance.__version__ != "14.0.2":
            continue
        schema = pa.schema([pa.field(name, kind)])
        parts = [random_table(schema, 12, seed=3), _storable(random_table(schema, 12, seed=4, nulls=0.3))]
        # Not every failure of a release is an Exception: a panic of the Rust core is a BaseException.
        try:
            write(pa.concat_tables(parts), f"{path}.try-{name}", max_rows_per_file=12)
            own = lance.dataset(f"{path}.try-{name}").to_table()
            own.validate(full=True)
            assert_tables_equal(own, same_dictionaries(*parts), nullability=False)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            left_out[name] = (str(error).splitlines() or [type(error).__name__])[0][:120].split(", /")[0]
        else:
            types[name] = kind
    return types, left_out


def _storable(table: pa.Table) -> pa.Table:
    """Without the struct nulls that version 2.0 cannot hold, their children as they lie there."""
    if DIALECT[0] != "2.0":
        return table
    arrays = [_no_struct_nulls(column.combine_chunks()) for column in table.columns]
    return pa.Table.from_arrays(arrays, schema=table.schema)


def _no_struct_nulls(array: Any) -> pa.Array:
    array = array.chunk(0) if isinstance(array, pa.ChunkedArray) else array
    kind = array.type
    if pa.types.is_struct(kind):
        children = [_no_struct_nulls(array.field(i)) for i in range(kind.num_fields)]
        return pa.Array.from_buffers(kind, len(array), [None], children=children)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.Array.from_buffers(
            kind, len(array), array.buffers()[:2], children=[_no_struct_nulls(array.values)]
        )
    return array


def make_maps(path: str) -> Made:
    """Maps and fixed-size lists of structs, which 2.2 brings; nulls in all places."""
    rows = 60
    maps = [
        None if i % 9 == 4 else [(f"k{j}", None if (i + j) % 5 == 0 else i * j) for j in range(i % 4)]
        for i in range(rows)
    ]
    nested = [[(i, {"x": float(j)}) for j in range(i % 3)] for i in range(rows)]
    table = pa.table(
        {
            "id": pa.array(range(rows)),
            "map": pa.array(maps, pa.map_(pa.string(), pa.int64())),
            "of_struct": pa.array(nested, pa.map_(pa.int32(), pa.struct([pa.field("x", pa.float64())]))),
            "listed": pa.array(
                [[m, m] if m else [] for m in maps], pa.list_(pa.map_(pa.string(), pa.int64()))
            ),
        }
    )
    write(table, path, max_rows_per_file=40)
    return Made({1: table}, "Maps, maps of structs, lists of maps; nulls among them.")


def _rows() -> int:
    """As many as a version needs before it compresses text; 2.0 never does."""
    if DIALECT[0] == "2.0" or lance.__version__ in {"0.16.1", "0.18.2"}:
        return 480
    return 1080


def _cut(text: str) -> int:
    """Length of short strings: all the same, but for 0.18.2, which loses nulls then."""
    return 5 + len(text) % 7 if lance.__version__ == "0.18.2" else 9


def _varied(rows: int, start: int) -> pa.Table:
    rng = np.random.default_rng(start + 5)
    letters = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz      ", np.uint8)
    texts = [letters[rng.integers(0, 32, int(n))].tobytes().decode() for n in rng.integers(20, 45, rows)]
    gone = rng.random(rows) < 0.15
    sizes = rng.integers(0, 4, rows)
    offsets = pa.array(np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32))
    items = pa.array(rng.integers(0, 500, int(sizes.sum())), mask=rng.random(int(sizes.sum())) < 0.1)
    colours = ("red", "green", "blue", "a colour of a longer name", "")
    picks = rng.integers(0, 5, rows)
    return pa.table(
        {
            "id": pa.array(np.arange(start, start + rows)),
            "small": pa.array(rng.integers(0, 1000, rows)),
            "narrow": pa.array(rng.integers(0, 30, rows).astype(np.uint16)),
            "signed": pa.array(rng.integers(-60, 60, rows).astype(np.int32)),
            "holed": pa.array(rng.integers(0, 100, rows).astype(np.int32), mask=gone),
            "runs": pa.array(np.repeat(np.arange(rows // 60), 60).astype(np.int64)),
            "same": pa.array(np.full(rows, 7)),
            "nothing": pa.nulls(rows, pa.float32()),
            "flag": pa.array(rng.random(rows) < 0.5, mask=gone),
            "colour": pa.array([colours[p] for p in picks]),
            "colour_holed": pa.array([None if g else colours[p] for p, g in zip(picks, gone)], pa.string()),
            "text": pa.array(texts),
            "large": pa.array([None if g else t[: _cut(t)] for t, g in zip(texts, gone)], pa.large_string()),
            "tags": pa.ListArray.from_arrays(offsets, items),
            "vector": pa.FixedSizeListArray.from_arrays(
                pa.array(rng.standard_normal(rows * 4).astype(np.float32)), 4
            ),
        }
    )


def _wide(rows: int, start: int) -> pa.Table:
    """Few rows of the same columns with long values, and vectors kept as they are."""
    table = _varied(60, start).slice(0, rows).combine_chunks()
    texts = [f"{i} " + "long text that repeats itself " * (10 + i % 7) for i in range(rows)]
    at = table.column_names.index("text")
    large = pa.array([None if i % 5 == 2 else t for i, t in enumerate(texts)], pa.large_string())
    table = table.set_column(at, "text", pa.array(texts))
    return table.set_column(at + 1, "large", large)


def make_encodings(path: str) -> Made:
    """Data that make a writer choose each of its encodings; long values in a fragment of their own."""
    one, two = _varied(_rows(), 0), _wide(12, 5000)
    if DIALECT[0] == "2.3":
        one = one.drop_columns(["nothing"])
        two = two.drop_columns(["nothing"])
    write(one, path)
    write(two, path, mode="append")
    both = same_dictionaries(one, two.combine_chunks())
    story = "Bit-packing, runs, constants, dictionaries, FSST, lists; long values appended."
    return Made({1: one, 2: both}, story, fragile=True)


def make_equal_lengths(path: str) -> Made:
    """Strings of one length, of which 0.18.2 keeps no place for nulls: no one can tell whose the values are."""
    words = [None if i % 4 == 1 else f"word {i:03}" for i in range(60)]
    table = pa.table({"id": pa.array(range(60)), "word": pa.array(words)})
    write(table, path)
    refused = "strings of equal length: the values of null rows are missing"
    return Made({1: table}, "Strings of one length with nulls.", fragile=True, refused=refused)


def make_preview(path: str) -> Made:
    """A few columns in a version that was not settled yet, as only the releases of that time read it."""
    table = _varied(180, 0).select(["id", "holed", "colour", "tags"])
    write(table, path)
    refused = "a preview of 2.1: pages are described by a message that was never released"
    return Made({1: table}, "Written as 2.1 before that was what it is.", refused=refused)


def make_symbols(path: str) -> Made:
    """So much text that 0.15.0 turns to FSST (4 MiB in a page), of so few words that little of it is left."""
    rng, rows = np.random.default_rng(15), 6000
    words = ("lancecy ", "columnar", "symbols ", "format 2", "é, ö, ü ")
    picks = rng.integers(0, len(words), (rows, 2))
    texts = [(words[a] + words[b]) * 45 for a, b in picks]
    gone = rng.random(rows) < 0.1
    table = pa.table(
        {
            "id": pa.array(np.arange(rows)),
            "text": pa.array([None if g else t for t, g in zip(texts, gone)], pa.string()),
        }
    )
    write(table, path)
    return Made({1: table}, "Text of few words, compressed by FSST.")


def with_environment(name: str, value: str, make: Callable[[str], Made]) -> Callable[[str], Made]:
    """A recipe run under a variable that its release looks at when it writes."""

    def made(path: str) -> Made:
        os.environ[name] = value
        found = make(path)
        found.story += f" {name}={value}."
        return found

    return made


def _knows_lz4() -> bool:
    major, minor = (int(part) for part in lance.__version__.split(".")[:2])
    return (major, minor) >= (0, 39)


def make_asked(path: str) -> Made:
    """Columns whose metadata ask for a compression or a structure."""
    table = _varied(600, 0)
    asked = {
        "small": ("compression", "zstd"),
        "text": ("compression", "zstd"),
        "large": ("compression", "lz4" if _knows_lz4() else "zstd"),
        "colour": ("compression", "none"),
        "signed": ("structural-encoding", "fullzip"),
        "tags": ("structural-encoding", "fullzip"),
    }
    fields = []
    for field in table.schema:
        key, value = asked.get(field.name, ("", ""))
        fields.append(field.with_metadata({f"lance-encoding:{key}": value}) if key else field)
    table = table.drop_columns(["tags"]) if DIALECT[0] == "2.0" else table
    schema = pa.schema([f for f in fields if f.name in table.column_names])
    table = pa.Table.from_arrays([c.combine_chunks() for c in table.columns], schema=schema)
    write(table, path)
    return Made({1: table}, "Columns that ask for zstd, lz4, none and full-zip.")


def make_lost_structs(path: str) -> Made:
    """Struct nulls that releases up to 7.1.0 drop without a word: a struct of what lies under the null remains."""
    schema = pa.schema(
        [
            pa.field("id", pa.int64()),
            pa.field("point", pa.struct([pa.field("a", pa.int32()), pa.field("b", pa.string())])),
            pa.field("points", pa.list_(pa.struct([pa.field("a", pa.int16())]))),
        ]
    )
    table = numbered(random_table(schema, 40, seed=8, nulls=0.3))
    write(table, path)
    kept = pa.Table.from_arrays([_no_struct_nulls(c) for c in table.columns], schema=schema)
    return Made(
        {1: kept}, "The input had null structs, which this writer lost; what lay under them is what is left."
    )


def blob(row: int) -> bytes | None:
    """The blob of a row of ``make_blobs``."""
    if row % 7 == 3:
        return None
    return b"" if row % 7 == 5 else bytes([row % 251]) * (row * 37 % 400 + 1)


def make_blobs(path: str) -> Made:
    """Blobs of the kind that field metadata ask for, nulls and empty ones among them; read as descriptors.

    Where a blob lies is the writer's choice, so the answers here are its own; what lies there is computed from the
    row number by whoever tests it.
    """
    field = pa.field("blob", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    schema = pa.schema([pa.field("id", pa.int64()), field])
    parts = []
    for start, rows in ((0, 30), (30, 11)):
        values = [blob(i) for i in range(start, start + rows)]
        parts.append(
            pa.table(
                [pa.array(range(start, start + rows)), pa.array(values, pa.large_binary())], schema=schema
            )
        )
    write(parts[0], path)
    write(parts[1], path, mode="append")
    lance.dataset(path).delete("id IN (4, 33)")
    versions = {v: _nullable_children(lance.dataset(path, version=v).to_table()) for v in (2, 3)}
    return Made(
        versions,
        "Blob of row n: null if n % 7 = 3, empty if n % 7 = 5, else n * 37 % 400 + 1 bytes n % 251.",
        unread=frozenset({2, 3}),
    )


def _nullable_children(table: pa.Table) -> pa.Table:
    """The table with descriptors as 14.0.2 gives them for 2.0 and 2.1; early releases say that no part is null."""
    kind = pa.struct([pa.field("position", pa.uint64()), pa.field("size", pa.uint64())])
    column = table["blob"]
    if [f.name for f in column.type] != [f.name for f in kind]:
        return table
    chunks = [
        pa.StructArray.from_arrays(c.flatten(), fields=list(kind), mask=c.is_null()) for c in column.chunks
    ]
    field = table.schema.field("blob").with_type(kind)
    return table.set_column(1, field, pa.chunked_array(chunks, kind))


def make_mixed(path: str) -> Made:
    """Fragments of unlike versions in one table, then rows deleted and a column added to all."""
    parts = [plain(17, 50 * i, 80 + i) for i in range(4)]
    for i, (part, version) in enumerate(zip(parts, ("2.1", "2.0", "2.2", "2.1"))):
        write(
            part, path, mode="append" if i else "create", data_storage_version=version, max_rows_per_file=10
        )
    lance.dataset(path).delete("id % 5 = 1")
    whole = parts[0]
    for part in parts[1:]:
        whole = same_dictionaries(whole, part)
    kept = without(stored(whole), pa.array(whole["id"].to_numpy() % 5 == 1))
    lance.dataset(path).add_columns({"double": "id * 2"})
    doubled = kept.append_column("double", pa.array(kept["id"].to_numpy() * 2))
    return Made(
        {4: whole, 5: kept, 6: doubled},
        "Files of 2.0, 2.1 and 2.2 side by side (flag 256); a column added later.",
    )
