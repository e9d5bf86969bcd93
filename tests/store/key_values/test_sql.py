"""Manifests in SQL databases: SQLite, and a PostgreSQL server on loopback."""

from __future__ import annotations

import errno
import itertools
import multiprocessing
import os
import pickle
import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy

import lancecy
from lancecy.errors import StoreError, UnsupportedError
from lancecy.store.key_values.sql import SqlManifestStore
from tests.contracts.key_values import KeyValueContract, final, staged
from tests.helpers.postgres import PASSWORD, PostgresServer

pytestmark = pytest.mark.filterwarnings("error::ResourceWarning")

Ask = Callable[[str], list[tuple[object, ...]]]
_numbers = itertools.count(1)
_UNDO = (
    "create sequence {name}_tries",
    """create function {name}_undo() returns trigger language plpgsql as $$ begin
       if nextval('{name}_tries') <= {undone} then raise exception 'undone' using errcode = '40001'; end if;
       return new; end $$""",
    "create trigger {name}_undo before insert on {name} for each row execute function {name}_undo()",
)
"""A sequence counts on even if its transaction is undone."""


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/manifests.db"
    server: PostgresServer = request.getfixturevalue("postgres_server")
    return server.url()


@pytest.fixture
def name() -> str:
    """The name of a table that is not there yet."""
    return f"manifests_{os.getpid()}_{next(_numbers)}"


@pytest.fixture
def items(url: str, name: str, monkeypatch: pytest.MonkeyPatch) -> SqlManifestStore:
    """An empty store; other processes find the password in their environment."""
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    return SqlManifestStore(url, name)


@pytest.fixture
def ask(url: str) -> Iterator[Ask]:
    """A function that runs SQL as another user of the database would."""
    engine = sqlalchemy.create_engine(url, isolation_level="AUTOCOMMIT")

    def run(text: str) -> list[tuple[object, ...]]:
        with engine.connect() as connection:
            found = connection.execute(sqlalchemy.text(text))
            return [tuple(row) for row in found] if found.returns_rows else []

    yield run
    engine.dispose()


class TestContract(KeyValueContract):
    """Both databases keep the contract of key-value stores."""


def test_one_row_is_kept_for_each_version(items: SqlManifestStore, name: str, ask: Ask) -> None:
    items.put_if_absent("s3://bucket/t", 1, staged(1))
    items.put_if("s3://bucket/t", 1, final(1), staged(1))
    items.put_if_absent("s3://bucket/t", 2, staged(2))
    rows = ask(f"select base_uri, version, path, size, committer from {name} order by version")
    assert rows == [
        ("s3://bucket/t", 1, final(1).path, 1000, "lancecy"),
        ("s3://bucket/t", 2, staged(2).path, 1000, "lancecy"),
    ]


def test_processes_that_begin_at_once_make_one_table(url: str, name: str) -> None:
    stores = [SqlManifestStore(url, name) for _ in range(16)]
    with ThreadPoolExecutor(16) as pool:
        won = list(pool.map(lambda n: stores[n].put_if_absent("t", 1, staged(1, n)), range(16)))
    assert won.count(True) == 1
    assert stores[0].get("t", 1) == staged(1, won.index(True))


@pytest.mark.slow
def test_forked_process_uses_its_own_connection(items: SqlManifestStore) -> None:
    items.put_if_absent("t", 1, staged(1))
    context = multiprocessing.get_context("fork")

    def put(version: int) -> None:
        os._exit(not items.put_if_absent("t", version, staged(version)))

    children = [context.Process(target=put, args=(version,)) for version in range(2, 6)]
    for child in children:
        child.start()
    assert [items.get("t", 1) for _ in range(50)] == [staged(1)] * 50
    for child in children:
        child.join()
    assert [child.exitcode for child in children] == [0] * 4
    assert [version for version, _ in items.above("t")] == [1, 2, 3, 4, 5]


def test_writer_that_holds_a_row_is_waited_for(items: SqlManifestStore, url: str, name: str) -> None:
    """Two transactions put one version: the second one learns whether the first one was committed."""
    items.latest("t")
    engine = sqlalchemy.create_engine(url)
    row = f"insert into {name} values ('t', {{}}, 'theirs', 1, 'other')"
    for version, is_committed in ((1, True), (2, False)):
        with engine.connect() as other, ThreadPoolExecutor(1) as pool:
            other.execute(sqlalchemy.text(row.format(version)))
            mine = pool.submit(items.put_if_absent, "t", version, staged(version))
            assert not mine.done()
            (other.commit if is_committed else other.rollback)()
            assert mine.result() is not is_committed
    engine.dispose()


