"""Copies the files of a clone or of a whole table, several at once, and checks them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import nullcontext, suppress
from threading import Semaphore
from typing import TypeAlias

from lancecy.changes.clone_files import FileCopy
from lancecy.errors import DatasetNotFoundError, LanceError, StoreError
from lancecy.progress import Progress, Step
from lancecy.session import Session
from lancecy.store.base import Store
from lancecy.store.copying import copy_object, same_bytes

__all__ = ["Explain", "copy_files", "present_sizes"]

Explain: TypeAlias = Callable[[FileCopy, LanceError], LanceError]
"""Gives the error to raise for a failure to copy a file, such as one that says what needs the file."""

# Files of one group are copied together, and the callback hears of the group. Few groups are in flight.
_GROUP_FILES, _GROUP_BYTES = 16, 64 << 20
_GROUPS = 4
# Files that are copied within disks at once: more are no faster, and each takes three descriptors.
_ON_DISKS = 8
# Up to here each object is asked for, which costs a request; beyond, the folder is listed.
_FEW = 64


def copy_files(
    session: Session,
    target: Store,
    files: Sequence[FileCopy],
    present: Mapping[str, int],
    explain: Explain,
    *,
    what: str = "clone",
    verify: bool = False,
    progress: Progress,
) -> None:
    """Copy files to a store, and check that they have arrived with their sizes.

    Parameters
    ----------
    session : Session
    target : Store
    files : sequence of FileCopy
    present : mapping of path to size
        Objects of the target that an earlier call may have copied: those of the right size are kept.
    explain : function of a FileCopy and a LanceError
    what : str
        Name of the operation in the steps of ``progress``.
    verify : bool
        Also compare all bytes, those of kept files too; a kept file that differs is copied again.
    progress : function of a Step

    Raises
    ------
    DatasetNotFoundError
        A file is missing in the source.
    StoreError
        A store failed, or a copy differs from its source.
    """
    _Copies(session, target, files, present, explain, what, verify, progress).run()


def present_sizes(target: Store, files: Sequence[FileCopy]) -> dict[str, int]:
    """Sizes of the objects in the folders of a clone's files, by path.

    Raises
    ------
    StoreError
        The storage failed.
    """
    folders = sorted({file.target.partition("/")[0] for file in files if "/" in file.target})
    found = {meta.path: meta.size for folder in folders for meta in target.list(folder)}
    # Files of a base that is no root of a table are directly in its folder.
    direct = {file.target for file in files if "/" not in file.target}
    if len(direct) > _FEW:
        with suppress(DatasetNotFoundError):
            found |= {meta.path: meta.size for meta in target.list("") if meta.path in direct}
        return found
    for name in direct:
        with suppress(DatasetNotFoundError):
            found[name] = target.head(name).size
    return found


class _Copies:
    """The state of one copying."""

    def __init__(
        self,
        session: Session,
        target: Store,
        files: Sequence[FileCopy],
        present: Mapping[str, int],
        explain: Explain,
        what: str,
        verify: bool,
        progress: Progress,
    ) -> None:
        self.session = session
        self.target = target
        self.files = files
        self.present = present
        self.explain = explain
        self.what = what
        self.verify = verify
        self.progress = progress
        self.total = sum(file.size for file in files)
        self.done = 0
        self.on_disks = Semaphore(_ON_DISKS)

    def run(self) -> None:
        kept = [] if self.verify else [file for file in self.files if self._is_present(file)]
        skipped = {file.target for file in kept}
        self._tell(kept)
        running: dict[Future[None], list[FileCopy]] = {}
        try:
            for group in _groups([file for file in self.files if file.target not in skipped]):
                self._collect(running, most=_GROUPS - 1)
                running[self.session.submit_ahead(self._copy_group, group)] = group
            self._collect(running, most=0)
        except BaseException:
            _end(running)
            raise
        self._check_sizes()

    def _is_present(self, file: FileCopy) -> bool:
        return self.present.get(file.target) == file.size

    def _tell(self, files: Sequence[FileCopy]) -> None:
        self.done += sum(file.size for file in files)
        detail = files[-1].target if files else ""
        self.progress(Step(self.what, self.done, self.total, "bytes", detail))

    def _collect(self, running: dict[Future[None], list[FileCopy]], most: int) -> None:
        """Wait until at most this many groups are being copied."""
        while len(running) > most:
            ended, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in ended:
                group = running.pop(future)
                future.result()
                self._tell(group)

    def _copy_group(self, group: Sequence[FileCopy]) -> None:
        self.session.map(self._copy, group, blocking=True)

    def _copy(self, file: FileCopy) -> None:
        is_on_disks = file.source.traits.is_mapped and self.target.traits.is_mapped
        try:
            if self.verify and self._is_present(file) and self._is_same(file):
                return
            with self.on_disks if is_on_disks else nullcontext():
                copy_object(file.source, file.path, self.target, file.target, file.size)
            if self.verify and not self._is_same(file):
                raise StoreError(
                    f"the copy {file.target!r} in {self.target.uri} differs from {file.path!r} in {file.source.uri}",
                    path=file.target,
                    store=self.target.uri,
                )
        except LanceError as error:
            raise self.explain(file, error)

    def _is_same(self, file: FileCopy) -> bool:
        return same_bytes(file.source, file.path, self.target, file.target)

    def _check_sizes(self) -> None:
        """Check that every file is there with its size."""
        found = present_sizes(self.target, self.files)
        for file in self.files:
            size = found.get(file.target)
            if size != file.size:
                has = "is missing" if size is None else f"has {size} bytes"
                raise StoreError(
                    f"the copy {file.target!r} {has} instead of having {file.size}, as {file.path!r} in {file.source.uri}",
                    path=file.target,
                    store=self.target.uri,
                )


def _groups(files: Sequence[FileCopy]) -> Iterator[list[FileCopy]]:
    """Consecutive files, bounded in number and bytes."""
    group: list[FileCopy] = []
    nbytes = 0
    for file in files:
        if group and (len(group) == _GROUP_FILES or nbytes + file.size > _GROUP_BYTES):
            yield group
            group, nbytes = [], 0
        group.append(file)
        nbytes += file.size
    if group:
        yield group


def _end(running: Mapping[Future[None], object]) -> None:
    """Wait until no group is being copied; those that have not begun do not begin."""
    for future in running:
        future.cancel()
    wait(running)
