"""What a list of versions tells of each: its number, its time, counts of its files and rows, and where its transaction is.

No fragment is built or checked, so that thousands of versions are listed in little time.

Facts: table sheet, section 2.
"""

from __future__ import annotations

from datetime import datetime
from functools import cached_property

from lancecy.limits import DEFAULT_LIMITS, Limits
from lancecy.records import dataclass
from lancecy.store.base import Memory
from lancecy.table.wire.manifest import naming, parsed, refuse_tree, time_of, transaction_section
from lancecy.table.wire.message_columns import parsed_columns

__all__ = ["Outline", "decode_outline"]


@dataclass(frozen=True, eq=False)
class Outline:
    """One version, as its manifest file states it.

    Attributes
    ----------
    version : int
    timestamp : datetime or None
        UTC; None if the writer did not record it.
    transaction_file : str or None
    transaction_section : (int, int) or None
        As of :class:`~lancecy.table.manifest.Manifest`.
    message : bytes
        The serialized ``lance.table.Manifest``.
    """

    version: int
    timestamp: datetime | None
    transaction_file: str | None
    transaction_section: tuple[int, int] | None
    message: bytes

    @cached_property
    def counts(self) -> dict[str, int]:
        """Counts under the reference's keys; a count missing in the manifest is 0."""
        pieces = parsed_columns("Manifest", self.message).fragments
        fragments = parsed_columns("Fragments", b"".join(pieces))
        files = parsed_columns("Files", b"".join(fragments.files))
        deletions = parsed_columns("DeletionFiles", b"".join(fragments.deletion_files))
        rows, deleted = sum(fragments.physical_rows), sum(deletions.num_deleted_rows)
        return {
            "total_data_file_rows": rows,
            "total_data_files": len(fragments.files),
            "total_deletion_file_rows": deleted,
            "total_deletion_files": len(fragments.deletion_files),
            "total_files_size": sum(files.size),
            "total_fragments": len(pieces),
            "total_rows": rows - deleted,
        }


def decode_outline(memory: Memory, path: str, limits: Limits = DEFAULT_LIMITS) -> Outline:
    """The outline of the version in a manifest file.

    Parameters
    ----------
    memory : (file size,) uint8
        The whole file. Not kept.
    path : str
        For errors.

    Raises
    ------
    FormatError, LimitError
        As ``manifest.decode``, but fragments and fields are not checked.
    UnsupportedError
        The fragments are in a fragment tree.
    """
    with naming(path):
        raw, message = parsed(memory, limits)
        refuse_tree(message)
        limits.check("fragments", len(message.fragments), "number of fragments")
        section = transaction_section(message, memory)
        return Outline(message.version, time_of(message), message.transaction_file or None, section, raw)
