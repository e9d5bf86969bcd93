"""No table is created in a folder that another table keeps for itself."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lancecy
from lancecy.errors import PathPolicyError
from lancecy.store.base import Store, StoreTraits
from lancecy.store.memory import MemoryStore
from lancecy.store.uri import register_store
from lancecy.store.wrap import CountingStore
from tests.helpers.folded import folded

ROWS = {"n": [1]}
OWNED = ["data", "tree", "_versions", "_deletions", "_indices", "_transactions", "_refs"]


@folded("folder", OWNED)
def test_no_table_in_another_tables_folder(folder: str, tmp_path: Path) -> None:
    root = tmp_path / f"of {folder}" / "t"
    lancecy.write_dataset(ROWS, root)
    before = sorted(root.rglob("*"))
    for uri in (root / folder / "inner", root / folder / "a" / "inner.lance", root / folder):
        for mode in ("create", "append", "overwrite"):
            with pytest.raises(
                PathPolicyError, match=f"'{folder}' belongs to the table .*/t; choose a place outside"
            ):
                lancecy.write_dataset(ROWS, uri, mode=mode)
    inner = root / folder / "inner"
    part = lancecy.LanceFragment.create(tmp_path / f"elsewhere {folder}", ROWS)
    made = lancecy.LanceOperation.Overwrite(pa.schema([("n", pa.int64())]), [part])
    with pytest.raises(PathPolicyError, match="belongs to the table"):
        lancecy.commit(inner, made)
    with pytest.raises(PathPolicyError, match="belongs to the table"):
        lancecy.write_fragments(ROWS, inner)
    assert sorted(root.rglob("*")) == before


def test_writers_of_many_processes_refuse_it_too(tmp_path: Path) -> None:
    import dask.dataframe as dd
    import pandas as pd

    lancecy.write_dataset(ROWS, tmp_path / "t")
    frame = dd.from_pandas(pd.DataFrame(ROWS), npartitions=1)
    with pytest.raises(PathPolicyError, match="or make a branch of it with create_branch"):
        lancecy.write_dask(frame, tmp_path / "t" / "tree" / "dev")


def test_folders_of_these_names_without_a_table_above_are_free(tmp_path: Path) -> None:
    for uri in (tmp_path / "data" / "t", tmp_path / "tree" / "data", "memory://data/tree/t", "memory://data"):
        assert lancecy.write_dataset(ROWS, uri).count_rows() == 1
    lancecy.write_dataset(ROWS, tmp_path / "t")
    assert lancecy.write_dataset(ROWS, tmp_path / "t" / "archive").count_rows() == 1


def test_a_bucket_may_have_these_names() -> None:
    lancecy.write_dataset(ROWS, "memory://lake/t")
    with pytest.raises(PathPolicyError, match="'data' belongs to the table memory://lake/t"):
        lancecy.write_dataset(ROWS, "memory://lake/t/data/u")
    lancecy.write_dataset(ROWS, "memory://root-table")
    with pytest.raises(PathPolicyError, match="'tree' belongs to the table memory://root-table"):
        lancecy.write_dataset(ROWS, "memory://root-table/tree/u")


def test_it_takes_one_listing_when_a_table_is_made_and_none_afterwards() -> None:
    stores: dict[str, CountingStore] = {}

    def opened(uri: str, options: object, **_: object) -> Store:
        return stores.setdefault(
            uri, CountingStore(MemoryStore(traits=StoreTraits(create_is_atomic=True)), uri=uri)
        )

    register_store("placed", opened)
    ds = lancecy.write_dataset(ROWS, "placed://b/data/t")
    assert [(request.method, request.path) for request in stores["placed://b"].requests] == [
        ("list", "_versions")
    ]
    ds.append(ROWS)
    lancecy.write_dataset(ROWS, ds.uri, mode="append")
    assert stores["placed://b"].count() == 1
    lancecy.write_dataset(ROWS, "placed://b/archive/t")
    assert set(stores) == {"placed://b", "placed://b/data/t", "placed://b/archive/t"}


@pytest.mark.interop
def test_a_branch_that_exists_is_written(tmp_path: Path) -> None:
    import lance

    ds = lancecy.write_dataset(ROWS, tmp_path / "t")
    lance.dataset(ds.uri).create_branch("dev")
    branch = tmp_path / "t" / "tree" / "dev"
    lancecy.write_dataset({"n": [2]}, branch, mode="append")
    assert lancecy.write_dataset({"n": [3]}, branch, mode="overwrite").count_rows() == 1
