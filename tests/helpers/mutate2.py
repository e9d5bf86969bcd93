"""Damage done on purpose to 2.x data files, most of it behind the first check.

The container is taken apart, one thing is changed, and the rest is written so that it agrees: messages have valid
lengths, tables and footer the right positions. Other kinds aim at what lies in page buffers: chunk words and
headers, levels, offsets, repetition indexes, control words, dictionaries, symbol tables.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from google.protobuf.message import Message

from tests.helpers.container import Container, column_encoding, page_encoding, set_page_encoding
from tests.helpers.mutate import NUMBERS, edit_message, flips, truncations, words

__all__ = ["Damage", "damaged_versions"]


@dataclass(frozen=True)
class Damage:
    """One damaged file.

    Attributes
    ----------
    what : str
        What was done.
    data : bytes
    column : int or None
        Physical column that was hit; None if all may be.
    """

    what: str
    data: bytes
    column: int | None = None


Kind = Callable[[Container, random.Random], "Damage | None"]


def damaged_versions(data: bytes, rng: random.Random, count: int) -> Iterator[Damage]:
    """``count`` versions of a file, each damaged in one place."""
    made = 0
    kinds, weights = zip(*KINDS, strict=True)
    while made < count:
        # Parsed anew each time: the kinds change what they are given.
        [kind] = rng.choices(kinds, weights)
        found = kind(Container.parse(data), rng)
        if found is not None:
            made += 1
            yield found


def _some_page(container: Container, rng: random.Random) -> tuple[int, int] | None:
    pages = [(c, p) for c, column in enumerate(container.columns) for p in range(len(column.pages))]
    return rng.choice(pages) if pages else None


# -- messages ------------------------------------------------------------------------------


def _encoding(container: Container, rng: random.Random) -> Damage | None:
    """One field of a page's description of its encoding."""
    place = _some_page(container, rng)
    if place is None:
        return None
    page = container.columns[place[0]].pages[place[1]]
    message = page_encoding(page)
    what = _edited(message, rng)
    if what is None:
        return None
    set_page_encoding(page, message)
    return Damage(f"page {place}: {what}", container.build(), place[0])


def _grafted(container: Container, rng: random.Random) -> Damage | None:
    """The description of one page put over another."""
    one, two = _some_page(container, rng), _some_page(container, rng)
    if one is None or two is None or one == two:
        return None
    target, source = (container.columns[c].pages[p] for c, p in (one, two))
    target.encoding.CopyFrom(source.encoding)
    return Damage(f"page {one} described as {two}", container.build(), one[0])


def _column(container: Container, rng: random.Random) -> Damage | None:
    """One field of a column's metadata: buffers, lengths, priorities, pages."""
    number = rng.randrange(len(container.columns)) if container.columns else 0
    if not container.columns:
        return None
    what = _edited(container.columns[number], rng)
    return None if what is None else Damage(f"column {number}: {what}", container.build(), number)


def _buffers(container: Container, rng: random.Random) -> Damage | None:
    """Where a page's buffers lie: elsewhere in the file, shorter, longer, over those of another page."""
    one, two = _some_page(container, rng), _some_page(container, rng)
    if one is None or two is None:
        return None
    page, other = (container.columns[c].pages[p] for c, p in (one, two))
    if not page.buffer_sizes or not other.buffer_sizes:
        return None
    at, from_ = rng.randrange(len(page.buffer_sizes)), rng.randrange(len(other.buffer_sizes))
    kind = rng.choice(("stolen", "shorter", "longer", "moved", "dropped", "swapped"))
    if kind == "stolen":
        page.buffer_offsets[at], page.buffer_sizes[at] = (
            other.buffer_offsets[from_],
            other.buffer_sizes[from_],
        )
    elif kind == "shorter":
        page.buffer_sizes[at] = max(0, page.buffer_sizes[at] - rng.choice((1, 2, 4, 8, 16, 64)))
    elif kind == "longer":
        page.buffer_sizes[at] += rng.choice((1, 8, 64, 1 << 20, 1 << 40))
    elif kind == "moved":
        page.buffer_offsets[at] = max(
            0, page.buffer_offsets[at] + rng.choice((-64, 64, 8, 1, 1 << 20, 1 << 62))
        )
    elif kind == "dropped":
        del page.buffer_offsets[at], page.buffer_sizes[at]
    else:
        page.buffer_offsets[at], page.buffer_offsets[0] = page.buffer_offsets[0], page.buffer_offsets[at]
    return Damage(f"buffer {at} of page {one} {kind}", container.build(), one[0])


