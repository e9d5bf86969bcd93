"""Protobuf ``Field`` lists to schema trees and back, and the one way any message is parsed.

Data files (schemas of statistics, embedded manifests) and manifests share these messages,
so this module stands beside ``schema`` and below both layers. Everything here is total: any
bytes give a value or a ``FormatError``, ``LimitError`` or ``UnsupportedError``.

Facts: file sheet 0.1, section 2; table sheet, section 1.2.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, TypeVar

import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError, Message
from numpy.typing import NDArray

from lancecy.errors import FormatError, LimitError, TruncatedError
from lancecy.limits import DEFAULT_LIMITS, Limits
from lancecy.proto import file_pb2
from lancecy.schema import DictionaryRef, Field, Schema

__all__ = [
    "build_schema",
    "check_fields",
    "decode_fields",
    "decode_schema",
    "encode_field",
    "encode_fields",
    "parse_message",
    "records",
]

M = TypeVar("M", bound=Message)

# Below this size even a message of nothing but empty submessages parses into about a gigabyte.
_UNCHECKED_BYTES = 16 << 20
_PARTS = 31
_PARTS_DEPTH = 4


def parse_message(
    kind: type[M], data: bytes | NDArray[np.uint8], what: str, limits: Limits = DEFAULT_LIMITS
) -> M:
    """The message of type ``kind`` in these bytes.

    Parameters
    ----------
    kind : generated message class
    data : bytes or (nbytes,) uint8
        The message alone, without a length prefix. Copied.
    what : str
        What is parsed, for the error.

    Raises
    ------
    FormatError
        The bytes are no such message.
    LimitError
        It is longer than ``limits.metadata_bytes``, or consists of suspiciously many empty parts.
    """
    raw = data if isinstance(data, bytes) else data.tobytes()
    limits.check("metadata_bytes", len(raw), f"size of {what}")
    if len(raw) > _UNCHECKED_BYTES:
        _check_density(raw, kind.DESCRIPTOR, what, limits)
    message = kind()
    try:
        message.ParseFromString(raw)
    except (DecodeError, ValueError) as error:
        raise FormatError(f"{what} is not a valid message") from error
    return message


def records(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Length-delimited fields of a serialized message, in order.

    Yields
    ------
    number, start, stop : int
        Field number, and where its bytes are in ``data``.

    Raises
    ------
    FormatError
        The bytes are no protobuf message.
    """
    return (part for part in _parts(data) if part[1] >= 0)


