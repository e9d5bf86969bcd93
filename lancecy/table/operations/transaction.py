"""Transactions: an operation with its id and read version, and its stored message.

The message is stored as a file below ``_transactions/`` and inside the manifest file of the new
version. Decoding is total; an operation unknown to this release is ``UNKNOWN``, which conflicts with
everything.

Source: table sheet, sections 4.1 and 4.2.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import field

from lancecy.limits import DEFAULT_LIMITS, Limits
from lancecy.proto import table_pb2, transaction_pb2
from lancecy.records import dataclass
from lancecy.schema_wire import parse_message
from lancecy.table.operations.base import Operation
from lancecy.table.operations.registry import REGISTRY

__all__ = ["COMMIT_MESSAGE", "Transaction", "decode_transaction", "encode_transaction", "new_transaction"]

COMMIT_MESSAGE = "__lance_commit_message"
"""Property that holds the message of a commit."""

_TOKENS = uuid.UUID("6a1f6b1e-52c9-4c57-9d0c-6c616e636563")


@dataclass(frozen=True, slots=True, eq=False)
class Transaction:
    """An operation to be committed, with its id and read version.

    Attributes
    ----------
    read_version : int
        Version the operation was made from; 0 for a new table.
    uuid : str
        Unique: in the history at most once.
    operation : Operation
    properties : mapping of str to str
        Such as the message of the commit, under ``COMMIT_MESSAGE``.
    """

    read_version: int
    uuid: str
    operation: Operation
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def file_name(self) -> str:
        """Name below ``_transactions/``."""
        return f"{self.read_version}-{self.uuid}.txn"


def new_transaction(
    operation: Operation,
    read_version: int = 0,
    properties: Mapping[str, str] | None = None,
    token: str | None = None,
) -> Transaction:
    """A transaction with a new id, or with the id derived from a token.

    Parameters
    ----------
    operation : Operation
    read_version : int
    properties : mapping of str to str, optional
    token : str, optional
        Identifies the change: a change with this token is committed once (also pass ``once=True`` to the
        commit, which then searches earlier versions too).

    Examples
    --------
    >>> from lancecy.table.operations import Restore
    >>> one, two = (new_transaction(Restore(3), 7, token="job 5") for _ in range(2))
    >>> one.uuid == two.uuid
    True
    """
    unique = uuid.uuid4() if token is None else uuid.uuid5(_TOKENS, token)
    return Transaction(read_version, str(unique), operation, dict(properties or {}))


def encode_transaction(transaction: Transaction, made: table_pb2.Manifest | None = None) -> bytes:
    """The message of a transaction.

    Parameters
    ----------
    transaction : Transaction
    made : lance.table.Manifest, optional
        The new version; the messages of some operations hold parts of it.

    Raises
    ------
    ValueError
        Its operation is one that lancecy does not make.
    """
    message = transaction_pb2.Transaction(
        read_version=transaction.read_version,
        uuid=transaction.uuid,
        transaction_properties=dict(transaction.properties),
    )
    transaction.operation.encode(message, made or table_pb2.Manifest())
    return message.SerializeToString()


def decode_transaction(data: bytes, limits: Limits = DEFAULT_LIMITS) -> Transaction:
    """The transaction in a message.

    Raises
    ------
    FormatError, LimitError, UnsupportedError
        The bytes are not such a message, or the fragments or bases it adds cannot be read.

    Examples
    --------
    >>> from lancecy.table.operations import Restore
    >>> decode_transaction(encode_transaction(Transaction(3, "u", Restore(2)))).operation
    Restore(version=2)
    """
    message = parse_message(transaction_pb2.Transaction, data, "transaction", limits)
    operation = REGISTRY[message.WhichOneof("operation") or "unknown"].decode(message, limits)
    return Transaction(message.read_version, message.uuid, operation, dict(message.transaction_properties))
