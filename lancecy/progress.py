"""How long work tells how far it is.

A callback is any function of one :class:`Step`; work calls it often, from the thread that started the
work, and does not catch what it raises: raising is how a caller stops it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

__all__ = ["Progress", "Step", "silent"]


@dataclass(frozen=True, slots=True)
class Step:
    """How far a piece of work is.

    Attributes
    ----------
    what : str
        What is being done, such as ``"verify"``.
    done, total : int
        In ``unit``; ``done == total`` in the last step.
    unit : str
        What is counted: ``"bytes"``, ``"rows"``, ``"files"``.
    detail : str
        Where the work is just now, for people.

    Examples
    --------
    >>> Step("verify", 50, 200, "rows").fraction
    0.25
    """

    what: str
    done: int
    total: int
    unit: str
    detail: str = ""

    @property
    def fraction(self) -> float:
        """Done of total, 0 to 1."""
        return self.done / self.total if self.total else 1.0


class Progress(Protocol):
    """A function that is told of every step."""

    def __call__(self, step: Step, /) -> None:
        """Called with how far the work is.

        Parameters
        ----------
        step : Step
        """


def silent(step: Step, /) -> None:
    """Tells nobody."""
