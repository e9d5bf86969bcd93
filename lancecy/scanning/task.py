"""Scan tasks: plain data that any executor can run.

A task names rows of fragments, a pinned version and a request. It carries no handle, no open file and, pickled, no
secret: a worker opens the table at that version by its location (once per process) and takes credentials from its
own session.
"""

from __future__ import annotations

from dataclasses import replace

from lancecy.records import dataclass
from lancecy.scanning.request import ScanRequest
from lancecy.table.location import TableLocation
from lancecy.table.snapshot import Snapshot

__all__ = ["ScanSpec", "ScanTask", "ScanUnit"]


@dataclass(frozen=True, slots=True)
class ScanUnit:
    """Rows ``start`` to ``stop`` (physical row offsets) of one fragment.

    Attributes
    ----------
    fragment : int
        Fragment id.
    start, stop : int
    rows : int
        Live rows among them.
    position : int
        Live rows of the table before them.
    """

    fragment: int
    start: int
    stop: int
    rows: int
    position: int


@dataclass(frozen=True, slots=True)
class ScanSpec:
    """The part that all tasks of one scan share.

    Attributes
    ----------
    location : TableLocation
        Travels with its secrets only if the user chose to embed them.
    version : int
    request : ScanRequest
    identity : str
        Identity of the planned manifest: a table created anew at the same location has another one.
    """

    location: TableLocation
    version: int
    request: ScanRequest
    identity: str = ""

    @classmethod
    def of(cls, snapshot: Snapshot, request: ScanRequest, embed_credentials: bool = False) -> ScanSpec:
        """The spec of a scan of a snapshot.

        Parameters
        ----------
        snapshot : Snapshot
        request : ScanRequest
        embed_credentials : bool
            Let the secrets of the location travel with the tasks.
        """
        location = snapshot.location.with_credentials(embed_credentials)
        return cls(location, snapshot.version, request, snapshot.identity)

    @property
    def uri(self) -> str:
        """Root of the dataset, without secrets."""
        return self.location.uri

    def narrowed(self, names: list[str]) -> ScanSpec:
        """The same spec with only these columns."""
        return replace(self, request=self.request.narrowed(names))


@dataclass(frozen=True, slots=True)
class ScanTask:
    """A picklable piece of a scan.

    Attributes
    ----------
    spec : ScanSpec
    units : tuple of ScanUnit
    num_rows : int
        Live rows before filtering.
    num_bytes : int, bytes
        Estimate for the selected columns.
    """

    spec: ScanSpec
    units: tuple[ScanUnit, ...]
    num_rows: int
    num_bytes: int
