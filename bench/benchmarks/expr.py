"""Filters: parsed from SQL, bound to a schema, compared with page statistics, evaluated over a table."""

from __future__ import annotations

import numpy as np

from lancecy.expr import bind, falsify, mask, parse
from lancecy.expr.bound import Bound
from lancecy.stats import ColumnStats, NumericBounds, StatsTable

from .scale import rows
from .tables import scalars

FILTERS = {
    "compare": "k < 10",
    "and or": "id >= 10 AND (k < 10 OR x > 2.5) AND flag",
    "in": "k IN (3, 5, 8, 13, 21, 34, 55, 89, 144, 233)",
    "like": "s LIKE 'w0000%'",
    "arithmetic": "x * 2 + k > 5.5",
    "integer and float": "id < x",
    "large integer and float": "id + 9007199254740992 < x",
}
PAGES = 100_000


class Filter:
    """Each step from text to rows."""

    params = tuple(FILTERS)
    param_names = ("filter",)
    timeout = 300

    def setup(self, name: str) -> None:
        self.text = FILTERS[name]
        self.table = scalars(rows())
        self.expr = parse(self.text)
        self.bound = self._bound()
        lows = np.arange(PAGES, dtype=np.int64) % 1000
        known = np.ones(PAGES, np.bool_)
        stats = ColumnStats(NumericBounds(lows, lows + 5, known), known, np.zeros(PAGES, np.bool_), False)
        self.stats = StatsTable(np.full(PAGES, 1024), {("k",): stats, ("id",): stats})

    def _bound(self) -> Bound:
        if self.expr is None:
            raise ValueError("a filter without a condition")
        return bind(self.expr, self.table.schema, boolean=True)

    def time_parse(self, name: str) -> None:
        parse(self.text)

    def time_bind(self, name: str) -> None:
        self._bound()

    def time_falsify(self, name: str) -> None:
        falsify(self.bound, self.stats)

    def time_mask(self, name: str) -> None:
        mask(self.bound, self.table)

    def peakmem_mask(self, name: str) -> None:
        mask(self.bound, self.table)
