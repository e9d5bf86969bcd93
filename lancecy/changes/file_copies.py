"""Copies data files of some fragments to another base, which the table reads from then on."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, TypedDict, cast

from lancecy.changes.base import Change
from lancecy.changes.base_copies import BaseCopies, base_copies
from lancecy.changes.clone_copies import copy_files, present_sizes
from lancecy.changes.clone_files import explained
from lancecy.changes.delete import matching_rows
from lancecy.changes.options import CommitRequest
from lancecy.errors import NotFoundError
from lancecy.expr import Expr, time_now
from lancecy.expr.build import Filter, Term
from lancecy.keyword_options import checked_arguments, whole_number
from lancecy.progress import Progress, silent
from lancecy.scanning.context import ScanContext
from lancecy.scanning.options import HasFragmentId
from lancecy.scanning.request import ScanRequest, at_instant
from lancecy.store.uri import canonical_uri
from lancecy.table.manifest import Fragment
from lancecy.table.snapshot import Snapshot
from lancecy.write.targets import targets

__all__ = ["COPY_DEFAULTS", "CopyFilesOptions", "FileCopies", "copy_to_base"]


class CopyFilesOptions(TypedDict, total=False):
    """Options of copying on workers; :meth:`FileCopies.copy_files` describes each."""

    verify: bool
    conflict_retries: int
    retry_timeout: timedelta


COPY_DEFAULTS: dict[str, Any] = {
    "verify": True,
    "conflict_retries": 10,
    "retry_timeout": timedelta(seconds=30),
}
"""Default of each option."""


class FileCopies(Change):
    """The dataset method that copies files between bases."""

    @checked_arguments()
    def copy_files(
        self,
        fragments: Iterable[HasFragmentId | int] | Filter = None,
        filter: Filter = None,
        *,
        base: str | os.PathLike[str] | None,
        verify: bool = True,
        conflict_retries: int = 10,
        retry_timeout: timedelta = timedelta(seconds=30),
        progress: Progress | None = None,
    ) -> dict[str, int]:
        """Copy data files of fragments to a base, and read them from there: onto faster storage, or back.

        One commit makes the new version. Older versions, and the datasets that are open, read the old files, which stay until
        :meth:`cleanup_old_versions` removes the versions; a cleanup never removes files in a base. After an
        interruption the same call continues: files that are there already are not copied again.

        Parameters
        ----------
        fragments : LanceFragments or ints, or a filter, optional
            Fragments of the newest version; all of them if neither is given.
        filter : str, pyarrow.compute.Expression or lancecy.Expr, optional
            Only fragments with a row for which it is true.
        base : str, path or None
            Name or path of a registered base; None or the table's own URI is the table's own folder.
        verify : bool
            Compare all bytes of the copies with those of the files, also of copies that an earlier call made. False compares sizes.
        conflict_retries : int
            Maximum number of new attempts after another writer changed one of the fragments. Copies are used again.
        retry_timeout : timedelta
            After this no new attempt is made.
        progress : function of a Step, optional
            Called with the bytes copied.

        Returns
        -------
        dict
            ``{"num_fragments": int, "num_files": int, "num_bytes": int}`` of what the base has got; no version is
            made for 0. Blobs beside data files count as files.

        Raises
        ------
        NotFoundError
            The table has no such base or fragment.
        ExpressionError, ColumnNotFoundError
            The filter does not fit the schema.
        MissingFileError
            A file is missing in its present place.
        StoreError
            A store failed, or a copy differs from its file. Nothing is committed; the same call continues.
        RetryableConflictError
            Every attempt lost to another writer.

        Notes
        -----
        Rows keep their addresses, row ids and versions, and indices stay valid. Deletion files and indices stay where they
        are. Copies get new names.

        Examples
        --------
        >>> import lancecy
        >>> fast = lancecy.DatasetBasePath("memory://fast", name="fast")
        >>> ds = lancecy.write_dataset({"n": [1, 2]}, "memory://slow/t", initial_bases=[fast])
        >>> ds.append({"n": [30, 40]})
        >>> ds.copy_files("n > 20", base="fast")["num_fragments"]
        1
        >>> [fragment.data_files()[0].base_id for fragment in ds.get_fragments()]
        [None, 1]
        """
        copy = partial(copy_to_base, verify=verify, progress=progress or silent)
        return self._copied_by(copy, fragments, filter, base, conflict_retries, retry_timeout)

    def _copied_by(
        self,
        copy: Callable[[Snapshot, BaseCopies], None],
        fragments: Iterable[HasFragmentId | int] | Filter,
        filter: Filter,
        base: str | os.PathLike[str] | None,
        conflict_retries: int,
        retry_timeout: timedelta,
    ) -> dict[str, int]:
        """Copy by a function, and commit."""
        numbers, condition = _asked(fragments, filter)
        instant = time_now()

        def attempt() -> BaseCopies:
            self._check_writable()
            newest = self._newest()
            number = _target(newest, base)
            chosen = _chosen(newest, numbers, condition, instant)
            made = base_copies(newest, chosen, number)
            if made.fragments:
                copy(newest, made)
                self._change(made.operation, newest, CommitRequest())
            return made

        made = self._retried(attempt, conflict_retries, retry_timeout)
        return {
            "num_fragments": len(made.fragments),
            "num_files": len(made.files),
            "num_bytes": sum(file.size for file in made.files),
        }


def copy_to_base(
    newest: Snapshot, made: BaseCopies, *, verify: bool = True, progress: Progress = silent
) -> None:
    """Copy the files that a base lacks, and check all of them.

    Parameters
    ----------
    newest : Snapshot
        The version that the copies were planned from.
    made : BaseCopies
    verify : bool
        Compare all bytes, not only sizes.
    progress : function of a Step

    Raises
    ------
    MissingFileError
        A file is missing in its present place.
    StoreError
        A store failed, or a copy differs from its file.
    """
    explain = partial(explained, newest)
    copy_files(
        newest.session,
        made.target,
        made.files,
        present_sizes(made.target, made.files),
        explain,
        what="copy files",
        verify=verify,
        progress=progress,
    )


def _asked(
    fragments: Iterable[HasFragmentId | int] | Filter, filter: Filter
) -> tuple[list[int] | None, Filter]:
    """Ids of fragments, None for all, and the filter, which may be the first argument."""
    if fragments is None:
        return None, filter
    if isinstance(fragments, Iterable) and not isinstance(fragments, str | Expr | Term):
        return [_fragment_id(one) for one in cast("Iterable[HasFragmentId | int]", fragments)], filter
    if filter is not None:
        raise TypeError("give one filter, not two: the first argument is one too")
    return None, fragments


def _fragment_id(fragment: HasFragmentId | int) -> int:
    return whole_number("a fragment", getattr(fragment, "fragment_id", fragment))


def _target(newest: Snapshot, base: str | os.PathLike[str] | None) -> int | None:
    """Id of the base; None for the table's own folder."""
    known = newest.manifest.base_paths
    if base is None:
        return None
    is_named = any(os.fspath(base) == one.name for one in known.values())
    if not is_named and canonical_uri(base) == newest.location.uri:
        return None
    (number,) = targets(known, [os.fspath(base)])
    return number


def _chosen(newest: Snapshot, numbers: Sequence[int] | None, filter: Filter, instant: int) -> list[Fragment]:
    """The fragments of the newest version that were asked for."""
    by_id = {fragment.id: fragment for fragment in newest.fragments}
    wanted = list(by_id) if numbers is None else list(dict.fromkeys(numbers))
    for number in wanted:
        if number not in by_id:
            raise NotFoundError(
                f"version {newest.version} of {newest.uri} has no fragment {number}: it never had one, or the rows "
                "were deleted or compacted meanwhile",
                kind="fragment",
                name=str(number),
            )
    if filter is not None:
        _, condition = at_instant(None, filter, newest.schema.arrow, instant)
        request = ScanRequest(columns=(), filter=condition, fragments=tuple(wanted))
        matching = matching_rows(ScanContext(newest, newest.session), request)
        wanted = [number for number in wanted if number in matching]
    return [by_id[number] for number in wanted]
