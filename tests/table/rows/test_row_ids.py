"""Row-id sequences in all five encodings, and version runs."""

from __future__ import annotations

import random
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancecy.errors import FormatError, LimitError
from lancecy.limits import Limits
from lancecy.proto import rowids_pb2
from lancecy.table.rows.row_ids import RangeSegment, RowIdSequence, VersionSequence, row_ids
from lancecy.table.wire.row_ids import decode_row_ids, decode_versions, encode_row_ids
from tests.helpers.builders import make_fragment, make_manifest, row_id_sequence, segment, version_sequence
from tests.helpers.folded import folded

SORTED = [1000, 1001, 1003, 1010, 1011, 1012, 1030]
KINDS = ("range_with_holes", "range_with_bitmap", "sorted_array", "array")


def ids(data: bytes, num_rows: int | None = None) -> list[int]:
    sequence = decode_row_ids(data, num_rows)
    found: list[int] = sequence.ids(0, len(sequence)).tolist()
    return found


@folded("width", [16, 32, 64])
@folded("kind", KINDS)
def test_every_encoding_reads_back(kind: str, width: int) -> None:
    assert ids(row_id_sequence(segment(kind, SORTED, width)), 7) == SORTED


def test_unsorted_array_keeps_its_order() -> None:
    assert ids(row_id_sequence(segment("array", [9, 2**60, 3], 64))) == [9, 2**60, 3]


def test_bits_count_from_the_lowest() -> None:
    message = rowids_pb2.U64Segment()
    message.range_with_bitmap.start, message.range_with_bitmap.end = 990, 1000
    message.range_with_bitmap.bitmap = b"\xdf\x03"
    assert ids(row_id_sequence(message)) == [990, 991, 992, 993, 994, 996, 997, 998, 999]


@folded(
    "step, kind",
    [
        ("every seventh", "range_with_bitmap"),
        ("all but every seventh", "range_with_bitmap"),
        ("rare", "sorted_array"),
    ],
)
def test_ids_take_the_fewest_bytes(step: str, kind: str) -> None:
    """As in tables of which many rows here and there were updated; expanded in several pieces."""
    numbers = np.arange(1, 3_000_001)
    chosen = {
        "every seventh": numbers % 7 == 0,
        "all but every seventh": numbers % 7 != 0,
        "rare": numbers % 1000 == 0,
    }
    wanted = (numbers[chosen[step]] + 10_000_000_000).astype(np.uint64)
    data = encode_row_ids(RowIdSequence.of(wanted))
    (stored,) = rowids_pb2.RowIdSequence.FromString(data).segments
    assert stored.WhichOneof("segment") == kind
    assert len(data) < numbers.size // 8 + 100
    sequence = decode_row_ids(data, wanted.size)
    assert (sequence.ids(0, wanted.size) == wanted).all()


@given(st.sets(st.integers(0, 300), min_size=1), st.sampled_from([0, 5, 2**40, 2**64 - 302]))
def test_written_ids_read_back(values: set[int], base: int) -> None:
    wanted = [value + base for value in sorted(values)]
    sequence = RowIdSequence.of(np.array(wanted, np.uint64))
    assert ids(encode_row_ids(sequence), len(wanted)) == wanted


def test_segments_follow_each_other() -> None:
    data = row_id_sequence(
        segment("range", range(50, 60)),
        segment("array", [7, 3]),
        segment("range", [], span=(5, 5)),
        segment("range_with_holes", SORTED),
    )
    expected = [*range(50, 60), 7, 3, *SORTED]
    sequence = decode_row_ids(data, len(expected))
    assert len(sequence) == len(expected)
    for start, stop in ((0, 19), (0, 0), (9, 13), (11, 12), (12, 19), (18, 99), (25, 30)):
        assert sequence.ids(start, stop).tolist() == expected[start:stop]
    offsets = np.array([18, 0, 10, 10, 12, 9, 11])
    assert sequence.take(offsets).tolist() == [expected[i] for i in offsets]
    assert sequence.take(offsets).dtype == np.uint64


def test_arrays_that_follow_each_other_are_one() -> None:
    """An update writes one segment per thousand rows; a search must not look at each of them."""
    parts = [[2**40 + 9, 2**40], [5, 7], [6], [2**63 + 1, 0]]
    widths = [16, 64, 32, 64]
    arrays = [segment("array", part, width) for part, width in zip(parts, widths, strict=True)]
    expected = [number for part in parts for number in part]

    whole = decode_row_ids(row_id_sequence(*arrays), 7)
    assert (len(whole.segments), whole.ids(0, 9).tolist()) == (1, expected)
    narrow = decode_row_ids(row_id_sequence(*arrays[1:3]), 3)
    assert (narrow.segments[0].nbytes, narrow.ids(0, 9).tolist()) == (64 + 6, [5, 7, 6])
    between = segment("range", [], span=(50, 52))
    parted = decode_row_ids(
        row_id_sequence(*arrays[:2], between, segment("range", [], span=(4, 4)), *arrays[2:]), 9
    )
    assert (len(parted.segments), parted.ids(0, 9).tolist()) == (3, [*expected[:4], 50, 51, *expected[4:]])
    assert [int(low) for low in parted.spans[0]] == [5, 50, 0]


