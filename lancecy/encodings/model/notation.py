"""Encodings of pages in short notation, for people.

The notation is that of the file sheets (2.1, section 4.2)::

    M[NI] IBP64 D=OB1          mini-block, nullable items, 64-bit integers packed inline,
                               definition levels packed out of line to 1 bit
    Z[VI] FSL[768](Flat32)     full-zip, no nulls, vectors
    K[VI] inline(8B)           one value for all rows
    M[NI/NEL] ..               items below lists that may be null or empty

Pages of 2.0 and 0.1 have no layout: ``Nullable(Flat64)``, ``Binary(Flat64, Flat8)``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lancecy.encodings.model import layouts, spec
from lancecy.encodings.model.layouts import Layer, PageSpec

__all__ = ["notation"]

_LAYERS = {
    Layer.ALL_VALID_ITEM: "VI",
    Layer.ALL_VALID_LIST: "VL",
    Layer.NULLABLE_ITEM: "NI",
    Layer.NULLABLE_LIST: "NL",
    Layer.EMPTYABLE_LIST: "EL",
    Layer.NULL_AND_EMPTY_LIST: "NEL",
}


def notation(page: PageSpec) -> str:
    """How a page is encoded, in a few words.

    Parameters
    ----------
    page : PageSpec
        A layout, or a node of 2.0 or 0.1.

    Examples
    --------
    >>> notation(spec.Nullable(spec.Plain(64), spec.Plain(1)))
    'Nullable(Flat64)'
    >>> notation(spec.Compressed("lz4", spec.Variable(4)))
    'LZ4(Var(Flat32))'
    """
    text = _TEXTS.get(type(page))
    return type(page).__name__ if text is None else text(page)


def _call(name: str, *inner: object) -> str:
    return f"{name}({', '.join(i if isinstance(i, str) else notation(i) for i in inner)})"  # type: ignore[arg-type]


# -- layouts -------------------------------------------------------------------------


def _layers(layers: Sequence[Layer]) -> str:
    return "[" + "/".join(_LAYERS[layer] for layer in layers) + "]"


def _levels(name: str, codec: spec.Spec | None) -> str:
    """The codec of repetition or definition levels, which are always of 16 bits."""
    if codec is None:
        return ""
    if isinstance(codec, spec.Plain):
        short = f"F{codec.bits}"
    elif isinstance(codec, spec.InlinePacked):
        short = "IB"
    elif isinstance(codec, spec.PackedBlocks):
        short = f"OB{codec.packed_bits}"
    elif isinstance(codec, spec.RunLengths) and isinstance(codec.lengths, spec.Plain):
        short = f"RLE{codec.lengths.bits}"
    else:
        short = notation(codec)
    return f" {name}={short}"


def _mini_block(page: layouts.MiniBlock) -> str:
    text = f"M{_layers(page.layers)} {notation(page.values)}"
    text += _levels("R", page.rep) + _levels("D", page.definition)
    if page.dictionary is not None:
        text += f" dict={notation(page.dictionary)}x{page.num_dictionary_items}"
    return text


def _constant(page: layouts.ConstantPage) -> str:
    text = f"K{_layers(page.layers)}"
    if page.value is not None:
        text += f" inline({len(page.value)}B)"
    return text + _levels("R", page.rep) + _levels("D", page.definition)


def _full_zip(page: layouts.FullZip) -> str:
    text = f"Z{_layers(page.layers)} {notation(page.values)} r{page.rep_bits}d{page.definition_bits}"
    if page.value_bits is not None:
        text += f" v{page.value_bits}"
    return text if page.length_bits is None else f"{text} len{page.length_bits}"


def _blob(page: layouts.BlobPage) -> str:
    return f"B{_layers(page.layers)} inner {notation(page.inner)}"


def _sparse(layer: layouts.SparseLayer) -> str:
    validity = {"all": "v", "none": "v∅"}.get(layer.validity)
    if validity is None:
        coded = "" if layer.valid_positions is None else notation(layer.valid_positions)
        validity = f"{layer.validity}={coded}/{layer.num_valid_positions}"
    if layer.kind == "item":
        return validity
    if layer.kind == "list":
        return f"list({layer.num_positions}→{layer.num_children}, {validity})"
    return f"fsl[{layer.size}]({validity})"


def _planar(page: layouts.Planar) -> str:
    values = "K[]" if page.values is None else notation(page.values)
    if page.indexed is not None:
        values += f" index={notation(page.indexed)}"
    if page.sparse is None:
        return values
    return f"S{{{', '.join(map(_sparse, page.sparse))}}}×{values}"


# -- nodes ---------------------------------------------------------------------------


def _fixed_list(node: spec.FixedListOf) -> str:
    valid = "" if node.validity is None else ",valid"
    return _call(f"FSL[{node.size}{valid}]", node.child)


def _variable(node: spec.Variable) -> str:
    return f"Var(Flat{node.offset_width * 8})" if node.offsets is None else _call("Var", node.offsets)


def _rows(node: spec.PackedRows) -> str:
    return _call(f"Packed[{','.join(map(str, node.bits))}]", node.values)


def _fields(node: spec.PackedFields) -> str:
    fields = (f"{notation(s)}:{'l' if varies else 'b'}{bits}" for s, bits, varies in node.fields)
    return _call("VPacked", *fields)


def _nullable(node: spec.Nullable) -> str:
    return notation(node.values) if node.validity is None else _call("Nullable", node.values)


_TEXTS: dict[type[object], Callable[[Any], str]] = {
    layouts.MiniBlock: _mini_block,
    layouts.ConstantPage: _constant,
    layouts.FullZip: _full_zip,
    layouts.BlobPage: _blob,
    layouts.Planar: _planar,
    spec.Plain: lambda n: f"Flat{n.bits}",
    spec.VarBinary: lambda n: f"Strings{n.offset_width * 8}",
    spec.ListOf: lambda n: _call(f"Offsets{n.offset_width * 8}", n.child),
    spec.FixedListOf: _fixed_list,
    spec.StructOf: lambda n: "Struct",
    spec.DictionaryOf: lambda n: _call("Codes", n.codes),
    spec.NullOf: lambda n: "AllNull",
    spec.Compressed: lambda n: _call(n.scheme.upper(), n.values),
    spec.Nullable: _nullable,
    spec.EndedList: lambda n: _call("List", n.offsets) + f"x{n.num_items}",
    spec.StructHeader: lambda n: "Struct",
    spec.EndedBinary: lambda n: _call("Binary", n.offsets, n.values),
    spec.PageDictionary: lambda n: _call("Dictionary", n.codes, n.items) + f"x{n.num_items}",
    spec.FixedBinary: lambda n: _call(f"FixedBinary[{n.width}]", n.values),
    spec.PackedRows: _rows,
    spec.BitStream: lambda n: f"Bits{n.bits}→{n.packed_bits}",
    spec.PackedBlocks: lambda n: f"OB{n.bits}→{n.packed_bits}",
    spec.InlinePacked: lambda n: f"IBP{n.bits}",
    spec.RunLengths: lambda n: _call("Rle", n.values, n.lengths),
    spec.ByteSplit: lambda n: f"BSS{n.bits}",
    spec.Variable: _variable,
    spec.SymbolCoded: lambda n: _call("Fsst", n.values),
    spec.PackedFields: _fields,
    spec.Repeated: lambda n: "Const",
    spec.Sequence: lambda n: f"Range{n.bits}({n.start},{n.step})",
    spec.Deltas: lambda n: _call(f"Delta{n.bits}", str(n.base), n.deltas),
    spec.BlockDictionary: lambda n: _call("BlockDictionary", n.codes, n.items) + f"x{n.num_items}",
}
