"""What the table layer writes is what it reads: every encoder against its decoder and its neighbours' readers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from lancecy.limits import DEFAULT_LIMITS
from lancecy.table.manifest import DeletionFileType, ExternalFile, Fragment
from lancecy.table.rows import deletion, roaring
from lancecy.table.rows.deletion import DeletionVector
from lancecy.table.rows.row_ids import (
    ArraySegment,
    HolesSegment,
    RangeSegment,
    RowIdSequence,
    Segment,
    VersionSequence,
)
from lancecy.table.wire.fragment import decode_fragment, encode_base_path, encode_fragment
from lancecy.table.wire.manifest import decode, encode
from lancecy.table.wire.row_ids import decode_row_ids, decode_versions, encode_row_ids, encode_versions
from tests.helpers.builders import (
    make_base,
    make_data_file,
    make_deletion_file,
    make_fragment,
    make_manifest,
    manifest_message,
    memory_of,
)

NUMBERS = st.sets(
    st.integers(0, 300) | st.integers(65_500, 65_600) | st.integers(2**32 - 9, 2**32 - 1), max_size=60
)
BITMAPS: dict[str, list[int]] = {
    "empty": [],
    "ends of containers": [0, 65535, 65536, 2**32 - 1],
    "largest array": list(range(0, 8192, 2)),
    "smallest bitmap": list(range(0, 8194, 2)),
    "whole container": list(range(65536)),
    "several": [*range(5000), *range(70_000, 70_010), *range(200_000, 210_000)],
}


@pytest.mark.parametrize("name", BITMAPS)
def test_bitmap_is_what_the_c_library_understands(name: str) -> None:
    numbers = BITMAPS[name]
    data = roaring.encode(np.array(numbers, np.int64))
    assert BitMap.deserialize(data) == BitMap(np.array(numbers, np.uint32))
    assert roaring.decode(memory_of(data)).tolist() == numbers


@given(NUMBERS)
def test_any_bitmap_comes_back(numbers: set[int]) -> None:
    data = roaring.encode(np.array(sorted(numbers), np.int64))
    assert roaring.decode(memory_of(data)).tolist() == sorted(numbers) == list(BitMap.deserialize(data))


@pytest.mark.parametrize("form", DeletionFileType)
@given(numbers=NUMBERS.filter(bool))
def test_deletion_file_comes_back_in_either_form(form: DeletionFileType, numbers: set[int]) -> None:
    data = deletion.encode(DeletionVector(np.array(sorted(numbers), np.int64)), form)
    file = make_deletion_file(file_type=form, num_deleted_rows=len(numbers))
    assert deletion.decode(memory_of(data), file, 2**32).offsets.tolist() == sorted(numbers)


def test_form_of_deletion_files_is_that_of_the_reference() -> None:
    assert deletion.form_for(4999) is DeletionFileType.ARROW
    assert deletion.form_for(5000) is DeletionFileType.BITMAP


SEGMENTS: dict[str, list[Segment]] = {
    "none": [],
    "range": [RangeSegment(7, 19)],
    "ranges": [RangeSegment(7, 19), RangeSegment(0, 3)],
    "holes": [HolesSegment(100, 120, np.array([2, 5, 5]))],
    "narrow array": [ArraySegment(50, np.array([3, 9, 4], np.uint16))],
    "wide array": [ArraySegment(5, np.array([2**20, 9, 2**31], np.uint64))],
    "widest array": [ArraySegment(3, np.array([2**40, 0, 2**63], np.uint64))],
    "mixed": [RangeSegment(1, 4), ArraySegment(1000, np.array([1, 2, 9], np.uint16)), RangeSegment(50, 60)],
}


@pytest.mark.parametrize("name", SEGMENTS)
def test_row_ids_come_back(name: str) -> None:
    segments = tuple(SEGMENTS[name])
    starts = np.cumsum([0, *(segment.count for segment in segments)])
    given = RowIdSequence(segments, starts)
    found = decode_row_ids(encode_row_ids(given), int(starts[-1]))
    assert found.ids(0, len(found)).tolist() == given.ids(0, len(given)).tolist()
    assert [type(segment) for segment in found.segments] == [type(segment) for segment in segments]


def test_row_versions_come_back() -> None:
    given = VersionSequence(np.array([0, 4, 5, 20]), np.array([3, 9, 2**63], np.uint64))
    found = decode_versions(encode_versions(given), 20)
    assert found.between(0, 20).tolist() == given.between(0, 20).tolist()


@pytest.mark.parametrize("fragment", [
    make_fragment(3),
    make_fragment(3, physical_rows=None, deletion_file=None),
    make_fragment(3, deletion_file=make_deletion_file(base_id=0, file_type=DeletionFileType.BITMAP)),
    make_fragment(3, files=(make_data_file(base_id=0), make_data_file(file_size_bytes=None, column_indices=()))),
    make_fragment(3, row_ids=b"ids", created_at_versions=b"", last_updated_versions=ExternalFile("x", 3, 9)),
])  # fmt: skip
def test_fragment_comes_back(fragment: Fragment) -> None:
    assert decode_fragment(encode_fragment(fragment), {}, DEFAULT_LIMITS) == fragment


def test_manifest_file_comes_back_with_its_sections() -> None:
    manifest = make_manifest(base_paths={4: make_base(4)})
    message = manifest_message(manifest)
    assert encode_base_path(make_base(4)) == message.base_paths[0]
    message.index_section, message.transaction_section_deprecated = 99_999, 88_888  # of another file
    data = encode(message, b"the indices", b"", b"dictionaries")
    found = decode(memory_of(data), "x")
    assert (found.fragments, found.base_paths) == (manifest.fragments, manifest.base_paths)
    assert data.startswith(b"dictionaries")
    for section, expected in ((found.index_section, b"the indices"), (found.transaction_section, b"")):
        assert section is not None
        assert data[section[0] : section[0] + section[1]] == expected
    assert decode(memory_of(encode(message)), "x").transaction_section is None
