"""A dataset as a Polars ``LazyFrame``, or rows of it as a ``DataFrame``.

For a lazy frame, Polars passes the columns, predicate, number of rows and batch size that it needs to a function. Columns and
limits are pushed down, of the predicate the parts that :mod:`polars_predicate` recognises.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from lancecy.expr.build import Filter
from lancecy.expr.clock import time_now
from lancecy.expr.nodes import chain
from lancecy.expr.parsing.parse import parse
from lancecy.interop.polars_predicate import pushed
from lancecy.interop.source import Scan, Source
from lancecy.scanning.request import at_instant

if TYPE_CHECKING:
    import polars as pl

__all__ = ["to_polars", "to_polars_lazy"]


def to_polars_lazy(source: Source, filter: Filter = None) -> pl.LazyFrame:
    """The dataset as a lazy frame; see :meth:`lancecy.Dataset.to_polars_lazy`.

    Parameters
    ----------
    source : Dataset
    filter : str, pyarrow.compute.Expression, lancecy.Expr or None
        Applied by the scan, in addition to what Polars pushes down.

    Raises
    ------
    ImportError
        Polars is not installed.
    """
    try:
        from polars.io.plugins import register_io_source
    except ImportError as error:
        raise ImportError("to_polars_lazy needs Polars: pip install polars") from error
    return register_io_source(
        _Reader(source, filter), schema=_frame(source.schema.empty_table()).schema, is_pure=True
    )


def to_polars(scan: Scan) -> pl.DataFrame:
    """The rows of a scan as a frame; see :meth:`lancecy.Scanner.to_polars`.

    Parameters
    ----------
    scan : Scanner

    Raises
    ------
    ImportError
        Polars is not installed.
    """
    try:
        import polars  # noqa: F401
    except ImportError as error:
        raise ImportError("to_polars needs Polars: pip install 'lancecy[polars]'") from error
    return _frame(scan.to_table())


def _frame(rows: pa.Table | pa.RecordBatch) -> pl.DataFrame:
    import polars as pl

    return cast("pl.DataFrame", pl.from_arrow(rows))


class _Reader:
    """The function that Polars calls; pickles with the dataset, without its secrets."""

    def __init__(self, source: Source, filter: Filter) -> None:
        self.source = source
        # Polars may read the frame many times: all of them with the time at which it was made.
        _, self.filter = at_instant(None, filter, source.schema, time_now())

    def __call__(
        self,
        with_columns: list[str] | None,
        predicate: pl.Expr | None,
        n_rows: int | None,
        batch_size: int | None,
    ) -> Iterator[pl.DataFrame]:
        for batch in self.scan(with_columns, predicate, n_rows, batch_size).to_reader():
            frame = _frame(batch)
            if predicate is not None:
                frame = frame.filter(predicate)
            yield frame if with_columns is None else frame.select(with_columns)

    def scan(
        self, columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, batch_size: int | None
    ) -> Any:
        """The scan with everything that can be pushed down."""
        if columns is not None and predicate is not None:
            columns = [*columns, *(n for n in predicate.meta.root_names() if n not in columns)]
        kept: object = self.filter
        # ``head(5).filter(...)`` gives both: n_rows counts rows before the predicate, which must not be pushed then.
        if predicate is not None and n_rows is None:
            kept = _and(kept, pushed(predicate, self.source.schema))
        return self.source.scanner(columns, kept, batch_size=batch_size, limit=n_rows)


def _and(first: Any, second: Any) -> Filter:
    """Both filters; each may be of any notation."""
    known = [part for part in (parse(first), parse(second)) if part is not None]
    return chain("and", known) if known else None
