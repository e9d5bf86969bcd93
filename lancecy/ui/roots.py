"""The root that is served: one table, or namespaces with tables. Names are listed, and tables opened."""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lance_namespace as ln

from lancecy.api.datasets import Dataset, dataset
from lancecy.errors import DatasetNotFoundError, NotFoundError
from lancecy.namespace import DirectoryNamespace
from lancecy.namespace.names import DELIMITER
from lancecy.records import dataclass
from lancecy.table.refs.reference import Reference
from lancecy.ui.options import UiOptions
from lancecy.ui.texts import escaped, joined

__all__ = ["Listing", "NamePage", "Root", "TableFacts", "root_of"]

_SECONDS = 10.0
_MOST_KEPT = 64
_MOST_FOUND = 200


@dataclass(frozen=True)
class NamePage:
    """Some of the names of a namespace.

    Attributes
    ----------
    names : list of str
    total : int
        Of all that match.
    after : str or None
        The last name, if more follow.
    """

    names: list[str]
    total: int
    after: str | None = None


@dataclass(frozen=True)
class Listing:
    """All names directly in a namespace, in order.

    Attributes
    ----------
    namespaces, tables : list of str
    """

    namespaces: list[str]
    tables: list[str]

    def page(self, kind: str, most: int, after: str = "", find: str = "") -> NamePage:
        """Some of the names.

        Parameters
        ----------
        kind : "namespaces" or "tables"
        most : int
        after : str
            Only names greater than this.
        find : str
            Only names with this text, in capitals or not.

        Examples
        --------
        >>> Listing([], ["a", "b", "B2", "c"]).page("tables", 1, find="b")
        NamePage(names=['b'], total=2, after='b')
        """
        names: list[str] = getattr(self, kind)
        wanted = find.casefold()
        matching = [name for name in names if wanted in name.casefold()] if wanted else names
        first = bisect_right(matching, after) if after else 0
        shown = matching[first : first + most]
        more = first + most < len(matching)
        return NamePage(shown, len(matching), shown[-1] if more and shown else None)


@dataclass(frozen=True)
class TableFacts:
    """What a namespace says of a table.

    Attributes
    ----------
    location : str
    properties : dict of str to str
    is_only_declared : bool
        There is no data yet.
    """

    location: str
    properties: dict[str, str]
    is_only_declared: bool = False


