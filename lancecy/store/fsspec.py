"""A store over any URL that fsspec opens.

The file system is made on first use and again after a fork, because the event
loop of asynchronous file systems does not survive one. Answers are checked: a
range is returned whole or raises, and every error of a client library becomes a
lancecy error that names store and path and no secret.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from typing import Any, BinaryIO, NoReturn, TypeVar, cast

import numpy as np

from lancecy.errors import ExistsError, LanceError, PathPolicyError, StoreError, UnsupportedError
from lancecy.store import fsspec_parts as parts
from lancecy.store.aws import RENEW_ADVICE
from lancecy.store.base import Memory, ObjectMeta, PutMode, Store, StoreTraits
from lancecy.store.credentials import Options, has_secrets, redact, secret_texts
from lancecy.store.direct import PUT_MARK
from lancecy.store.failure import missing, raise_translated, too_short
from lancecy.store.paths import check_path, check_prefix, is_safe_path
from lancecy.store.ranges import check_range
from lancecy.store.retries import EXPIRED, RetryPolicy, Tries, is_transient, split_policy
from lancecy.store.s3_upload import S3Upload
from lancecy.store.services import for_fsspec, same_service
from lancecy.store.uri import install_hint, scheme_of, split_credentials

__all__ = ["FsspecStore", "open_fsspec"]

T = TypeVar("T")

_NO_SUCH_RANGE = frozenset({"InvalidRange", "416"})
# Larger objects are written in parts by the file system.
_ONE_PUT = 32 << 20


class _Locks:
    # fsspec's memory file system checks before it writes; the lock makes both one step within the process.
    create = threading.Lock()


def _renew_locks() -> None:
    _Locks.create = threading.Lock()


os.register_at_fork(after_in_child=_renew_locks)


class FsspecStore:
    """Objects below a URL.

    Parameters
    ----------
    url : str
        Any URL that fsspec opens, chained ones included; with ``fs``, the folder in it.
    storage_options : mapping, optional
        For the file system, under fsspec's names or pylance's. Secrets stay in this process: a pickle leaves
        them out, and the unpickled store relies on credentials of the environment.
    fs : fsspec.AbstractFileSystem, optional
        A file system made by the caller.
    traits : StoreTraits, optional
        Replaces the default traits of the file system.

    Notes
    -----
    Safe to share between threads: calls of file systems that are not thread-safe are made one at a time.

    Examples
    --------
    >>> store = FsspecStore("memory://example/table")
    >>> store.put("a/b", b"hello").size
    5
    >>> bytes(store.get("a/b", 1, 3))
    b'el'
    """

    def __init__(
        self,
        url: str,
        storage_options: Options | None = None,
        *,
        fs: Any = None,
        traits: StoreTraits | None = None,
    ) -> None:
        self._given = fs
        self._options: dict[str, Any] = dict(storage_options or {})
        if fs is None:
            self.uri, found = split_credentials(url)
            self._url = self.uri
            self._protocol = scheme_of(self.uri)
            self._policy, rest = split_policy({**found, **self._options})
            self._options = for_fsspec(self._protocol, rest)
        else:
            self._policy = RetryPolicy(retries=0)
            self._options = parts.storage_options_of(fs)
            self._url = str(fs._strip_protocol(url)).rstrip("/")
            self._protocol = parts.protocol_of(fs)
            self.uri = f"{self._protocol}://{self._url.strip('/')}"
        self._wanted_traits = traits
        self._is_bare = False
        self._prepare()

    def _prepare(self) -> None:
        """Set what follows from the options and is not pickled."""
        self._built: parts.Built | None = None
        self._secrets = secret_texts(self._options)
        # One URL may name different places on different endpoints; the identity distinguishes them.
        place = repr(sorted(redact(self._options).items())) if self._options else ""
        self._place = hashlib.sha256(place.encode()).hexdigest()[:8] if place else ""

    def __repr__(self) -> str:
        return f"FsspecStore({self.uri!r})"

    def __getstate__(self) -> dict[str, Any]:
        loses = has_secrets(self._options)
        state = {name: value for name, value in self.__dict__.items() if name not in _NOT_PICKLED}
        state["_options"] = redact(self._options)
        state["_is_bare"] = self._is_bare or loses
        # A file system is rebuilt from its class and those of its options that are not secret.
        state["_given"] = (type(self._given), state["_options"]) if loses and self._given else self._given
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._prepare()

    @property
    def service(self) -> str:
        """Differs between endpoints, and logins, that serve the same URI."""
        return self._place

    @property
    def traits(self) -> StoreTraits:
        return self._wanted_traits or self._open().traits

    # Reading

    def head(self, path: str) -> ObjectMeta:
        check_path(path)
        info = self._call("stat", path, parts.stat)
        if info.get("type") == "directory":
            raise missing(path, self.uri)
        return parts.metadata(path, info, self.uri, self._place)

    def get(self, path: str, start: int = 0, stop: int | None = None) -> Memory:
        check_path(path)
        check_range(start, stop)
        if stop is not None:
            return self.get_many(path, [start], [stop])[0]
        if start:
            size = self.head(path).size
            if start > size:
                raise too_short(path, self.uri, start, None, size)
            return self.get_many(path, [start], [size])[0]
        direct = self._open().direct

        def read(fs: Any, full: str) -> Any:
            found = None if direct is None else direct.whole(full)
            # Otherwise s3fs asks for the size first, to decide whether to fetch in parts.
            limits = {"max_concurrency": 1} if self._protocol == "s3" else {}
            return fs.cat_file(full, **limits) if found is None else found

        return np.frombuffer(self._call("read", path, read), dtype=np.uint8)

    def get_start(self, path: str, most: int) -> Memory:
        check_path(path)
        check_range(0, most)

        def read(fs: Any, full: str) -> Any:
            try:
                return fs.cat_file(full, start=0, end=most)
            except Exception as error:
                # An empty object has no range.
                if parts.error_code(error) in _NO_SUCH_RANGE:
                    return b""
                raise

        # A service that ignores ranges sends all.
        return np.frombuffer(self._call("read", path, read), dtype=np.uint8)[:most]

    def get_many(self, path: str, starts: Sequence[int], stops: Sequence[int]) -> list[Memory]:
        check_path(path)
        wanted = [(int(start), int(stop)) for start, stop in zip(starts, stops, strict=True)]
        for start, stop in wanted:
            check_range(start, stop)
        present = [pair for pair in wanted if pair[1] > pair[0]]
        answers = iter(self._ranges(path, present) if present else ())
        return [
            self._checked(path, next(answers), *pair) if pair[1] > pair[0] else np.empty(0, np.uint8)
            for pair in wanted
        ]

    def get_each(self, wanted: Sequence[tuple[str, int, int]]) -> list[Memory | None]:
        """See ``fetch.ReadsTogether``."""
        for path, start, stop in wanted:
            check_path(path)
            check_range(start, stop)
        built = self._open()
        if built.direct is None:
            return [None] * len(wanted)
        answers = built.direct.each([(self._full(built, path), start, stop) for path, start, stop in wanted])
        return [
            None if answer is None or len(answer) != stop - start else np.frombuffer(answer, np.uint8)
            for answer, (_, start, stop) in zip(answers, wanted, strict=True)
        ]

    def list(self, prefix: str, start_after: str | None = None) -> Iterator[ObjectMeta]:
        folder = check_prefix(prefix)
        return self._list(folder, start_after or "")

    def names(self, prefix: str) -> Iterator[str]:
        """The names directly in a folder; see ``folders.ListsNames``."""
        folder = check_prefix(prefix)
        built = self._open()
        root = built.root.lstrip("/")
        try:
            found = self._call("list", folder, parts.entries)
        except LookupError:
            if self._protocol in parts.BUCKETS:
                raise  # a missing folder gives an empty answer, so the bucket is missing
            return
        inside = f"{folder}/" if folder else ""
        kinds = {_relative(name, root): kind for name, kind in found.items()}
        for path, kind in sorted(kinds.items()):
            name = path.removeprefix(inside)
            if path.startswith(inside) and name and "/" not in name:
                yield f"{name}/" if kind == "directory" else name

    def remove_empty_folder(self, path: str) -> None:
        """Remove a folder without objects, which file systems keep and object stores do not have."""
        check_path(path)
        if self._protocol not in parts.BUCKETS:
            with suppress(LookupError):
                self._call("delete", path, parts.remove_empty_folders)

    # Writing

    def put(self, path: str, data: bytes | memoryview, mode: PutMode = PutMode.OVERWRITE) -> ObjectMeta:
        check_path(path)
        value = bytes(data)
        if mode is PutMode.CREATE:
            self._create(path, value)
        else:
            direct = self._open().direct

            def write(fs: Any, full: str) -> None:
                if direct is None or len(value) > _ONE_PUT or not direct.put(full, value):
                    fs.pipe_file(full, value)

            self._write(path, write)
        return ObjectMeta(path, len(value))

    def put_stream(self, path: str) -> BinaryIO:
        check_path(path)
        if hasattr(self._open().fs, "call_s3"):
            ask, put = partial(self._call, "write", path), partial(self.put, path)
            return cast(BinaryIO, S3Upload(path, self.uri, ask, put))

        def send(name: str) -> None:
            self._write(path, lambda fs, full: fs.put_file(name, full))

        return cast(BinaryIO, parts.FsspecUpload(path, self.uri, send))

    def rename(self, source: str, target: str, mode: PutMode = PutMode.OVERWRITE) -> None:
        check_path(source)
        check_path(target)
        self.head(source)
        if mode is PutMode.CREATE and self._protocol != "memory":
            raise self._unsupported("rename without replacing")
        with _Locks.create if mode is PutMode.CREATE else nullcontext():
            if mode is PutMode.CREATE and self._call("stat", target, lambda fs, full: fs.exists(full)):
                raise ExistsError(f"{target!r} already exists in {self.uri}", kind="object", name=target)
            origin = self._full(self._open(), source)
            self._write(target, lambda fs, full: parts.copy(fs, origin, full))
            self._call("delete", source, lambda fs, full: fs.rm_file(full))

    def copy_from(self, source: Store, path: str, target: str) -> bool:
        """Copy an object within an object store, between buckets too; see ``copying.CopiesFrom``."""
        check_path(path)
        check_path(target)
        if not isinstance(source, FsspecStore) or not self._is_one_service(source):
            return False
        origin = source._full(source._open(), path)
        try:
            self._call("copy", target, lambda fs, full: parts.copy(fs, origin, full))
        except LookupError:
            source.head(path)
            raise
        return True

    def _is_one_service(self, other: FsspecStore) -> bool:
        """Whether the other store is opened by the same login at the same object store."""
        return (
            self._given is other._given
            and self._protocol in parts.BUCKETS
            and (other._protocol, other._options) == (self._protocol, self._options)
            and same_service(other.uri, self.uri, self._options)
        )

    def delete(self, paths: Sequence[str]) -> None:
        for path in paths:
            check_path(path)
        built = self._open()
        # A list of names would be searched for wildcards, which could remove other objects.
        named = {path: self._full(built, path) for path in paths}
        together = [
            path for path in paths if self._protocol in parts.BUCKETS and not set(named[path]) & set("*?[")
        ]
        if len(together) > 1:
            names = [named[path] for path in together]
            try:
                self._call("delete", together[0], lambda fs, full: parts.remove(fs, names))
            except LookupError:
                together = []  # one was missing, and the state of the others is unknown
        else:
            together = []
        for path in set(paths).difference(together):
            try:
                self._call("delete", path, lambda fs, full: fs.rm_file(full))
            except LookupError:
                continue

    # Parts

    def _open(self) -> parts.Built:
        built = self._built
        if built is None or built.process != os.getpid():
            try:
                built = self._built = self._build()
            except ImportError as error:
                raise UnsupportedError(
                    f"{self._protocol}:// needs a package: {install_hint(self._protocol, error)}",
                    feature=self._protocol,
                ) from error
            except Exception as error:  # noqa: BLE001 - a client library may raise anything
                self._fail(error, "open", "")
        return built

    def _build(self) -> parts.Built:
        if isinstance(self._given, tuple):  # from a pickle: a file system without its secrets
            kind, options = self._given
            given = kind(**options)
        else:
            given = self._given
        return parts.build(self._protocol, self._url, self._options, given, self._policy)

    def _tries(self, built: parts.Built) -> Tries:
        """The tries of a request. Clients of other object stores, and file systems of the caller, make their own."""
        is_own = self._protocol not in parts.BUCKETS or getattr(built.fs, "makes_tries", False)
        return Tries(self._policy if is_own else RetryPolicy(retries=0))

    def _full(self, built: parts.Built, path: str) -> str:
        if "::" in path or ("http" in self._protocol and set(path) & set("?#")):
            raise PathPolicyError(f"path {path!r} means something else in a URL", path=path)
        return f"{built.root}/{path}" if path else built.root

    def _call(self, doing: str, path: str, request: Callable[[Any, str], T], start: int = 0) -> T:
        """Make one request; errors become lancecy's. The path was checked before."""
        built = self._open()
        full = self._full(built, path)
        tries = self._tries(built)
        while True:
            try:
                with built.guard:
                    return request(built.fs, full)
            except (LanceError, MemoryError):
                raise
            except Exception as error:  # noqa: BLE001 - a client library may raise anything
                if parts.error_code(error) in _NO_SUCH_RANGE:
                    raise too_short(path, self.uri, start, None, None) from None
                if not tries.go_on(error):
                    self._fail(error, doing, path)

    def _write(self, path: str, request: Callable[[Any, str], object]) -> None:
        """Make a request that writes; on file systems with folders, make the folder if it is missing."""

        def attempt(fs: Any, full: str) -> None:
            try:
                request(fs, full)
            except FileNotFoundError:
                if self._protocol in parts.BUCKETS:
                    raise
                fs.makedirs(full.rpartition("/")[0], exist_ok=True)
                request(fs, full)

        self._call("write", path, attempt)

    def _create(self, path: str, value: bytes) -> None:
        if not parts.can_create(self._protocol, self._open().fs):
            raise self._unsupported("put without replacing")
        with _Locks.create if self._protocol == "memory" else nullcontext():
            self._call("write", path, lambda fs, full: self._created(fs, full, value))

    def _created(self, fs: Any, full: str, value: bytes) -> None:
        direct = self._open().direct
        if direct is None or len(value) > _ONE_PUT:
            parts.create(fs, full, value)
        elif not direct.put(full, value, mark=(mark := secrets.token_hex(8))):
            parts.create(fs, full, value, {PUT_MARK: mark})

    def _ranges(self, path: str, pairs: Sequence[tuple[int, int]]) -> Sequence[Any]:
        """An answer or an error for each range; those that failed or are short are asked for again."""
        answers = [*self._asked(path, pairs)]
        tries = self._tries(self._open())
        while failed := [i for i, pair in enumerate(pairs) if _may_improve(answers[i], pair, tries)]:
            error = next((answers[i] for i in failed if isinstance(answers[i], BaseException)), None)
            if not (tries.wait() if error is None else tries.go_on(error)):
                break
            for index, answer in zip(
                failed, self._asked(path, [pairs[index] for index in failed]), strict=True
            ):
                answers[index] = answer
        return answers

    def _asked(self, path: str, pairs: Sequence[tuple[int, int]]) -> Sequence[Any]:
        starts = [start for start, _ in pairs]
        stops = [stop for _, stop in pairs]

        def together(fs: Any, full: str) -> Any:
            size = self.traits.concurrency
            return fs.cat_ranges([full] * len(pairs), starts, stops, batch_size=size, on_error="return")

        def singly(fs: Any, full: str) -> Sequence[Any]:
            return [fs.cat_file(full, start=start, end=stop) for start, stop in pairs]

        built = self._open()
        direct = built.direct
        if direct is not None:
            found = self._call("read", path, lambda _, full: direct.ranges(full, pairs), starts[0])
            if found is not None:
                return found
        at_once = built.traits.batches and len(pairs) > 1
        answers: Sequence[Any] = self._call("read", path, together if at_once else singly, starts[0])
        return answers

    def _checked(self, path: str, answer: Any, start: int, stop: int) -> Memory:
        if isinstance(answer, BaseException):
            if parts.error_code(answer) in _NO_SUCH_RANGE:
                raise too_short(path, self.uri, start, stop, None)
            self._fail(answer, "read", path)
        if len(answer) < stop - start:
            raise too_short(path, self.uri, start, stop, None)
        if len(answer) > stop - start:
            raise StoreError(f"{self.uri} ignores ranges", path=path, store=self.uri)
        return np.frombuffer(answer, dtype=np.uint8)

    def _list(self, folder: str, after: str) -> Iterator[ObjectMeta]:
        built = self._open()
        root = built.root.lstrip("/")
        inside = f"{folder}/" if folder else ""
        by_page = parts.lists_pages(built.fs, root)
        for found in self._pages(folder, after) if by_page else self._found(folder):
            for path, info in sorted((_relative(name, root), info) for name, info in found.items()):
                # Object stores allow any key; no other method here accepts such a name.
                is_asked = path.startswith(inside) and path > after and info.get("type") == "file"
                if is_asked and is_safe_path(path):
                    # Pages of web servers have names only.
                    known = isinstance(info.get("size"), int)
                    yield parts.metadata(path, info, self.uri, self._place) if known else self.head(path)

    def _pages(self, folder: str, after: str) -> Iterator[Mapping[str, Any]]:
        built = self._open()
        last = f"{built.root}/{after}" if after else ""
        token: str | None = None
        while True:
            ask = partial(parts.page, after=last, token=token)
            found, token = self._call("list", folder, ask)
            yield found
            if token is None:
                return

    def _found(self, folder: str) -> Iterator[Mapping[str, Any]]:
        """All objects below a folder at once; nothing if it is missing."""
        try:
            yield self._call("list", folder, parts.find)
        except LookupError:
            if self._protocol in parts.BUCKETS:
                raise  # a missing folder gives an empty answer, so the bucket is missing

    def _unsupported(self, what: str) -> UnsupportedError:
        return UnsupportedError(f"{self.uri} cannot {what} atomically", feature=f"{what} on {self._protocol}")

    def _fail(self, error: BaseException, doing: str, path: str) -> NoReturn:
        note = "; its storage options were pickled without their secrets" if self._is_bare else ""
        if parts.error_code(error) in EXPIRED:
            note = f"; {RENEW_ADVICE}{note}"
        known: frozenset[str] = getattr(self._built.fs if self._built else None, "secret_texts", frozenset())
        raise_translated(error, doing, path, self.uri, self._secrets | known, note)


def _may_improve(answer: Any, pair: tuple[int, int], tries: Tries) -> bool:
    """Whether to ask for a range again: a short answer once, as the object may be that short."""
    if isinstance(answer, BaseException):
        return is_transient(answer)
    return len(answer) < pair[1] - pair[0] and tries.made == 1


_NOT_PICKLED = frozenset({"_built", "_secrets", "_place"})


def open_fsspec(uri: str, options: Options | None, *, mapped: bool, follow_symlinks: bool) -> FsspecStore:
    """The store of a URL; ``mapped`` and ``follow_symlinks`` have no effect."""
    return FsspecStore(uri, options)


def _relative(name: str, root: str) -> str:
    bare = name.lstrip("/")
    return bare.removeprefix(f"{root}/") if root else bare
