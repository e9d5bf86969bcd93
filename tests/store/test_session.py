"""The session: stores opened once, threads only when needed, children that start afresh."""

from __future__ import annotations

import gc
import pickle
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path

import pytest

import lancecy
from lancecy import session as module
from lancecy.errors import UnsupportedError
from lancecy.limits import Limits
from lancecy.session import Session, default
from lancecy.store.local import LocalStore
from lancecy.store.pools import Level, Pools
from lancecy.store.wrap import LatencyStore
from tests.contracts.store import in_child
from tests.store.test_fetch import check, memory_store, ranges

# Stores


def test_store_is_opened_once(tmp_path: Path) -> None:
    session = Session()
    store = session.store(str(tmp_path))
    assert session.store(str(tmp_path)) is store
    assert session.store(f"{tmp_path}/") is store
    assert session.store(f"file://{tmp_path}") is store
    assert session.store(tmp_path) is store


def test_sizes_and_identity_as_in_pylance(tmp_path: Path) -> None:
    session = Session()
    lancecy.write_dataset({"a": [1]}, tmp_path / "t")
    ds = lancecy.dataset(tmp_path / "t", session=session)
    ds.to_table()
    assert ds.session().size_bytes() == session.cache.nbytes > 0
    assert ds.session().is_same_as(session)
    assert not session.is_same_as(Session())


def test_other_settings_are_other_stores(tmp_path: Path) -> None:
    session = Session()
    found = {
        id(session.store(tmp_path)),
        id(session.store(tmp_path, mapped=False)),
        id(session.store(tmp_path, follow_symlinks=False)),
        id(session.store("memory://x", {"a": 1})),
        id(session.store("memory://x", {"a": 2})),
        id(session.store("memory://x")),
    }
    assert len(found) == 6
    assert session.store("memory://x", {"a": 1}) is session.store("memory://x/", {"a": 1})
    assert session.store("memory://x", {}) is session.store("memory://x", None)


def test_relative_paths_follow_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session()
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        assert session.store("t").uri == str(tmp_path / name / "t")


def test_logins_in_uris_are_told_apart() -> None:
    session = Session()
    first, second = (session.store(f"ftp://me:{password}@host/t") for password in ("one", "two"))
    assert first is not second
    assert first.uri == second.uri == "ftp://host/t"


def test_stores_kept_are_bounded(tmp_path: Path) -> None:
    session = Session()
    for index in range(module._STORES + 50):
        session.store(f"{tmp_path}/{index}")
    assert len(session._stores) <= module._STORES


def test_unknown_scheme_leaves_nothing_behind() -> None:
    session = Session()
    with pytest.raises(UnsupportedError):
        session.store("nonsense://x")
    assert len(session._stores) == 0


# Limits, pickles, the default


def test_sessions_with_other_limits_share_all_but_the_cache(tmp_path: Path) -> None:
    session = Session()
    lower = session.with_limits(Limits(fragments=5))
    assert lower.limits.fragments == 5
    assert session.with_limits(Limits(fragments=5)) is lower
    assert lower.with_limits(session.limits) is session
    assert session.store(tmp_path) is lower.store(tmp_path)
    session.cache.get(("k",), lambda: 1, 1)
    assert ("k",) not in lower.cache
    assert session.pool() is lower.pool()
    session.remember_options("s3://b", {"key": "k"})
    assert lower.options_for("s3://b/x") == {"key": "k"}
    assert session.key != lower.key
    session.close()


def test_pickle_carries_settings_only(tmp_path: Path) -> None:
    session = Session(Limits(fragments=7), cache_bytes=1000, threads=3)
    session.store(tmp_path)
    session.pool()
    again = pickle.loads(pickle.dumps(session))
    assert (again.limits, again.cache.limit, again.threads) == (Limits(fragments=7), 1000, 3)
    assert len(again._stores) == 0
    assert again.key != session.key
    session.close()


def test_what_a_session_keeps_is_freed_with_it(tmp_path: Path) -> None:
    """Not only when the collector runs: cached values refer to the cache."""
    lancecy.write_dataset({"a": range(9), "s": ["x"] * 9}, tmp_path / "t", max_rows_per_file=3)
    gc.collect()
    gc.disable()
    try:
        session = Session()
        ds = lancecy.dataset(tmp_path / "t", session=session)
        ds.to_table(filter="a > 1")
        ds.scanner().analyze()  # by a session that shares the cache
        assert len(session.cache)
        cache, owner = weakref.ref(session.cache), weakref.ref(session)
        del ds, session
        assert cache() is None and owner() is None
    finally:
        gc.enable()


