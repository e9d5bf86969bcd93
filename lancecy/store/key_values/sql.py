"""Items of versions in a table of an SQL database: one row a version, one transaction a change.

The condition of a change is the primary key, or the ``WHERE`` of an update, so ``READ COMMITTED`` is enough and no row
is locked for longer than one statement. SQLAlchemy speaks to the database.
"""

from __future__ import annotations

import atexit
import errno
import functools
import os
import random
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from lancecy.errors import StoreError, UnsupportedError, printable
from lancecy.store.credentials import Options, has_secrets
from lancecy.store.key_values.base import ManifestItem
from lancecy.store.retries import RetryPolicy, Tries, mark_tries, split_policy, tries_of

if TYPE_CHECKING:
    from sqlalchemy import URL, Connection, Engine, Table
    from sqlalchemy.exc import DBAPIError

__all__ = ["SqlManifestStore", "open_sql"]

T = TypeVar("T")

_TABLE = "lance_manifests"
_TRIES = 5
# Databases whose connections stay open.
_MOST = 64
_WAIT_S = 30
_POLICY = RetryPolicy()
# What a server says to clients that it does not take now.
_FOR_NOW = (
    "starting up",
    "shutting down",
    "recovery mode",
    "not yet accepting",
    "too many",
    "connection slots",
)
_LOCKED = "database is locked"
# The database rolled the transaction back for the sake of another one: nothing of it happened.
_ROLLED_BACK = frozenset({"40001", "40P01", "55P03"})
# Detached versions have bit 63 set. As signed integers they are negative, below every version of the history.
_UNSIGNED = 1 << 64


