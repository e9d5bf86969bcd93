"""Pages of blobs in 2.1: position and size of each row's bytes in the same file.

The values of such a page are rows of ``u64 position | u64 size``, stored by another layout. A row of size 0 is
an empty blob if its position is 0; otherwise it is null, and the position holds the levels: repetition in the
lower 16 bits, definition above. (Blobs of 2.2 and of 2.0 are packed structs, which need no special code.)
Source: file sheet 2.1, section 3.11.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from lancecy.encodings.model.block import Block, FixedWidth, Structured
from lancecy.encodings.model.layouts import (
    BlobPage,
    ConstantPage,
    FullZip,
    MiniBlock,
    max_definition,
    max_repetition,
)
from lancecy.encodings.model.pages import Page
from lancecy.encodings.v21 import constant, fullzip, miniblock
from lancecy.encodings.v21.repdef import LeafPage
from lancecy.errors import FormatError, UnsupportedError
from lancecy.limits import Limits
from lancecy.rows import RowSelection
from lancecy.schema import Field
from lancecy.store.reads import Read, SourceFile

__all__ = ["read"]


def read(
    spec: BlobPage,
    page: Page,
    chain: tuple[Field, ...],
    rows: RowSelection,
    file: SourceFile,
    limits: Limits,
) -> Read[LeafPage]:
    """Decode positions and sizes of blobs; parameters and errors as ``miniblock.read``.

    The last field of ``chain`` is a struct of position and size, as in ``Field.scanned``.

    Raises
    ------
    UnsupportedError
        Blobs in lists.
    """
    if max_repetition(spec.layers):
        raise UnsupportedError("blobs in lists, in a file of version 2.1", feature="blobs in lists")
    inner = yield from _read_inner(spec.inner, page, chain, rows, file, limits)
    if inner.definition is not None or inner.rep is not None:
        raise FormatError("positions and sizes of blobs that are null or lists themselves")
    positions, sizes = _columns(inner.values)
    is_null = (sizes == 0) & (positions != 0)
    levels = np.where(is_null, positions >> np.uint64(16), 0)
    if bool((positions[is_null] & np.uint64(0xFFFF)).any()):
        raise FormatError("a blob outside lists has a repetition level")
    highest = max_definition(spec.layers)
    if int(levels.max(initial=0)) > highest:
        raise FormatError(f"definition level {int(levels.max())} of a blob, where {highest} is the highest")
    definition = levels.astype(np.uint16) if highest else None
    values = _descriptors(np.where(is_null, 0, positions), sizes, chain[-1])
    return LeafPage(spec.layers, None, definition, values, inner.num_rows)


def _read_inner(
    spec: MiniBlock | ConstantPage | FullZip,
    page: Page,
    chain: tuple[Field, ...],
    rows: RowSelection,
    file: SourceFile,
    limits: Limits,
) -> Read[LeafPage]:
    page = replace(page, spec=spec)
    if isinstance(spec, MiniBlock):
        return miniblock.read(spec, page, chain, rows, file, limits)
    if isinstance(spec, FullZip):
        return fullzip.read(spec, page, chain, rows, file, limits)
    return constant.read(spec, page, chain, rows, file, limits)


def _columns(values: Block) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Positions and sizes, with one value of 128 bits per row."""
    if not isinstance(values, FixedWidth) or values.bits != 128:
        raise FormatError("rows of a blob page are not positions and sizes")
    numbers = np.frombuffer(values.values, "<u8", values.length * 2)  # type: ignore[call-overload]
    return np.ascontiguousarray(numbers[0::2]), np.ascontiguousarray(numbers[1::2])


def _descriptors(positions: NDArray[np.uint64], sizes: NDArray[np.uint64], field: Field) -> Structured:
    if len(field.children) != 2:
        raise FormatError("a blob page in a column that is not a blob column")
    position, size = field.children
    length = positions.size
    children: dict[int, Block] = {
        position.id: FixedWidth(length, 64, positions),
        size.id: FixedWidth(length, 64, sizes),
    }
    return Structured(length, children)
