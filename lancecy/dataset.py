"""Classes under the names of pylance's ``lance.dataset``. The function ``lancecy.dataset`` stays one.

Examples
--------
>>> import lancecy
>>> from lancecy.dataset import LanceDataset, MergeInsertBuilder
>>> ds = lancecy.dataset("example.lance")
>>> isinstance(ds, LanceDataset), isinstance(ds.merge_insert("id"), MergeInsertBuilder)
(True, True)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lancecy.lazy_attributes import lazy_attributes

if TYPE_CHECKING:
    from lancecy.api.branches import Branches as Branches
    from lancecy.api.datasets import LanceDataset as LanceDataset
    from lancecy.api.delta import DatasetDelta as DatasetDelta
    from lancecy.api.refs import Tags as Tags
    from lancecy.api.scanners import LanceScanner as LanceScanner
    from lancecy.api.writers import write_dataset as write_dataset
    from lancecy.changes.alter_columns import AlterColumn as AlterColumn
    from lancecy.changes.commits import BulkCommitResult as BulkCommitResult
    from lancecy.changes.compact import DatasetOptimizer as DatasetOptimizer
    from lancecy.changes.explain_cleanup import CleanupExplanation as CleanupExplanation
    from lancecy.changes.merge_insert import MergeInsertBuilder as MergeInsertBuilder
    from lancecy.changes.transactions import LANCE_COMMIT_MESSAGE_KEY as LANCE_COMMIT_MESSAGE_KEY
    from lancecy.changes.transactions import Transaction as Transaction
    from lancecy.inspection.sizes import DatasetStats as DatasetStats
    from lancecy.inspection.sizes import DataStatistics as DataStatistics
    from lancecy.inspection.sizes import FieldStatistics as FieldStatistics
    from lancecy.interop.sql import SqlQuery as SqlQuery
    from lancecy.interop.sql import SqlQueryBuilder as SqlQueryBuilder
    from lancecy.scanning.order import ColumnOrdering as ColumnOrdering
    from lancecy.table.cleanup.plan import CleanupStats as CleanupStats
    from lancecy.table.refs.contents import Branch as Branch
    from lancecy.table.refs.contents import Tag as Tag
    from lancecy.write.indices import Index as Index
    from lancecy.write.indices import IndexFile as IndexFile
    from lancecy.write.operations import LanceOperation as LanceOperation

_HOMES = {
    "lancecy.api.branches": "Branches",
    "lancecy.api.datasets": "LanceDataset",
    "lancecy.api.delta": "DatasetDelta",
    "lancecy.api.refs": "Tags",
    "lancecy.api.scanners": "LanceScanner",
    "lancecy.api.writers": "write_dataset",
    "lancecy.changes.alter_columns": "AlterColumn",
    "lancecy.changes.commits": "BulkCommitResult",
    "lancecy.changes.compact": "DatasetOptimizer",
    "lancecy.changes.explain_cleanup": "CleanupExplanation",
    "lancecy.changes.merge_insert": "MergeInsertBuilder",
    "lancecy.changes.transactions": "LANCE_COMMIT_MESSAGE_KEY Transaction",
    "lancecy.inspection.sizes": "DataStatistics DatasetStats FieldStatistics",
    "lancecy.interop.sql": "SqlQuery SqlQueryBuilder",
    "lancecy.scanning.order": "ColumnOrdering",
    "lancecy.table.cleanup.plan": "CleanupStats",
    "lancecy.table.refs.contents": "Branch Tag",
    "lancecy.write.indices": "Index IndexFile",
    "lancecy.write.operations": "LanceOperation",
}

__getattr__, __dir__, __all__ = lazy_attributes(__name__, _HOMES)
