"""Opening versions by number, tag, and branch, as a table made by pylance names them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lancecy
from lancecy import errors

pytestmark = pytest.mark.interop


@pytest.fixture
def root(tmp_path: Path) -> str:
    """Versions 1 to 4 of the main table, the branch team/test with 2 and 3, and tags of both."""
    root = str(tmp_path / "t")
    for number in range(4):
        theirs = lance.write_dataset(pa.table({"a": [number]}), root, mode="append" if number else "create")
    branch = theirs.create_branch("team/test", 2)
    lance.write_dataset(pa.table({"a": [9]}), branch, mode="append")
    theirs.tags.create("second", 2)
    theirs.tags.create("2024", 3)
    theirs.tags.create("tried", ("team/test", 3))
    return root


def opened(ds: lancecy.Dataset, root: str) -> tuple[str, int]:
    return ds.uri.removeprefix(root), ds.version


SEEN_FROM_ANYWHERE: dict[Any, tuple[str, int]] = {
    "second": ("", 2),
    "2024": ("", 3),
    "tried": ("/tree/team/test", 3),
    ("main", 1): ("", 1),
    (None, 4): ("", 4),
    (None, None): ("", 4),
    ("main", None): ("", 4),
    ("team/test", None): ("/tree/team/test", 3),
    ("team/test", 2): ("/tree/team/test", 2),
    ("team/test", np.int64(2)): ("/tree/team/test", 2),
}


def test_tags_and_branches_are_opened_from_the_table_and_from_its_branches(root: str) -> None:
    branch = f"{root}/tree/team/test"
    main = lancecy.dataset(root)
    for reference, expected in SEEN_FROM_ANYWHERE.items():
        assert opened(lancecy.dataset(root, version=reference), root) == expected
        assert opened(lancecy.dataset(branch, version=reference), root) == expected
        assert opened(main.checkout_version(reference), root) == expected
        assert opened(lancecy.dataset(branch).checkout_version(reference), root) == expected
        assert lance.dataset(root).checkout_version(reference).version == expected[1]


def test_a_number_is_a_version_of_the_branch_at_hand(root: str) -> None:
    branch = lancecy.dataset(root, version=("team/test", 2))
    assert opened(branch.checkout_version(3), root) == ("/tree/team/test", 3)
    assert opened(branch.checkout_latest(), root) == ("/tree/team/test", 3)
    assert branch.checkout_version(3).to_table()["a"].to_pylist() == [0, 1, 9]
    with pytest.raises(errors.NotFoundError, match=r"tree/team/test has no version 4; it has 3, 2"):
        branch.checkout_version(4)
    with pytest.raises(errors.NotFoundError, match=r"tree/team/test has no version 1; it has 3, 2"):
        lancecy.dataset(root, version=("team/test", 1))


def test_other_entry_points_take_references(root: str) -> None:
    assert lancecy.scan(root, version="tried").a.compute().tolist() == [0, 1, 9]
    assert lancecy.scan(root, version=("team/test", 2)).a.compute().tolist() == [0, 1]
    assert lancecy.dataset(root, version=("team/test", None), asof="2200-01-01").version == 3
    assert lancecy.dataset(root).changes(("main", 2), "2024").to_table()["a"].to_pylist() == [2]


@pytest.mark.parametrize(
    ("reference", "kind", "message"),
    [
        ("secnod", errors.NotFoundError, "has no tag 'secnod'; it has second"),
        ("", errors.NotFoundError, "has no tag ''; it has 2024, second, tried"),
        (
            "team/test",
            errors.NotFoundError,
            r"has no tag 'team/test'; .*; it is a branch, which version=\('team/test', None\) opens",
        ),
        (("team/tset", 1), errors.NotFoundError, "has no branch 'team/tset'; it has team/test"),
        (("../../x", 1), errors.NotFoundError, "has no branch '../../x'; it has team/test"),
        ("5", TypeError, "number, or the name of a tag, not '5': there is no tag of that name"),
        (("team/test",), ValueError, r"\(branch, version\), not \('team/test',\)"),
        ((1, 2), TypeError, "1 is not the name of a branch"),
        (("main", "2"), TypeError, r"version is a number, .* not '2'"),
        ((None, True), TypeError, "version is a number, .* not True"),
        (True, TypeError, "version is a number, .* not True"),
        (["main", 1], TypeError, r"version is a number, .* not \['main', 1\]"),
    ],
)
def test_a_reference_to_nothing_says_so(root: str, reference: object, kind: type, message: str) -> None:
    for place in (root, f"{root}/tree/team/test"):
        with pytest.raises(kind, match=message):
            lancecy.dataset(place, version=reference)  # type: ignore[arg-type]
        with pytest.raises(kind, match=message):
            lancecy.dataset(place).checkout_version(reference)  # type: ignore[arg-type]


def test_a_table_in_a_folder_named_tree_is_no_branch(tmp_path: Path) -> None:
    root = str(tmp_path / "tree" / "t")
    lance.write_dataset(pa.table({"a": [1]}), root).tags.create("first", 1)
    assert lancecy.dataset(root, version="first").uri == root


def test_a_branch_without_its_file_is_still_a_branch(root: str) -> None:
    (Path(root) / "_refs" / "branches" / "team%2Ftest.json").unlink()
    assert lancecy.dataset(f"{root}/tree/team/test", version="second").uri == root


def test_a_branch_without_its_main_table_says_so(root: str, tmp_path: Path) -> None:
    moved = (tmp_path / "t" / "tree" / "team" / "test").rename(tmp_path / "moved")
    with pytest.raises(errors.UnsupportedError, match="is the branch 'team/test' of a table"):
        lancecy.dataset(str(moved)).checkout_version("second")
