"""Schemas that each version of data files can hold.

Checked before the first byte is written, so that no write fails at its end because of a column. Source: file sheet
0.1, sections 2.2 and 4.5; file sheet 2.0, sections 4.3, 7 and 8; file sheet 2.1, sections 1.6 and 4.5.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import pyarrow as pa

from lancecy.encodings.codecs.outside_blobs import ALL_MEMBERS, MEMBERS
from lancecy.errors import FormatError, UnsupportedError, printable
from lancecy.schema import PACKED_KEYS, Field, Schema, parse_logical_type

__all__ = ["WRITABLE", "check_writable"]

WRITABLE = ("0.1", "2.0", "2.1", "2.2")
"""Versions of data files that can be written."""

_DICTIONARY_VALUES = (
    *(pa.string(), pa.large_string(), pa.binary(), pa.large_binary()),
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
    *(pa.float32(), pa.float64()),
)
_NEWER_DICTIONARY_VALUES = (pa.bool_(), pa.float16())


_EVERYWHERE = frozenset(
    (
        "bool",
        "float",
        "double",
        "string",
        "binary",
        *(f"{s}int{n}" for s in ("", "u") for n in (8, 16, 32, 64)),
    )
)
"""Types that every version holds, in a column that is not nested and has no metadata."""


def check_writable(schema: Schema, version: str) -> None:
    """Refuse a schema that files of a version cannot hold.

    Parameters
    ----------
    schema : Schema
    version : str
        Such as "2.1".

    Raises
    ------
    UnsupportedError
        Names the column, and the version that can hold it.

    Examples
    --------
    >>> point = Field("m", 0, logical_type="map")
    >>> check_writable(Schema((point,)), "2.1")
    Traceback (most recent call last):
    ...
    lancecy.errors.UnsupportedError: column 'm' is a map, which files of version 2.1 cannot hold: write version 2.2, as data_storage_version="2.2" does
    """
    if version not in WRITABLE:
        raise UnsupportedError(
            f"data files of version {printable(version)!r} are not written: choose {', '.join(WRITABLE)}",
            feature=f"writing {version}",
        )
    has_empty = [
        _check_all(field, version)
        for field in schema.fields
        if field.logical_type not in _EVERYWHERE or field.metadata or field.extension_name or field.children
    ]
    if version > "2.0" and any(has_empty):
        _check_order(schema)


@lru_cache(maxsize=16384)
def _check_all(field: Field, version: str) -> bool:
    """Check a column; returns whether a struct in it has no members."""
    for path in _paths(field):
        _check(path, version)
    return any(node.is_struct and not node.children for node in field.walk())


def _paths(field: Field, above: tuple[Field, ...] = ()) -> Iterator[tuple[Field, ...]]:
    path = (*above, field)
    yield path
    for child in () if field.is_blob else field.children:
        yield from _paths(child, path)


def _check(path: tuple[Field, ...], version: str) -> None:
    field, name = path[-1], ".".join(node.name for node in path)
    if field.is_map:
        _only_from("2.2", version, name, "a map")
    if field.is_fixed_list:
        if field.logical_type.endswith(":0"):
            raise UnsupportedError(
                f"column {printable(name)!r} is a fixed-size list of size 0, which no file version can hold: leave it out",
                feature="list of 0",
            )
        _only_from("2.2", version, name, "a fixed-size list of structs")
        if any(node.is_list or node.is_map or node.is_fixed_list for node in path[:-1]):
            raise _unread(name, "a fixed-size list of structs within lists")
        if any(node.is_list or node.is_map for node in field.walk()):
            raise _unread(name, "a fixed-size list of structs with lists in it")
    if field.is_blob:
        _check_blob(path, version, name)
    elif version != "0.1" and not field.is_leaf and field.is_said_packed:
        # 0.1 stores members of structs in columns of their own, even if the metadata asks for packing.
        _check_packed(path, version, name)
    if field.is_struct and not field.children:
        _check_empty(path, version, name)
    if version == "0.1":
        _check_legacy(path, name)
    if field.is_leaf:
        kind = _leaf_type(field, name)
        if pa.types.is_dictionary(kind):
            _check_dictionary(kind, version, name)
        if _is_empty(kind):
            raise UnsupportedError(
                f"column {printable(name)!r} is {kind}, whose values take no bytes, which no file version can hold: leave it out",
                feature=str(kind),
            )


def _check_empty(path: tuple[Field, ...], version: str, name: str) -> None:
    """Refuse lists of structs without members, except in 2.0: other versions do not store where they start."""
    _only_from("2.0", version, name, "a struct without members")
    if path[-1].is_packed or (version > "2.0" and not all(node.is_struct for node in path)):
        what = "packed" if path[-1].is_packed else "in a list"
        raise UnsupportedError(
            f"column {printable(name)!r} is a struct without members, {what}, which files of version {version} "
            "cannot hold: give it a member",
            feature="struct<>",
        )


def _check_order(schema: Schema) -> None:
    """Refuse columns after a struct without members: from 2.1 on pylance (14.0.2) misreads all of them."""
    leaves = [node for field in schema.fields for node in field.walk() if not node.children]
    last = max((number for number, node in enumerate(leaves) if not node.is_struct), default=-1)
    for node in leaves[:last]:
        if node.is_struct:
            raise UnsupportedError(
                f"column {printable(node.name)!r} is a struct without members, and pylance (14.0.2) reads the "
                "columns after it wrongly: make it the last column, or give it a member",
                feature="struct<>",
            )


def _check_blob(path: tuple[Field, ...], version: str, name: str) -> None:
    _only_from("2.0", version, name, "a column of blobs")
    field = path[-1]
    if any(node.is_map or node.is_fixed_list for node in path):
        raise UnsupportedError(
            f"column {printable(name)!r} has blobs in a map or a fixed-size list, which no file version can hold: make "
            "it a list of structs",
            feature="blobs in maps",
        )
    if field.is_struct:
        _only_from("2.2", version, name, "a column of lance.blob.v2")
        names = tuple(child.name for child in field.children)
        is_full = names == ALL_MEMBERS and all(child.id < 0 for child in field.children)
        if names not in MEMBERS and not is_full:
            raise UnsupportedError(
                f"column {printable(name)!r} has positions and sizes of blobs without their bytes: write the bytes, as "
                "take_blobs returns them, in a large_binary column with the metadata lance-encoding:blob",
                feature="descriptors of blobs",
            )
        return
    if field.logical_type != "large_binary" or version == "2.2":
        raise UnsupportedError(
            f"column {printable(name)!r} is a blob column by its metadata and {printable(field.logical_type)} by its "
            f"type: make it {'lance.blob.v2' if version == '2.2' else 'large_binary'}",
            feature="blobs of another type",
        )
    if version == "2.1" and any(node.is_list for node in path):
        _only_from("2.2", version, name, "a list of blobs")


def _check_packed(path: tuple[Field, ...], version: str, name: str) -> None:
    field = path[-1]
    values = {field.metadata[key].lower() for key in PACKED_KEYS if key in field.metadata}
    remedy = "leave the metadata lance-encoding:packed out"
    if not field.is_struct or values != {b"true"}:
        raise UnsupportedError(
            f"column {printable(name)!r}: the metadata lance-encoding:packed is only for structs, with the value true: {remedy}",
            feature="packed",
        )
    for child in field.children:
        what = f"a packed struct with the member {printable(child.name)!r} of type {printable(child.logical_type)}"
        fits = _packs(child, name)
        if fits is None:
            raise UnsupportedError(f"column {printable(name)!r} is {what}: {remedy}", feature="packed struct")
        if fits > version or (child.logical_type.startswith("fixed_size_list") and version == "2.1"):
            _only_from("2.2", version, name, what)


def _packs(child: Field, name: str) -> str | None:
    """The first version whose packed structs may have such a member, None if none may."""
    if not child.is_leaf or child.is_blob or child.logical_type in ("json", "null"):
        return None
    kind = _leaf_type(child, name)
    if _is_variable(kind):
        return "2.2"
    while pa.types.is_fixed_size_list(kind):
        kind = kind.value_type
    return None if pa.types.is_dictionary(kind) or pa.types.is_boolean(kind) else "2.0"


def _is_variable(kind: pa.DataType) -> bool:
    types = pa.types
    is_text = types.is_string(kind) or types.is_large_string(kind)
    return bool(is_text or types.is_binary(kind) or types.is_large_binary(kind))


def _check_dictionary(kind: pa.DictionaryType, version: str, name: str) -> None:
    if kind.value_type in _NEWER_DICTIONARY_VALUES:
        _only_from("2.0", version, name, f"a dictionary of {kind.value_type}")
    elif kind.value_type not in _DICTIONARY_VALUES:
        raise UnsupportedError(
            f"column {printable(name)!r} is a dictionary of {kind.value_type}, which no version of files holds: write the "
            "values themselves",
            feature=f"dictionary of {kind.value_type}",
        )


def _leaf_type(field: Field, name: str) -> pa.DataType:
    try:
        return parse_logical_type(field.logical_type)
    except (FormatError, UnsupportedError) as error:
        raise UnsupportedError(
            f"column {printable(name)!r} is of a type that the format does not have: {error}",
            feature=field.logical_type,
        ) from None


def _is_empty(kind: pa.DataType) -> bool:
    """Whether values have no bytes: pylance (14.0.2) cannot read them, or cannot open the table."""
    if pa.types.is_fixed_size_list(kind):
        return kind.list_size == 0 or _is_empty(kind.value_type)
    return bool(pa.types.is_fixed_size_binary(kind) and kind.byte_width == 0)


def _check_legacy(path: tuple[Field, ...], name: str) -> None:
    """Refuse types that the reference does not read in 0.1 files, or never writes."""
    field = path[-1]
    if len(path) > 1 and path[-2].is_list:
        # Readers derive the field of a list's elements, and refuse data with another one.
        is_usual = field.name == "item" and field.nullable and not field.metadata
        if not is_usual:
            outer = ".".join(node.name for node in path[:-1])
            what = "a list whose elements are not called 'item', may not be null or have metadata"
            _only_from("2.0", "0.1", outer, what)
    if field.logical_type.startswith(("dict:float:", "dict:double:")):
        _only_from("2.0", "0.1", name, "a dictionary of floats")


def _only_from(first: str, version: str, name: str, what: str) -> None:
    if version < first:
        raise UnsupportedError(
            f"column {printable(name)!r} is {what}, which files of version {version} cannot hold: "
            f'write version {first}, as data_storage_version="{first}" does',
            feature=what,
        )


def _unread(name: str, what: str) -> UnsupportedError:
    return UnsupportedError(
        f"column {printable(name)!r} is {what}, which pylance (14.0.2) does not read: make it a list of structs",
        feature=what,
    )
