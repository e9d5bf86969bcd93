"""Rewrite: compaction; read only."""

from __future__ import annotations

from lancecy.limits import Limits
from lancecy.proto import transaction_pb2
from lancecy.table.operations.foreign import Foreign

__all__ = ["Rewrite"]


class Rewrite(Foreign):
    """Move the same rows to other fragments."""

    kinds = ("rewrite",)

    @classmethod
    def decode(cls, message: transaction_pb2.Transaction, limits: Limits) -> Rewrite:
        groups = (old for group in message.rewrite.groups for old in group.old_fragments)
        old = (*message.rewrite.old_fragments, *groups)
        return cls("rewrite", rewritten=frozenset(part.id for part in old))
