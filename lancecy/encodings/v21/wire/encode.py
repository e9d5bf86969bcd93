"""Layouts of pages of 2.1 and 2.2 as the messages of ``lance.encodings21``: the inverse of ``decode``.

Only messages of pages that writers here make: mini-block, full-zip, constant and blob pages, and their encodings.

Source: file sheet 2.1, section 2.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lancecy.encodings.model.layouts import BlobPage, ConstantPage, FullZip, Layer, MiniBlock, PageSpec
from lancecy.encodings.model.spec import (
    Compressed,
    FixedListOf,
    InlinePacked,
    PackedBlocks,
    PackedFields,
    PackedRows,
    Plain,
    RunLengths,
    Spec,
    SymbolCoded,
    Variable,
)
from lancecy.proto import encodings21_pb2

__all__ = ["PAGE_TYPE", "encode_layout"]

PAGE_TYPE = "/lance.encodings21.PageLayout"


def encode_layout(spec: PageSpec) -> bytes:
    """A serialized PageLayout message.

    Raises
    ------
    TypeError
        A layout or an encoding that no writer here makes.

    Examples
    --------
    >>> encode_layout(ConstantPage((), b"7", None, None, 0, 0)).hex()
    '1203320137'
    """
    message = encodings21_pb2.PageLayout()
    _layout(spec, message)
    return message.SerializeToString()


def _layout(spec: PageSpec, message: encodings21_pb2.PageLayout) -> None:
    if isinstance(spec, MiniBlock):
        _mini_block(spec, message.mini_block_layout)
    elif isinstance(spec, FullZip):
        _full_zip(spec, message.full_zip_layout)
    elif isinstance(spec, ConstantPage):
        _constant(spec, message.constant_layout)
    elif isinstance(spec, BlobPage):
        _layout(spec.inner, message.blob_layout.inner_layout)
        message.blob_layout.layers.extend(_layers(spec.layers))
    else:
        raise TypeError(f"a {type(spec).__name__} page is not written")


def _layers(layers: tuple[Layer, ...]) -> list[encodings21_pb2.RepDefLayer.ValueType]:
    return [encodings21_pb2.RepDefLayer.ValueType(int(layer)) for layer in layers]


def _mini_block(spec: MiniBlock, message: encodings21_pb2.MiniBlockLayout) -> None:
    if spec.rep is not None:
        _node(spec.rep, message.rep_compression)
    if spec.definition is not None:
        _node(spec.definition, message.def_compression)
    _node(spec.values, message.value_compression)
    if spec.dictionary is not None:
        _node(spec.dictionary, message.dictionary)
    message.num_dictionary_items = spec.num_dictionary_items
    message.layers.extend(_layers(spec.layers))
    message.num_buffers = spec.num_buffers
    message.repetition_index_depth = int(spec.has_index)
    message.num_items = spec.num_items
    message.has_large_chunk = spec.is_large


def _full_zip(spec: FullZip, message: encodings21_pb2.FullZipLayout) -> None:
    message.bits_rep = spec.rep_bits
    message.bits_def = spec.definition_bits
    if spec.value_bits is not None:
        message.bits_per_value = spec.value_bits
    if spec.length_bits is not None:
        message.bits_per_offset = spec.length_bits
    message.num_items = spec.num_entries
    message.num_visible_items = spec.num_visible
    _node(spec.values, message.value_compression)
    message.layers.extend(_layers(spec.layers))


def _constant(spec: ConstantPage, message: encodings21_pb2.ConstantLayout) -> None:
    message.layers.extend(_layers(spec.layers))
    if spec.value is not None:
        message.inline_value = spec.value


def _node(spec: Spec, message: encodings21_pb2.CompressiveEncoding) -> None:
    encode = _NODES.get(type(spec))
    if encode is None:
        raise TypeError(f"a {type(spec).__name__} encoding is not written")
    encode(spec, message)


def _plain(spec: Plain, message: encodings21_pb2.CompressiveEncoding) -> None:
    message.flat.bits_per_value = spec.bits


def _variable(spec: Variable, message: encodings21_pb2.CompressiveEncoding) -> None:
    message.variable.offsets.flat.bits_per_value = spec.offset_width * 8


def _inline(spec: InlinePacked, message: encodings21_pb2.CompressiveEncoding) -> None:
    message.inline_bitpacking.uncompressed_bits_per_value = spec.bits


def _out_of_line(spec: PackedBlocks, message: encodings21_pb2.CompressiveEncoding) -> None:
    message.out_of_line_bitpacking.uncompressed_bits_per_value = spec.bits
    message.out_of_line_bitpacking.values.flat.bits_per_value = spec.packed_bits


def _fixed_list(spec: FixedListOf, message: encodings21_pb2.CompressiveEncoding) -> None:
    message.fixed_size_list.items_per_value = spec.size
    message.fixed_size_list.has_validity = spec.validity is not None
    _node(spec.child, message.fixed_size_list.values)


def _packed_rows(spec: PackedRows, message: encodings21_pb2.CompressiveEncoding) -> None:
    message.packed_struct.bits_per_value.extend(spec.bits)
    _node(spec.values, message.packed_struct.values)


def _packed_fields(spec: PackedFields, message: encodings21_pb2.CompressiveEncoding) -> None:
    for node, bits, varies in spec.fields:
        field = message.variable_packed_struct.fields.add()
        _node(node, field.value)
        if varies:
            field.bits_per_length = bits
        else:
            field.bits_per_value = bits


def _runs(spec: RunLengths, message: encodings21_pb2.CompressiveEncoding) -> None:
    _node(spec.values, message.rle.values)
    _node(spec.lengths, message.rle.run_lengths)


def _symbols(spec: SymbolCoded, message: encodings21_pb2.CompressiveEncoding) -> None:
    message.fsst.symbol_table = spec.table
    _node(spec.values, message.fsst.values)


_SCHEMES = {
    "lz4": encodings21_pb2.COMPRESSION_LZ4,
    "zstd": encodings21_pb2.COMPRESSION_ZSTD,
}


def _compressed(spec: Compressed, message: encodings21_pb2.CompressiveEncoding) -> None:
    message.general.compression.scheme = _SCHEMES[spec.scheme]
    _node(spec.values, message.general.values)


_NODES: dict[type[object], Callable[[Any, encodings21_pb2.CompressiveEncoding], None]] = {
    Plain: _plain,
    Variable: _variable,
    InlinePacked: _inline,
    PackedBlocks: _out_of_line,
    FixedListOf: _fixed_list,
    RunLengths: _runs,
    SymbolCoded: _symbols,
    Compressed: _compressed,
    PackedRows: _packed_rows,
    PackedFields: _packed_fields,
}
