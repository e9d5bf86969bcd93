"""Instants and clocks of time zones, also after the last change of clocks that the zone database lists.

Arrow reads the listed changes alone. Most zones with summer time list them up to 2037 and then state a rule, such as the
last Sunday of March, which Arrow does not read. A rule depends on the month and the weekday of its first day. A
time from 2038 on is therefore computed as the same day of a listed month that begins on the same weekday, and moved back.
"""

from __future__ import annotations

import datetime as dt
from functools import cache, lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lancecy.encodings.arrow.conversions import array_of, numbers_of

__all__ = ["clock_of", "instants_at"]

_LISTED = range(2037, 2026, -1)
"""Years whose changes of clocks are listed and follow the rules of today, the last one first."""
_DAY = 86_400
_LAST = int(dt.datetime(2038, 1, 1, tzinfo=dt.UTC).timestamp())
"""The first second after the listed years."""
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def clock_of(values: Any) -> Any:
    """What the clock of their zone shows at some instants.

    Parameters
    ----------
    values : pa.Array, pa.ChunkedArray or pa.Scalar of timestamps with a zone
        At least a day from the ends of their type.

    Returns
    -------
    the same of timestamps without a zone

    Raises
    ------
    ValueError
        The zone is unknown.

    Examples
    --------
    >>> str(clock_of(pa.scalar(2_540_246_400, pa.timestamp("s", "Europe/Berlin"))))
    '2050-07-01 02:00:00'
    """
    later = _later(values, values.type.tz)
    if later is None:
        return pc.local_timestamp(values)
    return _moved(pc.local_timestamp(_moved(values, later, back=True)), later)


def instants_at(clock: Any, zone: str) -> Any:
    """The instants at which the clock of a zone shows some readings.

    Parameters
    ----------
    clock : pa.Array, pa.ChunkedArray or pa.Scalar of timestamps without a zone
    zone : str

    Raises
    ------
    ValueError
        The zone is unknown, or its clock shows a reading twice or never.

    Examples
    --------
    >>> instants_at(pa.scalar(2_540_253_600, pa.timestamp("s")), "Europe/Berlin").value
    2540246400
    """
    later = _later(clock, zone)
    if later is None:
        return pc.assume_timezone(clock, timezone=zone)
    listed = _moved(clock, later, back=True)
    try:
        return _moved(pc.assume_timezone(listed, timezone=zone), later)
    except pa.ArrowInvalid as error:
        raise pa.ArrowInvalid(_what_is_wrong(clock, listed, zone)) from error


def _what_is_wrong(clock: Any, listed: Any, zone: str) -> str:
    """Arrow's message would state the reading in the listed year."""
    first, last = (
        pc.cast(pc.assume_timezone(listed, timezone=zone, ambiguous=end, nonexistent=end), pa.int64())
        for end in ("earliest", "latest")
    )
    gap = pc.subtract(last, first)
    if not isinstance(clock, pa.Scalar):
        place = pc.index(pc.greater(gap, 0), True).as_py()
        clock, gap = clock[place], gap[place]
    # Of a reading that is never shown, Arrow gives the instants on both sides of the change.
    what = "is ambiguous" if gap.as_py() > 1 else "doesn't exist"
    return f"Timestamp {what} in timezone '{zone}': {pc.cast(clock, pa.string())}"


def _moved(values: Any, later: Any, back: bool = False) -> Any:
    move = pc.subtract if back else pc.add
    return pc.cast(move(pc.cast(values, pa.int64()), later), values.type)


def _later(values: Any, zone: str) -> Any:
    """How much later values are than the same day of a listed month, in their unit; None if all are listed."""
    if not _ends_early(zone):
        return None
    per = _PER_SECOND[values.type.unit]
    stored = pc.cast(values, pa.int64())
    last = pc.max(stored).as_py()
    if last is None or last < _LAST * per:
        return None
    if isinstance(stored, pa.Scalar):
        return pa.scalar(int(_days_later(np.array([last // (_DAY * per)]))[0]) * _DAY * per, pa.int64())
    whole = stored.combine_chunks() if isinstance(stored, pa.ChunkedArray) else stored
    numbers = numbers_of(pc.fill_null(whole, 0))
    later, found = np.zeros(numbers.size, np.int64), numbers >= _LAST * per
    later[found] = _days_later(numbers[found] // (_DAY * per)) * (_DAY * per)
    return array_of(later)


def _days_later(days: NDArray[np.int64]) -> NDArray[np.int64]:
    """How much later days since 1970 are than the same day of a listed month."""
    months = days.astype("M8[D]").astype("M8[M]")
    starts = months.astype("M8[D]").astype(np.int64)
    later: NDArray[np.int64] = starts - _listed_months()[months.astype(np.int64) % 12, starts % 7]
    return later


@cache
def _listed_months() -> NDArray[np.int64]:
    """First day of a listed month, by its number and the weekday of that day, counted from Thursday.

    Of February, months of 28 days: its last day may come after a change of clocks.
    """
    found = np.zeros((12, 7), np.int64)
    for year in _LISTED:
        for month in range(12):
            day = (dt.date(year, month + 1, 1) - dt.date(1970, 1, 1)).days
            is_leap_day = month == 1 and year % 4 == 0
            if not found[month, day % 7] and not is_leap_day:
                found[month, day % 7] = day
    return found


@lru_cache(maxsize=1000)
def _ends_early(zone: str) -> bool:
    """Whether the clock of a zone changes in the last listed year and, as Arrow reads the database, never after it.

    Zones whose summer time depends on Ramadan list its changes up to 2086.
    """

    def changes(first: int, days: int) -> bool:
        stored = np.arange(first, first + days * _DAY, 10 * _DAY)
        clock = pc.local_timestamp(array_of(stored).cast(pa.timestamp("s", zone)))
        return bool(np.ptp(numbers_of(clock.cast(pa.int64())) - stored))

    return changes(_LAST - 365 * _DAY, 365) and not changes(_LAST, 62 * 365)
