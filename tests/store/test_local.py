"""What is particular to local files: maps, links, special files, durability, disks that fill up."""

from __future__ import annotations

import errno
import os
import resource
import socket
import threading
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lancecy.errors import (
    DatasetNotFoundError,
    ExistsError,
    LimitError,
    PathPolicyError,
    StoreError,
    TruncatedError,
)
from lancecy.store import local, local_files, maps
from lancecy.store.base import PutMode, looks_once
from lancecy.store.local import LocalStore
from lancecy.store.maps import MapCache, identity_of, map_file
from lancecy.store.wrap import CountingStore
from tests.contracts.store import READS, in_child

DATA = bytes(range(256)) * 1024


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    (folder / "data").mkdir(parents=True)
    return folder


def stores(root: Path) -> list[LocalStore]:
    return [
        LocalStore(str(root)),
        LocalStore(str(root), mapped=False),
        LocalStore(str(root), follow_symlinks=False),
        LocalStore(str(root), mapped=False, follow_symlinks=False),
    ]


# Maps


def test_whole_object_is_one_map_used_again(root: Path) -> None:
    store = LocalStore(str(root))
    store.put("data/a", DATA)
    first, second = store.get("data/a"), store.get("data/a")
    assert np.shares_memory(first, second)
    assert np.shares_memory(first, store.get("data/a", 0, len(DATA)))
    assert not first.flags.writeable


def test_small_range_is_a_copy(root: Path) -> None:
    store = LocalStore(str(root))
    store.put("data/a", DATA)
    assert not np.shares_memory(store.get("data/a"), store.get("data/a", 10, 20))


def test_pread_store_maps_nothing(root: Path) -> None:
    store = LocalStore(str(root), mapped=False)
    store.put("data/a", DATA)
    assert not np.shares_memory(store.get("data/a"), store.get("data/a"))
    assert not store.traits.is_mapped


def test_replaced_file_is_mapped_anew(root: Path) -> None:
    store = LocalStore(str(root))
    store.put("data/a", DATA)
    before = store.get("data/a")
    other = root / "other"
    other.write_bytes(DATA[::-1])
    os.replace(other, root / "data" / "a")  # behind the store's back
    assert store.get("data/a").tobytes() == DATA[::-1]
    assert before.tobytes() == DATA


def test_grown_file_is_mapped_anew(root: Path) -> None:
    store = LocalStore(str(root))
    store.put("data/a", DATA)
    assert store.get("data/a").size == len(DATA)
    with (root / "data" / "a").open("ab") as file:
        file.write(b"more")
    assert store.get("data/a").tobytes() == DATA + b"more"


def test_a_file_that_was_looked_at_is_mapped_without_another_look(root: Path) -> None:
    store = LocalStore(str(root))
    store.put("data/a", DATA)
    assert looks_once(store) and not looks_once(CountingStore(store)), "a wrapper sees each request"
    size, identity, whole = store.look("data/a")
    before = whole()
    assert np.shares_memory(before, store.get("data/a"))
    assert (size, identity) == (len(DATA), store.head("data/a").identity)
    (root / "other").write_bytes(DATA[::-1])
    os.replace(root / "other", root / "data" / "a")
    # What was seen, as long as it is there; else the file as it is now.
    assert whole() is before
    assert store.look("data/a")[2]().tobytes() == DATA[::-1]
    os.unlink(root / "data" / "a")
    with pytest.raises(DatasetNotFoundError):
        store.look("data/a")
    local._MAPS.clear()
    del before
    with pytest.raises(DatasetNotFoundError):
        whole()


def test_maps_hold_no_descriptors(root: Path) -> None:
    store = LocalStore(str(root))
    for index in range(60):
        store.put(f"data/{index}", DATA[:50_000])
    before = len(os.listdir("/proc/self/fd"))
    views = [store.get(f"data/{index}")[17:] for index in range(60)]
    assert len(os.listdir("/proc/self/fd")) == before
    assert all(view.tobytes() == DATA[17:50_000] for view in views)


