"""Operations that lancecy reads and does not make, to check conflicts with them.

An operation that lancecy makes has a module of its own, and so have data overlays.
"""

from __future__ import annotations

from typing import NoReturn

from lancecy.errors import UnsupportedError
from lancecy.limits import Limits
from lancecy.proto import table_pb2, transaction_pb2
from lancecy.records import dataclass
from lancecy.table.operations.base import Footprint, NewManifest, Operation, VersionStamp
from lancecy.table.wire.indices import decode_index_section
from lancecy.table.wire.manifest_file import ManifestFile

__all__ = [
    "UNKNOWN",
    "Foreign",
    "Unknown",
    "UpdateMemWalState",
    "check_no_mem_wal",
]

_MEM_WAL = "__lance_mem_wal"


@dataclass(frozen=True, slots=True)
class Foreign(Operation):
    """An operation that lancecy does not make. Each subclass decodes one.

    Attributes
    ----------
    kind : str
        Its name in the conflict grid (``conflicts.COLUMNS``).
    changed : frozenset of int
        Fragments where only the deletion file changed.
    rewritten : frozenset of int
        Fragments that were removed or whose data files changed.
    fields : frozenset of int or None
        As in ``Footprint``.
    """

    kind: str
    changed: frozenset[int] = frozenset()
    rewritten: frozenset[int] = frozenset()
    fields: frozenset[int] | None = None

    @property
    def name(self) -> str:
        return self.kind

    @property
    def changes_schema(self) -> bool:
        return self.fields is not None

    def footprints(self) -> tuple[Footprint, ...]:
        return (Footprint(self.kind, self.changed, self.rewritten, fields=self.fields),)

    def apply(self, base: ManifestFile, stamp: VersionStamp) -> NewManifest:
        self._refuse()

    def encode(self, message: transaction_pb2.Transaction, made: table_pb2.Manifest) -> None:
        self._refuse()

    @classmethod
    def decode(cls, message: transaction_pb2.Transaction, limits: Limits) -> Operation:
        """The operation of the first kind, without fragments and fields; most subclasses decode more."""
        return cls(cls.kinds[0])

    def _refuse(self) -> NoReturn:
        raise ValueError(f"an operation of kind {self.kind!r} is not one that lancecy makes")


class Unknown(Foreign):
    """An operation that this release cannot read; it conflicts with everything."""

    kinds = ("unknown",)


UNKNOWN = Unknown("unknown")


class UpdateMemWalState(Foreign):
    """Change the state of the log."""

    kinds = ("mem_wal",)


def check_no_mem_wal(base: ManifestFile) -> None:
    """Refuse a change that would lose the rows of a write-ahead log.

    Raises
    ------
    UnsupportedError
        The table has such a log.
    """
    if base.indices and any(entry.name == _MEM_WAL for entry in decode_index_section(base.indices)):
        raise UnsupportedError(
            "the table has rows in a write-ahead log, which this change would lose", feature=_MEM_WAL
        )
