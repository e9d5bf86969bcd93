"""Keyword options that several functions share, each declared once.

A typed dictionary has their names and types, a mapping their defaults. A function takes them as
``**options: Unpack[ScanOptions]``, so that type checkers and editors complete the names.
:func:`shared_options` adds them to the signature that ``help`` shows, and refuses unknown names with a suggestion.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from lancecy.errors import UnsupportedError, nearest, with_short_tracebacks

__all__ = ["shared_options"]

F = TypeVar("F", bound=Callable[..., Any])


def shared_options(
    kind: type[Any],
    defaults: Mapping[str, object],
    unsupported: Mapping[str, str] | None = None,
    aliases: Mapping[str, str] | None = None,
) -> Callable[[F], F]:
    """Decorator for a function that ends in ``**options: Unpack[kind]``.

    Parameters
    ----------
    kind : TypedDict class
        Names and types of the options.
    defaults : mapping of str to object
        The default of each option, shown in the signature.
    unsupported : mapping of str to str, optional
        Options of other libraries that lancecy refuses, and the alternative to each.
    aliases : mapping of str to str, optional
        Other names that arguments are accepted under, and the name of each.

    Returns
    -------
    function
        A decorator; the function then raises ``TypeError`` for an unknown name and ``UnsupportedError`` for
        one of ``unsupported``. With None or False, which ask for nothing, these are accepted.

    Examples
    --------
    >>> from typing import TypedDict
    >>> class Options(TypedDict, total=False):
    ...     size: int
    >>> @shared_options(Options, {"size": 3})
    ... def read(path: str, **options): ...
    >>> import inspect
    >>> inspect.signature(read)
    <Signature (path: 'str', *, size: 'int' = 3)>
    >>> read("x", sise=4)
    Traceback (most recent call last):
        ...
    TypeError: read() takes no argument 'sise'; did you mean 'size'?
    """
    refused, others = unsupported or {}, aliases or {}

    def decorate(function: F) -> F:
        signature = inspect.signature(function)
        plain = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        taken = {p.name for p in plain}
        added = [
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=defaults[name], annotation=_text(annotation)
            )
            for name, annotation in kind.__annotations__.items()
            if name not in taken
        ]
        known = taken | set(kind.__annotations__)

        @with_short_tracebacks
        @functools.wraps(function)
        def checked(*args: Any, **given: Any) -> Any:
            if not given.keys() <= known:
                given = _renamed(function.__name__, given, others) if others else given
                given = _accepted(function.__name__, given, known, refused)
            return function(*args, **given)

        checked.__signature__ = signature.replace(parameters=[*plain, *added])  # type: ignore[attr-defined]
        return cast(F, checked)

    return decorate


def _text(annotation: object) -> object:
    return getattr(annotation, "__forward_arg__", annotation)


def _renamed(function: str, given: Mapping[str, Any], aliases: Mapping[str, str]) -> dict[str, Any]:
    """The arguments under their names; an argument under both is an error."""
    for other, name in aliases.items():
        if other in given and name in given:
            raise TypeError(f"{function}() got {name!r} twice, also as {other!r}")
    return {aliases.get(name, name): value for name, value in given.items()}


def _accepted(
    function: str, given: Mapping[str, Any], known: set[str], refused: Mapping[str, str]
) -> dict[str, Any]:
    """The known options; the others must be refused ones that ask for nothing."""
    for name, value in given.items():
        if name not in known and (name not in refused or not (value is None or value is False)):
            _refuse(function, name, known, refused)
    return {name: value for name, value in given.items() if name in known}


def _refuse(function: str, name: str, known: set[str], refused: Mapping[str, str]) -> None:
    if name in refused:
        raise UnsupportedError(f"{function}({name}=…) is not supported: {refused[name]}", feature=name)
    close = nearest(name, known - {"self"}, limit=1)
    advice = f"; did you mean {close[0]!r}?" if close else ""
    raise TypeError(f"{function}() takes no argument {name!r}{advice}")
