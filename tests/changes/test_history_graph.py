"""``Dataset.history_graph``: versions, branches and tags as values and as a picture."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import lancecy
from lancecy.inspection.lanes import Lanes
from tests.helpers.shell import run, run_json


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Main has versions 1 to 3; dev starts from version 1 and team/next from version 2 of dev."""
    path = tmp_path / "t.lance"
    ds = lancecy.write_dataset({"a": [1, 2]}, path, commit_message="begin\x1b")
    dev = ds.create_branch("dev")
    ds.append({"a": [3]})
    dev.append({"a": [9, 10]})
    dev.create_branch("team/next").delete("a = 9")
    ds.delete("a = 1")
    ds.tags.create("v1.0", 1)
    ds.tags.create("trial", ("dev", 2))
    return path


def _picture(table: Path, limit: int = 50) -> list[str]:
    """The lines without times."""
    text = str(lancecy.dataset(table).history_graph(limit))
    return re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  ", "", text).splitlines()


def test_the_picture_has_versions_branches_and_tags(table: Path) -> None:
    assert _picture(table) == [
        "●      3  Delete     2 rows  -1  (main)  where a = 1, fragments: 1 with other deletions",
        "│ ●    3  Delete     3 rows  -1  (team/next)  where a = 9, fragments: 1 with other deletions",
        "│ ●    2  Clone      4 rows      from version 2 of dev",
        "│ ╰─╮",
        "│   ●  2  Append     4 rows  +2  (dev, tag: trial)  fragments: 1 new",
        "●   │  2  Append     3 rows  +1  fragments: 1 new",
        "│   ●  1  Clone      2 rows      from version 1 of main",
        "├───╯",
        "●      1  Overwrite  2 rows  +2  (tag: v1.0)  fragments: 1 new  'begin\\x1b'".replace(
            "2 new", "1 new"
        ),
    ]


def test_it_is_the_same_from_a_branch_and_from_an_old_version(table: Path) -> None:
    wanted = str(lancecy.dataset(table).history_graph())
    for version in (1, "trial", ("team/next", None)):
        assert str(lancecy.dataset(table, version).history_graph()) == wanted
    assert "<pre>" in lancecy.dataset(table).history_graph()._repr_html_()


def test_the_limit_counts_the_versions_of_all_branches(table: Path) -> None:
    found = lancecy.dataset(table).history_graph(3)
    assert [(each.branch, each.version) for each in found.versions] == [
        ("main", 3),
        ("team/next", 3),
        ("team/next", 2),
    ]
    assert found.is_complete is False
    assert str(found).endswith("… older versions are not shown: the limit is 3")
    assert lancecy.dataset(table).history_graph(7).is_complete
    with pytest.raises(ValueError, match="limit must be at least 1"):
        lancecy.dataset(table).history_graph(0)


def test_old_manifests_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "long.lance"
    ds = lancecy.write_dataset({"a": [1]}, path)
    for _ in range(80):
        ds.update_config({"a": "b"})
    for number in range(1, 20):
        (path / "_versions" / f"{2**64 - 1 - number}.manifest").write_bytes(b"damaged")
    found = ds.history_graph(20)
    assert [each.version for each in found.versions] == [*range(81, 61, -1)]
    assert not any(each.damage for each in found.versions)


def test_what_is_damaged_is_named_and_hides_nothing(table: Path) -> None:
    refs = table / "_refs"
    (refs / "tags" / "bad.json").write_text("{")
    (refs / "tags" / "gone.json").write_text('{"version": 77, "manifestSize": 3}')
    (refs / "tags" / "lost.json").write_text('{"branch": "nobody", "version": 1, "manifestSize": 3}')
    (refs / "branches" / "bad%2Fone.json").write_text("[]")
    (refs / "branches" / "empty.json").write_text('{"parentVersion": 1, "createAt": 1, "manifestSize": 1}')
    (table / "tree" / "dev" / "_versions" / f"{2**64 - 1 - 2}.manifest").write_bytes(b"short")
    found = lancecy.dataset(table).history_graph()
    text = str(found)
    assert [(each.branch, each.version) for each in found.versions if each.damage] == [("dev", 2)]
    assert "│   ×  2" in text
    assert "(dev, tag: trial)  cannot be read: a manifest file of 5 bytes" in text
    assert len(found.versions) == 7
    problems = [line for line in text.splitlines() if line.startswith("! ")]
    assert [problem.split(" cannot")[0].split(" names")[0] for problem in problems] == [
        "! tag bad",
        "! branch bad/one",
        "! branch empty",
        "! tag gone",
        "! tag lost",
    ]
    assert "gone names version 77 of main, which is not there" in text
    (refs / "branches" / "dev.json").write_text("no JSON")
    assert "from version 2 of dev, which is not shown" in str(lancecy.dataset(table).history_graph())