def test_default_is_one_per_process() -> None:
    first = default()
    found: list[Session] = []
    threads = [threading.Thread(target=lambda: found.append(default())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(session is first for session in found)


def test_no_thread_starts_before_it_is_needed(tmp_path: Path) -> None:
    code = f"""
import threading, os
import lancecy.session, lancecy.store.local, lancecy.store.fsspec, lancecy.store.wrap, lancecy.store.memory
session = lancecy.session.default()
store = session.store({str(tmp_path)!r})
store.put("a", b"12345")
import numpy as np
from lancecy.store.reads import Ranges, SourceFile
session.fetch([Ranges(SourceFile(store, "a", 5), np.array([1]), np.array([2]))])
session.map(abs, [-1])
assert threading.active_count() == 1, threading.enumerate()
assert len(os.listdir("/proc/self/task")) <= before + 1, os.listdir("/proc/self/task")
session.map(abs, [-1, -2, -3])
assert threading.active_count() > 1 or session.threads == 1
"""
    # NumPy's linear algebra may start threads of its own; only ours count.
    prelude = "import os, numpy\nbefore = len(os.listdir('/proc/self/task'))\n"
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", prelude + code], cwd=root, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_import_needs_no_heavy_library() -> None:
    code = (
        "import sys, lancecy.session, lancecy.store.uri, lancecy.store.fsspec, lancecy.store.local\n"
        "heavy = {'fsspec', 'dask', 'pandas', 'pyarrow', 's3fs', 'aiohttp', 'concurrent.futures.process'}\n"
        "sys.exit(', '.join(sorted(heavy & set(sys.modules))) or None)"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=False)
    assert done.stderr.strip() == ""
    assert done.returncode == 0


# Threads


def test_map_keeps_the_order() -> None:
    session = Session(threads=4)

    def slow_first(index: int) -> int:
        time.sleep(0.02 / (index + 1))
        return index * index

    assert session.map(slow_first, range(20)) == [index * index for index in range(20)]
    assert session.map(str, []) == []
    session.close()


def test_map_runs_side_by_side() -> None:
    session = Session(threads=3)
    barrier = threading.Barrier(3)
    assert session.map(lambda _: barrier.wait(60) >= 0, range(3)) == [True] * 3
    session.close()


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.timeout(120)
def test_nested_maps_do_not_wait_for_each_other(threads: int) -> None:
    session = Session(threads=threads)

    def outer(index: int) -> list[list[int]]:
        return session.map(lambda inner: session.map(lambda x: x * inner * index, range(3)), range(4))

    expected = [[[x * inner * index for x in range(3)] for inner in range(4)] for index in range(8)]
    assert session.map(outer, range(8)) == expected
    assert session.map(outer, range(8), blocking=True) == expected
    session.close()


@pytest.mark.timeout(120)
def test_every_mixture_of_pools_ends() -> None:
    session = Session(threads=2)
    store = LatencyStore(memory_store(), 0.0005)

    def leaf(index: int) -> int:
        request = ranges(store, [(index * 7, 5), (index * 7 + 9000, 5)])
        check(request, session.fetch([request])[0])
        return 1

    def spread(depth: int) -> int:
        if depth == 0:
            return sum(session.map(leaf, range(3)))
        ahead = session.submit_ahead(spread, depth - 1)
        blocking = session.map(spread, [depth - 1] * 3, blocking=True)
        return sum(session.map(spread, [depth - 1] * 2)) + ahead.result() + sum(blocking)

    assert sum(session.map(spread, [2, 2, 2], blocking=True)) == 3 * 3 * 36
    assert spread(2) == 3 * 36
    session.close()


def test_blocking_maps_are_wider_than_the_processors() -> None:
    session = Session(threads=1)
    barrier = threading.Barrier(8)
    assert session.map(lambda _: barrier.wait(60) >= 0, range(8), blocking=True) == [True] * 8
    session.close()


def test_first_error_in_order_is_raised_once_nothing_runs() -> None:
    session = Session(threads=2)
    running: list[int] = []

    def step(index: int) -> None:
        running.append(index)
        time.sleep(0.01)
        if index in (1, 3):
            running.remove(index)
            raise ValueError(f"item {index}")
        running.remove(index)

    with pytest.raises(ValueError, match="item 1"):
        session.map(step, range(50))
    assert running == []
    session.close()


def test_work_ahead_may_use_the_session() -> None:
    session = Session(threads=2)
    future = session.submit_ahead(session.map, abs, [-1, -2, -3])
    assert future.result(20) == [1, 2, 3]
    failed = session.submit_ahead(lambda: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        failed.result(20)
    session.close()


def test_work_ahead_inside_a_thread_of_the_session_is_done_at_once() -> None:
    session = Session(threads=2)

    def inside(_: int) -> tuple[bool, bool]:
        done = session.submit_ahead(threading.current_thread)
        failed = session.submit_ahead(lambda: 1 // 0)
        return done.result() is threading.current_thread(), isinstance(failed.exception(), ZeroDivisionError)

    assert session.map(inside, range(2)) == [(True, True)] * 2
    session.close()


def test_threads_are_as_many_as_processors_unless_given() -> None:
    assert Session().threads >= 1
    assert Session(threads=5).threads == 5
    with pytest.raises(ValueError, match="threads"):
        Session(threads=0)


def test_closed_session_can_be_used_again(tmp_path: Path) -> None:
    session = Session(threads=2)
    session.map(abs, [1, 2])
    session.store(tmp_path)
    session.close()
    assert len(session._stores) == 0
    assert session.map(abs, [-1, -2]) == [1, 2]
    session.close()


def test_levels_only_lead_downwards() -> None:
    pools = Pools(2)
    for level in Level:
        allowed = (
            pools.pool(level).submit(lambda: [other for other in Level if pools.may_use(other)]).result(20)
        )
        assert allowed == [other for other in Level if other > level]
    assert all(pools.may_use(level) for level in Level)
    pools.close()


def test_the_thread_that_asks_takes_part_as_a_thread_of_that_level() -> None:
    pools = Pools(2)
    both = threading.Barrier(2)

    def inside(_: int) -> tuple[int, list[Level]]:
        both.wait(20)
        return threading.get_ident(), [level for level in Level if pools.may_use(level)]

    found = pools.map(Level.WORKING, inside, range(2))
    assert threading.get_ident() in dict(found)
    assert len(dict(found)) == 2
    assert all(levels == [Level.STORAGE] for _, levels in found)
    assert all(pools.may_use(level) for level in Level)
    pools.close()


def test_several_threads_that_ask_at_once_get_their_own_results() -> None:
    pools = Pools(2)
    results: dict[int, list[int]] = {}

    def ask(number: int) -> None:
        def step(item: int) -> int:
            time.sleep(0.001)
            return number * item

        results[number] = pools.map(Level.WORKING, step, range(30))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert results == {number: [number * item for item in range(30)] for number in range(6)}
    pools.close()


def test_an_interruption_of_the_thread_that_asks_ends_the_others_first() -> None:
    pools = Pools(2)
    main, both, running = threading.get_ident(), threading.Barrier(2), []

    def step(item: int) -> None:
        if item < 2:
            both.wait(20)
        if threading.get_ident() == main:
            raise KeyboardInterrupt
        running.append(item)
        time.sleep(0.05)
        running.remove(item)

    with pytest.raises(KeyboardInterrupt):
        pools.map(Level.WORKING, step, range(50))
    assert running == []
    assert pools.may_use(Level.WORKING)
    assert pools.map(Level.WORKING, abs, [-1, -2]) == [1, 2]
    pools.close()


_INTERRUPTED_WHILE_A_THREAD_STARTS = """
import signal, sys, time
from lancecy.store.pools import Level, Pools

def interrupt(frame, event, argument):
    if event == "call" and frame.f_code.co_name == "wait" and frame.f_back.f_code.co_name == "start":
        sys.setprofile(None)
        signal.raise_signal(signal.SIGINT)

pools, running = Pools(2), []

def step(item):
    running.append(item)
    time.sleep(0.05)
    running.remove(item)

sys.setprofile(interrupt)
try:
    pools.map(Level.STORAGE, step, range(50))
except KeyboardInterrupt:
    time.sleep(0.1)
    assert running == []
    if len(sys.argv) > 1:
        assert pools.map(Level.STORAGE, abs, [-1, -2]) == [1, 2]
    print("interrupted")
"""


@pytest.mark.parametrize("arguments", [[], ["and used again"]])
def test_an_interruption_while_a_thread_starts_leaves_none_that_outlives_the_interpreter(
    arguments: list[str],
) -> None:
    command = [sys.executable, "-c", _INTERRUPTED_WHILE_A_THREAD_STARTS, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    assert (done.stderr, done.stdout) == ("", "interrupted\n")


# Forks


def test_work_that_forks_ends_in_the_child_as_well() -> None:
    session = Session(threads=2)
    main = threading.get_ident()

    def child() -> None:
        assert session.map(abs, [-1, -2]) == [1, 2]

    def step(_: int) -> None:
        if threading.get_ident() == main:
            in_child(child)

    session.map(step, range(8))
    session.close()


def test_child_starts_with_fresh_threads(tmp_path: Path) -> None:
    session = Session(threads=2)
    store = LatencyStore(memory_store(), 0.001)
    request = ranges(store, [(0, 5), (9000, 5)])
    session.map(abs, [1, 2])
    check(request, session.fetch([request])[0])
    session.submit_ahead(abs, 1).result()
    known = default()

    def child() -> None:
        assert threading.active_count() == 1
        assert session.map(abs, [-1, -2, -3]) == [1, 2, 3]
        check(request, session.fetch([request])[0])
        assert session.submit_ahead(abs, -4).result(20) == 4
        assert default() is known
        assert isinstance(session.store(tmp_path), LocalStore)

    in_child(child)
    assert session.map(abs, [-1, -2, -3]) == [1, 2, 3]
    session.close()


def test_locks_held_at_the_fork_do_not_stop_the_child() -> None:
    session = Session(threads=2)

    def child() -> None:
        assert session.map(abs, [-1, -2]) == [1, 2]
        assert default() is default()
        session.remember_options("s3://b", {"key": "k"})
        assert session.options_for("s3://b") == {"key": "k"}

    with session._pools._lock, module._Default.lock:
        in_child(child)
    session.close()


# No threads


_ALL_SORTS_OF_WORK = """
import os, sys, threading
import lancecy, pyarrow as pa, pyarrow.compute
folder = sys.argv[1]
rows = pa.table({"k": range(200_000), "s": [f"{number:050}" for number in range(200_000)]})
lancecy.write_dataset(rows, f"{folder}/t.lance", max_rows_per_file=50_000)

def work():
    ds = lancecy.dataset(f"{folder}/t.lance")
    assert ds.to_table() == rows
    assert ds.to_table(filter="k % 4 = 0").num_rows == 50_000
    assert sum(batch.num_rows for batch in ds.to_batches(memory_bytes=3 << 20)) == 200_000
    written = lancecy.write_dataset(rows, f"{folder}/u.lance", mode="overwrite", max_rows_per_file=100_000)
    written.optimize.compact_files(num_threads=4)
    assert written.to_table() == rows
    written.deep_clone(f"{folder}/{len(os.listdir(folder))}.lance")
    print("done")
"""
_THREAD_AFTER_MAIN = """
def wait_and_work():
    threading.main_thread().join()
    work()

threading.Thread(target=wait_and_work).start()
"""
_AT_EXIT = """
import atexit
atexit.register(work)
"""
_NO_STACKS = """
import resource
pa.set_cpu_count(1)
threading.stack_size(1 << 38)
resource.setrlimit(resource.RLIMIT_AS, (1 << 37, 1 << 37))
work()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "how"),
    [("", _THREAD_AFTER_MAIN), ("work()", _AT_EXIT), ("", _NO_STACKS)],
    ids=["thread", "exit", "stacks"],
)
def test_where_no_thread_can_be_started_the_caller_does_the_work(
    tmp_path: Path, before: str, how: str
) -> None:
    command = [sys.executable, "-c", _ALL_SORTS_OF_WORK + before + how, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stderr, done.stdout) == ("", "done\n" * (2 if before else 1))
