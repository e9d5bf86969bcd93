"""Names and contents of tag and branch files, beside pylance."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lancecy.errors import FormatError, LimitError
from lancecy.limits import Limits
from lancecy.session import default
from lancecy.table.answers import run_on
from lancecy.table.location import TableLocation
from lancecy.table.refs import Branch, Tag, check_branch_name, check_tag_name, decode_branch, decode_tag
from lancecy.table.refs.contents import encode_branch, encode_tag
from lancecy.table.refs.files import branches, read_branch, read_tag, tags
from lancecy.table.refs.names import branch_of, branch_path, tag_of, tag_path

# What pylance 14 accepts and refuses, table sheet 6.3; it also accepts tags that are not ASCII.
GOOD_BRANCHES = ["a", "a/b", "team/x-1_y.z", "a/main", ".a", "a.", "HEAD", "x.lock/y", "bé/ü"]
BAD_BRANCHES = [
    "",
    "main",
    "/a",
    "a/",
    "a//b",
    "a..b",
    "a\\b",
    "a b",
    "a.lock",
    "a%2Fb",
    "a?",
    "../a",
    "a/../b",
]
GOOD_TAGS = ["v1.0", "main", "A-b_c", "1x"]
BAD_TAGS = ["", ".a", "a.", "a..b", "a.lock", "a/b", "a b", "é", "..", "a%"]


@pytest.mark.parametrize("name", GOOD_BRANCHES)
def test_branch_names(name: str) -> None:
    check_branch_name(name)
    assert branch_of(branch_path(name)) == name


@pytest.mark.parametrize("name", BAD_BRANCHES)
def test_bad_branch_names(name: str) -> None:
    with pytest.raises(ValueError, match="cannot be the name of a branch"):
        check_branch_name(name)


@pytest.mark.parametrize("name", GOOD_TAGS)
def test_tag_names(name: str) -> None:
    check_tag_name(name)
    assert tag_of(tag_path(name)) == name


@pytest.mark.parametrize("name", BAD_TAGS)
def test_bad_tag_names(name: str) -> None:
    with pytest.raises(ValueError, match="cannot be the name of a tag"):
        check_tag_name(name)


@pytest.mark.interop
def test_names_are_those_of_pylance(tmp_path: Path) -> None:
    lance = pytest.importorskip("lance")
    ds = lance.write_dataset(pa.table({"n": [1]}), tmp_path / "t")
    for number, name in enumerate(GOOD_BRANCHES + BAD_BRANCHES):
        # A branch in the folder of another one could not be created.
        folder = tmp_path / f"{number}"
        own = lance.write_dataset(pa.table({"n": [1]}), folder)
        try:
            own.create_branch(name, 1)
            is_made = True
        except (OSError, ValueError):
            is_made = False
        assert is_made == (name in GOOD_BRANCHES), name
        if is_made:
            assert (folder / branch_path(name)).exists()
    for name in GOOD_TAGS + BAD_TAGS:
        try:
            ds.tags.create(name, 1)
            is_made = True
        except (OSError, ValueError):
            is_made = False
        assert is_made == (name in GOOD_TAGS or not name.isascii()), name
        if is_made:
            assert (tmp_path / "t" / tag_path(name)).exists()


@pytest.mark.interop
def test_files_are_those_of_pylance_byte_for_byte(tmp_path: Path) -> None:
    lance = pytest.importorskip("lance")
    ds = lance.write_dataset(pa.table({"n": [1]}), tmp_path / "t")
    ds.tags.create("v1", 1)
    ds.tags.replace_metadata("v1", {"who": "é"})
    ds.create_branch("team/a", 1)
    ds.create_branch("b", ("team/a", 1))
    ds.branches.replace_metadata("b", {"why": "x"})
    ds.tags.create("of-b", ("b", 1))
    store = TableLocation.of(str(tmp_path / "t")).open(default())
    found = run_on(tags(), store)
    assert {name: (tag.branch, tag.version) for name, tag in found.items()} == {
        "of-b": ("b", 1),
        "v1": (None, 1),
    }
    for name, tag in found.items():
        assert encode_tag(tag) == (tmp_path / "t" / tag_path(name)).read_bytes()
        assert run_on(read_tag(name), store) == tag
    listed = run_on(branches(), store)
    assert {name: branch.parent for name, branch in listed.items()} == {"b": "team/a", "team/a": None}
    assert listed["b"].lineage[:1] == listed["team/a"].lineage
    for name, branch in listed.items():
        assert encode_branch(branch) == (tmp_path / "t" / branch_path(name)).read_bytes()
        assert run_on(read_branch(name), store) == branch
    assert run_on(read_tag("v2"), store) is None
    assert run_on(read_branch("v2"), store) is None


def _bytes(value: Any) -> np.ndarray[Any, np.dtype[np.uint8]]:
    text = value if isinstance(value, bytes) else json.dumps(value).encode()
    return np.frombuffer(text, np.uint8)


def test_files_of_the_document_and_of_old_releases() -> None:
    # pylance 0.20.0 and 1.0.4, and the keys of the specification.
    assert decode_tag(_bytes({"version": 2, "manifestSize": 9}), "t") == Tag(2, manifest_size=9)
    snake = {"branch": "x", "version": 2, "manifest_size": 9, "created_at": "2026-01-31T12:00:00+01:00"}
    assert decode_tag(_bytes(snake), "t") == Tag(2, "x", 1_769_857_200_000_000_000, manifest_size=9)
    assert decode_branch(
        _bytes({"parent_branch": None, "parent_version": 3, "create_at": 7, "manifest_size": 9}), "b"
    ) == Branch(3, created_s=7, manifest_size=9)
    camel = {"parentBranch": "main", "parentVersion": 3, "createAt": 7, "manifestSize": 9}
    assert decode_branch(_bytes(camel), "b") == Branch(3, created_s=7, manifest_size=9)


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"{",
        b"[" * 100_000,
        [],
        {"manifestSize": 1},
        {"version": "1"},
        {"version": True},
        {"version": 0},
        {"version": 1 << 64},
        {"version": 1, "branch": 7},
        {"version": 1, "branch": "../x"},
        {"version": 1, "manifestSize": -1},
        {"version": 1, "createdAt": "yesterday"},
        {"version": 1, "createdAt": "9999-12-31T24:61:00Z"},
        {"version": 1, "metadata": {"a": 1}},
    ],
)
def test_damaged_tags_are_named(value: Any) -> None:
    with pytest.raises(FormatError, match=r"_refs/tags/v1\.json"):
        decode_tag(_bytes(value), "_refs/tags/v1.json")


@pytest.mark.parametrize(
    "value",
    [
        {"version": 1},
        {"parentVersion": 1, "identifier": []},
        {"parentVersion": 1, "identifier": {"version_mapping": [[1]]}},
        {"parentVersion": 1, "identifier": {"version_mapping": [["1", "x"]]}},
        {"parentVersion": 1, "createAt": "now"},
        {"parentVersion": 1, "parentBranch": "a//b"},
    ],
)
def test_damaged_branches_are_named(value: Any) -> None:
    with pytest.raises(FormatError, match=r"_refs/branches/b\.json"):
        decode_branch(_bytes(value), "_refs/branches/b.json")


def test_files_are_bounded() -> None:
    with pytest.raises(LimitError, match=r"_refs/tags/v1\.json"):
        decode_tag(_bytes({"version": 1}), "_refs/tags/v1.json", Limits(metadata_bytes=4))


def test_times_have_as_many_digits_as_they_need() -> None:
    for time_ns, ending in [
        (1_000_000_000, "01Z"),
        (1_500_000_000, ".500Z"),
        (1_000_001_000, ".000001Z"),
        (1, ".000000001Z"),
    ]:
        data = encode_tag(Tag(1, created_ns=time_ns))
        assert json.loads(data)["createdAt"].endswith(ending)
        assert decode_tag(_bytes(data), "t").created_ns == time_ns
