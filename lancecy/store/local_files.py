"""Opening, listing and publishing local files.

With ``follow=False`` every component below the root is opened separately without
following symbolic links, so that no path in a table leads out of it. In either
mode only regular files are opened, and opening never blocks.

Disk space is allocated before it is written. A file system that allocates blocks page by page spends more time on that
than on copying. With one large allocation it finds contiguous blocks: large files are written in half the time on ext4,
and reach the disk sooner.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from lancecy.errors import PathPolicyError, UnsupportedError
from lancecy.limits import DEFAULT_LIMITS

__all__ = [
    "AT_ONCE",
    "Entry",
    "Preallocation",
    "check_folder",
    "folder_descriptor",
    "is_no_file",
    "open_folder",
    "open_regular",
    "publish",
    "stat_regular",
    "sync_folder",
    "walk",
]


AT_ONCE = 64 << 20
"""Bytes allocated at a time, once a file has grown to half of this."""

_KEEP_SIZE = 1


def _fallocate() -> Callable[[int, int, int, int], int] | None:
    """Linux's system call: the C library's function writes zeros where the file system lacks support."""
    if sys.platform != "linux" or ctypes.sizeof(ctypes.c_long) != 8:
        return None
    call: Callable[[int, int, int, int], int] | None = getattr(ctypes.CDLL(None), "fallocate", None)
    if call is not None:
        call.argtypes = ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64  # type: ignore[attr-defined]
    return call


_CALL = _fallocate()


class Preallocation:
    """Preallocated space for a file that is written from beginning to end.

    Parameters
    ----------
    file : int
        Descriptor, open for writing.

    Notes
    -----
    The size of the file stays what was written. If space cannot be allocated in advance, nothing changes: a
    full disk is reported by the write.
    """

    def __init__(self, file: int) -> None:
        self._file = file
        self._position = self._end = 0
        self._is_possible: bool | None = None

    def take(self, nbytes: int) -> None:
        """Allocate space if needed; called before ``nbytes`` are written."""
        self._position += nbytes
        if self._position > max(self._end, AT_ONCE // 2) and self._is_possible is not False:
            self._ask(self._position - nbytes)

    def settle(self) -> None:
        """Give back unused space.

        Raises
        ------
        OSError
            The disk has failed.
        """
        if self._end > self._position:
            os.ftruncate(self._file, self._position)

    def _ask(self, written: int) -> None:
        if self._is_possible is None:
            # Files in memory (without a device) gain nothing: their pages would be filled with zeros first.
            self._is_possible = _CALL is not None and os.major(os.fstat(self._file).st_dev) != 0
        if not self._is_possible or _CALL is None:
            return
        start = max(self._end, written)
        nbytes = max(AT_ONCE, self._position - start)
        if _CALL(self._file, _KEEP_SIZE, start, nbytes) == 0:
            self._end = start + nbytes
            return
        self._is_possible = False
        # Part of it may have been allocated.
        os.ftruncate(self._file, written)
        self._end = 0


_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
# A path descriptor needs no permission to list the folder, as when the system resolves a path.
_STEP = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
# Readings of a folder whose files vanish meanwhile.
_SCANS = 10
_NO_LINKS = frozenset({errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP, errno.EMLINK, errno.EXDEV})
_NO_SYNC = frozenset({errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS})

Entry = tuple[str, os.stat_result]


def stat_regular(root: str, path: str, follow: bool) -> os.stat_result:
    """Status of a regular file.

    Raises
    ------
    PathPolicyError
        It is a symbolic link that may not be followed, a FIFO, a device or a socket.
    OSError
        It is missing (``FileNotFoundError`` and similar; a folder counts as missing) or inaccessible.
    """
    if follow:
        status = os.stat(f"{root}/{path}")
        _check_regular(status, path)
        return status
    with _parent(root, path) as (folder, name):
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    _check_regular(status, path)
    return status


def open_regular(root: str, path: str, follow: bool, is_checked: bool = False) -> tuple[int, os.stat_result]:
    """Descriptor and status of a regular file, open for reading; raises as :func:`stat_regular`.

    ``is_checked`` says that :func:`stat_regular` has just looked at the file.
    """
    # Checked before it is opened, because opening a device may have effects. Checked again afterwards,
    # because it may have been replaced in between; O_NONBLOCK keeps a FIFO from waiting for a writer.
    if follow:
        if not is_checked:
            _check_regular(os.stat(f"{root}/{path}"), path)
        descriptor = os.open(f"{root}/{path}", _READ)
    else:
        with _parent(root, path) as (folder, name):
            if not is_checked:
                _check_regular(os.stat(name, dir_fd=folder, follow_symlinks=False), path)
            descriptor = os.open(name, _READ | os.O_NOFOLLOW, dir_fd=folder)
    try:
        status = os.fstat(descriptor)
        _check_regular(status, path)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor, status


def _check_regular(status: os.stat_result, path: str) -> None:
    if stat.S_ISREG(status.st_mode):
        return
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    kind = "a symbolic link" if stat.S_ISLNK(status.st_mode) else "not a regular file"
    raise PathPolicyError(f"path {path!r} is {kind}", path=path)


def is_no_file(path: str) -> bool:
    """Whether a name is taken by something that is no regular file and no link to one."""
    try:
        return not stat.S_ISREG(os.stat(path).st_mode)
    except OSError:
        return os.path.islink(path)


@contextmanager
def _parent(root: str, path: str) -> Iterator[tuple[int, str]]:
    """Descriptor of the folder that holds ``path``, reached without following links, and the last name."""
    *folders, name = path.split("/")
    descriptor = os.open(root, _FOLDER)
    try:
        for folder in folders:
            below = _step(descriptor, folder, path)
            os.close(descriptor)
            descriptor = below
        yield descriptor, name
    finally:
        os.close(descriptor)


def _step(folder: int, name: str, path: str, flags: int = _STEP) -> int:
    try:
        return os.open(name, flags | os.O_NOFOLLOW, dir_fd=folder)
    except OSError as error:
        # A link gives one or the other, depending on the flags and the system.
        if error.errno in (errno.ELOOP, errno.ENOTDIR) and _is_link(folder, name):
            raise PathPolicyError(f"path {path!r} passes a symbolic link", path=path) from None
        raise


def _is_link(folder: int, name: str) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False


def check_folder(parent: int, name: str, path: str) -> None:
    """Refuse a name that is no folder.

    Raises
    ------
    PathPolicyError
        It is a symbolic link.
    OSError
        It is missing, or a file.
    """
    mode = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
    if stat.S_ISLNK(mode):
        raise PathPolicyError(f"path {path!r} is a symbolic link", path=path)
    if not stat.S_ISDIR(mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)


@contextmanager
def open_folder(root: str, folder: str, follow: bool, create: bool) -> Iterator[int]:
    """Descriptor of a folder below the root ("" is the root), created if ``create``.

    New folders are synced before anything is put in them.
    """
    descriptor = folder_descriptor(root, folder, follow, create)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def folder_descriptor(root: str, folder: str, follow: bool, create: bool) -> int:
    """The descriptor of :func:`open_folder`, which the caller closes."""
    if follow or not folder:
        try:
            return os.open(f"{root}/{folder}", _FOLDER)
        except FileNotFoundError:
            if not create:
                raise
    if create:
        _make_folders(root)
    descriptor = os.open(root, _FOLDER)
    try:
        for name in folder.split("/") if folder else ():
            below = _enter(descriptor, name, folder, follow, create)
            os.close(descriptor)
            descriptor = below
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _enter(parent: int, name: str, folder: str, follow: bool, create: bool) -> int:
    if create:
        try:
            os.mkdir(name, dir_fd=parent)
            sync_folder(parent)
        except FileExistsError:
            pass
    if follow:
        return os.open(name, _FOLDER, dir_fd=parent)
    return _step(parent, name, folder, _FOLDER)


def _make_folders(root: str) -> None:
    missing = []
    while not os.path.isdir(root) and os.path.dirname(root) != root:
        missing.append(root)
        root = os.path.dirname(root)
    for folder in reversed(missing):
        try:
            os.mkdir(folder)
        except FileExistsError:
            continue
        with open_folder(os.path.dirname(folder), "", True, False) as parent:
            sync_folder(parent)


def sync_folder(descriptor: int) -> None:
    """Sync the names in a folder, where the file system supports it."""
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NO_SYNC:
            raise


def publish(source: tuple[int, str], target: tuple[int, str], replace: bool, durable: bool = True) -> None:
    """Give a file its final name in one atomic step, and sync it.

    Parameters
    ----------
    source, target : (descriptor of a folder, name in it)
    replace : bool
        Whether a file of that name is replaced.
    durable : bool
        Whether to wait until it is on the disk.

    Raises
    ------
    FileExistsError
        The name is taken and ``replace`` is false.
    UnsupportedError
        The file system has no hard links, without which a file cannot be created atomically.
    """
    if replace:
        os.rename(source[1], target[1], src_dir_fd=source[0], dst_dir_fd=target[0])
    else:
        _claim(source, target)
        os.unlink(source[1], dir_fd=source[0])
    if not durable:
        return
    sync_folder(target[0])
    if source[0] != target[0]:
        sync_folder(source[0])


def _claim(source: tuple[int, str], target: tuple[int, str]) -> None:
    try:
        os.link(source[1], target[1], src_dir_fd=source[0], dst_dir_fd=target[0], follow_symlinks=False)
    except FileExistsError:
        # Over NFS the answer to a successful link can be lost; the repeated request then fails.
        if os.stat(source[1], dir_fd=source[0], follow_symlinks=False).st_nlink != 2:
            raise
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        raise UnsupportedError(
            f"this file system cannot create {target[1]!r} atomically: {error.strerror}", feature="hard links"
        ) from error


def walk(folder: int, prefix: str, follow: bool, after: str, above: tuple[int, ...] = ()) -> Iterator[Entry]:
    """Regular files below a folder in name order, as (path from the store's root, status).

    Parameters
    ----------
    folder : int
        Descriptor; stays open and is not closed.
    prefix : str
        Path of the folder, "" or ending in a slash.
    follow : bool
        Whether symbolic links are followed; if not, they are left out.
    after : str
        Only paths greater than this.
    above : tuple of int
        Inodes of the folders above, so that a link to one of them ends the walk.

    Raises
    ------
    LimitError
        Folders are nested deeper than ``Limits.nesting``.
    """
    DEFAULT_LIMITS.check("nesting", len(above), "depth of folders")
    for scan in range(_SCANS):
        try:
            for found in _walk_once(folder, prefix, follow, after, above, scan < _SCANS - 1):
                after = found[0]
                yield found
        except _VanishedError:
            continue
        return


class _VanishedError(Exception):
    """A file was removed after the names in its folder were read."""


def _walk_once(
    folder: int, prefix: str, follow: bool, after: str, above: tuple[int, ...], may_raise: bool
) -> Iterator[Entry]:
    """As :func:`walk`, with the names of one moment.

    Raises
    ------
    _VanishedError
        If it may: a file was removed since that moment, and others may have been made. If the newest version of a table
        is removed, there is a newer one.
    """
    with os.scandir(folder) as entries:
        found = list(entries)
    # A folder sorts as its contents do: with a slash after its name.
    try:
        named = {e.name + "/" if e.is_dir(follow_symlinks=follow) else e.name: e for e in found}
    except OSError:
        named = {e.name + "/" if _is_folder(e, follow) else e.name: e for e in found}
    names = sorted(named)
    for name in names[_first(names, prefix, after) :] if after else names:
        entry, path = named[name], prefix + name
        if name.endswith("/"):
            yield from _walk_into(folder, entry, path, follow, after, above or (os.fstat(folder).st_ino,))
            continue
        status = _entry_status(entry, follow)
        if status is None and may_raise and not entry.is_symlink():
            raise _VanishedError
        if status is not None and stat.S_ISREG(status.st_mode):
            yield path, status


def _first(names: list[str], prefix: str, after: str) -> int:
    """Index of the first of the sorted names whose path, or a path below it, is greater than ``after``."""
    if not after.startswith(prefix):
        return 0 if prefix > after else len(names)
    index = bisect_right(names, after[len(prefix) :])
    is_inside = index > 0 and names[index - 1].endswith("/") and after.startswith(prefix + names[index - 1])
    return index - is_inside


def _is_folder(entry: os.DirEntry[str], follow: bool) -> bool:
    try:
        return entry.is_dir(follow_symlinks=follow)
    except OSError:
        return False  # a circular link; its status fails with the same error


def _entry_status(entry: os.DirEntry[str], follow: bool) -> os.stat_result | None:
    try:
        return entry.stat(follow_symlinks=follow)
    except OSError as error:
        # Removed since the folder was read, or a dangling or circular link: not an object.
        if error.errno in (errno.ENOENT, errno.ELOOP, errno.ENOTDIR):
            return None
        raise


def _walk_into(
    folder: int, entry: os.DirEntry[str], path: str, follow: bool, after: str, above: tuple[int, ...]
) -> Iterator[Entry]:
    try:
        below = os.open(entry.name, _FOLDER | (0 if follow else os.O_NOFOLLOW), dir_fd=folder)
    except FileNotFoundError:
        return
    try:
        inode = os.fstat(below).st_ino
        if inode not in above:
            yield from walk(below, path, follow, after, (*above, inode))
    finally:
        os.close(below)
