"""Rewrites a group of fragments as new data files, without deleted rows.

Large pages are copied as they are (``compaction_copies``); other rows are decoded and encoded anew, which merges pages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancecy.changes.compaction_copies import copied_fragments
from lancecy.changes.compaction_options import CompactionSettings
from lancecy.changes.moves import moved
from lancecy.changes.options import WriteRequest
from lancecy.changes.planning import Plan, planned
from lancecy.errors import UnsupportedError
from lancecy.file.v2.stored_pages import StoredRows
from lancecy.scanning import threads
from lancecy.scanning.context import ScanContext
from lancecy.scanning.plan import ScanPlan, plan, unit_sizes
from lancecy.scanning.request import make_request
from lancecy.scanning.task import ScanSpec, ScanUnit
from lancecy.table.manifest import Fragment
from lancecy.table.snapshot import Snapshot
from lancecy.write.fragments import FileLimits, NewFiles
from lancecy.write.metadata import FragmentMetadata
from lancecy.write.progress import WriteCallback, WriteProgress

__all__ = ["Rewriter"]


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
        copies = self._copies(fragments, written, num_files)
        files = written.new_files(snapshot.location, snapshot.session, request, self.tag, number)
        report = WriteProgress(self.progress, rows)
        made = files.write(self._rows(fragments, copies), report)
        kept = moved(snapshot, made, _addresses(snapshot, fragments), are_updated=False)
        return files, tuple(map(FragmentMetadata.of, kept))

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

    def _copies(self, fragments: Sequence[Fragment], written: Plan, num_files: int) -> dict[int, StoredRows]:
        if num_files == 1:
            return copied_fragments(self.context, fragments, written, self.settings)
        if self.settings.compaction_mode == "force_binary_copy":
            raise UnsupportedError(
                f"pages cannot be copied where {len(fragments)} fragments become {num_files} files: give a larger "
                "target_rows_per_fragment",
                feature="copy of pages",
            )
        return {}

    def _rows(
        self, fragments: Sequence[Fragment], copies: Mapping[int, StoredRows]
    ) -> Iterator[pa.RecordBatch | StoredRows]:
        """The rows of the fragments, in order: pages where they are copied, else batches."""
        for is_copied, run_ in groupby(fragments, lambda fragment: fragment.id in copies):
            if is_copied:
                yield from (copies[fragment.id] for fragment in run_)
            else:
                yield from self._batches([fragment.id for fragment in run_])

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


def _addresses(snapshot: Snapshot, fragments: Sequence[Fragment]) -> NDArray[np.uint64]:
    """(num_rows,) uint64: row addresses of the live rows; empty in a table where nobody needs them."""
    if not snapshot.manifest.has_stable_row_ids:
        return np.empty(0, np.uint64)
    parts = []
    for fragment in fragments:
        rows = np.arange(fragment.physical_rows or 0, dtype=np.uint64)
        deleted = snapshot.deletions(fragment)
        alive = rows if deleted is None else np.delete(rows, deleted.offsets)
        parts.append(alive | np.uint64(fragment.stored_id << 32))
    return np.concatenate(parts)


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
