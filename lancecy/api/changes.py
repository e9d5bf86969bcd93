"""All dataset methods that change the table."""

from __future__ import annotations

from lancecy.changes.bases import BaseUpdates
from lancecy.changes.cleanup import Cleanups
from lancecy.changes.compact import Compactions
from lancecy.changes.delete import Deletes
from lancecy.changes.insert import Inserts
from lancecy.changes.metadata import MetadataUpdates
from lancecy.changes.repair import Repairs
from lancecy.changes.restore import Restores
from lancecy.changes.transactions import TransactionReads
from lancecy.changes.update import Updates

__all__ = ["Changes"]


class Changes(
    Inserts,
    Deletes,
    Updates,
    Compactions,
    Restores,
    MetadataUpdates,
    BaseUpdates,
    Cleanups,
    Repairs,
    TransactionReads,
):
    """Base class of ``api.datasets.Dataset`` with the methods that change the table, or read its changes."""
