"""Requests of writes on an object store, counted on the wire: never more than the reference implementation makes."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lancecy
from tests.helpers.counting_proxy import CountingProxy, start_proxy
from tests.helpers.s3 import SECRET, S3Server

pytestmark = pytest.mark.s3

ROWS = pa.table({"id": np.arange(100), "s": [f"row {number}" for number in range(100)]})


@pytest.fixture(scope="module")
def proxy(s3_server: S3Server) -> Iterator[CountingProxy]:
    s3_server.make_bucket("requests")
    with start_proxy(s3_server.endpoint) as proxy:
        yield proxy


@pytest.fixture
def options(proxy: CountingProxy) -> dict[str, str]:
    """Storage options under the names that both libraries know."""
    return {
        "aws_access_key_id": "test",
        "aws_secret_access_key": SECRET,
        "aws_region": "us-east-1",
        "aws_endpoint": proxy.endpoint,
        "allow_http": "true",
    }


def _written(proxy: CountingProxy, library: Any, options: dict[str, str], **more: Any) -> list[list[str]]:
    """Methods of the requests that create a table and append to it."""
    uri = f"s3://requests/{uuid.uuid4().hex}"
    lines = []
    for mode in ("create", "append"):
        proxy.traffic()
        made = library.write_dataset(ROWS, uri, mode=mode, storage_options=options, **more)
        lines.append([line.partition(" ")[0] for line in proxy.traffic().lines])
        assert made.count_rows() == 100 * made.version
    assert library.dataset(uri, storage_options=options).to_table().num_rows == 200
    return lines


def test_an_append_makes_six_requests(proxy: CountingProxy, options: dict[str, str]) -> None:
    lancecy.write_dataset(ROWS, f"s3://requests/{uuid.uuid4().hex}", storage_options=options)
    created, appended = _written(proxy, lancecy, options, session=lancecy.Session())
    # Listed, written, listed again, transaction, manifest.
    assert created == ["GET", "PUT", "GET", "PUT", "PUT"]
    assert len(appended) <= 6
    assert appended.count("PUT") == 3


@pytest.mark.interop
def test_writes_make_no_more_requests_than_those_of_pylance(
    proxy: CountingProxy, options: dict[str, str]
) -> None:
    import lance

    lancecy.write_dataset(ROWS, f"s3://requests/{uuid.uuid4().hex}", storage_options=options)
    ours, theirs = (_written(proxy, library, options) for library in (lancecy, lance))
    assert [len(lines) for lines in ours] <= [len(lines) for lines in theirs]


def test_a_table_that_was_created_again_is_noticed(options: dict[str, str], proxy: CountingProxy) -> None:
    uri = f"s3://requests/{uuid.uuid4().hex}"
    table = lancecy.write_dataset(ROWS, uri, storage_options=options)
    name = "18446744073709551614.manifest"
    other = lancecy.write_dataset(ROWS, f"{uri}-other", storage_options=options)
    theirs = other._snapshot.store.get(f"_versions/{name}").tobytes()
    table._snapshot.store.put(f"_versions/{name}", theirs)
    with pytest.raises(lancecy.errors.ConflictError, match="created again"):
        table.update_config({"a": "b"})


def test_small_files_cost_one_request_each(proxy: CountingProxy, options: dict[str, str]) -> None:
    uri = f"s3://requests/{uuid.uuid4().hex}"
    lancecy.write_dataset(ROWS, uri, storage_options=options, max_rows_per_file=10)
    table = lancecy.dataset(uri, storage_options=options, session=lancecy.Session())
    proxy.traffic()
    assert table.take([5, 15, 95], columns=["id"])["id"].to_pylist() == [5, 15, 95]
    assert proxy.traffic().requests == 3
    assert table.to_table().num_rows == 100
    assert proxy.traffic().requests == 7
    assert table.to_table(filter="id % 2 = 0", columns=["s"]).num_rows == 50
    assert proxy.traffic().requests == 0


def test_analysis_counts_the_requests_that_are_made(proxy: CountingProxy, options: dict[str, str]) -> None:
    uri = f"s3://requests/{uuid.uuid4().hex}"
    lancecy.write_dataset(ROWS, uri, storage_options=options, max_rows_per_file=10)
    table = lancecy.dataset(uri, storage_options=options, session=lancecy.Session())
    proxy.traffic()
    told = table.scanner(columns=["id"], filter="id < 1000").analyze_plan()
    assert proxy.traffic().requests == 10
    assert str(told).splitlines()[-1].split()[-2] == "10"
