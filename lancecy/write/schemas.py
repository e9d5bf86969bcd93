"""Arrow schemas to table schemas: fields with ids for a new table, or fitted to an existing one.

Facts: table sheet, sections 1.2, 4.3 and 8.
"""

from __future__ import annotations

import operator
from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from itertools import count, repeat

import pyarrow as pa
import pyarrow.compute as pc

from lancecy.encodings.arrow.json import to_stored
from lancecy.encodings.arrow.map_nested import map_nested
from lancecy.encodings.arrow.nulls import null_mask
from lancecy.encodings.codecs.blobs import check_sizes
from lancecy.encodings.codecs.outside_blobs import MEMBER_TYPES, MEMBERS
from lancecy.errors import FormatError, SchemaError, UnsupportedError, nearest, printable
from lancecy.schema import (
    BLOB_EXTENSION,
    BLOB_KEY,
    EXTENSION_KEY,
    EXTENSION_METADATA_KEY,
    DictionaryRef,
    Field,
    Schema,
    exported_metadata,
    logical_type_of,
)

__all__ = [
    "arranged",
    "cast_schema",
    "check_known",
    "check_metadata",
    "check_name",
    "check_nulls",
    "fitted",
    "schema_of",
    "strict_paths",
    "with_all_members",
    "with_blobs",
]

# Names of virtual columns of scans.
_RESERVED = frozenset(
    ("_rowid", "_rowaddr", "_rowoffset", "_row_created_at_version", "_row_last_updated_at_version")
)
_OF_BYTES = b"lancecy:blob of bytes"
"""Key in the metadata of Arrow fields that :func:`with_blobs` makes; stored nowhere."""
_BLOB_TYPE = pa.struct([pa.field("data", pa.large_binary()), pa.field("uri", pa.string())])
_BLOB_MEMBERS = [[(name, MEMBER_TYPES[name]) for name in names] for names in MEMBERS]
"""What blobs of 2.2 may be given as, whichever of these the table was made with."""
# Arrow stores these as text, and the format does not.
_JSON = frozenset((b"arrow.json", b"lance.json"))
# Encoding hints of fields for readers of old releases: plain, variable width, dictionary.
_PLAIN, _VARIABLE, _DICTIONARY = 1, 2, 3


def schema_of(schema: pa.Schema, first_id: int = 0) -> Schema:
    """The schema of a new table: ids count from 0, parents before their children.

    Parameters
    ----------
    schema : pyarrow.Schema
    first_id : int
        Number to count from, for columns that are added to a table.

    Raises
    ------
    SchemaError
        Two columns have the same name, or a name is not valid for a column.
    UnsupportedError
        The format does not have the type of a column.

    Examples
    --------
    >>> [field.id for field in schema_of(pa.schema({"a": pa.list_(pa.int8()), "b": pa.int8()})).fields]
    [0, 2]
    """
    for known, first, made in tuple(_MADE):
        if first == first_id and known.equals(schema, check_metadata=True):
            return made
    for name, times in Counter(schema.names).items():
        check_name(name, times)
    ids = count(first_id)
    metadata = {key.decode(): value for key, value in (schema.metadata or {}).items()}
    made = Schema(tuple(_field(field, -1, ids, field.name) for field in schema), metadata)
    # Extension types may be equal to Arrow whatever their parameters.
    if not any(map(_has_extension, schema.types)):
        _MADE.append((schema, first_id, made))
    return made


def _has_extension(kind: pa.DataType) -> bool:
    if isinstance(kind, pa.BaseExtensionType):
        return True
    if isinstance(kind, pa.DictionaryType):
        return _has_extension(kind.value_type)
    return kind.num_fields > 0 and any(_has_extension(kind.field(i).type) for i in range(kind.num_fields))


_MADE: deque[tuple[pa.Schema, int, Schema]] = deque(maxlen=8)
"""What was made last: programs write many tables of one schema, and fields remember what was found out about them."""


def with_blobs(schema: pa.Schema) -> pa.Schema:
    """The schema with blob columns in the form of 2.2, structs of bytes or a URI; any metadata that marks blobs counts.

    Parameters
    ----------
    schema : pyarrow.Schema
    """
    given = list(schema)
    fields = list(map(_with_blobs, given))
    return schema if all(map(operator.is_, fields, given)) else pa.schema(fields, schema.metadata)


