"""Strings and dictionaries of 2.0 decoded from pages by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lancecy.encodings.model.block import Coded, Pieces, VariableWidth
from lancecy.encodings.v20 import dictionary as v20_dictionary
from lancecy.encodings.v20.wire.decode import parse_page
from lancecy.errors import FormatError, LanceError, LimitError, UnsupportedError
from lancecy.limits import Limits
from lancecy.rows import RowSelection
from lancecy.schema import Field
from tests.helpers.folded import folded
from tests.helpers.pages import Files
from tests.helpers.v20 import (
    ALL_NULL,
    PAGE,
    Page,
    binary,
    bit_stream,
    dictionary,
    ended,
    ends,
    fixed_binary,
    flat,
    fsst,
    list_of,
    mutated,
    no_nulls,
    packed_blocks,
    read_blocks,
    read_column,
    some_nulls,
)

mapped_or_not = folded("is_mapped", [True, False])

WORDS: list[list[bytes | None]] = [
    [b"a", None, b"", b"dd\xc3\xa9"],
    [None, None],
    [],
    [b"eee"],
    [b"", b"f", None, b"ggggg", None],
]
ALL_WORDS = [None if w is None else w.decode() for page in WORDS for w in page]

SELECTIONS: list[list[int] | slice] = [
    slice(None),
    slice(2, 9),
    slice(4, 5),
    slice(3, 3),
    [0, 3, 4, 7, 10],
    [11],
]
every_selection = folded("chosen", SELECTIONS, ids=str)


def leaf(kind: str) -> Field:
    return Field("x", 0, logical_type=kind)


def selection(chosen: list[int] | slice, num_rows: int = 12) -> RowSelection:
    if isinstance(chosen, slice):
        return RowSelection.range(num_rows, *chosen.indices(num_rows)[:2])
    return RowSelection.take(num_rows, chosen)


def pick(values: Sequence[Any], chosen: list[int] | slice) -> list[Any]:
    return list(values[chosen]) if isinstance(chosen, slice) else [values[i] for i in chosen]


def stream(values: Sequence[int], width: int) -> bytes:
    total = sum(v << (i * width) for i, v in enumerate(values))
    return total.to_bytes(-(-len(values) * width // 8), "little")


def zstd(data: bytes) -> bytes:
    frame: bytes = pa.Codec("zstd").compress(data, asbytes=True)
    return len(data).to_bytes(8, "little") + frame


# -- strings with running ends -----------------------------------------------------------------


def as_written(words: Sequence[bytes | None]) -> Page:
    return ended(words)


def wrapped(words: Sequence[bytes | None]) -> Page:
    """The form that 0.14 to 0.17 wrote, and the same inside a wrapper."""
    data = b"".join(w or b"" for w in words)
    encoding = binary(no_nulls(flat(64)), no_nulls(flat(8, 1)), len(data) + 1)
    return Page(no_nulls(encoding), len(words), [ends(words, len(data) + 1), data])


def huge_adjustment(words: Sequence[bytes | None]) -> Page:
    data = b"".join(w or b"" for w in words)
    encoding = binary(flat(64, 1), flat(8, 0), 1 << 63)
    return Page(encoding, len(words), [data, ends(words, 1 << 63)])


def with_compressed_bytes(words: Sequence[bytes | None]) -> Page:
    data = b"".join(w or b"" for w in words)
    encoding = binary(no_nulls(flat(64)), flat(8, 1, "zstd"), len(data) + 1)
    return Page(encoding, len(words), [ends(words, len(data) + 1), zstd(data)])


def with_packed_ends(words: Sequence[bytes | None]) -> Page:
    data = b"".join(w or b"" for w in words)
    numbers = np.frombuffer(ends(words, len(data) + 1), np.uint64).tolist()
    encoding = binary(no_nulls(bit_stream(6, 64)), no_nulls(bit_stream(8, 8, 1)), len(data) + 1)
    return Page(encoding, len(words), [stream(numbers, 6), stream(list(data), 8)])


def with_garbage(words: Sequence[bytes | None]) -> Page:
    """Nulls have bytes that no reader returns."""
    owned = [b"\xff?" if w is None else w for w in words]
    data = b"".join(owned)
    numbers = np.frombuffer(ends(owned, 0), np.uint64) + np.array(
        [99 if w is None else 0 for w in words], np.uint64
    )
    return Page(binary(flat(64), flat(8, 1), 99), len(words), [numbers.tobytes(), data + b"unused"])


MAKERS = [as_written, wrapped, huge_adjustment, with_compressed_bytes, with_packed_ends, with_garbage]


@mapped_or_not
@every_selection
@folded("kind", ["string", "large_string", "binary", "large_binary"])
@folded("make", MAKERS)
def test_strings(make: Any, kind: str, chosen: list[int] | slice, is_mapped: bool) -> None:
    pages = [make(words) for words in WORDS]
    array = read_column(leaf(kind), {0: pages}, selection(chosen), is_mapped=is_mapped)
    expected = pick(ALL_WORDS, chosen)
    if kind.endswith("binary"):
        expected = [None if w is None else w.encode() for w in expected]
    assert array.to_pylist() == expected


def test_pages_of_every_form_in_one_column() -> None:
    pages = [make(words) for make in MAKERS for words in WORDS]
    assert read_column(leaf("string"), {0: pages}).to_pylist() == ALL_WORDS * len(MAKERS)


def test_no_adjustment_means_all_null() -> None:
    page = Page(binary(flat(64), flat(8, 1), 0), 2, [ends([b"a", b"b"], 0), b"ab"])
    assert read_column(leaf("string"), {0: [page]}).to_pylist() == [None, None]


def test_validity_around_strings() -> None:
    inner = ended([b"a", b"b", None], first_buffer=1)
    page = Page(some_nulls(flat(1), inner.encoding), 3, [b"\x06", *inner.buffers])
    assert read_column(leaf("string"), {0: [page]}).to_pylist() == [None, "b", None]


def test_whole_pages_take_one_round_and_parts_two() -> None:
    pages = [as_written(words) for words in WORDS]
    for rows, rounds in ((RowSelection.all(12), 1), (RowSelection.range(12, 0, 8), 2)):
        files = Files(is_mapped=False)
        read_blocks(leaf("string"), {0: pages}, rows, files=files)
        assert len(files.rounds) == rounds
    files = Files(is_mapped=False)
    read_blocks(
        leaf("string"), {0: [as_written([b"abcd"] * 100)]}, RowSelection.range(100, 50, 60), files=files
    )
    assert [int(request.lengths.sum()) for part in files.rounds for request in part] == [88, 40]


def test_bytes_of_a_large_page_stay_in_the_map() -> None:
    page = as_written([b"x" * 1000] * 3000)
    files = Files()
    block = read_blocks(leaf("string"), {0: [page, page]}, files=files)
    assert isinstance(block, Pieces)
    for piece in block.blocks:
        assert isinstance(piece, VariableWidth)
        assert np.shares_memory(np.frombuffer(piece.values, np.uint8), files.contents["f"])  # type: ignore[call-overload]


def test_many_small_pages_are_one_block() -> None:
    pages = [as_written([str(i).encode()]) for i in range(2000)]
    block = read_blocks(leaf("string"), {0: pages})
    assert isinstance(block, VariableWidth)
    assert block.length == 2000


# -- other strings -------------------------------------------------------------------------------


@mapped_or_not
@every_selection
def test_strings_of_one_length(chosen: list[int] | slice, is_mapped: bool) -> None:
    words = [f"{i:03}" for i in range(12)]
    data = "".join(words).encode()
    pages = [
        Page(no_nulls(fixed_binary(3, no_nulls(flat(8)))), 5, [data[:15]]),
        Page(some_nulls(flat(1), fixed_binary(3, bit_stream(8, 8, 1))), 7, [b"\x7b", data[15:]]),
    ]
    array = read_column(leaf("string"), {0: pages}, selection(chosen), is_mapped=is_mapped)
    assert array.to_pylist() == pick([*words[:7], None, *words[8:]], chosen)


def test_strings_of_no_length() -> None:
    page = Page(fixed_binary(0, flat(8)), 4, [b""])
    assert read_column(leaf("binary"), {0: [page]}).to_pylist() == [b""] * 4
    many = Page(fixed_binary(0, flat(8)), 1 << 20, [b""])
    with pytest.raises(LimitError):
        read_column(leaf("binary"), {0: [many]}, limits=Limits(bare_elements=1000))


def symbol_table(symbols: Sequence[bytes], is_on: bool = True) -> bytes:
    header = (0x46535354 << 32) | (int(is_on) << 24) | len(symbols)
    table = header.to_bytes(8, "little") + b"".join(s.ljust(8, b"\0") for s in symbols)
    return (table + bytes(len(s) for s in symbols)).ljust(2312, b"\0")


@mapped_or_not
@every_selection
@folded("kind", ["string", "large_string"])
def test_strings_coded_with_symbols(kind: str, chosen: list[int] | slice, is_mapped: bool) -> None:
    coded: list[bytes | None] = [b"\x00\x01", None, b"\xff!\x02", b"", b"\x02\x02", b"\xffz"] * 2
    words = ["ab" + "cdefghij", None, "!k", "", "kk", "z"] * 2
    table = symbol_table([b"ab", b"cdefghij", b"k"])
    pages = [
        Page(fsst(page.encoding, table), page.num_rows, page.buffers)
        for page in (ended(coded[:5]), ended(coded[5:]))
    ]
    array = read_column(leaf(kind), {0: pages}, selection(chosen), is_mapped=is_mapped)
    assert array.to_pylist() == pick(words, chosen)
    raw = ended([b"a", None])
    page = Page(fsst(raw.encoding, symbol_table([b"zz"], is_on=False)), 2, raw.buffers)
    assert read_column(leaf(kind), {0: [page]}).to_pylist() == ["a", None]


@mapped_or_not
@every_selection
def test_strings_in_two_columns(chosen: list[int] | slice, is_mapped: bool) -> None:
    offsets = []
    for words in WORDS:
        total = sum(len(w or b"") for w in words)
        offsets.append(
            Page(list_of(no_nulls(flat(64)), total + 1, total), len(words), [ends(words, total + 1)])
        )
    data = b"".join(w or b"" for words in WORDS for w in words)
    pages = [
        Page(no_nulls(flat(8)), 5, [data[:5]]),
        Page(
            no_nulls(flat(8, 0, "zstd")), len(data) - 5, [pa.Codec("zstd").compress(data[5:], asbytes=True)]
        ),
    ]
    array = read_column(leaf("string"), {0: offsets, 1: pages}, selection(chosen), is_mapped=is_mapped)
    assert array.to_pylist() == pick(ALL_WORDS, chosen)


def test_strings_in_two_columns_need_both() -> None:
    offsets = [Page(list_of(flat(64), 4, 3), 1, [ends([b"abc"], 4)])]
    for other in (
        {},
        {1: [Page(flat(8), 2, [b"ab"])]},
        {1: [Page(flat(16), 3, [b"aabbcc"])]},
        {1: [Page(ALL_NULL, 3)]},
    ):
        with pytest.raises(FormatError):
            read_column(leaf("string"), {0: offsets, **other})


# -- dictionaries ----------------------------------------------------------------------------------


def named(words: Sequence[bytes | None], items: Sequence[bytes | None]) -> Page:
    """A page of strings with a dictionary: code 0 is null."""
    codes = bytes(0 if w is None else items.index(w) + 1 for w in words)
    stored = ended(items, first_buffer=1)
    return Page(
        dictionary(no_nulls(flat(8)), stored.encoding, len(items)), len(words), [codes, *stored.buffers]
    )


@mapped_or_not
@every_selection
@folded("kind", ["string", "large_string"])
def test_strings_named_by_a_dictionary(kind: str, chosen: list[int] | slice, is_mapped: bool) -> None:
    pages = [
        named(words, list(dict.fromkeys([b"unused", *(w for w in words if w is not None)])))
        for words in WORDS
    ]
    array = read_column(leaf(kind), {0: pages}, selection(chosen), is_mapped=is_mapped)
    assert array.to_pylist() == pick(ALL_WORDS, chosen)
    assert not isinstance(array, pa.ChunkedArray)
    coded = read_column(
        replace(leaf(kind), in_codes=True), {0: pages}, selection(chosen), is_mapped=is_mapped
    )
    assert pa.types.is_dictionary(coded.type) and coded.to_pylist() == pick(ALL_WORDS, chosen)


def test_strings_are_not_looked_up_for_who_takes_codes(monkeypatch: pytest.MonkeyPatch) -> None:
    pages = [named([b"a", None, b"b", b"a"], [b"b", b"a"]), named([b"c", b"c"], [b"c"])]
    text = replace(leaf("string"), in_codes=True)
    expected = read_column(text, {0: pages}).to_pylist()
    monkeypatch.delattr(v20_dictionary, "_strings_of_codes")
    assert read_column(text, {0: pages}).to_pylist() == expected == ["a", None, "b", "a", "c", "c"]


def test_null_and_empty_items_of_a_string_page() -> None:
    stored = ended([None, b"", b"a"], first_buffer=1)
    page = Page(dictionary(flat(8), stored.encoding, 3), 5, [bytes([1, 2, 3, 0, 1]), *stored.buffers])
    assert read_column(leaf("string"), {0: [page]}).to_pylist() == [None, "", "a", None, None]
    coded = read_column(replace(leaf("string"), in_codes=True), {0: [page]})
    assert coded.to_pylist() == [None, "", "a", None, None]
    page = Page(dictionary(flat(8), ALL_NULL, 1), 3, [bytes([1, 1, 0])])
    assert read_column(leaf("string"), {0: [page]}).to_pylist() == [None] * 3
    page = Page(dictionary(flat(8), ALL_NULL, 0), 3, [bytes(3)])
    assert read_column(leaf("string"), {0: [page]}).to_pylist() == [None] * 3


DICTIONARY = "dict:string:int8:false"


def coded(codes: Sequence[int], items: Sequence[bytes | None], dtype: str = "<i1") -> Page:
    """A page of an Arrow dictionary field."""
    stored = ended(items, first_buffer=1)
    raw = np.array(codes, dtype)
    encoding = dictionary(no_nulls(flat(raw.itemsize * 8)), stored.encoding, len(items))
    return Page(encoding, len(codes), [raw.tobytes(), *stored.buffers])


@mapped_or_not
@every_selection
@folded(("key", "dtype"), [("int8", "<i1"), ("uint16", "<u2"), ("int64", "<i8"), ("uint64", "<u8")])
def test_arrow_dictionaries(key: str, dtype: str, chosen: list[int] | slice, is_mapped: bool) -> None:
    pages = [
        coded([0, 1, 0, 2, 1], [b"a", b"b", None], dtype),
        coded([2, 1, 0], [None, b"a", b"c"], dtype),
        Page(ALL_NULL, 1),
        coded([0, 0, 1], [b"d", b"d"], dtype),
    ]
    expected = ["a", "b", "a", None, "b", "c", "a", None, None, "d", "d", "d"]
    array = read_column(leaf(f"dict:string:{key}:false"), {0: pages}, selection(chosen), is_mapped=is_mapped)
    assert array.to_pylist() == pick(expected, chosen)
    if len(array) and not isinstance(array, pa.ChunkedArray):
        assert array.dictionary.null_count == 0 or array.null_count == len(array)


def test_small_pages_share_a_dictionary_while_codes_can_count_it() -> None:
    pages = [coded(range(50), [b"%d" % (50 * p + i) for i in range(50)]) for p in range(5)]
    block = read_blocks(leaf(DICTIONARY), {0: pages})
    assert isinstance(block, Pieces)
    assert [
        (piece.length, piece.dictionary.length) for piece in block.blocks if isinstance(piece, Coded)
    ] == [
        (100, 100),
        (100, 100),
        (50, 50),
    ]
    assert read_column(leaf(DICTIONARY), {0: pages}).to_pylist() == [str(i) for i in range(250)]


def test_dictionary_with_validity_around_it() -> None:
    page = coded([0, 1, 0], [b"a", b"b"])
    shifted = dictionary(no_nulls(flat(8, 0)), binary(flat(64, 1), flat(8, 2), 3), 2)
    wrapped_page = Page(some_nulls(flat(1, 3), shifted), 3, [*page.buffers, b"\x06"])
    assert read_column(leaf(DICTIONARY), {0: [wrapped_page]}).to_pylist() == [None, "b", "a"]


@pytest.mark.parametrize(
    ("kind", "items", "data", "expected"),
    [
        ("int64", flat(64, 1), np.array([7, 9], "<i8").tobytes(), [9, 7]),
        ("float", no_nulls(flat(32, 1)), np.array([0.5, 2], "<f4").tobytes(), [2, 0.5]),
        ("bool", flat(1, 1), b"\x01", [False, True]),
    ],
)
def test_dictionaries_of_other_values(kind: str, items: bytes, data: bytes, expected: list[Any]) -> None:
    page = Page(dictionary(flat(16), items, 2), 2, [np.array([1, 0], "<i2").tobytes(), data])
    field = leaf(f"dict:{kind}:int16:false")
    assert read_column(field, {0: [page]}).to_pylist() == expected


def test_null_items_of_other_values() -> None:
    items = some_nulls(flat(1, 1), flat(1, 2))
    page = Page(dictionary(flat(8), items, 3), 4, [bytes([0, 1, 2, 1]), b"\x05", b"\x04"])
    assert read_column(leaf("dict:bool:int8:false"), {0: [page]}).to_pylist() == [False, None, True, None]
    items = some_nulls(flat(1, 1), flat(32, 2))
    page = Page(
        dictionary(flat(8), items, 3), 3, [bytes([2, 1, 0]), b"\x05", np.array([3, 4, 5], "<i4").tobytes()]
    )
    assert read_column(leaf("dict:int32:int8:false"), {0: [page]}).to_pylist() == [5, None, 3]


# -- refused pages ------------------------------------------------------------------------------------


def strings(numbers: Sequence[int], data: bytes = b"abc", adjustment: int = 50) -> Page:
    encoding = binary(flat(64), flat(8, 1), adjustment)
    return Page(encoding, len(numbers), [np.array(numbers, np.uint64).tobytes(), data])


CODES = dictionary(flat(8), binary(flat(64, 1), flat(8, 2), 9), 1)
BAD: dict[str, tuple[str, Page]] = {
    "ends that descend": ("string", strings([2, 1])),
    "ends past the bytes": ("string", strings([2, 4])),
    "null past the bytes": ("string", strings([2, 54])),
    "ends of 32 bits": ("string", Page(binary(flat(32), flat(8, 1), 9), 1, [bytes(4), b""])),
    "ends with nulls": (
        "string",
        Page(binary(some_nulls(flat(1), flat(64)), flat(8, 1), 9), 1, [bytes(8), b""]),
    ),
    "missing ends": ("string", Page(binary(flat(64), flat(8, 1), 9), 2, [bytes(15), b""])),
    "bytes of 16 bits": ("string", Page(binary(flat(64), flat(16, 1), 9), 1, [ends([b"ab"], 9), b"ab"])),
    "bytes that are null": ("string", Page(binary(flat(64), ALL_NULL, 9), 1, [ends([b"ab"], 9)])),
    "compressed bytes too short": (
        "string",
        Page(binary(flat(64), flat(8, 1, "zstd"), 9), 1, [ends([b"abc"], 9), zstd(b"ab")]),
    ),
    "text that is none": ("string", strings([2], b"\xff\xfe")),
    "fixed strings too short": ("string", Page(fixed_binary(3, flat(8)), 2, [b"abcde"])),
    "fixed strings of wide values": ("string", Page(fixed_binary(3, flat(16)), 1, [b"abc"])),
    "escape at the end": (
        "string",
        Page(fsst(ended([b"\xff"]).encoding, symbol_table([b"a"])), 1, ended([b"\xff"]).buffers),
    ),
    "unknown symbol": (
        "string",
        Page(fsst(ended([b"\x07"]).encoding, symbol_table([b"a"])), 1, ended([b"\x07"]).buffers),
    ),
    "no symbol table": ("string", Page(fsst(ended([b""]).encoding, bytes(2312)), 1, ended([b""]).buffers)),
    "code beyond the items": ("string", Page(CODES, 1, [b"\x02", ends([b"a"], 9), b"a"])),
    "codes of 16 bits": (
        "string",
        Page(
            dictionary(flat(16), binary(flat(64, 1), flat(8, 2), 9), 1), 1, [b"\x01\0", ends([b"a"], 9), b"a"]
        ),
    ),
    "codes with nulls": (
        "string",
        Page(
            dictionary(some_nulls(flat(1), flat(8, 1)), binary(flat(64, 2), flat(8, 3), 9), 1),
            2,
            [b"\x01", b"\x01\x01", ends([b"a"], 9), b"a"],
        ),
    ),
    "more items than there are": ("string", Page(CODES, 1, [b"\x01", b"", b""])),
    "dictionary of integers in strings": (
        "string",
        Page(dictionary(flat(8), flat(8, 1), 1), 1, [b"\x01", b"a"]),
    ),
    "dictionary for integers": ("int32", Page(CODES, 1, [b"\x01", ends([b"a"], 9), b"a"])),
    "strings for a dictionary": (DICTIONARY, strings([1])),
    "negative code": (DICTIONARY, coded([-1], [b"a"])),
    "code without an item": (DICTIONARY, coded([1], [b"a"])),
    "code of another width": (DICTIONARY, coded([0], [b"a"], "<i2")),
    "blocks for strings": ("string", Page(packed_blocks(3, 8), 1, [bytes(1024)])),
}


@mapped_or_not
@folded(("kind", "page"), BAD.values(), ids=list(BAD))
def test_bad_pages_are_refused(kind: str, page: Page, is_mapped: bool) -> None:
    with pytest.raises(FormatError):
        read_column(leaf(kind), {0: [page]}, is_mapped=is_mapped)


def test_one_page_cannot_use_the_items_of_the_next() -> None:
    for kind, pages in (
        ("string", [named([b"a"], [b"a"]), named([b"b"], [b"b"])]),
        (DICTIONARY, [coded([0], [b"a"]), coded([0], [b"b"])]),
    ):
        assert read_column(leaf(kind), {0: pages}).to_pylist() == ["a", "b"]
        bad = Page(pages[0].encoding, 1, [b"\x02", *pages[0].buffers[1:]])
        with pytest.raises(FormatError, match="code of row 0"):
            read_column(leaf(kind), {0: [bad, pages[1]]})


def test_ends_may_not_descend_between_runs() -> None:
    with pytest.raises(FormatError):
        read_column(leaf("string"), {0: [strings([3, 3, 1])]}, RowSelection.take(3, [0, 2]))


FUZZED: list[tuple[str, list[Page]]] = [
    *(("string", [make(words) for words in WORDS]) for make in MAKERS),
    ("string", [named([b"a", None, b"bb"], [b"a", b"bb"])] * 2),
    (DICTIONARY, [coded([0, 1, 0], [b"a", None])] * 2),
    ("string", [Page(fixed_binary(3, flat(8)), 2, [b"abcdef"])]),
]


@folded("case", range(len(FUZZED)))
def test_mutated_pages_give_values_or_errors(case: int) -> None:
    chance = np.random.default_rng(case)
    kind, pages = FUZZED[case]
    for _ in range(60):
        try:
            array = read_column(leaf(kind), mutated({0: pages}, chance), is_mapped=bool(chance.integers(2)))
        except LanceError:
            continue
        assert len(array) >= 0


@pytest.mark.parametrize("kind", ["string", "large_string"])
def test_strings_named_again_and_again_are_bounded(kind: str) -> None:
    page = named([b"x" * (1 << 20)] * 2048, [b"x" * (1 << 20)])
    with pytest.raises(LimitError, match="2147483648 bytes"):
        read_column(leaf(kind), {0: [page]})


def test_items_that_take_no_bytes_are_bounded() -> None:
    page = Page(dictionary(flat(8), ALL_NULL, 1 << 20), 1, [b"\x01"])
    assert read_column(leaf("string"), {0: [page]}).to_pylist() == [None]
    with pytest.raises(LimitError):
        read_column(leaf("string"), {0: [page]}, limits=Limits(bare_elements=1000))


def test_fixed_strings_of_release_0_18_are_named() -> None:
    page = Page(fixed_binary(3, flat(24)), 1, [b"abc"])
    with pytest.raises(UnsupportedError, match="release 0.18"):
        parse_page(PAGE, page.encoding, len(page.buffers))
