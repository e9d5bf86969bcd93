"""Columns to read and columns to return.

A :class:`Projection` is worked out once per scan from the schema and the request:
which pruned fields must be read for the filter, which for the output, and how each
output column is made from them. Nested names (``s.a``) come back as columns of that
name, as pylance returns them.

Imports ``schema``, ``expr`` and ``scan.request``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from lancecy.expr import Bound, bind
from lancecy.scanning.request import ScanRequest
from lancecy.schema import Field, Schema

__all__ = ["Output", "Projection", "project"]

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Output:
    """One column of the result.

    Attributes
    ----------
    field : pyarrow.Field
    path : tuple of str or None
        Where it is found among the fields read; None for a computed column.
    bound : Bound or None
        What computes it.
    """

    field: pa.Field
    path: Path | None = None
    bound: Bound | None = None


@dataclass(frozen=True)
class Projection:
    """What a scan reads and returns.

    Attributes
    ----------
    outputs : tuple of Output
        Without the row id and row address columns.
    fields : tuple of Field
        Top-level fields for the outputs, pruned to the leaves they need.
    filter : Bound or None
    filter_fields : tuple of Field
        Pruned likewise.
    with_row_id, with_row_address : bool
    schema : pyarrow.Schema
        Of the result, row id and row address at the end.
    """

    outputs: tuple[Output, ...]
    fields: tuple[Field, ...]
    filter: Bound | None
    filter_fields: tuple[Field, ...]
    with_row_id: bool
    with_row_address: bool
    schema: pa.Schema = field(compare=False)

    @property
    def is_plain(self) -> bool:
        """Whether every output is one of the fields read, whole and under its own name."""
        return all(out.path is not None and len(out.path) == 1 for out in self.outputs)


def _leaf_ids(fields: Iterable[Field]) -> frozenset[int]:
    return frozenset(node.id for top in fields for node in top.walk() if not node.children)


def _needed(schema: Schema, paths: Iterable[Path]) -> tuple[Field, ...]:
    """Top-level fields, in schema order, pruned to what the paths reach."""
    wanted: dict[int, set[int]] = {}
    for path in paths:
        chain = schema.path(path)
        wanted.setdefault(chain[0].id, set()).update(_leaf_ids([chain[-1]]))
    pruned = []
    for top in schema.fields:
        if top.id in wanted:
            kept = top.pruned(frozenset(wanted[top.id]))
            pruned.append(kept if kept is not None else top)
    return tuple(pruned)


def _output(schema: Schema, name: str, bound: Bound | None) -> Output:
    if bound is not None:
        return Output(pa.field(name, bound.type, True), bound=bound)
    path = schema.resolve(name)
    chain = schema.path(path)
    leaf = chain[-1]
    nullable = any(node.nullable for node in chain)
    return Output(leaf.arrow_field.with_name(name).with_nullable(nullable), path=path)


def project(schema: Schema, request: ScanRequest) -> Projection:
    """Work out what a request reads and returns.

    Raises
    ------
    ColumnNotFoundError
        A name is not in the schema.
    ExpressionError
        The filter or a computed column does not fit the schema.
    """
    arrow = schema.arrow
    if request.columns is None:
        outputs = tuple(_output(schema, name, None) for name in schema.names)
    else:
        outputs = tuple(
            _output(schema, name, None if expr is None else bind(expr, arrow))
            for name, expr in request.columns
        )
    paths: list[Path] = []
    for out in outputs:
        paths.extend([out.path] if out.path is not None else (out.bound.paths if out.bound else ()))
    bound = None if request.filter is None else bind(request.filter, arrow, boolean=True)
    fields = [out.field for out in outputs]
    if request.with_row_id:
        fields.append(pa.field("_rowid", pa.uint64(), True))
    if request.with_row_address:
        fields.append(pa.field("_rowaddr", pa.uint64(), True))
    return Projection(
        outputs=outputs,
        fields=_needed(schema, paths),
        filter=bound,
        filter_fields=_needed(schema, bound.paths) if bound is not None else (),
        with_row_id=request.with_row_id,
        with_row_address=request.with_row_address,
        schema=pa.schema(fields, metadata=arrow.metadata),
    )


def extract(column: pa.Array | pa.ChunkedArray, path: Path) -> pa.Array | pa.ChunkedArray:
    """The nested column at ``path`` (its first part being the column itself), parents' nulls applied."""
    if len(path) == 1:
        return column
    return pc.struct_field(column, list(path[1:]))
