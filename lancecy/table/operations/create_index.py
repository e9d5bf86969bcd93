"""CreateIndex: indices made or dropped; read only."""

from __future__ import annotations

from lancecy.limits import Limits
from lancecy.proto import transaction_pb2
from lancecy.table.operations.foreign import Foreign

__all__ = ["CreateIndex"]


class CreateIndex(Foreign):
    """Change the index section."""

    kinds = ("index",)

    @classmethod
    def decode(cls, message: transaction_pb2.Transaction, limits: Limits) -> CreateIndex:
        return cls("index")