class Root:
    """The root that is served.

    Parameters
    ----------
    options : UiOptions
    namespace : DirectoryNamespace or None
        None if the root is a table.
    """

    def __init__(self, options: UiOptions, namespace: DirectoryNamespace | None) -> None:
        self.options = options
        self._namespace = namespace
        self._kept: dict[tuple[str, ...], tuple[float, Listing]] = {}
        self._lock = threading.Lock()

    @property
    def is_table(self) -> bool:
        """Whether the root is one table."""
        return self._namespace is None

    @property
    def name(self) -> str:
        """The last part of the root's place."""
        return escaped(self.options.root.rstrip("/").rpartition("/")[2] or self.options.root)

    # -- names ------------------------------------------------------------------------------------

    def listing(self, names: Sequence[str]) -> Listing:
        """The names directly in a namespace; those of the last seconds are not listed again.

        Parameters
        ----------
        names : sequence of str
            Of the namespace; none for the root.

        Raises
        ------
        NotFoundError
            By ``lance_namespace``, which has its own: there is no such namespace.
        """
        if self._namespace is None:
            return Listing([], [])
        key, now = tuple(names), time.monotonic()
        with self._lock:
            made, kept = self._kept.get(key, (0.0, None))
        if kept is not None and now - made < _SECONDS:
            return kept
        spaces = self._namespace.list_namespaces(ln.ListNamespacesRequest(id=list(names))).namespaces
        tables = self._namespace.list_tables(ln.ListTablesRequest(id=list(names))).tables
        found = Listing(sorted(spaces), sorted(tables))
        with self._lock:
            while len(self._kept) >= _MOST_KEPT:
                del self._kept[next(iter(self._kept))]
            self._kept[key] = (now, found)
        return found

    def find(self, text: str) -> tuple[list[list[str]], int]:
        """Tables of all namespaces whose name has a text.

        Parameters
        ----------
        text : str

        Returns
        -------
        tables : list of list of str
            The ids of the first ones.
        total : int
        """
        if self._namespace is None:
            return [], 0
        wanted = text.casefold()
        ids = self._namespace.list_all_tables(ln.ListTablesRequest(id=[])).tables
        found = [one for one in ids if wanted in one.casefold()]
        return [one.split(DELIMITER) for one in found[:_MOST_FOUND]], len(found)

    def properties(self, names: Sequence[str]) -> dict[str, str]:
        """The properties of a namespace."""
        if self._namespace is None:
            return {}
        request = ln.DescribeNamespaceRequest(id=list(names))
        return dict(self._namespace.describe_namespace(request).properties or {})

    # -- tables -----------------------------------------------------------------------------------

    def describe(self, names: Sequence[str]) -> TableFacts:
        """Where a table is.

        Parameters
        ----------
        names : sequence of str
            Its id; none for the root, if that is a table.

        Raises
        ------
        NotFoundError
            There is no such table; a namespace raises the error of ``lance_namespace``.
        """
        if self._namespace is None:
            if names:
                raise NotFoundError(
                    f"there is no table {joined(names)!r}: the root is a table itself",
                    kind="table",
                    name=joined(names),
                )
            return TableFacts(self.options.root, {})
        answer = self._namespace.describe_table(ln.DescribeTableRequest(id=list(names), check_declared=True))
        return TableFacts(answer.location, dict(answer.properties or {}), bool(answer.is_only_declared))

    def open(self, names: Sequence[str], reference: Reference = None) -> Dataset:
        """A table at a version.

        Parameters
        ----------
        names : sequence of str
        reference : int, str, (str or None, int or None) or None

        Raises
        ------
        LanceError
            It cannot be opened; a namespace raises errors of ``lance_namespace``.
        """
        facts = self.describe(names)
        if facts.is_only_declared:
            raise NotFoundError(
                f"table {joined(names)!r} is only declared: it has no data yet",
                kind="table",
                name=joined(names),
            )
        return opened(self.options, facts.location, reference)


def opened(options: UiOptions, uri: str, reference: Reference = None) -> Dataset:
    """A table with the trust of the options.

    Parameters
    ----------
    options : UiOptions
    uri : str
    reference : int, str, (str or None, int or None) or None
    """
    return dataset(
        uri,
        reference,
        storage_options=options.storage_options or None,
        untrusted=options.untrusted,
        allowed_bases=options.allowed_bases or ([] if options.untrusted else None),
        limits=options.effective_bounds.limits,
    )


def root_of(options: UiOptions) -> Root:
    """The root for some options.

    Parameters
    ----------
    options : UiOptions

    Raises
    ------
    DatasetNotFoundError
        There is no such local directory.
    LanceError
        It is a table that cannot be opened; a namespace raises errors of ``lance_namespace``.
    """
    try:
        opened(options, options.root)
    except DatasetNotFoundError as error:
        if "://" not in options.root and not Path(options.root).is_dir():
            raise DatasetNotFoundError(
                f"there is no directory {escaped(options.root)!r}", kind="dataset", name=options.root
            ) from error
        root = Root(options, _namespace(options))
        root.listing(())
        return root
    return Root(options, None)


def _namespace(options: UiOptions) -> DirectoryNamespace:
    stored: dict[str, Any] = {f"storage.{name}": value for name, value in options.storage_options.items()}
    trust = {"untrusted": "true"} if options.untrusted else {}
    properties: dict[str, Any] = {"root": options.root, **stored, **options.properties, **trust}
    return DirectoryNamespace(**properties)