def test_neighbours_of_few_rows_are_joined() -> None:
    """A compaction of many small fragments makes one of few segments."""

    def joined(*parts: range | list[int]) -> tuple[list[str], bool]:
        numbers = [np.array([*part], np.uint64) for part in parts]
        whole = RowIdSequence.joined([RowIdSequence.of(part) for part in numbers])
        same = whole.ids(0, len(whole)).tolist() == np.concatenate(numbers).tolist()
        return [type(segment).__name__ for segment in whole.segments], same

    assert joined(range(5), range(5, 90), range(90, 95)) == (["RangeSegment"], True)
    assert joined(*([i, i + 1, i + 3] for i in range(0, 4000, 4))) == (["HolesSegment"], True)
    assert joined(*(range(i, i + 19) for i in range(0, 4000, 20))) == (["HolesSegment"], True)
    assert joined(range(100, 200), range(100), range(500, 700)) == (["RangeSegment"] * 3, True)
    assert joined(*([i, i - 9] for i in range(4000, 10, -13))) == (["ArraySegment"], True)
    assert joined([1, 3, 5, 7], range(10_000, 20_000), [2, 4, 9, 6]) == (
        ["ArraySegment", "RangeSegment", "ArraySegment"],
        True,
    )
    far = [2**63, 2**64 - 1]
    assert joined(range(5), far, range(5, 9)) == (["ArraySegment"], True)


def test_ranges_stay_ranges() -> None:
    sequence = decode_row_ids(row_id_sequence(segment("range", [], span=(2**62, 2**62 + 2**32))), None)
    assert sequence.nbytes < 200
    assert len(sequence) == 2**32
    assert sequence.ids(2**31, 2**31 + 2).tolist() == [2**62 + 2**31, 2**62 + 2**31 + 1]


def test_largest_ids_are_exact() -> None:
    top = 2**64 - 1
    assert ids(row_id_sequence(segment("range", [], span=(top - 2, top)))) == [top - 2, top - 1]
    assert ids(row_id_sequence(segment("array", [top - 1, top], 64))) == [top - 1, top]
    assert ids(row_id_sequence(segment("array", [top - 9, top], 16))) == [top - 9, top]
    holes = segment("range_with_holes", [top - 5, top - 3, top - 1], 64, span=(top - 5, top))
    assert ids(row_id_sequence(holes)) == [top - 5, top - 3, top - 1]


@given(
    st.lists(st.integers(0, 3000), min_size=1, max_size=60, unique=True),
    st.sampled_from(KINDS),
    st.sampled_from([16, 32, 64]),
    st.integers(0, 2**63),
)
def test_any_slice_of_any_encoding(values: list[int], kind: str, width: int, base: int) -> None:
    values = [base + v for v in (values if kind == "array" else sorted(values))]
    sequence = decode_row_ids(row_id_sequence(segment(kind, values, width)), len(values))
    for start in range(0, len(values), 7):
        assert sequence.ids(start, start + 9).tolist() == values[start : start + 9]


@pytest.mark.parametrize("num_rows", [0, 6, 8, 2**32])
def test_other_number_of_ids_than_rows_is_refused(num_rows: int) -> None:
    with pytest.raises(FormatError, match=f"7 row ids for a fragment of {num_rows} rows"):
        decode_row_ids(row_id_sequence(segment("sorted_array", SORTED)), num_rows)


def broken(kind: str, **changes: Any) -> rowids_pb2.U64Segment:
    message = rowids_pb2.U64Segment()
    part = getattr(message, kind)
    part.SetInParent()
    for key, value in changes.items():
        if isinstance(value, rowids_pb2.EncodedU64Array):
            getattr(part, key).CopyFrom(value)
        else:
            setattr(part, key, value)
    return message


def holes(*values: int) -> rowids_pb2.EncodedU64Array:
    return rowids_pb2.EncodedU64Array(
        u64_array=rowids_pb2.EncodedU64Array.U64Array(values=np.array(values, "<u8").tobytes())
    )


