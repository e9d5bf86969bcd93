"""Dates and times as text by a format, and read by one: the letters of chrono, as in pylance.

A format is read once to a tuple of :class:`Item`. Texts are made by Arrow's kernels, column by column; they are read one
by one, as a number takes as many digits as it may and never gives one back.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancecy.errors import ExpressionError, printable
from lancecy.expr.evaluation import growth
from lancecy.expr.evaluation.instants import YEARS, check_years, on_clock, whole_units
from lancecy.expr.evaluation.values import Data, by_chunk
from lancecy.expr.periods import DAY_NS
from lancecy.expr.times import day_number, nanos_per_unit, parse_zone, to_local
from lancecy.records import dataclass

__all__ = ["Item", "format_items", "formatted", "read_instant", "read_time"]

_MONTHS = "January February March April May June July August September October November December".split()
_DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()

# Digits, and what fills them up.
_NUMBERS = {
    **dict.fromkeys("CymdUWVgHIMS", (2, "0")),
    **dict.fromkeys("YG", (4, "0")),
    **dict.fromkeys("uwq", (1, "")),
    "j": (3, "0"),
    "f": (9, "0"),
    "s": (9, ""),
    "e": (2, " "),
    "k": (2, " "),
    "l": (2, " "),
}
_LIKE = {"e": "d", "k": "H", "l": "I"}
_TEXTS = frozenset("b B a A p P Z z :z ::z :::z #z + .f .3f .6f .9f 3f 6f 9f".split())
_LONG = {
    "D": "%m/%d/%y",
    "x": "%m/%d/%y",
    "F": "%Y-%m-%d",
    "v": "%e-%b-%Y",
    "h": "%b",
    "R": "%H:%M",
    "T": "%H:%M:%S",
    "X": "%H:%M:%S",
    "r": "%I:%M:%S %p",
    "c": "%a %b %e %H:%M:%S %Y",
    "n": "\n",
    "t": "\t",
}
_PIECE = re.compile(r"%([-_0]?)([.:#0-9]*[A-Za-z+%]|$|.)|(\s+)|([^%\s]+)", re.DOTALL)
_CLOCK_LETTERS = frozenset("HIMSfpP") | {".f", ".3f", ".6f", ".9f", "3f", "6f", "9f"}
_ZONE_LETTERS = frozenset(("Z", "z", ":z", "::z", ":::z", "+"))


@dataclass(frozen=True, slots=True)
class Item:
    """A part of a format: a letter with the character that fills its digits up, or text if the letter is empty."""

    letter: str
    text: str = ""


@lru_cache(maxsize=256)
def format_items(text: str) -> tuple[Item, ...]:
    """The parts of a format.

    Raises
    ------
    ExpressionError
        A letter is unknown.

    Examples
    --------
    >>> format_items("%F at %-H")
    (Item(letter='Y', text='0'), Item(letter='', text='-'), Item(letter='m', text='0'), Item(letter='', text='-'), \
Item(letter='d', text='0'), Item(letter='', text=' '), Item(letter='', text='at'), Item(letter='', text=' '), \
Item(letter='H', text=''))
    """
    found: list[Item] = []
    for piece in _PIECE.finditer(text):
        fill, letter, space, other = piece.groups()
        if letter is None:
            found.append(Item("", space or other))
        elif letter == "%" and not fill:
            found.append(Item("", "%"))
        elif letter in _LONG and not fill:
            found += format_items(_LONG[letter])
        elif letter in _NUMBERS:
            pad = {"-": "", "_": " ", "0": "0"}.get(fill, _NUMBERS[letter][1])
            found.append(Item(_LIKE.get(letter, letter), pad))
        elif letter in _TEXTS and not fill:
            found.append(Item(letter))
        else:
            raise ExpressionError(
                f"{printable(piece[0])!r} in the format {printable(text)!r} means nothing; there are %Y %m %d %H %M %S %.f, "
                "%b %B %a %A %p %I %j %z and the other letters of chrono, and %% for %"
            )
    return tuple(found)


# -- making text ------------------------------------------------------------------------------


def formatted(values: Data, text: str) -> Data:
    """Dates, times or timestamps as text, on the clock of their zone.

    Raises
    ------
    ExpressionError
        The values have no such part, or lie outside the years of the calendar.

    Examples
    --------
    >>> formatted(pa.array([0, None], pa.date32()), "%a %-d %b %Y").to_pylist()
    ['Thu 1 Jan 1970', None]
    """
    return by_chunk(lambda chunk: _Maker(chunk, text).made(), values)


class _Maker:
    """Makes the texts of one array."""

    def __init__(self, values: pa.Array, text: str) -> None:
        self.values, self.text = values, text
        self.is_time = pa.types.is_time(values.type)
        self.zone = values.type.tz if pa.types.is_timestamp(values.type) else None
        if not self.is_time:
            check_years(values, *YEARS, "to_char()")
        self.clock = pc.cast(values, pa.timestamp("s")) if pa.types.is_date(values.type) else on_clock(values)

    def made(self) -> pa.Array:
        parts = [self.part(item) for item in format_items(self.text)]
        if not any(isinstance(part, pa.Array) for part in parts):
            whole = pa.scalar("".join(parts))
            return pc.if_else(pc.is_valid(self.values), whole, pa.scalar(None, pa.string()))
        parts = [pa.scalar(part) if isinstance(part, str) else part for part in parts]
        return growth.join("to_char()", *parts)

    def part(self, item: Item) -> Any:
        letter = item.letter
        if not letter:
            return item.text
        if self.is_time and letter not in _CLOCK_LETTERS:
            raise ExpressionError(f"to_char(): a time has no %{letter}; write %H %M %S %.f %p and the like")
        if letter in _ZONE_LETTERS and self.zone is None:
            raise ExpressionError(
                f"to_char(): {self.values.type} has no time zone for %{letter}; leave it out"
            )
        if letter == "#z":
            raise ExpressionError("to_char(): %#z is for reading text only; write %z")
        if letter in _NUMBERS:
            return self.number(letter, item.text)
        if letter.endswith("f"):
            return self.fraction(letter)
        if letter in "bBaAPp":
            return self.name(letter)
        if letter == "+":
            parts = [self.part(one) for one in format_items("%Y-%m-%dT%H:%M:%S%.f%:z")]
            return growth.join("to_char()", *(pa.scalar(p) if isinstance(p, str) else p for p in parts))
        return self.offset(letter)

    def nanos(self) -> pa.Array:
        """Nanoseconds since the last second."""
        unit = nanos_per_unit(self.clock.type)
        stored = pc.cast(
            pc.cast(self.clock, pa.int32() if self.clock.type.bit_width == 32 else pa.int64()), pa.int64()
        )
        per = 10**9 // unit
        return pc.multiply(pc.subtract(stored, pc.multiply(whole_units(stored, per), per)), unit)

    def number(self, letter: str, pad: str) -> pa.Array:
        found = pc.cast(_FIELDS[letter](self), pa.int64())
        width = _NUMBERS[letter][0]
        if letter in "YG":
            return _year_text(found, pad)
        digits = pc.cast(found, pa.string())
        return pc.utf8_lpad(digits, width, pad) if pad else digits

    def fraction(self, letter: str) -> pa.Array:
        nine = pc.utf8_lpad(pc.cast(self.nanos(), pa.string()), 9, "0")
        if letter == ".f":
            short = pc.replace_substring_regex(nine, pattern="(000){1,2}$", replacement="")
            return pc.if_else(pc.equal(nine, "000000000"), "", pc.binary_join_element_wise(".", short, ""))
        kept = pc.utf8_slice_codeunits(nine, 0, int(letter.strip(".f")))
        return pc.binary_join_element_wise(".", kept, "") if letter.startswith(".") else kept

    def name(self, letter: str) -> pa.Array:
        if letter in "pP":
            words = ("am", "pm") if letter == "P" else ("AM", "PM")
            return pc.if_else(pc.less(pc.hour(self.clock), 12), *words)
        names = _MONTHS if letter in "bB" else _DAYS
        chosen = [name[:3] for name in names] if letter in "ba" else names
        place = pc.subtract(pc.month(self.clock), 1) if letter in "bB" else pc.day_of_week(self.clock)
        return pa.array(chosen).take(place)

    def offset(self, letter: str) -> pa.Array:
        local, instant = (
            pc.cast(pc.cast(v, pa.timestamp(v.type.unit)), pa.int64()) for v in (self.clock, self.values)
        )
        seconds = pc.divide(pc.subtract(local, instant), 10**9 // nanos_per_unit(self.values.type))
        coded = seconds.dictionary_encode()
        shown = [None if s is None else _offset_text(s, letter) for s in coded.dictionary.to_pylist()]
        return pa.array(shown, pa.string()).take(coded.indices)


def _offset_text(seconds: int, letter: str) -> str:
    sign, size = "-" if seconds < 0 else "+", abs(seconds)
    if letter == ":::z":
        return f"{sign}{size // 3600:02}"
    if letter == "::z" or (letter == "Z" and size % 60):
        return f"{sign}{size // 3600:02}:{size // 60 % 60:02}:{size % 60:02}"
    minutes = (size + 30) // 60
    return f"{sign}{minutes // 60:02}{'' if letter == 'z' else ':'}{minutes % 60:02}"


def _year_text(years: pa.Array, pad: str) -> pa.Array:
    """Four digits, with a sign before 0 and from 10000 on."""
    size = pc.cast(pc.abs(years), pa.string())
    plain = pc.utf8_lpad(size, 4, pad) if pad else size
    is_plain = pc.and_(pc.greater_equal(years, 0), pc.less(years, 10_000))
    if pc.all(is_plain).as_py() is not False:
        return plain
    sign = pc.if_else(pc.less(years, 0), "-", "+")
    if pad == " ":
        signed = pc.utf8_lpad(pc.binary_join_element_wise(sign, size, ""), 5, " ")
    else:
        signed = pc.binary_join_element_wise(sign, plain, "")
    return pc.if_else(is_plain, plain, signed)


def _floor(values: Data, per: int) -> Data:
    return whole_units(pc.cast(values, pa.int64()), per)


def _below(values: Data, per: int) -> Data:
    whole = pc.cast(values, pa.int64())
    return pc.subtract(whole, pc.multiply(whole_units(whole, per), per))


def _hour12(maker: _Maker) -> Data:
    hour = _below(pc.hour(maker.clock), 12)
    return pc.if_else(pc.equal(hour, 0), 12, hour)


def _weeks(maker: _Maker, monday: int) -> Data:
    """Weeks that begin on Sunday or Monday, days before the first of them in week 0."""
    since = pc.day_of_week(maker.clock, count_from_zero=True, week_start=1 if monday else 7)
    return _floor(pc.subtract(pc.add(pc.day_of_year(maker.clock), 6), since), 7)


def _seconds(maker: _Maker) -> Data:
    plain = pc.cast(maker.values, maker.clock.type) if maker.zone else maker.clock
    return _floor(pc.cast(plain, pa.int64()), 10**9 // nanos_per_unit(plain.type))


_FIELDS: dict[str, Callable[[_Maker], Data]] = {
    "Y": lambda m: pc.year(m.clock),
    "C": lambda m: _floor(pc.year(m.clock), 100),
    "y": lambda m: _below(pc.year(m.clock), 100),
    "G": lambda m: pc.iso_year(m.clock),
    "g": lambda m: _below(pc.iso_year(m.clock), 100),
    "q": lambda m: pc.quarter(m.clock),
    "m": lambda m: pc.month(m.clock),
    "d": lambda m: pc.day(m.clock),
    "j": lambda m: pc.day_of_year(m.clock),
    "U": lambda m: _weeks(m, 0),
    "W": lambda m: _weeks(m, 1),
    "V": lambda m: pc.iso_week(m.clock),
    "u": lambda m: pc.day_of_week(m.clock, count_from_zero=False, week_start=1),
    "w": lambda m: pc.day_of_week(m.clock, count_from_zero=True, week_start=7),
    "H": lambda m: pc.hour(m.clock),
    "I": _hour12,
    "M": lambda m: pc.minute(m.clock),
    "S": lambda m: pc.second(m.clock),
    "f": lambda m: m.nanos(),
    "s": _seconds,
}


# -- reading text -----------------------------------------------------------------------------


class _UnreadError(ValueError):
    """Text that does not fit a format."""


_SIGNED = frozenset("YG")
_OFFSET = re.compile(r"([+-])(\d{2}):?(\d{2})")
_LOOSE_OFFSET = re.compile(r"([+-])(\d{2})(?::?(\d{2}))?|[Zz]")
_INSTANT = format_items("%Y-%m-%dT%H:%M:%S%.f%#z")


def _read(text: str, items: tuple[Item, ...]) -> dict[str, Any]:
    """The parts of a text; all of it must be read."""
    parts: dict[str, Any] = {}
    for item in items:
        text = _read_item(text, item, parts)
    if text:
        raise _UnreadError("text is left over")
    return parts


def _read_item(text: str, item: Item, parts: dict[str, Any]) -> str:
    letter = item.letter
    if not letter and item.text.isspace():
        return text.lstrip()
    if not letter:
        if not text.startswith(item.text):
            raise _UnreadError(f"there is no {item.text!r}")
        return text[len(item.text) :]
    if letter in _NUMBERS:
        return _read_number(text, letter, parts)
    if letter == "+":
        for one in _INSTANT:
            text = _read_item(text, one, parts)
        return text
    if letter.endswith("f"):
        return _read_fraction(text, letter, parts)
    if letter == "Z":
        return text[len(text.split(None, 1)[0]) :] if text and not text[0].isspace() else text
    if letter.endswith("z"):
        text = text.lstrip()
        match = (_LOOSE_OFFSET if letter == "#z" else _OFFSET).match(text)
        if match is None:
            raise _UnreadError("there is no offset from UTC such as +02:00")
        seconds = 0 if match[1] is None else (int(match[2]) * 60 + int(match[3] or 0)) * 60
        _put(parts, "offset", -seconds if match[1] == "-" else seconds)
        return text[match.end() :]
    return _read_name(text, letter, parts)


def _put(parts: dict[str, Any], name: str, value: Any) -> None:
    if parts.setdefault(name, value) != value:
        raise _UnreadError(f"two of its parts contradict each other ({name})")


def _read_number(text: str, letter: str, parts: dict[str, Any]) -> str:
    text = text.lstrip()
    width, sign = _NUMBERS[letter][0], 1
    if letter == "s":
        width = len(text)
    if (letter in _SIGNED or letter == "s") and text[:1] in ("-", "+"):
        sign, text, width = (-1 if text[0] == "-" else 1), text[1:], len(text)
    size = 0
    while size < min(width, len(text)) and text[size].isascii() and text[size].isdigit():
        size += 1
    if not size:
        raise _UnreadError("a number is missing")
    _put(parts, letter, sign * int(text[:size]))
    return text[size:]


def _read_fraction(text: str, letter: str, parts: dict[str, Any]) -> str:
    if letter.startswith("."):
        if not text.startswith("."):
            return text
        text = text[1:]
    size = len(text) - len(text.lstrip("0123456789"))
    wanted = letter.strip(".f")
    if size < int(wanted or 1):
        raise _UnreadError("digits of a second are missing")
    taken = int(wanted) if wanted else size
    _put(parts, "f", int(text[: min(taken, 9)].ljust(9, "0")))
    return text[taken:]


def _read_name(text: str, letter: str, parts: dict[str, Any]) -> str:
    if letter in "pP":
        word = text[:2].lower()
        if word not in ("am", "pm"):
            raise _UnreadError("there is no AM or PM")
        _put(parts, "p", word == "pm")
        return text[2:]
    names = _MONTHS if letter in "bB" else _DAYS
    place = next((i for i, name in enumerate(names) if text[:3].lower() == name[:3].lower()), None)
    if place is None:
        raise _UnreadError("there is no name of a month or weekday")
    full = names[place]
    size = len(full) if letter in "BA" and text[: len(full)].lower() == full.lower() else 3
    _put(parts, "m" if letter in "bB" else "u", place + 1)
    return text[size:]


def _time(parts: dict[str, Any]) -> int:
    """Nanoseconds since midnight."""
    hour = parts.get("H")
    if "I" in parts:
        if not 1 <= parts["I"] <= 12:
            raise _UnreadError("the hour is not one of twelve")
        if "p" in parts:
            _put(parts, "H", parts["I"] % 12 + 12 * parts["p"])
            hour = parts["H"]
    if hour is None or "M" not in parts or ("f" in parts and "S" not in parts):
        raise _UnreadError("the hour, minute or second is missing")
    minute, second = parts["M"], parts.get("S", 0)
    if not (0 <= hour < 24 and 0 <= minute < 60 and 0 <= second <= 60):
        raise _UnreadError("there is no such time of day")
    if "p" in parts and (hour >= 12) is not parts["p"]:
        raise _UnreadError("AM or PM contradicts the hour")
    return int((hour * 3600 + minute * 60 + second) * 10**9 + parts.get("f", 0))


def _year(parts: dict[str, Any], whole: str, century: str, rest: str) -> int | None:
    if rest in parts:
        known = parts.get(
            century, parts[whole] // 100 if whole in parts else (20 if parts[rest] < 70 else 19)
        )
        _put(parts, whole, known * 100 + parts[rest])
    found = parts.get(whole)
    if found is not None and century in parts and found // 100 != parts[century]:
        raise _UnreadError("the century contradicts the year")
    return found


def _day(parts: dict[str, Any]) -> int:
    """Days since 1970-01-01."""
    year, iso = _year(parts, "Y", "C", "y"), _year(parts, "G", "", "g")
    if "w" in parts:
        _put(parts, "u", parts["w"] or 7)
    weekday = parts.get("u")
    if weekday is not None and not 1 <= weekday <= 7:
        raise _UnreadError("there is no such day of the week")
    try:
        found = _found_day(year, iso, weekday, parts)
    except ValueError:
        raise _UnreadError("there is no such day") from None
    if found is None:
        raise _UnreadError("the year, month or day is missing")
    _check_day(found, parts)
    return found


def _found_day(year: int | None, iso: int | None, weekday: int | None, parts: dict[str, Any]) -> int | None:
    if year is not None and "m" in parts and "d" in parts:
        return day_number(year, parts["m"], parts["d"])
    if year is not None and "j" in parts:
        return day_number(year) + int(parts["j"]) - 1
    if weekday is None:
        return None
    if year is not None and ("U" in parts or "W" in parts):
        return _week_day(year, parts, weekday)
    if iso is None or "V" not in parts:
        return None
    fourth = day_number(iso, 1, 4)
    return fourth - (fourth + 3) % 7 + (int(parts["V"]) - 1) * 7 + weekday - 1


def _week_day(year: int, parts: dict[str, Any], weekday: int) -> int:
    first, monday = day_number(year), "W" in parts
    start = (first + 3) % 7 if monday else (first + 4) % 7  # days since the week of January 1 began
    of_week = weekday - 1 if monday else weekday % 7
    return first - start + of_week + (int(parts["W" if monday else "U"]) - (start == 0)) * 7


def _check_day(day: int, parts: dict[str, Any]) -> None:
    """Refuse parts that contradict the day."""
    date = np.datetime64(day, "D")
    year = int(date.astype("M8[Y]").astype(int)) + 1970
    month = int(date.astype("M8[M]").astype(int)) % 12 + 1
    first = day_number(year)
    weekday = (day + 3) % 7 + 1
    ordinal = day - first + 1
    thursday = day - weekday + 4
    iso = int(np.datetime64(thursday, "D").astype("M8[Y]").astype(int)) + 1970
    known = {
        "Y": year,
        "m": month,
        "q": (month + 2) // 3,
        "d": day - day_number(year, month) + 1,
        "j": ordinal,
        "u": weekday,
        "U": (ordinal + 6 - weekday % 7) // 7,
        "W": (ordinal + 6 - (weekday - 1)) // 7,
        "V": (thursday - day_number(iso)) // 7 + 1,
        "G": iso,
    }
    for letter, value in known.items():
        if parts.get(letter, value) != value:
            raise _UnreadError(f"there is no such day, as %{letter} contradicts it")


def _instant(text: str, layout: str) -> int:
    items, zone = format_items(layout), None
    if any(item.letter == "Z" for item in items):
        head, _, zone = text.rpartition(" ")
        if not layout.endswith(" %Z") or not head:
            raise _UnreadError("%Z is read at the end only, after a blank")
        text, items = head, items[:-2]
    parts = _read(text, items)
    if "s" in parts:
        return int(parts["s"]) * 10**9 + int(parts.get("f", 0))
    try:
        clock = _time(dict(parts))
    except _UnreadError:
        # As in pylance, a day is enough.
        if "offset" in parts or zone is not None:
            raise
        clock = 0
    nanos = _day(parts) * DAY_NS + clock
    if zone is None:
        return nanos - int(parts.get("offset", 0)) * 10**9
    return to_local(nanos, zone) if parse_zone(zone) is None else nanos - (parse_zone(zone) or 0) * 10**9


def read_instant(text: str, formats: tuple[str, ...]) -> int:
    """Nanoseconds since 1970 in UTC, by the first of the formats that fits.

    A text without a zone or an offset is taken as UTC; one without a time of day is midnight.

    Raises
    ------
    ExpressionError
        None fits.

    Examples
    --------
    >>> read_instant("2 Jan 1970", ("%Y-%m-%d", "%d %b %Y"))
    86400000000000
    """
    return _first(text, formats, _instant)


def read_time(text: str, formats: tuple[str, ...]) -> int:
    """Nanoseconds since midnight, by the first of the formats that fits.

    Raises
    ------
    ExpressionError
        None fits.
    """
    return _first(text, formats, lambda one, layout: _time(_read(one, format_items(layout))) % DAY_NS)


def _first(text: str, formats: tuple[str, ...], read: Callable[[str, str], int]) -> int:
    why = "there is no format"
    for layout in formats:
        try:
            return read(text, layout)
        except _UnreadError as error:
            why = str(error)
    shown = " or ".join(repr(printable(layout)) for layout in formats)
    raise ExpressionError(f"{printable(text)!r} is not of the form {shown}: {why}")
