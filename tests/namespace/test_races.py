"""Processes that create, rename and drop overlapping names: one winner each, and nothing is left over."""

from __future__ import annotations

import multiprocessing
import os
import random
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance_namespace as ln
import pytest

import lancecy
from tests.helpers.namespaces import (
    create,
    declare,
    deregister,
    drop,
    exists,
    make,
    namespaces,
    ours,
    remove,
    rename,
    tables,
    theirs,
)

ROUNDS = int(os.environ.get("LANCECY_RACE_ROUNDS", "12"))
NAMES = ("a", "b", "c")
EXPECTED = (
    ln.TableAlreadyExistsError,
    ln.TableNotFoundError,
    ln.NamespaceAlreadyExistsError,
    ln.NamespaceNotFoundError,
    ln.NamespaceNotEmptyError,
    ln.ConcurrentModificationError,
)


def one_winner(root: str, barrier: Any, results: Any, kind: str) -> None:
    ns = ours(root)
    won = []
    for number in range(4):
        barrier.wait()
        try:
            if kind == "namespace":
                make(ns, f"n{number}")
            elif kind == "root":
                create(ns, f"t{number}", {"a": [os.getpid()]})
            elif kind == "child":
                create(ns, f"space.t{number}", {"a": [os.getpid()]})
            else:
                declare(ns, f"space.t{number}")
            won.append(number)
        except (ln.TableAlreadyExistsError, ln.NamespaceAlreadyExistsError):
            pass
    results.put((os.getpid(), won))


def run(count: int, target: Any, *args: Any) -> list[Any]:
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    barrier = context.Barrier(count)
    started = [
        context.Process(target=target, args=(args[0], barrier, results, *args[1:])) for _ in range(count)
    ]
    for process in started:
        process.start()
    found = [results.get(timeout=250) for _ in started]
    for process in started:
        process.join()
        assert process.exitcode == 0
    return found


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["namespace", "root", "child", "declared"])
def test_of_several_creators_one_wins(tmp_path: Path, kind: str) -> None:
    ns = ours(tmp_path)
    make(ns, "space")
    found = run(4, one_winner, str(tmp_path), kind)
    assert Counter(number for _, won in found for number in won) == dict.fromkeys(range(4), 1)
    if kind in ("root", "child"):
        prefix = "space." if kind == "child" else ""
        for process, won in found:
            for number in won:
                place = ns.describe_table(
                    ln.DescribeTableRequest(id=f"{prefix}t{number}".split("."))
                ).location
                assert lancecy.dataset(place).to_table()["a"].to_pylist() == [process]
    assert ns.remove_unused(older_than=timedelta(0), dry_run=True) == []


def disturb(root: str, barrier: Any, results: Any) -> None:
    draw, ns = random.Random(os.getpid()), ours(root)
    barrier.wait()
    done = 0
    for _ in range(ROUNDS):
        space = draw.choice(["", "s.", "r."])
        one, other, parent = f"{space}{draw.choice(NAMES)}", draw.choice(NAMES), draw.choice(["s", "r"])
        changes: list[tuple[Any, ...]] = [
            (create, one),
            (create, one),
            (drop, one),
            (rename, one, other),
            (make, parent),
            (remove, parent),
        ]
        change, *names = draw.choice(changes)
        options = {"behavior": "Cascade"} if change is remove else {}
        try:
            change(ns, *names, **options)
            done += 1
        except EXPECTED:
            pass
    results.put(done)


@pytest.mark.slow
def test_changes_of_overlapping_names_leave_a_sound_catalog(tmp_path: Path) -> None:
    ns = ours(tmp_path)
    make(ns, "s")
    assert sum(run(4, disturb, str(tmp_path))) > 0
    sound(tmp_path)


def sound(root: Path) -> None:
    """Every row has a table, every directory a row or a clean-up that finds it, and every id is there once."""
    ns = ours(root)
    rows = lancecy.dataset(root / "__manifest").to_table().to_pylist()
    ids = [row["object_id"] for row in rows]
    assert len(ids) == len(set(ids))
    parents = {row["object_id"] for row in rows if row["object_type"] == "namespace"}
    for row in rows:
        assert row["object_id"].rpartition("$")[0] in {"", *parents}
        if row["object_type"] == "table":
            assert lancecy.dataset(root / row["location"]).count_rows() == 3
    used = {row["location"] for row in rows if row["location"]}
    unused = set(ns.remove_unused(older_than=timedelta(0)))
    left = set(os.listdir(root)) - used - {"__manifest"} - unused
    # Tables of V1, if any, are seen by their names.
    assert all(name.endswith(".lance") for name in left), left
    for name in tables(ns):
        assert exists(ns, name)
    for space in namespaces(ns):
        for name in tables(ns, space):
            assert exists(ns, f"{space}.{name}")


def with_pylance(root: str, barrier: Any, results: Any, kind: str) -> None:
    ns = theirs(root) if kind == "pylance" else ours(root)
    barrier.wait()
    made = []
    for number in range(8):
        try:
            make(ns, f"n{number}")
            made.append(number)
        except (ln.NamespaceAlreadyExistsError, ln.ConcurrentModificationError):
            pass
        make(ns, f"{kind}{os.getpid()}-{number}")
    results.put(made)


@pytest.mark.slow
@pytest.mark.interop
def test_pylance_takes_part_in_races(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    results, barrier = context.Queue(), context.Barrier(4)
    kinds = ["pylance", "pylance", "lancecy", "lancecy"]
    started = [
        context.Process(target=with_pylance, args=(str(tmp_path), barrier, results, kind)) for kind in kinds
    ]
    for process in started:
        process.start()
    made = Counter(number for _ in started for number in results.get(timeout=250))
    for process in started:
        process.join()
        assert process.exitcode == 0
    assert made == dict.fromkeys(range(8), 1)
    found = namespaces(ours(tmp_path))
    assert len(found) == 8 + 32
    assert namespaces(theirs(tmp_path)) == found


def test_deregistered_and_dropped_names_are_free_again(tmp_path: Path) -> None:
    ns = ours(tmp_path)
    create(ns, "t")
    deregister(ns, "t")
    create(ns, "t")
    drop(ns, "t")
    assert tables(ns) == []
