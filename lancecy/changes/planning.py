"""Plans a write before it reads rows: schema, version, bases, and refusal of invalid writes.

A plan holds plain values, so that it can be sent to workers.

Facts: table sheet, sections 3.2, 4.3 and 7.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from lancecy.changes.base_files import check_targets, other_tables
from lancecy.changes.given_blobs import GivenBlobs
from lancecy.changes.legacy import check_versions, dictionaries_for, with_dictionaries
from lancecy.changes.options import WriteRequest, with_durability
from lancecy.errors import ExistsError, UnsupportedError
from lancecy.file.create import check_writable
from lancecy.file.dictionaries import Dictionaries
from lancecy.records import dataclass
from lancecy.schema import Schema
from lancecy.session import Session
from lancecy.store.base import Store
from lancecy.table import flags
from lancecy.table.bases import Bases, canonical_base
from lancecy.table.location import TableLocation
from lancecy.table.manifest import BasePath, BasePaths, Fragment
from lancecy.table.operations import Append, Operation, Overwrite
from lancecy.table.operations.new_fragments import version_of
from lancecy.table.paths import DATA
from lancecy.table.placement import check_new_place
from lancecy.table.row_id_checks import check_row_ids, row_id_faults
from lancecy.table.snapshot import Snapshot
from lancecy.write.fragments import Folder, NewFiles
from lancecy.write.schemas import cast_schema, check_metadata, fitted, schema_of, with_blobs
from lancecy.write.targets import base_paths_of, check_outside, least_filled_first, targets

__all__ = ["Plan", "planned", "planned_move", "target_schema"]

_DEFAULT_VERSION = "2.1"
_OF_BLOBS = "2.2"
"""The first version that holds columns of ``lance.blob.v2``."""
_ALIASES = {"stable": _DEFAULT_VERSION, "legacy": "0.1"}


@dataclass(frozen=True, slots=True)
class Plan:
    """A checked write, as plain values.

    Attributes
    ----------
    schema : Schema
        Schema of the table.
    written : Schema
        Schema of the data files.
    version : str
        Version of the data files.
    bases : tuple of BasePath
        New bases, which the commit registers.
    base_paths : mapping of id to BasePath
        All bases.
    targets : tuple of int or None
        Ids of the bases that files go to in turn, the least filled first.
    dictionaries : Dictionaries or None
        Dictionaries of a 0.1 table, shared by all files.
    """

    schema: Schema
    written: Schema
    version: str
    bases: tuple[BasePath, ...]
    base_paths: Mapping[int, BasePath]
    targets: tuple[int | None, ...]
    dictionaries: Dictionaries | None = None

    def check_apart(self, is_new: bool) -> None:
        """Refuse a write that several writers cannot share, or another process cannot commit.

        Parameters
        ----------
        is_new : bool
            The files are for a new schema.

        Raises
        ------
        UnsupportedError
            The files share a dictionary that is made during the write.
        """
        if self.dictionaries is not None and is_new:
            raise UnsupportedError(
                "fragments of a new table of version 0.1 cannot have columns with dictionaries, which are the same for "
                "all files of a table: use lancecy.write_dataset, or write version 2.0",
                feature="dictionaries of new fragments",
            )

    def new_files(
        self,
        location: TableLocation,
        session: Session,
        options: WriteRequest,
        tag: str = "",
        number: int = 0,
    ) -> NewFiles:
        """The data files of one writer.

        Parameters
        ----------
        location : TableLocation
        session : Session
        options : WriteRequest
        tag : str
            Hexadecimal digits shared by all file names.
        number : int
            Number of the writer. Each writer begins with the next base, so that all fill evenly.
        """
        folder, turn = self.folder(location, session, options), number % len(self.targets)
        turns = self.targets[turn:] + self.targets[:turn]
        outside = None
        if _has_blobs(self.written):
            bases = self._opened(location, session)
            ingest = options.external_blobs == "ingest"
            outside = GivenBlobs(bases, session, options.anywhere_blobs, ingest)
        return NewFiles(
            self.written, self.version, turns, folder, options.limits, self.dictionaries, tag, outside
        )

    def folder(self, location: TableLocation, session: Session, options: WriteRequest) -> Folder:
        """The function that maps a base to the place of its data files.

        Parameters
        ----------
        location : TableLocation
        session : Session
        options : WriteRequest
        """
        bases = self._opened(location, session)

        def folder(base_id: int | None) -> tuple[Store, str]:
            store, prefix = bases.folder(base_id, DATA)
            return with_durability(store, options.durable), prefix

        return folder

    def _opened(self, location: TableLocation, session: Session) -> Bases:
        """The resolver for all bases."""
        allowed = location.allowing(map(canonical_base, self.bases))
        return Bases(allowed.open(session), allowed, BasePaths(self.base_paths), session)

    def operation(self, options: WriteRequest, fragments: Sequence[Fragment], is_new: bool) -> Operation:
        """The operation that adds the fragments to the table.

        Parameters
        ----------
        options : WriteRequest
        fragments : sequence of Fragment
        is_new : bool
            Whether the table does not exist yet.
        """
        if options.mode == "append" and not is_new:
            return Append(tuple(fragments))
        schema, values = self.schema, b""
        if self.dictionaries is not None:
            schema, values = with_dictionaries(schema, self.dictionaries)
        return Overwrite(
            tuple(fragments),
            schema,
            options.config if is_new else {},
            data_version=self.version,
            initial_bases=self.bases,
            stable_row_ids=options.stable_row_ids and is_new,
            dictionaries=values,
        )


def target_schema(data: pa.Schema, snapshot: Snapshot | None, options: WriteRequest) -> pa.Schema:
    """The schema that rows are cast to before they are written: with ``cast=True``, the types of the table.

    Parameters
    ----------
    data : pyarrow.Schema
        Schema of the rows.
    snapshot : Snapshot or None
        A version of the table; None for a new table.
    options : WriteRequest
    """
    if not options.cast or snapshot is None or options.mode != "append":
        return data
    return cast_schema(snapshot.schema, data)


def planned(
    data: pa.Schema,
    location: TableLocation,
    session: Session,
    snapshot: Snapshot | None,
    options: WriteRequest,
) -> Plan:
    """Plan a write, and refuse an invalid one before rows are read.

    Parameters
    ----------
    data : pyarrow.Schema
        Schema of the rows.
    location : TableLocation
    session : Session
    snapshot : Snapshot or None
        A version of the table; None for a new table.
    options : WriteRequest

    Raises
    ------
    ExistsError, SchemaError, UnsupportedError, NotFoundError, ConflictError, PathPolicyError, ValueError
        The rows, the table, the bases and the options do not fit together.
    """
    if snapshot is None:
        check_new_place(location, session)
    _check(snapshot, options)
    version = _version(snapshot, options, data)
    if version >= "2.2":
        data = with_blobs(data)
    if snapshot is None or options.mode == "overwrite":
        schema = written = check_metadata(schema_of(data))
        check_writable(schema, version)
    else:
        schema, given = snapshot.schema, frozenset(data.names)
        check_writable(Schema(tuple(f for f in schema.fields if f.name in given)), version)
        written = fitted(schema, data)
        check_versions(snapshot, version, schema, written)
    known: Mapping[int, BasePath] = {} if snapshot is None else snapshot.manifest.base_paths
    bases = base_paths_of(known, options.initial_bases)
    check_outside(location.uri, bases)
    after = {**known, **{base.id: base for base in bases}}
    unnamed: frozenset[int] = frozenset()
    if options.target_all_bases is not None:
        unnamed = other_tables(after, location.allowing(map(canonical_base, bases)), session)
    chosen = targets(after, options.target_bases, options.target_all_bases, unnamed, location.uri)
    if snapshot is not None:
        check_targets(snapshot, chosen)
    if len(chosen) > 1:  # many fragments take long to parse
        chosen = least_filled_first(chosen, () if snapshot is None else snapshot.fragments)
    book = dictionaries_for(written, version, snapshot if options.mode == "append" else None)
    return Plan(schema, written, version, bases, after, chosen, book)


def planned_move(snapshot: Snapshot, data_version: str | None = None) -> Plan:
    """Plan to write rows of a table again, with all its columns, to its own folder.

    Parameters
    ----------
    snapshot : Snapshot
    data_version : str, optional
        Version of the files; by default that of the table.

    Raises
    ------
    SchemaError
        The table would mix files of 0.1 and 2.x.
    UnsupportedError
        Files of the version cannot hold the columns.
    """
    schema, version = snapshot.schema, _version(snapshot, WriteRequest("append", data_version))
    check_writable(schema, version)
    check_versions(snapshot, version, schema, schema)
    book = dictionaries_for(schema, version, snapshot)
    return Plan(schema, schema, version, (), snapshot.manifest.base_paths, (None,), book)


def _check(snapshot: Snapshot | None, options: WriteRequest) -> None:
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
    check_row_ids(row_id_faults(manifest, snapshot.limits), snapshot.version)
    if options.initial_bases:
        raise ValueError("initial_bases are for new tables only; add_bases registers others")
    if options.stable_row_ids and not manifest.has_stable_row_ids:
        raise ValueError("stable row ids are chosen when a table is created, and this one has none")


def _has_blobs(schema: Schema) -> bool:
    """Whether a schema has columns of ``lance.blob.v2``."""
    return any(node.is_struct for node in schema.blobs)


def _version(snapshot: Snapshot | None, options: WriteRequest, data: pa.Schema | None = None) -> str:
    if options.data_version is not None:
        return _ALIASES.get(options.data_version, options.data_version)
    if snapshot is None:
        return _OF_BLOBS if data is not None and _has_blobs(schema_of(data)) else _DEFAULT_VERSION
    stated = snapshot.manifest.data_version
    if stated:
        return stated
    files = [file for fragment in snapshot.fragments for file in fragment.files]
    return max(map(version_of, files), default=_DEFAULT_VERSION)
