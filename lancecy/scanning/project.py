"""Columns to read and columns to return.

A :class:`Projection` is worked out once per scan from the schema and the request:
which pruned fields must be read for the filter, which for the output, and how each
output column is made from them. Nested names (``s.a``) come back as columns of that
name, as pylance returns them.

Imports ``schema``, ``expr``, ``scanning.extension`` and ``scanning.request``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from lancecy.expr import Bound, Expr, bind
from lancecy.expr.nodes import Column as ColumnExpr
from lancecy.scanning.extension import bare_type, pruned, storage_of
from lancecy.scanning.rearrange import Column
from lancecy.scanning.request import VIRTUAL_COLUMNS, ScanRequest
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

    With neither it is one of the columns in ``VIRTUAL_COLUMNS``, named by its field.
    """

    field: pa.Field
    path: Path | None = None
    bound: Bound | None = None

    @property
    def is_virtual(self) -> bool:
        """Whether it comes from where a row is and not from what is stored in it."""
        return self.path is None and self.bound is None


@dataclass(frozen=True)
class Projection:
    """What a scan reads and returns.

    Attributes
    ----------
    outputs : tuple of Output
    fields : tuple of Field
        Top-level fields for the outputs, pruned to the leaves they need.
    filter : Bound or None
    filter_fields : tuple of Field
        Pruned likewise.
    schema : pyarrow.Schema
        Of the result.
    """

    outputs: tuple[Output, ...]
    fields: tuple[Field, ...]
    filter: Bound | None
    filter_fields: tuple[Field, ...]
    schema: pa.Schema = field(compare=False)


def _leaf_ids(fields: Iterable[Field]) -> frozenset[int]:
    return frozenset(node.id for top in fields for node in top.walk() if not node.children)


def _needed(schema: Schema, paths: Iterable[Path]) -> tuple[Field, ...]:
    """Top-level fields, in schema order, pruned to what the paths reach."""
    wanted: dict[int, set[int]] = {}
    for path in paths:
        chain = schema.path(path)
        wanted.setdefault(chain[0].id, set()).update(_leaf_ids([chain[-1]]))
    return tuple(pruned(top, frozenset(wanted[top.id])) or top for top in schema.fields if top.id in wanted)


def _output(schema: Schema, names: pa.Schema, name: str, expr: Expr | None) -> Output:
    if expr is not None:
        bound = bind(expr, names)
        if not isinstance(bound.expr, ColumnExpr):
            return Output(pa.field(name, bound.type, True), bound=bound)
        return _stored(schema, name, bound.expr.path)
    if name in VIRTUAL_COLUMNS and name not in schema.names:
        return Output(pa.field(name, pa.uint64(), True))
    return _stored(schema, name, schema.resolve(name))


def _stored(schema: Schema, name: str, path: Path) -> Output:
    chain = schema.path(path)
    leaf = chain[-1]
    nullable = any(node.nullable for node in chain)
    return Output(leaf.arrow_field.with_name(name).with_nullable(nullable), path=path)


def _names(arrow: pa.Schema) -> pa.Schema:
    """What expressions see: they name the children of structs, of whatever extension type these are."""
    return pa.schema([field.with_type(bare_type(field.type)) for field in arrow], metadata=arrow.metadata)


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
    columns = [(name, None) for name in schema.names] if request.columns is None else request.columns
    has_expressions = request.filter is not None or any(expr is not None for _, expr in columns)
    names = _names(arrow) if has_expressions else arrow
    outputs = tuple(_output(schema, names, name, expr) for name, expr in columns)
    asked = {"_rowid": request.with_row_id, "_rowaddr": request.with_row_address}
    listed = {out.field.name for out in outputs if out.is_virtual}
    outputs += tuple(
        Output(pa.field(name, pa.uint64(), True))
        for name, wanted in asked.items()
        if wanted and name not in listed
    )
    paths: list[Path] = []
    for out in outputs:
        paths.extend([out.path] if out.path is not None else (out.bound.paths if out.bound else ()))
    bound = None if request.filter is None else bind(request.filter, names, boolean=True)
    return Projection(
        outputs=outputs,
        fields=_needed(schema, paths),
        filter=bound,
        filter_fields=_needed(schema, bound.paths) if bound is not None else (),
        schema=pa.schema([out.field for out in outputs], metadata=arrow.metadata),
    )


def extract(column: Column, path: Path) -> Column:
    """The nested column at ``path`` (its first part being the column itself), parents' nulls applied."""
    for name in path[1:]:
        column = pc.struct_field(storage_of(column), [name])
    return column
