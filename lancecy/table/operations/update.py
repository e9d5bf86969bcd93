"""Update: updates of rows or columns; read only."""

from __future__ import annotations

from lancecy.limits import Limits
from lancecy.proto import transaction_pb2
from lancecy.table.operations.foreign import Foreign

__all__ = ["Update"]


class Update(Foreign):
    """Move rows to new fragments with other values, or rewrite columns in place."""

    kinds = ("update_rows", "update_columns")

    @classmethod
    def decode(cls, message: transaction_pb2.Transaction, limits: Limits) -> Update:
        updated = frozenset(fragment.id for fragment in message.update.updated_fragments)
        removed = frozenset(message.update.removed_fragment_ids)
        # Releases before the mode existed stated only the rewritten columns.
        mode = message.update.update_mode
        if mode == transaction_pb2.Transaction.Update.REWRITE_COLUMNS or message.update.fields_modified:
            return cls("update_columns", rewritten=updated | removed)
        return cls("update_rows", changed=updated, rewritten=removed)
