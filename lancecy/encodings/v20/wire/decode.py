"""Encoding messages of 2.0 pages and columns, as specs.

Any bytes give either a node or one of ``FormatError``, ``LimitError`` and ``UnsupportedError``. A parsed node has
only buffers that exist in its page and integers of valid widths, and is nested no deeper than ``Limits.nesting``.
The decoders check whether it fits the type of its field. Source: file sheet 2.0, sections 2.1, 4 and 6.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lancecy.encodings.model.spec import (
    BitStream,
    Compressed,
    EndedBinary,
    EndedList,
    FixedBinary,
    FixedListOf,
    Nullable,
    NullOf,
    PackedBlocks,
    PackedRows,
    PageDictionary,
    Plain,
    Spec,
    StructHeader,
    SymbolCoded,
)
from lancecy.errors import FormatError, UnsupportedError, printable
from lancecy.limits import DEFAULT_LIMITS, Limits
from lancecy.proto import encodings_pb2
from lancecy.records import dataclass
from lancecy.schema_wire import parse_message

__all__ = ["parse_column_encoding", "parse_page"]

_PAGE_MESSAGE = "lance.encodings.ArrayEncoding"
_COLUMN_MESSAGE = "lance.encodings.ColumnEncoding"
_SYMBOL_TABLE_BYTES = 2312
_MAX_ITEMS = 2**40
"""Elements of a page are added up over pages as signed 64-bit numbers."""


def parse_page(type_url: str, value: bytes, num_buffers: int, limits: Limits = DEFAULT_LIMITS) -> Spec:
    r"""The node that describes one page.

    Parameters
    ----------
    type_url, value : str, bytes
        The Any message in the page metadata.
    num_buffers : int
        Buffers of the page.
    limits : Limits

    Raises
    ------
    FormatError
        The bytes are not such a message, or the message contradicts itself.
    LimitError
        Nesting or a width beyond ``limits``.
    UnsupportedError
        A buffer outside the page, or an encoding that 2.0 files do not have.

    Source: file sheet 2.0, section 4.

    Examples
    --------
    >>> parse_page("/lance.encodings.ArrayEncoding", b"\x0a\x04\x08\x20\x12\x00", 1)
    Plain(bits=32, signed=True, buffer=0)
    """
    _check_kind(type_url, _PAGE_MESSAGE)
    message = parse_message(encodings_pb2.ArrayEncoding, value, "encoding of a page", limits)
    return _array(message, _Context(num_buffers, limits))


def parse_column_encoding(type_url: str, value: bytes, limits: Limits = DEFAULT_LIMITS) -> bool:
    r"""Whether a column holds descriptors of blobs instead of values.

    Parameters
    ----------
    type_url, value : str, bytes
        The Any message in the column metadata.

    Raises
    ------
    FormatError, LimitError, UnsupportedError
        As for ``parse_page``.

    Source: file sheet 2.0, sections 2.1 and 5.4.

    Examples
    --------
    >>> parse_column_encoding("/lance.encodings.ColumnEncoding", b"\x0a\x00")
    False
    """
    _check_kind(type_url, _COLUMN_MESSAGE)
    message = parse_message(encodings_pb2.ColumnEncoding, value, "encoding of a column", limits)
    is_blob = False
    for _ in range(limits.nesting):
        kind = message.WhichOneof("column_encoding")
        if kind == "values":
            return is_blob
        if kind is None:
            raise FormatError("the encoding of a column is of no known kind")
        is_blob = is_blob or kind == "blob"
        message = getattr(message, kind).inner  # the pages are read without the bounds of zones beside them
    limits.check("nesting", limits.nesting + 1, "nesting of a column encoding")
    return is_blob


def _check_kind(type_url: str, wanted: str) -> None:
    kind = type_url.rpartition("/")[2]
    if kind != wanted:
        raise FormatError(f"an encoding of type {printable(kind)!r}, where {wanted!r} is needed")


@dataclass(frozen=True, slots=True)
class _Context:
    num_buffers: int
    limits: Limits
    depth: int = 1

    def below(self) -> _Context:
        depth = self.limits.check("nesting", self.depth + 1, "nesting of an encoding")
        return _Context(self.num_buffers, self.limits, depth)


# Any: generated message classes have no common type that declares their members.


def _array(message: Any, context: _Context) -> Spec:
    kind = message.WhichOneof("array_encoding")
    parser = _PARSERS.get(kind)
    if parser is not None:
        return parser(getattr(message, kind), context)
    if kind is None:
        raise FormatError("an encoding is missing or of no known kind")
    raise UnsupportedError(f"encoding {kind!r} in a page of version 2.0", feature=kind)


def _buffer(message: Any, context: _Context) -> int:
    if message.buffer_type != encodings_pb2.Buffer.page:
        # Type 1 would be a buffer of the column and 2 one of the file; no writer is known to make either.
        raise UnsupportedError(
            f"a page refers to buffer type {message.buffer_type}",
            feature=f"buffer type {message.buffer_type}",
        )
    index = int(message.buffer_index)
    if index >= context.num_buffers:
        raise FormatError(f"an encoding names buffer {index} of a page with {context.num_buffers}")
    return index


def _num_items(claimed: int) -> int:
    if claimed > _MAX_ITEMS:
        raise FormatError(f"{claimed} list elements in one page")
    return claimed


def _flat(message: Any, context: _Context) -> Spec:
    bits = int(message.bits_per_value)
    if bits != 1 and bits % 8:
        raise FormatError(f"values of {bits} bits, neither 1 nor a multiple of 8")
    context.limits.check("value_bytes", bits // 8, "width of a value")
    buffer = _buffer(message.buffer, context)
    values = Plain(bits, buffer=buffer)
    scheme = message.compression.scheme if message.HasField("compression") else "none"
    # One release labels bitmaps as compressed, though it never compresses them.
    if bits == 1 or scheme == "none":
        return values
    if scheme not in ("zstd", "lz4"):
        raise UnsupportedError(
            f"compression {printable(scheme)!r}", feature=f"compression {printable(scheme)}"
        )
    return Compressed(scheme, values, buffer)


def _nullable(message: Any, context: _Context) -> Spec:
    kind = message.WhichOneof("nullability")
    if kind == "all_nulls":
        return NullOf()
    if kind == "no_nulls":
        return Nullable(_array(message.no_nulls.values, context.below()))
    if kind is None:
        raise FormatError("nulls are neither none, some nor all")
    validity = _array(message.some_nulls.validity, context.below())
    while isinstance(validity, Nullable) and validity.validity is None:
        validity = validity.values
    if not isinstance(validity, Plain) or validity.bits != 1:
        raise FormatError("validity is not a bitmap")
    return Nullable(_array(message.some_nulls.values, context.below()), validity)


def _fixed_size_list(message: Any, context: _Context) -> Spec:
    if message.has_validity:
        raise UnsupportedError(
            "a fixed-size list of version 2.0 with validity of its own", feature="fixed-size list validity"
        )
    size = context.limits.check("value_bytes", int(message.dimension), "size of a fixed-size list")
    return FixedListOf(size, _array(message.items, context.below()))


def _list(message: Any, context: _Context) -> Spec:
    return EndedList(
        _array(message.offsets, context.below()),
        int(message.null_offset_adjustment),
        _num_items(int(message.num_items)),
    )


def _binary(message: Any, context: _Context) -> Spec:
    return EndedBinary(
        _array(message.indices, context.below()),
        _array(message.bytes, context.below()),
        int(message.null_adjustment),
    )


def _dictionary(message: Any, context: _Context) -> Spec:
    num_items = int(message.num_dictionary_items)
    context.limits.check("dictionary_values", num_items, "number of dictionary values")
    codes = _array(message.indices, context.below())
    return PageDictionary(codes, _array(message.items, context.below()), num_items)


def _fsst(message: Any, context: _Context) -> Spec:
    table = bytes(message.symbol_table)
    if len(table) != _SYMBOL_TABLE_BYTES:
        raise FormatError(f"a symbol table of {len(table)} bytes, not {_SYMBOL_TABLE_BYTES}")
    return SymbolCoded(table, _array(message.binary, context.below()))


def _packed_struct(message: Any, context: _Context) -> Spec:
    buffer = _buffer(message.buffer, context)
    # The buffer number in each field is meaningless: its bytes are in the rows.
    children = tuple(_array(inner, context.below()) for inner in message.inner)
    bits = tuple(_row_bits(child) for child in children)
    context.limits.check("value_bytes", sum(bits) // 8, "width of a packed row")
    return PackedRows(bits, children, Plain(sum(bits), buffer=buffer))


def _row_bits(spec: Spec) -> int:
    """Width of one field of a packed row."""
    bits = 1
    while not isinstance(spec, Plain):
        if isinstance(spec, Nullable) and spec.validity is None:
            spec = spec.values
        elif isinstance(spec, FixedListOf):
            bits, spec = bits * spec.size, spec.child
        else:
            raise UnsupportedError(
                f"a {type(spec).__name__} field in a packed struct", feature="packed struct field"
            )
    if spec.bits % 8:
        raise UnsupportedError("fields of single bits in a packed struct", feature="packed struct field")
    return bits * spec.bits


def _widths(message: Any, least: int) -> tuple[int, int]:
    """Bits of packed integers, and of the integers they decode to."""
    packed, bits = int(message.compressed_bits_per_value), int(message.uncompressed_bits_per_value)
    if bits not in (8, 16, 32, 64) or not least <= packed <= bits:
        raise FormatError(f"integers of {bits} bits packed to {packed}")
    return packed, bits


def _bitpacked(message: Any, context: _Context) -> Spec:
    packed, bits = _widths(message, 1)
    return BitStream(packed, bits, bool(message.signed), _buffer(message.buffer, context))


def _bitpacked_for_non_neg(message: Any, context: _Context) -> Spec:
    packed, bits = _widths(message, 0)
    return PackedBlocks(packed, bits, False, _buffer(message.buffer, context))


def _fixed_size_binary(message: Any, context: _Context) -> Spec:
    width = context.limits.check("value_bytes", int(message.byte_width), "width of a value")
    values = _array(message.bytes, context.below())
    plain = values.values if isinstance(values, Nullable) else values
    if isinstance(plain, Plain) and plain.bits == width * 8 and width > 1:
        # The rows of the values are unknown.
        raise UnsupportedError(
            "release 0.18 wrote these strings of equal length without the values of null rows: which rows are null is lost",
            feature="fixed-size binary of 0.18",
        )
    return FixedBinary(width, values)


_PARSERS: dict[str | None, Callable[[Any, _Context], Spec]] = {
    "flat": _flat,
    "nullable": _nullable,
    "fixed_size_list": _fixed_size_list,
    "list": _list,
    "struct": lambda _message, _context: StructHeader(),
    "binary": _binary,
    "dictionary": _dictionary,
    "fsst": _fsst,
    "packed_struct": _packed_struct,
    "bitpacked": _bitpacked,
    "fixed_size_binary": _fixed_size_binary,
    "bitpacked_for_non_neg": _bitpacked_for_non_neg,
}
