"""Blobs of every form a release writes: descriptors as rows, bytes on demand."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import lancecy
from tests.helpers.compare import assert_tables_equal
from tests.helpers.golden import Golden, blob_goldens

each_table = pytest.mark.parametrize("table", blob_goldens(), ids=lambda table: table.name)


def blob(row: int) -> bytes | None:
    """What the recipe put in a row."""
    if row % 7 == 3:
        return None
    return b"" if row % 7 == 5 else bytes([row % 251]) * (row * 37 % 400 + 1)


@each_table
def test_rows_are_descriptors(table: Golden) -> None:
    for version in table.versions:
        dataset = lancecy.dataset(table.path, version=version)
        assert_tables_equal(dataset.to_table(), table.expected(version))
        assert_tables_equal(dataset.to_table(columns=["id"]), table.expected(version).select(["id"]))
        picked = [5, 0, 38, 3, 3]
        expected = table.expected(version).take(pa.array(picked))
        assert_tables_equal(dataset.take(picked), expected, hint=f"version {version}")


@each_table
def test_every_blob_is_given_back(table: Golden) -> None:
    dataset = lancecy.dataset(table.path)
    ids = table.expected()["id"].to_pylist()
    files: list[Any] = dataset.take_blobs("blob", indices=list(range(len(ids))))
    # Nulls are left out by the peer and given as None here; both are told apart from empty blobs.
    found = [None if file is None else file.read() for file in files]

    assert found == [blob(row) for row in ids]


@each_table
def test_parts_of_a_blob_are_read_by_seeking(table: Golden) -> None:
    dataset = lancecy.dataset(table.path)
    [file] = dataset.take_blobs("blob", ids=[9])
    content = blob(9)
    assert file is not None
    assert content is not None and len(content) > 20

    assert file.size() == len(content)
    file.seek(10)
    assert (file.read(7), file.tell()) == (content[10:17], 17)
    assert file.read() == content[17:]


def test_every_version_has_blobs() -> None:
    assert {version for table in blob_goldens() for version in table.formats} >= {"2.0", "2.1", "2.2"}
