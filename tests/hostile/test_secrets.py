"""What is given as a secret is in nothing that can be shown, logged, or sent to another process."""

from __future__ import annotations

import contextlib
import io
import logging
import pickle
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

import lancecy
from lancecy.errors import LanceError
from lancecy.store.base import PutMode
from lancecy.store.uri import open_store
from tests.helpers.datasets import write_table

SECRET = "hunter2-hunter2"
OPTIONS = {"secret": SECRET, "base_1.token": SECRET + "-of-base-1"}


class Guarded(MemoryFileSystem):  # type: ignore[misc]
    """A file system that wants a secret, and quotes it in its errors."""

    protocol = "guarded"
    cachable = False

    def __init__(self, secret: str = "", **options: Any) -> None:
        super().__init__(**options)
        self.secret = secret

    def _check(self) -> None:
        if self.secret != SECRET:
            raise OSError(f"403: {self.secret!r} is not the secret")

    def cat_file(self, path: str, *args: Any, **kwargs: Any) -> Any:
        self._check()
        if path.endswith(".lance") and Guarded.broken:
            raise OSError(f"500 for https://h/?X-Amz-Security-Token={self.secret}")
        return super().cat_file(path, *args, **kwargs)

    broken = False


fsspec.register_implementation("guarded", Guarded, clobber=True)


@pytest.fixture
def ds() -> lancecy.Dataset:
    write_table(
        "guarded://t", fragments=2, rows=20, data_version="2.1", opener=lambda u: open_store(u, OPTIONS)
    )
    return lancecy.dataset("guarded://t", storage_options=OPTIONS)


def file_reader(ds: lancecy.Dataset) -> lancecy.LanceFileReader:
    path = f"guarded://t/data/{ds.get_fragments()[0].metadata.files[0].path}"
    return lancecy.LanceFileReader(path, OPTIONS)


OBJECTS: dict[str, Callable[[lancecy.Dataset], object]] = {
    "dataset": lambda ds: ds,
    "older version": lambda ds: ds.checkout_version(ds.version),
    "fragment": lambda ds: ds.get_fragments()[0],
    "scanner": lambda ds: ds.scanner(["id"], filter="id > 3"),
    "plan": lambda ds: ds.scanner(["id"], filter="id > 3").explain(),
    "task": lambda ds: ds.scanner(["id"]).plan().tasks,
    "session": lambda ds: ds._session,
    "snapshot": lambda ds: ds._snapshot,
    "statistics": lambda ds: ds.stats,
    "versions": lambda ds: ds.versions(),
    "tags": lambda ds: ds.tags,
    "branches": lambda ds: ds.branches,
    "file reader": file_reader,
    "delayed": lambda ds: ds.to_delayed(),
    "graph": lambda ds: dict(ds.to_delayed()[0].__dask_graph__()),
    "pyarrow": lambda ds: ds.to_pyarrow_dataset(),
    "dask": lambda ds: lancecy.scan("guarded://t", storage_options=OPTIONS).optimize().expr,
    "dask graph": lambda ds: dict(lancecy.scan("guarded://t", storage_options=OPTIONS).__dask_graph__()),
    "dask array": lambda ds: dict(
        lancecy.to_dask_array("guarded://t", "id", storage_options=OPTIONS).__dask_graph__()
    ),
}


@pytest.mark.parametrize("what", OBJECTS)
def test_nothing_shows_or_carries_a_secret(what: str, ds: lancecy.Dataset) -> None:
    made = OBJECTS[what](ds)
    texts = [repr(made), str(made), getattr(made, "_repr_html_", str)()]
    assert not any(SECRET in text for text in texts)
    with contextlib.suppress(TypeError, pickle.PicklingError):  # what cannot be pickled carries nothing
        assert SECRET.encode() not in pickle.dumps(made)


def test_sent_tags_branches_and_files_take_the_options_that_the_process_knows(
    ds: lancecy.Dataset, tmp_path: Path
) -> None:
    # The file system of this module cannot create a tag safely, so the files of another table are copied.
    other = lancecy.write_dataset({"a": [1]}, tmp_path / "other")
    other.tags.create("first", 1)
    other.create_branch("trial")
    there = open_store(ds.uri, OPTIONS)
    for file in (tmp_path / "other" / "_refs").rglob("*.json"):
        there.put(str(file.relative_to(tmp_path / "other")), file.read_bytes(), PutMode.OVERWRITE)
    assert list(pickle.loads(pickle.dumps(ds.tags)).list()) == ["first"]
    assert list(pickle.loads(pickle.dumps(ds.branches)).list()) == ["trial"]
    reader = file_reader(ds)
    assert pickle.loads(pickle.dumps(reader)).read_all().to_table().equals(reader.read_all().to_table())


@pytest.mark.parametrize("secret", [SECRET, "wrong-but-secret"])
def test_no_error_or_log_says_a_secret(
    secret: str, ds: lancecy.Dataset, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Guarded, "broken", True)
    options, shown = {**OPTIONS, "secret": secret}, io.StringIO()
    with caplog.at_level(logging.DEBUG), pytest.raises(LanceError) as caught:
        lancecy.dataset("guarded://t", storage_options=options).to_table()
    traceback.print_exception(caught.value, file=shown)
    for text in (str(caught.value), repr(caught.value), shown.getvalue(), caplog.text):
        assert secret not in text
    assert secret.encode() not in pickle.dumps(caught.value)
