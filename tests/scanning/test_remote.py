"""The same table on stores that cost requests: a real S3 server, three buckets, counted requests."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import lancecy
from lancecy.errors import DatasetNotFoundError, MissingFileError, PathPolicyError
from lancecy.file.open import opening
from lancecy.rows import RowSelection
from lancecy.scanning.run_task import read
from lancecy.store.base import Memory, Store, StoreTraits
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
    root, _ = buckets
    ds = lancecy.dataset(root, storage_options=s3_server.storage_options)
    assert_tables_equal(ds.to_table(), expected(ROWS))
    assert ds.to_table(["id"], filter="id >= 200")["id"].to_pylist() == list(range(200, 240))
    assert_tables_equal(ds.take([239, 0, 41]), expected([239, 0, 41]))
    assert "b1" in repr(ds) and SECRET not in repr(ds) + ds._repr_html_()


@pytest.mark.s3
def test_bucket_of_an_untrusted_table_is_refused_with_the_remedy(
    buckets: tuple[str, list[str]], s3_server: S3Server
) -> None:
    root, data = buckets
    ds = lancecy.dataset(root, storage_options=s3_server.storage_options, untrusted=True)
    with pytest.raises(PathPolicyError, match="allowed_bases") as caught:
        ds.to_table()
    assert data[0].split("//")[1] in str(caught.value) and SECRET not in str(caught.value)
    options = s3_server.storage_options
    allowed = lancecy.dataset(root, storage_options=options, untrusted=True, allowed_bases=data)
    assert_tables_equal(allowed.to_table(), expected(ROWS))


@pytest.mark.s3
def test_tasks_for_s3_carry_no_secret_and_run_in_this_process(
    buckets: tuple[str, list[str]], s3_server: S3Server
) -> None:
    root, _ = buckets
    ds = lancecy.dataset(root, storage_options=s3_server.storage_options)
    tasks = ds.scanner(["id"]).plan().tasks
    assert SECRET.encode() not in pickle.dumps(tasks) + pickle.dumps(ds) + pickle.dumps(ds.scanner())
    found = [n for task in pickle.loads(pickle.dumps(tasks)) for n in read(task)["id"].to_pylist()]
    assert found == list(ROWS)


@pytest.mark.s3
def test_nothing_there(s3_server: S3Server) -> None:
    bucket = s3_server.make_bucket("scan-root")
    with pytest.raises(DatasetNotFoundError):
        lancecy.dataset(f"{bucket}/nothing", storage_options=s3_server.storage_options)


TRAITS = StoreTraits(create_is_atomic=True, concurrency=16)


def counted(traits: StoreTraits = TRAITS, **how: Any) -> CountingStore:
    """A store at ``counted://here/t`` with a table in it."""
    inner = MemoryStore(traits=traits)
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
@pytest.mark.parametrize("gap", [0, *(pytest.param(g, marks=pytest.mark.slow) for g in (40_000, 250_000))])
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
def test_scattered_rows_do_not_fetch_what_is_between_them(version: str) -> None:
    # Holes between the rows are five times what is always fetched along, and no request has to queue.
    traits = replace(TRAITS, merge_gap=256 << 10)
    store = counted(traits, fragments=1, rows=200_000, rows_per_page=200_000, data_version=version)
    ds = lancecy.dataset("counted://here/t", session=lancecy.Session(threads=2))
    ds.to_table(limit=1)
    rows = list(range(500, 200_000, 30_000))
    wanted = 7 * (100 if version == "2.0" else 8200 + 24_000)
    heads = 0 if version == "2.0" else 3000
    for _ in range(2):
        store.clear()
        assert_tables_equal(ds.take(rows, ["id", "s"]), expected(rows).select(["id", "s"]))
        assert store.nbytes <= 3 * wanted + heads
        heads = 0  # where chunks are is known from the take before


# -- sizes of files ---------------------------------------------------------------------------


def looked_at(store: CountingStore) -> int:
    """Requests for the size of a data file."""
    return sum(request.method == "head" and request.path.startswith("data/") for request in store.requests)


@pytest.mark.parametrize("version", VERSIONS[1:])
def test_the_size_in_the_manifest_saves_a_request_per_file(version: str) -> None:
    opened = {}
    for claimed in (lambda _: None, lambda size: size):
        store = counted(fragments=3, data_version=version, claimed=claimed)
        ds = lancecy.dataset("counted://here/t", session=lancecy.Session(threads=2))
        store.clear()
        assert_tables_equal(ds.to_table(), expected(range(150)))
        opened[looked_at(store)] = store.count()
    assert set(opened) == {0, 3}
    assert opened[0] == opened[3] - 3


