"""Helpers of the fsspec adapter: what each file system supports, and how its answers are read."""

from __future__ import annotations

import importlib
import inspect
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

from lancecy.errors import StoreError
from lancecy.store.azure import for_adlfs, use_policy
from lancecy.store.base import ObjectMeta, StoreTraits
from lancecy.store.direct import Direct, direct_requests
from lancecy.store.retries import RetryPolicy, error_code, is_transient
from lancecy.store.upload import Upload

__all__ = [
    "BUCKETS",
    "Built",
    "FsspecUpload",
    "build",
    "can_create",
    "copy",
    "create",
    "entries",
    "error_code",
    "find",
    "lists_pages",
    "metadata",
    "page",
    "protocol_of",
    "remove",
    "remove_empty_folders",
    "stat",
    "storage_options_of",
    "usable_here",
]

BUCKETS = frozenset({"s3", "gs", "abfs", "abfss", "az"})
"""Object stores: flat names, no folders to make; their clients cache listings unless switched off."""

_ETAGS = ("ETag", "etag", "generation", "md5Hash", "content_md5", "md5", "checksum")
_TIMES = ("LastModified", "last_modified", "mtime", "updated", "modified", "created")
_REMOTE = StoreTraits(
    lists_in_order=True, concurrency=16, merge_gap=1 << 20, merge_cap=16 << 20, batches=True
)
_SERIAL = StoreTraits(concurrency=1, merge_gap=1 << 20, merge_cap=16 << 20)
# Thread-safe; other synchronous file systems are taken not to be (ftplib's is not).
_THREAD_SAFE = frozenset({"memory", "file", "local", "hdfs", "arrow_hdfs"})
_LOST_RACE = frozenset({"PreconditionFailed", "412"})
# S3 could not order two concurrent creates: neither a success nor a lost race.
_ASK_AGAIN = frozenset({"ConditionalRequestConflict", "409"})
_TRIES = 6
_ZONAL = "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT"
_AZURE = frozenset({"abfs", "abfss", "az"})
# Folders in one another. Systems follow 40 links in a path, so two links to a folder above them make 2^40 folders.
_MOST_FOLDERS = 32
# Ending of the names of S3's directory buckets, which list in no order.
_DIRECTORY_BUCKET = "--x-s3"


class Built(NamedTuple):
    """A file system made in this process.

    Attributes
    ----------
    process : int
    fs : fsspec.AbstractFileSystem
    root : str
        The store's folder as the file system names it, without trailing slash.
    guard : context manager
        Held during a call; does nothing if calls may run concurrently.
    traits : StoreTraits
    direct : Direct or None
        Makes single requests faster than ``fs``, where it can.
    """

    process: int
    fs: Any
    root: str
    guard: AbstractContextManager[Any]
    traits: StoreTraits
    direct: Direct | None = None


def build(
    protocol: str, url: str, options: Mapping[str, Any], given: Any = None, policy: RetryPolicy | None = None
) -> Built:
    """Make the file system of a URL, or make the caller's own usable in this process.

    Parameters
    ----------
    protocol, url : str
    options : mapping
    given : fsspec.AbstractFileSystem, optional
        The caller's own.
    policy : RetryPolicy, optional
        For file systems that make requests again themselves.

    Raises
    ------
    Exception
        Whatever the file system's library raises.
    """
    wanted: dict[str, Any] = {}
    if given is not None:
        fs, root = usable_here(given), url
    else:
        wanted = for_adlfs(options) if protocol in _AZURE else dict(options)
        if protocol in BUCKETS:
            wanted.setdefault("use_listings_cache", False)  # a stale listing hides new versions
        fs, root = _s3(url, wanted, policy) or _opened(protocol, url, wanted, policy or RetryPolicy())
    is_remote = bool(getattr(fs, "async_impl", False))
    is_safe = is_remote or protocol in _THREAD_SAFE
    guard: AbstractContextManager[Any] = nullcontext() if is_safe else threading.RLock()
    traits = replace(_REMOTE if is_remote else _SERIAL, create_is_atomic=can_create(protocol, fs))
    direct = direct_requests(fs, root, wanted) if protocol == "s3" and given is None else None
    return Built(os.getpid(), fs, root.rstrip("/"), guard, traits, direct)


