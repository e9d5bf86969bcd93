"""What a list of versions tells of each: the same counts as the fragments themselves."""

from __future__ import annotations

import pytest

from lancecy.errors import FormatError, LimitError, TruncatedError, UnsupportedError
from lancecy.limits import Limits
from lancecy.proto import table_pb2
from lancecy.table.wire.fragments_bulk import MIN_FRAGMENTS, check_bulk
from lancecy.table.wire.manifest import decode
from lancecy.table.wire.outline import decode_outline
from tests.helpers.builders import manifest_file, memory_of

PATH = "_versions/7.manifest"


def message_of(count: int) -> table_pb2.Manifest:
    """Fragments with and without counts, files, sizes and deletions."""
    message = table_pb2.Manifest(version=7)
    for number in range(count):
        fragment = message.fragments.add(id=number, physical_rows=number % 5 * 100)
        for file in range(number % 3):
            fragment.files.add(path="a", fields=[0], file_size_bytes=number * file, file_major_version=2)
        if number % 4 == 3:
            fragment.deletion_file.id, fragment.deletion_file.num_deleted_rows = 1, number % 7
    return message


@pytest.mark.parametrize("count", [0, 1, 9, 500])
def test_counts_are_those_of_the_fragments(count: int) -> None:
    memory = memory_of(manifest_file(message_of(count)))
    fragments = decode(memory, PATH).fragments
    deletions = [f.deletion_file for f in fragments if f.deletion_file is not None]
    rows = sum(f.physical_rows or 0 for f in fragments)
    deleted = sum(deletion.num_deleted_rows or 0 for deletion in deletions)
    outline = decode_outline(memory, PATH)
    assert outline.version == 7
    assert outline.counts == {
        "total_data_file_rows": rows,
        "total_data_files": sum(len(f.files) for f in fragments),
        "total_deletion_file_rows": deleted,
        "total_deletion_files": len(deletions),
        "total_files_size": sum(file.size or 0 for f in fragments for file in f.files),
        "total_fragments": count,
        "total_rows": rows - deleted,
    }


def listed_rows(count: int) -> bytes:
    """A manifest whose last fragment states its rows as a list that is cut off; the message itself ignores lists there."""
    message = message_of(count)
    fragment = message.fragments[-1].SerializeToString() + b"\x22\x01\x80"
    del message.fragments[-1]
    return message.SerializeToString() + b"\x12" + bytes([len(fragment)]) + fragment


def test_damaged_lists_are_refused() -> None:
    raw = listed_rows(MIN_FRAGMENTS)
    message = table_pb2.Manifest.FromString(raw)
    assert len(message.fragments) == MIN_FRAGMENTS
    with pytest.raises(FormatError, match="fragments in the manifest"):
        check_bulk(raw, MIN_FRAGMENTS, Limits())
    with pytest.raises(FormatError, match="fragments in the manifest"):
        _ = decode_outline(memory_of(manifest_file(message)), PATH).counts


def test_what_cannot_be_counted_is_refused() -> None:
    data = manifest_file(message_of(9))
    with pytest.raises(TruncatedError):
        decode_outline(memory_of(data[:10]), PATH)
    with pytest.raises(LimitError, match="fragments"):
        decode_outline(memory_of(data), PATH, Limits(fragments=8))
    tree = table_pb2.Manifest(version=7)
    tree.fragment_tree = b"tree"
    with pytest.raises(UnsupportedError, match="fragment tree"):
        decode_outline(memory_of(manifest_file(tree)), PATH)
