"""Real processes that append to one table on a local disk lose nothing."""

from __future__ import annotations

import multiprocessing
import os
import random
import time
import uuid
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from unittest.mock import patch

import pytest

from lancecy.errors import ContentionError
from lancecy.schema import Field, Schema
from lancecy.session import Session
from lancecy.store.local import LocalStore
from lancecy.table.bases import PathPolicy
from lancecy.table.drive import commit_to
from lancecy.table.locate import locations, read
from lancecy.table.manifest import DataFile, Fragment
from lancecy.table.operations import Append, Overwrite, new_transaction
from lancecy.table.snapshot import load_snapshot
from lancecy.table.terms import Origin, Policy

SCHEMA = Schema((Field("a", 0, logical_type="int64"),))
ROWS = 3


def _fragment(store: LocalStore) -> Fragment:
    path = f"{uuid.uuid4().hex}.lance"
    store.put(f"data/{path}", bytes(20))
    return Fragment(0, (DataFile(path, (0,), (0,), 2, 1, 20),), physical_rows=ROWS)


def _append_often(root: str, times: int, answers: multiprocessing.Queue[list[str]]) -> None:
    patch.object(os, "fsync", lambda descriptor: None).start()  # durability is not what races are about
    store, acked = LocalStore(root), []
    for _ in range(times):
        fragment = _fragment(store)
        while True:
            snapshot = load_snapshot(root)
            origin = Origin(snapshot.version, snapshot.location.naming, snapshot.identity)
            transaction = new_transaction(Append((fragment,)), snapshot.version)
            try:
                commit_to(store, transaction, origin, Session(), PathPolicy(), Policy())
            except ContentionError:
                continue
            break
        acked.append(fragment.files[0].path)
    answers.put(acked)


@pytest.mark.slow
@pytest.mark.parametrize(("writers", "times"), [(8, 50), (32, 10)])
def test_appends_of_many_processes_are_all_there(tmp_path: Path, writers: int, times: int) -> None:
    root = str(tmp_path)
    store = LocalStore(root)
    creation = new_transaction(Overwrite((), SCHEMA, data_version="2.1", stable_row_ids=True))
    commit_to(store, creation, None, Session(), PathPolicy())
    # Forked, as starting 32 interpreters would take longer than the race.
    context = multiprocessing.get_context("fork")
    answers: multiprocessing.Queue[list[str]] = context.Queue()
    processes = [context.Process(target=_append_often, args=(root, times, answers)) for _ in range(writers)]
    for process in processes:
        process.start()
    acked = [path for _ in processes for path in answers.get(timeout=240)]
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * writers
    found = [location.version for location in locations(store)][::-1]
    assert found == list(range(1, writers * times + 2))
    manifest, _ = read(store, locations(store)[0])
    assert sorted(file.path for part in manifest.fragments for file in part.files) == sorted(acked)
    assert len(set(acked)) == writers * times
    assert [part.id for part in manifest.fragments] == list(range(writers * times))
    assert manifest.next_row_id == writers * times * ROWS
    assert not [path.name for path in (tmp_path / "_versions").iterdir() if "tmp" in path.name]


def _append_until_killed(root: str, pipe: Connection) -> None:
    store = LocalStore(root)
    while True:
        fragment = _fragment(store)
        pipe.send(("intent", fragment.files[0].path))
        snapshot = load_snapshot(root)
        origin = Origin(snapshot.version, snapshot.location.naming, snapshot.identity)
        transaction = new_transaction(Append((fragment,)), snapshot.version)
        commit_to(store, transaction, origin, Session(), PathPolicy())
        pipe.send(("ack", fragment.files[0].path))


@pytest.mark.slow
def test_killed_writers_leave_a_whole_table(tmp_path: Path) -> None:
    root, rng = str(tmp_path), random.Random(11)
    store = LocalStore(root)
    creation = new_transaction(Overwrite((), SCHEMA, data_version="2.1"))
    commit_to(store, creation, None, Session(), PathPolicy())
    context = multiprocessing.get_context("fork")
    told: dict[str, set[str]] = {"intent": set(), "ack": set()}
    for _ in range(40):
        mine, theirs = context.Pipe(duplex=False)
        process = context.Process(target=_append_until_killed, args=(root, theirs))
        process.start()
        theirs.close()
        mine.poll(10)
        time.sleep(rng.random() * 0.03)
        process.kill()
        process.join()
        with suppress(EOFError):
            while True:
                kind, path = mine.recv()
                told[kind].add(path)
        mine.close()
        manifest, _ = read(store, locations(store)[0])
        visible = [file.path for part in manifest.fragments for file in part.files]
        assert told["ack"] <= set(visible) <= told["intent"]
        assert len(set(visible)) == len(visible) == len(locations(store)) - 1
    assert len(told["ack"]) > 20
