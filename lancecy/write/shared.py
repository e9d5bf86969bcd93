"""A write that many do together: planned once, its files made by anybody, committed once.

Workers need no manifest: what they write follows from the plan they are sent, so that all of them write
the same columns under the same ids whatever happens to the table meanwhile. Only fragments that come
back are committed, under a token, so that tasks and commits may be repeated as often as a scheduler likes.
All files of one such write have the end of their names in common; whatever becomes of it, they can be found.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import pyarrow as pa

from lancecy.errors import CommitUnknownError, DatasetNotFoundError, LanceError
from lancecy.limits import Limits
from lancecy.session import default
from lancecy.store.credentials import redact
from lancecy.table.bases import PathPolicy
from lancecy.table.commit_options import Committed, Origin
from lancecy.table.drive import check_create
from lancecy.table.manifest import DataFile, Fragment
from lancecy.table.operations import ReserveFragments, new_transaction
from lancecy.table.paths import TRANSACTIONS
from lancecy.table.snapshot import Snapshot
from lancecy.write.dataset import commit_from
from lancecy.write.metadata import FragmentMetadata
from lancecy.write.options import CommitOptions, Place, WriteOptions
from lancecy.write.planning import Plan, planned
from lancecy.write.targets import granted

__all__ = ["SharedWrite", "share"]

_TAG_BYTES = 8
# Looking for what is left of a failed write is not worth more than this many names in one folder.
_MOST_NAMES = 100_000


@dataclass(frozen=True)
class SharedWrite:
    """What every writer of a shared write needs; made by :func:`share`.

    Pickles without secrets, unless it is to carry them: workers then take credentials from where they are.

    Attributes
    ----------
    place : Place
    plan : Plan
    options : WriteOptions
    how : CommitOptions
        With a token.
    origin : Origin or None
        The version it was planned from; None for a new table.
    tag : str
        End of the names of all its files.
    embed_credentials : bool
    """

    place: Place
    plan: Plan
    options: WriteOptions
    how: CommitOptions
    origin: Origin | None
    tag: str
    embed_credentials: bool = field(default=False, repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        policy = self.place.policy
        options = policy.storage_options if self.embed_credentials else redact(policy.storage_options)
        where = (self.place.uri, policy.untrusted, policy.allowed_bases, dict(options), self.place.limits)
        what = (self.plan, self.options, self.how, self.origin, self.tag, self.embed_credentials)
        return _arrived, (where, what)

    def __dask_tokenize__(self) -> object:
        return ("lancecy.write.SharedWrite", self.tag)

    def write(self, batches: Iterable[pa.RecordBatch], number: int = 0) -> tuple[FragmentMetadata, ...]:
        """Write one part of the rows.

        Parameters
        ----------
        batches : iterable of pyarrow.RecordBatch
            With the columns of the plan, in any order.
        number : int
            Of the part: the next part begins with the next base, so that all fill evenly.

        Raises
        ------
        SchemaError, UnsupportedError, StoreError
            As ``fragments.NewFiles.write``; no file of this part is left behind.
        """
        return self.plan.new_files(self.place, self.options, self.tag, number).write(batches)

    def commit(self, fragments: Iterable[Fragment], *, clear: bool = True) -> Committed:
        """Make fragments part of the table, once, however often this is called.

        Parameters
        ----------
        fragments : iterable of Fragment
            Of all parts, in their order.
        clear : bool
            Remove the files if this fails for good.

        Raises
        ------
        LanceError
            See ``table.commit.commit``.
        """
        operation = self.plan.operation(self.options, tuple(fragments), is_new=self.origin is None)
        policy = granted(self.place.policy, self.plan.bases)
        try:
            return commit_from(operation, self.place, self.origin, self.how, policy)
        except CommitUnknownError:
            raise
        except LanceError:
            if clear:
                self.clear()
            raise

    @property
    def may_be_committed(self) -> bool:
        """Whether a commit was begun, so that only the table's history knows how it went."""
        # The operation plays no part in the name.
        version = 0 if self.origin is None else self.origin.version
        name = new_transaction(ReserveFragments(0), version, token=self.how.token).file_name
        try:
            self.place.store().head(f"{TRANSACTIONS}/{name}")
        except DatasetNotFoundError:
            return False
        return True

    def clear(self) -> int:
        """Remove all files of this write that can be found, and say how many; only for one that will not be committed."""
        removed = 0
        for base in dict.fromkeys(self.plan.targets):
            with suppress(LanceError):
                removed += self._clear(base)
        return removed

    def _clear(self, base: int | None) -> int:
        store, path = self.plan.locate(self.place, self.options)(DataFile("x", (), base_id=base))
        folder = path.rpartition("/")[0]
        found = [meta.path for meta in islice(store.list(folder), _MOST_NAMES)]
        ours = [
            name for name in found if name.endswith(f"{self.tag}.lance") and name.rpartition("/")[0] == folder
        ]
        # Blobs are in a folder of their file's name.
        blobs = [name for name in found if name.rpartition("/")[0].endswith(self.tag)]
        store.delete([*ours, *blobs])
        return len(ours)

    def failed(self, error: BaseException) -> None:
        """Clear up after a part that failed, and say so in a note of its error.

        Parameters
        ----------
        error : BaseException
        """
        count = self.clear()
        error.add_note(
            f"Nothing was committed to {self.place.uri}. {count} data files of other parts were removed; what "
            f"workers may still be writing is called *{self.tag}.lance, and no reader ever sees it: "
            "cleanup_old_versions removes it."
        )


def share(
    schema: pa.Schema,
    place: Place,
    snapshot: Snapshot | None,
    options: WriteOptions,
    how: CommitOptions,
    *,
    embed_credentials: bool = False,
) -> SharedWrite:
    """Plan a write that many do together.

    Parameters
    ----------
    schema : pyarrow.Schema
        Of the rows that will come.
    place : Place
    snapshot : Snapshot or None
        Of the table they are for; None for a new one.
    options : WriteOptions
    how : CommitOptions
        Gets a token of its own if it has none.
    embed_credentials : bool

    Raises
    ------
    LanceError, ValueError, TypeError
        As ``planning.planned``; or a base that may not be used, or a store that cannot be committed to.
    """
    plan = planned(schema, place.uri, snapshot, options)
    plan.check_apart(snapshot is None or options.mode == "overwrite")
    locate = plan.locate(place, options)
    for base in dict.fromkeys(plan.targets):
        locate(DataFile("x", (), base_id=base))
    check_create(place.store(options.durable))
    origin = (
        None if snapshot is None else Origin(snapshot.version, snapshot.location.naming, snapshot.identity)
    )
    tag = secrets.token_hex(_TAG_BYTES)
    once = how if how.token is not None else replace(how, token=f"shared write {secrets.token_hex(16)}")
    return SharedWrite(place, plan, options, once, origin, tag, embed_credentials)


def _arrived(
    where: tuple[str, bool, tuple[str, ...], Mapping[str, Any], Limits], what: tuple[Any, ...]
) -> SharedWrite:
    uri, untrusted, allowed_bases, options, limits = where
    session = default()
    known = session.options_for(uri) or options
    return SharedWrite(Place(uri, session, PathPolicy(untrusted, allowed_bases, known), limits), *what)
