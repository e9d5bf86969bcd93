"""Reports of a write to the user's callback."""

from __future__ import annotations

from typing import Any, TypeAlias

from lancecy.progress import FragmentWriteProgress, Progress, Step
from lancecy.write.metadata import FragmentMetadata

__all__ = ["WriteCallback", "WriteProgress", "known_rows"]


WriteCallback: TypeAlias = Progress | FragmentWriteProgress


class WriteProgress:
    """Tells a callback how far a write is.

    Parameters
    ----------
    callback : function of a Step, or FragmentWriteProgress, optional
    total : int
        Rows that will be written; 0 if unknown.

    Raises
    ------
    TypeError
        Neither a function nor an object with ``begin`` and ``complete``.

    Examples
    --------
    >>> report = WriteProgress(lambda step: print(step.done, step.total), 3)
    >>> report.written(2)
    2 3
    """

    def __init__(self, callback: WriteCallback | None, total: int = 0) -> None:
        told: Any = callback
        self._files = told if hasattr(told, "begin") and hasattr(told, "complete") else None
        self._step = None if self._files is not None else told
        if self._step is not None and not callable(self._step):
            raise TypeError(
                "progress is a function of a lancecy.progress.Step, or an object with begin and complete, "
                f"not {type(told).__name__}"
            )
        self._total, self._done = total, 0

    def begun(self, fragment: FragmentMetadata) -> None:
        """A data file was begun.

        Parameters
        ----------
        fragment : FragmentMetadata
        """
        if self._files is not None:
            self._files.begin(fragment)

    def completed(self, fragment: FragmentMetadata) -> None:
        """A data file is written.

        Parameters
        ----------
        fragment : FragmentMetadata
        """
        if self._files is not None:
            self._files.complete(fragment)

    def written(self, rows: int) -> None:
        """More rows were passed to a data file.

        Parameters
        ----------
        rows : int
        """
        self._done += rows
        # A source may have more rows than it said; the last step is that of ``finished``.
        self._tell(max(self._total, self._done) if self._total else 0)

    def finished(self) -> None:
        """All data files are written."""
        self._tell(self._done)

    def _tell(self, total: int) -> None:
        if self._step is not None:
            self._step(Step("write", self._done, total, "rows"))


def known_rows(data: Any) -> int:
    """Rows of the data of a write, 0 if unknown before they are read.

    Parameters
    ----------
    data : object
        See ``interop.streams.record_batches``.

    Examples
    --------
    >>> import pyarrow as pa
    >>> known_rows(pa.table({"a": [1, 2]})), known_rows(iter([])), known_rows([{"a": 1}])
    (2, 0, 1)
    """
    rows = getattr(data, "num_rows", None)
    if isinstance(rows, int):
        return rows
    if isinstance(data, list):
        return len(data) if data and isinstance(data[0], dict) else 0
    # Not any frame: the length of a relation of DuckDB is a query, which fails while the stream of its rows is open.
    is_frame = type(data).__module__.partition(".")[0] in ("pandas", "polars") and hasattr(data, "columns")
    return len(data) if is_frame and hasattr(data, "__len__") else 0
