"""New columns, as others add them."""

from __future__ import annotations

from lancecy.limits import Limits
from lancecy.proto import transaction_pb2
from lancecy.table.operations.foreign import Foreign

__all__ = ["Merge"]


class Merge(Foreign):
    """All fragments and the schema anew, with columns added; strict if a column may not be null any more."""

    kinds = ("merge", "merge_strict")

    @classmethod
    def decode(cls, message: transaction_pb2.Transaction, limits: Limits) -> Merge:
        kind = "merge" if message.merge.preserves_nullability else "merge_strict"
        return cls(kind, fields=frozenset(field.id for field in message.merge.schema))
