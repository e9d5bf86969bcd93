"""A program whose children die: at each call to the system, at any moment, or race each other.

::

    python -m tests.durability.killing each CHANGE FOLDER      one child and one copy of the table per call
    python -m tests.durability.killing limits CHANGE FOLDER    one per file, which may not grow by its last byte
    python -m tests.durability.killing random TIMES FOLDER     children that append until they are killed
    python -m tests.durability.killing race WRITERS TIMES FOLDER

Forks from an interpreter that has imported everything and runs no thread. Prints what became of each as JSON.
"""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import lancecy
from lancecy.errors import ContentionError
from tests.durability.changes import CHANGES, rows, template
from tests.durability.syscalls import Call, watched

Told = list[Any]


def child(work: Callable[[Callable[[Any], None]], None], kill_after: float | None = None) -> tuple[int, Told]:
    """Run something in a child: how it ended, and what it told before."""
    return reap(*start(work), kill_after)


def start(work: Callable[[Callable[[Any], None]], None]) -> tuple[int, int]:
    mine, theirs = os.pipe()
    pid = os.fork()
    if pid:
        os.close(theirs)
        return pid, mine
    os.close(mine)
    write = os.write  # the one of the system, whatever is done to it later
    status = 1

    def tell(told: Any) -> None:
        write(theirs, json.dumps(told).encode() + b"\n")

    try:
        work(tell)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def reap(pid: int, pipe: int, kill_after: float | None = None) -> tuple[int, Told]:
    """Wait for a child, or kill it some seconds after the second thing it told."""
    with open(pipe, "rb", buffering=0) as answers:
        begun = [answers.readline() for _ in range(2)] if kill_after is not None else []
        if kill_after is not None:
            time.sleep(kill_after)
            os.kill(pid, signal.SIGKILL)
        told = [json.loads(line) for line in begun] + [
            json.loads(line) for line in answers if line.endswith(b"\n")
        ]
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), told


def copied(folder: Path, before: Path, name: str) -> Path:
    root = folder / name
    shutil.copytree(before, root)
    return root


def each(change: str, folder: Path) -> list[Any]:
    """Children that are killed at the first call, at the second, and so on, writes half done."""
    before, results = template(folder, change), []
    for number in range(10_000):
        root = copied(folder, before, f"{change} {number}")
        code, told = child(partial(_dying, change, root, number))
        results.append({"root": str(root), "acked": "ack" in told, "code": code})
        if code != -signal.SIGKILL:
            return results
    raise AssertionError("it never ends")


def _dying(change: str, root: Path, number: int, tell: Callable[[Any], None]) -> None:
    left = [number]
    write = os.write

    def hook(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], call: Call) -> Any:
        if left[0] == 0:
            if name == "write":
                write(args[0], args[1][: len(args[1]) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        left[0] -= 1
        return call()

    with watched(hook):
        CHANGES[change](str(root))
    tell("ack")


def limits(change: str, folder: Path) -> list[Any]:
    """Children that may not write a file of some size; one for each size that the change wants to write."""
    before = template(folder, change)
    whole = copied(folder, before, f"{change} whole")
    CHANGES[change](str(whole))
    there = {path.relative_to(before) for path in before.rglob("*")}
    new = [p for p in whole.rglob("*") if p.is_file() and p.relative_to(whole) not in there]
    results = []
    for size in sorted({path.stat().st_size for path in new}):
        root = copied(folder, before, f"{change} {size}")
        code, told = child(partial(_bounded, change, root, size - 1))
        results.append({"root": str(root), "code": code, "told": told, "size": size})
    return results


def _bounded(change: str, root: Path, size: int, tell: Callable[[Any], None]) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    try:
        CHANGES[change](str(root))
    except lancecy.errors.LanceError as error:
        tell({"error": type(error).__name__, "text": str(error)})
    else:
        tell("ack")


def at_random(times: int, folder: Path) -> list[Any]:
    """Children that append until they are killed, all to one table."""
    root, rng = str(folder / "random"), random.Random(3)
    lancecy.write_dataset(rows([0]), root)
    results = []
    for number in range(times):

        def work(tell: Callable[[Any], None], number: int = number) -> None:
            for step in range(1, 1000):
                tell({"intent": number * 1000 + step})
                lancecy.write_dataset(rows([number * 1000 + step]), root, mode="append")
                tell({"ack": number * 1000 + step})

        code, told = child(work, kill_after=rng.random() * 0.08)
        seen = sorted(lancecy.dataset(root).to_table()["n"].to_pylist())
        results.append({"code": code, "told": told, "seen": seen})
    return results


def race(writers: int, times: int, folder: Path) -> list[Any]:
    """Children that append to one table side by side."""
    root = str(folder / f"race {writers}")
    lancecy.write_dataset(rows([0]), root, enable_stable_row_ids=True)

    def work(number: int, tell: Callable[[Any], None]) -> None:
        for step in range(times):
            row = rows([1 + number * times + step])
            while True:
                try:
                    lancecy.write_dataset(row, root, mode="append", durability="none")
                except ContentionError:
                    continue
                break
            tell(row["n"][0].as_py())

    started = [start(partial(work, number)) for number in range(writers)]
    ended = [reap(*one) for one in started]
    return [{"root": root, "code": code, "told": told} for code, told in ended]


def main() -> None:
    what, *given, folder = sys.argv[1:]
    numbers: Any = [int(text) if text.isdigit() else text for text in given]
    for index, change in enumerate(CHANGES):  # imports what each needs, once for all children
        CHANGES[change](str(template(Path(folder), change, f"warm {index}")))
    modes: dict[str, Callable[..., list[Any]]] = {
        "each": each, "limits": limits, "random": at_random, "race": race
    }  # fmt: skip
    print(json.dumps(modes[what](*numbers, Path(folder))))


if __name__ == "__main__":
    main()
