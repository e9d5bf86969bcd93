"""Attributes of a package that are imported when they are first used, so that importing the package is cheap."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Collection, Mapping
from typing import Any

__all__ = ["lazy_attributes"]


def lazy_attributes(
    package: str, homes: Mapping[str, str], modules: Collection[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Functions for a package to use as ``__getattr__`` and ``__dir__``.

    Parameters
    ----------
    package : str
        Name of the package; it has ``__all__``.
    homes : mapping of str to str
        Names, and the modules that define them.
    modules : collection of str
        Names that are modules of the package.

    Examples
    --------
    >>> find, _ = lazy_attributes("lancecy", {"Limits": "lancecy.limits"})
    >>> find("Limits").__name__
    'Limits'
    """

    def find(name: str) -> Any:
        if name in homes:
            value = getattr(importlib.import_module(homes[name]), name)
        elif name in modules:
            value = importlib.import_module(f"{package}.{name}")
        else:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return list(sys.modules[package].__all__)

    return find, names
