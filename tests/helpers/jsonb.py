"""JSON values in the binary form that the format stores, made by hand."""

from __future__ import annotations

import random
import struct
from typing import Any

__all__ = ["nested", "random_value", "stored"]

Entry = tuple[int, bytes]

_ARRAY, _OBJECT, _SCALAR = 0x80000000, 0x40000000, 0x20000000


def stored(value: Any) -> bytes:
    """The stored form of a value as ``json.loads`` gives it; bytes stand for a number in stored form."""
    if isinstance(value, list | dict):
        return _container(value)
    return _packed(_SCALAR, [_entry(value)])


def nested(depth: int) -> bytes:
    """Arrays within arrays: ``depth`` of them around an empty one."""
    data = struct.pack(">I", _ARRAY)
    for _ in range(depth):
        data = struct.pack(">II", _ARRAY | 1, 0x50000000 | len(data)) + data
    return data


def random_value(rng: random.Random, depth: int = 0) -> Any:
    """A value of any kind, numbers of all widths and text of all planes included."""
    kind = rng.randrange(6 if depth > 3 else 8)
    if kind == 6:
        return [random_value(rng, depth + 1) for _ in range(rng.randrange(4))]
    if kind == 7:
        return {rng.choice("abcdé\n") * rng.randrange(4): random_value(rng, depth + 1) for _ in range(4)}
    if kind == 5:
        return "".join(rng.choice('ab "\\/é\u2028😀\x00\x1f\x7f\t') for _ in range(rng.randrange(30)))
    scalars: list[object] = [None, True, False, rng.uniform(-1, 1) * 10.0 ** rng.randint(-20, 25)]
    return rng.choice([*scalars, rng.randint(-(2**63), 2**64 - 1), rng.randint(-300, 300), 0])


def _container(value: list[Any] | dict[str, Any]) -> bytes:
    if isinstance(value, list):
        return _packed(_ARRAY | len(value), [_entry(item) for item in value])
    items = sorted(value.items())
    keys = [_entry(key) for key, _ in items]
    return _packed(_OBJECT | len(items), [*keys, *(_entry(item) for _, item in items)])


def _packed(header: int, entries: list[Entry]) -> bytes:
    described = [kind << 28 | len(data) for kind, data in entries]
    return struct.pack(f">{1 + len(entries)}I", header, *described) + b"".join(data for _, data in entries)


def _entry(value: Any) -> Entry:
    if value is None or isinstance(value, bool):
        return {None: 0, False: 3, True: 4}[value], b""
    if isinstance(value, str):
        return 1, value.encode()
    if isinstance(value, list | dict):
        return 5, _container(value)
    return 2, value if isinstance(value, bytes) else _number(value)


def _number(value: float) -> bytes:
    if isinstance(value, float):
        return b"\x60" + struct.pack(">d", value)
    if value == 0:
        return b"\x00"
    kind, codes = (b"\x50", "BHIQ") if value > 0 else (b"\x40", "bhiq")
    for code in codes:
        try:
            return kind + struct.pack(">" + code, value)
        except struct.error:
            continue
    raise ValueError(f"{value} has more than 64 bits")