def with_all_members(schema: Schema) -> Schema:
    """The schema for the writer of data files: blobs of 2.2 have ``ALL_MEMBERS``, whichever of them the table has.

    Parameters
    ----------
    schema : Schema
    """
    if not schema.blobs:
        return schema
    return replace(schema, fields=tuple(map(_with_all_members, schema.fields)))


def _with_all_members(field: Field) -> Field:
    if field.is_blob_v2:
        members = (
            _field(pa.field(name, kind), field.id, repeat(-1), name) for name, kind in MEMBER_TYPES.items()
        )
        return replace(field, children=tuple(members))
    children = tuple(map(_with_all_members, field.children))
    return field if all(map(operator.is_, children, field.children)) else replace(field, children=children)


def _with_blobs(field: pa.Field) -> pa.Field:
    kind, types = field.type, pa.types
    if types.is_binary(kind) or types.is_large_binary(kind):
        metadata = dict(field.metadata or {})
        if metadata.pop(BLOB_KEY.encode(), None) is None:
            return field
        metadata[EXTENSION_KEY.encode()] = BLOB_EXTENSION.encode()
        metadata[_OF_BYTES] = b"true"
        return pa.field(field.name, _BLOB_TYPE, field.nullable, metadata)
    is_list = types.is_list(kind) or types.is_large_list(kind)
    if not is_list and not types.is_struct(kind):
        return field
    given = [kind.value_field] if is_list else list(kind)
    inner = list(map(_with_blobs, given))
    if all(map(operator.is_, inner, given)):
        return field
    if types.is_struct(kind):
        return field.with_type(pa.struct(inner))
    return field.with_type((pa.list_ if types.is_list(kind) else pa.large_list)(*inner))


def check_name(name: str, times: int = 1) -> None:
    """Refuse a name that is not valid for a column.

    Parameters
    ----------
    name : str
    times : int
        Number of columns with that name.

    Raises
    ------
    SchemaError
        Filters could not refer to the column, or it would have the name of a column that scans make.
    """
    if times > 1:
        raise SchemaError(f"two columns are called {printable(name)!r}", difference=name)
    if "." in name:
        raise SchemaError(
            f"column {printable(name)!r} has a dot in its name, as if it were part of another: rename it, or "
            "make it a struct",
            difference=name,
        )
    if not name or "`" in name:
        raise SchemaError(
            f"column {printable(name)!r} has a name that filters cannot refer to: rename it", difference=name
        )
    if name in _RESERVED:
        raise SchemaError(
            f"column {name!r} has the name of a column that scans make: rename it", difference=name
        )


def check_metadata(schema: Schema) -> Schema:
    """The schema; raises SchemaError if pylance would read a value of its metadata as another one.

    Parameters
    ----------
    schema : Schema

    Examples
    --------
    >>> check_metadata(schema_of(pa.schema({"a": pa.int8()}, {"owner": "me"}))).metadata
    {'owner': b'me'}
    """
    places = [("the schema", schema.metadata)]
    places += [
        (f"column {field.name!r}", field.metadata)
        for top in schema.fields
        for field in top.walk()
        if field.metadata
    ]
    for place, metadata in places:
        for key, value in metadata.items():
            if key != EXTENSION_METADATA_KEY and not _is_text(value):
                raise SchemaError(
                    f"metadata {printable(key)!r} of {printable(place)} is not UTF-8, which pylance reads as other "
                    "bytes: encode it, as with base64",
                    difference=key,
                )
    return schema


def _is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _field(field: pa.Field, parent: int, ids: Iterator[int], path: str) -> Field:
    name = field.name
    if "\0" in name:
        raise SchemaError(
            f"column {printable(path)!r} has a zero character in its name: rename it", difference=path
        )
    kind, number = field.type, next(ids)
    is_extension = isinstance(kind, pa.BaseExtensionType)
    found = exported_metadata(field) if is_extension else field.metadata
    metadata = {key.decode(): value for key, value in found.items() if key != _OF_BYTES} if found else {}
    if metadata.get(EXTENSION_KEY) in _JSON:
        return _json(field, number, parent, metadata)
    kind = kind.storage_type if is_extension else kind
    inner = _inner(kind)
    if len({child.name for child in inner}) < len(inner):
        raise SchemaError(f"two members of {printable(path)!r} have the same name", difference=path)
    logical = _logical(kind, path)
    return Field(
        name=name,
        id=number,
        parent_id=parent,
        logical_type=logical,
        nullable=field.nullable,
        encoding=_hint(logical),
        dictionary=DictionaryRef(0, 0) if logical.startswith("dict:") else None,
        extension_name=metadata.get(EXTENSION_KEY, b"").decode(),
        metadata=metadata,
        children=tuple([_field(child, number, ids, f"{path}.{child.name}") for child in inner]),
    )


