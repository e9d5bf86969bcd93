"""DynamoDB as a key-value store of manifests: its contract on a real server, errors, secrets."""

from __future__ import annotations

import errno
import pickle
import uuid
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

from lancecy.errors import StoreError, UnsupportedError
from lancecy.store.key_values import ManifestItem
from lancecy.store.key_values.dynamodb import DynamoKeyValue
from tests.contracts.key_values import KeyValueContract, final, staged
from tests.helpers.dynamodb import DynamoTable
from tests.helpers.s3 import SECRET, S3Server

pytestmark = pytest.mark.s3


@pytest.fixture
def dynamo(s3_server: S3Server) -> DynamoTable:
    return DynamoTable(s3_server, f"manifests-{uuid.uuid4().hex}")


@pytest.fixture
def items(dynamo: DynamoTable, monkeypatch: pytest.MonkeyPatch) -> DynamoKeyValue:
    # A pickle carries no secret, so the login of its copy is that of the environment.
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    return DynamoKeyValue(dynamo.name, dynamo.options)


class TestDynamoKeyValue(KeyValueContract):
    @pytest.fixture
    def items(self, items: DynamoKeyValue) -> DynamoKeyValue:
        return items


def _won(arguments: tuple[bytes, int, int]) -> bool:
    pickled, version, writer = arguments
    items: DynamoKeyValue = pickle.loads(pickled)
    return items.put_if_absent("t", version, staged(version, writer))


@pytest.mark.slow
def test_one_of_many_processes_puts_each_item(items: DynamoKeyValue) -> None:
    sent = pickle.dumps(items)
    asked = [(sent, version, writer) for version in range(1, 9) for writer in range(4)]
    with ProcessPoolExecutor(4, get_context("spawn")) as pool:
        won = list(pool.map(_won, asked))
    for version in range(1, 9):
        of_version = won[(version - 1) * 4 : version * 4]
        assert of_version.count(True) == 1
        assert items.get("t", version) == staged(version, of_version.index(True))


def test_items_are_those_of_the_reference(items: DynamoKeyValue, dynamo: DynamoTable) -> None:
    items.put_if_absent("dir/t", 3, final(3, 12))
    assert dynamo.items("dir/t")[3] == {
        "base_uri": {"S": "dir/t"},
        "version": {"N": "3"},
        "path": {"S": f"dir/t/{final(3).path}"},
        "size": {"N": "12"},
        "committer": {"S": "lancedb"},
    }


def test_attributes_of_older_writers_are_read(items: DynamoKeyValue, dynamo: DynamoTable) -> None:
    dynamo.put({
        "base_uri": {"S": "t"}, "version": {"N": "3"}, "path": {"S": f"t/{final(3).path}"}, "e_tag": {"S": '"ab"'},
        "committer": {"S": "somebody"},
    })  # fmt: skip
    assert items.get("t", 3) == final(3, None)
    dynamo.put({"base_uri": {"S": "t"}, "version": {"N": "4"}, "path": {"S": "elsewhere/4.manifest"}})
    assert items.latest("t") == (4, ManifestItem("elsewhere/4.manifest"))


def test_many_items_are_read_page_by_page(items: DynamoKeyValue, monkeypatch: pytest.MonkeyPatch) -> None:
    for version in range(1, 8):
        items.put_if_absent("t", version, final(version))
    whole = items._query
    monkeypatch.setattr(items, "_query", lambda *given, **further: whole(*given, **further, Limit=3))
    assert items.above("t", 1) == [(version, final(version)) for version in range(2, 8)]


def test_missing_table_is_an_error_that_names_it(dynamo: DynamoTable) -> None:
    with pytest.raises(StoreError, match="DynamoDB table 'not-there'.*ResourceNotFound") as caught:
        DynamoKeyValue("not-there", dynamo.options).latest("t")
    assert caught.value.errno == errno.EACCES


def test_table_with_other_keys_is_refused(dynamo: DynamoTable) -> None:
    dynamo.client.create_table(
        TableName="other-keys",
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        BillingMode="PAY_PER_REQUEST",
    )
    with pytest.raises(UnsupportedError, match=r"base_uri \(S\) as HASH, version \(N\) as RANGE"):
        DynamoKeyValue("other-keys", dynamo.options).get("t", 1)


def test_no_secret_is_shown_or_pickled(dynamo: DynamoTable) -> None:
    items = DynamoKeyValue("not-there", {**dynamo.options, "session_token": "t0ken-of-the-user"})
    with pytest.raises(StoreError) as caught:
        items.get("t", 1)
    shown = f"{items!r} {caught.value} {pickle.dumps(items)!r} {pickle.dumps(caught.value)!r}"
    assert SECRET not in shown and "t0ken-of-the-user" not in shown


def test_server_that_does_not_answer_is_an_error(dynamo: DynamoTable) -> None:
    with pytest.raises(StoreError, match="DynamoDB table 'manifests'"):
        DynamoKeyValue("manifests", {**dynamo.options, "dynamodb_endpoint": "http://127.0.0.1:9"}).get("t", 1)


def test_endpoint_and_login_have_the_names_of_both_libraries(
    items: DynamoKeyValue, dynamo: DynamoTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    items.put_if_absent("t", 1, final(1))
    endpoint = dynamo.server.endpoint
    for options in (
        {"key": "test", "secret": SECRET, "client_kwargs": {"region_name": "us-east-1"}, "dynamodb_endpoint": endpoint},
        {"aws_access_key_id": "test", "AWS_SECRET_ACCESS_KEY": SECRET, "aws_region": "us-east-1",
         "aws_dynamodb_endpoint": endpoint},
        {"dynamodb_endpoint_url": endpoint},
    ):  # fmt: skip
        assert DynamoKeyValue(dynamo.name, options).get("t", 1) == final(1)
    monkeypatch.setenv("DYNAMODB_ENDPOINT", endpoint)
    assert DynamoKeyValue(dynamo.name, {}).get("t", 1) == final(1)
