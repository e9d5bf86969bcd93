"""Dictionary columns over many fragments."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lancecy
from lancecy.encodings.arrow.columns import joined, taken, unified
from lancecy.scanning.batches import _brought_together
from lancecy.schema import Field
from tests.helpers.pages import plain
from tests.scanning.handmade import dictionary_values, write_handmade

VALUES = [b"aa", b"bb", b""]
WORDS = ["aa", "bb", None]


def write(root: Path, fragments: int = 3, values: list[bytes] = VALUES, *, missing: bool = False) -> str:
    """Ten rows a fragment; with ``missing`` every second fragment has no such column."""
    before, ref = dictionary_values(values)
    fields = [
        Field("d", 0, logical_type="dict:string:int8:false", dictionary=ref),
        Field("k", 1, logical_type="int64"),
    ]
    parts = []
    for number in range(fragments):
        columns: dict[int, Any] = {1: [plain(range(number * 10, number * 10 + 10), "<i8")]}
        if not (missing and number % 2):
            columns[0] = [plain([(number * 10 + i) % len(values) for i in range(10)], "<i1")]
        parts.append([(columns, ())])
    return write_handmade(str(root), fields, parts, 10, before=before)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write(tmp_path_factory.mktemp("dictionaries") / "t", missing=True)


def word(row: int) -> str | None:
    return None if row // 10 % 2 else WORDS[row % 3]


@pytest.mark.parametrize("untrusted", [False, True], ids=["mapped", "untrusted"])
def test_rows_in_any_order_where_the_dictionary_holds_a_null(path: str, untrusted: bool) -> None:
    ds = lancecy.dataset(path, untrusted=untrusted)
    rows = [25, 3, 14, 0, 29, 2, 3]
    assert ds.take(rows, ["d"])["d"].to_pylist() == [word(r) for r in rows]
    table = ds.to_table(order_by=[("k", "descending")])
    assert table["d"].to_pylist() == [word(r) for r in range(29, -1, -1)]


def test_result_can_be_combined_and_converted(path: str) -> None:
    table = lancecy.dataset(path).to_table()
    assert table.combine_chunks()["d"].to_pylist() == [word(r) for r in range(30)]
    assert table.to_pandas()["d"].isna().sum() == sum(word(r) is None for r in range(30))


@pytest.mark.parametrize("untrusted", [False, True], ids=["mapped", "untrusted"])
def test_dictionary_is_read_and_kept_once(tmp_path: Path, untrusted: bool) -> None:
    ds = lancecy.dataset(
        write(tmp_path / "t", fragments=12), untrusted=untrusted, session=lancecy.Session(threads=1)
    )
    table = ds.to_table(["d"])
    assert len({chunk.dictionary.buffers()[2].address for chunk in table["d"].chunks}) == 1
    kept = [part.reader._dictionaries for f in range(12) for part in ds.context.files(f).parts]  # type: ignore[attr-defined]
    assert len(kept) == 12 and all(k is kept[0] and len(k) == 1 for k in kept)


def test_batches_are_as_large_as_their_rows_and_not_their_dictionary_allow(tmp_path: Path) -> None:
    values = [b"%02d" % n + b"x" * 100_000 for n in range(100)]
    ds = lancecy.dataset(write(tmp_path / "t", fragments=40, values=values))
    assert [b.num_rows for b in ds.to_batches(["d", "k"])] == [400]
    assert [b.num_rows for b in ds.scanner(["k"], batch_size=64).to_batches()] == [64] * 6 + [16]
    assert [n for b in ds.to_batches(["k"], batch_size=7) for n in b["k"].to_pylist()] == list(range(400))


def coded(codes: list[int | None], values: list[str | None]) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int8()), pa.array(values, pa.string()))


@pytest.mark.parametrize(
    ("chunks", "expected"),
    [
        ([coded([0, 1], ["a", None]), coded([None], [])], ["a", None, None]),
        ([coded([1, 0], ["a", "b"]), coded([0, 2, 1], ["b", None, "c"])], ["b", "a", "b", "c", None]),
        ([coded([0], ["x"]), coded([1, 0], ["y", "x"]).slice(1)], ["x", "y"]),
    ],
)
def test_chunks_get_unified(chunks: list[pa.DictionaryArray], expected: list[str | None]) -> None:
    alike = unified(chunks)
    assert [v for c in alike for v in c.to_pylist()] == expected
    assert all(c.type == chunks[0].type and c.dictionary.equals(alike[0].dictionary) for c in alike)
    assert pa.concat_arrays(alike).to_pylist() == expected


def test_dictionaries_too_large_for_their_codes_stay_apart_until_rows_must_mix() -> None:
    many: Mapping[str, list[str | None]] = {side: [f"{side}{n}" for n in range(100)] for side in "lr"}
    codes: list[int | None] = list(range(100))
    column = joined([coded(codes, many["l"]), coded(codes, many["r"])], pa.dictionary(pa.int8(), pa.string()))
    assert column.to_pylist() == [*many["l"], *many["r"]]
    with pytest.raises(lancecy.LanceError, match="cannot be brought together"):
        taken(column, np.arange(200)[::-1].copy())


def test_of_large_dictionaries_only_the_values_in_use_count() -> None:
    many: Mapping[str, list[str | None]] = {side: [f"{side}{n}" for n in range(100)] for side in "lr"}
    column = joined(
        [coded([99, 3], many["l"]), coded([98], many["r"])], pa.dictionary(pa.int8(), pa.string())
    )
    assert taken(column, np.array([2, 0, 1])).to_pylist() == ["r98", "l99", "l3"]


def test_batches_of_large_dictionaries_keep_their_own() -> None:
    words = [pa.array([f"{side}{n}" for n in range(100)]) for side in "lr"]
    codes = pa.array(list(range(100)), pa.int8())
    batches = [pa.record_batch({"c": pa.DictionaryArray.from_arrays(codes, values)}) for values in words]
    assert [batch.num_rows for batch in _brought_together(batches, 1000, 1 << 20)] == [100, 100]
