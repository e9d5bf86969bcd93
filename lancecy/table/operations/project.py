"""Project: dropped, renamed or altered columns; read only."""

from __future__ import annotations

from lancecy.limits import Limits
from lancecy.proto import transaction_pb2
from lancecy.table.operations.foreign import Foreign

__all__ = ["Project"]


class Project(Foreign):
    """Replace the schema; strict if a column becomes non-nullable."""

    kinds = ("project", "project_strict")

    @classmethod
    def decode(cls, message: transaction_pb2.Transaction, limits: Limits) -> Project:
        kind = "project" if message.project.preserves_nullability else "project_strict"
        return cls(kind, fields=frozenset(field.id for field in message.project.schema))
