"""Sizes of decoded columns, from the metadata of their pages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lancecy
from lancecy.encodings.model.decoded_sizes import decoded_bytes
from lancecy.encodings.model.layouts import ConstantPage, FullZip, Layer, MiniBlock, PageSpec
from lancecy.encodings.model.pages import Column
from lancecy.encodings.model.spec import EndedBinary, Nullable, PageDictionary, Plain

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


HUGE = 1 << 60
LAYERS = (Layer.ALL_VALID_ITEM,)
TEXTS = EndedBinary(Nullable(Plain(64, buffer=0)), Nullable(Plain(8, buffer=1)), HUGE)
STATED: dict[str, tuple[PageSpec, list[int]]] = {
    "levels of a page without levels": (ConstantPage(LAYERS, b"x" * 10, None, None, HUGE, HUGE), []),
    "levels without a codec": (ConstantPage(LAYERS, b"x" * 10, None, None, HUGE, HUGE), [2000, 2000]),
    "adjustment of nulls": (TEXTS, [8000, 5000]),
    "adjustment of items": (PageDictionary(Plain(8), TEXTS, 300), [1000, 2400, 9000]),
    "visible values": (FullZip(LAYERS, 0, 0, 64, None, HUGE, HUGE, Plain(64)), [8000]),
    "items of chunks": (MiniBlock(LAYERS, None, None, Plain(64), None, 0, 1, False, HUGE, False), [2, 8000]),
}


@pytest.mark.parametrize("name", STATED)
def test_numbers_that_no_read_checks_make_no_rows_large(name: str) -> None:
    spec, sizes = STATED[name]
    none = np.zeros(len(sizes), np.int64)
    buffers = np.array([0, len(sizes)])
    column = Column(0, False, np.array([0, 1000]), (spec,), buffers, none, np.array(sizes), sum(sizes))
    assert decoded_bytes(column) < 1 << 20
