"""A store of files below a local folder.

Reading is a memory map where that is safe, else ``pread``; a whole object of a
mapped store costs one ``stat`` once its map is cached. A write goes to a temporary
name, is synced, and gets its final name in one atomic step: ``rename`` to
replace, ``link`` to create.
"""

from __future__ import annotations

import errno
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from copy import copy
from datetime import UTC, datetime
from functools import partial
from itertools import groupby
from typing import BinaryIO, NoReturn, cast

import numpy as np

from lancecy.errors import PathPolicyError, StoreError
from lancecy.store import local_files as files
from lancecy.store.base import Memory, ObjectMeta, PutMode, Store, StoreTraits
from lancecy.store.credentials import Options
from lancecy.store.failure import is_too_long, raise_translated, too_short
from lancecy.store.maps import MapCache, identity_of, is_network_mount, map_file
from lancecy.store.new_file import NewFile
from lancecy.store.paths import check_path, check_prefix, is_safe_path
from lancecy.store.ranges import check_range
from lancecy.store.upload import Upload

__all__ = ["MAPPED", "NETWORK", "PREAD", "LocalStore", "open_local"]

MAPPED = StoreTraits(is_mapped=True, create_is_atomic=True, concurrency=1, merge_gap=0, merge_cap=1 << 30)
"""Traits of a store that maps its files."""
PREAD = StoreTraits(create_is_atomic=True, concurrency=1, merge_gap=64 << 10, merge_cap=64 << 20)
"""Traits of a local disk read with ``pread``: a request costs a microsecond, copying dominates."""
NETWORK = StoreTraits(create_is_atomic=True, concurrency=8, merge_gap=1 << 20, merge_cap=16 << 20)
"""Traits of a network mount: every request is a round trip."""

# A range this long is cheaper to map than to copy.
_WORTH_A_MAP = 64 << 10
# A file this small takes less to copy than to map, and no map.
_TOO_SMALL_TO_MAP = 16 << 10
# File systems note times of change in steps, at most of two seconds.
_SETTLED_NANOSECONDS = 3_000_000_000
# One cache per process: the system limits the maps of a process (65,530 by default), not of a table.
_MAPS = MapCache(4096)


