"""Paths and bases of hostile manifests end before anything is opened."""

from __future__ import annotations

import random
from collections.abc import Callable
from urllib.parse import unquote

import pytest

from lancecy.errors import PathPolicyError
from lancecy.store.base import Store
from lancecy.table.bases import Bases, canonical_base
from lancecy.table.manifest import ExternalFile
from tests.helpers.builders import make_base, make_data_file, make_deletion_file
from tests.helpers.folded import folded
from tests.table.recording import make_bases

HOSTILE_BASES = (
    "",
    "C:/x",
    "C:\\x",
    "\\\\server\\share",
    "/a/../b",
    "/a/./b",
    "/..",
    "/a/%2e%2e/b",
    "/a/..%2f..%2fb",
    "/a%00b",
    "/a\0b",
    "/a\nb",
    "/a\u202eb",
    "s3://bucket/../other",
    "s3://bucket/%2E%2E/other",
    "s3://key:secret@bucket/x",
    "s3://bucket/x?versionId=1",
    "s3://bucket/x#y",
    "simplecache::s3://bucket/x",
    "zip://x::http://169.254.169.254/a",
    "/a::b",
    "file://host/x",
    "file:relative",
    "http:///x?y",
    "://x",
    "1s3://x",
    "/" + "a" * 5000,
)


@folded(
    ("path", "advice"),
    [
        ("file:///a#b", "'#' ends the path of a URI; write %23 or the plain path"),
        ("file:///a?b", "'?' ends the path of a URI; write %3F or the plain path"),
        ("https://host/a#b", "'#' ends the path of a URI; write %23"),
        ("s3://bucket/a#b", "'#' ends the path of a URI; choose a folder without it"),
        ("s3://bucket/a%3Fb", "'?' ends the path of a URI; choose a folder without it"),
        ("/a::b", "chained, so not a folder"),
    ],
)
def test_the_character_that_makes_a_base_no_folder_is_named(path: str, advice: str) -> None:
    with pytest.raises(PathPolicyError) as caught:
        canonical_base(make_base(1, path))
    assert str(caught.value) == f"path of base 1 is {path!r}: {advice}"


@folded("path", ["file:///a%23b%3F", "/a#b?"])
def test_the_advice_about_such_characters_is_right(path: str) -> None:
    assert canonical_base(make_base(1, path)) == "/a#b?"


RELATIVE_BASES = ("relative", "./x", "../x", "~", "~/x")
"""pylance reads these from the working directory."""


@folded("root", ["/tables/t", "s3://bucket/t"])
@folded("path", HOSTILE_BASES)
def test_hostile_base_is_refused_before_anything_is_opened(path: str, root: str) -> None:
    bases, session, store = make_bases(
        make_base(1, path), root=root, allowed_bases=["/", "s3://bucket", "http://169.254.169.254"]
    )
    with pytest.raises(PathPolicyError) as caught:
        bases.data(make_data_file(base_id=1))
    assert str(caught.value).isprintable()
    with pytest.raises(PathPolicyError):
        bases.deletion(3, make_deletion_file(base_id=1))
    assert session.opened == []
    assert store.count() == 0


@folded(("root", "untrusted"), [("/tables/t", True), ("s3://bucket/t", False), ("s3://bucket/t", True)])
@folded("path", RELATIVE_BASES)
def test_relative_base_is_refused_unless_the_table_is_local_and_trusted(
    path: str, root: str, untrusted: bool
) -> None:
    bases, session, _ = make_bases(
        make_base(1, path), root=root, untrusted=untrusted, allowed_bases=["/", "s3://bucket"]
    )
    with pytest.raises(PathPolicyError, match=r"trusted local tables only; relocate_base"):
        bases.data(make_data_file(base_id=1))
    assert session.opened == []


PIECES = (
    "..",
    ".",
    "%2e%2e",
    "%2E.",
    "..%2f",
    "%2f",
    "%5c",
    "%00",
    "/",
    "//",
    "\\",
    "\0",
    "\n",
    "\x7f",
    "file://",
    "s3://",
    "s3://lake",
    "http://169.254.169.254/",
    "memory://",
    "::",
    "~",
    "C:",
    "etc",
    "passwd",
    "a.lance",
    "tables",
    "t",
    "data",
    "\u202e",
    "é",
    "e\u0301",
    "-x",
    "a" * 200,
    "?",
    "#",
    "@",
    " ",
)


def test_five_thousand_generated_paths_never_leave_the_root() -> None:
    rng = random.Random(2026)
    refused = accepted = 0
    for number in range(5000):
        text = "".join(rng.choice(PIECES) for _ in range(rng.randrange(1, 6)))
        bases, session, store = make_bases(
            make_base(1, text, is_dataset_root=number % 3 == 0),
            untrusted=True,
            allowed_bases=["s3://lake/ok"],
        )
        try:
            found, path = USES[number % len(USES)](bases, text)
        except PathPolicyError:
            refused += 1
        else:
            accepted += 1
            assert found is store
            for decoded in (path, unquote(path)):
                assert ".." not in decoded.split("/")
                assert not decoded.startswith("/")
                assert not set(decoded) & {"\\", "\0", "\n"}
        # Whatever was decided, it was decided before anybody was asked anything.
        assert session.opened == []
        assert store.count() == 0
    assert refused > 3500
    assert accepted > 100


USES: tuple[Callable[[Bases, str], tuple[Store, str]], ...] = (
    lambda bases, text: bases.data(make_data_file(path="f.lance", base_id=1)),
    lambda bases, text: bases.data(make_data_file(path=text)),
    lambda bases, text: bases.deletion(3, make_deletion_file(base_id=1)),
    lambda bases, text: bases.external(ExternalFile(text, 0, 1)),
    lambda bases, text: bases.blob(1, text),
    lambda bases, text: bases.blob(0, text),
)
"""Every way from a text in a table to a place."""
