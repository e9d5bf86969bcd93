"""Tags and branches as options of the data source."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest

import lancecy
from tests.spark.test_source import _load, _told

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.interop]


@pytest.fixture
def root(tmp_path: Path) -> str:
    """Versions 1 to 3 of the main table, 2 and 3 of the branch team/test, and tags of both."""
    root = str(tmp_path / "t")
    for number in range(3):
        theirs = lance.write_dataset(pa.table({"a": [number]}), root, mode="append" if number else "create")
    lance.write_dataset(pa.table({"a": [9]}), theirs.create_branch("team/test", 2), mode="append")
    theirs.tags.create("first", 1)
    theirs.tags.create("2024", 2)
    theirs.tags.create("tried", ("team/test", 3))
    return root


def rows(frame: DataFrame) -> list[int]:
    return sorted(row.a for row in frame.collect())


CHOSEN: list[tuple[dict[str, Any], list[int]]] = [
    ({"version": "first"}, [0]),
    ({"version": 2}, [0, 1]),
    ({"tag": "2024"}, [0, 1]),
    ({"tag": "tried"}, [0, 1, 9]),
    ({"branch": "team/test"}, [0, 1, 9]),
    ({"branch": "team/test", "version": 2}, [0, 1]),
    ({"branch": "main", "version": 1}, [0]),
]


def test_a_tag_and_a_branch_choose_the_version(spark: SparkSession, root: str) -> None:
    for options, expected in CHOSEN:
        assert rows(_load(spark, root, **options)) == expected
    assert rows(_load(spark, f"{root}/tree/team/test", tag="first")) == [0]
    assert rows(lancecy.spark.read(spark, root, version=("team/test", 3))) == [0, 1, 9]
    assert rows(lancecy.spark.read(spark, root, version="tried")) == [0, 1, 9]


def test_a_frame_reads_the_version_that_the_tag_named_first(spark: SparkSession, root: str) -> None:
    tagged, branch = _load(spark, root, tag="first"), _load(spark, root, branch="team/test")
    assert (rows(tagged), rows(branch)) == ([0], [0, 1, 9])
    lancecy.dataset(root).tags.update("first", 3)
    lancecy.dataset(root, version=("team/test", None)).append({"a": [10]})
    assert (rows(tagged), rows(branch)) == ([0], [0, 1, 9])
    assert rows(_load(spark, root, tag="first")) == [0, 1, 2]
    assert rows(_load(spark, root, branch="team/test")) == [0, 1, 9, 10]


def test_what_does_not_exist_is_named(spark: SparkSession, root: str) -> None:
    assert "no tag 'frist'; it has first" in _told(lambda: _load(spark, root, tag="frist"))
    assert "no branch 'team/tset'; it has team/test" in _told(lambda: _load(spark, root, branch="team/tset"))


def test_rows_are_written_to_a_branch_that_exists(spark: SparkSession, root: str) -> None:
    def write(branch: str) -> None:
        frame = spark.createDataFrame([(7,)], "a long")
        frame.write.format("lancecy").option("branch", branch).mode("append").save(root)

    write("team/test")
    assert rows(_load(spark, root, branch="team/test")) == [0, 1, 7, 9]
    assert lancecy.dataset(root).version == 3
    write("main")
    assert rows(_load(spark, root)) == [0, 1, 2, 7]
    assert "no branch 'team/new'; it has team/test" in _told(lambda: write("team/new"))
    assert not (Path(root) / "tree" / "team" / "new").exists()
