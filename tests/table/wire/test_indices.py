"""Index sections: carried byte for byte."""

from __future__ import annotations

from typing import Any

import pytest

from lancecy.errors import FormatError
from lancecy.proto import table_pb2
from lancecy.table.wire.indices import decode_index_section


def _index(**changes: Any) -> table_pb2.IndexMetadata:
    message = table_pb2.IndexMetadata(name="a_idx", fields=[0], dataset_version=7, fragment_bitmap=b":0")
    message.uuid.uuid = bytes(range(16))
    message.index_details.type_url = "/lance.table.BTreeIndexDetails"
    for key, value in changes.items():
        setattr(message, key, value)
    return message


def test_index_entries_are_carried_byte_for_byte() -> None:
    raw = [
        _index().SerializeToString() + b"\xfa\x3e\x01z",
        _index(name="b_idx", base_id=3).SerializeToString(),
    ]
    section = b"".join(b"\x0a" + bytes([len(r)]) + r for r in raw)
    first, second = decode_index_section(section)
    assert [first.raw, second.raw] == raw
    assert (first.name, first.fields, first.dataset_version, first.base_id) == ("a_idx", (0,), 7, None)
    assert first.uuid.hex == bytes(range(16)).hex()
    assert first.details_type == "lance.table.BTreeIndexDetails"
    assert first.fragment_bitmap == b":0"
    assert second.base_id == 3


def test_empty_index_section_has_no_entries() -> None:
    assert decode_index_section(b"") == ()


@pytest.mark.parametrize(
    "data",
    [
        b"\x0a\x7f",
        b"\x0a\x02\xff\xff",
        b"\x0b",
        table_pb2.IndexSection(indices=[_index()]).SerializeToString()[:-1],
    ],
)
def test_damaged_index_section_is_refused(data: bytes) -> None:
    with pytest.raises(FormatError, match="index section"):
        decode_index_section(data)


def test_index_entry_without_an_id_is_refused() -> None:
    message = table_pb2.IndexSection(indices=[_index()])
    message.indices[0].uuid.uuid = b"short"
    with pytest.raises(FormatError, match="5 bytes instead of 16"):
        decode_index_section(message.SerializeToString())
