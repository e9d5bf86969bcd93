"""Renames and casts columns, and changes whether they may be null.

Facts: table sheet, sections 8 and 10.4.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, TypedDict

import pyarrow as pa
import pyarrow.compute as pc

from lancecy.changes.column_values import Casts, ids_read
from lancecy.changes.new_columns import ColumnChange, ColumnPlan, Retries, data_version
from lancecy.changes.options import CommitRequest, Durability, is_durable
from lancecy.encodings.arrow.columns import chunks_of, storage_of
from lancecy.errors import SchemaError, UnsupportedError, nearest, printable
from lancecy.interop.casts import first_where_not
from lancecy.keyword_options import checked_arguments
from lancecy.progress import Progress
from lancecy.scanning.context import ScanContext
from lancecy.scanning.outputs import read_field
from lancecy.scanning.plan import plan
from lancecy.scanning.request import make_request
from lancecy.scanning.task import ScanSpec
from lancecy.scanning.threads import collect
from lancecy.schema import Field, Schema
from lancecy.table.operations import Project
from lancecy.table.snapshot import Snapshot
from lancecy.write.schema_edits import Alteration, Altered, altered, chain_of

__all__ = ["AlterColumn", "AlterColumns"]


class AlterColumn(TypedDict, total=False):
    """One alteration; :meth:`AlterColumns.alter_columns` describes the keys."""

    path: str
    name: str
    nullable: bool
    data_type: pa.DataType


_PIECE_ROWS = 1 << 16

_KINDS = {"path": (str, "text"), "name": (str, "text"), "nullable": (bool, "True or False"),
          "data_type": (pa.DataType, "a pyarrow.DataType")}  # fmt: skip
"""The type of each key, and its name in words."""


def _alteration(given: Mapping[str, Any]) -> Alteration:
    if not isinstance(given, Mapping):
        raise TypeError(f"an alteration is a dictionary with the keys {', '.join(_KINDS)}, not {given!r}")
    for name, value in given.items():
        if name not in _KINDS:
            close = nearest(str(name), _KINDS, limit=1)
            advice = f"; did you mean {close[0]!r}?" if close else f": the keys are {', '.join(_KINDS)}"
            raise ValueError(f"an alteration has no key {name!r}{advice}")
        kind, what = _KINDS[name]
        if value is not None and not isinstance(value, kind):
            raise TypeError(f"{name} of an alteration is {what}, not {value!r}")
    if given.get("path") is None:
        raise ValueError(f"an alteration needs the path of a column: {dict(given)!r} has none")
    found = Alteration(**given)
    if found.name is None and found.nullable is None and found.data_type is None:
        raise ValueError(
            f"the alteration of column {found.path!r} changes nothing: give name, nullable or data_type"
        )
    return found


class AlterColumns(ColumnChange):
    """The dataset method that alters columns."""

    @checked_arguments()
    def alter_columns(
        self,
        *alterations: AlterColumn,
        conflict_retries: int = 10,
        retry_timeout: timedelta = timedelta(seconds=30),
        durability: Durability = "fsync",
        progress: Progress | None = None,
    ) -> None:
        """Rename columns, cast them, or change whether they may be null.

        Only a cast writes data files: one for each fragment, with that column alone.

        Parameters
        ----------
        *alterations : dict
            With the keys

            - ``path``: a column, or a field within one, such as ``"point.x"`` or ``"words.item"``, by its name before the
              change;
            - ``name``: its new name;
            - ``nullable``: False is refused if a value is null;
            - ``data_type``: its new ``pyarrow.DataType``. Every value must be kept; digits of floats may be lost, as in
              Arrow's safe casts.
        conflict_retries : int
            Maximum number of further attempts after another writer changed the table. Of a cast, they compute new and
            changed fragments only.
        retry_timeout : timedelta
            After this no new attempt is made.
        durability : "fsync" or "none"
            Whether to wait until everything is on disk; "none" is faster, and a system crash may damage the version.
        progress : function of a :class:`lancecy.progress.Step`, optional
            Called during casts.

        Raises
        ------
        ColumnNotFoundError
            The table has no such column.
        SchemaError
            A value does not fit the new type or is null where it may not be (the message names column and row), or two
            columns would have the same name.
        UnsupportedError
            An index uses a column to be cast, or data files of the table's version cannot hold the column then.
        ValueError, TypeError
            An alteration is not valid.
        CommitError
            See :func:`lancecy.commit`.

        Examples
        --------
        >>> import lancecy, pyarrow as pa
        >>> ds = lancecy.write_dataset({"a": [1, 300], "b": ["x", "y"]}, "memory://doc-alter-columns")
        >>> ds.alter_columns({"path": "a", "name": "number"}, {"path": "b", "nullable": False})
        >>> ds.alter_columns({"path": "number", "data_type": pa.int16()})
        >>> ds.schema.types
        [DataType(int16), DataType(string)]
        """
        wanted = [_alteration(given) for given in alterations]
        if not wanted:
            return
        options = CommitRequest(durable=is_durable(durability))
        if any(item.data_type is not None for item in wanted):

            def planner(context: ScanContext, first_id: int) -> ColumnPlan:
                return _plan(context, wanted, first_id)

            self._write_columns(planner, Retries(conflict_retries, retry_timeout, options.durable, progress))
            return

        def attempt() -> None:
            # No file is written before the commit, which refuses a table that cannot be changed.
            snapshot = self._snapshot
            # Only casts need new field ids.
            found = altered(snapshot.schema, wanted, 0, data_version(snapshot))
            if found.strict:
                _check_strict(self.context, found)
            self._change(Project(found.schema, not found.strict), options=options)

        self._retried(attempt, conflict_retries, retry_timeout)


def _plan(context: ScanContext, wanted: Sequence[Alteration], first_id: int) -> ColumnPlan:
    snapshot = context.snapshot
    for item in wanted:
        if item.data_type is not None:
            _check_no_index(snapshot, item)
    found = altered(snapshot.schema, wanted, first_id, data_version(snapshot))
    _check_strict(context, found)
    reads = ids_read(read for _, read, _ in found.casts)
    written = Schema(tuple(written for _, _, written in found.casts))
    return ColumnPlan(found.schema, written, Casts(reads, found.casts), bool(found.strict))


def _check_no_index(snapshot: Snapshot, item: Alteration) -> None:
    chain = chain_of(snapshot.schema, item.path)
    # Casts in files of 0.1 give new ids to the whole column.
    lowest = chain[0] if data_version(snapshot) == "0.1" else chain[-1]
    ids = {node.id for node in (*chain, *lowest.walk())}
    names = sorted({entry.name for entry in snapshot.indices() if ids.intersection(entry.fields)})
    if names:
        raise UnsupportedError(
            f"column {printable(item.path)!r} cannot be cast to {item.data_type}, because the index {printable(names[0])!r} "
            "has its present values: drop it first (drop_index), and create it again afterwards",
            feature="cast of a column with an index",
        )


def _check_strict(context: ScanContext, found: Altered) -> None:
    """Refuse to forbid nulls in a column that has some."""
    for path in found.strict:
        chain = chain_of(context.snapshot.schema, path)
        row = (
            _null_row(context, chain)
            if all(node.is_struct for node in chain[:-1])
            else _null_item(context, chain)
        )
        if row is not None:
            raise SchemaError(
                f"column {printable(path)!r} cannot be made non-nullable, because row {row} has a null: fill it first, or "
                "delete the row",
                difference=path,
            )


def _null_row(context: ScanContext, chain: Sequence[Field]) -> int | None:
    """Number of the first row with a null in a column, found without reading the values where that is possible."""
    snapshot = context.snapshot
    name = ".".join("`" + node.name.replace("`", "``") + "`" for node in chain)
    request = make_request(snapshot.schema.scanned.arrow, ["_rowoffset"], f"{name} IS NULL", limit=1)
    planned = plan(context, request, ScanSpec(snapshot.location, snapshot.version, request))
    rows = collect(context, planned, request)["_rowoffset"]
    return rows[0].as_py() if len(rows) else None


def _null_item(context: ScanContext, chain: Sequence[Field]) -> int | None:
    """Number of the first row with a null below its lists."""
    row = 0
    for fragment in context.fragments:
        files = context.files(fragment.id)
        for start in range(0, files.num_rows, _PIECE_ROWS):
            rows = files.live(start, min(start + _PIECE_ROWS, files.num_rows))
            for chunk in chunks_of(read_field(files, chain[0].scanned, rows, context.session)):
                found = _first_null(storage_of(chunk), chain[1:])
                if found is not None:
                    return row + found
                row += len(chunk)
    return None


def _first_null(array: pa.Array, below: Sequence[Field]) -> int | None:
    def fits(start: int, stop: int) -> bool:
        items = array.slice(start, stop - start)
        for node in below:
            is_struct = pa.types.is_struct(items.type)
            items = storage_of(pc.struct_field(items, [node.name]) if is_struct else items.flatten())
        return not items.null_count

    return None if fits(0, len(array)) else first_where_not(fits, len(array))
