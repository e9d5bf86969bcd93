"""From the descriptor of an external blob to a store and a path, and where the way ends."""

from __future__ import annotations

from typing import Any

import pytest

from lancecy.errors import FormatError, PathPolicyError
from lancecy.table.bases import Bases
from tests.helpers.builders import make_base
from tests.helpers.folded import folded
from tests.table.recording import make_bases


def place_of(bases: Bases, base_id: int, uri: str) -> str:
    store, path = bases.blob(base_id, uri)
    return f"{store.uri}/{path}"


@pytest.mark.parametrize("is_root", [True, False])
def test_a_blob_in_a_base_is_below_its_folder_whatever_the_base_is(is_root: bool) -> None:
    bases, _, _ = make_bases(make_base(3, "/media", is_dataset_root=is_root))
    assert place_of(bases, 3, "sub/a.bin") == "/media/sub/a.bin"


def test_a_base_below_the_root_uses_the_root_store() -> None:
    bases, session, store = make_bases(make_base(3, "/tables/t/media"))
    assert bases.blob(3, "a.bin") == (store, "media/a.bin")
    assert session.opened == []


@pytest.mark.parametrize(
    ("uri", "place"),
    [
        ("file:///media/a.bin", "/media/a.bin"),
        ("/media/x/a.bin", "/media/x/a.bin"),
        ("file:///my%20media/a%20b%25.bin", "/my media/a b%.bin"),
        ("file:///tables/t/ext/a.bin", "/tables/t/ext/a.bin"),
        ("file:///tables/t/a.bin", "/tables/t/a.bin"),
    ],
)
def test_local_tables_may_name_any_local_file(uri: str, place: str) -> None:
    bases, _, _ = make_bases()
    assert place_of(bases, 0, uri) == place


def test_what_is_below_the_root_is_allowed_to_anyone() -> None:
    bases, session, store = make_bases(untrusted=True)
    assert bases.blob(0, "file:///tables/t/ext/a.bin") == (store, "ext/a.bin")
    assert session.opened == []


@pytest.mark.parametrize(
    ("uri", "policy"),
    [
        ("file:///etc/passwd", {"untrusted": True}),
        ("file:///tables/a.bin", {"untrusted": True}),
        ("s3://lake/a.bin", {}),
        ("s3://lake/a.bin", {"untrusted": True}),
        ("https://example.org/a.bin", {}),
        ("file:///media/a.bin", {"untrusted": True, "allowed_bases": ["/medi"]}),
    ],
)
def test_other_places_need_a_grant(uri: str, policy: dict[str, Any]) -> None:
    bases, session, _ = make_bases(**policy)
    with pytest.raises(PathPolicyError, match="allowed_bases"):
        bases.blob(0, uri)
    assert session.opened == []


def test_a_grant_opens_a_place_without_the_credentials_of_the_root() -> None:
    bases, session, _ = make_bases(allowed_bases=["s3://lake/media"], storage_options={"key": "K"})
    assert place_of(bases, 0, "s3://lake/media/x/a.bin") == "s3://lake/media/x/a.bin"
    assert [options for _, options, _, _ in session.opened] == [{}]


@pytest.mark.parametrize("bucket", ["lake", "other"])
def test_objects_of_the_same_service_get_its_options(bucket: str) -> None:
    bases, session, _ = make_bases(root="s3://lake/t", storage_options={"key": "K", "base_7.key": "other"})
    assert place_of(bases, 0, f"s3://{bucket}/media/a.bin") == f"s3://{bucket}/media/a.bin"
    assert [options for _, options, _, _ in session.opened] == [{"key": "K"}]
    with pytest.raises(PathPolicyError):
        bases.blob(0, f"gs://{bucket}/a.bin")


def test_untrusted_tables_read_what_is_granted_without_maps_and_links() -> None:
    bases, session, _ = make_bases(untrusted=True, allowed_bases=["/media"])
    assert place_of(bases, 0, "/media/a.bin") == "/media/a.bin"
    assert [(mapped, follow) for _, _, mapped, follow in session.opened] == [(False, False)]


@pytest.mark.parametrize(
    ("uri", "place"),
    [
        ("s3://other/m/a%20b%2B.bin", "s3://other/m/a b+.bin"),
        ("s3://other/my%20media/ü.bin", "s3://other/my media/ü.bin"),
        ("s3://lake/t/ext/a%25.bin", "s3://lake/t/ext/a%.bin"),
    ],
)
def test_the_percent_encoding_of_objects_in_buckets_is_undone_as_by_pylance(uri: str, place: str) -> None:
    bases, _, _ = make_bases(root="s3://lake/t")
    assert place_of(bases, 0, uri) == place


@pytest.mark.parametrize(
    ("uri", "place"),
    [
        ("file:///media/a%20b.bin", (3, "a b.bin")),
        ("/media/a%20b.bin", (3, "a%20b.bin")),
        ("/media/sub/x/a.bin", (4, "x/a.bin")),
        ("/media/table/a.bin", (3, "table/a.bin")),
        ("/mediax/a %#.bin", (0, "file:///mediax/a%20%25%23.bin")),
        ("S3://lake/a b%20c.bin", (0, "s3://lake/a%20b%20c.bin")),
        ("https://example.org/a%20b.bin", (0, "https://example.org/a%20b.bin")),
    ],
)
def test_an_object_is_named_by_the_innermost_base_that_is_no_table(uri: str, place: tuple[int, str]) -> None:
    bases, session, _ = make_bases(
        make_base(3, "/media", is_dataset_root=False),
        make_base(4, "/media/sub", is_dataset_root=False),
        make_base(5, "/media/table", is_dataset_root=True),
    )
    assert bases.blob_place(uri) == place
    assert session.opened == []


@folded(
    "uri",
    [
        "",
        "a.bin",
        "sub/a.bin",
        "../a.bin",
        "file:///media/../etc/passwd",
        "file:///media/%2e%2e/etc/passwd",
        "file:///media/..",
        "file:///media/",
        "file:///media/a%2Fb.bin",
        "file://host/a.bin",
        "file:///media/a\nb",
        "file:///media/a%00b",
        "https://example.org/a.bin?token=x",
        "s3://lake/a.bin#part",
        "zip://a.bin::file:///media/x.zip",
        "ftp://me:pw@host/a.bin",
        "data:text/plain,hello",
        "/media\\a.bin",
        "file:///" + "x" * 5000,
    ],
)
@folded("policy", [{}, {"untrusted": True, "allowed_bases": ["/", "https://example.org", "s3://lake"]}])
def test_places_that_are_none_are_refused(uri: str, policy: dict[str, Any]) -> None:
    bases, session, _ = make_bases(**policy)
    with pytest.raises(PathPolicyError):
        bases.blob(0, uri)
    assert session.opened == []


@folded("path", ["", "/etc/passwd", "../a.bin", "a/../../b", "a//b", "a/./b", "c:\\a", "a/%2e%2e/b"])
def test_paths_in_a_base_stay_below_it(path: str) -> None:
    bases, _, _ = make_bases(make_base(3, "/media"))
    with pytest.raises(PathPolicyError):
        bases.blob(3, path)


def test_an_unknown_base_is_refused() -> None:
    bases, _, _ = make_bases()
    with pytest.raises(FormatError, match="base 3"):
        bases.blob(3, "a.bin")
