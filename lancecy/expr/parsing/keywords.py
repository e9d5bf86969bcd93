"""Columns named like keywords: ``when > 3`` and ``group IS NULL`` need no backquotes.

A pass over the tokens before the parser. A keyword that cannot start an operand, where an operand must come,
would be an error; read as a name it is what the user meant, and what pylance reads. No valid text changes its
meaning.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

__all__ = ["free_names"]

_WORD = re.compile(r"[^\W\d]\w*\Z")

# Tokens that can follow an operand. A word in front of anything else keeps its meaning: a call, a typed literal
# such as date '2024-05-01', the start of something longer.
_SIGNS = frozenset(
    "EQ NEQ NULLSAFE_EQ LT LTE GT GTE PLUS DASH STAR SLASH MOD DPIPE DOT DCOLON R_PAREN R_BRACKET COMMA".split()
)
_FOLLOWERS = _SIGNS | frozenset(
    "AND OR NOT IS IN BETWEEN LIKE ILIKE ESCAPE FROM FOR ALIAS WHEN THEN ELSE END".split()
)
# After these the next operand begins.
_OPENERS = (_SIGNS - {"DOT", "DCOLON", "R_PAREN", "R_BRACKET"}) | frozenset(
    "AND OR BETWEEN LIKE ILIKE ESCAPE FROM FOR CASE WHEN THEN ELSE L_PAREN L_BRACKET".split()
)
# These are operands or start one.
_OPERANDS = frozenset({"NULL", "TRUE", "FALSE", "CASE", "VAR", "IDENTIFIER"})
# So do these; they are names only in front of tokens that cannot belong to them.
_PREFIXES = {"NOT": _SIGNS - {"PLUS", "DASH"}, "INTERVAL": _FOLLOWERS - {"PLUS", "DASH"}}


def free_names(tokens: Sequence[Any]) -> None:
    """Turn keywords that can only be names into names, in place.

    Parameters
    ----------
    tokens : sequence of sqlglot Token
        Tokens of a filter or a computed column.
    """
    wanted, previous = True, ""
    for index, token in enumerate(tokens):
        kind = token.token_type.name
        following = tokens[index + 1].token_type.name if index + 1 < len(tokens) else ""
        is_first_branch = kind == "WHEN" and previous == "CASE"
        if wanted and not is_first_branch and _is_name(kind, token.text, following):
            token.token_type = type(token.token_type).VAR
            kind = "VAR"
        # A NOT in front of an operand still expects it; a NOT behind one (NOT IN, NOT LIKE) does not.
        wanted = kind in _OPENERS or (wanted and kind == "NOT")
        previous = kind


def _is_name(kind: str, text: str, following: str) -> bool:
    # Strings of every kind come without their quotes.
    if kind in _OPERANDS or kind.endswith("STRING") or not _WORD.match(text):
        return False
    return not following or following in _PREFIXES.get(kind, _FOLLOWERS)
