"""Metadata: opening, counting, listing versions."""

from __future__ import annotations

import lance
import pyarrow as pa

import lancecy

from .scale import table_path


class Open:
    """From a path to an open dataset."""

    def setup_cache(self) -> str:
        return table_path("scalars")

    def time_open(self, path: str) -> None:
        lancecy.dataset(path)

    def time_open_and_count(self, path: str) -> None:
        lancecy.dataset(path).count_rows()


class ManyFragments:
    """A manifest of many small fragments, and many versions."""

    params = (10, 1000)
    param_names = ("fragments",)
    timeout = 300

    def setup_cache(self) -> dict[int, str]:
        made = {}
        for count in self.params:
            path = f"fragments-{count}.lance"
            table = pa.table({"id": range(count * 8), "x": [0.5] * (count * 8)})
            lance.write_dataset(
                table, path, data_storage_version="legacy", max_rows_per_file=8, mode="overwrite"
            )
            for _ in range(20):
                lance.write_dataset(table.slice(0, 1), path, mode="append", data_storage_version="legacy")
            made[count] = path
        return made

    def time_open(self, paths: dict[int, str], fragments: int) -> None:
        lancecy.dataset(paths[fragments])

    def peakmem_open(self, paths: dict[int, str], fragments: int) -> None:
        lancecy.dataset(paths[fragments])

    def time_versions(self, paths: dict[int, str], fragments: int) -> None:
        lancecy.dataset(paths[fragments]).versions()

    def time_plan(self, paths: dict[int, str], fragments: int) -> None:
        lancecy.dataset(paths[fragments]).scanner().plan()
