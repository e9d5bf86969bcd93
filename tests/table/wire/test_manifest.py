"""Manifest files: what they say, and what they may not say."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import lancecy
from lancecy.errors import FormatError, LanceError, LimitError, TruncatedError, UnsupportedError
from lancecy.limits import Limits
from lancecy.proto import table_pb2
from lancecy.table.manifest import DeletionFileType, ExternalFile, Manifest
from lancecy.table.wire import manifest as manifest_wire
from lancecy.table.wire.manifest import decode
from lancecy.table.wire.outline import decode_outline
from tests.helpers.builders import (
    MADE_AT,
    encode_manifest,
    make_base,
    make_data_file,
    make_deletion_file,
    make_fragment,
    make_manifest,
    make_schema,
    manifest_file,
    manifest_message,
    memory_of,
)
from tests.helpers.folded import folded

PATH = "_versions/9.manifest"


def decoded(data: bytes, limits: Limits | None = None) -> Manifest:
    return decode(memory_of(data), PATH, limits or Limits())


def altered(change: Callable[[table_pb2.Manifest], object], **parts: Any) -> bytes:
    """The file of an ordinary manifest after a change of its message."""
    message = manifest_message(make_manifest(**parts))
    change(message)
    return manifest_file(message)


def test_everything_survives_a_round_trip() -> None:
    manifest = make_manifest(
        fragments=(
            make_fragment(
                3,
                files=(
                    make_data_file(path="one.lance", fields=(0, 1, -2), file_size_bytes=845, base_id=0),
                    make_data_file(
                        path="two.lance",
                        fields=(2, 3, 4),
                        column_indices=(0, -1, 1),
                        file_major_version=2,
                        file_minor_version=1,
                    ),
                ),
                deletion_file=make_deletion_file(base_id=4),
                row_ids=b"\x0a\x00",
                last_updated_versions=b"",
                created_at_versions=ExternalFile("x/y.bin", 5, 6),
            ),
            make_fragment(8, files=(), physical_rows=None),
        ),
        tag="spring",
        reader_flags=19,
        writer_flags=27,
        next_row_id=2**40,
        config={"a.b": "c"},
        table_metadata={"d": ""},
        base_paths={
            0: make_base(0, "s3://bucket/t", name="cold"),
            4: make_base(4, "/x/", is_dataset_root=False),
        },
        branch="feature/one",
        transaction_file="8-abc.txn",
    )
    assert decoded(encode_manifest(manifest)) == manifest


def test_what_old_releases_leave_out_is_none() -> None:
    message = table_pb2.Manifest(version=1)
    manifest = decoded(manifest_file(message))
    assert manifest == Manifest(1, manifest.schema)
    assert manifest.schema.fields == ()
    assert manifest.max_fragment_id is None
    assert decode_outline(memory_of(manifest_file(message)), PATH).timestamp is None


def test_zero_is_not_absent() -> None:
    manifest = decoded(encode_manifest(make_manifest(max_fragment_id=0, branch=""), transaction=b""))
    assert manifest.max_fragment_id == 0
    assert manifest.branch == ""
    assert manifest.transaction_section == (4, 0)
    assert manifest.index_section is None


@pytest.mark.parametrize("field", [21, 23])
def test_sections_are_located(field: int) -> None:
    data = encode_manifest(
        make_manifest(),
        dictionaries=b"values" * 5,
        indices=b"INDICES",
        transaction=b"txn",
        transaction_field=field,
    )
    manifest = decoded(data)
    assert manifest.index_section == (34, 7)
    assert manifest.transaction_section == (45, 3)
    assert data[34:41] == b"INDICES"
    assert data[45:48] == b"txn"


def test_newer_transaction_position_wins() -> None:
    def change(message: table_pb2.Manifest) -> None:
        message.transaction_section_deprecated = 3
        message.transaction_section = 0

    message = manifest_message(make_manifest())
    change(message)
    assert decoded(manifest_file(message, b"\x02\x00\x00\x00\x01\x00\x00\x00x")).transaction_section == (4, 2)


@folded("name", ["index_section", "transaction_section", "transaction_section_deprecated"])
@folded("position", [2**63, 2**64 - 1, 10_000, 100])
def test_section_that_passes_the_end_is_refused(name: str, position: int) -> None:
    with pytest.raises(FormatError, match="byte"):
        decoded(altered(lambda m: setattr(m, name, position)))


def test_timestamp_is_in_utc_with_microseconds() -> None:
    data = encode_manifest(make_manifest())
    assert decoded(data).timestamp == MADE_AT
    assert decode_outline(memory_of(data), PATH).timestamp == MADE_AT
    early = altered(lambda m: m.timestamp.FromDatetime(datetime(1960, 1, 1)))
    assert decoded(early).timestamp == datetime(1960, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(("seconds", "nanos"), [(2**62, 0), (-(2**62), 0), (10**12, 0), (0, -1), (0, 10**9)])
def test_impossible_timestamp_is_refused(seconds: int, nanos: int) -> None:
    def change(message: table_pb2.Manifest) -> None:
        message.timestamp.seconds, message.timestamp.nanos = seconds, nanos

    with pytest.raises(FormatError, match="timestamp"):
        decoded(altered(change))


# -- fragments ----------------------------------------------------------------


def test_fragments_are_sorted_by_id() -> None:
    manifest = make_manifest(fragments=(make_fragment(15), make_fragment(3), make_fragment(12)))
    assert [f.id for f in decoded(encode_manifest(manifest)).fragments] == [3, 12, 15]


def test_fragments_without_ids_are_numbered_by_position() -> None:
    # The C++ releases wrote no ids and no largest id.
    fragments = tuple(make_fragment(0, files=(make_data_file(path=f"{i}.lance"),)) for i in range(3))
    found = decoded(encode_manifest(make_manifest(fragments=fragments, max_fragment_id=None))).fragments
    assert [(f.id, f.files[0].path) for f in found] == [(0, "0.lance"), (1, "1.lance"), (2, "2.lance")]


@pytest.mark.parametrize(
    "parts",
    [
        {"fragments": (make_fragment(4), make_fragment(2), make_fragment(4)), "max_fragment_id": None},
        {"fragments": (make_fragment(0), make_fragment(0)), "max_fragment_id": 0},
        {
            "fragments": (make_fragment(0), make_fragment(0, deletion_file=make_deletion_file())),
            "max_fragment_id": None,
        },
    ],
)
def test_fragments_of_one_id_are_told_apart(parts: dict[str, Any]) -> None:
    found = decoded(encode_manifest(make_manifest(**parts))).fragments
    assert sorted(part.id for part in parts["fragments"]) == [part.stored_id for part in found]
    assert len({part.id for part in found}) == len(found)
    assert found[-1].id == found[-2].id + (1 << 32)
    # Row ids name rows wherever they are, so the table is damaged.
    with pytest.raises(FormatError, match="two fragments have id"):
        decoded(encode_manifest(make_manifest(**parts, reader_flags=2)))


def test_equal_field_lists_are_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    # Fragments of other manifests have lists of their own, and an equal manifest may have been read with some of them.
    monkeypatch.setattr(manifest_wire, "_RECENT", manifest_wire._RecentFragments())
    manifest_wire._kept.cache_clear()
    first, second = decoded(encode_manifest(make_manifest())).fragments
    assert first.files[0].fields is second.files[0].fields


@pytest.mark.parametrize(
    ("fragment", "complaint"),
    [
        (make_fragment(2**32), "32 bits"),
        (make_fragment(2**63), "32 bits"),
        (make_fragment(5, physical_rows=2**32 + 1), "rows_per_file"),
        (make_fragment(5, physical_rows=2**63), "rows_per_file"),
        (make_fragment(5, physical_rows=2, deletion_file=make_deletion_file()), "3 of 2 rows"),
        (make_fragment(5, files=(make_data_file(column_indices=(0, 1)),)), "5 fields but 2 columns"),
    ],
)
def test_impossible_fragment_is_refused(fragment: Any, complaint: str) -> None:
    with pytest.raises(FormatError, match=complaint):
        decoded(encode_manifest(make_manifest(fragments=(fragment,))))


def test_unknown_row_counts_are_none() -> None:
    fragment = make_fragment(physical_rows=0, deletion_file=make_deletion_file(num_deleted_rows=0))
    (found,) = decoded(encode_manifest(make_manifest(fragments=(fragment,)))).fragments
    assert found.physical_rows is None
    assert found.deletion_file is not None
    assert found.deletion_file.num_deleted_rows is None
    assert found.deletion_file.file_type is DeletionFileType.ARROW


def test_number_of_fragments_is_limited() -> None:
    with pytest.raises(LimitError, match=r"Limits\.fragments"):
        decoded(encode_manifest(make_manifest()), Limits(fragments=1))


# -- features that change the rows ---------------------------------------------


def _first(message: table_pb2.Manifest) -> table_pb2.DataFragment:
    return message.fragments[0]


@pytest.mark.parametrize(
    ("change", "feature"),
    [
        (lambda m: setattr(m, "fragment_tree", b""), "fragment tree"),
        (lambda m: _first(m).overlays.append(b""), "overlay"),
        (lambda m: _first(m).row_id_column.SetInParent(), "hidden"),
        (lambda m: _first(m).created_at_version_column.SetInParent(), "hidden"),
        (lambda m: _first(m).last_updated_at_version_column.SetInParent(), "hidden"),
        (lambda m: setattr(_first(m).deletion_file, "file_type", 7), "deletion file type"),
        (lambda m: setattr(m.data_format, "file_format", "parquet"), "parquet"),
    ],
)
def test_unread_feature_is_refused_without_its_flag(
    change: Callable[[table_pb2.Manifest], object], feature: str
) -> None:
    with pytest.raises(UnsupportedError, match=feature) as caught:
        decoded(altered(change))
    assert feature.split(maxsplit=1)[0] in caught.value.feature


def test_unknown_fields_are_passed_over() -> None:
    message = manifest_message(make_manifest())
    data = message.SerializeToString() + b"\xfa\x3e\x03abc" + b"\xf8\x3e\x07"  # fields 1007
    message.max_allocated_field_id, message.max_clustering_id = 12, 3
    message.clustering.append(b"anything")
    assert decoded(manifest_file(data)) == make_manifest()
    assert decoded(manifest_file(message)) == make_manifest()


def test_base_id_given_twice_is_refused() -> None:
    with pytest.raises(FormatError, match="two base paths have id 4"):
        decoded(altered(lambda m: [m.base_paths.add(id=4, path=p) for p in ("/a", "/b")]))


# -- damage --------------------------------------------------------------------


def test_file_of_zeros_is_refused() -> None:
    for size in (0, 1, 15, 16, 20, 400):
        with pytest.raises(FormatError):
            decoded(bytes(size))


def test_manifest_without_a_version_is_refused() -> None:
    with pytest.raises(FormatError, match="without a version"):
        decoded(manifest_file(b""))


def test_every_truncation_is_refused() -> None:
    data = encode_manifest(make_manifest(), indices=b"abcdef", transaction=b"txn")
    for length in range(len(data)):
        with pytest.raises(FormatError):
            decoded(data[:length])


def test_every_missing_front_is_refused() -> None:
    data = encode_manifest(make_manifest())
    for start in range(1, len(data)):
        with pytest.raises(FormatError):
            decoded(data[start:])


@pytest.mark.parametrize("position", [-1, -(2**63), 2**63 - 1, 3, 10**6])
def test_wrong_position_of_the_message_is_refused(position: int) -> None:
    data = encode_manifest(make_manifest())
    with pytest.raises(FormatError):
        decoded(data[:-16] + struct.pack("<q", position) + data[-8:])


def test_position_beyond_the_message_names_the_place() -> None:
    data = encode_manifest(make_manifest())
    with pytest.raises(TruncatedError) as caught:
        decoded(struct.pack("<I", 2**31) + data[4:])
    assert caught.value.path == PATH
    assert PATH in str(caught.value)


def test_single_bit_flips_give_a_manifest_or_an_error() -> None:
    manifest = make_manifest(
        fragments=(
            make_fragment(2, deletion_file=make_deletion_file(), row_ids=b"\x0a\x00"),
            make_fragment(3),
        ),
        config={"k": "v"},
        base_paths={1: make_base()},
    )
    data = encode_manifest(manifest, indices=b"", transaction=b"x")
    outcomes = {"same": 0, "other": 0, "error": 0}
    for bit in range(len(data) * 8):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        try:
            found = decoded(bytes(damaged))
            outcomes["same" if found == decoded(data) else "other"] += 1
            assert found.schema.by_id is not None
        except LanceError:
            outcomes["error"] += 1
    assert outcomes["error"] > 500
    assert outcomes["other"] > 500  # the format has no checksum


def test_random_damage_gives_a_manifest_or_an_error() -> None:
    rng = random.Random(5)
    data = encode_manifest(make_manifest(base_paths={1: make_base()}), transaction=b"x")
    for _ in range(3000):
        damaged = bytearray(data)
        for _ in range(rng.randrange(1, 9)):
            damaged[rng.randrange(len(damaged) - 20)] = rng.randrange(256)
        with suppress(LanceError):
            assert decoded(bytes(damaged)).version > 0


def test_schema_of_the_manifest_is_decoded_with_its_metadata() -> None:
    assert decoded(encode_manifest(make_manifest())).schema == make_schema()


def test_manifest_that_was_written_is_the_one_in_its_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manifest_wire, "check_bulk", None)
    bases = [lancecy.DatasetBasePath(tmp_path / "b", name="b")]
    ds = lancecy.write_dataset({"a": range(120)}, tmp_path / "t", initial_bases=bases, max_rows_per_file=2)
    ds.append({"a": [1]}, target_bases=["b"])
    ds.delete("a % 5 = 0")
    ds.update_config({"k": "v"})
    files = [memory_of(file.read_bytes()) for file in (tmp_path / "t" / "_versions").iterdir()]
    # Nobody has looked at their fragments: there is nothing to do that with.
    remembered = [decode(memory, PATH) for memory in files]
    monkeypatch.undo()
    manifest_wire._kept.cache_clear()
    for written in remembered:
        (read,) = (m for m in (decode(memory, PATH) for memory in files) if m.version == written.version)
        assert written is not read
        for attribute in (*(field.name for field in fields(read)), "num_rows"):
            assert getattr(written, attribute) == getattr(read, attribute), (read.version, attribute)


@folded("count", [3, 500])
def test_versions_share_the_fragments_that_both_have(count: int) -> None:
    message = table_pb2.Manifest(version=1)
    for number in range(count):
        message.fragments.add(id=number, physical_rows=10).files.add(path=f"{number}", fields=[0])
    first = decoded(manifest_file(message))
    before = first.fragments
    message.version = 2
    message.fragments[1].deletion_file.num_deleted_rows = 1
    message.fragments.add(id=count, physical_rows=1 << 20)
    second = decoded(manifest_file(message))
    assert [one is other for one, other in zip(before, second.fragments, strict=False)] == [
        number != 1 for number in range(count)
    ]
    assert second.fragments[1].deletion_file is not None
    assert second.fragment_table.live.tolist() == [10, 9, *[10] * (count - 2), 1 << 20]
    assert first.fragments == before
    # What other limits allow is checked again.
    with pytest.raises(LimitError, match="rows"):
        decode(memory_of(manifest_file(message)), PATH, Limits(rows_per_file=1 << 10)).fragments  # noqa: B018
