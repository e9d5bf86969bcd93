"""The pool that reuses memory blocks."""

from __future__ import annotations

import gc
import multiprocessing
import threading
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from lancecy.encodings.blocks import memory
from lancecy.encodings.blocks.memory import BufferPool, allocate, uninitialized

LARGE = 1 << 20


@pytest.fixture(autouse=True)
def pool(monkeypatch: pytest.MonkeyPatch) -> BufferPool:
    """A pool of its own for each test."""
    fresh = BufferPool(8 * LARGE)
    monkeypatch.setattr(memory, "POOL", fresh)
    return fresh


@pytest.mark.parametrize("nbytes", [0, 1, 100, LARGE - 1, LARGE, LARGE + 1])
def test_buffer_and_array_are_the_same_bytes(nbytes: int) -> None:
    buffer, view = allocate(nbytes)
    view[:] = np.arange(nbytes, dtype=np.uint8)
    assert (buffer.size, view.nbytes, str(view.dtype)) == (nbytes, nbytes, "uint8")
    assert buffer.to_pybytes() == view.tobytes()


def test_a_block_is_used_again_for_about_as_many_bytes() -> None:
    buffer, view = allocate(LARGE + 5)
    address = buffer.address
    del buffer, view
    smaller = allocate(LARGE)
    assert smaller[0].address != address
    again = allocate(LARGE + 9)
    assert again[0].address == address


def array_over(buffer: pa.Buffer, view: NDArray[np.uint8]) -> object:
    return pa.Array.from_buffers(pa.uint8(), LARGE, [None, buffer])


HOLDERS: dict[str, Callable[[pa.Buffer, NDArray[np.uint8]], object]] = {
    "buffer": lambda buffer, view: buffer,
    "slice": lambda buffer, view: buffer.slice(1000, 10),
    "array": array_over,
    "column": lambda buffer, view: pa.table({"a": array_over(buffer, view)}).column(0).slice(7, 1),
    "view": lambda buffer, view: view,
    "part": lambda buffer, view: view[5:][3:].view(np.int8)[::2],
    "numpy": lambda buffer, view: np.frombuffer(buffer, np.uint8)[1:],
    "arrow": lambda buffer, view: pa.py_buffer(view[4:8]),
    "memoryview": lambda buffer, view: view.data[1:],
}


@pytest.mark.parametrize("holder", HOLDERS)
def test_a_block_is_not_reused_while_an_array_refers_to_it(pool: BufferPool, holder: str) -> None:
    buffer, view = allocate(LARGE)
    address = buffer.address
    held = HOLDERS[holder](buffer, view)
    del buffer, view
    gc.collect(1)  # all are new: no need to look at everything that other tests left
    assert pool.nbytes == 0
    assert allocate(LARGE)[0].address != address
    del held
    assert pool.take(LARGE).address == address


def test_no_more_waits_than_there_is_room_for(pool: BufferPool) -> None:
    blocks = [allocate(LARGE) for _ in range(20)]
    del blocks
    assert pool.nbytes == 8 * LARGE
    larger = [allocate(2 * LARGE) for _ in range(3)]
    del larger
    assert pool.nbytes == 8 * LARGE
    # The block used last is kept; the one unused for longest was freed.
    assert len({pool.take(2 * LARGE).address for _ in range(3)}) == 3
    assert pool.nbytes == 2 * LARGE


def test_blocks_larger_than_the_pool_are_freed(pool: BufferPool) -> None:
    block = allocate(9 * LARGE)
    del block
    assert pool.nbytes == 0


def test_small_blocks_are_not_kept(pool: BufferPool) -> None:
    block = allocate(1000)
    del block
    assert pool.nbytes == 0


def test_no_call_waits_for_the_pool(pool: BufferPool) -> None:
    """The state of a child process forked while another thread held the lock."""
    first = allocate(LARGE)
    with pool._lock:
        second = allocate(LARGE)
        del first, second
        assert pool.nbytes == 0
    third = allocate(LARGE)
    del third
    assert pool.nbytes == LARGE


def in_child(pool: BufferPool, results: object) -> None:
    block = allocate(LARGE)
    block[1][:] = 2
    results.put((pool.nbytes, int(block[1].sum())))  # type: ignore[attr-defined]


def test_a_forked_child_has_blocks_of_its_own(pool: BufferPool) -> None:
    waiting = allocate(LARGE)
    waiting[1][:] = 1
    del waiting
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    child = context.Process(target=in_child, args=(pool, results))
    child.start()
    assert results.get(timeout=270) == (0, 2 * LARGE)
    child.join(60)
    assert pool.nbytes == LARGE
    assert allocate(LARGE)[1].sum() == LARGE


def test_threads_never_get_the_same_block() -> None:
    failures: list[int] = []

    def work(mark: int) -> None:
        rng = np.random.default_rng(mark)
        for _ in range(60):
            leases = [allocate(int(size)) for size in rng.choice([LARGE // 2, LARGE // 2 + 9, LARGE], 4)]
            for _, view in leases:
                view[::4096] = mark
            failures.extend(mark for _, view in leases if not (view[::4096] == mark).all())

    threads = [threading.Thread(target=work, args=(mark,)) for mark in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


@pytest.mark.parametrize("count", [0, 5, LARGE])
def test_uninitialized_arrays_can_be_written(count: int) -> None:
    one, other = uninitialized(count, np.int64), uninitialized(count, np.uint8)
    one[:], other[:] = np.arange(count), 7
    assert (one.dtype, one.shape, one.flags.writeable) == (np.dtype(np.int64), (count,), True)
    assert one.tolist() == list(range(count))
    assert bytes(other) == b"\7" * count
