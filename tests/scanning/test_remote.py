"""The same table on stores that cost requests: a real S3 server, three buckets, counted requests."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

import lancecy
from lancecy.errors import DatasetNotFoundError, PathPolicyError
from lancecy.file.open import open_file
from lancecy.rows import RowSelection
from lancecy.scanning import execute
from lancecy.store.base import Store, StoreTraits
from lancecy.store.memory import MemoryStore
from lancecy.store.reads import Ranges, Span, run
from lancecy.store.uri import open_store, register_store
from lancecy.store.wrap import CountingStore
from tests.helpers.compare import assert_tables_equal
from tests.helpers.datasets import SCHEMA, VERSIONS, data_file, expected, write_table
from tests.helpers.pages import Files
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


def counted(**how: Any) -> CountingStore:
    """A store at ``counted://here/t`` with a table in it."""
    inner = MemoryStore(traits=StoreTraits(create_is_atomic=True, concurrency=16))
    store = CountingStore(inner, uri="counted://here/t")

    def opened(uri: str, options: object, **_: object) -> Store:
        return store

    register_store("counted", opened)
    write_table("counted://here/t", opener=lambda uri: inner, **how)
    return store


def test_requests_of_a_remote_scan_are_few(data_version: str) -> None:
    store = counted(fragments=2, rows=400, rows_per_page=16, data_version=data_version)
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


@pytest.mark.parametrize("version", VERSIONS[1:])
@pytest.mark.parametrize("gap", [0, 40_000, 250_000])
def test_projected_scan_costs_three_requests_and_one_per_16_mib(version: str, gap: int) -> None:
    store = counted(fragments=1, rows=60_000, rows_per_page=30_000, data_version=version, gap=gap)
    ds = lancecy.dataset("counted://here/t", session=lancecy.Session(threads=2))
    for columns in (["id"], ["x", "v"], ["id", "s", "v"], None):
        fresh = lancecy.dataset("counted://here/t", session=lancecy.Session(threads=2))
        store.clear()
        assert_tables_equal(
            fresh.to_table(columns), expected(range(60_000)).select(columns or ds.schema.names)
        )
        wanted = sum(fresh.stats.data_stats()[name] for name in columns or ds.schema.names)
        assert store.count() <= 3 + -(-wanted // (16 << 20))
        # The holes that are fetched to save requests cost at most twice what is wanted.
        assert store.nbytes <= 3 * wanted + (1 << 20)


@pytest.mark.parametrize("version", VERSIONS[1:])
def test_a_few_rows_cost_a_few_chunks_and_not_the_columns(version: str) -> None:
    store = counted(fragments=1, rows=200_000, rows_per_page=100_000, data_version=version)
    ds = lancecy.dataset("counted://here/t", session=lancecy.Session(threads=2))
    ds.to_table(limit=1)
    store.clear()
    rows = [7, 160_000]
    assert_tables_equal(ds.take(rows), expected(rows))
    assert store.nbytes < (4 << 20) < sum(ds.stats.data_stats().values())
    assert store.count() <= 16


@pytest.mark.parametrize("version", VERSIONS[1:])
def test_any_value_is_reached_in_two_rounds_after_opening(version: str) -> None:
    files = Files(is_mapped=False)
    source = files.add("a.lance", data_file(0, 3000, 1000, version=version))
    major, minor = map(int, version.split("."))
    numbers = (0, 1, 2, 3)
    reader = open_file(
        source,
        field_ids=numbers,
        column_indices=numbers,
        fields=SCHEMA.fields,
        major=major,
        minor=minor,
        fetch=files.fetch,
    )
    for rows in (
        RowSelection.all(3000),
        RowSelection.range(3000, 5, 2500),
        RowSelection.take(3000, [2999, 4, 7]),
    ):
        rounds: list[int] = []

        def fetch(requests: list[Ranges], rounds: list[int] = rounds) -> list[Span]:
            rounds.append(len(requests))
            return files.fetch(requests)

        blocks = run(reader.read(SCHEMA.fields, rows), fetch)
        assert [len(rows)] * 4 == [blocks[number].length for number in numbers]
        assert len(rounds) <= 2


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
