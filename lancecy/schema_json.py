"""Arrow schemas as JSON in pylance's form, both ways.

A type is ``{"type": name}`` with the format's type strings, and ``fields`` and ``length`` for types that have them.
Extension types are their storage type and the keys of the extension in ``metadata``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from lancecy.errors import LanceError, SchemaError, printable
from lancecy.limits import DEFAULT_LIMITS
from lancecy.schema import EXTENSION_KEY, exported_metadata, logical_type_of, parse_logical_type, restored

__all__ = ["json_to_schema", "schema_to_json"]

_LISTS: dict[str, Callable[[pa.Field], pa.DataType]] = {"list": pa.list_, "large_list": pa.large_list}
_WITH_LENGTH = ("fixed_size_list", "fixed_size_binary")


def schema_to_json(schema: pa.Schema) -> dict[str, Any]:
    """A schema as plain values for ``json.dumps``.

    Parameters
    ----------
    schema : pyarrow.Schema

    Returns
    -------
    dict
        Equal to that of pylance's ``schema_to_json``.

    Raises
    ------
    SchemaError
        The form has no such type: maps, unions, views and intervals, or metadata is not text.

    Examples
    --------
    >>> import pyarrow as pa
    >>> schema_to_json(pa.schema([pa.field("v", pa.list_(pa.float32()), False)]))["fields"][0]["type"]["type"]
    'list'
    """
    found: dict[str, Any] = {"fields": [_field_json(field, field.name) for field in schema]}
    if schema.metadata:
        found["metadata"] = _texts(schema.metadata, "the schema")
    return found


def json_to_schema(schema_json: Mapping[str, Any]) -> pa.Schema:
    """The schema of what :func:`schema_to_json` or pylance made.

    Parameters
    ----------
    schema_json : mapping

    Returns
    -------
    pyarrow.Schema
        Registered extension types are restored; the order of dictionaries is not kept.

    Raises
    ------
    SchemaError
        Members are missing or of another kind, or a type is unknown.

    Examples
    --------
    >>> json_to_schema({"fields": [{"name": "a", "type": {"type": "int8"}, "nullable": False}]}).field("a")
    pyarrow.Field<a: int8 not null>
    """
    fields = [_field(each, "") for each in _member(schema_json, "fields", list, "the schema")]
    return pa.schema(fields, metadata=_metadata(schema_json, "the schema") or None)


def _field_json(field: pa.Field, path: str) -> dict[str, Any]:
    kind = field.type
    metadata = exported_metadata(field)
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    found = {"name": field.name, "type": _type_json(kind, path), "nullable": field.nullable}
    if metadata:
        found["metadata"] = _texts(metadata, f"column {printable(path)!r}")
    return found


def _type_json(kind: pa.DataType, path: str) -> dict[str, Any]:
    types = pa.types
    if types.is_struct(kind):
        inner = [kind.field(i) for i in range(kind.num_fields)]
        return {"type": "struct", "fields": [_field_json(each, f"{path}.{each.name}") for each in inner]}
    if types.is_list(kind) or types.is_large_list(kind):
        name = "list" if types.is_list(kind) else "large_list"
        return {"type": name, "fields": [_field_json(kind.value_field, path)]}
    if types.is_fixed_size_list(kind):
        item = _field_json(kind.value_field, path)
        return {"type": "fixed_size_list", "fields": [item], "length": kind.list_size}
    if types.is_fixed_size_binary(kind) and not types.is_decimal(kind):
        return {"type": "fixed_size_binary", "length": kind.byte_width}
    try:
        if types.is_string_view(kind) or types.is_binary_view(kind):
            raise SchemaError("views have no form")
        return {"type": logical_type_of(kind)}
    except LanceError:
        raise SchemaError(
            f"column {printable(path)!r}: type {kind} has no form in JSON; leave the column out",
            difference=path,
        ) from None


def _texts(metadata: Mapping[bytes, bytes], where: str) -> dict[str, str]:
    try:
        return {key.decode(): value.decode() for key, value in metadata.items()}
    except UnicodeDecodeError:
        raise SchemaError(f"metadata of {where} is not text, so it has no form in JSON") from None


def _field(value: object, above: str, depth: int = 1) -> pa.Field:
    DEFAULT_LIMITS.check("nesting", depth, "nesting of a schema")
    name = _member(value, "name", str, f"a field of {above or 'the schema'}")
    path = f"{above}.{name}" if above else name
    where = f"column {printable(path)!r}"
    nullable = _member(value, "nullable", bool, where)
    kind = _type(_member(value, "type", dict, where), path, depth)
    metadata = _metadata(value, where)
    plain = pa.field(name, kind, nullable, metadata or None)
    return restored(plain) if EXTENSION_KEY in metadata else plain


def _type(value: Mapping[str, Any], path: str, depth: int) -> pa.DataType:
    where = f"the type of column {printable(path)!r}"
    name = _member(value, "type", str, where)
    if name in {"struct", "fixed_size_list", *_LISTS}:
        inner = [_field(each, path, depth + 1) for each in _member(value, "fields", list, where)]
        if name == "struct":
            return pa.struct(inner)
        if len(inner) != 1:
            raise SchemaError(f"{where} is {name}, which has one field, not {len(inner)}")
        return _LISTS[name](inner[0]) if name in _LISTS else pa.list_(inner[0], _length(value, where))
    if name == "fixed_size_binary":
        return pa.binary(_length(value, where))
    try:
        if name.startswith(_WITH_LENGTH):
            raise SchemaError(f"the length of {name} is a member")
        return parse_logical_type(name)
    except LanceError as error:
        raise SchemaError(f"{where}: {error}") from None


def _length(value: Mapping[str, Any], where: str) -> int:
    length: int = _member(value, "length", int, where)
    if isinstance(length, bool) or not 0 <= length < 1 << 31:
        raise SchemaError(f"{where}: {length!r} is not a length")
    return length


def _metadata(value: object, where: str) -> dict[str, str]:
    found = value.get("metadata") if isinstance(value, Mapping) else None
    if found is None:
        return {}
    if not isinstance(found, Mapping) or not all(
        isinstance(text, str) for item in found.items() for text in item
    ):
        raise SchemaError(f"metadata of {where} is not a mapping of texts")
    return dict(found)


def _member(value: object, name: str, kind: type[Any], where: str) -> Any:
    """A member of a JSON object, of this kind."""
    if not isinstance(value, Mapping) or not isinstance(value.get(name), kind):
        raise SchemaError(f"{where} has no {name!r} of type {kind.__name__}")
    return value[name]
