"""Regular expressions: what matches, where, and how often. RE2 matches, in time linear in the text."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lancecy.errors import ExpressionError
from lancecy.expr.evaluation.growth import charge, count_matches
from lancecy.expr.evaluation.patterns import regex_match
from lancecy.expr.evaluation.rows import by_group, is_data, rows_of
from lancecy.expr.evaluation.values import Data, by_chunk

__all__ = ["count", "like", "match", "place", "with_flags"]

_FLAGS = "imsU"
# Parts of a pattern: what a backslash makes ordinary, sets of characters, and the start of a group.
_PIECE = re.compile(
    r"\\Q.*?(?:\\E|\Z)|\\.|\[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\]\\])*\]|\(\?P?<(?![=!])\w+>|\(\?|.", re.DOTALL
)
_UNLIKELY = "".join(map(chr, (*range(0xE000, 0xE010), *range(1, 9), *range(0xF0000, 0xF0010))))


def with_flags(name: str, pattern: str, flags: str | None) -> str:
    """The pattern with its flags in front.

    Raises
    ------
    ExpressionError
        There is no such flag.
    """
    extra = set(flags or "") - set(_FLAGS)
    if "g" in extra:
        raise ExpressionError(
            f"{name} has no flag 'g'; regexp_count() counts all matches, regexp_replace() replaces them"
        )
    if extra:
        raise ExpressionError(f"flags of {name} are i, m, s and U, not {''.join(sorted(extra))!r}")
    inline = "".join(flag for flag in _FLAGS if flag in (flags or ""))
    return f"(?{inline}){pattern}" if inline else pattern


def like(values: Data, pattern: Any, flags: Any = "") -> Data:
    """Where the pattern matches somewhere in the text.

    Raises
    ------
    ExpressionError
        RE2 rejects the pattern, or there is no such flag.

    Examples
    --------
    >>> like(pa.array(["Ab", "c", None]), "^a", "i").to_pylist()
    [True, False, None]
    """
    flags = _no_null(flags, "")
    if is_data(pattern) or is_data(flags):
        return by_group(_like, pa.bool_(), values, pattern, flags)
    return _like(values, pattern, flags)


def _like(values: Data, pattern: str, flags: str) -> Data:
    # Of Arrow's own option the case is ignored faster.
    extra = flags.replace("i", "")
    return regex_match(values, with_flags("regexp_like()", pattern, extra), "i" in flags)


def count(values: Data, pattern: Any, start: Any = 1, flags: Any = "") -> Data:
    """Number of matches from the position ``start`` on, without overlaps: bigint, and 0 for null.

    Raises
    ------
    ExpressionError
        ``start`` is below 1, RE2 rejects the pattern, or there is no such flag.

    Examples
    --------
    >>> count(pa.array(["abcab", "b", None]), "a", 2).to_pylist()
    [1, 0, 0]
    """
    start, flags = _no_null(start, 1), _no_null(flags, "")
    if any(map(is_data, (pattern, start, flags))):
        found = by_group(_count, pa.int64(), values, pattern, start, flags)
    else:
        found = _count(values, pattern, start, flags)
    return pc.fill_null(found, 0)


def _count(values: Data, pattern: str, start: int, flags: str) -> Data:
    pattern = _checked("regexp_count()", pattern, start, flags)
    if start == 1:
        return count_matches(values, pattern)
    rest = pc.utf8_slice_codeunits(values, start=start - 1)
    # Behind the end there is no text, not even an empty one.
    return pc.if_else(pc.less(pc.utf8_length(values), start - 1), 0, count_matches(rest, pattern))


def _checked(name: str, pattern: str, start: int, flags: str) -> str:
    if start < 1:
        raise ExpressionError(f"{name} counts positions from 1, not from {start}")
    found = with_flags(name, pattern, flags)
    regex_match(pa.scalar(""), found)
    return found


def place(
    values: Data, pattern: Any, start: Any = 1, number: Any = 1, flags: Any = "", group: Any = 0
) -> Data:
    """Position of a match, or of a group of the first one: from 1 on, 0 if there is none; bigint.

    Parameters
    ----------
    values : pa.Array, pa.ChunkedArray or pa.Scalar of text
    pattern : str, or a column of them as are the others
    start : int
        Position where the search begins.
    number : int
        Which match, from 1 on.
    flags : str
        Of ``i``, ``m``, ``s`` and ``U``.
    group : int
        Which group, 0 for the whole match.

    Raises
    ------
    ExpressionError
        A number is below 1, RE2 rejects the pattern, or there is no such flag.

    Examples
    --------
    >>> place(pa.array(["éab-ab", "c", None]), "ab").to_pylist()
    [2, 0, None]
    >>> place(pa.array(["éab-ab"]), "ab", 1, 2).to_pylist()
    [5]
    """
    flags = _no_null(flags, "")
    others = (pattern, start, number, flags, group)
    if any(map(is_data, others)):
        return by_group(_place, pa.int64(), values, *others)
    return by_chunk(lambda chunk: _place(chunk, *others), values)


def _place(values: pa.Array, pattern: str, start: int, number: int, flags: str, group: int) -> pa.Array:
    checked = _checked("regexp_instr()", pattern, start, flags)
    if number < 1:
        raise ExpressionError(f"regexp_instr() counts matches from 1, not from {number}")
    if number > 1 and group > 0:
        raise ExpressionError(
            "regexp_instr() finds a group of the first match only: move the start behind the matches before it"
        )
    rest = pc.utf8_slice_codeunits(values, start=start - 1) if start > 1 else values
    if not pattern:
        # As in pylance.
        return pa.array(np.zeros(len(values), np.int64))
    found = _nth(rest, checked, number) if number > 1 else _first(rest, checked, max(0, group))
    beyond = np.asarray(pc.fill_null(pc.less(pc.utf8_length(values), start), True))
    found = np.where((found > 0) & ~beyond, found + start - 1, 0)
    return pa.array(found, mask=values.is_null().to_numpy(zero_copy_only=False))


def _first(values: pa.Array, pattern: str, group: int) -> NDArray[np.int64]:
    """Position of a group of the first match, 0 for none."""
    spans = _spans(values, pattern)
    if group >= len(spans):
        return np.zeros(len(values), np.int64)
    starts, _ = spans[group]
    return np.where(starts < 0, 0, _characters_before(values, starts) + 1)


def _nth(values: pa.Array, pattern: str, number: int) -> NDArray[np.int64]:
    """Position of a later match, 0 for none: each match is put between marks, which keeps what surrounds it."""
    mark = next((m for m in _UNLIKELY if not pc.any(pc.match_substring(values, pattern=m)).as_py()), None)
    if mark is None:
        raise ExpressionError("regexp_instr() needs a character that no text has; look for an earlier match")
    size = pc.sum(pc.cast(pc.binary_length(values), pa.int64())).as_py() or 0
    matches = pc.sum(count_matches(values, pattern)).as_py() or 0
    charge("regexp_instr()", size + 2 * matches * len(mark.encode()))
    marked = pc.replace_substring_regex(values, pattern=f"({pattern})", replacement=f"{mark}\\1{mark}")
    parts = pc.split_pattern(marked, pattern=mark, max_splits=2 * number - 1)
    sizes = np.asarray(pc.fill_null(pc.list_value_length(parts), 0), np.int64)
    ends = np.cumsum(sizes)
    lengths = np.concatenate([[0], np.cumsum(np.asarray(pc.utf8_length(pc.list_flatten(parts)), np.int64))])
    there = sizes == 2 * number
    places = lengths[np.maximum(ends - 1, 0)] - lengths[ends - sizes] + 1
    return np.where(there, places, 0)


def match(values: Data, pattern: Any, flags: Any = "") -> Data:
    """The texts of the groups of the first match, or that of the match if there are no groups; null without a match.

    Groups that take no part in the match are left out.

    Raises
    ------
    ExpressionError
        RE2 rejects the pattern, or there is no such flag.

    Examples
    --------
    >>> match(pa.array(["k=v", "x", None]), "(.)=(.)").to_pylist()
    [['k', 'v'], None, None]
    """
    flags, target = _no_null(flags, ""), pa.list_(values.type)
    if is_data(pattern) or is_data(flags):
        return by_group(_match, target, values, pattern, flags)
    return by_chunk(lambda chunk: _match(chunk, pattern, flags), values)


def _match(values: pa.Array, pattern: str, flags: str) -> pa.Array:
    whole, *groups = _spans(values, _checked("regexp_match()", pattern, 1, flags))
    charge("regexp_match()", sum(int(np.maximum(lengths, 0).sum()) for _, lengths in groups or [whole]))
    wide = pc.cast(values, pa.large_binary())
    starts = _starts(wide)
    chosen = groups or [whole]
    spans = np.array(chosen, np.int64).reshape(len(chosen), 2, len(values))
    there = spans[:, 0].T >= 0
    first = (spans[:, 0].T + starts[:, None])[there]
    size = spans[:, 1].T[there]
    data = memoryview(wide.buffers()[2] or b"")
    texts = [
        bytes(data[at : at + length]).decode()
        for at, length in zip(first.tolist(), size.tolist(), strict=True)
    ]
    offsets = np.concatenate([[0], np.cumsum(there.sum(axis=1))]).astype(np.int32)
    nothing = whole[0] < 0
    return pa.ListArray.from_arrays(
        pa.array(offsets), pa.array(texts, values.type), type=pa.list_(values.type), mask=pa.array(nothing)
    )


def _spans(values: pa.Array, pattern: str) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """First byte and length of the first match and of its groups in each text, -1 without them."""
    named, groups = _named(pattern)
    if values.null_count == len(values):
        nothing = np.full(len(values), -1, np.int64)
        return [(nothing, nothing)] * (1 + groups)
    try:
        found = pc.extract_regex_span(values, pattern=named)
    except pa.ArrowInvalid as error:
        raise ExpressionError(f"{pattern!r} has groups that cannot be told apart: {error}") from error
    matched = found.is_valid()
    spans = []
    for index in range(1 + groups):
        pairs = pc.if_else(matched, found.field(index).is_valid(), False)
        there = np.asarray(pairs)
        places = np.full((2, len(values)), -1, np.int64)
        flat = np.asarray(pc.list_flatten(found.field(index).filter(pairs)), np.int64).reshape(-1, 2)
        places[:, there] = flat.T
        spans.append((places[0], places[1]))
    return spans


def _named(pattern: str) -> tuple[str, int]:
    """The pattern as a group around others, all with names, and the number of the others."""
    groups, pieces = 0, []
    for piece in _PIECE.findall(pattern):
        opens = piece == "(" or (piece.startswith("(?") and piece.endswith(">"))
        groups += opens
        pieces.append(f"(?P<g{groups}>" if opens else piece)
    return f"(?P<g0>{''.join(pieces)})", groups


def _characters_before(values: pa.Array, places: NDArray[np.int64]) -> NDArray[np.int64]:
    """Number of characters before a byte of each text."""
    wide = pc.cast(values, pa.large_binary())
    starts = _starts(wide)
    held = np.frombuffer(wide.buffers()[2] or b"", np.uint8)
    before = np.concatenate([[0], np.cumsum((held & 0xC0) != 0x80, dtype=np.int64)])
    found: NDArray[np.int64] = before[starts + np.maximum(places, 0)] - before[starts]
    return found


def _starts(wide: pa.LargeBinaryArray) -> NDArray[np.int64]:
    """The first byte of each value."""
    return np.frombuffer(wide.buffers()[1], np.int64)[wide.offset :][: len(wide)]


def _no_null(value: Any, default: Any) -> Any:
    """An argument where null means the default."""
    if isinstance(value, pa.Scalar) and not value.is_valid:
        return default
    if is_data(value) and rows_of(value) is not None:
        return pc.fill_null(value, default)
    return value
