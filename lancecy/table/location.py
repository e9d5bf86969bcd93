"""The address of a table: its URI, storage options, and trust in its paths.

Code that reopens a table, sends it to a worker or resolves its paths takes one :class:`TableLocation`. A branch has its
own folder ``{root}/tree/{name}`` and so its own location (``refs.places``).
"""

from __future__ import annotations

import os
import re
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import field, replace
from functools import cached_property
from typing import Any

from lancecy.limits import DEFAULT_LIMITS, Limits
from lancecy.records import dataclass
from lancecy.session import Session
from lancecy.store.base import Store
from lancecy.store.credentials import freeze, redact
from lancecy.store.key_values.opening import sendable
from lancecy.store.uri import canonical_uri, split_credentials
from lancecy.table.replicas import NamedReplicas, Replicas, named_replicas

__all__ = ["TableLocation"]

_OF_ONE_BASE = re.compile(r"base_(\d+)\.(.+)")
_OF_ONE_REPLICA = re.compile(r"(?:base_(\d+)\.)?replica_(\d+)\.(.+)")


@dataclass(frozen=True, eq=False)
class TableLocation:
    """The address of an existing or new table, with storage options and the user's trust in its paths.

    Two are equal if they read the same table under the same rules; secrets and their embedding do not count.
    Pickles without secrets unless it embeds them.

    Attributes
    ----------
    uri : str
        Canonical, without credentials.
    storage_options : mapping
        As given for the root, ``base_<id>.<key>`` entries included. Never shown.
    untrusted : bool
        The table's author is not trusted.
    allowed_bases : tuple of str
        Canonical URIs; places below them may be read.
    limits : Limits
        Limits on values that files state.
    embed_credentials : bool
        Whether a pickle contains the secrets.
    replicas : tuple of (str, tuple of str)
        Places that the user names for files of bases, by base.

    Examples
    --------
    >>> import pickle
    >>> location = TableLocation.of("s3://bucket/t/", {"endpoint_url": "http://h", "secret": "hunter2"})
    >>> sent = pickle.loads(pickle.dumps(location))
    >>> sent.uri, dict(sent.storage_options), sent == location
    ('s3://bucket/t', {'endpoint_url': 'http://h'}, True)
    """

    uri: str
    storage_options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    untrusted: bool = False
    allowed_bases: tuple[str, ...] = ()
    limits: Limits = field(default=DEFAULT_LIMITS, repr=False)
    embed_credentials: bool = field(default=False, repr=False)
    replicas: NamedReplicas = ()

    @classmethod
    def of(
        cls,
        uri: str | os.PathLike[str],
        storage_options: Mapping[str, Any] | None = None,
        untrusted: bool = False,
        allowed_bases: Iterable[str] | None = None,
        limits: Limits = DEFAULT_LIMITS,
        replicas: Replicas | None = None,
    ) -> TableLocation:
        """The location for a user's arguments.

        Parameters
        ----------
        uri : str or path
            Path or URI; its user and password become storage options.
        storage_options, untrusted, allowed_bases, limits, replicas
            As for :func:`lancecy.dataset`.

        Raises
        ------
        TypeError
            ``allowed_bases`` is one string instead of several, or ``replicas`` is no mapping of lists.
        ValueError
            The URI, or that of a replica, cannot be that of a folder.
        """
        if isinstance(allowed_bases, str):
            # Iterated by letters, its first "/" would allow everything.
            raise TypeError("allowed_bases is a list of prefixes, not one text")
        root, found = split_credentials(uri)
        prefixes = tuple(canonical_uri(prefix) for prefix in allowed_bases or ())
        options = {**found, **(storage_options or {})}
        return cls(root, options, untrusted, prefixes, limits, replicas=named_replicas(replicas))

    # -- opening --------------------------------------------------------------

    def open(self, session: Session, *, follow_symlinks: bool = True) -> Store:
        """The store rooted at the table.

        Parameters
        ----------
        session : Session
        follow_symlinks : bool
            False ignores symbolic links, even for a trusted table.

        Raises
        ------
        UnsupportedError
            No store for the scheme.
        """
        return self.open_other(session, self.uri, self.root_options, follow_symlinks=follow_symlinks)

    def open_other(
        self, session: Session, uri: str, options: Mapping[str, Any], *, follow_symlinks: bool = True
    ) -> Store:
        """The store at another URI; for untrusted tables without memory maps and symbolic links."""
        trusted = not self.untrusted
        return session.store(
            uri, options or None, mapped=trusted, follow_symlinks=trusted and follow_symlinks
        )

    @property
    def root_options(self) -> dict[str, Any]:
        """Storage options without those of single bases and replicas."""
        options = self.storage_options.items()
        return {k: v for k, v in options if not (_OF_ONE_BASE.fullmatch(k) or _OF_ONE_REPLICA.fullmatch(k))}

    def base_options(self, base_id: int) -> dict[str, Any]:
        """Storage options for one base, without their prefix."""
        options = self.storage_options.items()
        matches = ((_OF_ONE_BASE.fullmatch(k), v) for k, v in options if not _OF_ONE_REPLICA.fullmatch(k))
        return {match[2]: value for match, value in matches if match is not None and int(match[1]) == base_id}

    def replica_options(self, base_id: int | None, number: int) -> dict[str, Any]:
        """Storage options for one replica of a base, without their prefix.

        Parameters
        ----------
        base_id : int or None
            None is the table's own folder.
        number : int
            Position in the list of replicas, from 1 on.
        """
        wanted = (None if base_id is None else str(base_id), str(number))
        matches = ((_OF_ONE_REPLICA.fullmatch(key), value) for key, value in self.storage_options.items())
        return {m[3]: value for m, value in matches if m is not None and (m[1], m[2]) == wanted}

    # -- variants -------------------------------------------------------------

    def allowing(self, places: Iterable[str]) -> TableLocation:
        """The location with these places allowed, wherever they are.

        Parameters
        ----------
        places : iterable of str
            Canonical URIs.
        """
        added = tuple(places)
        return replace(self, allowed_bases=(*self.allowed_bases, *added)) if added else self

    def with_credentials(self, embedded: bool = True) -> TableLocation:
        """The location whose pickle contains the secrets, or does not."""
        return self if embedded is self.embed_credentials else replace(self, embed_credentials=embedded)

    def known_to(self, session: Session) -> TableLocation:
        """The location with the storage options that the session remembers for the root, if any."""
        known = session.options_for(self.uri)
        return replace(self, storage_options=known) if known else self

    # -- identity -------------------------------------------------------------

    @cached_property
    def key(self) -> tuple[Hashable, ...]:
        """Cache key of values read here: other rules, credentials or limits may refuse to read them. Hashable."""
        return *self._rules, freeze(self.storage_options)

    @cached_property
    def _identity(self) -> tuple[Hashable, ...]:
        options = sendable(self.storage_options, redact(self.storage_options))
        return *self._rules, freeze(options)

    @property
    def _rules(self) -> tuple[Hashable, ...]:
        return self.uri, self.untrusted, self.allowed_bases, self.limits, self.replicas

    def __eq__(self, other: object) -> bool:
        return self._identity == other._identity if isinstance(other, TableLocation) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._identity)

    def __reduce__(self) -> tuple[Any, ...]:
        return TableLocation, self._sent()

    def __dask_tokenize__(self) -> object:
        uri, options, *rest = self._sent()
        return ("lancecy.TableLocation", uri, sorted(options.items()), *rest)

    def _sent(self) -> tuple[Any, ...]:
        """The arguments that recreate it in another process."""
        options = self.storage_options
        if not self.embed_credentials:
            options = sendable(options, redact(options))
        rest = (self.untrusted, self.allowed_bases, self.limits, self.embed_credentials, self.replicas)
        return (self.uri, dict(options), *rest)
