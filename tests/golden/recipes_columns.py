"""Golden tables whose columns came, went and changed, so that fragments have several files.

Runs inside old environments: Python 3.10 and pyarrow 10 suffice.
"""

from __future__ import annotations

from typing import Any

import lance
import pyarrow as pa
import pyarrow.compute as pc

from tests.golden.recipe import (
    Made,
    fresh,
    is_cpp,
    join,
    numbered,
    plain,
    same_dictionaries,
    stored,
    without,
    write,
)
from tests.helpers.tables import random_table


def make_merged(path: str) -> Made:
    """Columns added by a join, so that each fragment has two files; rows appended afterwards have one."""
    one = plain(33, 0, 41).select(["id", "point", "word"])
    write(one, path, max_rows_per_file=20)
    # A column merged in cannot be a dictionary: no release writes its values then.
    extra = plain(40, 0, 42).drop(["point", "word", "colour"])
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
    merged = fresh(merged)
    versions = {1: stored(one), 2: stored(merged)}
    if is_cpp():
        return Made({1: one, 2: merged}, "Version 2 adds columns in files of their own.", ordered_by="id")
    more = plain(13, 200, 43).select(merged.column_names)
    write(more, path, mode="append")
    versions[3] = join(merged, more)
    return Made(versions, "Version 2 adds columns in files of their own; version 3 appends.", ordered_by="id")


def make_evolved(path: str) -> Made:
    """Columns added by expression, renamed, cast and dropped, then rows deleted and everything compacted."""
    one = plain(33, 0, 51)
    write(one, path, max_rows_per_file=20)
    dataset: Any = lance.dataset(path)
    dataset.add_columns({"double": "id * 2", "shout": "upper(word)"})
    dataset.alter_columns({"path": "x", "name": "y"}, {"path": "id", "data_type": pa.int32()})
    dataset.drop_columns(["flag", "point.a"])
    more = _evolved_more(lance.dataset(path).schema)
    write(more, path, mode="append")
    lance.dataset(path).delete("id % 4 = 1")
    first = stored(one)
    second = first.append_column("double", pc.multiply(first["id"], 2))
    second = second.append_column("shout", pc.utf8_upper(first["word"]))
    third, fourth = _altered(second)
    fifth = stored(same_dictionaries(fourth, more))
    sixth = without(fifth, pa.array(fifth["id"].to_numpy() % 4 == 1))
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
    return numbered(random_table(schema, 13, seed=52), 200)


def make_missing(path: str) -> Made:
    """Columns that are in the schema and in no file of the first fragments, as only 0.20.0 lets one commit them."""
    one, two = plain(33, 0, 95).drop(["colour"]), plain(13, 100, 96).drop(["colour"])
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
    first = stored(one)
    second = first
    for added in extra:
        second = second.append_column(added, pa.nulls(33, added.type))
    third = pa.concat_tables([second, stored(two)])
    story = "Version 2 adds columns to the schema alone: they are null, also after version 3 appends rows that have them."
    return Made({1: first, 2: second, 3: third}, story, unread=frozenset({2, 3}))
