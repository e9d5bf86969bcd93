"""Schemas that Arrow raises errors of its own for, or ends the process over; each was found by damaged tables."""

from __future__ import annotations

from pathlib import Path

import pytest

import lancecy
from lancecy.errors import FormatError
from lancecy.proto import table_pb2
from lancecy.schema import Field
from tests.helpers.golden import golden
from tests.helpers.mutate import tail_message, with_tail


def test_nulls_are_nullable_whatever_the_manifest_says() -> None:
    field = Field("s", 0, logical_type="struct", children=(Field("n", 1, 0, "null", nullable=False),))
    assert field.arrow_type.field("n").nullable


def test_maps_with_keys_of_the_null_type_are_refused() -> None:
    entries = Field("e", 1, 0, "struct", children=(Field("k", 2, 1, "null"), Field("v", 3, 1, "int32")))
    with pytest.raises(FormatError, match="null type"):
        _ = Field("m", 0, logical_type="map", children=(entries,)).arrow_type


@pytest.mark.parametrize("name", ["14.0.2_v22_maps", "14.0.2_v23_maps"])
def test_maps_whose_keys_are_in_no_file_are_refused(name: str, tmp_path: Path) -> None:
    root = golden(name).copy_to(tmp_path)
    [path] = root.glob("_versions/*.manifest")
    position, message = tail_message(path.read_bytes(), table_pb2.Manifest)
    maps = {field.id: field.name for field in message.fields if field.logical_type == "map"}
    entries = {field.id: maps[field.parent_id] for field in message.fields if field.parent_id in maps}
    keys = [next(f for f in message.fields if f.parent_id == entry) for entry in entries]
    for number, key in enumerate(keys):
        key.id = 1_000_000 + number
    path.write_bytes(with_tail(path.read_bytes(), position, message))
    ds = lancecy.dataset(root)
    assert len(keys) == len(maps) > 0
    for top in set(entries.values()) & set(ds.schema.names):
        with pytest.raises(FormatError, match="keys of the map"):
            ds.to_table(columns=[top])
