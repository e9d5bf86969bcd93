"""A table over three bases with 20 ms per request: read through Dask, and with ``to_table``.

The target is 1.5 times ``to_table``. Nothing of the table is cached between runs.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import dask.base
import numpy as np
import pyarrow as pa

import lancecy
from lancecy.session import Session, default
from lancecy.store.base import StoreTraits
from lancecy.store.uri import open_store, register_store
from lancecy.store.wrap import LatencyStore

from .scale import rows

compute: Any = dask.base.compute  # Dask does not annotate it

FRAGMENTS = 36
DELAY_S = 0.02
_runs = itertools.count(1)


def _register(delay_s: float) -> None:
    """Let ``delayed://<any>/<path>`` be a local folder whose requests take ``delay_s``."""

    def opened(uri: str, options: Any, *, mapped: bool = True, follow_symlinks: bool = True) -> LatencyStore:
        folder = "/" + uri.removeprefix("delayed://").partition("/")[2]
        return LatencyStore(open_store(folder, mapped=False), delay_s, uri=uri, traits=StoreTraits())

    register_store("delayed", opened)


class ThreeBases:
    """36 small fragments, ordered by base."""

    params = (("everything", "filter"),)
    param_names = ("work",)
    timeout = 300
    number = 1
    repeat = 5
    warmup_time = 0

    def setup_cache(self) -> str:
        place = Path.cwd().resolve() / f"bases-{rows()}"
        _register(0)
        per_file = max(1, rows() // (20 * FRAGMENTS))
        bases = [lancecy.DatasetBasePath(f"delayed://base{place}/{name}", name=name) for name in "abc"]
        for number in range(FRAGMENTS):
            ids = np.arange(number * per_file, (number + 1) * per_file)
            table = pa.table({"id": ids, "x": ids / 7, "s": pa.array(ids).cast(pa.string())})
            how: dict[str, Any] = {"mode": "append"} if number else {"initial_bases": bases}
            how |= {
                "target_bases": ["abc"[number * 3 // FRAGMENTS]],
                "allowed_bases": [base.path for base in bases],
            }
            lancecy.write_dataset(table, f"delayed://root{place}/t.lance", **how)
        return str(place)

    def setup(self, place: str, work: str) -> None:
        _register(DELAY_S)
        default().close()
        # A new name, so that nothing of the table is cached.
        self.uri = f"delayed://run{next(_runs)}{place}/t.lance"
        self.bases = [f"delayed://base{place}/{name}" for name in "abc"]
        self.filter = "id >= 0" if work == "filter" else None

    def _scan(self, **how: Any) -> Any:
        return lancecy.scan(self.uri, self.filter, allowed_bases=self.bases, **how)

    def _dataset(self) -> lancecy.Dataset:
        return lancecy.dataset(self.uri, allowed_bases=self.bases, session=Session())

    def time_table(self, place: str, work: str) -> None:
        self._dataset().to_table(filter=self.filter)

    def time_batches(self, place: str, work: str) -> None:
        list(self._dataset().to_batches(filter=self.filter))

    def time_scan(self, place: str, work: str) -> None:
        self._scan().compute(scheduler="threads")

    def time_scan_in_parts(self, place: str, work: str) -> None:
        self._scan(blocksize=max(1 << 10, rows() // 20 * 8)).compute(scheduler="threads")

    def time_delayed(self, place: str, work: str) -> None:
        tables = self._dataset().to_delayed(filter=self.filter)
        compute(*tables, scheduler="threads")
