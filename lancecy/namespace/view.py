"""Rows of the table ``__manifest`` at one version: finds objects, and lists names in parts.

A small table is read whole, once. Look-ups in a larger one use its indices (``upkeep``), and a listing that needs few
names reads the ids between two page bounds of the BTREE index at a time, in ascending order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from lancecy.api.datasets import Dataset
from lancecy.errors import DatasetNotFoundError, FormatError, UnsupportedError, printable
from lancecy.expr import bind, col, lit, mask
from lancecy.expr.build import Term
from lancecy.index.catalog import catalog_of
from lancecy.namespace.entries import COLUMNS, MANIFEST, TABLE, Entry
from lancecy.namespace.names import DELIMITER
from lancecy.namespace.upkeep import SMALL
from lancecy.table.snapshot import Snapshot

__all__ = ["View", "check_flags"]

_READ = ["object_id", "object_type", "location", "metadata"]
_FLAGS = "lance.namespace.manifest.{}_feature_flags"
# The character after the one that ends a prefix: texts with that prefix are below it.
_AFTER = {DELIMITER: "%", "/": "0"}
# A listing reads at most so many pages of the index at a time.
_MOST_PAGES = 64
_MOST_FOUND = 256
# Bytes of the data files of a table that is read whole.
_WHOLE_BYTES = 1 << 20


class View:
    """The rows of one version.

    Parameters
    ----------
    snapshot : Snapshot or None
        None if there is no ``__manifest``: there are no rows then.
    rows : pyarrow.Table, optional
        All rows with their addresses, if they are known.

    Raises
    ------
    FormatError
        A column is missing or has another type.
    UnsupportedError
        The table has feature flags that this release does not know.
    """

    def __init__(self, snapshot: Snapshot | None, rows: pa.Table | None = None) -> None:
        self.snapshot = snapshot
        self._known = rows
        self._table = None if snapshot is None else Dataset(snapshot)
        self._found: dict[str, Entry | None] = {}
        if self._table is not None:
            _check_columns(self._table.schema)
            check_flags(self._table.metadata, "reader")

    def find(self, object_id: str) -> Entry | None:
        """The object of an id, None if there is none.

        Parameters
        ----------
        object_id : str

        Raises
        ------
        FormatError
            Several rows have the id, or its row is damaged.
        """
        return self.find_all([object_id])[0]

    def find_all(self, object_ids: Sequence[str]) -> list[Entry | None]:
        """The objects of several ids, in order, by one look-up.

        Parameters, errors: as :meth:`find`.
        """
        known = {object_id: self._found[object_id] for object_id in object_ids if object_id in self._found}
        missing = [object_id for object_id in object_ids if object_id not in known]
        if missing:
            column = col("object_id")
            rows = self._rows(column == lit(missing[0]) if len(missing) == 1 else column.isin(missing))
            found = {object_id: _only(object_id, rows) for object_id in missing}
            if len(self._found) >= _MOST_FOUND:
                self._found.clear()
            self._found.update(found)
            known.update(found)
        return [known[object_id] for object_id in object_ids]

    def names(
        self, namespace: str, kind: str, after: str | None = None, *, few: bool = False
    ) -> Iterator[str]:
        """Names of the objects of one kind directly in a namespace, in order.

        Parameters
        ----------
        namespace : str
            Its id; "" is the root.
        kind : str
        after : str, optional
            Only names greater than this.
        few : bool
            Whether only the first names are needed: rows are read in parts then.
        """
        prefix = _prefix(namespace)
        for ids in self._parts(prefix, kind, after, few):
            names = pc.utf8_slice_codeunits(ids, len(prefix), None)
            yield from sorted(names.filter(pc.invert(pc.match_substring(names, DELIMITER))).to_pylist())

    def tables(self, after: str | None = None, *, few: bool = False) -> Iterator[str]:
        """Ids of all tables, also of those in child namespaces, in order.

        Parameters
        ----------
        after, few
            As for :meth:`names`.
        """
        for ids in self._parts("", TABLE, after, few):
            yield from sorted(ids.to_pylist())

    def _parts(self, prefix: str, kind: str, after: str | None, few: bool) -> Iterator[pa.Array]:
        """The ids that begin with a prefix, of one kind, in ascending parts; each part in any order."""
        first, last = prefix + (after or ""), _end(prefix) if prefix else None
        bounds = self._bounds(first, last) if few else []
        begin, size, place = col("object_id") > lit(first), 1, 0
        while True:
            end = bounds[place + size - 1] if place + size <= len(bounds) else last
            inside = begin if end is None else begin & (col("object_id") < lit(end))
            yield self._ids(inside & (col("object_type") == lit(kind)))
            if end == last:
                return
            begin, place, size = col("object_id") >= lit(end), place + size, min(2 * size, _MOST_PAGES)

    def _bounds(self, first: str, last: str | None) -> list[str]:
        """Ids between two others that cut the rows into parts, ascending; none without an index."""
        if self.snapshot is None:
            return []
        found = catalog_of(self.snapshot).page_bounds(("object_id",))
        return [bound for bound in found if first < bound and (last is None or bound < last)]

    def below(self, namespace: str) -> list[str]:
        """The ids of all objects in a namespace, also in those below it.

        Parameters
        ----------
        namespace : str
        """
        return list(self._ids(_below(namespace)).to_pylist())

    def locations(self) -> Mapping[str, list[str]]:
        """The ids of tables by their locations. Missing locations are left out."""
        rows = self._scan(["object_id", "location"], col("object_type") == lit(TABLE))
        found: dict[str, list[str]] = {}
        for object_id, location in zip(
            rows["object_id"].to_pylist(), rows["location"].to_pylist(), strict=True
        ):
            if location:
                found.setdefault(location.removesuffix("/"), []).append(object_id)
        return found

    def tables_at(self, location: str) -> list[str]:
        """The ids of the tables at a location, or at one below it.

        Parameters
        ----------
        location : str
        """
        at = (col("location") == lit(location)) | (
            (col("location") >= lit(f"{location}/")) & (col("location") < lit(_end(f"{location}/")))
        )
        return list(self._ids((col("object_type") == lit(TABLE)) & at).to_pylist())

    def entries(self, object_ids: Sequence[str]) -> list[Entry]:
        """The objects of several ids, in order.

        Parameters
        ----------
        object_ids : sequence of str
        """
        if not object_ids:
            return []
        rows = self._rows(col("object_id").isin(list(object_ids)))
        known = {row["object_id"]: row for row in rows}
        return [Entry.of(known[object_id]) for object_id in object_ids]

    def rows_of(self, object_ids: Sequence[str]) -> pa.Table:
        """The rows of several ids, with all columns and their addresses.

        Parameters
        ----------
        object_ids : sequence of str
        """
        condition = col("object_id").isin(list(object_ids))
        if self._whole is None:
            return self._dataset.to_table(filter=condition, with_row_address=True)
        return self._whole.filter(_mask(self._whole, condition))

    def rows_in(self, fragments: Sequence[int]) -> pa.Table:
        """The rows of some fragments, with all columns and their addresses.

        Parameters
        ----------
        fragments : sequence of int
            Their ids.
        """
        if self._whole is None:
            return self._dataset.to_table(fragments=list(fragments), with_row_address=True)
        inside = pc.shift_right(self._whole["_rowaddr"], pa.scalar(32, pa.uint64()))
        return self._whole.filter(pc.is_in(inside, value_set=pa.array(fragments, pa.uint64())))

    def _rows(self, condition: Term) -> list[dict[str, str | None]]:
        rows: list[dict[str, str | None]] = self._scan(_READ, condition).to_pylist()
        return rows

    def _ids(self, condition: Term) -> pa.ChunkedArray:
        return self._scan(["object_id"], condition)["object_id"].combine_chunks()

    def _scan(self, columns: list[str], condition: Term) -> pa.Table:
        if self._table is None:
            return pa.table({name: pa.array([], pa.string()) for name in columns})
        if self._whole is None:
            return self._table.to_table(columns=columns, filter=condition)
        return self._whole.select(columns).filter(_mask(self._whole, condition))

    @cached_property
    def _whole(self) -> pa.Table | None:
        """All rows with their addresses; None if they are many."""
        if self._known is not None or self.snapshot is None:
            return self._known
        count = self.snapshot.row_counts.num_rows
        size = sum(file.size or _WHOLE_BYTES for part in self.snapshot.fragments for file in part.files)
        if count is None or count > SMALL or size > _WHOLE_BYTES:
            return None
        return self._dataset.to_table(with_row_address=True)

    @property
    def _dataset(self) -> Dataset:
        if self._table is None:
            raise DatasetNotFoundError(f"there is no {MANIFEST}", kind="dataset")
        return self._table


def _mask(rows: pa.Table, condition: Term) -> pa.ChunkedArray:
    return mask(bind(condition.expr, rows.schema, boolean=True), rows)


def _prefix(namespace: str) -> str:
    return f"{namespace}{DELIMITER}" if namespace else ""


def _end(prefix: str) -> str:
    """The least text that is greater than all with a prefix, which ends with a delimiter."""
    return prefix[:-1] + _AFTER[prefix[-1]]


def _only(object_id: str, rows: Sequence[dict[str, str | None]]) -> Entry | None:
    """The object of an id among some rows."""
    mine = [row for row in rows if row["object_id"] == object_id]
    if len(mine) > 1:
        raise FormatError(f"{len(mine)} rows of {MANIFEST} have the id {printable(object_id)!r}")
    return Entry.of(mine[0]) if mine else None


def _below(namespace: str) -> Term:
    prefix = _prefix(namespace)
    return (col("object_id") > lit(prefix)) & (col("object_id") < lit(_end(prefix)))


def _check_columns(schema: pa.Schema) -> None:
    for field in COLUMNS:
        found = schema.field(field.name).type if field.name in schema.names else None
        if found is None and field.name != "base_objects":
            raise FormatError(f"{MANIFEST} has no column {field.name!r}, so it is no table of a namespace")
        if found is not None and field.name in _READ and not found.equals(pa.string()):
            raise FormatError(f"column {field.name!r} of {MANIFEST} is {found}, and not {field.type}")


def check_flags(metadata: Mapping[str, str], kind: str) -> None:
    """Refuse a table with feature flags that this release does not know.

    Parameters
    ----------
    metadata : mapping of str to str
        Of the table.
    kind : "reader" or "writer"

    Raises
    ------
    UnsupportedError
    """
    text = metadata.get(_FLAGS.format(kind), "0")
    if text.strip() not in ("", "0"):
        raise UnsupportedError(
            f"{MANIFEST} needs features of a {kind} ({printable(text)}) that this release of lancecy does not have",
            feature=f"{kind} flags of a namespace",
        )
