"""Every operation there is, by name.

A field of the transaction message decodes to the operation of its name. Operations without a field are stored as
another one: a repair of row ids is stored as a ``merge``.
"""

from __future__ import annotations

from lancecy.table.operations.append import Append
from lancecy.table.operations.base import Operation
from lancecy.table.operations.clone import Clone
from lancecy.table.operations.create_index import CreateIndex
from lancecy.table.operations.data_overlay import DataOverlay
from lancecy.table.operations.data_replacement import DataReplacement
from lancecy.table.operations.delete import Delete
from lancecy.table.operations.foreign import Unknown, UpdateMemWalState
from lancecy.table.operations.merge import Merge
from lancecy.table.operations.overwrite import Overwrite
from lancecy.table.operations.project import Project
from lancecy.table.operations.repair_row_ids import RepairRowIds
from lancecy.table.operations.reserve_fragments import ReserveFragments
from lancecy.table.operations.restore import Restore
from lancecy.table.operations.rewrite import Rewrite
from lancecy.table.operations.update import Update
from lancecy.table.operations.update_bases import UpdateBases
from lancecy.table.operations.update_config import UpdateConfig

__all__ = ["REGISTRY"]

REGISTRY: dict[str, type[Operation]] = {
    "append": Append,
    "delete": Delete,
    "overwrite": Overwrite,
    "restore": Restore,
    "reserve_fragments": ReserveFragments,
    "update_config": UpdateConfig,
    "update_bases": UpdateBases,
    "repair_row_ids": RepairRowIds,
    "update": Update,
    "rewrite": Rewrite,
    "merge": Merge,
    "project": Project,
    "data_replacement": DataReplacement,
    "clone": Clone,
    "create_index": CreateIndex,
    # read, not made
    "data_overlay": DataOverlay,
    "update_mem_wal_state": UpdateMemWalState,
    "unknown": Unknown,
}
