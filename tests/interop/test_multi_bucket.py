"""One table over four buckets: document 003's example as printed, and all that opens its table by URI afterwards."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import lancecy
from lancecy.cli.main import main
from lancecy.store.uri import open_store
from tests.helpers.recorder import Recorder, heard_of, running
from tests.helpers.s3 import S3Server

pytestmark = [pytest.mark.s3, pytest.mark.interop]

URI = "s3://bucket-1/my_dataset"
BUCKETS = [f"bucket-{number}" for number in range(1, 5)]
KEY, SECRET, TOKEN = "KEY-of-the-user", "SECRET-of-the-user", "TOKEN-of-the-user"

PRINTED = """\
import lance
from lance import DatasetBasePath
import pandas as pd
# Create a dataset with multiple data buckets
data = pd.DataFrame({"id": range(1000), "value": range(1000)})
dataset = lance.write_dataset(
data,
"s3://bucket-1/my_dataset",
mode="create",
initial_bases=[
# Register additional bases for the dataset that will be created
DatasetBasePath("s3://bucket-2", name="bucket2"),
DatasetBasePath("s3://bucket-3", name="bucket3"),
],
target_bases=["bucket2"], # Write this particular batch to bucket2
)
# Append more data
# Write this batch to bucket2 and bucket3
more_data = pd.DataFrame({"id": range(1000, 2000), "value": range(1000, 2000)})
dataset = lance.write_dataset(
more_data,
dataset,
mode="append",
target_bases=["bucket2", "bucket3"],
# Add a new base
dataset.add_bases([
DatasetBasePath("s3://bucket-4", name="bucket4")
])
# Write to the newly added base
new_data = pd.DataFrame({"id": range(2000, 3000), "value": range(2000, 3000)})
dataset = lance.write_dataset(
new_data,
dataset,
mode="append",
target_bases=["bucket4"],
)
# Reading is transparent - just open the dataset
dataset = lance.dataset("s3://bucket-1/my_dataset")
print(dataset.to_table()) # All 3000 rows, from all buckets
"""
"""Document 003, "Working with a Multi-Base Lance Dataset"."""

# The document prints the second write without its last line.
LACKING = 'target_bases=["bucket2", "bucket3"],\n'
AS_LANCE = "import sys, lancecy\nsys.modules['lance'] = lancecy\n"


@dataclass(frozen=True)
class Example:
    """The table of the example, what running it printed, and the server that it was written through."""

    server: Recorder
    printed: str

    @property
    def options(self) -> dict[str, Any]:
        """What lancecy needs to reach the table."""
        login = {"key": KEY, "secret": SECRET, "token": TOKEN}
        return {**login, "endpoint_url": self.server.url, "region": "us-east-1"}


def pylance_options(endpoint: str) -> dict[str, str]:
    """What pylance needs to reach a table at an endpoint."""
    login = {"access_key_id": KEY, "secret_access_key": SECRET, "session_token": TOKEN}
    return {**login, "endpoint": endpoint, "region": "us-east-1", "allow_http": "true"}


@pytest.fixture(scope="module")
def example(s3_server: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Example]:
    """The example run by a Python of its own, with credentials from the environment."""
    for bucket in BUCKETS:
        s3_server.make_bucket(bucket)
    script = tmp_path_factory.mktemp("example") / "example.py"
    script.write_text(AS_LANCE + PRINTED.replace(LACKING, LACKING + ")\n"))
    with running(Recorder(s3_server.endpoint)) as server:
        aws = {
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_SESSION_TOKEN": TOKEN,
            "AWS_ENDPOINT_URL": server.url,
            "AWS_DEFAULT_REGION": "us-east-1",
        }
        found = subprocess.run(
            [sys.executable, script],
            env={**os.environ, **aws, "PYTHONPATH": str(Path(lancecy.__file__).parents[1])},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert found.returncode == 0, found.stderr
        yield Example(server, found.stdout)


def test_the_example_of_document_003_prints_its_rows(example: Example) -> None:
    assert "id: int64\nvalue: int64" in example.printed
    assert "2995,2996,2997,2998,2999" in example.printed


def test_the_table_of_the_example_opens_by_uri(example: Example) -> None:
    ds = lancecy.dataset(URI, storage_options=example.options)
    assert {base.path for base in ds.base_paths.values()} == {f"s3://{name}" for name in BUCKETS[1:]}
    assert len(lancecy.scan(URI, storage_options=example.options)) == ds.count_rows()
    # Other tests of this module change the table.
    made = ds.checkout_version(4)
    assert made.to_table()["id"].to_pylist() == list(range(3000))
    assert made.take([0, 2999]).to_pylist() == [{"id": 0, "value": 0}, {"id": 2999, "value": 2999}]


def test_rows_are_appended_by_uri_to_any_of_its_buckets(example: Example) -> None:
    before = lancecy.dataset(URI, storage_options=example.options)
    rows = pd.DataFrame({"id": range(5), "value": range(5)})
    how: dict[str, Any] = {"mode": "append", "storage_options": example.options}
    lancecy.write_dataset(rows, URI, target_bases=["bucket4"], **how)
    ds = lancecy.write_dataset(rows, URI, target_all_bases=True, max_rows_per_file=1, **how)
    last = [fragment.data_files()[0].base_id for fragment in ds.get_fragments()][-6:]
    assert last[0] == 3
    assert set(last[1:]) == {None, 1, 2, 3}
    ds.delete("id = 4")
    assert ds.count_rows("id < 5") == before.count_rows("id < 5") + 8 - before.count_rows("id = 4")


def test_pylance_reads_the_table_of_the_example(example: Example) -> None:
    import lance

    options = pylance_options(example.server.url)
    ours = lancecy.dataset(URI, storage_options=example.options)
    assert lance.dataset(URI, ours.version, storage_options=options).to_table() == ours.to_table()
    # The same options under the same names.
    assert lancecy.dataset(URI, storage_options=options).count_rows() == ours.count_rows()


def test_the_shell_reads_and_changes_the_table_of_the_example(example: Example, tmp_path: Path) -> None:
    options = [text for key, value in example.options.items() for text in ("-o", f"{key}={value}")]

    def run(*command: str) -> str:
        found = CliRunner().invoke(main, [*command, *options])
        assert found.exit_code == 0, found.output
        return found.output

    pq.write_table(pa.table({"id": [7], "value": [7]}), tmp_path / "rows.parquet")
    before = int(run("count", URI))
    run("write", str(tmp_path / "rows.parquet"), URI, "--mode", "append", "--to", "bucket3")
    assert int(run("count", URI)) == before + 1
    assert "2999" in run("head", URI, "-f", "id = 2999", "--json")
    assert all(f"s3://{name}" in run("bases", URI) for name in BUCKETS)
    run("verify", URI)


def test_every_bucket_of_the_example_was_asked_with_the_login_of_the_root(example: Example) -> None:
    assert heard_of(example.server.requests) == {bucket: {(KEY, TOKEN)} for bucket in BUCKETS}
    assert not any(SECRET in request for request in example.server.requests)


def test_pylance_writes_to_four_buckets_and_the_table_opens_by_uri(
    example: Example, s3_server: S3Server
) -> None:
    import lance

    options = pylance_options(s3_server.endpoint)
    uri, data = f"{s3_server.make_bucket('theirs')}/t", pa.table({"id": range(40)})
    bases = [lance.DatasetBasePath(f"s3://{name}/theirs", name=name) for name in BUCKETS[1:]]
    lance.write_dataset(
        data, uri, initial_bases=bases, target_all_bases=True, max_rows_per_file=10, storage_options=options
    )
    assert lancecy.dataset(uri, storage_options=options).to_table() == data
    lance.dataset(uri, storage_options=options).shallow_clone("s3://theirs/clone", 1, storage_options=options)
    # pylance (14.0.2) makes no clone in another bucket, so it is moved there.
    clone, moved = (open_store(f"s3://{name}/clone", options) for name in ("theirs", BUCKETS[0]))
    for found in list(clone.list("")):
        moved.put(found.path, bytes(clone.get(found.path)))
    cloned = lancecy.dataset(moved.uri, storage_options=options)
    assert cloned.base_paths[0].path == uri
    assert cloned.to_table() == data
