"""The public operations of ``lancecy.commit``, with pylance's names and arguments.

Facts: table sheet, section 4.2.
"""

from __future__ import annotations

import operator
import uuid
import warnings
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import field

import numpy as np
import pyarrow as pa

from lancecy.errors import FormatError, SchemaError, UnsupportedError
from lancecy.records import dataclass
from lancecy.schema import Schema
from lancecy.table import operations as made
from lancecy.table.manifest import BasePath, DataFile, Fragment
from lancecy.table.operations.new_fragments import version_of
from lancecy.table.rows import roaring
from lancecy.write.indices import Index, IndexFile, index_entry, index_view
from lancecy.write.overlays import DataOverlayFile, DataOverlayGroup, overlay_views
from lancecy.write.schemas import check_metadata, schema_of
from lancecy.write.targets import DatasetBasePath, base_paths_of

__all__ = ["BaseOperation", "Index", "IndexFile", "LanceOperation", "operation_of", "view_of"]


class BaseOperation(ABC):
    """Base class of the ``LanceOperation`` classes."""

    @abstractmethod
    def to_operation(self, known: Mapping[int, BasePath] | None, stable_row_ids: bool) -> made.Operation:
        """The internal operation; parameters and errors as :func:`operation_of`."""


def _checked(fragments: Iterable[Fragment]) -> tuple[Fragment, ...]:
    """The fragments; a single one, and anything else, is refused."""
    found = (
        None if isinstance(fragments, Fragment) or not isinstance(fragments, Iterable) else tuple(fragments)
    )
    if found is None or not all(isinstance(each, Fragment) for each in found):
        other = fragments if found is None else next(each for each in found if not isinstance(each, Fragment))
        raise TypeError(f"fragments are a list of FragmentMetadata, not {type(other).__name__}")
    return found


def _of_one_form(fragments: Iterable[Fragment]) -> tuple[Fragment, ...]:
    """The fragments; two forms of one are refused, as the changes of the first would be lost."""
    found: dict[int, Fragment] = {}
    for fragment in _checked(fragments):
        if found.setdefault(fragment.id, fragment) != fragment:
            raise SchemaError(
                f"fragment {fragment.id} is given twice, with different changes, and those of one would be lost: make all "
                "changes of a fragment in one call"
            )
    return tuple(found.values())


