"""Commits to a bucket: conditional puts of a real server, and several writers at once."""

from __future__ import annotations

import threading
import uuid

import pytest

from lancecy.errors import ExistsError
from lancecy.session import Session
from lancecy.store.base import Store
from lancecy.store.uri import open_store
from lancecy.table.commit.driver import commit_to
from lancecy.table.commit.options import Origin
from lancecy.table.location import TableLocation
from lancecy.table.manifest import DataFile, Fragment
from lancecy.table.operations import Append, Overwrite, new_transaction
from lancecy.table.versions.locate import latest, locations, read
from tests.helpers.builders import make_schema
from tests.helpers.s3 import S3Server

pytestmark = pytest.mark.s3


def _fragment(store: Store) -> Fragment:
    path, schema = f"{uuid.uuid4().hex}.lance", make_schema()
    store.put(f"data/{path}", bytes(20))
    ids = tuple(field.id for top in schema.fields for field in top.walk())
    return Fragment(0, (DataFile(path, ids, ids, 2, 1, 20),), physical_rows=3)


def test_appends_of_several_writers_are_all_in_the_bucket(s3_server: S3Server) -> None:
    root = s3_server.make_bucket("commits") + f"/{uuid.uuid4().hex}"
    store = open_store(root, s3_server.storage_options)
    creation = new_transaction(Overwrite((_fragment(store),), make_schema(), data_version="2.1"))
    commit_to(store, creation, None, Session(), TableLocation(store.uri))
    again = new_transaction(Overwrite((), make_schema(), data_version="2.1"))
    with pytest.raises(ExistsError):
        commit_to(store, again, None, Session(), TableLocation(store.uri))
    acked: list[int] = []

    def work() -> None:
        for _ in range(4):
            location = latest(store)
            transaction = new_transaction(Append((_fragment(store),)), location.version)
            origin = Origin(location.version, location.naming)
            acked.append(commit_to(store, transaction, origin, Session(), TableLocation(store.uri)).version)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(acked) == list(range(2, 14))
    manifest, _ = read(store, locations(store)[0])
    assert [fragment.id for fragment in manifest.fragments] == list(range(13))
    assert not [meta.path for meta in store.list("_versions") if "probe" in meta.path]