def _opened(protocol: str, url: str, options: Mapping[str, Any], policy: RetryPolicy) -> tuple[Any, str]:
    """The file system of a URL, and the folder in it."""
    if protocol != "gs" or os.environ.get(_ZONAL):
        if protocol in _AZURE and policy != RetryPolicy():
            # fsspec keeps file systems by their options: one with another policy must not be found.
            options = {**options, "lancecy_policy": (policy.retries, policy.limit_s)}
        fs, root = importlib.import_module("fsspec.core").url_to_fs(url, **options)
        if _is_azure(fs) and hasattr(fs, "service_client"):
            use_policy(fs, policy)
            # adlfs takes these for the empty query and fragment of a URL.
            root = f"{str(root).rstrip('?#')}{url[len(url.rstrip('?#')) :]}"
        return fs, str(root)
    login = options.get("token")
    if isinstance(login, str) and login.startswith(("/", "~", ".")) and not os.path.exists(login):
        # gcsfs would send the path to Google as a token.
        raise ValueError("there is no key file where service_account, application_credentials or token says")
    # gcsfs's own choice asks each bucket for its kind over gRPC, which no fork survives and only Google answers.
    google = importlib.import_module("lancecy.store.google")
    google.check_key(login)
    fs = google.RetryingGoogle(**options, policy=policy)
    return fs, str(fs._strip_protocol(url))


def _s3(url: str, options: dict[str, Any], policy: RetryPolicy | None) -> tuple[Any, str] | None:
    """The file system and the path of a URL of S3; None for other URLs, and if the user registered another class."""
    if policy is None or "::" in url or not url.startswith("s3://"):
        return None
    kind = importlib.import_module("lancecy.store.s3").RetryingS3
    if not issubclass(kind, importlib.import_module("fsspec").get_filesystem_class("s3")):
        return None
    return kind(**kind._get_kwargs_from_urls(url), **options, policy=policy), kind._strip_protocol(url)


def protocol_of(fs: Any) -> str:
    """The first protocol name of a file system."""
    protocol = fs.protocol
    return str(protocol if isinstance(protocol, str) else protocol[0])


def usable_here(fs: Any) -> Any:
    """The file system, or a new one like it if its event loop belongs to a parent process."""
    inner = {name: value for name, value in fs.storage_options.items() if _is_file_system(value)}
    own = {name: usable_here(value) for name, value in inner.items()}
    is_foreign = getattr(fs, "_pid", os.getpid()) != os.getpid()
    if not is_foreign and all(own[name] is inner[name] for name in inner):
        return fs
    return type(fs)(*fs.storage_args, **{**fs.storage_options, **own})


def _is_file_system(value: object) -> bool:
    return hasattr(value, "storage_options") and hasattr(value, "_strip_protocol")


def can_create(protocol: str, fs: Any) -> bool:
    """Whether a put can be conditional on the object's absence, checked by the server.

    The base class's method takes the same argument, checks, and then writes: no protection between processes.
    """
    return protocol == "memory" or (protocol in BUCKETS and _condition(fs) is not None)


def _condition(fs: Any) -> dict[str, Any] | None:
    """The argument that makes a put conditional on absence: ``If-None-Match``, or ``ifGenerationMatch`` at Google."""
    method = getattr(fs, "_pipe_file", None)
    known = inspect.signature(method).parameters if method is not None else {}
    if "mode" in known:
        return {"mode": "create"}
    return {"overwrite": False} if _is_azure(fs) and "overwrite" in known else None


