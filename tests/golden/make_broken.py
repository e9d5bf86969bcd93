"""Makes the golden tables with known mistakes of old writers, in ``broken``; run by hand, never by a test.

    python tests/golden/make_broken.py migrated-1 | migrated-2 | same-ids

from the root of the repository, with the release named below on ``PYTHONPATH``, as in ``make_golden.py``.

``0.8.0_migrated.lance``: ``migrated-1`` with pylance 0.7.5, which writes 100 rows in two fragments and deletes every
tenth; then ``migrated-2`` with 0.8.0, which appends ten rows and states for each old fragment the rows that were left as
its physical rows. No version names its writer.

``14.0.2_same_ids.lance``: ``same-ids`` with pylance 14.0.2, which writes three fragments of four rows and deletes two of the
second. Its manifest is then edited: all three have the id 1, as in tables that 0.16.0 could write. pylance (14.0.2) reads the
rows of all three; with deletions in two of them it takes those of one for both, so only one has any here.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa

HERE = Path(__file__).resolve().parent / "broken"
MIGRATED, SAME_IDS = HERE / "0.8.0_migrated.lance", HERE / "14.0.2_same_ids.lance"


def rows(first: int, stop: int) -> pa.Table:
    """The rows with these numbers."""
    numbers = list(range(first, stop))
    return pa.table({"id": pa.array(numbers, pa.int64()), "word": [f"w{number}" for number in numbers]})


def main(what: str) -> None:
    """Make one table, or the first half of one."""
    import lance

    if what == "migrated-1":
        lance.write_dataset(rows(0, 100), str(MIGRATED), max_rows_per_file=60, max_rows_per_group=20)
        lance.dataset(str(MIGRATED)).delete("id % 10 = 3")
    elif what == "migrated-2":
        lance.write_dataset(rows(100, 110), str(MIGRATED), mode="append")
    else:
        table = lance.write_dataset(
            rows(0, 12), str(SAME_IDS), max_rows_per_file=4, data_storage_version="2.0"
        )
        table.delete("id IN (5, 6)")
        _give_one_id(SAME_IDS)


def _give_one_id(table: Path) -> None:
    from lancecy.proto import table_pb2

    newest = min((table / "_versions").iterdir())
    data = newest.read_bytes()
    position = int.from_bytes(data[-16:-8], "little")
    length = int.from_bytes(data[position : position + 4], "little")
    message = table_pb2.Manifest.FromString(data[position + 4 : position + 4 + length])
    for fragment in message.fragments:
        fragment.id = 1
    edited = message.SerializeToString()
    newest.write_bytes(data[:position] + len(edited).to_bytes(4, "little") + edited + data[-16:])


if __name__ == "__main__":
    main(sys.argv[1])
