"""The time that a page may take.

Work on rows asks between its steps whether time is over. As one step may take long, the work runs in a thread of its
own, and the page does not wait for it any longer than the time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from lancecy.errors import LanceError

__all__ = ["Deadline", "TooSlowError", "Workers"]

T = TypeVar("T")

_MOST_AT_ONCE = 4
_MOST_LATE = 16
# Work stops itself a little earlier, so that its page can say more than that it was stopped.
_OWN_SHARE = 0.8


class TooSlowError(LanceError):
    """A page would take too long."""


class Deadline:
    """A moment until which work may go on.

    Parameters
    ----------
    seconds : float, s
        From now on.
    left : float, s, optional
        What is left of them.

    Examples
    --------
    >>> Deadline(60).is_over, Deadline(0).is_over
    (False, True)
    """

    def __init__(self, seconds: float, left: float | None = None) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + (seconds if left is None else left)

    @property
    def is_over(self) -> bool:
        """Whether the time is over."""
        return time.monotonic() >= self._end

    @property
    def left(self) -> float:
        """Seconds that are left."""
        return max(0.0, self._end - time.monotonic())

    def check(self) -> None:
        """Raise TooSlowError if the time is over."""
        if self.is_over:
            raise self.error()

    def error(self) -> TooSlowError:
        """The error that says so."""
        return TooSlowError(
            f"this page takes more than {self.seconds:.0f} s and was stopped: ask for fewer columns, or for rows near the start of the table"
        )


class Workers:
    """Runs work in threads, a few at once, which do not keep the program from ending.

    Work that its page no longer waits for makes room for other work. It goes on, since no thread can be ended from
    outside; if much of it does, pages wait for it again.

    Parameters
    ----------
    most : int
        At once; others wait for them until their time is over.
    most_late : int
        That no page waits for and that is not counted.
    """

    def __init__(self, most: int = _MOST_AT_ONCE, most_late: int = _MOST_LATE) -> None:
        self._free = threading.BoundedSemaphore(most)
        self._late = threading.BoundedSemaphore(most_late)

    def run(self, work: Callable[[Deadline], T], seconds: float) -> T:
        """What the work returns.

        Parameters
        ----------
        work : function of a Deadline
            It raises the error of the deadline soon after its end.
        seconds : float, s

        Raises
        ------
        TooSlowError
            It takes longer, or nothing of the work before it ended in time.
        """
        deadline = Deadline(seconds)
        if not self._free.acquire(timeout=deadline.left):
            raise TooSlowError(
                f"pages asked for before are still at work, so nothing was read for this one within {seconds:.0f} s: "
                "try again later"
            )
        answer: Future[T] = Future()
        # Whoever comes first, the end of the work or the end of its time, says which of the two counts it.
        counts, lock = self._free, threading.Lock()

        def worked() -> None:
            try:
                answer.set_result(work(Deadline(seconds, deadline.left * _OWN_SHARE)))
            except BaseException as error:  # noqa: BLE001 - raised again by the one who waits
                answer.set_exception(error)
            finally:
                with lock:
                    counts.release()

        threading.Thread(target=worked, name="lancecy-ui", daemon=True).start()
        try:
            return answer.result(timeout=deadline.left)
        except TimeoutError:
            with lock:
                if answer.done():
                    return answer.result()
                if self._late.acquire(blocking=False):
                    counts.release()
                    counts = self._late
            raise deadline.error() from None
