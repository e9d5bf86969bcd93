"""Operations: changes of a table as values. One module per operation that lancecy makes, and shared ones.

An operation is a frozen value with the methods of :class:`Operation`, a line in ``registry`` and a row or column
in the grid of ``table.commit.conflicts``. A commit calls these methods and tests for no operation.

======================  ==========================================================================
``base``                the class of all operations, and the values of its methods
``registry``            every operation by name
``transaction``         an operation with its read version and id, and its bytes
``apply``               makes the next manifest from an operation and the newest manifest
made and read           ``append``, ``delete``, ``overwrite``, ``restore``, ``update``, ``rewrite``, ``merge``,
                        ``project``, ``data_replacement``, ``reserve_fragments``, ``update_config``,
                        ``update_bases``, ``repair_row_ids``, ``create_index``
makes tables            ``clone``, and ``overwrite`` too
read as overwrite       ``fast_forward``
read only               ``data_overlay``; ``foreign``: others, one class each
rows                    ``deletions``: rows to delete, as deletion files; ``row_lineage``: row ids and
                        versions of rows; ``key_filter``: keys of added rows
fragments               ``new_fragments``: new fragments get ids, and row ids, above the
                        newest version's; ``replaced``: fragments get other files; ``fragment_files``:
                        columns of a fragment go to other files
other parts             ``new_schema``, ``index_section``; ``base_paths``: those of a manifest;
                        ``maps``: maps of texts
======================  ==========================================================================

These modules work on copies of protobuf messages, so that unknown fields survive.

Source: table sheet, sections 4.2 and 4.3.
"""

from lancecy.table.operations.append import Append
from lancecy.table.operations.base import Operation
from lancecy.table.operations.clone import Clone
from lancecy.table.operations.create_index import CreateIndex
from lancecy.table.operations.data_overlay import DataOverlay, OverlayFile
from lancecy.table.operations.data_replacement import DataReplacement
from lancecy.table.operations.delete import Delete
from lancecy.table.operations.fast_forward import FAST_FORWARD, FastForward
from lancecy.table.operations.foreign import UNKNOWN, Foreign
from lancecy.table.operations.maps import MapUpdate
from lancecy.table.operations.merge import Merge
from lancecy.table.operations.overwrite import Overwrite
from lancecy.table.operations.project import Project
from lancecy.table.operations.repair_row_ids import RepairRowIds
from lancecy.table.operations.reserve_fragments import ReserveFragments
from lancecy.table.operations.restore import Restore
from lancecy.table.operations.rewrite import Rewrite, RewriteGroup
from lancecy.table.operations.transaction import (
    Transaction,
    decode_transaction,
    encode_transaction,
    new_transaction,
)
from lancecy.table.operations.update import Update
from lancecy.table.operations.update_bases import UpdateBases
from lancecy.table.operations.update_config import UpdateConfig

__all__ = [
    "FAST_FORWARD",
    "UNKNOWN",
    "Append",
    "Clone",
    "CreateIndex",
    "DataOverlay",
    "DataReplacement",
    "Delete",
    "FastForward",
    "Foreign",
    "MapUpdate",
    "Merge",
    "Operation",
    "OverlayFile",
    "Overwrite",
    "Project",
    "RepairRowIds",
    "ReserveFragments",
    "Restore",
    "Rewrite",
    "RewriteGroup",
    "Transaction",
    "Update",
    "UpdateBases",
    "UpdateConfig",
    "decode_transaction",
    "encode_transaction",
    "new_transaction",
]
