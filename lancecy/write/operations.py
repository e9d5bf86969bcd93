"""Changes as users describe them to ``lancecy.commit``, by pylance's names and arguments.

Facts: table sheet, section 4.2.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import pyarrow as pa

from lancecy.schema import Schema
from lancecy.table import operations as made
from lancecy.table.adding_wire import version_of
from lancecy.table.manifest import BasePath, DeletionFile, Fragment
from lancecy.table.operations import MapUpdate
from lancecy.write.schemas import schema_of
from lancecy.write.targets import DatasetBasePath, base_paths_of

__all__ = ["BaseOperation", "LanceOperation", "operation_of"]


@dataclass(frozen=True)
class _Append:
    """Add fragments that ``lancecy.write_fragments`` made.

    Parameters
    ----------
    fragments : iterable of FragmentMetadata
    """

    fragments: Iterable[Fragment]


@dataclass(frozen=True)
class _Overwrite:
    """Replace schema and rows, or create a table.

    Parameters
    ----------
    new_schema : pyarrow.Schema or lancecy.schema.Schema
        The fragments must have been written with it, for a table without rows or with ``mode="overwrite"``.
    fragments : iterable of FragmentMetadata
    initial_bases : list of DatasetBasePath, optional
        Of a new table only.
    """

    new_schema: pa.Schema | Schema
    fragments: Iterable[Fragment]
    initial_bases: Iterable[DatasetBasePath] | None = None


@dataclass(frozen=True)
class _Delete:
    """Give fragments other deletion files, and drop fragments.

    Parameters
    ----------
    updated_fragments : iterable of FragmentMetadata
        Each with its deletion file, which is in the table's folder and lists all of its deleted rows.
    deleted_fragment_ids : iterable of int
    predicate : str
        For the record.
    """

    updated_fragments: Iterable[Fragment]
    deleted_fragment_ids: Iterable[int]
    predicate: str


@dataclass(frozen=True)
class _Restore:
    """Make an old version the newest one again.

    Parameters
    ----------
    version : int
    """

    version: int


@dataclass(frozen=True)
class _ReserveFragments:
    """Claim ids of fragments.

    Parameters
    ----------
    num_fragments : int
    """

    num_fragments: int


@dataclass(frozen=True)
class _UpdateMap:
    """Changes of a map of texts.

    Parameters
    ----------
    updates : mapping of str to str or None
        New values; None removes the key.
    replace : bool
        Whether all other keys go.
    """

    updates: Mapping[str, str | None]
    replace: bool = False


@dataclass(frozen=True)
class _UpdateConfig:
    """Change the maps of a table; None leaves one alone.

    Parameters
    ----------
    config_updates, table_metadata_updates, schema_metadata_updates : UpdateMap, optional
    field_metadata_updates : mapping of field id to UpdateMap, optional
    """

    config_updates: _UpdateMap | None = None
    table_metadata_updates: _UpdateMap | None = None
    schema_metadata_updates: _UpdateMap | None = None
    field_metadata_updates: Mapping[int, _UpdateMap] | None = None


@dataclass(frozen=True)
class _UpdateBases:
    """Register bases.

    Parameters
    ----------
    new_bases : iterable of DatasetBasePath
    """

    new_bases: Iterable[DatasetBasePath] = field(default_factory=tuple)


BaseOperation: TypeAlias = (
    "_Append | _Overwrite | _Delete | _Restore | _ReserveFragments | _UpdateConfig | _UpdateBases"
)


class LanceOperation:
    """What ``lancecy.commit`` can do: ``Append``, ``Overwrite``, ``Delete``, ``Restore``, ``ReserveFragments``,
    ``UpdateConfig`` (with ``UpdateMap``) and ``UpdateBases``.

    Examples
    --------
    >>> LanceOperation.Restore(3).version
    3
    """

    Append = _Append
    Overwrite = _Overwrite
    Delete = _Delete
    Restore = _Restore
    ReserveFragments = _ReserveFragments
    UpdateConfig = _UpdateConfig
    UpdateMap = _UpdateMap
    UpdateBases = _UpdateBases


def operation_of(
    change: BaseOperation, known: Mapping[int, BasePath] | None, stable_row_ids: bool = False
) -> made.Operation:
    """The operation that a user means.

    Parameters
    ----------
    change : one of ``LanceOperation``
    known : mapping of id to BasePath, or None
        Bases of the table; None if there is no table yet.
    stable_row_ids : bool
        Of a new table.

    Raises
    ------
    TypeError
        Something else.
    ValueError
        A fragment of a delete has no deletion file.
    ConflictError, SchemaError
        The bases, or the schema, cannot be those of a table.
    """
    match change:
        case _Append(fragments):
            return made.Append(tuple(fragments))
        case _Overwrite():
            return _overwrite(change, known, stable_row_ids)
        case _Delete(updated, removed, predicate):
            return made.Delete(files=_deletion_files(updated), removed=tuple(removed), predicate=predicate)
        case _Restore(version):
            return made.Restore(version)
        case _ReserveFragments(number):
            return made.ReserveFragments(number)
        case _UpdateConfig():
            return _config(change)
        case _UpdateBases(bases):
            return made.UpdateBases(base_paths_of(known or {}, bases))
    raise TypeError(f"{type(change).__name__} is no operation: give one of lancecy.LanceOperation")


def _overwrite(
    change: _Overwrite, known: Mapping[int, BasePath] | None, stable_row_ids: bool
) -> made.Overwrite:
    fragments = tuple(change.fragments)
    schema = change.new_schema if isinstance(change.new_schema, Schema) else schema_of(change.new_schema)
    versions = {version_of(file) for fragment in fragments for file in fragment.files}
    version = max(versions) if versions else ("2.1" if known is None else None)
    bases = base_paths_of(known or {}, change.initial_bases or ())
    return made.Overwrite(
        fragments, schema, data_version=version, initial_bases=bases, stable_row_ids=stable_row_ids
    )


def _deletion_files(fragments: Iterable[Fragment]) -> dict[int, DeletionFile]:
    files = {}
    for fragment in fragments:
        if fragment.deletion_file is None:
            raise ValueError(f"fragment {fragment.id} of a delete has no deletion file")
        files[fragment.id] = fragment.deletion_file
    return files


def _config(change: _UpdateConfig) -> made.UpdateConfig:
    fields = {number: _map(update) for number, update in (change.field_metadata_updates or {}).items()}
    config, table, schema = (
        None if update is None else _map(update)
        for update in (change.config_updates, change.table_metadata_updates, change.schema_metadata_updates)
    )
    return made.UpdateConfig(config, table, schema, fields)


def _map(update: _UpdateMap) -> MapUpdate:
    return MapUpdate(dict(update.updates), update.replace)
