"""A table that two libraries write, and what is known of it without reading it: rows, ids and versions.

Every change is made to both; :meth:`Table.check` then holds both libraries against the model.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

import lancecy

__all__ = ["NEVER_NULL", "POOL", "Column", "State", "Table", "arrow_of", "column_of", "rows_of"]

WORDS = ("quail", "zebra", "heron")
_POINT = pa.struct([pa.field("x", pa.int64()), pa.field("y", pa.string())])
POOL: dict[str, tuple[pa.DataType, Callable[[int], Any]]] = {
    "word": (pa.string(), lambda n: None if n % 5 == 0 else f"w{n % 13}"),
    "value": (pa.int64(), lambda n: None if n % 6 == 0 else n * 3),
    "list": (
        pa.list_(pa.int32()),
        lambda n: None if n % 7 == 3 else [None if i == 1 else i for i in range(n % 4)],
    ),
    "vec": (pa.list_(pa.float32(), 3), lambda n: [n, n / 2, -n]),
    "point": (_POINT, lambda n: {"x": None if n % 3 == 0 else n, "y": f"p{n % 4}"}),
    "label": (pa.dictionary(pa.int16(), pa.string()), lambda n: None if n % 11 == 0 else f"l{n % 3}"),
    "flag": (pa.bool_(), lambda n: None if n % 4 == 2 else n % 2 == 0),
    "text": (pa.string(), lambda n: None if n % 8 == 7 else f"{WORDS[n % 3]} number {n % 17}"),
    "tags": (pa.list_(pa.string()), lambda n: [f"t{i}" for i in range(n % 4)]),
    "extra": (pa.int64(), lambda n: n * 2),
}
"""Columns a table may have besides ``n``, and what a row has in them."""
NEVER_NULL = ("vec", "extra", "tags")
OF_0_1 = ("word", "text", "vec", "tags", "extra")
"""Columns without nulls, except in text: files of version 0.1 hold no others."""

Rows = dict[int, dict[str, Any]]
Origin = tuple[int, int, int]
_IDS = ["_rowid", "_row_created_at_version", "_row_last_updated_at_version"]


@dataclass(frozen=True)
class Column:
    """A column besides ``n``: its present name and type, and what of :data:`POOL` it was made as.

    ``members`` are the present names of a struct's members, and what they are in the pool.
    """

    name: str
    kind: str
    type: pa.DataType
    nullable: bool = True
    members: tuple[tuple[str, str], ...] = ()

    def value(self, n: int) -> Any:
        """What a row has here."""
        found = POOL[self.kind][1](n)
        return {name: found[pool] for name, pool in self.members} if self.members else found

    @property
    def field(self) -> pa.Field:
        return pa.field(self.name, self.type, self.nullable)


def column_of(kind: str, name: str | None = None) -> Column:
    """A new column of this kind, which is also its name unless another is given."""
    data_type = POOL[kind][0]
    names = [member.name for member in data_type] if pa.types.is_struct(data_type) else []
    return Column(name or kind, kind, data_type, members=tuple((each, each) for each in names))


@dataclass(frozen=True)
class State:
    """A version: its columns in order, its rows by number, where these come from, and its maps."""

    columns: tuple[Column, ...]
    rows: Rows
    ids: dict[int, Origin] = field(default_factory=dict)
    bases: dict[str, Path] = field(default_factory=dict)
    config: dict[str, str] = field(default_factory=dict)

    def without(self, gone: Callable[[int], bool]) -> State:
        return replace(self, rows={n: row for n, row in self.rows.items() if not gone(n)})

    def of_kind(self, kind: str) -> Column | None:
        """The column that was made as this kind, whatever its name is now."""
        return next((column for column in self.columns if column.kind == kind), None)

    def named(self, names: Iterable[str]) -> tuple[Column, ...]:
        wanted = set(names)
        return tuple(column for column in self.columns if column.name in wanted)

    def changed(self, old: Column, new: Column) -> State:
        """The state with another column in the place of one, with the same values."""
        columns = tuple(new if column == old else column for column in self.columns)
        return replace(
            self,
            columns=columns,
            rows={
                n: {new.name if name == old.name else name: value for name, value in row.items()}
                for n, row in self.rows.items()
            },
        )

    def remade(self, old: Column, new: Column, value: Callable[[Any], Any]) -> State:
        """The state with another column of the same name in the place of one, its values changed by a function."""
        state = self.changed(old, new)
        return replace(
            state,
            rows={n: {**row, new.name: value(row[new.name])} for n, row in state.rows.items()},
        )

    def with_column(self, column: Column, values: Callable[[int], Any]) -> State:
        rows = {n: {**row, column.name: values(n)} for n, row in self.rows.items()}
        return replace(self, columns=(*self.columns, column), rows=rows)

    def without_column(self, column: Column) -> State:
        rows = {n: {k: v for k, v in row.items() if k != column.name} for n, row in self.rows.items()}
        return replace(self, columns=tuple(c for c in self.columns if c != column), rows=rows)


def rows_of(numbers: Iterable[int], columns: Iterable[Column], shift: int = 0) -> Rows:
    """New rows of these numbers; with ``shift`` they have the values of other numbers."""
    made = tuple(columns)
    return {n: {column.name: column.value(n + shift) for column in made} for n in numbers}


def arrow_of(rows: Rows, columns: Iterable[Column]) -> pa.Table:
    """Rows as a table of ``n`` and these columns."""
    fields, made = [pa.field("n", pa.int64())], [pa.array(list(rows), pa.int64())]
    for column in columns:
        values = [row[column.name] for row in rows.values()]
        is_coded = pa.types.is_dictionary(column.type)
        array = pa.array(values, pa.string()).cast(column.type) if is_coded else pa.array(values, column.type)
        fields.append(column.field)
        made.append(array)
    return pa.table(made, schema=pa.schema(fields))


def numbers_of(theirs: Any, **query: Any) -> list[int]:
    """The numbers of the rows that pylance finds, in ascending order."""
    return sorted(
        theirs.to_table(columns=["n"], disable_scoring_autoprojection=True, **query)["n"].to_pylist()
    )


class Table:
    """A table on disk beside its model."""

    def __init__(self, folder: Path, version: str, stable: bool, num_bases: int) -> None:
        self.folder, self.uri = folder, str(folder / "t")
        self.version, self.stable = version, stable
        self.next_number = self.next_id = self.next_base = 0
        self.largest_fragment = -1
        self.places: dict[str, Path] = {}
        # Files of version 2.0 hold no null structs, which new columns and missing ones are made of.
        self.pool = {"0.1": OF_0_1, "2.0": tuple(kind for kind in POOL if kind != "point")}.get(
            version, tuple(POOL)
        )
        columns = tuple(column_of(kind) for kind in self.pool if kind not in ("point", "label", "flag"))
        bases = [self.new_base() for _ in range(num_bases)]
        rows = self.new_rows(12, columns)
        lancecy.write_dataset(
            arrow_of(rows, columns),
            self.uri,
            data_storage_version=version,
            enable_stable_row_ids=stable,
            initial_bases=bases,
            target_all_bases=True if bases else None,
            max_rows_per_file=5,
        )
        self.states: dict[int, State] = {}
        state = State(columns, {}, bases={str(base.name): Path(base.path) for base in bases})
        self.made(self.plus(state, rows, 1))

    # -- the model ----------------------------------------------------------------------------

    @property
    def latest(self) -> int:
        return max(self.states)

    @property
    def now(self) -> State:
        return self.states[self.latest]

    def new_rows(self, count: int, columns: Iterable[Column]) -> Rows:
        self.next_number += count
        return rows_of(range(self.next_number - count, self.next_number), columns)

    def new_base(self) -> lancecy.DatasetBasePath:
        self.next_base += 1
        number = self.next_base
        self.places[f"b{number}"] = self.folder / f"base{number}"
        return lancecy.DatasetBasePath(self.folder / f"base{number}", f"b{number}", number % 2 == 0)

    def plus(self, state: State, rows: Rows, version: int) -> State:
        """A state with new rows, which get the next ids; what a row lacks is null."""
        names = [column.name for column in state.columns]
        full = {n: {name: row.get(name) for name in names} for n, row in rows.items()}
        ids = {n: (self.next_id + i, version, version) for i, n in enumerate(rows)}
        self.next_id += len(rows)
        return replace(state, rows={**state.rows, **full}, ids={**state.ids, **ids})

    def made(self, state: State) -> None:
        """The table is like this now; versions in between were as before."""
        newest = lancecy.dataset(self.uri).version
        assert newest > max(self.states, default=0), "no version was made"
        for version in range(max(self.states, default=0) + 1, newest):
            self.states[version] = self.now
        self.states[newest] = state

    def maybe_made(self, state: State) -> None:
        """The table is like this now; a change of no rows may have made no version."""
        if lancecy.dataset(self.uri).version > self.latest:
            self.made(state)
        else:
            assert (state.columns, state.rows) == (self.now.columns, self.now.rows)

    def touched(self, numbers: Iterable[int]) -> dict[int, Origin]:
        """Where the rows come from, if these are changed in the next version."""
        if not self.stable:
            return {}
        ids = self.now.ids
        return {**ids, **{n: (*ids[n][:2], self.latest + 1) for n in numbers}}

    def learned(self, state: State, new: Iterable[int]) -> State:
        """Inserted rows come in any order; their ids are new ones, whichever."""
        if not self.stable:
            return state
        found = {row["n"]: row["_rowid"] for row in self.theirs().to_table(["n", "_rowid"]).to_pylist()}
        assert sorted(found[n] for n in new) == list(range(self.next_id, self.next_id + len(list(new))))
        self.next_id += len(list(new))
        version = self.latest + 1
        return replace(state, ids={**state.ids, **{n: (found[n], version, version) for n in new}})

    def readable(self) -> list[int]:
        """Versions whose bases are where they were."""
        there = {Path(path) for path in self.now.bases.values()}
        return [
            v
            for v, state in self.states.items()
            if all(p in there or p.exists() for p in state.bases.values())
        ]

    # -- the libraries ------------------------------------------------------------------------

    def mine(self, version: int | None = None) -> lancecy.Dataset:
        return lancecy.dataset(self.uri, version, allowed_bases=[str(self.folder)])

    def theirs(self, version: int | None = None) -> Any:
        import lance

        return lance.dataset(self.uri, version=version)

    def check(self, version: int | None = None) -> None:
        """Both libraries see the rows of the model, in one order, through filters and indices too."""
        mine, theirs = self.mine(version), self.theirs(version)
        state = self.states[mine.version]
        assert mine.version == theirs.version
        theirs.validate()
        self._check_rows(state, mine, theirs)
        self._check_ids(state, mine, theirs)
        assert mine.config == theirs.config() == state.config
        assert {base.name: Path(base.path) for base in mine.base_paths.values()} == state.bases
        if version is None:
            self._check_growth(mine)

    def _check_rows(self, state: State, mine: lancecy.Dataset, theirs: Any) -> None:
        found, other = mine.to_table(), theirs.to_table()
        assert found.schema.names == other.schema.names == ["n", *(column.name for column in state.columns)]
        assert found.to_pylist() == other.to_pylist()
        rows = {row.pop("n"): row for row in found.to_pylist()}
        assert len(rows) == found.num_rows == mine.count_rows() == theirs.count_rows(), "a row is there twice"
        assert rows == state.rows
        for text, chosen in self._filters(state).items():
            expected = sorted(n for n, row in rows.items() if chosen(n, row))
            for use in self._uses:
                # pylance's statistics of 0.1 deny a null that is alone on its page.
                query = {"use_scalar_index": use, "use_stats": self.version != "0.1"}
                assert numbers_of(theirs, filter=text, **query) == expected, (text, use)
            assert sorted(mine.to_table(["n"], filter=text)["n"].to_pylist()) == expected, text
        self._check_words(state, theirs)
        self._check_vectors(state, theirs)

    @property
    def _uses(self) -> tuple[bool, ...]:
        """Whether pylance uses indices: both, but its indices of 0.1 tables with stable ids find updated rows twice."""
        return (False,) if self.version == "0.1" and self.stable else (True, False)

    def _filters(self, state: State) -> dict[str, Callable[[int, dict[str, Any]], bool]]:
        middle = self.next_number // 2
        filters: dict[str, Callable[[int, dict[str, Any]], bool]] = {
            f"n = {middle}": lambda n, row: n == middle,
            f"n >= {middle // 2} and n < {middle}": lambda n, row: middle // 2 <= n < middle,
        }
        word, tags = state.of_kind("word"), state.of_kind("tags")
        if word:
            filters[f"{word.name} = 'w3'"] = lambda n, row: bool(row[word.name] == "w3")
            filters[f"{word.name} is null"] = lambda n, row: row[word.name] is None
        if tags:
            filters[f"array_has_any({tags.name}, ['t2'])"] = lambda n, row: "t2" in (row[tags.name] or ())
        return filters

    def _check_words(self, state: State, theirs: Any) -> None:
        """A search by words needs its index."""
        text = state.of_kind("text")
        kinds = [index.index_type for index in theirs.describe_indices()]
        if text is None or "Inverted" not in kinds or True not in self._uses:
            return
        for word in WORDS[:2]:
            expected = sorted(n for n, row in state.rows.items() if word in (row[text.name] or ""))
            assert numbers_of(theirs, full_text_query=word, limit=10_000) == expected, word

    def _check_vectors(self, state: State, theirs: Any) -> None:
        vector = state.of_kind("vec")
        if vector is None:
            return
        there = [n for n, row in state.rows.items() if row[vector.name] is not None]
        middle = self.next_number / 2 + 0.3
        query = [middle, middle / 2, -middle]
        # With stable ids, rows that a compaction of pylance left out take places of its k nearest rows.
        nearest = {"column": vector.name, "q": query, "k": 10_000, "nprobes": 2}
        expected = sorted(there)
        for use in self._uses if there else ():
            assert numbers_of(theirs, nearest={**nearest, "use_index": use}) == expected, use

    def _check_ids(self, state: State, mine: lancecy.Dataset, theirs: Any) -> None:
        names = ["n", *_IDS] if self.stable else ["n", "_rowid"]
        found = mine.to_table(names).to_pylist()
        assert found == theirs.to_table(names).to_pylist()
        if self.stable:
            ids = {row["n"]: tuple(row[name] for name in _IDS) for row in found}
            assert ids == {n: state.ids[n] for n in state.rows}

    def _check_growth(self, mine: lancecy.Dataset) -> None:
        """Ids are never given out twice: not of rows, nor of fragments."""
        manifest = mine._snapshot.manifest
        if self.stable:
            assert manifest.next_row_id == self.next_id
        largest = max([part.fragment_id for part in mine.get_fragments()], default=-1)
        stated = manifest.max_fragment_id if manifest.max_fragment_id is not None else -1
        assert stated >= max(largest, self.largest_fragment)
        self.largest_fragment = stated

    def rename(self, name: str) -> Path:
        """Move a base to another folder on disk."""
        self.next_base += 1
        moved = self.folder / f"moved{self.next_base}"
        if self.now.bases[name].exists():
            os.rename(self.now.bases[name], moved)
        else:
            moved.mkdir()
        self.places[name] = moved
        return moved
