"""Tables by name in Spark: reads, writes, options of the format, and views."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import lancecy
from tests.helpers.namespaces import create, declare, make, ours

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_tables_by_name(spark: SparkSession, tmp_path: Path) -> None:
    ns = ours(tmp_path)
    make(ns, "n")
    create(ns, "n.t")
    create(ns, "top")
    declare(ns, "n.later")
    assert lancecy.spark.read(spark, namespace=ns, table_id=["n", "t"]).count() == 3
    lancecy.spark.write(spark.range(5), namespace=ns, table_id=["n", "numbers"])
    lancecy.spark.write(spark.range(2), mode="append", namespace=ns, table_id=["n", "numbers"])
    assert lancecy.dataset(namespace=ns, table_id=["n", "numbers"]).count_rows() == 7

    options = {"namespace": json.dumps({"root": str(tmp_path)}), "table_id": "n.numbers"}
    assert spark.read.format("lancecy").options(**options).load().count() == 7
    spark.range(1).write.format("lancecy").options(**options).mode("append").save()
    assert lancecy.dataset(namespace=ns, table_id=["n", "numbers"]).count_rows() == 8

    assert lancecy.spark.register(spark, ns) == ["n_numbers", "n_t", "top"]
    assert spark.sql("SELECT count(*) FROM n_numbers").collect()[0][0] == 8
    assert lancecy.spark.register(spark, ns, ["n"]) == ["numbers", "t"]
    assert spark.sql("SELECT sum(a) FROM t").collect()[0][0] == 6
    for name in ("n_numbers", "n_t", "top", "numbers", "t"):
        spark.catalog.dropTempView(name)

    create(ns, "n_t")
    with pytest.raises(ValueError, match="would both be view"):
        lancecy.spark.register(spark, ns)


def test_options_of_a_table_by_name_belong_together(tmp_path: Path) -> None:
    from lancecy.spark.options import ReadOptions

    create(ours(tmp_path), "t")
    root = json.dumps({"root": str(tmp_path)})
    found = ReadOptions.parse({"namespace": root, "tableid": '["t"]'})
    assert found.path == str(tmp_path / "t.lance")
    for given in ({"namespace": root}, {"tableid": "t"}, {"namespace": root, "tableid": "t", "path": "x"}):
        with pytest.raises(ValueError, match="needs the options namespace and table_id"):
            ReadOptions.parse(given)
