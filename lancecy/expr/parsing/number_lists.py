"""Long lists of whole numbers after IN, read apart from the rest of a filter.

A parser makes a node of every number, which takes most of the time of a look-up of a thousand keys. So a list becomes
one number that the text does not contain, and its values take the place of that number in the expression.
"""

from __future__ import annotations

import re

__all__ = ["cut_lists"]

# Strings and quoted names are skipped, so that a list in one stays.
_PARTS = re.compile(
    r"""'(?:[^']|'')*'|`(?:[^`]|``)*`|"(?:[^"]|"")*"|(?<![\w.])(in\s*\()(\s*-?\d{1,18}(?:\s*,\s*-?\d{1,18}){15,}\s*)\)""",
    re.IGNORECASE,
)
_COMMENTS = ("--", "/*", "{#", "{%", "{{", "\\")
_SHORT = 60
_FIRST = 10**40


def cut_lists(text: str) -> tuple[str, dict[int, tuple[int, ...]]]:
    """The text with a number in place of each long list after IN, and the lists by these numbers.

    Examples
    --------
    >>> text, lists = cut_lists("a IN (" + ", ".join(map(str, range(20))) + ") AND b > 1")
    >>> len(text) < 70, [len(found) for found in lists.values()]
    (True, [20])
    """
    lists: dict[int, tuple[int, ...]] = {}
    if len(text) < _SHORT or str(_FIRST)[:-6] in text or any(mark in text for mark in _COMMENTS):
        return text, lists

    def cut(match: re.Match[str]) -> str:
        head, numbers = match.groups()
        if numbers is None:
            return match[0]
        lists[_FIRST + len(lists)] = tuple(map(int, numbers.split(",")))
        return f"{head}{_FIRST + len(lists) - 1})"

    return _PARTS.sub(cut, text), lists
