"""Scans that return deleted rows too (``include_deleted_rows``), as pylance returns them."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancecy
from lancecy.errors import UnsupportedError

lance = pytest.importorskip("lance")
pytestmark = pytest.mark.interop

SHOWN: dict[str, Any] = {"include_deleted_rows": True, "with_row_id": True}
GONE = "a in (1, 2, 8, 9)"


def table(place: Path, version: str, stable: bool) -> lancecy.Dataset:
    """Rows 0 to 9 in three fragments: of the first two rows are deleted, of the second none, of the third all."""
    rows = {"a": list(range(10)), "s": [f"s{n}" for n in range(10)]}
    options: dict[str, Any] = {"data_storage_version": version, "enable_stable_row_ids": stable}
    ds = lancecy.write_dataset(rows, place, max_rows_per_file=4, **options)
    ds.delete(GONE)
    return ds


@pytest.mark.parametrize("version", ["0.1", "2.1"])
@pytest.mark.parametrize("stable", [False, True])
def test_rows_are_those_of_pylance(tmp_path: Path, version: str, stable: bool) -> None:
    ds = table(tmp_path / "t", version, stable)
    theirs = lance.dataset(ds.uri)
    queries: list[dict[str, Any]] = [
        {},
        {"with_row_address": True},
        {"columns": ["a"]},
        {"columns": {"b": "a + 1"}},
        {"columns": ["a", "_rowoffset", "_row_created_at_version", "_row_last_updated_at_version"]},
        {"limit": 3},
        {"limit": 3, "offset": 2},
        # pylance fails on filters that do not read all columns
        {"filter": "a < 3", "columns": ["a"]},
        {"filter": "_rowid IS NULL", "columns": ["a"]},
        {"filter": "_rowid > 1 OR a = 2", "columns": ["a"]},
        {"filter": "_rowaddr > 1", "columns": ["a"]},
        {"columns": []},
    ]
    for query in queries:
        if version == "0.1" and "filter" in query:
            continue  # pylance leaves out deleted rows there
        mine = ds.to_table(**query, **SHOWN)
        assert mine.equals(theirs.to_table(**query, **SHOWN)), query
        assert ds.scanner(**query, **SHOWN).count_rows() == mine.num_rows
        assert pa.Table.from_batches(ds.to_batches(**query, **SHOWN), mine.schema).equals(mine)
    part, other = ds.get_fragments()[0], theirs.get_fragments()[0]
    assert part.to_table(["a"], **SHOWN).equals(other.to_table(columns=["a"], **SHOWN))
    defaults = lancecy.dataset(ds.uri, default_scan_options=SHOWN)
    assert defaults.to_table().num_rows == 8
    assert ds.to_table()["a"].to_pylist() == [0, 3, 4, 5, 6, 7] and ds.count_rows() == 6


def test_filters_of_old_files_find_deleted_rows_too(tmp_path: Path) -> None:
    found = table(tmp_path / "t", "0.1", False).to_table(["a"], "a < 4 AND a > 0", **SHOWN)
    assert found.to_pydict() == {"a": [1, 2, 3], "_rowid": [None, None, 3]}


def test_indices_hide_no_deleted_row(tmp_path: Path) -> None:
    ds = table(tmp_path / "t", "2.1", True)
    ds.create_scalar_index("a", "BTREE")
    assert ds.to_table(["a"], "a = 2", **SHOWN)["_rowid"].to_pylist() == [None]


def test_other_executors_and_explanations_count_them(tmp_path: Path) -> None:
    ds = table(tmp_path / "t", "2.1", False)
    parts = [part.compute(scheduler="sync") for part in ds.to_delayed(columns=["a"], **SHOWN)]
    assert pa.concat_tables(parts).to_pydict() == ds.to_table(["a"], **SHOWN).to_pydict()
    scanner = ds.scanner(["a"], "a < 3", **SHOWN)
    assert "a < 3" in scanner.explain_plan() and scanner.analyze().steps[-1].rows_out == 3
    task = pickle.loads(pickle.dumps(ds.scanner(**SHOWN).plan().tasks[0]))
    assert task.num_rows == 4
    ordered = ds.to_table(["a"], order_by=[("a", "descending")], limit=2, offset=4, **SHOWN)
    assert ordered.to_pydict() == {"a": [3, 2], "_rowid": [3, None]}


def test_it_needs_the_row_id_and_no_search(tmp_path: Path) -> None:
    ds = table(tmp_path / "t", "2.1", False)
    for columns in (None, ["a"]):
        with pytest.raises(ValueError, match="needs with_row_id=True"):
            ds.to_table(columns, include_deleted_rows=True)
    assert ds.to_table(["a", "_rowid"], include_deleted_rows=True).num_rows == 8
    search = {"column": "v", "q": [1.0, 2.0]}
    with pytest.raises(UnsupportedError, match="a search returns living rows"):
        ds.to_table(nearest=search, **SHOWN)


def test_functions_without_rows_to_show_refuse_it(tmp_path: Path) -> None:
    ds = table(tmp_path / "t", "2.1", False)
    calls: list[Any] = [ds.count_rows, ds.take, ds.sample, lambda **options: lancecy.scan(ds.uri, **options)]
    for call in calls:
        with pytest.raises(UnsupportedError, match="include_deleted_rows"):
            call(include_deleted_rows=True)
