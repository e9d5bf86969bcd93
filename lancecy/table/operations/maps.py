"""Updates of string maps, and the flags of a field that mirror entries of its metadata.

Source: table sheet, sections 1.2 and 4.2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import field
from typing import Any

from lancecy.errors import SchemaError
from lancecy.proto import file_pb2, transaction_pb2
from lancecy.records import dataclass

__all__ = [
    "CLUSTERING_KEY",
    "PRIMARY_KEY",
    "MapUpdate",
    "decode_map",
    "encode_map",
    "mirror_keys",
    "update_map",
]

PRIMARY_KEY = "lance-schema:unenforced-primary-key"
CLUSTERING_KEY = "lance-schema:unenforced-clustering-key"
_TRUE = frozenset({b"true", b"1", b"yes"})


@dataclass(frozen=True, slots=True)
class MapUpdate:
    """Changes of a string map.

    Attributes
    ----------
    entries : mapping of str to str or None
        New values; None removes the key.
    replace : bool
        Whether to remove all other keys.
    """

    entries: Mapping[str, str | None] = field(default_factory=dict)
    replace: bool = False


def update_map(
    target: MutableMapping[str, Any], update: MapUpdate | None, encode: Callable[[str], Any]
) -> None:
    """Change a map of a message; ``encode`` converts a string to a value. None changes nothing."""
    if update is None:
        return
    if update.replace:
        target.clear()
    for key, value in update.entries.items():
        if value is None:
            target.pop(key, None)
        else:
            target[key] = encode(value)


def encode_map(message: transaction_pb2.Transaction.UpdateMap, update: MapUpdate) -> None:
    """Write a change into its message."""
    message.SetInParent()
    message.replace = update.replace
    for key, value in update.entries.items():
        message.update_entries.add(key=key, value=value)


def decode_map(message: transaction_pb2.Transaction.UpdateMap) -> MapUpdate:
    """The change in a message."""
    entries: Mapping[str, str | None] = {
        entry.key: entry.value if entry.HasField("value") else None for entry in message.update_entries
    }
    return MapUpdate(entries, message.replace)


def mirror_keys(field: file_pb2.Field) -> None:
    """Set the key flags of a field from its metadata (table sheet, section 1.2)."""
    if not field.metadata:
        return
    if PRIMARY_KEY in field.metadata:
        field.unenforced_primary_key = field.metadata[PRIMARY_KEY].lower() in _TRUE
    if f"{PRIMARY_KEY}:position" in field.metadata:
        field.unenforced_primary_key_position = _position(field, PRIMARY_KEY)
        field.unenforced_primary_key = True
    if f"{CLUSTERING_KEY}:position" in field.metadata:
        field.unenforced_clustering_key_position = _position(field, CLUSTERING_KEY)


def _position(field: file_pb2.Field, key: str) -> int:
    text = field.metadata[f"{key}:position"]
    if not text.isdigit() or len(text) > 9:
        raise SchemaError(
            f"position {text!r} of column {field.name!r} in a key is not a number", difference=key
        )
    return int(text)