@folded(
    "message",
    [
        rowids_pb2.U64Segment(),
        broken("range", start=5, end=4),
        broken("range_with_holes", start=5, end=9),
        broken("range_with_holes", start=5, end=9, holes=holes(4)),
        broken("range_with_holes", start=5, end=9, holes=holes(9)),
        broken("range_with_holes", start=5, end=9, holes=holes(7, 7)),
        broken("range_with_holes", start=5, end=9, holes=holes(7, 6)),
        broken("range_with_holes", start=0, end=2**64 - 1, holes=holes(5)),
        broken("range_with_bitmap", start=5, end=9, bitmap=b""),
        broken("range_with_bitmap", start=5, end=9, bitmap=b"\x01\x00"),
        broken("range_with_bitmap", start=5, end=9, bitmap=b"\x11"),
        broken("range_with_bitmap", start=0, end=2**64 - 1, bitmap=b"\x11"),
        broken("sorted_array"),
        rowids_pb2.U64Segment(
            array=rowids_pb2.EncodedU64Array(u16_array=rowids_pb2.EncodedU64Array.U16Array(offsets=b"abc"))
        ),
        rowids_pb2.U64Segment(
            array=rowids_pb2.EncodedU64Array(
                u32_array=rowids_pb2.EncodedU64Array.U32Array(base=2**64 - 3, offsets=b"\x03\0\0\0")
            )
        ),
    ],
)
def test_impossible_segment_is_refused(message: rowids_pb2.U64Segment) -> None:
    with pytest.raises(FormatError):
        decode_row_ids(row_id_sequence(message), None)


def test_number_of_ids_is_limited() -> None:
    with pytest.raises(LimitError, match="rows_per_file"):
        decode_row_ids(row_id_sequence(*[segment("range", [], span=(0, 2**63))] * 3), None)
    with pytest.raises(LimitError, match="rows_per_file"):
        decode_versions(version_sequence([(11, 1)]), None, Limits(rows_per_file=10))


def test_damaged_sequences_give_ids_or_an_error() -> None:
    rng = random.Random(11)
    originals = [row_id_sequence(segment(kind, SORTED, width)) for kind in KINDS for width in (16, 64)]
    for _ in range(3000):
        data = bytearray(rng.choice(originals))
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        with suppress(FormatError):
            assert len(ids(bytes(data), 7)) == 7
        with suppress(FormatError):
            decode_versions(bytes(data), None).between(0, 100)


def test_row_without_an_id_is_refused() -> None:
    sequence = RowIdSequence((RangeSegment(7, 9),), np.array([0, 2]))
    for offset in (2, -1):
        with pytest.raises(FormatError, match="2 row ids"):
            sequence.take(np.array([offset]))
    assert RowIdSequence((), np.array([0])).take(np.empty(0, np.int64)).size == 0


# -- versions -----------------------------------------------------------------


def test_versions_repeat_over_their_runs() -> None:
    sequence = decode_versions(version_sequence([(3, 5), (0, 9), (2, 4)]), 5)
    assert sequence.between(0, 5).tolist() == [5, 5, 5, 4, 4]
    assert sequence.between(2, 4).tolist() == [5, 4]
    assert sequence.take(np.array([4, 0])).tolist() == [4, 5]
    with pytest.raises(FormatError, match="5 row versions"):
        sequence.take(np.array([5]))


def test_spans_matter_by_their_length_only() -> None:
    # Compaction leaves spans that restart or have holes.
    message = rowids_pb2.RowDatasetVersionSequence()
    message.runs.add(version=2, span=segment("range", [], span=(0, 3)))
    message.runs.add(version=6, span=segment("range_with_holes", [0, 2, 5]))
    message.runs.add(version=2, span=segment("range", [], span=(0, 1)))
    assert decode_versions(message.SerializeToString(), 7).between(0, 7).tolist() == [2, 2, 2, 6, 6, 6, 2]


def test_versions_must_be_as_many_as_rows() -> None:
    with pytest.raises(FormatError, match="5 row versions for a fragment of 4 rows"):
        decode_versions(version_sequence({3: 1, 2: 7}), 4)


def test_constant_version() -> None:
    assert VersionSequence.constant(1, 3).between(1, 9).tolist() == [1, 1]


# -- which ids a row has ---------------------------------------------------------


def _snapshot(flags: int, sequence: RowIdSequence | None) -> Any:
    return SimpleNamespace(manifest=make_manifest(reader_flags=flags), row_ids=lambda _fragment: sequence)


def test_row_ids_are_the_addresses_without_stable_ones() -> None:
    addresses = np.array([5, 6], np.uint64)
    assert row_ids(_snapshot(1, None), make_fragment(), np.array([0, 1]), addresses) is addresses


def test_row_ids_are_the_stable_ones_where_there_are_any() -> None:
    sequence = decode_row_ids(row_id_sequence(segment("sorted_array", SORTED)), None)
    found = row_ids(_snapshot(2, sequence), make_fragment(), np.array([6, 0]), np.array([5, 6], np.uint64))
    assert found.tolist() == [1030, 1000]


def test_fragment_without_promised_row_ids_is_refused() -> None:
    with pytest.raises(FormatError, match="fragment 12 of a table with stable row ids"):
        row_ids(_snapshot(3, None), make_fragment(12), np.array([0]), np.array([5], np.uint64))
