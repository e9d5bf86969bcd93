"""Deletion files of both forms, and what they may not say."""

from __future__ import annotations

import random
import struct

import numpy as np
import pyarrow as pa
import pytest

from lancecy.errors import FormatError, LimitError
from lancecy.limits import Limits
from lancecy.table.manifest import DeletionFileType
from lancecy.table.rows.deletion import DeletionVector, decode
from tests.helpers.builders import deletion_arrow, deletion_bitmap, make_deletion_file, memory_of

ROWS = [30, 2, 17, 9, 4, 1023]


def arrow(
    data: bytes, declared: int | None = 6, num_rows: int | None = 2000, limits: Limits | None = None
) -> list[int]:
    file = make_deletion_file(num_deleted_rows=declared)
    return [int(row) for row in decode(memory_of(data), file, num_rows, limits or Limits()).offsets]


def bitmap(data: bytes, declared: int | None = 6, num_rows: int | None = 2000) -> list[int]:
    file = make_deletion_file(file_type=DeletionFileType.BITMAP, num_deleted_rows=declared)
    return [int(row) for row in decode(memory_of(data), file, num_rows).offsets]


@pytest.mark.parametrize("compression", [None, "zstd", "lz4"])
def test_arrow_file_in_any_order_and_compression(compression: str | None) -> None:
    assert arrow(deletion_arrow(ROWS, compression)) == sorted(ROWS)


@pytest.mark.parametrize("runs", [False, True])
def test_bitmap_file(runs: bool) -> None:
    rows = [*range(100, 9000), 9003]
    assert bitmap(deletion_bitmap(rows, runs), declared=8901, num_rows=9004) == rows


def test_duplicates_count_once() -> None:
    data = deletion_arrow([5, 3, 5, 3, 4])
    assert arrow(data, declared=3) == [3, 4, 5]
    with pytest.raises(FormatError, match="3 rows where the manifest says 5"):
        arrow(data, declared=5)


@pytest.mark.parametrize("declared", [1, 5, 7, 2**40])
def test_other_number_of_rows_than_declared_is_refused(declared: int) -> None:
    for read, data in ((arrow, deletion_arrow(ROWS)), (bitmap, deletion_bitmap(ROWS))):
        with pytest.raises(FormatError, match=f"6 rows where the manifest says {declared}"):
            read(data, declared)


def test_undeclared_number_and_unknown_rows_are_fine() -> None:
    assert arrow(deletion_arrow(ROWS), declared=None, num_rows=None) == sorted(ROWS)
    assert bitmap(deletion_bitmap([2**32 - 1]), declared=None, num_rows=None) == [2**32 - 1]


def test_row_beyond_the_fragment_is_refused() -> None:
    assert arrow(deletion_arrow(ROWS), num_rows=1024) == sorted(ROWS)
    with pytest.raises(FormatError, match="row 1023 of a fragment of 1023 rows"):
        arrow(deletion_arrow(ROWS), num_rows=1023)
    with pytest.raises(FormatError, match="row 1023 of a fragment of 1023 rows"):
        bitmap(deletion_bitmap(ROWS), num_rows=1023)


@pytest.mark.parametrize(
    "field",
    [
        pa.field("row_id", pa.int32(), nullable=False),
        pa.field("row_id", pa.uint64(), nullable=False),
        pa.field("row_id", pa.uint32(), nullable=True),
        pa.field("rowid", pa.uint32(), nullable=False),
    ],
)
def test_other_columns_are_refused(field: pa.Field) -> None:
    with pytest.raises(FormatError, match="deletion file has columns"):
        arrow(deletion_arrow(ROWS, schema=pa.schema([field])))


@pytest.mark.parametrize("batches", [0, 2])
def test_other_number_of_batches_is_refused(batches: int) -> None:
    with pytest.raises(FormatError, match=f"{batches} batches"):
        arrow(deletion_arrow(ROWS, batches=batches))


def test_one_form_is_not_the_other() -> None:
    with pytest.raises(FormatError, match="not an Arrow file"):
        arrow(deletion_bitmap(ROWS))
    with pytest.raises(FormatError, match="roaring"):
        bitmap(deletion_arrow(ROWS))


@pytest.mark.parametrize("compression", [None, "zstd"])
def test_every_truncation_of_an_arrow_file_is_refused(compression: str | None) -> None:
    data = deletion_arrow(ROWS, compression)
    for length in range(len(data)):
        with pytest.raises(FormatError):
            arrow(data[:length])


@pytest.mark.parametrize("compression", [None, "zstd", "lz4"])
def test_damaged_arrow_file_gives_rows_or_an_error(compression: str | None) -> None:
    rng = random.Random(9)
    data = deletion_arrow(ROWS, compression)
    for _ in range(1500):
        damaged = bytearray(data)
        for _ in range(rng.randrange(1, 5)):
            place = rng.randrange(len(damaged))
            damaged[place] = rng.choice((0, 0xFF, damaged[place] ^ 1 << rng.randrange(8)))
        try:
            found = arrow(bytes(damaged))
        except FormatError:
            continue
        assert found == sorted(set(found))
        assert len(found) == 6
        assert all(0 <= row < 2000 for row in found)


def test_compressed_buffer_that_claims_more_than_its_rows_is_refused() -> None:
    data = deletion_arrow([7] * 1000)
    claim = struct.pack("<q", 4000)
    assert data.count(claim) == 1
    for claimed in (5000, 2**40, 2**62):
        with pytest.raises(LimitError, match=f"buffer of {claimed} bytes for 1000 deleted rows"):
            arrow(data.replace(claim, struct.pack("<q", claimed)))
    for claimed in (-2, 3999, 0):
        with pytest.raises(FormatError):
            arrow(data.replace(claim, struct.pack("<q", claimed)), declared=1)


def test_number_of_rows_is_limited_before_they_are_decoded() -> None:
    with pytest.raises(LimitError, match="metadata_bytes"):
        arrow(deletion_arrow([7] * 1000), limits=Limits(metadata_bytes=7999))


def test_part_of_a_vector_is_a_view() -> None:
    vector = DeletionVector(np.array([2, 5, 9, 14], np.int64))
    assert len(vector) == 4
    assert vector.between(5, 14).tolist() == [5, 9]
    assert vector.between(0, 100).tolist() == [2, 5, 9, 14]
    assert vector.between(6, 9).size == 0
    assert np.shares_memory(vector.between(3, 20), vector.offsets)


def test_vectors_cannot_be_changed() -> None:
    offsets = decode(memory_of(deletion_arrow(ROWS)), make_deletion_file(num_deleted_rows=6), 2000).offsets
    with pytest.raises(ValueError, match="read-only"):
        offsets[0] = 1
