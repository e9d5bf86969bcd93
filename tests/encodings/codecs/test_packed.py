"""Packed structs with fields of varying size: split into fields, with nulls, and damaged."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest

from lancecy.errors import FormatError
from lancecy.schema import Field
from tests.helpers.folded import folded
from tests.helpers.pages21 import (
    BuiltPage,
    column_of,
    fixed_list,
    flat,
    full_zip,
    general,
    leaf_field,
    packed,
    packed_fields,
    rows_of,
    variable,
)

PACKED = {"lance-encoding:packed": b"true"}
FIELDS = ((flat(64), 64, False), (variable(), 32, True), (fixed_list(2, flat(16)), 32, False))
ROWS: list[Any] = [
    {"x": 7, "s": "seven", "v": [1, 2]},
    None,
    {"x": -1, "s": "", "v": [3, 4]},
    {"x": 0, "s": "x" * 300, "v": [5, 6]},
]


def struct_field(*children: Field) -> Field:
    found = children or (
        leaf_field("int64", "x", 4),
        leaf_field("string", "s", 5),
        leaf_field("fixed_size_list:int16:2", "v", 6),
    )
    return leaf_field("struct", "c", 3, children=found, metadata=PACKED)


def payload(row: dict[str, Any]) -> bytes:
    text: bytes = row["s"].encode()
    return struct.pack("<qI", row["x"], len(text)) + text + struct.pack("<2h", *row["v"])


def zipped(payloads: list[bytes | None], fields: Any = FIELDS, *, nullable: bool = True) -> BuiltPage:
    entries = [
        (b"\x00" if nullable else b"") + len(part).to_bytes(4, "little") + part
        if part is not None
        else b"\x01"
        for part in payloads
    ]
    ends = np.cumsum([0, *map(len, entries)]).astype("<u4").tobytes()
    layout = full_zip(
        packed_fields(*fields),
        len(entries),
        (3,) if nullable else (1,),
        length_bits=32,
        def_bits=int(nullable),
    )
    return BuiltPage(layout, [b"".join(entries), ends], len(entries), (2, 2))


@pytest.mark.parametrize("rows", [None, [1], [0, 3], [1, 2]])
def test_rows_with_nulls(rows: list[int] | None) -> None:
    page = zipped([None if row is None else payload(row) for row in ROWS])
    assert rows_of(page, struct_field(), rows=rows) == (ROWS if rows is None else [ROWS[row] for row in rows])


def test_rows_without_nulls() -> None:
    rows = [row for row in ROWS if row is not None] * 50
    page = zipped([payload(row) for row in rows], nullable=False)
    assert rows_of(page, struct_field()) == rows
    assert rows_of(page, struct_field(), rows=[3, 99, 149]) == [rows[3], rows[99], rows[149]]


def test_nothing_but_nulls() -> None:
    assert rows_of(zipped([None] * 3), struct_field()) == [None] * 3


def test_packed_structs_in_lists() -> None:
    first, second = payload(ROWS[0]), payload(ROWS[2])
    data = b"".join(
        bytes([word]) + (b"" if part is None else len(part).to_bytes(4, "little") + part)
        for word, part in ((4, first), (1, None), (6, None), (4, second))
    )
    layout = full_zip(
        packed_fields(*FIELDS), 4, (3, 5), length_bits=32, rep_bits=1, def_bits=2, num_visible=3
    )
    ends = np.cumsum([0, len(first) + 6, 1, len(second) + 5]).astype("<u4").tobytes()
    page = BuiltPage(layout, [data, ends], 3, (2, 2))
    item = struct_field()
    outer = leaf_field("list.struct", "l", 2, children=(item,))
    assert rows_of(page, outer, item) == [[ROWS[0], None], [], [ROWS[2]]]


def test_long_lengths_and_offsets() -> None:
    child = leaf_field("large_binary", "s", 5)
    parts: list[bytes | None] = [len(text).to_bytes(8, "little") + text for text in (b"", b"abc")]
    page = zipped(parts, [(variable(64), 64, True)])
    assert rows_of(page, struct_field(child)) == [{"s": b""}, {"s": b"abc"}]


def test_booleans_of_a_byte() -> None:
    child = leaf_field("bool", "b", 5)
    page = zipped([b"\x01", b"\x00", None, b"\x01"], [(flat(8), 8, False)])
    assert rows_of(page, struct_field(child)) == [{"b": True}, {"b": False}, None, {"b": True}]


def test_rows_of_one_width_as_one_value() -> None:
    children = leaf_field("int32", "a", 4), leaf_field("int16", "b", 5)
    cells = b"".join(
        bytes([level]) + struct.pack("<ih", *row) for level, *row in ((0, 1, 2), (1, 0, 0), (0, 5, 6))
    )
    layout = full_zip(packed([32, 16], flat(48)), 3, (3,), bits=48, def_bits=1)
    page = BuiltPage(layout, [cells], 3)
    assert rows_of(page, struct_field(*children)) == [{"a": 1, "b": 2}, None, {"a": 5, "b": 6}]
    assert rows_of(page, struct_field(*children), rows=[1, 2]) == [None, {"a": 5, "b": 6}]


def _changed(at: int, to: int) -> bytes:
    good = payload(ROWS[0])
    return good[:at] + bytes([to]) + good[at + 1 :]


@folded(
    "bad",
    [
        payload(ROWS[0])[:-1],
        payload(ROWS[0])[:3],
        payload(ROWS[0]) + b"!",
        payload(ROWS[0])[:10],
        _changed(8, 6),
        _changed(8, 4),
        _changed(8, 250),
        _changed(11, 0xFF),
        b"",
    ],
)
def test_rows_that_do_not_fit_their_fields_are_refused(bad: bytes) -> None:
    page = zipped([payload(ROWS[2]), None, bad])
    with pytest.raises(FormatError, match="packed row") as caught:
        rows_of(page, struct_field())
    assert caught.value.position == (2 if bad else None)


def test_lengths_of_64_bits_do_not_wrap_round() -> None:
    child = leaf_field("large_binary", "s", 5)
    page = zipped([(2**64 - 8).to_bytes(8, "little") + b"abc"], [(variable(64), 64, True)])
    with pytest.raises(FormatError, match="packed row 0"):
        rows_of(page, struct_field(child))


@pytest.mark.parametrize("fields", [FIELDS[:2], (*FIELDS, FIELDS[0]), (FIELDS[1], FIELDS[0], FIELDS[2])])
def test_fields_that_are_not_those_of_the_struct_are_refused(fields: Any) -> None:
    with pytest.raises(FormatError):
        rows_of(zipped([payload(ROWS[0])], fields), struct_field())


def test_a_field_whose_width_is_not_that_of_its_values_is_refused() -> None:
    with pytest.raises(FormatError, match="packed field of 32 bits"):
        rows_of(zipped([bytes(4)], [(flat(64), 32, False)]), struct_field(leaf_field("int64", "x", 4)))


def test_compressed_fields_are_read_one_by_one() -> None:
    import pyarrow as pa

    text = b"packed " * 100
    part = len(text).to_bytes(8, "little") + pa.Codec("zstd").compress(text, asbytes=True)
    page = zipped([len(part).to_bytes(4, "little") + part, None], [(general(2, variable()), 32, True)])
    built = column_of(page, is_mapped=False)
    assert rows_of(built, struct_field(leaf_field("string", "s", 5))) == [{"s": text.decode()}, None]
