"""Which fragments of a compaction are copied page by page, and their pages."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TypeAlias

from lancecy.changes.compaction_options import CompactionSettings
from lancecy.changes.planning import Plan
from lancecy.errors import UnsupportedError, printable
from lancecy.file.base import FileReader
from lancecy.file.v0.reader import V0Reader
from lancecy.file.v0.stored_pages import CopiedBatches
from lancecy.file.v2.reader import V2Reader
from lancecy.file.v2.stored_pages import CopiedRows, StoredColumn, check_copyable
from lancecy.scanning.context import ScanContext
from lancecy.scanning.fragment import Part
from lancecy.schema import Field
from lancecy.store.reads import gather, run
from lancecy.table.manifest import Fragment

__all__ = ["Copied", "copied_fragments"]

Copied: TypeAlias = CopiedRows | CopiedBatches
"""Rows that are copied page by page, to files of 2.x or of 0.1."""

# Smaller pages are merged. Pages of numbers, texts and lists are decoded together (``encodings.v21.joined_pages``): a
# take of 1,000 rows from 100 of them takes about as long as from one.
_LARGE_ROWS = 8192
_LARGE_BYTES = 256 << 10
# Each page of codes has a dictionary of its own; a million rows in such pages as these are 16 pages.
_LARGE_ROWS_OF_CODES = 65_536
_LARGE_BYTES_OF_CODES = 1 << 20


def copied_fragments(
    context: ScanContext, fragments: Sequence[Fragment], written: Plan, settings: CompactionSettings
) -> dict[int, Copied]:
    """Pages of the fragments that a compaction copies into one file, by the fragments' ids.

    A fragment is copied if no row of it is deleted, its files have the version of the new file and hold every column,
    and its pages are large, or its batches of 0.1 nearly full. Pages of dictionaries must be
    larger. The mode can ask for all pages that can be copied, for none, or for an error.

    Parameters
    ----------
    context : ScanContext
    fragments : sequence of Fragment
    written : Plan
        Of the new files.
    settings : CompactionSettings

    Raises
    ------
    UnsupportedError
        The mode is "force_binary_copy", and pages cannot be copied.
    FormatError, StoreError
        A data file cannot be read.
    """
    mode = settings.compaction_mode
    if mode == "reencode":
        return {}
    is_forced = mode == "force_binary_copy"
    ids = frozenset(node.id for field in written.written.fields for node in field.walk())
    wanted = [part for part in fragments if mode is not None or _may_have_large_pages(part)]

    def pages_of(fragment: Fragment) -> Copied | None:
        try:
            rows = _stored_rows(context, fragment, written, ids, settings.binary_copy_read_batch_bytes)
        except UnsupportedError as error:
            if is_forced:
                raise error.within(f"fragment {fragment.id}")
            return None
        is_wanted = mode is not None or _has_large_pages(rows, settings.max_rows_per_group)
        return rows if is_wanted else None

    try:
        check_copyable(written.written.fields)
    except UnsupportedError:
        if is_forced:
            raise
        return {}
    if context.snapshot.is_mapped:
        # Opening is Python then, and threads would only wait for each other.
        found = [pages_of(part) for part in wanted]
    else:
        found = context.spread(pages_of, wanted, lambda fragment: fragment.id)
    return {part.id: rows for part, rows in zip(wanted, found, strict=True) if rows is not None}


def _may_have_large_pages(fragment: Fragment) -> bool:
    """Whether it is worth the time to read the metadata of all columns."""
    if fragment.deletion_file is not None:
        return False
    columns = max(1, sum(len(file.fields) for file in fragment.files))
    nbytes = sum(file.size or 0 for file in fragment.files)
    return (fragment.physical_rows or 0) >= _LARGE_ROWS or nbytes / columns >= _LARGE_BYTES


def _has_large_pages(rows: Copied, group: int) -> bool:
    if isinstance(rows, CopiedBatches):
        # The last batch of a file is not full.
        return rows.num_rows * 4 >= rows.stored.num_batches * group * 3
    pages = sum(column.num_pages for column in rows.columns)
    if rows.num_rows < _LARGE_ROWS * rows.num_pages and rows.nbytes < _LARGE_BYTES * pages:
        return False
    coded = [column for column in rows.columns if column.has_dictionaries]
    return all(
        rows.num_rows >= _LARGE_ROWS_OF_CODES * column.num_pages
        or column.nbytes >= _LARGE_BYTES_OF_CODES * column.num_pages
        for column in coded
    )


def _stored_rows(
    context: ScanContext, fragment: Fragment, written: Plan, ids: frozenset[int], read_bytes: int
) -> Copied:
    """All rows of a fragment as pages; refused if they cannot be copied."""
    files, fetch = context.files(fragment.id), context.session.fetch
    if files.deleted is not None and len(files.deleted):
        raise _refusal("rows are deleted")
    by_reader = _by_reader(context, fragment, written, ids)
    readers = list(by_reader)
    if isinstance(readers[0], V0Reader):
        if len(readers) > 1:
            raise _refusal("its columns are in several files")
        # Keeps no bytes, but checks a mapped file for changes once per read instead of once per round.
        fetcher = partial(context.session.fetcher, 0)
        return CopiedBatches(run(readers[0].stored(written.written.fields), fetch), fetcher)
    reads = [reader.stored(by_reader[reader]) for reader in readers if isinstance(reader, V2Reader)]
    columns: dict[int, StoredColumn] = {
        one.field_id: one for part in run(gather(reads), fetch) for one in part
    }
    order = [node.id for field in written.written.fields for node in field.walk() if node.id in columns]
    return CopiedRows(files.num_rows, tuple(columns[number] for number in order), fetch, read_bytes)


def _by_reader(
    context: ScanContext, fragment: Fragment, written: Plan, ids: frozenset[int]
) -> dict[FileReader, Sequence[Field]]:
    """The columns that each file of a fragment holds; ``ids`` are those of all fields."""
    fields, parts = written.written.fields, context.files(fragment.id).parts
    if len(parts) == 1 and ids <= parts[0].ids and _version_of(parts[0]) == written.version:
        return {parts[0].reader: fields}
    found: dict[FileReader, list[Field]] = {}
    for field in fields:
        found.setdefault(_reader_of(context, fragment, field, written.version), []).append(field)
    return dict(found)


def _reader_of(context: ScanContext, fragment: Fragment, field: Field, version: str) -> FileReader:
    """The file that holds a top-level column, of the version of the new file."""
    for part in context.files(fragment.id).parts:
        held = [node.id in part.ids for node in field.walk()]
        if any(held):
            stated = _version_of(part)
            if stated != version:
                raise _refusal(f"a file has version {stated}, and the new one {version}")
            if version == "0.1" and not all(held):
                raise _refusal(f"parts of column {printable(field.name)!r} are in no file")
            return part.reader
    raise _refusal(f"column {printable(field.name)!r} is in no file")


def _version_of(part: Part) -> str:
    return "{}.{}".format(*part.reader.version)


def _refusal(reason: str) -> UnsupportedError:
    return UnsupportedError(f"its pages cannot be copied: {reason}", feature="copy of pages")
