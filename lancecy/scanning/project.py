"""Columns to read and columns to return.

A scan works out one :class:`Projection` from the schema and the request: the pruned fields to read for the filter
and for the output, and the source of each output column. Nested names (``s.a``) come back as columns of that
name, as in pylance.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import field, replace
from functools import cached_property
from typing import Any, TypedDict

import pyarrow as pa
import pyarrow.compute as pc

from lancecy.encodings.arrow.assemble import pruned
from lancecy.encodings.arrow.columns import ArrowArray, bare_type, storage_of
from lancecy.errors import SchemaError
from lancecy.expr import Bound, Expr, bind, conjuncts
from lancecy.expr.nodes import Call
from lancecy.expr.nodes import Column as ColumnExpr
from lancecy.records import dataclass
from lancecy.rows import RowSelection
from lancecy.scanning.column_forms import compared_texts, read_as_stored, read_in_codes, stored_paths
from lancecy.scanning.request import NULL_IF_DELETED, ROW_OFFSET, VIRTUAL_COLUMNS, ScanRequest
from lancecy.scanning.virtual import is_selectable
from lancecy.schema import Field, Schema

__all__ = ["Output", "Projection", "expression_schema", "project"]

Path = tuple[str, ...]

_MOST_KEPT = 64
_FEW_ROWS, _FEW_FRAGMENTS = 1 << 16, 64
"""Most rows, of all fragments together, and most fragments whose rows are kept from planning."""


@dataclass(frozen=True, slots=True)
class Output:
    """One column of the result.

    Attributes
    ----------
    field : pyarrow.Field
    path : tuple of str or None
        Its place among the fields read; None for a computed column.
    bound : Bound or None
        Computes a computed column.
    virtual : str or None
        Name of a virtual column, one of ``VIRTUAL_COLUMNS``.
    """

    field: pa.Field
    path: Path | None = None
    bound: Bound | None = None
    virtual: str | None = None

    @property
    def paths(self) -> tuple[Path, ...]:
        """Paths that the column depends on, virtual columns included."""
        if self.virtual is not None:
            return ((self.virtual,),)
        return (self.path,) if self.path is not None else (self.bound.paths if self.bound else ())


class _Tested(TypedDict):
    """The attributes of a projection that concern the tested conditions."""

    filter: Bound | None
    filter_fields: tuple[Field, ...]
    filter_virtual: tuple[str, ...]


@dataclass(frozen=True)
class Projection:
    """The fields a scan reads and the columns it returns.

    Attributes
    ----------
    outputs : tuple of Output
    fields : tuple of Field
        Top-level fields for the outputs, pruned to the leaves they need.
    filter : Bound or None
        The conditions that ``where`` leaves to be tested.
    filter_fields : tuple of Field
        Fields that ``filter`` needs, pruned likewise.
    schema : pyarrow.Schema
        Schema of the result.
    whole : Bound or None
        The filter with all its conditions.
    stored : Schema
        Schema of the columns in files.
    where : tuple of Expr
        Bound conditions that :func:`lancecy.scanning.virtual.selected_rows` answers from metadata.
    virtual : tuple of str
        Virtual columns that outputs need.
    filter_virtual : tuple of str
        Virtual columns that ``filter`` needs.
    index_use : bool or None
        See ``ScanRequest``.
    """

    outputs: tuple[Output, ...]
    fields: tuple[Field, ...]
    filter: Bound | None
    filter_fields: tuple[Field, ...]
    schema: pa.Schema = field(compare=False)
    whole: Bound | None = field(repr=False)
    stored: Schema = field(compare=False, repr=False)
    where: tuple[Expr, ...] = ()
    virtual: tuple[str, ...] = ()
    filter_virtual: tuple[str, ...] = ()
    index_use: bool | None = None
    _narrower: dict[frozenset[Expr], Projection] = field(default_factory=dict, compare=False, repr=False)
    _exact: dict[int, tuple[object, RowSelection]] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def conditions(self) -> tuple[Expr, ...]:
        """All conditions of the filter: a row is selected if all of them are true."""
        return (*self.where, *(() if self.filter is None else conjuncts(self.filter.expr)))

    @cached_property
    def untested(self) -> tuple[Field, ...]:
        """Fields of the outputs that the filter does not need."""
        return tuple(f for f in self.fields if f not in self.filter_fields)

    @cached_property
    def compared_texts(self) -> dict[Field, Field]:
        """Text columns that the filter compares with constants, and the same in codes."""
        return {} if self.filter is None else compared_texts(self.filter, self.filter_fields)

    def exact_rows(self, fragment: int, sources: object) -> RowSelection | None:
        """The rows of a fragment that pass the filter, if planning found them and kept them.

        Parameters
        ----------
        fragment : int
        sources : tuple of CandidateSource
            Those of the scan.
        """
        known = self._exact.get(fragment)
        return known[1] if known is not None and known[0] is sources else None

    def keep_exact(self, fragment: int, sources: object, rows: RowSelection) -> None:
        """Keep the rows of a fragment that pass the filter, deleted ones among them, for the scan; only if they are few.

        Parameters
        ----------
        fragment : int
        sources : tuple of CandidateSource
            Those that named the rows, and others that were not asked.
        rows : RowSelection
        """
        kept = sum(len(mine) for _, mine in self._exact.values())
        if kept + len(rows) <= _FEW_ROWS and len(self._exact) < _FEW_FRAGMENTS:
            self._exact[fragment] = sources, rows

    def less(self, proved: frozenset[Expr]) -> Projection:
        """The same projection, with ``filter`` reduced to the conditions that are not proved.

        Parameters
        ----------
        proved : frozenset of Expr
            Some of ``conditions``, true for all rows to be tested.
        """
        if len(proved) == len(self.where) and proved.issuperset(self.where):
            return self  # as planned: row ids already proved their conditions
        found = self._narrower.get(proved)
        if found is None:
            rest = [part for part in self.conditions if part not in proved]
            tested = _tested(self.stored, self.whole, rest)
            found = replace(self, where=(), **tested, _narrower={}, _exact={})
            self._narrower[proved] = found
        return found


def _leaf_ids(fields: Iterable[Field]) -> frozenset[int]:
    """Ids of fields that are read whole or not at all: leaves, and descriptors of blobs."""
    return frozenset(node.id for top in fields for node in top.walk() if not node.children or node.is_blob)


def _needed(schema: Schema, paths: Iterable[Path]) -> tuple[Field, ...]:
    """Top-level fields, in schema order, pruned to what the paths reach."""
    wanted: dict[int, set[int] | None] = {}  # None: the whole field
    for path in paths:
        chain = schema.path(path)
        lowest = next((node for node in chain if node.is_blob), chain[-1])
        if lowest is chain[0]:
            wanted[lowest.id] = None
        elif (ids := wanted.setdefault(chain[0].id, set())) is not None:
            ids.update(_leaf_ids([lowest]))
    return tuple(_with_leaves(top, wanted[top.id]) for top in schema.fields if top.id in wanted)


def _with_leaves(top: Field, ids: set[int] | None) -> Field:
    return top if ids is None else pruned(top, frozenset(ids)) or top


def _output(
    schema: Schema,
    names: pa.Schema,
    virtual: Sequence[str],
    coded: frozenset[str],
    name: str,
    expr: Expr | None,
) -> Output:
    if expr is not None:
        bound = bind(expr, names)
        if not isinstance(bound.expr, ColumnExpr):
            return Output(pa.field(name, bound.type, True), bound=bound)
        path = bound.expr.path
    else:
        path = (name,) if name in virtual else schema.resolve(name)
    return _virtual(name, path[0]) if path[0] in virtual else _stored(schema, name, path, coded)


def _virtual_names(schema: Schema) -> list[str]:
    """The virtual columns that no stored column hides."""
    stored = schema.names
    return [name for name in VIRTUAL_COLUMNS if name not in stored]


def _virtual(name: str, column: str) -> Output:
    return Output(pa.field(name, pa.uint64(), True), virtual=column)


def _stored(schema: Schema, name: str, path: Path, coded: frozenset[str]) -> Output:
    chain = schema.path(path)
    leaf = replace(chain[-1], in_codes=True) if path[0] in coded else chain[-1]
    if len(chain) == 1 and leaf.name == name:
        return Output(leaf.arrow_field, path=path)
    nullable = any(node.nullable for node in chain)
    return Output(leaf.arrow_field.with_name(name).with_nullable(nullable), path=path)


def _names(arrow: pa.Schema, virtual: Sequence[str], with_deleted: bool = False) -> pa.Schema:
    """Schema that expressions see: virtual columns, and children of structs under any extension type."""
    fields = [field.with_type(bare_type(field.type)) for field in arrow]
    fields += [pa.field(name, pa.uint64(), with_deleted and name in NULL_IF_DELETED) for name in virtual]
    return pa.schema(fields, metadata=arrow.metadata)


@dataclass(frozen=True, slots=True, eq=False)
class _Columns:
    """What requests for the same columns share, whatever their filters.

    Attributes
    ----------
    virtual : list of str
        The virtual columns that no stored column hides.
    names : pyarrow.Schema
        What expressions see.
    coded : frozenset of str
        Texts that are returned as dictionaries.
    outputs : tuple of Output
    result : pyarrow.Schema
    """

    virtual: list[str]
    names: pa.Schema
    coded: frozenset[str]
    outputs: tuple[Output, ...]
    result: pa.Schema

    @classmethod
    def of(cls, schema: Schema, request: ScanRequest) -> _Columns:
        virtual = _virtual_names(schema)
        names = _names(schema.arrow, virtual, request.with_deleted)
        coded = read_in_codes(schema, request.in_codes)
        columns = [(name, None) for name in schema.names] if request.columns is None else request.columns
        outputs = tuple(_output(schema, names, virtual, coded, name, expr) for name, expr in columns)
        asked = {"_rowid": request.with_row_id, "_rowaddr": request.with_row_address}
        listed = {out.field.name for out in outputs if out.virtual is not None}
        for name, wanted in asked.items():
            if wanted and name not in virtual:
                raise SchemaError(
                    f"the table has a column {name!r} of its own, which hides the one that the scan would add",
                    difference=name,
                )
        outputs += tuple(
            _virtual(name, name) for name, wanted in asked.items() if wanted and name not in listed
        )
        result = pa.schema([out.field for out in outputs], metadata=schema.arrow.metadata)
        return cls(virtual, names, coded, outputs, result)


def expression_schema(schema: Schema) -> pa.Schema:
    """The columns that an expression may name: those of the table, and virtual ones that none of these hides."""
    return _names(schema.arrow, _virtual_names(schema))


def _metadata_answers(bound: Bound | None, virtual: Sequence[str]) -> tuple[Expr, ...]:
    """The conditions of a filter that metadata can answer."""
    names = frozenset(virtual) - {ROW_OFFSET}
    return () if bound is None else tuple(p for p in conjuncts(bound.expr) if is_selectable(p, names))


def _tested(schema: Schema, bound: Bound | None, parts: Sequence[Expr]) -> _Tested:
    """The bound filter and the fields for some of a filter's conditions."""
    if bound is None or not parts:
        return {"filter": None, "filter_fields": (), "filter_virtual": ()}
    if len(parts) < len(conjuncts(bound.expr)):
        bound = bound.restricted(parts[0] if len(parts) == 1 else Call("and", tuple(parts), pa.bool_()))
    virtual = _virtual_names(schema)
    fields = _needed(schema, (path for path in bound.paths if path[0] not in virtual))
    return {
        "filter": bound,
        "filter_fields": read_as_stored(fields, stored_paths([bound.expr])),
        "filter_virtual": tuple(name for name in virtual if (name,) in bound.paths),
    }


