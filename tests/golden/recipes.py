"""What the golden tables hold and how a release of pylance is made to write them; run by ``make_golden.py`` only.

Each recipe writes one table with the release at hand and returns what every version of it must give back. That
answer is computed from the input with pyarrow, never by a Lance reader. Every release since 0.3 has a say
afterwards: ``make_golden`` refuses to keep a table that its own writer reads differently.

Runs inside old environments: Python 3.10 and pyarrow 10 suffice.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tests.helpers.tables import all_types, all_types_table, random_table, stored_form

__all__ = ["RECIPES", "Made", "Recipe"]

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


@dataclass(frozen=True)
class Recipe:
    make: Callable[[str], Made]
    releases: tuple[str, ...]


def write(table: pa.Table, path: str, mode: str = "create", **options: Any) -> None:
    """``lance.write_dataset`` in the 0.1 format, however the release spells that."""
    known = inspect.signature(lance.write_dataset).parameters
    if "data_storage_version" in known:
        options["data_storage_version"] = "legacy"
    elif "use_legacy_format" in known:
        options["use_legacy_format"] = True
    options = {"max_rows_per_group": GROUP, **options}
    lance.write_dataset(table, path, mode=mode, **options)


def is_cpp() -> bool:
    """Whether this is a release of the C++ era."""
    return not hasattr(lance, "LanceDataset")


# --------------------------------------------------------------------------- every type


def make_types(path: str) -> Made:
    """Every type the release can store: 29 rows without nulls, then 14 with nulls wherever they are allowed."""
    types, left_out = _writable_types(path)
    full = all_types_table(29, types=types, seed=11)
    holes = all_types_table(14, types=types, seed=12, nulls=0.3)
    write(pa.concat_tables([full, holes]), path, max_rows_per_file=30)
    story = "Every type; the nulls of the last 14 rows are lost wherever the format loses them."
    return Made({1: stored_form(_same_dictionaries(full, holes))}, story, left_out)


def _writable_types(path: str) -> tuple[dict[str, pa.DataType], dict[str, str]]:
    """The types that this release writes and reads back right, found by trying each; and why not the others."""
    types: dict[str, pa.DataType] = {"id": pa.int32()}
    left_out = {}
    for name, kind in all_types().items():
        # Not every failure of a release is an Exception: a panic of the Rust core is a BaseException.
        try:
            table = all_types_table(12, types={name: kind}, seed=3)
            write(table, f"{path}.try-{name}")
            lance.dataset(f"{path}.try-{name}").to_table().validate(full=True)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            left_out[name] = str(error).splitlines()[0][:120].split("/home/")[0]
        else:
            types[name] = kind
    return types, left_out


def _same_dictionaries(first: pa.Table, second: pa.Table) -> pa.Table:
    """Both tables one after the other in a single chunk; the random dictionaries of one type are all the same."""
    joined = [pa.concat_arrays([a.chunk(0), b.chunk(0)]) for a, b in zip(first.columns, second.columns)]
    return pa.Table.from_arrays(joined, schema=first.schema)


CPP_TYPES = (
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 string binary date32 date64 time_s time_ms "
    "time_us time_ns timestamp_s timestamp_ms timestamp_us timestamp_ns timestamp_utc fixed_binary_3 dictionary_int8 "
    "dictionary_int32 vector_float32 vector_float64 vector_uint8 list_int list_string list_bool list_struct struct struct_nested"
).split()


def make_cpp_types(path: str) -> Made:
    """The types of the C++ era. It drops time zones, and cannot append a table whose type it changed."""
    types = {"id": pa.int32(), **{name: all_types()[name] for name in CPP_TYPES}}
    table = _numbered(all_types_table(37, types=types, seed=11))
    write(table, path, max_rows_per_group=GROUP, max_rows_per_file=0)
    at = table.column_names.index("timestamp_utc")
    naive = pa.field("timestamp_utc", pa.timestamp("us"))
    kept = table.set_column(at, naive, table["timestamp_utc"].cast(pa.timestamp("us")))
    # Nothing was nullable to that release: empty strings stay empty.
    return Made(
        {1: kept}, "Every type the C++ core stores; time zones are dropped by the writer.", ordered_by="id"
    )


def _numbered(table: pa.Table, start: int = 0) -> pa.Table:
    """With ``id`` counting up from ``start``."""
    at = table.column_names.index("id")
    numbers = pa.array(np.arange(start, start + table.num_rows), table.schema.field(at).type)
    return table.set_column(at, table.schema.field(at), numbers)


# --------------------------------------------------------------------------- strings and statistics


def make_strings(path: str) -> Made:
    """Sorted words, one group empty, one null, one with values beyond the 64 bytes of a bound; metadata on top."""
    words = [f"w{i:03d}" for i in range(20)] + [""] * 10 + [None] * 10
    words += ["long " + "é" * 40 + str(i) for i in range(10)] + ["\U0010ffff" * 20, "", None, "z"]
    rows = len(words)
    # Releases up to 0.15 panic when a required column has no upper bound, so that one value is another there.
    full = ["zz" if w and w > "z" else w or "" for w in words]
    schema = pa.schema(
        [
            pa.field("id", pa.int64(), False, {"unit": "rows"}),
            pa.field("word", pa.string()),
            pa.field("word_required", pa.string(), False),
            pa.field("large", pa.large_string()),
            pa.field("bytes", pa.binary()),
            pa.field("bytes_required", pa.large_binary(), False),
            pa.field("x", pa.float64()),
        ],
        {"made for": "tests"},
    )
    raw = [None if w is None else w.encode() for w in words]
    x = np.where(np.arange(rows) % 7 == 3, np.nan, np.arange(rows) / 4 - 5)
    columns = [range(rows), words, full, words, raw, [w.encode() for w in full]]
    arrays = [pa.array(c, f.type) for c, f in zip(columns, schema)] + [pa.array(x, from_pandas=False)]
    table = pa.Table.from_arrays(arrays, schema=schema)
    write(table, path, max_rows_per_file=40)
    return Made(
        {1: stored_form(table)},
        "Words in order: whole groups are empty, null, or cut in the page statistics.",
    )


# --------------------------------------------------------------------------- versions and deletions


def _plain(rows: int, start: int, seed: int) -> pa.Table:
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
    return _numbered(random_table(schema, rows, seed=seed), start)


def _join(*tables: pa.Table) -> pa.Table:
    """Stored form of tables written one after the other."""
    whole = tables[0]
    for table in tables[1:]:
        whole = _same_dictionaries(whole, table)
    return stored_form(whole)


def _without(table: pa.Table, gone: pa.Array | pa.ChunkedArray) -> pa.Table:
    return table.filter(pc.invert(gone))


def make_appended(path: str) -> Made:
    """Created, appended to, then overwritten by a table of other columns."""
    # Old releases compare dictionaries by place when they append, and never find them equal.
    one, two = (_plain(rows, start, start + 21).drop(["colour"]) for rows, start in ((33, 0), (17, 100)))
    other = _plain(23, 500, 23).drop(["colour"]) if is_cpp() else _other()
    write(one, path, max_rows_per_file=20)
    write(two, path, mode="append")
    write(other, path, mode="overwrite")
    if is_cpp():
        return Made(
            {1: one, 2: pa.concat_tables([one, two]), 3: other},
            "Appended to, then overwritten.",
            ordered_by="id",
        )
    versions = {1: _join(one), 2: _join(one, two), 3: stored_form(other)}
    return Made(versions, "Version 2 appends, version 3 overwrites with another schema.", ordered_by="id")


def _other() -> pa.Table:
    schema = pa.schema(
        [pa.field("id", pa.int64()), pa.field("name", pa.string(), False), pa.field("day", pa.date32())]
    )
    return _numbered(random_table(schema, 23, seed=23), 500)


def make_deleted(path: str) -> Made:
    """Rows deleted in two steps, a whole fragment included, then overwritten and restored."""
    # No dictionary: releases up to 0.8.21 cannot restore a table that has one.
    one, two = (_plain(rows, start, start + 31).drop(["colour"]) for rows, start in ((53, 0), (17, 100)))
    other = _other()
    write(one, path, max_rows_per_file=20)
    write(two, path, mode="append")
    lance.dataset(path).delete("id % 5 = 2 OR id = 116")
    lance.dataset(path).delete("(id >= 20 AND id < 40) OR id IN (3, 50)")
    write(other, path, mode="overwrite")
    lance.dataset(path, version=4).restore()
    both = _join(one, two)
    ids = both["id"]
    fives = pa.array((ids.to_numpy() % 5 == 2) | (ids.to_numpy() == 116))
    third = _without(both, fives)
    numbers = third["id"].to_numpy()
    fourth = _without(third, pa.array(((numbers >= 20) & (numbers < 40)) | np.isin(numbers, [3, 50])))
    versions = {1: _join(one), 2: both, 3: third, 4: fourth, 5: stored_form(other), 6: fourth}
    return Made(versions, "Versions 3 and 4 delete (4 removes a whole fragment), 5 overwrites, 6 restores 4.")


def make_bitmap(path: str) -> Made:
    """So many rows deleted from one fragment that the writer chooses the bitmap form; groups of 1,000 rows."""
    rows = 6200
    table = pa.table(
        {"id": pa.array(np.arange(rows), pa.int16()), "even": pa.array(np.arange(rows) % 2 == 0)}
    )
    write(table, path, max_rows_per_group=1000)
    lance.dataset(path).delete("id % 7 <> 0 AND id < 6150")
    numbers = np.arange(rows)
    kept = stored_form(table).filter(pa.array((numbers % 7 == 0) | (numbers >= 6150)))
    return Made({1: stored_form(table), 2: kept}, "Deletions of version 2 as a bitmap of 5,271 rows.")


# --------------------------------------------------------------------------- columns in several files


def make_merged(path: str) -> Made:
    """Columns added by a join, so that each fragment has two files; rows appended afterwards have one."""
    one = _plain(33, 0, 41).select(["id", "point", "word"])
    write(one, path, max_rows_per_file=20)
    # A column merged in cannot be a dictionary: no release writes its values then.
    extra = _plain(40, 0, 42).drop(["point", "word", "colour"])
    dataset = lance.dataset(path)
    # Keys of both tables are the row numbers, so the left join keeps order and finds a partner for every row.
    if is_cpp():
        dataset.merge(extra, "id", "id")
    else:
        dataset.merge(extra, "id")
    merged = one
    for name in extra.column_names[1:]:
        merged = merged.append_column(
            extra.schema.field(name), pa.concat_arrays([extra[name].chunk(0)]).slice(0, 33)
        )
    merged = _fresh(merged)
    versions = {1: stored_form(one), 2: stored_form(merged)}
    if is_cpp():
        return Made({1: one, 2: merged}, "Version 2 adds columns in files of their own.", ordered_by="id")
    more = _plain(13, 200, 43).select(merged.column_names)
    write(more, path, mode="append")
    versions[3] = _join(merged, more)
    return Made(versions, "Version 2 adds columns in files of their own; version 3 appends.", ordered_by="id")


def _fresh(table: pa.Table) -> pa.Table:
    """Copied, so that no array is a slice."""
    return table.take(pa.array(np.arange(table.num_rows)))


def make_evolved(path: str) -> Made:
    """Columns added by expression, renamed, cast and dropped, then rows deleted and everything compacted."""
    one = _plain(33, 0, 51)
    write(one, path, max_rows_per_file=20)
    dataset: Any = lance.dataset(path)
    dataset.add_columns({"double": "id * 2", "shout": "upper(word)"})
    dataset.alter_columns({"path": "x", "name": "y"}, {"path": "id", "data_type": pa.int32()})
    dataset.drop_columns(["flag", "point.a"])
    more = _evolved_more(lance.dataset(path).schema)
    write(more, path, mode="append")
    lance.dataset(path).delete("id % 4 = 1")
    first = stored_form(one)
    second = first.append_column("double", pc.multiply(first["id"], 2))
    second = second.append_column("shout", pc.utf8_upper(first["word"]))
    third, fourth = _altered(second)
    fifth = stored_form(_same_dictionaries(fourth, more))
    sixth = _without(fifth, pa.array(fifth["id"].to_numpy() % 4 == 1))
    versions = {
        1: first,
        2: second,
        **third,
        **{max(third) + 1 + i: t for i, t in enumerate([fourth, fifth, sixth])},
    }
    lance.dataset(path).optimize.compact_files(target_rows_per_fragment=1000)
    versions[lance.dataset(path).version] = sixth
    story = (
        "Added by SQL, renamed and cast, dropped (also one field of a struct), appended, deleted, compacted."
    )
    return Made(versions, story, ordered_by="id")


def _altered(table: pa.Table) -> tuple[dict[int, pa.Table], pa.Table]:
    """After the rename and the cast (one commit or two, by release), and after the drop."""
    renamed = table.rename_columns(["y" if n == "x" else n for n in table.column_names])
    cast = renamed.set_column(0, "id", renamed["id"].cast(pa.int32()))
    point = cast["point"].chunk(0)
    narrow = pa.StructArray.from_arrays([point.field(1)], fields=[point.type[1]])
    at = cast.column_names.index("point")
    dropped = cast.set_column(at, "point", narrow).drop(["flag"])
    return {3: cast}, dropped


def _evolved_more(schema: pa.Schema) -> pa.Table:
    return _numbered(random_table(schema, 13, seed=52), 200)


def make_compacted(path: str) -> Made:
    """Small fragments, some with deleted rows, put together."""
    parts = [_plain(11 + i, 50 * i, 60 + i) for i in range(4)]
    for i, part in enumerate(parts):
        write(part, path, mode="append" if i else "create")
    lance.dataset(path).delete("id % 3 = 1")
    lance.dataset(path).optimize.compact_files(target_rows_per_fragment=35)
    whole = _join(*parts)
    kept = _without(whole, pa.array(whole["id"].to_numpy() % 3 == 1))
    latest = lance.dataset(path).version
    versions = {4: whole, 5: kept, latest: kept}
    return Made(versions, "Four fragments, a third of their rows deleted, compacted into fewer.")


# --------------------------------------------------------------------------- stable row ids


def make_rowids(path: str) -> Made:
    """Stable row ids through append, delete, update, merge-insert and compaction."""
    one, two = _plain(33, 0, 71), _plain(17, 100, 72)
    write(one, path, max_rows_per_file=20, enable_stable_row_ids=True)
    write(two, path, mode="append")
    lance.dataset(path).delete("id IN (4, 5, 108)")
    lance.dataset(path).update({"word": "'changed'"}, where="id % 10 = 6")
    third = _join(one, two)
    third = _without(third, pa.array(np.isin(third["id"].to_numpy(), [4, 5, 108])))
    fourth = _changed(third, pa.array(third["id"].to_numpy() % 10 == 6))
    fresh = _fresh(_plain(9, 105, 73).slice(0, 9))
    merge = lance.dataset(path).merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    merge.execute(fresh)
    # 105..113 were partly there: 108 was deleted and is inserted anew.
    old = _without(fourth, pa.array(np.isin(fourth["id"].to_numpy(), np.arange(105, 114))))
    fifth = _join(_fresh(old), fresh)
    lance.dataset(path).optimize.compact_files(target_rows_per_fragment=1000)
    versions = {2: _join(one, two), 3: third, 4: fourth, 5: fifth, lance.dataset(path).version: fifth}
    return Made(
        versions, "Stable row ids: 3 deletes, 4 updates, 5 merges, the last compacts.", ordered_by="id"
    )


def _changed(table: pa.Table, chosen: pa.Array) -> pa.Table:
    words = pc.if_else(chosen, "changed", table["word"])
    return table.set_column(table.column_names.index("word"), "word", words)


# --------------------------------------------------------------------------- odd tables


def make_empty(path: str) -> Made:
    """Never a row, then rows, then every row deleted."""
    table = _plain(13, 0, 81).drop(["colour"])
    write(table.slice(0, 0), path)
    write(table, path, mode="append")
    lance.dataset(path).delete("id >= 0")
    none = stored_form(table).slice(0, 0)
    return Made(
        {1: none, 2: stored_form(table), 3: none}, "Version 1 has no fragment, version 3 lost its only one."
    )


def make_migrated(path: str) -> Made:
    """Manifest names of the first kind renamed to the second, then one more version."""
    one, two = _plain(13, 0, 91), _plain(7, 100, 92)
    write(one, path, enable_v2_manifest_paths=False)
    lance.dataset(path).delete("id = 7")
    lance.dataset(path).migrate_manifest_paths_v2()
    write(two, path, mode="append")
    first = stored_form(one)
    kept = _without(first, pa.array(first["id"].to_numpy() == 7))
    last = _join(_fresh(kept), two)
    return Made(
        {1: first, 2: kept, 3: last}, "Versions 1 and 2 were renamed from 1.manifest to the descending names."
    )


def make_missing(path: str) -> Made:
    """Columns that are in the schema and in no file of the first fragments, as only 0.20.0 lets one commit them."""
    one, two = _plain(33, 0, 95).drop(["colour"]), _plain(13, 100, 96).drop(["colour"])
    write(one, path, max_rows_per_file=20)
    pair = pa.struct([pa.field("a", pa.string()), pa.field("b", pa.list_(pa.int8()))])
    extra = pa.schema([pa.field("number", pa.int32()), pa.field("pair", pair), pa.field("term", pa.string())])
    dataset: Any = lance.dataset(path)
    schema = pa.schema([*dataset.schema, *extra])
    fragments = [fragment.metadata for fragment in dataset.get_fragments()]
    lance.LanceDataset.commit(path, lance.LanceOperation.Merge(fragments, schema), read_version=1)
    for added, column in zip(extra, random_table(extra, 13, seed=97).columns):
        two = two.append_column(added, column)
    write(two, path, mode="append")
    first = stored_form(one)
    second = first
    for added in extra:
        second = second.append_column(added, pa.nulls(33, added.type))
    third = pa.concat_tables([second, stored_form(two)])
    story = "Version 2 adds columns to the schema alone: they are null, also after version 3 appends rows that have them."
    return Made({1: first, 2: second, 3: third}, story, unread=frozenset({2, 3}))


def _recipe(make: Callable[[str], Made], releases: str) -> Recipe:
    return Recipe(make, tuple(releases.split()))


RECIPES: Mapping[str, Recipe] = {
    "cpp_types": _recipe(make_cpp_types, "0.2.9"),
    "types": _recipe(make_types, "0.3.19 0.4.21 0.7.5 0.8.21 0.10.18 0.39.0 14.0.2"),
    "strings": _recipe(make_strings, "0.3.19 0.8.0 0.8.19 0.8.21 0.39.0 14.0.2"),
    "appended": _recipe(make_appended, "0.2.9 0.3.19 0.4.21 0.15.0"),
    "deleted": _recipe(make_deleted, "0.7.5 0.8.21 0.15.0 14.0.2"),
    "bitmap": _recipe(make_bitmap, "0.8.21 14.0.2"),
    "merged": _recipe(make_merged, "0.2.9 0.4.21 0.7.5 0.8.0 0.8.21 14.0.2"),
    "evolved": _recipe(make_evolved, "0.10.18 0.20.0 14.0.2"),
    "compacted": _recipe(make_compacted, "0.8.0 0.20.0 7.1.0 14.0.2"),
    "rowids": _recipe(make_rowids, "0.39.0 1.0.4 14.0.2"),
    "empty": _recipe(make_empty, "0.8.21 14.0.2"),
    "migrated": _recipe(make_migrated, "0.20.0 14.0.2"),
    "missing": _recipe(make_missing, "0.20.0"),
}
"""Name of a golden table -> how to make it, and the releases that do."""
