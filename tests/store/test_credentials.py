"""Secrets are shown nowhere, sent nowhere, and used only where they were given for."""

from __future__ import annotations

import copy
import io
import logging
import pickle
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from lancecy.errors import LanceError, StoreError
from lancecy.session import Session
from lancecy.store.azure import for_adlfs
from lancecy.store.credentials import CredentialMemory, freeze, has_secrets, redact, secret_texts
from lancecy.store.failure import mask_secrets
from lancecy.store.fsspec import FsspecStore
from lancecy.store.services import for_fsspec
from lancecy.store.uri import open_store
from tests.helpers.object_stores import ACCOUNT, AzureServer

SECRET = "sEcReT-VaLuE-123"
KEPT: dict[str, Any] = {
    "anon": False,
    "profile": "work",
    "endpoint_url": "http://h:9000",
    "client_kwargs": {"region_name": "eu-west-1", "endpoint_url": "http://h"},
    "use_ssl": True,
    "max_concurrency": 4,
    "timeout": 1.5,
    "account_name": "acct",
    "project": "p",
    "username": "me",
    "token": "anon",
    "requester_pays": None,
    "lists": [1, "two", ["three"]],
    "secret": None,
    "sse_kms_key_id": "arn:aws:kms:1:2:key/3",
    "pairs": [["one", 1], ("two", "2")],
    "headers": {"User-Agent": "me", "accept": "*/*"},
}
SECRETS: list[dict[str, Any]] = [
    {name: SECRET}
    for name in (
        "key", "secret", "token", "password", "Password", "passwd", "SESSION_TOKEN", "aws_secret_access_key",
        "aws_access_key_id", "access_key", "account_key", "accountKey", "connection_string", "sas_token", "sas",
        "credential", "credentials", "private_key", "api_key", "api-key", "passphrase", "oauth_token", "auth",
        "Authorization", "google_service_account_key_json_credentials", "client_secret", "base_1.secret",
        "azure_storage_sas_key", "bearer_token", "pw", "session_cookie", "bearer", "pat", "jwt", "ssl_key",
        "SSECustomerKey", "aws_sse_customer_key_base64", "key_content", "http_auth", "header",
        "replica_1.pat", "base_1.replica_2.pwd", "base_1.pass", "base_12.pat", "base_1.pwd", "base_1.pw", "base_1.sas_url", "base_1.headers",
    )
] + [
    {"client_kwargs": {"aws_session_token": SECRET}},
    {"credentials": {"anything": {"at": [SECRET]}}},
    {"s3": {"key": "AK", "secret": SECRET}},
    {"list": [{"password": SECRET}]},
    {"endpoint_url": f"http://user:{SECRET}@proxy:3128"},
    {"proxies": [f"https://{SECRET}@proxy"]},
    {"url": f"https://account.blob/?sv=1&sig={SECRET}"},
    {"text": f"AccountName=a;AccountKey={SECRET};x"},
    {"secret": SECRET.encode()},
    {"s3_additional_kwargs": {"SSECustomerAlgorithm": "AES256", "SSECustomerKey": SECRET}},
    {"client_kwargs": {"headers": [("Authorization", f"Bearer {SECRET}")]}},
    {"client_kwargs": {"headers": [["Accept", "*/*"], ["X-Anything", SECRET]]}},
    {"client_kwargs": {"headers": {"User-Agent": "me", "X-Anything": SECRET}}},
    {"client_kwargs": {"headers": [f"X-Anything: {SECRET}", "a", "b"]}},
    {"http_auth": ("me", SECRET)},
    {"endpoint_url": f"https://h/?access_token={SECRET}"},
]  # fmt: skip


@pytest.mark.parametrize("options", SECRETS, ids=lambda options: next(iter(options)))
def test_secrets_are_taken_out(options: dict[str, Any]) -> None:
    before = copy.deepcopy(options)
    cleaned = redact({**KEPT, **options})
    assert SECRET not in repr(cleaned)
    assert has_secrets({**KEPT, **options})
    assert SECRET in secret_texts({**KEPT, **options})
    assert not has_secrets(cleaned)
    assert redact(cleaned) == cleaned
    assert options == before


def test_everything_else_stays() -> None:
    assert redact(KEPT) == KEPT
    assert not has_secrets(KEPT)
    assert secret_texts(KEPT) == frozenset()
    assert redact(None) == {}
    assert not has_secrets(None)