@dataclass(frozen=True)
class _Append(BaseOperation):
    """Add fragments that ``lancecy.write_fragments`` made.

    Parameters
    ----------
    fragments : iterable of FragmentMetadata
    """

    fragments: Iterable[Fragment]

    def to_operation(self, known: Mapping[int, BasePath] | None, stable_row_ids: bool) -> made.Operation:
        return made.Append(_checked(self.fragments))


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
        fragments, schema = _checked(self.fragments), self.new_schema
        versions = {version_of(file) for fragment in fragments for file in fragment.files}
        return made.Overwrite(
            fragments,
            schema if isinstance(schema, Schema) else check_metadata(schema_of(schema)),
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
        # ``LanceFragment.delete`` returns a fragment unchanged if none of its rows match.
        changed = _of_one_form(
            each for each in _checked(self.updated_fragments) if each.deletion_file is not None
        )
        files = {each.id: each.deletion_file for each in changed if each.deletion_file is not None}
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
        return made.Restore(operator.index(self.version))


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


_UUID_BYTES = 16
_REWRITE_ROWS, _REWRITE_COLUMNS = "rewrite_rows", "rewrite_columns"


@dataclass(frozen=True)
class _Update(BaseOperation):
    """Move rows to new fragments with other values, add rows, or replace columns in the files of fragments.

    Parameters
    ----------
    removed_fragment_ids : iterable of int
        Fragments without rows left.
    updated_fragments : iterable of FragmentMetadata
        Fragments as they are afterwards: with the deletion files of rows that moved, or with other data files. They
        keep the row ids and versions that the table has for them.
    new_fragments : iterable of FragmentMetadata
        In a table with stable row ids their first rows are those of their ``row_ids``, which keep their created
        versions; the others get fresh ids.
    fields_modified : iterable of int
        Ids of the fields with other values in ``updated_fragments``.
    fields_for_preserving_frag_bitmap : iterable of int
        Ids of the fields with other values in ``new_fragments``.
    update_mode : "rewrite_rows", "rewrite_columns" or ""
        The latter stands for "rewrite_columns" if there are ``fields_modified``.
    updated_fragment_offsets : mapping of int to bytes, optional
        By fragment id the rows with other values, as portable Roaring bitmaps of their offsets: their updated version
        changes, in tables with stable row ids.
    """

    removed_fragment_ids: Iterable[int] = ()
    updated_fragments: Iterable[Fragment] = ()
    new_fragments: Iterable[Fragment] = ()
    fields_modified: Iterable[int] = ()
    fields_for_preserving_frag_bitmap: Iterable[int] = ()
    update_mode: str = ""
    updated_fragment_offsets: Mapping[int, bytes] | None = None

    def to_operation(self, known: Mapping[int, BasePath] | None, stable_row_ids: bool) -> made.Operation:
        if self.update_mode not in ("", _REWRITE_ROWS, _REWRITE_COLUMNS):
            raise ValueError(
                f"update_mode is {self.update_mode!r}; it can be {_REWRITE_ROWS!r} or {_REWRITE_COLUMNS!r}"
            )
        modified = tuple(self.fields_modified)
        in_place = self.update_mode == _REWRITE_COLUMNS or (not self.update_mode and bool(modified))
        return made.Update(
            fragments=_checked(self.new_fragments),
            removed=tuple(self.removed_fragment_ids),
            updated_rows={
                number: _offsets(number, bitmap)
                for number, bitmap in (self.updated_fragment_offsets or {}).items()
            },
            fields=modified if in_place else tuple(self.fields_for_preserving_frag_bitmap),
            updated=_of_one_form(self.updated_fragments),
            in_place=in_place,
        )


def _offsets(fragment: int, bitmap: bytes) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    try:
        return roaring.decode(np.frombuffer(bitmap, np.uint8))
    except FormatError as error:
        raise ValueError(
            f"the offsets of fragment {fragment} are not a portable Roaring bitmap: {error}"
        ) from error


@dataclass(frozen=True)
class _Merge(BaseOperation):
    """Replace the schema and the data files of all fragments, as added columns do.

    Parameters
    ----------
    fragments : iterable of FragmentMetadata
        All fragments of the table, with the same rows as before.
    schema : lancecy.schema.Schema or pyarrow.Schema
        With field ids, as ``Dataset.lance_schema`` has them. Fields of an Arrow schema are numbered from 0, which is
        right only for a table whose columns never changed, and so deprecated.
    preserves_nullability : bool
        Whether rows that were written for the schema before may be added afterwards: no column is new that may not
        be null, and none loses its nulls.
    """

    fragments: Iterable[Fragment]
    schema: pa.Schema | Schema
    preserves_nullability: bool = False

    def to_operation(self, known: Mapping[int, BasePath] | None, stable_row_ids: bool) -> made.Operation:
        schema = self.schema
        if not isinstance(schema, Schema):
            warnings.warn(
                "an Arrow schema has no field ids: give a schema made from Dataset.lance_schema",
                DeprecationWarning,
                stacklevel=4,
            )
            schema = schema_of(schema)
        return made.Merge(_of_one_form(self.fragments), schema, self.preserves_nullability)


@dataclass(frozen=True)
class _Project(BaseOperation):
    """Replace the schema by one with some of the fields, or with other names or nullability.

    Parameters
    ----------
    schema : lancecy.schema.Schema
        Its fields are those of the table, by their ids.
    preserves_nullability : bool
        Whether no column loses its nulls.
    """

    schema: Schema
    preserves_nullability: bool = False

    def to_operation(self, known: Mapping[int, BasePath] | None, stable_row_ids: bool) -> made.Operation:
        if not isinstance(self.schema, Schema):
            raise TypeError(
                f"a projection needs field ids, which {type(self.schema).__name__} lacks: change Dataset.lance_schema"
            )
        return made.Project(self.schema, self.preserves_nullability)


@dataclass(frozen=True)
class _RewriteGroup:
    """Fragments, and those that replace them.

    Parameters
    ----------
    old_fragments : iterable of FragmentMetadata
        As they were when their rows were read.
    new_fragments : iterable of FragmentMetadata
        The live rows of the old ones, in order; with row ids and versions in a table with stable row ids. The commit
        numbers them.
    """

    old_fragments: Iterable[Fragment]
    new_fragments: Iterable[Fragment]


@dataclass(frozen=True)
class _RewrittenIndex:
    """An index that was made again for moved rows.

    Parameters
    ----------
    old_id, new_id : str
        UUIDs.
    new_details_type_url : str
    new_details_value : bytes
    new_index_version : int
    """

    old_id: str
    new_id: str
    new_details_type_url: str
    new_details_value: bytes
    new_index_version: int


@dataclass(frozen=True)
class _Rewrite(BaseOperation):
    """Move rows to other fragments, as a compaction does.

    Parameters
    ----------
    groups : iterable of RewriteGroup
    rewritten_indices : iterable of RewrittenIndex
        Must be empty: indices stay right without being made again, and cover fewer fragments.
    """

    groups: Iterable[_RewriteGroup]
    rewritten_indices: Iterable[_RewrittenIndex] = ()

    def to_operation(self, known: Mapping[int, BasePath] | None, stable_row_ids: bool) -> made.Operation:
        if tuple(self.rewritten_indices):
            raise UnsupportedError(
                "a rewrite cannot replace indices: leave rewritten_indices empty, and they cover fewer fragments until "
                "they are optimized",
                feature="rewritten indices",
            )
        groups = tuple(
            made.RewriteGroup(_checked(group.old_fragments), _checked(group.new_fragments))
            for group in self.groups
        )
        numbers = [fragment.id for group in groups for fragment in group.old]
        for number, count in Counter(numbers).items():
            if count > 1:
                raise SchemaError(f"the rewrite replaces fragment {number} {count} times: give it once")
        return made.Rewrite(groups)


@dataclass(frozen=True)
class _DataReplacementGroup:
    """A data file for columns of a fragment.

    Parameters
    ----------
    fragment_id : int
    new_file : lancecy.DataFile
        With values of all rows of the fragment, deleted ones too. :meth:`lancecy.LanceFragment.create_from_file` describes a
        file in the folder of the table: its ``files[0]``.
    """

    fragment_id: int
    new_file: DataFile


@dataclass(frozen=True)
class _DataReplacement(BaseOperation):
    """Give columns of fragments other data files.

    Parameters
    ----------
    replacements : iterable of DataReplacementGroup
    """

    replacements: Iterable[_DataReplacementGroup]

    def to_operation(self, known: Mapping[int, BasePath] | None, stable_row_ids: bool) -> made.Operation:
        return made.DataReplacement(tuple((each.fragment_id, each.new_file) for each in self.replacements))


@dataclass(frozen=True)
class _CreateIndex(BaseOperation):
    """Add indices whose files are in the table's folder, and remove indices.

    Parameters
    ----------
    new_indices : iterable of Index
        An index with the same ``uuid`` is replaced; several of one ``name`` are parts of one index, of the same
        columns and of different fragments. None covers a fragment whose columns changed since the ``dataset_version``
        it was made from.
    removed_indices : iterable of Index
        Found by their ``uuid``; their files stay until a cleanup.
    """

    new_indices: Iterable[Index]
    removed_indices: Iterable[Index]

    def to_operation(self, known: Mapping[int, BasePath] | None, stable_row_ids: bool) -> made.Operation:
        new, removed = (tuple(map(index_entry, each)) for each in (self.new_indices, self.removed_indices))
        return made.CreateIndex(new, removed)


@dataclass(frozen=True)
class _Clone(BaseOperation):
    """Create a table, or a branch, from a version of another table; shown, and not committed as an operation.

    Parameters
    ----------
    is_shallow : bool
        Whether the new table uses the source's files.
    ref_name : str or None
        Branch of the source; None for a main table.
    ref_version : int
    ref_path : str
        Root of the source.
    branch_name : str or None
        The new branch, if it is one.
    """

    is_shallow: bool
    ref_name: str | None
    ref_version: int
    ref_path: str
    branch_name: str | None

    def to_operation(self, known: Mapping[int, BasePath] | None, stable_row_ids: bool) -> made.Operation:
        raise UnsupportedError(
            "a clone is not committed as an operation: shallow_clone and deep_clone make tables, which need the "
            "source's version and files, and create_branch makes branches",
            feature="Clone",
        )


@dataclass(frozen=True)
class _DataOverlay(BaseOperation):
    """Lay new values of some rows over those of fragments; shown, and not committed by lancecy.

    Parameters
    ----------
    groups : iterable of DataOverlayGroup
    """

    groups: Iterable[DataOverlayGroup]

    def to_operation(self, known: Mapping[int, BasePath] | None, stable_row_ids: bool) -> made.Operation:
        raise UnsupportedError(
            "a DataOverlay is not committed: this release could not read the table afterwards. Update the rows instead",
            feature="data overlay files",
        )


def _update(change: _UpdateMap | None) -> made.MapUpdate | None:
    return None if change is None else change.to_update()


class LanceOperation:
    """The operations of ``lancecy.commit``: ``Append``, ``Overwrite``, ``Delete``, ``Update``, ``Merge``, ``Project``,
    ``Rewrite`` (with ``RewriteGroup``), ``DataReplacement`` (with ``DataReplacementGroup``), ``Restore``,
    ``ReserveFragments``, ``UpdateConfig`` (with ``UpdateMap``), ``UpdateBases`` and ``CreateIndex``. Transactions are also
    shown as ``Clone`` and ``DataOverlay`` (with ``DataOverlayGroup`` and ``DataOverlayFile``), and have
    ``RewrittenIndex`` in a ``Rewrite``, which are not committed. All are subclasses of ``BaseOperation``.

    Examples
    --------
    >>> LanceOperation.Restore(3).version
    3
    """

    BaseOperation = BaseOperation
    Append = _Append
    Overwrite = _Overwrite
    Delete = _Delete
    Update = _Update
    Merge = _Merge
    Project = _Project
    Rewrite = _Rewrite
    RewriteGroup = _RewriteGroup
    RewrittenIndex = _RewrittenIndex
    DataReplacement = _DataReplacement
    DataReplacementGroup = _DataReplacementGroup
    CreateIndex = _CreateIndex
    Clone = _Clone
    DataOverlay = _DataOverlay
    DataOverlayGroup = DataOverlayGroup
    DataOverlayFile = DataOverlayFile
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
        Not one of ``LanceOperation``, or a schema without field ids.
    ValueError
        The mode or the offsets of an update, or the uuid of an index, are invalid.
    ConflictError, SchemaError
        The bases or the schema are invalid.
    UnsupportedError
        The operation is a clone or an overlay, or replaces indices in a rewrite.
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
        case made.Clone():
            source = operation.source_branch, operation.version, operation.path
            return _Clone(operation.is_shallow, *source, operation.branch)
    return _row_view(operation)


def _row_view(operation: made.Operation) -> BaseOperation | made.Operation:
    """The public operation of one that moves rows, or changes columns or indices."""
    match operation:
        case made.Update():
            return _update_view(operation)
        case made.Merge():
            return _Merge(operation.fragments, operation.schema, operation.preserves_nullability)
        case made.Project():
            return _Project(operation.schema, operation.preserves_nullability)
        case made.Rewrite():
            groups = tuple(_RewriteGroup(group.old, group.new) for group in operation.groups)
            rewritten = tuple(
                _RewrittenIndex(_uuid(each.old), _uuid(each.new), each.type_url, each.value, each.version)
                for each in operation.indices
            )
            return _Rewrite(groups, rewritten)
        case made.DataReplacement():
            return _DataReplacement(tuple(_DataReplacementGroup(*each) for each in operation.replacements))
        case made.CreateIndex():
            new, removed = (tuple(map(index_view, each)) for each in (operation.new, operation.removed))
            return _CreateIndex(new, removed)
        case made.DataOverlay():
            return _DataOverlay(overlay_views(operation))
    return operation


def _uuid(stored: bytes) -> str:
    return str(uuid.UUID(bytes=stored)) if len(stored) == _UUID_BYTES else stored.hex()


def _update_view(operation: made.Update) -> _Update:
    in_place = operation.in_place or bool(operation.columns)
    fields, none = operation.fields, ()
    return _Update(
        operation.removed,
        operation.updated,
        operation.fragments,
        fields if in_place else none,
        none if in_place else fields,
        _REWRITE_COLUMNS if in_place else _REWRITE_ROWS,
        {number: roaring.encode(rows) for number, rows in operation.updated_rows.items()} or None,
    )


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
