"""file_frame, compiled and in NumPy, beside the reader that names what is wrong with a file."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancecy.errors import LanceError
from lancecy.file.tail import Tail
from lancecy.file.v2 import meta
from lancecy.file.v2.wire import decode_num_rows
from lancecy.limits import Limits
from lancecy.proto import file_pb2
from lancecy.store.memory import MemoryStore
from lancecy.store.reads import SourceFile
from tests.helpers.frames import Built, build_frame, int64
from tests.kernels.both import CYTHON, REFERENCE, Kernels, memory_of

HUGE = (1 << 64) - 1


def sound(num_columns: int = 2, version: tuple[int, int] = (2, 1)) -> Built:
    return build_frame([[int64([n])] for n in range(num_columns)], 1, version=version)


def frame(
    kernels: Kernels, data: bytes, start: int = 0, most: int = 100, room: int = 9
) -> tuple[list[int], list[list[int]]] | None:
    """Counts, and position and length of the metadata of each column, of a file's bytes from ``start`` on."""
    ranges, counts = np.full((2, room), -1, np.int64), np.full(10, -1, np.int64)
    if not kernels.file_frame(memory_of(data[start:]), start, most, ranges, counts):
        return None
    return counts.tolist(), ranges[:, : min(room, int(counts[2]))].T.tolist()


def test_tables_are_those_that_were_written(kernels: Kernels) -> None:
    built = sound(3)
    found = frame(kernels, built.data)
    assert found is not None
    (major, minor, columns, at, size, first, last, total, *rows), ranges = found
    assert (major, minor, columns) == (2, 1, 3)
    assert ranges == [list(part) for part in built.metadata]
    assert (at, size) == struct.unpack_from("<QQ", built.data, built.buffer_table)
    assert (first, last) == (ranges[0][0], sum(ranges[-1]))
    assert total == sum(size for _, size in ranges)
    assert rows == [1, size - 2]


def test_version_is_as_written(kernels: Kernels) -> None:
    for version in ((0, 3), (2, 0), (2, 3), (9, 9)):
        found = frame(kernels, sound(version=version).data)
        assert found is not None
        assert found[0][:2] == list(version)


def test_a_tail_without_the_beginning_of_the_file_is_enough(kernels: Kernels) -> None:
    built = sound()
    at, _ = struct.unpack_from("<QQ", built.data, built.buffer_table)
    least = min(at, built.column_table, built.buffer_table)
    assert frame(kernels, built.data, least) == frame(kernels, built.data)
    assert frame(kernels, built.data, least + 1) is None


def test_more_columns_than_room_are_counted(kernels: Kernels) -> None:
    whole, some = (frame(kernels, sound(5).data, room=room) for room in (9, 2))
    assert whole is not None
    assert some is not None
    assert some == (whole[0], whole[1][:2])


def test_a_file_without_columns(kernels: Kernels) -> None:
    built = build_frame([], 0, version=(2, 1))
    found = frame(kernels, built.data)
    assert found is not None
    assert found[0][2] == 0
    assert found[0][5:8] == [len(built.data) - 40, 0, 0]


@pytest.mark.parametrize(
    "changes",
    [
        {"num_buffers": 0},
        {"num_buffers": HUGE >> 32},
        {"num_columns": HUGE >> 32},
        {"num_columns": 99},
        {"column_table": HUGE},
        {"column_table": HUGE - 15},
        {"column_table": 1 << 63},
        {"buffer_table": HUGE - 15},
        {"buffer_table": 1 << 63},
        {"major": 0, "minor": 2},
        {"major": 1, "minor": 3},
    ],
    ids=str,
)
def test_footers_of_no_sound_file(kernels: Kernels, changes: dict[str, int]) -> None:
    assert frame(kernels, sound().footer(**changes).data) is None


@pytest.mark.parametrize(
    "entry", [(HUGE, 1), (1, HUGE), (HUGE, HUGE), (1 << 63, 0), (0, 1 << 63), (10**6, 0)]
)
def test_parts_outside_the_file(kernels: Kernels, entry: tuple[int, int]) -> None:
    built = sound()
    for position in (built.column_table, built.column_table + 16, built.buffer_table):
        assert frame(kernels, built.patched(position, struct.pack("<QQ", *entry)).data) is None


def test_other_bytes_are_no_frame(kernels: Kernels) -> None:
    data = sound().data
    assert frame(kernels, data[:-1]) is None
    assert frame(kernels, data[-39:]) is None
    assert frame(kernels, b"") is None
    assert frame(kernels, data, most=1) is None
    for start in (-1, 2**63 - 1, 2**63 - len(data)):
        ranges, counts = np.zeros((2, 9), np.int64), np.zeros(10, np.int64)
        assert not kernels.file_frame(memory_of(data), start, 9, ranges, counts)


def test_metadata_that_overlaps(kernels: Kernels) -> None:
    built = sound(9)
    whole = struct.pack("<QQ", 0, built.column_table)
    assert frame(kernels, built.patched(built.column_table, whole * 9).data) is None


