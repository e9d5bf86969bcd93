"""The source of an optimised scan: everything except the choice of columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from lancecy.dask.reader import Kind, Parts, Reader
from lancecy.expr import Expr, describe
from lancecy.expr.nodes import Column, walk

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Source", "columns_of"]


@dataclass(frozen=True, eq=False, repr=False)
class Source:
    """The rows of a scan and how to read them, without the choice of columns.

    Attributes
    ----------
    reader : Reader
    parts : Parts
    meta : pandas.DataFrame
        An empty frame with all columns of the scan.
    weights : mapping of str to float
        Bytes of one row of each column.
    pushable : frozenset of str
        Columns that pushed conditions may name: stored columns under their own names.
    is_near : bool
        Whether reading needs no storage requests.
    """

    reader: Reader
    parts: Parts
    meta: pd.DataFrame
    weights: Mapping[str, float]
    pushable: frozenset[str]
    is_near: bool = False

    @cached_property
    def token(self) -> str:
        """Token that is equal for sources with the same rows."""
        from dask.base import tokenize

        token: str = tokenize(self.reader, self.parts, [(n, str(t)) for n, t in self.meta.dtypes.items()])
        return token

    def __dask_tokenize__(self) -> object:
        return ("lancecy.dask.Source", self.token)

    @cached_property
    def _metas(self) -> dict[tuple[Kind, tuple[str, ...]], Any]:
        return {}

    def meta_of(self, kind: Kind, columns: tuple[str, ...]) -> Any:
        """An empty frame of these columns, series of the only one, or index."""
        found = self._metas.get((kind, columns))
        if found is None:
            frame = self.meta[list(columns)]
            found = {"frame": frame, "index": frame.index}.get(kind)
            found = self._metas[kind, columns] = frame[columns[0]] if found is None else found
        return found

    def __repr__(self) -> str:
        spec = self.reader.spec
        return f"<{spec.uri} version {spec.version}>"

    @property
    def summary(self) -> str:
        """The source for ``expr.tree_repr()``: the table, and what is pushed into reading it."""
        request = self.reader.spec.request
        parts = [f"source={self!r}"]
        if request.filter is not None:
            parts.append(f"filter=[{describe(request.filter, max_values=10)}]")
        if self.reader.limit is not None:
            parts.append(f"limit={self.reader.limit}")
        return " ".join(parts)

    @property
    def is_filtered(self) -> bool:
        """Whether the reader has a filter."""
        return self.reader.spec.request.filter is not None

    @property
    def is_limited(self) -> bool:
        """Whether the reader has a limit."""
        return self.reader.limit is not None

    def limited(self, limit: int) -> Source:
        """The source with only the first rows of each partition."""
        return replace(self, reader=self.reader.limited(limit))

    def filtered(self, condition: Expr) -> Source:
        """The source with only the rows for which a condition is true, with the same labels."""
        return replace(self, reader=self.reader.filtered(condition))


def columns_of(condition: Expr | None) -> set[str]:
    """Top-level columns that a condition names."""
    return set() if condition is None else {n.path[0] for n in walk(condition) if isinstance(n, Column)}