class LocalStore:
    """Files below a folder.

    Parameters
    ----------
    root : str
        Folder; need not exist yet. Made absolute.
    mapped : bool
        Return views of memory maps. Not for untrusted tables or network mounts: a file that is truncated
        while mapped kills the process (SIGBUS).
    follow_symlinks : bool
        Whether symbolic links below the root are followed; if not, a path through one is refused and
        listings leave it out. Links in the root itself are always followed.
    traits : StoreTraits, optional
        Replaces the defaults for ``mapped``.

    Notes
    -----
    Holds no handle and no lock; pickles; safe to share between threads and across a fork.

    Examples
    --------
    >>> import tempfile
    >>> store = LocalStore(tempfile.mkdtemp())
    >>> store.put("data/hello.bin", b"hello").size
    5
    >>> bytes(store.get("data/hello.bin", 1, 3))
    b'el'
    """

    def __init__(
        self,
        root: str,
        mapped: bool = True,
        *,
        follow_symlinks: bool = True,
        traits: StoreTraits | None = None,
    ) -> None:
        self.uri = os.path.abspath(root)
        self.traits = traits or (MAPPED if mapped else PREAD)
        self._follow = follow_symlinks
        self._root = self.uri.rstrip("/")
        self._base = self._root or "/"
        self._durable = True

    def without_fsync(self) -> LocalStore:
        """The same store without fsync: after a system crash, files may be torn."""
        store = copy(self)
        store._durable = False
        return store

    def __repr__(self) -> str:
        details = "" if self.traits.is_mapped else ", mapped=False"
        return f"LocalStore({self.uri!r}{details}{'' if self._follow else ', follow_symlinks=False'})"

    # Reading

    def head(self, path: str) -> ObjectMeta:
        return _meta(path, self._looked(path))

    def look(self, path: str) -> tuple[int, str, Callable[[], Memory]]:
        """See ``base.LooksOnce``."""
        status = self._looked(path)
        return status.st_size, _identity(status), partial(self._bytes, path, status)

    def _looked(self, path: str) -> os.stat_result:
        check_path(path)
        try:
            return self._status(path)
        except OSError as error:
            self._fail(error, "stat", path)

    def _bytes(self, path: str, status: os.stat_result) -> Memory:
        try:
            return self._whole(path, status)
        except OSError as error:
            self._fail(error, "read", path)

    def get(self, path: str, start: int = 0, stop: int | None = None) -> Memory:
        check_path(path)
        check_range(start, stop)
        try:
            if self.traits.is_mapped and (stop is None or stop - start >= _WORTH_A_MAP):
                return _slice(self._whole(path, self._status(path)), path, self.uri, start, stop)
            return self._copied(path, [start], [stop])[0]
        except OSError as error:
            self._fail(error, "read", path)

    def get_start(self, path: str, most: int) -> Memory:
        return self.get(path, 0, min(self.head(path).size, most))

    def get_many(self, path: str, starts: Sequence[int], stops: Sequence[int]) -> list[Memory]:
        check_path(path)
        for start, stop in zip(starts, stops, strict=True):
            check_range(start, stop)
        try:
            if self.traits.is_mapped:
                whole = self._whole(path, self._status(path))
                pairs = zip(starts, stops, strict=True)
                return [_slice(whole, path, self.uri, start, stop) for start, stop in pairs]
            return [*self._copied(path, starts, stops)]
        except OSError as error:
            self._fail(error, "read", path)

    def release(self, path: str) -> None:
        """Drop the pages of a mapped file from this process's memory, if its map is cached.

        They stay in the page cache and are mapped again when a view is read. Streaming scans use this to bound
        their resident memory.

        Parameters
        ----------
        path : str
        """
        _MAPS.release(f"{self._root}/{check_path(path)}")

    def leave(self, path: str, nbytes: float, most: int) -> None:
        """Leave the pages of a mapped file, until more than ``most`` bytes of all files were left; then drop those of all.

        Parameters
        ----------
        path : str
        nbytes : float, bytes
            About as many were read now.
        most : int, bytes
        """
        _MAPS.leave(f"{self._root}/{check_path(path)}", nbytes, most)

    def list(self, prefix: str, start_after: str | None = None) -> Iterator[ObjectMeta]:
        folder = check_prefix(prefix)
        return self._list(folder, start_after or "")

    def names(self, prefix: str) -> Iterator[str]:
        """The names directly in a folder; see ``folders.ListsNames``."""
        folder = check_prefix(prefix)
        try:
            with (
                files.open_folder(self._base, folder, self._follow, create=False) as descriptor,
                os.scandir(descriptor) as entries,
            ):
                links = [entry for entry in entries if self._follow or not entry.is_symlink()]
                yield from sorted(f"{entry.name}/" if entry.is_dir() else entry.name for entry in links)
        except FileNotFoundError:
            return
        except NotADirectoryError:
            if not folder:
                raise StoreError(f"{self.uri} is a file, not a folder", store=self.uri) from None
        except OSError as error:
            self._fail(error, "list", folder)

    def remove_folder(self, path: str) -> None:
        """Remove a folder with everything in it; see ``folders.RemovesFolders``."""
        check_path(path)
        name, hidden = _name(path), f"{os.urandom(4).hex()}_removed"
        try:
            with files.open_folder(self._base, path.rpartition("/")[0], False, create=False) as parent:
                files.check_folder(parent, name, path)
                # Readers and writers see the whole folder or none of it.
                os.rename(name, hidden, src_dir_fd=parent, dst_dir_fd=parent)
                shutil.rmtree(hidden, dir_fd=parent)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            self._fail(error, "delete", path)

    # Writing

    def put(self, path: str, data: bytes | memoryview, mode: PutMode = PutMode.OVERWRITE) -> ObjectMeta:
        check_path(path)
        try:
            file = NewFile(self._base, path, self._follow, self._durable)
            try:
                file.write(memoryview(data).cast("B"))
                status = file.publish(mode is PutMode.OVERWRITE)
            except BaseException:
                file.discard()
                raise
        except OSError as error:
            self._fail(error, "write", path)
        _MAPS.discard(f"{self._root}/{path}")
        return _meta(path, status)

    def put_stream(self, path: str) -> BinaryIO:
        check_path(path)
        return cast(BinaryIO, _LocalUpload(self, path))

    def rename(self, source: str, target: str, mode: PutMode = PutMode.OVERWRITE) -> None:
        check_path(source)
        check_path(target)
        doing = "rename"
        try:
            files.stat_regular(self._base, source, self._follow)
            with self._folder_of(source, create=False) as old, self._folder_of(target, create=True) as new:
                old_place, new_place = (old, _name(source)), (new, _name(target))
                files.publish(old_place, new_place, mode is PutMode.OVERWRITE, self._durable)
        except FileExistsError as error:
            self._fail(error, doing, target)
        except OSError as error:
            self._fail(error, doing, source)
        _MAPS.discard(f"{self._root}/{source}")
        _MAPS.discard(f"{self._root}/{target}")

    def copy_from(self, source: Store, path: str, target: str) -> bool:
        """Copy a file of another local store inside the kernel; see ``copying.CopiesFrom``."""
        check_path(path)
        check_path(target)
        if not isinstance(source, LocalStore) or not hasattr(os, "copy_file_range"):
            return False
        try:
            descriptor, status = files.open_regular(source._base, path, source._follow)
        except OSError as error:
            source._fail(error, "read", path)
        try:
            with _LocalUpload(self, target) as upload:
                if upload.copy(descriptor, status.st_size):
                    return True
                upload.abort()
                return False
        finally:
            os.close(descriptor)

    def delete(self, paths: Sequence[str]) -> None:
        for path in paths:
            check_path(path)
        for folder, group in groupby(paths, lambda path: path.rpartition("/")[0]):
            self._delete_in(folder, [*group])

    def _delete_in(self, folder: str, paths: Sequence[str]) -> None:
        path = paths[0]
        try:
            with files.open_folder(self._base, folder, self._follow, create=False) as descriptor:
                for path in paths:
                    with suppress(FileNotFoundError):
                        os.unlink(_name(path), dir_fd=descriptor)
                    _MAPS.discard(f"{self._root}/{path}")
                if self._durable:
                    files.sync_folder(descriptor)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            self._fail(error, "delete", path)

    # Parts

    def missing_folders(self, path: str) -> tuple[str, ...]:
        """Folders that a write to this path would create, the innermost first.

        Parameters
        ----------
        path : str
            Of an object.
        """
        found, folder = [], os.path.dirname(f"{self._root}/{path}")
        while not os.path.isdir(folder) and os.path.dirname(folder) != folder:
            found.append(folder)
            folder = os.path.dirname(folder)
        return tuple(found)

    @staticmethod
    def remove_folders(folders: Sequence[str]) -> None:
        """Remove the folders that are empty; others are left, without an error.

        Parameters
        ----------
        folders : sequence of str
            From :meth:`missing_folders`.
        """
        for folder in folders:
            with suppress(OSError):
                os.rmdir(folder)

    def _folder_of(self, path: str, create: bool) -> AbstractContextManager[int]:
        return files.open_folder(self._base, path.rpartition("/")[0], self._follow, create)

    def _status(self, path: str) -> os.stat_result:
        return files.stat_regular(self._base, path, self._follow)

    def _whole(self, path: str, status: os.stat_result) -> Memory:
        """The map of a file, or a copy of a small one, reused while the file is unchanged."""
        full = f"{self._root}/{path}"
        kept = _MAPS.find(full, identity_of(status))
        if kept is not None:
            return kept
        descriptor, status = files.open_regular(self._base, path, self._follow, is_checked=True)
        try:
            memory = self._mapped(descriptor, status.st_size)
            if memory is not None:
                _MAPS.add(full, identity_of(status), memory)
                return memory
            memory = self._read(descriptor, path, 0, status.st_size)
        finally:
            os.close(descriptor)
        memory.flags.writeable = False
        # A map shows what is written into its file, and keeps the number of its file from being given to another one. A
        # copy does neither: a file that changes now could look the same as one that has just been written.
        if time.time_ns() - status.st_mtime_ns > _SETTLED_NANOSECONDS:
            _MAPS.add(full, identity_of(status), memory)
        return memory

    def _mapped(self, descriptor: int, size: int) -> Memory | None:
        """The map of an open file; None if it is to be copied."""
        if size <= _TOO_SMALL_TO_MAP or _MAPS.is_full:
            return None
        try:
            return map_file(descriptor, size)
        except OSError as error:
            if error.errno != errno.ENOMEM:
                raise
            # The process has as many maps as it may, for other reasons.
            _MAPS.clear()
            return None

    def _copied(self, path: str, starts: Sequence[int], stops: Sequence[int | None]) -> Sequence[Memory]:
        """Ranges read into new memory, allocated only after the range is checked against the file's size."""
        descriptor, status = files.open_regular(self._base, path, self._follow)
        size = status.st_size
        try:
            ends = [size if stop is None else stop for stop in stops]
            for start, end in zip(starts, ends, strict=True):
                if start > size or end > size:
                    raise too_short(path, self.uri, start, end, size)
            return [self._read(descriptor, path, s, e) for s, e in zip(starts, ends, strict=True)]
        finally:
            os.close(descriptor)

    def _read(self, descriptor: int, path: str, start: int, stop: int) -> Memory:
        memory = np.empty(stop - start, dtype=np.uint8)
        done = 0
        while done < memory.size:
            count = os.preadv(descriptor, [memory[done:].data], start + done)
            if count == 0:  # the file shrank after it was opened
                raise too_short(path, self.uri, start, stop, None)
            done += count
        return memory

    def _list(self, folder: str, after: str) -> Iterator[ObjectMeta]:
        try:
            descriptor = files.folder_descriptor(self._base, folder, self._follow, create=False)
            try:
                prefix = f"{folder}/" if folder else ""
                for path, status in files.walk(descriptor, prefix, self._follow, after):
                    # Names that no writer of the format makes and no other method here accepts.
                    if is_safe_path(path):
                        yield _meta(path, status)
            finally:
                os.close(descriptor)
        except (FileNotFoundError, NotADirectoryError):
            return  # a missing folder is empty, as in an object store
        except OSError as error:
            if not is_too_long(error):
                self._fail(error, "list", folder)

    def _fail(self, error: OSError, doing: str, path: str) -> NoReturn:
        # A writer takes a name that exists for another writer's file, and would try again and again.
        if isinstance(error, FileExistsError) and files.is_no_file(f"{self._root}/{path}"):
            raise PathPolicyError(
                f"{path!r} in {self.uri} cannot be created: it is a folder, a FIFO, a socket, a device or a link to "
                "nothing; remove it",
                path=path,
            ) from error
        raise_translated(error, doing, path, self.uri)


