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

__all__ = ["POOL", "State", "Table", "rows_of"]

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
    "extra": (pa.int64(), lambda n: n * 2),
}
"""Columns a table may have besides ``n``, and what a row has in them."""

Rows = dict[int, dict[str, Any]]
Origin = tuple[int, int, int]
_IDS = ["_rowid", "_row_created_at_version", "_row_last_updated_at_version"]


@dataclass(frozen=True)
class State:
    """A version: its columns in order, its rows by number, where these come from, and its maps."""

    columns: tuple[str, ...]
    rows: Rows
    ids: dict[int, Origin] = field(default_factory=dict)
    bases: dict[str, Path] = field(default_factory=dict)
    config: dict[str, str] = field(default_factory=dict)

    def without(self, gone: Callable[[int], bool]) -> State:
        return replace(self, rows={n: row for n, row in self.rows.items() if not gone(n)})


def rows_of(numbers: Iterable[int], columns: Iterable[str]) -> Rows:
    """New rows of these numbers."""
    names = tuple(columns)
    return {n: {name: POOL[name][1](n) for name in names} for n in numbers}


def arrow_of(rows: Rows, columns: Iterable[str]) -> pa.Table:
    """Rows as a table of ``n`` and these columns."""
    made = {"n": pa.array(list(rows), pa.int64())}
    for name in columns:
        values = [row[name] for row in rows.values()]
        kind = POOL[name][0]
        is_coded = pa.types.is_dictionary(kind)
        made[name] = pa.array(values, pa.string()).cast(kind) if is_coded else pa.array(values, kind)
    return pa.table(made)


class Table:
    """A table on disk beside its model."""

    def __init__(self, folder: Path, version: str, stable: bool, num_bases: int) -> None:
        self.folder, self.uri = folder, str(folder / "t")
        self.version, self.stable = version, stable
        self.next_number = self.next_id = self.next_base = 0
        self.largest_fragment = -1
        self.places: dict[str, Path] = {}
        columns = ("word", "value", "list")
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

    def new_rows(self, count: int, columns: Iterable[str]) -> Rows:
        self.next_number += count
        return rows_of(range(self.next_number - count, self.next_number), columns)

    def new_base(self) -> lancecy.DatasetBasePath:
        self.next_base += 1
        number = self.next_base
        self.places[f"b{number}"] = self.folder / f"base{number}"
        return lancecy.DatasetBasePath(self.folder / f"base{number}", f"b{number}", number % 2 == 0)

    def plus(self, state: State, rows: Rows, version: int) -> State:
        """A state with new rows, which get the next ids; what a row lacks is null."""
        full = {n: {name: row.get(name) for name in state.columns} for n, row in rows.items()}
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
        assert found.schema.names == other.schema.names == ["n", *state.columns]
        assert found.to_pylist() == other.to_pylist()
        rows = {row.pop("n"): row for row in found.to_pylist()}
        assert len(rows) == found.num_rows == mine.count_rows() == theirs.count_rows(), "a row is there twice"
        assert rows == state.rows
        middle = self.next_number // 2
        filters: dict[str, Callable[[int, dict[str, Any]], bool]] = {
            f"n = {middle}": lambda n, row: n == middle,
            f"n >= {middle // 2} and n < {middle}": lambda n, row: middle // 2 <= n < middle,
        }
        if "word" in state.columns:
            filters["word = 'w3'"] = lambda n, row: row["word"] == "w3"
        for text, chosen in filters.items():
            expected = sorted(n for n, row in rows.items() if chosen(n, row))
            assert sorted(theirs.to_table(["n"], filter=text)["n"].to_pylist()) == expected, text
            assert sorted(mine.to_table(["n"], filter=text)["n"].to_pylist()) == expected, text

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