def test_results_of_another_form_are_refused(kernels: Kernels) -> None:
    for rows, size in ((3, 10), (2, 9)):
        with pytest.raises(ValueError, match="out_ranges needs 2 rows"):
            kernels.file_frame(memory_of(b""), 0, 9, np.zeros((rows, 1), np.int64), np.zeros(size, np.int64))


@pytest.mark.parametrize(
    ("end", "rows"),
    [
        (b"\x10\x05", 5),
        (b"\x10\x10", 16),
        (b"\x10\xbc\x09", 1212),
        (b"\x10" + b"\xff" * 8 + b"\x7f", 2**63 - 1),
        (b"\x10" + b"\xff" * 9 + b"\x01", -1),
        (b"\x10\x80", -1),
        (b"\x18\x05", -1),
        (b"\x05", -1),
        (b"", -1),
    ],
)
def test_the_number_at_the_end_of_the_descriptor(kernels: Kernels, end: bytes, rows: int) -> None:
    found = frame(kernels, described(end))
    assert found is not None
    assert found[0][4] == len(end)
    assert found[0][8:] == [rows, 0]


def described(descriptor: bytes) -> bytes:
    """A file with these bytes for a FileDescriptor."""
    built = sound()
    end = len(built.data) - 40
    data = built.data[:end] + descriptor + built.data[end:]
    return built.patched(built.buffer_table, struct.pack("<QQ", end, len(descriptor))).data[:end] + data[end:]


@st.composite
def descriptors(draw: st.DrawFn) -> bytes:
    """A FileDescriptor, or one with a byte changed or with others at its end."""
    made = file_pb2.FileDescriptor(length=draw(st.integers(0, 300) | st.integers(0, HUGE)))
    made.schema.fields.add(name=draw(st.text(max_size=3)), id=draw(st.integers(-1, 300)))
    data = bytearray(
        made.SerializeToString() + draw(st.sampled_from([b"", b"\x10", b"\x10\x05", b"\x1a\x02\x10\x05"]))
    )
    if draw(st.booleans()):
        data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    return bytes(data)


def rows_of(descriptor: bytes, limits: Limits, *last: int) -> object:
    try:
        return decode_num_rows(memory_of(descriptor), limits, *last)
    except LanceError as error:
        return str(error)


@given(descriptors(), st.sampled_from([Limits(), Limits(rows_per_file=7), Limits(metadata_bytes=9)]))
def test_rows_of_a_known_end_are_those_of_the_message(descriptor: bytes, limits: Limits) -> None:
    found = frame(CYTHON, described(descriptor))
    assert found is not None
    assert rows_of(descriptor, limits, *found[0][8:]) == rows_of(descriptor, limits)


@st.composite
def files(draw: st.DrawFn) -> bytes:
    """A file, or one with a few bytes or one of its numbers changed."""
    num_columns = draw(st.integers(0, 20))
    built = sound(num_columns, draw(st.sampled_from([(0, 3), (2, 0), (2, 1), (2, 3)])))
    end = len(built.data)
    numbers = st.sampled_from([0, 1, 16, end - 40, end - 39, end, 1 << 31, 1 << 63, HUGE - 15, HUGE])
    tables = [built.column_table + 8 * n for n in range(2 * num_columns)]
    tables += [built.buffer_table, built.buffer_table + 8, end - 32, end - 24, end - 16]
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.sampled_from(tables))
        built = built.patched(at, struct.pack("<Q", draw(numbers | st.integers(0, end))))
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(built.metadata[0][0] if built.metadata else 0, end - 1))
        built = built.patched(at, bytes([draw(st.integers(0, 255))]))
    return built.data[: draw(st.just(end) | st.integers(0, end))]


@given(files(), st.integers(0, 2000), st.integers(0, 25), st.integers(0, 25))
def test_frames_agree_with_their_twin(data: bytes, start: int, most: int, room: int) -> None:
    assert frame(CYTHON, data, start, most, room) == frame(REFERENCE, data, start, most, room)


def read(data: bytes, limits: Limits) -> meta.Container | LanceError:
    """What the reader that takes any file says of one."""
    source = SourceFile(MemoryStore(), "f", len(data))
    try:
        next(meta._open_any(source, Tail(0, memory_of(data)), limits))
    except StopIteration as stop:
        found: meta.Container = stop.value
        return found
    except LanceError as error:
        return error
    raise AssertionError("all bytes are in the tail")


@given(files(), st.integers(0, 25))
def test_frames_agree_with_the_reader_of_any_file(data: bytes, most: int) -> None:
    found, container = frame(CYTHON, data, 0, most, 25), read(data, Limits(columns=most))
    if isinstance(container, LanceError):
        assert found is None or "descriptor" in str(container)
        return
    assert found is not None
    (major, minor, columns, at, size, first, last, total, *rows), ranges = found
    assert rows[0] in (-1, container.num_rows)
    assert container.version == ((2, 0) if (major, minor) == (0, 3) else (major, minor))
    assert (container.num_columns, container.metadata_bytes) == (columns, total)
    assert container.descriptor == (at, size)
    assert container.data_bytes == min(first, at)
    assert (container.held.start, container.held.stop) == (
        (first, last) if last > first else (len(data),) * 2
    )
    assert [list(container.part(column)) for column in range(columns)] == ranges
