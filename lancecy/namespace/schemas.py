"""Arrow schemas as the JSON models of ``lance_namespace``, and the counts of a description."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
from lance_namespace_urllib3_client.models import JsonArrowDataType, JsonArrowField, JsonArrowSchema

from lancecy.api.datasets import Dataset
from lancecy.errors import printable

__all__ = ["arrow_type", "counts", "json_schema"]

_NAMES = {
    "string": "utf8",
    "large_string": "large_utf8",
    "halffloat": "float16",
    "float": "float32",
    "double": "float64",
    "date32[day]": "date32",
    "date64[ms]": "date64",
}
_SCALE_BASE = 1000
_ALIASES = {"utf8": "string", "large_utf8": "large_string"}
_NESTED: dict[str, Callable[[list[pa.Field], Any], pa.DataType]] = {
    "list": lambda inner, _: pa.list_(inner[0]),
    "large_list": lambda inner, _: pa.large_list(inner[0]),
    "fixed_size_list": lambda inner, length: pa.list_(inner[0], length),
    "struct": lambda inner, _: pa.struct(inner),
}


def json_schema(schema: pa.Schema) -> Any:
    """A schema as ``JsonArrowSchema``, with the names of types that pylance writes.

    Parameters
    ----------
    schema : pyarrow.Schema

    Examples
    --------
    >>> made = json_schema(pa.schema({"v": pa.list_(pa.float32(), 2)}))
    >>> made.fields[0].type.type, made.fields[0].type.length
    ('fixed_size_list', 2)
    """
    metadata = {_text(key): _text(value) for key, value in (schema.metadata or {}).items()}
    return JsonArrowSchema(fields=[_field(field) for field in schema], metadata=metadata or None)


def arrow_type(given: Mapping[str, Any]) -> pa.DataType:
    """The type of a ``JsonArrowDataType``, as a mapping.

    Parameters
    ----------
    given : mapping
        ``type``, and ``fields`` and ``length`` if it needs them.

    Raises
    ------
    ValueError
        The type is unknown, or a part of it is missing.

    Examples
    --------
    >>> arrow_type({"type": "float32"}), arrow_type({"type": "timestamp[us]"})
    (DataType(float), TimestampType(timestamp[us]))
    """
    name, length = str(given.get("type")), given.get("length")
    inner = [
        pa.field(one["name"], arrow_type(one["type"]), one.get("nullable", True))
        for one in given.get("fields") or ()
    ]
    if name in _NESTED and inner and (name != "fixed_size_list" or isinstance(length, int)):
        return _NESTED[name](inner, length)
    if name.startswith("decimal") and isinstance(length, int):
        width = pa.decimal256 if name == "decimal256" else pa.decimal128
        return width(*divmod(length, _SCALE_BASE))
    if name == "fixed_size_binary" and isinstance(length, int):
        return pa.binary(length)
    try:
        return pa.type_for_alias(_ALIASES.get(name, name))
    except ValueError:
        raise ValueError(
            f"type {printable(str(given)[:200])} is not known, or a part of it is missing"
        ) from None


def counts(ds: Dataset) -> dict[str, str]:
    """Counts of rows and files of a version, as texts under pylance's names.

    Parameters
    ----------
    ds : Dataset
    """
    fragments = ds.get_fragments()
    files = [file for fragment in fragments for file in fragment.data_files()]
    deleted = sum(fragment.num_deletions for fragment in fragments)
    found = {
        "total_rows": ds.count_rows(),
        "total_fragments": len(fragments),
        "total_data_files": len(files),
        "total_files_size": sum(file.size or 0 for file in files),
        "total_data_file_rows": sum(fragment.physical_rows for fragment in fragments),
        "total_deletion_files": sum(fragment.deletion_file() is not None for fragment in fragments),
        "total_deletion_file_rows": deleted,
    }
    return {name: str(value) for name, value in found.items()}


def _text(value: bytes) -> str:
    return value.decode(errors="replace")


def _field(field: pa.Field) -> Any:
    kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    kind = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
    metadata = {_text(key): _text(value) for key, value in (field.metadata or {}).items()}
    return JsonArrowField(
        name=field.name, nullable=field.nullable, type=_type(kind), metadata=metadata or None
    )


def _type(kind: pa.DataType) -> Any:
    types = pa.types
    if types.is_fixed_size_list(kind):
        return JsonArrowDataType(
            type="fixed_size_list", fields=[_field(kind.value_field)], length=kind.list_size
        )
    if types.is_large_list(kind) or types.is_list(kind):
        name = "large_list" if types.is_large_list(kind) else "list"
        return JsonArrowDataType(type=name, fields=[_field(kind.value_field)])
    if types.is_map(kind):
        return JsonArrowDataType(type="map", fields=[_field(kind.key_field), _field(kind.item_field)])
    if types.is_struct(kind):
        return JsonArrowDataType(type="struct", fields=[_field(one) for one in kind])
    if types.is_fixed_size_binary(kind) and not types.is_decimal(kind):
        return JsonArrowDataType(type="fixed_size_binary", length=kind.byte_width)
    if types.is_decimal(kind):
        # pylance joins both numbers to one.
        length = kind.precision * _SCALE_BASE + kind.scale
        return JsonArrowDataType(type=str(kind).partition("(")[0], length=length)
    text = str(kind)
    return JsonArrowDataType(type=_NAMES.get(text, text.partition("[")[0]))
