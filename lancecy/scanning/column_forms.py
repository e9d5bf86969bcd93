"""Columns that are read in another form than that in which a scan returns them.

A JSON column becomes text when a scan returns it. The JSON functions work on the stored form, so a column that they read
is read as large binary instead; where an expression or an output needs its text too, that is made afterwards.

A text column may be returned as a dictionary, which pages that store one give without expanding it. One that a filter
only compares with constants is read in this form if the file stores it: each text is compared once. If it is returned as
well, it is read again as text, of the rows that passed.

Of a column that a filter tests for nulls and nothing else, a scan reads only the levels or bitmaps, as null stubs
(``encodings.blocks.null_only``). The filter then runs over the stubs without the calls that prepare values for
comparison: a stub is no dictionary and no JSON.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import lru_cache

import pyarrow as pa

from lancecy.encodings.arrow.columns import ArrowArray
from lancecy.encodings.arrow.to_arrow import json_column
from lancecy.expr import Bound, Expr
from lancecy.expr.nodes import Call, Column, Literal
from lancecy.records import dataclass
from lancecy.schema import Field, Schema

__all__ = [
    "NullTests",
    "as_output",
    "compared_texts",
    "json_paths",
    "null_tests",
    "read_as_stored",
    "read_in_codes",
    "stored_paths",
    "texts_of",
]


Path = tuple[str, ...]

_COMPARING = frozenset(("=", "!=", "<", "<=", ">", ">=", "in", "like", "ilike"))
"""Calls whose answer for a value is looked up by its code."""

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
    calls = [call for expr in exprs for call in _calls(expr)]
    uses = [(column.path, "" if call is None else call.op) for call, column in calls]
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


def json_paths(fields: Iterable[Field]) -> frozenset[Path]:
    """The JSON columns among the fields, and those within their structs.

    Examples
    --------
    >>> sorted(json_paths([Field("j", 0, logical_type="json"), Field("a", 1, logical_type="int8")]))
    [('j',)]
    """
    return frozenset(path for field in fields for path in _json_paths(field, ()))


def _json_paths(field: Field, above: Path) -> Iterator[Path]:
    path = (*above, field.name)
    if field.logical_type == "json":
        yield path
    elif field.is_struct:
        for child in field.children:
            yield from _json_paths(child, path)


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


def texts_of(schema: Schema) -> tuple[Field, ...]:
    """The top-level columns that can be read in codes."""
    return tuple(f for f in schema.fields if _is_text(f))


def compared_texts(bound: Bound, fields: Iterable[Field]) -> dict[Field, Field]:
    """The text columns that a filter only compares with constants, and the same in codes.

    Parameters
    ----------
    bound : Bound
        The filter.
    fields : iterable of Field
        Columns of the filter.
    """
    texts = {f.name: f for f in fields if _is_text(f)}
    for call, arg in _calls(bound.expr):
        is_compared = call is not None and call.op in _COMPARING and call.args[0] is arg
        if call is None or not is_compared or not all(isinstance(other, Literal) for other in call.args[1:]):
            texts.pop(arg.path[0], None)
    return {f: replace(f, in_codes=True) for f in texts.values()}


def _calls(expr: Expr, above: Call | None = None) -> Iterator[tuple[Call | None, Column]]:
    """Yield every column of the tree with the call that it is an argument of."""
    if isinstance(expr, Column):
        yield above, expr
    elif isinstance(expr, Call):
        for arg in expr.args:
            yield from _calls(arg, expr)


def read_in_codes(schema: Schema, names: Sequence[str]) -> frozenset[str]:
    """Find the text columns to read in codes.

    Parameters
    ----------
    schema : Schema
    names : sequence of str
        Top-level columns.

    Raises
    ------
    ColumnNotFoundError
        No column has such a name.
    ValueError
        A column is no text.

    Examples
    --------
    >>> schema = Schema((Field("s", 0, logical_type="string"), Field("i", 1, logical_type="int32")))
    >>> read_in_codes(schema, ["s"])
    frozenset({'s'})
    """
    if not names:
        return frozenset()
    texts = frozenset(f.name for f in texts_of(schema))
    for name in names:
        path = schema.resolve(name)
        if path[0] not in texts:
            kind = schema.path(path)[-1].arrow_type
            raise ValueError(
                f"read_dictionary names {name!r}, a column of {kind}: it is for top-level text columns"
            )
    return frozenset(schema.resolve(name)[0] for name in names)


def _is_text(field: Field) -> bool:
    plain = field.logical_type in ("string", "large_string") and not field.extension_name
    return plain and field.arrow_type == field.storage_type


def as_output(column: ArrowArray, field: pa.Field) -> ArrowArray:
    """The column as it is returned: JSON in its stored form becomes text, and text a dictionary if that is wanted."""
    if isinstance(field.type, pa.JsonType) and pa.types.is_large_binary(column.type):
        return json_column(column, field.type, field.name)
    if pa.types.is_dictionary(field.type) and not pa.types.is_dictionary(column.type):
        return column.dictionary_encode()
    return column


_CONVERSIONS = frozenset(("decoded", "storage"))
"""Calls that change the form of every value, and return null for null."""


# -- columns tested for nulls -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NullTests:
    """The fields of a filter that are read for their nulls only.

    Attributes
    ----------
    bound : Bound
        The filter, bound for tables with stubs of these fields.
    tested : mapping of Field to frozenset of int
        Pruned top-level fields, and the tested nodes of each.
    """

    bound: Bound
    tested: Mapping[Field, frozenset[int]] = field(default_factory=dict)


@lru_cache(maxsize=256)
def null_tests(bound: Bound, fields: tuple[Field, ...], returned: tuple[Field, ...]) -> NullTests:
    """Find the fields of a filter whose values need not be read.

    Parameters
    ----------
    bound : Bound
    fields : tuple of Field
        Fields of the filter, pruned.
    returned : tuple of Field
        Fields of the output: one that is read anyway is tested as it is, if reading it costs little.
    """
    uses: dict[Path, bool] = {}
    for path, is_test in _null_uses(bound.expr):
        uses[path] = uses.get(path, True) and is_test
    tested: dict[Field, frozenset[int]] = {}
    for top in fields:
        nodes = [_node(top, path) for path, is_test in uses.items() if path[0] == top.name and is_test]
        others = [path for path, is_test in uses.items() if path[0] == top.name and not is_test]
        if nodes and not others and _worthwhile(nodes) and (top not in returned or _is_large(top)):
            tested[top] = frozenset(node.id for node in nodes if node is not None)
    if not tested:
        return NullTests(bound)
    names = {top.name for top in tested}
    return NullTests(replace(bound, expr=_unconverted(bound.expr, names)), tested)


def _null_uses(expr: Expr) -> Iterator[tuple[Path, bool]]:
    """Yield every column of the tree, and whether it is tested for nulls there."""
    if isinstance(expr, Column):
        yield expr.path, False
    elif isinstance(expr, Call):
        column = _tested(expr)
        if column is not None:
            yield column.path, True
            return
        for arg in expr.args:
            yield from _null_uses(arg)


def _tested(call: Call) -> Column | None:
    """The column that ``call`` tests for nulls."""
    if call.op != "is_null":
        return None
    inner = call.args[0]
    while isinstance(inner, Call) and inner.op in _CONVERSIONS:
        inner = inner.args[0]
    return inner if isinstance(inner, Column) else None


def _unconverted(expr: Expr, names: set[str]) -> Expr:
    if not isinstance(expr, Call):
        return expr
    column = _tested(expr)
    if column is not None:
        return replace(expr, args=(column,)) if column.path[0] in names else expr
    args = tuple(_unconverted(arg, names) for arg in expr.args)
    return expr if args == expr.args else replace(expr, args=args)


def _node(top: Field, path: Path) -> Field | None:
    """The field at a path, if only structs are above it."""
    node = top
    for name in path[1:]:
        found = next((child for child in node.children if child.name == name), None)
        if found is None or not node.is_struct:
            return None
        node = found
    return node


def _worthwhile(nodes: Sequence[Field | None]) -> bool:
    """Whether these nodes can be read as stubs: known, apart from each other, and with nulls."""
    ids: set[int] = set()
    for node in nodes:
        if node is None or node.logical_type == "null" or not ids.isdisjoint(node.ids):
            return False
        ids |= node.ids
    return True


def _is_large(top: Field) -> bool:
    """Whether values take much longer to read than nulls: they are nested or vary in length."""
    return bool(top.children) or top.logical_type in _LARGE or top.logical_type.startswith("fixed_size_list")


_LARGE = frozenset(("string", "large_string", "binary", "large_binary", "json"))