def _is_azure(fs: Any) -> bool:
    return not _AZURE.isdisjoint({fs.protocol} if isinstance(fs.protocol, str) else fs.protocol)


def find(fs: Any, full: str) -> Mapping[str, Mapping[str, Any]]:
    """Everything below a folder by its full name; nothing if the folder is missing.

    Raises
    ------
    FileNotFoundError
        An object store has no such bucket; elsewhere, the folder is missing.
    """
    fs.invalidate_cache(full)
    if "http" in protocol_of(fs):
        # Links of a page belong below its address with a slash; those with a query sort it.
        pages = _walked(fs, f"{full}/")
        return {name: info for name, info in pages.items() if not set(name) & set("?#")}
    if _has_usual_find(fs):
        return _walked(fs, full)
    found = fs.find(full, detail=True)
    if found:
        # adlfs lists an object that has the name of the folder, which no table has.
        return found if isinstance(found, Mapping) else {}
    if _is_azure(fs):
        # adlfs finds nothing in a missing container either.
        try:
            fs.info(full.partition("/")[0])
        except FileNotFoundError:
            raise
        except Exception:  # noqa: BLE001, S110 - a login may be allowed to list and not to ask this
            pass
    return {}


def _has_usual_find(fs: Any) -> bool:
    """Whether a file system finds objects as fsspec does for all, which leaves out the folders that it fails to list."""
    methods = [getattr(type(fs), name) for name in ("find", "_find") if hasattr(type(fs), name)]
    return all(method.__module__ in ("fsspec.spec", "fsspec.asyn") for method in methods)


def _walked(fs: Any, full: str) -> dict[str, Mapping[str, Any]]:
    """Everything below a folder by its full name; folders that go meanwhile are left out, other failures are raised."""
    found: dict[str, Mapping[str, Any]] = {}
    waiting = [(full, 0)]
    while waiting:
        # Depth first, so that folders in a circle are noticed after a few listings.
        folder, depth = waiting.pop()
        if depth > _MOST_FOLDERS:
            raise StoreError(
                f"{folder!r} is more than {_MOST_FOLDERS} folders deep: remove the symbolic link that leads to a folder "
                "above it"
            )
        try:
            listed = fs.ls(folder, detail=True)
        except FileNotFoundError:
            if folder == full:
                raise
            continue
        for info in listed:
            name = info["name"].rstrip("/")
            if info["type"] != "directory":
                found[info["name"]] = info
            elif name != folder.rstrip("/"):
                waiting.append((name, depth + 1))
    return found


def stat(fs: Any, full: str) -> Mapping[str, Any]:
    """What a file system knows of an object or a folder.

    Raises
    ------
    FileNotFoundError
        There is no such object.
    """
    fs.invalidate_cache(full)
    try:
        found: Mapping[str, Any] = fs.info(full)
    except FileNotFoundError as error:
        # fsspec says so of each failing request to a web server.
        cause = error.__cause__
        if "http" in protocol_of(fs) and cause is not None and is_transient(cause):
            raise cause from None
        raise
    return found


def entries(fs: Any, full: str) -> Mapping[str, str]:
    """The types, such as "directory", of what is directly in a folder, by full names; nothing in a bucket if it is missing.

    Raises
    ------
    FileNotFoundError
        As for :func:`find`.
    """
    fs.invalidate_cache(full)
    try:
        found = _s3_entries(fs, full) if lists_pages(fs, full) else fs.ls(full, detail=True)
    except FileNotFoundError:
        if protocol_of(fs) not in BUCKETS:
            raise
        # An object store has no folders. This raises again if the bucket is missing, and finds what was written just now.
        return _first_parts(find(fs, full), full.strip("/"))
    bare = full.strip("/")
    return {
        info["name"].rstrip("/"): info["type"]
        for info in found
        if info["name"].strip("/") != bare or info["type"] != "file"
    }


