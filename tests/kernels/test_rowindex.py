"""The kernels of the row-id index, in Numba and in NumPy, against dictionaries; with JIT disabled as well."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from lancecy.kernels import rowindex_jit
from lancecy.kernels.reference import rowindex as twin
from tests.helpers.folded import folded

TOP = 2**64 - 1

both = pytest.mark.parametrize("kernels", [rowindex_jit, twin], ids=["numba", "numpy"])


def u64(values: Any) -> NDArray[np.uint64]:
    return np.array(values, np.uint64)


def directory_of(kernels: Any, keys: NDArray[np.uint64], shift: int) -> tuple[NDArray[np.uint32], int, int]:
    low = int(keys[0]) if keys.size else 0
    buckets = ((int(keys[-1]) - low) >> shift) + 1 if keys.size else 0
    directory = np.empty(buckets + 1, np.uint32)
    kernels.fill_directory(keys, low, shift, directory)
    return directory, low, shift


def shift_for(keys: NDArray[np.uint64], wanted: int) -> int:
    """The wanted shift, or the least that needs no more than a few thousand buckets."""
    span = int(keys[-1]) - int(keys[0]) if keys.size else 0
    return min(63, max(wanted, span.bit_length() - 12))


# Numbers that stand close together here and there, and the ends of the type.
clusters = st.sampled_from([0, 1000, 2**32 - 3, 2**32, 2**53, 2**63 - 5, 2**63, TOP - 9])
ids = st.builds(lambda base, step: base + step, clusters, st.integers(0, 9))


# -- sorting ------------------------------------------------------------------


@both
@folded(
    "keys",
    [
        [],
        [7],
        [3, 3, 1, 1, 2, 2],
        [1, 2, 2, 9],
        [5, TOP, 0, TOP, 5, 0],
        [2**32 + 4, 2**32, 2**33 + 3],
        [10, 10 + 2**32, 10 + 2**32 - 1],
        list(range(2**63 + 5000, 2**63, -7)),
    ],
    ids=str,
)
def test_keys_are_sorted_and_take_their_values_along(kernels: Any, keys: list[int]) -> None:
    sorted_keys, values = u64(keys), np.arange(len(keys), dtype=np.uint32)
    kernels.sort_pairs(sorted_keys, values, np.empty_like(sorted_keys), np.empty_like(values))

    assert list(zip(sorted_keys.tolist(), values.tolist())) == sorted((k, i) for i, k in enumerate(keys))


@both
@settings(max_examples=40)
@given(bits=st.integers(0, 64), low=ids, size=st.integers(0, 500), seed=st.integers(0, 99))
def test_any_span_of_keys_is_sorted(kernels: Any, bits: int, low: int, size: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    keys = random.integers(0, min(2**bits, TOP - low), size, np.uint64, endpoint=True) + np.uint64(low)
    values = random.integers(0, 2**32, size, np.uint32)
    order = np.argsort(keys, kind="stable")
    expected = keys[order], values[order]
    kernels.sort_pairs(keys, values, np.empty_like(keys), np.empty_like(values))

    assert np.array_equal(keys, expected[0])
    assert np.array_equal(values, expected[1])


# -- runs ---------------------------------------------------------------------


def runs_of(values: list[int]) -> list[int]:
    return [i for i, v in enumerate(values) if i == 0 or v != values[i - 1] + 1]


@both
@given(st.lists(ids, max_size=40), st.booleans())
def test_runs_are_of_consecutive_numbers(kernels: Any, values: list[int], ordered: bool) -> None:
    values = sorted(set(values)) if ordered else values
    expected = runs_of(values)
    assert kernels.count_runs(u64(values)) == len(expected)
    out = np.empty(len(expected), np.int64)
    kernels.run_starts(u64(values), out)
    assert out.tolist() == expected


@both
def test_no_run_goes_round_the_end_of_the_type(kernels: Any) -> None:
    assert kernels.count_runs(u64([TOP - 1, TOP, 0, 1])) == 2


@both
@folded("size", [0, 1, 3, 9])
def test_runs_must_fit_the_output(kernels: Any, size: int) -> None:
    with pytest.raises(ValueError, match="one entry per run"):
        kernels.run_starts(u64([5, 6, 9]), np.empty(size, np.int64))


# -- finding ------------------------------------------------------------------


@both
@given(st.sets(ids, max_size=60), st.lists(ids, max_size=40), st.integers(0, 63))
def test_keys_are_found_by_any_directory(kernels: Any, held: set[int], asked: list[int], shift: int) -> None:
    keys = u64(sorted(held))
    places = np.arange(keys.size, dtype=np.uint32)[::-1].copy()
    where = directory_of(kernels, keys, shift_for(keys, shift))
    wanted = u64([*asked, *held, 0, TOP])
    found_places, found = np.empty(wanted.size, np.uint64), np.empty(wanted.size, np.uint8)
    kernels.find_keys(wanted, keys, places, *where, found_places, found)

    assert found.tolist() == [int(n in held) for n in wanted.tolist()]
    model = dict(zip(keys.tolist(), places.tolist()))
    hits = found.astype(bool)
    assert found_places[hits].tolist() == [model[n] for n in wanted[hits].tolist()]


@st.composite
def disjoint_runs(draw: st.DrawFn) -> list[tuple[int, int, int]]:
    """Runs (start, count, address) in order, some of them huge."""
    points = sorted(draw(st.sets(ids, max_size=30)))
    found = []
    for start, following in zip(points, [*points[1:], TOP]):
        count = draw(st.sampled_from([1, following - start, min(3, following - start)]))
        found.append((start, count, draw(st.integers(0, 2**62))))
    return [run for run in found if run[1]]


@both
@given(disjoint_runs(), st.lists(ids, max_size=30), st.integers(0, 63))
def test_ids_are_found_in_runs(
    kernels: Any, runs: list[tuple[int, int, int]], asked: list[int], shift: int
) -> None:
    columns = [u64([run[i] for run in runs]) for i in range(3)]
    where = directory_of(kernels, columns[0], shift_for(columns[0], shift))
    ends = [min(TOP, max(0, start + step)) for start, count, _ in runs for step in (-1, 0, count - 1, count)]
    wanted = u64([*asked, *ends, 0, TOP])
    addresses, found = np.empty(wanted.size, np.uint64), np.empty(wanted.size, np.uint8)
    kernels.find_runs(wanted, *columns, *where, addresses, found)

    for number, address, hit in zip(wanted.tolist(), addresses.tolist(), found.tolist()):
        expected = [
            (at + number - start) % 2**64 for start, count, at in runs if start <= number < start + count
        ]
        assert [address] * hit == expected, number
        assert hit or address == 0


@both
def test_many_keys_in_one_bucket(kernels: Any) -> None:
    """One stray id far away leaves all others to a single bucket."""
    keys = u64([*range(0, 3000, 3), 2**63])
    places = np.arange(keys.size, dtype=np.uint32)
    where = directory_of(kernels, keys, 63)
    wanted = np.arange(0, 3003, dtype=np.uint64)
    found_places, found = np.empty(wanted.size, np.uint64), np.empty(wanted.size, np.uint8)
    kernels.find_keys(wanted, keys, places, *where, found_places, found)
    assert np.flatnonzero(found).tolist() == list(range(0, 3000, 3))
    assert found_places[found.astype(bool)].tolist() == list(range(1000))


@both
def test_a_directory_that_lies_finds_nothing_but_reads_no_foreign_memory(kernels: Any) -> None:
    keys = u64([10, 20, 30, 40])
    lying = np.array([9, 2**32 - 1], np.uint32)
    out, found = np.empty(3, np.uint64), np.empty(3, np.uint8)
    wanted = u64([5, 20, 50])
    kernels.find_keys(wanted, keys, np.arange(4, dtype=np.uint32), lying, 10, 63, out, found)
    assert found[[0, 2]].tolist() == [0, 0]
    kernels.find_runs(wanted, keys, u64([1] * 4), u64([0] * 4), lying, 10, 63, out, found)
    assert found[[0, 2]].tolist() == [0, 0]


@both
def test_read_only_arrays_are_read(kernels: Any) -> None:
    keys, places = u64([4, 6]), np.array([1, 0], np.uint32)
    where = directory_of(kernels, keys, 0)
    wanted = u64([6, 5])
    for array in (keys, places, where[0], wanted):
        array.flags.writeable = False
    out, found = np.empty(2, np.uint64), np.empty(2, np.uint8)
    kernels.find_keys(wanted, keys, places, *where, out, found)
    assert (found.tolist(), out[0]) == ([1, 0], 0)
    assert kernels.count_runs(keys) == 2


# -- arguments ----------------------------------------------------------------

U64, U32, I64, U8 = (np.zeros(2, kind) for kind in (np.uint64, np.uint32, np.int64, np.uint8))
FROZEN = U64.copy()
FROZEN.flags.writeable = False
ONE_BUCKET = np.zeros(2, np.uint32)

WRONG: list[tuple[str, tuple[Any, ...]]] = [
    ("sort_pairs", (I64, U32, U64, U32)),
    ("sort_pairs", (U64, U64, U64, U32)),
    ("sort_pairs", (FROZEN, U32, U64, U32)),
    ("sort_pairs", (U64, U32, U64[:1], U32)),
    ("sort_pairs", (np.zeros(4, np.uint64)[::2], U32, U64, U32)),
    ("count_runs", (I64,)),
    ("count_runs", ([1, 2],)),
    ("count_runs", (np.zeros((2, 2), np.uint64),)),
    ("run_starts", (U64, U64)),
    ("fill_directory", (U64, 0, 64, ONE_BUCKET)),
    ("fill_directory", (U64, 0, -1, ONE_BUCKET)),
    ("fill_directory", (U64, 1, 0, ONE_BUCKET)),
    ("fill_directory", (U64, 0, 0, np.zeros(3, np.uint32))),
    ("fill_directory", (U64, 0, 0, np.zeros(2, np.int32))),
    ("fill_directory", (np.array([5, 3], np.uint64), 0, 0, ONE_BUCKET)),
    ("find_keys", (U64, U64, U32[:1], ONE_BUCKET, 0, 0, U64, U8)),
    ("find_keys", (U64, U64, U32, ONE_BUCKET[:1], 0, 0, U64, U8)),
    ("find_keys", (U64, U64, U32, ONE_BUCKET, 0, 0, U64[:1], U8)),
    ("find_keys", (U64, U64, U32, ONE_BUCKET, 0, 0, U64, U64)),
    ("find_keys", (U64, U64, U32, ONE_BUCKET, 0, 0, FROZEN, U8)),
    ("find_runs", (I64, U64, U64, U64, ONE_BUCKET, 0, 0, U64, U8)),
    ("find_runs", (U64, U64, U64[:1], U64, ONE_BUCKET, 0, 0, U64, U8)),
    ("find_runs", (U64, U64, U64, U64, ONE_BUCKET, 0, 0, U64, U8[:1])),
]


@folded(("name", "arguments"), WRONG, ids=lambda value: value if isinstance(value, str) else "")
def test_wrong_arguments_are_refused_alike(name: str, arguments: tuple[Any, ...]) -> None:
    outcomes = []
    for kernels in (rowindex_jit, twin):
        with pytest.raises((TypeError, ValueError)) as caught:
            getattr(kernels, name)(*arguments)
        outcomes.append((caught.type, str(caught.value)))
    assert outcomes[0] == outcomes[1]


@both
def test_nothing_to_do(kernels: Any) -> None:
    none, places, out, found = U64[:0], U32[:0], np.full(1, 7, np.uint64), np.full(1, 7, np.uint8)
    kernels.sort_pairs(none.copy(), places.copy(), none.copy(), places.copy())
    assert kernels.count_runs(none) == 0
    kernels.find_keys(u64([3]), none, places, np.zeros(1, np.uint32), 0, 0, out, found)
    assert found.tolist() == [0]
    out[:], found[:] = 7, 7
    kernels.find_runs(u64([3]), none, none, none, np.zeros(1, np.uint32), 0, 0, out, found)
    assert (found.tolist(), out.tolist()) == ([0], [0])


# -- which implementation -----------------------------------------------------

USED = """
import sys, warnings
import numpy as np
warnings.simplefilter("always")
{before}
from lancecy.kernels import rowindex_jit
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    for _ in range(2):
        kernels = rowindex_jit.implementation({ids})
        keys = np.array([3, 1, 2], np.uint64)
        kernels.sort_pairs(keys, np.zeros(3, np.uint32), keys.copy(), np.zeros(3, np.uint32))
        assert keys.tolist() == [1, 2, 3] and kernels.count_runs(keys) == 1
