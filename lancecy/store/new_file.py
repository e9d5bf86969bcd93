"""New files of a local folder: written under a temporary name, then given their final one in a single step."""

from __future__ import annotations

import errno
import os
from contextlib import suppress

from lancecy.store import local_files as files

__all__ = ["TEMPORARY", "NewFile"]

TEMPORARY = ".tmp_"
"""How temporary names begin. A process that is killed leaves such a file."""
# Endings of temporary files that a cleanup removes if no version names them. A manifest's is not among them: a
# temporary manifest must not be taken for a version.
_ENDINGS = (".lance", ".txn", ".arrow", ".bin", ".blob")
# Characters of a data file's name that its temporary name keeps: the tag of a distributed write and the ending.
_TAIL = 22
# How often a folder is made that others keep removing.
_TRIES = 5
# A signal is handled between two of these, such as Ctrl+C.
_COPIED_AT_ONCE = 256 << 20
_NO_COPY = frozenset(
    {errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.ETXTBSY, errno.EPERM, errno.EIO}
)
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW


class NewFile:
    """A file under a temporary name in the folder of its final name.

    Either :meth:`publish` or :meth:`discard` ends it.

    Parameters
    ----------
    root : str
        Folder of the store.
    path : str
        The final name, below it; missing folders are made.
    follow : bool
        Whether symbolic links are followed.
    durable : bool
        Whether :meth:`publish` waits until the file is on the disk.

    Raises
    ------
    OSError, PathPolicyError
        The file cannot be created.
    """

    __slots__ = ("_durable", "_file", "_folder", "_name", "_space", "_temporary")

    def __init__(self, root: str, path: str, follow: bool, durable: bool) -> None:
        folder, _, self._name = path.rpartition("/")
        self._durable = durable
        self._temporary = f"{TEMPORARY}{os.urandom(8).hex()}{_kept_ending(self._name)}"
        self._folder = self._file = -1
        for attempt in range(_TRIES):
            try:
                self._folder = files.folder_descriptor(root, folder, follow, create=True)
                self._file = os.open(self._temporary, _NEW, 0o666, dir_fd=self._folder)
                self._space = files.Preallocation(self._file)
                break
            except BaseException as error:
                # Ctrl+C may come when the file is there already.
                self.discard()
                # Another writer that failed has just removed the folder, because it was empty.
                if not isinstance(error, FileNotFoundError) or attempt == _TRIES - 1:
                    raise

    def write(self, data: memoryview) -> None:
        """Append bytes.

        Parameters
        ----------
        data : memoryview of uint8

        Raises
        ------
        OSError
        """
        self._space.take(len(data))
        while data:
            data = data[os.write(self._file, data) :]

    def copy(self, descriptor: int, size: int) -> bool:
        """Append the first bytes of another file inside the kernel.

        Parameters
        ----------
        descriptor : int
        size : int

        Returns
        -------
        bool
            False if the file systems cannot; then nothing is appended.

        Raises
        ------
        OSError
            It failed after some bytes.
        """
        done = 0
        while done < size:
            try:
                count = os.copy_file_range(descriptor, self._file, min(size - done, _COPIED_AT_ONCE))
            except OSError as error:
                if not done and error.errno in _NO_COPY:
                    return False
                raise
            if count == 0:
                raise OSError(errno.EIO, "the file became shorter while it was copied")
            done += count
        return True

    def publish(self, replace: bool) -> os.stat_result:
        """Give the file its final name, and return its status.

        Parameters
        ----------
        replace : bool
            Whether a file of that name is replaced.

        Raises
        ------
        FileExistsError
            There is one, and ``replace`` is false.
        OSError, UnsupportedError
            See ``local_files.publish``; it may have its final name if only the sync failed.
        """
        self._space.settle()
        if self._durable:
            os.fsync(self._file)
        status = os.fstat(self._file)
        self._close_file()
        places = (self._folder, self._temporary), (self._folder, self._name)
        files.publish(*places, replace, self._durable)
        self._close_folder()
        return status

    def discard(self) -> None:
        """Remove what was written."""
        # Errors here would hide the one that led here; a cleanup removes what is left.
        with suppress(OSError):
            self._close_file()
        with suppress(OSError):
            os.unlink(self._temporary, dir_fd=self._folder)
        self._close_folder()

    def _close_file(self) -> None:
        descriptor, self._file = self._file, -1
        if descriptor >= 0:
            os.close(descriptor)  # close may report a failed write

    def _close_folder(self) -> None:
        descriptor, self._folder = self._folder, -1
        if descriptor >= 0:
            os.close(descriptor)


def _kept_ending(name: str) -> str:
    """The ending of a temporary name: cleanups, pylance's too, tell the kind of a file by its ending.

    A data file also keeps the last part of its name, by which the files of one distributed write are known.
    """
    ending = next((ending for ending in _ENDINGS if name.endswith(ending)), "")
    return f"_{name[-_TAIL:]}" if ending == ".lance" else ending
