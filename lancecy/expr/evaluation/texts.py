"""CAST to text: floats, times and timestamps as pylance writes them.

Keys that both libraries make of such values are then the same. Arrow writes all digits of a unit, whole floats without a
point, and exponents with a sign; its text is made first, and changed here.
"""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

from lancecy.expr.evaluation.instants import check_years, on_clock
from lancecy.expr.evaluation.values import Data, by_chunk
from lancecy.expr.times import nanos_per_unit

__all__ = ["duration_to_text", "float_to_text", "time_to_text", "timestamp_to_text"]

# Digits of a second come in threes, as few as keep the value.
_FRACTION = r"(?:\.0+|(\.[0-9]{3})(?:000|000000)|(\.[0-9]{6})000)$"
_WHOLE = r"^(-?[0-9]+)$"
# Where Arrow writes an exponent and pylance does not, or the reverse.
_OTHER_FORM = {64: r"e\+1[0-5]$|^-?0\.00000[1-9]", 32: r"e\+1[0-2]$"}
_WITH_EXPONENT = re.compile(r"(-?)([0-9])\.?([0-9]*)e\+?(-?[0-9]+)")


def float_to_text(values: Data, target: pa.DataType) -> Data:
    """The shortest digits that read back as the value: ``1.0``, ``1e16``, ``NaN``.

    Parameters
    ----------
    values : pa.Array, pa.ChunkedArray or pa.Scalar of floats
    target : pa.DataType
        Of text.

    Examples
    --------
    >>> float_to_text(pa.array([1.0, 2.5, 1e15, 1e16, 1e-6, -0.0, float("nan")]), pa.string()).to_pylist()
    ['1.0', '2.5', '1000000000000000.0', '1e16', '1e-6', '-0.0', 'NaN']
    """
    if pa.types.is_float16(values.type):
        # As columns of them are read.
        values = pc.cast(values, pa.float32())
    other_form = _OTHER_FORM[values.type.bit_width]

    def of_chunk(chunk: pa.Array) -> pa.Array:
        texts = pc.cast(chunk, target)
        found = pc.fill_null(pc.match_substring_regex(texts, pattern=other_form), False)
        if pc.any(found).as_py():
            plain = _other_forms(chunk.filter(found), texts.filter(found))
            texts = pc.replace_with_mask(texts, found, plain)
        texts = pc.replace_substring_regex(texts, pattern=_WHOLE, replacement=r"\1.0")
        texts = pc.replace_substring(texts, pattern="e+", replacement="e")
        return pc.replace_substring(texts, pattern="nan", replacement="NaN")

    return by_chunk(of_chunk, values)


def _other_forms(values: pa.Array, texts: pa.Array) -> pa.Array:
    if values.type == pa.float64() and pc.all(pc.equal(pc.trunc(values), values)).as_py():
        # Integers have the same digits, many times as fast; those of single floats may be more.
        return pc.cast(pc.cast(values, pa.int64()), texts.type)
    others = texts.dictionary_encode()
    plain = pa.array([_other_form(text) for text in others.dictionary.to_pylist()], texts.type)
    return plain.take(others.indices)


def _other_form(text: str) -> str:
    """Text without its exponent, or with the exponent that it lacks."""
    parts = _WITH_EXPONENT.fullmatch(text)
    if parts is None:
        sign, digits = text.startswith("-"), text.lstrip("-0.")
        rest = f".{digits[1:]}" if digits[1:] else ""
        return f"{'-' * sign}{digits[0]}{rest}e-6"
    minus, first, rest, exponent = parts.groups()
    point, digits = int(exponent) + 1, first + rest
    return f"{minus}{digits[:point].ljust(point, '0')}.{digits[point:] or '0'}"


def time_to_text(values: Data, target: pa.DataType) -> Data:
    """The clock, with as few digits of a second as keep the value: none, three, six or nine.

    Parameters
    ----------
    values : pa.Array, pa.ChunkedArray or pa.Scalar of times
    target : pa.DataType
        Of text.

    Examples
    --------
    >>> time_to_text(pa.array([0, 1_500_000], pa.time64("us")), pa.string()).to_pylist()
    ['00:00:00', '00:00:01.500']
    """
    return _short(pc.cast(values, target))


