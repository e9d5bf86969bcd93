"""Clone: a table made from another one; read only."""

from __future__ import annotations

from lancecy.limits import Limits
from lancecy.proto import transaction_pb2
from lancecy.table.operations.foreign import Foreign

__all__ = ["Clone"]


class Clone(Foreign):
    """Create a table from a version of another one."""

    kinds = ("clone",)

    @classmethod
    def decode(cls, message: transaction_pb2.Transaction, limits: Limits) -> Clone:
        return cls("clone")
