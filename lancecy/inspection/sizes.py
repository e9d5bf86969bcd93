"""Sizes of a table from metadata alone: statistics, and bytes by fragment and column, as numbers and as a plot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lancecy.errors import printable
from lancecy.inspection.indices import index_statistics
from lancecy.records import dataclass
from lancecy.scanning.context import ScanContext
from lancecy.scanning.explain import human_bytes

__all__ = ["DataStatistics", "DatasetStats", "FieldStatistics", "Layout", "layout"]


@dataclass(frozen=True, slots=True)
class FieldStatistics:
    """Encoded bytes of a top-level column and of everything below it, by field id."""

    id: int
    bytes_on_disk: int


class DataStatistics(dict[str, int]):
    """Encoded bytes by the names of top-level columns.

    Attributes
    ----------
    fields : list of FieldStatistics
        The same by field id, as pylance has it; of nested columns, only the whole.
    """

    def __init__(self, sizes: Mapping[str, int], fields: Sequence[FieldStatistics]) -> None:
        super().__init__(sizes)
        self.fields = list(fields)


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

    def data_stats(self) -> DataStatistics:
        """Encoded bytes per top-level column; opens the metadata of every data file."""
        context = self._context
        fields = context.snapshot.schema.fields
        totals = dict.fromkeys((field.name for field in fields), 0)
        for files in context.several_files([fragment.id for fragment in context.fragments], fields):
            for field in fields:
                totals[field.name] += files.estimated_bytes([field])
        return DataStatistics(totals, [FieldStatistics(field.id, totals[field.name]) for field in fields])

    def index_stats(self, index_name: str) -> dict[str, Any]:
        """See :meth:`lancecy.Dataset.index_statistics`."""
        return index_statistics(self._context, index_name)

    def __repr__(self) -> str:
        facts = ", ".join(f"{k}={v:,}" for k, v in self.dataset_stats().items())
        return f"DatasetStats({facts})"


_MAX_TICKS = 40


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """Bytes of every column in every fragment, and deleted rows.

    Attributes
    ----------
    uri : str
    version : int
    columns : tuple of str
        Names of the top-level columns.
    fragments : (num_fragments,) int64
        Their ids.
    nbytes : (num_fragments, num_columns) int64
        Encoded bytes; 0 where a fragment has no file with the column.
    rows, deleted : (num_fragments,) int64
        Physical rows, and how many of them are deleted.
    """

    uri: str
    version: int
    columns: tuple[str, ...]
    fragments: NDArray[np.int64]
    nbytes: NDArray[np.int64]
    rows: NDArray[np.int64]
    deleted: NDArray[np.int64]

    def plot(self, axes: Any = None) -> Any:
        """Plot the layout: a row per fragment, a column per column, colours for bytes, bars for deletions.

        Parameters
        ----------
        axes : pair of matplotlib Axes, optional
            For the bytes and for the deletions; a new figure if not given.

        Returns
        -------
        matplotlib.figure.Figure

        Raises
        ------
        ImportError
            matplotlib is not installed.
        """
        try:
            import matplotlib.pyplot as plt
            from matplotlib.colors import LogNorm
        except ImportError as error:
            raise ImportError("plot_layout needs matplotlib: pip install 'lancecy[plot]'") from error
        if axes is None:
            size = (3 + 0.35 * min(len(self.columns), 60), 2 + 0.22 * min(self.fragments.size, 60))
            _, axes = plt.subplots(1, 2, figsize=size, sharey=True, width_ratios=(5, 1), layout="constrained")
        left, right = axes
        most = max(2, int(self.nbytes.max(initial=0)))
        shown = np.ma.masked_equal(self.nbytes, 0)
        image = left.imshow(shown, aspect="auto", interpolation="nearest", norm=LogNorm(1, most))
        bar = left.figure.colorbar(image, ax=left, label="encoded bytes")
        bar.formatter = lambda value, _position: human_bytes(value)
        bar.update_ticks()
        _ticks(left.set_xticks, [printable(name) for name in self.columns], rotation=90)
        _ticks(left.set_yticks, [str(number) for number in self.fragments])
        left.set(xlabel="column", ylabel="fragment", title=f"{printable(self.uri)}, version {self.version}")
        positions = np.arange(self.fragments.size)
        right.barh(positions, self.rows, color="0.8", label="rows")
        right.barh(positions, self.deleted, color="tab:red", label="deleted")
        right.set(xlabel="rows")
        right.legend(fontsize="small")
        return left.figure

    def __repr__(self) -> str:
        return (
            f"Layout of {printable(self.uri)} version {self.version}: {self.fragments.size:,} fragments x "
            f"{len(self.columns):,} columns, {human_bytes(int(self.nbytes.sum()))}, "
            f"{int(self.deleted.sum()):,} of {int(self.rows.sum()):,} rows deleted"
        )


def _ticks(place: Any, names: list[str], **style: Any) -> None:
    step = -(-len(names) // _MAX_TICKS) if names else 1
    place(range(0, len(names), step), names[::step], fontsize="small", **style)


def layout(context: ScanContext, only: Sequence[int] | None = None) -> Layout:
    """Bytes of every column in every fragment, from the metadata of the data files.

    Parameters
    ----------
    context : ScanContext
    only : sequence of int, optional
        Ids of the fragments; all if not given.
    """
    fields = context.snapshot.schema.fields
    fragments = context.fragments if only is None else context.selected(only)
    nbytes = np.zeros((len(fragments), len(fields)), np.int64)
    for row, files in enumerate(context.several_files([fragment.id for fragment in fragments], fields)):
        nbytes[row] = [files.estimated_bytes([wanted]) for wanted in fields]
    rows = np.array([context.physical_rows(f) for f in fragments], np.int64)
    live = np.array([context.live_rows(f) for f in fragments], np.int64)
    ids = np.array([f.id for f in fragments], np.int64)
    names = tuple(wanted.name for wanted in fields)
    return Layout(context.snapshot.uri, context.snapshot.version, names, ids, nbytes, rows, rows - live)
