"""DataReplacement: replaced data files; read only."""

from __future__ import annotations

from lancecy.limits import Limits
from lancecy.proto import transaction_pb2
from lancecy.table.operations.foreign import Foreign

__all__ = ["DataReplacement"]


class DataReplacement(Foreign):
    """Replace data files of some columns of fragments."""

    kinds = ("replacement",)

    @classmethod
    def decode(cls, message: transaction_pb2.Transaction, limits: Limits) -> DataReplacement:
        replaced = message.data_replacement.replacements
        return cls("replacement", rewritten=frozenset(part.fragment_id for part in replaced))