def test_only_plain_data_stays() -> None:
    assert redact({"session": object(), "anon": True, "hook": print}) == {"anon": True}
    assert has_secrets({"session": object()})


def test_frozen_options_are_equal_for_equal_options() -> None:
    first = {"a": 1, "b": {"c": [1, 2], "d": None}}
    assert freeze(first) == freeze({"b": {"d": None, "c": [1, 2]}, "a": 1})
    assert hash(freeze(first)) == hash(freeze(copy.deepcopy(first)))
    assert freeze(first) != freeze({"a": 1, "b": {"c": [1, 3], "d": None}})
    assert len({freeze({"x": bytearray(b"unhashable")}), freeze({"x": "text"})}) == 2


class TellTale(MemoryFileSystem):  # type: ignore[misc]
    """A file system whose every error quotes all it knows."""

    protocol = "telltale"
    cachable = False

    def __init__(self, secret: str = "", **options: Any) -> None:
        super().__init__(**options)
        self.secret = secret

    def _fail(self, *_: object, **__: object) -> Any:
        try:
            raise RuntimeError(f"request signed with {self.secret}")
        except RuntimeError as error:
            raise OSError(f"403 for https://h/?X-Amz-Security-Token={self.secret}") from error

    info = cat_file = find = pipe_file = cp_file = rm_file = cat_ranges = put_file = exists = _fail


fsspec.register_implementation("telltale", TellTale, clobber=True)

REQUESTS: dict[str, Callable[[FsspecStore], object]] = {
    "head": lambda store: store.head("a"),
    "get": lambda store: store.get("a"),
    "range": lambda store: store.get("a", 3, 5),
    "many": lambda store: store.get_many("a", [1, 2], [2, 3]),
    "list": lambda store: list(store.list("")),
    "put": lambda store: store.put("a", b"x"),
    "delete": lambda store: store.delete(["a"]),
    "rename": lambda store: store.rename("a", "b"),
}


def stores() -> list[FsspecStore]:
    return [
        FsspecStore("telltale://bucket/t", {"secret": SECRET}),
        FsspecStore("bucket/t", fs=TellTale(SECRET)),
        FsspecStore("bucket/t", fs=TellTale(secret=SECRET)),
        FsspecStore("t", fs=fsspec.filesystem("dir", path="bucket", fs=TellTale(secret=SECRET))),
    ]


@pytest.mark.parametrize("index", range(4))
@pytest.mark.parametrize("request_name", REQUESTS)
def test_secrets_do_not_show_in_errors(
    request_name: str, index: int, caplog: pytest.LogCaptureFixture
) -> None:
    store = stores()[index]
    with caplog.at_level(logging.DEBUG), pytest.raises(LanceError) as caught:
        REQUESTS[request_name](store)
    shown = io.StringIO()
    traceback.print_exception(caught.value, file=shown)
    assert "403" in str(caught.value)
    for text in (
        str(caught.value),
        repr(caught.value),
        shown.getvalue(),
        caplog.text,
        str(vars(caught.value)),
    ):
        assert SECRET not in text
    assert SECRET.encode() not in pickle.dumps(caught.value)
    # Dask pickles what an error was raised in the context of, too.
    assert SECRET not in f"{caught.value.__context__!r}"


@pytest.mark.s3
def test_addresses_with_a_signature_are_not_pickled_with_an_error(azure_server: AzureServer) -> None:
    """Dask pickles what an error was raised from, too, and Azure's error has the request."""
    options = {
        "account_name": ACCOUNT,
        "endpoint": f"{azure_server.endpoint}/{ACCOUNT}",
        "sas_token": f"sv=2020-01-01&sig={SECRET}",
    }
    with pytest.raises(StoreError, match="authenticate") as caught:
        list(open_store("az://container/t", options).list("a"))
    cause: Any = caught.value.__cause__
    cause.exc_traceback = None  # Dask's pickles hold tracebacks, without the values in their frames
    assert SECRET.encode() not in pickle.dumps(cause)


def test_a_token_is_masked_where_it_is_a_part_of_an_address() -> None:
    assert (
        mask_secrets("at /info?token=a%2Fb%2Bc%3D", secret_texts({"token": "a/b+c="})) == "at /info?token=***"
    )


