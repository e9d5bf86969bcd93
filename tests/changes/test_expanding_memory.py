"""Memory of scans and changes of tables whose rows take a hundred times their bytes once they are decoded."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import lancecy
from tests.helpers.peak_memory import peak_memory

ROWS, WIDTH = 10_000, 100_000
"""1 GB of texts, which take some megabytes in files."""

WORK = {
    "stream": "assert sum(batch.num_rows for batch in ds.to_batches()) == ds.count_rows()",
    "count": "assert ds.count_rows(\"t like '%zz%'\") == 0",
    "delete": "ds.delete(\"t like '%zz%' or id = 3\", durability='none')",
    "update": "ds.update({'id': 'id + 1'}, where='id % 2 = 0', durability='none')",
    "add columns": "ds.add_columns({'n': 'length(t)'}, durability='none')",
    "verify": "assert ds.verify()",
}


def batches() -> Iterator[pa.RecordBatch]:
    texts = pa.array(["x" * WIDTH] * 100)
    for start in range(0, ROWS, 100):
        yield pa.record_batch({"id": pa.array(range(start, start + 100)), "t": texts})


@pytest.fixture(scope="module", params=["2.1", "2.2"])
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("expanding") / "t.lance"
    reader = pa.RecordBatchReader.from_batches(next(batches()).schema, batches())
    lancecy.write_dataset(reader, place, data_storage_version=request.param, durability="none")
    return place


@pytest.mark.slow
@pytest.mark.parametrize("name", WORK)
def test_memory_is_bounded_by_decoded_bytes(name: str, table: Path) -> None:
    assert peak_memory(str(table), WORK[name]) < 600 << 20
