"""Which modules a marker expression leaves out as a whole, told from their text: they need not be imported."""

from __future__ import annotations

import re

__all__ = ["is_left_out"]

_TERM = re.compile(r"(not )?(\w+)")
_OF_MODULE = re.compile(r"^pytestmark = .*", re.MULTILINE)
_MARK = re.compile(r"\bmark\.(\w+)")


def is_left_out(expression: str, source: str) -> bool:
    """Whether none of a module's tests matches the expression of ``pytest -m``.

    Parameters
    ----------
    expression : str
        Terms joined by ``and``, each the name of a marker or ``not`` and a name; any other expression leaves nothing out.
    source : str
        Text of the module. Markers that its tests get from elsewhere, as from parameters that it imports, are not seen.

    Returns
    -------
    bool
        True if the module as a whole has a marker that is not wanted, or names one that is wanted nowhere.
    """
    terms = [_TERM.fullmatch(term.strip()) for term in expression.split(" and ")]
    if not all(terms):
        return False
    of_module = {mark for line in _OF_MODULE.findall(source) for mark in _MARK.findall(line)}
    named = set(_MARK.findall(source))
    return any((term[2] in of_module) if term[1] else (term[2] not in named) for term in terms if term)
