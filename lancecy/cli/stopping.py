"""How commands end that are told to stop: unfinished files are removed, and one line says so.

Python raises ``KeyboardInterrupt`` for Ctrl+C only. SIGTERM (``kill``, ``timeout``, batch systems) and SIGHUP (a closed
terminal) would end the process where it is, and leave its unfinished files.
"""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Iterator
from types import FrameType
from typing import NoReturn

__all__ = ["Stopped", "end_interrupted", "stopping"]

_ENDS = ("SIGTERM", "SIGHUP")  # Windows has no SIGHUP.


class Stopped(KeyboardInterrupt):
    """A signal told the process to end.

    Parameters
    ----------
    number
        The number of the signal.

    Examples
    --------
    >>> Stopped(15).number
    15
    """

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(number)


@contextlib.contextmanager
def stopping() -> Iterator[None]:
    """Raise :class:`Stopped` for the first signal that ends the process; later ones, and those after the work, end it.

    Examples
    --------
    >>> with stopping():
    ...     signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    False
    """
    told = [getattr(signal, name) for name in _ENDS if hasattr(signal, name)]
    told = [number for number in told if signal.getsignal(number) is signal.SIG_DFL]  # nohup ignores SIGHUP
    for number in told:
        signal.signal(number, _stop)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        told.append(signal.SIGINT)
    try:
        yield
    finally:
        for number in told:
            signal.signal(number, signal.SIG_DFL)


def end_interrupted(error: KeyboardInterrupt) -> NoReturn:
    """Say that the command was interrupted, and exit with 128 and the number of the signal, as in shells.

    Examples
    --------
    >>> try:
    ...     end_interrupted(Stopped(15))
    ... except SystemExit as error:
    ...     print(error)
    143
    """
    sys.stderr.write("lancecy: interrupted\n")
    sys.exit(128 + (error.number if isinstance(error, Stopped) else signal.SIGINT))


def _stop(number: int, frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_DFL)  # a second one ends the process at once
    raise Stopped(number)
