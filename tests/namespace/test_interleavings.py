"""Changes of one table by two namespaces, one of which acts between two steps of the other: one wins."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance_namespace as ln
import pyarrow as pa
import pytest

import lancecy
from lancecy.namespace import creation, removal
from lancecy.namespace.catalog import Remove
from tests.helpers.namespaces import (
    create,
    deregister,
    drop,
    exists,
    make,
    ours,
    register,
    rename,
    tables,
)

ACTIONS: dict[str, Callable[[Any], Any]] = {
    "drop": lambda ns: drop(ns, "t"),
    "rename": lambda ns: rename(ns, "t", "u"),
    "deregister": lambda ns: deregister(ns, "t"),
}


def won(action: str, ns: Any) -> bool:
    try:
        ACTIONS[action](ns)
    except (ln.TableNotFoundError, ln.ConcurrentModificationError):
        return False
    return True


def between(ns: Any, monkeypatch: pytest.MonkeyPatch, step: int, act: Callable[[], Any]) -> None:
    """Act before one of the steps of the next operation: changes of the catalog, and the removal of a directory."""
    left = step

    def before(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            nonlocal left
            left -= 1
            if left == -1:
                act()
            return real(*args, **options)

        return call

    monkeypatch.setattr(ns._catalog, "change", before(ns._catalog.change))
    monkeypatch.setattr(ns._directories, "remove", before(ns._directories.remove))


def age(folder: Path) -> None:
    """Make the files of a table an hour old."""
    for path in folder.rglob("*"):
        os.utime(path, (time.time() - 3600,) * 2)


@pytest.mark.parametrize("first", ACTIONS)
def test_of_two_that_take_away_a_table_of_v1_one_wins(
    tmp_path: Path, first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(removal, "_CHANGED_WITHIN", 0.0)
    for second in ACTIONS:
        for step in range(4):
            root = tmp_path / f"{second}{step}"
            lancecy.write_dataset({"a": [1]}, root / "t.lance")
            ns, other = ours(root), ours(root)
            results: list[bool] = []

            def act(second: str = second, other: Any = other, results: list[bool] = results) -> None:
                results.append(won(second, other))

            with monkeypatch.context() as patches:
                between(ns, patches, step, act)
                results.append(won(first, ns))
            if len(results) == 1:
                act()
            assert sorted(results) == [False, True], (second, step, results)
            for row in lancecy.dataset(root / "__manifest").to_table().to_pylist():
                assert lancecy.dataset(root / row["location"]).count_rows() == 1, (second, step)
            assert not exists(ns, "t")


@pytest.mark.parametrize("action", ACTIONS)
def test_a_directory_whose_row_just_went_may_be_about_to_go(
    tmp_path: Path, action: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # pylance drops a table: first its row goes, then its directory.
    ns = ours(tmp_path)
    create(ns, "t")
    age(tmp_path / "t.lance")
    ns._catalog.change(lambda view: Remove(["t"]))
    assert tables(ns) == ["t"]
    monkeypatch.setattr(time, "sleep", lambda seconds: shutil.rmtree(tmp_path / "t.lance"))
    with pytest.raises(ln.TableNotFoundError):
        ACTIONS[action](ns)
    assert lancecy.dataset(tmp_path / "__manifest").count_rows() == 0


def test_nothing_is_created_over_a_table_that_lost_its_files(tmp_path: Path) -> None:
    ns = ours(tmp_path)
    make(ns, "n")
    register(ns, "n.t", "gone")
    lancecy.write_dataset({"a": [1]}, tmp_path / "half.lance")
    shutil.rmtree(tmp_path / "half.lance" / "_versions")
    for name in ("n.t", "half"):
        with pytest.raises(ln.TableAlreadyExistsError, match="lost its data: drop it"):
            create(ns, name)
        assert create(ns, name, mode="Overwrite").version == 1
    register(ns, "n.u", "elsewhere")
    drop(ns, "n.u")
    create(ns, "n.u")


@pytest.mark.parametrize("mode", ["Create", "Overwrite"])
def test_files_that_go_while_a_table_is_created_are_a_race(
    tmp_path: Path, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ns = ours(tmp_path)
    if mode == "Overwrite":
        create(ns, "t")
    real = lancecy.write_dataset

    def write(rows: pa.Table, uri: str, **options: Any) -> Any:
        def batches() -> Any:
            yield from rows.to_batches()
            shutil.rmtree(tmp_path / "t.lance")

        return real(pa.RecordBatchReader.from_batches(rows.schema, batches()), uri, **options)

    monkeypatch.setattr(creation, "write_dataset", write)
    with pytest.raises(ln.ConcurrentModificationError, match="try again"):
        create(ns, "t", mode=mode)
