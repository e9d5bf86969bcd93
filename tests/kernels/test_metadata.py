"""column_pages, compiled and in NumPy, beside the protobuf library."""

from __future__ import annotations

from itertools import accumulate

import numpy as np
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from lancecy.errors import FormatError, TruncatedError
from lancecy.proto import file2_pb2
from tests.kernels.both import CYTHON, REFERENCE, Kernels, memory_of

FAR = 2**63 - 1


Results = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def parse(kernels: Kernels, messages: list[bytes], room: tuple[int, int]) -> Results:
    """Edges, pages, buffers and counts of messages that follow each other; 77 where nothing is stored."""
    sizes = np.array([len(message) for message in messages], np.int64)
    found = (*room_for(*room, len(messages)), np.full((len(messages), 7), 77))
    kernels.column_pages(memory_of(b"".join(messages)), np.cumsum(sizes) - sizes, sizes, *found)
    return found


def read(kernels: Kernels, message: bytes, room: tuple[int, int] = (9, 20)) -> tuple[list[int], ...]:
    """Counts, pages and buffers of a message; each page is a list, whose last number counts buffers up to its end."""
    edges, pages, buffers, all_counts = parse(kernels, [message], room)
    counts = all_counts[0].tolist()
    num_pages, num_buffers = counts[:2]
    assert (edges[:, num_pages + 1 :] == 77).all()
    assert (pages[:, num_pages:] == 77).all()
    assert (buffers[:, num_buffers:] == 77).all()
    assert edges[:, 0].tolist() == [0, 0]
    sums = accumulate(pages[0, :num_pages].tolist(), initial=0)
    assert edges[0, : num_pages + 1].tolist() == [min(total, FAR) for total in sums]
    found = np.vstack([pages, edges[1:, 1:]])[:, :num_pages].T.tolist()
    positions, sizes = buffers[:, :num_buffers].tolist()
    assert counts[5] == min(sum(sizes), FAR)
    assert counts[6] == max(
        (min(at + size, FAR) for at, size in zip(positions, sizes, strict=True)), default=0
    )
    return list(counts[:5]), *found, positions, sizes


