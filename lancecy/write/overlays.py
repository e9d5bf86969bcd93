"""Data overlays, as users see them, with pylance's names."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lancecy.records import dataclass
from lancecy.table.manifest import DataFile
from lancecy.table.operations import DataOverlay, OverlayFile
from lancecy.table.rows import roaring

__all__ = ["DataOverlayFile", "DataOverlayGroup", "overlay_views"]


@dataclass(frozen=True)
class DataOverlayFile:
    """New values of some rows and columns of a fragment.

    Parameters
    ----------
    data_file : DataFile
        With the values of the rows, in order.
    offsets : list of int, or list of list of int
        Offsets of the rows in the fragment, deleted rows counted: one list for all columns, or one for each.
    committed_version : int, optional
        Version that has it.
    """

    data_file: DataFile
    offsets: Sequence[int] | Sequence[Sequence[int]]
    committed_version: int | None = None


@dataclass(frozen=True)
class DataOverlayGroup:
    """What is laid over a fragment.

    Parameters
    ----------
    fragment_id : int
    overlays : sequence of DataOverlayFile
        Oldest first: of two values of a cell the later one counts.
    """

    fragment_id: int
    overlays: Sequence[DataOverlayFile]


def overlay_views(operation: DataOverlay) -> tuple[DataOverlayGroup, ...]:
    """The groups of an operation.

    Parameters
    ----------
    operation : DataOverlay

    Raises
    ------
    FormatError
        The rows of an overlay cannot be read.
    """
    return tuple(
        DataOverlayGroup(fragment, tuple(map(_file_view, overlays)))
        for fragment, overlays in operation.groups
    )


def _file_view(overlay: OverlayFile) -> DataOverlayFile:
    if isinstance(overlay.offsets, bytes):
        return DataOverlayFile(overlay.file, _offsets(overlay.offsets), overlay.committed_version or None)
    sparse = [_offsets(bitmap) for bitmap in overlay.offsets]
    return DataOverlayFile(overlay.file, sparse, overlay.committed_version or None)


def _offsets(bitmap: bytes) -> list[int]:
    found: list[int] = roaring.decode(np.frombuffer(bitmap, np.uint8)).tolist()
    return found