def _first_parts(names: Iterable[str], folder: str) -> dict[str, str]:
    """What is directly in a folder, by the names of all that is below it."""
    found: dict[str, str] = {}
    for name in names:
        first, slash, _ = name.strip("/").removeprefix(f"{folder}/").partition("/")
        found[f"{folder}/{first}"] = "directory" if slash else "file"
    return found


def _s3_entries(fs: Any, full: str) -> list[dict[str, Any]]:
    """What is directly in a folder; ``ls`` of s3fs asks four times more about an empty one."""
    found: list[dict[str, Any]] = []
    token: str | None = None
    while True:
        part, token = page(fs, full, "", token, delimiter="/")
        found += [{**info, "name": name} for name, info in part.items()]
        if token is None:
            return found


def copy(fs: Any, source: str, target: str) -> None:
    """Copy an object within its service, by full names; it is there as a whole afterwards.

    Raises
    ------
    FileNotFoundError
        The source is missing.
    OSError
        Azure gave the copy up.
    """
    fs.cp_file(source, target)
    if _is_azure(fs):
        _await_copy(fs, target)


def _await_copy(fs: Any, target: str) -> None:
    # Azure copies large objects after its answer, and adlfs does not wait.
    container, blob, _ = fs.split_path(target)

    async def status() -> Any:
        async with fs.service_client.get_blob_client(container=container, blob=blob) as client:
            return (await client.get_blob_properties()).copy.status

    sync, pause = importlib.import_module("fsspec.asyn").sync, 0.05
    while (found := sync(fs.loop, status)) == "pending":
        time.sleep(pause)
        pause = min(2 * pause, 5.0)
    if found != "success":
        raise OSError(f"the copy ended with status {found}")


def remove(fs: Any, names: list[str]) -> None:
    """Remove objects of a bucket together; no name has a wildcard."""
    # adlfs would otherwise ask for each name first.
    options = {"expand_path": False} if _is_azure(fs) else {}
    fs.rm(names, **options)


def remove_empty_folders(fs: Any, full: str) -> None:
    """Remove a folder and those in it; nothing if an object is in one of them.

    Raises
    ------
    FileNotFoundError
        There is no such folder.
    """
    # Not ``rm``, which searches for wildcards in the name: it would remove other folders with their objects.
    fs.invalidate_cache(full)
    folders = [full]
    for folder in folders:
        for info in fs.ls(folder, detail=True):
            if info["type"] != "directory":
                return
            # Some file systems list a folder in itself.
            if info["name"].strip("/") != folder.strip("/"):
                folders.append(info["name"].rstrip("/"))
    for folder in reversed(folders):
        # Another process may have removed it, or put a file into it: that stays, and an empty folder harms nothing.
        with suppress(OSError):
            fs.rmdir(folder)


def storage_options_of(fs: Any) -> dict[str, Any]:
    """The options a file system was made with, including positional ones and those of wrapped file systems."""
    arguments = getattr(fs, "storage_args", ())
    named: dict[str, Any] = dict(getattr(fs, "storage_options", {}))
    if arguments:
        bound = inspect.signature(type(fs).__init__).bind_partial(None, *arguments).arguments
        named.update(list(bound.items())[1:])
    return {
        name: storage_options_of(value) if _is_file_system(value) else value for name, value in named.items()
    }


def lists_pages(fs: Any, root: str) -> bool:
    """Whether :func:`page` can list a folder: general buckets of S3, which give names in order."""
    return (
        hasattr(fs, "call_s3")
        and not getattr(fs, "version_aware", False)
        and not root.partition("/")[0].endswith(_DIRECTORY_BUCKET)
    )


