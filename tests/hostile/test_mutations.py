"""Thousands of damaged tables: each ends in a value or a LanceError, in a process that survives it.

Every golden table is damaged file by file: truncations, bit flips, overwritten words,
edited page tables, and messages with one field changed and lengths kept valid. No
signal, no hang, no other exception, and no more memory than the bytes can back.
"""

from __future__ import annotations

import contextlib
import functools
import os
import random
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import lancecy
from tests.helpers.batches import Batch, jailed_batches, narrow_threads
from tests.helpers.golden import all_goldens
from tests.helpers.mutate import mutations_of, place

GOLDEN = Path(__file__).parent.parent / "golden"
# Tables of later versions are damaged by test_mutations2.
TABLES = sorted(GOLDEN.glob("example.lance")) + [t.path for t in all_goldens() if t.is_legacy]
# ``LANCECY_MUTATIONS`` asks for more (a night run) or fewer (a quick check) over all tables together.
CASES_PER_TABLE = max(6, int(os.environ.get("LANCECY_MUTATIONS", "1250")) // max(1, len(TABLES)))
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
    with contextlib.closing(lancecy.Session(threads=threads)) as session:
        ds = lancecy.dataset(path, untrusted=untrusted, session=session)
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


@dataclass(frozen=True)
class Case:
    """One file of a table damaged.

    Attributes
    ----------
    file : Path
    original, damaged : bytes
    what : str
        What was done to it.
    untrusted : bool
        How the table is opened.
    """

    file: Path
    original: bytes
    damaged: bytes
    what: str
    untrusted: bool


def cases_of(table: Path, rng: random.Random) -> list[Case]:
    """What is done to the files of a table, about ``CASES_PER_TABLE`` times."""
    files = target_files(table)
    found = []
    for file in files:
        original = file.read_bytes()
        for what, damaged in mutations_of(file.suffix, original, rng, -(-CASES_PER_TABLE // len(files))):
            found.append(Case(file, original, damaged, what, rng.random() < 0.5))
    return found


def run_case(table: Path, cases: Sequence[Case], index: int) -> None:
    """Damage one file, mend the one damaged before it, and read."""
    narrow_threads()
    if index:
        # Here, not behind the reading: whoever was brought down by a case did not get that far.
        place(cases[index - 1].file, cases[index - 1].original)
    place(cases[index].file, cases[index].damaged)
    read_everything(table, cases[index].untrusted)


def target_files(table: Path) -> list[Path]:
    return sorted(
        p for p in table.rglob("*") if p.is_file() and p.suffix in (".lance", ".manifest", ".arrow", ".bin")
    )


@pytest.mark.slow
@pytest.mark.parametrize("table", TABLES, ids=lambda p: p.stem)
@pytest.mark.timeout(300)
def test_damaged_tables_end_in_a_value_or_an_error(table: Path, tmp_path: Path) -> None:
    copy = tmp_path / table.name
    shutil.copytree(table, copy)
    # Loads every module before the first fork, on this thread alone.
    read_everything(copy, untrusted=False, threads=1)
    cases = cases_of(copy, random.Random(f"lancecy {table.name}"))
    found = jailed_batches(functools.partial(run_case, copy, cases), len(cases), MEMORY)
    assert not found.troubles, report(copy, cases, found)
    # Damage that nobody ever notices would mean that these tests look at nothing.
    assert found.values + found.errors == len(cases)
    assert found.errors > 0, found


def report(table: Path, cases: Sequence[Case], found: Batch) -> str:
    """The first cases that got out of hand."""
    lines = [f"{len(found.troubles)} of {len(cases)} damaged tables got out of hand:"]
    for trouble in found.troubles[:5]:
        case = cases[trouble.case]
        name = f"{table.name}/{case.file.relative_to(table)}"
        lines.append(f"{name} ({case.what}): {trouble.kind}: {trouble.detail}")
    return "\n".join(lines)
