"""Columns of one fragment, written here and committed by another process.

Facts: table sheet, sections 2.2 and 8.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancecy.changes.add_columns import Transforms, planner_of
from lancecy.changes.base import Change
from lancecy.changes.batch_functions import BatchUDF
from lancecy.changes.key_positions import KeyPositions
from lancecy.changes.lance_schema import LanceSchema
from lancecy.changes.merge_columns import RightRows, joining
from lancecy.changes.new_columns import (
    Planner,
    batch_starts,
    fill,
    new_files,
    with_file,
)
from lancecy.encodings.arrow.columns import as_array, joined, taken
from lancecy.errors import UnsupportedError
from lancecy.file.create import check_writable
from lancecy.file.dictionaries import has_dictionaries
from lancecy.keyword_options import checked_arguments
from lancecy.rows import RowSelection
from lancecy.scanning.context import ScanContext
from lancecy.scanning.outputs import read_field
from lancecy.scanning.plan import plan
from lancecy.scanning.request import make_request
from lancecy.scanning.task import ScanSpec
from lancecy.scanning.threads import collect
from lancecy.schema import Schema
from lancecy.table.field_ids import next_field_id
from lancecy.table.manifest import DataFile, Fragment
from lancecy.table.rows import roaring
from lancecy.write.column_files import ColumnFiles
from lancecy.write.metadata import FragmentMetadata
from lancecy.write.schemas import arranged, check_nulls, fitted, strict_paths

__all__ = ["FragmentColumns", "check_first_stays", "replaced_file"]

_PIECE_ROWS = 1 << 18


class FragmentColumns:
    """The methods of a fragment that write columns; :func:`lancecy.commit` makes them part of the table."""

    _dataset: Change
    _metadata: Fragment

    @checked_arguments()
    def merge_columns(
        self,
        value_func: Transforms,
        columns: Sequence[str] | None = None,
        batch_size: int | None = None,
        reader_schema: pa.Schema | None = None,
    ) -> tuple[FragmentMetadata, LanceSchema]:
        """Write new columns of this fragment, and commit nothing.

        ``LanceOperation.Merge`` makes them part of the table: it takes all fragments, each with its new columns, and the
        schema. Workers may write one fragment each, from the same version.

        Parameters
        ----------
        value_func : mapping, function, pyarrow.Field, list of pyarrow.Field, pyarrow.Schema, or rows
            As for :meth:`lancecy.Dataset.add_columns`; rows are those of this fragment.
        columns : sequence of str, optional
            Columns of the batches that a function gets.
        batch_size : int, optional
            Rows of each of these batches.
        reader_schema : pyarrow.Schema, optional
            Schema of rows.

        Returns
        -------
        (FragmentMetadata, lancecy.schema.LanceSchema)
            The fragment with its new data file, and the schema of the table with the new columns.

        Raises
        ------
        ValueError
            A function with a checkpoint file, which is for whole tables.
        LanceError
            As for :meth:`lancecy.Dataset.add_columns`; no file is left behind.

        Examples
        --------
        >>> import lancecy
        >>> ds = lancecy.write_dataset({"a": [1, 2, 3]}, "memory://fragment-columns", max_rows_per_file=2)
        >>> parts = [part.merge_columns({"b": "a * 2"}) for part in ds.get_fragments()]
        >>> change = lancecy.LanceOperation.Merge([part for part, _ in parts], parts[0][1])
        >>> lancecy.commit(ds, change, read_version=1).to_table()["b"].to_pylist()
        [2, 4, 6]
        """
        if isinstance(value_func, BatchUDF) and value_func.cache is not None:
            raise ValueError(
                "a checkpoint file is for the columns of a whole table: keep what is written of each fragment yourself"
            )
        planner = planner_of(value_func, columns, reader_schema, batch_size, fragments=[self._metadata])
        return self._with_columns(planner)

    @checked_arguments()
    def merge(
        self, data_obj: Any, left_on: str, right_on: str | None = None, schema: pa.Schema | None = None
    ) -> tuple[FragmentMetadata, LanceSchema]:
        """Write columns of other rows with the same key, and commit nothing.

        Parameters
        ----------
        data_obj, left_on, right_on, schema
            As for :meth:`lancecy.Dataset.merge`.

        Returns
        -------
        (FragmentMetadata, lancecy.schema.LanceSchema)
            As for :meth:`merge_columns`.

        Raises
        ------
        LanceError
            As for :meth:`lancecy.Dataset.merge`; no file is left behind.
        """
        return self._with_columns(joining(data_obj, left_on, right_on, schema))

    @checked_arguments()
    def update_columns(
        self,
        data_obj: Any,
        left_on: str = "_rowid",
        right_on: str | None = None,
        schema: pa.Schema | None = None,
        *,
        with_offsets: bool = False,
    ) -> Any:
        """Write columns of this fragment with new values in the rows that have a key, and commit nothing.

        ``LanceOperation.Update`` makes them part of the table.

        Parameters
        ----------
        data_obj : object
            Rows of any kind that :func:`lancecy.write_dataset` takes: keys, and columns that the table has. If several
            rows have one key, the last of them counts.
        left_on : str
            Key in the table: a column, the path of one within structs, ``_rowid`` or ``_rowaddr``.
        right_on : str, optional
            Key in the rows; ``left_on`` if not given.
        schema : pyarrow.Schema, optional
            Schema of the rows.
        with_offsets : bool
            Return the offsets of the rows with new values too.

        Returns
        -------
        (FragmentMetadata, list of int) or (FragmentMetadata, list of int, bytes)
            The fragment with its new data file, the ids of its fields, and if wanted the offsets as a portable Roaring
            bitmap: ``updated_fragments``, ``fields_modified`` and ``updated_fragment_offsets`` of the operation.

        Raises
        ------
        ColumnNotFoundError, SchemaError
            The rows do not fit the table, or a value is null where it may not.
        UnsupportedError
            The first column of a 0.1 file, which no later version could read any more: use ``Dataset.update``. Or a column
            with blobs: use ``Dataset.merge_insert``.

        Examples
        --------
        >>> import lancecy
        >>> ds = lancecy.write_dataset({"id": [1, 2], "a": ["x", "y"]}, "memory://fragment-update")
        >>> new, fields = ds.get_fragments()[0].update_columns({"id": [2], "a": ["z"]}, "id")
        >>> change = lancecy.LanceOperation.Update(updated_fragments=[new], fields_modified=fields)
        >>> lancecy.commit(ds, change, read_version=1).to_table()["a"].to_pylist()
        ['x', 'z']
        """
        self._dataset._check_writable()
        right = RightRows(data_obj, left_on if right_on is None else right_on, schema)
        context: ScanContext = self._dataset.context
        fragment, offsets = _updated(context, self._metadata, right, left_on)
        written = list(fragment.files[-1].fields)
        return (fragment, written, roaring.encode(offsets)) if with_offsets else (fragment, written)

    def _with_columns(self, planner: Planner) -> tuple[FragmentMetadata, LanceSchema]:
        self._dataset._check_writable()
        context: ScanContext = self._dataset.context
        snapshot, fragment = context.snapshot, self._metadata
        planned, files = (
            planner(context, next_field_id(snapshot.manifest, snapshot.indices())),
            new_files(snapshot),
        )
        check_writable(planned.written, files.version)
        if not planned.written.fields:
            return FragmentMetadata.of(fragment), LanceSchema.of(planned.schema)
        if files.version == "0.1" and has_dictionaries(planned.written.fields):
            raise UnsupportedError(
                "one fragment of a 0.1 table cannot get a column with a dictionary, which is the same for all of them: "
                "use Dataset.add_columns",
                feature="dictionaries of a fragment",
            )
        try:
            ((_, file),) = fill(context, planned, [fragment], files)
        except BaseException:
            files.remove()
            raise
        return with_file(fragment, (fragment, file)), LanceSchema.of(planned.schema)


def _updated(
    context: ScanContext, fragment: Fragment, right: RightRows, left_on: str
) -> tuple[FragmentMetadata, NDArray[np.int64]]:
    """The fragment with other values of some columns, and the offsets of the rows that have them."""
    snapshot, files = context.snapshot, new_files(context.snapshot)
    for name in right.values.schema.names:
        snapshot.schema.field(name)
    wanted = fitted(
        Schema(tuple(snapshot.schema.field(n) for n in right.values.schema.names)), right.values.schema
    )
    for top in wanted.fields:
        if any(node.is_blob for node in top.walk()):
            raise UnsupportedError(
                f"column {top.name!r} has blobs, which are not written beside those that stay: use Dataset.merge_insert, "
                "which moves the rows",
                feature="blobs with new values in some rows of a fragment",
            )
    ids = [node.id for top in wanted.fields for node in top.walk()]
    check_first_stays(fragment, ids)
    opened = context.files(fragment.id)
    live = opened.live(0, opened.num_rows).to_indices()
    found = _positions(context, fragment, right, left_on)
    positions = np.full(opened.num_rows, -1, np.int64)
    positions[live] = found
    try:
        _check_new_nulls(right, wanted)
        file = replaced_file(context, fragment, files, wanted, right.values, positions)
    except BaseException:
        files.remove()
        raise
    return with_file(fragment, (fragment, file)), np.flatnonzero(positions >= 0)


def replaced_file(
    context: ScanContext,
    fragment: Fragment,
    files: ColumnFiles,
    wanted: Schema,
    values: pa.Table,
    positions: NDArray[np.int64],
) -> DataFile:
    """Write columns of a fragment with new values in some rows.

    Parameters
    ----------
    context : ScanContext
    fragment : Fragment
    files : ColumnFiles
    wanted : Schema
        The columns, as :func:`lancecy.write.schemas.fitted` returns them.
    values : pyarrow.Table
        The new values, of the same columns in the same order.
    positions : (num_rows,) int64
        For each row of the fragment, deleted ones included, the row of ``values`` that replaces it, -1 if none does.

    Raises
    ------
    LanceError
        The old values cannot be read, or the file cannot hold the new ones.
    """
    opened = context.files(fragment.id)

    def batches() -> Iterator[pa.RecordBatch]:
        for start in range(0, opened.num_rows, _PIECE_ROWS):
            rows = RowSelection.range(opened.num_rows, start, min(start + _PIECE_ROWS, opened.num_rows))
            here = positions[start : start + _PIECE_ROWS]
            columns = []
            for top, new in zip(wanted.fields, values.columns, strict=True):
                old = read_field(opened, top, rows, context.session)
                both = joined([old, new.cast(old.type) if new.type != old.type else new], old.type)
                columns.append(
                    as_array(taken(both, np.where(here < 0, np.arange(len(here)), len(old) + here)))
                )
            batch = pa.RecordBatch.from_arrays(columns, names=list(wanted.names))
            yield arranged(batch, wanted)

    starts = batch_starts(context, fragment) if files.version == "0.1" else None
    return files.write(wanted, batches(), row_starts=starts)


def _check_new_nulls(right: RightRows, wanted: Schema) -> None:
    for batch in right.values.to_batches():
        check_nulls(batch, strict_paths(wanted), 0)


def check_first_stays(fragment: Fragment, ids: Sequence[int]) -> None:
    """Refuse to move the first column out of a 0.1 file: readers find its pages by that column's id.

    Parameters
    ----------
    fragment : Fragment
    ids : sequence of int
        The fields that get a new file.

    Raises
    ------
    UnsupportedError
    """
    for file in fragment.files:
        first = file.fields[0] if file.fields else -1
        if file.is_legacy and first in ids and not set(file.fields) <= {*ids, -2}:
            raise UnsupportedError(
                f"field {first} is the first of data file {file.path!r}, and pylance (14.0.2) could not read the other "
                "columns of this 0.1 file without it: use Dataset.update, which moves the rows",
                feature="update of the first column of a 0.1 file",
            )


def _positions(context: ScanContext, fragment: Fragment, right: RightRows, left_on: str) -> NDArray[np.int64]:
    """For each live row of a fragment the position of its key among the right rows, -1 without one."""
    snapshot = context.snapshot
    request = make_request(snapshot.schema.scanned.arrow, [left_on], fragments=[fragment.id])
    planned = plan(context, request, ScanSpec(snapshot.location, snapshot.version, request))
    keys = collect(context, planned, request).column(0)
    return KeyPositions(right.keys, planned.schema.field(0), right.key).find(keys)
