"""Lists and removes folders of a store, one level at a time where the store can.

A :class:`~lancecy.store.base.Store` lists all objects below a folder. A folder of many tables has millions, so stores
with a method ``names`` list one level, and others are asked for the first object after each folder.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, runtime_checkable

from lancecy.store.base import Store

__all__ = ["KeepsFolders", "ListsNames", "RemovesFolders", "names_in", "remove_folder"]

# Greater than every character of a path.
_AFTER = "\U0010ffff"
_DELETED_AT_ONCE = 1000


@runtime_checkable
class ListsNames(Protocol):
    """A store that lists one level of a folder."""

    def names(self, prefix: str) -> Iterator[str]:
        """The names directly in a folder, those of folders with a slash at the end; nothing if it is missing."""


@runtime_checkable
class RemovesFolders(Protocol):
    """A store that removes a folder in one step."""

    def remove_folder(self, path: str) -> None:
        """Remove a folder with everything in it, following no symbolic link; a missing one is no error.

        Raises
        ------
        PathPolicyError
            It is a symbolic link, or the path to it passes one.
        """


@runtime_checkable
class KeepsFolders(Protocol):
    """A store that may keep folders without objects."""

    def remove_empty_folder(self, path: str) -> None:
        """Remove a folder without objects; a missing one is no error."""


def names_in(store: Store, folder: str = "") -> Iterator[str]:
    """The names directly in a folder, in the order of the store; those of folders end in a slash.

    Parameters
    ----------
    store : Store
    folder : str
        "" is the root of the store.

    Raises
    ------
    StoreError
        The storage failed, or the root is a file.

    Examples
    --------
    >>> from lancecy.store.memory import MemoryStore
    >>> store = MemoryStore()
    >>> for path in ("a/1", "a/2", "b", "c/d/3"):
    ...     _ = store.put(path, b"")
    >>> list(names_in(store))
    ['a/', 'b', 'c/']
    """
    if isinstance(store, ListsNames):
        yield from store.names(folder)
        return
    inside = f"{folder}/" if folder else ""
    after: str | None = None
    while (found := next(store.list(folder, after), None)) is not None:
        name, slash, _ = found.path.removeprefix(inside).partition("/")
        yield name + slash
        after = f"{inside}{name}/{_AFTER}" if slash else found.path


def remove_folder(store: Store, folder: str, last: str = "") -> None:
    """Remove a folder with everything in it; a missing one is no error.

    Parameters
    ----------
    store : Store
    folder : str
    last : str
        Name of an object in the folder that is removed after all others, if the store cannot remove them at once.

    Raises
    ------
    StoreError
        The storage failed; some objects may be gone.
    PathPolicyError
        It is a symbolic link, or the path to it passes one.

    Examples
    --------
    >>> from lancecy.store.memory import MemoryStore
    >>> store = MemoryStore()
    >>> for path in ("a/1", "a/b/2", "ab"):
    ...     _ = store.put(path, b"")
    >>> remove_folder(store, "a")
    >>> [meta.path for meta in store.list("")]
    ['ab']
    """
    if isinstance(store, RemovesFolders):
        store.remove_folder(folder)
        return
    end = f"{folder}/{last}"
    paths: list[str] = []
    for meta in store.list(folder):
        if meta.path != end:
            paths.append(meta.path)
        if len(paths) >= _DELETED_AT_ONCE:
            store.delete(paths)
            paths = []
    store.delete([*paths, *([end] if last else [])])
    if isinstance(store, KeepsFolders):
        store.remove_empty_folder(folder)
