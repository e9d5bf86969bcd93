"""``copy`` and ``copy_dataset``: copy a table with its history, or bases of it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from lancecy.api.datasets import Dataset, opened
from lancecy.changes.copy_dataset import CopiedDataset
from lancecy.changes.copy_dataset import copy_dataset as copied
from lancecy.changes.deep_clone import copy_location
from lancecy.changes.move_bases import move_bases
from lancecy.limits import Limits
from lancecy.progress import Progress, silent
from lancecy.write.targets import DatasetBasePath

__all__ = ["copy", "copy_dataset"]


def copy(
    source: str | os.PathLike[str] | Dataset,
    target: str | os.PathLike[str] | None = None,
    *,
    bases: Mapping[str, str | os.PathLike[str]] | None = None,
    versions: int | Sequence[int] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    target_options: Mapping[str, Any] | None = None,
    verify: bool = True,
    dry_run: bool = False,
    progress: Progress | None = None,
    untrusted: bool = False,
    allowed_bases: Sequence[str] | None = None,
    limits: Limits | None = None,
) -> CopiedDataset:
    """Copy a table with its versions, tags and branches to another store, or move bases of it there.

    In the copy only paths of bases differ: every version of it names the new places of the bases in ``bases``, and the copy
    where it named the source, as branches do. Both libraries read every version when the source is gone.

    Without ``target`` the table stays where it is: the files that any version has in the bases are copied, and then one new
    version of the table, and of each branch with such a base, names their new places. The old files stay, as older versions
    name them.

    A copy that was interrupted continues when it is called again with the same arguments: no file is copied twice, and
    nothing shows before all files are in place.

    Parameters
    ----------
    source : str, path or Dataset
        A table. If it is one of its branches, the whole table is copied.
    target : str or path, optional
        Path or URI without a table. By default only ``bases`` are moved.
    bases : mapping of str to str or path, optional
        New places of bases outside of the table's folder, by their names or paths. Other bases stay where they are.
    versions : int, or sequence of int, optional
        As for :func:`copy_dataset`. Only with ``target``.
    storage_options : mapping, optional
        For the source; ``base_<id>.<key>`` for one of its bases.
    target_options : mapping, optional
        For the target; ``base_<id>.<key>`` for the new place of a base. By default those of the source, if both are in
        storage of the same kind.
    verify : bool
        Compare the bytes of each copy with the source: by the checksums of the storage if it has them, else by reading both.
        Sizes are always compared.
    dry_run : bool
        Only find what would be copied.
    progress : function of a :class:`lancecy.progress.Step`, optional
        As for :func:`copy_dataset`.
    untrusted, allowed_bases, limits
        As for :func:`dataset`.

    Returns
    -------
    CopiedDataset
        The versions, tags and bases that were copied, those that were left out, and the number and bytes of the files.

    Raises
    ------
    ExistsError
        The target has a table, or the unfinished copy of another table, of other versions or with other bases.
    NotFoundError
        There is no such table, version or base, or the source has lost a file of a version.
    ConflictError
        A cleanup of the source removed a version meanwhile, two bases would have one place, or other writers kept adding
        files to a base that moves.
    PathPolicyError
        Of a table or base and its copy, one is inside the other, or the table may not use a place.
    UnsupportedError
        As for :func:`copy_dataset`; or blobs name objects in a base that are no files of the table.
    FormatError, LimitError
        A manifest, tag or branch of the source is damaged.
    TypeError, ValueError
        Neither ``target`` nor ``bases`` is given, ``versions`` is wrong or without a target, or ``bases`` is no mapping.
    StoreError
        One of the stores failed, or a copy differs. The same call continues.

    Notes
    -----
    A table whose bases are on another service than the table is opened with ``allowed_bases``.

    Writers that opened the table before a base moved may still write to the old place; where such a write was committed
    meanwhile, its files are copied too.

    Examples
    --------
    >>> import lancecy, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> disk = lancecy.DatasetBasePath(f"{folder}/disk", name="disk")
    >>> ds = lancecy.write_dataset({"a": [1, 2]}, f"{folder}/t.lance", initial_bases=[disk], target_bases=["disk"])
    >>> copied = lancecy.copy(ds, f"{folder}/copy.lance", bases={"disk": f"{folder}/new_disk"})
    >>> copied.versions, copied.num_files
    ({'main': [1]}, 2)
    >>> lancecy.dataset(copied.uri).count_rows()
    2
    >>> lancecy.copy(ds, bases={"disk": f"{folder}/larger_disk"}).num_files
    1
    """
    if target is None and not bases:
        raise ValueError("name a target for the table, or bases to move")
    if target is None and versions is not None:
        raise ValueError("versions chooses what a target has: bases move with the files of all versions")
    places = _checked_places(bases)
    wanted = _checked(versions)
    ds = opened(
        source,
        storage_options=storage_options,
        untrusted=untrusted,
        allowed_bases=allowed_bases,
        limits=limits,
    )
    snapshot, told = ds.context.snapshot, progress or silent
    if target is None:
        return move_bases(
            snapshot, places, target_options or {}, verify=verify, dry_run=dry_run, progress=told
        )
    place = copy_location(snapshot, os.fspath(target), target_options)
    return copied(snapshot, place, wanted, bases=places, verify=verify, dry_run=dry_run, progress=told)


def copy_dataset(
    source: str | os.PathLike[str] | Dataset,
    target: str | os.PathLike[str],
    versions: int | Sequence[int] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    *,
    target_options: Mapping[str, Any] | None = None,
    verify: bool = False,
    dry_run: bool = False,
    progress: Progress | None = None,
    untrusted: bool = False,
    allowed_bases: Sequence[str] | None = None,
    limits: Limits | None = None,
) -> CopiedDataset:
    """Copy a table with its versions, tags and branches to another place, in any storage.

    Every version is copied byte for byte with the files that it needs: data, blobs, deletions, indices and transactions. Within a
    disk or an object store they are copied by the storage itself.

    A copy that was interrupted continues when it is called again with the same arguments: files that are there with their
    sizes stay. It copies the versions that the source had when the copy began. There is no table in the target before
    all these files are in place.

    Parameters
    ----------
    source : str, path or Dataset
        A table. If it is one of its branches, the whole table is copied.
    target : str or path
        Path or URI without a table.
    versions : int, or sequence of int, optional
        A number of newest versions, of the table and of each branch, or a list of versions of the table without a branch. By
        default all. A branch that starts from a version that is not copied is left out, and so is a tag on such a version.
    storage_options : mapping, optional
        For the source.
    target_options : mapping, optional
        For the target. By default those of the source, if both are in storage of the same kind.
    verify : bool
        Also compare the bytes of each copy with the source: by the checksums of the storage if it has them, else by
        reading both. Sizes are always compared.
    dry_run : bool
        Only find what would be copied.
    progress : function of a :class:`lancecy.progress.Step`, optional
        Called as versions are read, with ``"read versions"``, files are copied, with ``"copy"`` and bytes, and versions are
        written, with ``"copy versions"``.
    untrusted, allowed_bases, limits
        As for :func:`dataset`.

    Returns
    -------
    CopiedDataset
        The versions and tags that were copied, those that were left out, and the number and bytes of the files.

    Raises
    ------
    ExistsError
        The target has a table, or the unfinished copy of another table or of other versions.
    NotFoundError
        There is no such table or version, or the source has lost a file of a version.
    ConflictError
        A cleanup of the source removed a version meanwhile.
    PathPolicyError
        One of the two places is inside the other, or the target in a folder that a table keeps for itself.
    UnsupportedError
        The source is a branch that was moved without its main table, a version has features that this release lacks, or the
        target cannot create an object only if it is absent.
    FormatError, LimitError
        A manifest, tag or branch of the source is damaged.
    TypeError, ValueError
        ``versions`` is neither a number above 0 nor a list of numbers.
    StoreError
        One of the stores failed, or a copy differs. The same call continues.

    Notes
    -----
    Files in base paths outside of the table's folder, such as those of a clone's source, stay where they are, and the copy
    names them as before; :meth:`Dataset.deep_clone` brings one version of all files together.

    Branches name the files of the table they were made from by an absolute path. Their copied versions therefore still name
    the source. So the copy of each such branch gets one more version, which names the copy. Its older versions are read from
    the source; once nothing is left there, lancecy reads them from the copy.

    Detached versions, and files that no version needs, are not copied.

    Examples
    --------
    >>> import lancecy, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> ds = lancecy.write_dataset({"a": [1, 2]}, f"{folder}/t.lance")
    >>> ds.append({"a": [3]})
    >>> ds.tags.create("first", 1)
    >>> copy = lancecy.copy_dataset(ds, f"{folder}/copy.lance")
    >>> copy.versions, copy.tags
    ({'main': [1, 2]}, ['first'])
    >>> lancecy.dataset(f"{folder}/copy.lance", "first").to_table()["a"].to_pylist()
    [1, 2]
    """
    wanted = _checked(versions)
    ds = opened(
        source,
        storage_options=storage_options,
        untrusted=untrusted,
        allowed_bases=allowed_bases,
        limits=limits,
    )
    snapshot = ds.context.snapshot
    place = copy_location(snapshot, os.fspath(target), target_options)
    return copied(snapshot, place, wanted, verify=verify, dry_run=dry_run, progress=progress or silent)


def _checked_places(bases: object) -> dict[str, str]:
    if bases is None:
        return {}
    if not isinstance(bases, Mapping):
        raise TypeError(f"bases maps names or paths of bases to new places, not {bases!r}")
    return {os.fspath(base): DatasetBasePath(place).to_base_path().path for base, place in bases.items()}


def _checked(versions: object) -> int | list[int] | None:
    if versions is None:
        return None
    several = [versions] if isinstance(versions, int) else versions
    if isinstance(several, str) or not isinstance(several, Sequence):
        raise TypeError(f"versions is a number of newest versions, or a list of versions, not {versions!r}")
    if not all(isinstance(number, int) and not isinstance(number, bool) for number in several):
        raise TypeError(f"versions is a number of newest versions, or a list of versions, not {versions!r}")
    if not several or min(several) < 1:
        raise ValueError(f"versions is {versions!r}: name at least one, from 1 on")
    return versions if isinstance(versions, int) else sorted(set(several))