TIB = pytest.param(1 << 40, marks=pytest.mark.slow)


@pytest.mark.parametrize("change", [-1, 1, -40, 5000, -5000, TIB, 1 << 62, 1 << 63, (1 << 64) - 10_000_000])
@pytest.mark.parametrize("version", VERSIONS[1:])
def test_wrong_sizes_in_the_manifest_do_no_harm(version: str, change: int) -> None:
    store = counted(fragments=2, rows=400, data_version=version, claimed=lambda size: max(1, size + change))
    ds = lancecy.dataset("counted://here/t", session=lancecy.Session(threads=2))
    assert_tables_equal(ds.to_table(), expected(range(800)))
    assert looked_at(store) == 2


def test_sizes_of_legacy_files_are_never_believed() -> None:
    store = counted(fragments=2, data_version="0.1", claimed=lambda size: size)
    ds = lancecy.dataset("counted://here/t", session=lancecy.Session(threads=2))
    assert_tables_equal(ds.to_table(), expected(range(100)))
    assert looked_at(store) == 2


def test_a_file_that_is_gone_is_named() -> None:
    store = counted(fragments=2, data_version="2.1", claimed=lambda size: size)
    store.inner.delete(["data/part-7.lance"])
    with pytest.raises(MissingFileError, match="part-7.* of fragment 7"):
        lancecy.dataset("counted://here/t", session=lancecy.Session(threads=2)).to_table()


def test_what_was_read_of_files_is_kept_by_the_session(data_version: str) -> None:
    store = counted(fragments=2, data_version=data_version, claimed=lambda size: size)
    session = lancecy.Session(threads=2)
    counts = []
    for _ in range(2):
        ds = lancecy.dataset("counted://here/t", session=session)
        store.clear()
        assert_tables_equal(ds.to_table(), expected(range(100)))
        counts.append(store.count())
    assert counts[1] == counts[0] - 2  # the end of each file


@pytest.mark.parametrize("version", VERSIONS[1:])
def test_any_value_is_reached_in_two_rounds_after_opening(version: str) -> None:
    files = Files(is_mapped=False)
    source = files.add("a.lance", data_file(0, 3000, 1000, version=version))
    major, minor = map(int, version.split("."))
    numbers = (0, 1, 2, 3)
    reader = run(
        opening(
            source, field_ids=numbers, column_indices=numbers, fields=SCHEMA.fields, major=major, minor=minor
        ),
        files.fetch,
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


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_rows_all_over_a_page_cost_no_round_for_the_place_of_its_chunks(version: str) -> None:
    store = counted(fragments=1, rows=200_000, rows_per_page=200_000, data_version=version)
    rows = list(range(700, 200_000, 1_900))
    scattered = expected(rows).select(["id"])
    ds = lancecy.dataset("counted://here/t", session=lancecy.Session(threads=2))
    ds.to_table(["id"], limit=1)
    store.clear()
    assert_tables_equal(ds.take(rows, ["id"]), scattered)
    assert store.count() == 1  # the page, whose chunks would all be fetched by a second round
    few = lancecy.dataset("counted://here/t", session=lancecy.Session(threads=2))
    few.to_table(["s"], limit=1)
    store.clear()
    assert_tables_equal(few.take([3, 170_000], ["id"]), expected([3, 170_000]).select(["id"]))
    assert store.nbytes < 40_000 < 8 * 200_000 // 10


def test_tens_of_small_files_are_requested_at_once() -> None:
    at_once = 60
    traits = replace(TRAITS, batches=True)
    store = counted(traits, fragments=at_once, rows=4, data_version="2.1", claimed=lambda size: size)
    ds = lancecy.dataset("counted://here/t", session=lancecy.Session(threads=2))
    together = threading.Barrier(at_once)
    answer = store.inner.get_many

    def wait(path: str, starts: Sequence[int], stops: Sequence[int]) -> list[Memory]:
        together.wait(60)  # raises unless all files are asked for before one has answered
        return answer(path, starts, stops)

    store.inner.get_many = wait  # type: ignore[method-assign]
    assert_tables_equal(ds.to_table(), expected(range(4 * at_once)))
    assert ds.take([0, 100], ["id"])["id"].to_pylist() == [0, 100]
    assert ds.count_rows(filter="id < 9") == 9
