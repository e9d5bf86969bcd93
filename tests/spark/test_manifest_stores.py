"""Tables that Spark reads and writes through an external manifest store."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import lancecy
from tests.helpers.postgres import PASSWORD, PostgresServer

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
