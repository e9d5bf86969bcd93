"""Pages of files of version 2.1 and later: from the messages of ``lance.encodings21`` to layouts.

Any bytes give either a layout of ``lancecy.encodings.model.layouts`` or one of ``FormatError``, ``LimitError`` and
``UnsupportedError``. Later code relies on these checks: widths exist and are bounded, layers are valid, levels are
16-bit numbers, and a layout has as many buffers as its page. ``nodes`` parses the compressive parts, ``planar`` the
layout of 2.3.

Source: file sheet 2.1, section 2.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lancecy.encodings.model.layouts import (
    BlobPage,
    ConstantPage,
    FullZip,
    MiniBlock,
    PageSpec,
    max_repetition,
)
from lancecy.encodings.v21.wire.nodes import (
    check_buffers,
    check_levels,
    count_of,
    full_zip_of,
    layers_of,
    level_of,
    mini_block_of,
    required,
)
from lancecy.encodings.v21.wire.planar import parse_planar
from lancecy.errors import FormatError, UnsupportedError, printable
from lancecy.limits import Limits
from lancecy.proto import encodings21_pb2
from lancecy.schema_wire import parse_message

__all__ = ["parse_page"]

_INLINE_BYTES = 32
_PLANAR = "lance.encodings23.PlanarLayout"
_PREVIEW = "lance.encodings.PageLayout"


def parse_page(
    type_url: str, value: bytes, version: tuple[int, int], num_buffers: int, limits: Limits
) -> PageSpec:
    """Parse the layout of a page of a file of version 2.1 or later.

    Parameters
    ----------
    type_url, value : str, bytes
        Of the ``google.protobuf.Any`` that describes the page.
    version : (major, minor)
        Version of the file: (2, 1), (2, 2) or (2, 3).
    num_buffers : int
        Buffers that the page has.
    limits : Limits
        Bounds widths, nesting and dictionary items.

    Raises
    ------
    FormatError
        The bytes are not such a message, or the message contradicts itself.
    LimitError
        A width, a count or the nesting is beyond ``limits``.
    UnsupportedError
        A layout or an encoding of another version, or one that no released writer used.

    Source: file sheet 2.1, sections 1.4 and 2.
    """
    name = type_url.rpartition("/")[2]
    if name == _PLANAR:
        return parse_planar(value, num_buffers, limits)
    if name == _PREVIEW:
        raise UnsupportedError(
            "pages of a preview of 2.1, as releases 0.20 to 0.30 wrote them: have such a release rewrite the table as 2.0",
            feature="preview of 2.1",
        )
    if name != "lance.encodings21.PageLayout":
        raise FormatError(f"page encoding of type {printable(name)!r} in a file of version {version}")
    message = parse_message(encodings21_pb2.PageLayout, value, "page layout", limits)
    return _layout(message, version, num_buffers, limits)


def _layout(message: Any, version: tuple[int, int], num_buffers: int, limits: Limits) -> PageSpec:
    which = message.WhichOneof("layout")
    if which is None:
        raise FormatError("page layout names no layout")
    parse = _LAYOUTS.get(which)
    if parse is None:
        raise UnsupportedError(f"pages of layout {which}", feature=which)
    return parse(getattr(message, which), version, num_buffers, limits)


def _mini_block(message: Any, version: tuple[int, int], num_buffers: int, limits: Limits) -> MiniBlock:
    layers, is_large = layers_of(message.layers, limits), message.has_large_chunk
    layout = mini_block_of(message, message, "value_compression", layers, version, limits, is_large=is_large)
    check_levels(layers, layout.rep is not None, layout.definition is not None)
    check_buffers(num_buffers, {2 + (layout.dictionary is not None) + layout.has_index})
    return layout


def _constant(message: Any, version: tuple[int, int], num_buffers: int, limits: Limits) -> ConstantPage:
    layers = layers_of(message.layers, limits)
    layout = ConstantPage(
        layers=layers,
        value=message.inline_value if message.HasField("inline_value") else None,
        rep=level_of(message, "rep_compression", version, limits),
        definition=level_of(message, "def_compression", version, limits),
        num_rep=count_of(message.num_rep_values, "number of repetition levels"),
        num_definition=count_of(message.num_def_values, "number of definition levels"),
    )
    if layout.value is not None and len(layout.value) > _INLINE_BYTES:
        raise FormatError(f"inline value of {len(layout.value)} bytes, where {_INLINE_BYTES} are allowed")
    # A value that is not inline has a buffer before those of the levels.
    check_buffers(num_buffers, {0, 2} if layout.value is not None else {0, 1, 2, 3})
    if num_buffers < 2:
        if max_repetition(layers):
            raise FormatError("a constant page of lists has no repetition levels")
        if layout.rep is not None or layout.definition is not None:
            raise FormatError("a constant page has codecs for levels, but no levels")
    return layout


def _full_zip(message: Any, version: tuple[int, int], num_buffers: int, limits: Limits) -> FullZip:
    layers = layers_of(message.layers, limits)
    layout, allowed = full_zip_of(message, message, "value_compression", layers, version, limits)
    check_levels(layers, layout.rep_bits > 0, layout.definition_bits > 0)
    check_buffers(num_buffers, allowed)
    return layout


def _blob(message: Any, version: tuple[int, int], num_buffers: int, limits: Limits) -> BlobPage:
    inner = _layout(required(message, "inner_layout"), version, num_buffers, limits)
    if not isinstance(inner, MiniBlock | ConstantPage | FullZip):
        raise FormatError("a blob page in a blob page")
    return BlobPage(inner, layers_of(message.layers, limits))


_LAYOUTS: dict[str, Callable[[Any, tuple[int, int], int, Limits], PageSpec]] = {
    "mini_block_layout": _mini_block,
    "constant_layout": _constant,
    "full_zip_layout": _full_zip,
    "blob_layout": _blob,
}
