"""The plan of a deep clone: a file in the target's folder as long as the clone is not finished.

It names the version that is copied, so that a later call knows which files in the folder are its own, and the id of the
transaction, so that of several processes that copy the same version one commits and the others find its commit. Readers
ignore the file, and a cleanup removes it.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import asdict

from lancecy.errors import DatasetNotFoundError, ExistsError, FormatError, printable
from lancecy.records import dataclass
from lancecy.store.base import Memory, PutMode, Store
from lancecy.table.paths import TEMPORARY, VERSIONS
from lancecy.table.snapshot import Snapshot

__all__ = ["ClonePlan", "begun", "read_plan", "remove_plan"]

_PATH = f"{VERSIONS}/{TEMPORARY}_clone.json"
_MOST_BYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class ClonePlan:
    """The version that a deep clone copies.

    Attributes
    ----------
    source : str
        URI of the table, of a branch its own.
    version : int
    identity : str
        Of the version's manifest file.
    transaction : str
        Id of the transaction that will make the clone.
    """

    source: str
    version: int
    identity: str
    transaction: str

    @classmethod
    def of(cls, snapshot: Snapshot) -> ClonePlan:
        """A new plan to copy a version."""
        return cls(snapshot.uri, snapshot.version, snapshot.identity, str(uuid.uuid4()))

    def copies(self, snapshot: Snapshot) -> bool:
        """Whether this is a plan to copy that version."""
        wanted = snapshot.uri, snapshot.version, snapshot.identity
        return (self.source, self.version, self.identity) == wanted


def begun(target: Store, snapshot: Snapshot) -> tuple[ClonePlan, bool]:
    """The plan in a target, made if there is none.

    Parameters
    ----------
    target : Store
        Rooted at the clone.
    snapshot : Snapshot
        The version to copy.

    Returns
    -------
    (ClonePlan, bool)
        Whether it was there already: the clone continues.

    Raises
    ------
    ExistsError
        The folder has the unfinished clone of another version.
    FormatError
        The plan is damaged.
    StoreError
        The storage failed.
    """
    mine = ClonePlan.of(snapshot)
    try:
        target.put(_PATH, json.dumps(asdict(mine), indent=2).encode(), PutMode.CREATE)
    except ExistsError:
        plan = read_plan(target)
        if plan is None:
            return begun(target, snapshot)  # another process has just finished the clone
        if not plan.copies(snapshot):
            raise ExistsError(
                f"{target.uri} has the unfinished clone of version {plan.version} of {printable(plan.source)}: finish it, or "
                "remove the folder, or clone to another place",
                kind="dataset",
                name=target.uri,
            ) from None
        return plan, True
    return mine, False


def read_plan(target: Store) -> ClonePlan | None:
    """The plan in a target, None if no clone is unfinished there (raises as :func:`begun`)."""
    try:
        size = target.head(_PATH).size
        memory = target.get(_PATH, 0, min(size, _MOST_BYTES))
    except DatasetNotFoundError:
        return None
    return _decoded(memory)


def remove_plan(target: Store) -> None:
    """Remove the plan."""
    target.delete([_PATH])


def _decoded(memory: Memory) -> ClonePlan:
    try:
        stored = json.loads(memory.tobytes())
        plan = ClonePlan(**stored)
        names = (plan.source, plan.identity, plan.transaction)
        if not all(isinstance(name, str) for name in names) or type(plan.version) is not int:
            raise TypeError("a member has another type")
        uuid.UUID(plan.transaction)
    except (ValueError, TypeError) as error:
        raise FormatError(
            f"the plan of an unfinished clone is damaged: {error}; remove the folder and clone again",
            path=_PATH,
        ) from error
    return plan
