"""Bytes of a manifest file to a :class:`~lancecy.table.manifest.Manifest`.

::

    [dictionary values][index section][transaction] u32 length | Manifest   i64 position  i16 major  i16 minor  "LANC"
                                                    ^-- position            '------------- 16 bytes ------------'

Sections are found by their positions, in any order. Decoding is total: any bytes give a manifest or
an error of the format family. Features that would change the rows of a table (overlays, fragment
tree) are refused even if the writer forgot their flag.

Facts: table sheet, sections 1 and 2; file sheet 0.1, section 7.1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from itertools import pairwise
from operator import attrgetter
from typing import NamedTuple, Self

import numpy as np

from lancecy.errors import FormatError, LanceError, TruncatedError, UnsupportedError
from lancecy.limits import DEFAULT_LIMITS, Limits
from lancecy.proto import table_pb2
from lancecy.schema_wire import build_schema, check_fields, parse_message
from lancecy.store.base import Memory
from lancecy.table import flags
from lancecy.table.fragment_table import FragmentTable
from lancecy.table.manifest import BasePath, Fragment, Manifest, WriterVersion
from lancecy.table.wire.fragment import decode_base_paths, decode_fragment
from lancecy.table.wire.fragments_bulk import MIN_FRAGMENTS, check_bulk
from lancecy.table.wire.message_columns import parsed_columns

__all__ = [
    "Written",
    "decode",
    "decode_message",
    "decode_written",
    "encode",
    "section",
    "with_places",
]


class _Found(NamedTuple):
    """What makes the fragments of a manifest later; the attributes are those of ``Manifest.later``."""

    make: Callable[[], tuple[Fragment, ...]]
    table: Callable[[], FragmentTable | None] | None = None
    one: Callable[[int], Fragment] | None = None


_FOOTER_BYTES = 16
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DETACHED = 1 << 63
# The last few small manifests are cached, which makes appending one row a fifth faster, and two larger ones: the
# version that a change is made from, and its result.
_KEPT_BYTES = 1 << 20
_LARGE_KEPT_BYTES = 4 << 20
# Of a manifest with more fragments, none are kept for the next version.
_MOST_FRAGMENTS = 1 << 14


def decode(memory: Memory, path: str, limits: Limits = DEFAULT_LIMITS) -> Manifest:
    """The manifest in the bytes of a manifest file.

    Parameters
    ----------
    memory : (file size,) uint8
        The whole file. Not kept.
    path : str
        For errors.

    Raises
    ------
    FormatError
        Magic, positions, lengths or values are invalid; ``TruncatedError`` if bytes are missing.
    LimitError
        Fragments, fields, rows or bytes exceed ``limits``.
    UnsupportedError
        The table uses an unsupported feature that changes its rows.

    Source: table sheet, sections 1.1, 1.2 and 2.
    """
    return decode_message(memory, path, limits)[0]


def decode_message(
    memory: Memory, path: str, limits: Limits = DEFAULT_LIMITS
) -> tuple[Manifest, table_pb2.Manifest]:
    """The manifest in the bytes of a manifest file and its message (parameters and errors as :func:`decode`).

    Neither may be changed, because later calls with the same bytes return the same objects.
    """
    with naming(path):
        if memory.size > _LARGE_KEPT_BYTES:
            return _decoded(memory, limits)
        return _cache(memory.size)(memory.tobytes(), limits)


@contextmanager
def naming(path: str) -> Iterator[None]:
    """Name the manifest file in errors of the block."""
    try:
        yield
    except LanceError as error:
        if isinstance(error, FormatError):
            error.path = path
        raise error.within(path)


class Written(bytes):
    """The bytes of a manifest file, and the message in them.

    Parameters
    ----------
    data : bytes
        The result of :func:`encode` for the message, which must not change any more.
    message : lance.table.Manifest
        Its fields and fragments must be valid: they are not checked.
    """

    message: table_pb2.Manifest

    def __new__(cls, data: bytes, message: table_pb2.Manifest) -> Self:
        written = super().__new__(cls, data)
        written.message = message
        return written


def decode_written(data: Written, limits: Limits = DEFAULT_LIMITS) -> Manifest:
    """The manifest in bytes that this process wrote. Later reads of the same bytes give it without a check of each fragment.

    Parameters
    ----------
    data : Written
    limits : Limits
    """
    if len(data) > _LARGE_KEPT_BYTES:
        return _kept.__wrapped__(data, limits)[0]
    return _cache(len(data))(data, limits)[0]


def _decoded(memory: Memory, limits: Limits) -> tuple[Manifest, table_pb2.Manifest]:
    raw, message = parsed(memory, limits)

    def look() -> _Found:
        check_fields(message.fields, limits)
        return _checked_in_bulk(message, raw, limits)

    return _manifest(message, memory, look), message


@lru_cache(maxsize=8)
def _kept(data: bytes, limits: Limits) -> tuple[Manifest, table_pb2.Manifest]:
    # A writer reads its own manifest as the newest version, as the base of its change, and as its result.
    memory = np.frombuffer(data, np.uint8)
    if isinstance(data, Written):
        message = data.message
        made = _Found(partial(_fragments, message, limits), partial(_table, message, limits))
        return _manifest(message, memory, lambda: made), message
    return _decoded(memory, limits)


@lru_cache(maxsize=2)
def _large_kept(data: bytes, limits: Limits) -> tuple[Manifest, table_pb2.Manifest]:
    return _kept.__wrapped__(data, limits)


def _cache(size: int) -> Callable[[bytes, Limits], tuple[Manifest, table_pb2.Manifest]]:
    """The cache of manifest files of a size."""
    return _kept if size <= _KEPT_BYTES else _large_kept


def encode(
    message: table_pb2.Manifest,
    indices: bytes | None = None,
    transaction: bytes | None = None,
    dictionaries: bytes = b"",
) -> bytes:
    """A whole manifest file, with sections in the reference's order.

    Parameters
    ----------
    message : lance.table.Manifest
        Its section positions are set here; those of another file would be wrong.
    indices, transaction : bytes, optional
        Messages of the two sections, without length prefixes.
    dictionaries : bytes
        Values of 0.1 dictionary fields; their positions in the schema count from the start of the file.

    Source: table sheet, section 1.1.
    """
    parts, position = [dictionaries], len(dictionaries)
    for field in ("index_section", "transaction_section", "transaction_section_deprecated"):
        message.ClearField(field)
    if indices is not None:
        message.index_section = position
        parts += [len(indices).to_bytes(4, "little"), indices]
        position += 4 + len(indices)
    if transaction is not None:
        message.transaction_section = position
        parts += [len(transaction).to_bytes(4, "little"), transaction]
        position += 4 + len(transaction)
    body = message.SerializeToString()
    footer = position.to_bytes(8, "little") + bytes((0, 0, 2, 0)) + b"LANC"
    return b"".join([*parts, len(body).to_bytes(4, "little"), body, footer])


def with_places(
    data: bytes, place_of: Callable[[BasePath], str | None], path: str, limits: Limits = DEFAULT_LIMITS
) -> bytes:
    """A manifest file with other paths of its bases; everything else in it stays, unknown fields too.

    Parameters
    ----------
    data : bytes
        The whole file.
    place_of : function of a BasePath
        The new path of a base, None to keep it.
    path : str
        For errors.
    limits : Limits

    Raises
    ------
    FormatError, LimitError
        The file is damaged.
    """
    try:
        raw, message = parsed(np.frombuffer(data, np.uint8), limits)
        known = decode_base_paths(message.base_paths)
    except LanceError as error:
        raise error.within(path)
    places = {number: place for number, base in known.items() if (place := place_of(base)) is not None}
    if all(known[number].path == place for number, place in places.items()):
        return data
    for base in message.base_paths:
        base.path = places.get(base.id, base.path)
    # The same bytes each time, so that a copy that continues knows its own manifests.
    body = message.SerializeToString(deterministic=True)
    sections = data[: len(data) - _FOOTER_BYTES - len(raw) - 4]
    return b"".join([sections, len(body).to_bytes(4, "little"), body, data[-_FOOTER_BYTES:]])


def section(memory: Memory, position: int, what: str) -> tuple[int, int]:
    """Position and length of the message behind the length prefix at ``position``.

    Raises
    ------
    FormatError
        The prefix or the message would pass the end of the file.
    """
    end = memory.size - _FOOTER_BYTES
    if position < 0 or position > end - 4:
        raise FormatError(f"{what} at byte {position} of a file of {memory.size} bytes", position=position)
    length = int.from_bytes(memory[position : position + 4].tobytes(), "little")
    if length > end - position - 4:
        raise TruncatedError(f"{what} of {length} bytes passes the end of the file", position=position)
    return position + 4, length


def parsed(memory: Memory, limits: Limits) -> tuple[bytes, table_pb2.Manifest]:
    """The message of a manifest file, as its bytes and parsed.

    Raises
    ------
    FormatError, LimitError
        The file does not end as a manifest does, or the message is invalid or too long.
    """
    raw = _message_bytes(memory, limits)
    return raw, parse_message(table_pb2.Manifest, raw, "manifest", limits)


def _message_bytes(memory: Memory, limits: Limits) -> bytes:
    if memory.size < _FOOTER_BYTES + 4:
        raise TruncatedError(f"a manifest file of {memory.size} bytes")
    footer = memory[-_FOOTER_BYTES:].tobytes()
    if footer[12:] != b"LANC":
        raise FormatError("the file does not end in LANC: it is not a manifest or was not written completely")
    position, length = section(memory, int.from_bytes(footer[:8], "little", signed=True), "manifest")
    if position + length != memory.size - _FOOTER_BYTES:
        raise FormatError(f"manifest of {length} bytes at byte {position} does not end at the footer")
    limits.check("metadata_bytes", length, "size of manifest")
    return memory[position : position + length].tobytes()


def _manifest(message: table_pb2.Manifest, memory: Memory, looked_at: Callable[[], _Found]) -> Manifest:
    if message.version == 0:
        raise FormatError("a manifest without a version")
    refuse_tree(message)
    storage = message.data_format
    if storage.file_format not in ("", "lance"):
        raise UnsupportedError(f"data files of format {storage.file_format!r}", feature=storage.file_format)
    makers: dict[str, Callable[[], object]] = {
        "schema": lambda: build_schema(message.fields, message.schema_metadata)
    }
    found = looked_at()
    makers["fragments"] = found.make
    return Manifest.later(
        makers,
        found.table,
        found.one,
        version=message.version,
        timestamp=time_of(message),
        tag=message.tag or None,
        reader_flags=message.reader_feature_flags,
        writer_flags=message.writer_feature_flags,
        max_fragment_id=message.max_fragment_id if message.HasField("max_fragment_id") else None,
        next_row_id=message.next_row_id,
        data_version=storage.version or None,
        writer=_writer(message),
        config=dict(message.config) if message.config else {},
        table_metadata=dict(message.table_metadata) if message.table_metadata else {},
        base_paths=decode_base_paths(message.base_paths),
        branch=message.branch if message.HasField("branch") else None,
        transaction_file=message.transaction_file or None,
        index_section=section(memory, message.index_section, "index section")
        if message.HasField("index_section")
        else None,
        transaction_section=transaction_section(message, memory),
    )


def refuse_tree(message: table_pb2.Manifest) -> None:
    """Refuse a version whose message does not list its fragments.

    Raises
    ------
    UnsupportedError
    """
    if message.HasField("fragment_tree"):
        raise UnsupportedError("the fragments of this table are in a fragment tree", feature="fragment tree")


def transaction_section(message: table_pb2.Manifest, memory: Memory) -> tuple[int, int] | None:
    """Position and length of the transaction in a manifest file, None if it has none.

    Raises
    ------
    FormatError
        It would pass the end of the file.
    """
    # Field 23 replaced 21 in 2026; a file without an index section has position 0.
    if message.HasField("transaction_section"):
        return section(memory, message.transaction_section, "transaction")
    if message.HasField("transaction_section_deprecated"):
        return section(memory, message.transaction_section_deprecated, "transaction")
    return None


def time_of(message: table_pb2.Manifest) -> datetime | None:
    """The time of a version, UTC; None if the message states none.

    Raises
    ------
    FormatError
        It is no point in time.
    """
    if not message.HasField("timestamp"):
        return None
    seconds, nanos = message.timestamp.seconds, message.timestamp.nanos
    if not 0 <= nanos < 1_000_000_000:
        raise FormatError(f"timestamp with {nanos} nanoseconds")
    try:
        return _EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1000)
    except OverflowError as error:
        raise FormatError(f"timestamp of {seconds} seconds") from error


def _writer(message: table_pb2.Manifest) -> WriterVersion | None:
    if not message.HasField("writer_version"):
        return None
    return WriterVersion(message.writer_version.library, message.writer_version.version)


def _checked_in_bulk(message: table_pb2.Manifest, raw: bytes, limits: Limits) -> _Found:
    """What makes the checked fragments."""
    count = limits.check("fragments", len(message.fragments), "number of fragments")
    if count < MIN_FRAGMENTS:
        fragments = _fragments(message, limits)
        return _Found(lambda: fragments)
    pieces = _pieces_of_recent(message, limits)
    if pieces is not None:
        fragments = _fragments(message, limits, pieces)
        return _Found(lambda: fragments, partial(check_bulk, raw, count, limits))
    found = check_bulk(raw, count, limits)
    if found is not None:
        return _Found(partial(_fragments, message, limits), lambda: found, partial(_one, message, {}, limits))
    fragments = _fragments(message, limits)
    return _Found(lambda: fragments)


def _table(message: table_pb2.Manifest, limits: Limits) -> FragmentTable | None:
    """Columns of valid fragments; None if only the fragments tell."""
    count = len(message.fragments)
    return check_bulk(message.SerializeToString(), count, limits) if count >= MIN_FRAGMENTS else None


def _one(
    message: table_pb2.Manifest, shared: dict[tuple[int, ...], tuple[int, ...]], limits: Limits, index: int
) -> Fragment:
    return decode_fragment(message.fragments[index], shared, limits)


class _RecentFragments:
    """The fragments of the manifest that was decoded last, by their messages: the next version has most of them too.

    Safe to share between threads, as both are replaced at once.
    """

    def __init__(self) -> None:
        self._kept: tuple[Limits | None, dict[bytes, Fragment]] = None, {}

    def of(self, limits: Limits) -> Mapping[bytes, Fragment]:
        """The fragments that these limits allow."""
        allowed_by, fragments = self._kept
        return fragments if allowed_by == limits else {}

    def keep(self, pieces: Sequence[bytes], fragments: Sequence[Fragment], limits: Limits) -> None:
        if len(fragments) <= _MOST_FRAGMENTS:
            self._kept = limits, dict(zip(pieces, fragments, strict=True))


_RECENT = _RecentFragments()


def _pieces(message: table_pb2.Manifest) -> Sequence[bytes]:
    """The serialized message of each fragment."""
    found: Sequence[bytes] = parsed_columns("Manifest", message.SerializeToString()).fragments
    return found


def _pieces_of_recent(message: table_pb2.Manifest, limits: Limits) -> Sequence[bytes] | None:
    """The messages of fragments of which few are new, so that it takes less time to make them than to check all; else None."""
    known, count = _RECENT.of(limits), len(message.fragments)
    if 8 * len(known) < 7 * count:
        return None
    pieces = _pieces(message)
    return pieces if 8 * sum(piece not in known for piece in pieces) <= count else None


def _fragments(
    message: table_pb2.Manifest, limits: Limits, pieces: Sequence[bytes] | None = None
) -> tuple[Fragment, ...]:
    """The checked fragments; ``pieces`` are their messages, if these are known already."""
    pieces, known = list(_pieces(message) if pieces is None else pieces), _RECENT.of(limits)
    # Most fragments list the same fields, and share one tuple.
    shared: dict[tuple[int, ...], tuple[int, ...]] = {}
    fragments = [
        known.get(piece) or decode_fragment(message.fragments[index], shared, limits)
        for index, piece in enumerate(pieces)
    ]
    _RECENT.keep(pieces, fragments, limits)
    ids = [fragment.id for fragment in fragments]
    if any(one >= following for one, following in pairwise(ids)):
        fragments = _ordered(fragments, message)
    return tuple(fragments)


def _ordered(fragments: list[Fragment], message: table_pb2.Manifest) -> list[Fragment]:
    """The fragments by ascending id; by position for the C++ releases, which assigned no ids."""
    if (
        not message.HasField("max_fragment_id")
        and all(f.id == 0 for f in fragments)
        and all(f.deletion_file is None for f in fragments)
    ):
        return [replace(fragment, id=number) for number, fragment in enumerate(fragments)]
    found: list[Fragment] = []
    seen: Counter[int] = Counter()
    for fragment in sorted(fragments, key=attrgetter("id")):
        before, seen[fragment.id] = seen[fragment.id], seen[fragment.id] + 1
        if before and message.reader_feature_flags & flags.STABLE_ROW_IDS:
            raise FormatError(f"two fragments have id {fragment.id}")
        # 0.16.0 gave ids twice; such fragments are read like any other.
        found.append(replace(fragment, id=fragment.id + (before << 32)) if before else fragment)
    return found
