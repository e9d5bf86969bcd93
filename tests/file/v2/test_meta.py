"""The frame of 2.x files: reads, refused files, and the number of requests."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from lancecy.encodings.arrow.to_arrow import to_arrow
from lancecy.errors import FormatError, LanceError, LimitError, TruncatedError, UnsupportedError
from lancecy.file.v2.meta import parse_v2_footer
from lancecy.limits import DEFAULT_LIMITS, Limits
from lancecy.rows import RowSelection
from lancecy.schema import Field
from lancecy.store.reads import run
from tests.helpers.frames import (
    ALL_NULL,
    INTS,
    VALUES,
    Built,
    Opened,
    PageBytes,
    any_message,
    build_frame,
    flat,
    int64,
    message,
    number,
    open_frame,
)

HUGE = (1 << 64) - 1
B = Field("b", 1, logical_type="int64")


def simple(**changes: object) -> Built:
    """Two columns of 5 and 3 + 2 rows."""
    return build_frame([[int64([5, 6, 7, 8, 9])], [int64([1, 2, 3]), int64([4, 5])]], 5, **changes)  # type: ignore[arg-type]


def values(opened: Opened, column: Field = INTS) -> list[int | None]:
    rows = RowSelection.all(opened.reader.num_rows)
    blocks = run(opened.reader.read([column], rows), opened.files.fetch)
    found: list[int | None] = to_arrow(blocks[column.id], column).to_pylist()
    return found


# -- reading --------------------------------------------------------------------------------


@pytest.mark.parametrize("is_mapped", [True, False])
@pytest.mark.parametrize("footer", [(0, 3), (2, 0)])
@pytest.mark.parametrize("stated", [(0, 3), (2, 0)])
def test_both_names_of_version_2_0(footer: tuple[int, int], stated: tuple[int, int], is_mapped: bool) -> None:
    opened = open_frame(simple(version=footer), [INTS, B], version=stated, is_mapped=is_mapped)
    assert opened.reader.version == (2, 0)
    assert opened.reader.num_rows == 5
    assert opened.reader.field_ids == {0, 1}
    assert values(opened) == [5, 6, 7, 8, 9]
    assert values(opened, B) == [1, 2, 3, 4, 5]


def test_columns_are_those_that_the_manifest_names() -> None:
    opened = open_frame(simple(), [INTS, B], field_ids=[1, -2, 0], columns=[0, 5, 1])
    assert values(opened) == [1, 2, 3, 4, 5]
    assert values(opened, B) == [5, 6, 7, 8, 9]


@pytest.mark.parametrize("encoding", [b"", message(3, b"")])
def test_column_encoding_that_says_nothing(encoding: bytes) -> None:
    """Release 0.12.0 wrote ``none``; the reference cannot read its files any more."""
    assert values(open_frame(simple(encodings={0: encoding}))) == [5, 6, 7, 8, 9]


def test_pages_of_2_0_in_a_file_of_2_1() -> None:
    """Files that releases before the stable 2.1 wrote as 2.1."""
    built = simple(version=(2, 1))
    assert values(open_frame(built, version=(2, 1))) == [5, 6, 7, 8, 9]
    with pytest.raises(FormatError, match="version"):
        values(open_frame(simple(version=(2, 2)), version=(2, 2)))


def test_pages_without_rows_and_pages_of_nulls() -> None:
    nulls = PageBytes(2, (), any_message("type.googleapis.com/lance.encodings.ArrayEncoding", ALL_NULL))
    built = build_frame([[int64([]), nulls, int64([]), int64([7])]], 3)
    assert values(open_frame(built)) == [None, None, 7]


def test_file_without_rows() -> None:
    opened = open_frame(build_frame([[]], 0))
    assert values(opened) == []
    assert opened.reader.page_starts(INTS).tolist() == [0, 0]


def test_equal_pages_share_one_spec() -> None:
    pages = [int64([n]) for n in range(300)]
    opened = open_frame(build_frame([pages], 300))
    assert opened.reader.page_starts(INTS).tolist() == list(range(301))
    ((column,),) = (known.columns.values() for known in opened.reader.columns.prepared.values())
    assert len({id(spec) for spec in column.specs}) == 1
    assert values(opened) == list(range(300))


# -- requests -------------------------------------------------------------------------------


def test_small_file_opens_with_one_request() -> None:
    opened = open_frame(simple(), [INTS, B], is_mapped=False)
    assert len(opened.files.rounds) == 1
    assert values(opened) == [5, 6, 7, 8, 9]
    assert len(opened.files.rounds) == 2  # the values


def test_large_metadata_takes_a_second_round_for_the_descriptor_alone() -> None:
    many = [[int64([n])] for n in range(1000)]
    built = build_frame(many, 1)
    assert built.column_table - built.metadata[0][0] > 1 << 16
    fields = [Field(f"c{n}", n, logical_type="int64") for n in range(1000)]
    opened = open_frame(built, fields, is_mapped=False)
    assert len(opened.files.rounds) == 2
    asked = opened.files.rounds[1][0]
    assert asked.lengths.sum() < 100
    opened.files.rounds.clear()
    rows = RowSelection.all(1)
    run(opened.reader.read([fields[3], fields[2], fields[999]], rows), opened.files.fetch)
    # Metadata of two columns, the tail had that of the third; then the values of all of them.
    assert [sum(r.positions.size for r in requests) for requests in opened.files.rounds] == [2, 3]
    opened.files.rounds.clear()
    run(opened.reader.read([fields[2]], rows), opened.files.fetch)
    assert len(opened.files.rounds) == 1


def test_what_metadata_that_is_not_held_tells_is_guessed_until_it_is_prepared() -> None:
    built = build_frame([[int64(range(10)), int64(range(10))]] + [[int64(range(20))]] * 999, 20)
    fields = [Field(f"c{n}", n, logical_type="int64") for n in range(1000)]
    opened = open_frame(built, fields, is_mapped=False)
    reader = opened.reader
    assert reader.page_starts(fields[0]).tolist() == [0, 20]
    assert 100 < reader.column_bytes(fields[0]) < 300
    assert [reader.knows(field) for field in fields[:2]] == [False, False]
    rounds = len(opened.files.rounds)
    for _ in range(2):
        run(reader.prepare([fields[0]]), opened.files.fetch)
        assert len(opened.files.rounds) == rounds + 1
    assert [reader.knows(field) for field in fields[:2]] == [True, False]
    assert reader.column_bytes(fields[0]) == 160
    assert reader.page_starts(fields[0]).tolist() == [0, 10, 20]
    assert reader.page_bytes(fields[0]).tolist() == [80, 80]


# -- refused files --------------------------------------------------------------------------


FOOTERS = [
    ({"num_buffers": 0}, FormatError),
    ({"num_buffers": 2}, FormatError),
    ({"num_buffers": 0xFFFFFFFF}, FormatError),
    ({"num_columns": 999_999}, FormatError),
    ({"num_columns": 0xFFFFFFFF}, LimitError),
    ({"num_columns": 1}, FormatError),
    ({"column_table": HUGE}, FormatError),
    ({"column_table": HUGE - 16}, FormatError),
    ({"column_table": 1 << 63}, FormatError),
    ({"buffer_table": HUGE}, FormatError),
    ({"buffer_table": HUGE - 15}, FormatError),
    ({"column_table": 0}, FormatError),
    ({"buffer_table": 0}, FormatError),
    ({"major": 0, "minor": 2}, FormatError),
    ({"major": 9, "minor": 9}, FormatError),
]


@pytest.mark.parametrize(("changes", "error"), FOOTERS, ids=str)
@pytest.mark.parametrize("is_mapped", [True, False])
def test_footer_out_of_range(changes: dict[str, int], error: type[LanceError], is_mapped: bool) -> None:
    with pytest.raises(error, match="built.lance"):
        values(open_frame(simple().footer(**changes), [INTS, B], is_mapped=is_mapped), B)


def test_position_of_the_first_column_is_not_looked_at() -> None:
    assert values(open_frame(simple().footer(columns_at=HUGE))) == [5, 6, 7, 8, 9]


ENTRIES = [(HUGE, 1), (1, HUGE), (HUGE, HUGE), (1 << 63, 0), (0, 1 << 63), (10**6, 0), (0, 10**6)]


@pytest.mark.parametrize("entry", ENTRIES)
def test_table_entries_out_of_range(entry: tuple[int, int]) -> None:
    built, packed = simple(), struct.pack("<QQ", *entry)
    for position in (built.column_table, built.column_table + 16, built.buffer_table):
        with pytest.raises(FormatError, match="outside the file"):
            open_frame(built.patched(position, packed))


def test_metadata_of_columns_that_overlaps() -> None:
    built = build_frame([[int64([n])] for n in range(40)], 1)
    whole = struct.pack("<QQ", 0, built.column_table)
    table = whole * 40
    with pytest.raises(FormatError, match="overlap"):
        open_frame(built.patched(built.column_table, table))


@pytest.mark.parametrize(
    ("page", "error", "text"),
    [
        (int64([1, 2, 3], positions=[HUGE]), FormatError, "outside the file"),
        (int64([1, 2, 3], positions=[1 << 63]), FormatError, "outside the file"),
        (int64([1, 2, 3], positions=[10**6]), FormatError, "outside the file"),
        (int64([1, 2, 3], sizes=[HUGE]), FormatError, "outside the file"),
        (int64([1, 2, 3], sizes=[(1 << 63) + 24]), FormatError, "outside the file"),
        (int64([1, 2, 3], sizes=[10**6]), FormatError, "outside the file"),
        (int64([1, 2, 3], sizes=[23]), FormatError, "has bytes for 2"),
        (int64([1, 2, 3], sizes=[]), FormatError, "sizes"),
        (int64([1, 2, 3], positions=[]), FormatError, "sizes"),
        (int64([1, 2, 3], positions=[0, 0]), FormatError, "sizes"),
        (int64([1, 2, 3], positions=[], sizes=[]), LanceError, "page 0"),
        (int64([1, 2, 3], length=2), FormatError, "2 rows"),
        (int64([1, 2, 3], length=4), FormatError, "4 rows"),
        (int64([1, 2, 3], length=HUGE), LimitError, "rows_per_file"),
        (int64([1, 2, 3], length=1 << 40), LimitError, "rows_per_file"),
        (int64([1, 2, 3], encoding=b""), FormatError, "no encoding"),
        (int64([1, 2, 3], encoding=message(3, b"")), FormatError, "no encoding"),
        (int64([1, 2, 3], encoding=message(1, number(1, 5))), UnsupportedError, "elsewhere"),
        (int64([1, 2, 3], encoding=message(2, message(1, b"\xff\xff"))), FormatError, "not a valid message"),
        (int64([1, 2, 3], encoding=any_message("x.Y", b"")), FormatError, "x.Y"),
        (
            int64([1, 2, 3], encoding=any_message("lance.encodings21.PageLayout", b"")),
            FormatError,
            "PageLayout",
        ),
        (
            int64([1, 2, 3], encoding=any_message("lance.encodings.ArrayEncoding", flat(64, 7))),
            LanceError,
            "buffer",
        ),
        (
            int64([1, 2, 3], encoding=any_message("lance.encodings.ArrayEncoding", flat(HUGE))),
            FormatError,
            "page 0",
        ),
    ],
)
def test_page_out_of_range(page: PageBytes, error: type[LanceError], text: str) -> None:
    with pytest.raises(error, match=text) as caught:
        values(open_frame(build_frame([[page]], 3)))
    assert "built.lance" in str(caught.value)


def test_pages_that_share_bytes() -> None:
    """Many pages over the same bytes would decode to far more memory than the file has."""
    pages = [int64(range(64)), *(int64([], positions=[0], sizes=[512], length=64) for _ in range(200))]
    with pytest.raises(FormatError, match="overlap"):
        values(open_frame(build_frame([pages], 64 * 201)))


def test_columns_that_share_bytes() -> None:
    numbers = np.arange(4096)
    columns = [[int64(numbers)], *([int64([], positions=[0], sizes=[32768], length=4096)] for _ in range(40))]
    built = build_frame([*columns, [int64([0] * 4096)]], 4096)
    fields = [Field(f"c{n}", n, logical_type="int64") for n in range(41)]
    opened = open_frame(built, fields)
    assert values(opened, fields[0]) == numbers.tolist()
    assert values(opened, fields[3]) == numbers.tolist()  # as much as the last column takes, so far
    with pytest.raises(FormatError, match="overlap"):
        run(opened.reader.read(fields, RowSelection.all(4096)), opened.files.fetch)


@pytest.mark.parametrize("limit", ["columns", "rows_per_file", "pages", "metadata_bytes"])
def test_limits_are_kept(limit: str) -> None:
    limits = Limits(**{limit: 1})
    with pytest.raises(LimitError, match=limit):
        values(open_frame(simple(), [INTS, B], limits=limits), B)


def test_number_of_rows_of_the_descriptor_is_bounded() -> None:
    with pytest.raises(LimitError, match="rows_per_file"):
        open_frame(build_frame([[int64([1])]], 1 << 33))
    with pytest.raises(FormatError, match="1 rows, the file 7"):
        values(open_frame(build_frame([[int64([1])]], 7)))


def test_encoding_of_the_column_elsewhere() -> None:
    with pytest.raises(UnsupportedError, match="elsewhere"):
        values(open_frame(simple(encodings={0: message(1, number(1, 5))})))
    damaged = any_message("lance.encodings.ColumnEncoding", b"")
    with pytest.raises(FormatError, match="physical column 0"):
        values(open_frame(simple(encodings={0: damaged})))


@pytest.mark.parametrize(
    ("ids", "columns", "text"),
    [
        ([0, 1], [0], "2 fields and 1 columns"),
        ([0], [], "1 fields and 0 columns"),
        ([0, 0], [0, 1], "field of this file twice"),
        ([0, 1], [1, 1], "column of this file twice"),
        ([0, 1], [0, 2], "column 2 of a file that has 2"),
        ([0], [2**31 - 1], "of a file that has 2"),
    ],
)
def test_manifest_that_does_not_fit_the_file(ids: list[int], columns: list[int], text: str) -> None:
    with pytest.raises(FormatError, match=text):
        open_frame(simple(), [INTS, B], field_ids=ids, columns=columns)


def test_field_without_a_column() -> None:
    opened = open_frame(simple(), [INTS, B], field_ids=[0, 1], columns=[0, -1])
    with pytest.raises(FormatError, match="'b'"):
        values(opened, B)


@pytest.mark.parametrize("size", [0, 1, 4, 15, 16, 39, 40, 41])
def test_files_that_are_too_short(size: int) -> None:
    data = simple().data
    built = simple()
    with pytest.raises((TruncatedError, FormatError)):
        open_frame(Built(data[len(data) - size :], built.metadata, 0, 0))


def test_footer_alone() -> None:
    tail = np.frombuffer(simple().data[-40:], np.uint8)
    assert parse_v2_footer(tail, len(simple().data), DEFAULT_LIMITS).version == (2, 0)
    with pytest.raises(FormatError, match="lies outside"):
        parse_v2_footer(tail, 40, DEFAULT_LIMITS)
    with pytest.raises(TruncatedError, match="too few"):
        parse_v2_footer(tail[10:], 30, DEFAULT_LIMITS)


def read_everything(built: Built) -> None:
    for is_mapped in (True, False):
        opened = open_frame(built, [INTS, B], is_mapped=is_mapped)
        values(opened)
        values(opened, B)
        opened.reader.page_bytes(B)


def test_every_byte_of_the_metadata_changed() -> None:
    """Changing any byte of the metadata gives either values or a LanceError."""
    built = simple()
    outcomes = {True: 0, False: 0}
    for position in range(built.metadata[0][0] - 10, len(built.data)):
        for value in (0, 1, 0x7F, 0x80, 0xFF):
            try:
                read_everything(built.patched(position, bytes([value])))
                outcomes[True] += 1
            except LanceError:
                outcomes[False] += 1
    assert min(outcomes.values()) > 100


def test_file_cut_off_at_every_byte() -> None:
    built = simple()
    for size in range(len(built.data)):
        with pytest.raises(LanceError):
            read_everything(Built(built.data[:size], built.metadata, 0, 0))


def test_columns_of_blobs_are_known_by_their_encoding() -> None:
    blob = any_message("lance.encodings.ColumnEncoding", message(3, message(1, message(1, b""))))
    opened = open_frame(simple(encodings={1: blob}), [INTS, B])
    opened.reader.page_starts(INTS)
    opened.reader.page_starts(B)
    known = opened.reader.columns.prepared.values()
    assert [column.is_blob for one in known for column in one.columns.values()] == [False, True]
    assert blob != VALUES
