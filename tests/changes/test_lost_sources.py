"""A clone whose source lost files says which one, why, and what to do."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancecy
from lancecy.errors import MissingFileError
from lancecy.write.targets import DatasetBasePath

pytestmark = pytest.mark.interop
ROWS = pa.table({"a": range(10), "b": ["x"] * 10})


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A table of three versions: rows, a deletion file, other rows."""
    ds = lance.write_dataset(ROWS, str(tmp_path / "t"))
    ds.delete("a = 1")
    lance.write_dataset(ROWS, ds.uri, mode="overwrite")
    return tmp_path / "t"


def clean(path: Path) -> None:
    lance.dataset(str(path)).cleanup_old_versions(timedelta(0))


def error_of(path: Path, read: Any = lambda ds: ds.to_table()) -> MissingFileError:
    with pytest.raises(MissingFileError) as caught:
        read(lancecy.dataset(path, session=lancecy.Session()))
    return caught.value


def test_a_cleanup_of_the_source_is_named(source: Path, tmp_path: Path) -> None:
    lance.dataset(str(source)).shallow_clone(str(tmp_path / "c"), 2)
    clean(source)
    error = error_of(tmp_path / "c")
    assert error.path.startswith(("data/", "_deletions/"))
    assert (error.fragment, error.base) == (0, 0)
    assert f"{error.path!r} of fragment 0 is missing in base 0 ({source})" in str(error)
    assert "this table is a shallow clone of its version 2" in str(error)
    assert "a cleanup there removed version 2" in str(error)
    for remedy in ("put the files back", "relocate_base", "shallow_clone(protect=True)", "deep_clone"):
        assert remedy in str(error)


def test_every_way_of_reading_says_it(source: Path, tmp_path: Path) -> None:
    lance.dataset(str(source)).shallow_clone(str(tmp_path / "c"), 1)
    clean(source)
    for read in (
        lambda ds: ds.take([1]),
        lambda ds: list(ds.to_batches(columns=["a"])),
        lambda ds: ds.count_rows("a > 3"),
        lambda ds: ds.deep_clone(tmp_path / "copy"),
        lambda ds: ds.delete("a = 3"),
    ):
        assert "clone of its version 1" in str(error_of(tmp_path / "c", read))


def test_a_source_that_is_gone(source: Path, tmp_path: Path) -> None:
    lance.dataset(str(source)).shallow_clone(str(tmp_path / "c"), 3)
    source.rename(tmp_path / "moved")
    assert "no table any more: it was moved or removed" in str(error_of(tmp_path / "c"))
    (tmp_path / "moved").rename(source)
    assert lancecy.dataset(tmp_path / "c").count_rows() == 10


def test_a_file_that_no_cleanup_removed(source: Path, tmp_path: Path) -> None:
    lance.dataset(str(source)).shallow_clone(str(tmp_path / "c"), 3)
    shutil.rmtree(source / "data")
    assert "version 3 is still there, so something else" in str(error_of(tmp_path / "c"))


def test_a_clone_of_a_clone_names_both(source: Path, tmp_path: Path) -> None:
    lance.dataset(str(source)).shallow_clone(str(tmp_path / "c"), 1)
    lance.dataset(str(tmp_path / "c")).shallow_clone(str(tmp_path / "cc"), 1)
    clean(source)
    error = str(error_of(tmp_path / "cc"))
    assert f"clone of version 1 of {tmp_path / 'c'}, which uses that one" in error
    assert f"base 0 ({source})" in error
    assert "versions from 3 on" in error


def test_a_clone_that_has_forgotten_its_first_version(source: Path, tmp_path: Path) -> None:
    lance.dataset(str(source)).shallow_clone(str(tmp_path / "c"), 1)
    lance.dataset(str(tmp_path / "c")).update_config({"a": "b"})
    clean(tmp_path / "c")
    clean(source)
    error = str(error_of(tmp_path / "c"))
    assert "another table, and this one is a shallow clone of it" in error
    assert str(source) in error


def test_a_base_that_is_no_table_is_not_called_one(tmp_path: Path) -> None:
    base = DatasetBasePath(tmp_path / "b", name="b", is_dataset_root=True)
    lancecy.write_dataset(ROWS, tmp_path / "t", initial_bases=[base], target_bases=["b"])
    shutil.rmtree(tmp_path / "b")
    error = str(error_of(tmp_path / "t"))
    assert "clone" not in error
    assert "the base moved" in error
