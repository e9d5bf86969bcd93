"""Files of one write are sent to several remote bases at once."""

from __future__ import annotations

import threading
from typing import BinaryIO, cast

import pyarrow as pa
import pytest

from lancecy.errors import StoreError
from lancecy.store.base import Store
from lancecy.store.memory import MemoryStore
from lancecy.store.upload import Upload
from lancecy.write.fragments import FileLimits, NewFiles
from lancecy.write.schemas import schema_of

ROWS = pa.record_batch({"a": list(range(12))})


class _Sent(Upload):
    """Hands what was written to a store when it is closed, once it may."""

    def __init__(self, path: str, store: _Slow) -> None:
        super().__init__(path, store.uri)
        self._slow, self._data = store, bytearray()

    def _append(self, data: memoryview) -> None:
        self._data += data

    def _publish(self) -> None:
        self._slow.may_send(self._path)
        self._slow.put(self._path, bytes(self._data))


class _Slow(MemoryStore):
    """A store in memory where an upload begins when others have begun elsewhere."""

    def __init__(self, name: str, meeting: threading.Barrier) -> None:
        super().__init__(name)
        self.meeting = meeting
        self.sent: list[str] = []

    def may_send(self, path: str) -> None:
        self.sent.append(path)
        if len(self.sent) == 1:
            self.meeting.wait(30)

    def put_stream(self, path: str) -> BinaryIO:
        return cast(BinaryIO, _Sent(path, self))


class _Broken(_Slow):
    def may_send(self, path: str) -> None:
        super().may_send(path)
        raise StoreError("no more room", path=path, store=self.uri)


def files_of(stores: dict[int, _Slow]) -> NewFiles:
    def folder(base: int | None) -> tuple[Store, str]:
        return stores[base or 0], ""

    return NewFiles(schema_of(ROWS.schema), "2.1", tuple(stores), folder, FileLimits(2))


def test_three_bases_are_sent_to_at_once() -> None:
    """One after the other, the first upload would wait for the others for ever."""
    meeting = threading.Barrier(3)
    stores = {base: _Slow(f"sent-{base}", meeting) for base in (1, 2, 3)}
    made = files_of(stores).write([ROWS])
    assert [(one.physical_rows, one.files[0].base_id) for one in made] == [
        (2, base) for base in (1, 2, 3)
    ] * 2
    for base, store in stores.items():
        assert {meta.path for meta in store.list("")} == {
            one.files[0].path for one in made if one.files[0].base_id == base
        }


def test_one_that_fails_takes_the_others_along() -> None:
    meeting = threading.Barrier(3)
    stores = {base: (_Broken if base == 2 else _Slow)(f"failed-{base}", meeting) for base in (1, 2, 3)}
    with pytest.raises(StoreError, match="no more room"):
        files_of(stores).write([ROWS])
    assert [list(store.list("")) for store in stores.values()] == [[], [], []]
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("lancecy-finish")]
