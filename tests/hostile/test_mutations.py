"""Thousands of damaged tables: each ends in a value or a LanceError, in its own process.

Every golden table is damaged file by file: truncations, bit flips, overwritten words,
edited page tables, and messages with one field changed and lengths kept valid. No
signal, no hang, no other exception, and no more memory than the bytes can back.
"""

from __future__ import annotations

import functools
import os
import random
import re
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import lancecy
from tests.helpers.golden import all_goldens
from tests.helpers.jail import Outcome, jailed
from tests.helpers.mutate import mutations_of

GOLDEN = Path(__file__).parent.parent / "golden"
# Tables of later versions are damaged by test_mutations2.
TABLES = sorted(GOLDEN.glob("example.lance")) + [t.path for t in all_goldens() if t.is_legacy]
# ``LANCECY_MUTATIONS`` asks for more (a night run) or fewer (a quick check) over all tables together.
CASES_PER_TABLE = max(6, int(os.environ.get("LANCECY_MUTATIONS", "2500")) // max(1, len(TABLES)))
MEMORY = 512 << 20


# Values that a type's declared range forbids are data like any other to a reader: every bit pattern of a
# plain page is a value, and no buffer is left because of it.
VALUE_RANGE = re.compile("does not fit in precision|whole number of days|not within the acceptable range")


def validate(column: pa.ChunkedArray) -> None:
    """Fail where Arrow's structure is broken: offsets, codes, text, lengths of children."""
    column.validate()
    try:
        column.validate(full=True)
    except pa.ArrowInvalid as error:
        if not VALUE_RANGE.search(str(error)):
            raise


def read_everything(path: Path, untrusted: bool, threads: int = 2) -> None:
    """What a user does with a table, over every column and row."""
    ds = lancecy.dataset(path, untrusted=untrusted, session=lancecy.Session(threads=threads))
    str(ds), ds.schema.to_string(), ds.count_rows()
    names = ds.schema.names
    table = ds.to_table()
    for column in table.columns:
        validate(column)
    if names and table.num_rows:
        ds.take(np.array([0, table.num_rows - 1]))
        scanner = ds.scanner(filter=f"`{names[0]}` IS NOT NULL")
        str(scanner.explain())
        scanner.count_rows()
    if threads > 1:
        for batch in ds.to_batches(batch_size=100):
            batch.validate()


def describe(outcome: Outcome, table: Path, file: Path, what: str) -> str:
    return f"{table.name}/{file.relative_to(table)} ({what}): {outcome.kind} after {outcome.seconds:.2f} s: {outcome.detail}"


def target_files(table: Path) -> list[Path]:
    return sorted(
        p for p in table.rglob("*") if p.is_file() and p.suffix in (".lance", ".manifest", ".arrow", ".bin")
    )


@pytest.mark.parametrize("table", TABLES, ids=lambda p: p.stem)
@pytest.mark.timeout(300)
def test_damaged_tables_end_in_a_value_or_an_error(table: Path, tmp_path: Path) -> None:
    rng = random.Random(f"lancecy {table.name}")
    copy = tmp_path / table.name
    shutil.copytree(table, copy)
    files = target_files(copy)
    # Loads every module before the first fork, on this thread alone.
    read_everything(copy, untrusted=False, threads=1)
    seen: dict[str, int] = {}
    bad: list[str] = []
    for file in files:
        original = file.read_bytes()
        for what, damaged in mutations_of(file, rng, -(-CASES_PER_TABLE // len(files))):
            file.write_bytes(damaged)
            untrusted = rng.random() < 0.5
            outcome = jailed(functools.partial(read_everything, copy, untrusted), MEMORY)
            seen[outcome.kind] = seen.get(outcome.kind, 0) + 1
            if outcome.kind not in ("value", "error"):
                bad.append(describe(outcome, copy, file, what))
        file.write_bytes(original)
    assert not bad, f"{len(bad)} of {sum(seen.values())} damaged tables got out of hand:\n" + "\n".join(
        bad[:5]
    )
    # Damage that nobody ever notices would mean that these tests look at nothing.
    assert seen.get("error", 0) > 0, seen
