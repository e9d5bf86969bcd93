"""Statistics of a dataset, from metadata alone."""

from __future__ import annotations

from lancecy.scanning.context import ScanContext

__all__ = ["DatasetStats"]


class DatasetStats:
    """Statistics of a dataset; no data is read."""

    def __init__(self, context: ScanContext) -> None:
        self._context = context

    def dataset_stats(self, max_rows_per_group: int = 1024) -> dict[str, int]:
        """``num_fragments``, ``num_small_files``, ``num_deleted_rows``, as pylance counts them."""
        context = self._context
        return {
            "num_deleted_rows": sum(
                context.physical_rows(f) - context.live_rows(f) for f in context.fragments
            ),
            "num_fragments": len(context.fragments),
            "num_small_files": sum(
                1 for f in context.fragments if context.physical_rows(f) < max_rows_per_group
            ),
        }

    def data_stats(self) -> dict[str, int]:
        """Encoded bytes per top-level column; opens the metadata of every data file."""
        context = self._context
        totals = dict.fromkeys(context.snapshot.schema.names, 0)
        fields = context.snapshot.schema.fields
        for files in context.several_files([fragment.id for fragment in context.fragments], fields):
            for field in fields:
                totals[field.name] += files.estimated_bytes([field])
        return totals

    def __repr__(self) -> str:
        facts = ", ".join(f"{k}={v:,}" for k, v in self.dataset_stats().items())
        return f"DatasetStats({facts})"
