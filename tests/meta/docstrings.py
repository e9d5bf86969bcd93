"""Reading numpydoc docstrings, as far as the house rules look at them."""

from __future__ import annotations

import inspect
import re

__all__ = ["entries", "sections", "signature_names", "summary"]

_HEADING = re.compile(r"^(?P<name>[A-Z][A-Za-z ]+)\n-{3,}$", re.MULTILINE)
_ENTRY = re.compile(
    r"^(?P<names>\*{0,2}[A-Za-z_][\w.]*(?:, \*{0,2}[A-Za-z_][\w.]*)*)\s*(?::.*)?$", re.MULTILINE
)


def sections(documented: object) -> dict[str, str]:
    """Section name -> text below its underline; what stands before the first one is under ``""``."""
    text = inspect.getdoc(documented) or ""
    found: dict[str, str] = {}
    marks = list(_HEADING.finditer(text))
    ends = [mark.start() for mark in marks] + [len(text)]
    found[""] = text[: ends[0]]
    for mark, end in zip(marks, ends[1:], strict=True):
        # Where the facts come from ("Source: …") closes a docstring and belongs to no section.
        found[mark["name"]] = text[mark.end() : end].split("\nSource:")[0].strip("\n")
    return found


def summary(documented: object) -> str:
    """First sentence of a docstring, empty if there is none."""
    return sections(documented)[""].strip().split("\n\n")[0]


def entries(section: str) -> list[str]:
    """Names that a section describes: ``a, b : int`` gives a and b; stars are kept off."""
    return [
        name.strip().lstrip("*") for match in _ENTRY.finditer(section) for name in match["names"].split(",")
    ]


def signature_names(function: object) -> list[str]:
    """Parameters of a function or class without ``self`` and ``cls``; empty where there is no signature."""
    try:
        parameters = inspect.signature(function).parameters  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return []
    return [name for name in parameters if name not in {"self", "cls"}]