def test_branches_that_start_from_each_other_are_shown(table: Path) -> None:
    for name, parent in (("dev", "team/next"), ("team%2Fnext", "dev")):
        text = f'{{"parentBranch": "{parent}", "parentVersion": 2, "createAt": 1, "manifestSize": 1}}'
        (table / "_refs" / "branches" / f"{name}.json").write_text(text)
    assert len(lancecy.dataset(table).history_graph().versions) == 7


def test_a_fast_forward_names_the_branch(table: Path) -> None:
    ds = lancecy.dataset(table)
    ds.create_branch("fix").append({"a": [5]})
    ds.fast_forward("fix")
    assert "Overwrite  3 rows  +1  (main)  fast-forward to version 4 of fix, fragments: 1 new" in "\n".join(
        _picture(table)
    )
    assert run_json("log", table, "-n", 1)[0]["details"].startswith("fast-forward to version 4 of fix")


def test_a_parent_whose_versions_are_gone(table: Path) -> None:
    for number in (1, 2):
        (table / "_versions" / f"{2**64 - 1 - number}.manifest").unlink()
    assert _picture(table)[-2:] == [
        "  ●  1  Clone   2 rows      from version 1 of main, which is not shown",
        "! tag v1.0 names version 1 of main, which is not there",
    ]


def test_only_so_many_branches_and_tags_are_shown(tmp_path: Path) -> None:
    ds = lancecy.write_dataset({"a": [1]}, tmp_path / "t.lance")
    for number in range(35):
        ds.create_branch(f"b{number:02}")
    for number in range(9):
        ds.tags.create(f"t{number}")
    found = ds.history_graph()
    assert len({each.branch for each in found.versions}) == 33
    assert found.problems == ("3 branches that were made earlier are not shown",)
    assert "(main, tag: t0, tag: t1, tag: t2, tag: t3, tag: t4, tag: t5, 3 more tags)" in str(found)


@pytest.mark.interop
def test_branches_and_tags_of_pylance_are_drawn(tmp_path: Path) -> None:
    import lance
    import pyarrow as pa

    path = str(tmp_path / "t.lance")
    theirs = lance.write_dataset(pa.table({"a": [1, 2]}), path)
    branch = theirs.create_branch("dev")
    lance.write_dataset(pa.table({"a": [3]}), branch.uri, mode="append")
    theirs.tags.create("v1", ("dev", 2))
    assert _picture(Path(path)) == [
        "  ●  2  Append     3 rows  +1  (dev, tag: v1)  fragments: 1 new",
        "  ●  1  Clone      2 rows      from version 1 of main",
        "╭─╯",
        "●    1  Overwrite  2 rows  +2  (main)  fragments: 1 new",
    ]


def test_log_draws_the_picture(table: Path) -> None:
    shown = run("log", table, "--graph")
    assert shown.exit_code == 0, shown.output
    assert shown.stdout == f"{lancecy.dataset(table).history_graph()}\n"
    assert len(run("log", table, "--graph", "-n", 2).stdout.splitlines()) == 3
    found = run_json("log", table, "--graph")
    assert found["versions"][-1] == found["versions"][-1] | {"branch": "main", "version": 1, "tags": ["v1.0"]}
    assert found["versions"][-1]["entry"]["operation"] == "Overwrite"
    for options in (["--csv"], ["--version", "1"], ["--branch", "dev"]):
        refused = run("log", table, "--graph", *options)
        assert (refused.exit_code, "--graph" in refused.stderr) == (2, True), options


def test_lines_cross_and_end_on_both_sides() -> None:
    lanes = Lanes("main")
    rows = [lanes.row(name) for name in ("main", "a", "b", "c")]
    rows.append(lanes.joined("main", ["a", "c"]))
    rows.append(lanes.row("main", "×"))
    rows.append(lanes.row("d"))
    rows.append(lanes.joined("b", ["d"]))
    lanes.end("main")
    rows.append(lanes.row("b"))
    assert rows == [
        "●",
        "│ ●",
        "│ │ ●",
        "│ │ │ ●",
        "├─┴─┼─╯",
        "×   │",
        "│ ● │",
        "│ ╰─┤",
        "    ●",
    ]
