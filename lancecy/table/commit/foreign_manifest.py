"""Finds a newest manifest that belongs to another table: a file that was copied into ``_versions/``.

It decodes, and its version may fit its name. But the table lacks the transaction and the data files that it names.
"""

from __future__ import annotations

from collections.abc import Sequence

from lancecy.errors import DatasetNotFoundError, FormatError, UnsupportedError
from lancecy.limits import DEFAULT_LIMITS, Limits
from lancecy.store.base import ObjectMeta
from lancecy.table.commit.history import History
from lancecy.table.manifest import BasePaths, DataFile
from lancecy.table.paths import TRANSACTIONS
from lancecy.table.requests import HeadFile, List, Steps, again
from lancecy.table.versions import ManifestLocation, VersionStore

__all__ = ["foreign_manifest"]


def foreign_manifest(
    versions: VersionStore,
    locations: Sequence[ManifestLocation],
    limits: Limits = DEFAULT_LIMITS,
) -> Steps[FormatError | None]:
    """Requests that find out whether the newest manifest is another table's.

    It is if its transaction file and all of its data files are missing here, while the transaction file of the
    version before is there.

    Parameters
    ----------
    versions : VersionStore
    locations : sequence of ManifestLocation
        The versions of the table, as ``versions`` lists them.
    limits : Limits

    Returns
    -------
    FormatError or None
        The problem, with the path of the manifest; None if the manifest is the table's own, or cannot be read.

    Raises
    ------
    UnsupportedError, StoreError
        The storage failed, or cannot list files.
    """
    if len(locations) < 2 or not (yield from _is_foreign(versions, locations[-2:], limits)):
        return None
    newest = locations[-1]
    return FormatError(
        f"the manifest of version {newest.version} is another table's: its transaction and data files are missing here",
        path=newest.path,
    )


def _is_foreign(versions: VersionStore, locations: Sequence[ManifestLocation], limits: Limits) -> Steps[bool]:
    """Whether the second of two manifests is another table's."""
    history = History(versions, locations[1].naming, limits)
    metas: Sequence[ObjectMeta] = yield from again(List(TRANSACTIONS))
    names = {meta.path.rpartition("/")[2] for meta in metas}
    try:
        newest = yield from history.stored(locations[1])
        made_by = "" if newest is None else newest.manifest.transaction_file
        if newest is None or not made_by or made_by in names:
            return False
        before = yield from history.stored(locations[0])
    except (FormatError, UnsupportedError):
        return False
    if before is None or before.manifest.transaction_file not in names:
        return False
    files = [file for fragment in newest.manifest.fragments for file in fragment.files]
    for file in files:
        if (yield from _exists(file, newest.manifest.bases, before.manifest.bases)):
            return False
    return bool(files)


def _exists(file: DataFile, bases: BasePaths, known: BasePaths) -> Steps[bool]:
    """Whether a data file exists below the table's root, or in a base that the version before knows too."""
    number = file.base_id
    if number is not None and bases.by_id.get(number) != known.by_id.get(number):
        return False
    try:
        yield from again(HeadFile(known, file))
    except DatasetNotFoundError:
        return False
    return True
