"""Compaction in steps, for many workers, under the names of pylance's ``lance.optimize``.

Examples
--------
>>> import lancecy
>>> from lancecy.optimize import Compaction
>>> ds = lancecy.dataset("example.lance")
>>> plan = Compaction.plan(ds, {"target_rows_per_fragment": 1000})
>>> results = [task.execute(ds) for task in plan.tasks]
>>> Compaction.commit(ds, results).fragments_added
1
"""

from __future__ import annotations

from lancecy.changes.compact import (
    Compaction,
    CompactionMetrics,
    CompactionPlan,
    CompactionTask,
    DatasetOptimizer,
    RewriteResult,
)
from lancecy.changes.compaction_options import CompactionOptions

__all__ = [
    "Compaction",
    "CompactionMetrics",
    "CompactionOptions",
    "CompactionPlan",
    "CompactionTask",
    "DatasetOptimizer",
    "RewriteResult",
]
