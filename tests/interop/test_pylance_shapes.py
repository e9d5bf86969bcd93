"""Every shape of column, in every version that can hold it, written by pylance and read by both alike."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lancecy
from tests.helpers.compare import assert_schemas_equal, assert_tables_equal, storage_table
from tests.helpers.nulls import assert_nulls_alone
from tests.helpers.shapes import SHAPES, VERSIONS, describe_shape, recorded, write_shape, written

pytestmark = pytest.mark.interop

CASES = [
    pytest.param(version, name, id=f"{version}-{name}", marks=[pytest.mark.slow] if SHAPES[name].slow else [])
    for version, name in written()
]
REFUSAL = "[Ss]truct|not supported|Not supported|Unsupported|called `Option::unwrap|data block|internal error"
REFUSED = [(version, name) for version in VERSIONS for name in SHAPES if recorded()[name][version] is None]


@pytest.mark.parametrize(("version", "name"), CASES)
def test_shape_reads_as_pylance_reads_it(version: str, name: str, tmp_path: Path) -> None:
    theirs = write_shape(name, tmp_path / "t", version)
    assert describe_shape(name, tmp_path / "t") == recorded()[name][version], (
        "not the encoding it is there for"
    )

    mine = lancecy.dataset(tmp_path / "t")
    whole = storage_table(theirs.to_table())

    assert_schemas_equal(mine.schema, theirs.schema)
    assert mine.count_rows() == whole.num_rows
    assert_tables_equal(storage_table(mine.to_table()), whole, hint="full scan")
    assert_tables_equal(storage_table(mine.to_table(columns=["v"])), whole.select(["v"]), hint="alone")
    check_ranges(mine, theirs, whole)
    check_takes(mine, theirs, whole)
    check_batches(mine, whole)
    check_filters(mine, theirs, whole)
    check_nulls(mine, whole)


def check_ranges(mine: lancecy.Dataset, theirs: Any, whole: pa.Table) -> None:
    rows, rng = whole.num_rows, np.random.default_rng(whole.num_rows)
    spans = [(0, 1), (rows - 1, 5), (rows // 2, 1), (1020, 9), (int(rng.integers(0, rows)), rows // 3 + 1)]
    for offset, limit in [(o, n) for o, n in spans if 0 <= o < rows]:
        got = storage_table(mine.to_table(offset=offset, limit=limit))
        assert_tables_equal(got, whole.slice(offset, limit), hint=f"offset {offset} limit {limit}")
    offset, limit = rows // 3, min(50, rows)
    expected = storage_table(theirs.to_table(offset=offset, limit=limit))
    got = storage_table(mine.to_table(offset=offset, limit=limit))
    assert_tables_equal(got, expected, hint=f"pylance's offset {offset} limit {limit}")


def check_takes(mine: lancecy.Dataset, theirs: Any, whole: pa.Table) -> None:
    rows, rng = whole.num_rows, np.random.default_rng(whole.num_rows)
    picked = rng.integers(0, rows, min(2 * rows, 60))
    for what, chosen in {
        "sorted": np.unique(picked),
        "duplicated": np.sort(np.concatenate([picked[:9], picked[:9]])),
        "unsorted": picked,
        "backwards": np.arange(rows - 1, max(-1, rows - 30), -1),
        "one": picked[:1],
    }.items():
        got = storage_table(mine.take(chosen))
        assert_tables_equal(got, whole.take(pa.array(chosen)), hint=f"take {what}")
    few = picked[:12].tolist()
    assert_tables_equal(storage_table(mine.take(few)), storage_table(theirs.take(few)), hint="pylance's take")


def check_batches(mine: lancecy.Dataset, whole: pa.Table) -> None:
    size = max(777, whole.num_rows // 7 + 1)
    batches = list(mine.to_batches(batch_size=size))
    assert all(0 < batch.num_rows <= size for batch in batches)
    streamed = pa.Table.from_batches(batches)
    assert_tables_equal(storage_table(streamed), whole, hint="batches")


def check_filters(mine: lancecy.Dataset, theirs: Any, whole: pa.Table) -> None:
    for text in filters_of(whole):
        expected = peer_filter(theirs, whole, text)
        got = storage_table(mine.to_table(filter=text))
        assert_tables_equal(got, expected, hint=text)
        assert mine.count_rows(filter=text) == expected.num_rows, text


def check_nulls(mine: lancecy.Dataset, whole: pa.Table) -> None:
    """Tests for nulls read no values, so every shape has a way of its own to tell them."""
    assert assert_nulls_alone(mine)
    if not pa.types.is_null(whole["v"].type):
        assert mine.count_rows(filter="v IS NULL") == whole["v"].null_count


def peer_filter(theirs: Any, whole: pa.Table, text: str) -> pa.Table:
    """pylance's answer; put together from its row numbers where it fails to read the rows (packed structs of text)."""
    try:
        return storage_table(theirs.to_table(filter=text))
    except pa.ArrowInvalid as error:
        if "Expected 2 buffers in array of type Utf8" not in str(error):
            raise
        return whole.take(theirs.to_table(filter=text, columns=["id"])["id"])


def filters_of(whole: pa.Table) -> list[str]:
    """Filters on the row number, which make the shape be read for rows here and there, and on the shape itself."""
    kind, rows = whole.schema.field("v").type, whole.num_rows
    found = []
    if "id" in whole.column_names:
        found += ["id % 97 = 3", f"id >= {rows // 3} AND id < {rows // 3 + 40}"]
    value = next((v for v in whole["v"].slice(rows // 2, 20).to_pylist() if v is not None), None)
    if pa.types.is_integer(kind) and value is not None:
        found += [f"v = {value}", f"v > {value}"]
    elif pa.types.is_boolean(kind):
        found += ["v", "NOT v"]
    elif pa.types.is_string(kind) and value is not None and len(value) < 100:
        found += [f"v = '{value}'", f"v >= '{value}' AND v IS NOT NULL"]
    elif pa.types.is_float64(kind):
        found += ["v > 0.5"]
    if not pa.types.is_nested(kind) and not pa.types.is_null(kind):
        found += ["v IS NULL", "v IS NOT NULL"]
    return found


@pytest.mark.parametrize(("version", "name"), REFUSED, ids=str)
def test_refused_shape_is_still_refused(version: str, name: str, tmp_path: Path) -> None:
    """What no peer can write needs no answer here; the day one can, its encoding is to be recorded and read."""
    # Panics of the Rust core are no Exceptions.
    with pytest.raises(BaseException, match=REFUSAL):
        write_shape(name, tmp_path / "t", version)


def test_every_version_and_structure_is_met() -> None:
    """Guards the records: a release that encodes everything alike would make the cases above prove little."""
    seen = {
        version: {recorded()[name][version] for v, name in written() if v == version} for version in VERSIONS
    }
    for version, letters in {"2.1": "MZKB", "2.2": "MZK", "2.3": "DS"}.items():
        for letter in letters:
            assert any(re.search(rf"(^|[ ×]){letter}[\[ {{(]", text or "") for text in seen[version]), (
                version,
                letter,
            )
    assert len(seen["2.0"]) > 40
