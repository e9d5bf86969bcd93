"""Random histories of a table that lancecy and pylance change in turns, held against a model after every change.

``make model`` runs many more of them: LANCECY_MODEL_EXAMPLES histories of LANCECY_MODEL_STEPS changes.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

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
from lancecy import LanceOperation
from lancecy.errors import ConflictError
from tests.changes.model import POOL, State, Table, arrow_of, rows_of

pytestmark = pytest.mark.interop
lance = pytest.importorskip("lance")

EXAMPLES = int(os.environ.get("LANCECY_MODEL_EXAMPLES", "12"))
STEPS = int(os.environ.get("LANCECY_MODEL_STEPS", "14"))

counts = st.integers(1, 18)
divisors = st.integers(2, 9)
picks = st.integers(0, 1 << 16)


class Histories(RuleBasedStateMachine):
    """What can happen to a table."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="lancecy-model-"))
        self.table: Table | None = None
        self.tagged: set[int] = set()

    @initialize(version=st.sampled_from(["2.0", "2.1", "2.2"]), stable=st.booleans(), bases=st.integers(0, 2))
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
        columns = [name for i, name in enumerate(t.now.columns) if not (lacking and pick >> i & 1)]
        rows = t.new_rows(count, columns)
        names = columns[::-1] if pick % 2 else columns
        t.mine().append(arrow_of(rows, names), max_rows_per_file=per_file, target_bases=self.targets(pick))
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
        t, columns = self.t, tuple(names[:size])
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

    @precondition(lambda self: self.table is not None and "value" in self.table.now.columns)
    @rule(divisor=divisors, pick=picks)
    def update_theirs(self, divisor: int, pick: int) -> None:
        t, rest = self.t, pick % divisor
        t.theirs().update({"value": "n + 1000"}, where=f"n % {divisor} = {rest}")
        changed = [n for n in t.now.rows if n % divisor == rest]
        rows = {**t.now.rows, **{n: {**t.now.rows[n], "value": n + 1000} for n in changed}}
        t.made(replace(t.now, rows=rows, ids=self._touched(t.now, changed)))

    def _touched(self, state: State, numbers: Any) -> dict[int, Any]:
        if not self.t.stable:
            return {}
        version = self.t.latest + 1
        return {**state.ids, **{n: (*state.ids[n][:2], version) for n in numbers}}

    @precondition(lambda self: self.table is not None and self.table.now.columns)
    @rule(count=counts, pick=picks)
    def merge_theirs(self, count: int, pick: int) -> None:
        t = self.t
        state = t.now
        matched = [n for n in state.rows if n % 5 == pick % 5][:4]
        rows = {**rows_of(matched, state.columns), **t.new_rows(count, state.columns)}
        merging = t.theirs().merge_insert("n").when_matched_update_all().when_not_matched_insert_all()
        merging.execute(arrow_of(rows, state.columns))
        state = replace(state, rows={**state.rows, **rows}, ids=self._touched(state, matched))
        if t.stable:
            state = self._learned(state, rows.keys() - set(matched))
        t.made(state)

    def _learned(self, state: State, new: set[int]) -> State:
        """Inserted rows come in any order; their ids are new ones, whichever."""
        t = self.t
        found = {row["n"]: row["_rowid"] for row in t.theirs().to_table(["n", "_rowid"]).to_pylist()}
        assert sorted(found[n] for n in new) == list(range(t.next_id, t.next_id + len(new)))
        t.next_id += len(new)
        version = t.latest + 1
        return replace(state, ids={**state.ids, **{n: (found[n], version, version) for n in new}})

    @rule()
    def compact_theirs(self) -> None:
        self._theirs_unchanged(lambda dataset: dataset.optimize.compact_files())

    @rule()
    def index_theirs(self) -> None:
        columns = self.t.now.columns
        if self.t.now.rows:
            self._theirs_unchanged(lambda dataset: dataset.create_scalar_index("n", "BTREE", replace=True))
            if "word" in columns:
                self._theirs_unchanged(lambda data: data.create_scalar_index("word", "BITMAP", replace=True))

    @rule()
    def optimize_theirs(self) -> None:
        self._theirs_unchanged(lambda dataset: dataset.optimize.optimize_indices())

    def _theirs_unchanged(self, change: Any) -> None:
        change(self.t.theirs())
        if lancecy.dataset(self.t.uri).version > self.t.latest:
            self.t.made(self.t.now)

    @precondition(lambda self: self.table is not None and "extra" not in self.table.now.columns)
    @rule()
    def add_column_theirs(self) -> None:
        t = self.t
        t.theirs().add_columns({"extra": "n * 2"})
        rows = {n: {**row, "extra": n * 2} for n, row in t.now.rows.items()}
        ids = self._touched(t.now, t.now.rows)
        t.made(replace(t.now, columns=(*t.now.columns, "extra"), rows=rows, ids=ids))

    @precondition(lambda self: self.table is not None and self.table.now.columns)
    @rule(pick=picks)
    def drop_column_theirs(self, pick: int) -> None:
        t = self.t
        name = t.now.columns[pick % len(t.now.columns)]
        t.theirs().drop_columns([name])
        rows = {n: {k: v for k, v in row.items() if k != name} for n, row in t.now.rows.items()}
        t.made(replace(t.now, columns=tuple(c for c in t.now.columns if c != name), rows=rows))

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
