"""Functions of texts character by character, and of texts that a column holds where a constant is usual.

Characters are code points, as in SQL and in pylance.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lancecy.errors import ExpressionError
from lancecy.expr.evaluation.growth import charge
from lancecy.expr.evaluation.rows import by_row
from lancecy.expr.evaluation.values import Data, by_chunk, is_wide
from lancecy.limits import COMPUTED_BYTES

__all__ = [
    "character",
    "code_point",
    "count_type",
    "distance",
    "first_parts",
    "initial_capitals",
    "of_rows",
    "overlay",
    "place_in_set",
    "replaced",
    "to_hex",
    "translate",
]

_BITS = (1 << 64) - 1


def count_type(values: Data) -> pa.DataType:
    """Type of numbers of characters: bigint for the large form of text, else int."""
    return pa.int64() if is_wide(values.type) else pa.int32()


def of_rows(name: str, run: Callable[..., str]) -> Callable[..., str]:
    """``run``, with the text that it makes of a row charged to the allowance."""

    def charged(*row: Any) -> str:
        made = run(*row)
        charge(name, len(made.encode()))
        return made

    return charged


def _of_values(run: Callable[[Any], Any], values: Data, target: pa.DataType) -> Data:
    """Apply ``run`` to every distinct value."""

    def of_chunk(chunk: pa.Array) -> pa.Array:
        coded = chunk.dictionary_encode()
        found = [run(value) for value in coded.dictionary.to_pylist()]
        return pa.array(found, target).take(coded.indices)

    return by_chunk(of_chunk, values)


def code_point(values: Data) -> Data:
    """The number of the first character in Unicode, 0 for empty text: int.

    Examples
    --------
    >>> code_point(pa.array(["a", "é", "", None])).to_pylist()
    [97, 233, 0, None]
    """
    first = pc.utf8_slice_codeunits(values, start=0, stop=1)
    return _of_values(lambda text: ord(text) if text else 0, first, pa.int32())


def character(values: Data) -> Data:
    """The character with a number in Unicode.

    Raises
    ------
    ExpressionError
        There is none.

    Examples
    --------
    >>> character(pa.array([65, 233, None])).to_pylist()
    ['A', 'é', None]
    """
    return _of_values(_character, values, pa.string())


def _character(number: int) -> str:
    if not 0 <= number <= 0x10FFFF or 0xD800 <= number < 0xE000:
        raise ExpressionError(
            f"chr() of {number}: characters have the numbers 0 to 1114111 but for 55296 to 57343"
        )
    return chr(number)


def to_hex(values: Data) -> Data:
    """Hexadecimal digits of an integer; a negative one as 64 bits.

    Examples
    --------
    >>> to_hex(pa.array([255, -1, None])).to_pylist()
    ['ff', 'ffffffffffffffff', None]
    """
    return by_row(lambda number: f"{number & _BITS:x}", pa.string(), values)


def initial_capitals(values: Data) -> Data:
    """Each word with an upper-case first letter and lower-case others; words are of letters and digits.

    Examples
    --------
    >>> initial_capitals(pa.array(["heLLo wORLD-foo 1st", None])).to_pylist()
    ['Hello World-Foo 1st', None]
    """
    return by_row(_capitals, values.type, values)


def _capitals(text: str) -> str:
    words = ("".join(word) for _, word in groupby(text, str.isalnum))
    # Letter by letter: the lower case of a whole text has another sigma at the end of a word.
    return "".join(word[0].upper() + "".join(map(str.lower, word[1:])) for word in words)


def distance(left: Data, right: Data) -> Data:
    """The fewest characters to insert, delete or change (Levenshtein) that make one text of the other.

    Examples
    --------
    >>> distance(pa.array(["kitten", "é", None]), pa.scalar("sitting")).to_pylist()
    [3, 7, None]
    """
    target = max(count_type(left), count_type(right), key=lambda kind: kind.bit_width)
    return by_row(_distance, target, left, right)


def _distance(text: str, other: str) -> int:
    # One column of the table of distances at a time, whose steps up and down are the bits of two numbers
    # (Myers 1999, Hyyrö 2003): time grows with the length of one text, and slowly with that of the other.
    text, other = sorted((text, other), key=len)
    if not text:
        return len(other)
    places = _places(other, frozenset(text))
    whole, last = (1 << len(other)) - 1, len(other) - 1
    up, down, score = whole, 0, len(other)
    for char in text:
        equal = places.get(char, 0)
        vertical = equal | down
        horizontal = (((equal & up) + up) ^ up) | equal
        more, less = down | ~(horizontal | up) & whole, up & horizontal
        score += (more >> last & 1) - (less >> last & 1)
        more, less = (more << 1 | 1) & whole, less << 1 & whole
        up, down = less | ~(vertical | more) & whole, more & vertical
    return score


def _places(text: str, wanted: frozenset[str]) -> dict[str, int]:
    """The places of wanted characters in a text, each as a bit of a number.

    Raises
    ------
    ExpressionError
        The numbers would take too much memory.
    """
    size = (len(text) + 7) // 8
    masks: dict[str, bytearray] = {}
    for index, char in enumerate(text):
        if char not in wanted:
            continue
        mask = masks.get(char)
        if mask is None:
            if (len(masks) + 1) * size > COMPUTED_BYTES:
                raise ExpressionError(
                    f"levenshtein() would need more than {COMPUTED_BYTES:,} bytes for a text of {len(text):,} "
                    "characters; compare shorter texts"
                )
            mask = masks[char] = bytearray(size)
        mask[index >> 3] |= 1 << (index & 7)
    return {char: int.from_bytes(mask, "little") for char, mask in masks.items()}


def place_in_set(values: Data, listed: Any) -> Data:
    """The position of a text among those that commas separate in another: from 1 on, 0 if it is not there.

    Examples
    --------
    >>> place_in_set(pa.array(["b", "x", None]), "a,b,c").to_pylist()
    [2, 0, None]
    """
    return by_row(_place_in_set, pa.int32(), values, listed)


def _place_in_set(text: str, listed: str) -> int:
    parts = listed.split(",")
    return parts.index(text) + 1 if text in parts else 0


def first_parts(values: Data, separator: Any, count: Any) -> Data:
    """The text before the separator of this number, counted from the end and the text behind it if negative.

    Examples
    --------
    >>> first_parts(pa.array(["a.b.c", "a"]), ".", 2).to_pylist()
    ['a.b', 'a']
    >>> first_parts(pa.array(["a.b.c", "a"]), ".", -2).to_pylist()
    ['b.c', 'a']
    """
    return by_row(_first_parts, values.type, values, separator, count)


def _first_parts(text: str, separator: str, count: int) -> str:
    if not separator or not count:
        return ""
    if count > 0:
        return separator.join(text.split(separator, count)[:count])
    return separator.join(text.rsplit(separator, -count)[count:])


def overlay(values: Data, new: Any, start: Any, length: Any = None) -> Data:
    """Put ``new`` in place of ``length`` characters from the position ``start`` on, by default of as many as it has.

    Raises
    ------
    ExpressionError
        ``start`` is below 1, or the result would exceed the allowance.

    Examples
    --------
    >>> overlay(pa.array(["abcdef", None]), "XY", 2, 3).to_pylist()
    ['aXYef', None]
    """
    lengths = () if length is None else (length,)
    return by_row(of_rows("overlay()", _overlay), values.type, values, new, start, *lengths)


def _overlay(text: str, new: str, start: int, length: int | None = None) -> str:
    if start < 1:
        raise ExpressionError(f"overlay() counts positions from 1, not from {start}")
    end = start - 1 + (len(new) if length is None else length)
    return text[: start - 1] + new + text[max(0, end) :]


def translate(values: Data, old: Any, new: Any) -> Data:
    """Replace every character of ``old`` by the one at its place in ``new``, or by none beyond the end of ``new``.

    Raises
    ------
    ExpressionError
        The result would exceed the allowance.

    Examples
    --------
    >>> translate(pa.array(["abcab", None]), "ab", "x").to_pylist()
    ['xcx', None]
    """
    if isinstance(old, str) and isinstance(new, str):
        table = _table(old, new)
        return by_row(of_rows("translate()", lambda text: text.translate(table)), values.type, values)
    run = of_rows("translate()", lambda text, one, two: text.translate(_table(one, two)))
    return by_row(run, values.type, values, old, new)


def _table(old: str, new: str) -> dict[int, str | None]:
    # The first of several equal characters counts.
    pairs = zip(reversed(old), reversed([*new[: len(old)], *[None] * (len(old) - len(new))]), strict=True)
    return {ord(char): other for char, other in pairs}


def replaced(text: str, old: str, new: str) -> str:
    """``text.replace(old, new)``, with its size charged to the allowance before it is made."""
    more = (text.count(old)) * (len(new.encode()) - len(old.encode()))
    charge("replace()", len(text.encode()) + max(0, more))
    return text.replace(old, new)
