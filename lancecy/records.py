"""``dataclass``, which makes frozen classes in a fraction of the time.

The standard library compiles six functions for each frozen class; those of lancecy took a fifth of the time of
its first use in a process. Here only ``__init__`` is compiled, once for all classes with fields of the same form, and sets slots
through their descriptors. Type checkers see the decorator of the standard library, whose ``replace``, ``fields`` and ``asdict`` take the classes.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Collection, Sequence
from functools import cache
from operator import attrgetter
from reprlib import recursive_repr
from types import FunctionType, MemberDescriptorType
from typing import TYPE_CHECKING, Any, TypeAlias

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
    """``__init__``: a function that was compiled for classes of the same form, with this class's names and setters."""
    form: list[_Part] = []
    names: dict[str, str] = {}
    held: list[object] = []
    for field in fields:
        slot = getattr(cls, field.name, None)
        default = _NOTHING
        if field.default is not dataclasses.MISSING:
            default = _DEFAULT
        elif field.default_factory is not dataclasses.MISSING:
            default = _FACTORY
        elif not field.init:
            continue  # ``__post_init__`` sets it
        setter = slot.__set__ if isinstance(slot, MemberDescriptorType) else field.name
        names[f"v{len(form)}"] = field.name
        form.append((setter is not field.name, field.init, field.kw_only is True, default))
        held += [setter, field.default_factory if default == _FACTORY else field.default]
    first = _compiled(tuple(form), hasattr(cls, "__post_init__"))(*held)
    code = first.__code__
    code = code.replace(co_varnames=tuple(names.get(name, name) for name in code.co_varnames))
    # In the module of the class, ``typing.get_type_hints`` finds the types.
    space = vars(sys.modules.get(cls.__module__, dataclasses))
    made = FunctionType(code, space, "__init__", first.__defaults__, first.__closure__)
    made.__kwdefaults__ = {names[name]: value for name, value in (first.__kwdefaults__ or {}).items()} or None
    made.__qualname__, made.__module__ = f"{cls.__qualname__}.__init__", cls.__module__
    made.__annotations__ = {**{field.name: field.type for field in fields if field.init}, "return": None}
    return made


# Whether a field is a slot, is a parameter, one of keywords alone, and what it has without a value.
_Part: TypeAlias = tuple[bool, bool, bool, int]
_NOTHING, _DEFAULT, _FACTORY = range(3)


@cache
def _compiled(form: tuple[_Part, ...], has_end: bool) -> Callable[..., FunctionType]:
    """A function of the setters (names without slots) and the defaults (or their factories), which makes ``__init__``."""
    held, given, named, body = [], ["self"], ["*"], []
    for number, (is_slot, is_given, is_named, default) in enumerate(form):
        name, known = f"v{number}", f"d{number}"
        held += [f"s{number}", known]
        value = {_DEFAULT: known, _FACTORY: f"{known}()"}.get(default, name)
        if is_given:
            absent = {_DEFAULT: f"={known}", _FACTORY: "=missing"}.get(default, "")
            (named if is_named else given).append(name + absent)
            value = f"{value} if {name} is missing else {name}" if default == _FACTORY else name
        body.append(f"s{number}(self, {value})" if is_slot else f"set_(self, s{number}, {value})")
    if has_end:
        body.append("self.__post_init__()")
    parameters = ", ".join([*given, *(named if len(named) > 1 else ())])
    lines = [f"def make({', '.join(held)}):", f" def __init__({parameters}):"]
    lines += [*(f"  {line}" for line in body or ["pass"]), " return __init__"]
    space: dict[str, Any] = {}
    source = "\n".join(["def around(set_, missing):", *(f" {line}" for line in lines), " return make"])
    exec(source, space)  # noqa: S102  # no name of a class is in it
    made: Callable[..., FunctionType] = space["around"](object.__setattr__, dataclasses.MISSING)
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