def test_connections_that_the_server_closed_are_replaced(postgres_server: PostgresServer, name: str) -> None:
    items = SqlManifestStore(postgres_server.url(), name)
    items.put_if_absent("t", 1, staged(1))
    engine = sqlalchemy.create_engine(postgres_server.url(), isolation_level="AUTOCOMMIT")
    end = sqlalchemy.text(
        "select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid()"
    )
    with engine.connect() as other:
        for version in range(2, 5):
            other.execute(end)
            assert items.put_if_absent("t", version, staged(version))
            other.execute(end)
            assert items.latest("t") == (version, staged(version))
    engine.dispose()


def test_statement_that_lost_its_connection_is_an_error_if_it_changes(
    postgres_server: PostgresServer, name: str
) -> None:
    """It waits for the row of another transaction as its connection ends: nobody knows what became of it."""
    items = SqlManifestStore(postgres_server.url(), name)
    items.latest("t")
    engine = sqlalchemy.create_engine(postgres_server.url(), isolation_level="AUTOCOMMIT")
    waiting = "select pid from pg_stat_activity where wait_event_type = 'Lock'"
    with engine.connect() as other, engine.connect() as third, ThreadPoolExecutor(1) as pool:
        other.execute(sqlalchemy.text("begin"))
        other.execute(sqlalchemy.text(f"insert into {name} values ('t', 1, 'theirs', 1, 'other')"))
        mine = pool.submit(items.put_if_absent, "t", 1, staged(1))
        while not (found := third.execute(sqlalchemy.text(waiting)).all()):
            threading.Event().wait(0.01)
        third.execute(sqlalchemy.text(f"select pg_terminate_backend({found[0][0]})"))
        with pytest.raises(StoreError, match="terminating connection"):
            mine.result()
        other.execute(sqlalchemy.text("rollback"))
    engine.dispose()
    assert items.put_if_absent("t", 1, staged(1))


@pytest.mark.parametrize("undone", [3, 1000])
def test_transaction_that_the_server_undid_is_run_again(
    postgres_server: PostgresServer, name: str, undone: int
) -> None:
    """A trigger fails the first inserts as PostgreSQL does when two transactions exclude each other."""
    items = SqlManifestStore(postgres_server.url(), name)
    items.latest("t")
    engine = sqlalchemy.create_engine(postgres_server.url(), isolation_level="AUTOCOMMIT")
    with engine.connect() as other:
        for text in _UNDO:
            other.execute(sqlalchemy.text(text.format(name=name, undone=undone)))
    engine.dispose()
    if undone > 3:
        with pytest.raises(StoreError, match="undone"):
            items.put_if_absent("t", 1, staged(1))
    else:
        assert items.put_if_absent("t", 1, staged(1))
    assert items.above("t") == ([] if undone > 3 else [(1, staged(1))])


def test_password_is_in_no_text_and_no_pickle(items: SqlManifestStore) -> None:
    for text in (repr(items), str(items), repr(items.without_secrets()), repr(pickle.dumps(items))):
        assert PASSWORD not in text
    assert pickle.loads(pickle.dumps(items)) == items.without_secrets()


def test_refused_login_is_an_error_without_the_password(postgres_server: PostgresServer) -> None:
    items = SqlManifestStore(postgres_server.url(password="wr0ng-and-secret"))
    with pytest.raises(StoreError, match="password authentication failed") as caught:
        items.latest("t")
    shown = f"{caught.value!r} {caught.value.__cause__!r}"
    assert "127.0.0.1" in shown
    assert "wr0ng-and-secret" not in shown


def test_server_that_is_gone_is_an_error_that_names_it(postgres_server: PostgresServer) -> None:
    items = SqlManifestStore("postgresql+psycopg://me:s3cret-word@127.0.0.1:1/d", client_max_retries=1)
    for store in (items, pickle.loads(pickle.dumps(items))):
        with pytest.raises(
            StoreError, match=r"SqlManifestStore\('postgresql.*127.0.0.1:1/d'\) failed \(2 tries\)"
        ) as caught:
            store.latest("t")
        assert "s3cret-word" not in str(caught.value)
        assert caught.value.tries == 2


