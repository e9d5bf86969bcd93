"""Tables whose data files are of several 2.x versions: fragments, and columns of one fragment, of different ages."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lancecy
from lancecy.table.manifest import Manifest
from tests.helpers.compare import assert_tables_equal
from tests.interop import live

pytestmark = pytest.mark.interop

FILTERS = ["id < 20", "k = 7", "word IS NULL", "k > 20 AND flag", "point.a < 0 OR id > 120"]
VERSIONS = ("2.0", "2.1", "2.2")


def write_mixed(path: Path, order: tuple[str, ...], rows: int = 45, nulls: float = 0.2) -> Any:
    """A fragment or two of each version, ``id`` counting through; pylance's dataset."""
    for number, version in enumerate(order):
        # pyarrow, which the oracle is made with, cannot take rows from dictionaries with nulls that differ.
        table = live.mixed_table(rows, start=number * rows, seed=number, nulls=nulls, colour=not nulls)
        table = live.without_null_structs(table)
        how = {"mode": "append"} if number else {}
        live.write(table, path, data_storage_version=version, max_rows_per_file=39, **how)
    return live.peer(path)


def manifest(path: Path) -> Manifest:
    return lancecy.dataset(path).context.snapshot.manifest


def versions_of(path: Path) -> list[set[tuple[int, int]]]:
    """Versions of the data files of each fragment."""
    return [{(file.major, file.minor) for file in fragment.files} for fragment in manifest(path).fragments]


@pytest.mark.parametrize("order", list(itertools.permutations(VERSIONS)), ids="-".join)
def test_fragments_of_each_version(order: tuple[str, ...], tmp_path: Path) -> None:
    write_mixed(tmp_path / "t", order)

    assert manifest(tmp_path / "t").reader_flags & 256
    assert set.union(*versions_of(tmp_path / "t")) == {(2, 0), (2, 1), (2, 2)}
    mine = live.assert_same(tmp_path / "t", filters=FILTERS, columns=[["word", "id"], ["vector"]])
    rows = np.random.default_rng(1).permutation(135)[:60]
    assert_tables_equal(mine.take(rows), mine.to_table().take(pa.array(rows)))


def test_categories_of_fragments_of_each_version(tmp_path: Path) -> None:
    write_mixed(tmp_path / "t", VERSIONS, nulls=0)
    mine = live.assert_same(tmp_path / "t", filters=["colour = 'red'", "colour <> 'red'"])

    words = mine.to_table(["colour"])["colour"].to_pylist()
    rows = [134, 0, 60, 100, 45, 44]
    assert mine.take(rows)["colour"].to_pylist() == [words[row] for row in rows]


@pytest.mark.parametrize("order", [("2.0", "2.2"), ("2.2", "2.0"), ("2.1", "2.0", "2.2")], ids="-".join)
def test_deletions_in_fragments_of_each_version(order: tuple[str, ...], tmp_path: Path) -> None:
    write_mixed(tmp_path / "t", order).delete("id % 7 = 3 OR (id > 30 AND id < 60)")

    live.assert_same(tmp_path / "t", filters=FILTERS)


def add_column(dataset: Any) -> None:
    dataset.add_columns({"twice": "id * 2", "loud": "upper(word)"})


def cast_column(dataset: Any) -> None:
    dataset.alter_columns({"path": "k", "data_type": pa.int64()}, {"path": "x", "data_type": pa.float32()})


def drop_and_rename(dataset: Any) -> None:
    dataset.drop_columns(["flag", "when"])
    dataset.alter_columns({"path": "word", "name": "flag"})


def drop_inside_a_struct(dataset: Any) -> None:
    dataset.drop_columns(["point.a"])


def update_rows(dataset: Any) -> None:
    dataset.update({"word": "'new'"}, where="id % 10 = 4")


def merge_column(dataset: Any) -> None:
    scores = pa.table({"key": pa.array(np.arange(0, 90, 2)), "score": pa.array(np.arange(45) / 4)})
    dataset.merge(scores, left_on="id", right_on="key")


CHANGES = [add_column, cast_column, drop_and_rename, drop_inside_a_struct, update_rows, merge_column]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
@pytest.mark.parametrize("order", [("2.0", "2.2"), ("2.2", "2.1", "2.0")], ids="-".join)
def test_schema_that_changed_over_fragments_of_each_version(
    change: Callable[[Any], None], order: tuple[str, ...], tmp_path: Path
) -> None:
    """New columns are written in one version, whatever that of the fragment they belong to."""
    change(write_mixed(tmp_path / "t", order))
    filters = [
        text for text in FILTERS if change in (add_column, update_rows, merge_column) or "id <" in text
    ]

    live.assert_same(tmp_path / "t", filters=filters)
    version = str(VERSIONS[len(order) % 3])
    for column in ("twice", "score"):
        if column in lancecy.dataset(tmp_path / "t").schema.names:
            live.append(
                live.peer(tmp_path / "t").to_table(limit=20), tmp_path / "t", data_storage_version=version
            )
            live.assert_same(tmp_path / "t", filters=[f"{column} > 10", *filters])


def test_columns_of_one_fragment_in_files_of_different_versions(tmp_path: Path) -> None:
    """A table of 2.0 whose columns were added when its version had become another one."""
    dataset = write_mixed(tmp_path / "t", ("2.2", "2.0"))
    add_column(dataset)
    cast_column(live.peer(tmp_path / "t"))

    assert any(len(versions) > 1 for versions in versions_of(tmp_path / "t"))
    mine = live.assert_same(tmp_path / "t", filters=["twice > 40", "k < 25 AND twice < 100"])
    told = mine.scanner(["id", "twice", "k"], filter="twice > 40").explain()
    assert told.bytes_to_read > 0 and told.kept_fragments == told.num_fragments


def test_everything_compacted_into_one_version(tmp_path: Path) -> None:
    dataset = write_mixed(tmp_path / "t", VERSIONS)
    dataset.delete("id % 5 = 0")
    live.peer(tmp_path / "t").optimize.compact_files(target_rows_per_fragment=1000)

    live.assert_same(tmp_path / "t", filters=FILTERS)


def test_rows_keep_their_ids_in_fragments_of_each_version(tmp_path: Path) -> None:
    tables = [live.mixed_table(50, start=start, nulls=0.1, colour=False) for start in (0, 50)]
    first, second = map(live.without_null_structs, tables)
    live.write(first, tmp_path / "t", data_storage_version="2.0", enable_stable_row_ids=True)
    live.append(second, tmp_path / "t", data_storage_version="2.2")
    live.peer(tmp_path / "t").update({"k": "k + 1"}, where="id % 3 = 0")

    live.assert_same(tmp_path / "t", filters=FILTERS[:3])
