"""Common parts of the page messages of 2.1 to 2.3: layers, levels, dictionaries and counts, each checked."""

from __future__ import annotations

from typing import Any

from lancecy.encodings.model.layouts import FullZip, Layer, max_definition, max_repetition
from lancecy.encodings.model.spec import Compressed, FixedListOf, Plain, Repeated, RunLengths, Spec
from lancecy.encodings.v21.wire.nodes import NodeParser, check_level
from lancecy.errors import FormatError, UnsupportedError
from lancecy.limits import Limits

__all__ = [
    "check_buffers",
    "check_full_zip",
    "check_levels",
    "count_of",
    "dictionary_of",
    "has_index",
    "layers_of",
    "level_of",
    "required",
]

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
    check_level(spec)
    return spec


def dictionary_of(message: Any, version: tuple[int, int], limits: Limits) -> Spec | None:
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


def has_index(depth: int) -> bool:
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


def check_full_zip(layout: FullZip, limits: Limits) -> None:
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
