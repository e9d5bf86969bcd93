"""Namespaces of V1 and V2 in buckets of S3, Google Cloud Storage and Azure."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

import lance
import lance_namespace as ln
import pytest

import lancecy
from lancecy.store.uri import open_store
from tests.helpers.counting_proxy import start_proxy
from tests.helpers.namespaces import (
    MODES,
    create,
    declare,
    deregister,
    describe,
    drop,
    exists,
    make,
    namespaces,
    ours,
    remove,
    rename,
    tables,
    theirs,
)
from tests.helpers.object_stores import ACCOUNT, ACCOUNT_KEY, AzureServer, GcsServer
from tests.helpers.s3 import SECRET, S3Server

pytestmark = [pytest.mark.s3, pytest.mark.interop]

SERVERS = {"S3": "s3_server", "Google": "gcs_server", "Azure": "azure_server"}


@dataclass(frozen=True)
class Bucket:
    """An empty root on an object store, and the properties to log in, which both libraries take."""

    root: str
    login: dict[str, str]
    # pylance lists Google's buckets with the XML interface, which no emulator on a registry has.
    has_pylance: bool = True

    def ours(self, **properties: str) -> Any:
        return ours(self.root, **properties, **self.login)

    def theirs(self, mode: str) -> list[Any]:
        """pylance's namespace, if it can open this root."""
        return [theirs(self.root, **MODES[mode], **self.login)] if self.has_pylance else []


def login_of(server: Any) -> dict[str, str]:
    if isinstance(server, GcsServer):
        return {"google_base_url": server.endpoint, "google_skip_signature": "true"}
    http = {"allow_http": "true"}
    if isinstance(server, AzureServer):
        account = {"azure_storage_account_name": ACCOUNT, "azure_storage_account_key": ACCOUNT_KEY}
        return {**account, "azure_storage_endpoint": f"{server.endpoint}/{ACCOUNT}", **http}
    key = {"aws_access_key_id": "test", "aws_secret_access_key": SECRET, "aws_region": "us-east-1"}
    return {**key, "aws_endpoint": server.endpoint, **http}


@pytest.fixture(params=SERVERS.values(), ids=list(SERVERS))
def bucket(request: pytest.FixtureRequest) -> Bucket:
    server = request.getfixturevalue(request.param)
    login = {f"storage.{name}": value for name, value in login_of(server).items()}
    root = f"{server.make_bucket('namespaces')}/{uuid.uuid4().hex}"
    return Bucket(root, login, not isinstance(server, GcsServer))


def rows_at(ns: Any, name: str) -> int:
    place = describe(ns, name).location
    return lancecy.dataset(place, storage_options=ns.storage_options).count_rows()


def test_v1_in_a_bucket(bucket: Bucket) -> None:
    ns = bucket.ours(manifest_enabled="false")
    assert tables(ns) == []
    create(ns, "b")
    create(ns, "a")
    declare(ns, "later")
    with pytest.raises(ln.TableAlreadyExistsError):
        create(ns, "a")
    assert (tables(ns), tables(ns, include_declared=False)) == (["a", "b", "later"], ["a", "b"])
    assert tables(ns, limit=1) == ["a"]
    assert describe(ns, "a").location == f"{bucket.root}/a.lance"
    assert rows_at(ns, "a") == 3
    drop(ns, "a")
    deregister(ns, "b")
    with pytest.raises(ln.TableNotFoundError):
        drop(ns, "a")
    for one in (ns, *bucket.theirs("directory only")):
        assert tables(one) == ["later"]


def test_v2_in_a_bucket(bucket: Bucket) -> None:
    ns = bucket.ours()
    make(ns, "n", properties={"k": "v"})
    make(ns, "n.m")
    create(ns, "n.t", properties={"p": "q"})
    create(ns, "top")
    for name in ("n.t", "top"):
        with pytest.raises(ln.TableAlreadyExistsError):
            create(ns, name)
    both = [ns, *bucket.theirs("migrating")]
    for one in both:
        assert (namespaces(one), namespaces(one, "n")) == (["n"], ["m"])
        assert (tables(one), tables(one, "n")) == (["top"], ["t"])
        assert describe(one, "n.t").properties == {"p": "q"}
    rename(ns, "n.t", "u", ["n", "m"])
    rename(ns, "top", "other")
    assert not exists(ns, "n.t") and not exists(ns, "top")
    assert [tables(one) for one in both] == [["other"]] * len(both)
    assert rows_at(ns, "n.m.u") == rows_at(ns, "other") == 3
    with pytest.raises(ln.NamespaceNotEmptyError):
        remove(ns, "n.m")
    drop(ns, "n.m.u")
    drop(ns, "other")
    remove(ns, "n.m")
    assert [(namespaces(one, "n"), tables(one)) for one in both] == [([], [])] * len(both)
    assert ns.remove_unused(dry_run=True) == []

    place = f"{bucket.root}/old.lance"
    lancecy.write_dataset({"a": [1]}, place, storage_options=ns.storage_options)
    assert (tables(ns), ns.migrate(dry_run=True).tables, ns.migrate().tables) == (["old"], ["old"], ["old"])
    only = bucket.ours(**MODES["manifest only"])
    assert (tables(only), rows_at(only, "old")) == (["old"], 1)
    assert ns.migrate_back().tables == ["old"]
    assert (tables(only), tables(ns)) == ([], ["old"])


