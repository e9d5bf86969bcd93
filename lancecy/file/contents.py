"""What a data file says of itself: its version, rows, and the fields it was written with."""

from __future__ import annotations

from collections.abc import Mapping

from lancecy.errors import FormatError
from lancecy.file.describe import embedded_block
from lancecy.file.standalone import open_standalone
from lancecy.file.tail import parse_footer, read_tail
from lancecy.file.v0.wire import decode_metadata, written_fields
from lancecy.limits import DEFAULT_LIMITS, Limits
from lancecy.records import dataclass
from lancecy.schema import Field
from lancecy.store.reads import Read, SourceFile, named

__all__ = ["FileContents", "file_contents"]


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
    footer = parse_footer(tail.memory)
    if footer.is_v2:
        file = yield from open_standalone(source, limits)
        return FileContents(
            file.reader.version, file.reader.num_rows, file.columns.fields, file.columns.numbers
        )
    metadata = decode_metadata((yield from embedded_block(source, tail, footer.position, "metadata")), limits)
    if metadata.manifest_position == 0:
        raise FormatError("the file does not say which fields it holds; only its table knows")
    manifest = yield from embedded_block(source, tail, metadata.manifest_position, "embedded manifest")
    return FileContents((0, 2), int(metadata.row_starts[-1]), written_fields(manifest, limits), {})
