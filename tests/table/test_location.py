"""The address of a table: what makes two of them equal, what travels, and what is opened."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
from dask.base import tokenize

from lancecy.limits import Limits
from lancecy.session import Session
from lancecy.store.local import LocalStore
from lancecy.table.location import TableLocation
from tests.table.recording import RecordingSession

URI = "s3://bucket/t"
OPTIONS = {
    "endpoint_url": "http://h",
    "secret": "hunter2",
    "base_1.token": "of-base-1",
    "client_kwargs": {"region": "eu-1"},
}
PLAIN = {"endpoint_url": "http://h", "client_kwargs": {"region": "eu-1"}}


def location(**changed: Any) -> TableLocation:
    given: dict[str, Any] = {"uri": URI, "storage_options": OPTIONS, "allowed_bases": ["/mnt/a"]}
    return TableLocation.of(**{**given, **changed})


def test_what_a_user_wrote_is_kept_in_one_spelling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert TableLocation.of("t/").uri == f"{tmp_path}/t"
    assert TableLocation.of(URI, allowed_bases=["s3://other/"]).allowed_bases == ("s3://other",)
    with pytest.raises(TypeError, match="allowed_bases is a list"):
        TableLocation.of(URI, allowed_bases="/mnt")


def test_login_in_a_uri_becomes_options_and_those_given_win() -> None:
    found = TableLocation.of("s3://AK:hush@bucket/t", {"secret": "louder"})
    assert found.uri == URI
    assert found.storage_options == {"key": "AK", "secret": "louder"}


@pytest.mark.parametrize(
    "changed",
    [
        {"uri": "s3://bucket/u"},
        {"storage_options": {**OPTIONS, "endpoint_url": "http://elsewhere"}},
        {"untrusted": True},
        {"allowed_bases": None},
        {"limits": Limits(fields=2)},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_another_table_or_other_rules_make_another_location(changed: dict[str, Any]) -> None:
    one, other = location(), location(**changed)
    assert one != other and one.key != other.key
    assert tokenize(one) != tokenize(other)


def test_secrets_make_no_other_location_but_another_key() -> None:
    one, other = location(), location(storage_options={**OPTIONS, "secret": "other"})
    assert one == other and hash(one) == hash(other)
    assert one == one.with_credentials() and hash(one) == hash(one.with_credentials())
    assert one.key != other.key
    assert one != URI


def test_location_shows_no_options() -> None:
    assert "hunter2" not in repr(location())
    assert "endpoint_url" not in repr(location())


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_pickle_has_secrets_only_if_told(protocol: int) -> None:
    one = location()
    data = pickle.dumps(one, protocol)
    assert b"hunter2" not in data and b"of-base-1" not in data
    there = pickle.loads(data)
    assert there == one and there.storage_options == PLAIN
    embedded = pickle.loads(pickle.dumps(one.with_credentials(), protocol))
    assert embedded == one and embedded.storage_options == OPTIONS
    # Sent on from there, they are still with it, until told otherwise.
    assert b"hunter2" in pickle.dumps(embedded)
    assert b"hunter2" not in pickle.dumps(embedded.with_credentials(False))


def test_dask_token_survives_the_journey_and_depends_on_secrets_only_if_they_travel() -> None:
    one, other = location(), location(storage_options={**OPTIONS, "secret": "other"})
    assert tokenize(one) == tokenize(pickle.loads(pickle.dumps(one))) == tokenize(other)
    sent = one.with_credentials()
    assert tokenize(sent) == tokenize(pickle.loads(pickle.dumps(sent)))
    assert len({tokenize(one), tokenize(sent), tokenize(other.with_credentials())}) == 3


def test_options_that_the_process_remembers_are_used_on_arrival() -> None:
    session, there = Session(), pickle.loads(pickle.dumps(location()))
    assert there.known_to(session) is there
    session.remember_options("s3://bucket", {"secret": "of-here"})
    assert there.known_to(session).storage_options == {"secret": "of-here"}
    assert there.known_to(session).allowed_bases == there.allowed_bases


def test_root_is_opened_with_its_own_options(tmp_path: Path) -> None:
    session = RecordingSession()
    location().open(session)
    location(untrusted=True).open(session)
    location().open(session, follow_symlinks=False)
    root = {name: value for name, value in OPTIONS.items() if not name.startswith("base_")}
    assert session.opened == [
        (URI, root, True, True),
        (URI, root, False, False),
        (URI, root, True, False),
    ]
    assert location().base_options(1) == {"token": "of-base-1"}
    assert location().base_options(2) == {}
    opened = TableLocation.of(str(tmp_path)).open(Session())
    assert isinstance(opened, LocalStore) and opened.uri == str(tmp_path)


def test_allowing_adds_places() -> None:
    one = location()
    assert one.allowing([]) is one
    more = one.allowing(["/mnt/b"])
    assert more.allowed_bases == ("/mnt/a", "/mnt/b")
    assert more.storage_options == OPTIONS
