"""A disk that is full from some call on, or refuses just one: an error that says so, a whole table, no loss."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from lancecy.errors import CommitUnknownError, LanceError, StoreError
from tests.durability.changes import CHANGES, check, reclaim, template
from tests.durability.syscalls import Call, watched

pytestmark = [pytest.mark.interop, pytest.mark.slow]

# What needs space; closing, removing and giving another name within a folder need none, linking may.
NEEDY = {"open", "write", "fsync", "link", "mkdir"}


class Full:
    """No space at the call with a number, and at all later ones if it is to stay so."""

    def __init__(self, number: int | None, stays: bool) -> None:
        self.number, self.stays, self.seen, self.failed = number, stays, 0, ""

    def __call__(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], call: Call) -> Any:
        if name not in NEEDY:
            return call()
        number, self.seen = self.seen, self.seen + 1
        if self.number is None or number < self.number or (number > self.number and not self.stays):
            return call()
        self.failed = self.failed or name
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("stays", [True, False], ids=["full", "once"])
@pytest.mark.parametrize("change", ["create", "append", "delete"])
def test_full_disk_is_said_to_be_and_loses_nothing(tmp_path: Path, change: str, stays: bool) -> None:
    before = template(tmp_path, change)
    # Where the last attempt got through is where there are no more calls to fail.
    for number in range(200):
        root = tmp_path / f"{number}"
        shutil.copytree(before, root)
        disk, error = Full(number, stays), None
        try:
            with watched(disk):
                CHANGES[change](str(root))
        except LanceError as raised:
            error = raised
        if not disk.failed:
            break
        _judge(root, change, error, f"{disk.failed}, call {number}", stays)
        if number % 4 == 0:
            reclaim(root, change)
        shutil.rmtree(root)
    assert number > 10


def _judge(root: Path, change: str, error: LanceError | None, where: str, stays: bool) -> None:
    text = str(error)
    if error is None:
        # One refusal can be got over: the same request is made again.
        assert not stays, where
    elif isinstance(error, CommitUnknownError):
        assert "look for it" in text and "delete none of the files" in text, where
    else:
        assert isinstance(error, StoreError), f"{where}: {error!r}"
        assert error.errno == errno.ENOSPC and "the disk is full: free space and try again" in text, where
        assert not list((root / "data").glob("*")) or change != "create", where
    check(root, change, error is None)
    assert not list(root.rglob(".tmp*")), where