def _counts(container: Container, rng: random.Random) -> Damage | None:
    """Rows of a page, with those of its neighbour made up for so that the sum stays, or not."""
    place = _some_page(container, rng)
    if place is None:
        return None
    pages = container.columns[place[0]].pages
    page = pages[place[1]]
    step = rng.choice((-1, 1, 2, -page.length // 2, page.length, 1 << 31, 1 << 60))
    page.length = max(0, page.length + step)
    if place[1] + 1 < len(pages) and rng.random() < 0.7:
        pages[place[1] + 1].length = max(0, pages[place[1] + 1].length - step)
    return Damage(f"page {place} has {page.length} rows", container.build(), place[0])


def _descriptor(container: Container, rng: random.Random) -> Damage | None:
    """One field of the schema."""
    what = _edited(container.descriptor, rng)
    return None if what is None else Damage(f"descriptor: {what}", container.build())


def _column_kind(container: Container, rng: random.Random) -> Damage | None:
    """What encoding the column says to have: values, zone index, blob."""
    if not container.columns:
        return None
    number = rng.randrange(len(container.columns))
    column = container.columns[number]
    message = column_encoding(column)
    kind = rng.choice(("values", "blob", "zone_index", "none"))
    if kind == "none":
        message.Clear()
    else:
        getattr(message, kind).SetInParent()
    set_page_encoding(column, message)
    return Damage(f"column {number} encoded as {kind}", container.build(), number)


def _symbols(container: Container, rng: random.Random) -> Damage | None:
    """The header, lengths or symbols of an FSST table."""
    places = [(c, p) for c, column in enumerate(container.columns) for p in range(len(column.pages))]
    rng.shuffle(places)
    for place in places:
        page = container.columns[place[0]].pages[place[1]]
        message = page_encoding(page)
        holders = list(_holders(message, "symbol_table"))
        if not holders:
            continue
        table = bytearray(holders[0].symbol_table)
        count = table[0] if table else 0
        spots = [*range(8), *(8 + 8 * count + i for i in range(count)), *range(8, 40), len(table) - 1]
        spot = rng.choice([s for s in spots if 0 <= s < len(table)] or [0])
        if table:
            table[spot] = rng.choice((0, 1, 7, 8, 9, 255, rng.randrange(256)))
        cut = len(table) if rng.random() < 0.8 else rng.randrange(len(table) + 1)
        holders[0].symbol_table = bytes(table[:cut])
        set_page_encoding(page, message)
        return Damage(f"symbol table of page {place}: byte {spot}, {cut} bytes", container.build(), place[0])
    return None


def _holders(message: Message, name: str) -> Iterator[Any]:
    for field, value in message.ListFields():
        if field.name == name:
            yield message
        elif field.message_type is not None and not field.message_type.GetOptions().map_entry:
            for child in value if field.is_repeated else [value]:
                yield from _holders(child, name)


def _edited(message: Message, rng: random.Random) -> str | None:
    """What ``edit_message`` did, or None where there was nothing to edit or protobuf refuses the result."""
    if not message.ListFields():
        return None
    try:
        what = edit_message(message, rng)
        message.SerializeToString()
    except (ValueError, UnicodeError):
        return None
    return what


# -- tables and footer ---------------------------------------------------------------------


def _footer(container: Container, rng: random.Random) -> Damage:
    names = ("columns_start", "column_table", "buffer_table", "num_buffers", "num_columns", "major", "minor")
    name = rng.choice(names)
    old = getattr(container.footer, name)
    top = {"major": 16, "minor": 16, "num_buffers": 32, "num_columns": 32}.get(name, 64)
    new = rng.choice((*NUMBERS, old + 1, old - 1, old + 16, old * 2)) & ((1 << top) - 1)
    footer = replace(container.footer)
    setattr(footer, name, new)
    return Damage(f"footer: {name} {old} -> {new}", container.data[:-40] + footer.pack())


def _tables(container: Container, rng: random.Random) -> Damage | None:
    """A position or length of column metadata or of a global buffer."""
    cells = [start + 8 * i for start, size in container.tables for i in range(size // 8)]
    if not cells:
        return None
    place = rng.choice(cells)
    old = struct.unpack_from("<Q", container.data, place)[0]
    new = rng.choice((*NUMBERS, old + 1, old - 1, old + 8, old // 2)) & ((1 << 64) - 1)
    damaged = bytearray(container.data)
    struct.pack_into("<Q", damaged, place, new)
    return Damage(f"table cell at {place}: {old} -> {new}", bytes(damaged))


# -- buffers -------------------------------------------------------------------------------


def _contents(container: Container, rng: random.Random) -> Damage | None:
    """A word somewhere in a page's buffer, more often near its start, its end, or the start of a chunk."""
    place = _some_page(container, rng)
    if place is None:
        return None
    page = container.columns[place[0]].pages[place[1]]
    filled = [i for i, size in enumerate(page.buffer_sizes) if size]
    if not filled:
        return None
    at = rng.choice(filled)
    start, size = page.buffer_offsets[at], page.buffer_sizes[at]
    spot = _spot(container, page, at, size, rng)
    return _overwritten(container, start, size, spot, f"buffer {at} of page {place}", place[0], rng)


def _spot(container: Container, page: Any, at: int, size: int, rng: random.Random) -> int:
    chunks = _chunk_starts(container, page) if at == 1 else []
    if chunks and rng.random() < 0.6:
        return min(size - 1, rng.choice(chunks) + rng.choice((0, 2, 4, 6, 8, 12, 16, rng.randrange(64))))
    near = rng.random()
    if near < 0.4:
        return rng.randrange(min(size, 32))
    return size - 1 - rng.randrange(min(size, 16)) if near < 0.5 else rng.randrange(size)


def _chunk_starts(container: Container, page: Any) -> list[int]:
    """Of a mini-block page, from its chunk words; of others whatever comes out."""
    message = page_encoding(page)
    large = next((h.has_large_chunk for h in _holders(message, "has_large_chunk")), None)
    is_chunked = bool(list(_holders(message, "num_buffers")))
    if not is_chunked or not page.buffer_sizes or container.footer.minor not in (1, 2, 3):
        return []
    wide = bool(large) or container.footer.minor == 3
    raw = container.buffers(page)[0]
    sizes = [w >> 4 for (w,) in struct.iter_unpack("<I" if wide else "<H", raw[: len(raw) // 4 * 4])]
    starts = [0]
    for size in sizes[:200]:
        starts.append(starts[-1] + 8 * (size + 1))
    return starts[:-1]


def _overwritten(
    container: Container, start: int, size: int, spot: int, where: str, column: int, rng: random.Random
) -> Damage:
    width = min(rng.choice((1, 1, 2, 2, 4, 8)), size - spot)
    old = int.from_bytes(container.data[start + spot : start + spot + width], "little")
    new = rng.choice(
        (*NUMBERS, old + 1, old - 1, old ^ 1 << rng.randrange(8 * width), rng.getrandbits(8 * width))
    )
    new &= (1 << 8 * width) - 1
    damaged = bytearray(container.data)
    damaged[start + spot : start + spot + width] = new.to_bytes(width, "little")
    return Damage(f"{where}: {width} bytes at {spot}: {old} -> {new}", bytes(damaged), column)


def _blind(container: Container, rng: random.Random) -> Damage | None:
    """Damage that knows nothing of the format."""
    kind = rng.choice((truncations, flips, words))
    found = next(kind(container.data, rng, 1), None)
    return None if found is None else Damage(*found)


KINDS: tuple[tuple[Kind, int], ...] = (
    (_encoding, 30),
    (_contents, 34),
    (_column, 8),
    (_buffers, 8),
    (_counts, 4),
    (_grafted, 3),
    (_symbols, 4),
    (_descriptor, 3),
    (_column_kind, 1),
    (_footer, 2),
    (_tables, 2),
    (_blind, 2),
)
"""What is done to files, and how often in a hundred."""
