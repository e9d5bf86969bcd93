"""``dataclass``, which makes frozen classes in a fraction of the time.

The standard library compiles six functions for each frozen class; those of lancecy took a fifth of the time of
its first use in a process. Here only ``__init__`` is compiled, and sets slots through their descriptors. Type checkers see the
decorator of the standard library, whose ``replace``, ``fields`` and ``asdict`` take the classes.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Collection, Sequence
from operator import attrgetter
from reprlib import recursive_repr
from types import MemberDescriptorType
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]

Values = Callable[[Any], Any]


def _dataclass(
    given: type | None = None,
    /,
    *,
    frozen: bool = False,
    slots: bool = False,
    eq: bool = True,
    repr: bool = True,
    kw_only: bool = False,
) -> Any:
    """A class with the fields that its annotations name, as ``dataclasses.dataclass`` makes it.

    Parameters
    ----------
    given : type or None
        None makes a decorator.
    frozen, slots, eq, repr, kw_only : bool
        As in the standard library. A frozen class has no ``InitVar``.

    Examples
    --------
    >>> @dataclass(frozen=True, slots=True)
    ... class Point:
    ...     x: int
    ...     y: int = 0
    >>> Point(1), Point(1) == Point(1, 0), dataclasses.replace(Point(1), y=2)
    (Point(x=1, y=0), True, Point(x=1, y=2))
    >>> Point(1).x = 2
    Traceback (most recent call last):
    dataclasses.FrozenInstanceError: cannot assign to field 'x'
    """

    def made(cls: type) -> type:
        if frozen:
            return _frozen(cls, slots=slots, eq=eq, repr=repr, kw_only=kw_only)
        return dataclasses.dataclass(slots=slots, eq=eq, repr=repr, kw_only=kw_only)(cls)

    return made if given is None else made(given)


if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    dataclass = _dataclass


def _frozen(given: type, *, slots: bool, eq: bool, repr: bool, kw_only: bool) -> type:
    own = dict(vars(given))
    if given.__doc__ is None:
        # The standard library would write the signature, which takes as long as the rest.
        given.__doc__ = given.__name__
    # The standard library refuses a frozen subclass of a class that is not, and the reverse.
    from_frozen = any(
        params.frozen for base in given.__mro__ if (params := vars(base).get("__dataclass_params__"))
    )
    make = dataclasses.dataclass(
        init=False, repr=False, eq=False, frozen=from_frozen, slots=slots, kw_only=kw_only
    )
    cls: type = make(given)
    vars(cls)["__dataclass_params__"].frozen = True
    fields = dataclasses.fields(cls)
    methods: dict[str, Callable[..., Any]] = {"__init__": _init(cls, fields)}
    if repr:
        methods["__repr__"] = _repr([field.name for field in fields if field.repr])
    if eq:
        methods["__eq__"] = _eq(_values([field.name for field in fields if field.compare]))
        hashed = [field.name for field in fields if (field.compare if field.hash is None else field.hash)]
        methods["__hash__"] = _hash(_values(hashed))
    methods["__setattr__"], methods["__delattr__"] = _refusals(cls, {field.name for field in fields})
    if slots:
        methods.update(__getstate__=_state, __setstate__=_set_state)
    for name, method in methods.items():
        # A class with an ``__eq__`` of its own and no hash has None for it.
        if own.get(name) is None:
            setattr(cls, name, method)
    return cls


def _init(cls: type, fields: Sequence[dataclasses.Field[Any]]) -> Callable[..., None]:
    scope: dict[str, Any] = {"_missing": dataclasses.MISSING, "_set": object.__setattr__}
    given, named, body = ["self"], ["*"], []
    for field in fields:
        name, known = field.name, f"_known_{field.name}"
        default = absent = ""
        if field.default is not dataclasses.MISSING:
            scope[known] = field.default
            default = absent = known
        elif field.default_factory is not dataclasses.MISSING:
            scope[known] = field.default_factory
            default, absent = "_missing", f"{known}()"
        if field.init:
            (named if field.kw_only else given).append(f"{name}={default}" if default else name)
            value = f"{absent} if {name} is _missing else {name}" if default == "_missing" else name
        elif absent:
            value = absent
        else:
            continue  # ``__post_init__`` sets it
        slot = getattr(cls, name, None)
        if isinstance(slot, MemberDescriptorType):
            scope[f"_set_{name}"] = slot.__set__
            body.append(f"_set_{name}(self, {value})")
        else:
            body.append(f"_set(self, {name!r}, {value})")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    parameters = ", ".join([*given, *(named if len(named) > 1 else ())])
    lines = [f"def _made({', '.join(scope)}):", f" def __init__({parameters}):"]
    lines += [*(f"  {line}" for line in body or ["pass"]), " return __init__"]
    found: dict[str, Any] = {}
    # The names are those of the class's own source. In its module, ``typing.get_type_hints`` finds the types.
    exec("\n".join(lines), vars(sys.modules.get(cls.__module__, dataclasses)), found)  # noqa: S102
    made: Callable[..., None] = found["_made"](**scope)
    made.__qualname__, made.__module__ = f"{cls.__qualname__}.__init__", cls.__module__
    made.__annotations__ = {**{field.name: field.type for field in fields if field.init}, "return": None}
    return made


def _values(names: Sequence[str]) -> Values:
    """A function that returns fields of an object in a tuple."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda self: tuple([getattr(self, name) for name in names])


def _eq(values: Values) -> Callable[[Any, object], Any]:
    def equals(self: Any, other: object) -> Any:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    return equals


def _hash(values: Values) -> Callable[[Any], int]:
    return lambda self: hash(values(self))


def _repr(names: Sequence[str]) -> Callable[[Any], str]:
    @recursive_repr()
    def shown(self: Any) -> str:
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{self.__class__.__qualname__}({values})"

    return shown


def _refusals(cls: Any, names: Collection[str]) -> tuple[Callable[..., None], Callable[..., None]]:
    """``__setattr__`` and ``__delattr__``; a subclass may have attributes that are no fields."""

    def assign(self: Any, name: str, value: object) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def delete(self: Any, name: str) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    return assign, delete


def _state(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)
