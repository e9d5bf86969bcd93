"""UpdateMemWalState: the write-ahead log of rows that are in no fragment yet; read only."""

from __future__ import annotations

from lancecy.errors import UnsupportedError
from lancecy.limits import Limits
from lancecy.proto import transaction_pb2
from lancecy.table.operations.foreign import Foreign
from lancecy.table.wire.indices import decode_index_section
from lancecy.table.wire.manifest_file import ManifestFile

__all__ = ["UpdateMemWalState", "check_no_mem_wal"]

_ENTRY = "__lance_mem_wal"


class UpdateMemWalState(Foreign):
    """Change the state of the log."""

    kinds = ("mem_wal",)

    @classmethod
    def decode(cls, message: transaction_pb2.Transaction, limits: Limits) -> UpdateMemWalState:
        return cls("mem_wal")


def check_no_mem_wal(base: ManifestFile) -> None:
    """Refuse a change that would lose the rows of a write-ahead log.

    Raises
    ------
    UnsupportedError
        The table has such a log.
    """
    if base.indices and any(entry.name == _ENTRY for entry in decode_index_section(base.indices)):
        raise UnsupportedError(
            "the table has rows in a write-ahead log, which this change would lose", feature=_ENTRY
        )
