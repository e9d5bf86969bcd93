"""Keyword options that several functions share, each declared once, and the one check of the types of arguments.

A typed dictionary has their names and types, a mapping their defaults. A function takes them as
``**options: Unpack[ScanOptions]``, so that type checkers and editors complete the names.
:func:`shared_options` adds them to the signature that ``help`` shows, and refuses unknown names with a suggestion.
:func:`checked_arguments` refuses unknown names of other functions. Both refuse values that do not have the annotated
type: numbers, flags, texts, lists, mappings, and a few classes. Annotations of other kinds are not looked at.
"""

from __future__ import annotations

import functools
import inspect
import operator
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple, TypedDict, TypeVar, cast
from uuid import UUID

from lancecy.errors import UnsupportedError, nearest, with_short_tracebacks

__all__ = ["check_options", "checked_arguments", "shared_options", "uuid_of", "whole_number"]

F = TypeVar("F", bound=Callable[..., Any])


def shared_options(
    kind: type[Any],
    defaults: Mapping[str, object],
    unsupported: Mapping[str, str] | None = None,
    aliases: Mapping[str, str] | None = None,
    hints: Collection[str] = (),
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
    hints : collection of str
        Options of other libraries that change no result: they are accepted, and have no effect.

    Returns
    -------
    function
        A decorator; the function then raises ``TypeError`` for an unknown name or a value of another type, and
        ``UnsupportedError`` for one of ``unsupported``. With None or False, which ask for nothing, these are accepted.

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
        # Arguments after these are those of ``*args``.
        names = [p.name for p in plain if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        # A class is called by its own name.
        called = function.__qualname__.removesuffix(".__init__").rpartition(".")[2]
        annotated = {**kind.__annotations__, **{p.name: p.annotation for p in plain}}
        checks = _checks(annotated, {**vars(sys.modules[kind.__module__]), **function.__globals__})

        @with_short_tracebacks
        @functools.wraps(function)
        def checked(*args: Any, **given: Any) -> Any:
            if not given.keys() <= known:
                given = _renamed(called, given, others) if others else given
                given = {name: value for name, value in given.items() if name not in hints}
                given = _accepted(called, given, known, refused)
            _check({**dict(zip(names, args, strict=False)), **given}, checks)
            return function(*args, **given)

        checked.__signature__ = signature.replace(parameters=[*plain, *added])  # type: ignore[attr-defined]
        return cast(F, checked)

    return decorate


class _NoOptions(TypedDict):
    """Options of a function that shares none."""


def checked_arguments(
    unsupported: Mapping[str, str] | None = None,
    aliases: Mapping[str, str] | None = None,
    hints: Collection[str] = (),
) -> Callable[[F], F]:
    """Decorator for a function without shared options.

    Parameters
    ----------
    unsupported, aliases : mapping of str to str, optional
    hints : collection of str
        As for :func:`shared_options`.

    Examples
    --------
    >>> @checked_arguments({"engine": "there is only one"})
    ... def read(path: str, *, size: int = 3): ...
    >>> read("x", size="3")
    Traceback (most recent call last):
        ...
    TypeError: size is a whole number, not '3'
    """
    return shared_options(_NoOptions, {}, unsupported, aliases, hints)


def check_options(kind: type[Any], given: Mapping[str, object]) -> None:
    """Refuse options whose values do not have the type that a typed dictionary states.

    Parameters
    ----------
    kind : TypedDict class
    given : mapping
        Other names are not looked at.

    Raises
    ------
    TypeError
        A value has another type.
    """
    _check(given, _checks_of(cast(Any, kind)))


def whole_number(name: str, value: Any, *, may_be_negative: bool = True) -> int:
    """A number of Python, NumPy or pandas as an integer.

    Parameters
    ----------
    name : str
        The argument, for errors.
    value : object
    may_be_negative : bool

    Raises
    ------
    TypeError
        It is no integer: text, a boolean, or a float, also one without a fraction.
    ValueError
        It is negative.

    Examples
    --------
    >>> whole_number("limit", 3)
    3
    """
    if not _is_whole(value):
        raise TypeError(f"{name} is a whole number, not {value!r}")
    number = operator.index(value)
    if not may_be_negative and number < 0:
        raise ValueError(f"{name} must not be negative, got {number}")
    return number


def uuid_of(name: str, value: Any) -> UUID:
    """A UUID, or the text of one.

    Parameters
    ----------
    name : str
        The argument, for errors.
    value : object

    Raises
    ------
    ValueError
        It is not the text of a UUID.

    Examples
    --------
    >>> uuid_of("index_uuid", "0123")
    Traceback (most recent call last):
        ...
    ValueError: index_uuid is a UUID, such as str(uuid.uuid4()), not '0123'
    """
    try:
        return UUID(str(value))
    except ValueError as error:
        raise ValueError(f"{name} is a UUID, such as str(uuid.uuid4()), not {value!r}") from error


@functools.cache
def _checks_of(kind: Any) -> dict[str, _Check]:
    return _checks(kind.__annotations__, vars(sys.modules[kind.__module__]))


class _Check(NamedTuple):
    """What values of an annotation are."""

    fits: Callable[[Any], bool]
    what: str
    may_be_none: bool


def _is_whole(value: Any) -> bool:
    if isinstance(value, bool):
        return False
    try:
        operator.index(value)
    except TypeError:
        return False
    return not _is_flag(value)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool) or getattr(getattr(value, "dtype", None), "kind", "") == "b"


_PLAIN: dict[str, tuple[Callable[[Any], bool], str]] = {
    "int": (_is_whole, "a whole number"),
    "bool": (_is_flag, "True or False"),
    "str": (lambda value: isinstance(value, str), "text"),
    "Mapping": (lambda value: isinstance(value, Mapping), "a mapping"),
    "Iterable": (lambda value: isinstance(value, Iterable), "a list"),
    "Sequence": (lambda value: isinstance(value, Iterable), "a list"),
    "Collection": (lambda value: isinstance(value, Iterable), "a list"),
}
_CLASSES = {
    "Limits": "a lancecy.Limits",
    "Session": "a lancecy.Session",
    "pa.Schema": "a pyarrow.Schema",
    "timedelta": "a timedelta such as datetime.timedelta(days=7)",
}
"""Classes by their names in annotations, and what they are in words."""


def _checks(annotated: Mapping[str, object], names: Mapping[str, Any]) -> dict[str, _Check]:
    """The checks of arguments by their annotations; ``names`` are those that the annotations mean."""
    checks = {}
    for argument, annotation in annotated.items():
        text = str(_text(annotation))
        kind = text.removesuffix(" | None")
        outer = kind.partition("[")[0]
        if " | " not in outer and " | " not in kind.rpartition("]")[2]:
            found = _PLAIN.get(outer) or _class_check(kind, names)
            if found is not None:
                checks[argument] = _Check(*found, may_be_none=text != kind)
    return checks


def _class_check(kind: str, names: Mapping[str, Any]) -> tuple[Callable[[Any], bool], str] | None:
    if kind not in _CLASSES:
        return None
    module, _, name = kind.rpartition(".")
    found = vars(names[module]).get(name) if module else names.get(name)
    return (lambda value: isinstance(value, found), _CLASSES[kind]) if isinstance(found, type) else None


def _check(given: Mapping[str, Any], checks: Mapping[str, _Check]) -> None:
    for name, value in given.items():
        check = checks.get(name)
        if check is None or (value is None and check.may_be_none) or check.fits(value):
            continue
        such = f", such as {str(value)!r}" if check.what == "text" and isinstance(value, int | float) else ""
        raise TypeError(f"{name} is {check.what}{such}, not {value!r}")


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