def page(
    fs: Any, folder: str, after: str, token: str | None, delimiter: str = ""
) -> tuple[dict[str, dict[str, Any]], str | None]:
    """The objects of one page of a listing, in name order, and the token of the next page.

    ``find`` of s3fs reads all pages before the first is used, and asks twice more about an empty folder.

    Parameters
    ----------
    fs : s3fs.S3FileSystem
    folder : str
        As the file system names it.
    after : str
        Only greater names; "" for all.
    token : str or None
        From the page before; None for the first page.
    delimiter : str
        "/" gives folders in place of what is in them, after the objects; "" gives all objects.

    Returns
    -------
    found : dict
        Information by name, as from ``find``.
    token : str or None
        None after the last page.
    """
    bucket, key, _ = fs.split_path(folder)
    asked = {"Bucket": bucket, "Prefix": f"{key}/" if key else "", **fs.req_kw}
    if delimiter:
        asked["Delimiter"] = delimiter
    # XML has no control characters, and some servers repeat the name in their answer. Callers leave out smaller names.
    if after.isprintable() and after:
        asked["StartAfter"] = fs.split_path(after)[1]
    if token is not None:
        asked["ContinuationToken"] = token
    answer = fs.call_s3("list_objects_v2", **asked)
    found = {
        f"{bucket}/{one['Key']}": {**one, "size": one["Size"], "type": "file"}
        for one in answer.get("Contents", ())
    }
    for one in answer.get("CommonPrefixes", ()):
        found[f"{bucket}/{one['Prefix']}"] = {"size": 0, "type": "directory"}
    return found, answer["NextContinuationToken"] if answer.get("IsTruncated") else None


def metadata(path: str, info: Mapping[str, Any], store: str, place: str) -> ObjectMeta:
    """An object's metadata from the answer of ``info`` or ``find``.

    Raises
    ------
    StoreError
        The size is missing (some web servers).
    """
    size = info.get("size")
    if not isinstance(size, int):
        raise StoreError(f"the size of {path!r} in {store} is not known", path=path, store=store)
    modified = _moment(info)
    tag = next((str(info[name]) for name in _ETAGS if info.get(name)), "")
    if not tag and modified is not None:
        tag = f"{info.get('ino', '')}-{size}-{modified.timestamp()}"
    return ObjectMeta(path, size, modified, f"{tag}@{place}" if tag and place else tag)


def _moment(info: Mapping[str, Any]) -> datetime | None:
    for name in _TIMES:
        value = info.get(name)
        if isinstance(value, datetime):
            return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
        if isinstance(value, int | float):
            return datetime.fromtimestamp(value, UTC)
    return None


def create(fs: Any, full: str, value: bytes, metadata: Mapping[str, str] | None = None) -> None:
    """Put an object that must not be there yet, with a file system that :func:`can_create`.

    Parameters
    ----------
    fs : fsspec.AbstractFileSystem
    full : str
    value : bytes
    metadata : mapping, optional
        Of the object; for S3.

    Raises
    ------
    FileExistsError
        It exists.
    """
    condition = _condition(fs) or {"mode": "create"}
    if metadata:
        condition["Metadata"] = dict(metadata)
    for attempt in range(_TRIES):
        try:
            fs.pipe_file(full, value, **condition)
        except Exception as error:  # a client library may raise anything
            code = error_code(error)
            if code in _LOST_RACE:
                raise FileExistsError(full) from error
            if code not in _ASK_AGAIN or attempt == _TRIES - 1:
                raise
        else:
            return
        time.sleep(0.05 * 2**attempt)


class FsspecUpload(Upload):
    """A local temporary file, uploaded whole when it is closed.

    Not every file system can discard what was written to an open file; all can upload a whole one.

    Parameters
    ----------
    path, store : str
    send : function of a local file name
        Uploads that file.
    """

    def __init__(self, path: str, store: str, send: Callable[[str], None]) -> None:
        super().__init__(path, store)
        self._send = send
        self._spool = tempfile.NamedTemporaryFile(prefix="lancecy-")  # noqa: SIM115

    def _append(self, data: memoryview) -> None:
        self._spool.write(data)

    def _publish(self) -> None:
        self._spool.flush()
        self._send(self._spool.name)
        self._spool.close()

    def _discard(self) -> None:
        self._spool.close()
