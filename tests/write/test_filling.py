"""Bases that many writes have in turn are filled evenly."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

import lancecy
from lancecy.table.manifest import DataFile, Fragment
from lancecy.write.targets import bytes_by_base, least_filled_first
from tests.helpers.folded import folded

NAMES = ("x", "y", "z")


def part(base: int | None, size: int | None, rows: int = 10) -> Fragment:
    return Fragment(0, (DataFile("a.lance", (0,), file_size_bytes=size, base_id=base),), physical_rows=rows)


def words(rng: random.Random, count: int) -> pa.Table:
    return pa.table({"w": [rng.randbytes(20).hex() for _ in range(count)]})


def bases(folder: Path) -> list[lancecy.DatasetBasePath]:
    return [lancecy.DatasetBasePath(folder / name, name) for name in NAMES]


def filled(ds: lancecy.Dataset) -> Counter[int | None]:
    """Bytes in each base, from the disk."""
    found: Counter[int | None] = Counter()
    for number, base in ds.base_paths.items():
        found[number] = sum(file.stat().st_size for file in Path(base.path).glob("*.lance"))
    return found


# -- the order ------------------------------------------------------------------------------------


def test_the_least_filled_come_first_and_the_order_given_decides_ties() -> None:
    parts = [part(1, 30), part(2, 10), part(None, 20), part(1, 5)]
    assert bytes_by_base(parts) == {1: 35, 2: 10, None: 20}
    assert least_filled_first((1, 2, 3, None), parts) == (3, 2, None, 1)
    assert least_filled_first((4, 3), parts) == (4, 3)
    assert least_filled_first((1,), parts) == (1,)


def test_files_of_unknown_size_count_by_their_rows() -> None:
    parts = [part(1, 1000, rows=10), part(2, None, rows=11), part(3, None, rows=9)]
    assert bytes_by_base(parts) == {1: 1000, 2: 1100, 3: 900}
    assert bytes_by_base([part(1, None, rows=7), part(2, None, rows=0)]) == {1: 7, 2: 0}


@folded("seed", range(20))
def test_bases_never_differ_by_more_than_the_largest_file(seed: int) -> None:
    rng = random.Random(seed)
    targets = (None, *range(1, rng.randint(2, 6)))
    parts: list[Fragment] = []
    largest = 0
    for _ in range(60):
        size = rng.choice([1, 10, 1000, rng.randint(1, 500)])
        sizes = [size] * rng.randint(0, 9) + [rng.randint(1, size)]
        order = least_filled_first(targets, parts)
        parts += [part(order[i % len(order)], one) for i, one in enumerate(sizes)]
        largest = max(largest, size)
        found = bytes_by_base(parts)
        counts = [found.get(base, 0) for base in targets]
        assert max(counts) - min(counts) <= largest


# -- tables ---------------------------------------------------------------------------------------


def test_many_small_appends_fill_bases_evenly(tmp_path: Path) -> None:
    rng = random.Random(5)
    ds = lancecy.write_dataset(
        words(rng, 5), tmp_path / "t", initial_bases=bases(tmp_path), target_all_bases=False
    )
    for _ in range(30):
        ds.append(words(rng, rng.randint(1, 400)), target_bases=list(NAMES), durability="none")
    counts = filled(ds)
    largest = max(file.size or 0 for made in ds.get_fragments() for file in made.data_files())
    assert max(counts.values()) - min(counts.values()) <= largest
    assert min(counts.values()) > 0.8 * max(counts.values())


def test_a_base_that_was_added_later_is_next(tmp_path: Path) -> None:
    table = {"n": np.arange(100)}
    ds = lancecy.write_dataset(table, tmp_path / "t", initial_bases=bases(tmp_path), target_bases=["x", "y"])
    ds.add_bases([lancecy.DatasetBasePath(tmp_path / "late", "late")])
    ds.append(table, target_bases=["x", "late"])
    assert [file.base_id for made in ds.get_fragments() for file in made.data_files()] == [1, 4]
    # An overwrite goes where the rows before it are not.
    ds.insert(table, mode="overwrite", target_bases=["x", "late", "z"], max_rows_per_file=60)
    assert [file.base_id for made in ds.get_fragments() for file in made.data_files()] == [3, 1]


def test_dask_jobs_go_on_where_the_others_ended(tmp_path: Path) -> None:
    import dask.dataframe as dd

    frame = dd.from_pandas(pd.DataFrame({"n": np.arange(40)}), npartitions=4)
    lancecy.write_dask(frame, tmp_path / "t", initial_bases=bases(tmp_path), target_bases=NAMES)
    for _ in range(5):
        lancecy.write_dask(frame, tmp_path / "t", mode="append", target_bases=NAMES)
    ds = lancecy.dataset(tmp_path / "t")
    counts = Counter(file.base_id for made in ds.get_fragments() for file in made.data_files())
    assert counts == {1: 8, 2: 8, 3: 8}


def test_writers_with_numbers_of_their_own_begin_with_different_bases(tmp_path: Path) -> None:
    ds = lancecy.write_dataset(
        {"n": [1]}, tmp_path / "t", initial_bases=bases(tmp_path), target_bases=["x"], durability="none"
    )
    fragments = [
        made
        for number in range(4)
        for made in lancecy.write_fragments(
            {"n": [2]}, ds, target_bases=NAMES, writer_number=number, durability="none"
        )
    ]
    assert [file.base_id for made in fragments for file in made.files] == [2, 3, 1, 2]
    lancecy.commit(ds, lancecy.LanceOperation.Append(fragments))
    (again,) = lancecy.write_fragments({"n": [3]}, ds.checkout_latest(), target_bases=NAMES)
    assert again.files[0].base_id == 3


def test_passwords_of_bases_are_not_shown() -> None:
    base = lancecy.DatasetBasePath("s3://user:secret@bucket/x", "b", id=3)
    assert repr(base) == "DatasetBasePath(path='s3://bucket/x', name='b', is_dataset_root=False, id=3)"
    assert "path='s3://b/a@b'" in repr(lancecy.DatasetBasePath("s3://b/a@b"))
