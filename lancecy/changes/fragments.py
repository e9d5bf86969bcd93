"""Fragments for distributed writers: written, deleted from and described here, committed by another process.

A worker returns the metadata of its fragment, as an object or as JSON, and one process commits those of all workers.

Facts: table sheet, sections 2.2 and 2.3.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Unpack

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancecy.changes.base import Change
from lancecy.changes.commits import located
from lancecy.changes.delete import delete_of
from lancecy.changes.insert import write_files
from lancecy.changes.options import (
    UNSUPPORTED_WRITES,
    WRITE_DEFAULTS,
    Mode,
    NewFragmentOptions,
    requests_of,
)
from lancecy.errors import RowNotFoundError, SchemaError
from lancecy.expr.build import Filter
from lancecy.file.describe import FileContents, file_contents
from lancecy.inspection.verification import raise_if_damaged, verify
from lancecy.keyword_options import checked_arguments, shared_options, whole_number
from lancecy.schema import Field
from lancecy.store.reads import SourceFile, run
from lancecy.table.manifest import DataFile, DeletionFile, Fragment
from lancecy.table.rows import deletion, roaring
from lancecy.table.rows.deletion import DeletionVector
from lancecy.table.snapshot import Snapshot, newest_snapshot
from lancecy.write.metadata import FragmentMetadata
from lancecy.write.progress import WriteCallback

__all__ = ["FragmentChanges", "data_file", "without_rows"]

_ONE_FILE = {"max_rows_per_file": 1 << 62, "max_bytes_per_file": 1 << 62}

writing_one = shared_options(NewFragmentOptions, WRITE_DEFAULTS, UNSUPPORTED_WRITES)


class FragmentChanges:
    """The methods of a fragment that prepare a change, which :func:`lancecy.commit` makes part of the table."""

    _dataset: Change
    _metadata: Fragment

    @staticmethod
    @writing_one
    def create(
        dataset_uri: str | os.PathLike[str] | Change,
        data: Any,
        fragment_id: int | None = None,
        schema: pa.Schema | None = None,
        max_rows_per_group: int | None = 1024,
        progress: WriteCallback | None = None,
        mode: Mode = "append",
        **options: Unpack[NewFragmentOptions],
    ) -> FragmentMetadata:
        """Write rows to one data file, and commit nothing; :func:`lancecy.commit` adds it to the table.

        :func:`lancecy.write_fragments` begins another file where one gets too large.

        Parameters
        ----------
        dataset_uri : str, path or Dataset
            The table, which need not exist.
        data : object
            As for :func:`lancecy.write_dataset`, with at least one row.
        fragment_id : int, optional
            The id in the result, 0 if not given. The commit of an append gives its own.
        schema : pyarrow.Schema, optional
        max_rows_per_group : int, optional
        progress : function or object, optional
            As for :func:`lancecy.write_dataset`.
        mode : "append", "create" or "overwrite"
            As for :func:`lancecy.write_fragments`.
        data_storage_version, cast, durability, storage_options, allowed_bases, session
            As for :func:`lancecy.write_dataset`.

        Returns
        -------
        FragmentMetadata
            Can be pickled, or sent as JSON.

        Raises
        ------
        ValueError
            There are no rows.
        LanceError
            As for :func:`lancecy.write_dataset`; no file is left behind.

        Examples
        --------
        >>> import lancecy, pyarrow as pa
        >>> parts = [lancecy.LanceFragment.create("memory://parts", {"n": [number]}) for number in range(3)]
        >>> sent = [part.to_json() for part in parts]
        >>> new = [lancecy.FragmentMetadata.from_json(part) for part in sent]
        >>> change = lancecy.LanceOperation.Overwrite(pa.schema({"n": "int64"}), new)
        >>> lancecy.commit("memory://parts", change).count_rows()
        3
        """
        groups = {} if max_rows_per_group is None else {"max_rows_per_group": max_rows_per_group}
        written, _ = requests_of(mode, {**options, **_ONE_FILE, **groups, "progress": progress})
        location, session = located(dataset_uri, options)
        if isinstance(dataset_uri, Change):
            snapshot: Snapshot | None = dataset_uri._target()
        else:
            snapshot = newest_snapshot(location, session)
        made = write_files(data, schema, location, session, snapshot, written)
        if not made:
            raise ValueError("there are no rows: a fragment has at least one")
        number = 0 if fragment_id is None else whole_number("fragment_id", fragment_id)
        return replace(made[0], id=number)

    @staticmethod
    @checked_arguments()
    def create_from_file(filename: str, dataset: Change, fragment_id: int) -> FragmentMetadata:
        """Describe a data file that is in the table's folder, such as one that no version names any more.

        Parameters
        ----------
        filename : str
            Name below ``data/``.
        dataset : Dataset
        fragment_id : int
            The id in the result. The commit of an append gives its own.

        Returns
        -------
        FragmentMetadata

        Raises
        ------
        DatasetNotFoundError
            There is no such file.
        SchemaError
            The table lacks a column of the file, or it has another type.
        FormatError, UnsupportedError
            The file is damaged, or its columns are not known without its table.
        """
        file, rows = data_file(dataset._snapshot, filename)
        return FragmentMetadata(whole_number("fragment_id", fragment_id), (file,), physical_rows=rows)

    @checked_arguments()
    def delete(self, predicate: Filter) -> FragmentMetadata | None:
        """Delete the rows for which a predicate is true, and commit nothing; this dataset stays as it is.

        Writes a deletion file, which ``LanceOperation.Delete`` makes part of the table.

        Parameters
        ----------
        predicate : str, pyarrow.compute.Expression or lancecy.Expr

        Returns
        -------
        FragmentMetadata or None
            The fragment with its new deletion file; unchanged if no row matches; None if no row is left.

        Raises
        ------
        ExpressionError, ColumnNotFoundError
            The predicate does not fit the schema.
        StoreError
            The storage failed.

        Examples
        --------
        >>> import lancecy
        >>> ds = lancecy.write_dataset({"n": [1, 2, 3, 4]}, "memory://delete-parts", max_rows_per_file=2)
        >>> new = {part.fragment_id: part.delete("n > 1") for part in ds.get_fragments()}
        >>> kept, gone = [part for part in new.values() if part], [number for number in new if new[number] is None]
        >>> lancecy.commit(ds, lancecy.LanceOperation.Delete(kept, gone, "n > 1")).to_table()["n"].to_pylist()
        [1]
        """
        self._dataset._check_writable()
        found, count = delete_of(self._dataset.context, predicate, fragments=[self._metadata.id])
        if self._metadata.id in found.removed:
            return None
        if not count:
            return FragmentMetadata.of(self._metadata)
        return without_rows(self._dataset, self._metadata, found.rows[self._metadata.id])

    @checked_arguments()
    def delete_rows(self, offsets: Iterable[int]) -> FragmentMetadata | None:
        """Delete rows by their place in the fragment, and commit nothing; this dataset stays as it is.

        Parameters
        ----------
        offsets : iterable of int
            Offsets among all rows, deleted ones included: the lower 32 bits of ``_rowaddr``. Offsets of deleted rows,
            and repeated ones, do no harm.

        Returns
        -------
        FragmentMetadata or None
            As for :meth:`delete`.

        Raises
        ------
        RowNotFoundError
            The fragment has no such row.
        TypeError
            An offset is no integer.
        StoreError
            The storage failed.
        """
        self._dataset._check_writable()
        rows = _offsets(
            offsets, self._dataset.context.physical_rows(self._metadata), self._metadata.stored_id
        )
        return without_rows(self._dataset, self._metadata, rows)

    def validate(self) -> None:
        """Check the fragment: its files, deletions, row ids and every page.

        Raises
        ------
        FormatError
            Something is damaged; the message says where.
        """
        raise_if_damaged(verify(self._dataset.context, None, [self._metadata.id]))


def _offsets(offsets: Iterable[int], rows: int, fragment_id: int) -> NDArray[np.int64]:
    """The offsets, ascending and without duplicates."""
    given = offsets if isinstance(offsets, np.ndarray | Sequence) else list(offsets)
    found = np.asarray(given)
    if found.size == 0:
        return np.empty(0, np.int64)
    if found.ndim != 1 or found.dtype.kind not in "iu":
        raise TypeError("offsets are a list of whole numbers")
    unique = np.unique(found)
    for offset in (int(unique[0]), int(unique[-1])):
        if not 0 <= offset < rows:
            raise RowNotFoundError(
                f"fragment {fragment_id} has no row at offset {offset}: it has {rows} rows"
            )
    return unique.astype(np.int64)


def without_rows(table: Change, fragment: Fragment, rows: NDArray[np.int64]) -> FragmentMetadata | None:
    """The fragment with these rows deleted too; writes its deletion file. None if no row is left.

    Parameters
    ----------
    table : Change
    fragment : Fragment
    rows : (n,) int64, ascending
        Offsets, which may be deleted already.

    Raises
    ------
    FormatError, MissingFileError
        The deletion file of the fragment is damaged or missing.
    StoreError
        The storage failed.
    """
    snapshot, physical = table._snapshot, table.context.physical_rows(fragment)
    before = snapshot.deletions(fragment, physical)
    offsets = rows if before is None else roaring.union(before.offsets, rows)
    if offsets.size == (0 if before is None else len(before)):
        return FragmentMetadata.of(fragment)
    if offsets.size == physical:
        return None
    form = deletion.form_for(offsets.size)
    file = DeletionFile(snapshot.version, secrets.randbits(64), form, offsets.size)
    store = snapshot.location.open(snapshot.session)
    store.put(file.path(fragment.stored_id), deletion.encode(DeletionVector(offsets), form))
    return replace(FragmentMetadata.of(fragment), deletion_file=file, physical_rows=physical)


def data_file(snapshot: Snapshot, name: str, base_id: int | None = None) -> tuple[DataFile, int]:
    """The manifest entry of a data file, and its number of rows.

    Columns are those of the table with the same names and types.

    Parameters
    ----------
    snapshot : Snapshot
    name : str
        Name below ``data/``.
    base_id : int, optional
        Base that the file is in; by default the table's own folder.

    Raises
    ------
    DatasetNotFoundError, SchemaError, FormatError, UnsupportedError, PathPolicyError
        See ``FragmentChanges.create_from_file``.
    """
    store, path = snapshot.bases.data(DataFile(name, (), base_id=base_id))
    meta = store.head(path)
    source = SourceFile(store, path, meta.size, meta.identity)
    found = run(file_contents(source, snapshot.limits), snapshot.session.fetch)
    ids = _table_ids(found, snapshot, name)
    major, minor = found.version
    if not found.columns:
        return DataFile(name, tuple(ids.values()), (), major, minor, meta.size, base_id), found.num_rows
    by_column = sorted(found.columns.items(), key=lambda pair: pair[1])
    listed, columns = tuple(ids[number] for number, _ in by_column), tuple(column for _, column in by_column)
    return DataFile(name, listed, columns, major, minor, meta.size, base_id), found.num_rows


def _table_ids(found: FileContents, snapshot: Snapshot, name: str) -> dict[int, int]:
    """Ids in the table by ids in the file."""
    ids: dict[int, int] = {}
    known = {field.name: field for field in snapshot.schema.fields}
    for top in found.fields:
        _match(top, known, ids, "", name)
    if found.version < (2, 0) and any(inside != outside for inside, outside in ids.items()):
        raise SchemaError(
            f"data file {name!r} of version 0.1 numbers its columns in another way than the table, which finds them "
            "by these numbers: write its rows again",
            difference=name,
        )
    return ids


def _match(field: Field, known: Mapping[str, Field], ids: dict[int, int], parent: str, file: str) -> None:
    path = f"{parent}{field.name}"
    match = known.get(field.name)
    if match is None:
        raise SchemaError(f"data file {file!r} has a column {path!r}, which the table lacks", difference=path)
    if match.logical_type != field.logical_type:
        raise SchemaError(
            f"column {path!r} is of type {field.logical_type} in data file {file!r} and of type "
            f"{match.logical_type} in the table",
            difference=path,
        )
    ids[field.id] = match.id
    children = {child.name: child for child in match.children}
    for child in field.children:
        _match(child, children, ids, f"{path}.", file)
