"""The base class of operations that lancecy reads and does not make, to check conflicts with them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

from lancecy.limits import Limits
from lancecy.proto import table_pb2, transaction_pb2
from lancecy.table.operations.base import Footprint, NewManifest, Operation, VersionStamp
from lancecy.table.wire.manifest_file import ManifestFile

__all__ = ["UNKNOWN", "Foreign", "Unknown"]


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
        Field ids of the resulting schema; None if the operation keeps the schema.
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
        return UNKNOWN

    def _refuse(self) -> NoReturn:
        raise ValueError(f"an operation of kind {self.kind!r} is not one that lancecy makes")


class Unknown(Foreign):
    """An operation that this release cannot read; it conflicts with everything."""

    kinds = ("unknown",)


UNKNOWN = Unknown("unknown")
