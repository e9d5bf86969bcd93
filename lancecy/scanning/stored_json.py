"""JSON columns that expressions read in their stored form.

A JSON column becomes text when a scan returns it. The JSON functions work on the stored form, so a column that
they read is read as large binary instead; where an expression or an output needs its text too, that is made afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from lancecy.encodings.arrow.columns import ArrowArray
from lancecy.encodings.arrow.to_arrow import json_column
from lancecy.expr import Expr
from lancecy.expr.nodes import Call, Column
from lancecy.schema import Field

__all__ = ["as_output", "read_as_stored", "stored_paths"]

Path = tuple[str, ...]

_ANY_FORM = frozenset(("is_null", "storage", "stored"))
"""Calls that take a JSON column as text or in its stored form."""


def stored_paths(exprs: Iterable[Expr], outputs: Iterable[Path] = ()) -> frozenset[Path]:
    """Find the JSON columns to read in their stored form.

    Parameters
    ----------
    exprs : iterable of Expr
        Bound expressions over the columns.
    outputs : iterable of tuple of str
        Columns that are returned as they are.

    Returns
    -------
    frozenset of tuple of str
        Columns that a JSON function reads, unless something needs their text within a struct, or as pyarrow has it.
    """
    uses = [use for expr in exprs for use in _uses(expr)]
    found = {path for path, op in uses if op == "stored"}
    if not found:
        return frozenset()
    other = {path for path, op in uses if op not in _ANY_FORM}
    above = {path for path in outputs if path not in found}
    return frozenset(
        path
        for path in found
        if path not in other and not any(path[: len(top)] == top for top in (*above, *other))
    )


def _uses(expr: Expr) -> Iterator[tuple[Path, str]]:
    """Yield every column of the tree, and the call that it is an argument of."""
    if isinstance(expr, Column):
        yield expr.path, ""
    elif isinstance(expr, Call):
        for arg in expr.args:
            if isinstance(arg, Column):
                yield arg.path, expr.op
            else:
                yield from _uses(arg)


def read_as_stored(fields: Sequence[Field], paths: frozenset[Path]) -> tuple[Field, ...]:
    """The fields to read, with the JSON columns at these paths as large binary.

    Examples
    --------
    >>> (field,) = read_as_stored([Field("j", 0, logical_type="json")], frozenset({("j",)}))
    >>> field.arrow_type
    DataType(large_binary)
    """
    return tuple(_stored(f, paths, ()) for f in fields) if paths else tuple(fields)


def _stored(field: Field, paths: frozenset[Path], above: Path) -> Field:
    path = (*above, field.name)
    if path in paths:
        return replace(field, logical_type="large_binary", extension_name="", metadata={})
    if not field.is_struct or not any(wanted[: len(path)] == path for wanted in paths):
        return field
    return replace(field, children=tuple(_stored(child, paths, path) for child in field.children))


def as_output(column: ArrowArray, field: pa.Field) -> ArrowArray:
    """The column as it is returned: a JSON column read in its stored form becomes text."""
    if isinstance(field.type, pa.JsonType) and pa.types.is_large_binary(column.type):
        return json_column(column, field.type, field.name)
    return column
