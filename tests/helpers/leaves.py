"""Leaves of 2.x files one by one, below the file reader: opened, decoded and turned into Python values.

``open_leaves`` walks the schema of a file and pairs each leaf with its physical column;
``leaf_rows`` decodes one into Python values in which only this leaf is present, and
``only_leaf`` makes the same of a value that pylance or Arrow gave.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from lancecy.encodings.arrow.to_arrow import to_arrow
from lancecy.encodings.model.block import AllNull, Block, FixedList, Listed, Pieces, Structured
from lancecy.encodings.model.pages import Column
from lancecy.encodings.v21.leaf import read_leaf
from lancecy.file.v2.meta import open_container
from lancecy.file.v2.wire import Parts, decode_columns, parse_spec
from lancecy.limits import DEFAULT_LIMITS, Limits
from lancecy.proto import file_pb2
from lancecy.rows import RowSelection
from lancecy.schema import Field
from lancecy.schema_wire import decode_fields
from lancecy.store.reads import SourceFile, run
from tests.helpers.pages import Files

__all__ = ["Leaf", "block_rows", "build_leaf_column", "leaf_rows", "only_leaf", "open_leaves"]


@dataclass(frozen=True)
class Leaf:
    """One physical column of a file."""

    chain: tuple[Field, ...]
    column: Column
    source: SourceFile
    files: Files
    num_rows: int

    @property
    def name(self) -> str:
        return ".".join(field.name for field in self.chain)


def open_leaves(data: bytes, files: Files | None = None, limits: Limits = DEFAULT_LIMITS) -> list[Leaf]:
    """Every leaf of a file of version 2.1 or later."""
    files = files or Files()
    source = files.add("data/file.lance", data)
    container = run(open_container(source, limits), files.fetch)
    start, size = container.descriptor
    descriptor = file_pb2.FileDescriptor.FromString(data[start : start + size])
    fields = decode_fields(descriptor.schema.fields, limits)
    leaves = []
    for number, chain in enumerate(chain for top in fields for chain in _chains((top,))):
        start, size = container.part(number)
        column = build_leaf_column(data[start : start + size], number, container.version, limits)
        leaves.append(Leaf(chain, column, source, files, descriptor.length))
    return leaves


def _chains(chain: tuple[Field, ...]) -> Iterator[tuple[Field, ...]]:
    field = chain[-1]
    if not field.children or field.metadata.get("lance-encoding:packed") == b"true" or _is_blob(field):
        yield chain
    else:
        for child in field.children:
            yield from _chains((*chain, child))


def _is_blob(field: Field) -> bool:
    return field.metadata.get("lance-encoding:blob") == b"true"


def build_leaf_column(data: bytes, index: int, version: tuple[int, int], limits: Limits) -> Column:
    """A column from its metadata, bounds of the file not looked at."""
    [message] = decode_columns(Parts.of([np.frombuffer(data, np.uint8)]), limits)
    specs = tuple(
        parse_spec(encoding, version, count, limits)
        for encoding, count in zip(message.encodings, np.diff(message.first_buffer).tolist(), strict=True)
    )
    return Column(
        index=index,
        is_blob=message.is_blob,
        row_starts=message.row_starts,
        specs=specs,
        first_buffer=message.first_buffer,
        positions=message.positions,
        sizes=message.sizes,
        nbytes=message.nbytes,
    )


def leaf_rows(
    leaf: Leaf, selection: RowSelection | None = None, limits: Limits = DEFAULT_LIMITS
) -> list[Any]:
    """Decoded rows, as Python values with only this leaf in them."""
    chosen = RowSelection.all(leaf.num_rows) if selection is None else selection
    block = run(read_leaf(leaf.chain, leaf.column, leaf.source, chosen, limits), leaf.files.fetch)
    return block_rows(block, leaf.chain)


def block_rows(block: Block, chain: tuple[Field, ...]) -> list[Any]:
    """Python values of a block of the first field of ``chain``."""
    if isinstance(block, Pieces):
        return [row for piece in block.blocks for row in block_rows(piece, chain)]
    if len(chain) == 1:
        rows: list[Any] = to_arrow(block, chain[0]).to_pylist()
        return rows
    if isinstance(block, AllNull):
        return [None] * block.length
    valid = _valid(block)
    if isinstance(block, Structured):
        rows = [{chain[1].name: value} for value in block_rows(block.children[chain[1].id], chain[1:])]
    elif isinstance(block, Listed):
        offsets = np.frombuffer(block.offsets, f"<i{block.offset_width}").tolist()  # type: ignore[call-overload]
        child = block_rows(block.child, chain[1:])
        rows = [child[a:b] for a, b in itertools.pairwise(offsets)]
    else:
        assert isinstance(block, FixedList)
        child = block_rows(block.child, chain[1:])
        rows = [child[i * block.size : (i + 1) * block.size] for i in range(block.length)]
    assert len(rows) == block.length
    return [row if ok else None for row, ok in zip(rows, valid, strict=True)]


def _valid(block: Any) -> list[bool]:
    if block.validity is None:
        assert block.null_count == 0
        return [True] * block.length
    bits = np.unpackbits(np.frombuffer(block.validity, np.uint8), bitorder="little")[: block.length]
    assert block.length - int(bits.sum()) == block.null_count > 0
    return [bool(bit) for bit in bits]


def only_leaf(value: Any, chain: tuple[Field, ...]) -> Any:
    """A value of the first field of ``chain`` with everything left out that is not on the way to the leaf."""
    if value is None or len(chain) == 1:
        return value
    child = chain[1]
    if chain[0].logical_type == "map":
        place = [field.id for field in child.children].index(chain[2].id)
        return [{chain[2].name: only_leaf(entry[place], chain[2:])} for entry in value]
    if isinstance(value, list):
        return [only_leaf(item, chain[1:]) for item in value]
    return {child.name: only_leaf(value[child.name], chain[1:])}
