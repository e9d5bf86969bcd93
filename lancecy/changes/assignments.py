"""What an update sets: columns or members of structs, their new values, and these values cast to the columns' types.

A value is SQL text or an expression over the row as it was before the update, or a constant of Python, NumPy or
Arrow. Casts keep every value: one that does not fit its column is refused, with column, row and value.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancecy.arrow.bfloat16 import bfloat16_array
from lancecy.encodings.arrow.columns import as_array, storage_of
from lancecy.encodings.arrow.conversions import array_of
from lancecy.encodings.arrow.nulls import null_mask
from lancecy.errors import ColumnNotFoundError, ExpressionError, SchemaError, printable
from lancecy.expr import Expr, Term, describe, evaluate, fix_clock, parse
from lancecy.expr.nodes import Literal, literal_of
from lancecy.interop.casts import CAST_ERRORS, error_of, exact, first_misfit
from lancecy.records import dataclass
from lancecy.scanning.context import ScanContext
from lancecy.scanning.project import Projection
from lancecy.scanning.request import ScanRequest
from lancecy.schema import Field, Schema

__all__ = ["Assignment", "Assignments", "RowName"]

RowName = Callable[[int], str]
"""Names a row of a batch, given by its position, for errors."""

_BFLOAT16 = "lance.bfloat16"
_QUOTES = "Values of an update are SQL: text has quotes of its own, as in \"'text'\"."
_COMPUTED = "="
"""Begins the names of computed columns of the scan; no column of a table has such a name and a dot."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """One column or member of a struct, and its new value.

    Attributes
    ----------
    path : tuple of Field
        From the top-level column down to what is set.
    type : pyarrow.DataType
        Type of the new values, without extension types.
    expr : Expr or None
        Computes the values from the rows; None for a constant.
    constant : pyarrow.Array or None
        One value of the type.
    """

    path: tuple[Field, ...]
    type: pa.DataType
    expr: Expr | None = None
    constant: pa.Array | None = None

    @property
    def field(self) -> Field:
        """The field that is set."""
        return self.path[-1]

    @property
    def name(self) -> str:
        """Name of the field, with those of the structs around it."""
        return printable(".".join(field.name for field in self.path))

    def __str__(self) -> str:
        if self.expr is not None:
            value = describe(self.expr, max_values=10)
        else:
            value = "" if self.constant is None else repr(self.constant[0].as_py())
        return f"{self.name} = {printable(value if len(value) <= 60 else value[:59] + '…')}"


@dataclass(frozen=True)
class Assignments:
    """All that one update sets.

    Attributes
    ----------
    schema : Schema
        Schema of the table.
    items : tuple of Assignment
    """

    schema: Schema
    items: tuple[Assignment, ...]

    @classmethod
    def of(cls, context: ScanContext, updates: Mapping[str, object], instant: int) -> Assignments:
        """Check what an update sets, before any row is read.

        Parameters
        ----------
        context : ScanContext
        updates : mapping of str to object
            See ``Dataset.update``.
        instant : int
            The time for ``now()`` and the like, from :func:`lancecy.expr.time_now`.

        Raises
        ------
        ColumnNotFoundError
            The table, or an expression, lacks a column.
        ExpressionError
            An expression cannot be parsed or does not fit the schema.
        SchemaError
            Values of such a type, or this constant, cannot be those of the column.
        ValueError
            Nothing is set, or a column twice.
        """
        if not updates:
            raise ValueError("an update sets at least one column: give {'column': value}")
        schema = context.snapshot.schema
        items = [_assignment(schema, name, value, instant) for name, value in updates.items()]
        _check_apart(items)
        return cls(schema, tuple(_settled(context, items)))

    @cached_property
    def kept(self) -> tuple[str, ...]:
        """Top-level columns that are not set as a whole."""
        whole = {item.field.name for item in self.items if len(item.path) == 1}
        return tuple(name for name in self.schema.names if name not in whole)

    @cached_property
    def columns(self) -> tuple[tuple[str, Expr | None], ...]:
        """Columns of the scan: those kept, then the computed values in the order of ``items``."""
        computed = (item.expr for item in self.items if item.expr is not None)
        return (
            *((name, None) for name in self.kept),
            *((f"{_COMPUTED}{number}.", expr) for number, expr in enumerate(computed)),
        )

    @property
    def field_ids(self) -> tuple[int, ...]:
        """Ids of the fields with new values, those above and below them included."""
        ids = {node.id for item in self.items for node in (*item.path, *item.field.walk())}
        return tuple(sorted(number for number in ids if number >= 0))

    def located(self, error: ExpressionError, projection: Projection) -> ExpressionError:
        """An error of evaluation, with the names of the columns that the expression is for.

        Parameters
        ----------
        error : ExpressionError
        projection : Projection
            Of ``columns``.
        """
        computed = (item for item in self.items if item.expr is not None)
        for item, output in zip(computed, projection.outputs[len(self.kept) :], strict=True):
            if error.text and str(output.bound) == error.text:
                error.within(f"column {item.name!r}")
        return error

    def applied(self, batch: pa.RecordBatch, row_name: RowName) -> pa.RecordBatch:
        """The rows with their new values.

        Parameters
        ----------
        batch : pyarrow.RecordBatch
            With ``columns``.
        row_name : function

        Returns
        -------
        pyarrow.RecordBatch
            With all columns of the table, in the order of its schema.

        Raises
        ------
        SchemaError
            A value does not fit its column, or is null where none may be.
        """
        columns = dict(zip(self.kept, batch.columns, strict=False))
        computed = iter(batch.columns[len(self.kept) :])
        for item in self.items:
            if item.constant is None:
                values = _cast(item, next(computed), row_name)
            else:
                values = _repeated(item.constant, batch.num_rows)
            top = item.path[0].name
            is_whole = len(item.path) == 1
            columns[top] = values if is_whole else _with_member(columns[top], item, 0, values, row_name)
        return pa.RecordBatch.from_arrays([columns[name] for name in self.schema.names], self.schema.names)


def _assignment(schema: Schema, name: object, value: object, instant: int) -> Assignment:
    if not isinstance(name, str):
        raise TypeError(f"an update maps names of columns to values; {name!r} is no name")
    path = schema.path(schema.resolve(name))
    made = Assignment(path, _plain_type(path[-1]))
    for field in path[:-1]:
        if field.is_blob or field.extension_name:
            raise SchemaError(
                f"members of column {printable(name)!r} cannot be set one by one: set the whole column",
                difference=name,
            )
    expr = _expression(value)
    if isinstance(expr, Literal) and isinstance(expr.value, tuple):
        value, expr = _floats(expr.value), None
    if expr is None:
        return replace(made, constant=_constant(made, value))
    return replace(made, expr=fix_clock(expr, schema.arrow, instant))


def _floats(values: Sequence[object]) -> list[object]:
    """Constants of SQL; numbers with a point are exact there."""
    return [float(value) if isinstance(value, Decimal) else value for value in values]


def _expression(value: object) -> Expr | None:
    """The expression that a value of an update is, None for a constant."""
    if isinstance(value, str | Expr | Term | pc.Expression):
        if isinstance(value, str) and not value.strip():
            raise ExpressionError("an empty text is no SQL expression; the text without characters is \"''\"")
        try:
            return parse(value)
        except ExpressionError as error:
            error.add_note(_QUOTES)
            raise
    return None


def _plain_type(field: Field) -> pa.DataType:
    """Arrow type of the new values of a field: blobs are bytes, JSON is text."""
    if field.is_blob:
        return pa.large_binary()
    if field.logical_type == "json":
        return pa.string()
    if field.is_struct:
        return pa.struct([pa.field(child.name, _plain_type(child)) for child in field.children])
    kind = field.arrow_type
    return kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind


def _constant(item: Assignment, value: Any) -> pa.Array:
    """One value as an array of the type of the field."""
    try:
        found = _array_of(item.field, value)
    except CAST_ERRORS as error:
        raise SchemaError(
            f"column {item.name!r} is {item.field.arrow_type}, and cannot be set to {printable(repr(value))}: "
            f"{printable(error)}",
            difference=f"{item.name}: {type(value).__name__} is not {item.type}",
        ) from error
    _check_nulls(item, found, _no_row)
    return found


def _array_of(field: Field, value: Any) -> pa.Array:
    """One value as an array; Arrow would truncate numbers if it were told the type at once."""
    kind = _plain_type(field)
    if type(value).__name__ == "NAType":  # of pandas, which need not be imported
        value = None
    if field.is_struct and not field.is_blob and isinstance(value, Mapping):
        return _struct_of(field, value)
    if field.logical_type == "json" and not isinstance(value, pa.Scalar | None):
        value = json.dumps(value)
    if _is_bfloat16(field) and isinstance(value, int | float):
        return storage_of(bfloat16_array([value]))
    if isinstance(getattr(value, "asm8", None), np.generic):
        # Arrow drops the nanoseconds of a Timestamp of pandas.
        literal = literal_of(value)
        found = pa.array([literal.value], literal.type)
    elif isinstance(value, pa.Scalar):
        found = pa.array([value.as_py()], value.type)
    elif isinstance(value, np.generic):
        found = pa.array(np.array([value]))
    else:
        value = value.tolist() if isinstance(value, np.ndarray) else value
        found = pa.array([bytes(value) if isinstance(value, bytearray | memoryview) else value])
    return exact(storage_of(found), kind)


def _is_bfloat16(field: Field) -> bool:
    return _BFLOAT16 in (field.logical_type, field.extension_name)


def _struct_of(field: Field, value: Mapping[str, Any]) -> pa.StructArray:
    children = {child.name: child for child in field.children}
    unknown = next((name for name in value if name not in children), None)
    if unknown is not None:
        raise TypeError(f"it has no member {unknown!r}")
    missing = next((n for n, child in children.items() if value.get(n) is None and not child.nullable), None)
    if missing is not None:
        raise TypeError(f"its member {missing!r} may not be null")
    members = [_array_of(child, value.get(name)) for name, child in children.items()]
    fields = [pa.field(name, member.type) for name, member in zip(children, members, strict=True)]
    return pa.StructArray.from_arrays(members, fields=fields)


def _no_row(_: int) -> str:
    """The name of the row of a constant."""
    return ""


def _check_apart(items: Sequence[Assignment]) -> None:
    """Refuse a column that is set twice, also as a part of another."""
    seen: dict[tuple[int, ...], Assignment] = {}
    for item in sorted(items, key=lambda item: len(item.path)):
        ids = tuple(field.id for field in item.path)
        above = next((seen[ids[:size]] for size in range(1, len(ids) + 1) if ids[:size] in seen), None)
        if above is not None:
            raise ValueError(f"column {item.name!r} is set twice, also as {above.name!r}")
        seen[ids] = item


def _settled(context: ScanContext, items: Sequence[Assignment]) -> list[Assignment]:
    """The assignments with constant expressions evaluated, and types checked."""
    exprs = [item.expr for item in items if item.expr is not None]
    listed = tuple((f"{_COMPUTED}{number}.", expr) for number, expr in enumerate(exprs))
    try:
        outputs = iter(context.projection(ScanRequest(columns=listed)).outputs if listed else ())
    except ColumnNotFoundError as error:
        error.add_note(_QUOTES)
        raise
    found = []
    for item in items:
        if item.expr is None:
            found.append(item)
            continue
        output = next(outputs)
        if output.bound is not None and not output.bound.paths:
            one = as_array(evaluate(output.bound, pa.table({"": pa.nulls(1)})))
            found.append(replace(item, expr=None, constant=_cast(item, one, _no_row)))
            continue
        _cast(item, storage_of(pa.nulls(0, output.field.type)), _no_row)
        found.append(item)
    return found


def _cast(item: Assignment, values: pa.Array, row_name: RowName) -> pa.Array:
    """The values as those of the column; ``row_name`` names a row that does not fit."""
    values = storage_of(values)
    if not values.type.equals(item.type):
        values = _converted(item, values, row_name)
    _check_nulls(item, values, row_name)
    return values


def _check_nulls(item: Assignment, values: pa.Array, row_name: RowName) -> None:
    """Refuse nulls in a column; a member of a struct may be null where the struct is."""
    if values.null_count and not item.field.nullable and len(item.path) == 1:
        _refuse_null(item.name, values.is_null(), row_name)


def _converted(item: Assignment, values: pa.Array, row_name: RowName) -> pa.Array:
    is_number = pa.types.is_floating(values.type) or pa.types.is_integer(values.type)
    if _is_bfloat16(item.field) and is_number:
        return storage_of(bfloat16_array(values))
    try:
        return exact(values, item.type)
    except CAST_ERRORS as error:
        at = first_misfit(values, item.type)
        value = "" if at is None else f" value {printable(repr(values[at].as_py()))}{row_name(at)}"
        raise SchemaError(
            f"column {item.name!r} is {item.field.arrow_type}, and cannot be set to the {values.type}{value}: "
            f"{printable(error_of(values, item.type, at, error))}; a CAST in the expression converts such values",
            difference=f"{item.name}: {values.type} is not {item.type}",
        ) from error


def _refuse_null(name: str, missing: pa.BooleanArray, row_name: RowName) -> None:
    at = pc.index(missing, True).as_py()
    if at >= 0:
        raise SchemaError(
            f"column {name!r} may not be null, and would be{row_name(at) or ' in every row'}",
            difference=f"{name} is null",
        )


def _repeated(constant: pa.Array, length: int) -> pa.Array:
    return constant.take(array_of(np.zeros(length, np.int64)))


def _with_member(
    struct: pa.Array, item: Assignment, level: int, values: pa.Array, row_name: RowName
) -> pa.StructArray:
    """A struct with one member set; a null struct comes to be where the new value is not null."""
    struct = storage_of(struct)
    field, names, members = item.path[level], struct.type.names, struct.flatten()
    at = names.index(item.path[level + 1].name)
    if level + 2 < len(item.path):
        values = _with_member(members[at], item, level + 1, values, row_name)
    members[at] = values
    mask = null_mask(struct)
    mask = None if mask is None else pc.and_(mask, values.is_null())
    for child, member in zip(field.children, members, strict=True):
        if not child.nullable and member.null_count:
            name = printable(".".join([*(f.name for f in item.path[: level + 1]), child.name]))
            missing = member.is_null() if mask is None else pc.and_not(member.is_null(), mask)
            _refuse_null(name, missing, row_name)
    fields = [pa.field(name, member.type) for name, member in zip(names, members, strict=True)]
    return pa.StructArray.from_arrays(members, fields=fields, mask=mask)
