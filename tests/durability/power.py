"""What is on a disk after a power cut: what was synced, and of the rest nothing that helps.

Data counts once its file was synced, names once their folder was. Everything that the calls of a program
did is recorded with the bytes; :meth:`Disk.after` makes the folder that a reader finds if the power goes
after so many of them.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.durability.syscalls import Call

__all__ = ["Disk", "Recorder"]

Event = tuple[Any, ...]


class Recorder:
    """Notes every call below a root.

    Attributes
    ----------
    events : list of tuple
    """

    def __init__(self, root: Path) -> None:
        self.root = str(root)
        self.events: list[Event] = []
        self.open: dict[int, int] = {}  # descriptor to number of the file
        self._turn = threading.Lock()  # files are written by several threads

    def __call__(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], call: Call) -> Any:
        note = getattr(self, f"_{name}")
        with self._turn:
            return note(call, *args, **kwargs)

    def mark(self, what: str) -> None:
        """Something was acknowledged."""
        self.events.append(("ack", what))

    def _path(self, name: Any, folder: int | None) -> str:
        place = os.fspath(name) if folder is None else f"{os.readlink(f'/proc/self/fd/{folder}')}/{name}"
        return os.path.relpath(place, self.root)

    def _open(self, call: Call, name: Any, *_: Any, dir_fd: int | None = None) -> int:
        descriptor: int = call()
        self.open[descriptor] = len(self.events)
        self.events.append(("new", self._path(name, dir_fd), len(self.events)))
        return descriptor

    def _write(self, call: Call, descriptor: int, data: Any) -> int:
        count: int = call()
        if descriptor in self.open:  # and not a pipe of the test's
            self.events.append(("write", self.open[descriptor], bytes(data[:count])))
        return count

    def _fsync(self, call: Call, descriptor: int) -> None:
        call()
        if descriptor in self.open:
            self.events.append(("sync", self.open[descriptor]))
        else:
            place = os.readlink(f"/proc/self/fd/{descriptor}")
            self.events.append(("sync folder", os.path.relpath(place, self.root)))

    def _close(self, call: Call, descriptor: int) -> None:
        call()
        self.open.pop(descriptor, None)

    def _link(self, call: Call, old: Any, new: Any, *, src_dir_fd: int, dst_dir_fd: int, **_: Any) -> None:
        call()
        self.events.append(("link", self._path(old, src_dir_fd), self._path(new, dst_dir_fd)))

    def _rename(self, call: Call, old: Any, new: Any, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        call()
        self.events.append(("rename", self._path(old, src_dir_fd), self._path(new, dst_dir_fd)))

    def _unlink(self, call: Call, name: Any, *, dir_fd: int | None = None) -> None:
        path = self._path(name, dir_fd)
        call()
        self.events.append(("unlink", path))

    def _mkdir(self, call: Call, name: Any, *_: Any, dir_fd: int | None = None) -> None:
        path = self._path(name, dir_fd)
        call()
        self.events.append(("mkdir", path))


@dataclass
class Disk:
    """Files by number, folders by path; each as the system shows it and as the disk has it."""

    shown: dict[int, bytes] = field(default_factory=dict)
    safe: dict[int, bytes] = field(default_factory=dict)
    names: dict[str, dict[str, int]] = field(default_factory=lambda: {".": {}})
    safe_names: dict[str, dict[str, int]] = field(default_factory=lambda: {".": {}})
    acked: set[str] = field(default_factory=set)

    @classmethod
    def after(cls, events: list[Event]) -> Disk:
        """The disk after these calls."""
        disk = cls()
        for event in events:
            disk.apply(*event)
        return disk

    def apply(self, what: str, *given: Any) -> None:
        match what, given:
            case "ack", (change,):
                self.acked.add(change)
            case "new", (path, number):
                self.shown[number], self.safe[number] = b"", b""
                self._folder(path)[os.path.basename(path)] = number
            case "write", (number, data):
                self.shown[number] += data
            case "sync", (number,):
                self.safe[number] = self.shown[number]
            case "sync folder", (path,):
                self.safe_names[path] = dict(self.names[path])
            case "link", (old, new):
                self._folder(new)[os.path.basename(new)] = self._folder(old)[os.path.basename(old)]
            case "rename", (old, new):
                self._folder(new)[os.path.basename(new)] = self._folder(old).pop(os.path.basename(old))
            case "unlink", (path,):
                del self._folder(path)[os.path.basename(path)]
            case "mkdir", (path,):
                self._folder(path)[os.path.basename(path)] = -1
                self.names[path] = {}
            case _:
                raise AssertionError((what, given))

    def _folder(self, path: str) -> dict[str, int]:
        return self.names[os.path.dirname(path) or "."]

    def write(self, root: Path, *, keep_names: bool) -> None:
        """Make the folder that is found: names that were not synced are gone, or there with what was of their data."""
        names = self.names if keep_names else self.safe_names
        self._fill(root, ".", names)

    def _fill(self, root: Path, folder: str, names: dict[str, dict[str, int]]) -> None:
        root.mkdir()
        for name, number in names.get(folder, {}).items():
            path = name if folder == "." else f"{folder}/{name}"
            if number < 0:
                self._fill(root / name, path, names)
            else:
                (root / name).write_bytes(self.safe[number])
