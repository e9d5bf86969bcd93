"""Names, numbers and times as text. Control characters and marks of direction are escaped: nothing that a table holds moves what stands beside it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from lancecy.errors import printable
from lancecy.scanning.explain import human_bytes

__all__ = ["counted", "escaped", "joined", "shortened", "size_text", "time_text"]


def escaped(text: object, most: int = 500) -> str:
    """The text with characters escaped that are not printed, and at most so many characters.

    Parameters
    ----------
    text : object
    most : int

    Examples
    --------
    >>> escaped("a" + chr(0x202E) + "b") == "a" + chr(92) + "u202eb", escaped("abcdef", 4)
    (True, 'abc…')
    """
    return shortened("".join(printable(part) for part in _parts(str(text), most)), most)


def _parts(text: str, most: int, length: int = 400) -> list[str]:
    kept = text[: most + 1]
    return [kept[at : at + length] for at in range(0, len(kept), length)]


def shortened(text: str, most: int) -> str:
    """At most so many characters; a longer text ends in "…"."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def joined(names: Sequence[str]) -> str:
    """The name of a table as people write it.

    Examples
    --------
    >>> joined(["sales", "orders"])
    'sales.orders'
    """
    return escaped(".".join(names))


def counted(count: int | None, one: str = "", many: str = "") -> str:
    """A number with its noun.

    Parameters
    ----------
    count : int or None
        None if it is not known.
    one, many : str
        The noun; ``one`` and an "s" if only that is given.

    Examples
    --------
    >>> counted(1000), counted(1, "row"), counted(2, "branch", "branches")
    ('1,000', '1 row', '2 branches')
    """
    if count is None:
        return "unknown"
    noun = one if count == 1 else many or (f"{one}s" if one else "")
    return f"{count:,} {noun}".rstrip()


def size_text(count: float | None) -> str:
    """A size in bytes for people; "unknown" for None."""
    return "unknown" if count is None else human_bytes(count)


def time_text(time: datetime | None) -> str:
    """A time to the second, of a page that says that its times are UTC."""
    return "unknown" if time is None else f"{time:%Y-%m-%d %H:%M:%S}"
