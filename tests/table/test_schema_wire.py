"""Field lists to trees and back, and what a list of fields may not be."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancecy.errors import FormatError, LanceError, LimitError
from lancecy.limits import Limits
from lancecy.proto import file_pb2, table_pb2
from lancecy.schema import DictionaryRef, Field, Schema
from lancecy.schema_wire import decode_fields, decode_schema, encode_fields, parse_message, records
from tests.helpers.builders import make_field, make_schema
from tests.helpers.folded import folded


def message(name: str, id: int, parent_id: int = -1, **more: Any) -> file_pb2.Field:
    return file_pb2.Field(name=name, id=id, parent_id=parent_id, **more)


def test_round_trip_keeps_every_attribute() -> None:
    code = make_field(
        "code",
        7,
        logical_type="dict:string:int8:false",
        encoding=3,
        dictionary=DictionaryRef(96, 3),
        extension_name="an.extension",
        nullable=False,
        unenforced_primary_key=True,
        unenforced_primary_key_position=2,
    )
    schema = Schema((*make_schema().fields, code), {"k": b"v"})
    assert decode_schema(encode_fields(schema.fields), schema.metadata) == schema


def test_empty_dictionary_stays_present() -> None:
    field = make_field(dictionary=DictionaryRef(0, 0))
    (found,) = decode_fields(encode_fields([field]))
    assert found.dictionary == DictionaryRef(0, 0)


def test_absent_parent_means_below_field_zero() -> None:
    parsed = [message("s", 0, logical_type="struct"), file_pb2.Field(name="x", id=1)]
    (top,) = decode_fields(parsed)
    assert [child.name for child in top.children] == ["x"]


def test_children_keep_the_order_of_the_list_not_of_ids() -> None:
    parsed = [message("s", 4), message("late", 9, 4), message("early", 6, 4), message("t", 1)]
    s, t = decode_fields(parsed)
    assert (s.name, [c.name for c in s.children], t.name) == ("s", ["late", "early"], "t")


@folded(
    ("fields", "complaint"),
    [
        ([message("a", 3), message("b", 3)], "occurs twice"),
        ([message("a", -1)], "is negative"),
        ([message("x", 2, 1), message("s", 1)], "does not precede"),
        ([message("x", 2, 2)], "does not precede"),
        ([message("x", 2, -2)], "does not precede"),
        ([message("x", 2, 0)], "does not precede"),
        ([message("a", 0), message("a", 1)], "are called 'a'"),
        ([message("s", 0), message("x", 1, 0), message("x", 2, 0)], "are called 'x'"),
        ([message("s", 0), message("1 x", 1, 0), message("1 x", 2, 0)], "are called '1 x'"),
        ([message("d", 0, dictionary=file_pb2.Dictionary(offset=-8))], "dictionary of field"),
        ([message("d", 0, dictionary=file_pb2.Dictionary(length=-1))], "dictionary of field"),
    ],
)
def test_impossible_lists_are_refused(fields: list[file_pb2.Field], complaint: str) -> None:
    with pytest.raises(FormatError, match=complaint):
        decode_fields(fields)


def test_same_name_below_different_parents_is_fine() -> None:
    fields = [message("s", 0), message("x", 1, 0), message("t", 2), message("x", 3, 2), message("x", 4)]
    assert [f.name for f in decode_fields(fields)] == ["s", "t", "x"]


def chain(depth: int) -> list[file_pb2.Field]:
    return [message(f"n{i}", i, i - 1, logical_type="struct") for i in range(depth)]


def test_depth_is_limited_without_recursion() -> None:
    (top,) = decode_fields(chain(64))
    assert len(top.ids) == 64
    with pytest.raises(LimitError, match=r"Limits\.nesting"):
        decode_fields(chain(65))
    (deep,) = decode_fields(chain(5000), Limits(nesting=5000))
    assert sum(1 for _ in deep.walk()) == 5000


@pytest.mark.parametrize(
    ("fields", "limits", "name"),
    [
        ([message("a", 0), message("b", 1)], Limits(fields=1), "fields"),
        ([message("a" * 11, 0)], Limits(name_bytes=10), "name_bytes"),
        ([message("a", 0, logical_type="x" * 11)], Limits(name_bytes=10), "name_bytes"),
    ],
)
def test_limits_are_named(fields: list[file_pb2.Field], limits: Limits, name: str) -> None:
    with pytest.raises(LimitError) as caught:
        decode_fields(fields, limits)
    assert caught.value.limit == name


def test_nul_in_a_name_is_kept_and_printed_escaped() -> None:
    (field,) = decode_fields([message("a\0b", 0)])
    assert field.name == "a\0b"
    with pytest.raises(FormatError) as caught:
        decode_fields([message("a\0b", 0), message("a\0b", 0)])
    assert "\0" not in str(caught.value)
    assert r"a\x00b" in str(caught.value)


def test_many_equal_names_are_refused_in_linear_time() -> None:
    fields = [message("a", i) for i in range(50_000)] + [message("b", 50_000)]
    with pytest.raises(FormatError, match="called 'a'"):
        decode_fields(fields)


def test_records_give_the_spans_of_submessages() -> None:
    manifest = table_pb2.Manifest(version=3, tag="xyz", branch="b")
    data = manifest.SerializeToString()
    found = {number: data[start:stop] for number, start, stop in records(data)}
    assert found == {8: b"xyz", 20: b"b"}


@pytest.mark.parametrize("data", [b"\x0a\x05abc", b"\x0a", b"\x0b", b"\xff" * 11, b"\x09\0\0", b"\x80"])
def test_records_of_what_is_no_message_are_refused(data: bytes) -> None:
    with pytest.raises(FormatError):
        list(records(data))


@pytest.mark.parametrize("data", [b"\xff", b"\x12\x7f", b"\x12\x02\xff\xff", b"\x42\x02\xff\xfe"])
def test_bytes_that_are_no_message_are_refused(data: bytes) -> None:
    with pytest.raises(FormatError, match="thing is not a valid message"):
        parse_message(table_pb2.Manifest, data, "thing")


def test_message_beyond_the_limit_is_refused_unparsed() -> None:
    with pytest.raises(LimitError, match="metadata_bytes"):
        parse_message(table_pb2.Manifest, b"\xff" * 11, "thing", Limits(metadata_bytes=10))


@pytest.mark.slow
@pytest.mark.parametrize(
    "part",
    [
        b"\x12\x00",  # empty fragments
        b"\x0a\x00",  # empty fields
        b"\x12\x80\x08" + b"\x12\x00" * 512,  # fragments of empty files
        b"\x92\x01\x00",  # empty base paths
    ],
)
def test_message_of_nothing_but_empty_parts_is_refused_before_parsing(part: bytes) -> None:
    data = part * ((18 << 20) // len(part))
    with pytest.raises(LimitError, match="tiny parts"):
        parse_message(table_pb2.Manifest, data, "manifest")


def test_large_ordinary_message_is_parsed() -> None:
    manifest = table_pb2.Manifest(version=3)
    for number in range(40):
        manifest.schema_metadata[f"key {number}"] = bytes(500_000)
    data = manifest.SerializeToString()
    assert parse_message(table_pb2.Manifest, data, "manifest").version == 3


def _numbers() -> st.SearchStrategy[int]:
    return st.integers(-3, 6) | st.sampled_from([2**31 - 1, -(2**31)])


@given(
    st.lists(
        st.builds(
            message,
            name=st.text(max_size=3),
            id=_numbers(),
            parent_id=_numbers(),
            logical_type=st.sampled_from(["int8", "struct", "fixed_size_list:" * 90, "\0"]),
        ),
        max_size=8,
    )
)
def test_any_list_gives_a_schema_or_an_error(fields: list[file_pb2.Field]) -> None:
    try:
        schema = Schema(decode_fields(fields))
    except FormatError:
        return
    assert sorted(schema.by_id) == sorted(f.id for f in fields)
    with suppress(LanceError):
        assert schema.arrow is not None


@given(st.binary(max_size=80))
def test_any_bytes_give_a_message_or_an_error(data: bytes) -> None:
    for kind in (table_pb2.Manifest, file_pb2.Metadata):
        try:
            parse_message(kind, data, "thing")
        except FormatError:
            continue
        try:
            list(records(data))
        except FormatError:
            # The one thing protobuf reads that the walk does not: groups, which this format never had.
            assert any(byte & 7 in (3, 4) for byte in data)


def test_a_field_from_another_process_is_found_among_equal_ones() -> None:
    made = Field("a", 3, logical_type="struct", children=(Field("b", 4, 3, "int64"),), metadata={"k": b"v"})
    assert {made: 1}[made] == 1  # whatever is worked out on first use
    code = (
        "import pickle, sys\n"
        "from lancecy.schema import Field\n"
        "made = Field('a', 3, logical_type='struct', children=(Field('b', 4, 3, 'int64'),), metadata={'k': b'v'})\n"
        "found = pickle.load(sys.stdin.buffer)\n"
        "assert found == made\n"
        "assert {made: 1}[found] == {made.children[0]: 1}[found.children[0]] == 1\n"
    )
    for seed in ("1", "2"):
        subprocess.run(
            [sys.executable, "-c", code],
            input=pickle.dumps(made),
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONHASHSEED": seed},
            check=True,
        )