def _json(field: pa.Field, number: int, parent: int, metadata: dict[str, bytes]) -> Field:
    """The field of a JSON column: text in Arrow, a binary form in files."""
    return Field(
        name=field.name,
        id=number,
        parent_id=parent,
        logical_type="json",
        nullable=field.nullable,
        encoding=_hint("large_binary"),
        extension_name="lance.json",
        metadata={**metadata, EXTENSION_KEY: b"lance.json", EXTENSION_METADATA_KEY: b""},
    )


def _inner(kind: pa.DataType) -> list[pa.Field]:
    types = pa.types
    if not kind.num_fields:
        return []
    if types.is_struct(kind) or types.is_list(kind) or types.is_large_list(kind):
        return [kind.field(i) for i in range(kind.num_fields)]
    if types.is_map(kind):
        return [pa.field("entries", pa.struct([kind.key_field, kind.item_field]), False)]
    if types.is_fixed_size_list(kind) and types.is_struct(kind.value_type):
        return [kind.value_field]
    return []


def _logical(kind: pa.DataType, path: str) -> str:
    if kind.num_fields and pa.types.is_map(kind):
        return "map"
    if kind.num_fields and pa.types.is_fixed_size_list(kind) and pa.types.is_struct(kind.value_type):
        return f"fixed_size_list:struct:{kind.list_size}"
    try:
        found = logical_type_of(kind)
        # pylance names the type of such lists before it makes structs of the bytes.
        return found.removesuffix(".struct") if _has_blobs_of_bytes(kind) else found
    except UnsupportedError as error:
        raise UnsupportedError(f"column {printable(path)!r}: {error}", feature=str(kind)) from None


def _has_blobs_of_bytes(kind: pa.DataType) -> bool:
    """Whether these are lists of blobs that :func:`with_blobs` made of bytes."""
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    return is_list and _OF_BYTES in (kind.value_field.metadata or {})


def _hint(logical: str) -> int:
    if logical in ("struct", "null"):
        return 0
    if logical.startswith("dict:"):
        return _DICTIONARY
    return _VARIABLE if logical in ("string", "large_string", "binary", "large_binary") else _PLAIN


# -- rows for an existing table -------------------------------------------------------------------


def fitted(table: Schema, data: pa.Schema) -> Schema:
    """The fields of a table that the data has values for, in the table's order.

    Columns and struct members match by name. Missing ones read as null, and so must be nullable. Text, bytes and
    lists may be of the large type where the table's are not, and the other way round.

    Parameters
    ----------
    table : Schema
    data : pyarrow.Schema

    Raises
    ------
    SchemaError
        The table lacks a column, a column has another type, or a missing column is not nullable.
    UnsupportedError
        The format does not have the type of a column.

    Examples
    --------
    >>> table = schema_of(pa.schema({"a": pa.int8(), "b": pa.int8()}))
    >>> fitted(table, pa.schema({"b": pa.int8()})).fields[0].id
    1
    """
    given = schema_of(data).fields
    return Schema(_members(table.fields, given, ""), table.metadata)


def cast_schema(table: Schema, data: pa.Schema) -> pa.Schema:
    """The columns of the data; those that the table has with another type get the table's type.

    Parameters
    ----------
    table : Schema
    data : pyarrow.Schema

    Examples
    --------
    >>> table = schema_of(pa.schema({"a": pa.int8(), "b": pa.string()}))
    >>> cast_schema(table, pa.schema({"b": pa.large_string(), "a": pa.int64()})).types
    [DataType(large_string), DataType(int8)]
    """
    known = {field.name: field for field in table.fields}
    fields = [
        field
        if field.name not in known or _fits(known[field.name], field)
        else field.with_type(table.arrow.field(field.name).type)
        for field in data
    ]
    return pa.schema(fields, data.metadata)