def room_for(pages: int, buffers: int, columns: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Three of the results, of numbers that no message has."""
    return np.full((2, pages + columns), 77), np.full((4, pages), 77), np.full((2, buffers), 77)


def message(*pages: tuple[int, int, bytes, list[int], list[int]]) -> file2_pb2.ColumnMetadata:
    made = file2_pb2.ColumnMetadata()
    for length, first_row, encoding, positions, sizes in pages:
        page = made.pages.add(length=length, priority=first_row)
        page.encoding.direct.encoding = encoding
        page.buffer_offsets.extend(positions)
        page.buffer_sizes.extend(sizes)
    return made


def test_pages_are_those_of_the_message(kernels: Kernels) -> None:
    made = message((5, 0, b"abc", [64, 128], [7, 300]), (2**40, 5, b"", [], []), (1, 9, b"de", [2**62], [1]))
    made.encoding.direct.encoding = b"column"
    data = made.SerializeToString()
    counts, first, second, third, positions, sizes = read(kernels, data)
    assert counts == [3, 3, data.index(b"column"), 6, 0]
    assert first == [5, 0, data.index(b"abc"), 3, 2]
    assert second[:2] == [2**40, 5]
    assert second[3:] == [0, 2]
    assert third == [1, 9, data.index(b"de"), 2, 3]
    assert (positions, sizes) == ([64, 128, 2**62], [7, 300, 1])


def test_a_message_without_pages_has_none(kernels: Kernels) -> None:
    assert read(kernels, b"") == ([0, 0, 0, -1, 0], [], [])


def test_what_does_not_fit_is_counted(kernels: Kernels) -> None:
    data = message(*[(n, 0, b"x", [n, n + 1], [1, 2]) for n in range(3)]).SerializeToString()
    edges, pages, buffers, counts = parse(kernels, [data], (2, 3))
    assert counts[0, [0, 1, 5, 6]].tolist() == [3, 6, 9, -1]
    assert pages[0].tolist() == [0, 1]
    assert edges.tolist() == [[0, 0, 1], [0, 2, 4]]
    assert buffers.tolist() == [[0, 1, 1], [1, 2, 1]]
    edges, _, _, counts = parse(kernels, [data], (0, 0))
    assert counts[0, :2].tolist() == [3, 6]
    assert edges.tolist() == [[0], [0]]


def test_columns_follow_each_other(kernels: Kernels) -> None:
    made = [
        message((5, 0, b"ab", [1, 2], [3, 4]), (6, 5, b"c", [], [])),
        message(),
        message((7, 0, b"d", [9], [8])),
    ]
    messages = [one.SerializeToString() for one in made]
    edges, pages, buffers, counts = parse(kernels, messages, (3, 3))
    assert edges.tolist() == [[0, 5, 11, 0, 0, 7], [0, 2, 2, 0, 0, 1]]
    assert pages[:2].tolist() == [[5, 6, 7], [0, 5, 0]]
    joined = b"".join(messages)
    assert pages[2:].T.tolist() == [[joined.index(text), len(text)] for text in (b"ab", b"c", b"d")]
    assert buffers.tolist() == [[1, 2, 9], [3, 4, 8]]
    assert counts[:, [0, 1, 5, 6]].tolist() == [[2, 2, 7, 6], [0, 0, 0, 0], [1, 1, 8, 17]]


def test_messages_may_be_anywhere_in_the_memory(kernels: Kernels) -> None:
    data = message((5, 0, b"ab", [1], [3])).SerializeToString()
    found = (*room_for(2, 2, 2), np.full((2, 7), 77))
    starts = np.array([4, 4])  # the same bytes twice
    kernels.column_pages(memory_of(b"\0\0\0\0" + data + b"\xff"), starts, np.array([len(data)] * 2), *found)
    assert found[1][0].tolist() == [5, 5]
    for start, size in (
        (0, len(data) + 1),
        (-1, 1),
        (len(data) + 1, 0),
        (1, 2**63 - 1),
        (0, -1),
        (2**62, 2**62),
    ):
        with pytest.raises(TruncatedError, match="run 1 passes"):
            kernels.column_pages(memory_of(data), np.array([0, start]), np.array([len(data), size]), *found)


def test_no_column_needs_no_memory(kernels: Kernels) -> None:
    edges, pages, buffers, counts = parse(kernels, [], (0, 0))
    assert edges.size == pages.size == buffers.size == counts.size == 0


def test_encodings_elsewhere_and_none_are_told_apart(kernels: Kernels) -> None:
    made = message((1, 0, b"x", [], []), (1, 0, b"x", [], []), (1, 0, b"x", [], []))
    made.pages[0].encoding.indirect.buffer_location = 9
    made.pages[1].encoding.none.SetInParent()
    made.pages[2].ClearField("encoding")
    made.encoding.indirect.buffer_location = 9
    counts, *pages, _, _ = read(kernels, made.SerializeToString())
    assert counts[3] == -2
    assert [page[3] for page in pages] == [-2, -1, -1]


def test_numbers_beyond_63_bits_are_as_large_as_can_be(kernels: Kernels) -> None:
    data = message((2**64 - 1, 2**63, b"", [2**64 - 1, 7], [1, 2**63])).SerializeToString()
    _, page, positions, sizes = read(kernels, data)
    assert page[:2] == [FAR, FAR]
    assert (positions, sizes) == ([FAR, 7], [1, FAR])


def test_fields_that_are_not_known_are_skipped(kernels: Kernels) -> None:
    unknown = bytes([0x78, 0x81, 0x01, 0x7A, 2, 9, 9, 0x79, *bytes(8), 0x7D, *bytes(4)])
    page = unknown + bytes([8, 64, 16, 5, 24, 3]) + unknown  # positions and sizes need not be packed
    data = unknown + bytes([18, len(page)]) + page + unknown
    assert read(kernels, data) == ([1, 1, 0, -1, 0], [3, 0, 0, -1, 1], [64], [5])
    assert read(kernels, bytes([24, 1, 32, 1]))[0] == [0, 0, 0, -1, 1]


@pytest.mark.parametrize(
    "data",
    [b"\x12", b"\x12\x05\x18", b"\x12\x02\x18\x80", b"\x00", b"\x13", b"\x12\x02\x22\x01", b"\x80" * 11],
    ids=["no length", "too long", "no end", "field 0", "group", "inside", "endless"],
)
def test_bytes_that_are_no_message_are_refused(kernels: Kernels, data: bytes) -> None:
    with pytest.raises(FormatError, match="no column metadata") as caught:
        read(kernels, data)
    assert caught.value.position == 0
    with pytest.raises(DecodeError):
        file2_pb2.ColumnMetadata.FromString(data)


def test_positions_without_sizes_are_refused(kernels: Kernels) -> None:
    good, bad = (1, 0, b"x", [1], [1]), (1, 0, b"x", [1, 2], [1])
    with pytest.raises(FormatError, match="page 1 has not as many positions") as caught:
        read(kernels, message(good, bad).SerializeToString())
    assert caught.value.position == 1


def test_results_of_another_form_are_refused(kernels: Kernels) -> None:
    for what, shapes in (
        ("out_edges needs 2 rows", ((1, 2), (4, 1), (2, 1), (1, 7))),
        ("out_edges needs 2 rows", ((2, 2), (5, 1), (2, 1), (1, 7))),
        ("out_edges needs 2 rows", ((2, 2), (4, 1), (3, 1), (1, 7))),
        ("out_edges needs one entry", ((2, 1), (4, 1), (2, 1), (1, 7))),
        ("out_counts needs 7", ((2, 2), (4, 1), (2, 1), (1, 6))),
        ("out_counts needs 7", ((2, 2), (4, 1), (2, 1), (2, 7))),
    ):
        zero = np.zeros(1, np.int64)
        with pytest.raises(ValueError, match=what) as caught:
            kernels.column_pages(memory_of(b""), zero, zero, *(np.zeros(shape, np.int64) for shape in shapes))
        assert not isinstance(caught.value, FormatError)
    with pytest.raises(ValueError, match="the same length"):
        kernels.column_pages(memory_of(b""), zero, zero[:0], *room_for(1, 1), np.zeros((1, 7), np.int64))


@st.composite
def pages_of_messages(draw: st.DrawFn) -> list[tuple[int, int, bytes, list[int], list[int]]]:
    number = st.integers(0, 2**63 - 1)
    buffers = st.lists(st.tuples(number, number), max_size=3)
    pages = draw(st.lists(st.tuples(number, number, st.binary(max_size=4), buffers), max_size=4))
    return [(a, b, c, [n for n, _ in pairs], [n for _, n in pairs]) for a, b, c, pairs in pages]


@st.composite
def changed(draw: st.DrawFn) -> bytes:
    """A message with some bytes changed."""
    numbers = st.lists(st.integers(0, 2**64 - 1), max_size=3)
    pages = st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 9), st.binary(max_size=4), numbers, numbers)
    data = bytearray(message(*draw(st.lists(pages, max_size=3))).SerializeToString())
    for _ in range(draw(st.integers(0, 2)) if data else 0):
        data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    return bytes(data)


def outcome(kernels: Kernels, messages: list[bytes], room: tuple[int, int]) -> object:
    try:
        edges, pages, buffers, counts = parse(kernels, messages, room)
    except FormatError as error:
        return str(error), error.position
    if counts[:, 0].sum() > room[0] or counts[:, 1].sum() > room[1]:
        edges = pages = buffers = np.zeros(0)  # what they have of later columns means nothing
    return counts.tolist(), edges.tolist(), pages.tolist(), buffers.tolist()


@given(st.lists(changed() | st.binary(max_size=20), max_size=3), st.integers(0, 6), st.integers(0, 9))
def test_pages_agree_with_their_twin(messages: list[bytes], pages: int, buffers: int) -> None:
    room = pages, buffers
    assert outcome(CYTHON, messages, room) == outcome(REFERENCE, messages, room)


def parsed(data: bytes) -> file2_pb2.ColumnMetadata | None:
    try:
        return file2_pb2.ColumnMetadata.FromString(data)
    except DecodeError:
        return None


@given(changed())
def test_pages_agree_with_the_protobuf_library(data: bytes) -> None:
    made, ours = parsed(data), outcome(CYTHON, [data], (9, 99))
    assert isinstance(ours, tuple)
    if made is None or len(ours) == 2:
        # Groups, which no field is, and pages with more positions than sizes are refused here only.
        return
    (counts,), _, pages, buffers = ours
    found = [[min(n, FAR) for n in (p.length, p.priority)] for p in made.pages]
    assert np.array(pages)[:2, : counts[0]].T.tolist() == found
    positions = [min(n, FAR) for p in made.pages for n in p.buffer_offsets]
    sizes = [min(n, FAR) for p in made.pages for n in p.buffer_sizes]
    assert np.array(buffers)[:, : counts[1]].tolist() == [positions, sizes]
    assert counts[4] == bool(made.buffer_offsets)


@given(pages_of_messages())
def test_every_message_of_a_writer_is_read(pages: list[tuple[int, int, bytes, list[int], list[int]]]) -> None:
    made = message(*pages)
    counts, *_, positions, sizes = read(CYTHON, made.SerializeToString(), (9, 99))
    assert counts[:2] == [len(pages), sum(len(page[3]) for page in pages)]
    assert positions == [n for page in pages for n in page[3]]
    assert sizes == [n for page in pages for n in page[4]]
