"""Comparisons of one column with one whole number, such as look-ups by key: read without a parser.

A parser takes a tenth of the time of a look-up through an index, and importing it longer than opening a table. Whatever
is not surely such a comparison is left to it.
"""

from __future__ import annotations

import re

from lancecy.expr.nodes import Call, Column, Expr, Literal

__all__ = ["key_comparison"]

_FORM = re.compile(
    r"\s*([a-z_]\w*(?:\.[a-z_]\w*)*)\s*(=|!=|<>|<=|>=|<|>)\s*(\d{1,18})\s*", re.ASCII | re.IGNORECASE
)

# Other words of the language are names of columns before a comparison with a number.
_WORDS = frozenset({"AND", "CASE", "FALSE", "IN", "IS", "NOT", "NULL", "OR", "SELECT", "TRUE"})


def key_comparison(text: str) -> Expr | None:
    """The expression if the text is such a comparison; None: it may be anything.

    Examples
    --------
    >>> key_comparison("id = 5")
    <call id = 5>
    >>> key_comparison("id = 5 OR a > 1") is None, key_comparison("null = 5") is None
    (True, True)
    """
    match = _FORM.fullmatch(text)
    if match is None:
        return None
    name, op, number = match.groups()
    if not _WORDS.isdisjoint(name.upper().split(".")):
        return None
    return Call("!=" if op == "<>" else op, (Column((name,), exact=False), Literal(int(number))))