def test_a_key_file_that_is_not_there_is_not_sent_as_a_token() -> None:
    for name in ("google_service_account", "application_credentials", "token"):
        with pytest.raises(StoreError, match="no key file where service_account"):
            open_store("gs://bucket/t", {name: "/none/key.json"}).head("a")


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("{abc", "the key in service_account, application_credentials or token is not JSON"),
        (
            '{"type": "service_account"}',
            "is not that of a service account: .* missing fields .*token_uri",
        ),
        ('{"type": "authorized_user", "client_id": "me"}', "lacks client_secret, refresh_token"),
        ('{"type": "external_account"}', "is of type 'external_account' .* leave the option out"),
        (
            '{"client_email": "me", "token_uri": "u", "private_key": "secret-key"}',
            "not that of a service account",
        ),
    ],
)
def test_a_wrong_key_of_google_is_told_by_its_option(tmp_path: Path, key: str, message: str) -> None:
    file = tmp_path / "key.json"
    file.write_text(key)
    for given in (key, str(file)):
        wanted = "key file that .* is not JSON" if key == "{abc" and given != key else message
        with pytest.raises(StoreError, match=wanted) as caught:
            open_store("gs://bucket/t", {"google_service_account_key": given}).head("a")
        assert "secret-key" not in str(caught.value)


@pytest.mark.parametrize("index", range(4))
def test_secrets_do_not_show_in_stores(index: int) -> None:
    store = stores()[index]
    for text in (repr(store), str(store), store.uri, f"{store.traits}"):
        assert SECRET not in text
    pickled = pickle.dumps(store)
    assert SECRET.encode() not in pickled
    again = pickle.loads(pickled)
    assert again.uri == store.uri
    with pytest.raises(LanceError, match="without their secrets"):
        again.get("a")
    assert SECRET.encode() not in pickle.dumps(again)


def test_options_without_secrets_travel() -> None:
    store = FsspecStore("memory://travel/t", {"use_listings_cache": True})
    store.put("a", b"x")
    again = pickle.loads(pickle.dumps(store))
    assert again._options == {"use_listings_cache": True}
    assert again.get("a").tobytes() == b"x"


def test_login_in_a_uri_does_not_show() -> None:
    session = Session()
    store = session.store(f"telltale://me:{SECRET}@host/t")
    for text in (store.uri, repr(store), repr(session)):
        assert SECRET not in text
    assert SECRET.encode() not in pickle.dumps(store) + pickle.dumps(session)


# Where credentials may be used


@pytest.fixture
def memory() -> CredentialMemory:
    memory = CredentialMemory()
    memory.remember("s3://bucket/tables/t", {"key": "k", "secret": SECRET})
    memory.remember("gs://whole-bucket", {"token": SECRET})
    memory.remember("/data/t", {"auto_mkdir": True})
    return memory


@pytest.mark.parametrize(
    ("uri", "found"),
    [
        ("s3://bucket/tables/t", True),
        ("s3://bucket/tables/t/tree/branch", True),
        ("gs://whole-bucket/any/where", True),
        ("/data/t/x", True),
        ("s3://bucket/tables", False),
        ("s3://bucket/tables/t2", False),
        ("s3://bucket/tables/tx/y", False),
        ("s3://bucket", False),
        ("s3://bucket2/tables/t", False),
        ("s3://other/tables/t", False),
        ("gs://bucket/tables/t", False),
        ("gs://whole-bucket-2/x", False),
        ("https://bucket/tables/t", False),
        ("/data", False),
        ("/", False),
    ],
)
def test_options_are_found_below_their_root_only(memory: CredentialMemory, uri: str, found: bool) -> None:
    assert bool(memory.find(uri)) is found


def test_nearest_root_wins(memory: CredentialMemory) -> None:
    memory.remember("s3://bucket", {"key": "whole"})
    assert memory.find("s3://bucket/tables/t/x")["key"] == "k"
    assert memory.find("s3://bucket/tables")["key"] == "whole"


def test_memory_hands_out_copies_and_forgets(memory: CredentialMemory) -> None:
    memory.find("/data/t").clear()
    assert memory.find("/data/t") == {"auto_mkdir": True}
    memory.remember("/data/t", None)
    assert memory.find("/data/t") == {}


def test_memory_is_never_pickled_or_shown(memory: CredentialMemory) -> None:
    assert SECRET not in repr(memory)
    pickled = pickle.dumps(memory)
    assert SECRET.encode() not in pickled
    assert pickle.loads(pickled).find("s3://bucket/tables/t") == {}


def test_session_remembers_by_any_spelling() -> None:
    session = Session()
    session.remember_options("s3a://bucket/t/", {"key": "k"})
    assert session.options_for("s3://bucket/t") == {"key": "k"}
    assert session.options_for("s3://bucket/t/deeper/") == {"key": "k"}
    assert session.options_for("s3://elsewhere/t") == {}
    assert pickle.loads(pickle.dumps(session)).options_for("s3://bucket/t") == {}