def _parts(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Every field of a serialized message; the span of a plain number is given as -1, -1."""
    position, end = 0, len(data)
    while position < end:
        tag, position = _varint(data, position, end)
        start = position
        position = _skip(data, tag & 7, position, end)
        if tag & 7 == 2:
            _, start = _varint(data, start, end)
            yield tag >> 3, start, position


def _varint(data: bytes, position: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while position < end and shift < 70:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    raise TruncatedError("a message ends inside a number", position=position)


def _skip(data: bytes, kind: int, position: int, end: int) -> int:
    """Where the next field starts, after a tag with wire type ``kind``."""
    if kind == 0:
        return _varint(data, position, end)[1]
    if kind == 2:
        length, position = _varint(data, position, end)
    elif kind in (1, 5):
        length = 8 if kind == 1 else 4
    else:
        raise FormatError(f"wire type {kind} in a message", position=position)
    if length > end - position:
        raise TruncatedError("a message ends inside a field", position=position)
    return position + length


def _check_density(raw: bytes, descriptor: Any, what: str, limits: Limits) -> None:
    """Refuse a large message of very many submessages before the parser builds an object for each.

    An empty submessage takes two bytes here and about a hundred in memory; real ones average far more
    bytes. They are counted by parsing the message as one whose submessages are all plain bytes, which
    costs little; and as serialized messages put together are one message again, each kind of submessage
    is looked into the same way, all of them at once.
    """
    budget = min(len(raw) // 8, 4 * limits.fragments)
    waiting = [(raw, descriptor, 0)]
    while waiting:
        data, described, depth = waiting.pop()
        parts = _parts_class()()
        try:
            parts.ParseFromString(data)
        except DecodeError as error:
            raise FormatError(f"{what} is not a valid message") from error
        for field in described.fields:
            if field.message_type is None or field.number > _PARTS or depth > _PARTS_DEPTH:
                continue
            pieces = getattr(parts, f"f{field.number}")
            budget -= len(pieces)
            if budget < 0:
                raise LimitError(
                    f"{what} consists of very many tiny parts", limit="fragments", claimed=len(raw)
                )
            waiting.append((b"".join(pieces), field.message_type, depth + 1))


@cache
def _parts_class() -> type[Message]:
    """A message with repeated byte strings as fields 1 to ``_PARTS``, which reads any message without its insides."""
    file = descriptor_pb2.FileDescriptorProto(
        name="lancecy/parts.proto", package="lancecy.wire", syntax="proto3"
    )
    parts = file.message_type.add(name="Parts")
    for number in range(1, _PARTS + 1):
        parts.field.add(
            name=f"f{number}",
            number=number,
            type=descriptor_pb2.FieldDescriptorProto.TYPE_BYTES,
            label=descriptor_pb2.FieldDescriptorProto.LABEL_REPEATED,
        )
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    found: type[Message] = message_factory.GetMessageClass(pool.FindMessageTypeByName("lancecy.wire.Parts"))
    return found


def decode_fields(messages: Sequence[file_pb2.Field], limits: Limits = DEFAULT_LIMITS) -> tuple[Field, ...]:
    """Top-level fields of the trees that a depth-first list of fields describes.

    Parameters
    ----------
    messages : sequence of lance.file.Field
        Parents before their children; siblings in order.

    Raises
    ------
    FormatError
        An id occurs twice or is negative, a parent does not precede its child, or two siblings share a name.
    LimitError
        Too many fields, too deep, or a name or type string too long.

    Source: file sheet 0.1, section 2.1. A missing ``parent_id`` reads as 0 and so means "below field 0",
    never "top level".
    """
    check_fields(messages, limits)
    return _built(messages)


def decode_schema(
    messages: Sequence[file_pb2.Field], metadata: Mapping[str, bytes], limits: Limits = DEFAULT_LIMITS
) -> Schema:
    """The schema with these fields and this Arrow metadata (raises what :func:`decode_fields` raises)."""
    check_fields(messages, limits)
    return build_schema(messages, metadata)


def build_schema(messages: Sequence[file_pb2.Field], metadata: Mapping[str, bytes]) -> Schema:
    """The same of fields that :func:`check_fields` has let pass; nothing is left to go wrong.

    Takes several times as long as checking them, and not every user of a table asks for its columns.
    """
    return Schema(_built(messages), dict(metadata) if metadata else {})


def check_fields(messages: Sequence[file_pb2.Field], limits: Limits = DEFAULT_LIMITS) -> None:
    """Whether a list of fields is a tree that can be built; raises what :func:`decode_fields` raises.

    Works on a few lists of plain values: this runs over every column at every open.
    """
    limits.check("fields", len(messages), "number of fields")
    if not messages:
        return
    ids: list[int] = []
    parents: list[int] = []
    names: list[str] = []
    types: set[str] = set()
    coded: list[file_pb2.Field] = []
    for node in messages:
        ids.append(node.id)
        parents.append(node.parent_id)
        names.append(node.name)
        types.add(node.logical_type)
        if node.HasField("dictionary"):
            coded.append(node)
    is_flat = parents.count(-1) == len(parents)
    if not is_flat or min(ids) < 0 or len(set(ids)) < len(ids):
        _check_tree(ids, parents, names, limits)
    # Characters are at most as many as bytes and at least a quarter of them: exact enough for a cap.
    limits.check("name_bytes", max(map(len, names)), "length of a field's name")
    limits.check("name_bytes", max(map(len, types)), "length of the type of a field")
    # Texts: so many tuples would cost the interpreter's collector a pass.
    siblings = names if is_flat else [f"{parent} {name}" for parent, name in zip(parents, names, strict=True)]
    if len(set(siblings)) < len(siblings):
        twice = Counter(siblings).most_common(1)[0][0]
        raise FormatError(
            f"two fields with the same parent are called {twice if is_flat else twice.partition(' ')[2]!r}"
        )
    for node in coded:
        if node.dictionary.offset < 0 or node.dictionary.length < 0:
            raise FormatError(f"dictionary of field {node.name!r} is at {node.dictionary.offset}")


def _check_tree(ids: list[int], parents: list[int], names: list[str], limits: Limits) -> None:
    depths = {-1: 0}
    for field_id, parent, name in zip(ids, parents, names, strict=True):
        if field_id < 0 or field_id in depths:
            problem = "is negative" if field_id < 0 else "occurs twice"
            raise FormatError(f"id {field_id} of field {name!r} {problem}")
        depth = depths.get(parent)
        if depth is None:
            raise FormatError(f"parent {parent} of field {name!r} (id {field_id}) does not precede it")
        depths[field_id] = limits.check("nesting", depth + 1, "depth of the schema") if depth else 1


def _built(messages: Sequence[file_pb2.Field]) -> tuple[Field, ...]:
    """The trees of fields that were checked."""
    # Children follow their parents, so from the back every node finds its children complete.
    below: dict[int, list[Field]] = {}
    for message in reversed(messages):
        children = below.pop(message.id, None)
        node = _field(message, tuple(reversed(children)) if children else ())
        below.setdefault(node.parent_id, []).append(node)
    return tuple(reversed(below.get(-1, [])))


def _field(message: file_pb2.Field, children: tuple[Field, ...]) -> Field:
    dictionary = None
    if message.HasField("dictionary"):
        dictionary = DictionaryRef(message.dictionary.offset, message.dictionary.length)
    return Field(
        name=message.name,
        id=message.id,
        parent_id=message.parent_id,
        logical_type=message.logical_type,
        nullable=message.nullable,
        encoding=message.encoding,
        dictionary=dictionary,
        extension_name=message.extension_name,
        # Building a dict from an empty map field costs as much as all the rest here.
        metadata=dict(message.metadata) if message.metadata else {},
        children=children,
        unenforced_primary_key=message.unenforced_primary_key,
        unenforced_primary_key_position=message.unenforced_primary_key_position,
    )


def encode_fields(fields: Iterable[Field]) -> list[file_pb2.Field]:
    """The depth-first list of messages for these top-level fields, the opposite of :func:`decode_fields`.

    The messages are shared: copy those that are changed.
    """
    return [message for top in fields for message in _messages(top)]


# A write needs the messages three times: for the file, the manifest and the transaction.
@lru_cache(maxsize=16384)
def _messages(top: Field) -> tuple[file_pb2.Field, ...]:
    """The messages of a top-level field; must not be changed."""
    return tuple(encode_field(node) for node in top.walk())


def encode_field(field: Field) -> file_pb2.Field:
    """The message of a field without its children."""
    # One by one, and what most fields do not have left out: keywords, and a dict to copy, take four times as long.
    message = file_pb2.Field()
    message.name, message.logical_type = field.name, field.logical_type
    message.id, message.parent_id = field.id, field.parent_id
    message.nullable, message.encoding = field.nullable, field.encoding  # type: ignore[assignment]
    message.extension_name = field.extension_name
    if field.metadata:
        message.metadata.update(field.metadata)
    if field.unenforced_primary_key:
        message.unenforced_primary_key = True
    if field.unenforced_primary_key_position:
        message.unenforced_primary_key_position = field.unenforced_primary_key_position
    if field.dictionary is not None:
        # Present even when both numbers are zero, which is how 2.x tables mark dictionary fields.
        message.dictionary.SetInParent()
        message.dictionary.offset = field.dictionary.offset
        message.dictionary.length = field.dictionary.length
    return message
