"""Five thousand damaged 2.x data files: each read ends in a value or a LanceError, in a process that survives it.

Most damage is behind the first check: one field changed and encoded anew with valid lengths, or a word of a buffer
that decoders trust. ``LANCECY_MUTATIONS`` asks for more or fewer over all tables together.
"""

from __future__ import annotations

import contextlib
import functools
import os
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import lancecy
from lancecy.schema import Field
from tests.helpers.batches import jailed_batches, narrow_threads
from tests.helpers.golden import Golden, all_goldens, blob_goldens
from tests.helpers.mutate import place
from tests.helpers.mutate2 import Damage, damaged_versions
from tests.hostile.test_mutations import read_everything, validate

TABLES = [
    table for table in (*all_goldens(), *blob_goldens()) if not table.is_legacy and table.expected().num_rows
]
CASES = int(os.environ.get("LANCECY_MUTATIONS", "5000"))
CASES_PER_TABLE = max(10, -(-CASES // max(1, len(TABLES))))
MEMORY = 512 << 20


@dataclass(frozen=True)
class Target:
    """A data file of a copied table, its bytes, and which top-level column each physical column belongs to."""

    root: Path
    file: Path
    data: bytes
    owners: dict[int, str]


def targets(root: Path) -> list[Target]:
    """Data files of the latest version."""
    ds = lancecy.dataset(root)
    held = sorted({file.path for fragment in ds.get_fragments() for file in fragment.data_files()})
    paths = [(root / "data" / name, name) for name in held]
    return [Target(root, path, path.read_bytes(), owners_of(ds, name)) for path, name in paths]


def owners_of(ds: lancecy.Dataset, name: str) -> dict[int, str]:
    """Which top-level column each physical column of a data file belongs to."""
    fields = {f.id: top.name for top in ds._snapshot.schema.fields for f in _below(top)}
    owners = {}
    for fragment in ds.get_fragments():
        for held in fragment.data_files():
            if held.path == name:
                pairs = zip(held.column_indices, held.fields, strict=False)
                owners.update({at: fields[field] for at, field in pairs if at >= 0 and field in fields})
    return owners


def _below(field: Field) -> list[Field]:
    return [field, *(f for child in field.children for f in _below(child))]


def damage_of(files: Sequence[Target], name: str, case: int) -> tuple[Target, Damage, random.Random]:
    """What case number ``case`` does to a table; the same in every process."""
    rng = random.Random(f"lancecy 2 {name} {case}")
    target = rng.choice(files)
    return target, next(damaged_versions(target.data, rng, 1)), rng


def run_case(files: Sequence[Target], name: str, case: int) -> None:
    """Put the damaged file in its place and read the table as users do."""
    narrow_threads()
    target, damage, rng = damage_of(files, name, case)
    for other in files:
        place(other.file, damage.data if other is target else other.data)
    names = None
    if damage.column is not None:
        # The owner of the column that was hit, and of a neighbour; where nobody owns it, everything.
        owners = [target.owners.get(damage.column), rng.choice(sorted(set(target.owners.values())))]
        names = sorted({o for o in owners if o}) if owners[0] else None
    read(target.root, names, rng)


def read(root: Path, names: list[str] | None, rng: random.Random, version: int | None = None) -> None:
    """Everything, some rows, and a filter."""
    session = lancecy.Session(threads=2 if rng.random() < 0.1 else 1)
    with contextlib.closing(session):
        ds = lancecy.dataset(root, version=version, untrusted=rng.random() < 0.5, session=session)
        names = ds.schema.names if names is None else [n for n in names if n in ds.schema.names]
        rows = ds.count_rows()
        way = rng.random()
        if way < 0.6:
            for column in ds.to_table(columns=names).columns:
                validate(column)
        elif way < 0.8:
            for batch in ds.to_batches(columns=names, batch_size=100):
                batch.validate()
        if rows and way > 0.4:
            picked = np.array([0, rows - 1, rng.randrange(rows), rng.randrange(rows)])
            for column in ds.take(picked, columns=names).columns:
                validate(column)
            start = rng.randrange(rows)
            ds.to_table(columns=names, offset=start, limit=rng.randrange(1, rows + 1))
        if names and way > 0.9:
            ds.count_rows(filter=f"`{names[0]}` IS NOT NULL")
            str(ds.scanner(columns=names).explain())


@pytest.mark.slow
@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
@pytest.mark.timeout(600)
def test_damaged_files_end_in_a_value_or_an_error(table: Golden, tmp_path: Path) -> None:
    root = table.copy_to(tmp_path)
    files = targets(root)
    # Loads every module before the first fork, on this thread alone.
    read_everything(root, untrusted=False, threads=1)
    found = jailed_batches(functools.partial(run_case, files, table.name), CASES_PER_TABLE, MEMORY)
    report = [
        f"case {t.case}: {damage_of(files, table.name, t.case)[1].what}: {t.kind}: {t.detail}"
        for t in found.troubles
    ]
    assert not report, f"{len(report)} of {CASES_PER_TABLE} got out of hand:\n" + "\n".join(report[:5])
    # Damage that nobody ever notices would mean that these tests look at nothing.
    assert found.values + found.errors == CASES_PER_TABLE
    assert found.errors > 0, found


def test_cases_are_as_many_as_promised() -> None:
    assert CASES_PER_TABLE * len(TABLES) >= min(CASES, 5_000)
    assert {version for table in TABLES for version in table.formats} >= {"2.0", "2.1", "2.2", "2.3"}
