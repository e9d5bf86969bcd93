"""What a merge does with matched rows, new rows, and rows that the source does not have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias

import pyarrow as pa

from lancecy.changes.merging.keys import check_key_type
from lancecy.encodings.arrow.columns import bare_type
from lancecy.errors import ColumnNotFoundError, ExpressionError, SchemaError, nearest, printable
from lancecy.expr import Bound, bind, fix_clock, parse
from lancecy.expr.build import Filter
from lancecy.records import dataclass
from lancecy.schema import Schema
from lancecy.write.schemas import check_known

__all__ = ["Clauses", "Rules", "keys_named", "rules_of"]

Matched: TypeAlias = Literal["keep", "update", "delete", "fail"]


@dataclass(frozen=True, slots=True)
class Clauses:
    """The calls of a builder.

    Attributes
    ----------
    matched : "keep", "update", "delete" or "fail"
        What happens to rows of the table that match.
    condition : filter
        Only matched rows for which it is true are updated.
    inserts : bool
        Whether rows that match nothing are inserted.
    deletes : bool
        Whether rows of the table that nothing matches are deleted.
    deleted : filter
        Only those for which it is true.
    use_index : bool
        Whether an index of the key may find the rows that match.
    """

    matched: Matched = "keep"
    condition: Filter = None
    inserts: bool = False
    deletes: bool = False
    deleted: Filter = None
    use_index: bool = True

    @property
    def does_nothing(self) -> bool:
        """Whether the merge could change nothing."""
        return self.matched == "keep" and not self.inserts and not self.deletes

    @property
    def calls(self) -> str:
        """The calls of a builder that give these clauses, as text."""
        asked = {
            "when_matched_update_all": (self.matched == "update", self.condition),
            f"when_matched_{self.matched}": (self.matched in ("delete", "fail"), None),
            "when_not_matched_insert_all": (self.inserts, None),
            "when_not_matched_by_source_delete": (self.deletes, self.deleted),
        }
        return "".join(
            f".{name}({'' if given is None else repr(given)})"
            for name, (is_asked, given) in asked.items()
            if is_asked
        )


@dataclass(frozen=True, slots=True)
class Rules:
    """Clauses bound to the columns of a source and of a table.

    Attributes
    ----------
    clauses : Clauses
    on : tuple of str
        The key columns.
    condition : Bound or None
        Over the struct columns ``source`` and ``target``.
    deleted : Bound or None
        Over the columns of the table.
    of_source : tuple of str
        Columns of the source that matching reads, keys first.
    of_target : tuple of str
        Columns of the table that matching reads, keys first.
    given : tuple of str
        Columns of the source, in the table's order.
    kept : tuple of str
        Columns of the table that the source lacks.
    partial : tuple of str
        Struct columns of which the source lacks members.
    """

    clauses: Clauses
    on: tuple[str, ...]
    condition: Bound | None
    deleted: Bound | None
    of_source: tuple[str, ...]
    of_target: tuple[str, ...]
    given: tuple[str, ...]
    kept: tuple[str, ...]
    partial: tuple[str, ...]


def keys_named(on: str | Iterable[str] | None, schema: Schema) -> tuple[str, ...]:
    """The key columns of a merge; those of the table's primary key by default.

    Parameters
    ----------
    on : str or iterable of str, optional
        A name may differ in case, if one column is meant.
    schema : Schema
        Of the table.

    Raises
    ------
    ValueError
        No column is named, and the table has no primary key.
    TypeError
        A name is not text.
    ColumnNotFoundError
        The table has no such column.
    """
    names = [on] if isinstance(on, str) else list(on or ())
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"on has the names of columns, not {name!r}")
    if not names:
        keys = [field for field in schema.fields if field.unenforced_primary_key]
        names = [field.name for field in sorted(keys, key=lambda f: f.unenforced_primary_key_position)]
    if not names:
        raise ValueError("a merge needs key columns: name them, as in merge_insert('id')")
    return tuple(dict.fromkeys(_column(name, schema) for name in names))


def _column(name: str, schema: Schema) -> str:
    path = schema.resolve_any_case(name)
    if len(path) > 1:
        raise ColumnNotFoundError(name, schema.names, where="the top-level columns, which alone can be keys")
    return path[0]


def rules_of(clauses: Clauses, on: tuple[str, ...], table: Schema, source: pa.Schema, instant: int) -> Rules:
    """Bind clauses.

    Parameters
    ----------
    clauses : Clauses
    on : tuple of str
    table : Schema
    source : pyarrow.Schema
    instant : int
        The time for ``now()`` and the like.

    Raises
    ------
    SchemaError
        The source lacks a key column.
    UnsupportedError
        A key column has lists.
    ExpressionError, ColumnNotFoundError
        A condition does not fit the columns.
    """
    for name in source.names:
        if source.names.count(name) > 1:
            raise SchemaError(f"two columns are called {name!r}", difference=name)
    for name in on:
        if name not in source.names:
            close = nearest(name, source.names, 1)
            hint = f"; rename their column {printable(close[0])!r}?" if close else ""
            raise SchemaError(f"the rows have no key column {name!r}{hint}", difference=name)
        check_key_type(name, table.arrow.field(name).type)
    condition: Bound | None = None
    used: tuple[tuple[str, ...], ...] = ()
    if clauses.matched == "update" and clauses.condition is not None:
        condition = _bound(clauses.condition, _sides(source, table.arrow), instant)
        _check_sides(condition)
        used = condition.paths
    deleted = None
    if clauses.deletes and clauses.deleted is not None:
        deleted = _bound(clauses.deleted, table.scanned.arrow, instant)
    partial = [f for f in source if f.name in table.names and lacks_members(table, f)]
    if clauses.matched == "update" or clauses.inserts:
        for given in partial:
            _check_members(table.arrow.field(given.name).type, given.type, given.name)
    of_target = [path[1] for path in used if path[0] == "target"]
    of_target += [] if deleted is None else deleted.columns
    return Rules(
        clauses,
        on,
        condition,
        deleted,
        tuple(dict.fromkeys([*on, *(path[1] for path in used if path[0] == "source")])),
        tuple(dict.fromkeys([*on, *of_target])),
        tuple(name for name in table.names if name in source.names),
        tuple(name for name in table.names if name not in source.names),
        tuple(f.name for f in partial),
    )


def lacks_members(table: Schema, given: pa.Field) -> bool:
    """Whether a struct column lacks members that the table has.

    Parameters
    ----------
    table : Schema
    given : pyarrow.Field
    """
    field = table.field(given.name)
    is_blob = any(node.is_blob for node in field.walk())
    return not is_blob and _lacks(table.arrow.field(given.name).type, given.type)


def _check_members(wanted: pa.DataType, given: pa.DataType, path: str) -> None:
    """Refuse members of structs that the table does not have, whose values would be lost."""
    if not (pa.types.is_struct(wanted) and pa.types.is_struct(given)):
        return
    known = {member.name: member.type for member in wanted}
    check_known([member.name for member in given], known, f"{path}.")
    for member in given:
        _check_members(known[member.name], member.type, f"{path}.{member.name}")


def _lacks(wanted: pa.DataType, given: pa.DataType) -> bool:
    if not (pa.types.is_struct(wanted) and pa.types.is_struct(given)):
        return False
    members = {member.name: member.type for member in given}
    return any(m.name not in members or _lacks(m.type, members[m.name]) for m in wanted)


def _sides(source: pa.Schema, target: pa.Schema) -> pa.Schema:
    sides: Mapping[str, pa.Schema] = {"source": source, "target": target}
    return pa.schema(
        [
            (name, pa.struct([field.with_type(bare_type(field.type)) for field in side]))
            for name, side in sides.items()
        ]
    )


def _bound(condition: Filter, schema: pa.Schema, instant: int) -> Bound:
    expr = parse(condition, schema)
    if expr is None:
        raise ExpressionError("a condition is empty")
    return bind(fix_clock(expr, schema, instant), schema, boolean=True)


def _check_sides(condition: Bound) -> None:
    if any(len(path) < 2 for path in condition.paths):
        raise ExpressionError(
            "a condition of when_matched_update_all compares columns such as source.a and target.a"
        )
