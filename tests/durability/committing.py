"""A program whose writers die at each step of a commit through a manifest store, and are started again.

::

    python -m tests.durability.committing WRITERS COMMITS URL FOLDER

Each writer appends one row at a time to the table in the folder, until so many of its commits were acknowledged. A
reader opens the table all the time. Prints as JSON what was acknowledged, how often writers died and at which step, and
what the reader saw. Forks from an interpreter that has imported everything and runs no thread.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import lancecy
from lancecy.errors import ContentionError
from tests.durability.killing import reap, start

COMMITS = int(os.environ.get("LANCECY_STORE_COMMITS", "15"))
"""Of each writer; 50 in the long form (``make writers``)."""
STEPS = ("staged", "committed", "copied", "finished")
"""What is done as a writer dies: the manifest has a staged name, its item is put, it is copied, the item points there."""


class Dying:
    """A manifest store whose process dies after a step of the nth commit: one of a user's own, around an SQL store."""

    def __init__(self, inner: lancecy.ManifestKeyValue, step: str, commits: int) -> None:
        self.inner = inner
        self.step = step
        self.commits = commits

    def get(self, table: str, version: int) -> lancecy.ManifestItem | None:
        return self.inner.get(table, version)

    def latest(self, table: str) -> tuple[int, lancecy.ManifestItem] | None:
        return self.inner.latest(table)

    def above(self, table: str, version: int = 0) -> list[tuple[int, lancecy.ManifestItem]]:
        return self.inner.above(table, version)

    def put_if_absent(self, table: str, version: int, item: lancecy.ManifestItem) -> bool:
        self.commits -= 1
        self._die("staged")
        won = self.inner.put_if_absent(table, version, item)
        if won:
            self._die("committed")
        return won

    def put_if(
        self, table: str, version: int, item: lancecy.ManifestItem, expected: lancecy.ManifestItem
    ) -> bool:
        self._die("copied")
        done = self.inner.put_if(table, version, item, expected)
        self._die("finished")
        return done

    def delete(self, table: str, versions: Sequence[int]) -> None:
        self.inner.delete(table, versions)

    def _die(self, step: str) -> None:
        if step == self.step and self.commits <= 0:
            os.kill(os.getpid(), signal.SIGKILL)


def writer(number: int, commits: int, url: str, root: str, tell: Callable[[Any], None]) -> None:
    """Lives of one writer: each begins where the acknowledgements of the one before end."""
    chance = random.Random(number)
    acked: list[list[int]] = []
    died: Counter[str] = Counter()
    for life in range(10_000):
        step = STEPS[(number + life) % len(STEPS)]
        rest = commits - len(acked)
        work = partial(_append, number, life, rest, url, root, step, chance.randint(4, 12))
        code, told = reap(*start(work))
        acked += told
        if code == 0:
            tell({"acked": acked, "died": died})
            return
        assert code == -signal.SIGKILL, code
        died[step] += 1
    raise AssertionError("it never ends")


def _append(
    number: int,
    life: int,
    commits: int,
    url: str,
    root: str,
    step: str,
    fatal: int,
    tell: Callable[[Any], None],
) -> None:
    options = {"manifest_store": Dying(lancecy.SqlManifestStore(url), step, fatal)}
    row = {"writer": [number], "life": [life], "n": [0]}
    for n in range(commits):
        row["n"] = [n]
        while True:
            try:
                ds = lancecy.write_dataset(row, root, mode="append", storage_options=options)
            except ContentionError:
                continue
            break
        tell([number, life, n, ds.version])


def reader(url: str, root: str, tell: Callable[[Any], None]) -> None:
    """What a reader sees until it is told to stop: each version has one row more than the one before."""
    asked: list[bool] = []
    signal.signal(signal.SIGTERM, lambda *_: asked.append(True))
    seen, wrong = 0, []
    while not asked:
        ds = lancecy.dataset(root, storage_options={"manifest_store": url})
        if ds.count_rows() != ds.version or ds.version < seen:
            wrong.append([seen, ds.version, ds.count_rows()])
        seen = ds.version
        time.sleep(0.05)
    tell({"seen": seen, "wrong": wrong})


def main(writers: int, commits: int, url: str, root: str) -> dict[str, Any]:
    """What became of all writers."""
    first = {"writer": [-1], "life": [0], "n": [0]}
    lancecy.write_dataset(first, root, storage_options={"manifest_store": url})
    pid, pipe = start(partial(reader, url, root))
    begun = [start(partial(writer, number, commits, url, root)) for number in range(writers)]
    results = [reap(*each) for each in begun]
    os.kill(pid, signal.SIGTERM)
    _, read = reap(pid, pipe)
    assert [code for code, _ in results] == [0] * writers
    died = sum((Counter(told[0]["died"]) for _, told in results), Counter())
    acked = [ack for _, told in results for ack in told[0]["acked"]]
    return {"acked": acked, "died": died, "read": read}


if __name__ == "__main__":
    print(json.dumps(main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4])))
