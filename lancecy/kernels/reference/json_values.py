"""Twins of ``_json_values`` and ``_jsonb``: value by value."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lancecy.kernels._codes import fail
from lancecy.kernels.reference.checks import checked
from lancecy.kernels.reference.json_nodes import (
    KINDS,
    FaultError,
    Node,
    items_of,
    number_of,
    put_value,
    root_of,
    rows_of,
    text_of,
)

__all__ = ["json_array_has", "json_scalars", "json_texts"]


_NULL, _STRING, _NUMBER, _FALSE, _TRUE, _CONTAINER = KINDS


@checked
def json_array_has(
    offsets: NDArray[np.int64],
    values: NDArray[np.uint8],
    text: NDArray[np.uint8],
    out: NDArray[np.uint8],
    validity: NDArray[np.uint8] | None = None,
) -> None:
    """As :func:`lancecy.kernels.json_array_has`."""
    if out.size != offsets.size - 1:
        raise ValueError("out does not have an entry for every value")
    wanted = text.tobytes()
    for row, data in rows_of(offsets, values, validity):
        try:
            out[row] = data is not None and _has(root_of(data), wanted)
        except FaultError as fault:
            fail(fault.args[0], row)


def _has(node: Node, wanted: bytes) -> bool:
    items = items_of(node)
    if items is None or items.is_object:
        return False
    for element in items.elements(0, len(items) - 1):
        parts: list[str] = []
        put_value(element.data, element.kind, parts)
        if "".join(parts).encode() in (wanted, b'"' + wanted + b'"'):
            return True
    return False


@checked
def json_scalars(
    offsets: NDArray[np.int64],
    values: NDArray[np.uint8],
    out_kinds: NDArray[np.uint8],
    out_integers: NDArray[np.int64],
    out_floats: NDArray[np.float64],
    validity: NDArray[np.uint8] | None = None,
) -> None:
    """As :func:`lancecy.kernels.json_scalars`."""
    if not out_kinds.size == out_integers.size == out_floats.size == offsets.size - 1:
        raise ValueError("an output does not have an entry for every value")
    for row, data in rows_of(offsets, values, validity):
        try:
            found = (0, 0, 0.0) if data is None else _scalar(root_of(data))
        except FaultError as fault:
            fail(fault.args[0], row)
        out_kinds[row], out_integers[row], out_floats[row] = found


def _scalar(node: Node) -> tuple[int, int, float]:
    if node.kind == _NUMBER:
        number = number_of(node.data)
        if isinstance(number, float):
            return 3, 0, number
        return (1, number, float(number)) if number < 1 << 63 else (2, 0, float(number))
    if node.kind == _CONTAINER:
        items = items_of(node)
        size = 0 if items is None else len(items)
        return (8 if items is not None and items.is_object else 7), size, 0.0
    return {_NULL: 0, _FALSE: 4, _TRUE: 5, _STRING: 6}[node.kind], 0, 0.0


@checked
def json_texts(
    offsets: NDArray[np.int64],
    values: NDArray[np.uint8],
    out_offsets: NDArray[np.int64],
    out: NDArray[np.uint8],
    validity: NDArray[np.uint8] | None = None,
    plain: bool = False,
) -> int:
    """As :func:`lancecy.kernels.json_texts`."""
    if offsets.size < 1 or out_offsets.size != offsets.size:
        raise ValueError("offsets and out_offsets need one entry more than values, both the same number")
    text = bytearray()
    out_offsets[0] = 0
    for row, data in rows_of(offsets, values, validity):
        if data is not None:
            text += text_of(data, row, plain)
        out_offsets[row + 1] = len(text)
    if len(text) <= out.size:
        out[: len(text)] = np.frombuffer(bytes(text), np.uint8)
    return len(text)
