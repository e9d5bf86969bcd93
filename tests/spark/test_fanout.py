"""What one executor reads of a table over several bases; no Spark session is needed."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lancecy.spark.convert import Converter
from lancecy.spark.tasks import TaskReader, divide
from tests.helpers.busy import busy_stores
from tests.helpers.compare import assert_tables_equal
from tests.helpers.datasets import expected

COLUMNS = ["id", "x", "s"]


@pytest.mark.parametrize("version", ["0.1", "mixed"])
@pytest.mark.parametrize("cores", [1, 2])
def test_part_of_an_executor_is_read_from_all_bases_at_once(version: str, cores: int) -> None:
    stores = busy_stores()
    stores.write(deleted={3: [3, 4]}, data_version=version)
    ds = stores.dataset()
    plan, parts = divide(ds.scanner(COLUMNS), ds.context, cores, blocksize=4000 * (3 - cores))
    reader = TaskReader(plan.tasks[0].spec, tuple(parts), Converter(plan.schema))
    found: list[pa.RecordBatch] = []
    for part in parts:
        stores.clear()
        found.extend(reader.read(part))
        assert stores.most_bases == 3
    rows = [n for n in range(240) if n not in (33, 34)]
    assert_tables_equal(pa.Table.from_batches(found).sort_by("id"), expected(rows).select(COLUMNS))
