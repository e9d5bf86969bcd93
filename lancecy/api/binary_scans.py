"""The :class:`BinaryScanner`: a scan whose blob columns have bytes in place of descriptors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NoReturn

import numpy as np
import pyarrow as pa

from lancecy.api.scanners import Scanner
from lancecy.blobs.whole import blob_runs, blob_sizes, is_plain_blob, with_whole_blobs
from lancecy.encodings.arrow.conversions import array_of, numbers_of
from lancecy.encodings.arrow.map_nested import map_nested
from lancecy.errors import ColumnNotFoundError, LanceError, UnsupportedError, with_short_tracebacks
from lancecy.expr import Expr, bind
from lancecy.expr.nodes import Call, Column, Literal
from lancecy.scanning.analyze import Analysis
from lancecy.scanning.batches import DEFAULT_BATCH_ROWS, exact_batches
from lancecy.scanning.context import ScanContext
from lancecy.scanning.explain import Explanation
from lancecy.scanning.project import expression_schema
from lancecy.scanning.request import ScanRequest
from lancecy.schema import Field, Schema, split_name

__all__ = ["BinaryScanner", "blob_columns", "column_paths", "inner_request", "with_null_bytes"]

_ADDRESS = "_rowaddr"
_BLOB_BYTES = 64 << 20
"""Bytes of blobs after which a batch of a stream ends."""
_PACKED = b"lance-encoding:packed"


def blob_columns(context: ScanContext, request: ScanRequest) -> dict[str, Field]:
    """The columns of a result that are blob columns or have such members, by name; computed columns are not among them.

    Parameters
    ----------
    context : ScanContext
    request : ScanRequest
        Columns that the table does not have, such as the distance of a search, are passed over.
    """
    stored, paths = context.snapshot.schema, column_paths(context, request)
    found = {name: stored.path(path)[-1].scanned for name, path in paths.items()}
    return {name: field for name, field in found.items() if any(node.is_blob for node in field.walk())}


def column_paths(context: ScanContext, request: ScanRequest) -> dict[str, tuple[str, ...]]:
    """The places in the schema of the columns of a result that are returned as they are.

    Parameters
    ----------
    context, request
        As for :func:`blob_columns`.
    """
    known = set(context.snapshot.schema.names)
    columns = request.columns
    if columns is not None:
        columns = tuple(
            (name, expr)
            for name, expr in columns
            if expr is not None or name in known or split_name(name)[0] in known
        )
    projection = context.projection(replace(request, columns=columns, filter=None))
    return {out.field.name: out.path for out in projection.outputs if out.path is not None}


def inner_request(request: ScanRequest) -> ScanRequest:
    """The scan of descriptors, with the addresses of the rows: they tell the files that have the blobs.

    Parameters
    ----------
    request : ScanRequest

    Raises
    ------
    ValueError
        A computed column has the name of the addresses.
    UnsupportedError
        Deleted rows are asked for, which have no address.
    """
    if any(name == _ADDRESS and expr is not None for name, expr in request.columns or ()):
        raise ValueError(
            f"blob_handling='all_binary' needs the addresses of rows, and the computed column {_ADDRESS!r} has their "
            "name: name it otherwise"
        )
    if request.with_deleted:
        raise UnsupportedError(
            "blob_handling='all_binary' is not supported with include_deleted_rows=True: deleted rows have no address",
            feature="blob_handling",
        )
    return replace(request, with_row_address=True)


def with_null_bytes(request: ScanRequest, schema: Schema) -> ScanRequest:
    """The same scan, in which ``blob IS NULL`` is true for the descriptors that stand for nulls in files of 2.0 too.

    Parameters
    ----------
    request : ScanRequest
    schema : Schema
        Of the table.
    """
    columns = request.columns and tuple((n, e and _null_as_bytes(e, schema)) for n, e in request.columns)
    condition = request.filter and _null_as_bytes(request.filter, schema)
    return replace(request, columns=columns, filter=condition)


def _null_as_bytes(expr: Expr, schema: Schema) -> Expr:
    if not isinstance(expr, Call):
        return expr
    if expr.op == "is_null" and isinstance(expr.args[0], Column):
        try:
            bound = bind(expr.args[0], expression_schema(schema)).expr
        except ColumnNotFoundError:
            return expr  # Of a search, such as its distance.
        path = bound.path if isinstance(bound, Column) else ()
        node = schema.scanned.path(path)[-1] if path and path[0] in schema.names else None
        if node is None or not is_plain_blob(node):
            return expr
        size, position = (Column((*path, name)) for name in ("size", "position"))
        is_null = Call("and", (Call("=", (size, Literal(0))), Call("!=", (position, Literal(0)))))
        return Call("or", (expr, is_null))
    return replace(expr, args=tuple(_null_as_bytes(arg, schema) for arg in expr.args))


@with_short_tracebacks
class BinaryScanner(Scanner):
    """A scan that is described but not yet run and returns the bytes of blobs; made by ``Dataset.scanner(blob_handling=…)``.

    The bytes are read once the rows of the result are known, so filters, limits and searches read none in vain.

    Parameters
    ----------
    context : ScanContext
    scanner : Scanner
        Returns the rows with descriptors of blobs and with the addresses of the rows.
    request : ScanRequest
        That of the user; ``scanner`` runs :func:`inner_request` of it.
    columns : mapping of str to Field
        From :func:`blob_columns`.
    strict_batch_size : bool
        As for :class:`Scanner`.

    Attributes
    ----------
    schema : pyarrow.Schema
        Of the result.
    """

    def __init__(
        self,
        context: ScanContext,
        scanner: Scanner,
        request: ScanRequest,
        columns: Mapping[str, Field],
        strict_batch_size: bool = False,
    ) -> None:
        self._context = context
        self._scanner = scanner
        self._request = request
        self._columns = columns
        self._strict = strict_batch_size
        with_address = request.with_row_address or any(name == _ADDRESS for name, _ in request.columns or ())
        fields = [
            _binary(field, columns[field.name]) if field.name in columns else field
            for field in scanner.schema
            if with_address or field.name != _ADDRESS
        ]
        self.schema = pa.schema(fields, scanner.schema.metadata)

    @property
    def request(self) -> NoReturn:
        """Refused, as :meth:`plan`: who reads by the request gets descriptors."""
        raise _in_tasks()

    def plan(
        self,
        blocksize: int | None = None,
        *,
        min_units: int = 1,
        interleave: bool | None = None,
        embed_credentials: bool = False,
    ) -> NoReturn:
        """Refused: tasks return descriptors.

        Raises
        ------
        UnsupportedError
        """
        raise _in_tasks()

    def explain(self) -> Explanation:
        """Report fragments and pages kept and pruned, and bytes to read without those of blobs."""
        return self._scanner.explain()

    def analyze(self, count_rows: bool = False) -> Analysis:
        """Run the scan without reading the bytes of blobs, and report what each step took.

        Parameters
        ----------
        count_rows : as for :meth:`Scanner.analyze`
        """
        return self._scanner.analyze(count_rows)

    def count_rows(self) -> int:
        """Number of rows of the result."""
        return self._scanner.count_rows()

    def to_table(self) -> pa.Table:
        """Run the scan and return one table."""
        batches = self._scanner.to_table().to_batches()
        return pa.Table.from_batches((part for batch in batches for part in self._parts(batch)), self.schema)

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Run the scan as a stream, whose batches have few rows where blobs are large."""
        parts = (part for batch in self._scanner.to_batches() for part in self._parts(batch))
        return exact_batches(parts, self._request.batch_size or DEFAULT_BATCH_ROWS) if self._strict else parts

    def _parts(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The rows with bytes, in batches of bounded size."""
        sizes = sum(
            (blob_sizes(batch[name], field) for name, field in self._columns.items()), np.zeros(len(batch))
        )
        for start, stop in blob_runs(sizes, _BLOB_BYTES):
            yield self._with_bytes(batch.slice(start, stop - start))

    def _with_bytes(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        fragments = numbers_of(batch[_ADDRESS]) >> np.uint64(32)
        arrays = [
            self._fetched(batch[name], self._columns[name], fragments).cast(self.schema.field(name).type)
            if name in self._columns
            else batch[name]
            for name in self.schema.names
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _fetched(self, column: pa.Array, field: Field, fragments: np.typing.NDArray[np.uint64]) -> pa.Array:
        """A column with bytes in place of descriptors, fragment by fragment, in the order of the rows."""
        pieces, places = [], []
        for fragment_id in np.unique(fragments).tolist():
            which = np.flatnonzero(fragments == fragment_id)
            files = self._context.files(int(fragment_id))
            mine = column if which.size == len(column) else column.take(array_of(which))
            try:
                pieces.append(with_whole_blobs(self._context, files, mine, field, outside=True))
            except LanceError as error:
                raise self._context.snapshot.in_fragment(error, files.fragment)
            places.append(which)
        if len(pieces) == 1:
            return pieces[0]
        return pa.concat_arrays(pieces).take(array_of(np.argsort(np.concatenate(places))))


def _in_tasks() -> UnsupportedError:
    return UnsupportedError(
        "blob_handling='all_binary' is not supported for scans in tasks: leave it out, "
        "scan with_row_address=True, and read the bytes in the tasks by read_blobs(column, addresses=…)",
        feature="blob_handling",
    )


def _binary(field: pa.Field, column: Field) -> pa.Field:
    """A field of the result with bytes in place of descriptors."""
    found = map_nested(
        pa.nulls(0, field.type),
        column,
        lambda node: node.is_blob,
        lambda rows, _: pa.nulls(len(rows), pa.large_binary()),
    )
    metadata = {key: value for key, value in (field.metadata or {}).items() if key != _PACKED}
    return pa.field(field.name, found.type, field.nullable, metadata or None)
