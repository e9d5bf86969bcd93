"""Merge: added columns; read only."""

from __future__ import annotations

from lancecy.limits import Limits
from lancecy.proto import transaction_pb2
from lancecy.table.operations.foreign import Foreign

__all__ = ["Merge"]


class Merge(Foreign):
    """Replace all fragments and the schema, with columns added; strict if a column becomes non-nullable."""

    kinds = ("merge", "merge_strict")

    @classmethod
    def decode(cls, message: transaction_pb2.Transaction, limits: Limits) -> Merge:
        kind = "merge" if message.merge.preserves_nullability else "merge_strict"
        return cls(kind, fields=frozenset(field.id for field in message.merge.schema))
