"""The tasks of a scan for ``dask.delayed``: one Arrow table each, for bags and custom graphs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from lancecy.records import dataclass
from lancecy.scanning import run_task as tasks
from lancecy.scanning.plan import ScanPlan
from lancecy.scanning.task import ScanSpec, ScanUnit

if TYPE_CHECKING:
    from dask.delayed import Delayed

__all__ = ["TableReader", "block_bytes", "delayed_tables"]

Numbers: TypeAlias = tuple[int, ...]
"""Five numbers per unit: fragment, start, stop, rows, position."""

_UNIT = len(fields(ScanUnit))
_DIGITS = 9


def block_bytes(blocksize: int | str | None) -> int | None:
    """Bytes of a text such as "128MiB"; None stays None.

    Parameters
    ----------
    blocksize : int, str or None

    Raises
    ------
    ValueError
        It is not a size, or not positive.
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
    """Reads one task of a scan, given its numbers. It is plain data, shared by all tasks, and pickles small.

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
            The table cannot be read.
        """
        units = tuple(ScanUnit(*numbers[i : i + _UNIT]) for i in range(0, len(numbers), _UNIT))
        return tasks.read_rows(self.spec, units)[0]

    def __dask_tokenize__(self) -> object:
        from dask.base import normalize_token

        return normalize_token([(f.name, getattr(self.spec, f.name)) for f in fields(self.spec)])


def delayed_tables(plan: ScanPlan, turns: Sequence[int]) -> list[Delayed]:
    """One Delayed for each task of a plan, giving a :class:`pyarrow.Table`.

    Parameters
    ----------
    plan : ScanPlan
    turns : sequence of int
        Numbers of the tasks in the best order to start them.

    Returns
    -------
    list of dask.delayed.Delayed
        In the order of the plan.
    """
    from dask.base import tokenize
    from dask.delayed import Delayed

    if not plan.tasks:
        return []
    read = TableReader(plan.tasks[0].spec)
    found: list[Any] = []
    # Without other constraints, Dask starts tasks in the order of their keys as text.
    ranks = {number: rank for rank, number in enumerate(turns)}
    for number, task in enumerate(plan.tasks):
        numbers = tuple(n for u in task.units for n in (u.fragment, u.start, u.stop, u.rows, u.position))
        key = f"lancecy-scan-{ranks[number]:0{_DIGITS}}-{tokenize(read, numbers)}"
        found.append(Delayed(key, {key: (read, numbers)}))
    return found
