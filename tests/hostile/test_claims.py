"""Ten thousand files that claim up to 2**64 of something, opened and read with half a gigabyte to spare.

Nothing may be allocated from a number in a file: each ends in a value or a LanceError, none in a MemoryError.
"""

from __future__ import annotations

import contextlib
import functools
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import lancecy
from tests.helpers.batches import jailed_batches, narrow_threads
from tests.helpers.claims import HUGE, Claim, kinds_of
from tests.helpers.golden import golden
from tests.helpers.mutate import place
from tests.hostile.test_mutations import read_everything, target_files, validate
from tests.hostile.test_mutations2 import owners_of

TABLES = (
    "14.0.2_deleted", "14.0.2_strings", "0.8.21_bitmap", "14.0.2_bitmap", "14.0.2_rowids", "14.0.2_v20_encodings",
    "14.0.2_v20_deleted", "14.0.2_v21_encodings", "14.0.2_v21_bitmap", "14.0.2_v22_encodings", "14.0.2_v22_rowids",
    "14.0.2_v22_maps", "14.0.2_v23_encodings", "14.0.2_v23_maps",
)  # fmt: skip
CASES = 10_000
CASES_PER_TABLE = -(-CASES // len(TABLES))
MEMORY = 512 << 20


def latest_files(root: Path) -> list[Path]:
    """The files that the latest version consists of."""
    ds = lancecy.dataset(root)
    names = {Path(ds._snapshot.manifest_file.path).name}
    for fragment in ds._snapshot.manifest.fragments:
        names |= {file.path for file in fragment.files}
        if fragment.deletion_file is not None:
            names.add(fragment.deletion_file.name(fragment.id))
    return [path for path in target_files(root) if path.name in names]


def claim_of(
    files: Sequence[Path], originals: Sequence[bytes], name: str, case: int
) -> tuple[int, str, Claim]:
    """What case number ``case`` claims in which file; the same in every process."""
    rng = random.Random(f"lancecy claims {name} {case}")
    while True:
        at = rng.randrange(len(files))
        kind, function = rng.choice(sorted(kinds_of(files[at].suffix, originals[at]).items()))
        found = function(originals[at], rng, rng.choice(HUGE))
        if found is not None:
            return at, kind, found


def run_case(root: Path, files: Sequence[Path], originals: Sequence[bytes], name: str, case: int) -> None:
    """Put the claim in its place and read what it is about, as users do."""
    at, _, (_, damaged, column) = claim_of(files, originals, name, case)
    for number, file in enumerate(files):
        place(file, damaged if number == at else originals[number])
    narrow_threads()
    with contextlib.closing(lancecy.Session(threads=1)) as session:
        ds = lancecy.dataset(root, untrusted=case % 2 == 0, session=session)
        names = random.Random(case).sample(ds.schema.names, min(2, len(ds.schema.names)))
        if column is not None and (owner := owners_of(ds, files[at].name).get(column)) in ds.schema.names:
            names = [owner]
        for read in ds.to_table(columns=names).columns:
            validate(read)
        if ds.count_rows() and case % 4 == 0:
            ds.take(np.array([0, ds.count_rows() - 1]), columns=names)


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLES)
def test_huge_claims_end_in_a_value_or_an_error(name: str, tmp_path: Path) -> None:
    root = golden(name).copy_to(tmp_path)
    # Loads every module before the first fork, on this thread alone.
    read_everything(root, untrusted=False, threads=1)
    files = latest_files(root)
    originals = [file.read_bytes() for file in files]
    work = functools.partial(run_case, root, files, originals, name)
    found = jailed_batches(work, CASES_PER_TABLE, MEMORY)
    report = []
    for trouble in found.troubles[:5]:
        at, kind, (what, _, _) = claim_of(files, originals, name, trouble.case)
        report.append(f"{files[at].name}, {kind}: {what}: {trouble.kind}: {trouble.detail}")
    assert not found.troubles, f"{len(found.troubles)} of {CASES_PER_TABLE}:\n" + "\n".join(report)
    assert found.values + found.errors == CASES_PER_TABLE
    # Claims that nobody looks at would prove nothing; in plain pages of 0.1 a word is a value as any other.
    assert found.errors > CASES_PER_TABLE // 20, found


def test_every_kind_of_place_makes_claims() -> None:
    made: Counter[str] = Counter()
    known = set()
    for name in TABLES:
        files = latest_files(golden(name).path)
        originals = [file.read_bytes() for file in files]
        known |= {
            kind for file, data in zip(files, originals, strict=True) for kind in kinds_of(file.suffix, data)
        }
        made.update(claim_of(files, originals, name, case)[1] for case in range(0, CASES_PER_TABLE, 7))
    assert set(made) == known
    assert len(known) > 30
    assert CASES_PER_TABLE * len(TABLES) >= 10_000
