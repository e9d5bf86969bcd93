"""Damage done on purpose to the files of a table.

Blind damage (truncations, bit flips, overwritten words) and structure-aware damage:
one number of the metadata is changed and the message is encoded again with valid
lengths, so that the damage reaches the code behind the first check.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from lancecy.proto import file_pb2, rowids_pb2, table_pb2

M = TypeVar("M", bound=Message)

Mutation = tuple[str, bytes]
"""(what was done, the damaged bytes)"""

NUMBERS = (
    0,
    1,
    2,
    3,
    7,
    8,
    127,
    128,
    255,
    256,
    1023,
    1024,
    1025,
    65535,
    65536,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**32,
    2**53,
    2**63 - 1,
    2**64 - 1,
)
TEXTS = (
    "",
    "\0",
    "a\0b",
    "..",
    "../../etc/passwd",
    "/dev/zero",
    "x" * 300,
    "fixed_size_list:" * 200,
    "struct",
    "list",
    "int64",
    "string",
    "bool",
    "dict:string:int8:false",
    "decimal:128:99999:1",
    "fixed_size_list:float:4294967295",
    "timestamp:us:\N{SNOWMAN}",
    "\N{COMBINING ACUTE ACCENT}",
)


SEQUENCES: dict[str, type[Message]] = {
    "inline_row_ids": rowids_pb2.RowIdSequence,
    "inline_created_at_versions": rowids_pb2.RowDatasetVersionSequence,
    "inline_last_updated_at_versions": rowids_pb2.RowDatasetVersionSequence,
}
"""Fields of a fragment that hold messages as bytes."""


def place(path: Path, data: bytes) -> None:
    """Make ``data`` what the file holds, as another file: a map of the one before stays what it was."""
    if path.read_bytes() != data:
        path.unlink()
        path.write_bytes(data)


def truncations(data: bytes, rng: random.Random, count: int) -> Iterator[Mutation]:
    """The file cut short."""
    for _ in range(count):
        size = rng.randrange(len(data)) if data else 0
        yield f"cut to {size} of {len(data)} bytes", data[:size]


def flips(data: bytes, rng: random.Random, count: int) -> Iterator[Mutation]:
    """One to four bits flipped."""
    for _ in range(count):
        damaged = bytearray(data)
        places = [rng.randrange(len(data) * 8) for _ in range(rng.choice((1, 1, 2, 4)))]
        for place in places:
            damaged[place // 8] ^= 1 << place % 8
        yield f"flipped bits {places}", bytes(damaged)


def words(data: bytes, rng: random.Random, count: int) -> Iterator[Mutation]:
    """An aligned or unaligned 4- or 8-byte word replaced by a telling number."""
    for _ in range(count):
        width = rng.choice((4, 8))
        if len(data) < width:
            continue
        place = rng.randrange(len(data) - width + 1)
        value = rng.choice(NUMBERS) & ((1 << 8 * width) - 1)
        damaged = bytearray(data)
        damaged[place : place + width] = value.to_bytes(width, "little")
        yield f"{width} bytes at {place} set to {value}", bytes(damaged)


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


def _messages(message: Message) -> Iterator[tuple[Message, FieldDescriptor]]:
    """Every set field of a message and of the messages in it."""
    for field, value in message.ListFields():
        yield message, field
        if field.type == FieldDescriptor.TYPE_MESSAGE and not _is_map(field):
            for child in value if field.is_repeated else [value]:
                yield from _messages(child)


def _new_value(field: FieldDescriptor, old: object, rng: random.Random) -> object:
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        if field.type == FieldDescriptor.TYPE_BYTES:
            raw = bytearray(old if isinstance(old, bytes) else b"")
            if raw and rng.random() < 0.7:
                raw[rng.randrange(len(raw))] ^= 1 << rng.randrange(8)
                return bytes(raw)
            return rng.randbytes(rng.choice((0, 1, 7, 64)))
        return rng.choice(TEXTS)
    if field.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
        return not old
    if field.cpp_type == FieldDescriptor.CPPTYPE_ENUM:
        return rng.choice((0, 1, 2, 3))
    bits, signed = (64, True) if field.cpp_type == FieldDescriptor.CPPTYPE_INT64 else (64, False)
    if field.cpp_type in (FieldDescriptor.CPPTYPE_INT32, FieldDescriptor.CPPTYPE_UINT32):
        bits, signed = 32, field.cpp_type == FieldDescriptor.CPPTYPE_INT32
    number = rng.choice((*NUMBERS, int(str(old)) + 1, int(str(old)) - 1, -1, -2)) & ((1 << bits) - 1)
    return number - (1 << bits) if signed and number >> (bits - 1) else number


def edit_message(message: Message, rng: random.Random) -> str:
    """Change one field somewhere in ``message``; says which."""
    owner, field = rng.choice(list(_messages(message)))
    value = getattr(owner, field.name)
    if field.is_repeated:
        if field.type == FieldDescriptor.TYPE_MESSAGE and _is_map(field):
            owner.ClearField(field.name)
            return f"{field.full_name} emptied"
        at = rng.randrange(len(value))
        kind = rng.choice(("delete", "double", "change"))
        if kind == "delete":
            del value[at]
        elif kind == "double":
            value.append(value[at])
        elif field.type != FieldDescriptor.TYPE_MESSAGE:
            value[at] = _new_value(field, value[at], rng)
        return f"{field.full_name}[{at}] {kind}d"
    if field.type == FieldDescriptor.TYPE_MESSAGE or rng.random() < 0.15:
        owner.ClearField(field.name)
        return f"{field.full_name} removed"
    fresh = _new_value(field, value, rng)
    setattr(owner, field.name, fresh)
    return f"{field.full_name} = {fresh!r:.60}"


_INTEGERS = {
    FieldDescriptor.CPPTYPE_INT32: 31,
    FieldDescriptor.CPPTYPE_UINT32: 32,
    FieldDescriptor.CPPTYPE_INT64: 63,
    FieldDescriptor.CPPTYPE_UINT64: 64,
}
"""Kinds of whole numbers, and how many bits of a positive one fit."""


def claim_number(message: Message, rng: random.Random, number: int) -> str | None:
    """Put ``number``, or as much of it as fits, in one whole number somewhere in ``message``; says which."""
    found = [(owner, field) for owner, field in _messages(message) if field.cpp_type in _INTEGERS]
    if not found:
        return None
    owner, field = rng.choice(found)
    fitting = min(number, (1 << _INTEGERS[field.cpp_type]) - 1)
    if field.is_repeated:
        numbers = getattr(owner, field.name)
        numbers[rng.randrange(len(numbers))] = fitting
    else:
        setattr(owner, field.name, fitting)
    return f"{field.full_name} = {fitting}"


def tail_message(data: bytes, kind: type[M]) -> tuple[int, M]:
    """The last message of a 0.1 file or a manifest, and where it starts."""
    position = struct.unpack_from("<q", data, len(data) - 16)[0]
    length = struct.unpack_from("<I", data, position)[0]
    message = kind()
    message.ParseFromString(data[position + 4 : position + 4 + length])
    return position, message


def with_tail(data: bytes, position: int, message: Message) -> bytes:
    """The file with another message in that place."""
    body = message.SerializeToString()
    return data[:position] + struct.pack("<I", len(body)) + body + data[-16:]


def edited_metadata(data: bytes, rng: random.Random, count: int, kind: type[Message]) -> Iterator[Mutation]:
    """One field of the file's last message changed, lengths valid."""
    for _ in range(count):
        position, message = tail_message(data, kind)
        what = edit_message(message, rng)
        try:
            yield what, with_tail(data, position, message)
        except (ValueError, UnicodeError):
            # A text that protobuf itself refuses to encode cannot be in a file either.
            continue


