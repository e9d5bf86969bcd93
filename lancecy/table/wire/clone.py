"""The source of a clone, as the transaction that made it names it."""

from __future__ import annotations

from lancecy.limits import DEFAULT_LIMITS
from lancecy.proto import transaction_pb2
from lancecy.records import dataclass
from lancecy.schema_wire import parse_message

__all__ = ["CloneSource", "decode_clone_source"]


@dataclass(frozen=True, slots=True)
class CloneSource:
    """The version that a table began as.

    Attributes
    ----------
    path : str
        Root of the source: an absolute path or URI.
    version : int
    """

    path: str
    version: int


def decode_clone_source(data: bytes) -> CloneSource | None:
    """The source of a clone.

    Parameters
    ----------
    data : bytes
        A ``Transaction`` message.

    Returns
    -------
    CloneSource or None
        None if the transaction made no clone.

    Raises
    ------
    FormatError, LimitError
        The bytes are not such a message.

    Source: table sheet, sections 4.2 and 6.4.
    """
    message = parse_message(transaction_pb2.Transaction, data, "transaction", DEFAULT_LIMITS)
    if message.WhichOneof("operation") != "clone":
        return None
    return CloneSource(message.clone.ref_path, message.clone.ref_version)
