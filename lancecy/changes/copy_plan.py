"""The plan of a copy of a table: a file in the target's folder as long as the copy is not finished.

It names the versions that are copied, so that a later call copies the same ones. Readers ignore the file, and a cleanup
removes it.
"""

from __future__ import annotations

import json
from dataclasses import asdict, field

from lancecy.errors import DatasetNotFoundError, ExistsError, FormatError, printable
from lancecy.limits import DEFAULT_LIMITS, Limits
from lancecy.records import dataclass
from lancecy.store.base import PutMode, Store
from lancecy.table.paths import TEMPORARY, VERSIONS

__all__ = ["CopyPlan", "read_plan", "remove_plan", "write_plan"]

_PATH = f"{VERSIONS}/{TEMPORARY}_copy.json"


@dataclass(frozen=True, slots=True)
class CopyPlan:
    """The versions that a copy of a table copies.

    Attributes
    ----------
    source : str
        URI of the main table.
    asked : int, list of int, or None
        The versions as the user named them.
    versions : dict of branch to list of int
        The main table is ``"main"``.
    bases : dict of place to place, or None
        New places of bases; None if the versions are copied byte for byte.
    """

    source: str
    asked: int | list[int] | None
    versions: dict[str, list[int]] = field(default_factory=dict)
    bases: dict[str, str] | None = None


def read_plan(target: Store, limits: Limits = DEFAULT_LIMITS) -> CopyPlan | None:
    """The plan in a target, None if no copy is unfinished there.

    Raises
    ------
    FormatError, LimitError
        It is damaged.
    StoreError
        The storage failed.
    """
    try:
        memory = target.get_start(_PATH, limits.metadata_bytes + 1)
    except DatasetNotFoundError:
        return None
    limits.check("metadata_bytes", memory.size, f"size of {_PATH}")
    try:
        plan = CopyPlan(**json.loads(memory.tobytes()))
        numbers = [number for found in plan.versions.values() for number in found]
        if not isinstance(plan.source, str) or not all(type(number) is int for number in numbers):
            raise TypeError("a member has another type")
    except (ValueError, TypeError, AttributeError) as error:
        raise FormatError(
            f"the plan of an unfinished copy is damaged: {error}; remove the folder and copy again",
            path=_PATH,
        ) from error
    return plan


def write_plan(target: Store, plan: CopyPlan) -> None:
    """Write the plan of a new copy.

    Raises
    ------
    ExistsError
        Another process has just begun a copy to the same place.
    StoreError
        The storage failed.
    """
    try:
        target.put(_PATH, json.dumps(asdict(plan)).encode(), PutMode.CREATE)
    except ExistsError:
        raise ExistsError(
            f"another process is copying a table to {printable(target.uri)}", kind="dataset", name=target.uri
        ) from None


def remove_plan(target: Store) -> None:
    """Remove the plan."""
    target.delete([_PATH])
