r"""JSON paths: text to the steps of the kernel that follows them.

A path is ``$`` and steps; as in pylance, the ``$`` may be missing, also before a first name without a dot.

==================================  ======================================================================
``.name``, ``:name``, ``["name"]``  the member of an object; also ``."a name"``, with the escapes of JSON
``[2]``, ``[last]``, ``[last - 1]``   the element of an array; a negative number has none
``[0, 2]``, ``[1 to last]``         several elements, in this order; a range is cut at the ends of the array
``[*]``                             all elements; anything but an array is itself its only element
``.*``                              the values of all members
``.**``, ``.**{2}``, ``.**{1 to 3}``    the value and all values below it, or those so many levels below it
==================================  ======================================================================

Filters (``?(@.a > 1)``), predicates and arithmetic are not supported.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import lru_cache

from lancecy.encodings.arrow.json import PathSteps
from lancecy.errors import ExpressionError, printable

__all__ = ["element_steps", "key_steps", "path_steps"]

_NAME, _RANGE, _ELEMENTS, _ITEMS, _MEMBERS, _DESCEND, _KEY = range(7)
_FIRST_FROM_LAST, _LAST_FROM_LAST, _MORE_RANGES = 1, 2, 4
_MOST_STEPS = 127
_DEEPEST = 255

_RAW = r"""(?:[^ ,.:{}\[\]()?@$|<>!=+\-*/%"'\\]|\\.)+"""
_QUOTED = r'"(?:[^"\\]|\\.)+"'
_SPACE = r"[ \t\r\n]*"
_BARE = re.compile(_RAW, re.DOTALL)
_MEMBER = re.compile(rf"[.:](?:(?P<quoted>{_QUOTED})|(?P<raw>{_RAW}))", re.DOTALL)
_IN_BRACKETS = re.compile(rf"\[{_SPACE}(?P<quoted>{_QUOTED}){_SPACE}\]", re.DOTALL)
_ALL_BELOW = re.compile(
    rf"\.\*\*(?:\{{{_SPACE}(?P<first>\d+)(?:{_SPACE}to{_SPACE}(?P<last>\d+|last))?{_SPACE}\}})?",
    re.ASCII,
)
_ALL_MEMBERS = re.compile(r"\.\*")
_ALL_ELEMENTS = re.compile(rf"\[{_SPACE}\*{_SPACE}\]")
_INDEX = rf"(?:[+-]?\d+|last(?:{_SPACE}[+-]{_SPACE}[+-]?\d+)?)"
_ONE_RANGE = rf"{_SPACE}{_INDEX}(?:{_SPACE}to{_SPACE}{_INDEX})?{_SPACE}"
_RANGES = re.compile(rf"\[(?P<ranges>{_ONE_RANGE}(?:,{_ONE_RANGE})*)\]", re.IGNORECASE | re.ASCII)
_LAST = re.compile(rf"last(?:{_SPACE}([+-]){_SPACE}([+-]?\d+))?", re.IGNORECASE | re.ASCII)
_SPACES = re.compile(_SPACE)
_NUMBER_KEY = re.compile(r"\+?[0-9]+")


@lru_cache(maxsize=256)
def key_steps(key: str) -> PathSteps:
    """The path of one key: a member of an object by its name, an element of an array by its number."""
    name = key.encode()
    number = int(key) if _NUMBER_KEY.fullmatch(key) and len(key) < 20 else -1
    return PathSteps.of([(_KEY, 0, len(name), min(number, 1 << 62))], name)


@lru_cache(maxsize=256)
def path_steps(path: str) -> PathSteps:
    """The steps of a path.

    Raises
    ------
    ExpressionError
        The text is no such path.

    Examples
    --------
    >>> path_steps('$.a[0]').steps.tolist()
    [0, 0, 1, 0, 1, 0, 0, 0]
    """
    parser = _Parser(path)
    return PathSteps.of(parser.steps, bytes(parser.names))


@lru_cache(maxsize=256)
def element_steps(path: str) -> PathSteps:
    """The steps to all elements of the arrays that a path leads to.

    Raises
    ------
    ExpressionError
        The text is no such path.
    """
    parser = _Parser(path)
    return PathSteps.of([*parser.steps, (_ITEMS, 0, 0, 0)], bytes(parser.names))


def _unescaped(quoted: str, fail: Callable[[], ExpressionError]) -> str:
    """The text that a name in quotes stands for."""
    plain = re.sub(r"\\\\|\\u\{([0-9a-fA-F]{4})\}", lambda m: f"\\u{m[1]}" if m[1] else m[0], quoted)
    try:
        name = json.loads(plain, strict=False)
        name.encode()
    except ValueError:
        raise fail() from None
    return str(name)


class _Parser:
    """Reads one path from its start.

    Attributes
    ----------
    steps : list of (kind, first, last, flags)
    names : bytearray
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.steps: list[tuple[int, int, int, int]] = []
        self.names = bytearray()
        self._at = 0
        self._skip()
        if path.startswith("$", self._at):
            self._at += 1
        elif (first := _BARE.match(path, self._at)) is not None:
            self._member(_unescaped(f'"{first.group()}"', self._fail))
            self._at = first.end()
        self._skip()
        while self._at < len(path):
            self._step()
            self._skip()
        if len(self.steps) > _MOST_STEPS:
            raise ExpressionError(
                f"a JSON path has {len(self.steps)} steps, where {_MOST_STEPS} are possible"
            )

    def _skip(self) -> None:
        found = _SPACES.match(self.path, self._at)
        self._at = found.end() if found is not None else self._at

    def _step(self) -> None:
        for pattern, read in self._PATTERNS:
            found = pattern.match(self.path, self._at)
            if found is not None:
                read(self, found)
                self._at = found.end()
                return
        raise self._fail()

    def _fail(self) -> ExpressionError:
        rest = self.path[self._at :]
        shown, place = printable(self.path), f"character {self._at + 1}"
        if re.match(r"\?|[-+*/%<>=!|&]", rest) or self.path.lstrip().startswith("exists"):
            return ExpressionError(
                f"the JSON path {shown!r} has a filter or an operator at {place}: only names, [0], [*], .* and .** are supported"
            )
        return ExpressionError(
            f'{shown!r} is no JSON path, from {place} on; a path is written like $.a.b[0] or $["a name"][*]'
        )

    def _member(self, name: str) -> None:
        start = len(self.names)
        self.names += name.encode()
        self.steps.append((_NAME, start, len(self.names), 0))

    def _named(self, found: re.Match[str]) -> None:
        quoted = found.groupdict()["quoted"]
        self._member(_unescaped(quoted or f'"{found["raw"]}"', self._fail))

    def _below(self, found: re.Match[str]) -> None:
        first, last = found["first"], found["last"]
        if first is None:
            self.steps.append((_DESCEND, 0, _DEEPEST, 0))
            return
        low = int(first)
        high = _DEEPEST if last == "last" else int(last or first)
        if max(low, high) > _DEEPEST:
            raise self._fail()
        self.steps.append((_DESCEND, low, high, 0))

    def _ranges(self, found: re.Match[str]) -> None:
        written = found["ranges"].split(",")
        for number, part in enumerate(written):
            edges = [self._index(edge) for edge in re.split(r"to", part.strip(), flags=re.IGNORECASE)]
            (first, from_last), (last, to_last) = edges[0], edges[-1]
            flags = (_FIRST_FROM_LAST if from_last else 0) | (_LAST_FROM_LAST if to_last else 0)
            more = _MORE_RANGES if number + 1 < len(written) else 0
            self.steps.append((_RANGE, first, last, flags | more))

    def _index(self, text: str) -> tuple[int, bool]:
        """A number, and whether it counts from the last element."""
        found = _LAST.fullmatch(text.strip())
        if found is None:
            return self._int32(text), False
        sign, digits = found.groups()
        if sign is None:
            return 0, True
        distance = self._int32(digits)
        return (-distance if sign == "-" else distance), True

    def _int32(self, digits: str) -> int:
        value = int(digits) if len(digits) < 40 else 1 << 32
        if not -(1 << 31) <= value < 1 << 31:
            raise self._fail()
        return value

    _PATTERNS = (
        (_ALL_BELOW, _below),
        (_ALL_MEMBERS, lambda self, _: self.steps.append((_MEMBERS, 0, 0, 0))),
        (_ALL_ELEMENTS, lambda self, _: self.steps.append((_ELEMENTS, 0, 0, 0))),
        (_MEMBER, _named),
        (_RANGES, _ranges),
        (_IN_BRACKETS, _named),
    )
