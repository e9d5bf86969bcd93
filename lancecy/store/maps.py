"""A cache of read-only memory maps of local files.

A map is returned as a read-only NumPy array that owns it; it is unmapped when
the last view is freed. The most recently used maps are kept by path, and reused
while the file's identity (device, inode, size, time of change) is unchanged. So are those that views
keep alive: the system limits how many maps a process has.

Reading the lost pages of a mapped file that was truncated raises SIGBUS, which no
check can prevent. So only files of trusted tables on local disks are mapped: on a network
mount a file can shrink or the server disappear. Linux lists the type of every mount in
``/proc/self/mountinfo``; on other systems no mount counts as a network.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from collections import OrderedDict
from contextlib import suppress
from typing import TypeAlias
from weakref import WeakValueDictionary

import numpy as np

from lancecy.store.base import Memory

__all__ = ["Identity", "MapCache", "identity_of", "is_network_mount", "map_file", "network_devices"]


Identity: TypeAlias = tuple[int, int, int, int]

_libc = ctypes.CDLL(None, use_errno=True)
# mmap of the C library, because the mmap module keeps a second file descriptor open per map before Python
# 3.13, and results that are views of a table of 2,000 fragments would use up the descriptors.
_mmap = getattr(_libc, "mmap64", _libc.mmap)
_mmap.restype = ctypes.c_void_p
_mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int64]
_munmap = _libc.munmap
_munmap.restype = ctypes.c_int
_munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_madvise = _libc.madvise
_madvise.restype = ctypes.c_int
_madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_MAP_FAILED = ctypes.c_void_p(-1).value


class _Mapping:
    """Owner of one map; the NumPy arrays keep it alive."""

    __slots__ = ("__array_interface__", "_address", "_size")

    def __init__(self, descriptor: int, size: int) -> None:
        address = _mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, descriptor, 0)
        if address is None or address == _MAP_FAILED:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        self._address: int = address
        self._size = size
        self.__array_interface__ = {
            "data": (address, True),
            "shape": (size,),
            "typestr": "|u1",
            "version": 3,
        }

    # A default argument, because the module's globals may be gone at interpreter exit.
    def __del__(self, munmap: object = _munmap) -> None:
        if hasattr(self, "_address"):
            munmap(self._address, self._size)  # type: ignore[operator]


def map_file(descriptor: int, size: int) -> Memory:
    """The bytes of an open file as a read-only view.

    Parameters
    ----------
    descriptor : int
        Open for reading; may be closed afterwards.
    size : int, bytes
        Size of the file as ``fstat`` reports it.

    Returns
    -------
    (size,) uint8, read-only

    Raises
    ------
    OSError
        The system refuses the map.
    """
    if size == 0:  # the system refuses an empty map
        empty: Memory = np.frombuffer(b"", dtype=np.uint8)
        return empty
    return np.asarray(_Mapping(descriptor, size))


def identity_of(status: os.stat_result) -> Identity:
    """A value that changes when the bytes of a file may have changed."""
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


class MapCache:
    """The most recently used maps, by path.

    Parameters
    ----------
    limit : int
        Maps kept. Views stay valid after their map is evicted.
    most : int
        Maps from which on the cache is full, those that only views keep alive included.

    Notes
    -----
    Holds no lock that a fork could leave locked: every step is a single operation on the dictionary,
    and two threads that miss at once map the file twice.
    """

    def __init__(self, limit: int, most: int = 32_768) -> None:
        self.limit = limit
        self.most = most
        self._maps: OrderedDict[str, tuple[Identity, Memory]] = OrderedDict()
        self._alive: WeakValueDictionary[tuple[str, Identity], Memory] = WeakValueDictionary()
        # Bytes of the pages that readers left in memory, by path, and about their sum.
        self._left: dict[str, float] = {}
        self._left_bytes = 0.0

    def __len__(self) -> int:
        return len(self._maps)

    @property
    def is_full(self) -> bool:
        """Whether the next file should be copied, not mapped."""
        return len(self._alive) >= self.most

    def clear(self) -> None:
        """Drop all maps but those that views keep alive."""
        self._maps.clear()

    def find(self, path: str, identity: Identity) -> Memory | None:
        """The map of the file, if the file is unchanged."""
        entry = self._maps.get(path)
        if entry is None or entry[0] != identity:
            # Views may have outlived its place among the most recently used.
            alive = self._alive.get((path, identity))
            if alive is not None:
                self.add(path, identity, alive)
            return alive
        with suppress(KeyError):  # another thread dropped it; the view is still valid
            self._maps.move_to_end(path)
        return entry[1]

    def add(self, path: str, identity: Identity, memory: Memory) -> None:
        """Keep a map, and evict the least recently used beyond the limit."""
        self._maps[path] = (identity, memory)
        self._alive[path, identity] = memory
        while len(self._maps) > self.limit:
            try:
                self._maps.popitem(last=False)
            except KeyError:
                return  # another thread emptied it

    def discard(self, path: str) -> None:
        """Drop the map of a file that is being replaced or removed, to free its disk space."""
        self._maps.pop(path, None)

    def release(self, path: str) -> None:
        """Drop the pages of a file's map from this process's memory; reading loads them again."""
        self._left_bytes -= self._left.pop(path, 0)
        entry = self._maps.get(path)
        # The memory of a file that was copied would be cleared.
        if entry is not None and isinstance(entry[1].base, _Mapping):
            _madvise(entry[1].ctypes.data, entry[1].size, mmap.MADV_DONTNEED)

    def leave(self, path: str, nbytes: float, most: int) -> None:
        """Leave pages of a file's map in this process's memory, but drop those of all files if more than ``most`` bytes were left."""
        entry = self._maps.get(path)
        if entry is None:
            return
        before = self._left.get(path, 0)
        after = self._left[path] = min(entry[1].size, before + nbytes)
        self._left_bytes += after - before
        if self._left_bytes > most:
            left, self._left, self._left_bytes = self._left, {}, 0.0
            for each in [*left]:
                self.release(each)


_NETWORK = frozenset(
    {
        "9p", "afs", "autofs", "beegfs", "ceph", "cifs", "coda", "drvfs", "gfs2", "glusterfs", "gpfs",
        "lustre", "ncpfs", "nfs", "nfs4", "ocfs2", "orangefs", "pvfs2", "smb2", "smb3", "smbfs", "vboxsf",
    }
)  # fmt: skip
_MOUNTINFO = "/proc/self/mountinfo"
_known: dict[int, bool] = {}


def is_network_mount(folder: str) -> bool:
    """Whether the folder, or the nearest parent that exists, is on a network or FUSE file system.

    Parameters
    ----------
    folder : str
        Absolute path.

    Returns
    -------
    bool
    """
    device = _device(folder)
    if os.major(device) != 0:
        return False  # a block device; file systems without one have major number 0
    known = _known.get(device)
    if known is None:
        known = _known[device] = f"0:{os.minor(device)}" in network_devices(_MOUNTINFO)
    return known


def network_devices(mountinfo: str) -> set[str]:
    """Device numbers, as "major:minor", of the network and FUSE mounts in a mountinfo file."""
    try:
        with open(mountinfo, encoding="utf-8", errors="surrogateescape") as lines:
            mounts = [line.split() for line in lines]
    except OSError:
        return set()
    found = set()
    for words in mounts:
        # "36 35 98:0 /root /mount options [optional fields] - type source options"
        if "-" not in words[:-1]:
            continue
        kind = words[words.index("-") + 1]
        if kind in _NETWORK or kind == "fuse" or kind.startswith("fuse."):
            found.add(words[2])
    return found


def _device(folder: str) -> int:
    while True:
        try:
            return os.stat(folder).st_dev
        except OSError:
            parent = os.path.dirname(folder)
            if parent == folder:
                return os.makedev(255, 0)  # nothing is accessible: reading reports why
            folder = parent
