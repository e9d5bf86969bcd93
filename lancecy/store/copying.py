"""Copies objects between stores, in bounded memory.

A store with a method ``copy_from`` copies some objects without their bytes passing through this process: a disk lets
the kernel copy (or share) blocks, an object store copies within the service. All others are read and written in
pieces. An object appears whole under its name or not at all.
"""

from __future__ import annotations

import re
from typing import Protocol, runtime_checkable

from lancecy.store.base import Memory, Store

__all__ = ["CopiesFrom", "copy_object", "same_bytes"]

# Bytes of one piece. Each thread that copies holds one piece at a time.
_PIECE = 8 << 20
# The ETag of an object that was uploaded at once is the MD5 of its bytes, unless the service encrypts with its own key.
_MD5 = re.compile(r"\"?([0-9a-f]{32})\"?(?:@.*)?")


@runtime_checkable
class CopiesFrom(Protocol):
    """A store that may copy an object of another store itself."""

    def copy_from(self, source: Store, path: str, target: str) -> bool:
        """Copy an object of ``source`` to ``target`` in this store; replaces an existing one.

        Returns
        -------
        bool
            False if it cannot copy from that store; nothing is written then.

        Raises
        ------
        LanceError
            As ``Store.get`` of the source, or ``Store.put`` of this store.
        """


def copy_object(source: Store, path: str, target: Store, target_path: str, size: int) -> None:
    """Copy one object; replaces an existing one.

    Parameters
    ----------
    source : Store
    path : str
    target : Store
    target_path : str
    size : int, bytes
        Of the object.

    Raises
    ------
    DatasetNotFoundError
        The source has no such object.
    TruncatedError
        It is shorter.
    StoreError
        One of the stores failed.

    Examples
    --------
    >>> from lancecy.store.memory import MemoryStore
    >>> source, target = MemoryStore(), MemoryStore()
    >>> _ = source.put("a", b"hello")
    >>> copy_object(source, "a", target, "b", 5)
    >>> bytes(target.get("b"))
    b'hello'
    """
    if isinstance(target, CopiesFrom) and target.copy_from(source, path, target_path):
        return
    if size <= _PIECE:
        target.put(target_path, source.get(path, 0, size).data)
        return
    with target.put_stream(target_path) as upload:
        for start in range(0, size, _PIECE):
            upload.write(_piece(source, path, start, size).data)


def same_bytes(source: Store, path: str, target: Store, target_path: str) -> bool:
    """Whether two objects have the same bytes: by their checksums if the stores give them, else by reading both.

    Parameters
    ----------
    source : Store
    path : str
    target : Store
    target_path : str

    Raises
    ------
    DatasetNotFoundError
        An object is missing.
    StoreError
        One of the stores failed.

    Examples
    --------
    >>> from lancecy.store.memory import MemoryStore
    >>> store = MemoryStore()
    >>> _ = store.put("a", b"hello"), store.put("b", b"hello"), store.put("c", b"jello")
    >>> same_bytes(store, "a", store, "b"), same_bytes(store, "a", store, "c")
    (True, False)
    """
    one, other = source.head(path), target.head(target_path)
    if one.size != other.size:
        return False
    checksums = _MD5.fullmatch(one.identity), _MD5.fullmatch(other.identity)
    if checksums[0] and checksums[1] and checksums[0][1] == checksums[1][1]:
        # Different ones prove nothing: the checksum of an encrypted object is another one.
        return True
    for start in range(0, one.size, _PIECE):
        pieces = _piece(source, path, start, one.size), _piece(target, target_path, start, one.size)
        if pieces[0].data != pieces[1].data:
            return False
    return True


def _piece(store: Store, path: str, start: int, size: int) -> Memory:
    return store.get(path, start, min(size, start + _PIECE))
