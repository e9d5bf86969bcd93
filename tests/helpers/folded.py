"""Many cases in one test: what ``pytest.mark.parametrize`` does, without a test's cost for each case.

pytest, its plugins and the message to another process cost some milliseconds per test, which is more than
most cases take. Every case is run, also those behind one that failed, and the report names all that failed.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import pytest

__all__ = ["folded"]

F = TypeVar("F", bound=Callable[..., None])
Ids = Callable[[Any], object] | Sequence[str]
SHOWN = 20
"""Failed cases that a report names."""


@dataclass(frozen=True)
class Case:
    """Values by the names of their arguments, and what a report calls the case or each of them."""

    values: dict[str, Any]
    label: Callable[[Any], object] | str

    def __str__(self) -> str:
        if not callable(self.label):
            return self.label
        return ", ".join(f"{name}={self.label(value)}"[:300] for name, value in self.values.items())


def folded(
    names: str | Sequence[str],
    cases: Iterable[Any],
    *,
    ids: Ids = repr,
    by: Callable[[Any], object] | None = None,
) -> Callable[[F], F]:
    """Decorator: the function is called once per case, within one test.

    Parameters
    ----------
    names : str or sequence of str
        Arguments that a case gives, as for ``pytest.mark.parametrize``.
    cases : iterable
        Values, or tuples of values where there are several names; ``pytest.param`` where it has no marks.
    ids : function or sequence of str
        From a value to what the report calls it; or what it calls each case.
    by : function, optional
        From a case to the name of the test it belongs to; one test for all if not given.

    Returns
    -------
    decorator
        Stacks, with itself (one ``by`` at most) and with ``pytest.mark.parametrize``. The cases of a test share its
        fixtures: what one leaves behind (in ``tmp_path``, in ``monkeypatch``) the next one finds.

    Raises
    ------
    ValueError
        There are no cases, so that nothing would be tested; or one has marks, or not a value for each name.
    """
    wanted = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    groups: dict[str, list[Case]] = {}
    for number, case in enumerate(cases):
        label = ids if callable(ids) else ids[number]
        groups.setdefault(str(by(case)) if by else "", []).append(_named(case, wanted, label))
    if not groups:
        raise ValueError(f"no cases of {wanted}")

    def decorate(test: F) -> F:
        parameters = inspect.signature(test).parameters
        if not set(wanted) <= set(parameters):
            raise ValueError(f"{test.__name__} does not take {sorted(set(wanted) - set(parameters))}")

        @functools.wraps(test)
        def run(*, cases_of: str = "", **fixtures: Any) -> None:
            __tracebackhide__ = True
            _run_all(functools.partial(test, **fixtures), groups[cases_of])

        left = [parameter for name, parameter in parameters.items() if name not in wanted]
        if by:
            left.append(inspect.Parameter("cases_of", inspect.Parameter.KEYWORD_ONLY))
        run.__signature__ = inspect.Signature(left)  # type: ignore[attr-defined]
        return pytest.mark.parametrize("cases_of", sorted(groups))(run) if by else run  # type: ignore[return-value]

    return decorate


def _named(case: Any, names: Sequence[str], label: Callable[[Any], object] | str) -> Case:
    values = (case,) if len(names) == 1 else case
    if isinstance(case, type(pytest.param())):
        if case.marks:
            raise ValueError(f"{case} has marks, which only a test can have")
        values, label = case.values, str(case.id) if case.id else label
    return Case(dict(zip(names, values, strict=True)), label)


def _run_all(test: Callable[..., None], cases: Sequence[Case]) -> None:
    """Call the test with every case; raises what the first failed with, and a note about all of them."""
    __tracebackhide__ = True
    errors: list[tuple[Case, BaseException]] = []
    for case in cases:
        try:
            test(**case.values)
        except (Exception, pytest.fail.Exception) as error:
            errors.append((case, error))
    if errors:
        (first_case, first), *others = errors
        first.add_note(f"in case: {first_case}")
        lines = [f"\n  {case}" for case, _ in others[: SHOWN - 1]]
        first.add_note(f"{len(errors)} of {len(cases)} cases failed" + "".join(lines))
        raise first