def _fits(field: Field, given: pa.Field) -> bool:
    for form in (given, _with_blobs(given)):
        try:
            _fit(field, schema_of(pa.schema([form])).fields[0], field.name)
        except (SchemaError, UnsupportedError):
            continue
        return True
    return False


def _members(wanted: tuple[Field, ...], given: tuple[Field, ...], above: str) -> tuple[Field, ...]:
    """The given columns of a table, or members of a struct, in the table's order."""
    found = {field.name: field for field in given}
    check_known(found, {field.name for field in wanted}, above)
    for field in wanted:
        if field.name not in found and not field.nullable:
            name = above + field.name
            raise SchemaError(
                f"column {printable(name)!r} is missing, and may not be null in this table", difference=name
            )
    return tuple(
        _fit(field, found[field.name], above + field.name) for field in wanted if field.name in found
    )


def check_known(given: Iterable[str], known: Collection[str], above: str = "") -> None:
    """Refuse columns, or members of a struct, that the table does not have.

    Parameters
    ----------
    given : iterable of str
    known : collection of str
        Those of the table.
    above : str
        Path of the struct, with a dot at its end.

    Raises
    ------
    SchemaError
    """
    for name in given:
        if name not in known:
            close = [f"did you mean {printable(above + other)!r}?" for other in nearest(name, known, 1)]
            # add_columns adds columns, and no members of structs.
            first = "" if above else ", or add it to the table first with add_columns"
            remedy = close[0] if close else f"leave it out of the rows{first}"
            raise SchemaError(
                f"the table has no column {printable(above + name)!r}; {remedy}",
                difference=above + name,
            )


def _fit(field: Field, given: Field, path: str) -> Field:
    if field.is_blob and given.is_blob_v2:
        check_sizes(field, given)
        if field.is_struct and [(child.name, child.arrow_type) for child in given.children] in _BLOB_MEMBERS:
            return field
        if not field.is_struct:
            raise SchemaError(
                f"column {printable(path)!r} is {BLOB_EXTENSION}, where the table has bytes, as files before version 2.2 "
                "do: give the bytes as large_binary",
                difference=f"{path}: {BLOB_EXTENSION} is not large_binary",
            )
    # The width of the offsets of text and lists may differ: the file writer converts them to the table's.
    if _plain(field.logical_type) != _plain(given.logical_type):
        held = "has only nulls" if given.logical_type == "null" else f"is {_named(given)}"
        raise SchemaError(
            f"column {printable(path)!r} {held}, where the table has {_named(field)}: cast the rows to the types of the "
            "table, as writes do with cast=True or schema=ds.schema",
            difference=f"{path}: {_named(given)} is not {_named(field)}",
        )
    if field.is_struct:
        return replace(field, children=_members(field.children, given.children, f"{path}."))
    if not field.children:
        return field
    if len(field.children) != len(given.children):
        raise FormatError(
            f"field {printable(path)!r} of type {printable(field.logical_type)} has {len(field.children)} children in the "
            f"schema of the table, where it needs {len(given.children)}"
        )
    # The name of a list's only child does not matter.
    pairs = zip(field.children, given.children, strict=True)
    below = tuple(_fit(mine, theirs, f"{path}.{mine.name}") for mine, theirs in pairs)
    if any(_names(mine) != _names(theirs) for mine, theirs in zip(below, given.children, strict=True)):
        raise SchemaError(
            f"structs within the lists of column {printable(path)!r} have their members in another order than the "
            "table",
            difference=path,
        )
    return replace(field, children=below)


def _named(field: Field) -> str:
    return "JSON" if field.logical_type == "json" else str(field.storage_type)


def _plain(logical: str) -> str:
    """The type string without the width of offsets, and without that of items, which are fields of their own.

    bfloat16 is two bytes, as frames have it that know no such type.
    """
    plain = logical.removeprefix("large_").replace("lance.bfloat16", "fixed_size_binary:2")
    return "list" if plain == "list.struct" else plain


def _names(field: Field) -> object:
    named = field.name if field.is_struct else ""
    return named and tuple((child.name, _names(child)) for child in field.children)


def arranged(batch: pa.RecordBatch, schema: Schema) -> pa.RecordBatch:
    """The columns of a batch, and members of structs, in the order of the fitted fields.

    Parameters
    ----------
    batch : pyarrow.RecordBatch
    schema : Schema
        From :func:`fitted`.
    """
    if _is_arranged(batch.schema, schema):
        return batch
    columns = [
        map_nested(_arranged(batch.column(field.name), field), field, _is_other, _stored)
        for field in schema.fields
    ]
    return pa.RecordBatch.from_arrays(columns, names=list(schema.names))


