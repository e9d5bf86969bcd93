"""Changes of a table that things go wrong with, and what may be found afterwards."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pyarrow as pa

import lancecy
from lancecy.errors import DatasetNotFoundError, ExistsError

__all__ = ["AFTER", "BEFORE", "CHANGES", "check", "reclaim", "rows", "template"]

BEFORE = list(range(6))
AFTER = {"create": BEFORE, "append": [*BEFORE, 6, 7], "delete": [0, 2, 4]}


def rows(numbers: list[int]) -> pa.Table:
    """Rows that are what their number says."""
    return pa.table({"n": pa.array(numbers, pa.int64()), "w": [f"word {n}" for n in numbers]})


def _create(root: str) -> None:
    lancecy.write_dataset(rows(BEFORE), root, max_rows_per_file=4)


def _append(root: str) -> None:
    lancecy.write_dataset(rows([6, 7]), root, mode="append")


def _delete(root: str) -> None:
    lancecy.dataset(root).delete("n % 2 = 1")


CHANGES: dict[str, Callable[[str], None]] = {"create": _create, "append": _append, "delete": _delete}


def template(folder: Path, change: str, name: str = "before") -> Path:
    """The table as it is before a change: nothing at all before it is created."""
    root = folder / f"{name} {change}"
    root.mkdir()
    if change != "create":
        _create(str(root))
    return root


def check(root: Path, change: str, acked: bool) -> None:
    """The table before the change or after it, whole, and after it if that was acknowledged; for both libraries."""
    import lance

    try:
        found = lancecy.dataset(root).to_table().sort_by("n")
    except DatasetNotFoundError:
        assert change == "create" and not acked
        return
    allowed = [AFTER[change]] if acked or change == "create" else [BEFORE, AFTER[change]]
    assert found["n"].to_pylist() in allowed
    assert found.equals(rows(found["n"].to_pylist()))
    theirs = lance.dataset(str(root))
    assert theirs.to_table().sort_by("n").equals(found)
    theirs.validate()


def reclaim(root: Path, change: str) -> None:
    """The next writer goes on, and a cleanup leaves what the newest version needs and nothing else."""
    if change == "create":
        with suppress(ExistsError):
            _create(str(root))
    ds = lancecy.dataset(root)
    ds.append(rows([90]))
    ds.cleanup_old_versions(timedelta(0), delete_unverified=True)
    fragments = ds._snapshot.fragments
    there = sorted(os.path.relpath(path, root).split(os.sep)[0] for path in root.rglob("*") if path.is_file())
    needed = {"data": sum(len(f.files) for f in fragments), "_versions": 1, "_transactions": 1}
    needed["_deletions"] = sum(f.deletion_file is not None for f in fragments)
    assert there == sorted(name for name, count in needed.items() for _ in range(count))
    assert 90 in ds.to_table()["n"].to_pylist()
