"""Tables that Spark reads and writes through an external manifest store."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import lancecy
from tests.helpers.dynamodb import DynamoTable
from tests.helpers.postgres import PASSWORD, PostgresServer
from tests.helpers.s3 import SECRET, S3Server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_executors_read_and_write_a_table_that_a_database_commits(
    spark: SparkSession, tmp_path: Path, postgres_server: PostgresServer
) -> None:
    url, uri = postgres_server.url(), str(tmp_path / "t.lance")
    options = {"manifest_store": url}
    lancecy.spark.write(spark.range(10), uri, storage_options=options)
    lancecy.spark.write(spark.range(10, 15), uri, mode="append", storage_options=options)
    assert lancecy.spark.read(spark, uri, storage_options=options).count() == 15
    assert [version for version, _ in lancecy.SqlManifestStore(url).above(uri)] == [1, 2]
    plan = lancecy.spark.read(spark, uri, storage_options=options)._jdf.queryExecution().toString()
    assert PASSWORD not in plan


def test_executors_read_and_write_a_table_that_dynamodb_commits(
    spark: SparkSession, s3_server: S3Server
) -> None:
    s3_server.make_bucket("spark-ddb")
    dynamo = DynamoTable(s3_server, f"spark-{uuid.uuid4().hex}")
    uri, options = dynamo.uri("spark-ddb/dir/t"), dynamo.options
    given: dict[str, Any] = {"storage_options": options, "embed_credentials": True}
    lancecy.spark.write(spark.range(10), uri, **given)
    text = json.dumps(options)
    rows = spark.range(10, 15).write.format("lancecy").mode("append").option("storage_options", text)
    rows.save(uri)
    assert lancecy.spark.read(spark, uri, **given).count() == 15
    frame = spark.read.format("lancecy").option("storage_options", text).load(uri)
    assert sorted(row.id for row in frame.where("id > 11").collect()) == [12, 13, 14]
    assert sorted(dynamo.items("dir/t")) == [1, 2]
    plan = lancecy.spark.read(spark, uri, storage_options=options)._jdf.queryExecution().toString()
    assert SECRET not in plan
