"""Rewrites a group of fragments as new data files, without deleted rows.

Pages of a fragment are copied as they are if none of its rows is deleted, its files have the version of the new file,
and its pages are large: small ones are what a compaction merges, so their rows are decoded and encoded anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import pyarrow as pa

from lancecy.changes.carried import carried
from lancecy.changes.compaction_options import CompactionSettings
from lancecy.changes.options import WriteRequest
from lancecy.changes.planning import Plan, planned
from lancecy.errors import UnsupportedError, printable
from lancecy.file.v2.reader import V2Reader
from lancecy.file.v2.stored_pages import StoredColumn, StoredRows
from lancecy.scanning import threads
from lancecy.scanning.context import ScanContext
from lancecy.scanning.plan import ScanPlan, plan, unit_sizes
from lancecy.scanning.request import make_request
from lancecy.scanning.task import ScanSpec, ScanUnit
from lancecy.schema import Field
from lancecy.store.reads import run
from lancecy.table.manifest import Fragment
from lancecy.write.fragments import FileLimits, NewFiles
from lancecy.write.metadata import FragmentMetadata
from lancecy.write.progress import WriteCallback, WriteProgress

__all__ = ["Rewriter"]

# Smaller pages are merged: reading one of 8,192 rows takes about as long as finding it.
_LARGE_ROWS = 8192
_LARGE_BYTES = 256 << 10


@dataclass(frozen=True)
class Rewriter:
    """Rewrites groups of fragments of one snapshot.

    Attributes
    ----------
    context : ScanContext
    settings : CompactionSettings
    progress : function of a Step, or FileProgress, optional
    durable : bool
        Whether written files are synced to disk.
    tag : str
        Hexadecimal digits at the end of all file names.

    Examples
    --------
    >>> import lancecy
    >>> rewriter = Rewriter(lancecy.dataset("example.lance").context, CompactionSettings())
    >>> rewriter.version
    '0.1'
    """

    context: ScanContext
    settings: CompactionSettings
    progress: WriteCallback | None = None
    durable: bool = True
    tag: str = ""

    @property
    def version(self) -> str:
        """Version of the new files."""
        return self._plan(1).version

    def rewrite(
        self, fragments: Sequence[Fragment], number: int = 0
    ) -> tuple[NewFiles, tuple[FragmentMetadata, ...]]:
        """Write the live rows of some neighbouring fragments to new files.

        Parameters
        ----------
        fragments : sequence of Fragment
            In table order.
        number : int
            Number of the group. Each begins with the next base, so that all fill evenly.

        Returns
        -------
        NewFiles
            To remove the files if they are not committed.
        tuple of FragmentMetadata
            The new fragments with ids 0; in tables with stable row ids with the row ids and versions of the rows.

        Raises
        ------
        UnsupportedError
            The files cannot hold the columns, or pages must be copied and cannot be.
        FormatError, StoreError
            The rows cannot be read, or not written; no file is left behind.
        """
        snapshot, rows = self.context.snapshot, sum(map(self.context.live_rows, fragments))
        target = self.settings.target_rows_per_fragment
        num_files = max(1, rows // target)
        written = self._plan(-(-rows // num_files))
        request = self._request(-(-rows // num_files))
        files = written.new_files(snapshot.location, snapshot.session, request, self.tag, number)
        report = WriteProgress(self.progress, rows)
        made = files.write(self._rows(fragments, written, num_files == 1), report)
        return files, carried(snapshot, fragments, made)

    def _request(self, rows_per_file: int) -> WriteRequest:
        settings = self.settings
        return WriteRequest(
            "append",
            settings.data_storage_version,
            target_bases=settings.target_bases,
            limits=FileLimits(
                max(1, rows_per_file), settings.max_bytes_per_file, settings.max_rows_per_group
            ),
            durable=self.durable,
        )

    def _plan(self, rows_per_file: int) -> Plan:
        snapshot = self.context.snapshot
        return planned(snapshot.schema.arrow, snapshot.location.uri, snapshot, self._request(rows_per_file))

    def _rows(
        self, fragments: Sequence[Fragment], written: Plan, is_one_file: bool
    ) -> Iterator[pa.RecordBatch | StoredRows]:
        """The rows of the fragments, in order: pages where they can be copied, else batches."""
        copies = {
            fragment.id: rows
            for fragment in fragments
            if (rows := self._copy(fragment, written, is_one_file)) is not None
        }
        for is_copied, run_ in groupby(fragments, lambda fragment: fragment.id in copies):
            if is_copied:
                yield from (copies[fragment.id] for fragment in run_)
            else:
                yield from self._batches([fragment.id for fragment in run_])

    # -- copied pages

    def _copy(self, fragment: Fragment, written: Plan, is_one_file: bool) -> StoredRows | None:
        """The pages of a fragment if they are to be copied."""
        mode = self.settings.compaction_mode
        if mode == "reencode" or (mode is None and not self._may_have_large_pages(fragment)):
            return None
        try:
            if not is_one_file:
                raise _not_copied("its group becomes several files")
            rows = self._stored(fragment, written)
        except UnsupportedError as error:
            if mode == "force_binary_copy":
                raise error.within(f"fragment {fragment.id}")
            return None
        return rows if mode is not None or _has_large_pages(rows) else None

    def _may_have_large_pages(self, fragment: Fragment) -> bool:
        """Whether it is worth the time to read the metadata of all columns."""
        columns = max(1, sum(len(file.fields) for file in fragment.files))
        nbytes = sum(file.size or 0 for file in fragment.files)
        rows = fragment.physical_rows or 0
        return rows >= _LARGE_ROWS or nbytes / columns >= _LARGE_BYTES

    def _stored(self, fragment: Fragment, written: Plan) -> StoredRows:
        files = self.context.files(fragment.id)
        if files.deleted is not None and len(files.deleted):
            raise _not_copied("rows are deleted")
        by_part: dict[int, list[Field]] = {}
        for field in written.written.fields:
            by_part.setdefault(self._part_of(fragment, field, written.version), []).append(field)
        fetch = self.context.session.fetch
        found: dict[int, StoredColumn] = {}
        for number, fields in by_part.items():
            reader = files.parts[number].reader
            if isinstance(reader, V2Reader):
                found.update((column.field_id, column) for column in run(reader.stored(fields), fetch))
        order = [node.id for field in written.written.fields for node in field.walk() if node.id in found]
        columns = tuple(found[field_id] for field_id in order)
        return StoredRows(files.num_rows, columns, fetch, self.settings.binary_copy_read_batch_bytes)

    def _part_of(self, fragment: Fragment, field: Field, version: str) -> int:
        """Number of the file that holds a whole top-level column, in the version of the new file."""
        for number, part in enumerate(self.context.files(fragment.id).parts):
            if field.id in part.ids or any(node.id in part.ids for node in field.walk()):
                if not isinstance(part.reader, V2Reader):
                    raise _not_copied("files of 0.1 have positions among their values")
                stated = "{}.{}".format(*part.reader.version)
                if stated != version:
                    raise _not_copied(f"a file has version {stated}, and the new one {version}")
                return number
        raise _not_copied(f"column {printable(field.name)!r} is in no file")

    # -- decoded rows

    def _batches(self, fragment_ids: Sequence[int]) -> Iterator[pa.RecordBatch]:
        """The live rows of fragments in order, read in windows; the next one while the caller writes this one."""
        context, snapshot = self.context, self.context.snapshot
        request = make_request(snapshot.schema.arrow, fragments=fragment_ids)
        budget = self.settings.io_buffer_size or threads.DEFAULT_BUDGET
        spec = ScanSpec(snapshot.location, snapshot.version, request)
        scanned = plan(context, request, spec, max(1 << 18, budget // 12), exact=True)

        def read(window: Sequence[ScanUnit]) -> pa.Table:
            table, _ = threads.read_units(context, scanned.projection, window, request)
            context.release(window)
            return table

        for _, table in threads.read_ahead(context, _windows(context, scanned, budget // 3), read):
            yield from table.to_batches(max_chunksize=self.settings.batch_size)
            del table


def _windows(context: ScanContext, scanned: ScanPlan, most: int) -> Iterator[tuple[ScanUnit, ...]]:
    """Units that are read at once, of at most so many bytes unless one has more."""
    sizes = unit_sizes(context, scanned.projection, scanned.units)
    # Two windows at least, so that one is read while another is written.
    most = max(1, min(most, int(sum(sizes) / 4)))
    window: list[ScanUnit] = []
    filled = 0.0
    for unit, nbytes in zip(scanned.units, sizes, strict=True):
        if window and filled + nbytes > most:
            yield tuple(window)
            window, filled = [], 0.0
        window.append(unit)
        filled += nbytes
    if window:
        yield tuple(window)


def _has_large_pages(rows: StoredRows) -> bool:
    pages = sum(column.num_pages for column in rows.columns)
    return rows.num_rows >= _LARGE_ROWS * rows.num_pages or rows.nbytes >= _LARGE_BYTES * pages


def _not_copied(reason: str) -> UnsupportedError:
    return UnsupportedError(f"its pages cannot be copied: {reason}", feature="copy of pages")
