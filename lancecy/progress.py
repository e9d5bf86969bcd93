"""Progress callbacks for long operations.

A callback is a function of one :class:`Step`. It is called often, from the thread that started the
operation; its exceptions are not caught, so raising one stops the operation.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Protocol, runtime_checkable

from lancecy.records import dataclass

__all__ = ["FragmentWriteProgress", "Progress", "Step", "silent"]


@dataclass(frozen=True, slots=True)
class Step:
    """The progress of an operation.

    Attributes
    ----------
    what : str
        The operation, such as ``"verify"``.
    done, total : int
        In ``unit``; ``done == total`` in the last step. ``total`` is 0 as long as it is unknown.
    unit : str
        What is counted: ``"bytes"``, ``"rows"``, ``"files"``.
    detail : str
        What is being worked on, for display.

    Examples
    --------
    >>> Step("verify", 50, 200, "rows").fraction
    0.25
    >>> Step("export", 50, 0, "rows").fraction, Step("export", 0, 0, "rows").fraction
    (0.0, 1.0)
    """

    what: str
    done: int
    total: int
    unit: str
    detail: str = ""

    @property
    def fraction(self) -> float:
        """``done / total``, 0 to 1; 0 as long as the total is unknown, and 1 if both are 0: there was nothing to do."""
        return self.done / self.total if self.total else float(not self.done)


class Progress(Protocol):
    """The type of a progress callback."""

    def __call__(self, step: Step, /) -> None:
        """Called with the current progress.

        Parameters
        ----------
        step : Step
        """


@runtime_checkable
class FragmentWriteProgress(Protocol):
    """An object that is told of each data file of a write, under pylance's name; a base class for such objects."""

    @abstractmethod
    def begin(self, fragment: Any, /) -> None:
        """Called when a data file begins.

        Parameters
        ----------
        fragment : lancecy.FragmentMetadata
            It has no rows yet.
        """

    @abstractmethod
    def complete(self, fragment: Any, /) -> None:
        """Called when a data file is written.

        Parameters
        ----------
        fragment : lancecy.FragmentMetadata
        """


def silent(step: Step, /) -> None:
    """Do nothing: the default callback."""