def test_views_outlive_the_cache_and_the_file(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "_MAPS", MapCache(2))
    store = LocalStore(str(root))
    views = []
    for index in range(6):
        store.put(f"data/{index}", DATA[index:])
        views.append(store.get(f"data/{index}")[100:200])
    assert len(local._MAPS) == 2
    store.delete([f"data/{index}" for index in range(6)])
    assert len(local._MAPS) == 0
    assert [view.tobytes() for view in views] == [DATA[index + 100 : index + 200] for index in range(6)]


def maps_of(root: Path) -> int:
    return Path("/proc/self/maps").read_text().count(f"{root}/data/")


def test_file_is_not_mapped_twice_while_a_view_keeps_its_map(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "_MAPS", MapCache(2))
    store = LocalStore(str(root))
    for index in range(6):
        store.put(f"data/{index}", DATA[index:])
    views = [store.get(f"data/{index}")[100:200] for _ in range(3) for index in range(6)]
    assert maps_of(root) == 6
    assert len(local._MAPS) == 2
    del views
    assert maps_of(root) == 2
    local._MAPS.clear()
    assert maps_of(root) == 0


def test_files_are_copied_where_a_process_has_maps_enough(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "_MAPS", MapCache(2, most=4))
    store = LocalStore(str(root))
    for index in range(6):
        store.put(f"data/{index}", DATA[index:])
    views = [store.get(f"data/{index}")[100:] for index in range(6)]
    assert maps_of(root) == 4
    assert [view.tobytes() for view in views] == [DATA[index + 100 :] for index in range(6)]
    assert not any(view.flags.writeable for view in views)


def test_files_are_copied_where_the_system_refuses_a_map(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any) -> None:
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    monkeypatch.setattr(local, "map_file", refused)
    store = LocalStore(str(root))
    store.put("data/a", DATA)
    assert store.get("data/a").tobytes() == DATA
    store.release("data/a")
    assert store.get("data/a", 5).tobytes() == DATA[5:]


def test_small_files_are_copied_and_used_again(root: Path) -> None:
    store = LocalStore(str(root))
    store.put("data/a", DATA[:16_000])
    os.utime(root / "data" / "a", (1_000_000, 1_000_000))
    first = store.get("data/a")
    assert maps_of(root) == 0
    store.release("data/a")
    assert np.shares_memory(first, store.get("data/a"))
    store.put("data/a", DATA[1:16_000])
    assert store.get("data/a").tobytes() == DATA[1:16_000]
    assert first.tobytes() == DATA[:16_000]


def test_small_file_that_changes_in_place_is_read_anew(root: Path) -> None:
    """Times of change have steps, in which several changes look the same."""
    store, path = LocalStore(str(root)), root / "data" / "a"
    for number in range(300):
        with path.open("r+b" if number else "wb") as file:
            file.write(number.to_bytes(4, "little"))
        assert int.from_bytes(store.get("data/a").tobytes(), "little") == number


def test_dropped_map_is_unmapped(root: Path) -> None:
    store = LocalStore(str(root))
    store.put("data/known-name", DATA)

    def is_mapped() -> bool:
        return "known-name" in Path("/proc/self/maps").read_text()

    view = store.get("data/known-name")
    assert is_mapped()
    local._MAPS.discard(f"{root}/data/known-name")
    assert is_mapped()
    del view
    assert not is_mapped()


def test_pages_that_were_left_are_dropped_beyond_a_bound(root: Path) -> None:
    store = LocalStore(str(root))
    views = []
    for name in "abc":
        store.put(f"data/{name}", DATA * 40)
        views.append(store.get(f"data/{name}"))
    nbytes = len(DATA) * 40

    def resident() -> list[bool]:
        blocks = Path("/proc/self/smaps").read_text().split("VmFlags")
        found = [next(b for b in blocks if f"{root}/data/{name}" in b) for name in "abc"]
        return ["\nRss:                   0 kB" not in block for block in found]

    store.leave("data/a", 0, -1)  # what other tests left
    assert all(int(view.sum()) > 0 for view in views)
    store.leave("data/a", nbytes, 2 * nbytes)
    store.leave("data/a", 5 * nbytes, 2 * nbytes)  # it has no more pages than its size
    store.leave("data/never-mapped", 5 * nbytes, 2 * nbytes)
    store.leave("data/b", nbytes, 2 * nbytes)
    assert resident() == [True, True, True]
    store.leave("data/c", 1, 2 * nbytes)
    assert resident() == [False, False, False]
    assert views[0].tobytes() == DATA * 40


