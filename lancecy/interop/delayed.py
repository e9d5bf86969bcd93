"""The tasks of a scan for ``dask.delayed``: one Arrow table each, for bags and users' own graphs.

Imports ``scanning``; dask inside functions only.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from lancecy.scanning import execute
from lancecy.scanning.plan import ScanPlan
from lancecy.scanning.task import ScanSpec, ScanTask, ScanUnit

if TYPE_CHECKING:
    from dask.delayed import Delayed

__all__ = ["TableReader", "block_bytes", "delayed_tables"]

Numbers: TypeAlias = tuple[int, ...]
"""Five numbers per unit: fragment, start, stop, rows, position."""

_UNIT = len(fields(ScanUnit))


def block_bytes(blocksize: int | str | None) -> int | None:
    """Bytes of a text such as "128MiB"; None stays None.

    Parameters
    ----------
    blocksize : int, str or None

    Raises
    ------
    ValueError
        The size is not positive, or no size.
    """
    from dask.utils import parse_bytes

    if blocksize is None:
        return None
    size = int(parse_bytes(blocksize))
    if size <= 0:
        raise ValueError(f"blocksize must be positive, got {blocksize!r}")
    return size


@dataclass(frozen=True, slots=True)
class TableReader:
    """Reads one task of a scan, given its numbers: plain data, so that all tasks share it and pickle small.

    Attributes
    ----------
    spec : ScanSpec
    """

    spec: ScanSpec

    def __call__(self, numbers: Numbers) -> pa.Table:
        """The rows of the task.

        Parameters
        ----------
        numbers : tuple of int

        Raises
        ------
        LanceError
            The table cannot be read here.
        """
        units = tuple(ScanUnit(*numbers[i : i + _UNIT]) for i in range(0, len(numbers), _UNIT))
        return execute.read(ScanTask(self.spec, units, sum(unit.rows for unit in units), 0))

    def __dask_tokenize__(self) -> object:
        from dask.base import normalize_token

        return normalize_token([(f.name, getattr(self.spec, f.name)) for f in fields(self.spec)])


def delayed_tables(plan: ScanPlan) -> list[Delayed]:
    """One Delayed for each task of a plan, giving a :class:`pyarrow.Table`.

    Parameters
    ----------
    plan : ScanPlan
    """
    from dask.base import tokenize
    from dask.delayed import Delayed

    if not plan.tasks:
        return []
    read = TableReader(plan.tasks[0].spec)
    found: list[Any] = []
    for task in plan.tasks:
        numbers = tuple(n for u in task.units for n in (u.fragment, u.start, u.stop, u.rows, u.position))
        key = f"lancecy-table-{tokenize(read, numbers)}"
        found.append(Delayed(key, {key: (read, numbers)}))
    return found
