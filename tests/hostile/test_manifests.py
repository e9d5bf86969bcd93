"""Damaged manifests and deletion files of tables with 2.x data files, at every version; and what is not read at all.

``LANCECY_MUTATIONS`` asks for more or fewer over all tables together.
"""

from __future__ import annotations

import functools
import os
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

import lancecy
from lancecy.table.paths import parse_manifest_name
from tests.helpers.batches import jailed_batches, narrow_threads
from tests.helpers.compare import assert_tables_equal
from tests.helpers.golden import Golden, golden
from tests.helpers.mutate import Mutation, mutations_of, place
from tests.hostile.test_mutations import read_everything, target_files
from tests.hostile.test_mutations2 import MEMORY, TABLES, read

CASES_PER_TABLE = max(10, -(-int(os.environ.get("LANCECY_MUTATIONS", "1500")) // max(1, len(TABLES))))


def damage_of(
    files: Sequence[Path], originals: Sequence[bytes], name: str, case: int
) -> tuple[int, Mutation]:
    """What case number ``case`` does to which file; the same in every process."""
    rng = random.Random(f"lancecy manifests {name} {case}")
    while True:
        at = rng.randrange(len(files))
        # One of each kind, of which one is taken.
        if made := list(mutations_of(files[at].suffix, originals[at], rng, 7)):
            return at, rng.choice(made)


def run_case(root: Path, files: Sequence[Path], originals: Sequence[bytes], name: str, case: int) -> None:
    """Put the damaged file in its place and read the version it belongs to."""
    narrow_threads()
    at, (_, damaged) = damage_of(files, originals, name, case)
    for number, file in enumerate(files):
        place(file, damaged if number == at else originals[number])
    found = parse_manifest_name(files[at].name)
    read(root, None, random.Random(case), None if found is None else found.version)


@pytest.mark.slow
@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
@pytest.mark.timeout(600)
def test_damaged_manifests_end_in_a_value_or_an_error(table: Golden, tmp_path: Path) -> None:
    root = table.copy_to(tmp_path)
    files = [path for path in target_files(root) if path.parent.name != "data"]
    originals = [file.read_bytes() for file in files]
    # Loads every module before the first fork, on this thread alone.
    read_everything(root, untrusted=False, threads=1)
    work = functools.partial(run_case, root, files, originals, table.name)
    found = jailed_batches(work, CASES_PER_TABLE, MEMORY)
    report = []
    for trouble in found.troubles[:5]:
        at, (what, _) = damage_of(files, originals, table.name, trouble.case)
        report.append(f"case {trouble.case}, {files[at].name}: {what}: {trouble.kind}: {trouble.detail}")
    assert not report, f"{len(found.troubles)} of {CASES_PER_TABLE} got out of hand:\n" + "\n".join(report)
    assert found.values + found.errors == CASES_PER_TABLE
    assert found.errors > 0, found


UNREAD = (
    "_refs/tags/one.json",
    "_refs/branches/main.json",
    "_refs/tags/..%2f..json",
    "_transactions/0-x.txn",
    "_indices/x/index.idx",
    "_versions/latest_version_hint.json",
    "_versions/17.manifest.tmp",
    "_versions/.tmp_18.manifest",
    "tree/b/_versions/1.manifest",
    "_latest.manifest",
)


@pytest.mark.parametrize("table", ["14.0.2_deleted", "14.0.2_v20_deleted", "14.0.2_v22_rowids"])
def test_files_that_hold_no_rows_may_be_anything(table: str, tmp_path: Path) -> None:
    """Tags, branches, transactions, hints: none of them stands in the way of opening or reading the table."""
    root, rng = golden(table).copy_to(tmp_path), random.Random(f"lancecy {table}")
    for path in (*(root / name for name in UNREAD), *(root / "_transactions").glob("*")):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(rng.choice((b"", b"{", b"\xff" * 100, b'{"version": 1e400}', rng.randbytes(200))))
    assert_tables_equal(lancecy.dataset(root, untrusted=True).to_table(), golden(table).expected())