def test_released_pages_come_back(root: Path) -> None:
    store = LocalStore(str(root))
    store.put("data/a", DATA * 40)
    view = store.get("data/a")
    assert int(view.sum()) > 0

    def resident() -> int:
        blocks = Path("/proc/self/smaps").read_text().split("VmFlags")
        (block,) = [b for b in blocks if f"{root}/data/a" in b]
        return next(int(line.split()[1]) for line in block.splitlines() if line.startswith("Rss:"))

    assert resident() == len(DATA) * 40 // 1024
    store.release("data/a")
    assert resident() == 0
    assert view.tobytes() == DATA * 40
    store.release("data/never-mapped")
    with pytest.raises(PathPolicyError):
        store.release("../a")


def test_refused_map_is_an_error() -> None:
    reader, writer = os.pipe()
    try:
        with pytest.raises(OSError, match=r"No such device|Invalid") as caught:
            map_file(reader, 10)
        assert caught.value.errno in (errno.ENODEV, errno.EINVAL, errno.EACCES)
    finally:
        os.close(reader)
        os.close(writer)


def test_map_cache_is_bounded_under_threads(root: Path) -> None:
    cache = MapCache(5)
    path = root / "data" / "a"
    path.write_bytes(DATA)
    identity = identity_of(path.stat())

    def work(seed: int) -> None:
        for index in range(500):
            name = f"{(seed * 7 + index) % 12}"
            if cache.find(name, identity) is None:
                cache.add(name, identity, np.zeros(1, np.uint8))
            if index % 50 == 0:
                cache.discard(name)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(cache) <= 5


def test_file_that_shrinks_is_noticed(root: Path) -> None:
    store = LocalStore(str(root), mapped=False)
    store.put("data/a", DATA)
    descriptor, _ = local_files.open_regular(str(root), "data/a", True)
    try:
        os.truncate(root / "data" / "a", 100)
        with pytest.raises(TruncatedError):
            store._read(descriptor, "data/a", 50, 150)
    finally:
        os.close(descriptor)


def test_huge_claimed_range_allocates_nothing(root: Path) -> None:
    for store in stores(root):
        store.put("data/a", DATA)
        with pytest.raises(TruncatedError):
            store.get("data/a", 0, 1 << 60)
        with pytest.raises(TruncatedError):
            store.get_many("data/a", [0, 5], [3, 1 << 62])


# Special files: refused, without ever blocking


@pytest.mark.timeout(20)
@pytest.mark.parametrize("method", READS)
def test_fifo_is_refused_without_waiting(root: Path, method: str) -> None:
    os.mkfifo(root / "data" / "fifo")
    for store in stores(root):
        with pytest.raises(PathPolicyError, match="not a regular file"):
            READS[method](store, "data/fifo")
        assert list(store.list("")) == []


@pytest.mark.timeout(20)
@pytest.mark.parametrize("device", ["/dev/zero", "/dev/null", "/dev/tty"])
def test_link_to_a_device_is_refused(root: Path, device: str) -> None:
    (root / "data" / "a").symlink_to(device)
    for store in stores(root):
        for method in READS.values():
            with pytest.raises(PathPolicyError, match=r"not a regular file|symbolic link"):
                method(store, "data/a")
        assert list(store.list("")) == []


def test_socket_is_refused(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root / "data")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("sock")
        for store in stores(root):
            with pytest.raises(PathPolicyError):
                store.get("data/sock")


