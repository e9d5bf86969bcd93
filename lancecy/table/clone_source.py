"""What became of the table that a clone was made of, for errors about missing files.

A shallow clone uses the files of its source, and nothing tells the source: a cleanup there may remove them.
"""

from __future__ import annotations

from lancecy.errors import LanceError, printable
from lancecy.table.answers import run_on
from lancecy.table.bases import Bases
from lancecy.table.paths import VERSIONS, parse_manifest_name
from lancecy.table.versions import version_store
from lancecy.table.wire.clone import CloneSource, decode_clone_source
from lancecy.table.wire.manifest_file import decode_manifest_file

__all__ = ["lost_source"]

# Short, because messages are cut at 500 characters.
_REMEDIES = "put the files back, or relocate_base to their new place; safe clones: shallow_clone(protect=True), deep_clone"


def lost_source(bases: Bases, base_id: int) -> str | None:
    """The reason why a file is missing in a base that is another table, and what to do.

    Reads the first manifest of the clone and lists the versions of its source; what cannot be read is left out.

    Parameters
    ----------
    bases : Bases
        Of the version that names the file.
    base_id : int
        The base that lacks it.

    Returns
    -------
    str or None
        None if the base is not the root of a table.
    """
    root = bases.dataset_root(base_id)
    if root is None:
        return None
    clone, there = _clone_of(bases), _versions_of(bases, base_id)
    if clone is None and not there:
        return None  # a base that only has the layout of a table
    if clone is not None and clone.path.rstrip("/") == root.rstrip("/"):
        made = f"this table is a shallow clone of its version {clone.version}"
        fate = _fate(there, clone.version)
    elif clone is not None:
        source = printable(clone.path)
        made = f"this table is a clone of version {clone.version} of {source}, which uses that one"
        fate = _fate(there)
    else:
        made = "that is another table, and this one is a shallow clone of it or of its clone"
        fate = _fate(there)
    return f"{made}; {fate}; {_REMEDIES}"


def _clone_of(bases: Bases) -> CloneSource | None:
    """The version that this table was made of, None if it is unknown or no clone."""
    store, _ = bases.folder(None, VERSIONS)
    try:
        first = min(run_on(version_store(store).versions(), store), key=lambda one: one.version)
        stored = decode_manifest_file(store.get(first.path), first.path, first.version)
    except (LanceError, ValueError):
        return None
    return None if stored.transaction is None else _decoded(stored.transaction)


def _decoded(transaction: bytes) -> CloneSource | None:
    try:
        return decode_clone_source(transaction)
    except LanceError:
        return None


def _versions_of(bases: Bases, base_id: int) -> frozenset[int] | None:
    """Numbers of the versions of the table in a base; None if it cannot be looked at."""
    try:
        store, folder = bases.folder(base_id, VERSIONS)
        names = [
            parse_manifest_name(meta.path.removeprefix(folder)) for meta in store.list(folder.rstrip("/"))
        ]
    except LanceError:
        return None
    return frozenset(name.version for name in names if name is not None and not name.detached)


def _fate(there: frozenset[int] | None, version: int | None = None) -> str:
    """What happened to the source that has these versions now."""
    if there is None:
        return "the source cannot be looked at"
    if not there:
        return "there is no table any more: it was moved or removed"
    if version is None:
        return f"it has versions from {min(there)} on, so a cleanup may have removed what older ones needed"
    if version in there:
        return f"version {version} is still there, so something else than a cleanup removed the file"
    return f"a cleanup there removed version {version} and the files that only it needed"
