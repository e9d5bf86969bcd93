"""Sizes and locations of the tables of the benchmarks."""

from __future__ import annotations

import os
from pathlib import Path

from .tables import cached

__all__ = ["VERSIONS", "rows", "table_path", "table_paths", "vector_rows"]

VERSIONS = ("legacy", "2.0", "2.1", "2.2")
"""Versions of data files, in pylance's notation."""


def rows() -> int:
    """Rows of the seven-column table."""
    return int(os.environ.get("LANCECY_BENCH_ROWS", "1000000"))


def vector_rows() -> int:
    """Rows of the table of vectors: a fiftieth, which is about the same number of bytes."""
    return max(1, rows() // 50)


def table_path(kind: str, version: str = "legacy") -> str:
    """Path of the table of this kind written by pylance on first use.

    In the folder ``LANCECY_BENCH_DATA``, which is kept, or by default in the temporary folder of asv.
    """
    folder = Path(os.environ.get("LANCECY_BENCH_DATA", Path.cwd()))
    return str(cached(folder, kind, rows() if kind == "scalars" else vector_rows(), version))


def table_paths(kind: str) -> dict[str, str]:
    """The table in every version."""
    return {version: table_path(kind, version) for version in VERSIONS}
