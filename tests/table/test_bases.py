"""From a file named in a manifest to a store and a path, and where the way ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lancecy.errors import FormatError, PathPolicyError
from lancecy.session import Session
from lancecy.store.base import Store
from lancecy.store.local import LocalStore
from lancecy.store.memory import MemoryStore
from lancecy.table.bases import Bases, PathPolicy
from lancecy.table.manifest import BasePath, DeletionFileType, ExternalFile
from tests.helpers.builders import make_base, make_data_file, make_deletion_file, make_manifest
from tests.helpers.folded import folded
from tests.table.recording import make_bases


def place_of(bases: Bases, base_id: int | None = 1) -> str:
    """Where a data file of a base is, in full."""
    store, path = bases.data(make_data_file(base_id=base_id))
    return f"{store.uri}/{path}"


def test_file_without_a_base_is_below_the_root() -> None:
    bases, session, store = make_bases(make_base(0, "/elsewhere"))
    assert place_of(bases, None) == "/tables/t/data/f.lance"
    found, path = bases.deletion(12, make_deletion_file())
    assert (found, path) == (store, "_deletions/12-6-77.arrow")
    assert session.opened == []


@folded(
    ("path", "is_root", "data", "deletion"),
    [
        ("/other", True, "/other/data/f.lance", "/other/_deletions/12-6-77.bin"),
        ("/other", False, "/other/f.lance", "/other/12-6-77.bin"),
        ("/other/", True, "/other/data/f.lance", "/other/_deletions/12-6-77.bin"),
        ("/other//", False, "/other/f.lance", "/other/12-6-77.bin"),
        ("file:///other", True, "/other/data/f.lance", "/other/_deletions/12-6-77.bin"),
        ("file:///other/", False, "/other/f.lance", "/other/12-6-77.bin"),
        ("file:///my%20other", True, "/my other/data/f.lance", "/my other/_deletions/12-6-77.bin"),
        ("file://localhost/other", True, "/other/data/f.lance", "/other/_deletions/12-6-77.bin"),
        ("/tables/t", True, "/tables/t/data/f.lance", "/tables/t/_deletions/12-6-77.bin"),
        ("/tables/t/", False, "/tables/t/f.lance", "/tables/t/12-6-77.bin"),
        ("/tables/t/hot", True, "/tables/t/hot/data/f.lance", "/tables/t/hot/_deletions/12-6-77.bin"),
        ("/tables/t/hot", False, "/tables/t/hot/f.lance", "/tables/t/hot/12-6-77.bin"),
        ("/tables/tt", False, "/tables/tt/f.lance", "/tables/tt/12-6-77.bin"),
    ],
)
def test_base_rules_on_a_disk(path: str, is_root: bool, data: str, deletion: str) -> None:
    bases, _, _ = make_bases(make_base(1, path, is_dataset_root=is_root))
    assert place_of(bases) == data
    file = make_deletion_file(file_type=DeletionFileType.BITMAP, base_id=1)
    store, name = bases.deletion(12, file)
    assert f"{store.uri}/{name}" == deletion


@pytest.mark.parametrize("path", ["s3://lake/t/cold", "s3://lake/other/", "s3a://lake/other", "S3://lake/x"])
def test_same_bucket_needs_no_grant_and_gets_the_options(path: str) -> None:
    bases, session, _ = make_bases(
        make_base(1, path), root="s3://lake/t", storage_options={"key": "K", "base_7.key": "other"}
    )
    assert place_of(bases).startswith("s3://lake/")
    assert all(options == {"key": "K"} for _, options, _, _ in session.opened)


def test_base_that_is_the_root_uses_the_root_store() -> None:
    for path in ("s3://lake/t", "s3://lake/t/", "s3a://lake/t"):
        bases, session, store = make_bases(make_base(0, path), root="s3://lake/t")
        assert bases.data(make_data_file(base_id=0)) == (store, "data/f.lance")
        assert session.opened == []


def test_id_zero_is_a_base_like_any_other() -> None:
    bases, _, _ = make_bases(make_base(0, "/zero"), make_base(5, "/five"))
    assert place_of(bases, 0) == "/zero/data/f.lance"
    assert place_of(bases, 5) == "/five/data/f.lance"
    with pytest.raises(FormatError, match=r"base 9, but the bases of the manifest are 0, 5"):
        place_of(bases, 9)


FOREIGN = [
    ("s3://lake/t", "s3://attacker/x"),
    ("s3://lake/t", "s3://lake2/x"),
    ("s3://lake/t", "gs://lake/t"),
    ("s3://lake/t", "/etc"),
    ("s3://lake/t", "file:///etc"),
    ("/tables/t", "s3://lake/t"),
    ("/tables/t", "http://169.254.169.254/latest"),
    ("/tables/t", "memory://x"),
    ("abfs://c@one.dfs.core.windows.net/t", "abfs://c@two.dfs.core.windows.net/t"),
    ("https://host/t", "https://host2/t"),
    ("hf://datasets/me/t", "hf://datasets/other/t"),
    ("s3:///t", "s3:///u"),
]


@folded(("root", "path"), FOREIGN)
def test_another_place_needs_a_grant_that_the_error_names(root: str, path: str) -> None:
    options = {"secret": "hunter2", "base_2.key": "other"}
    bases, session, store = make_bases(make_base(1, path), root=root, storage_options=options)
    with pytest.raises(PathPolicyError) as caught:
        place_of(bases)
    text = str(caught.value)
    assert f"allowed_bases=['{path.removeprefix('file://')}']" in text
    assert "'base_1.<option>'" in text
    assert "hunter2" not in text + repr(bases)
    assert session.opened == []
    assert store.count() == 0


@folded(("root", "path"), FOREIGN)
@folded("untrusted", [False, True])
def test_allowed_base_is_opened(root: str, path: str, untrusted: bool) -> None:
    options = {"key": "K", "base_1.endpoint": "E", "base_12.key": "L"}
    bases, session, _ = make_bases(
        make_base(1, path + "/sub"),
        root=root,
        untrusted=untrusted,
        allowed_bases=[path],
        storage_options=options,
    )
    assert place_of(bases).endswith("/sub/data/f.lance")
    ((_, given, mapped, follow),) = session.opened
    same_scheme = root.partition(":")[0] == path.partition(":")[0]
    assert given == ({"key": "K", "endpoint": "E"} if same_scheme else {"endpoint": "E"})
    assert mapped is follow is not untrusted


def test_options_for_the_base_are_a_grant_for_trusted_tables_only() -> None:
    options = {"key": "K", "base_1.key": "L"}
    bases, session, _ = make_bases(make_base(1, "s3://cold/t"), root="s3://hot/t", storage_options=options)
    assert place_of(bases) == "s3://cold/t/data/f.lance"
    assert session.opened == [("s3://cold/t", {"key": "L"}, True, True)]
    bases, session, _ = make_bases(
        make_base(1, "s3://cold/t"), root="s3://hot/t", storage_options=options, untrusted=True
    )
    with pytest.raises(PathPolicyError, match="untrusted"):
        place_of(bases)
    assert session.opened == []


def test_a_base_with_credentials_of_its_own_gets_none_of_the_roots() -> None:
    options = {
        "key": "K",
        "secret": "S",
        "token": "T",
        "endpoint_url": "E",
        "base_1.key": "L",
        "base_1.secret": "M",
    }
    bases, session, _ = make_bases(make_base(1, "s3://cold/t"), root="s3://hot/t", storage_options=options)
    assert place_of(bases) == "s3://cold/t/data/f.lance"
    ((_, given, _, _),) = session.opened
    assert given == {"key": "L", "secret": "M", "endpoint_url": "E"}


@pytest.mark.parametrize("path", ["/other", "s3://lake/t", "/tables", "/tables/t2", "/"])
def test_untrusted_table_stays_below_its_root(path: str) -> None:
    bases, session, _ = make_bases(make_base(1, path), untrusted=True)
    with pytest.raises(PathPolicyError, match="opened as untrusted"):
        place_of(bases)
    assert session.opened == []


def test_untrusted_table_may_use_what_is_below_its_root() -> None:
    bases, session, store = make_bases(
        make_base(1, "/tables/t/cold"), make_base(2, "/tables/t"), untrusted=True
    )
    assert bases.data(make_data_file(base_id=1)) == (store, "cold/data/f.lance")
    assert bases.data(make_data_file(base_id=2)) == (store, "data/f.lance")
    assert session.opened == []


@folded(
    ("prefix", "path", "allowed"),
    [
        ("/mnt/lake", "/mnt/lake", True),
        ("/mnt/lake/", "/mnt/lake/a/b", True),
        ("file:///mnt/lake", "/mnt/lake/a", True),
        ("/mnt/lake", "/mnt/lake2", False),
        ("/mnt/lake", "/mnt", False),
        ("/", "/anything", True),
        ("s3://b", "s3://b/any/where", True),
        ("s3://b/a", "s3://b/ab", False),
        ("s3a://b/a", "s3://b/a/x", True),
        ("s3://b", "s3://b.evil/x", False),
        ("gs://b", "s3://b/x", False),
    ],
)
def test_prefixes_end_at_segments(prefix: str, path: str, allowed: bool) -> None:
    bases, _, _ = make_bases(make_base(1, path), untrusted=True, allowed_bases=[prefix])
    if allowed:
        place_of(bases)
    else:
        with pytest.raises(PathPolicyError):
            place_of(bases)


def test_percent_signs_in_buckets_mean_what_they_do_to_pylance() -> None:
    bases, session, _ = make_bases(make_base(1, "s3://b/my%20files%2520"), root="s3://b/t")
    bases.data(make_data_file(base_id=1))
    assert [uri for uri, *_ in session.opened] == ["s3://b/my files%20"]


@folded("path", ["s3://b/x%3A%3Afile:///etc", "s3://b/x%3FversionId=1", "s3://b/x%23y", "s3://b/%2e%2e/x"])
def test_what_percent_signs_hide_is_refused(path: str) -> None:
    bases, _, _ = make_bases(make_base(1, path), root="s3://b/t", allowed_bases=["s3://b"])
    with pytest.raises(PathPolicyError):
        place_of(bases)


def test_bases_without_their_flag_are_read_from_trusted_tables_only() -> None:
    base = make_base(1, "/other")
    bases, _, _ = make_bases(base, flags=0)
    assert place_of(bases) == "/other/data/f.lance"
    bases, session, _ = make_bases(base, flags=0, untrusted=True, allowed_bases=["/"])
    with pytest.raises(PathPolicyError, match="lacks the feature flag"):
        place_of(bases)
    assert session.opened == []


def test_one_text_is_not_a_list_of_prefixes() -> None:
    with pytest.raises(TypeError, match="allowed_bases is a list"):
        PathPolicy.of(allowed_bases="/mnt")


def test_policy_shows_no_options() -> None:
    assert "hunter2" not in repr(PathPolicy.of(storage_options={"secret": "hunter2"}))


def test_stores_are_opened_once() -> None:
    bases, session, _ = make_bases(make_base(1, "/other"))
    for _ in range(3):
        place_of(bases)
        bases.deletion(3, make_deletion_file(base_id=1))
    assert len(session.opened) == 1


def test_external_file_is_below_the_root() -> None:
    bases, _, store = make_bases()
    assert bases.external(ExternalFile("_ids/3.bin", 0, 1)) == (store, "_ids/3.bin")
    for path in ("../x", "/etc/passwd", "a//b", "a\\b"):
        with pytest.raises(PathPolicyError):
            bases.external(ExternalFile(path, 0, 1))


def test_mapped_only_if_every_base_is(tmp_path: Path) -> None:
    root = LocalStore(str(tmp_path / "t"))

    def is_mapped(store: Store, *bases: BasePath, **policy: Any) -> bool:
        manifest = make_manifest(base_paths={base.id: base for base in bases}, reader_flags=16)
        return Bases(store, manifest, Session(), PathPolicy.of(**policy)).is_mapped

    local = make_base(1, str(tmp_path / "other"))
    assert is_mapped(root)
    assert is_mapped(root, local)
    assert not is_mapped(root, local, make_base(2, "s3://lake/t"))
    assert not is_mapped(root, local, make_base(2, "relative"))
    assert not is_mapped(root, local, untrusted=True)
    assert not is_mapped(MemoryStore(), local)
