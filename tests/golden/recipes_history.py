"""Golden tables with several versions: appended, deleted from, compacted, updated, migrated.

Runs inside old environments: Python 3.10 and pyarrow 10 suffice.
"""

from __future__ import annotations

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tests.golden.recipe import Made, fresh, is_cpp, join, numbered, plain, stored, without, write
from tests.helpers.tables import random_table


def make_appended(path: str) -> Made:
    """Created, appended to, then overwritten by a table of other columns."""
    # Old releases compare dictionaries by place when they append, and never find them equal.
    one, two = (plain(rows, start, start + 21).drop(["colour"]) for rows, start in ((33, 0), (17, 100)))
    other = plain(23, 500, 23).drop(["colour"]) if is_cpp() else _other()
    write(one, path, max_rows_per_file=20)
    write(two, path, mode="append")
    write(other, path, mode="overwrite")
    if is_cpp():
        return Made(
            {1: one, 2: pa.concat_tables([one, two]), 3: other},
            "Appended to, then overwritten.",
            ordered_by="id",
        )
    versions = {1: join(one), 2: join(one, two), 3: stored(other)}
    return Made(versions, "Version 2 appends, version 3 overwrites with another schema.", ordered_by="id")


def _other() -> pa.Table:
    schema = pa.schema(
        [pa.field("id", pa.int64()), pa.field("name", pa.string(), False), pa.field("day", pa.date32())]
    )
    return numbered(random_table(schema, 23, seed=23), 500)


def make_deleted(path: str) -> Made:
    """Rows deleted in two steps, a whole fragment included, then overwritten and restored."""
    # No dictionary: releases up to 0.8.21 cannot restore a table that has one.
    one, two = (plain(rows, start, start + 31).drop(["colour"]) for rows, start in ((53, 0), (17, 100)))
    other = _other()
    write(one, path, max_rows_per_file=20)
    write(two, path, mode="append")
    lance.dataset(path).delete("id % 5 = 2 OR id = 116")
    lance.dataset(path).delete("(id >= 20 AND id < 40) OR id IN (3, 50)")
    write(other, path, mode="overwrite")
    lance.dataset(path, version=4).restore()
    both = join(one, two)
    ids = both["id"]
    fives = pa.array((ids.to_numpy() % 5 == 2) | (ids.to_numpy() == 116))
    third = without(both, fives)
    numbers = third["id"].to_numpy()
    fourth = without(third, pa.array(((numbers >= 20) & (numbers < 40)) | np.isin(numbers, [3, 50])))
    versions = {1: join(one), 2: both, 3: third, 4: fourth, 5: stored(other), 6: fourth}
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
    kept = stored(table).filter(pa.array((numbers % 7 == 0) | (numbers >= 6150)))
    return Made({1: stored(table), 2: kept}, "Deletions of version 2 as a bitmap of 5,271 rows.")


def make_compacted(path: str) -> Made:
    """Small fragments, some with deleted rows, put together."""
    parts = [plain(11 + i, 50 * i, 60 + i) for i in range(4)]
    for i, part in enumerate(parts):
        write(part, path, mode="append" if i else "create")
    lance.dataset(path).delete("id % 3 = 1")
    lance.dataset(path).optimize.compact_files(target_rows_per_fragment=35)
    whole = join(*parts)
    kept = without(whole, pa.array(whole["id"].to_numpy() % 3 == 1))
    latest = lance.dataset(path).version
    versions = {4: whole, 5: kept, latest: kept}
    return Made(versions, "Four fragments, a third of their rows deleted, compacted into fewer.")


def make_rowids(path: str) -> Made:
    """Stable row ids through append, delete, update, merge-insert and compaction."""
    one, two = plain(33, 0, 71), plain(17, 100, 72)
    write(one, path, max_rows_per_file=20, enable_stable_row_ids=True)
    write(two, path, mode="append")
    lance.dataset(path).delete("id IN (4, 5, 108)")
    lance.dataset(path).update({"word": "'changed'"}, where="id % 10 = 6")
    third = join(one, two)
    third = without(third, pa.array(np.isin(third["id"].to_numpy(), [4, 5, 108])))
    fourth = _changed(third, pa.array(third["id"].to_numpy() % 10 == 6))
    incoming = plain(9, 105, 73)
    merge = lance.dataset(path).merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    merge.execute(incoming)
    # 105..113 were partly there: 108 was deleted and is inserted anew.
    old = without(fourth, pa.array(np.isin(fourth["id"].to_numpy(), np.arange(105, 114))))
    fifth = join(fresh(old), incoming)
    lance.dataset(path).optimize.compact_files(target_rows_per_fragment=1000)
    versions = {2: join(one, two), 3: third, 4: fourth, 5: fifth, lance.dataset(path).version: fifth}
    return Made(
        versions, "Stable row ids: 3 deletes, 4 updates, 5 merges, the last compacts.", ordered_by="id"
    )


def _changed(table: pa.Table, chosen: pa.Array) -> pa.Table:
    words = pc.if_else(chosen, "changed", table["word"])
    return table.set_column(table.column_names.index("word"), "word", words)


def make_empty(path: str) -> Made:
    """Never a row, then rows, then every row deleted."""
    table = plain(13, 0, 81).drop(["colour"])
    write(table.slice(0, 0), path)
    write(table, path, mode="append")
    lance.dataset(path).delete("id >= 0")
    none = stored(table).slice(0, 0)
    return Made(
        {1: none, 2: stored(table), 3: none}, "Version 1 has no fragment, version 3 lost its only one."
    )


def make_migrated(path: str) -> Made:
    """Manifest names of the first kind renamed to the second, then one more version."""
    one, two = plain(13, 0, 91), plain(7, 100, 92)
    write(one, path, enable_v2_manifest_paths=False)
    lance.dataset(path).delete("id = 7")
    lance.dataset(path).migrate_manifest_paths_v2()
    write(two, path, mode="append")
    first = stored(one)
    kept = without(first, pa.array(first["id"].to_numpy() == 7))
    last = join(fresh(kept), two)
    return Made(
        {1: first, 2: kept, 3: last}, "Versions 1 and 2 were renamed from 1.manifest to the descending names."
    )
