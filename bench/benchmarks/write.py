"""Tables written and changed through the public interface; only deletes wait for the disk."""

from __future__ import annotations

import shutil
import tempfile
from functools import cache
from itertools import count
from pathlib import Path

import pyarrow as pa

import lancecy

from .scale import VERSIONS, rows, vector_rows
from .tables import MAKERS


@cache
def _table(name: str) -> pa.Table:
    return MAKERS[name](rows() if name == "scalars" else vector_rows())


class Create:
    """Whole tables, each into a new folder."""

    params = (VERSIONS, ("scalars", "vectors"))
    param_names = ("version", "table")
    timeout = 300
    # One table per sample, in a folder that is removed after it, so that the disk has room for all.
    number = 1

    def setup(self, version: str, table: str) -> None:
        self.table = _table(table)
        self.folder = tempfile.mkdtemp(dir=Path.cwd())

    def teardown(self, version: str, table: str) -> None:
        shutil.rmtree(self.folder)

    def time_write_dataset(self, version: str, table: str) -> None:
        lancecy.write_dataset(self.table, self.folder, data_storage_version=version, durability="none")

    def peakmem_write_dataset(self, version: str, table: str) -> None:
        lancecy.write_dataset(self.table, self.folder, data_storage_version=version, durability="none")


class Change:
    """Small changes of a table of a hundred fragments."""

    params = VERSIONS
    param_names = ("version",)
    timeout = 300

    def setup(self, version: str) -> None:
        self.folder = tempfile.mkdtemp(dir=Path.cwd())
        self.table = pa.table({"id": range(10_000), "s": [str(n) for n in range(10_000)]})
        lancecy.write_dataset(self.table, self.folder, data_storage_version=version, max_rows_per_file=100)
        self.left = count()

    def teardown(self, version: str) -> None:
        shutil.rmtree(self.folder)

    def time_append_a_row(self, version: str) -> None:
        lancecy.write_dataset(self.table.slice(0, 1), self.folder, mode="append", durability="none")

    def time_delete_a_row(self, version: str) -> None:
        lancecy.dataset(self.folder).delete(f"id = {next(self.left)}")
