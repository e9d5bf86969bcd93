"""Pages of 0.1 files copied to another file, with their statistics."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import lancecy
from lancecy.errors import FormatError, LanceError


def rows(start: int, count: int) -> pa.Table:
    values = range(start, start + count)
    return pa.table(
        {
            "number": pa.array(values, pa.int64()),
            "flag": [i % 3 == 0 for i in values],
            "word": [None if i % 7 == 0 else f"word {i % 50}" for i in values],
            "bytes": pa.array([bytes([i % 200 + 1]) * (i % 5 + 1) for i in values], pa.binary()),
            "time": pa.array([i * 10**6 for i in values], pa.timestamp("us")),
            "price": pa.array([f"{i}.25" for i in values]).cast(pa.decimal128(20, 2)),
            "vector": pa.FixedSizeListArray.from_arrays(pa.array(range(4 * count), pa.float32()), 4),
            "list": [list(range(i % 4)) for i in values],
            "words": [[f"w{i}"] * (i % 3 + 1) for i in values],
            "point": [{"x": i, "name": f"p{i % 9}"} for i in values],
        }
    )


def table(path: Path, *parts: pa.Table) -> lancecy.Dataset:
    ds = lancecy.write_dataset(
        parts[0], path, data_storage_version="0.1", max_rows_per_group=64, durability="none"
    )
    for part in parts[1:]:
        ds.append(part, max_rows_per_group=64, durability="none")
    return ds


def batches_of(ds: lancecy.Dataset) -> list[int]:
    (fragment,) = ds.context.fragments
    (part,) = ds.context.files(fragment.id).parts
    counts: list[int] = np.diff(part.reader.page_starts(ds.context.snapshot.schema.fields[0])).tolist()
    return counts


def test_copied_pages_are_read_as_before(tmp_path: Path) -> None:
    ds = table(tmp_path, rows(0, 200), rows(200, 3), rows(203, 100))
    expected = ds.to_table()
    ds.optimize.compact_files(compaction_mode="force_binary_copy", durability="none")
    assert batches_of(ds) == [64, 64, 64, 8, 3, 64, 36]
    assert ds.to_table().equals(expected)
    assert ds.take([0, 199, 200, 202, 203, 302]).equals(expected.take([0, 199, 200, 202, 203, 302]))


def test_statistics_are_copied(tmp_path: Path) -> None:
    ds = table(tmp_path, rows(0, 128), rows(128, 128))
    ds.optimize.compact_files(compaction_mode="force_binary_copy", durability="none")
    for condition in ("number = 130", "word = 'word 3' and number < 10", "price > 250.00", "point.x = 77"):
        found = ds.scanner(columns=["number"], filter=condition)
        assert found.to_table().equals(ds.scanner(["number"], condition, use_stats=False).to_table())
        (candidates,) = [step for step in found.analyze().steps if step.name == "candidates"]
        assert candidates.rows_out == 64, condition


def test_copied_and_decoded_rows_stand_in_one_file(tmp_path: Path) -> None:
    ds = table(tmp_path, rows(0, 100), rows(100, 100), rows(200, 100))
    ds.delete("number = 150")
    expected = ds.to_table()
    ds.optimize.compact_files(compaction_mode="try_binary_copy", max_rows_per_group=64, durability="none")
    assert batches_of(ds) == [64, 36, 64, 35, 64, 36]
    assert ds.to_table().equals(expected)
    assert ds.count_rows("number > 120 and number < 220") == 98


def test_full_batches_are_copied_and_small_ones_merged(tmp_path: Path) -> None:
    full = table(tmp_path / "full", rows(0, 128), rows(128, 120))
    full.optimize.compact_files(max_rows_per_group=64, durability="none")
    assert batches_of(full) == [64, 64, 64, 56]
    small = table(tmp_path / "small", rows(0, 20), rows(20, 70))
    small.optimize.compact_files(max_rows_per_group=64, durability="none")
    assert batches_of(small) == [64, 26]


def test_dictionaries_are_decoded(tmp_path: Path) -> None:
    part = pa.table({"label": pa.array(["a", "b", "a"]).dictionary_encode()})
    ds = table(tmp_path, part, part)
    with pytest.raises(LanceError, match="pages of dictionaries"):
        ds.optimize.compact_files(compaction_mode="force_binary_copy")
    ds.optimize.compact_files(compaction_mode="try_binary_copy", durability="none")
    assert ds.to_table()["label"].to_pylist() == ["a", "b", "a"] * 2


def test_damaged_positions_of_texts_are_refused(tmp_path: Path) -> None:
    ds = table(tmp_path, pa.table({"word": ["abc", "de"]}), pa.table({"word": ["x"]}))
    broken = tmp_path / "data" / ds.get_fragments()[0].metadata.files[0].path
    data = bytearray(broken.read_bytes())
    assert np.frombuffer(data[5:29], "<i8").tolist() == [0, 3, 5]
    data[13:21] = (9).to_bytes(8, "little")
    broken.write_bytes(bytes(data))
    before = {path.name for path in (tmp_path / "data").iterdir()}
    with pytest.raises(FormatError, match="positions of texts do not ascend"):
        lancecy.dataset(tmp_path, session=lancecy.Session()).optimize.compact_files(
            compaction_mode="force_binary_copy"
        )
    assert {path.name for path in (tmp_path / "data").iterdir()} == before


@pytest.mark.interop
def test_pylance_reads_copies_of_its_own_pages(tmp_path: Path) -> None:
    lance = pytest.importorskip("lance")
    for start in (0, 300):
        lance.write_dataset(
            rows(start, 300), tmp_path, mode="append", data_storage_version="0.1", max_rows_per_group=100
        )
    expected = lance.dataset(tmp_path).to_table()
    ds = lancecy.dataset(tmp_path)
    ds.optimize.compact_files(compaction_mode="force_binary_copy", durability="none")
    theirs = lance.dataset(tmp_path)
    theirs.validate()
    assert theirs.to_table().equals(expected)
    assert ds.to_table().equals(expected)
    assert theirs.take([0, 299, 300, 599]).equals(expected.take([0, 299, 300, 599]))
    for condition in (
        "number = 301",
        "word = 'word 3'",
        "time > timestamp '1970-01-01 00:09:50'",
    ):
        assert theirs.count_rows(condition) == ds.count_rows(condition) > 0
    theirs.delete("number < 100")
    theirs.optimize.compact_files()
    assert lancecy.dataset(tmp_path).to_table().equals(expected.slice(100))
