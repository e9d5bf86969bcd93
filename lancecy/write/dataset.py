"""Creating, appending and overwriting: checks first, then data files, then one commit.

What can be refused is refused before a byte is written. Data files of a write that did not become a
version are removed, unless nobody can tell whether it did.

Facts: table sheet, sections 3.2, 4.3 and 7. Imports ``interop.streams``, ``file``, ``table`` and siblings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import pyarrow as pa

from lancecy.errors import CommitUnknownError, ExistsError, LanceError
from lancecy.file.create import check_writable
from lancecy.interop.streams import record_batches
from lancecy.schema import Schema
from lancecy.store.base import Store
from lancecy.table import flags
from lancecy.table.adding_wire import version_of
from lancecy.table.bases import Bases, PathPolicy
from lancecy.table.drive import check_create, commit_to
from lancecy.table.manifest import BasePath, DataFile, Fragment, Manifest
from lancecy.table.operations import Append, Operation, Overwrite, UpdateBases, new_transaction
from lancecy.table.snapshot import Snapshot
from lancecy.table.terms import Committed, Origin, Policy
from lancecy.write.fragments import NewFiles
from lancecy.write.metadata import FragmentMetadata
from lancecy.write.options import CommitOptions, Place, WriteOptions, paced
from lancecy.write.schemas import fitted, schema_of
from lancecy.write.targets import base_paths_of, check_outside, granted, targets

__all__ = ["commit_operation", "write_files", "write_table"]

_DEFAULT_VERSION = "2.1"
_ALIASES = {"stable": _DEFAULT_VERSION, "legacy": "0.1"}


@dataclass(frozen=True, slots=True)
class _Plan:
    """A write of which nothing is refused any more."""

    schema: Schema  # of the table
    written: Schema  # of the files
    version: str
    bases: tuple[BasePath, ...]  # new ones
    targets: tuple[int | None, ...]
    policy: PathPolicy
    places: Bases
    store: Store


def _planned(data: pa.Schema, place: Place, snapshot: Snapshot | None, options: WriteOptions) -> _Plan:
    """Raises for everything that can be known to go wrong before there are rows."""
    _check(snapshot, options)
    version = _version(snapshot, options)
    if snapshot is None or options.mode == "overwrite":
        schema = written = schema_of(data)
        check_writable(schema, version)
    else:
        schema = snapshot.schema
        check_writable(Schema(tuple(f for f in schema.fields if f.name in data.names)), version)
        written = fitted(schema, data)
    known: Mapping[int, BasePath] = {} if snapshot is None else snapshot.manifest.base_paths
    bases = base_paths_of(known, options.initial_bases)
    check_outside(place.uri, bases)
    after = {**known, **{base.id: base for base in bases}}
    chosen = targets(after, options.target_bases, options.target_all_bases)
    policy, store = granted(place.policy, bases), place.store(options.durable)
    words = flags.BASES if after else 0
    places = Bases(
        store, Manifest(0, Schema(()), base_paths=after, reader_flags=words), place.session, policy
    )
    return _Plan(schema, written, version, bases, chosen, policy, places, store)


def _check(snapshot: Snapshot | None, options: WriteOptions) -> None:
    if snapshot is None:
        return
    if options.mode == "create":
        raise ExistsError(
            f"there is a table at {snapshot.uri} already: mode='append' adds to it, mode='overwrite' replaces its rows",
            kind="dataset",
            name=snapshot.uri,
        )
    manifest = snapshot.manifest
    flags.check_writable(manifest.reader_flags, manifest.writer_flags)
    if options.initial_bases:
        raise ValueError("initial_bases are of a new table; add_bases registers others")
    if options.stable_row_ids and not manifest.has_stable_row_ids:
        raise ValueError("stable row ids are chosen when a table is created, and this one has none")


def _version(snapshot: Snapshot | None, options: WriteOptions) -> str:
    if options.data_version is not None:
        return _ALIASES.get(options.data_version, options.data_version)
    if snapshot is None:
        return _DEFAULT_VERSION
    stated = snapshot.manifest.data_version
    if stated:
        return stated
    files = [file for fragment in snapshot.fragments for file in fragment.files]
    return max(map(version_of, files), default=_DEFAULT_VERSION)


def write_files(
    data: object,
    schema: pa.Schema | None,
    place: Place,
    snapshot: Snapshot | None,
    options: WriteOptions,
) -> tuple[FragmentMetadata, ...]:
    """Write rows to data files that no version names.

    Parameters
    ----------
    data : object
        See ``interop.streams.record_batches``.
    schema : pyarrow.Schema, optional
        What the columns are to be.
    place : Place
    snapshot : Snapshot or None
        Of the table they are for; None for a new one.
    options : WriteOptions

    Raises
    ------
    SchemaError, UnsupportedError, NotFoundError, ConflictError, PathPolicyError, ValueError, TypeError
        The rows, the table, the bases and the options do not go together.
    StoreError
        The storage failed.
    """
    reader = record_batches(data, schema)
    plan = _planned(reader.schema, place, snapshot, options)
    return _new_files(plan, options).write(reader)


def write_table(
    data: object,
    schema: pa.Schema | None,
    place: Place,
    snapshot: Snapshot | None,
    options: WriteOptions,
    commit: CommitOptions,
) -> tuple[Committed, tuple[BasePath, ...]]:
    """Write rows and make them part of a table, or a table.

    Parameters
    ----------
    data, schema, place, snapshot, options
        As for :func:`write_files`.
    commit : CommitOptions

    Returns
    -------
    (Committed, tuple of BasePath)
        The version, and the bases it registered.

    Raises
    ------
    ExistsError
        There is a table already, or since a moment ago.
    CommitUnknownError
        Nobody can tell whether it happened; the data files stay.
    LanceError, ValueError, TypeError
        As for :func:`write_files`, and ``table.commit.commit``; no file is left behind.
    """
    reader = record_batches(data, schema)
    plan = _planned(reader.schema, place, snapshot, options)
    check_create(plan.store)
    files = _new_files(plan, options)
    fragments = files.write(reader)
    operation = _operation(plan, snapshot, options, fragments)
    with _removed_if_refused(files):
        return commit_operation(operation, place, snapshot, commit, policy=plan.policy), plan.bases


def _new_files(plan: _Plan, options: WriteOptions) -> NewFiles:
    def locate(file: DataFile) -> tuple[Store, str]:
        store, path = plan.places.data(file)
        return paced(store, options.durable), path

    return NewFiles(plan.written, plan.version, plan.targets, locate, options.limits)


def _operation(
    plan: _Plan, snapshot: Snapshot | None, options: WriteOptions, fragments: Sequence[Fragment]
) -> Operation:
    if snapshot is not None and options.mode == "append":
        return Append(tuple(fragments))
    return Overwrite(
        tuple(fragments),
        plan.schema,
        data_version=plan.version,
        initial_bases=plan.bases,
        stable_row_ids=options.stable_row_ids and snapshot is None,
    )


@contextmanager
def _removed_if_refused(files: NewFiles) -> Any:
    try:
        yield
    except CommitUnknownError:
        raise
    except LanceError:
        # Certain: no version names them. Of anything else, an interrupt for one, that is not certain.
        files.remove()
        raise


def commit_operation(
    operation: Operation,
    place: Place,
    snapshot: Snapshot | None,
    options: CommitOptions,
    *,
    read_version: int | None = None,
    policy: PathPolicy | None = None,
) -> Committed:
    """Make a change of a table its next version.

    Parameters
    ----------
    operation : Operation
    place : Place
    snapshot : Snapshot or None
        A version of the table; None creates one.
    options : CommitOptions
    read_version : int, optional
        The version the change was made from, if it is not the snapshot's.
    policy : PathPolicy, optional
        What resolves bases, if it is not the place's.

    Raises
    ------
    LanceError, ValueError
        See ``table.commit.commit``.
    """
    if isinstance(operation, UpdateBases):
        check_outside(place.uri, operation.bases)
    elif isinstance(operation, Overwrite):
        check_outside(place.uri, operation.initial_bases)
    origin = None
    if snapshot is not None:
        is_same = read_version is None or read_version == snapshot.version
        number = snapshot.version if is_same else cast("int", read_version)
        origin = Origin(number, snapshot.location.naming, snapshot.identity if is_same else None)
    transaction = new_transaction(
        operation, 0 if origin is None else origin.version, options.all_properties, options.token
    )
    terms = Policy(
        attempts=options.attempts,
        once=options.token is not None,
        naming=options.naming,
        limits=place.limits,
    )
    return commit_to(
        place.store(options.durable), transaction, origin, place.session, policy or place.policy, terms
    )