@pytest.mark.parametrize("kind", ["fifo", "folder", "dangling", "circle"])
def test_name_that_no_file_has_is_not_taken_for_that_of_another_writer(root: Path, kind: str) -> None:
    place = root / "data" / "taken"
    match kind:
        case "fifo":
            os.mkfifo(place)
        case "folder":
            place.mkdir()
        case "dangling":
            place.symlink_to(root / "nothing")
        case "circle":
            place.symlink_to(place)
    store = LocalStore(str(root))
    store.put("data/a", b"x")
    for create in (
        lambda: store.put("data/taken", b"x", PutMode.CREATE),
        lambda: store.rename("data/a", "data/taken", PutMode.CREATE),
    ):
        with pytest.raises(PathPolicyError, match="'data/taken' in .* cannot be created.* remove it"):
            create()
    place.unlink() if kind != "folder" else place.rmdir()
    assert store.put("data/taken", b"x", PutMode.CREATE).size == 1
    with pytest.raises(ExistsError):
        store.put("data/taken", b"x", PutMode.CREATE)


@pytest.mark.timeout(20)
def test_file_exchanged_for_a_fifo_after_the_look_is_refused(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "data" / "a").write_bytes(DATA)
    os.mkfifo(root / "data" / "fifo")
    real = os.open

    def exchange(path: str, flags: int, *rest: int, **options: int) -> int:
        if path.endswith("a"):
            os.replace(root / "data" / "fifo", root / "data" / "a")
        return real(path, flags, *rest, **options)

    monkeypatch.setattr(os, "open", exchange)
    with pytest.raises(PathPolicyError, match="not a regular file"):
        local_files.open_regular(str(root), "data/a", True)


# Links