def _is_arranged(found: pa.Schema, schema: Schema) -> bool:
    """Whether columns and members are in the order of the fields, and stored as they are."""
    return (
        "json" not in schema.logical_types
        and not any(map(_is_other, schema.blobs))
        and found.names == list(schema.names)
        and all(
            kind == field.storage_type if field.children else not isinstance(kind, pa.BaseExtensionType)
            for kind, field in zip(found.types, schema.fields, strict=True)
        )
    )


def strict_paths(schema: Schema) -> tuple[tuple[str, ...], ...]:
    """Columns, and members of structs, that may not be null.

    Parameters
    ----------
    schema : Schema

    Examples
    --------
    >>> point = pa.struct([pa.field("x", pa.int64(), False), pa.field("y", pa.int64())])
    >>> strict_paths(schema_of(pa.schema([pa.field("id", pa.int64(), False), pa.field("p", point)])))
    (('id',), ('p', 'x'))
    """
    return tuple(
        path for top in schema.fields if top.children or not top.nullable for path in _strict_paths(top)
    )


def _strict_paths(field: Field) -> Iterator[tuple[str, ...]]:
    if not field.nullable and field.logical_type != "null":
        yield (field.name,)
    if field.is_struct and not field.is_blob:
        for child in field.children:
            for path in _strict_paths(child):
                yield (field.name, *path)


def check_nulls(batch: pa.RecordBatch, paths: Iterable[tuple[str, ...]], first_row: int) -> None:
    """Refuse nulls where none may be.

    Parameters
    ----------
    batch : pyarrow.RecordBatch
    paths : iterable of tuple of str
        See :func:`strict_paths`.
    first_row : int
        Number of the first row, for the error.

    Raises
    ------
    SchemaError
        Names column and row.
    """
    for path in paths:
        row = _first_null(batch.column(path[0]), path[1:])
        if row is not None:
            name = ".".join(path)
            raise SchemaError(
                f"column {printable(name)!r} may not be null, and row {first_row + row} has no value",
                difference=name,
            )


def _first_null(array: pa.Array, below: tuple[str, ...]) -> int | None:
    """The first row without a value in a column or a member; a member has none where its struct is null."""
    outside: pa.Array | None = None
    for name in below:
        array = array.storage if isinstance(array, pa.ExtensionArray) else array
        if array.null_count:
            outside = array.is_null() if outside is None else pc.or_(outside, array.is_null())
        array = array.field(name)
    if not array.null_count:
        return None
    missing = array.is_null() if outside is None else pc.and_not(array.is_null(), outside)
    row: int = pc.index(missing, True).as_py()
    return row if row >= 0 else None


def _is_other(field: Field) -> bool:
    """Whether the written array may differ from the given one."""
    return field.logical_type == "json" or field.is_blob_v2


def _stored(array: pa.Array, field: Field) -> pa.Array:
    array = array.storage if isinstance(array, pa.ExtensionArray) else array
    if field.logical_type == "json":
        return to_stored(array)
    given = {"data": array}
    if pa.types.is_struct(array.type):
        given = dict(zip([member.name for member in array.type], array.flatten(), strict=True))
    # The writer of a blob chooses its members: two, or two more for a part of an object.
    members = list(field.storage_type)
    values = [
        given[member.name].cast(member.type) if member.name in given else pa.nulls(len(array), member.type)
        for member in members
    ]
    return pa.StructArray.from_arrays(values, fields=members, mask=null_mask(array))


def _arranged(array: pa.Array, field: Field) -> pa.Array:
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if field.is_blob or not field.is_struct or not pa.types.is_struct(array.type):
        return array
    found = [array.type.field(i).name for i in range(array.type.num_fields)]
    wanted = [child.name for child in field.children]
    if found == wanted and not any(child.is_struct for child in field.children):
        return array
    members = [_arranged(array.field(found.index(child.name)), child) for child in field.children]
    fields = [
        pa.field(child.name, member.type, child.nullable)
        for child, member in zip(field.children, members, strict=True)
    ]
    return pa.StructArray.from_arrays(members, fields=fields, mask=null_mask(array))
