"""LIKE patterns, compiled once into the cheapest test for them.

``abc%`` is a prefix, ``%abc`` a suffix, ``%abc%`` a substring and a pattern without
wildcards an equality; only the rest becomes a regular expression (RE2, linear time).
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lancecy.errors import ExpressionError
from lancecy.expr.evaluation.constants import contains
from lancecy.records import dataclass

__all__ = ["LikePlan", "like_plan", "like_texts", "match_like"]


@dataclass(frozen=True, slots=True)
class LikePlan:
    """The test that decides a pattern.

    Attributes
    ----------
    how : str
        "equals", "prefix", "suffix", "contains" or "regex".
    text : str
        The text searched for, or the regular expression.
    prefix : str
        Every matching text begins with this (unless case is ignored).
    """

    how: str
    text: str
    prefix: str


@lru_cache(maxsize=1024)
def like_plan(pattern: str, escape: str) -> LikePlan:
    """Choose the test for a pattern.

    Parameters
    ----------
    pattern : str
        ``%`` stands for any text, ``_`` for one character, newlines included.
    escape : str
        The character that makes the next one ordinary; "" for none.

    Raises
    ------
    ExpressionError
        ``escape`` is longer than one character.

    Examples
    --------
    >>> like_plan("100!%%", "!")
    LikePlan(how='prefix', text='100%', prefix='100%')
    """
    if len(escape) > 1:
        raise ExpressionError(f"ESCAPE takes one character, not {escape!r}")
    parts = _split(pattern, escape)
    texts = [p for p in parts if p not in (_ANY, _ONE)]
    prefix = str(parts[0]) if parts and parts[0] not in (_ANY, _ONE) else ""
    shape = tuple("%" if p == _ANY else "_" if p == _ONE else "t" for p in parts)
    simple = {
        (): "equals",
        ("t",): "equals",
        ("%",): "contains",
        ("t", "%"): "prefix",
        ("%", "t"): "suffix",
        ("%", "t", "%"): "contains",
    }.get(shape)
    if simple is not None:
        return LikePlan(simple, "".join(str(t) for t in texts), prefix)
    return LikePlan("regex", _regex(parts), prefix)


def like_texts(pattern: str, escape: str) -> list[str]:
    """The texts between the wildcards of a pattern, all of which a matching text contains.

    Parameters
    ----------
    pattern, escape : str
        As for :func:`like_plan`.

    Examples
    --------
    >>> like_texts("%ab_cd%", "")
    ['ab', 'cd']
    """
    return [part for part in _split(pattern, escape) if isinstance(part, str)]


# Wildcards are integers and literal runs strings, so that an escaped "%" stays apart.
_ANY, _ONE = 0, 1
_WILDCARDS: dict[str | int, str] = {_ANY: ".*", _ONE: "."}


def _split(pattern: str, escape: str) -> list[str | int]:
    parts: list[str | int] = []
    text, characters = "", iter(pattern)
    for char in characters:
        if escape and char == escape:
            # At the very end the escape stands for itself, as in DataFusion.
            text += next(characters, char)
        elif char in "%_":
            if text:
                parts.append(text)
            text = ""
            wildcard = _ANY if char == "%" else _ONE
            if not (wildcard == _ANY and parts[-1:] == [_ANY]):
                parts.append(wildcard)
        else:
            text += char
    return [*parts, text] if text else parts


def _regex(parts: list[str | int]) -> str:
    start = "" if parts[0] == _ANY else "^"
    end = "" if parts[-1] == _ANY else "$"
    inner = parts[not start : len(parts) - (not end)]
    return "(?s)" + start + "".join(_WILDCARDS.get(p) or re.escape(str(p)) for p in inner) + end


def match_like(values: Any, pattern: str, escape: str, ignore_case: bool) -> Any:
    """Where text matches the pattern: boolean, null where the text is null.

    Raises
    ------
    ExpressionError
        Invalid escape, or a pattern that RE2 refuses (too large).
    """
    plan = like_plan(pattern, escape)
    if plan.how == "equals" and not ignore_case:
        return pc.equal(values, pa.scalar(plan.text, values.type))
    if plan.how == "equals":
        return regex_match(values, f"(?s)^{re.escape(plan.text)}$", True)
    if plan.how == "regex":
        return regex_match(values, plan.text, ignore_case)
    if plan.how == "contains" and not ignore_case:
        return contains(values, plan.text)
    kernel = {"prefix": pc.starts_with, "suffix": pc.ends_with, "contains": pc.match_substring}[plan.how]
    return kernel(values, pattern=plan.text, ignore_case=ignore_case)


def regex_match(values: Any, pattern: str, ignore_case: bool = False) -> Any:
    """Where the regular expression matches somewhere in the text.

    Raises
    ------
    ExpressionError
        RE2 rejects the pattern.
    """
    try:
        return pc.match_substring_regex(values, pattern=pattern, ignore_case=ignore_case)
    except pa.ArrowInvalid as error:
        raise ExpressionError(f"{pattern!r} is not a regular expression: {error}") from error
