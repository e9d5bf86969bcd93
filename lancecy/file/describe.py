"""What a data file says of itself: its fields and rows; and its columns and pages, for people.

A reader needs the table's schema; a description needs only the file. It also works for files that belong to no
table, and states why a column cannot be read.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from lancecy.encodings.model.fields import spec_of
from lancecy.encodings.model.ledger import ByteLedger
from lancecy.encodings.model.pages import Column
from lancecy.encodings.model.spec import StructOf
from lancecy.errors import FormatError, LanceError, TruncatedError, printable
from lancecy.file.standalone import open_standalone
from lancecy.file.tail import FOOTER_BYTES, Tail, parse_footer, read_parts, read_tail
from lancecy.file.v0.meta import all_nodes
from lancecy.file.v0.reader import V0Reader, open_v0
from lancecy.file.v0.wire import V0Metadata, decode_metadata, written_fields
from lancecy.file.v2.meta import SpecCache, build_columns, open_container
from lancecy.file.v2.wire import Parts, column_names
from lancecy.limits import DEFAULT_LIMITS, Limits
from lancecy.records import dataclass
from lancecy.schema import Field
from lancecy.store.reads import Read, SourceFile, named

__all__ = ["ColumnDescription", "FileContents", "FileDescription", "describe_file", "file_contents"]


@dataclass(frozen=True, slots=True, eq=False)
class ColumnDescription:
    """One physical column.

    Attributes
    ----------
    name : str
        Dotted; for unnamed columns, their number.
    logical_type : str
        As the format writes it; "" if unknown.
    pages : Column or None
        None if its metadata cannot be read.
    problem : str
        Reason why the metadata cannot be read.
    """

    name: str
    logical_type: str
    pages: Column | None
    problem: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class FileDescription:
    """The description of a file.

    Attributes
    ----------
    version : (major, minor)
        (0, 1), or the version of a 2.x file; version 2.0 is always (2, 0).
    num_rows : int
    size : int, bytes
    metadata_bytes : int
        Estimated metadata bytes at the end of the file.
    columns : tuple of ColumnDescription
    """

    version: tuple[int, int]
    num_rows: int
    size: int
    metadata_bytes: int
    columns: tuple[ColumnDescription, ...]


@dataclass(frozen=True, slots=True)
class FileContents:
    """The contents of a data file, without its table.

    Attributes
    ----------
    version : (major, minor)
        As manifests state it; (0, 2) for a file of 0.1.
    num_rows : int
    fields : tuple of Field
        Top level, with the ids in the file, which a table may have given to other columns since.
    columns : mapping of field id to column number
        Fields with a column of their own; empty for a file of 0.1, whose pages are found by field ids.
    """

    version: tuple[int, int]
    num_rows: int
    fields: tuple[Field, ...]
    columns: Mapping[int, int]


def describe_file(source: SourceFile, limits: Limits = DEFAULT_LIMITS) -> Read[FileDescription]:
    """Read only the metadata of a data file of any version.

    Parameters
    ----------
    source : SourceFile
    limits : Limits

    Raises
    ------
    FormatError, LimitError
        The file is damaged, or not a data file.
    """
    return named(_describe(source, limits), source.path)


def file_contents(source: SourceFile, limits: Limits = DEFAULT_LIMITS) -> Read[FileContents]:
    """Read the metadata of a data file of any version.

    Parameters
    ----------
    source : SourceFile
    limits : Limits

    Raises
    ------
    FormatError, LimitError
        The file is damaged, or no data file.
    UnsupportedError
        The file is of a release that gave some fields several columns.
    """
    return named(_contents(source, limits), source.path)


def _contents(source: SourceFile, limits: Limits) -> Read[FileContents]:
    tail = yield from read_tail(source)
    if parse_footer(tail.memory).is_v2:
        file = yield from open_standalone(source, limits)
        return FileContents(
            file.reader.version, file.reader.num_rows, file.columns.fields, file.columns.numbers
        )
    metadata, fields = yield from _written(source, tail, limits)
    return FileContents((0, 2), int(metadata.row_starts[-1]), fields, {})


def _describe(source: SourceFile, limits: Limits) -> Read[FileDescription]:
    tail = yield from read_tail(source)
    if parse_footer(tail.memory).is_v2:
        return (yield from _describe_v2(source, limits))
    return (yield from _describe_v0(source, tail, limits))


# -- 2.x -----------------------------------------------------------------------------


def _describe_v2(source: SourceFile, limits: Limits) -> Read[FileDescription]:
    container = yield from open_container(source, limits)
    numbers = range(container.num_columns)
    parts = [container.descriptor, *(container.part(number) for number in numbers)]
    descriptor, *data = yield from read_parts(source, container.held, parts)
    names = column_names(descriptor, container.version, limits)
    if len(names) != container.num_columns:
        # The first releases gave strings two columns, which a file alone does not show.
        names = [(f"column {number}", "") for number in numbers]
    specs, ledger = SpecCache(container.version, limits), ByteLedger()
    columns = []
    for number, (name, kind) in zip(numbers, names, strict=True):
        column = ColumnDescription(printable(name), printable(kind), None)
        try:
            part = Parts.of([data[number]])
            [pages] = build_columns(part, [number], source.size, limits, specs, ledger)
        except LanceError as error:
            columns.append(replace(column, problem=str(error)))
        else:
            columns.append(replace(column, pages=pages))
    used = source.size - container.data_bytes
    return FileDescription(container.version, container.num_rows, source.size, used, tuple(columns))


# -- 0.1 -----------------------------------------------------------------------------


def _describe_v0(source: SourceFile, tail: Tail, limits: Limits) -> Read[FileDescription]:
    metadata, fields = yield from _written(source, tail, limits)
    ids = [node.id for top in fields for node in top.walk()]
    reader = yield from open_v0(source, ids, fields, limits)
    columns = tuple(column for top in fields for column in _legacy_columns(reader, top))
    used = source.size - metadata.page_table_position
    return FileDescription((0, 1), reader.num_rows, source.size, used, columns)


def _written(source: SourceFile, tail: Tail, limits: Limits) -> Read[tuple[V0Metadata, tuple[Field, ...]]]:
    """Metadata of a file of 0.1, and the fields in the manifest within it."""
    block = yield from _embedded_block(source, tail, parse_footer(tail.memory).position, "metadata")
    metadata = decode_metadata(block, limits)
    if metadata.manifest_position == 0:
        raise FormatError("the file does not say which fields it holds; only its table knows")
    manifest = yield from _embedded_block(source, tail, metadata.manifest_position, "embedded manifest")
    return metadata, written_fields(manifest, limits)


def _embedded_block(source: SourceFile, tail: Tail, position: int, what: str) -> Read[np.ndarray]:
    """Read a message that a file of 0.1 stores after its length.

    Parameters
    ----------
    source : SourceFile
    tail : Tail
    position : int, bytes
        Position of the length.
    what : str
        The message, for errors.

    Raises
    ------
    FormatError
        The position or the length is outside the file.
    """
    end = source.size - FOOTER_BYTES
    if not 0 <= position <= end - 4:
        raise FormatError(f"the {what} lies outside the file", position=position)
    (prefix,) = yield from read_parts(source, tail, [(position, 4)])
    (length,) = struct.unpack("<I", prefix.tobytes())
    if length > end - position - 4:
        raise TruncatedError(
            f"the {what} claims {length} bytes, where {end - position - 4} are left", position=position
        )
    (block,) = yield from read_parts(source, tail, [(position + 4, length)])
    return block


def _legacy_columns(reader: V0Reader, top: Field) -> Iterator[ColumnDescription]:
    """Yield each node of a field that has pages; elements of lists count their own rows."""
    names = dict(_dotted(top, ""))
    kinds = {node.id: printable(node.logical_type) for node in top.walk()}
    try:
        nodes = list(all_nodes([(top.id, spec_of(top))]))
    except LanceError as error:
        yield ColumnDescription(names[top.id], kinds[top.id], None, str(error))
        return
    for column_id, spec in nodes:
        if isinstance(spec, StructOf):
            continue
        rows, positions, sizes = reader.pages_of(column_id, spec)
        starts = np.concatenate(([0], np.cumsum(rows))).astype(np.int64)
        buffers = np.arange(positions.size + 1, dtype=np.int64)
        specs, nbytes = (spec,) * positions.size, int(sizes.sum())
        pages = Column(column_id, False, starts, specs, buffers, positions, sizes, nbytes)
        yield ColumnDescription(names[column_id], kinds[column_id], pages)


def _dotted(node: Field, above: str) -> Iterator[tuple[int, str]]:
    name = f"{above}.{printable(node.name)}" if above else printable(node.name)
    yield node.id, name
    for child in node.children:
        yield from _dotted(child, name)
