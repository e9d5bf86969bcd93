"""Which mini-block pages have a program, and what it reads."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lancecy.encodings.arrow.to_arrow import to_arrow
from lancecy.encodings.model.layouts import Layer, MiniBlock
from lancecy.encodings.model.spec import FixedListOf, InlinePacked, Plain, Spec
from lancecy.encodings.v21.programs import program_of
from lancecy.file.open import opening
from lancecy.limits import Limits
from lancecy.rows import RowSelection
from lancecy.store.cache import ByteCache
from lancecy.store.memory import MemoryStore
from lancecy.store.reads import run
from tests.helpers.pages import Files
from tests.helpers.written import write


def mini_block(values: Spec) -> MiniBlock:
    """A page of these values without levels."""
    return MiniBlock((Layer.ALL_VALID_ITEM,), None, None, values, None, 0, 1, False, 8, False)


@pytest.mark.parametrize(
    ("values", "bits"),
    [
        (Plain(128), 128),
        (FixedListOf(4, Plain(32)), 128),
        (FixedListOf(2, FixedListOf(3, Plain(16))), 96),
        (FixedListOf(16, Plain(1)), 16),
    ],
)
def test_plain_fixed_lists_are_values_of_their_width(values: Spec, bits: int) -> None:
    program = program_of(mini_block(values))
    assert program is not None and program.bits == bits


@pytest.mark.parametrize(
    "values",
    [
        Plain(1),
        FixedListOf(3, Plain(1)),
        FixedListOf(0, Plain(8)),
        FixedListOf(2, Plain(8), 1),
        FixedListOf(2, FixedListOf(2, Plain(8), 1)),
        FixedListOf(2, InlinePacked(32)),
        FixedListOf(1 << 31, FixedListOf(1 << 31, Plain(64))),
    ],
)
def test_other_values_have_no_program(values: Spec) -> None:
    assert program_of(mini_block(values)) is None


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_rows_of_fixed_lists_are_read_with_and_without_nulls(version: str) -> None:
    numbers = pa.array(np.arange(9000, dtype=np.int16))
    plain = pa.FixedSizeListArray.from_arrays(pa.FixedSizeListArray.from_arrays(numbers, 2), 3)
    missing = pa.array([n % 5 == 2 for n in range(1500)])
    table = pa.table({"a": plain, "b": pa.array(plain.to_pylist(), plain.type, mask=missing.to_numpy(False))})
    store, files = MemoryStore(), Files()
    written = write(table, version, store=store)
    summary, fields = written.summary, written.schema.fields
    read = opening(
        files.add(summary.path, bytes(store.get(summary.path))),
        field_ids=summary.fields,
        fields=fields,
        major=summary.major,
        minor=summary.minor,
        column_indices=summary.column_indices,
        limits=Limits(),
        cache=ByteCache(1 << 20),
    )
    reader = run(read, files.fetch)
    picked = np.array([0, 2, 3, 700, 701, 1499])
    for rows in (
        RowSelection.all(1500),
        RowSelection(1500, indices=picked),
        RowSelection.range(1500, 5, 900),
    ):
        blocks = run(reader.read(fields, rows), files.fetch)
        for field in fields:
            found = to_arrow(blocks[field.id], field)
            found.validate(full=True)
            assert found.to_pylist() == table[field.name].take(pa.array(rows.to_indices())).to_pylist()