def test_store_of_a_root_does_not_pick_up_remembered_options() -> None:
    session = Session()
    session.remember_options("telltale://bucket/t", {"secret": SECRET})
    store = session.store("telltale://bucket/t")
    assert isinstance(store, FsspecStore)
    assert store._options == {}


def test_options_of_pylance_are_known_by_their_names() -> None:
    assert for_fsspec(
        "s3", {"endpoint": "http://h", "endpoint_url": "http://i", "skip_signature": "TRUE"}
    ) == {
        "endpoint_url": "http://i",
        "anon": True,
    }
    given = {"region": "a", "client_kwargs": {"region_name": "b", "verify": False}, "requester_pays": True}
    assert for_fsspec("s3", given) == {
        "client_kwargs": {"region_name": "b", "verify": False},
        "requester_pays": True,
    }
    assert for_fsspec("gs", {"google_application_credentials": "/f", "project": "p"}) == {
        "token": "/f",
        "project": "p",
    }
    assert for_fsspec("abfs", {"azure_storage_account_name": "n", "account_key": "k"}) == {
        "account_name": "n",
        "account_key": "k",
    }
    assert for_fsspec("az", {"azure_storage_sas_key": "s", "azure_endpoint": "http://h/n"}) == {
        "sas_token": "s",
        "endpoint": "http://h/n",
    }
    key = {"google_service_account_key": '{"client_email": "me"}', "allow_http": "true"}
    assert for_fsspec("gs", key) == {"token": {"client_email": "me"}}
    assert for_fsspec("gs", {"google_skip_signature": "true", "google_base_url": "http://h"}) == {
        "token": "anon",
        "endpoint_url": "http://h",
    }
    assert for_fsspec("ftp", {"region": 1}) == {"region": 1}


@pytest.mark.parametrize(("text", "found"), [
    ("AccountName=n;AccountKey=k==", {"account_name": "n", "account_key": "k=="}),
    ("BlobEndpoint=http://h/n/;SharedAccessSignature=s", {"endpoint": "http://h/n", "sas_token": "s"}),
    ("DefaultEndpointsProtocol=http;AccountName=n;EndpointSuffix=cloud",
     {"account_name": "n", "endpoint": "http://n.blob.cloud"}),
])  # fmt: skip
def test_connection_string_is_taken_apart(text: str, found: dict[str, str]) -> None:
    assert for_fsspec("az", {"connection_string": text}) == found


def test_pickled_store_of_an_azure_endpoint_keeps_the_endpoint_and_not_the_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = f"BlobEndpoint=http://127.0.0.1:9/n;AccountName=n;AccountKey={SECRET}"
    store = open_store("az://c/t", {"connection_string": text})
    travelled = pickle.dumps(store)
    assert SECRET.encode() not in travelled
    assert SECRET not in repr(store)
    there = pickle.loads(travelled)
    assert there._options == {"account_name": "n", "endpoint": "http://127.0.0.1:9/n"}
    assert there.service == store.service != open_store("az://c/t", {"account_name": "n"}).service  # type: ignore[attr-defined]
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "of-the-environment")
    assert for_adlfs(there._options)["connection_string"].endswith(";AccountKey=of-the-environment")


@pytest.mark.parametrize("endpoint", [{}, {"endpoint": "http://127.0.0.1:1/a"}], ids=["azure", "endpoint"])
def test_token_of_options_wins_over_the_key_of_the_environment(
    endpoint: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "of-the-environment")
    options = for_adlfs({"account_name": "a", "sas_token": "?sig=given", **endpoint})
    place = endpoint.get("endpoint", "https://a.blob.core.windows.net")
    assert (
        options["connection_string"] == f"BlobEndpoint={place};AccountName=a;SharedAccessSignature=sig=given"
    )


def test_emulator_is_azurites_account() -> None:
    found = for_fsspec("az", {"azure_storage_use_emulator": "true"})
    assert (found["account_name"], found["endpoint"]) == (
        "devstoreaccount1",
        "http://127.0.0.1:10000/devstoreaccount1",
    )
    assert for_fsspec("az", {"connection_string": "UseDevelopmentStorage=true"}) == found
    assert for_fsspec("az", {"use_emulator": "false", "account_name": "n"}) == {"account_name": "n"}
