"""Compressive encodings of version 2.1 and later: from messages to ``spec`` nodes.

Then the common parts of all page messages: layers, levels, dictionaries and counts, each checked.

A chunk holds its value buffers in the order in which a walk over the encoding, outer
to inner, comes to them; :class:`NodeParser` counts them and gives each node its number. Any message gives a node or
an error, as in ``decode``.

Source: file sheet 2.1, sections 2.3 and 3.4 to 3.7.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lancecy.encodings.model.layouts import FullZip, Layer, MiniBlock, max_definition, max_repetition
from lancecy.encodings.model.spec import (
    BlockDictionary,
    ByteSplit,
    Compressed,
    Deltas,
    FixedListOf,
    InlinePacked,
    PackedBlocks,
    PackedFields,
    PackedRows,
    Plain,
    Repeated,
    RunLengths,
    Sequence,
    Spec,
    SymbolCoded,
    Variable,
)
from lancecy.errors import FormatError, UnsupportedError
from lancecy.limits import Limits

__all__ = [
    "NodeParser",
    "check_buffers",
    "check_levels",
    "count_of",
    "full_zip_of",
    "layers_of",
    "level_of",
    "mini_block_of",
    "required",
    "stored_bits",
]


_WORD_BITS = (8, 16, 32, 64)
_SCHEMES = {1: "lz4", 2: "zstd"}
_SYMBOL_TABLE_BYTES = 2312


class NodeParser:
    """Parses one tree; afterwards ``num_buffers`` is the number of its buffers.

    Attributes
    ----------
    num_buffers : int
    """

    def __init__(self, version: tuple[int, int], limits: Limits) -> None:
        self.num_buffers = 0
        self._version = version
        self._limits = limits
        self._depth = 0

    def parse(self, message: Any) -> Spec:
        """The node of a CompressiveEncoding message and everything below it.

        Raises
        ------
        FormatError, LimitError, UnsupportedError
            See ``decode.parse_page``.
        """
        which = message.WhichOneof("compression")
        if which is None:
            raise FormatError("an encoding names no compression")
        self._depth += 1
        self._limits.check("nesting", self._depth, "nesting of encodings")
        node = _PARSERS[which](self, getattr(message, which))
        self._depth -= 1
        return node

    def _buffer(self) -> int:
        self.num_buffers += 1
        return self.num_buffers - 1

    def _only_from_23(self, what: str) -> None:
        if self._version < (2, 3):
            raise FormatError(f"{what} encoding in a file of version {self._version[0]}.{self._version[1]}")

    def _child(self, message: Any, name: str) -> Spec:
        if not message.HasField(name):
            raise FormatError(f"{message.DESCRIPTOR.name} encoding lacks {name}")
        return self.parse(getattr(message, name))

    def _alone(self, message: Any) -> tuple[Spec, int]:
        """A tree with at most one buffer, and the number of that buffer; without one, the next number."""
        parser = NodeParser(self._version, self._limits)
        parser._depth = self._depth
        node = parser.parse(message)
        return node, self._buffer() if parser.num_buffers else self.num_buffers

    # -- leaves ---------------------------------------------------------------

    def _flat(self, message: Any) -> Plain:
        _refuse_compression(message, "data")
        return Plain(self._bits(message.bits_per_value), buffer=self._buffer())

    def _bits(self, bits: int) -> int:
        if bits != 1 and bits % 8:
            raise FormatError(f"values of {bits} bits")
        self._limits.check("value_bytes", bits // 8, "width of a value")
        return bits

    def _variable(self, message: Any) -> Variable:
        _refuse_compression(message, "values")
        if not message.HasField("offsets"):
            raise FormatError("Variable encoding lacks offsets")
        offsets = message.offsets
        if offsets.WhichOneof("compression") == "flat" or self._version < (2, 3):
            if offsets.WhichOneof("compression") != "flat" or offsets.flat.bits_per_value not in (32, 64):
                raise FormatError("offsets of strings are not plain 32 or 64-bit numbers")
            _refuse_compression(offsets.flat, "data")
            return Variable(offsets.flat.bits_per_value // 8, self._buffer())
        coded, _ = self._alone(offsets)
        bits = stored_bits(coded)
        if bits not in (None, 32, 64):
            raise FormatError(f"offsets of strings of {bits} bits")
        return Variable((bits or 32) // 8, self._buffer(), coded)

    def _constant(self, message: Any) -> Repeated:
        return Repeated(message.value if message.HasField("value") else None)

    def _out_of_line(self, message: Any) -> PackedBlocks:
        bits = _word_bits(message.uncompressed_bits_per_value)
        if message.values.WhichOneof("compression") != "flat":
            raise FormatError("bit-packed blocks do not state their width")
        packed = message.values.flat.bits_per_value
        _refuse_compression(message.values.flat, "data")
        if packed > bits:
            raise FormatError(f"blocks of {bits}-bit words packed to {packed} bits")
        return PackedBlocks(packed, bits, True, self._buffer())

    def _inline(self, message: Any) -> InlinePacked:
        _refuse_compression(message, "values")
        return InlinePacked(_word_bits(message.uncompressed_bits_per_value), self._buffer())

    def _byte_split(self, message: Any) -> ByteSplit:
        values = self._child(message, "values")
        if not isinstance(values, Plain) or values.bits % 8 or values.bits == 0:
            raise FormatError("split bytes are not of plain values")
        return ByteSplit(values.bits, values.buffer)

    def _sequence(self, message: Any) -> Sequence:
        self._only_from_23("Range")
        return Sequence(_word_bits(message.bits_per_value), message.start, message.step)

    # -- nodes with nodes below them ------------------------------------------

    def _fsst(self, message: Any) -> SymbolCoded:
        if len(message.symbol_table) != _SYMBOL_TABLE_BYTES:
            raise FormatError(f"symbol table of {len(message.symbol_table)} bytes")
        values = self._child(message, "values")
        if not isinstance(values, Variable):
            raise FormatError("symbols do not code strings")
        return SymbolCoded(message.symbol_table, values)

    def _dictionary(self, message: Any) -> BlockDictionary:
        self._only_from_23("Dictionary")
        parser = NodeParser(self._version, self._limits)
        parser._depth = self._depth
        codes, items = parser._child(message, "indices"), parser._child(message, "items")
        count = self._limits.check("dictionary_values", message.num_items, "number of dictionary items")
        return BlockDictionary(codes, items, count, self._buffer() if parser.num_buffers else 0)

    def _rle(self, message: Any) -> RunLengths:
        values, lengths = self._child(message, "values"), self._child(message, "run_lengths")
        if self._version < (2, 3) and not (isinstance(values, Plain) and isinstance(lengths, Plain)):
            raise FormatError("values or lengths of runs are not plain")
        if isinstance(values, Plain) and (values.bits % 8 or values.bits == 0):
            raise FormatError(f"runs of values of {values.bits} bits")
        if isinstance(lengths, Plain) and lengths.bits not in _WORD_BITS:
            raise FormatError(f"run lengths of {lengths.bits} bits")
        return RunLengths(values, lengths)

    def _general(self, message: Any) -> Compressed:
        scheme = _SCHEMES.get(message.compression.scheme)
        if scheme is None:
            raise UnsupportedError(
                f"compression scheme {message.compression.scheme}", feature="compression scheme"
            )
        first = self.num_buffers
        values = self._child(message, "values")
        if self.num_buffers == first:
            raise FormatError("compression of an encoding without buffers")
        return Compressed(scheme, values, first)

    def _fixed_list(self, message: Any) -> FixedListOf:
        validity = self._buffer() if message.has_validity else None
        child = self._child(message, "values")
        if isinstance(child, Variable | SymbolCoded | PackedFields):
            raise FormatError("fixed-size lists of values of varying size")
        size, bits = message.items_per_value, stored_bits(child) or 0
        self._limits.check("value_bytes", size * max(bits // 8, _num_items(child)), "width of a list")
        return FixedListOf(size, child, validity)

    def _packed_struct(self, message: Any) -> PackedRows:
        bits = tuple(message.bits_per_value)
        self._limits.check("fields", len(bits), "number of packed fields")
        for width in bits:
            if width % 8:
                raise UnsupportedError(f"packed fields of {width} bits", feature="packed struct of bits")
        values = self._child(message, "values")
        if stored_bits(values) != sum(bits):
            raise FormatError(f"packed rows of {stored_bits(values)} bits hold fields of {sum(bits)} bits")
        return PackedRows(bits, (), values)

    def _packed_fields(self, message: Any) -> PackedFields:
        if self._version < (2, 2):
            raise FormatError("packed structs of varying size in a file of version 2.1")
        self._limits.check("fields", len(message.fields), "number of packed fields")
        return PackedFields(tuple(self._packed_field(field) for field in message.fields))

    def _packed_field(self, message: Any) -> tuple[Spec, int, bool]:
        value = self._child(message, "value")
        which = message.WhichOneof("layout")
        if which == "bits_per_length":
            if message.bits_per_length not in (32, 64):
                raise FormatError(f"lengths of packed strings of {message.bits_per_length} bits")
            return value, message.bits_per_length, True
        if which != "bits_per_value" or message.bits_per_value % 8:
            raise FormatError("a packed field has no width in bytes")
        return value, self._bits(message.bits_per_value), False

    def _deltas(self, message: Any) -> Deltas:
        self._only_from_23("Delta")
        bits = _word_bits(message.bits_per_value)
        return Deltas(bits, message.base, self._child(message, "deltas"))


_PARSERS: dict[str, Callable[[NodeParser, Any], Spec]] = {
    "flat": NodeParser._flat,
    "variable": NodeParser._variable,
    "constant": NodeParser._constant,
    "out_of_line_bitpacking": NodeParser._out_of_line,
    "inline_bitpacking": NodeParser._inline,
    "fsst": NodeParser._fsst,
    "dictionary": NodeParser._dictionary,
    "rle": NodeParser._rle,
    "byte_stream_split": NodeParser._byte_split,
    "general": NodeParser._general,
    "fixed_size_list": NodeParser._fixed_list,
    "packed_struct": NodeParser._packed_struct,
    "variable_packed_struct": NodeParser._packed_fields,
    "range": NodeParser._sequence,
    "delta": NodeParser._deltas,
}


def stored_bits(spec: Spec) -> int | None:
    """Bits of one decoded value, without bitmaps of lists; None if they vary or the node does not state them.

    Examples
    --------
    >>> stored_bits(FixedListOf(3, InlinePacked(32)))
    96
    """
    if isinstance(spec, Plain | PackedBlocks | InlinePacked | ByteSplit | Sequence | Deltas):
        return spec.bits
    if isinstance(spec, RunLengths | Compressed):
        return stored_bits(spec.values)
    if isinstance(spec, PackedRows):
        return sum(spec.bits)
    if isinstance(spec, BlockDictionary):
        return stored_bits(spec.items)
    if isinstance(spec, FixedListOf):
        below = stored_bits(spec.child)
        return None if below is None else spec.size * below
    return None


def _num_items(spec: Spec) -> int:
    """Innermost items of a fixed-size list, nested lists multiplied; 1 for anything else."""
    items = 1
    while isinstance(spec, FixedListOf):
        items *= spec.size
        spec = spec.child
    return items


def _check_level(spec: Spec) -> None:
    """Refuse a codec that levels cannot have: they are 16-bit numbers, plain, packed or in runs."""
    if not isinstance(spec, Plain | InlinePacked | PackedBlocks | RunLengths):
        raise UnsupportedError(f"levels coded as {type(spec).__name__}", feature=type(spec).__name__)
    if isinstance(spec, RunLengths) and not (
        isinstance(spec.values, Plain) and isinstance(spec.lengths, Plain)
    ):
        raise UnsupportedError("levels in runs that are not plain", feature="coded runs")
    if stored_bits(spec) != 16:
        raise FormatError(f"levels of {stored_bits(spec)} bits")


def _word_bits(bits: int) -> int:
    if bits not in _WORD_BITS:
        raise UnsupportedError(f"bit-packing of {bits}-bit words", feature="bit-packing")
    return bits


def _refuse_compression(message: Any, name: str) -> None:
    """No writer is known to have compressed a buffer inside a leaf of the tree."""
    if message.HasField(name) and getattr(message, name).scheme:
        raise UnsupportedError(
            f"compression inside a {message.DESCRIPTOR.name} encoding", feature="buffer compression"
        )


_LARGEST_COUNT = 1 << 48


def required(message: Any, name: str) -> Any:
    """A required part of a message."""
    if not message.HasField(name):
        raise FormatError(f"{message.DESCRIPTOR.name} lacks {name}")
    return getattr(message, name)


def layers_of(numbers: Any, limits: Limits) -> tuple[Layer, ...]:
    """Layers from their numbers; at least one."""
    limits.check("nesting", len(numbers), "number of layers")
    if not len(numbers):
        raise FormatError("a page without layers")
    for number in numbers:
        if not 1 <= number <= len(Layer):
            raise FormatError(f"layer of kind {number}")
    return tuple(Layer(number) for number in numbers)


def level_of(message: Any, name: str, version: tuple[int, int], limits: Limits) -> Spec | None:
    """The codec of levels in the field of this name, None if it is not set."""
    if not message.HasField(name):
        return None
    spec = NodeParser(version, limits).parse(getattr(message, name))
    _check_level(spec)
    return spec


def _dictionary_of(message: Any, version: tuple[int, int], limits: Limits) -> Spec | None:
    """The codec of the dictionary of a page, None if it has none."""
    if not message.HasField("dictionary"):
        return None
    parser = NodeParser(version, limits)
    spec = parser.parse(message.dictionary)
    inner = spec.values if isinstance(spec, Compressed) else spec
    # A standalone buffer has values and lengths of runs in it (file sheet 2.1, 3.2), or bitmaps of
    # lists and items.
    parts = 2 if isinstance(inner, RunLengths) else 1 + _num_bitmaps(inner)
    if not 0 < parser.num_buffers <= parts:
        raise UnsupportedError(f"dictionaries in {parser.num_buffers} buffers", feature=type(spec).__name__)
    return spec


def _num_bitmaps(spec: Spec) -> int:
    """Bitmaps of fixed-size lists whose values can be stored one by one: plain ones, and nulls."""
    count = 0
    while isinstance(spec, FixedListOf):
        count += spec.validity is not None
        spec = spec.child
    return count if isinstance(spec, Plain | Repeated) else 0


def count_of(value: int, what: str) -> int:
    """A count small enough for 64-bit arithmetic."""
    if value > _LARGEST_COUNT:
        raise FormatError(f"{what} of {value}")
    return value


def _has_index(depth: int) -> bool:
    """Whether a page has a repetition index, from its depth."""
    if depth > 1:
        raise UnsupportedError(f"repetition indices of depth {depth}", feature="nested repetition index")
    return depth > 0


def check_levels(layers: tuple[Layer, ...], has_rep: bool, has_def: bool) -> None:
    """Check levels: lists need repetition levels; definition levels may be absent if nothing is null or empty."""
    if max_repetition(layers) and not has_rep:
        raise FormatError("a page of lists has no repetition levels")
    if has_rep and not max_repetition(layers):
        raise FormatError("a page without lists has repetition levels")
    if has_def and not max_definition(layers):
        raise FormatError("a page without nulls has definition levels")


def check_buffers(num_buffers: int, allowed: set[int]) -> None:
    """Refuse a page with another number of buffers than its layout has."""
    if num_buffers not in allowed:
        raise FormatError(f"a page has {num_buffers} buffers, its layout needs {min(allowed)}")


def mini_block_of(
    message: Any,
    levels: Any,
    compression: str,
    layers: tuple[Layer, ...],
    version: tuple[int, int],
    limits: Limits,
    *,
    is_large: bool,
) -> MiniBlock:
    """A layout of chunks, which messages of 2.1 and of 2.3 state alike.

    Parameters
    ----------
    message, levels : messages
        The page, and what has the codecs of its levels.
    compression : str
        The member of ``message`` with the encoding of the values.
    """
    values = NodeParser(version, limits)
    layout = MiniBlock(
        layers=layers,
        rep=level_of(levels, "rep_compression", version, limits),
        definition=level_of(levels, "def_compression", version, limits),
        values=values.parse(required(message, compression)),
        dictionary=_dictionary_of(message, version, limits),
        num_dictionary_items=limits.check(
            "dictionary_values", message.num_dictionary_items, "number of dictionary items"
        ),
        num_buffers=count_of(message.num_buffers, "number of value buffers"),
        has_index=_has_index(levels.repetition_index_depth),
        num_items=count_of(message.num_items, "number of items"),
        is_large=is_large,
    )
    if layout.num_buffers != values.num_buffers:
        raise FormatError(
            f"chunks are said to have {layout.num_buffers} value buffers, their encoding has {values.num_buffers}"
        )
    return layout


def full_zip_of(
    message: Any,
    levels: Any,
    compression: str,
    layers: tuple[Layer, ...],
    version: tuple[int, int],
    limits: Limits,
) -> tuple[FullZip, set[int]]:
    """A layout of single values, as :func:`mini_block_of`, and the numbers of buffers its page may have."""
    which = message.WhichOneof("details")
    if which is None:
        raise FormatError("a full-zip page has neither a width of values nor one of lengths")
    bits = getattr(message, which)
    is_fixed = which == "bits_per_value"
    layout = FullZip(
        layers=layers,
        rep_bits=levels.bits_rep,
        definition_bits=levels.bits_def,
        value_bits=bits if is_fixed else None,
        length_bits=None if is_fixed else bits,
        num_entries=count_of(message.num_items, "number of items"),
        num_visible=count_of(message.num_visible_items, "number of visible items"),
        values=NodeParser(version, limits).parse(required(message, compression)),
    )
    _check_full_zip(layout, limits)
    is_indexed = not is_fixed or max_repetition(layers) > 0
    return layout, {2} if is_indexed else {1, 2}


def _check_full_zip(layout: FullZip, limits: Limits) -> None:
    """Refuse widths that a full-zip page cannot have."""
    if layout.value_bits is not None and layout.value_bits % 8:
        raise FormatError(f"full-zip values of {layout.value_bits} bits")
    limits.check("value_bytes", (layout.value_bits or 0) // 8, "width of a full-zip value")
    if layout.length_bits not in (None, 32, 64):
        raise FormatError(f"full-zip lengths of {layout.length_bits} bits")
    for what, bits in (("repetition", layout.rep_bits), ("definition", layout.definition_bits)):
        if bits > 16:
            raise FormatError(f"{what} levels of {bits} bits")
    if layout.num_visible > layout.num_entries:
        raise FormatError(f"{layout.num_visible} visible items of {layout.num_entries}")
