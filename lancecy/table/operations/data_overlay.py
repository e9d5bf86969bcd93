"""DataOverlay: new values over a fragment's; read only."""

from __future__ import annotations

from lancecy.limits import Limits
from lancecy.proto import transaction_pb2
from lancecy.table.operations.foreign import Foreign

__all__ = ["DataOverlay"]


class DataOverlay(Foreign):
    """Lay new values of some rows over those of a fragment."""

    kinds = ("overlay",)

    @classmethod
    def decode(cls, message: transaction_pb2.Transaction, limits: Limits) -> DataOverlay:
        groups = message.data_overlay.groups
        return cls("overlay", rewritten=frozenset(group.fragment_id for group in groups))
