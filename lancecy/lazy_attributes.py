"""Attributes of a package that are imported when they are first used, so that importing the package is cheap."""

from __future__ import annotations

import gc
import importlib
import sys
from collections.abc import Callable, Collection, Mapping
from types import ModuleType
from typing import Any

__all__ = ["lazy_attributes"]


def lazy_attributes(
    package: str, homes: Mapping[str, str], others: Collection[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Two functions and a list for a package to use as ``__getattr__``, ``__dir__`` and ``__all__``.

    Parameters
    ----------
    package : str
        Name of the package.
    homes : mapping of str to str
        Modules, and the names, separated by blanks, that they define.
    others : collection of str
        Names that are modules of the package, or that the package defines itself.

    Examples
    --------
    >>> find, _, names = lazy_attributes("lancecy", {"lancecy.limits": "Limits"})
    >>> find("Limits").__name__, names
    ('Limits', ['Limits'])
    """
    modules = {name: module for module, names in homes.items() for name in names.split()}
    offered = sorted([*modules, *others])

    def find(name: str) -> Any:
        if name in modules:
            value = getattr(_imported(modules[name]), name)
        elif name in others:
            value = _imported(f"{package}.{name}")
        else:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        setattr(sys.modules[package], name, value)
        return value

    return find, lambda: list(offered), offered


def _imported(module: str) -> ModuleType:
    """The module; what modules make stays, so that looking for garbage among it only takes a tenth of the time."""
    collects = gc.isenabled()
    gc.disable()
    try:
        return importlib.import_module(module)
    finally:
        if collects:
            gc.enable()
