"""Opening of data files: from a manifest entry to a ``FileReader``.

The manifest's version numbers decide the format of a file, not its footer: every footer occurs in 0.1 files (file
sheet 0.1, sections 1.1 and 7.1). For 2.x files both must agree.
"""

from __future__ import annotations

from collections.abc import Sequence

from lancecy.file.base import FileReader
from lancecy.file.v0.reader import open_v0
from lancecy.file.v2.reader import open_v2
from lancecy.limits import DEFAULT_LIMITS, Limits
from lancecy.schema import Field
from lancecy.store.cache import ByteCache
from lancecy.store.reads import Read, SourceFile

__all__ = ["opening"]


def opening(
    source: SourceFile,
    *,
    field_ids: Sequence[int],
    fields: Sequence[Field],
    major: int,
    minor: int,
    column_indices: Sequence[int] = (),
    limits: Limits = DEFAULT_LIMITS,
    dictionary_source: SourceFile | None = None,
    cache: ByteCache | None = None,
) -> Read[FileReader]:
    """A Read of the reader of a data file; one round of requests, or two if the metadata is large.

    Parameters
    ----------
    source : SourceFile
        With its size from the store.
    field_ids : sequence of int
        ``DataFile.fields`` as stored.
    fields : sequence of Field
        Top level of the table's schema; may have fields that the file does not hold.
    major, minor : int
        ``DataFile.major`` and ``DataFile.minor``: below 0.3 the file is a 0.1 file; 0.3 is 2.0.
    column_indices : sequence of int
        ``DataFile.column_indices``: parallel to ``field_ids`` for 2.x files, meaningless for others.
    limits : Limits
    dictionary_source : SourceFile or None
        The manifest file of the schema, with the values of dictionary fields of 0.1 tables.
    cache : ByteCache or None
        Cache for parsed pages of 2.x files.

    Raises
    ------
    FormatError, LimitError
        The file is damaged, or its footer has another version.
    UnsupportedError
        The version is not supported.
    """
    if major == 0 and minor < 3:
        return open_v0(source, field_ids, fields, limits, dictionary_source)
    return open_v2(source, field_ids, column_indices, fields, (major, minor), limits, cache)
