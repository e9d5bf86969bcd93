"""A branch, clone or append to many fragments makes none of them: it costs one manifest, read and written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import lancecy
from lancecy.table.wire import manifest as manifest_wire

ROWS = 200


def made(ds: lancecy.Dataset) -> bool:
    """Whether the fragments of a dataset's manifest were made."""
    return "fragments" in vars(ds._snapshot.manifest)


@pytest.fixture
def ds(tmp_path: Path) -> lancecy.Dataset:
    uri = tmp_path / "t.lance"
    lancecy.write_dataset({"a": range(ROWS)}, uri, max_rows_per_file=1)
    manifest_wire._kept.cache_clear()
    return lancecy.dataset(uri)


def test_a_branch_and_a_clone_make_no_fragments(ds: lancecy.Dataset, tmp_path: Path) -> None:
    branch, clone = ds.create_branch("b"), ds.shallow_clone(tmp_path / "c.lance")
    assert not made(ds)
    for new in (branch, clone):
        assert not made(new)
        assert new.count_rows() == ROWS
        assert not made(new)
        assert new.to_table()["a"].to_pylist() == [*range(ROWS)]


def test_an_append_makes_no_fragments(ds: lancecy.Dataset) -> None:
    before = ds.checkout_version(1)
    ds.append({"a": [ROWS]})
    before.insert({"a": [ROWS + 1]})
    assert not made(ds)
    assert not made(before)
    assert before.count_rows() == ROWS + 2
    assert before.to_table()["a"].to_pylist() == [*range(ROWS + 2)]


def test_a_branch_of_a_branch_makes_the_fragments_that_it_looks_at(
    ds: lancecy.Dataset, tmp_path: Path
) -> None:
    ds.create_branch("b").delete("a = 3")
    manifest_wire._kept.cache_clear()
    branch = lancecy.dataset(ds.uri, version=("b", None))
    second, clone = branch.create_branch("c"), branch.shallow_clone(tmp_path / "c.lance")
    assert not made(branch)
    for new in (second, clone):
        assert new.count_rows() == ROWS - 1
        assert not made(new)


def test_a_large_manifest_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Names of columns make it larger than those that are kept in numbers.
    columns: dict[str, Any] = {f"{number:04d}{'n' * 1000}": [number] for number in range(1100)}
    ds = lancecy.write_dataset(columns, tmp_path / "t.lance")
    assert ds._snapshot.manifest_file.size > manifest_wire._KEPT_BYTES
    monkeypatch.setattr(manifest_wire, "_decoded", None)
    branch = ds.create_branch("b")
    assert branch.count_rows() == 1
    assert lancecy.dataset(ds.uri, version=("b", None)).schema == ds.schema
