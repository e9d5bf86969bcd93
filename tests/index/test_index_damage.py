"""Damaged index files: the scan answers without them, and no byte ends the process."""

from __future__ import annotations

import random
import warnings
from pathlib import Path

import pyarrow as pa
import pytest

import lancecy
from lancecy.errors import FormatError
from tests.index.conditions import SCHEMA, random_rows

pytestmark = pytest.mark.interop
lance = pytest.importorskip("lance")

KINDS = {"i": "BTREE", "s": "BITMAP", "tags": "LABEL_LIST", "f": "ZONEMAP", "id": "BLOOMFILTER", "w": "NGRAM"}
FILTERS = (
    "i = 3",
    "s = 'ab'",
    "array_has(tags, 'a')",
    "NOT array_has(tags, 'a')",
    "f > 1",
    "id = 7",
    "i IS NULL",
    "w LIKE '%word%'",
)
MUTATIONS = 42


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("damage") / "t"
    rows = random_rows(random.Random(1), 150, 0)
    rows = rows.append_column("w", pa.array([f"word{n % 7} of {n}" for n in range(rows.num_rows)]))
    made = lance.write_dataset(rows, root, max_rows_per_file=60)
    for column, kind in KINDS.items():
        made.create_scalar_index(column, kind)
    return root


def _mutated(data: bytes, chance: random.Random) -> bytes:
    changed = bytearray(data)
    kind = chance.randrange(4)
    if kind == 0:
        return bytes(changed[: chance.randrange(len(changed))])
    if kind == 1:
        start = chance.randrange(len(changed))
        changed[start : start + chance.randrange(1, 64)] = bytes(chance.randrange(1, 64))
        return bytes(changed)
    for _ in range(chance.randrange(1, 4)):
        # Metadata is at the end, and decides more.
        place = chance.randrange(len(changed)) if kind == 2 else -1 - chance.randrange(min(600, len(changed)))
        changed[place] = chance.randrange(256)
    return bytes(changed)


def test_mutated_index_files_do_no_harm(indexed: Path) -> None:
    """Rows may be wrong where values are, as in mutated data files; nothing else may happen."""
    chance = random.Random(7)
    files = sorted(file for file in (indexed / "_indices").rglob("*") if file.is_file())
    assert len(files) == 7
    reported = 0
    for number in range(MUTATIONS):
        file = files[number % len(files)]
        intact = file.read_bytes()
        file.write_bytes(_mutated(intact, chance))
        ds = lancecy.dataset(indexed, session=lancecy.Session(threads=1))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for text in FILTERS:
                assert ds.to_table(filter=text).schema.names == [*SCHEMA.names, "w"]
        reported += len(caught)
        assert all("filters are answered without it" in str(warning.message) for warning in caught)
        file.write_bytes(intact)
    assert reported


def test_a_damaged_ngram_index_is_told_and_the_scan_answers(indexed: Path) -> None:
    (file,) = (indexed / "_indices").rglob("ngram_postings.lance")
    intact = file.read_bytes()
    file.write_bytes(intact[:-30] + bytes(30))
    try:
        ds = lancecy.dataset(indexed, session=lancecy.Session(threads=1))
        with pytest.warns(RuntimeWarning, match="filters are answered without it"):
            assert ds.count_rows("contains(w, 'word3')") == 21
        with pytest.raises(FormatError, match="w_idx"):
            ds.to_table(filter="contains(w, 'word3')", use_scalar_index=True)
    finally:
        file.write_bytes(intact)