class SqlManifestStore:
    """Manifests of tables in an SQL database, through which they are committed.

    Parameters
    ----------
    url : str
        As for SQLAlchemy: ``sqlite:////shared/manifests.db`` for the processes of one host, or
        ``postgresql://user@host/database``. A password in it stays in this process: elsewhere the database's own means
        are used, such as ``PGPASSWORD`` and ``~/.pgpass``.
    table : str
        Name of the database's table. It is created on first use.
    client_max_retries : int
        How often a connection that the server does not take is tried again.
    client_retry_timeout : float or str, seconds
        No try begins later than this after the first one, and no lock of SQLite is waited for longer, nor longer than 30 s.

    Raises
    ------
    ValueError
        Not a URL of SQLAlchemy, a secret outside of its login, a database in the memory of one process, or no number.
    UnsupportedError
        Neither SQLite nor PostgreSQL, or SQLAlchemy or the driver is not installed.

    Notes
    -----
    Thread-safe and fork-safe. A pickle and ``repr`` have no password. The columns are ``base_uri``, the URI of a table;
    ``version``; ``path`` and ``size`` of the manifest; and ``committer``, as pylance names them in DynamoDB.

    Examples
    --------
    >>> import lancecy, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> options = {"manifest_store": SqlManifestStore(f"sqlite:///{folder}/manifests.db")}
    >>> ds = lancecy.write_dataset({"a": [1]}, f"{folder}/t.lance", storage_options=options)
    >>> ds.append({"a": [2]})
    >>> lancecy.dataset(f"{folder}/t.lance", storage_options=options).count_rows()
    2
    """

    def __init__(
        self,
        url: str,
        table: str = _TABLE,
        client_max_retries: int = _POLICY.retries,
        client_retry_timeout: float | str = _POLICY.limit_s,
    ) -> None:
        if not isinstance(table, str) or not table.isidentifier():
            raise ValueError(f"{table!r} is not a name for a table of a database")
        self._url = _checked(url)
        self._name = table
        given = {"client_max_retries": client_max_retries, "client_retry_timeout": client_retry_timeout}
        self._policy = split_policy(given)[0]
        self._ready: int | None = None  # the process that has found or made the table

    def __repr__(self) -> str:
        return f"SqlManifestStore({self._bare().render_as_string()!r})"

    def __eq__(self, other: object) -> bool:
        return (
            (self._url, self._name) == (other._url, other._name)
            if isinstance(other, SqlManifestStore)
            else NotImplemented
        )

    def __hash__(self) -> int:
        return hash((str(self._url), self._name))

    def __reduce__(self) -> tuple[type[SqlManifestStore], tuple[str, str, int, float]]:
        policy = self._policy
        return SqlManifestStore, (self._bare().render_as_string(), self._name, policy.retries, policy.limit_s)

    def without_secrets(self) -> SqlManifestStore:
        """The same store without the password, as a pickle has it."""
        made, given = self.__reduce__()
        return made(*given)

    def _bare(self) -> URL:
        # "set" takes None for no change.
        return type(self._url).create(
            self._url.drivername,
            username=self._url.username,
            host=self._url.host,
            port=self._url.port,
            database=self._url.database,
            query=self._url.query,
        )

    # Reading

    def get(self, table: str, version: int) -> ManifestItem | None:
        """The item of a version, as for :meth:`ManifestKeyValue.get`."""
        from sqlalchemy import select

        columns = self._table.c
        query = select(columns.path, columns.size).where(
            columns.base_uri == table, columns.version == _signed(version)
        )
        row = self._ask(lambda connection: connection.execute(query).one_or_none())
        return None if row is None else ManifestItem(*row)

    def latest(self, table: str) -> tuple[int, ManifestItem] | None:
        """The highest version and its item, as for :meth:`ManifestKeyValue.latest`."""
        from sqlalchemy import select

        columns = self._table.c
        query = (
            select(columns.version, columns.path, columns.size)
            .where(columns.base_uri == table, columns.version >= 0)
            .order_by(columns.version.desc())
            .limit(1)
        )
        row = self._ask(lambda connection: connection.execute(query).one_or_none())
        return None if row is None else (row[0], ManifestItem(row[1], row[2]))

    def above(self, table: str, version: int = 0) -> list[tuple[int, ManifestItem]]:
        """Higher versions and their items, as for :meth:`ManifestKeyValue.above`."""
        from sqlalchemy import select

        if version >> 63:
            return []
        columns = self._table.c
        query = (
            select(columns.version, columns.path, columns.size)
            .where(columns.base_uri == table, columns.version > version)
            .order_by(columns.version)
        )
        rows = self._ask(lambda connection: connection.execute(query).all())
        return [(row[0], ManifestItem(row[1], row[2])) for row in rows]

    # Changing

    def put_if_absent(self, table: str, version: int, item: ManifestItem) -> bool:
        """Set the item of a version that has none, as for :meth:`ManifestKeyValue.put_if_absent`."""
        from sqlalchemy import insert
        from sqlalchemy.exc import IntegrityError

        statement = insert(self._table).values(
            base_uri=table, version=_signed(version), path=item.path, size=item.size, committer="lancecy"
        )

        def put(connection: Connection) -> bool:
            try:
                connection.execute(statement)
            except IntegrityError:
                connection.rollback()
                return False
            return True

        return self._ask(put, changes=True)

    def put_if(self, table: str, version: int, item: ManifestItem, expected: ManifestItem) -> bool:
        """Replace the item of a version that is the expected one, as for :meth:`ManifestKeyValue.put_if`."""
        from sqlalchemy import update

        columns = self._table.c
        statement = (
            update(self._table)
            .where(columns.base_uri == table, columns.version == _signed(version))
            .where(columns.path == expected.path)
            .values(path=item.path, size=item.size)
        )
        return self._ask(lambda connection: connection.execute(statement).rowcount == 1, changes=True)

    def delete(self, table: str, versions: Sequence[int]) -> None:
        """Delete the items of versions, as for :meth:`ManifestKeyValue.delete`."""
        from sqlalchemy import delete

        columns = self._table.c
        numbers = [_signed(version) for version in versions]
        for start in range(0, len(numbers), 500):
            statement = delete(self._table).where(
                columns.base_uri == table, columns.version.in_(numbers[start : start + 500])
            )
            self._ask(lambda connection, made=statement: connection.execute(made) and None, changes=True)  # type: ignore[misc]

    # Transactions

    @property
    def _table(self) -> Table:
        return _table_named(self._name)

    def _ask(self, work: Callable[[Connection], T], changes: bool = False) -> T:
        """The answer of one transaction.

        What the database undid for the sake of another transaction is tried again, and so is reading over a connection
        that broke. A change over such a connection may have been made: the caller finds out.
        """
        from sqlalchemy.exc import DBAPIError, SQLAlchemyError

        for attempt in range(_TRIES):
            try:
                return self._once(work)
            except DBAPIError as error:
                is_undone = getattr(error.orig, "sqlstate", None) in _ROLLED_BACK
                may_repeat = is_undone or (error.connection_invalidated and not changes)
                if not may_repeat or attempt == _TRIES - 1 or tries_of(error) > 1:
                    self._fail(error)
            except (SQLAlchemyError, OSError) as error:
                self._fail(error)
            time.sleep(random.uniform(0, 0.02 * 2**attempt))
        raise AssertionError("the last try returns or raises")

    def _once(self, work: Callable[[Connection], T]) -> T:
        with self._connected() as connection:
            if self._ready != os.getpid():
                self._create(connection)
                self._ready = os.getpid()
            answer = work(connection)
            connection.commit()
            return answer

    def _connected(self) -> Connection:
        """A connection, as soon as the server takes one: it may be starting again."""
        from sqlalchemy.exc import DBAPIError

        engine, tries = _engine(self._url, min(_WAIT_S, self._policy.limit_s)), Tries(self._policy)
        while True:
            try:
                return engine.connect()
            except DBAPIError as error:
                if not _is_starting(error) or not tries.wait():
                    mark_tries(error, tries.made)
                    raise

    def _create(self, connection: Connection) -> None:
        """Make the database's table, unless it is there; another process may be faster."""
        from sqlalchemy import inspect
        from sqlalchemy.exc import IntegrityError, OperationalError, ProgrammingError
        from sqlalchemy.schema import CreateTable

        if inspect(connection).has_table(self._name):
            return
        try:
            connection.execute(CreateTable(self._table, if_not_exists=True))
            connection.commit()
        except (IntegrityError, ProgrammingError, OperationalError):
            connection.rollback()
            if not inspect(connection).has_table(self._name):
                raise

    def _fail(self, error: Exception) -> Any:
        """Raise an error of the database as one of lancecy, without its statement and without the password."""
        text = " ".join(str(getattr(error, "orig", None) or error).split())
        if self._url.password:
            text = text.replace(str(self._url.password), "***")
        tries = tries_of(error)
        tried = f" ({tries} tries)" if tries > 1 else ""
        failure = StoreError(
            f"the manifest store {self!r} failed{tried}: {printable(text)}", store=repr(self), tries=tries
        )
        if _LOCKED in text:
            failure.errno = errno.EAGAIN  # SQLite has waited, and changed nothing
        raise failure from None


