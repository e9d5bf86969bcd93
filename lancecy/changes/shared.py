"""Distributed writes: planned once, written by many workers, committed once.

Workers need the plan and no manifest, so all of them write the same columns with the same ids, even if
the table changes meanwhile. Only returned fragments are committed, under a token, so a scheduler may repeat tasks and
commits. The names of all files of a write end in the same tag, by which they can be found after a failure.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import pyarrow as pa

from lancecy.changes.commit import commit_from
from lancecy.changes.options import CommitRequest, WriteRequest, with_durability
from lancecy.changes.planning import Plan, planned
from lancecy.errors import CommitUnknownError, DatasetNotFoundError, LanceError
from lancecy.session import Session, default
from lancecy.table.bases import canonical_base
from lancecy.table.commit.driver import check_create
from lancecy.table.commit.options import Committed, Origin
from lancecy.table.location import TableLocation
from lancecy.table.manifest import Fragment
from lancecy.table.operations import ReserveFragments, new_transaction
from lancecy.table.paths import TRANSACTIONS
from lancecy.table.snapshot import Snapshot
from lancecy.write.metadata import FragmentMetadata

__all__ = ["SharedWrite", "share"]

_TAG_BYTES = 8
# The search for files of a failed write stops after this many names in one folder.
_MOST_NAMES = 100_000


@dataclass(frozen=True)
class SharedWrite:
    """A planned write for many workers; made by :func:`share`.

    Pickles without secrets, unless the location embeds them; workers then use the credentials of their environment.

    Attributes
    ----------
    location : TableLocation
        Embeds credentials if workers are to get them.
    plan : Plan
    options : WriteRequest
    commit_options : CommitRequest
        Has a token.
    origin : Origin or None
        The version the write was planned from; None for a new table.
    tag : str
        Suffix of the names of all files.
    session : Session
        Not pickled; other processes use their default session.
    """

    location: TableLocation
    plan: Plan
    options: WriteRequest
    commit_options: CommitRequest
    origin: Origin | None
    tag: str
    session: Session = field(repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return _arrived, (
            self.location,
            self.plan,
            self.options,
            self.commit_options,
            self.origin,
            self.tag,
        )

    def __dask_tokenize__(self) -> object:
        return ("lancecy.write.SharedWrite", self.tag)

    def write(self, batches: Iterable[pa.RecordBatch], number: int = 0) -> tuple[FragmentMetadata, ...]:
        """Write one part of the rows.

        Parameters
        ----------
        batches : iterable of pyarrow.RecordBatch
            Batches with the columns of the plan, in any order.
        number : int
            Number of the part. Each part begins with the next base, so that all fill evenly.

        Raises
        ------
        SchemaError, UnsupportedError, StoreError
            As ``fragments.NewFiles.write``; the files of this part are removed.
        """
        return self.plan.new_files(self.location, self.session, self.options, self.tag, number).write(batches)

    def commit(self, fragments: Iterable[Fragment], *, clear: bool = True) -> Committed:
        """Commit the fragments to the table; repeated calls commit once.

        Parameters
        ----------
        fragments : iterable of Fragment
            Fragments of all parts, in order.
        clear : bool
            Whether to remove the files if the commit fails permanently.

        Raises
        ------
        LanceError
            See ``table.commit.commit``.
        """
        operation = self.plan.operation(self.options, tuple(fragments), is_new=self.origin is None)
        location = self.location.allowing(map(canonical_base, self.plan.bases))
        try:
            return commit_from(operation, location, self.session, self.origin, self.commit_options)
        except CommitUnknownError:
            raise
        except LanceError:
            if clear:
                self.clear()
            raise

    @property
    def may_be_committed(self) -> bool:
        """Whether a commit was begun, so that its outcome is only in the table's history."""
        # The name does not depend on the operation.
        version = 0 if self.origin is None else self.origin.version
        name = new_transaction(ReserveFragments(0), version, token=self.commit_options.token).file_name
        try:
            self.location.open(self.session).head(f"{TRANSACTIONS}/{name}")
        except DatasetNotFoundError:
            return False
        return True

    def clear(self) -> int:
        """Remove the files of an abandoned write that can be found, and return their number."""
        removed = 0
        for base in dict.fromkeys(self.plan.targets):
            with suppress(LanceError):
                removed += self._clear(base)
        return removed

    def _clear(self, base: int | None) -> int:
        store, prefix = self.plan.folder(self.location, self.session, self.options)(base)
        folder = prefix.rstrip("/")
        found = [meta.path for meta in islice(store.list(folder), _MOST_NAMES)]
        ours = [
            name for name in found if name.endswith(f"{self.tag}.lance") and name.rpartition("/")[0] == folder
        ]
        # Blobs are in a folder named after their data file.
        blobs = [name for name in found if name.rpartition("/")[0].endswith(self.tag)]
        store.delete([*ours, *blobs])
        return len(ours)

    def failed(self, error: BaseException) -> None:
        """Remove the files after a part failed, and add a note to its error.

        Parameters
        ----------
        error : BaseException
        """
        count = self.clear()
        error.add_note(
            f"Nothing was committed to {self.location.uri}. {count} data files of other parts were removed; what "
            f"workers may still be writing is called *{self.tag}.lance, and no reader ever sees it: "
            "cleanup_old_versions removes it."
        )


def share(
    schema: pa.Schema,
    location: TableLocation,
    session: Session,
    snapshot: Snapshot | None,
    options: WriteRequest,
    commit_options: CommitRequest,
    *,
    embed_credentials: bool = False,
) -> SharedWrite:
    """Plan a write for many workers.

    Parameters
    ----------
    schema : pyarrow.Schema
        Schema of the rows to be written.
    location : TableLocation
    session : Session
    snapshot : Snapshot or None
        A version of the table; None for a new table.
    options : WriteRequest
    commit_options : CommitRequest
        Gets a new token if it has none.
    embed_credentials : bool

    Raises
    ------
    LanceError, ValueError, TypeError
        As ``planning.planned``; or a base is not allowed, or the store cannot be committed to.
    """
    plan = planned(schema, location.uri, snapshot, options)
    plan.check_apart(snapshot is None or options.mode == "overwrite")
    folder = plan.folder(location, session, options)
    for base in dict.fromkeys(plan.targets):
        folder(base)
    check_create(with_durability(location.open(session), options.durable))
    origin = None
    if snapshot is not None:
        origin = Origin(snapshot.version, snapshot.manifest_file.naming, snapshot.identity)
    tag = secrets.token_hex(_TAG_BYTES)
    if commit_options.token is None:
        commit_options = replace(commit_options, token=f"shared write {secrets.token_hex(16)}")
    sent = location.with_credentials(embed_credentials)
    return SharedWrite(sent, plan, options, commit_options, origin, tag, session)


def _arrived(
    location: TableLocation,
    plan: Plan,
    options: WriteRequest,
    commit_options: CommitRequest,
    origin: Origin | None,
    tag: str,
) -> SharedWrite:
    session = default().with_limits(location.limits)
    return SharedWrite(location.known_to(session), plan, options, commit_options, origin, tag, session)