def _output_fields(
    schema: Schema,
    outputs: Sequence[Output],
    bound: Bound | None,
    virtual: Sequence[str],
    coded: frozenset[str],
) -> tuple[Field, ...]:
    """Fields for the outputs; JSON that the filter reads in its stored form is read once, if nothing forbids it."""
    fields = _needed(schema, (path for out in outputs for path in out.paths if path[0] not in virtual))
    exprs = [out.bound.expr for out in outputs if out.bound is not None]
    whole = [out.path for out in outputs if out.path is not None]
    fields = read_as_stored(fields, stored_paths([*exprs, *(() if bound is None else (bound.expr,))], whole))
    computed = {path[0] for out in outputs if out.bound is not None for path in out.bound.paths}
    return tuple(replace(f, in_codes=True) if f.name in coded - computed else f for f in fields)


def project(schema: Schema, request: ScanRequest, kept: dict[Hashable, Any] | None = None) -> Projection:
    """Work out the columns that a request reads and returns.

    Parameters
    ----------
    schema : Schema
    request : ScanRequest
    kept : dict, optional
        Remembers for the next request of this schema what does not depend on the filter.

    Raises
    ------
    ColumnNotFoundError
        A name is not in the schema.
    ExpressionError
        The filter or a computed column does not fit the schema.
    """
    kept = {} if kept is None else kept
    flags = (request.with_row_id, request.with_row_address, request.with_deleted)
    key = (request.columns, request.in_codes, flags)
    columns: _Columns | None = kept.get(key)
    if columns is None:
        if len(kept) >= _MOST_KEPT:
            kept.clear()
        columns = kept[key] = _Columns.of(schema, request)
    outputs, virtual = columns.outputs, columns.virtual
    paths = [path for out in outputs for path in out.paths]
    bound = None if request.filter is None else bind(request.filter, columns.names, boolean=True)
    where = _metadata_answers(bound, virtual) if request.use_stats else ()
    rest = [] if bound is None else [part for part in conjuncts(bound.expr) if part not in where]
    return Projection(
        outputs=outputs,
        fields=_output_fields(schema, outputs, bound, virtual, columns.coded),
        schema=columns.result,
        where=where,
        virtual=tuple(name for name in virtual if (name,) in paths),
        whole=bound,
        stored=schema,
        index_use=request.index_use,
        **_tested(schema, bound, rest),
    )


def extract(column: ArrowArray, path: Path) -> ArrowArray:
    """The nested column at ``path`` (whose first part is the column itself), with its parents' nulls."""
    for name in path[1:]:
        column = pc.struct_field(storage_of(column), [name])
    return column