@pytest.mark.slow
def test_job_goes_on_when_the_server_is_stopped_and_started_again(
    postgres_server: PostgresServer, tmp_path: Path
) -> None:
    uri, options = str(tmp_path / "t.lance"), {"manifest_store": postgres_server.url()}
    ds = lancecy.write_dataset({"a": [0]}, uri, storage_options=options)
    stopped = threading.Event()

    def job() -> None:
        for number in range(1, 9):
            if number % 3 == 0:
                stopped.wait()
            ds.append({"a": [number]})
            assert lancecy.dataset(uri, storage_options=options).count_rows() == number + 1

    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(job)
        for _ in range(2):
            postgres_server.stop()
            stopped.set()
            threading.Event().wait(0.3)
            postgres_server.start()
        done.result()
    assert lancecy.dataset(uri, storage_options=options).to_table()["a"].to_pylist() == list(range(9))
    assert [version for version, _ in SqlManifestStore(postgres_server.url()).above(uri)] == list(
        range(1, 10)
    )


@pytest.mark.parametrize("is_table_there", [True, False])
def test_locked_database_of_sqlite_is_waited_for_and_then_an_error(
    is_table_there: bool, tmp_path: Path
) -> None:
    uri = str(tmp_path / "t.lance")
    options = {"manifest_store": f"sqlite:///{tmp_path}/m.db", "client_retry_timeout": "300ms"}
    ds = lancecy.write_dataset({"a": [0]}, uri, storage_options=options)
    with closing(sqlite3.connect(tmp_path / "m.db", isolation_level=None)) as other:
        if not is_table_there:
            other.execute("drop table lance_manifests")
        other.execute("begin exclusive")
        with pytest.raises(StoreError, match=r"m.db'\) failed: .*database is locked") as caught:
            ds.append({"a": [1]})
        assert caught.value.errno == errno.EAGAIN
        assert lancecy.dataset(uri).version == 1
        patient = {**options, "client_retry_timeout": 30}
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(
                lancecy.write_dataset, {"a": [2]}, uri, mode="append", storage_options=patient
            )
            assert not waiting.done()
            other.execute("rollback")
            waiting.result()
    assert lancecy.dataset(uri, storage_options=options).to_table()["a"].to_pylist() == [0, 2]


def test_damaged_database_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "m.db").write_bytes(b"no database" * 100)
    items = SqlManifestStore(f"sqlite:///{tmp_path}/m.db")
    with pytest.raises(StoreError, match="m.db'.*not a database"):
        items.latest("t")


def test_table_of_another_shape_is_an_error(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "m.db")) as connection:
        connection.execute("create table lance_manifests (id integer)")
    with pytest.raises(StoreError, match="no such column"):
        SqlManifestStore(f"sqlite:///{tmp_path}/m.db").latest("t")


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("sqlite://", "a file that all processes"),
        ("sqlite:///:memory:", "a file that all processes"),
        ("sqlite:///file:m?mode=memory&uri=true", "a file that all processes"),
        ("manifests.db", "is like sqlite:"),
        ("", "is like sqlite:"),
        ("postgresql://host/d?password=hunter22", "secret outside of its login"),
    ],
)
def test_url_that_names_no_shared_database_is_refused(url: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem) as caught:
        SqlManifestStore(url)
    assert "hunter22" not in str(caught.value)


def test_other_databases_and_names_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="mysql is not supported: use SQLite or PostgreSQL"):
        SqlManifestStore("mysql://me:hunter22@host/d")
    with pytest.raises(ValueError, match="not a name for a table"):
        SqlManifestStore("sqlite:////tmp/m.db", "a; drop table b")
    with pytest.raises(UnsupportedError, match="needs a package"):
        SqlManifestStore("postgresql+nodriver://host/d").latest("t")


def test_relative_path_means_one_file_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    items = lancecy.SqlManifestStore("sqlite:///m.db")
    items.put_if_absent("t", 1, staged(1))
    monkeypatch.chdir("/")
    assert pickle.loads(pickle.dumps(items)).get("t", 1) == staged(1)
    assert repr(items) == f"SqlManifestStore('sqlite:///{tmp_path}/m.db')"
