"""Tables with known mistakes of old writers are read as pylance reads them; ``make_broken.py`` tells how they were made."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancecy
from lancecy.errors import FormatError
from tests.golden.make_broken import MIGRATED, SAME_IDS, rows
from tests.helpers.compare import assert_tables_equal

pytestmark = pytest.mark.interop

KEPT = {
    MIGRATED: [number for number in range(110) if number % 10 != 3 or number >= 100],
    SAME_IDS: [number for number in range(12) if number not in (5, 6)],
}
EXPECTED: dict[Path, pa.Table] = {path: rows(0, 110).take(kept) for path, kept in KEPT.items()}
both = pytest.mark.parametrize("path", [MIGRATED, SAME_IDS], ids=lambda path: path.stem)


@both
def test_rows_are_those_of_the_files(path: Path) -> None:
    import lance

    ds, theirs, expected = lancecy.dataset(path), lance.dataset(str(path)), EXPECTED[path]
    assert_tables_equal(ds.to_table(), expected)
    assert_tables_equal(theirs.to_table(), expected)
    assert_tables_equal(pa.Table.from_batches(ds.to_batches(batch_size=3)), expected)
    assert ds.count_rows() == theirs.count_rows() == expected.num_rows
    assert ds.to_table(columns=["word"], filter="id % 4 = 0")["word"].to_pylist() == [
        f"w{number}" for number in KEPT[path] if number % 4 == 0
    ]
    assert ds.count_rows("id > 6") == theirs.count_rows("id > 6")
    numbers = list(range(expected.num_rows - 1, -1, -2))
    assert_tables_equal(ds.take(numbers), expected.take(numbers))
    assert_tables_equal(ds.to_table(limit=5, offset=3), expected.slice(3, 5))
    assert_tables_equal(
        ds.to_table(with_row_id=True, with_row_address=True),
        theirs.to_table(with_row_id=True, with_row_address=True),
    )
    assert ds.versions()[-1]["metadata"] == theirs.versions()[-1]["metadata"]


@both
def test_fragments_are_those_of_pylance(path: Path) -> None:
    import lance

    told = [
        [(each.fragment_id, each.physical_rows, each.num_deletions, each.count_rows()) for each in parts]
        for parts in (lancecy.dataset(path).get_fragments(), lance.dataset(str(path)).get_fragments())
    ]
    assert told[0] == told[1]
    ds, theirs = lancecy.dataset(path), lance.dataset(str(path))
    for mine, other in zip(ds.get_fragments(), theirs.get_fragments(), strict=True):
        assert_tables_equal(mine.to_table(), other.to_table())
        assert_tables_equal(ds.to_table(fragments=[mine]), other.to_table())
        assert_tables_equal(mine.take([1, 0]), other.to_table().take([1, 0]))


@both
def test_partitions_hold_all_rows(path: Path) -> None:
    ddf = lancecy.scan(path, blocksize=1)
    assert ddf.npartitions >= 2
    assert ddf["id"].compute().tolist() == KEPT[path]
    assert ddf[ddf["id"] > 6]["id"].compute().tolist() == [number for number in KEPT[path] if number > 6]
    assert [
        row
        for part in lancecy.dataset(path).to_delayed(blocksize=1)
        for row in part.compute()["id"].to_pylist()
    ] == KEPT[path]


CHANGES: dict[str, Callable[[lancecy.Dataset], Any]] = {
    "append": lambda ds: ds.append(rows(200, 203)),
    "delete": lambda ds: ds.delete("id = 9"),
    "config": lambda ds: ds.update_config({"a": "b"}),
    "restore": lambda ds: ds.restore(),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_changes_of_a_migrated_table_mend_it(
    change: Callable[[lancecy.Dataset], Any], tmp_path: Path
) -> None:
    import lance

    ds = lancecy.dataset(shutil.copytree(MIGRATED, tmp_path / "t"))
    change(ds)
    kept = [number for number in KEPT[MIGRATED] if number != 9 or change is not CHANGES["delete"]]
    kept += [200, 201, 202] if change is CHANGES["append"] else []
    for found in (ds, lancecy.dataset(ds.uri), lance.dataset(ds.uri)):
        assert found.to_table()["id"].to_pylist() == kept
        assert found.count_rows() == len(kept)
    lance.dataset(ds.uri).validate()


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_changes_of_a_table_with_one_id_twice_are_refused(
    change: Callable[[lancecy.Dataset], Any], tmp_path: Path
) -> None:
    import lance

    ds = lancecy.dataset(shutil.copytree(SAME_IDS, tmp_path / "t"))
    before = sorted(path for path in tmp_path.rglob("*") if path.is_file())
    with pytest.raises(FormatError, match="two fragments of the table have the id 1, so it can only be read"):
        change(ds)
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == before
    with pytest.raises(OSError, match="two fragments with id 1"):
        lance.write_dataset(rows(200, 203), ds.uri, mode="append")
    assert lancecy.dataset(ds.uri).version == 2
    lancecy.write_dataset(ds.to_table(), ds.uri, mode="overwrite")
    lance.dataset(ds.uri).validate()
    assert lancecy.dataset(ds.uri).to_table()["id"].to_pylist() == KEPT[SAME_IDS]


def test_id_twice_is_reported_by_verify() -> None:
    assert [finding.problem for finding in lancecy.dataset(SAME_IDS).verify().findings] == [
        "two fragments have the same id"
    ]
    assert lancecy.dataset(MIGRATED).verify().is_ok