def open_sql(url: str, options: Options) -> SqlManifestStore:
    """The store of a URL in a storage option; of the others, those on retries are used too."""
    policy = split_policy(options)[0]
    return SqlManifestStore(url, _TABLE, policy.retries, policy.limit_s)


def _checked(url: str) -> URL:
    """The URL of a database that keeps rows for other processes; the path of a file is absolute."""
    try:
        from sqlalchemy.engine import make_url
        from sqlalchemy.exc import ArgumentError
    except ImportError as error:
        raise UnsupportedError(
            "a manifest store in an SQL database needs SQLAlchemy: pip install 'lancecy[sql]'", feature="sql"
        ) from error
    try:
        made = make_url(url)
    except (ArgumentError, ValueError, TypeError):
        # The text may hold a password, and so may the error.
        raise ValueError(
            "the URL of a manifest store is like sqlite:////shared/manifests.db or postgresql://user@host/database"
        ) from None
    kind = made.get_backend_name()
    if kind not in ("sqlite", "postgresql"):
        raise UnsupportedError(
            f"a manifest store in {printable(kind)} is not supported: use SQLite or PostgreSQL, or a class of your "
            "own with the methods of ManifestKeyValue",
            feature=kind,
        )
    if has_secrets(made.query):
        raise ValueError(
            "the URL of a manifest store has a secret outside of its login: give it as user:password@"
        )
    if kind == "postgresql":
        return made
    if not made.database or made.database == ":memory:" or made.database.startswith("file:"):
        raise ValueError(
            "a manifest store in SQLite is a file that all processes of this host see: sqlite:////shared/manifests.db"
        )
    return made.set(database=os.path.abspath(made.database))