class _LocalUpload(Upload):
    """A file that gets its final name when it is closed."""

    def __init__(self, store: LocalStore, path: str) -> None:
        super().__init__(path, store.uri)
        self._place = f"{store._root}/{path}"
        try:
            self._file = NewFile(store._base, path, store._follow, store._durable)
        except BaseException as error:
            super(Upload, self).close()
            if isinstance(error, OSError):
                raise_translated(error, "write", path, store.uri)
            raise

    def copy(self, descriptor: int, size: int) -> bool:
        """Append the first bytes of a file; False if the file systems cannot, before any byte is written."""
        try:
            if not self._file.copy(descriptor, size):
                return False
        except OSError as error:
            self._failed = True
            raise_translated(error, "write", self._path, self._store)
        self._position += size
        return True

    def _append(self, data: memoryview) -> None:
        try:
            self._file.write(data)
        except OSError as error:
            raise_translated(error, "write", self._path, self._store)

    def _publish(self) -> None:
        try:
            self._file.publish(replace=True)
        except OSError as error:
            raise_translated(error, "write", self._path, self._store)
        _MAPS.discard(self._place)

    def _discard(self) -> None:
        self._file.discard()


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _meta(path: str, status: os.stat_result) -> ObjectMeta:
    return ObjectMeta(path, status.st_size, datetime.fromtimestamp(status.st_mtime, UTC), _identity(status))


def _identity(status: os.stat_result) -> str:
    return f"{status.st_ino:x}-{status.st_size:x}-{status.st_mtime_ns:x}"


def _slice(whole: Memory, path: str, uri: str, start: int, stop: int | None) -> Memory:
    if start > whole.size or (stop is not None and stop > whole.size):
        raise too_short(path, uri, start, stop, whole.size)
    if start == 0 and stop is None:
        return whole
    return whole[start:stop]


def open_local(uri: str, options: Options | None, *, mapped: bool, follow_symlinks: bool) -> LocalStore:
    """The store of a canonical local path; network mounts are always read with ``pread``."""
    network = is_network_mount(uri)
    return LocalStore(
        uri,
        mapped=mapped and not network,
        follow_symlinks=follow_symlinks,
        traits=NETWORK if network else None,
    )
