"""From a file named in a manifest to a store and a path, and where the way ends."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import pytest

from lancecy.errors import FormatError, PathPolicyError
from lancecy.session import Session
from lancecy.store.base import Store
from lancecy.store.local import LocalStore
from lancecy.store.memory import MemoryStore
from lancecy.table.bases import Bases
from lancecy.table.location import TableLocation
from lancecy.table.manifest import BasePath, BasePaths, DeletionFileType, ExternalFile
from tests.helpers.builders import INDEX_ID, make_base, make_data_file, make_deletion_file
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
    store, name = bases.index(1, INDEX_ID, "page_data.lance")
    folder = data.removesuffix("/data/f.lance") + "/_indices" if is_root else data.removesuffix("/f.lance")
    assert f"{store.uri}/{name}" == f"{folder}/{INDEX_ID}/page_data.lance"


ONE = "abfss://c@one.dfs.core.windows.net/t"
SAME_SERVICE = [
    ("/tables/t", "/elsewhere", {}),
    ("memory://lake/t", "memory://other", {}),
    ("s3://lake/t", "s3://lake/other/", {}),
    ("s3://lake/t", "s3a://lake/other", {}),
    ("s3://lake/t", "S3://other", {}),
    ("s3://lake/t", "s3://other/x", {"anon": True}),
    ("s3://lake/t", "s3n://other.lake_2-x/x", {"token": "T", "client_kwargs": {"endpoint_url": "http://h"}}),
    ("s3://arn:aws:s3:eu-1:12:accesspoint/ap/t", "s3://arn:aws:s3:eu-1:12:accesspoint/ap/x", {}),
    ("gs://lake/t", "gcs://other/x", {"token": "T"}),
    ("oss://lake/t", "oss://other/x", {"endpoint": "E"}),
    ("cos://lake/t", "cos://other/x", {}),
    ("obs://lake/t", "obs://other/x", {}),
    ("tos://lake/t", "tos://other/x", {}),
    ("az://c/t", "az://other/x", {}),
    ("az://c/t", "abfs://other/x", {"azure_storage_account_name": "one"}),
    ("az://c/t", "abfss://other@one.dfs.core.windows.net/x", {"account_name": "one"}),
    (ONE, "az://other/x", {"account_name": "one"}),
    (ONE, "abfs://other@ONE.blob.core.windows.net/x", {}),
    ("abfss://c@one.dfs.core.chinacloudapi.cn/t", "abfss://d@one.dfs.core.chinacloudapi.cn/x", {}),
    ("adl://store.azuredatalakestore.net/t", "adl://store.azuredatalakestore.net/x", {}),
    ("https://host/t", "https://HOST/x", {}),
    ("http://host:81/t", "http://host:81/x", {}),
    ("sftp://host/t", "ssh://host/x", {"username": "me"}),
    ("ftp://host/t", "ftp://host/x", {}),
    ("smb://host/share/t", "smb://host/other", {}),
    ("hdfs://node:8020/t", "hdfs://node:8020/x", {}),
    ("webhdfs://node/t", "webhdfs://node/x", {}),
]  # fmt: skip


@folded(("root", "path", "options"), SAME_SERVICE)
def test_place_of_the_same_service_needs_no_grant_and_gets_the_options(
    root: str, path: str, options: dict[str, Any]
) -> None:
    given = {**options, "key": "K", "base_7.key": "other"}
    bases, session, _ = make_bases(make_base(1, path), root=root, storage_options=given)
    place_of(bases)
    ((_, found, _, _),) = session.opened
    assert found == {**options, "key": "K"}


@folded(("root", "path", "options"), SAME_SERVICE)
def test_untrusted_table_stays_out_of_its_own_service(root: str, path: str, options: dict[str, Any]) -> None:
    bases, session, _ = make_bases(make_base(1, path), root=root, storage_options=options, untrusted=True)
    with pytest.raises(PathPolicyError, match="opened as untrusted"):
        place_of(bases)
    assert session.opened == []


def test_bases_below_the_root_use_its_store() -> None:
    bases, session, store = make_bases(make_base(1, "s3a://lake/t/cold"), root="s3://lake/t")
    assert bases.data(make_data_file(base_id=1)) == (store, "cold/data/f.lance")
    assert session.opened == []


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
    ("s3://lake/t", "gs://lake/t"),
    ("s3://lake/t", "https://lake.s3.amazonaws.com/t"),
    ("s3://lake/t", "s3://arn:aws:s3:eu-1:12:accesspoint/ap/x"),
    ("s3://arn:aws:s3:eu-1:12:accesspoint/ap/t", "s3://lake/x"),
    ("gs://lake/t", "s3://lake/t"),
    ("oss://lake/t", "cos://lake/t"),
    ("memory://lake/t", "s3://lake/t"),
    ("s3://lake/t", "/etc"),
    ("s3://lake/t", "file:///etc"),
    ("/tables/t", "s3://lake/t"),
    ("/tables/t", "http://169.254.169.254/latest"),
    ("/tables/t", "memory://x"),
    ("abfs://c@one.dfs.core.windows.net/t", "abfs://c@two.dfs.core.windows.net/t"),
    (ONE, "abfss://c/x"),
    (ONE, "az://c/x"),
    (ONE, "abfss://c@one.dfs.core.windows.net.evil.org/x"),
    ("az://c/t", "abfss://c@one.dfs.core.windows.net/x"),
    ("adl://one.azuredatalakestore.net/t", "adl://two.azuredatalakestore.net/t"),
    ("https://host/t", "https://host2/t"),
    ("https://host/t", "http://host/t"),
    ("https://host/t", "https://host:444/t"),
    ("http://127.0.0.1:80/t", "http://localhost:80/t"),
    ("sftp://host/t", "sftp://host:23/t"),
    ("ftp://host/t", "sftp://host/t"),
    ("smb://host/t", "smb://other/t"),
    ("hdfs://node:8020/t", "hdfs://node:8021/t"),
    ("hdfs://node/t", "webhdfs://node/t"),
    ("github://me:repo@main/t", "github://me:other@main/t"),
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
    bases, session, _ = make_bases(make_base(1, "s3://cold/t"), storage_options=options)
    assert place_of(bases) == "s3://cold/t/data/f.lance"
    assert session.opened == [("s3://cold/t", {"key": "L"}, True, True)]
    bases, session, _ = make_bases(make_base(1, "s3://cold/t"), storage_options=options, untrusted=True)
    with pytest.raises(PathPolicyError, match="untrusted"):
        place_of(bases)
    assert session.opened == []


SIGNED = {"key": "K", "secret": "S", "token": "T"}


@folded(
    ("root", "own"),
    [
        (SIGNED, {"key": "L", "secret": "M"}),
        (SIGNED, {"anon": True}),
        (SIGNED, {"profile": "other"}),
        (SIGNED, {"aws_skip_signature": "true"}),
        ({"anon": True}, {"key": "L", "secret": "M"}),
        ({"skip_signature": "true"}, {"key": "L", "secret": "M"}),
        ({"profile": "mine"}, {"key": "L", "secret": "M"}),
    ],
)
def test_a_base_with_a_login_of_its_own_gets_nothing_of_the_roots(
    root: dict[str, Any], own: dict[str, Any]
) -> None:
    where = {"endpoint_url": "E", "region": "R"}
    options = {**root, **where, **{f"base_1.{name}": value for name, value in own.items()}}
    bases, session, _ = make_bases(make_base(1, "s3://cold/t"), root="s3://hot/t", storage_options=options)
    assert place_of(bases) == "s3://cold/t/data/f.lance"
    ((_, given, _, _),) = session.opened
    assert given == {**where, **own}


def test_a_base_with_an_endpoint_of_its_own_keeps_the_roots_login() -> None:
    options = {**SIGNED, "endpoint_url": "E", "base_1.endpoint_url": "F"}
    bases, session, _ = make_bases(make_base(1, "s3://cold/t"), root="s3://hot/t", storage_options=options)
    place_of(bases)
    assert [given for _, given, _, _ in session.opened] == [{**SIGNED, "endpoint_url": "F"}]


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


@pytest.mark.parametrize("untrusted", [False, True])
def test_bases_without_their_flag_are_refused(untrusted: bool) -> None:
    bases, session, _ = make_bases(
        make_base(1, "/other"), is_flagged=False, untrusted=untrusted, allowed_bases=["/"]
    )
    with pytest.raises(PathPolicyError, match="lacks the feature flag"):
        place_of(bases)
    assert place_of(bases, None) == "/tables/t/data/f.lance"
    assert session.opened == []


@folded(
    ("path", "place"),
    [
        ("side", "{}/side"),
        ("side/", "{}/side"),
        ("./a/../side", "{}/side"),
        ("../side", "{}/../side"),
        ("my side%20", "{}/my side%20"),
        ("~/side", "~/side"),
    ],
)
@folded("is_root", [False, True])
def test_relative_base_of_a_trusted_local_table_is_below_the_working_directory(
    path: str, place: str, is_root: bool
) -> None:
    expected = os.path.abspath(os.path.expanduser(place.format(Path.cwd())))
    bases, session, _ = make_bases(make_base(1, path, is_dataset_root=is_root))
    with pytest.warns(RuntimeWarning, match=r"relocate_base gives the base an absolute path"):
        found = place_of(bases)
    assert found == f"{expected}/{'data/' if is_root else ''}f.lance"
    assert [uri for uri, *_ in session.opened] == [expected]
    with warnings.catch_warnings(action="error"):
        bases.deletion(3, make_deletion_file(base_id=1))
        assert not bases.is_mapped


def test_one_text_is_not_a_list_of_prefixes() -> None:
    with pytest.raises(TypeError, match="allowed_bases is a list"):
        TableLocation.of("/tables/t", allowed_bases="/mnt")


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
        location = TableLocation.of(store.uri, **policy)
        return Bases(store, location, BasePaths({base.id: base for base in bases}), Session()).is_mapped

    local = make_base(1, str(tmp_path / "other"))
    assert is_mapped(root)
    assert is_mapped(root, local)
    assert not is_mapped(root, local, make_base(2, "s3://lake/t"))
    with pytest.warns(RuntimeWarning, match="from the working directory"):
        assert is_mapped(root, local, make_base(2, "relative"))
    assert not is_mapped(root, local, make_base(2, "relative"), untrusted=True)
    assert not is_mapped(root, local, make_base(2, "C:/x"))
    assert not is_mapped(root, local, untrusted=True)
    assert not is_mapped(MemoryStore(), local)
