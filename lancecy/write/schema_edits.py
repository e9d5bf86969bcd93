"""Schemas with columns added, dropped or changed; fields that stay keep their ids.

A path names a top-level column, or a field within one: members of structs and items of lists, separated by dots.
These functions know no table: the caller gives the first free id.

Facts: table sheet, section 8.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count

import pyarrow as pa

from lancecy.errors import ColumnNotFoundError, SchemaError, UnsupportedError, printable
from lancecy.records import dataclass
from lancecy.schema import Field, Schema, split_name
from lancecy.write.schemas import check_metadata, check_name, schema_of

__all__ = [
    "Alteration",
    "Altered",
    "added",
    "altered",
    "chain_of",
    "dropped",
    "renumbered",
    "with_columns",
    "with_members",
]

_EXTENSION = "ARROW:extension:"
_WITH_LEAVES = "2.1"
"""From this version on a data file may hold some leaves of a column without the others."""
_OLDEST = "0.1"


@dataclass(frozen=True, slots=True)
class Alteration:
    """A change of one field.

    Attributes
    ----------
    path : str
    name : str or None
        The new name.
    nullable : bool or None
    data_type : pyarrow.DataType or None
        The new type; the field gets a new id.
    """

    path: str
    name: str | None = None
    nullable: bool | None = None
    data_type: pa.DataType | None = None


@dataclass(frozen=True, slots=True)
class Altered:
    """The result of :func:`altered`.

    Attributes
    ----------
    schema : Schema
    casts : tuple of (str, Field, Field)
        Per column with new values: its path for messages, the top-level field to read, and the one to write, both with
        only the leaves concerned.
    strict : tuple of str
        Paths of fields that may be null before, and not after.
    """

    schema: Schema
    casts: tuple[tuple[str, Field, Field], ...] = ()
    strict: tuple[str, ...] = ()


def chain_of(schema: Schema, path: str) -> tuple[Field, ...]:
    """The fields along a path, outermost first.

    Parameters
    ----------
    schema : Schema
    path : str

    Raises
    ------
    ColumnNotFoundError
        There is no such field.

    Examples
    --------
    >>> table = schema_of(pa.schema({"l": pa.list_(pa.int8())}))
    >>> [field.id for field in chain_of(table, "l.item")]
    [0, 1]
    """
    parts = [path] if path in schema.names else split_name(path)
    level: Sequence[Field] = schema.fields
    found: list[Field] = []
    for part in parts:
        field = next((field for field in level if field.name == part), None)
        if field is None:
            above = "".join(f"{field.name}." for field in found)
            raise ColumnNotFoundError(path, [f"{above}{field.name}" for field in level])
        found.append(field)
        level = field.children
    return tuple(found)


def added(table: Schema, columns: pa.Schema, first_id: int) -> tuple[Field, ...]:
    """The fields of new columns.

    Parameters
    ----------
    table : Schema
    columns : pyarrow.Schema
    first_id : int
        Id of the first of them; the others follow.

    Raises
    ------
    SchemaError
        The table has a column of that name, two columns have the same one, or a name is not valid for a column.
    UnsupportedError
        The format does not have the type of a column.

    Examples
    --------
    >>> table = schema_of(pa.schema({"a": pa.int8()}))
    >>> [field.id for field in added(table, pa.schema({"b": pa.list_(pa.int8()), "c": pa.int8()}), 4)]
    [4, 6]
    """
    for name in columns.names:
        if name in table.names:
            raise _is_there(name)
    return check_metadata(schema_of(columns, first_id)).fields


def with_columns(table: Schema, fields: Iterable[Field]) -> Schema:
    """The schema with more columns after its own.

    Parameters
    ----------
    table : Schema
    fields : iterable of Field
    """
    return Schema((*table.fields, *fields), table.metadata)


def with_members(table: Schema, columns: pa.Schema, first_id: int) -> Schema:
    """The schema with more columns, and with more members in the structs that it has, also those in lists.

    Parameters
    ----------
    table : Schema
    columns : pyarrow.Schema
        A struct of the table's has the new members only.
    first_id : int
        Ids of the new fields begin here.

    Raises
    ------
    SchemaError, UnsupportedError
        As for :func:`added`; or a new member may not be null, or is one of a packed struct or a blob.

    Examples
    --------
    >>> table = schema_of(pa.schema({"s": pa.struct({"x": pa.int8()})}))
    >>> with_members(table, pa.schema({"s": pa.struct({"y": pa.int8()})}), 2).arrow.field("s").type.names
    ['x', 'y']
    """
    known, new = {field.name: field for field in table.fields}, list[Field]()
    for given in check_metadata(schema_of(columns, first_id)).fields:
        if given.name in known:
            known[given.name] = _with_members(known[given.name], given, given.name)
        else:
            new.append(given)
    return with_columns(Schema(tuple(known.values()), table.metadata), new)


def _with_members(field: Field, given: Field, path: str) -> Field:
    """A struct, or a list of structs, with more members."""
    if field.logical_type != given.logical_type or not (field.is_struct or field.is_list):
        raise _is_there(path)
    if field.is_whole:
        what = "a packed struct, whose members are never null" if field.is_packed else "a column of blobs"
        raise UnsupportedError(
            f"column {printable(path)!r} is {what}: add a column of its own instead of a member",
            feature="members",
        )
    if not field.is_struct:
        (item,), (more,) = field.children, given.children
        return replace(field, children=(_with_members(item, more, path),))
    children = {child.name: child for child in field.children}
    for child in given.children:
        below = f"{path}.{child.name}"
        if child.name in children:
            children[child.name] = _with_members(children[child.name], child, below)
        elif child.nullable:
            children[child.name] = replace(child, parent_id=field.id)
        else:
            raise SchemaError(
                f"column {printable(below)!r} may not be null, and would have no values: make it nullable",
                difference=below,
            )
    return replace(field, children=tuple(children.values()))


def _is_there(name: str) -> SchemaError:
    return SchemaError(
        f"the table has a column {printable(name)!r} already: drop or rename it first, or choose another name",
        difference=name,
    )


def dropped(table: Schema, paths: Sequence[str]) -> Schema:
    """The schema without some fields, and without structs and lists that have lost all below them.

    Parameters
    ----------
    table : Schema
    paths : sequence of str

    Raises
    ------
    ColumnNotFoundError
        There is no such field.
    UnsupportedError
        A field is a part of a map.
    ValueError
        No column would be left.

    Examples
    --------
    >>> point = pa.struct({"x": pa.int8(), "y": pa.int8()})
    >>> table = schema_of(pa.schema({"a": pa.int8(), "p": point}))
    >>> dropped(table, ["a", "p.x"]).arrow.field("p").type
    StructType(struct<y: int8>)
    """
    chains = [chain_of(table, path) for path in paths]
    for path, chain in zip(paths, chains, strict=True):
        if any(node.is_map for node in chain[:-1]):
            raise UnsupportedError(
                f"column {printable(path)!r} is a part of a map, which keeps its keys and its values: drop the whole map",
                feature="drop of a part of a map",
            )
    fields = _edited(table.fields, {chain[-1].id: _nothing for chain in chains})
    if not fields and table.fields:
        raise ValueError("a table keeps at least one column: all of them cannot be dropped")
    return Schema(fields, table.metadata)


def altered(table: Schema, alterations: Sequence[Alteration], first_id: int, version: str) -> Altered:
    """The schema with some fields renamed, cast, or of other nullability; all paths are those before the change.

    Parameters
    ----------
    table : Schema
    alterations : sequence of Alteration
    first_id : int
        Id of the first cast field; the others follow.
    version : str
        Version of the data files that casts write.

    Raises
    ------
    ColumnNotFoundError
        There is no such field.
    SchemaError
        Two fields would have the same name, or a name is not valid.
    UnsupportedError
        The format does not have a type, the values of a column cannot be cast, or files of the version cannot hold it.
    ValueError
        A field is named twice.
    """
    ids = count(first_id)
    changes: dict[int, _Change] = {}
    cast: dict[int, list[str]] = {}
    strict = []
    for item in alterations:
        chain = chain_of(table, item.path)
        field = chain[-1]
        if field.id in changes:
            raise ValueError(
                f"column {printable(item.path)!r} is altered twice: give one alteration for each"
            )
        if version == _OLDEST:
            _check_item(item, chain)
        changes[field.id] = _change(item, chain, ids)
        if item.data_type is not None:
            cast.setdefault(chain[0].id, []).append(item.path)
        if item.nullable is False and field.nullable:
            strict.append(item.path)
    fields = _edited(table.fields, changes)
    if version == _OLDEST:
        # Readers find the pages of a 0.1 file by its first field id, which a tombstone would hide.
        fields = tuple(_numbered(f, -1, ids) if f.id in cast else f for f in fields)
    _check_names(fields, "")
    after = Schema(fields, table.metadata)
    casts = tuple(
        _cast(old, new, cast[old.id], version)
        for old, new in zip(table.fields, fields, strict=True)
        if old.id in cast
    )
    return Altered(after, casts, tuple(strict))


def renumbered(old: Iterable[Field], new: Iterable[Field]) -> dict[int, int]:
    """The ids of some fields, and those of the same fields elsewhere.

    Parameters
    ----------
    old, new : iterable of Field
        Trees of the same shape.

    Examples
    --------
    >>> columns = pa.schema({"a": pa.list_(pa.int8())})
    >>> renumbered(schema_of(columns).fields, schema_of(columns, 5).fields)
    {0: 5, 1: 6}
    """
    before = (node.id for top in old for node in top.walk())
    after = (node.id for top in new for node in top.walk())
    return dict(zip(before, after, strict=True))


# -- edits of trees -------------------------------------------------------------------------------

_Change = Callable[[Field], "Field | None"]


def _nothing(field: Field) -> None:
    return None


def _edited(fields: Sequence[Field], changes: Mapping[int, _Change]) -> tuple[Field, ...]:
    """The fields after the changes, by id; None drops a field."""
    return tuple(found for field in fields if (found := _edit(field, changes)) is not None)


def _edit(field: Field, changes: Mapping[int, _Change]) -> Field | None:
    if field.children:
        children = _edited(field.children, changes)
        if not children or (not field.is_struct and len(children) < len(field.children)):
            return None
        if children != field.children:
            field = replace(field, children=children, logical_type=_outer_type(field, children))
    change = changes.get(field.id)
    return field if change is None else change(field)


def _outer_type(field: Field, children: Sequence[Field]) -> str:
    """The type string of a list, which says whether its items are structs."""
    if field.logical_type.partition(".")[0] not in ("list", "large_list"):
        return field.logical_type
    return field.logical_type.partition(".")[0] + (".struct" if children[0].is_struct else "")


def _change(item: Alteration, chain: Sequence[Field], ids: Iterator[int]) -> _Change:
    """The change of a field: a cast makes a new field, the others keep it."""
    field = chain[-1]
    if item.name is not None and item.name != field.name:
        check_name(item.name)
    name = field.name if item.name is None else item.name
    nullable = field.nullable if item.nullable is None else item.nullable
    if item.data_type is None:
        return lambda found: replace(found, name=name, nullable=nullable)
    made = replace(_of_type(item, chain, ids), name=name, nullable=nullable)
    return lambda _: made


def _check_item(item: Alteration, chain: Sequence[Field]) -> None:
    """Refuse elements of lists that pylance (14.0.2) does not read from files of 0.1, and that are not written to them."""
    is_item = len(chain) > 1 and chain[-2].is_list
    if is_item and (item.name not in (None, "item") or item.nullable is False):
        raise UnsupportedError(
            f"column {printable(item.path)!r} has the elements of a list, which are called 'item' and may be null in "
            "files of version 0.1: leave them, or write the table anew in a later version",
            feature="elements of lists of 0.1",
        )


def _of_type(item: Alteration, chain: Sequence[Field], ids: Iterator[int]) -> Field:
    """A field of another type, with new ids."""
    field = chain[-1]
    _check_cast(item, chain)
    plain = {key: value for key, value in field.metadata.items() if not key.startswith(_EXTENSION)}
    given = pa.field(field.name or "item", item.data_type, metadata=plain or None)
    (made,) = schema_of(pa.schema([given])).fields
    return _numbered(made, field.parent_id, ids)


def _numbered(field: Field, parent: int, ids: Iterator[int]) -> Field:
    number = next(ids)
    children = tuple(_numbered(child, number, ids) for child in field.children)
    return replace(field, id=number, parent_id=parent, children=children)


def _check_cast(item: Alteration, chain: Sequence[Field]) -> None:
    *above, field = chain
    what = ""
    if any(node.is_blob for node in (*above, *field.walk())):
        what = "has blobs"
    elif any(node.logical_type == "json" for node in field.walk()):
        what = "has JSON"
    elif any(node.is_map for node in above):
        what = "is within a map"
    elif any(node.is_packed for node in above):
        what = "is within a packed struct"
    if what:
        raise UnsupportedError(
            f"column {printable(item.path)!r} {what} and cannot be cast to {printable(item.data_type)}: add a column with "
            "the new values, and drop this one",
            feature=f"cast of a column that {what}",
        )


def _check_names(fields: Sequence[Field], above: str) -> None:
    seen = set()
    for field in fields:
        if field.name in seen:
            name = printable(above + field.name)
            raise SchemaError(f"two columns would be called {name!r}", difference=above + field.name)
        seen.add(field.name)
        _check_names(field.children, f"{above}{field.name}.")


def _cast(old: Field, new: Field, paths: Sequence[str], version: str) -> tuple[str, Field, Field]:
    """The parts of a column that are read and written to cast some of its fields."""
    path = paths[0] if len(paths) == 1 else old.name
    if old.id != new.id or version < _WITH_LEAVES:
        # Files before 2.1 hold a struct with all its members: pylance (14.0.2) cannot read one divided between files.
        return path, _called(old, new), new
    fresh = {node.id for node in new.walk()} - {node.id for node in old.walk()}
    changed = {node.id for node in old.walk()} - {node.id for node in new.walk()}
    read, written = old.pruned(_leaves(old, changed)), new.pruned(_leaves(new, fresh))
    return path, _called(read or old, written or new), written or new


def _called(field: Field, other: Field) -> Field:
    """The field with the names of another of the same shape, so that Arrow can cast one to the other."""
    if len(field.children) != len(other.children):
        return replace(field, name=other.name)
    pairs = zip(field.children, other.children, strict=True)
    return replace(field, name=other.name, children=tuple(_called(mine, theirs) for mine, theirs in pairs))


def _leaves(field: Field, ids: Iterable[int]) -> frozenset[int]:
    wanted = frozenset(ids)
    return frozenset(node.id for node in field.walk() if node.id in wanted and not node.children)
