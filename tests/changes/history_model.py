"""Random histories of a table, made by both libraries, and the rows of every version as plain values."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

import lancecy

__all__ = ["RandomHistory"]

Row = dict[str, Any]


@dataclass
class RandomHistory:
    """A table that is changed at random, with the rows and columns of its versions.

    Attributes
    ----------
    uri : str
    version : str
        Of the data files.
    stable : bool
        Whether rows have stable ids.
    seed : int
    """

    uri: str
    version: str
    stable: bool
    seed: int
    rows: dict[int, dict[int, Row]] = field(default_factory=dict)
    # Names of the columns by what they were made as, so that renamed ones are found again.
    columns: dict[int, dict[str, str]] = field(default_factory=dict)
    overwritten: int = 0
    steps: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.next = 0
        self.made = 0
        lancecy.write_dataset(
            self._new(9, ["id", "v", "w"]),
            self.uri,
            data_storage_version=self.version,
            enable_stable_row_ids=self.stable,
            max_rows_per_file=4,
        )
        self._seen({name: name for name in ("id", "v", "w")})

    # -- steps ----------------------------------------------------------------

    def step(self, moves: bool = True) -> None:
        """Make one change; ``moves`` allows compactions."""
        kinds = ["append", "their_append", "delete", "their_delete", "update", "update", "upsert", "upsert"]
        kinds += ["restore", "overwrite", "add_sql", "add_null", "drop", "rename", "in_place", "config"]
        kinds += ["my_update", "my_upsert", "my_add_sql", "my_rename", "my_drop"]
        kinds += ["compact", "my_compact"] if moves else []
        kind = self.random.choice(kinds)
        before = self.latest
        names = dict(self.columns[before])
        names = getattr(self, f"_{kind}")(names) or names
        self.steps.append(kind)
        for version in range(before + 1, lancecy.dataset(self.uri).version + 1):
            self._seen(names, version)

    @property
    def latest(self) -> int:
        return max(self.rows)

    def _new(self, count: int, names: list[str]) -> pa.Table:
        numbers = range(self.next, self.next + count)
        self.next += count
        return pa.table({name: pa.array(self._values(name, numbers), self._type(name)) for name in names})

    @staticmethod
    def _type(name: str) -> pa.DataType:
        return pa.int64() if name == "id" else pa.string()

    def _values(self, name: str, numbers: Any) -> list[Any]:
        return [n if name == "id" else None if n % 5 == 0 else f"{name}{n}.{self.made}" for n in numbers]

    def _theirs(self) -> Any:
        import lance

        return lance.dataset(self.uri)

    def _names(self, names: dict[str, str]) -> list[str]:
        return list(names.values())

    def _append(self, names: dict[str, str]) -> None:
        lancecy.dataset(self.uri).insert(self._new(self.random.randint(1, 6), self._names(names)))

    def _their_append(self, names: dict[str, str]) -> None:
        import lance

        lance.write_dataset(self._new(self.random.randint(1, 6), self._names(names)), self.uri, mode="append")

    def _condition(self) -> str:
        return f"id % {self.random.randint(2, 6)} = {self.random.randint(0, 1)}"

    def _delete(self, _: dict[str, str]) -> None:
        lancecy.dataset(self.uri).delete(self._condition())

    def _their_delete(self, _: dict[str, str]) -> None:
        self._theirs().delete(self._condition())

    def _update(self, names: dict[str, str]) -> None:
        name = self.random.choice([name for name in names.values() if name != "id"] or ["id"])
        self.made += 1
        value = "id" if name == "id" else f"'u{self.made}'"
        self._theirs().update({name: value}, where=self._condition())

    def _my_update(self, names: dict[str, str]) -> None:
        name = self.random.choice([name for name in names.values() if name != "id"] or ["id"])
        self.made += 1
        value = "id" if name == "id" else f"'u{self.made}'"
        lancecy.dataset(self.uri).update({name: value}, where=self._condition())

    def _my_upsert(self, names: dict[str, str]) -> None:
        self._upsert(names, lancecy.dataset(self.uri))

    def _upsert(self, names: dict[str, str], table: Any = None) -> None:
        self.made += 1
        first = max(0, self.next - self.random.randint(1, 12))
        numbers = list(range(first, first + 8))
        self.next = max(self.next, first + 8)
        source = pa.table(
            {name: pa.array(self._values(name, numbers), self._type(name)) for name in names.values()}
        )
        merge = (table or self._theirs()).merge_insert("id")
        merge.when_matched_update_all().when_not_matched_insert_all().execute(source)

    def _restore(self, _: dict[str, str]) -> dict[str, str]:
        version = self.random.choice(list(self.rows))
        lancecy.dataset(self.uri, version=version).restore()
        return dict(self.columns[version])

    def _overwrite(self, _: dict[str, str]) -> dict[str, str] | None:
        if self.random.random() > 0.4:
            return None
        names = self.random.sample(["v", "w", "x"], 2)
        lancecy.write_dataset(
            self._new(self.random.randint(1, 7), ["id", *names]),
            self.uri,
            mode="overwrite",
            max_rows_per_file=3,
        )
        self.overwritten += 1
        return {f"{name} {self.overwritten}": name for name in ["id", *names]}

    def _add_sql(self, names: dict[str, str]) -> dict[str, str]:
        self.made += 1
        self._theirs().add_columns({f"c{self.made}": f"concat('a{self.made}-', cast(id as string))"})
        return {**names, f"c{self.made}": f"c{self.made}"}

    def _my_add_sql(self, names: dict[str, str]) -> dict[str, str]:
        self.made += 1
        lancecy.dataset(self.uri).add_columns(
            {f"c{self.made}": f"concat('a{self.made}-', cast(id as string))"}
        )
        return {**names, f"c{self.made}": f"c{self.made}"}

    def _add_null(self, names: dict[str, str]) -> dict[str, str] | None:
        if self.version == "0.1":
            return None
        self.made += 1
        self._theirs().add_columns(pa.field(f"n{self.made}", pa.string()))
        return {**names, f"n{self.made}": f"n{self.made}"}

    def _my_drop(self, names: dict[str, str]) -> dict[str, str] | None:
        return self._drop(names, lancecy.dataset(self.uri))

    def _my_rename(self, names: dict[str, str]) -> dict[str, str] | None:
        return self._rename(names, lancecy.dataset(self.uri))

    def _drop(self, names: dict[str, str], table: Any = None) -> dict[str, str] | None:
        others = [made for made, name in names.items() if name != "id"]
        if len(others) < 2:
            return None
        gone = self.random.choice(others)
        (table or self._theirs()).drop_columns([names[gone]])
        return {made: name for made, name in names.items() if made != gone}

    def _rename(self, names: dict[str, str], table: Any = None) -> dict[str, str] | None:
        others = [made for made, name in names.items() if name != "id"]
        if not others:
            return None
        self.made += 1
        chosen = self.random.choice(others)
        (table or self._theirs()).alter_columns({"path": names[chosen], "name": f"r{self.made}"})
        return {made: f"r{self.made}" if made == chosen else name for made, name in names.items()}

    def _in_place(self, names: dict[str, str]) -> None:
        """Replace values of a column in the files of a fragment, as pylance's distributed updates do."""
        import lance

        theirs = self._theirs()
        name = self.random.choice([name for name in names.values() if name != "id"] or ["id"])
        fragments = theirs.get_fragments()
        if name == "id" or not fragments or self.version == "0.1":
            return
        self.made += 1
        fragment = self.random.choice(fragments)
        ids = fragment.to_table(columns=["id"])["id"].to_pylist()
        source = pa.table({"id": ids, name: [f"i{self.made}" for _ in ids]})
        made, fields = fragment.update_columns(source, "id", "id")
        operation = lance.LanceOperation.Update(
            updated_fragments=[made], fields_modified=fields, update_mode="rewrite_columns"
        )
        lance.LanceDataset.commit(self.uri, operation, read_version=theirs.version)

    def _config(self, _: dict[str, str]) -> None:
        lancecy.dataset(self.uri).update_config({"k": str(self.made)})

    def _compact(self, _: dict[str, str]) -> None:
        self._theirs().optimize.compact_files(target_rows_per_fragment=self.random.choice([6, 20]))

    def _my_compact(self, _: dict[str, str]) -> None:
        lancecy.dataset(self.uri).optimize.compact_files(target_rows_per_fragment=self.random.choice([6, 20]))

    # -- rows -----------------------------------------------------------------

    def _seen(self, names: dict[str, str], version: int | None = None) -> None:
        found = lancecy.dataset(self.uri, version=version)
        rows = found.to_table(with_row_id=True).to_pylist()
        self.rows[found.version] = {row.pop("_rowid"): row for row in rows}
        self.columns[found.version] = names

    def rows_as(self, old: int, new: int) -> dict[int, Row]:
        """The rows of an old version with the columns of a newer one."""
        mine, theirs = self.columns[old], self.columns[new]
        held = {}
        for made, name in theirs.items():
            free = [other for key, other in mine.items() if key not in theirs]
            held[name] = mine.get(made, name if name in free else None)
        return {
            number: {name: None if other is None else row[other] for name, other in held.items()}
            for number, row in self.rows[old].items()
        }

    def check(self, old: int, new: int) -> None:
        """Compare the changes between two versions with the rows of both."""
        before, after = self.rows_as(old, new), self.rows[new]
        found = lancecy.dataset(self.uri).changes(old, new)
        table = found.to_table()
        kinds: dict[str, dict[int, Row]] = {
            kind: {} for kind in ("delete", "update_preimage", "insert", "update_postimage")
        }
        for row in table.to_pylist():
            kind, number, version = row.pop("_change_type"), row.pop("_rowid"), row.pop("_commit_version")
            assert version is None or old < version <= new
            assert number not in kinds[kind]
            kinds[kind][number] = row
        assert found.count_rows() == {kind: len(rows) for kind, rows in kinds.items()}
        gone, come = (
            {**kinds["delete"], **kinds["update_preimage"]},
            {**kinds["insert"], **kinds["update_postimage"]},
        )
        assert kinds["update_preimage"].keys() == kinds["update_postimage"].keys()
        assert not kinds["insert"].keys() & kinds["delete"].keys() or not self.stable
        assert gone == {number: before[number] for number in gone}
        assert come == {number: after[number] for number in come}
        kept = {number: row for number, row in before.items() if number not in gone}
        assert {**kept, **come} == after
        assert not kept.keys() & come.keys()
