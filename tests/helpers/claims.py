"""Files that claim more than there is: one number that states a size, a count or a position made enormous.

Every kind of place has its function: footers and tables of each container, column metadata, descriptions of pages,
schemas, manifests, row-id and version sequences, 0.1 metadata and page tables, deletion files, and the words in page
buffers (lengths of compressed frames, of dictionaries, of lists). Messages are encoded anew with valid lengths.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Mapping
from dataclasses import replace

from lancecy.proto import file_pb2, table_pb2
from tests.helpers.container import Container, page_encoding, set_page_encoding
from tests.helpers.mutate import SEQUENCES, claim_number, tail_message, with_tail

__all__ = ["HUGE", "Claim", "Kind", "kinds_of"]

HUGE = tuple(
    sorted({(1 << bits) - less for bits in (*range(20, 64, 3), 31, 32, 33, 63, 64) for less in (0, 1)})
)
"""What is claimed: around each power of two from a million to 2**64."""

Claim = tuple[str, bytes, int | None]
"""What it says, the bytes, and the physical column it is about, if it is about one."""

Kind = Callable[[bytes, random.Random, int], "Claim | None"]


def kinds_of(suffix: str, data: bytes) -> Mapping[str, Kind]:
    """What can be done to a file whose name ends so; each returns None where it finds no such place."""
    if suffix == ".manifest":
        return {"manifest": _manifest, "row sequences": _sequences, "manifest's tail": _manifest_tail}
    if suffix in (".arrow", ".bin"):
        return {f"deletions {suffix}": _anywhere}
    major, minor = struct.unpack("<HH", data[-8:-4])
    if major == 0 and minor < 3:
        return {
            "0.1 metadata": _metadata,
            "0.1 page table": _page_table,
            "0.1 pages": _anywhere,
            "0.1 tail": _tail,
        }
    version = "2.0" if major == 0 else f"{major}.{minor}"
    parts = {"footer": _footer, "tables": _tables, "columns": _column, "pages": _page, "buffers": _buffer}
    return {f"{version} {name}": kind for name, kind in {**parts, "schema": _descriptor}.items()}


def _claim(where: str, what: str | None, data: bytes, column: int | None) -> Claim | None:
    return None if what is None else (where + what, data, column)


def _with_word(data: bytes, place: int, width: int, number: int) -> bytes:
    number = min(number, (1 << 8 * width) - 1)
    return data[:place] + number.to_bytes(width, "little") + data[place + width :]


def _anywhere(data: bytes, rng: random.Random, number: int) -> Claim | None:
    width = rng.choice((2, 4, 4, 8))
    if len(data) < width:
        return None
    place = rng.randrange(len(data) - width + 1)
    place -= place % rng.choice((1, width))
    return f"{width} bytes at {place}: {number}", _with_word(data, place, width, number), None


# -- manifests and 0.1 files ---------------------------------------------------------------------


def _manifest(data: bytes, rng: random.Random, number: int) -> Claim | None:
    position, message = tail_message(data, table_pb2.Manifest)
    what = claim_number(message, rng, number)
    return _claim("", what, with_tail(data, position, message), None)


def _sequences(data: bytes, rng: random.Random, number: int) -> Claim | None:
    """Stable row ids and row versions, which are messages of their own within the manifest."""
    position, message = tail_message(data, table_pb2.Manifest)
    held = [(f, name) for f in message.fragments for name in SEQUENCES if getattr(f, name)]
    if not held:
        return None
    fragment, name = rng.choice(held)
    sequence = SEQUENCES[name].FromString(getattr(fragment, name))
    what = claim_number(sequence, rng, number)
    setattr(fragment, name, sequence.SerializeToString())
    return _claim("", what, with_tail(data, position, message), None)


def _manifest_tail(data: bytes, rng: random.Random, number: int) -> Claim | None:
    """Where the message starts, or how long it says to be; the same of the index section."""
    position, message = tail_message(data, table_pb2.Manifest)
    places = [(position, 4), (len(data) - 16, 8)]
    if message.HasField("index_section"):
        places.append((message.index_section, 4))
    place, width = rng.choice(places)
    return f"{width} bytes at {place}: {number}", _with_word(data, place, width, number), None


def _tail(data: bytes, rng: random.Random, number: int) -> Claim | None:
    position, _ = tail_message(data, file_pb2.Metadata)
    place, width = rng.choice(((position, 4), (len(data) - 16, 8)))
    return f"{width} bytes at {place}: {number}", _with_word(data, place, width, number), None


def _metadata(data: bytes, rng: random.Random, number: int) -> Claim | None:
    position, message = tail_message(data, file_pb2.Metadata)
    what = claim_number(message, rng, number)
    return _claim("", what, with_tail(data, position, message), None)


def _page_table(data: bytes, rng: random.Random, number: int) -> Claim | None:
    _, message = tail_message(data, file_pb2.Metadata)
    stop = message.manifest_position or len(data) - 16
    cells = (stop - message.page_table_position) // 8
    if cells < 1:
        return None
    place = message.page_table_position + 8 * rng.randrange(cells)
    return f"page table cell at {place}: {number}", _with_word(data, place, 8, number), None


# -- 2.x files -----------------------------------------------------------------------------------


def _footer(data: bytes, rng: random.Random, number: int) -> Claim:
    container = Container.parse(data)
    bits = {"num_buffers": 32, "num_columns": 32}
    name = rng.choice(("columns_start", "column_table", "buffer_table", *bits))
    footer = replace(container.footer)
    setattr(footer, name, min(number, (1 << bits.get(name, 64)) - 1))
    return f"{name} = {number}", data[:-40] + footer.pack(), None


def _tables(data: bytes, rng: random.Random, number: int) -> Claim | None:
    cells = [start + 8 * i for start, size in Container.parse(data).tables for i in range(size // 8)]
    place = rng.choice(cells)
    return f"table cell at {place}: {number}", _with_word(data, place, 8, number), None


def _descriptor(data: bytes, rng: random.Random, number: int) -> Claim | None:
    container = Container.parse(data)
    what = claim_number(container.descriptor, rng, number)
    return _claim("", what, container.build(), None)


def _column(data: bytes, rng: random.Random, number: int) -> Claim | None:
    container = Container.parse(data)
    at = rng.randrange(len(container.columns))
    what = claim_number(container.columns[at], rng, number)
    return _claim(f"column {at}: ", what, container.build(), at)


def _page(data: bytes, rng: random.Random, number: int) -> Claim | None:
    """Bits per value, sizes of lists and dictionaries, rows, items, depths: what the encoding says."""
    container = Container.parse(data)
    at = rng.randrange(len(container.columns))
    if not container.columns[at].pages:
        return None
    page = rng.choice(container.columns[at].pages)
    message = page_encoding(page)
    what = claim_number(message, rng, number)
    set_page_encoding(page, message)
    return _claim(f"page of column {at}: ", what, container.build(), at)


def _buffer(data: bytes, rng: random.Random, number: int) -> Claim | None:
    """A word of a buffer: mostly its first, where lengths stand, or an aligned one, as offsets are."""
    container = Container.parse(data)
    at = rng.randrange(len(container.columns))
    if not container.columns[at].pages:
        return None
    page = rng.choice(container.columns[at].pages)
    spans = [s for s in zip(page.buffer_offsets, page.buffer_sizes, strict=True) if s[1] >= 2]
    if not spans:
        return None
    start, size = rng.choice(spans)
    width = rng.choice([w for w in (2, 4, 8) if w <= size])
    spot = rng.randrange(size - width + 1) if rng.random() < 0.6 else rng.randrange(min(16, size - width + 1))
    spot -= spot % rng.choice((1, width))
    what = f"column {at}, {width} bytes at {spot} of a buffer: {number}"
    return what, _with_word(data, start + spot, width, number), at