def edited_sequences(data: bytes, rng: random.Random, count: int) -> Iterator[Mutation]:
    """One field of the stable row ids or row versions of a fragment changed, which are messages of their own."""
    for _ in range(count):
        position, message = tail_message(data, table_pb2.Manifest)
        held = [(f, name) for f in message.fragments for name in SEQUENCES if getattr(f, name)]
        if not held:
            return
        fragment, name = rng.choice(held)
        sequence = SEQUENCES[name].FromString(getattr(fragment, name))
        if not sequence.ListFields():
            continue
        what = edit_message(sequence, rng)
        setattr(fragment, name, sequence.SerializeToString())
        yield f"{name}: {what}", with_tail(data, position, message)


def edited_page_table(data: bytes, rng: random.Random, count: int) -> Iterator[Mutation]:
    """One cell of a 0.1 page table changed."""
    _, message = tail_message(data, file_pb2.Metadata)
    start = message.page_table_position
    stop = message.manifest_position or len(data) - 16
    cells = max(1, (stop - start) // 8)
    for _ in range(count):
        place = start + 8 * rng.randrange(cells)
        if place + 8 > len(data):
            continue
        old = struct.unpack_from("<q", data, place)[0]
        new = rng.choice((*NUMBERS[:-3], old + 1, old - 1, old + 8, old * 2, -1, -(2**63), 2**63 - 1))
        damaged = bytearray(data)
        struct.pack_into("<q", damaged, place, max(-(2**63), min(2**63 - 1, new)))
        yield f"page table cell at {place}: {old} -> {new}", bytes(damaged)


def mutations_of(suffix: str, data: bytes, rng: random.Random, count: int) -> Iterator[Mutation]:
    """A mixture of all kinds that fit a file whose name ends so."""
    kinds: list[Callable[[int], Iterator[Mutation]]] = [
        lambda n: truncations(data, rng, n),
        lambda n: flips(data, rng, n),
        lambda n: words(data, rng, n),
    ]
    if suffix == ".manifest":
        kinds += [lambda n: edited_metadata(data, rng, n, table_pb2.Manifest)] * 3
        kinds.append(lambda n: edited_sequences(data, rng, n))
    elif suffix == ".lance":
        kinds += [
            lambda n: edited_page_table(data, rng, n),
            lambda n: edited_metadata(data, rng, n, file_pb2.Metadata),
        ]
    for index, kind in enumerate(kinds):
        share = count // len(kinds) + (1 if index < count % len(kinds) else 0)
        yield from kind(share)
