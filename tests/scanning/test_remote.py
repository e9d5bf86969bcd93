"""The same table on stores that cost requests: a real S3 server, three buckets, counted requests."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

import lancecy
from lancecy.errors import DatasetNotFoundError, PathPolicyError
from lancecy.scanning import execute
from lancecy.store.base import Store
from lancecy.store.memory import MemoryStore
from lancecy.store.uri import open_store, register_store
from lancecy.store.wrap import CountingStore
from tests.helpers.compare import assert_tables_equal
from tests.helpers.datasets import expected, write_table
from tests.helpers.s3 import SECRET, S3Server

ROWS = range(6 * 40)


@pytest.fixture(scope="module")
def buckets(s3_server: S3Server) -> tuple[str, list[str]]:
    """A table whose root is in one bucket and whose data is in three others."""
    root, *data = [s3_server.make_bucket(f"scan-{name}") for name in ("root", "one", "two", "three")]
    write_table(
        f"{root}/t",
        fragments=6,
        rows=40,
        bases=data,
        opener=lambda uri: open_store(uri, s3_server.storage_options),
    )
    return f"{root}/t", data


@pytest.mark.s3
def test_table_over_three_buckets(buckets: tuple[str, list[str]], s3_server: S3Server) -> None:
    root, data = buckets
    ds = lancecy.dataset(root, storage_options=s3_server.storage_options, allowed_bases=data)
    assert_tables_equal(ds.to_table(), expected(ROWS))
    assert ds.to_table(["id"], filter="id >= 200")["id"].to_pylist() == list(range(200, 240))
    assert_tables_equal(ds.take([239, 0, 41]), expected([239, 0, 41]))
    assert "b1" in repr(ds) and SECRET not in repr(ds) + ds._repr_html_()


@pytest.mark.s3
def test_bucket_without_a_grant_is_refused_with_the_remedy(
    buckets: tuple[str, list[str]], s3_server: S3Server
) -> None:
    root, data = buckets
    ds = lancecy.dataset(root, storage_options=s3_server.storage_options)
    with pytest.raises(PathPolicyError, match="allowed_bases") as caught:
        ds.to_table()
    assert data[0].split("//")[1] in str(caught.value) and SECRET not in str(caught.value)


@pytest.mark.s3
def test_tasks_for_s3_carry_no_secret_and_run_in_this_process(
    buckets: tuple[str, list[str]], s3_server: S3Server
) -> None:
    root, data = buckets
    ds = lancecy.dataset(root, storage_options=s3_server.storage_options, allowed_bases=data)
    tasks = ds.scanner(["id"]).plan().tasks
    assert SECRET.encode() not in pickle.dumps(tasks) + pickle.dumps(ds)
    found = [n for task in pickle.loads(pickle.dumps(tasks)) for n in execute.read(task)["id"].to_pylist()]
    assert found == list(ROWS)


@pytest.mark.s3
def test_nothing_there(s3_server: S3Server) -> None:
    bucket = s3_server.make_bucket("scan-root")
    with pytest.raises(DatasetNotFoundError):
        lancecy.dataset(f"{bucket}/nothing", storage_options=s3_server.storage_options)


@pytest.fixture
def counted() -> CountingStore:
    inner = MemoryStore()
    store = CountingStore(inner, uri="counted://here/t")

    def opened(uri: str, options: object, **_: object) -> Store:
        return store

    register_store("counted", opened)
    write_table("counted://here/t", fragments=2, rows=400, rows_per_page=16, opener=lambda uri: inner)
    return store


def test_requests_of_a_remote_scan_are_few(counted: CountingStore) -> None:
    store = counted
    ds = lancecy.dataset("counted://here/t", session=lancecy.Session(threads=2))
    opening = len(store.requests)
    assert opening <= 3
    assert_tables_equal(ds.to_table(["id", "s", "v"]), expected(range(800)).select(["id", "s", "v"]))
    # Two files: a size, the tail with the metadata, and one range holding all pages of all columns each;
    # the values of the strings lie between pages already fetched and cost nothing more.
    assert len(store.requests) - opening <= 2 * 3
    before = len(store.requests)
    assert ds.to_table(["id"], filter="id = 401")["id"].to_pylist() == [401]
    # Per file: statistics in the metadata already read or in one more range; then id, page by page.
    assert len(store.requests) - before <= 5


def test_untrusted_local_tables_are_never_mapped(tmp_path: Path) -> None:
    root = write_table(str(tmp_path / "t"))
    ds = lancecy.dataset(root, untrusted=True)
    assert not ds.context.snapshot.is_mapped
    data = tmp_path / "t" / "data"
    data.rename(tmp_path / "elsewhere")
    data.symlink_to(tmp_path / "elsewhere")
    assert lancecy.dataset(root).to_table().num_rows == 150
    with pytest.raises(PathPolicyError):
        lancecy.dataset(root, untrusted=True).to_table()
