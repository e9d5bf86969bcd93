"""Merges with a Dask DataFrame as the source: Dask's shuffle brings rows with the same key together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np
import pyarrow as pa

from lancecy.changes.dask_parts import frame_batches, is_dask, schema_of_collection
from lancecy.changes.merging.distributed import Piece, SharedMerge
from lancecy.records import dataclass
from lancecy.scanning.task import ScanTask
from lancecy.table.snapshot import Snapshot

__all__ = ["DaskEngine"]

_NAME = "lancecy-merge"
# Numbers tried for each partition of a shuffle.
_TRIED = 64


@dataclass(frozen=True, slots=True)
class DaskEngine:
    """Merges the rows of a Dask DataFrame on Dask's workers.

    Attributes
    ----------
    data : dask.dataframe.DataFrame
    asked : pyarrow.Schema or None
        Requested columns.
    index : bool or None
        Whether the index is a column; None takes a named index.
    compute_kwargs : mapping
        Keyword arguments of ``compute``.

    Raises
    ------
    TypeError
        Not a Dask DataFrame.
    """

    data: Any
    asked: pa.Schema | None = None
    index: bool | None = None
    compute_kwargs: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not is_dask(self.data) or not hasattr(self.data._meta, "columns"):
            raise TypeError(f"a Dask DataFrame can be merged, not a {type(self.data).__name__}")

    def schema(self, snapshot: Snapshot) -> pa.Schema:
        """See ``Engine.schema``."""
        return schema_of_collection(self.data, snapshot, self.asked, self.index, None)

    def places(self, num_tasks: int) -> tuple[int, ...]:
        """One number that Dask's hash sends to each partition, as far as that is known."""
        import pandas as pd

        count = max(1, self.data.npartitions, num_tasks)
        tried = np.arange(_TRIED * count, dtype=np.int64)
        homes = pd.util.hash_pandas_object(pd.Series(tried), index=False).to_numpy() % np.uint64(count)
        firsts = np.unique(homes, return_index=True)[1]
        return tuple(tried[firsts].tolist())

    def run(self, merge: SharedMerge, tasks: Sequence[ScanTask]) -> list[str]:
        """See ``Engine.run``."""
        import dask
        import dask.dataframe as dd

        meta = _frame(())
        # Dask would turn the columns of bytes into text.
        with dask.config.set({"dataframe.convert-string": False}):
            source = self.data.map_partitions(
                _source_pieces,
                merge,
                self.index,
                meta=meta,
                enforce_metadata=False,
                align_dataframes=False,
                clear_divisions=True,
            )
            sides = [source]
            if tasks:
                sides.append(dd.from_map(_TablePieces(merge), tasks, meta=meta, enforce_metadata=False))
            together = dd.concat(sides, interleave_partitions=False) if len(sides) > 1 else source
            shuffled = together.shuffle("place", npartitions=len(merge.places), ignore_index=True)
            results = shuffled.map_partitions(
                _merged,
                merge,
                meta=_texts([]),
                enforce_metadata=False,
                align_dataframes=False,
                token=_NAME,
            )
            return [str(text) for text in results.compute(**self.compute_kwargs)]


def _frame(pieces: Iterable[Piece]) -> Any:
    """Pieces as a frame, with dtypes that every shuffle of Dask keeps."""
    import pandas as pd

    listed = list(pieces)
    rows = pa.chunked_array([pa.array([piece[2] for piece in listed], pa.large_binary())])
    return pd.DataFrame(
        {
            "place": np.array([piece[0] for piece in listed], np.int64),
            "is_source": np.array([piece[1] for piece in listed], np.bool_),
            "rows": pd.arrays.ArrowExtensionArray(rows),
        }
    )


def _texts(texts: list[str]) -> Any:
    import pandas as pd

    return pd.Series(texts, dtype=object)


def _source_pieces(frame: Any, merge: SharedMerge, index: bool | None) -> Any:
    return _frame(merge.of_source(frame_batches(frame, merge.source, index)))


@dataclass(frozen=True, slots=True)
class _TablePieces:
    """Reads the keys of a part of the table."""

    merge: SharedMerge

    def __call__(self, task: ScanTask) -> Any:
        return _frame(self.merge.of_table(task))

    def __dask_tokenize__(self) -> object:
        return self.merge.__dask_tokenize__()


def _merged(frame: Any, merge: SharedMerge, partition_info: Mapping[str, Any] | None = None) -> Any:
    number = int((partition_info or {}).get("number", 0))
    rows = pa.array(frame["rows"].array)
    pieces = zip(frame["is_source"].tolist(), (piece.as_py() for piece in rows), strict=True)
    return _texts([merge.merge(pieces, number)])
