"""The public operations of ``lancecy.commit``, with pylance's names and arguments.

Facts: table sheet, section 4.2.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from lancecy.schema import Schema
from lancecy.table import operations as made
from lancecy.table.manifest import BasePath, Fragment
from lancecy.table.operations.new_fragments import version_of
from lancecy.write.schemas import schema_of
from lancecy.write.targets import DatasetBasePath, base_paths_of

__all__ = ["BaseOperation", "LanceOperation", "operation_of", "view_of"]


class BaseOperation(ABC):
    """Base class of the ``LanceOperation`` classes."""

    @abstractmethod
    def to_operation(self, known: Mapping[int, BasePath] | None, stable_row_ids: bool) -> made.Operation:
        """The internal operation; parameters and errors as :func:`operation_of`."""


@dataclass(frozen=True)
class _Append(BaseOperation):
    """Add fragments that ``lancecy.write_fragments`` made.

    Parameters
    ----------
    fragments : iterable of FragmentMetadata
    """

    fragments: Iterable[Fragment]

    def to_operation(self, known: Mapping[int, BasePath] | None, stable_row_ids: bool) -> made.Operation:
        return made.Append(tuple(self.fragments))


@dataclass(frozen=True)
class _Overwrite(BaseOperation):
    """Replace schema and rows, or create a table.

    Parameters
    ----------
    new_schema : pyarrow.Schema or lancecy.schema.Schema
        The schema that the fragments were written with, for a table without rows or with ``mode="overwrite"``.
    fragments : iterable of FragmentMetadata
    initial_bases : list of DatasetBasePath, optional
        For a new table only.
    """

    new_schema: pa.Schema | Schema
    fragments: Iterable[Fragment]
    initial_bases: Iterable[DatasetBasePath] | None = None

    def to_operation(self, known: Mapping[int, BasePath] | None, stable_row_ids: bool) -> made.Operation:
        fragments, schema = tuple(self.fragments), self.new_schema
        versions = {version_of(file) for fragment in fragments for file in fragment.files}
        return made.Overwrite(
            fragments,
            schema if isinstance(schema, Schema) else schema_of(schema),
            data_version=max(versions) if versions else ("2.1" if known is None else None),
            initial_bases=base_paths_of(known or {}, self.initial_bases or ()),
            stable_row_ids=stable_row_ids,
        )


@dataclass(frozen=True)
class _Delete(BaseOperation):
    """Replace deletion files of fragments, and drop fragments.

    Parameters
    ----------
    updated_fragments : iterable of FragmentMetadata
        Fragments with their deletion files, which are in the table's folder and list all of their deleted rows, as
        :meth:`lancecy.LanceFragment.delete` returns them. Fragments without one stay as they are.
    deleted_fragment_ids : iterable of int
    predicate : str
        Recorded, and not evaluated.
    """

    updated_fragments: Iterable[Fragment]
    deleted_fragment_ids: Iterable[int]
    predicate: str

    def to_operation(self, known: Mapping[int, BasePath] | None, stable_row_ids: bool) -> made.Operation:
        files = {}
        for fragment in self.updated_fragments:
            # ``LanceFragment.delete`` returns a fragment unchanged if none of its rows match.
            if fragment.deletion_file is not None:
                files[fragment.id] = fragment.deletion_file
        removed = tuple(self.deleted_fragment_ids)
        return made.Delete(files=files, removed=removed, predicate=self.predicate)


@dataclass(frozen=True)
class _Restore(BaseOperation):
    """Make an old version the newest one again.

    Parameters
    ----------
    version : int
    """

    version: int

    def to_operation(self, known: Mapping[int, BasePath] | None, stable_row_ids: bool) -> made.Operation:
        return made.Restore(self.version)


@dataclass(frozen=True)
class _ReserveFragments(BaseOperation):
    """Reserve fragment ids.

    Parameters
    ----------
    num_fragments : int
    """

    num_fragments: int

    def to_operation(self, known: Mapping[int, BasePath] | None, stable_row_ids: bool) -> made.Operation:
        return made.ReserveFragments(self.num_fragments)


@dataclass(frozen=True)
class _UpdateMap:
    """Changes of a string map.

    Parameters
    ----------
    updates : mapping of str to str or None
        New values; None removes the key.
    replace : bool
        Whether to remove all other keys.
    """

    updates: Mapping[str, str | None]
    replace: bool = False

    def to_update(self) -> made.MapUpdate:
        """The change as a MapUpdate."""
        return made.MapUpdate(dict(self.updates), self.replace)


@dataclass(frozen=True)
class _UpdateConfig(BaseOperation):
    """Change the string maps of a table; None leaves a map unchanged.

    Parameters
    ----------
    config_updates, table_metadata_updates, schema_metadata_updates : UpdateMap, optional
    field_metadata_updates : mapping of field id to UpdateMap, optional
    """

    config_updates: _UpdateMap | None = None
    table_metadata_updates: _UpdateMap | None = None
    schema_metadata_updates: _UpdateMap | None = None
    field_metadata_updates: Mapping[int, _UpdateMap] | None = None

    def to_operation(self, known: Mapping[int, BasePath] | None, stable_row_ids: bool) -> made.Operation:
        fields = self.field_metadata_updates or {}
        return made.UpdateConfig(
            _update(self.config_updates),
            _update(self.table_metadata_updates),
            _update(self.schema_metadata_updates),
            {number: update.to_update() for number, update in fields.items()},
        )


@dataclass(frozen=True)
class _UpdateBases(BaseOperation):
    """Register bases.

    Parameters
    ----------
    new_bases : iterable of DatasetBasePath
    """

    new_bases: Iterable[DatasetBasePath] = field(default_factory=tuple)

    def to_operation(self, known: Mapping[int, BasePath] | None, stable_row_ids: bool) -> made.Operation:
        return made.UpdateBases(base_paths_of(known or {}, self.new_bases))


def _update(change: _UpdateMap | None) -> made.MapUpdate | None:
    return None if change is None else change.to_update()


class LanceOperation:
    """The operations of ``lancecy.commit``: ``Append``, ``Overwrite``, ``Delete``, ``Restore``, ``ReserveFragments``,
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


