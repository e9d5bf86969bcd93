"""Twin of ``_json_path``: value by value, part by part."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from lancecy.kernels._codes import Fault, fail
from lancecy.kernels.reference.checks import checked
from lancecy.kernels.reference.json_nodes import KINDS, FaultError, Items, Node, items_of, root_of, rows_of

__all__ = ["json_select"]

_NAME, _RANGE, _ELEMENTS, _ITEMS, _MEMBERS, _DESCEND, _KEY = range(7)
_FIRST_FROM_LAST, _LAST_FROM_LAST, _MORE_RANGES = 1, 2, 4
_ONE_VALUE, _FIRST_VALUE, _ARRAY_OF_VALUES = range(3)
_DEPTH = 128

Step: TypeAlias = tuple[int, int, int, int]


@checked
def json_select(
    offsets: NDArray[np.int64],
    values: NDArray[np.uint8],
    steps: NDArray[np.int64],
    names: NDArray[np.uint8],
    mode: int,
    out_offsets: NDArray[np.int64],
    out: NDArray[np.uint8],
    out_found: NDArray[np.uint8],
    validity: NDArray[np.uint8] | None = None,
) -> int:
    """As :func:`lancecy.kernels.json_select`."""
    if out_offsets.size != offsets.size or out_found.size != offsets.size - 1:
        raise ValueError("out_offsets and out_found do not have an entry for every value")
    if not _ONE_VALUE <= mode <= _ARRAY_OF_VALUES:
        raise ValueError("mode is 0, 1 or 2")
    visits = (1 << 16) + 64 * values.size + 128 * (offsets.size - 1)
    path = _Path(_checked_steps(steps, names), names.tobytes(), visits)
    result = bytearray()
    out_offsets[0] = 0
    for row, data in rows_of(offsets, values, validity):
        try:
            found = [] if data is None else _found(path, data, mode)
        except FaultError as fault:
            fail(fault.args[0], row)
        if data is not None:
            result += _joined(found, mode)
        out_found[row] = bool(found)
        out_offsets[row + 1] = len(result)
    if len(result) <= out.size:
        out[: len(result)] = np.frombuffer(bytes(result), np.uint8)
    return len(result)


def _checked_steps(steps: NDArray[np.int64], names: NDArray[np.uint8]) -> list[Step]:
    if steps.size % 4 or steps.size > 4 * _DEPTH:
        raise ValueError(f"a path has up to {_DEPTH} steps of four numbers")
    found: list[Step] = [
        (kind, first, last, flags) for kind, first, last, flags in steps.reshape(-1, 4).tolist()
    ]
    for number, (kind, first, last, flags) in enumerate(found):
        if not _NAME <= kind <= _KEY:
            raise ValueError(f"step {number} is of no known kind")
        if kind in (_NAME, _KEY) and not 0 <= first <= last <= names.size:
            raise ValueError(f"the name of step {number} is not among the names")
        if max(abs(first), abs(last)) > 1 << 31:
            raise ValueError(f"the numbers of step {number} have more than 32 bits")
        is_followed = number + 1 < len(found) and found[number + 1][0] == _RANGE
        if kind == _RANGE and flags & _MORE_RANGES and not is_followed:
            raise ValueError(f"no range follows step {number}")
    return found


def _found(path: _Path, data: bytes, mode: int) -> list[Node]:
    """The wanted parts of a value."""
    parts = path.follow(root_of(data), 0, 0)
    return list(islice(parts, 1 if mode == _FIRST_VALUE else None))


def _joined(parts: Sequence[Node], mode: int) -> bytes:
    """The stored form of parts."""
    if mode == _ARRAY_OF_VALUES or len(parts) > 1:
        entries = [part.kind | len(part.data) for part in parts]
        head = struct.pack(f">{1 + len(entries)}I", 0x80000000 | len(entries), *entries)
        return head + b"".join(part.data for part in parts)
    if not parts:
        return b""
    (part,) = parts
    is_container = part.kind == KINDS[-1]
    return (
        part.data if is_container else struct.pack(">II", 0x20000000, part.kind | len(part.data)) + part.data
    )


class _Path:
    """The steps of a path; names are spans of ``names``, and so much may be visited."""

    def __init__(self, steps: Sequence[Step], names: bytes, visits: int) -> None:
        self.steps = steps
        self.names = names
        self._visits_left = visits

    def _visit(self, count: int) -> None:
        self._visits_left -= count
        if self._visits_left < 0:
            raise FaultError(Fault.JSON_WALK)

    def follow(self, node: Node, step: int, depth: int) -> Iterator[Node]:
        """Yield the parts of a value to which the steps from ``step`` on lead."""
        if step == len(self.steps):
            yield node
            return
        kind = self.steps[step][0]
        if kind == _DESCEND:
            yield from self._descend(node, step, depth, 0)
            return
        items = items_of(node)
        self._visit(1 + (0 if items is None else len(items)))
        if items is not None and depth > _DEPTH:
            raise FaultError(Fault.JSON_DEPTH)
        if items is None or items.is_object:
            if kind == _ELEMENTS:
                yield from self.follow(node, step + 1, depth)
            elif items is not None and kind in (_NAME, _KEY, _MEMBERS):
                yield from self._in_object(items, step, depth)
        elif kind in (_RANGE, _ELEMENTS, _ITEMS, _KEY):
            yield from self._in_array(items, step, depth)

    def _in_object(self, items: Items, step: int, depth: int) -> Iterator[Node]:
        kind, first, last, _ = self.steps[step]
        keys = items.keys()
        low, high = 0, len(items) - 1
        if kind != _MEMBERS:
            name = self.names[first:last]
            if name not in keys:
                return
            low = high = keys.index(name)
        for child in items.elements(low, high):
            yield from self.follow(child, step + 1, depth + 1)

    def _in_array(self, items: Items, step: int, depth: int) -> Iterator[Node]:
        kind, _, _, flags = self.steps[step]
        after, ranges = step + 1, [(0, len(items) - 1)]
        if kind == _KEY:
            ranges = [(flags, flags)] if flags >= 0 else []
        elif kind == _RANGE:
            while self.steps[after - 1][3] & _MORE_RANGES:
                after += 1
            ranges = [_bounds(part, len(items)) for part in self.steps[step:after]]
        for low, high in ranges:
            for child in items.elements(low, high):
                yield from self.follow(child, after, depth + 1)

    def _descend(self, node: Node, step: int, depth: int, level: int) -> Iterator[Node]:
        _, first, last, _ = self.steps[step]
        self._visit(1)
        if level >= first:
            yield from self.follow(node, step + 1, depth)
        items = items_of(node) if level < last else None
        if items is None:
            return
        if depth > _DEPTH:
            raise FaultError(Fault.JSON_DEPTH)
        for child in items.elements(0, len(items) - 1):
            yield from self._descend(child, step, depth + 1, level + 1)


def _bounds(step: Step, count: int) -> tuple[int, int]:
    """First and last element of a range."""
    _, first, last, flags = step
    end = count - 1
    return first + (end if flags & _FIRST_FROM_LAST else 0), last + (end if flags & _LAST_FROM_LAST else 0)
