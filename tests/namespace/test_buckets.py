"""Namespaces of V1 and V2 in a bucket of an S3 server."""

from __future__ import annotations

import uuid
from typing import Any

import lance_namespace as ln
import pytest

import lancecy
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
from tests.helpers.s3 import SECRET, S3Server

pytestmark = [pytest.mark.s3, pytest.mark.interop]


@pytest.fixture
def root(s3_server: S3Server) -> str:
    return f"{s3_server.make_bucket('namespaces')}/{uuid.uuid4().hex}"


def options(server: S3Server) -> dict[str, str]:
    """Names that both libraries take."""
    return {
        "storage.aws_endpoint": server.endpoint,
        "storage.aws_access_key_id": "test",
        "storage.aws_secret_access_key": SECRET,
        "storage.aws_region": "us-east-1",
        "storage.allow_http": "true",
    }


def rows_at(ns: Any, name: str) -> int:
    place = describe(ns, name).location
    return lancecy.dataset(place, storage_options=ns.storage_options).count_rows()


def test_v1_in_a_bucket(root: str, s3_server: S3Server) -> None:
    given = options(s3_server)
    ns = ours(root, manifest_enabled="false", **given)
    assert tables(ns) == []
    create(ns, "b")
    create(ns, "a")
    declare(ns, "later")
    with pytest.raises(ln.TableAlreadyExistsError):
        create(ns, "a")
    assert (tables(ns), tables(ns, include_declared=False)) == (["a", "b", "later"], ["a", "b"])
    assert tables(ns, limit=1) == ["a"]
    assert describe(ns, "a").location == f"{root}/a.lance"
    assert rows_at(ns, "a") == 3
    drop(ns, "a")
    deregister(ns, "b")
    with pytest.raises(ln.TableNotFoundError):
        drop(ns, "a")
    other = theirs(root, **MODES["directory only"], **given)
    assert tables(ns) == tables(other) == ["later"]


def test_v2_in_a_bucket(root: str, s3_server: S3Server) -> None:
    given = options(s3_server)
    ns = ours(root, **given)
    make(ns, "n", properties={"k": "v"})
    make(ns, "n.m")
    create(ns, "n.t", properties={"p": "q"})
    create(ns, "top")
    for name in ("n.t", "top"):
        with pytest.raises(ln.TableAlreadyExistsError):
            create(ns, name)
    other = theirs(root, **MODES["migrating"], **given)
    for one in (ns, other):
        assert (namespaces(one), namespaces(one, "n")) == (["n"], ["m"])
        assert (tables(one), tables(one, "n")) == (["top"], ["t"])
        assert describe(one, "n.t").properties == {"p": "q"}
    rename(ns, "n.t", "u", ["n", "m"])
    rename(ns, "top", "other")
    assert (exists(ns, "n.t"), exists(ns, "top"), tables(ns), tables(other)) == (
        False,
        False,
        ["other"],
        ["other"],
    )
    assert rows_at(ns, "n.m.u") == rows_at(ns, "other") == 3
    with pytest.raises(ln.NamespaceNotEmptyError):
        remove(ns, "n.m")
    drop(ns, "n.m.u")
    drop(ns, "other")
    remove(ns, "n.m")
    assert (namespaces(other, "n"), tables(other), ns.remove_unused(dry_run=True)) == ([], [], [])

    place = f"{root}/old.lance"
    lancecy.write_dataset({"a": [1]}, place, storage_options=ns.storage_options)
    assert (tables(ns), ns.migrate(dry_run=True).tables, ns.migrate().tables) == (["old"], ["old"], ["old"])
    only = ours(root, **MODES["manifest only"], **given)
    assert (tables(only), rows_at(only, "old")) == (["old"], 1)
    assert ns.migrate_back().tables == ["old"]
    assert (tables(only), tables(ns)) == ([], ["old"])