def timestamp_to_text(values: Data, target: pa.DataType) -> Data:
    """Day and clock in the zone, with as few digits of a second as keep the value, and the offset of the zone.

    Parameters
    ----------
    values : pa.Array, pa.ChunkedArray or pa.Scalar of timestamps
    target : pa.DataType
        Of text.

    Raises
    ------
    ExpressionError
        A value is outside the years 0 to 9999.

    Examples
    --------
    >>> moments = pa.array([0, 1_500], pa.timestamp("ms"))
    >>> timestamp_to_text(moments, pa.string()).to_pylist()
    ['1970-01-01T00:00:00', '1970-01-01T00:00:01.500']
    >>> timestamp_to_text(moments.cast(pa.timestamp("ms", "+05:30")), pa.string()).to_pylist()
    ['1970-01-01T05:30:00+05:30', '1970-01-01T05:30:01.500+05:30']
    """

    def of_chunk(chunk: pa.Array) -> pa.Array:
        clock = on_clock(chunk)
        check_years(clock, 0, 9999, "text")
        texts = pc.replace_substring(pc.cast(clock, target), pattern=" ", replacement="T", max_replacements=1)
        texts = _short(texts)
        if clock is chunk:
            return texts
        ahead = pc.subtract(pc.cast(clock, pa.int64()), pc.cast(chunk, pa.int64()))
        minutes = pc.divide(ahead, 60 * 10**9 // nanos_per_unit(chunk.type)).dictionary_encode()
        offsets = [None if value is None else _offset(value) for value in minutes.dictionary.to_pylist()]
        shown = pa.array(offsets, target).take(minutes.indices)
        return pc.binary_join_element_wise(texts, shown, pa.scalar("", target))

    return by_chunk(of_chunk, values)


def _offset(minutes: int) -> str:
    size = abs(minutes)
    return f"{'-' if minutes < 0 else '+'}{size // 60:02}:{size % 60:02}" if minutes else "Z"


def duration_to_text(values: Data, target: pa.DataType, iso: bool = False) -> Data:
    """Days, hours, minutes and seconds with the digits of the unit, each with its sign; or the form of ISO 8601.

    Parameters
    ----------
    values : pa.Array, pa.ChunkedArray or pa.Scalar of durations
    target : pa.DataType
        Of text.
    iso : bool
        ``PT3723.5S`` instead.

    Examples
    --------
    >>> duration_to_text(pa.array([-3_723_500], pa.duration("ms")), pa.string()).to_pylist()
    ['0 days -1 hours -2 mins -3.500 secs']
    """
    per = 10**9 // nanos_per_unit(values.type)
    write = _iso_length if iso else _length

    def of_chunk(chunk: pa.Array) -> pa.Array:
        coded = pc.cast(chunk, pa.int64()).dictionary_encode()
        texts = [None if value is None else write(value, per) for value in coded.dictionary.to_pylist()]
        return pa.array(texts, target).take(coded.indices)

    return by_chunk(of_chunk, values)


def _length(value: int, per: int) -> str:
    sign, (seconds, below) = "-" if value < 0 else "", divmod(abs(value), per)
    parts = seconds // 86_400, seconds // 3600 % 24, seconds // 60 % 60
    days, hours, minutes = (f"{sign if part else ''}{part}" for part in parts)
    digits = f".{below:0{len(str(per)) - 1}}" if per > 1 else ""
    last = f"{sign if seconds % 60 or below else ''}{seconds % 60}{digits}"
    return f"{days} days {hours} hours {minutes} mins {last} secs"


def _iso_length(value: int, per: int) -> str:
    if value == 0:
        return "P0D"
    seconds, below = divmod(abs(value), per)
    digits = f".{below:0{len(str(per)) - 1}}".rstrip("0") if below else ""
    return f"{'-' if value < 0 else ''}PT{seconds}{digits}S"


def _short(texts: Data) -> Data:
    return pc.replace_substring_regex(texts, pattern=_FRACTION, replacement=r"\1\2")
