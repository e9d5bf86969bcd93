"""Data files of 2.x opened by the schema in themselves, without a table.

A file lists the fields it was written with, and their order determines the columns: from 2.1 on every leaf has one, in
2.0 every node. Blobs of 2.2 are read as descriptors, those of 2.0 and 2.1 as bytes, as pylance does.

Source: file sheet 2.0, section 3; file sheet 2.1, section 1.5.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from lancecy.errors import UnsupportedError
from lancecy.file.tail import parse_footer, read_parts, read_tail
from lancecy.file.v2.columns import FileColumns
from lancecy.file.v2.fields import FieldColumns
from lancecy.file.v2.meta import open_container
from lancecy.file.v2.reader import VERSIONS, V2Reader
from lancecy.file.v2.wire import decode_file_schema
from lancecy.limits import DEFAULT_LIMITS, Limits
from lancecy.records import dataclass
from lancecy.schema import Field, Schema
from lancecy.store.cache import ByteCache
from lancecy.store.reads import Read, SourceFile, named

__all__ = ["StandaloneFile", "open_standalone"]


@dataclass(frozen=True, slots=True, eq=False)
class StandaloneFile:
    """An opened data file with its own schema.

    Attributes
    ----------
    reader : V2Reader
    schema : Schema
        Of what is read.
    metadata_start : int, bytes
        Position of the metadata of the first column; that of the file's end without columns.
    columns : FieldColumns
        The fields as written, and their columns.
    """

    reader: V2Reader
    schema: Schema
    metadata_start: int
    columns: FieldColumns


def open_standalone(
    source: SourceFile, limits: Limits = DEFAULT_LIMITS, cache: ByteCache | None = None
) -> Read[StandaloneFile]:
    """Open a data file of 2.x without its table.

    Parameters
    ----------
    source : SourceFile
    limits : Limits
    cache : ByteCache, optional
        Cache for parsed pages.

    Raises
    ------
    FormatError, LimitError
        The file is damaged; the breadcrumb is its path.
    UnsupportedError
        The file is of version 0.1, or of a release that gave some fields several columns.
    """
    return named(_open(source, limits, cache), source.path)


def _open(source: SourceFile, limits: Limits, cache: ByteCache | None) -> Read[StandaloneFile]:
    tail = yield from read_tail(source)
    if not parse_footer(tail.memory).is_v2:
        raise UnsupportedError(
            "files of version 0.1 are read with their table: open it with lancecy.dataset",
            feature="files of 0.1 without their table",
        )
    container = yield from open_container(source, limits)
    if container.version not in VERSIONS:
        text = ".".join(map(str, container.version))
        raise UnsupportedError(f"data file of version {text}", feature=f"file version {text}")
    (descriptor,) = yield from read_parts(source, container.held, [container.descriptor])
    written = decode_file_schema(descriptor, limits)
    is_flat = container.version > (2, 0)
    find = _kept_fields if container.num_columns <= _FEW_COLUMNS else _fields_of
    num_nodes, columns, fields = find(written.fields, is_flat)
    if num_nodes != container.num_columns:
        raise UnsupportedError(
            f"the file has {container.num_columns} columns for {num_nodes} fields, which only its table explains: "
            "read it with lancecy.dataset",
            feature="files of the first releases",
        )
    start = int(container.positions.min(initial=source.size))
    reader = V2Reader(FileColumns(source, container, columns, limits, cache))
    return StandaloneFile(reader, Schema(fields, written.metadata), start, columns)


def _fields_of(written: tuple[Field, ...], is_flat: bool) -> tuple[int, FieldColumns, tuple[Field, ...]]:
    """The number of columns that these fields have, the fields and their columns, and the fields as they are read."""
    nodes = [node for top in written for node in _with_column(top, is_flat)]
    numbers = {node.id: number for number, node in enumerate(nodes)}
    listed = frozenset(node.id for top in written for node in top.walk())
    return len(nodes), FieldColumns(numbers, listed, written), tuple(map(_as_read, written))


# Files of an index have the same few fields in every table.
_kept_fields = lru_cache(maxsize=64)(_fields_of)
_FEW_COLUMNS = 16


def _with_column(field: Field, is_flat: bool) -> Iterator[Field]:
    """Yield nodes with a column; ``is_flat``: leaves and nodes that hold what is below them."""
    is_whole = field.is_whole or (field.is_fixed_list and not is_flat)
    if is_whole or not is_flat or not field.children:
        yield field
    if not is_whole:
        for child in field.children:
            yield from _with_column(child, is_flat)


def _as_read(field: Field) -> Field:
    """The field with descriptors in place of blobs of 2.2."""
    if field.is_blob_v2:
        return field.scanned
    if not field.children:
        return field
    return replace(field, children=tuple(map(_as_read, field.children)))
