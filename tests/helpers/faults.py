"""A store that breaks chosen requests of another one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from lancecy.errors import StoreError
from lancecy.store.base import Store, StoreTraits
from lancecy.store.wrap import Pairs, WrappedStore

__all__ = ["Fault", "FaultyStore"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault to inject into a request.

    Attributes
    ----------
    method : str
        Which requests are counted: a method's name, or "*" for all.
    nth : int
        Which of them fails, counted from 1.
    sticky : bool
        Whether all later ones fail too.
    error : exception or None
        Raised; None damages the answer to a read instead.
    applied : bool
        The request takes effect before the error is raised, as with a lost response.
    short : int, bytes
        Bytes missing at the end of every range read.
    flip : int or None
        Bit that is inverted in every range long enough to have it.
    """

    method: str = "*"
    nth: int = 1
    sticky: bool = False
    error: Exception | None = None
    applied: bool = False
    short: int = 0
    flip: int | None = None


class FaultyStore(WrappedStore):
    """Breaks requests as planned by a list of :class:`Fault`.

    Parameters
    ----------
    inner : Store
    faults : sequence of Fault
    uri, traits : optional
        As for :class:`LatencyStore`.
    """

    def __init__(
        self,
        inner: Store,
        faults: Sequence[Fault],
        *,
        uri: str | None = None,
        traits: StoreTraits | None = None,
    ) -> None:
        super().__init__(inner, uri=uri, traits=traits or replace(inner.traits, is_mapped=False))
        self.faults = tuple(faults)
        self._seen = [0] * len(self.faults)
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.Lock()

    def _request(self, method: str, path: str, ranges: Pairs, call: Callable[[], T]) -> T:
        due = self._due(method)
        failing = next((fault for fault in due if fault.error is not None), None)
        if failing is not None:
            if failing.applied:
                call()
            raise failing.error or StoreError("broken by plan", path=path, store=self.uri)
        answer = call()
        for fault in due if ranges else ():
            answer = _damaged(answer, fault)
        return answer

    def _due(self, method: str) -> list[Fault]:
        with self._lock:
            due = []
            for index, fault in enumerate(self.faults):
                if fault.method in ("*", method):
                    self._seen[index] += 1
                    if self._seen[index] == fault.nth or (fault.sticky and self._seen[index] > fault.nth):
                        due.append(fault)
            return due


def _damaged(answer: Any, fault: Fault) -> Any:
    if isinstance(answer, list):
        return [_damaged(memory, fault) for memory in answer]
    memory = answer[: max(0, answer.size - fault.short)]
    if fault.flip is not None and fault.flip < memory.size * 8:
        memory = memory.copy()
        memory[fault.flip // 8] ^= 1 << (fault.flip % 8)
    return memory
