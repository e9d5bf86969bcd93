"""What encodings the pages of a 2.x file have, in one short line per column.

``M`` mini-block, ``Z`` full-zip, ``K`` constant, ``B`` blob, ``S`` sparse, ``I`` indexed; layers in brackets from
the leaf outwards; ``R=``/``D=`` codecs of levels; ``dict=`` codec x items. Pages of a column that look alike
are named once. Meant for tests that must know that a table really has the encoding it is there for.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from lancecy.proto import encodings23_pb2 as e23
from lancecy.proto import encodings_pb2 as e20
from tests.helpers.container import Container, column_encoding, page_encoding

__all__ = ["describe_file", "describe_table"]

LAYERS = ("?", "VI", "VL", "NI", "NL", "EL", "NEL")
SCHEMES = ("none", "LZ4", "ZSTD")


def describe_table(root: Path | str, *, skip: int = 0) -> str:
    """Columns of all data files of a table, without its first ``skip`` columns; ``||`` between unlike files."""
    found: list[str] = []
    for path in sorted((Path(root) / "data").glob("*.lance")):
        text = describe_file(path, skip=skip)
        if text not in found:
            found.append(text)
    return " || ".join(sorted(found))


def describe_file(path: Path | str, *, skip: int = 0) -> str:
    """Columns of one data file."""
    container = Container.load(path)
    return " · ".join(_column(column) for column in container.columns[skip:])


def _column(column: Any) -> str:
    seen: list[str] = []
    for page in column.pages:
        text = _page(page_encoding(page), len(page.buffer_sizes))
        if text not in seen:
            seen.append(text)
    head = ""
    if column.encoding.WhichOneof("location") == "direct":
        kind = column_encoding(column).WhichOneof("column_encoding")
        head = "" if kind == "values" else f"{kind}:"
    return head + (" ; ".join(sorted(seen)) or "-")


def _page(message: Any, buffers: int) -> str:
    if isinstance(message, e20.ArrayEncoding):
        return _array(message)
    if isinstance(message, e23.PlanarLayout):
        return _planar(message)
    return _layout(message, buffers)


# -- 2.1 and 2.2 ---------------------------------------------------------------------------


def _layers(layers: Any) -> str:
    return "[" + "/".join(LAYERS[layer] for layer in layers) + "]"


def _levels(message: Any, rep: str, definition: str) -> str:
    text = ""
    for letter, name in (("R", rep), ("D", definition)):
        if message.HasField(name):
            text += f" {letter}={_level_codec(getattr(message, name))}"
    return text


def _level_codec(encoding: Any) -> str:
    kind = encoding.WhichOneof("compression")
    if kind == "flat":
        return f"F{encoding.flat.bits_per_value}"
    if kind == "inline_bitpacking":
        return "IB"
    if kind == "out_of_line_bitpacking":
        return f"OB{encoding.out_of_line_bitpacking.values.flat.bits_per_value}"
    if kind == "rle" and encoding.rle.run_lengths.HasField("flat"):
        return f"RLE{encoding.rle.run_lengths.flat.bits_per_value}"
    return _codec(encoding)


def _layout(layout: Any, buffers: int) -> str:
    kind = layout.WhichOneof("layout")
    page = getattr(layout, kind)
    if kind == "mini_block_layout":
        text = f"M{_layers(page.layers)} {_codec(page.value_compression)}"
        text += _levels(page, "rep_compression", "def_compression")
        return text + (
            f" dict={_codec(page.dictionary)}x{page.num_dictionary_items}"
            if page.HasField("dictionary")
            else ""
        )
    if kind == "full_zip_layout":
        width = (
            f"v{page.bits_per_value}"
            if page.WhichOneof("details") == "bits_per_value"
            else f"len{page.bits_per_offset}"
        )
        return f"Z{_layers(page.layers)} {_codec(page.value_compression)} r{page.bits_rep}d{page.bits_def} {width}"
    if kind == "constant_layout":
        levels = _levels(page, "rep_compression", "def_compression")
        inline = (
            f" inline({len(page.inline_value)}B)" if page.HasField("inline_value") else f" ({buffers} buf)"
        )
        return f"K{_layers(page.layers)}{levels}{inline}"
    return f"B{_layers(page.layers)} inner {_layout(page.inner_layout, buffers)}"


def _codec(encoding: Any) -> str:
    kind = encoding.WhichOneof("compression")
    return CODECS[kind](getattr(encoding, kind))


def _fixed_list(message: Any) -> str:
    valid = ",valid" if message.has_validity else ""
    return f"FSL[{message.items_per_value}{valid}]({_codec(message.values)})"


def _packed(message: Any) -> str:
    return f"Packed{list(message.bits_per_value)}({_codec(message.values)})"


def _variable_packed(message: Any) -> str:
    parts = []
    for item in message.fields:
        fixed = item.WhichOneof("layout") == "bits_per_value"
        parts.append(
            f"{_codec(item.value)}:{f'b{item.bits_per_value}' if fixed else f'l{item.bits_per_length}'}"
        )
    return f"VPacked({','.join(parts)})"


def _out_of_line(message: Any) -> str:
    return f"OB{message.uncompressed_bits_per_value}→{message.values.flat.bits_per_value}"


CODECS: dict[str, Callable[[Any], str]] = {
    "flat": lambda m: f"Flat{m.bits_per_value}",
    "variable": lambda m: f"Var({_codec(m.offsets)})",
    "constant": lambda m: "Const",
    "out_of_line_bitpacking": _out_of_line,
    "inline_bitpacking": lambda m: f"IBP{m.uncompressed_bits_per_value}",
    "fsst": lambda m: f"Fsst({_codec(m.values)})",
    "dictionary": lambda m: f"Dict({_codec(m.indices)},{_codec(m.items)})",
    "rle": lambda m: f"Rle({_codec(m.values)},{_codec(m.run_lengths)})",
    "byte_stream_split": lambda m: f"BSS({_codec(m.values)})",
    "general": lambda m: f"{SCHEMES[m.compression.scheme]}({_codec(m.values)})",
    "fixed_size_list": _fixed_list,
    "packed_struct": _packed,
    "variable_packed_struct": _variable_packed,
    "range": lambda m: f"Range{m.bits_per_value}({m.start},{m.step})",
    "delta": lambda m: f"Delta{m.bits_per_value}({m.base},{_codec(m.deltas)})",
}


# -- 2.3 -----------------------------------------------------------------------------------


def _planar(layout: e23.PlanarLayout) -> str:
    form = layout.structure.WhichOneof("form")
    structure = (
        _layers(layout.structure.dense.layers) if form == "dense" else _sparse(layout.structure.sparse)
    )
    return (
        f"{structure}×{_values(layout.values)}"
        if form == "sparse"
        else f"D{structure} {_values(layout.values)}"
    )


def _sparse(message: Any) -> str:
    parts = []
    for layer in message.layers:
        kind = layer.WhichOneof("layer")
        if kind == "list":
            inner = layer.list
            counts = f"list(pos={_codec(inner.positions)}/{inner.num_positions} cnt={_codec(inner.counts)}"
            parts.append(counts + f" {_validity(inner.validity)})")
        elif kind == "fixed_size_list":
            parts.append(
                f"fsl({layer.fixed_size_list.dimension} {_validity(layer.fixed_size_list.validity)})"
            )
        else:
            parts.append(_validity(layer.validity))
    return "S{" + " ".join(parts) + "}"


def _validity(message: Any) -> str:
    meaning = ("v", "nulls", "valids")[message.meaning]
    return (
        f"{meaning}={_codec(message.positions)}/{message.num_positions}"
        if message.HasField("positions")
        else meaning
    )


def _values(values: Any) -> str:
    kind = values.WhichOneof("form")
    part = getattr(values, kind)
    if kind == "chunked":
        text = f"M {_codec(part.compression)}"
        text += _levels(part.levels, "rep_compression", "def_compression") if part.HasField("levels") else ""
        return text + (
            f" dict={_codec(part.dictionary)}x{part.num_dictionary_items}"
            if part.HasField("dictionary")
            else ""
        )
    if kind == "zipped":
        return _zipped(part)
    if kind == "constant":
        return f"K({len(part.scalar)}B)"
    return "K[]" if kind == "none" else f"I {_codec(part.indices)} of {_zipped(part.items)}"


def _zipped(part: Any) -> str:
    width = (
        f"v{part.bits_per_value}"
        if part.WhichOneof("details") == "bits_per_value"
        else f"len{part.bits_per_length}"
    )
    return f"Z {_codec(part.compression)} r{part.levels.bits_rep}d{part.levels.bits_def} {width}"


# -- 2.0 -----------------------------------------------------------------------------------


def _array(encoding: Any) -> str:
    kind = encoding.WhichOneof("array_encoding")
    return ARRAYS[kind](getattr(encoding, kind))


def _flat(message: Any) -> str:
    scheme = f",{message.compression.scheme}" if message.HasField("compression") else ""
    return f"Flat({message.bits_per_value}{scheme})"


def _nullable(message: Any) -> str:
    kind = message.WhichOneof("nullability")
    if kind == "no_nulls":
        return f"NoNull({_array(message.no_nulls.values)})"
    if kind == "some_nulls":
        return f"SomeNull({_array(message.some_nulls.validity)};{_array(message.some_nulls.values)})"
    return "AllNull"


ARRAYS: dict[str, Callable[[Any], str]] = {
    "flat": _flat,
    "nullable": _nullable,
    "fixed_size_list": lambda m: f"FSL[{m.dimension}]({_array(m.items)})",
    "list": lambda m: f"List({_array(m.offsets)})",
    "struct": lambda m: "Struct",
    "binary": lambda m: f"Binary({_array(m.indices)},{_array(m.bytes)})",
    "dictionary": lambda m: f"Dict({_array(m.indices)},{_array(m.items)})x{m.num_dictionary_items}",
    "fsst": lambda m: f"Fsst({_array(m.binary)})",
    "packed_struct": lambda m: f"Packed({','.join(_array(i) for i in m.inner)})",
    "bitpacked": lambda m: (
        f"Bitpacked({m.uncompressed_bits_per_value}→{m.compressed_bits_per_value}{',signed' if m.signed else ''})"
    ),
    "fixed_size_binary": lambda m: f"FSB[{m.byte_width}]({_array(m.bytes)})",
    "bitpacked_for_non_neg": lambda m: (
        f"BitpackedNonNeg({m.uncompressed_bits_per_value}→{m.compressed_bits_per_value})"
    ),
}
