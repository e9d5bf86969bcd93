"""Requests to a real S3 server for opening by tag."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest
from s3fs import S3FileSystem

import lancecy
from lancecy import errors
from lancecy.limits import Limits
from tests.helpers.s3 import S3Server

pytestmark = pytest.mark.s3


@pytest.fixture
def ds(s3_server: S3Server) -> lancecy.Dataset:
    root = f"{s3_server.make_bucket('refs')}/{uuid.uuid4().hex}"
    ds = lancecy.write_dataset({"a": [1]}, root, storage_options=s3_server.storage_options)
    ds.append({"a": [2]})
    ds.tags.create("first", 1)
    return ds


def requests(call: Callable[[], Any]) -> list[str]:
    """The names of the requests that a call makes."""
    made: list[str] = []
    send = S3FileSystem._call_s3

    async def counted(self: Any, method: str, *given: Any, **options: Any) -> Any:
        made.append(method)
        return await send(self, method, *given, **options)

    with patch.object(S3FileSystem, "_call_s3", counted):
        call()
    return made


def test_a_tag_costs_one_request(ds: lancecy.Dataset, s3_server: S3Server) -> None:
    options = s3_server.storage_options

    def opened(version: Any) -> list[str]:
        return requests(
            lambda: lancecy.dataset(ds.uri, version, storage_options=options, session=lancecy.Session())
        )

    assert sorted(opened("first")) == sorted([*opened(1), "get_object"])
    assert sorted(requests(lambda: ds.checkout_version("first"))) == sorted(opened("first"))
    assert requests(lambda: ds.tags.get_version("first")) == ["get_object"]


def test_a_tag_costs_two_requests_at_the_address_of_a_branch(
    ds: lancecy.Dataset, s3_server: S3Server
) -> None:
    ds.create_branch("team/test", 1)
    ds.tags.create("tried", ("team/test", 1))

    def opened(version: Any) -> list[str]:
        branch = f"{ds.uri}/tree/team/test"
        return requests(
            lambda: lancecy.dataset(
                branch, version, storage_options=s3_server.storage_options, session=lancecy.Session()
            )
        )

    by_number = opened(1)
    for tag in ("first", "tried"):
        assert len(opened(tag)) == len(by_number) + 2


def test_of_two_creators_on_s3_one_wins(ds: lancecy.Dataset, s3_server: S3Server) -> None:
    other = lancecy.dataset(ds.uri, storage_options=s3_server.storage_options)
    other.tags.create("v1", 2)
    with pytest.raises(errors.RefExistsError):
        ds.tags.create("v1", 1)
    assert ds.tags.get_version("v1") == 2
    ds.tags.update("v1", 1)
    assert other.checkout_version("v1").count_rows() == 1
    ds.tags.delete("v1")
    assert list(other.tags.list()) == ["first"]


def test_a_tag_on_s3_is_read_up_to_the_limit(ds: lancecy.Dataset, s3_server: S3Server) -> None:
    location = ds.location
    location.open(lancecy.Session()).put("_refs/tags/bad.json", b" " * 200_000)
    limited = lancecy.dataset(
        ds.uri, storage_options=s3_server.storage_options, limits=Limits(metadata_bytes=100_000)
    )
    with pytest.raises(errors.LimitError, match=r"bad.json of 100001 is beyond the limit of 100000"):
        limited.tags.get_version("bad")
    assert limited.tags.get_version("first") == 1
