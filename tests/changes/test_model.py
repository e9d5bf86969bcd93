"""Random histories of a table that lancecy and pylance change in turns, held against a model after every change.

``make model`` runs many more of them: LANCECY_MODEL_EXAMPLES histories of LANCECY_MODEL_STEPS changes.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import lancecy
from lancecy import DataFile, FragmentMetadata, LanceOperation
from lancecy.errors import ConflictError
from tests.changes.model import NEVER_NULL, POOL, Column, Table, arrow_of, column_of, rows_of

pytestmark = pytest.mark.interop
lance = pytest.importorskip("lance")
importlib.import_module("lance.optimize")

EXAMPLES = int(os.environ.get("LANCECY_MODEL_EXAMPLES", "20"))
STEPS = int(os.environ.get("LANCECY_MODEL_STEPS", "15"))

INDICES = {"word": "BITMAP", "tags": "LABEL_LIST", "text": "INVERTED", "vec": "IVF_FLAT"}
CASTS = {
    pa.int64(): pa.int32(),
    pa.int32(): pa.int64(),
    pa.string(): pa.large_string(),
    pa.large_string(): pa.string(),
}

counts = st.integers(1, 18)
divisors = st.integers(2, 9)
picks = st.integers(0, 1 << 16)


def place(column: Column, pool: str) -> int:
    """Where a member of a struct is that is this in the pool."""
    return [each for _, each in column.members].index(pool)


class Histories(RuleBasedStateMachine):
    """What can happen to a table."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="lancecy-model-"))
        self.table: Table | None = None
        self.tagged: set[int] = set()
        self.renamed = 0

    @initialize(
        version=st.sampled_from(["0.1", "2.0", "2.1", "2.2"]), stable=st.booleans(), bases=st.integers(0, 2)
    )
    def create(self, version: str, stable: bool, bases: int) -> None:
        self.table = Table(self.folder, version, stable, bases)

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    @invariant()
    def agree(self) -> None:
        if self.table is not None:
            self.table.check()

    @property
    def t(self) -> Table:
        assert self.table is not None
        return self.table

    def targets(self, pick: int) -> list[str] | None:
        names = sorted(self.t.now.bases)
        return names[pick % len(names) :] if names and pick % 3 else None

    # -- lancecy ------------------------------------------------------------------------------

    @rule(count=counts, pick=picks, per_file=st.sampled_from([4, 1000]), lacking=st.booleans())
    def append(self, count: int, pick: int, per_file: int, lacking: bool) -> None:
        t = self.t
        columns = [
            column
            for i, column in enumerate(t.now.columns)
            if not (lacking and t.version != "0.1" and column.nullable and pick >> i & 1)
        ]
        rows = t.new_rows(count, columns)
        ordered = columns[::-1] if pick % 2 else columns
        t.mine().append(arrow_of(rows, ordered), max_rows_per_file=per_file, target_bases=self.targets(pick))
        t.made(t.plus(t.now, rows, t.latest + 1))

    @rule(counts=st.lists(counts, min_size=1, max_size=3), pick=picks)
    def commit_fragments(self, counts: list[int], pick: int) -> None:
        t = self.t
        read, state = t.latest, t.now
        fragments, parts = [], []
        for count in counts:
            parts.append(t.new_rows(count, state.columns))
            data = arrow_of(parts[-1], state.columns)
            fragments += lancecy.write_fragments(data, t.mine(), target_bases=self.targets(pick))
        if pick % 2:
            self.delete(2 + pick % 5, pick)
        lancecy.commit(t.uri, LanceOperation.Append(fragments), read_version=read)
        state = t.now
        for rows in parts:
            state = t.plus(state, rows, t.latest + 1)
        t.made(state)

    @rule(divisor=divisors, pick=picks)
    def delete(self, divisor: int, pick: int) -> None:
        t, rest = self.t, pick % divisor
        left = t.now.without(lambda n: n % divisor == rest)
        found = t.mine().delete(f"n % {divisor} = {rest}")
        assert found == {"num_deleted_rows": len(t.now.rows) - len(left.rows)}
        if found["num_deleted_rows"]:
            t.made(left)

    @rule(divisor=divisors, pick=picks)
    def delete_from_an_older_version(self, divisor: int, pick: int) -> None:
        """Rows that came since may stay; rows that were there go, unless the history was cut."""
        t, rest = self.t, pick % divisor
        readable = t.readable()
        old = readable[pick % len(readable)]
        before = t.latest
        try:
            t.mine(old).delete(f"n % {divisor} = {rest}")
        except ConflictError:
            assert lancecy.dataset(t.uri).version == before
            return
        if lancecy.dataset(t.uri).version == before:
            return
        known = t.states[old].rows
        some = t.now.without(lambda n: n % divisor == rest and n in known)
        left = {row["n"] for row in t.mine().to_table(["n"]).to_pylist()}
        every = t.now.without(lambda n: n % divisor == rest)
        t.made(every if left == set(every.rows) else some)

    @rule(count=st.integers(0, 20), names=st.permutations(list(POOL)), size=st.integers(0, 5), pick=picks)
    def overwrite(self, count: int, names: list[str], size: int, pick: int) -> None:
        t = self.t
        columns = tuple(column_of(name) for name in names[:size] if name in t.pool)
        rows = t.new_rows(count, columns)
        data = arrow_of(rows, columns)
        t.mine().insert(data, mode="overwrite", max_rows_per_file=6, target_bases=self.targets(pick))
        t.made(t.plus(replace(t.now, columns=columns, rows={}, ids={}), rows, t.latest + 1))

    @rule(pick=picks)
    def restore(self, pick: int) -> None:
        # Also versions from before a base was moved: its files are where it is now.
        t = self.t
        old = sorted(t.states)[pick % len(t.states)]
        t.mine(old).restore()
        bases = {name: t.places[name] for name in t.states[old].bases}
        t.made(replace(t.states[old], bases=bases))

    @rule(pick=picks)
    def look_back(self, pick: int) -> None:
        readable = self.t.readable()
        self.t.check(readable[pick % len(readable)])

    @rule(key=st.sampled_from("abc"), value=st.one_of(st.none(), st.text(max_size=3)), pick=picks)
    def maps(self, key: str, value: str | None, pick: int) -> None:
        t = self.t
        mine = t.mine()
        if pick % 4 == 0:
            t.made(replace(t.now, config=mine.update_config({key: value})))
            return
        if pick % 4 == 1:
            mine.update_metadata({key: value})
        elif pick % 4 == 2:
            mine.update_schema_metadata({key: value})
            assert {k.decode(): v.decode() for k, v in (t.theirs().schema.metadata or {}).items()}.get(
                key
            ) == value
        else:
            mine.update_field_metadata({"n": {key: value}})
            assert ((t.theirs().schema.field("n").metadata or {}).get(key.encode()) or b"").decode() == (
                value or ""
            )
        t.made(t.now)

    @rule()
    def add_base(self) -> None:
        base = self.t.new_base()
        self.t.mine().add_bases([base])
        self.t.made(replace(self.t.now, bases={**self.t.now.bases, str(base.name): Path(base.path)}))

    @precondition(lambda self: self.table is not None and self.table.now.bases)
    @rule(pick=picks)
    def relocate_base(self, pick: int) -> None:
        t = self.t
        name = sorted(t.now.bases)[pick % len(t.now.bases)]
        moved = t.rename(name)
        t.mine().relocate_base(name, moved)
        t.made(replace(t.now, bases={**t.now.bases, name: moved}))

    # -- pylance ------------------------------------------------------------------------------

    @rule(count=counts)
    def append_theirs(self, count: int) -> None:
        t = self.t
        rows = t.new_rows(count, t.now.columns)
        lance.write_dataset(arrow_of(rows, t.now.columns), t.uri, mode="append", max_rows_per_file=7)
        t.made(t.plus(t.now, rows, t.latest + 1))

    @rule(divisor=divisors, pick=picks)
    def delete_theirs(self, divisor: int, pick: int) -> None:
        t, rest = self.t, pick % divisor
        t.theirs().delete(f"n % {divisor} = {rest}")
        t.made(t.now.without(lambda n: n % divisor == rest))

    @rule()
    def index_theirs(self) -> None:
        t = self.t
        if not t.now.rows:
            return
        self._unchanged(lambda: t.theirs().create_scalar_index("n", "BTREE", replace=True))
        for kind, index in INDICES.items():
            column = t.now.of_kind(kind)
            if column is not None:
                self._indexed(column, index)

    def _indexed(self, column: Column, index: str) -> None:
        t = self.t
        if index != "IVF_FLAT":
            self._unchanged(lambda: t.theirs().create_scalar_index(column.name, index, replace=True))
        elif sum(row[column.name] is not None for row in t.now.rows.values()) >= 4:
            self._unchanged(
                lambda: t.theirs().create_index(column.name, index, num_partitions=2, replace=True)
            )

    @rule()
    def optimize_theirs(self) -> None:
        self._unchanged(self.t.theirs().optimize.optimize_indices)

    def _unchanged(self, change: Callable[[], Any]) -> None:
        change()
        if lancecy.dataset(self.t.uri).version > self.t.latest:
            self.t.made(self.t.now)

    @rule(pick=picks)
    def tag_theirs(self, pick: int) -> None:
        readable = self.t.readable()
        version = readable[pick % len(readable)]
        if version not in self.tagged:
            self.t.theirs().tags.create(f"tag{version}", version)
            self.tagged.add(version)

    @rule()
    def cleanup_theirs(self) -> None:
        t = self.t
        if all(version in t.readable() for version in t.states):
            t.theirs().cleanup_old_versions(older_than=timedelta(0), error_if_tagged_old_versions=False)
            left = {entry["version"] for entry in lance.dataset(t.uri).versions()}
            assert left >= {t.latest, *self.tagged}
            t.states = {version: state for version, state in t.states.items() if version in left}

    # -- either -------------------------------------------------------------------------------

    def either(self, is_mine: bool) -> Any:
        return self.t.mine() if is_mine else self.t.theirs()

    def pool_name(self, pick: int) -> str | None:
        """A kind of columns that the table lacks."""
        kinds = [kind for kind in self.t.pool if self.t.now.of_kind(kind) is None]
        return kinds[pick % len(kinds)] if kinds else None

    def new_name(self, kind: str) -> str:
        self.renamed += 1
        return f"{kind}{self.renamed}"

    @rule(divisor=divisors, pick=picks, is_mine=st.booleans())
    def update(self, divisor: int, pick: int, is_mine: bool) -> None:
        t, rest = self.t, pick % divisor
        column = t.now.of_kind("value") or t.now.of_kind("extra")
        if column is None:
            return
        found = self.either(is_mine).update({column.name: "n + 1000"}, where=f"n % {divisor} = {rest}")
        changed = [n for n in t.now.rows if n % divisor == rest]
        assert found == {"num_rows_updated": len(changed)}
        rows = {**t.now.rows, **{n: {**t.now.rows[n], column.name: n + 1000} for n in changed}}
        t.maybe_made(replace(t.now, rows=rows, ids=t.touched(changed)))

    @rule(
        count=counts,
        pick=picks,
        matched=st.sampled_from(["update", "some", "delete", "keep"]),
        inserts=st.booleans(),
        deletes=st.sampled_from([None, "all", "some"]),
        is_mine=st.booleans(),
    )
    def merge_rows(
        self, count: int, pick: int, matched: str, inserts: bool, deletes: str | None, is_mine: bool
    ) -> None:
        t, state = self.t, self.t.now
        inserts = inserts or (matched == "keep" and deletes is None)
        hit = [n for n in state.rows if n % 5 == pick % 5][:6]
        source = {**rows_of(hit, state.columns, pick % 7), **t.new_rows(count, state.columns)}
        merge = self.either(is_mine).merge_insert("n")
        gone: set[int] = set()
        if matched in ("update", "some"):
            merge = merge.when_matched_update_all("target.n % 2 = 0" if matched == "some" else None)
        if matched == "delete":
            merge, gone = merge.when_matched_delete(), set(hit)
        if inserts:
            merge = merge.when_not_matched_insert_all()
        if deletes:
            merge = merge.when_not_matched_by_source_delete("n % 3 = 0" if deletes == "some" else None)
            gone |= {n for n in state.rows if n not in hit and (deletes == "all" or n % 3 == 0)}
        try:
            merge.execute(arrow_of(source, state.columns))
        except OSError as error:
            # pylance fails on some combinations of clauses, and changes nothing.
            if is_mine or "plan pruning bug" not in str(error):
                raise
            return
        changed = [n for n in hit if matched == "update" or (matched == "some" and n % 2 == 0)]
        added = [n for n in source if inserts and n not in state.rows]
        rows = {n: row for n, row in state.rows.items() if n not in gone}
        rows.update({n: source[n] for n in (*changed, *added)})
        t.maybe_made(t.learned(replace(state, rows=rows, ids=t.touched(changed)), added))

    @rule(pick=picks, is_mine=st.booleans())
    def add_computed_column(self, pick: int, is_mine: bool) -> None:
        t = self.t
        if t.now.of_kind("extra") is None:
            name = self.new_name("extra")
            self.either(is_mine).add_columns({name: "n * 2"})
            state = t.now.with_column(column_of("extra", name), lambda n: n * 2)
            t.made(replace(state, ids=t.touched(t.now.rows)))

    @rule(pick=picks, is_mine=st.booleans())
    def add_null_column(self, pick: int, is_mine: bool) -> None:
        t, kind = self.t, self.pool_name(pick)
        # In the old file version pylance refuses columns without values.
        if kind is None or t.version == "0.1":
            return
        column = column_of(kind, self.new_name(kind))
        self.either(is_mine).add_columns(column.field)
        t.made(t.now.with_column(column, lambda _: None))

    @rule(pick=picks, is_mine=st.booleans())
    def merge_columns(self, pick: int, is_mine: bool) -> None:
        t, kind = self.t, self.pool_name(pick)
        if kind is None:
            return
        column = column_of(kind, self.new_name(kind))
        known = [n for n in t.now.rows if t.version == "0.1" or n % 4 != pick % 4]
        if not (is_mine or known):
            return  # pylance refuses a source without rows
        source = arrow_of(rows_of(known, [column]), [column])
        self.either(is_mine).merge(source, "n")
        value = POOL[kind][1]
        state = t.now.with_column(column, lambda n: value(n) if n in known else None)
        t.made(replace(state, ids=t.touched(t.now.rows)))

    @rule(pick=picks, is_mine=st.booleans())
    def drop_column(self, pick: int, is_mine: bool) -> None:
        t = self.t
        if not t.now.columns:
            return
        column = t.now.columns[pick % len(t.now.columns)]
        self.either(is_mine).drop_columns([column.name])
        t.made(t.now.without_column(column))

    @rule(pick=picks, is_mine=st.booleans())
    def rename_column(self, pick: int, is_mine: bool) -> None:
        t = self.t
        if not t.now.columns:
            return
        column = t.now.columns[pick % len(t.now.columns)]
        name = self.new_name(column.kind)
        self.either(is_mine).alter_columns({"path": column.name, "name": name})
        t.made(t.now.changed(column, replace(column, name=name)))

    @rule(pick=picks, is_mine=st.booleans())
    def cast_column(self, pick: int, is_mine: bool) -> None:
        t = self.t
        # Neither library casts a column with an index.
        columns = [
            column for column in t.now.columns if column.type in CASTS and column.name not in self.indexed()
        ]
        if not columns:
            return
        column = columns[pick % len(columns)]
        kind = CASTS[column.type]
        self.either(is_mine).alter_columns({"path": column.name, "data_type": kind})
        state = t.now.changed(column, replace(column, type=kind))
        t.made(replace(state, ids=t.touched(t.now.rows)))

    @rule(pick=picks, is_mine=st.booleans())
    def cast_within_a_column(self, pick: int, is_mine: bool) -> None:
        """A member of a struct, or the items of a list, get another type."""
        t = self.t
        columns = [
            column
            for column in t.now.columns
            if (column.kind == "list" or any(pool == "x" for _, pool in column.members))
            and column.name not in self.indexed()
        ]
        if not columns:
            return
        column = columns[pick % len(columns)]
        before = column.type[place(column, "x")].type if column.members else column.type.value_type
        kind = CASTS[before]
        name = column.type[place(column, "x")].name if column.members else "item"
        # pylance cannot read a struct of 2.0 any more of which it has cast a member.
        library = self.either(is_mine or t.version == "2.0")
        library.alter_columns({"path": f"{column.name}.{name}", "data_type": kind})
        if column.members:
            fields = [f.with_type(kind) if f.name == name else f for f in column.type]
            made = replace(column, type=pa.struct(fields))
        else:
            made = replace(column, type=pa.list_(kind))
        t.made(replace(t.now.changed(column, made), ids=t.touched(t.now.rows)))

    @rule(pick=picks, drops=st.booleans(), is_mine=st.booleans())
    def change_members(self, pick: int, drops: bool, is_mine: bool) -> None:
        """A member of a struct gets another name, or is dropped."""
        t, library = self.t, self.either(is_mine)
        columns = [column for column in t.now.columns if column.members]
        if not columns:
            return
        column = columns[pick % len(columns)]
        at = pick % len(column.members)
        fields, members = list(column.type), list(column.members)
        old = members[at][0]
        if drops and len(members) == 1:
            return
        if drops:
            library.drop_columns([f"{column.name}.{old}"])
            del fields[at], members[at]
        else:
            new = self.new_name(members[at][1])
            library.alter_columns({"path": f"{column.name}.{old}", "name": new})
            fields[at], members[at] = fields[at].with_name(new), (new, members[at][1])
        made = replace(column, type=pa.struct(fields), members=tuple(members))
        values = dict(zip([name for name, _ in members], range(len(members)), strict=True))

        def changed(value: Any) -> Any:
            if value is None:
                return None
            left = [value[name] for name, _ in column.members if not (drops and name == old)]
            return {name: left[index] for name, index in values.items()}

        t.made(t.now.remade(column, made, changed))

    @rule(pick=picks, is_mine=st.booleans())
    def update_in_place(self, pick: int, is_mine: bool) -> None:
        """Values of a column change in the files of a fragment, as distributed updates of pylance do."""
        t, theirs = self.t, self.t.theirs()
        fragments, column = theirs.get_fragments(), t.now.of_kind("word")
        if t.version == "0.1" or not fragments or column is None:
            return
        chosen = fragments[pick % len(fragments)]
        numbers = chosen.to_table(columns=["n"])["n"].to_pylist()
        rows = rows_of(numbers, [column], 1 + pick % 7)
        part, fields = chosen.update_columns(arrow_of(rows, [column]), "n", "n")
        operation: Any = (LanceOperation if is_mine else lance.LanceOperation).Update(
            updated_fragments=[FragmentMetadata.from_json(json.dumps(part.to_json())) if is_mine else part],
            fields_modified=fields,
            update_mode="rewrite_columns",
        )
        commit = lancecy.commit if is_mine else lance.LanceDataset.commit
        commit(t.uri, operation, read_version=theirs.version)
        changed = {n: {**t.now.rows[n], **rows[n]} for n in numbers}
        # Rows whose places the operation does not name have no new version.
        t.made(replace(t.now, rows={**t.now.rows, **changed}))

    @rule(pick=picks, is_mine=st.booleans())
    def replace_data(self, pick: int, is_mine: bool) -> None:
        """A column of a fragment gets another data file, with values for deleted rows too."""
        t = self.t
        columns = [column for column in t.now.columns if column.kind in ("word", "value", "extra")]
        mine = t.mine()
        fragments = mine.get_fragments()
        if t.version == "0.1" or not fragments or not columns:
            return
        part, column = fragments[pick % len(fragments)], columns[pick % len(columns)]
        stored = part.to_table(["n"], include_deleted_rows=True, with_row_id=True).to_pylist()
        rows = rows_of([row["n"] for row in stored], [column], 1 + pick % 7)
        name = f"replaced{t.latest}.lance"
        data = arrow_of(rows, [column]).select([column.name])
        with lancecy.LanceFileWriter(f"{t.uri}/data/{name}", data.schema, version=t.version) as writer:
            for batch in data.to_batches():
                writer.write_batch(batch)
        major, minor = map(int, t.version.split("."))
        size = os.path.getsize(f"{t.uri}/data/{name}")
        number: int = mine.lance_schema.field(column.name).id
        if is_mine:
            new = LanceOperation.DataReplacementGroup(
                part.fragment_id, DataFile(name, (number,), (0,), major, minor, size)
            )
            lancecy.commit(t.uri, LanceOperation.DataReplacement([new]), read_version=t.latest)
        else:
            file = lance.fragment.DataFile(name, [number], [0], major, minor, size)
            their = lance.LanceOperation.DataReplacementGroup(part.fragment_id, file)
            lance.LanceDataset.commit(
                t.uri, lance.LanceOperation.DataReplacement([their]), read_version=t.latest
            )
        there = [row["n"] for row in stored if row["_rowid"] is not None]
        changed = {n: {**t.now.rows[n], **rows[n]} for n in there}
        t.made(replace(t.now, rows={**t.now.rows, **changed}, ids=t.touched(there)))

    @rule(divisor=divisors, pick=picks, is_mine=st.booleans())
    def delete_by_fragments(self, divisor: int, pick: int, is_mine: bool) -> None:
        """Workers delete rows of a fragment each, and one commit takes all of them."""
        t, rest = self.t, pick % divisor
        left = t.now.without(lambda n: n % divisor == rest)
        parts = {each.fragment_id: each for each in self.either(is_mine).get_fragments()}
        condition = f"n % {divisor} = {rest}"
        changed = {number: part.delete(condition) for number, part in parts.items()}
        gone = [number for number, part in changed.items() if part is None]
        kept = [
            part for number, part in changed.items() if part is not None and part != parts[number].metadata
        ]
        if not gone and not kept:
            assert left.rows == t.now.rows
            return
        library = lancecy if is_mine else lance
        delete = library.LanceOperation.Delete(kept, gone, condition)
        library.LanceDataset.commit(t.uri, delete, read_version=t.latest)
        t.made(left)

    @rule(pick=picks, is_mine=st.booleans())
    def add_column_by_fragments(self, pick: int, is_mine: bool) -> None:
        """Workers compute a column of a fragment each, and one commit takes all of them."""
        t = self.t
        fragments = self.either(is_mine).get_fragments()
        if t.now.of_kind("extra") is not None or not fragments:
            return
        name = self.new_name("extra")
        made = [fragment.merge_columns({name: "n * 2"}, ["n"]) for fragment in fragments]
        library = lancecy if is_mine else lance
        merge = library.LanceOperation.Merge([part for part, _ in made], made[0][1])
        library.LanceDataset.commit(t.uri, merge, read_version=t.latest)
        state = t.now.with_column(column_of("extra", name), lambda n: n * 2)
        t.made(replace(state, ids=t.touched(t.now.rows)))

    @rule(is_mine=st.booleans(), size=st.integers(1, 9))
    def add_column_of_a_function(self, is_mine: bool, size: int) -> None:
        t = self.t
        if t.now.of_kind("extra") is not None or not t.now.rows:
            return
        name = self.new_name("extra")
        schema = pa.schema({name: pa.int64()})

        def twice(batch: pa.RecordBatch) -> pa.RecordBatch:
            return pa.record_batch([pa.array([2 * n for n in batch["n"].to_pylist()], pa.int64())], schema)

        function = (lancecy if is_mine else lance).batch_udf(output_schema=schema)(twice)
        self.either(is_mine).add_columns(function, read_columns=["n"], batch_size=size)
        state = t.now.with_column(column_of("extra", name), lambda n: n * 2)
        t.made(replace(state, ids=t.touched(t.now.rows)))

    @rule(pick=picks)
    def merge_rows_in_place(self, pick: int) -> None:
        """An upsert that writes only the columns of its source, which pylance lacks."""
        t = self.t
        column = t.now.of_kind("word")
        hit = [n for n in t.now.rows if n % 4 == pick % 4][:6]
        if t.version == "0.1" or column is None or len(t.now.columns) < 2 or not hit:
            return
        source = rows_of(hit, [column], 1 + pick % 7)
        merge = t.mine().merge_insert("n").when_matched_update_all().write_mode("rewrite_columns")
        done = merge.execute(arrow_of(source, [column]))
        assert done["num_updated_rows"] == len(hit)
        rows = {**t.now.rows, **{n: {**t.now.rows[n], **source[n]} for n in hit}}
        t.made(replace(t.now, rows=rows, ids=t.touched(hit)))

    @rule(rows=st.sampled_from([4, 12, 1000]), is_mine=st.booleans())
    def compact_by_tasks(self, rows: int, is_mine: bool) -> None:
        """Tasks of a compaction, and one commit of some or all of them."""
        compaction = (lancecy if is_mine else lance).optimize.Compaction
        dataset = self.either(is_mine)
        tasks = compaction.plan(dataset, {"target_rows_per_fragment": rows}).tasks
        results = [task.execute(dataset) for task in tasks]
        if results:
            self._unchanged(lambda: compaction.commit(dataset, results))

    def indexed(self) -> set[str]:
        return {name for index in self.t.theirs().describe_indices() for name in index.field_names}

    @rule(pick=picks, is_mine=st.booleans())
    def change_nullability(self, pick: int, is_mine: bool) -> None:
        t = self.t
        columns = [
            column
            for column in t.now.columns
            if column.kind in NEVER_NULL and all(row[column.name] is not None for row in t.now.rows.values())
        ]
        if not columns:
            return
        column = columns[pick % len(columns)]
        self.either(is_mine).alter_columns({"path": column.name, "nullable": not column.nullable})
        t.made(t.now.changed(column, replace(column, nullable=not column.nullable)))

    @rule(rows=st.sampled_from([4, 12, 1000]), is_mine=st.booleans())
    def compact(self, rows: int, is_mine: bool) -> None:
        optimize = self.either(is_mine).optimize
        self._unchanged(lambda: optimize.compact_files(target_rows_per_fragment=rows))


def test_random_histories_agree_with_the_model() -> None:
    chosen = settings(
        max_examples=EXAMPLES,
        stateful_step_count=STEPS,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        derandomize="LANCECY_MODEL_EXAMPLES" not in os.environ,
        database=None,
        phases=[Phase.generate],
    )
    run_state_machine_as_test(Histories, settings=chosen)
