"""Indices that pylance built answer as a scan does, whatever lancecy does to the table afterwards.

pylance trusts an index for every fragment it names (table sheet, section 10). So each query runs twice: by
the index, and by looking at every row.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lancecy
from lancecy import DatasetBasePath

pytestmark = pytest.mark.interop
lance = pytest.importorskip("lance")

SCALAR = {
    "n": "BTREE",
    "kind": "BITMAP",
    "tags": "LABEL_LIST",
    "zone": "ZONEMAP",
    "text": "INVERTED",
    "gram": "NGRAM",
}
FILTERS = (
    "n = 17",
    "n >= 30 and n < 90",
    "kind = 'k3'",
    "kind is null",
    "array_has_any(tags, ['t1'])",
    "array_has_all(tags, ['t1', 't2'])",
    "zone > 100 and zone < 160",
    "contains(gram, 'am1')",
)
WORDS = ("quail", "zebra", "heron")
ROWS = 260  # enough to train a product quantizer of 8 bits


class Indexed:
    """A table with an index of every kind."""

    def __init__(self, folder: Path, vectors: str, stable: bool, seed: int) -> None:
        self.folder, self.uri, self.next = folder, str(folder / "t"), 0
        self.chance = random.Random(seed)
        self.ds = lancecy.write_dataset(
            self.rows(ROWS), self.uri, max_rows_per_file=90, enable_stable_row_ids=stable, durability="none"
        )
        theirs = lance.dataset(self.uri)
        for column, kind in SCALAR.items():
            theirs.create_scalar_index(column, kind)
        options = {"num_sub_vectors": 2} if vectors == "IVF_PQ" else {}
        theirs.create_index("vec", vectors, num_partitions=2, **options)
        self.ds = self.ds.checkout_latest()

    def rows(self, count: int) -> pa.Table:
        numbers = range(self.next, self.next + count)
        self.next += count
        coordinates = np.random.default_rng(self.next).normal(size=count * 8).astype(np.float32)
        return pa.table(
            {
                "n": pa.array(numbers, pa.int64()),
                "kind": [None if i % 9 == 0 else f"k{i % 5}" for i in numbers],
                "tags": pa.array([[f"t{j}" for j in range(i % 4)] for i in numbers], pa.list_(pa.string())),
                "zone": pa.array([i * 2 for i in numbers], pa.int64()),
                "text": [f"{WORDS[i % 3]} number {i}" for i in numbers],
                "gram": [f"am{i % 7} tail" for i in numbers],
                "vec": pa.FixedSizeListArray.from_arrays(coordinates, 8),
            }
        )

    # -- what lancecy does --------------------------------------------------------------------

    def append(self) -> None:
        self.ds.append(self.rows(self.chance.randint(1, 60)), durability="none")

    def delete(self) -> None:
        self.ds.delete(f"n % 7 = {self.chance.randint(0, 6)}")

    def delete_fragment(self) -> None:
        self.ds.delete("n < 90")

    def compact(self) -> None:
        self.ds.optimize.compact_files(target_rows_per_fragment=self.chance.choice([50, 120, 1000]))

    def overwrite(self) -> None:
        self.ds.insert(self.rows(100), mode="overwrite", durability="none")

    def overwrite_in_another_order(self) -> None:
        """The ids of the old columns are those of other columns now."""
        rows = self.rows(100)
        self.ds.insert(rows.select(rows.column_names[::-1]), mode="overwrite", durability="none")

    def restore(self) -> None:
        self.ds.checkout_version(
            self.chance.choice([entry["version"] for entry in self.ds.versions()])
        ).restore()
        self.ds = self.ds.checkout_latest()

    def add_base(self) -> None:
        base = DatasetBasePath(self.folder / f"b{self.ds.version}")
        self.ds.add_bases([base])
        self.ds.append(self.rows(20), target_bases=[str(base.path)], durability="none")

    def configure(self) -> None:
        self.ds.update_config({"a": str(self.ds.version)})
        self.ds.update_field_metadata({"n": {"a": str(self.ds.version)}})

    # -- what pylance answers -----------------------------------------------------------------

    def check(self) -> None:
        theirs = lance.dataset(self.uri)
        theirs.validate()
        rows = {row["n"]: row for row in self.ds.to_table().to_pylist()}
        for text in FILTERS:
            found, scanned = (
                self._numbers(theirs, filter=text, use_scalar_index=use) for use in (True, False)
            )
            assert found == scanned == sorted(self.ds.to_table(["n"], text)["n"].to_pylist()), text
        self._check_words(theirs, rows)
        self._check_vectors(theirs, rows)

    @staticmethod
    def _numbers(theirs: Any, **query: Any) -> list[int]:
        return sorted(theirs.to_table(columns=["n"], **query)["n"].to_pylist())

    def _check_words(self, theirs: Any, rows: dict[int, Any]) -> None:
        if not any(index.name == "text_idx" for index in theirs.describe_indices()):
            return  # a search by words needs its index, and an overwrite drops it
        for word in WORDS:
            expected = sorted(n for n, row in rows.items() if row["text"].startswith(word))
            assert self._numbers(theirs, full_text_query=word, limit=10_000) == expected, word

    def _check_vectors(self, theirs: Any, rows: dict[int, Any]) -> None:
        """Every partition is searched, and the best of many candidates are measured exactly."""
        if not rows:
            return
        query = np.random.default_rng(1).normal(size=8).astype(np.float32)
        distances = {n: float(((np.array(row["vec"]) - query) ** 2).sum()) for n, row in rows.items()}
        expected = sorted(sorted(distances, key=distances.__getitem__)[:5])
        for use in (True, False):
            nearest = {
                "column": "vec",
                "q": query,
                "k": 5,
                "nprobes": 2,
                "refine_factor": 200,
                "use_index": use,
            }
            assert self._numbers(theirs, nearest=nearest) == expected, f"index: {use}"


CHANGES = (
    "append",
    "delete",
    "delete_fragment",
    "compact",
    "overwrite",
    "overwrite_in_another_order",
    "restore",
    "add_base",
    "configure",
)


@pytest.mark.parametrize(
    ("vectors", "stable", "seed"),
    [("IVF_FLAT", False, 1), ("IVF_PQ", True, 2), ("IVF_PQ", False, 3), ("IVF_FLAT", True, 4)],
)
def test_answers_of_indices_are_those_of_scans(tmp_path: Path, vectors: str, stable: bool, seed: int) -> None:
    table = Indexed(tmp_path, vectors, stable, seed)
    table.check()
    order = [*CHANGES, "append", "delete", "compact", "restore"]
    table.chance.shuffle(order)
    for number, name in enumerate(order):
        step: Callable[[], None] = getattr(table, name)
        step()
        table.check()
        if number % 3 == 2:
            lance.dataset(table.uri).optimize.optimize_indices()
            table.ds = table.ds.checkout_latest()
            table.check()
    lance.dataset(table.uri).optimize.compact_files()
    table.ds = table.ds.checkout_latest()
    table.check()
