"""Functions whose result may be larger than their arguments, bounded before memory is allocated.

An expression has an allowance (:func:`allowance`): the bytes that all such calls in it may make together for one
batch. The result size of a call is computed from its arguments, charged to the allowance, and only then allocated.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lancecy.errors import ExpressionError
from lancecy.expr.evaluation.values import LONG_PATTERN, Data, by_text, is_wide
from lancecy.limits import COMPUTED_BYTES, INT32_MAX
from lancecy.records import dataclass

__all__ = [
    "allowance",
    "charge",
    "count_matches",
    "join",
    "join_with",
    "mixed",
    "pad",
    "padded",
    "repeat",
    "repeated",
    "replace",
    "replace_matches",
]

# A match of a pattern without these does not depend on the text around it.
_ASSERTION = re.compile(r"[\^$]|\\[bBAzZ]|\(\?")
# What refers to a group of a match, in the forms of PostgreSQL and of pylance's library; or other text.
_PIECE = re.compile(r"\\(\d+)|\$(\w+)|\$\{(\w+)\}|\$\$|[^\\$]+|.", re.DOTALL | re.ASCII)


_REMEDIES = {"text": "ask for less text", "lists": "ask for shorter lists"}


@dataclass(slots=True)
class _Allowance:
    """The limit in bytes, and the bytes left."""

    most: int
    left: int
    wider: Callable[[], int] | None = None

    def extend(self) -> None:
        """Ask once whether the batch allows more."""
        if self.wider is not None:
            more = max(0, self.wider() - self.most)
            self.most, self.left, self.wider = self.most + more, self.left + more, None


_CURRENT: ContextVar[_Allowance | None] = ContextVar("lancecy_growth", default=None)


@contextmanager
def allowance(most: int, wider: Callable[[], int] | None = None) -> Iterator[None]:
    """Limit the calls within to ``most`` bytes together.

    Parameters
    ----------
    most : int, bytes
    wider : callable, optional
        Returns another bound, called only if ``most`` does not suffice; the larger one holds.

    Raises
    ------
    ExpressionError
        Raised by the call that would exceed the bound.
    """
    token = _CURRENT.set(_Allowance(most, most, wider))
    try:
        yield
    finally:
        _CURRENT.reset(token)


def charge(name: str, size: int, what: str = "text") -> None:
    """Take ``size`` bytes from the allowance for a call of ``name``, which makes text or lists.

    Raises
    ------
    ExpressionError
        Fewer bytes are left.
    """
    current = _CURRENT.get() or _Allowance(COMPUTED_BYTES, COMPUTED_BYTES)
    if size > current.left:
        current.extend()
    if size > current.left:
        raise ExpressionError(
            f"{name} would make {size:,} bytes of {what}, where an expression may make {current.most:,} of one batch "
            f"and {current.left:,} are left; {_REMEDIES[what]}, or read fewer rows at a time"
        )
    current.left -= size


def _size(values: Data) -> int:
    """Bytes of text or binary values; for a scalar, of one value."""
    return pc.sum(pc.cast(_lengths(values), pa.int64())).as_py() or 0


def _lengths(values: Data) -> Data:
    lengths = pc.binary_length(values)
    return pa.repeat(lengths, 1) if isinstance(lengths, pa.Scalar) else lengths


def _has_texts(values: Data) -> bool:
    return bool(pc.count(_lengths(values)).as_py())


def _rows(values: tuple[Data, ...]) -> int:
    """Rows of a call: rows of its columns, or one if all arguments are constants."""
    return max((len(v) for v in values if not isinstance(v, pa.Scalar)), default=1)


def _charge_chunks(name: str, values: Data, size_of: Callable[[Data], int]) -> None:
    """Charge for the text that a call makes of each chunk, which the offsets of its type must be able to count."""
    sizes = [size_of(chunk) for chunk in _chunks(values)]
    charge(name, sum(sizes))
    if not is_wide(values.type) and max(sizes, default=0) > INT32_MAX:
        raise ExpressionError(
            f"{name} would make {max(sizes):,} bytes of text in one array, where 32-bit offsets end at {INT32_MAX:,}; "
            "CAST the text to large_string, or read fewer rows at a time"
        )


def _chunks(values: Data) -> list[Data]:
    return list(values.chunks) if isinstance(values, pa.ChunkedArray) else [values]


def repeat(values: Data, count: int) -> Data:
    """Repeat text ``count`` times; a negative count gives empty text.

    Raises
    ------
    ExpressionError
        The result would exceed the allowance.

    Examples
    --------
    >>> repeat(pa.array(["ab", ""]), 2).to_pylist()
    ['abab', '']
    """
    count = max(0, count)
    _charge_chunks("repeat()", values, lambda chunk: _size(chunk) * count)
    # Arrow copies an empty text as often as any other.
    counts = pc.if_else(pc.equal(pc.binary_length(values), 0), 0, count)
    return pc.binary_repeat(values, pc.cast(counts, pa.int64()))


def replace(values: Data, old: str, new: str) -> Data:
    """Replace every occurrence of ``old``; an empty ``old`` occurs before, between and after all characters.

    Raises
    ------
    ExpressionError
        The result would exceed the allowance.

    Examples
    --------
    >>> replace(pa.array(["ab", ""]), "", "-").to_pylist()
    ['-a-b-', '-']
    """
    more = len(new.encode()) - len(old.encode())
    if more > 0:
        _charge_chunks("replace()", values, lambda chunk: _replaced_size(chunk, old, more))
    if len(old) > LONG_PATTERN:
        return by_text(lambda text: text.replace(old, new), values, values.type)
    if old == "":
        return pc.replace_substring_regex(values, pattern="", replacement=new.replace("\\", "\\\\"))
    return pc.replace_substring(values, pattern=old, replacement=new)


def _replaced_size(values: Data, old: str, more: int) -> int:
    found = pc.count_substring(values, pattern=old) if old else pc.add(pc.utf8_length(values), 1)
    found = pa.repeat(found, 1) if isinstance(found, pa.Scalar) else found
    return _size(values) + (pc.sum(pc.cast(found, pa.int64())).as_py() or 0) * more


def count_matches(values: Data, pattern: str) -> Data:
    """Count the matches of a regular expression in each text, without overlaps: int64.

    Examples
    --------
    >>> count_matches(pa.array(["aaa", "ab"]), "^a").to_pylist()
    [1, 1]
    """
    if (
        not _ASSERTION.search(pattern)
        and not pc.match_substring_regex(pa.scalar(""), pattern=pattern).as_py()
    ):
        return pc.cast(pc.count_substring_regex(values, pattern=pattern), pa.int64())
    # Arrow's own count restarts behind each match, where ^ holds once more, and counts empty matches by bytes.
    # Here each match is replaced by one character, and the text without matches is shorter by their number.
    sizes = [3 * (_size(chunk) + len(_lengths(chunk))) for chunk in _chunks(values)]
    charge("regexp_count()", sum(sizes))
    marked, without = (
        pc.binary_length(pc.replace_substring_regex(values, pattern=pattern, replacement=mark))
        for mark in ("x", "")
    )
    return pc.cast(pc.subtract(marked, without), pa.int64())


def replace_matches(values: Data, pattern: str, replacement: str, flags: str = "") -> Data:
    r"""Replace the first match of a regular expression in each text, or with the flag ``g`` all of them.

    Parameters
    ----------
    values : pa.Array, pa.ChunkedArray or pa.Scalar
    pattern : str
    replacement : str
        ``\1`` or ``${1}`` is what the first group matches; ``$$`` is ``$``.
    flags : str
        Of ``g``, ``i`` (either case), ``m`` (^ and $ at each line) and ``s`` (a dot matches newlines).

    Raises
    ------
    ExpressionError
        RE2 rejects the pattern, there is no such flag or group, or the result would exceed the allowance.

    Examples
    --------
    >>> replace_matches(pa.array(["a1b22", None]), "([0-9]+)", "<\\1>", "g").to_pylist()
    ['a<1>b<22>', None]
    """
    unknown = set(flags) - set("gims")
    if unknown:
        raise ExpressionError(
            f"flags of regexp_replace() are g, i, m and s, not {''.join(sorted(unknown))!r}"
        )
    inline = "".join(flag for flag in "ims" if flag in flags)
    rewrite, more, groups = _rewrite(replacement)
    found, most = f"(?{inline}){pattern}" if inline else pattern, -1 if "g" in flags else 1

    def size_of(chunk: Data) -> int:
        replaced = len(_lengths(chunk)) if most > 0 else _matches(chunk, found)
        return _size(chunk) * (1 + groups) + more * replaced

    try:
        _charge_chunks("regexp_replace()", values, size_of)
        if most > 0 and _ASSERTION.search(pattern):
            # Arrow matches what the first match has once more, without the text around it. Here the match takes the
            # text behind it along, as a last group, so that there is one.
            found, rewrite, most = f"({found})((?s:.*))", _with_rest(replacement, found, rewrite), -1
        return pc.replace_substring_regex(values, pattern=found, replacement=rewrite, max_replacements=most)
    except pa.ArrowInvalid as error:
        raise ExpressionError(
            f"regexp_replace() cannot replace {pattern!r} by {replacement!r}: {error}"
        ) from error


def _with_rest(replacement: str, pattern: str, rewrite: str) -> str:
    """The rewrite where the whole pattern is the first group, and one more group stands behind those of the pattern.

    Raises
    ------
    pa.ArrowInvalid
        RE2 rejects the pattern or the rewrite.
    ExpressionError
        The pattern has so many groups that RE2 could not refer to the last one.
    """
    pc.replace_substring_regex("", pattern=pattern, replacement=rewrite)
    for number in range(1, 9):
        try:
            pc.replace_substring_regex("", pattern=pattern, replacement=f"\\{number}")
        except pa.ArrowInvalid:
            return f"{_rewrite(replacement, 1)[0]}\\{number + 1}"
    raise ExpressionError(
        "regexp_replace() of the first match takes up to 7 groups: write (?:…) for those that the replacement lacks"
    )


def _matches(values: Data, pattern: str) -> int:
    found = count_matches(values, pattern)
    return (found if isinstance(found, pa.Scalar) else pc.sum(found)).as_py() or 0


def _rewrite(replacement: str, shift: int = 0) -> tuple[str, int, int]:
    """A replacement as RE2 writes it, its groups renumbered; the bytes of its text, and how often it has groups."""
    pieces, size, groups = [], 0, 0
    for piece in _PIECE.finditer(replacement):
        group = piece[1] or piece[2] or piece[3]
        if group is None:
            text = "$" if piece[0] == "$$" else piece[0]
            pieces.append("\\\\" if text == "\\" else text)
            size += len(text.encode())
        elif len(group) == 1 and group.isdigit():
            pieces.append(f"\\{int(group) + shift}")
            groups += 1
        else:
            raise ExpressionError(
                f"{piece[0]!r} in a replacement of regexp_replace() is no group: write \\1 to \\9, or $$ for a dollar"
            )
    return "".join(pieces), size, groups


def pad(values: Data, width: int, fill: str, left: bool) -> Data:
    """Fill text up with ``fill``, at the left or right, or cut its end off: ``width`` characters.

    Raises
    ------
    ExpressionError
        The result would exceed the allowance.

    Examples
    --------
    >>> pad(pa.array(["7", "12345", None]), 4, "0", left=True).to_pylist()
    ['0007', '1234', None]
    """
    width = max(0, width)
    if fill and _has_texts(values):
        name = "lpad()" if left else "rpad()"
        widest = max(len(character.encode()) for character in fill)
        _charge_chunks(name, values, lambda chunk: _size(chunk) + widest * width * len(_lengths(chunk)))
        if len(fill) == 1:
            # Arrow refuses widths that 32-bit offsets could not count if every character were of four bytes.
            wide = pc.cast(values, pa.large_string())
            padded = (pc.utf8_lpad if left else pc.utf8_rpad)(wide, width=width, padding=fill)
            values = pc.cast(padded, values.type)
        else:
            values = by_text(lambda text: _padded(text, width, fill, left), values, values.type)
    return pc.utf8_slice_codeunits(values, start=0, stop=width)


def repeated(text: str, count: int) -> str:
    """One text for :func:`repeat` of columns of both."""
    charge("repeat()", len(text.encode()) * max(0, count))
    return text * count


def padded(text: str, width: int, fill: str = " ", *, left: bool) -> str:
    """One text for :func:`pad` of columns of all."""
    width = max(0, width)
    widest = max((len(character.encode()) for character in fill), default=0)
    charge("lpad()" if left else "rpad()", len(text.encode()) + widest * width)
    return (_padded(text, width, fill, left) if fill else text)[:width]


def _padded(text: str, width: int, fill: str, left: bool) -> str:
    missing = max(0, width - len(text))
    padding = (fill * (missing // len(fill) + 1))[:missing]
    return padding + text if left else text + padding


def join_with(separator: Any, *values: Data) -> Data:
    """Concatenate the texts that are not null, with ``separator`` between them: of only nulls empty text.

    Parameters
    ----------
    separator : str, or pa.Array, pa.ChunkedArray or pa.Scalar of them
        The result is null where it is.
    *values : pa.Array, pa.ChunkedArray or pa.Scalar

    Raises
    ------
    ExpressionError
        The result would exceed the allowance.

    Examples
    --------
    >>> join_with("-", pa.array(["a", None]), pa.array(["b", None]), pa.array([None, "c"])).to_pylist()
    ['a-b', 'c']
    """
    if not isinstance(separator, str):
        return _join_by(separator, values)
    # Arrow's option to skip nulls gives null where all are null.
    parts = [
        pc.coalesce(join("concat_ws()", pa.scalar(separator, v.type), v), pa.scalar("", v.type))
        for v in values
    ]
    return pc.utf8_slice_codeunits(join("concat_ws()", *parts), start=len(separator))


def _join_by(separators: Data, values: tuple[Data, ...]) -> Data:
    wide = pa.large_string() in [v.type for v in (separators, *values)]
    target = pa.large_string() if wide else pa.string()
    separators, *texts = (pc.cast(v, target) for v in (separators, *values))
    nothing = pa.scalar("", target)
    begun: Data = pa.scalar(False)
    parts = []
    for value in texts:
        # Nothing stands before the first text.
        before = pc.if_else(begun, separators, nothing)
        parts.append(pc.coalesce(join("concat_ws()", before, value), nothing))
        begun = pc.or_(begun, pc.is_valid(value))
    found = join("concat_ws()", *parts)
    return pc.if_else(pc.is_valid(separators), found, pa.scalar(None, target))


def join(name: str, *values: Data) -> Data:
    """Concatenate texts; null where any of them is null.

    Raises
    ------
    ExpressionError
        The result would exceed the allowance.
    """
    rows = _rows(values)
    if any(v.type == pa.large_string() for v in values):
        values = tuple(pc.cast(v, pa.large_string()) for v in values)
    charge(name, sum(_size(v) * (rows if isinstance(v, pa.Scalar) else 1) for v in values))
    return pc.binary_join_element_wise(*values, pa.scalar("", values[0].type), null_handling="emit_null")


def mixed(name: str, values: tuple[Any, ...], rows: int | None = None) -> None:
    """Charge for a choice among texts, where a constant may be chosen in every row.

    Parameters
    ----------
    name : str
        Name of the call.
    values : tuple of pa.Array, pa.ChunkedArray and pa.Scalar
    rows : int, optional
        Rows of the batch; by default the rows of the columns among the values.
    """
    texts = [
        v for v in values if isinstance(v, pa.Scalar) and (pa.types.is_string(v.type) or is_wide(v.type))
    ]
    count = _rows(values) if rows is None else rows
    charge(name, max((_size(v) for v in texts), default=0) * count)
