"""Rewrites a group of fragments as new data files, without deleted rows.

Large pages are copied as they are (``compaction_copies``); other rows are decoded and encoded anew, which merges pages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancecy.changes.compaction_copies import Copied, copied_fragments
from lancecy.changes.compaction_options import CompactionSettings
from lancecy.changes.moves import moved
from lancecy.changes.options import WriteRequest
from lancecy.changes.planning import Plan, planned_move
from lancecy.changes.stored_rows import stored_rows
from lancecy.errors import UnsupportedError
from lancecy.records import dataclass
from lancecy.scanning.context import ScanContext
from lancecy.scanning.request import ScanRequest
from lancecy.scanning.threads import DEFAULT_BUDGET
from lancecy.table.manifest import Fragment
from lancecy.table.snapshot import Snapshot
from lancecy.write.fragments import FileLimits, NewFiles
from lancecy.write.metadata import FragmentMetadata
from lancecy.write.progress import WriteCallback, WriteProgress
from lancecy.write.targets import least_filled_first, targets

__all__ = ["Rewriter"]

# Rows whose ids are looked up at once: they take about 50 bytes each, and holes between them are stored in 16 bits.
_ROWS_AT_ONCE = 1 << 15


@dataclass(frozen=True)
class Rewriter:
    """Rewrites groups of fragments of one snapshot.

    Attributes
    ----------
    context : ScanContext
    settings : CompactionSettings
    progress : function of a Step, or FragmentWriteProgress, optional
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
        return self._plan().version

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
        written = self._plan()
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
            limits=FileLimits(
                max(1, rows_per_file), settings.max_bytes_per_file, settings.max_rows_per_group
            ),
            durable=self.durable,
        )

    def _plan(self) -> Plan:
        snapshot, bases = self.context.snapshot, self.settings.target_bases
        written = planned_move(snapshot, self.settings.data_storage_version)
        if bases is None:
            return written
        chosen = targets(written.base_paths, bases, own=snapshot.location.uri)
        return replace(written, targets=least_filled_first(chosen, snapshot.fragments))

    def _copies(self, fragments: Sequence[Fragment], written: Plan, num_files: int) -> dict[int, Copied]:
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
        self, fragments: Sequence[Fragment], copies: Mapping[int, Copied]
    ) -> Iterator[pa.RecordBatch | Copied]:
        """The rows of the fragments, in order: pages where they are copied, else batches."""
        for is_copied, run_ in groupby(fragments, lambda fragment: fragment.id in copies):
            if is_copied:
                yield from (copies[fragment.id] for fragment in run_)
            else:
                yield from self._batches([fragment.id for fragment in run_])

    def _batches(self, fragment_ids: Sequence[int]) -> Iterator[pa.RecordBatch]:
        """The live rows of fragments in order, as data files hold them."""
        request = ScanRequest(fragments=tuple(fragment_ids), batch_size=self.settings.batch_size)
        budget = self.settings.io_buffer_size or DEFAULT_BUDGET
        for rows in stored_rows(self.context, request, budget):
            yield rows.batch


def _addresses(snapshot: Snapshot, fragments: Sequence[Fragment]) -> Iterator[NDArray[np.uint64]]:
    """Row addresses of the live rows, (num_rows,) uint64, in pieces: those of all rows may take more than the budget."""
    for fragment in fragments:
        deleted = snapshot.deletions(fragment)
        gone = np.empty(0, np.uint64) if deleted is None else deleted.offsets.astype(np.uint64)
        num_rows = fragment.physical_rows or 0
        for start in range(0, num_rows, _ROWS_AT_ONCE):
            stop = min(start + _ROWS_AT_ONCE, num_rows)
            first, last = np.searchsorted(gone, [start, stop])
            alive = np.delete(
                np.arange(start, stop, dtype=np.uint64),
                (gone[first:last] - np.uint64(start)).astype(np.int64),
            )
            yield alive | np.uint64(fragment.stored_id << 32)
