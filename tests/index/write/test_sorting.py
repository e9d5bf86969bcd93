"""The order of values in indices, and sorting with bounded memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lancecy.index.write.order import ascending, changes, extremes
from lancecy.index.write.sorted_pairs import SortedPairs

RNG = np.random.default_rng(7)

SORTED: dict[str, pa.Array] = {
    "integers": pa.array([None, None, -(2**63), -1, 0, 5, 2**63 - 1], pa.int64()),
    "unsigned": pa.array([None, 0, 7, 2**64 - 1], pa.uint64()),
    "narrow": pa.array([-128, -1, 0, 127], pa.int8()),
    "floats": pa.array([None, -np.inf, -2.5, -0.0, 0.0, 1e-300, np.inf, np.nan]),
    "halves": pa.array(np.array([-2.5, -0.0, 0.0, 1.5, np.nan], np.float16)),
    "booleans": pa.array([None, False, True]),
    "strings": pa.array([None, "", "a", "ab", "b", "é"]),
    "binary": pa.array([b"", b"\x00", b"\xff"], pa.large_binary()),
    "decimals": pa.array([None, -5, 0, 7], pa.decimal128(9, 2)),
    "dates": pa.array([None, -1, 0, 7], pa.int32()).cast(pa.date32()),
}


@pytest.mark.parametrize("kind", SORTED)
def test_values_are_in_the_order_of_indices(kind: str) -> None:
    values = SORTED[kind]
    shuffled = RNG.permutation(len(values))
    found = values.take(pa.array(shuffled[ascending(values.take(pa.array(shuffled)))]))
    assert found.slice(values.null_count).to_pylist() == pytest.approx(
        values.slice(values.null_count).to_pylist(), nan_ok=True
    ) or found.equals(values)
    signs = [np.signbit(v) for v in found.to_pylist()] if kind == "halves" else []
    assert signs == ([True, True, False, False, False] if signs else [])
    assert changes(values).sum() == len(values) - max(0, values.null_count - 1)
    assert extremes(values) == (values.null_count, len(values) - 1)


@pytest.mark.parametrize("num_values", [3, 50, 100_000])
@pytest.mark.parametrize("kind", ["int64", "string"])
def test_runs_are_merged(kind: str, num_values: int) -> None:
    numbers = RNG.integers(0, num_values, 60_000)
    values = pa.array(numbers, mask=RNG.random(numbers.size) < 0.05)
    values = values if kind == "int64" else values.cast(pa.string())
    ids = RNG.permutation(numbers.size).astype(np.uint64)
    with SortedPairs(values.type, run_bytes=1 << 17) as pairs:
        for start in range(0, numbers.size, 10_000):
            pairs.add(values.slice(start, 10_000), ids[start : start + 10_000])
        blocks = list(pairs.blocks())
    assert len(blocks) > 1
    found = pa.concat_arrays([block.values for block in blocks])
    at = np.argsort(ids)[np.concatenate([block.ids for block in blocks])]
    assert np.array_equal(np.sort(at), np.arange(numbers.size))
    assert found.equals(values.take(pa.array(at)))
    assert found.equals(values.take(pa.array(ascending(values))))


@pytest.mark.parametrize("order", ["ascending", "random", "equal"])
def test_the_work_of_a_merge_grows_with_the_values_and_not_with_the_runs(
    order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []

    def counted(values: pa.Array) -> np.ndarray:
        sizes.append(len(values))
        return ascending(values)

    monkeypatch.setattr("lancecy.index.write.sorted_pairs.ascending", counted)
    orders = {"ascending": np.arange(1 << 20), "random": RNG.permutation(1 << 20)}
    numbers = orders.get(order, np.arange(1 << 20) % 2)
    with SortedPairs(pa.int64(), run_bytes=1 << 19) as pairs:
        for start in range(0, numbers.size, 1 << 15):
            pairs.add(pa.array(numbers[start : start + (1 << 15)]), np.arange(1 << 15, dtype=np.uint64))
        sizes.clear()  # those of the 32 runs
        assert sum(block.ids.size for block in pairs.blocks()) == numbers.size
    assert sum(sizes) < 4 * numbers.size


def test_a_merge_of_long_values_holds_few_of_them() -> None:
    before, most = pa.total_allocated_bytes(), 0
    with SortedPairs(pa.binary(), run_bytes=1 << 20) as pairs:
        for start in range(100):
            values = [bytes([number % 251]) * 10_000 for number in range(start, 20_000, 200)]
            pairs.add(pa.array(values, pa.binary()), np.arange(100, dtype=np.uint64))
        for _ in pairs.blocks():
            most = max(most, pa.total_allocated_bytes() - before)
    assert most < 40 << 20  # of 100 MB


def test_temporary_files_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with SortedPairs(pa.int64(), run_bytes=100) as pairs:
        pairs.add(pa.array(range(100)), np.arange(100, dtype=np.uint64))
        assert [*tmp_path.iterdir()]
    assert not [*tmp_path.iterdir()]


def test_no_values_are_no_blocks() -> None:
    with SortedPairs(pa.int64()) as pairs:
        pairs.add(pa.array([], pa.int64()), np.empty(0, np.uint64))
        found: list[Any] = list(pairs.blocks())
    assert found == []


def test_narrow_values_are_spilled_by_their_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lancecy.index.write.sorted_pairs._RUN_ROWS", 1000)
    with SortedPairs(pa.int8()) as pairs:
        for start in range(0, 5000, 500):
            pairs.add(pa.array([7] * 500, pa.int8()), np.arange(start, start + 500, dtype=np.uint64))
        assert len(pairs._runs) == 5
        found = np.concatenate([block.ids for block in pairs.blocks()])
    assert np.array_equal(np.sort(found), np.arange(5000))
