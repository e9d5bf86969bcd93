"""Many cases in one test: what ``pytest.mark.parametrize`` does, without a test's cost for each case.

pytest, the plugins and the message to another process cost some milliseconds per test, which is more than
most cases take. Every case is still run, also behind one that failed, and the report names those that did.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import pytest

__all__ = ["folded"]

F = TypeVar("F", bound=Callable[..., None])


def folded(
    names: str | tuple[str, ...], cases: Iterable[Any], ids: Callable[[Any], str] = repr
) -> Callable[[F], F]:
    """Decorator: the function is called once per case, within one test.

    Parameters
    ----------
    names : str or tuple of str
        Arguments that a case gives, as for ``pytest.mark.parametrize``.
    cases : iterable
        Values, or tuples of values where there are several names.
    ids : function
        From a value to what the report calls it.

    Returns
    -------
    decorator
        Stacks, with itself and with ``pytest.mark.parametrize``. Fixtures are shared by all cases: what a case leaves
        behind (in ``tmp_path``, in ``monkeypatch``) the next one finds.

    Raises
    ------
    ValueError
        There are no cases: nothing would be tested.
    """
    wanted = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    table = [case if len(wanted) > 1 else (case,) for case in cases]
    if not table or any(len(case) != len(wanted) for case in table):
        raise ValueError(f"cases of {names!r} must be given, each with {len(wanted)} values")

    def decorate(test: F) -> F:
        @functools.wraps(test)
        def run(**fixtures: Any) -> None:
            __tracebackhide__ = True
            _run_all(test, wanted, table, ids, fixtures)

        signature = inspect.signature(test)
        missing = set(wanted) - set(signature.parameters)
        if missing:
            raise ValueError(f"{test.__name__} does not take {sorted(missing)}")
        left = [parameter for name, parameter in signature.parameters.items() if name not in wanted]
        run.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        return run  # type: ignore[return-value]

    return decorate


def _run_all(
    test: Callable[..., None],
    names: list[str],
    table: list[tuple[Any, ...]],
    ids: Callable[[Any], str],
    fixtures: dict[str, Any],
) -> None:
    __tracebackhide__ = True
    first: BaseException | None = None
    failed: list[str] = []
    for case in table:
        try:
            test(**dict(zip(names, case, strict=True)), **fixtures)
        except (Exception, pytest.fail.Exception) as error:
            failed.append(", ".join(f"{name}={ids(value)}" for name, value in zip(names, case, strict=True)))
            first = first or error
    if first is not None:
        first.add_note(f"{len(failed)} of {len(table)} cases failed; this one: {failed[0]}")
        first.add_note("\n".join(f"case failed: {what[:300]}" for what in failed[1:21]))
        raise first
