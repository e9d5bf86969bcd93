"""Tables that the workers of Dask read and write through an external manifest store."""

from __future__ import annotations

import pickle
import uuid
from typing import Any

import dask.dataframe as dd
import pandas as pd
import pytest
from distributed import Client

import lancecy
from tests.helpers.dynamodb import DynamoTable
from tests.helpers.s3 import SECRET, S3Server


@pytest.mark.s3
@pytest.mark.slow
def test_workers_read_and_write_a_table_that_dynamodb_commits(
    process_client: Client, s3_server: S3Server
) -> None:
    s3_server.make_bucket("dask-ddb")
    dynamo = DynamoTable(s3_server, f"dask-{uuid.uuid4().hex}")
    uri, options = dynamo.uri("dask-ddb/dir/t"), dynamo.options
    rows = dd.from_pandas(pd.DataFrame({"id": range(40)}), npartitions=4)
    with process_client.as_current():
        given: dict[str, Any] = {"storage_options": options, "embed_credentials": True}
        lancecy.write_dask(rows, uri, index=False, **given)
        lancecy.write_dask(rows, uri, index=False, mode="append", **given)
        assert lancecy.scan(uri, **given)["id"].sum().compute() == 2 * sum(range(40))
        lancecy.dask.compact(uri, storage_options=options, embed_credentials=True)
        assert lancecy.scan(uri, filter="id > 37", **given)["id"].compute().tolist() == [38, 39] * 2
    assert sorted(dynamo.items("dir/t")) == [1, 2, 3]
    assert SECRET.encode() not in pickle.dumps(lancecy.scan(uri, storage_options=options))
