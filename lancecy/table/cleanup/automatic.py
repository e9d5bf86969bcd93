"""Cleanups that a table's configuration asks for after commits.

The keys are pylance's, and so is the rule: the cleanup after version 8 has version 7 open, which stays. Two rules
differ. Tagged versions stay, while pylance removes nothing as long as an old version is tagged; and without an age
and a number of versions, versions stay for two weeks, while pylance removes them at once.

Facts: table sheet, section 9.2.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal

from lancecy.records import dataclass
from lancecy.table.cleanup.plan import CleanupOptions

__all__ = ["INTERVAL", "OLDER_THAN", "AutoCleanup", "auto_cleanup", "parse_age"]

_PREFIX = "lance.auto_cleanup."
INTERVAL, OLDER_THAN = f"{_PREFIX}interval", f"{_PREFIX}older_than"
_RETAIN, _BRANCHES = f"{_PREFIX}retain_versions", f"{_PREFIX}referenced_branch"
_PER_SECOND, _AT_ONCE = f"{_PREFIX}delete_rate_limit", f"{_PREFIX}delete_concurrency"

_USUAL_AGE_NS = 14 * 86_400 * 10**9
_NUMBER = re.compile(r"\+?[0-9]{1,20}")
_LARGEST = (1 << 64) - 1
_AGE_PART = re.compile(r"([0-9]{1,20}(?:\.[0-9]{1,20})?)\s*([a-zµA-Z]+)\s*")
_SECOND = 10**9
_UNITS = {
    **dict.fromkeys(("nanos", "nsec", "ns"), 1),
    **dict.fromkeys(("usec", "us", "µs"), 10**3),
    **dict.fromkeys(("millis", "msec", "ms"), 10**6),
    **dict.fromkeys(("seconds", "second", "secs", "sec", "s"), _SECOND),
    **dict.fromkeys(("minutes", "minute", "mins", "min", "m"), 60 * _SECOND),
    **dict.fromkeys(("hours", "hour", "hrs", "hr", "h"), 3600 * _SECOND),
    **dict.fromkeys(("days", "day", "d"), 86_400 * _SECOND),
    **dict.fromkeys(("weeks", "week", "wks", "wk", "w"), 7 * 86_400 * _SECOND),
    # A year has 365.25 days, and a month is a twelfth of it, rounded to seconds.
    **dict.fromkeys(("months", "month", "M"), 2_630_016 * _SECOND),
    **dict.fromkeys(("years", "year", "yrs", "yr", "y"), 31_557_600 * _SECOND),
}
"""Nanoseconds of each unit of time."""


@dataclass(frozen=True, slots=True)
class AutoCleanup:
    """The automatic cleanup of a table, as its configuration has it.

    Attributes
    ----------
    interval : int
        A cleanup follows every version whose number is a multiple of it; 0 means every version.
    older_than_ns : int or None
        Minimum age of a version to remove.
    retain : int or None
        Number of newest versions to keep.
    files_per_second, files_at_once : int or None
        Maximum numbers of files that are removed.
    """

    interval: int
    older_than_ns: int | None
    retain: int | None
    files_per_second: int | None = None
    files_at_once: int | None = None

    def is_due(self, version: int) -> bool:
        """Whether a cleanup follows this version; never the first one, which has nothing before it.

        Examples
        --------
        >>> [version for version in range(1, 8) if AutoCleanup(3, None, None).is_due(version)]
        [3, 6]
        """
        return version > 1 and (self.interval == 0 or version % self.interval == 0)

    def options(self, version: int) -> CleanupOptions:
        """The cleanup after the commit of a version."""
        return CleanupOptions(
            version - 1,
            self.older_than_ns,
            self.retain,
            fail_if_tagged=False,
            files_per_second=self.files_per_second,
            files_at_once=self.files_at_once,
        )


def auto_cleanup(config: Mapping[str, str]) -> AutoCleanup | None:
    """The automatic cleanup that a table's configuration asks for, None if it asks for none.

    Parameters
    ----------
    config : mapping of str to str
        Keys that begin with ``lance.auto_cleanup.`` matter; without ``interval`` there is no automatic cleanup.

    Raises
    ------
    ValueError
        The value of a key cannot be understood; the message names both.

    Examples
    --------
    >>> auto_cleanup({"lance.auto_cleanup.interval": "20", "lance.auto_cleanup.older_than": "1s"})
    AutoCleanup(interval=20, older_than_ns=1000000000, retain=None, files_per_second=None, files_at_once=None)
    """
    if INTERVAL not in config:
        return None
    interval = _whole_number(config, INTERVAL, 0)
    retain, per_second, at_once = (
        _whole_number(config, key, 1) if key in config else None for key in (_RETAIN, _PER_SECOND, _AT_ONCE)
    )
    # Versions of branches are removed by a cleanup of the branch alone, so the value changes nothing.
    if config.get(_BRANCHES, "true") not in ("true", "false"):
        raise ValueError(f"{_BRANCHES} is {config[_BRANCHES]!r}; it can be 'true' or 'false'")
    age = None if retain is not None else _USUAL_AGE_NS
    if OLDER_THAN in config:
        try:
            age = parse_age(config[OLDER_THAN])
        except ValueError as error:
            raise ValueError(f"{OLDER_THAN} is {config[OLDER_THAN]!r}: {error}") from None
    return AutoCleanup(interval, age, retain, per_second, at_once)


def parse_age(text: str) -> int:
    """A duration in words, in nanoseconds.

    Parameters
    ----------
    text : str
        Numbers with units, added up: ``"14d"``, ``"1h 30m"``, ``"1.5 days"``, ``"0s"``; or ``"0"``.

    Raises
    ------
    ValueError
        Not such a text; the message says what is expected.

    Examples
    --------
    >>> parse_age("1h 30m") // 10**9
    5400
    """
    rest, total = text.strip(), Decimal(0)
    if rest == "0":
        return 0
    if not rest:
        raise ValueError("a duration is expected, such as '14d' or '1h 30m'")
    while rest:
        part = _AGE_PART.match(rest)
        if part is None or part[2] not in _UNITS:
            raise ValueError(
                f"a duration is expected, such as '14d' or '1h 30m', and {rest[:20]!r} is no number with a unit "
                "(ns, us, ms, s, m, h, d, w, M for months, y)"
            )
        total += Decimal(part[1]) * _UNITS[part[2]]
        rest = rest[part.end() :]
    if total > _LARGEST * _SECOND:
        raise ValueError("the duration is too long")
    return int(total)


def _whole_number(config: Mapping[str, str], key: str, least: int) -> int:
    text = config[key]
    number = int(text) if _NUMBER.fullmatch(text) else -1
    if not least <= number <= _LARGEST:
        raise ValueError(f"{key} is {text!r}; it has to be a whole number of at least {least}")
    return number