for _name, _class in tuple(vars(LanceOperation).items()):
    if isinstance(_class, type):
        # Shown under their public name, as by pylance.
        _class.__name__, _class.__qualname__ = _name, f"LanceOperation.{_name}"


def operation_of(
    change: BaseOperation, known: Mapping[int, BasePath] | None, stable_row_ids: bool = False
) -> made.Operation:
    """The internal operation of a public one.

    Parameters
    ----------
    change : one of ``LanceOperation``
    known : mapping of id to BasePath, or None
        Bases of the table; None if there is no table yet.
    stable_row_ids : bool
        Whether a new table gets stable row ids.

    Raises
    ------
    TypeError
        Not one of ``LanceOperation``.
    ConflictError, SchemaError
        The bases or the schema are invalid.
    """
    if not isinstance(change, BaseOperation):
        raise TypeError(f"{type(change).__name__} is no operation: give one of lancecy.LanceOperation")
    return change.to_operation(known, stable_row_ids)


def view_of(operation: made.Operation, fragments: Iterable[Fragment]) -> BaseOperation | made.Operation:
    """The public operation of an internal one; an operation without a public class is returned as it is.

    Parameters
    ----------
    operation : Operation
        As decoded from a transaction.
    fragments : iterable of Fragment
        Fragments of the version it made.

    Examples
    --------
    >>> view_of(made.Restore(3), ())
    LanceOperation.Restore(version=3)
    """
    match operation:
        case made.Append():
            return _Append(operation.fragments)
        case made.Overwrite():
            bases = _base_views(operation.initial_bases) or None
            return _Overwrite(operation.schema, operation.fragments, bases)
        case made.Delete():
            updated = tuple(part for part in fragments if part.id in operation.files)
            return _Delete(updated, tuple(operation.removed), operation.predicate)
        case made.Restore():
            return _Restore(operation.version)
        case made.ReserveFragments():
            return _ReserveFragments(operation.num_fragments)
        case made.UpdateConfig():
            return _config_view(operation)
        case made.UpdateBases():
            return _UpdateBases(_base_views(operation.bases))
    return operation


def _base_views(bases: Iterable[BasePath]) -> tuple[DatasetBasePath, ...]:
    return tuple(DatasetBasePath(base.path, base.name, base.is_dataset_root, base.id) for base in bases)


def _config_view(operation: made.UpdateConfig) -> _UpdateConfig:
    fields = {
        number: _UpdateMap(dict(u.entries), u.replace) for number, u in operation.field_metadata.items()
    }
    return _UpdateConfig(
        _map_view(operation.config),
        _map_view(operation.table_metadata),
        _map_view(operation.schema_metadata),
        fields or None,
    )


def _map_view(update: made.MapUpdate | None) -> _UpdateMap | None:
    return None if update is None else _UpdateMap(dict(update.entries), update.replace)
