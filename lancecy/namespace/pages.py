"""Pages of listings.

A page token is the last name of the page before, so that a listing goes on although names come and go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import NamedTuple

__all__ = ["Page", "asked", "page_of"]

_CHECKED_AT_ONCE = 256


class Page(NamedTuple):
    """Names in order, and the token of the next page, None for the last one."""

    names: list[str]
    token: str | None


def asked(limit: int | None) -> int | None:
    """Names to look for so that one more than a page is known; None for all.

    Examples
    --------
    >>> asked(10), asked(None), asked(-1)
    (11, None, None)
    """
    return None if limit is None or limit < 0 else limit + 1


def page_of(
    names: Iterable[str],
    token: str | None,
    limit: int | None,
    keeps: Callable[[list[str]], list[str]] | None = None,
) -> Page:
    """One page of a listing.

    Parameters
    ----------
    names : iterable of str
        In order, each once.
    token : str or None
        Only names greater than this.
    limit : int or None
        At most so many; all if it is negative or None.
    keeps : function, optional
        Which of a list of names belong to the listing. Called with parts until the page is full.

    Examples
    --------
    >>> page_of(["a", "b", "c"], "a", 1)
    Page(names=['b'], token='b')
    """
    later = (name for name in names if not token or name > token)
    wanted = asked(limit)
    found = list(islice(_kept(later, keeps), wanted))
    if wanted is None or len(found) < wanted:
        return Page(found, None)
    return Page(found[:-1], found[-2] if len(found) > 1 else None)


def _kept(names: Iterator[str], keeps: Callable[[list[str]], list[str]] | None) -> Iterator[str]:
    if keeps is None:
        yield from names
        return
    while part := list(islice(names, _CHECKED_AT_ONCE)):
        yield from keeps(part)