def test_of_several_creators_in_a_bucket_one_wins(bucket: Bucket) -> None:
    ns = bucket.ours()
    make(ns, "n")
    # A namespace object each, as processes have.
    racing = [bucket.ours() for _ in range(3)]
    steps: list[Callable[[Any], Any]] = [
        lambda one: make(one, "m"),
        lambda one: create(one, "top"),
        lambda one: create(one, "n.t"),
        lambda one: declare(one, "n.later"),
    ]

    def wins(step: Callable[[Any], Any], one: Any) -> bool:
        try:
            step(one)
        except (ln.TableAlreadyExistsError, ln.NamespaceAlreadyExistsError):
            return False
        return True

    with ThreadPoolExecutor(len(racing)) as threads:
        for step in steps:
            assert sum(threads.map(partial(wins, step), racing)) == 1
    assert (namespaces(ns), tables(ns), tables(ns, "n")) == (["m", "n"], ["top"], ["later", "t"])
    assert rows_at(ns, "top") == rows_at(ns, "n.t") == 3
    assert ns.remove_unused(older_than=timedelta(0), dry_run=True) == []


def test_what_others_do_in_a_bucket_is_seen(bucket: Bucket) -> None:
    """Also if the catalog was removed and made again, with as many versions."""
    ns, other = bucket.ours(), bucket.ours()
    assert namespaces(ns) == []
    make(ns, "a")
    assert namespaces(other) == namespaces(ns) == ["a"]
    make(other, "b")
    assert namespaces(ns) == ["a", "b"]
    store = open_store(bucket.root, ns.storage_options)
    store.delete([meta.path for meta in store.list("")])
    assert namespaces(ns) == []
    make(other, "c")
    make(other, "d")
    assert namespaces(ns) == ["c", "d"]


# Requests of operations on a catalog of a few tables. One listing of its versions tells whether it changed.
MOST_REQUESTS: dict[str, tuple[Callable[[Any], Any], int]] = {
    "create a namespace": (lambda ns: make(ns, "m"), 7),
    "create a table": (lambda ns: create(ns, "n.u"), 13),
    "create a root table": (lambda ns: create(ns, "top"), 18),
    "table exists": (lambda ns: exists(ns, "n.u"), 1),
    "table is missing": (lambda ns: exists(ns, "n.none"), 1),
    "describe": (lambda ns: describe(ns, "n.u"), 1),
    "list": (lambda ns: tables(ns, "n"), 1),
    "list the root": (tables, 2),
    "list namespaces": (namespaces, 1),
    "drop a table": (lambda ns: drop(ns, "n.u"), 9),
    "drop a root table": (lambda ns: drop(ns, "top"), 13),
    "drop a namespace": (lambda ns: remove(ns, "m"), 6),
}


@pytest.mark.parametrize("name", ["two words", "häuser", "50%", "what?", "c#", "x%20y"])
def test_table_of_any_name_is_written_and_read_through_the_namespace_of_pylance(
    bucket: Bucket, name: str
) -> None:
    """It gives URLs, whose paths are percent-encoded; lancecy wrote to a folder of that name."""
    login = {key.removeprefix("storage."): value for key, value in bucket.login.items()}
    for ns in bucket.theirs("manifest only"):
        lancecy.write_dataset({"a": [1]}, namespace=ns, table_id=[name], storage_options=login)
        lancecy.write_dataset({"a": [2]}, mode="append", namespace=ns, table_id=[name], storage_options=login)
        found = lance.dataset(namespace_client=ns, table_id=[name], storage_options=login)
        assert found.to_table()["a"].to_pylist() == [1, 2]
        assert lancecy.dataset(namespace=ns, table_id=[name], storage_options=login).count_rows() == 2
        assert lancecy.dataset(namespace=bucket.ours(), table_id=[name]).count_rows() == 2


def test_operations_make_no_more_requests_than_those_of_pylance(s3_server: S3Server) -> None:
    s3_server.make_bucket("requests")
    with start_proxy(s3_server.endpoint) as proxy:
        login = {**login_of(s3_server), "aws_endpoint": proxy.endpoint}
        found = []
        for connect in (ours, theirs):
            ns = connect(
                f"s3://requests/{uuid.uuid4().hex}", **{f"storage.{name}": one for name, one in login.items()}
            )
            make(ns, "n")
            create(ns, "n.t")
            counts = {}
            for name, (operation, _) in MOST_REQUESTS.items():
                proxy.traffic()
                operation(ns)
                counts[name] = len(proxy.traffic().lines)
            found.append(counts)
    mine, others = found
    assert all(mine[name] <= min(most, others[name]) for name, (_, most) in MOST_REQUESTS.items()), found
