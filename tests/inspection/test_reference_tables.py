"""Tags and branches in the texts and the HTML of datasets, ``ds.tags`` and ``ds.branches``."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import pytest

import lancecy


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Two versions, two tags, and a branch with one of them."""
    path = tmp_path / "t.lance"
    ds = lancecy.write_dataset({"a": [1]}, path)
    ds.create_branch("team/dev").append({"a": [2]})
    ds.tags.create("v1.0", 1, {"by": "<me>"})
    ds.tags.create("trial", ("team/dev", 2))
    return path


def _without_times(text: str) -> list[str]:
    return [line.rstrip() for line in re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "TIME", text).splitlines()]


def test_tags_and_branches_pickle_and_follow_the_dataset(table: Path) -> None:
    ds = lancecy.dataset(table)
    for found in (ds.tags, ds.branches):
        assert pickle.loads(pickle.dumps(found)).list() == found.list()
    tags = ds.tags
    ds.append({"a": [3]})
    tags.create("newest")
    assert tags.get_version("newest") == ds.version == 2


def test_tags_are_a_table(table: Path) -> None:
    tags = lancecy.dataset(table).tags
    assert _without_times(repr(tags)) == [
        f"2 tags of {table}",
        "  tag    version  branch    updated (UTC)        metadata",
        "  trial  2        team/dev  TIME",
        "  v1.0   1        main      TIME  by=<me>",
    ]
    assert repr(lancecy.dataset(table, "trial").tags) == repr(tags)
    shown = tags._repr_html_()
    assert "by=&lt;me&gt;" in shown
    assert shown.count("<tr>") == 3


def test_branches_are_a_table(table: Path) -> None:
    ds = lancecy.dataset(table)
    ds.branches.replace_metadata("team/dev", {"why": "a test\x1b"})
    assert _without_times(repr(ds.branches)) == [
        f"1 branch of {table}",
        "  branch    from               created (UTC)        metadata",
        "  team/dev  version 1 of main  TIME  why=a test\\x1b",
    ]
    assert "<td style='text-align:left'>team/dev</td>" in ds.branches._repr_html_()


def test_none_is_said_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    ds = lancecy.write_dataset({"a": [1]}, path)
    assert repr(ds.tags) == f"0 tags of {path}"
    assert repr(ds.branches) == f"0 branches of {path}"
    assert "<td" not in ds.tags._repr_html_()


def test_the_branch_is_in_the_text_and_the_names_are_in_the_html(table: Path) -> None:
    ds = lancecy.dataset(table, ("team/dev", None))
    assert "2 of branch team/dev" in repr(ds)
    assert "trial" not in repr(ds)
    for each in (ds, lancecy.dataset(table)):
        assert ">trial, v1.0</td>" in each._repr_html_()
        assert ">team/dev</td>" in each._repr_html_()
    for number in range(12):
        ds.tags.create(f"x{number:02}", 1)
    assert "… (14 in all)" in ds._repr_html_()


def test_the_text_of_a_dataset_lists_nothing(table: Path) -> None:
    ds = lancecy.dataset(table)
    wanted = repr(ds)
    (table / "_refs").rename(table / "elsewhere")
    (table / "_refs").write_text("no folder")
    assert repr(ds) == wanted


def test_damaged_ones_are_named_and_hide_no_other(table: Path) -> None:
    (table / "_refs" / "tags" / "bad.json").write_text("{")
    (table / "_refs" / "branches" / "bad.json").write_text("[]")
    ds = lancecy.dataset(table)
    for each in (ds.tags, ds.branches):
        assert "bad cannot be read: _refs/" in repr(each)
        assert "bad cannot be read: _refs/" in each._repr_html_()
    assert "v1.0" in repr(ds.tags)
    assert "team/dev" in repr(ds.branches)
    assert ">bad, trial, v1.0</td>" in ds._repr_html_()


def test_what_cannot_be_listed_raises_nothing(table: Path) -> None:
    moved = table.with_name("alone.lance")
    ds = lancecy.dataset(table, ("team/dev", None))
    tags = ds.tags
    (table / "tree" / "team" / "dev").rename(moved)
    alone = lancecy.dataset(moved)
    assert "cannot be listed: " in alone._repr_html_()
    assert "is the branch 'team/dev' of a table that is not in the folders above" in repr(alone.tags)
    assert "cannot be listed" in alone.tags._repr_html_()
    assert repr(tags).startswith("2 tags of ")


def test_long_tables_end(tmp_path: Path) -> None:
    ds = lancecy.write_dataset({"a": [1]}, tmp_path / "t.lance")
    for number in range(53):
        ds.tags.create(f"t{number:02}", 1, {"long": "x" * 200})
    lines = repr(ds.tags).splitlines()
    assert (lines[0].split()[0], lines[-1]) == ("53", "  … and 3 more")
    assert max(map(len, lines)) < 140
    assert ds.tags._repr_html_().count("<tr>") == 51