print(kernels.__name__, "numba" in sys.modules, len(seen), *{{str(w.message)[:60] for w in seen}}, sep="|")
"""
NO_FOLDER = """
import numba.core.caching as c
getattr(c, "CacheImpl", getattr(c, "_CacheImpl", None))._locator_classes = []
"""
FULL_DISK = """
import numba.core.caching as c
def save(*args): raise OSError(28, "No space left on device")
c.IndexDataCacheFile.save = save
c.IndexDataCacheFile.load = lambda *args: None
"""


@pytest.mark.parametrize(
    ("before", "num_ids", "environment", "expected"),
    [
        ("", 100, {}, ["lancecy.kernels.reference.rowindex", "False", "0"]),
        ("", 10**6, {}, ["lancecy.kernels.rowindex_jit", "True", "0"]),
        (
            "",
            10**6,
            {"LANCECY_KERNELS": "reference"},
            ["lancecy.kernels.reference.rowindex", "False", "0"],
        ),
        (
            "sys.modules['numba'] = None",
            10**6,
            {},
            ["lancecy.kernels.reference.rowindex", "True", "1", "Numba cannot be imported"],
        ),
        (
            NO_FOLDER,
            10**6,
            {},
            [
                "lancecy.kernels.rowindex_jit",
                "True",
                "1",
                "the compiled kernels of the row-id index cannot be kept",
            ],
        ),
        pytest.param(
            FULL_DISK,
            10**6,
            {},
            [
                "lancecy.kernels.rowindex_jit",
                "True",
                "1",
                "the compiled kernels of the row-id index cannot be kept",
            ],
            marks=pytest.mark.slow,
        ),
        ("", 10**6, {"NUMBA_DISABLE_JIT": "1"}, ["lancecy.kernels.rowindex_jit", "True", "0"]),
    ],
    ids=["little", "much", "on purpose", "no Numba", "no folder", "full disk", "not compiled"],
)
def test_implementation_fits_the_work_and_the_machine(
    before: str, num_ids: int, environment: dict[str, str], expected: list[str]
) -> None:
    code = USED.format(before=before, ids=num_ids)
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
        timeout=200,
    )
    said = done.stdout.strip().split("|")
    assert said[:3] == expected[:3]
    assert all(text.startswith(wanted) for text, wanted in zip(said[3:], expected[3:], strict=True))


@pytest.mark.slow
def test_kernels_are_right_without_being_compiled() -> None:
    """The same tests in a process where Numba leaves the loops as Python: their indexing is checked there."""
    if os.environ.get("NUMBA_DISABLE_JIT") == "1":
        return
    # Compiled sums of unsigned integers wrap, as C's do; NumPy's scalars do too, and warn.
    wrapping = ["-W", "ignore:overflow encountered:RuntimeWarning"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:randomly", *wrapping, "-k", "numba", __file__],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTEST_XDIST_WORKER": ""},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]
