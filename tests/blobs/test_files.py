"""A blob as a file: reading, seeking, ranges, how many requests, and damage."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pytest

from lancecy.blobs.files import BlobFile, StoredObject, read_together
from lancecy.errors import FormatError, NotFoundError
from lancecy.session import Session
from lancecy.store.memory import MemoryStore
from lancecy.store.wrap import CountingStore

DATA = bytes(i * 7 % 251 for i in range(5000))


@pytest.fixture
def store() -> CountingStore:
    inner = MemoryStore("/media")
    inner.put("a.bin", b"before" + DATA + b"after")
    return CountingStore(inner)


@pytest.fixture
def session() -> Iterator[Session]:
    made = Session()
    yield made
    made.close()


def blob(
    session: Session,
    store: CountingStore,
    position: int = 6,
    size: int | None = len(DATA),
    buffer_size: int = 0,
    path: str = "a.bin",
) -> BlobFile:
    return BlobFile(session, StoredObject(lambda: (store, path)), position, size, buffer_size)


def requests(store: CountingStore) -> int:
    return store.count("get", "get_many")


def test_reading_from_front_to_back(session: Session, store: CountingStore) -> None:
    with blob(session, store) as file:
        assert (file.size(), file.tell(), file.readable(), file.seekable(), file.writable()) == (
            5000, 0, True, True, False,
        )  # fmt: skip
        assert file.read(10) == DATA[:10]
        assert file.tell() == 10
        assert file.read(0) == b""
        assert file.read() == DATA[10:]
        assert file.read() == file.read(5) == file.readall() == b""


def test_nothing_is_asked_for_before_the_first_read(session: Session, store: CountingStore) -> None:
    file = blob(session, store)
    file.seek(100)
    assert (file.size(), repr(file)) == (5000, "<BlobFile size=5000>")
    assert store.count() == 0


def test_seeking(session: Session, store: CountingStore) -> None:
    file = blob(session, store)
    assert file.seek(-10, io.SEEK_END) == 4990
    assert file.read(100) == DATA[-10:]
    assert file.seek(20) == 20
    assert file.seek(5, io.SEEK_CUR) == 25
    assert file.read(5) == DATA[25:30]
    assert file.seek(9000) == 9000
    assert file.read(5) == b""
    assert file.readinto(bytearray(4)) == 0
    with pytest.raises(ValueError, match="negative seek"):
        file.seek(-1)
    with pytest.raises(ValueError, match="whence"):
        file.seek(0, 9)


def test_filling_a_buffer(session: Session, store: CountingStore) -> None:
    file = blob(session, store)
    buffer = bytearray(b"#" * 8)
    assert file.readinto(memoryview(buffer)[:6]) == 6
    assert bytes(buffer) == DATA[:6] + b"##"
    file.seek(-3, io.SEEK_END)
    assert file.readinto(buffer) == 3
    file.seek(0)
    with pytest.raises(TypeError):
        file.readinto(b"read-only")


def test_a_large_read_does_not_ask_for_memory_beyond_the_blob(session: Session, store: CountingStore) -> None:
    assert blob(session, store).read(1 << 60) == DATA


def test_other_libraries_can_read_it(session: Session, store: CountingStore) -> None:
    wrapped = io.BufferedReader(blob(session, store), 128)
    assert wrapped.read() == DATA
    assert b"".join(iter(lambda: wrapped.read(7), b"")) == b""


def test_it_is_a_buffered_file_that_is_only_read(session: Session, store: CountingStore) -> None:
    file = blob(session, store)
    assert isinstance(file, io.BufferedIOBase)  # libraries that find another kind wrap it or refuse it
    assert (file.read1(3), file.read1(), file.read1(5)) == (DATA[:3], DATA[3:], b"")
    with pytest.raises(io.UnsupportedOperation, match="write"):
        file.write(b"more")


def test_a_sequential_reader_is_read_ahead_for(session: Session, store: CountingStore) -> None:
    file = blob(session, store, buffer_size=1000)
    assert b"".join(iter(lambda: file.read(10), b"")) == DATA
    assert requests(store) == 5


def test_no_reading_ahead_if_it_is_turned_off(session: Session, store: CountingStore) -> None:
    file = blob(session, store)
    assert [file.read(1000) for _ in range(5)] == [DATA[i : i + 1000] for i in range(0, 5000, 1000)]
    assert requests(store) == 5


def test_seeking_within_what_was_read_ahead(session: Session, store: CountingStore) -> None:
    file = blob(session, store, buffer_size=1000)
    file.read(1)
    file.seek(500)
    assert file.read(400) == DATA[500:900]
    assert requests(store) == 1
    file.seek(0)
    assert file.read(2000) == DATA[:2000]
    assert requests(store) == 2


def test_ranges_leave_the_cursor_alone(session: Session, store: CountingStore) -> None:
    file = blob(session, store)
    file.seek(3)
    assert file.read_range(10, 5) == DATA[10:15]
    assert file.read_ranges([(4000, 3), (0, 0), (5000, 0), (10, 2)]) == [
        DATA[4000:4003],
        b"",
        b"",
        DATA[10:12],
    ]
    assert file.tell() == 3


@pytest.mark.parametrize("wanted", [(-1, 1), (0, -1), (4999, 2), (5001, 0), (2**62, 2**62)])
def test_ranges_outside_of_the_blob_are_refused(
    session: Session, store: CountingStore, wanted: tuple[int, int]
) -> None:
    with pytest.raises(ValueError, match="of a blob of 5000 bytes") as caught:
        blob(session, store).read_range(*wanted)
    assert not isinstance(caught.value, FormatError)


def test_a_whole_object_has_the_size_that_the_store_says(session: Session, store: CountingStore) -> None:
    file = blob(session, store, position=0, size=None)
    assert repr(file) == "<BlobFile whole object>"
    assert file.size() == 5011
    assert file.read() == b"before" + DATA + b"after"
    assert blob(session, store, position=5006, size=None).read() == b"after"


def test_a_blob_without_bytes_asks_for_nothing(session: Session, store: CountingStore) -> None:
    file = blob(session, store, position=2**60, size=0, path="missing.bin")
    assert (file.size(), file.read(), file.read_ranges([(0, 0)])) == (0, b"", [b""])
    assert store.count() == 0


@pytest.mark.parametrize(("position", "size"), [(12, 5000), (6000, 1), (2**62, 2**62), (0, 2**63 - 1)])
def test_descriptors_that_leave_their_object_are_refused(
    session: Session, store: CountingStore, position: int, size: int
) -> None:
    file = blob(session, store, position, size)
    with pytest.raises(FormatError, match="which has 5011"):
        file.read()
    with pytest.raises(FormatError, match="which has 5011"):
        file.read(1)


def test_a_whole_object_from_beyond_its_end_is_refused(session: Session, store: CountingStore) -> None:
    with pytest.raises(FormatError, match="of an object of 5011"):
        blob(session, store, position=6000, size=None).size()


def test_blobs_of_one_object_are_fetched_together(session: Session, store: CountingStore) -> None:
    store.put("b.bin", b"alone")
    place = StoredObject(lambda: (store, "a.bin"))
    first, last = (BlobFile(session, place, 6 + at, 10, 0) for at in (0, 4000))
    found = read_together(
        session, [(last, None), (blob(session, store, 0, None, path="b.bin"), None), (first, (2, 3))]
    )
    assert found == [DATA[4000:4010], b"alone", DATA[2:5]]
    assert requests(store) == 2
    assert read_together(session, []) == []
    with pytest.raises(ValueError, match="cannot read bytes 8 to 11 of a blob of 10 bytes"):
        read_together(session, [(first, (8, 3))])
    with pytest.raises(NotFoundError):
        read_together(session, [(first, None), (blob(session, store, path="gone.bin"), None)])


def test_a_missing_object_is_noticed_when_it_is_read(session: Session, store: CountingStore) -> None:
    file = blob(session, store, path="missing.bin")
    with pytest.raises(NotFoundError):
        file.read(1)


def test_a_closed_file_cannot_be_used(session: Session, store: CountingStore) -> None:
    file = blob(session, store)
    file.close()
    assert file.closed
    for use in (file.read, file.readall, file.tell, lambda: file.seek(0), lambda: file.read_range(0, 1)):
        with pytest.raises(ValueError, match="closed"):
            use()


def test_blobs_of_one_object_ask_for_its_size_once(session: Session, store: CountingStore) -> None:
    place = StoredObject(lambda: (store, "a.bin"))
    files = [BlobFile(session, place, 6 + i, 10, 0) for i in range(5)]
    assert [file.read() for file in files] == [DATA[i : i + 10] for i in range(5)]
    assert store.count("head") == 1
