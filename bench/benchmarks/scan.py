"""Scans, filters, takes and counts through the public interface, as a user runs them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

import lancecy

from .scale import VERSIONS, rows, table_paths, vector_rows

COLUMNS: dict[str, list[str] | None] = {
    "all": None,
    "fixed": ["id", "ts", "x", "k"],
    "string": ["s"],
    "bool": ["flag"],
    "dictionary": ["cat"],
}

JSON = {
    "number": "json_get_int(j, 'a')",
    "text": "json_get_string(j, 'name')",
    "path": "json_extract(j, '$.place.lat')",
    "object": "json_extract(j, '$.place')",
    "anywhere": "json_exists(j, '$.**.lon')",
    "element": "json_array_contains(j, '$.tags', '3')",
}


class Scan:
    """Whole columns."""

    params = (VERSIONS, tuple(COLUMNS))
    param_names = ("version", "columns")
    timeout = 300

    def setup_cache(self) -> dict[str, str]:
        return table_paths("scalars")

    def setup(self, paths: dict[str, str], version: str, columns: str) -> None:
        self.dataset = lancecy.dataset(paths[version])

    def time_to_table(self, paths: dict[str, str], version: str, columns: str) -> None:
        self.dataset.to_table(columns=COLUMNS[columns])

    def time_to_batches(self, paths: dict[str, str], version: str, columns: str) -> None:
        for _ in self.dataset.to_batches(columns=COLUMNS[columns]):
            pass

    def peakmem_to_table(self, paths: dict[str, str], version: str, columns: str) -> None:
        self.dataset.to_table(columns=COLUMNS[columns])

    def peakmem_to_batches(self, paths: dict[str, str], version: str, columns: str) -> None:
        for _ in self.dataset.to_batches(columns=COLUMNS[columns], batch_size_bytes=8 << 20):
            pass


class Filter:
    """Selective filters, with and without page statistics."""

    params = (VERSIONS, ("sorted", "random", "string", "unknown"))
    param_names = ("version", "filter")
    timeout = 300

    def setup_cache(self) -> dict[str, str]:
        return table_paths("scalars")

    def setup(self, paths: dict[str, str], version: str, filter: str) -> None:
        low = rows() // 2
        self.text = {
            "sorted": f"id >= {low} AND id < {low + rows() // 1000}",
            "random": "k < 10",
            "string": "s = 'w00001w00002'",
            "unknown": "x * 2 > 5.5",
        }[filter]
        self.dataset = lancecy.dataset(paths[version])
        # The first filter of a process imports the parser, and Arrow imports pandas, once.
        self.dataset.head(1, filter=self.text)

    def time_to_table(self, paths: dict[str, str], version: str, filter: str) -> None:
        self.dataset.to_table(columns=["id", "x", "s"], filter=self.text)

    def peakmem_to_table(self, paths: dict[str, str], version: str, filter: str) -> None:
        self.dataset.to_table(columns=["id", "x", "s"], filter=self.text)

    def time_count_rows(self, paths: dict[str, str], version: str, filter: str) -> None:
        self.dataset.count_rows(self.text)

    def time_explain(self, paths: dict[str, str], version: str, filter: str) -> None:
        self.dataset.scanner(columns=["id", "x", "s"], filter=self.text).explain()

    def track_pages_kept(self, paths: dict[str, str], version: str, filter: str) -> int:
        return int(self.dataset.scanner(columns=["id", "x", "s"], filter=self.text).explain().kept_pages)

    track_pages_kept.unit = "pages"  # type: ignore[attr-defined]

    def track_bytes_to_read(self, paths: dict[str, str], version: str, filter: str) -> int:
        return int(self.dataset.scanner(columns=["id", "x", "s"], filter=self.text).explain().bytes_to_read)

    track_bytes_to_read.unit = "bytes"  # type: ignore[attr-defined]


class Json:
    """Functions of a JSON column, documents of about 90 bytes: as a filter and as a computed column."""

    params = tuple(JSON)
    param_names = ("function",)
    timeout = 300

    def setup(self, function: str) -> None:
        texts = [
            f'{{"a": {n % 20}, "name": "user{n}", "tags": ["x", "{n % 7}"], "place": {{"lat": 0.{n}, "lon": 1.5}}}}'
            for n in range(rows() // 10)
        ]
        documents = pa.table({"i": range(len(texts)), "j": pa.array(texts, pa.json_())})
        self.dataset = lancecy.write_dataset(documents, "memory://documents.lance", mode="overwrite")
        self.column = {"found": JSON[function]}
        self.filter = f"{JSON[function]} IS NOT NULL"
        self.dataset.head(1, filter=self.filter)

    def time_count_rows(self, function: str) -> None:
        self.dataset.count_rows(self.filter)

    def time_computed_column(self, function: str) -> None:
        self.dataset.to_table(columns=self.column)

    def peakmem_computed_column(self, function: str) -> None:
        self.dataset.to_table(columns=self.column)


class Take:
    """A thousand random rows."""

    params = (VERSIONS, ("scalars", "vectors"))
    param_names = ("version", "table")
    timeout = 300

    def setup_cache(self) -> dict[str, dict[str, str]]:
        return {kind: table_paths(kind) for kind in ("scalars", "vectors")}

    def setup(self, paths: dict[str, dict[str, str]], version: str, table: str) -> None:
        total, self.columns = {
            "scalars": (rows(), ["id", "x", "s"]),
            "vectors": (vector_rows(), ["id", "vec"]),
        }[table]
        self.wanted: Any = np.random.default_rng(9).integers(0, total, 1000)
        self.dataset = lancecy.dataset(paths[table][version])

    def time_take(self, paths: dict[str, dict[str, str]], version: str, table: str) -> None:
        self.dataset.take(self.wanted, columns=self.columns)

    def time_open_and_take(self, paths: dict[str, dict[str, str]], version: str, table: str) -> None:
        lancecy.dataset(paths[table][version]).take(self.wanted, columns=self.columns)

    def peakmem_take(self, paths: dict[str, dict[str, str]], version: str, table: str) -> None:
        self.dataset.take(self.wanted, columns=self.columns)


class Vectors:
    """Embeddings: one copy at memory bandwidth is the goal."""

    params = VERSIONS
    param_names = ("version",)
    timeout = 300

    def setup_cache(self) -> dict[str, str]:
        return table_paths("vectors")

    def setup(self, paths: dict[str, str], version: str) -> None:
        self.dataset = lancecy.dataset(paths[version])

    def time_to_table(self, paths: dict[str, str], version: str) -> None:
        self.dataset.to_table(columns=["vec"])

    def peakmem_to_table(self, paths: dict[str, str], version: str) -> None:
        self.dataset.to_table(columns=["vec"])
