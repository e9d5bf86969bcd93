"""Handmade 0.1 files: every variation in file sheet 0.1, section 7.1, and invalid files beyond it."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest

from lancecy.encodings.arrow.to_arrow import to_arrow
from lancecy.encodings.model.block import Coded
from lancecy.errors import FormatError, LimitError, TruncatedError, UnsupportedError
from lancecy.file.base import FileReader
from lancecy.file.open import opening
from lancecy.file.tail import TAIL_BYTES
from lancecy.limits import Limits
from lancecy.proto import file_pb2, table_pb2
from lancecy.rows import RowSelection
from lancecy.schema import DictionaryRef, Field
from lancecy.store.reads import gather, run
from tests.helpers.folded import folded
from tests.helpers.pages import (
    Built,
    Files,
    Page,
    bits,
    build_file,
    list_offsets,
    nothing,
    open_built,
    plain,
    strings,
)


def leaf(name: str, field_id: int, kind: str, *, nullable: bool = True, parent: int = -1) -> Field:
    return Field(name, field_id, parent, kind, nullable)


INTS = leaf("a", 0, "int32")
WORDS = leaf("w", 1, "string")
POINT = Field(
    "p", 3, -1, "struct", children=(leaf("x", 4, "int16", parent=3), leaf("y", 5, "bool", parent=3))
)
TAGS = Field("t", 7, -1, "list", children=(leaf("item", 8, "int64", parent=7),))
ROWS = (3, 2, 4)
VALUES = [[1, 2, 3], [4, 5], [6, 7, 8, 9]]
TEXTS = [[b"a", b"", b"bcd"], [b"", b""], [b"e", b"f", b"", b"gh"]]
SHORTS = [[10, 11, 12], [13, 14], [15, 16, 17, 18]]
FLAGS = [[1, 0, 1], [1, 1], [0, 0, 0, 1]]
LISTS: list[list[list[int]]] = [[[21], [], [22, 23]], [[], []], [[24, 25], [26], [], [27]]]


def columns() -> dict[int, Sequence[Page]]:
    """All the columns above; ids 2 and 6 are holes."""
    return {
        0: [plain(v, "<i4") for v in VALUES],
        1: [strings(v) for v in TEXTS],
        4: [plain(v, "<i2") for v in SHORTS],
        5: [bits(v) for v in FLAGS],
        7: [list_offsets(np.cumsum([0, *map(len, v)]).tolist()) for v in LISTS],
        8: [plain([x for value in v for x in value], "<i8") for v in LISTS],
    }


FIELDS = (INTS, WORDS, POINT, TAGS)
EXPECTED = {
    "a": [x for v in VALUES for x in v],
    "w": [x.decode() or None for v in TEXTS for x in v],
    "p": [
        {"x": x, "y": bool(y)}
        for xs, ys in zip(SHORTS, FLAGS, strict=True)
        for x, y in zip(xs, ys, strict=True)
    ],
    "t": [x for v in LISTS for x in v],
}


def contents(
    reader: FileReader,
    files: Files,
    fields: Sequence[Field] = FIELDS,
    selection: RowSelection | None = None,
) -> dict[str, list[object]]:
    chosen = RowSelection.all(reader.num_rows) if selection is None else selection
    blocks = run(reader.read(fields, chosen), files.fetch)
    found = {}
    for field in fields:
        array = to_arrow(blocks[field.id], field)
        array.validate(full=True)
        found[field.name] = array.to_pylist()
    return found


def assert_reads(built: Built, fields: Sequence[Field] = FIELDS, *, is_mapped: bool = True) -> FileReader:
    reader, files = open_built(built, fields, Files(is_mapped))
    assert contents(reader, files, fields) == {f.name: EXPECTED[f.name] for f in fields}
    return reader


# -- what a reader tolerates --------------------------------------------------------------


@pytest.mark.parametrize("is_mapped", [True, False])
@pytest.mark.parametrize("padding", [0, 1, 7])
def test_plain_file_with_holes_and_unaligned_pages(padding: int, is_mapped: bool) -> None:
    reader = assert_reads(build_file(columns(), ROWS, structs=[3], padding=padding), is_mapped=is_mapped)
    assert reader.num_rows == 9
    assert reader.field_ids == {0, 1, 3, 4, 5, 7, 8}
    assert reader.page_starts(INTS).tolist() == [0, 3, 5, 9]


@pytest.mark.parametrize("footer", [(0, 0), (0, 1), (0, 2), (0, 3), (2, 0), (9, 9)])
def test_footer_version_does_not_matter(footer: tuple[int, int]) -> None:
    assert_reads(build_file(columns(), ROWS, structs=[3], footer=footer))


def test_struct_cells_of_the_cpp_era() -> None:
    assert_reads(build_file(columns(), ROWS, structs=[3], struct_cell=(-1, -1)))


def test_page_table_in_front_of_the_pages() -> None:
    assert_reads(build_file(columns(), ROWS, structs=[3], table_first=True))


def test_pages_in_any_order() -> None:
    backwards = dict(reversed(columns().items()))
    assert_reads(build_file(backwards, ROWS, structs=[3]))


def test_unknown_fields_in_the_metadata() -> None:
    unknown = b"\x9a\x06\x03abc" + b"\xa0\x06\x05"
    assert_reads(build_file(columns(), ROWS, structs=[3], unknown_fields=unknown))


def test_bytes_after_the_metadata() -> None:
    built = build_file(columns(), ROWS, structs=[3])
    assert_reads(
        Built(
            built.data[:-16] + b"padding" + built.data[-16:],
            built.ids,
            built.origin,
            built.num_batches,
            built.page_table_position,
            built.metadata_position,
        )
    )


@pytest.mark.parametrize("encoding", [0, 1, 2, 3, 4, 99])
def test_encoding_numbers_are_nonsense(encoding: int) -> None:
    fields = [leaf("a", 0, "int32"), leaf("w", 1, "string")]
    wrong = [Field(f.name, f.id, -1, f.logical_type, True, encoding) for f in fields]
    assert_reads(build_file(columns(), ROWS, structs=[3]), wrong)


def test_fields_that_the_schema_has_no_more() -> None:
    # Ids 1 to 5 are still listed for the file.
    assert_reads(build_file(columns(), ROWS, structs=[3]), [TAGS, INTS])


def test_page_longer_than_its_batch() -> None:
    built = build_file({0: [plain([1, 2, 3, 99], "<i4"), plain([4, 5], "<i4")]}, [3, 2])
    assert built.cell(0, 0)[1] == 4
    reader, files = open_built(built, [INTS])
    assert contents(reader, files, [INTS]) == {"a": [1, 2, 3, 4, 5]}


def test_list_page_longer_than_its_batch() -> None:
    built = build_file({7: [list_offsets([0, 1, 3, 4])], 8: [plain([1, 2, 3, 4], "<i8")]}, [2])
    reader, files = open_built(built, [TAGS])
    assert contents(reader, files, [TAGS]) == {"t": [[1], [2, 3]]}


def test_batches_without_rows() -> None:
    pages: dict[int, Sequence[Page]] = {
        0: [plain([], "<i4"), plain([1, 2], "<i4"), plain([], "<i4"), plain([3], "<i4"), plain([], "<i4")],
        7: [list_offsets([0]), list_offsets([0, 1, 1]), nothing(0), list_offsets([0, 2]), list_offsets([0])],
        8: [plain(v, "<i8") for v in ([], [5], [], [6, 7], [])],
    }
    built = build_file(pages, [0, 2, 0, 1, 0])
    # Empty pages may have any position.
    built = built.edited(0, 2, position=-5).edited(7, 2, position=10**15)
    reader, files = open_built(built, [INTS, TAGS])
    assert contents(reader, files, [INTS, TAGS]) == {"a": [1, 2, 3], "t": [[5], [], [6, 7]]}
    assert contents(reader, files, [TAGS], RowSelection.range(3, 1, 3)) == {"t": [[], [6, 7]]}


@pytest.mark.parametrize("batch_offsets", [[], [0]])
def test_no_batches_at_all(batch_offsets: list[int]) -> None:
    built = build_file({0: [], 1: []}, [], batch_offsets=batch_offsets)
    reader, files = open_built(built, [INTS, WORDS])
    assert reader.num_rows == 0
    assert contents(reader, files, [INTS, WORDS]) == {"a": [], "w": []}
    assert reader.column_bytes(INTS) == 0
    stats = run(reader.stats({("a",): (INTS,)}), files.fetch)
    assert stats.num_units == 0


def test_list_offsets_that_do_not_start_at_zero() -> None:
    built = build_file({7: [list_offsets([2, 3, 5])], 8: [plain([0, 0, 31, 32, 33], "<i8")]}, [2])
    reader, files = open_built(built, [TAGS])
    assert contents(reader, files, [TAGS]) == {"t": [[31], [32, 33]]}


def test_empty_strings_are_nulls_only_where_nulls_are_allowed() -> None:
    pages: dict[int, Sequence[Page]] = {0: [strings([b"x", b"", b"y"])], 1: [strings([b"x", b"", b"y"])]}
    fields = [leaf("n", 0, "string"), leaf("r", 1, "string", nullable=False)]
    reader, files = open_built(build_file(pages, [3]), fields)
    assert contents(reader, files, fields) == {"n": ["x", None, "y"], "r": ["x", "", "y"]}


def test_null_columns_take_no_bytes() -> None:
    fields = [leaf("n", 0, "null"), Field("l", 1, -1, "list", children=(leaf("item", 2, "null", parent=1),))]
    built = build_file({0: [nothing(3)], 1: [list_offsets([0, 2, 2, 5])], 2: [nothing(5)]}, [3])
    reader, files = open_built(built, fields)
    assert contents(reader, files, fields) == {"n": [None] * 3, "l": [[None] * 2, [], [None] * 3]}


def test_list_of_structs_and_of_lists() -> None:
    pair = (leaf("x", 2, "int8", parent=1), leaf("y", 3, "string", parent=1))
    structs = Field("s", 0, -1, "list.struct", children=(Field("item", 1, 0, "struct", children=pair),))
    inner = Field("item", 5, 4, "large_list", children=(leaf("item", 6, "bool", parent=5),))
    lists = Field("l", 4, -1, "list", children=(inner,))
    built = build_file(
        {
            0: [list_offsets([0, 2, 3])],
            2: [plain([1, 2, 3], "<i1")],
            3: [strings([b"p", b"", b"q"])],
            4: [list_offsets([0, 1, 3])],
            5: [list_offsets([0, 2, 2, 3], 8)],
            6: [bits([1, 0, 1])],
        },
        [2],
        structs=[1],
    )
    reader, files = open_built(built, [structs, lists])
    assert contents(reader, files, [structs, lists]) == {
        "s": [[{"x": 1, "y": "p"}, {"x": 2, "y": None}], [{"x": 3, "y": "q"}]],
        "l": [[[True, False]], [[], [True]]],
    }


# -- origin of the page table -------------------------------------------------------------


def late_columns() -> dict[int, Sequence[Page]]:
    """Columns of a file that was merged into a table later: ids 4 to 8."""
    return {i: pages for i, pages in columns().items() if i >= 4}


@pytest.mark.parametrize("origin", [None, 0])
def test_origin_of_old_merge_files_is_found(origin: int | None) -> None:
    shorts = leaf("x", 4, "int16")
    flags = leaf("y", 5, "bool")
    reader, files = open_built(build_file(late_columns(), ROWS, origin=origin), [shorts, flags, TAGS])
    found = contents(reader, files, [shorts, flags, TAGS])
    assert found["x"] == [x for v in SHORTS for x in v]
    assert found["y"] == [bool(x) for v in FLAGS for x in v]
    assert found["t"] == EXPECTED["t"]


@pytest.mark.parametrize("origin", [None, 0])
@pytest.mark.parametrize("struct_cell", [(0, 0), (-1, -1)])
def test_origin_is_found_when_the_first_field_is_a_struct(
    struct_cell: tuple[int, int], origin: int | None
) -> None:
    # Row 0 of the table is zero under both readings: a struct's, or a hole's.
    built = build_file(late_columns(), ROWS, structs=[3], struct_cell=struct_cell, origin=origin)
    assert_reads(built, [POINT, TAGS])
    assert_reads(built, [POINT])


@pytest.mark.parametrize("origin", [None, 0])
def test_origin_with_neighbouring_ids_of_the_same_type(origin: int | None) -> None:
    # Ids 1 to 4: under the wrong origin three of four rows look right.
    pages: dict[int, Sequence[Page]] = {i: [plain(np.arange(5) * 10 + i, "<i4")] for i in (1, 2, 3, 4)}
    fields = [leaf(f"c{i}", i, "int32") for i in (1, 2, 3, 4)]
    reader, files = open_built(build_file(pages, [5], origin=origin), fields)
    assert [v[0] for v in contents(reader, files, fields).values()] == [1, 2, 3, 4]


def test_origin_is_that_of_an_id_that_moved_to_another_file() -> None:
    # The manifest no longer lists id 4; the page table still starts there.
    flags = leaf("y", 5, "bool")
    built = build_file(late_columns(), ROWS)
    reader, files = open_built(built, [flags, TAGS], field_ids=[-2, 5, 7, 8])
    assert contents(reader, files, [TAGS]) == {"t": EXPECTED["t"]}


def test_ids_in_any_order() -> None:
    built = build_file(columns(), ROWS, structs=[3])
    reader, files = open_built(built, FIELDS, field_ids=[8, 0, 7, 5, 4, 3, 1])
    assert contents(reader, files) == EXPECTED


def test_trailing_id_without_a_row() -> None:
    built = build_file({0: columns()[0], 1: columns()[1]}, ROWS)
    extra = leaf("z", 9, "int64")
    reader, files = open_built(built, [INTS, WORDS], field_ids=[0, 1, 9])
    assert contents(reader, files, [INTS]) == {"a": EXPECTED["a"]}
    with pytest.raises(FormatError, match="page table"):
        contents(reader, files, [extra])


# -- dictionaries ---------------------------------------------------------------------------


def dictionary_file(values: Page, length: int, **edits: object) -> tuple[FileReader, Files, Field]:
    files = Files()
    data, start, _ = values(3)
    manifest = files.add("_versions/1.manifest", b"~~~" + data)
    ref = DictionaryRef(3 + start, length)
    kind = str(edits.get("kind", "dict:string:int8:false"))
    field = Field("d", 0, -1, kind, nullable=bool(edits.get("nullable", True)), dictionary=ref)
    built = build_file({0: [plain([1, 0], "<i1"), plain([2, 2, 1], "<i1")]}, [2, 3])
    reader, files = open_built(built, [field], files, dictionary_source=manifest)
    return reader, files, field


def test_dictionary_values_come_from_the_manifest_file() -> None:
    reader, files, field = dictionary_file(strings([b"red", b"", b"blue"]), 3)
    assert contents(reader, files, [field]) == {"d": [None, "red", "blue", "blue", None]}
    rounds = len(files.rounds)
    first = run(reader.read([field], RowSelection.range(5, 0, 1)), files.fetch)[0]
    second = run(reader.read([field], RowSelection.range(5, 1, 2)), files.fetch)[0]
    # The values are read once per reader.
    assert isinstance(first, Coded)
    assert isinstance(second, Coded)
    assert first.dictionary is second.dictionary
    asked = {request.file.path for requests in files.rounds[rounds:] for request in requests}
    assert asked == {"data/built.lance"}


def test_dictionary_of_numbers() -> None:
    reader, files, field = dictionary_file(plain([7, 8, 9], "<i8"), 3, kind="dict:int64:int8:false")
    assert contents(reader, files, [field]) == {"d": [8, 7, 9, 9, 8]}


def test_empty_dictionary_entry_of_a_required_field_is_empty() -> None:
    reader, files, field = dictionary_file(strings([b"red", b"", b"blue"]), 3, nullable=False)
    assert contents(reader, files, [field]) == {"d": ["", "red", "blue", "blue", ""]}


@pytest.mark.parametrize("length", [0, 1, 2])
def test_codes_beyond_the_dictionary_are_refused(length: int) -> None:
    reader, files, field = dictionary_file(strings([b"red", b"", b"blue"]), length)
    with pytest.raises(FormatError, match="column 0 'd' of data/built.lance"):
        contents(reader, files, [field])


@pytest.mark.parametrize("length", [4, 2**30])
def test_dictionary_outside_the_manifest_is_refused(length: int) -> None:
    reader, files, field = dictionary_file(strings([b"red", b"", b"blue"]), length)
    with pytest.raises(FormatError, match="1.manifest"):
        contents(reader, files, [field])


def test_dictionary_beyond_the_limit_is_refused() -> None:
    reader, files, field = dictionary_file(strings([b"red", b"", b"blue"]), 2**40)
    with pytest.raises(LimitError, match="dictionary_values"):
        contents(reader, files, [field])


def test_dictionary_field_without_a_place_is_refused() -> None:
    field = Field("d", 0, -1, "dict:string:int8:false")
    built = build_file({0: [plain([0], "<i1")]}, [1])
    files = Files()
    reader, files = open_built(built, [field], files, dictionary_source=files.add("m", b""))
    with pytest.raises(FormatError, match="names no dictionary"):
        contents(reader, files, [field])


def test_reader_without_a_dictionary_source_is_a_mistake() -> None:
    field = Field("d", 0, -1, "dict:string:int8:false", dictionary=DictionaryRef(0, 1))
    reader, files = open_built(build_file({0: [plain([0], "<i1")]}, [1]), [field])
    with pytest.raises(ValueError, match="without the file"):
        contents(reader, files, [field])


# -- requests -------------------------------------------------------------------------------


def wide_file(batches: int, width: int = 6) -> Built:
    pages: dict[int, Sequence[Page]] = {
        i: [plain([i, b], "<i4") for b in range(batches)] for i in range(width)
    }
    return build_file(pages, [2] * batches)


@pytest.mark.parametrize(("batches", "rounds"), [(10, 1), (1500, 2)])
def test_opening_takes_one_round_or_two(batches: int, rounds: int) -> None:
    built = wide_file(batches)
    assert (len(built.data) - built.page_table_position > TAIL_BYTES) == (rounds == 2)
    fields = [leaf(f"c{i}", i, "int32") for i in range(6)]
    reader, files = open_built(built, fields, Files(is_mapped=False))
    assert len(files.rounds) == rounds
    assert sum(int(r.lengths.sum()) for requests in files.rounds for r in requests) < len(built.data) + 16
    assert contents(reader, files, fields[2:3]) == {"c2": [x for b in range(batches) for x in (2, b)]}


def test_all_columns_share_one_round() -> None:
    reader, files = open_built(build_file(columns(), ROWS, structs=[3]), FIELDS, Files(is_mapped=False))
    files.rounds.clear()
    contents(reader, files, [INTS, POINT])
    assert len(files.rounds) == 1
    files.rounds.clear()
    contents(reader, files, FIELDS)
    assert len(files.rounds) == 2


def test_many_files_open_in_the_same_rounds() -> None:
    files = Files(is_mapped=False)
    sources = [files.add(f"data/{n}.lance", wide_file(n).data) for n in (1, 2, 3)]
    fields = [leaf(f"c{i}", i, "int32") for i in range(6)]
    reads = [opening(s, field_ids=range(6), fields=fields, major=0, minor=0) for s in sources]
    readers = run(gather(reads), files.fetch)
    assert [r.num_rows for r in readers] == [2, 4, 6]
    assert len(files.rounds) == 1


# -- sizes ----------------------------------------------------------------------------------


def test_bytes_of_columns_are_known_without_reading() -> None:
    built = build_file(columns(), ROWS, structs=[3])
    reader, files = open_built(built, FIELDS)
    files.rounds.clear()
    assert reader.page_bytes(INTS).tolist() == [12, 8, 16]
    # (rows + 1) offsets of 8 bytes, and the bytes of the words.
    assert reader.page_bytes(WORDS).tolist() == [32 + 4, 24 + 0, 40 + 4]
    assert reader.page_bytes(POINT).tolist() == [6 + 1, 4 + 1, 8 + 1]
    assert reader.page_bytes(TAGS).tolist() == [16 + 24, 12 + 0, 20 + 32]
    total = sum(reader.column_bytes(f) for f in FIELDS)
    assert total == built.page_table_position
    assert files.rounds == []


def test_bytes_of_strings_behind_unknown_columns_are_not_underestimated() -> None:
    reader, _ = open_built(build_file(columns(), ROWS, structs=[3]), [WORDS])
    # Only the page of column 0 lies between these and pages before, whose ends are not known.
    assert reader.page_bytes(WORDS).tolist() == [32 + 4 + 12, 24 + 0 + 8, 40 + 4 + 16]


def test_reader_says_what_it_keeps() -> None:
    small, _ = open_built(wide_file(2), [leaf("c0", 0, "int32")])
    large, _ = open_built(wide_file(500), [leaf("c0", 0, "int32")])
    assert small.nbytes < 6_000
    assert 500 * 6 * 16 < large.nbytes < 500 * 6 * 16 + 40_000


# -- the door -------------------------------------------------------------------------------


@pytest.mark.parametrize(("major", "minor"), [(9, 9), (1, 0), (2, 4), (3, 0)])
def test_other_versions_are_named(major: int, minor: int) -> None:
    files = Files()
    source = files.add("data/new.lance", b"")
    with pytest.raises(UnsupportedError, match="new.lance") as caught:
        run(opening(source, field_ids=[0], fields=[INTS], major=major, minor=minor), files.fetch)
    assert caught.value.feature == f"file version {major}.{minor}"


@pytest.mark.parametrize("selection", [RowSelection.range(10, 0, 3), RowSelection.all(10)])
def test_selection_over_other_rows_is_a_mistake(selection: RowSelection) -> None:
    reader, files = open_built(build_file(columns(), ROWS, structs=[3]), FIELDS)
    with pytest.raises(ValueError, match="10 rows cannot choose from 9"):
        contents(reader, files, [INTS], selection)


# -- damage ---------------------------------------------------------------------------------


def refused(built: Built, fields: Sequence[Field] = FIELDS, limits: Limits | None = None) -> FormatError:
    with pytest.raises(FormatError) as caught:
        contents(*open_built(built, fields, limits=limits or Limits()), fields)
    assert "data/built.lance" in str(caught.value)
    return caught.value


def test_file_that_is_too_short() -> None:
    error = refused(Built(b"LANC", (0,), 0, 1, 0, 0))
    assert isinstance(error, TruncatedError)


def test_file_of_something_else() -> None:
    assert "not a Lance file" in str(refused(Built(b"PAR1" * 10, (0,), 0, 1, 0, 0)))


@pytest.mark.parametrize("position", [-1, 2**40, 2**63 - 1, -(2**63)])
def test_metadata_outside_the_file(position: int) -> None:
    built = build_file(columns(), ROWS, structs=[3])
    error = refused(built.patched(len(built.data) - 16, struct.pack("<q", position)))
    assert f"the metadata at {position} lies outside the file" in str(error)


def test_metadata_outside_the_file_hints_at_a_newer_version() -> None:
    built = build_file(columns(), ROWS, structs=[3], footer=(2, 1))
    error = refused(built.patched(len(built.data) - 16, struct.pack("<II", 1, 7)))
    assert "version 2.1" in str(error)


@pytest.mark.parametrize("length", [0xFFFFFFFF, 10**6, 5])
def test_metadata_of_the_wrong_length(length: int) -> None:
    built = build_file(columns(), ROWS, structs=[3])
    refused(built.patched(built.metadata_position, struct.pack("<I", length)))


@pytest.mark.parametrize("offsets", [[1, 4, 6, 10], [0, 3, 2, 9], [0, -1, 3, 9], [0, 3, 5, -9]])
def test_batch_offsets_that_do_not_ascend_from_zero(offsets: list[int]) -> None:
    error = refused(build_file(columns(), ROWS, structs=[3], batch_offsets=offsets))
    assert "batch offsets" in str(error)


def test_more_rows_than_the_pages_hold() -> None:
    error = refused(build_file(columns(), ROWS, structs=[3], batch_offsets=[0, 3, 5, 2**31 - 1]))
    assert "page 2 of column 0 'a'" in str(error)


@folded("position", [-1, -(2**63), 2**40, 2**63 - 1])
@folded("column", [0, 1, 4, 5, 7, 8])
def test_page_outside_the_file(column: int, position: int) -> None:
    error = refused(build_file(columns(), ROWS, structs=[3]).edited(column, 2, position=position))
    assert "page 2" in str(error)


@folded("first", [2**63 - 1, -(2**63), -1])
@folded("column", [0, 1, 4])
def test_pages_whose_distances_overflow(column: int, first: int) -> None:
    # One behind the other, if distances are counted modulo 2**64.
    built = build_file(columns(), ROWS, structs=[3])
    error = refused(built.edited(column, 1, position=first).edited(column, 2, position=-1))
    assert "page 1" in str(error)


@folded("length", [-1, 0, 3, -(2**63)])
@folded("column", [0, 1, 4, 5, 7])
def test_page_shorter_than_its_batch(column: int, length: int) -> None:
    error = refused(build_file(columns(), ROWS, structs=[3]).edited(column, 2, length=length))
    assert "page 2" in str(error)


@pytest.mark.parametrize("length", [-1, 10**6, 2**40, 2**62, 2**63 - 1])
def test_list_elements_outside_the_file(length: int) -> None:
    refused(build_file(columns(), ROWS, structs=[3]).edited(8, 2, length=length))


def test_list_elements_fewer_than_the_offsets_say() -> None:
    refused(build_file(columns(), ROWS, structs=[3]).edited(8, 2, length=3))


@pytest.mark.parametrize("length", [2**33, 2**62])
def test_elements_without_bytes_are_limited(length: int) -> None:
    field = Field("l", 1, -1, "large_list", children=(leaf("item", 2, "null", parent=1),))
    built = build_file({1: [list_offsets([0, length], 8)], 2: [nothing(length)]}, [1])
    error = refused(built, [field])
    assert isinstance(error, LimitError)


def test_pages_that_overlap() -> None:
    built = build_file({0: [plain(np.arange(200), "<i8")] * 2}, [200, 200])
    size = len(built.data)
    narrow = build_file({0: [plain(np.arange(100), "<i8")] + [plain([1], "<i8")] * 19}, [100] * 20)
    for batch in range(1, 20):
        narrow = narrow.edited(0, batch, position=0, length=100)
    error = refused(narrow, [leaf("a", 0, "int64")])
    assert "overlap" in str(error)
    # Twice the same page is less than the file and is read.
    twice = built.edited(0, 1, position=0)
    assert size > 3200
    reader, files = open_built(twice, [leaf("a", 0, "int64")])
    assert contents(reader, files, [leaf("a", 0, "int64")])["a"] == [*range(200)] * 2


@pytest.mark.parametrize("position", [2**40, 2**64 - 1])
def test_page_table_outside_the_file(position: int) -> None:
    built = build_file(columns(), ROWS, structs=[3])
    body = b"\x12\x04\x00\x03\x05\x09" + b"\x18" + _varint(position)
    data = built.data[: built.metadata_position] + struct.pack("<I", len(body)) + body
    data += struct.pack("<qHH4s", built.metadata_position, 0, 2, b"LANC")
    refused(Built(data, built.ids, 0, 3, 0, 0))


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def test_ids_far_apart_are_limited() -> None:
    built = build_file(columns(), ROWS, structs=[3])
    with pytest.raises(LimitError, match="span of field ids"):
        open_built(built, FIELDS, field_ids=[0, 2**31 - 1])


def test_limits_hold_for_batches_and_rows() -> None:
    built = build_file(columns(), ROWS, structs=[3])
    assert isinstance(refused(built, limits=Limits(pages=3)), LimitError)
    assert isinstance(refused(built, limits=Limits(rows_per_file=8)), LimitError)


def test_error_in_a_value_names_column_and_file() -> None:
    built = build_file({1: [strings([b"ok", b"fine"])]}, [2])
    position, _ = built.cell(1, 0)
    error = refused(built.patched(position + 8, struct.pack("<q", 10**9)), [WORDS])
    assert "column 1 'w' of data/built.lance" in str(error)
    assert error.position == 0


def test_arrays_given_out_are_whole() -> None:
    # A smoke test of sharing: the Arrow array outlives reader and files.
    reader, files = open_built(build_file(columns(), ROWS, structs=[3]), FIELDS)
    array = to_arrow(run(reader.read([INTS], RowSelection.all(9)), files.fetch)[0], pa.int32())
    del reader, files
    assert array.to_pylist() == EXPECTED["a"]


def test_ambiguous_origin_with_hidden_ids_is_refused() -> None:
    # Under origin 1 the rows of ids 0 and 1 look like those of ids 1 and 2.
    pages: dict[int, Sequence[Page]] = {i: [plain(np.arange(4) + 10 * i, "<i8")] for i in range(3)}
    fields = [leaf(f"c{i}", i, "int64") for i in (1, 2)]
    with pytest.raises(FormatError, match="ambiguous"):
        open_built(build_file(pages, [4]), fields, field_ids=[-2, 1, 2])


@folded("origin", [0, 1])
@folded("hidden", [[-2, 1, 2, 3], [0, -2, 2, 3], [-2, -2, 2, 3], [-2, 1, 2, -2]])
def test_embedded_manifest_tells_the_origin_of_hidden_ids(hidden: list[int], origin: int) -> None:
    ids = [i + origin for i in range(4)]
    pages: dict[int, Sequence[Page]] = {i: [plain(np.arange(4) + 10 * i, "<i8")] for i in ids}
    manifest = table_pb2.Manifest(fields=[file_pb2.Field(id=i) for i in ids]).SerializeToString()
    built = with_manifest(build_file(pages, [4]), manifest)
    listed = [i + origin if i >= 0 else i for i in hidden]
    fields = [leaf(f"c{i}", i, "int64") for i in listed if i >= 0]
    reader, files = open_built(built, fields, field_ids=listed)
    found = contents(reader, files, fields)
    assert {name: v[0] for name, v in found.items()} == {f.name: 10 * f.id for f in fields}


@pytest.mark.parametrize("position", [2**40, 2**62])
def test_embedded_manifest_outside_the_file_is_refused(position: int) -> None:
    built = with_manifest(build_file(columns(), ROWS, structs=[3]), b"", position)
    with pytest.raises(FormatError, match="embedded manifest"):
        open_built(built, FIELDS, field_ids=[-2, 1, 3, 4, 5, 7, 8])


def with_manifest(built: Built, manifest: bytes, position: int | None = None) -> Built:
    """The file with a manifest after its page table, and Metadata that names it."""
    at = built.metadata_position
    metadata = file_pb2.Metadata.FromString(built.data[at + 4 : -16])
    metadata.manifest_position = at if position is None else position
    body = metadata.SerializeToString()
    front = built.data[:at] + struct.pack("<I", len(manifest)) + manifest
    data = front + struct.pack("<I", len(body)) + body + struct.pack("<q", len(front)) + built.data[-8:]
    return Built(data, built.ids, built.origin, built.num_batches, built.page_table_position, len(front))
