"""Searches for nearest neighbours on the workers of Dask: tasks compare some rows, others merge what a few of them found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING

from lancecy.api.searches import NearestScanner
from lancecy.scanning.search import Neighbours
from lancecy.scanning.shared_search import SharedSearch
from lancecy.scanning.task import ScanUnit

if TYPE_CHECKING:
    import dask.dataframe as dd
    import pandas as pd

__all__ = ["check_labels", "searched"]

# Tasks whose rows one more task merges, so that no worker holds those of all tasks.
_MERGED_AT_ONCE = 16


def check_labels(index: str | None, interleave: bool | None) -> None:
    """Refuse options of a scan that a search, whose rows come by distance, does not have.

    Raises
    ------
    ValueError
    """
    if index == "rowid":
        raise ValueError("rows of a search are numbered: leave index out, and ask for with_row_id=True")
    if interleave is not None:
        raise ValueError("rows of a search come by distance: leave interleave out")


def searched(scanner: NearestScanner, blocksize: int | None, embed_credentials: bool) -> dd.DataFrame:
    """The result of a search as a frame of one partition; nothing is read before it is computed.

    Parameters
    ----------
    scanner : NearestScanner
    blocksize : int or None, bytes
        Vectors that one task compares.
    embed_credentials : bool
    """
    import dask
    import dask.dataframe as dd
    from dask.base import tokenize
    from dask.delayed import delayed

    from lancecy.dask.dtypes import empty_frame

    search, tasks = scanner.shared(blocksize, embed_credentials)
    numbers = [[_plain(unit) for unit in units] for units in tasks]
    both = [[getattr(part, field.name) for field in fields(part)] for part in (search.spec, search.search)]
    token = tokenize(both, search.add_distance, numbers)
    # One object that all tasks share, so that queries are sent once.
    shared = delayed(search, name=f"lancecy-search-{token}", traverse=False)
    found = [
        delayed(_compare)(shared, units, dask_key_name=f"lancecy-compare-{token}-{number}")
        for number, units in enumerate(numbers)
    ]
    while len(found) > _MERGED_AT_ONCE:
        groups = [found[at : at + _MERGED_AT_ONCE] for at in range(0, len(found), _MERGED_AT_ONCE)]
        found = [
            delayed(_merge)(shared, group, dask_key_name=f"lancecy-merge-{token}-{len(found)}-{number}")
            for number, group in enumerate(groups)
        ]
    merged = delayed(_frame)(shared, found, dask_key_name=f"lancecy-nearest-{token}")
    # Text is already Arrow-backed; Dask's conversion would add a step.
    with dask.config.set({"dataframe.convert-string": False}):
        frame: dd.DataFrame = dd.from_delayed([merged], meta=empty_frame(scanner.schema), verify_meta=False)
    return frame


def _plain(unit: ScanUnit) -> tuple[int, ...]:
    """Numbers, which Dask hashes and sends faster than objects."""
    return unit.fragment, unit.start, unit.stop, unit.rows, unit.position


def _compare(search: SharedSearch, units: Sequence[tuple[int, int, int, int, int]]) -> Neighbours:
    return search.compare([ScanUnit(*unit) for unit in units])


def _merge(search: SharedSearch, found: Sequence[Neighbours]) -> Neighbours:
    return search.merged(found)


def _frame(search: SharedSearch, found: Sequence[Neighbours]) -> pd.DataFrame:
    from lancecy.dask.dtypes import to_frame

    return to_frame(search.table(found))
