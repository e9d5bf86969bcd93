"""Processes that append, upsert (one of them with pylance), delete and compact one table at once: every change is there, once.

``make writers`` runs them for ten minutes: LANCECY_WRITERS_SECONDS.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from itertools import count, takewhile
from multiprocessing.synchronize import Barrier
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pytest

import lancecy
from lancecy.errors import ConflictError, ContentionError
from tests.helpers.processes import fresh_processes

pytestmark = [pytest.mark.interop, pytest.mark.slow]

SECONDS = float(os.environ.get("LANCECY_WRITERS_SECONDS", "20"))
KEYS, FIRST, PER_APPEND, GONE = 40, 1_000_000, 20, 3
"""Keys below KEYS are upserted; appended ones begin at FIRST, and those that GONE divides are deleted."""
# pylance inserts a key once only if it is the unenforced primary key.
ID = pa.field("id", pa.int64(), False, {"lance-schema:unenforced-primary-key": "true"})
COLUMNS = ("first", "second", "third")
EMPTY = pa.schema([ID, *(pa.field(name, pa.int64()) for name in COLUMNS)]).empty_table()
PATIENCE = 1_000


def until(end: float, rounds: int | None) -> Iterator[int]:
    """Numbers of rounds, to a moment or a number of rounds."""
    return takewhile(lambda number: number != rounds and time.time() < end, count())


def insist(change: Callable[[], object]) -> None:
    """Make a change, and again if other writers committed first too often: nothing was committed then."""
    while True:
        try:
            change()
        except ContentionError:
            continue
        except OSError as error:  # what pylance raises
            if "Too many concurrent writers" not in str(error):
                raise
            continue
        return


def append(uri: str, end: float, rounds: int | None = None) -> int:
    """Append rows of new keys; return the first key that was not appended."""
    key = FIRST
    for _ in until(end, rounds):
        rows = pa.table({"id": pa.array(range(key, key + PER_APPEND), pa.int64())})
        insist(partial(lancecy.dataset(uri).append, rows))
        key += PER_APPEND
    return key


def upsert(uri: str, end: float, column: str, step: int, rounds: int | None = None) -> dict[int, int]:
    """Upsert keys that others upsert too, each in its own column; return the last value of every key."""
    last: dict[int, int] = {}
    for number in until(end, rounds):
        keys = [(number * step + i) % KEYS for i in range(8)]
        merge = lancecy.dataset(uri).merge_insert("id").when_matched_update_all()
        merge = merge.when_not_matched_insert_all().conflict_retries(PATIENCE)
        merge = merge.retry_timeout(timedelta(minutes=5))
        insist(partial(merge.execute, {"id": keys, column: [number] * len(keys)}))
        last.update(dict.fromkeys(keys, number))
    return last


def upsert_theirs(uri: str, end: float, column: str, step: int, rounds: int | None = None) -> dict[int, int]:
    """The upserts of :func:`upsert`, by pylance."""
    import lance

    last: dict[int, int] = {}
    schema = pa.schema([ID, pa.field(column, pa.int64())])
    for number in until(end, rounds):
        keys = [(number * step + i) % KEYS for i in range(8)]
        merge = lance.dataset(uri).merge_insert("id").when_matched_update_all()
        merge = merge.when_not_matched_insert_all().conflict_retries(PATIENCE)
        rows = pa.table([keys, [number] * len(keys)], schema=schema)
        insist(partial(merge.retry_timeout(timedelta(minutes=5)).execute, rows))
        last.update(dict.fromkeys(keys, number))
    return last


def delete(uri: str, end: float, rounds: int | None = None) -> int:
    """Delete appended keys; return the first key that was not looked at."""
    bound = FIRST
    for _ in until(end, rounds):
        ds = lancecy.dataset(uri)
        bound = max([bound, *(key + 1 for key in ds.to_table(["id"])["id"].to_pylist())])
        condition = f"id >= {FIRST} AND id < {bound} AND id % {GONE} = 0"
        insist(partial(ds.delete, condition, conflict_retries=PATIENCE, retry_timeout=timedelta(minutes=5)))
    return bound


def compact(uri: str, end: float, rounds: int | None = None) -> tuple[int, int]:
    """Compact whenever there are small fragments; return how often, and how often in vain."""
    done = lost = 0
    for _ in until(end, rounds):
        try:
            metrics = lancecy.dataset(uri).optimize.compact_files(target_rows_per_fragment=100_000)
        except (ConflictError, ContentionError):
            lost += 1
        else:
            done += metrics.fragments_removed > 0
            time.sleep(0.01)
    return done, lost


def made_ready(gate: Barrier, folder: str) -> None:
    """Make every kind of change once, so that all modules are imported when the writers begin together."""
    uri, soon = f"{folder}/{uuid4()}", time.time() + 60
    lancecy.write_dataset(EMPTY, uri)
    rounds: list[Callable[[], object]] = [
        lambda: append(uri, soon, 2),
        lambda: upsert(uri, soon, "first", 1, 1),
        lambda: upsert_theirs(uri, soon, "third", 1, 1),
        lambda: delete(uri, soon, 1),
        lambda: compact(uri, soon, 1),
    ]
    for work in rounds:
        work()
    gate.wait()


def test_no_change_of_six_processes_is_lost(tmp_path: Path) -> None:
    import lance

    uri = str(tmp_path / "t")
    lancecy.write_dataset(EMPTY, uri, enable_stable_row_ids=True)
    fresh = fresh_processes()
    gate = fresh.Barrier(7)
    with fresh.Pool(6, made_ready, (gate, str(tmp_path))) as pool:
        gate.wait()
        end = time.time() + SECONDS
        appending = pool.apply_async(append, (uri, end))
        deleting = pool.apply_async(delete, (uri, end))
        compacting = pool.apply_async(compact, (uri, end))
        upserting = {
            column: pool.apply_async(upsert, (uri, end, column, step))
            for column, step in (("first", 3), ("second", 5))
        }
        upserting["third"] = pool.apply_async(upsert_theirs, (uri, end, "third", 7))
        appended, deleted = appending.get(), deleting.get()
        done, lost = compacting.get()
        last = {column: work.get() for column, work in upserting.items()}

    ds = lancecy.dataset(uri)
    table = ds.to_table(["id", *COLUMNS, "_rowid"])
    ids = table["id"].to_pylist()
    assert len(set(ids)) == len(ids), "a key is there twice"
    left = {key for key in range(FIRST, appended) if key >= deleted or key % GONE}
    assert {key for key in ids if key >= FIRST} == left
    assert {key for key in ids if key < FIRST} == {key for keys in last.values() for key in keys}
    for column, expected in last.items():
        found = dict(zip(ids, table[column].to_pylist(), strict=True))
        assert {key: value for key, value in found.items() if value is not None} == expected, (
            "an update is lost"
        )
    assert len(set(table["_rowid"].to_pylist())) == len(ids)
    assert done
    assert done >= 0.95 * (done + lost), f"{lost} of {done + lost} compactions found no place"
    theirs = lance.dataset(uri)
    theirs.validate()
    assert theirs.to_table(["id", *COLUMNS, "_rowid"]).equals(table)
    print(f"{ds.version} versions, {appended - FIRST} rows appended, {done} compactions, {lost} in vain")
