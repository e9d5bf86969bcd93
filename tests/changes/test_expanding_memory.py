"""Memory of scans and changes of tables whose rows take a hundred times their bytes once they are decoded."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import lancecy

ROWS, WIDTH = 10_000, 100_000
"""1 GB of texts, which take some megabytes in files."""

SCRIPT = """
import sys, threading
import lancecy

def held():
    line = next(line for line in open("/proc/self/status") if line.startswith("RssAnon"))
    return int(line.split()[1]) * 1024

peak, is_done = [0], threading.Event()

def watch():
    while not is_done.wait(0.005):
        peak[0] = max(peak[0], held())

ds = lancecy.dataset(sys.argv[1])
before = held()
threading.Thread(target=watch, daemon=True).start()
{work}
is_done.set()
print(peak[0] - before)
"""

WORK = {
    "stream": "assert sum(batch.num_rows for batch in ds.to_batches()) == 10_000",
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
    script = SCRIPT.format(work=WORK[name])
    done = subprocess.run([sys.executable, "-c", script, table], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 600 << 20