def _is_starting(error: DBAPIError) -> bool:
    """Whether a server that did not take a connection may take one later; libpq tells reasons by text only."""
    text = str(error.orig)
    is_remote = not type(error.orig).__module__.startswith("sqlite3")
    return is_remote and ("FATAL:" not in text or any(words in text for words in _FOR_NOW))


class _Engines:
    """The engines of this process by URL and seconds to wait for locks, with their connections."""

    lock = threading.Lock()
    made: dict[tuple[URL, float], Engine] = {}  # noqa: RUF012 - one for the process
    # Nor do children close what their parent uses.
    of_parents: list[dict[tuple[URL, float], Engine]] = []  # noqa: RUF012


def _engine(url: URL, wait_s: float) -> Engine:
    """The engine of a database; a child makes its own after a fork."""
    with _Engines.lock:
        found = _Engines.made.get((url, wait_s))
        if found is None:
            while len(_Engines.made) >= _MOST:
                _Engines.made.pop(next(iter(_Engines.made))).dispose()
            found = _Engines.made[url, wait_s] = _made(url, wait_s)
        return found


def _made(url: URL, wait_s: float) -> Engine:
    from sqlalchemy import create_engine
    from sqlalchemy.exc import NoSuchModuleError
    from sqlalchemy.pool import NullPool

    try:
        if url.get_backend_name() == "sqlite":
            # A connection that is open during a fork would lose its locks, so none is kept.
            return create_engine(
                url, poolclass=NullPool, connect_args={"timeout": wait_s}, hide_parameters=True
            )
        given: dict[str, int] = {"connect_timeout": _WAIT_S, "tcp_user_timeout": _WAIT_S * 1000}
        return create_engine(
            url,
            isolation_level="READ COMMITTED",
            pool_pre_ping=True,
            pool_recycle=600,
            hide_parameters=True,
            connect_args={name: value for name, value in given.items() if name not in url.query},
        )
    except (ImportError, NoSuchModuleError) as error:
        raise UnsupportedError(
            f"{url.drivername}:// needs a package: pip install 'lancecy[sql]' has the driver postgresql+psycopg",
            feature=url.drivername,
        ) from error


@functools.cache
def _table_named(name: str) -> Table:
    from sqlalchemy import BigInteger, Column, MetaData, Table, Text

    return Table(
        name,
        MetaData(),
        Column("base_uri", Text, primary_key=True),
        Column("version", BigInteger, primary_key=True, autoincrement=False),
        Column("path", Text, nullable=False),
        Column("size", BigInteger),
        Column("committer", Text, nullable=False),
    )


def _signed(version: int) -> int:
    return version - _UNSIGNED if version >> 63 else version


def _leave_engines() -> None:
    _Engines.of_parents.append(_Engines.made)
    _Engines.lock, _Engines.made = threading.Lock(), {}


def _close_engines() -> None:
    for engine in _Engines.made.values():
        engine.dispose()


os.register_at_fork(after_in_child=_leave_engines)
atexit.register(_close_engines)
