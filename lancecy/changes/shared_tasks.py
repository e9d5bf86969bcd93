"""Changes whose tasks run on the workers of a cluster: what an engine has to know of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from lancecy.scanning.task import ScanSpec
from lancecy.session import Session

__all__ = ["Engine", "SharedTasks"]


class SharedTasks(Protocol):
    """Numbered tasks of a change; every worker gets all of them, without secrets unless ``spec`` embeds these."""

    @property
    def spec(self) -> ScanSpec:
        """The version that was planned."""

    def run(self, number: int, session: Session | None = None) -> str:
        """Run one task on a worker, and return its result as text.

        Parameters
        ----------
        number : int
        session : Session, optional
            By default one of the worker's process.
        """


Engine: TypeAlias = Callable[[SharedTasks, Sequence[int]], Sequence[str]]
"""Calls ``run`` for each of these numbers on some worker, and returns what these return."""