def test_links_are_followed_when_trusted(root: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (outside / "sub").mkdir(parents=True)
    (outside / "sub" / "b").write_bytes(b"linked")
    (root / "data" / "a").symlink_to(outside / "sub" / "b")
    (root / "folder").symlink_to(outside)
    store = LocalStore(str(root))
    assert store.get("data/a").tobytes() == b"linked"
    assert store.get("folder/sub/b").tobytes() == b"linked"
    assert [meta.path for meta in store.list("")] == ["data/a", "folder/sub/b"]


def test_links_lead_nowhere_when_untrusted(root: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (outside / "sub").mkdir(parents=True)
    (outside / "sub" / "b").write_bytes(b"secret")
    (root / "data" / "a").symlink_to(outside / "sub" / "b")
    (root / "folder").symlink_to(outside)
    (root / "data" / "dangling").symlink_to(tmp_path / "nothing")
    for mapped in (True, False):
        store = LocalStore(str(root), mapped=mapped, follow_symlinks=False)
        for path in ("data/a", "folder/sub/b", "data/dangling"):
            for method in READS.values():
                with pytest.raises(PathPolicyError, match="symbolic link"):
                    method(store, path)
        for path in ("folder/new", "folder/sub/new"):
            with pytest.raises(PathPolicyError, match="symbolic link"):
                store.put(path, b"x")
            with pytest.raises(PathPolicyError, match="symbolic link"):
                store.delete([path])
        assert list(store.list("")) == []
        with pytest.raises(PathPolicyError, match="symbolic link"):
            list(store.list("folder"))
    assert sorted(path.name for path in outside.rglob("*")) == ["b", "sub"]


def test_replacing_a_link_leaves_its_target_alone(root: Path, tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"precious")
    (root / "data" / "a").symlink_to(tmp_path / "target")
    for store in stores(root):
        store.put("data/a", b"new")
        assert (tmp_path / "target").read_bytes() == b"precious"
        assert (root / "data" / "a").read_bytes() == b"new"


def test_root_may_be_a_link(root: Path, tmp_path: Path) -> None:
    (root / "data" / "a").write_bytes(b"x")
    (tmp_path / "link").symlink_to(root)
    for store in stores(tmp_path / "link"):
        assert store.get("data/a").tobytes() == b"x"
        assert [meta.path for meta in store.list("")] == ["data/a"]


def test_links_in_a_circle_end(root: Path) -> None:
    (root / "data" / "up").symlink_to(root)
    (root / "data" / "self").symlink_to("self")
    (root / "data" / "a").write_bytes(b"x")
    assert [meta.path for meta in LocalStore(str(root)).list("")] == ["data/a"]
    with pytest.raises(StoreError):
        LocalStore(str(root)).get("data/self")


def test_folders_nested_too_deep_are_refused(root: Path) -> None:
    deep = root.joinpath(*["d"] * 70)
    deep.mkdir(parents=True)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(LimitError, match="nesting"):
        list(LocalStore(str(root)).list(""))
    assert len(os.listdir("/proc/self/fd")) < before + 30


def test_names_nobody_could_ask_for_are_not_listed(root: Path) -> None:
    for name in (b"back\\slash", b"new\nline", b"not-utf8-\xff"):
        (Path(os.fsdecode(bytes(root) + b"/data/" + name))).write_bytes(b"x")
    (root / "data" / "a").write_bytes(b"x")
    assert [meta.path for meta in LocalStore(str(root)).list("")] == ["data/a"]


# Writing


def test_temporary_files_stand_beside_and_go(root: Path) -> None:
    store = LocalStore(str(root))
    writer = store.put_stream("data/a")
    writer.write(b"x")
    (temporary,) = (root / "data").iterdir()
    assert temporary.name.startswith(".tmp_")
    writer.close()
    assert [path.name for path in (root / "data").iterdir()] == ["a"]


@pytest.mark.parametrize(
    ("name", "ending"), [("a.lance", ".lance"), ("1.txn", ".txn"), ("1.manifest", ""), ("t.json", "")]
)
def test_temporary_names_are_those_that_cleanups_know(root: Path, name: str, ending: str) -> None:
    """Of files that readers look for by their endings, tags for one, they have none."""
    writer = LocalStore(str(root)).put_stream(f"folder/{name}")
    (temporary,) = (root / "folder").iterdir()
    assert (temporary.name[:5], temporary.suffix) == (".tmp_", ending)
    writer.close()


@pytest.mark.parametrize("when", ["opened", "kept"])
def test_an_interrupt_while_a_file_is_created_leaves_nothing(
    root: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    store, real = LocalStore(str(root)), os.open
    before = len(os.listdir("/proc/self/fd"))

    def interrupted_open(path: str, flags: int, *rest: Any, **options: Any) -> int:
        descriptor = real(path, flags, *rest, **options)
        if flags & os.O_EXCL:
            os.close(descriptor)
            raise KeyboardInterrupt
        return descriptor

    def interrupted(descriptor: int) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        if when == "opened":
            patch.setattr(os, "open", interrupted_open)
        else:
            patch.setattr(local_files, "Preallocation", interrupted)
        with pytest.raises(KeyboardInterrupt):
            store.put("data/a.lance", DATA)
        with pytest.raises(KeyboardInterrupt):
            store.put_stream("data/a.lance")
    assert list((root / "data").iterdir()) == []
    assert len(os.listdir("/proc/self/fd")) == before


def test_acknowledged_means_durable(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is synced before it gets its name and the folder afterwards; new folders before they are used."""
    steps: list[str] = []
    real_sync, real_rename, real_link = os.fsync, os.rename, os.link

    def sync(descriptor: int) -> None:
        place = os.readlink(f"/proc/self/fd/{descriptor}").removeprefix(str(root))
        steps.append(f"sync {'file' if '/.tmp_' in place else place or '/'}")
        real_sync(descriptor)

    def rename(*places: Any, **folders: Any) -> None:
        steps.append("rename")
        real_rename(*places, **folders)

    def link(*places: Any, **folders: Any) -> None:
        steps.append("link")
        real_link(*places, **folders)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(os, "rename", rename)
    monkeypatch.setattr(os, "link", link)
    store = LocalStore(str(root))
    store.put("data/a", b"x")
    assert steps == ["sync file", "rename", "sync /data"]
    steps.clear()
    store.put("new/b", b"x", PutMode.CREATE)
    assert steps == ["sync /", "sync file", "link", "sync /new"]
    steps.clear()
    store.rename("new/b", "data/c")
    assert steps == ["rename", "sync /data", "sync /new"]


@pytest.mark.parametrize("failing", ["write", "fsync", "close", "rename"])
@pytest.mark.parametrize("how", ["put", "stream"])
def test_full_disk_is_an_error_and_changes_nothing(
    root: Path, monkeypatch: pytest.MonkeyPatch, failing: str, how: str
) -> None:
    store = LocalStore(str(root))
    store.put("data/a", b"before")

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    real = os.close
    file = -1

    def close(descriptor: int) -> None:
        real(descriptor)  # the descriptor is gone even when closing reports an error
        if descriptor == file:
            full()

    def write() -> None:
        nonlocal file
        if how == "put" and failing != "close":
            store.put("data/a", b"after")
            return
        with store.put_stream("data/a") as writer:
            file = writer._file._file  # type: ignore[attr-defined]
            writer.write(b"after")

    with monkeypatch.context() as broken:
        broken.setattr(os, failing, close if failing == "close" else full)
        with pytest.raises(StoreError, match="No space left") as caught:
            write()
    assert caught.value.errno == errno.ENOSPC
    assert [path.name for path in (root / "data").iterdir()] == ["a"]
    assert store.get("data/a").tobytes() == b"before"


@pytest.mark.parametrize("is_had", [True, False])
def test_space_asked_for_ahead_is_given_back(
    root: Path, monkeypatch: pytest.MonkeyPatch, is_had: bool
) -> None:
    asked = []

    def call(file: int, mode: int, start: int, nbytes: int) -> int:
        asked.append((start, start + nbytes))
        if real is not None:
            real(file, mode, start, nbytes)
        return 0 if is_had else -1

    real = local_files._CALL
    monkeypatch.setattr(local_files, "_CALL", call)
    monkeypatch.setattr(local_files, "AT_ONCE", 1 << 20)
    monkeypatch.setattr(os, "major", lambda device: 8)
    store = LocalStore(str(root))
    with store.put_stream("data/large") as stream:
        for _ in range(20):
            stream.write(DATA)
        # More than is asked for at a time.
        stream.write(DATA * 10)
    assert bytes(store.get("data/large")) == DATA * 30
    steps = [2, 6, 10, 14, 18, 22]
    expected = [(a << 18, b << 18) for a, b in pairwise([*steps, 30])] if is_had else [(2 << 18, 6 << 18)]
    assert asked == expected
    status = os.stat(root / "data" / "large")
    assert (status.st_size, status.st_blocks * 512 <= len(DATA) * 30 + (64 << 10)) == (len(DATA) * 30, True)


def test_file_size_limit_hits_the_last_bytes(root: Path) -> None:
    store = LocalStore(str(root))

    def child() -> None:
        import signal

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(DATA) - 1, len(DATA) - 1))
        with pytest.raises(StoreError) as caught:
            store.put("data/a", DATA)
        assert caught.value.errno == errno.EFBIG
        assert os.listdir(root / "data") == []

    in_child(child)


def test_stream_with_a_failed_write_cannot_be_published(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = LocalStore(str(root))
    writer = store.put_stream("data/a")
    writer.write(b"first")
    with monkeypatch.context() as broken:
        broken.setattr(os, "write", lambda *_: (_ for _ in ()).throw(OSError(errno.EIO, "broken")))
        with pytest.raises(StoreError):
            writer.write(b"second")
    with pytest.raises(StoreError, match="nothing is published"):
        writer.close()
    assert list(store.list("")) == []


def test_forked_child_does_not_remove_the_parents_upload(root: Path) -> None:
    store = LocalStore(str(root))
    writer = store.put_stream("data/a")
    writer.write(DATA)

    def child() -> None:
        nonlocal writer
        del writer

    in_child(child)
    writer.close()
    assert store.get("data/a").tobytes() == DATA


def test_create_without_hard_links_is_refused(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*_: object, **__: object) -> None:
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr(os, "link", refuses)
    store = LocalStore(str(root))
    with pytest.raises(NotImplementedError, match="atomically"):
        store.put("data/a", b"x", PutMode.CREATE)
    assert list(store.list("")) == []


def test_create_whose_answer_was_lost_succeeds(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over NFS a link can be made and reported as existing."""
    real = os.link

    def answers_late(*places: Any, **options: Any) -> None:
        real(*places, **options)
        raise FileExistsError(errno.EEXIST, "File exists")

    monkeypatch.setattr(os, "link", answers_late)
    store = LocalStore(str(root))
    store.put("data/a", b"x", PutMode.CREATE)
    with pytest.raises(ExistsError):
        store.put("data/a", b"y", PutMode.CREATE)
    assert store.get("data/a").tobytes() == b"x"


def test_file_where_a_folder_should_be(root: Path) -> None:
    (root / "file").write_bytes(b"x")
    store = LocalStore(str(root))
    with pytest.raises(StoreError, match="Not a directory"):
        store.put("file/a", b"x")
    with pytest.raises(StoreError, match="Is a directory"):
        store.put("data", b"x")
    with pytest.raises(DatasetNotFoundError):
        store.get("file/a")
    assert sorted(path.name for path in root.iterdir()) == ["data", "file"]


def test_forbidden_file_is_an_error_that_says_so(root: Path) -> None:
    (root / "data" / "a").write_bytes(b"x")
    (root / "data" / "a").chmod(0)

    def child() -> None:
        if os.geteuid() == 0:
            os.seteuid(65534)  # nothing is forbidden to root
        with pytest.raises(StoreError, match="Permission denied") as caught:
            LocalStore(str(root)).get("data/a")
        assert caught.value.errno == errno.EACCES
        assert isinstance(caught.value, OSError)

    in_child(child)


# Mounts


def test_network_mounts_are_recognised(tmp_path: Path) -> None:
    lines = [
        "22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw",
        "40 22 0:35 / /mnt/nfs rw,relatime shared:20 - nfs4 server:/export rw,vers=4.2",
        "41 22 0:36 / /mnt/bucket rw - fuse.s3fs s3fs rw",
        "42 22 0:37 / /tmp rw,nosuid - tmpfs tmpfs rw",
        "43 22 0:38 / /mnt/with-dash\\040- rw master:1 propagate_from:2 - cifs //server/share rw",
        "broken line",
        "",
    ]
    file = tmp_path / "mountinfo"
    file.write_text("\n".join(lines))
    assert maps.network_devices(str(file)) == {"0:35", "0:36", "0:38"}
    assert maps.network_devices(str(tmp_path / "none")) == set()


def test_network_mounts_are_read_with_pread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "is_network_mount", lambda _: True)
    store = local.open_local(str(tmp_path), None, mapped=True, follow_symlinks=True)
    assert not store.traits.is_mapped
    assert store.traits.concurrency > 1


def test_this_disk_is_no_network_mount(tmp_path: Path) -> None:
    assert maps.is_network_mount(str(tmp_path)) is False
    assert maps.is_network_mount(str(tmp_path / "not" / "there")) is False
    assert maps.is_network_mount("/proc") is False


def test_listing_finds_files_made_while_the_ones_it_had_found_were_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A table with a tagged version 9; versions 7 and 8 are its newest by the numbers of their names.
    store = LocalStore(str(tmp_path))
    for name in ("7", "8", "9"):
        store.put(f"v/{name}", b"")
    status_of = local_files._entry_status

    def removed_meanwhile(entry: os.DirEntry[str], follow: bool) -> os.stat_result | None:
        if entry.name == "7" and not made:
            made.append("v/5")
            store.put("v/5", b"")
            store.put("v/6", b"")
            store.delete(["v/7", "v/8"])
        return status_of(entry, follow)

    made: list[str] = []
    monkeypatch.setattr(local_files, "_entry_status", removed_meanwhile)
    assert [meta.path for meta in store.list("v")] == ["v/5", "v/6", "v/9"]
