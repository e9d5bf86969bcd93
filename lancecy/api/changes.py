"""All dataset methods that change the table."""

from __future__ import annotations

from lancecy.changes.add_columns import AddColumns
from lancecy.changes.alter_columns import AlterColumns
from lancecy.changes.bases import BaseUpdates
from lancecy.changes.cleanup import Cleanups
from lancecy.changes.commits import Commits
from lancecy.changes.compact import Compactions
from lancecy.changes.delete import Deletes
from lancecy.changes.drop_columns import DropColumns
from lancecy.changes.fast_forward import FastForwards
from lancecy.changes.file_copies import FileCopies
from lancecy.changes.index import Indices
from lancecy.changes.insert import Inserts
from lancecy.changes.merge_columns import MergeColumns
from lancecy.changes.merge_insert import Merges
from lancecy.changes.metadata import MetadataUpdates
from lancecy.changes.repair import Repairs
from lancecy.changes.restore import Restores
from lancecy.changes.transactions import TransactionReads
from lancecy.changes.update import Updates
from lancecy.changes.zone_maps import ZoneMaps

__all__ = ["Changes"]


class Changes(
    Inserts,
    Deletes,
    Updates,
    Merges,
    Compactions,
    Restores,
    FastForwards,
    MetadataUpdates,
    BaseUpdates,
    FileCopies,
    Cleanups,
    Repairs,
    TransactionReads,
    AddColumns,
    AlterColumns,
    DropColumns,
    MergeColumns,
    Commits,
    Indices,
    ZoneMaps,
):
    """Base class of ``api.datasets.Dataset`` with the methods that change the table, or read its changes."""
