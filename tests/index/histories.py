"""Tables with indices and histories, all of them random: both libraries make indices and change the table in turn."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa

import lancecy
from tests.index.conditions import SCHEMA, random_rows

__all__ = ["History"]

_SCALAR = ("BTREE", "BITMAP", "ZONEMAP", "BLOOMFILTER")
_NOT_HASHED = ("b", "m")
_COLUMNS = tuple(name for name in SCHEMA.names if name != "id")
_VERSIONS = ("2.0", "2.1", "2.2")


class History:
    """A table, and what happens to it.

    Parameters
    ----------
    folder : Path
    seed : int
        Tables of one seed are alike.

    Attributes
    ----------
    uri : str
    told : list of str
        What happened, for messages.
    is_ours : bool
        Whether all indices are those of lancecy, so that pylance's answers with them should be right.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        chance = self._chance = random.Random(seed)
        self.uri, self._folder = str(folder / "t"), folder
        self.told: list[str] = []
        self.is_ours = chance.random() < 0.6
        self._next, self._clones = 0, 0
        self._stable = chance.random() < 0.5
        options: dict[str, Any] = {
            "max_rows_per_file": chance.choice((60, 1000)),
            "enable_stable_row_ids": self._stable,
            "data_storage_version": chance.choice(_VERSIONS),
        }
        rows = self._rows(chance.choice((5, 200)))
        if chance.random() < 0.5:
            lance.write_dataset(rows, self.uri, **options)
        else:
            lancecy.write_dataset(rows, self.uri, durability="none", **options)
        self.told.append(f"{rows.num_rows} rows, {options}, {self.is_ours=}")
        for _ in range(chance.randint(1, 6)):
            self._index()
        for _ in range(chance.randint(0, 6)):
            self._step()

    @property
    def mine(self) -> lancecy.Dataset:
        """The newest version, opened by lancecy."""
        return lancecy.dataset(self.uri, allowed_bases=[str(self._folder)])

    @property
    def theirs(self) -> Any:
        """The same, opened by pylance."""
        return lance.dataset(self.uri)

    def columns(self) -> Sequence[str]:
        """Columns to ask about: mostly those with an index."""
        chance = self._chance
        indexed = {name.partition(".")[0] for index in self.mine.list_indices() for name in index["fields"]}
        return tuple(indexed) if indexed and chance.random() < 0.7 else _COLUMNS

    def _step(self) -> None:
        changes = _CHANGES if self.is_ours else (*_CHANGES, *_INDEX_CHANGES_OF_PYLANCE)
        change = self._chance.choice(changes)
        self.told.append(change.__name__.strip("_"))
        change(self)

    def _rows(self, count: int) -> pa.Table:
        self._next += count
        return random_rows(self._chance, count, self._next - count)

    def _some(self) -> str:
        divisor = self._chance.randint(2, 6)
        return f"id % {divisor} = {self._chance.randrange(divisor)}"

    def _assignments(self) -> dict[str, str]:
        return self._chance.choice(
            (
                {"i": "3", "f": "cast('NaN' as double)"},
                {"s": "'xabc'"},
                {"tags": "['x']"},
                {"g": "-0.0", "d": "date '2024-02-28'"},
                {"m": "NULL", "i": "i + 1"},
                {"nums": "NULL"},
            )
        )

    # -- changes of both ----------------------------------------------------------------------

    def _append(self) -> None:
        rows = self._rows(self._chance.choice((1, 50)))
        if self._chance.random() < 0.5:
            lance.write_dataset(rows, self.uri, mode="append")
        else:
            self.mine.insert(rows, mode="append", durability="none")

    def _delete(self) -> None:
        where = self._some()
        self._either().delete(where)

    def _update(self) -> None:
        new, where = self._assignments(), self._some()
        self._either().update(new, where=where)

    def _merge_columns(self) -> None:
        """New values of some columns; inserts as well if the source has all columns."""
        chance = self._chance
        keys = list(range(0, self._next + 20, chance.randint(3, 9)))
        rows = random_rows(chance, len(keys), 0).set_column(0, "id", pa.array(keys, pa.int64()))
        if chance.random() < 0.6:
            rows = rows.select(["id", *chance.sample(("i", "f", "s", "tags", "t"), 2)])
            self._either().merge_insert("id").when_matched_update_all().execute(rows)
        else:
            self._next += 20
            merge = self._either().merge_insert("id").when_matched_update_all()
            merge.when_not_matched_insert_all().execute(rows)

    def _compact(self) -> None:
        self.mine.optimize.compact_files(target_rows_per_fragment=self._chance.choice((100, 1 << 20)))

    def _restore(self) -> None:
        versions = [entry["version"] for entry in self.mine.versions()]
        self.mine.checkout_version(self._chance.choice(versions)).restore()

    def _readd_column(self) -> None:
        self.mine.drop_columns(["u"])
        self.mine.add_columns({"u": "cast(id % 5 as bigint unsigned)"})

    def _overwrite(self) -> None:
        rows = self._rows(70)
        if self._chance.random() < 0.5:
            lance.write_dataset(rows, self.uri, mode="overwrite", max_rows_per_file=50)
        else:
            self.mine.insert(rows, mode="overwrite", max_rows_per_file=50)

    def _clone(self) -> None:
        self._clones += 1
        uri = str(self._folder / f"clone{self._clones}")
        self.mine.shallow_clone(uri)
        self.uri = uri

    def _either(self) -> Any:
        return self.mine if self._chance.random() < 0.6 else self.theirs

    # -- indices ------------------------------------------------------------------------------

    def _index(self) -> None:
        chance = self._chance
        column = chance.choice(_COLUMNS)
        kinds = ("LABEL_LIST",) if column in ("tags", "nums") else _SCALAR
        kind = chance.choice((*kinds, "NGRAM") if column == "s" and not self.is_ours else kinds)
        if kind == "BLOOMFILTER" and column in _NOT_HASHED:
            kind = "BTREE"
        path = "st.x" if column == "st" else column
        self.told.append(f"index {path} {kind}")
        if kind == "NGRAM" or not (self.is_ours or chance.random() < 0.4):
            self.theirs.create_scalar_index(path, kind, name=f"{column}_{kind}")
            return
        options: dict[str, Any] = {}
        if chance.random() < 0.2:
            ids = [fragment.fragment_id for fragment in self.mine.get_fragments()]
            options["fragment_ids"] = chance.sample(ids, chance.randint(0, len(ids)))
        elif chance.random() < 0.1:
            options["train"] = False
        self.mine.create_scalar_index(path, kind, name=f"{column}_{kind}", durability="none", **options)

    def _drop_index(self) -> None:
        names = [index.name for index in self.mine.describe_indices()]
        if names:
            self.mine.drop_index(self._chance.choice(names))

    def _fold(self) -> None:
        options = self._chance.choice(
            ({}, {"num_indices_to_merge": 0}, {"num_indices_to_merge": 2}, {"retrain": True})
        )
        self.mine.optimize.optimize_indices(**options)

    def _fold_by_pylance(self) -> None:
        # It cannot extend an index on a child of a struct.
        with suppress(OSError):
            self.theirs.optimize.optimize_indices(**self._chance.choice(({}, {"num_indices_to_merge": 0})))

    def _compact_by_pylance(self) -> None:
        self.theirs.optimize.compact_files()


_CHANGES: tuple[Callable[[History], None], ...] = (
    History._append,
    History._append,
    History._delete,
    History._update,
    History._update,
    History._merge_columns,
    History._compact,
    History._restore,
    History._readd_column,
    History._overwrite,
    History._clone,
    History._index,
    History._drop_index,
    History._fold,
    History._fold,
)
_INDEX_CHANGES_OF_PYLANCE = (History._fold_by_pylance, History._fold_by_pylance, History._compact_by_pylance)
