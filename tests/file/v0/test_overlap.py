"""Files whose columns claim the same bytes, and lists of elements without bytes: decoded memory stays bounded."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Sequence

import numpy as np
import pytest

from lancecy.encodings.arrow.to_arrow import to_arrow
from lancecy.encodings.model.block import Listed
from lancecy.encodings.model.fields import spec_of
from lancecy.errors import FormatError, LimitError
from lancecy.file.base import FileReader
from lancecy.file.v0.meta import all_nodes, page_nbytes
from lancecy.file.v0.reader import DictionaryFile, V0Reader
from lancecy.limits import DEFAULT_LIMITS, Limits
from lancecy.rows import RowSelection
from lancecy.schema import DictionaryRef, Field
from lancecy.store.reads import SourceFile, run
from tests.file.tables import load_table, open_data_file
from tests.helpers.folded import folded
from tests.helpers.golden import Golden, all_goldens
from tests.helpers.pages import (
    Built,
    Files,
    Page,
    build_file,
    list_offsets,
    nothing,
    open_built,
    plain,
    raw,
    strings,
)


def numbers(count: int, kind: str = "int64") -> list[Field]:
    return [Field(f"c{i}", i, logical_type=kind) for i in range(count)]


def read_one_by_one(reader: FileReader, files: Files, fields: Sequence[Field]) -> list[str]:
    """Read field by field as a scan does, whole and in part; return the names of the fields that could be read."""
    found = []
    for field in fields:
        for rows in (RowSelection.range(reader.num_rows, 0, 1), RowSelection.all(reader.num_rows)):
            try:
                to_arrow(run(reader.read([field], rows), files.fetch)[field.id], field)
            except FormatError as error:
                if "columns overlap" not in str(error):
                    raise
                break
        else:
            found.append(field.name)
    return found


def sharing(count: int, rows: int = 400) -> Built:
    """Columns that all have the bytes of the first."""
    built = build_file({0: [plain(np.arange(rows), "<i8")]}, [rows], spare_rows=count - 1)
    position, length = built.cell(0, 0)
    for column in range(1, count):
        built = built.edited(column, 0, position=position, length=length)
    return built


@pytest.mark.parametrize("is_mapped", [True, False])
def test_columns_over_the_same_pages_are_refused(is_mapped: bool) -> None:
    built, fields = sharing(20), numbers(20)
    assert len(built.data) < 2 * 3200
    reader, files = open_built(built, fields, Files(is_mapped), field_ids=range(20))
    assert read_one_by_one(reader, files, fields) == ["c0"]
    with pytest.raises(FormatError, match="columns overlap"):
        run(reader.read(fields, RowSelection.range(400, 0, 1)), files.fetch)
    # The caller may read any of them, and reading it again takes no further bytes.
    reader, files = open_built(built, fields, Files(is_mapped), field_ids=range(20))
    assert read_one_by_one(reader, files, fields[7:]) == ["c7"]
    assert read_one_by_one(reader, files, [fields[7]] * 3) == ["c7"] * 3


def test_children_of_a_struct_over_the_same_pages_are_refused() -> None:
    fields = [Field("s", 20, -1, "struct", children=tuple(numbers(20)))]
    reader, files = open_built(sharing(20), fields, field_ids=range(21))
    with pytest.raises(FormatError, match="columns overlap"):
        run(reader.read(fields, RowSelection.all(400)), files.fetch)


def test_columns_over_the_same_text_are_refused() -> None:
    fields, size = numbers(20, "binary"), 4000
    first, rest = strings([b"x" * size]), raw(struct.pack("<qq", 0, size), 1)
    built = build_file({i: [first if i == 0 else rest] for i in range(20)}, [1])
    assert len(built.data) < 2 * size
    reader, files = open_built(built, fields)
    assert read_one_by_one(reader, files, fields) == ["c0"]


@pytest.mark.parametrize("kind", [SourceFile, DictionaryFile])
def test_dictionaries_over_the_same_values_are_refused(kind: type[SourceFile]) -> None:
    size = 2000
    values = b"x" * size + struct.pack("<6q", 0, *[size] * 5)
    fields = [
        Field(f"c{i}", i, logical_type="dict:string:int8:false", dictionary=DictionaryRef(size, max(1, i)))
        for i in range(5)
    ]
    built, files = build_file({i: [plain([0], "<i1")] for i in range(5)}, [1]), Files()
    manifest = files.add("m", values)
    source = kind(manifest.store, manifest.path, manifest.size)
    # The first two are one dictionary. A second reader of the same file of dictionaries does not change that.
    for _ in range(2):
        reader, files = open_built(built, fields, files, dictionary_source=source)
        assert read_one_by_one(reader, files, fields) == ["c0", "c1"]


def test_columns_that_fill_the_file_are_read() -> None:
    pages: dict[int, Sequence[Page]] = {i: [plain(np.arange(50) + i, "<i8")] * 3 for i in range(30)}
    reader, files = open_built(build_file(pages, [50] * 3), numbers(30))
    assert len(read_one_by_one(reader, files, numbers(30))) == 30


@folded("golden", [g for g in all_goldens() if g.is_legacy], ids=lambda g: g.name)
def test_no_release_lets_columns_share_bytes(golden: Golden) -> None:
    table = load_table(golden.path)
    for file in table.data_files:
        reader, _, fields = open_data_file(table, file)
        assert isinstance(reader, V0Reader)
        spans = []
        for column_id, spec in all_nodes((field.id, spec_of(field)) for field in fields):
            positions, lengths = reader._table.row(column_id)
            nbytes = page_nbytes(lengths, spec)
            spans += [(int(p), int(p + n)) for p, n in zip(positions, nbytes, strict=True) if n]
        spans.sort()
        assert all(stop <= start for (_, stop), (start, _) in itertools.pairwise(spans))
        assert all(stop <= reader.source.size for _, stop in spans)


# -- elements without bytes ---------------------------------------------------------------

BARE = {
    "null": Field("item", 1, 0, "null"),
    "empty binary": Field("item", 1, 0, "fixed_size_binary:0"),
    "struct": Field("item", 2, 0, "struct", children=(Field("n", 1, 2, "null"),)),
}


def list_of_bare(kind: str, count: int) -> tuple[Built, Field]:
    child = BARE[kind]
    built = build_file(
        {0: [list_offsets([0, count, count], 8)], 1: [nothing(count)]},
        [2],
        structs=[child.id] if child.is_struct else (),
    )
    return built, Field("l", 0, -1, "large_list", children=(child,))


def elements(kind: str, count: int, limits: Limits = DEFAULT_LIMITS) -> int:
    built, field = list_of_bare(kind, count)
    reader, files = open_built(built, [field], limits=limits)
    block = run(reader.read([field], RowSelection.all(2)), files.fetch)[0]
    assert isinstance(block, Listed)
    return block.child.length


@folded("kind", BARE)
@folded("count", [2**24 + 1, 2**31, 2**32])
def test_lists_of_elements_without_bytes_are_limited(kind: str, count: int) -> None:
    with pytest.raises(LimitError, match="bare_elements") as caught:
        elements(kind, count)
    assert caught.value.claimed == count


@pytest.mark.parametrize("kind", BARE)
def test_lists_of_elements_without_bytes_are_read_within_the_limit(kind: str) -> None:
    assert elements(kind, 2**24) == 2**24
    assert elements(kind, 2**25, Limits(bare_elements=2**25)) == 2**25
    # As many as the file has bits need no limit.
    bits = len(list_of_bare(kind, 500)[0].data) * 8
    assert elements(kind, bits, Limits(bare_elements=0)) == bits
    with pytest.raises(LimitError, match="bare_elements"):
        elements(kind, bits + 1, Limits(bare_elements=0))


def test_structs_with_one_child_that_has_bytes_are_bounded_by_it() -> None:
    children = (Field("n", 1, 2, "null"), Field("v", 3, 2, "int8"))
    item = Field("item", 2, 0, "struct", children=children)
    field = Field("l", 0, -1, "large_list", children=(item,))
    pages: dict[int, Sequence[Page]] = {
        0: [list_offsets([0, 3, 3], 8)],
        1: [nothing(2**31)],
        3: [plain([1, 2, 3], "<i1")],
    }
    reader, files = open_built(build_file(pages, [2], structs=[2]), [field])
    block = run(reader.read([field], RowSelection.all(2)), files.fetch)[0]
    found = to_arrow(block, field).to_pylist()
    assert found == [[{"n": None, "v": v} for v in (1, 2, 3)], []]
