"""Whatever was acknowledged is read after a power cut at any call, if durability was asked for."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path

import pytest

import lancecy
from lancecy.errors import DatasetNotFoundError, LanceError
from tests.durability.changes import AFTER, BEFORE, rows
from tests.durability.power import Disk, Recorder
from tests.durability.syscalls import watched

ORDER = ["create", "append", "delete", "cleanup"]
ROWS = {"create": BEFORE, "append": AFTER["append"], "delete": [0, 2, 4, 6]}


def recorded(root: Path, durability: str) -> Recorder:
    """A table is created, added to, deleted from and cleaned up."""
    recorder = Recorder(root.parent)
    with watched(recorder, closes=True):
        ds = lancecy.write_dataset(rows(BEFORE), root, max_rows_per_file=3, durability=durability)  # type: ignore[arg-type]
        recorder.mark("create")
        ds = lancecy.write_dataset(rows([6, 7]), ds, mode="append", durability=durability)  # type: ignore[arg-type]
        recorder.mark("append")
        ds.delete("n % 2 = 1")
        recorder.mark("delete")
        ds.cleanup_old_versions(timedelta(0), delete_unverified=True)
        recorder.mark("cleanup")
    return recorder


def found(root: Path) -> tuple[int, list[int]]:
    """The newest version and its rows, every version having been read; (0, []) for no table."""
    try:
        newest = lancecy.dataset(root)
    except DatasetNotFoundError:
        return 0, []
    for version in newest.versions():
        lancecy.dataset(root, version["version"]).to_table()
    return newest.version, sorted(newest.to_table()["n"].to_pylist())


def lost(recorder: Recorder, folder: Path, *, keep_names: bool) -> list[str]:
    """Every number of calls after which a power cut loses what was acknowledged, or leaves what cannot be read."""
    wrong = []
    for count in range(1, len(recorder.events) + 1):
        disk = Disk.after(recorder.events[:count])
        disk.write(folder, keep_names=keep_names)
        acked = max((ORDER.index(change) + 1 for change in disk.acked), default=0)
        try:
            version, numbers = found(folder / "t")
        except LanceError as error:
            wrong.append(f"{count} {recorder.events[count - 1][:2]}: {error}")
        else:
            if version < min(acked, 3) or (version and numbers != ROWS[ORDER[version - 1]]):
                wrong.append(
                    f"{count} {recorder.events[count - 1][:2]}: version {version}, {numbers}, {disk.acked}"
                )
        shutil.rmtree(folder)
    return wrong


@pytest.mark.slow
@pytest.mark.parametrize("keep_names", [False, True], ids=["names lost", "names kept"])
def test_what_was_acknowledged_is_there_after_a_power_cut(tmp_path: Path, keep_names: bool) -> None:
    (tmp_path / "disk").mkdir()
    recorder = recorded(tmp_path / "disk" / "t", "fsync")
    assert len(recorder.events) > 60
    assert not lost(recorder, tmp_path / "cut", keep_names=keep_names)


@pytest.mark.slow
def test_power_cut_is_noticed_where_nothing_was_synced(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    recorder = recorded(tmp_path / "disk" / "t", "none")
    assert lost(recorder, tmp_path / "cut", keep_names=False)
