"""What verify says of tags and branches."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import lancecy
from lancecy.inspection.verification import Finding
from tests.helpers.folded import folded

pytestmark = pytest.mark.interop


def table(root: Path) -> Path:
    """pylance's table with versions 1 and 2, tags of the main table and of a branch, and nested branches."""
    import lance

    main = lance.write_dataset(pa.table({"n": [1]}), str(root))
    main.insert(pa.table({"n": [2]}), mode="append")
    dev = main.create_branch("dev")
    dev.insert(pa.table({"n": [3]}), mode="append")
    dev.create_branch("team/deep")
    main.tags.create("v1", 1)
    main.tags.create("ours", ("dev", 3))
    return root


def found(root: Path) -> list[Finding]:
    result = lancecy.dataset(root).verify()
    assert bool(result) == all(finding.severity == "note" for finding in result.findings)
    assert all(finding.kind == "references" for finding in result.findings)
    return list(result.findings)


def test_nothing_is_wrong_with_what_pylance_made(tmp_path: Path) -> None:
    root = table(tmp_path / "t")
    assert [found(place) for place in (root, root / "tree" / "dev", root / "tree" / "team" / "deep")] == [
        [],
        [],
        [],
    ]
    old = {"parent_branch": None, "parent_version": 1, "create_at": 0, "manifest_size": 1}
    (root / "_refs" / "branches" / "dev.json").write_text(json.dumps(old))
    assert found(root) == []


@folded(
    ("path", "text", "place", "problem"),
    [
        ("tags/v1.json", "{", "tag 'v1'", "is no JSON.*; remove this file, and make the tag 'v1' anew if"),
        ("tags/v1.json", "[]", "tag 'v1'", "is no JSON object"),
        ("tags/v1.json", '{"version": "1"}', "tag 'v1'", "version is '1' instead of a number"),
        ("branches/team%2Fdeep.json", "", "branch 'team/deep'", "is no JSON.*make the branch 'team/deep' anew"),
        ("tags/v1.json", '{"version": 7}', "tag 'v1'", "version 7 of the main table, which is not there; tags.update"),
        ("tags/new.json", '{"version": 1, "branch": "dev"}', "tag 'new'", "version 1 of the branch 'dev', which is not"),
        ("tags/new.json", '{"version": 1, "branch": "gone"}', "tag 'new'", "version 1 of the branch 'gone'"),
        (
            "branches/gone.json", '{"parentVersion": 1, "createAt": 0, "manifestSize": 1}', "branch 'gone'",
            "tree/gone/ has no version of it; remove _refs/branches/gone.json",
        ),
    ],
)  # fmt: skip
def test_damage_is_told_with_its_remedy(
    path: str, text: str, place: str, problem: str, tmp_path: Path
) -> None:
    root = table(tmp_path / f"{path}{text}".replace("/", "_"))
    (root / "_refs" / path).write_text(text)
    (one,) = found(root)
    assert (one.place, one.severity) == (place, "damaged")
    assert re.search(problem, one.problem)
    assert lancecy.dataset(root).to_table()["n"].to_pylist() == [1, 2]


def test_versions_that_are_gone(tmp_path: Path) -> None:
    root = table(tmp_path / "t")
    shutil.rmtree(root / "tree" / "dev")
    assert [(one.place, one.severity) for one in found(root)] == [
        ("branch 'dev'", "damaged"),
        ("tag 'ours'", "damaged"),
    ]


def test_a_branch_without_its_file_is_a_leftover(tmp_path: Path) -> None:
    root = table(tmp_path / "t")
    (root / "_refs" / "branches" / "team%2Fdeep.json").unlink()
    for place in (root, root / "tree" / "team" / "deep"):
        (one,) = found(place)
        assert (one.place, one.severity) == ("branch 'team/deep'", "note")
        assert "_refs/branches/team%2Fdeep.json is not there" in one.problem
        assert "branches.remove_leftover('team/deep')" in one.problem
    assert found(root / "tree" / "dev") == []


def test_a_branch_that_was_moved_without_its_main_table(tmp_path: Path) -> None:
    root = table(tmp_path / "t")
    shutil.copytree(root / "tree" / "dev", tmp_path / "alone")
    (one,) = found(tmp_path / "alone")
    assert (one.place, one.severity) == ("branch 'dev'", "note")
    assert "not in the folders above" in one.problem
