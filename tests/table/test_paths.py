"""Names of manifests, and which names a file may give to another."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancecy.errors import PathPolicyError
from lancecy.table.manifest import DeletionFileType
from lancecy.table.paths import (
    ManifestName,
    Naming,
    check_name,
    check_relative,
    data_file_name,
    manifest_name,
    parse_manifest_name,
)
from tests.helpers.builders import make_deletion_file
from tests.helpers.folded import folded

DETACHED = (1 << 63) + 5


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("18446744073709551614.manifest", ManifestName(1, Naming.V2)),
        ("18446744073709551603.manifest", ManifestName(12, Naming.V2)),
        ("1.manifest", ManifestName(1, Naming.V1)),
        ("1200.manifest", ManifestName(1200, Naming.V1)),
        (f"d{DETACHED}.manifest", ManifestName(DETACHED, Naming.V2, detached=True)),
        (
            "18446744073709551603.manifest-7b1c2e9e-0000-4000-8000-000000000000",
            ManifestName(12, Naming.V2, staged=True),
        ),
        ("12.manifest-7b1c2e9e-0000-4000-8000-000000000000", ManifestName(12, Naming.V1, staged=True)),
    ],
)
def test_manifest_names_are_understood(name: str, said: ManifestName) -> None:
    assert parse_manifest_name(name) == said


@folded(
    "name",
    [
        "",
        "foo.manifest",
        ".manifest",
        "3.manifest#1",
        ".tmp_7.manifest_x",
        "latest_version_hint.json",
        "-1.manifest",
        "0.manifest",
        "007.manifest",
        "18446744073709551615.manifest",  # version 0
        "99999999999999999999.manifest",  # below version 0
        "d12.manifest",  # no detached version
        "d99999999999999999999.manifest",
        "3.manifest.txt",
        "３.manifest",
        "3.manifest\n",
        "123456789012345678901.manifest",
    ],
)
def test_other_names_are_no_manifests(name: str) -> None:
    assert parse_manifest_name(name) is None


@given(st.integers(1, (1 << 63) - 1))
def test_names_round_trip(version: int) -> None:
    newest_first = manifest_name(version)
    assert len(newest_first) == 29
    assert parse_manifest_name(newest_first) == ManifestName(version, Naming.V2)
    assert newest_first > manifest_name(version + 1) or version == (1 << 63) - 1
    if version < 10**18:
        assert parse_manifest_name(manifest_name(version, Naming.V1)) == ManifestName(version, Naming.V1)


def test_detached_name_round_trips() -> None:
    assert parse_manifest_name(manifest_name(DETACHED)) == ManifestName(DETACHED, Naming.V2, detached=True)


def test_data_file_names_spread_and_differ() -> None:
    names = {data_file_name() for _ in range(50)}
    assert len(names) == 50
    for name in names:
        stem = name.removesuffix(".lance")
        assert len(stem) == 50
        assert set(stem[:24]) <= {"0", "1"}
        assert int(stem[24:], 16) >= 0
        assert check_name(name) == name
    assert data_file_name(uuid.UUID(int=1 << 127)).startswith("1" + "0" * 23)


def test_deletion_file_name_has_the_fragment_the_version_and_the_id() -> None:
    assert make_deletion_file().name(3) == "3-6-77.arrow"
    big = make_deletion_file(file_type=DeletionFileType.BITMAP, id=2**64 - 1)
    assert big.name(0) == "0-6-18446744073709551615.bin"


@folded(
    "name",
    [
        "a.lance",
        "0-é日本.lance",
        "with space.lance",
        "-x",
        "~",
        "a%20b.lance",
        "100%.lance",
        "..a",
        "a" * 255,
        "%zz",
    ],
)
def test_one_segment_is_accepted(name: str) -> None:
    assert check_name(name) == name


HOSTILE_NAMES = (
    "",
    ".",
    "..",
    "a/b",
    "/etc/passwd",
    "../../etc/passwd",
    "a\\b",
    "a\0b",
    "a\nb",
    "a\x7f",
    "\u202egnp.lance",
    "%2e%2e",
    "%2E%2e",
    "..%2f..%2fx",
    "a%5cb",
    "a%00b",
    "file://x",
    "file:x",
    "s3://bucket",
    "c:x",
    "C:\\x",
    "http://169.254.169.254",
    "é" * 128,
    "a" * 256,
    "\ud800",
)


@folded("name", HOSTILE_NAMES)
def test_hostile_name_is_refused(name: str) -> None:
    with pytest.raises(PathPolicyError) as caught:
        check_name(name)
    assert str(caught.value).isprintable()


def test_relative_path_is_checked_segment_by_segment() -> None:
    assert check_relative("_rowids/7/ids.bin") == "_rowids/7/ids.bin"
    for path in ("", "/x", "a//b", "a/../b", "a/%2e%2e/b", "a/b/", "x/c:/y", "a" * 5000):
        with pytest.raises(PathPolicyError):
            check_relative(path)


@given(st.text(max_size=30))
def test_what_is_accepted_stays_one_segment_after_decoding(name: str) -> None:
    from urllib.parse import unquote

    try:
        check_name(name)
    except PathPolicyError:
        return
    for text in (name, unquote(name)):
        assert text
        assert text not in (".", "..")
        assert not set(text) & {"/", "\\", "\0"}
