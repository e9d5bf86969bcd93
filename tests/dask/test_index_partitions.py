"""Partitions of Dask and tasks of Spark are planned by the rows that indices name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import lancecy

ROWS, FRAGMENTS = 40_000, 10


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """A table of ten fragments of about 3 MB each, with indices; its last fragment is in none."""
    random = np.random.default_rng(3)
    ids = random.permutation(ROWS)
    table = pa.table(
        {
            "id": ids,
            "group": ids % 100,
            "vec": pa.FixedSizeListArray.from_arrays(pa.array(random.random(ROWS * 96)), 96),
        }
    )
    ds = lancecy.write_dataset(table, tmp_path / "t", max_rows_per_file=ROWS // FRAGMENTS, durability="none")
    numbers = [fragment.fragment_id for fragment in ds.get_fragments()]
    ds.create_scalar_index("id", "BTREE", fragment_ids=numbers[:-1], durability="none")
    ds.create_scalar_index("group", "BITMAP", durability="none")
    return str(tmp_path / "t")


def expected(uri: str, where: str) -> list[int]:
    found = lancecy.dataset(uri).to_table(["id"], filter=where, use_scalar_index=False)
    return found["id"].to_pylist()  # type: ignore[no-any-return]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("where", "most"),
    [("group = 7 AND id = 1207", 1), ("group = 7", 1), ("id = 5", 2), ("id < 3000 AND group < 9", 2)],
)
def test_partitions_have_the_rows_of_an_index(uri: str, where: str, most: int) -> None:
    whole = lancecy.scan(
        uri, columns=["id", "vec"], blocksize="4MB", filter=f"({where}) OR length('a') = id + 1e9"
    )
    frame = lancecy.scan(uri, columns=["id", "vec"], blocksize="4MB", filter=where)
    assert frame.npartitions <= most < whole.npartitions
    assert frame.compute()["id"].tolist() == expected(uri, where) != []


def test_a_look_up_that_finds_nothing_has_one_empty_partition(uri: str) -> None:
    frame = lancecy.scan(uri, filter="group = 100")
    assert frame.npartitions == 1
    assert not len(frame.compute())
