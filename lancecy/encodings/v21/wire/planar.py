"""Pages of 2.3: separate structure and values, from the messages of ``lance.encodings23``.

The version is not final in the reference implementation. A dense structure has levels with the values, as in 2.1; a
sparse one has positions. Any message gives a layout or an error, as in ``decode``.

Source: file sheet 2.1, section 3.12.
"""

from __future__ import annotations

from typing import Any

from lancecy.encodings.model.layouts import (
    ConstantPage,
    FullZip,
    Layer,
    MiniBlock,
    Planar,
    SparseLayer,
    max_repetition,
)
from lancecy.encodings.model.spec import Spec
from lancecy.encodings.v21.wire.nodes import (
    NodeParser,
    check_buffers,
    check_levels,
    count_of,
    full_zip_of,
    layers_of,
    mini_block_of,
    required,
)
from lancecy.errors import FormatError
from lancecy.limits import Limits
from lancecy.proto import encodings23_pb2
from lancecy.schema_wire import parse_message

__all__ = ["parse_planar"]

VERSION = (2, 3)

_VALIDITY = ("all", "nulls", "valids")


def parse_planar(value: bytes, num_buffers: int, limits: Limits) -> Planar:
    """Parse the layout of a page of a 2.3 file; parameters and errors as ``decode.parse_page``."""
    message = parse_message(encodings23_pb2.PlanarLayout, value, "page layout", limits)
    structure = required(message, "structure")
    form = structure.WhichOneof("form")
    if form is None:
        raise FormatError("a page without a structure")
    layers: tuple[Layer, ...] = ()
    sparse: tuple[SparseLayer, ...] | None = None
    payloads = 0
    if form == "dense":
        layers = layers_of(structure.dense.layers, limits)
    else:
        sparse, payloads = _sparse(structure.sparse.layers, limits)
    values, indexed, needed = _values(required(message, "values"), layers, sparse is None, limits)
    check_buffers(num_buffers, {count + payloads for count in needed})
    return Planar(values, sparse, indexed)


def _values(
    message: Any, layers: tuple[Layer, ...], is_dense: bool, limits: Limits
) -> tuple[MiniBlock | FullZip | ConstantPage | None, Spec | None, set[int]]:
    """Layout of the values, codec of indices, and how many buffers these may have."""
    form = message.WhichOneof("form")
    if form == "chunked":
        block = _chunked(message.chunked, layers, is_dense, limits)
        return block, None, {2 + (block.dictionary is not None) + block.has_index}
    if form == "zipped":
        zipped, needed = _zipped(message.zipped, layers, is_dense, limits)
        return zipped, None, needed
    if form == "constant":
        scalar = message.constant.scalar if message.constant.HasField("scalar") else None
        if is_dense and max_repetition(layers):
            raise FormatError("a constant page of lists has no repetition levels")
        return ConstantPage(layers, scalar, None, None, 0, 0), None, {0}
    if form == "none":
        return None, None, {0}
    if form != "indexed":
        raise FormatError("a page without values")
    indices, has_payload = _block(message.indexed, "indices", limits)
    items, needed = _zipped(required(message.indexed, "items"), (), False, limits)
    return items, indices, {count + has_payload for count in needed}


def _chunked(message: Any, layers: tuple[Layer, ...], is_dense: bool, limits: Limits) -> MiniBlock:
    block = mini_block_of(message, message.levels, "compression", layers, VERSION, limits, is_large=True)
    if is_dense:
        check_levels(layers, block.rep is not None, block.definition is not None)
    elif block.rep is not None or block.definition is not None or block.has_index:
        raise FormatError("a sparse page has levels")
    return block


def _zipped(
    message: Any, layers: tuple[Layer, ...], is_dense: bool, limits: Limits
) -> tuple[FullZip, set[int]]:
    zipped, allowed = full_zip_of(message, message.levels, "compression", layers, VERSION, limits)
    if is_dense:
        check_levels(layers, zipped.rep_bits > 0, zipped.definition_bits > 0)
    elif zipped.rep_bits or zipped.definition_bits:
        raise FormatError("a sparse page has levels")
    return zipped, allowed


# -- sparse structure -------------------------------------------------------------------


def _sparse(messages: Any, limits: Limits) -> tuple[tuple[SparseLayer, ...], int]:
    """Layers, outer to inner, and how many buffers they have."""
    limits.check("nesting", len(messages), "number of layers")
    if not len(messages):
        raise FormatError("a page without layers")
    parsed = [_sparse_layer(message, limits) for message in messages]
    return tuple(layer for layer, _ in parsed), sum(count for _, count in parsed)


def _sparse_layer(message: Any, limits: Limits) -> tuple[SparseLayer, int]:
    which = message.WhichOneof("layer")
    if which == "validity":
        meaning, positions, count, payloads = _validity(message.validity, limits)
        return SparseLayer(
            "item", validity=meaning, valid_positions=positions, num_valid_positions=count
        ), payloads
    if which == "fixed_size_list":
        body = message.fixed_size_list
        meaning, positions, count, payloads = _validity(body.validity, limits)
        size = limits.check("value_bytes", body.dimension, "number of items of a list")
        return SparseLayer("fixed_list", size, 0, None, None, 0, meaning, positions, count), payloads
    if which != "list":
        raise FormatError("a sparse layer of no kind")
    body = message.list
    meaning, positions, count, payloads = _validity(body.validity, limits)
    lists, lists_stored = _block(body, "positions", limits)
    items, items_stored = _block(body, "counts", limits)
    layer = SparseLayer(
        "list",
        num_children=count_of(body.num_child_slots, "number of items of lists"),
        positions=lists,
        counts=items,
        num_positions=count_of(body.num_positions, "number of lists"),
        validity=meaning,
        valid_positions=positions,
        num_valid_positions=count,
    )
    return layer, payloads + lists_stored + items_stored


def _validity(message: Any, limits: Limits) -> tuple[str, Spec | None, int, int]:
    """Meaning, codec and number of the positions, and how many buffers these have."""
    if not 0 <= message.meaning < len(_VALIDITY):
        raise FormatError(f"validity of kind {message.meaning}")
    count = count_of(message.num_positions, "number of positions")
    if message.meaning == 0:
        return "all", None, 0, 0
    if not message.HasField("positions"):
        if count:
            raise FormatError(f"{count} positions without an encoding")
        return _VALIDITY[message.meaning], None, 0, 0
    positions, is_stored = _block(message, "positions", limits)
    return _VALIDITY[message.meaning], positions, count, int(is_stored)


def _block(message: Any, name: str, limits: Limits) -> tuple[Spec, bool]:
    """A standalone encoding, and whether it has a buffer; some have everything in the message."""
    parser = NodeParser(VERSION, limits)
    spec = parser.parse(required(message, name))
    return spec, parser.num_buffers > 0
