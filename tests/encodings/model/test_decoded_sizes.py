"""Sizes of decoded columns, from the metadata of their pages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lancecy

RNG = np.random.default_rng(3)
LISTS = pa.ListArray.from_arrays(
    pa.array([0, *[1_000_000] * 500, *[2_000_000] * 500], pa.int32()), pa.array(np.zeros(2_000_000))
)
CASES: dict[str, tuple[tuple[str, ...], Any]] = {
    "one long text": (("2.1", "2.2"), pa.array(["x" * 100_000] * 200)),
    "one binary": (("2.2",), pa.array([b"x" * 300] * 50_000)),
    "few texts": (("2.0", "2.1", "2.2"), pa.array([f"{n % 7}" + "y" * 200 for n in range(50_000)])),
    "different long texts": (("2.1", "2.2"), pa.array([f"{n}" + "y" * 90_000 for n in range(150)])),
    "long lists among empty ones": (("2.0", "2.1", "2.2"), LISTS),
    "numbers in runs": (("2.1", "2.2"), pa.array(np.repeat(np.arange(10), 20_000))),
}


@pytest.mark.parametrize(
    ("name", "version"), [(name, version) for name, (versions, _) in CASES.items() for version in versions]
)
def test_what_compressed_columns_take_is_known_before_they_are_read(
    name: str, version: str, tmp_path: Path
) -> None:
    column = CASES[name][1]
    ds = lancecy.write_dataset({"c": column}, tmp_path / "t.lance", data_storage_version=version)
    fields, context = ds.context.snapshot.schema.fields, ds.context
    files = context.files(0)
    files.prepare(fields, context.session)
    # Compressed dictionaries are a guess.
    assert 0.2 * column.nbytes < files.sizes(fields)[1] < 3 * column.nbytes


def test_codes_of_dictionaries_are_not_expanded(tmp_path: Path) -> None:
    texts = pa.array(["x" * 10_000, "y" * 10_000] * 5000).dictionary_encode()
    ds = lancecy.write_dataset({"c": texts}, tmp_path / "t.lance", data_storage_version="2.1")
    files = ds.context.files(0)
    files.prepare(ds.context.snapshot.schema.fields, ds.context.session)
    assert files.sizes(ds.context.snapshot.schema.fields)[1] < 1 << 20
