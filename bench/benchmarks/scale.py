"""How large the tables of the benchmarks are, and where they are made."""

from __future__ import annotations

import os
from pathlib import Path

from .tables import cached

__all__ = ["rows", "table_path", "vector_rows"]


def rows() -> int:
    """Rows of the seven-column table."""
    return int(os.environ.get("LANCECY_BENCH_ROWS", "1000000"))


def vector_rows() -> int:
    """Rows of the table of vectors: a fiftieth, which is about the same number of bytes."""
    return max(1, rows() // 50)


def table_path(kind: str) -> str:
    """Path of the table of this kind as pylance writes it, made on first use in the folder asv runs in."""
    return str(cached(Path.cwd(), kind, rows() if kind == "scalars" else vector_rows(), "legacy"))
