"""Schedules of a scan: one step over all units, or one step per unit, side by side.

The engine has one way to choose rows and one to read columns, both for several units at once. A schedule decides
which units one step takes:

- :class:`Together`, for mapped files: all units, in this thread. Inside a step, the session's threads take columns
  and groups of units that have enough to decode; columns of a few kilobytes are decoded together.
- :class:`Apart`, for files that cost requests: each unit alone. Threads wait for requests, all bases work at once.

A worker of a cluster runs its share of a plan by the same schedules.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from lancecy.scanning.context import ScanContext
from lancecy.scanning.task import ScanUnit
from lancecy.scanning.units import CandidateUnit, FilteredUnit

__all__ = ["Apart", "Schedule", "Together", "schedule_of"]

U = TypeVar("U")
V = TypeVar("V", ScanUnit, CandidateUnit, FilteredUnit)


class Schedule(Protocol):
    """Applies steps of a scan to its units."""

    def over(self, step: Callable[[Sequence[V]], list[U]], units: Sequence[V]) -> list[U]:
        """Apply a step to several units; return one result per unit, in the order of the units."""


@dataclass(frozen=True, slots=True)
class Together:
    """One step for all units."""

    def over(self, step: Callable[[Sequence[V]], list[U]], units: Sequence[V]) -> list[U]:
        """See :class:`Schedule`."""
        return step(units)


@dataclass(frozen=True, slots=True)
class Apart:
    """One step per unit, side by side; see ``ScanContext.spread``."""

    context: ScanContext

    def over(self, step: Callable[[Sequence[V]], list[U]], units: Sequence[V]) -> list[U]:
        """See :class:`Schedule`."""
        found = self.context.spread(lambda unit: step([unit]), units, _fragment_of)
        return [one for (one,) in found]


def _fragment_of(unit: ScanUnit | CandidateUnit | FilteredUnit) -> int:
    return unit.fragment if isinstance(unit, ScanUnit) else unit.files.fragment.id


def schedule_of(context: ScanContext, units: Sequence[ScanUnit]) -> Schedule:
    """The schedule for these units; opens their files if some might be mapped."""
    mapped = context.snapshot.is_mapped and all(context.files(unit.fragment).mapped for unit in units)
    return Together() if mapped else Apart(context)
