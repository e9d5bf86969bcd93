"""Runs of 0.1 columns decoded from handmade pages, without a file around them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pytest

from lancecy.encodings.arrow.to_arrow import to_arrow
from lancecy.encodings.codecs import flat
from lancecy.encodings.model.block import Block, FixedWidth, Pieces, VariableWidth
from lancecy.encodings.model.chunks import whole_runs
from lancecy.encodings.model.fields import spec_of
from lancecy.encodings.model.spec import Plain
from lancecy.encodings.v0.read import ColumnPages, ColumnSource, read_column
from lancecy.errors import FormatError, LimitError, UnsupportedError
from lancecy.rows import PageRuns
from lancecy.schema import Field, parse_logical_type
from lancecy.store.reads import Read, run, value_read
from tests.helpers.folded import folded
from tests.helpers.pages import Files, Page, bits, list_offsets, plain, strings

Columns = dict[int, Sequence[Page]]
T = TypeVar("T")


def runs_of(*runs: tuple[int, int, int]) -> PageRuns:
    """Runs as (page, start, count)."""
    table = np.array(runs, np.int64).reshape(-1, 3)
    return PageRuns(*(np.ascontiguousarray(table[:, i]) for i in range(3)))


def no_dictionary(_: int) -> Read[Block]:
    raise AssertionError("there is no dictionary here")


def source_of(
    files: Files, columns: Columns, dictionary: Callable[[int], Read[Block]] = no_dictionary, gap: int = 0
) -> ColumnSource:
    """Write pages one after the other, ``gap`` bytes apart."""
    out, pages = bytearray(b"?" * gap), {}
    for column_id, makers in columns.items():
        cells = []
        for make in makers:
            data, start, length = make(len(out))
            cells.append((len(out) + start, length))
            out += data + b"?" * gap
        table = np.array(cells, np.int64)
        pages[column_id] = ColumnPages(table[:, 0].copy(), table[:, 1].copy())
    return ColumnSource(files.add("f", bytes(out)), pages, dictionary)


def read(field: Field, columns: Columns, runs: PageRuns, *, is_mapped: bool = True, gap: int = 1) -> pa.Array:
    files = Files(is_mapped)
    block = run(
        read_column(spec_of(field), field.id, source_of(files, columns, gap=gap), runs, in_pieces=True),
        files.fetch,
    )
    return to_arrow(block, field)


def leaf(kind: str, *, nullable: bool = True, field_id: int = 0) -> Field:
    return Field("x", field_id, logical_type=kind, nullable=nullable)


SELECTIONS = {
    "all": [(0, 0, 5), (1, 0, 3), (2, 0, 9)],
    "parts": [(0, 2, 3), (2, 1, 4)],
    "single rows": [(2, 8, 1), (0, 0, 1), (1, 2, 1), (0, 0, 1), (2, 3, 1)],
    "one run": [(2, 3, 5)],
}


def expected(pages: Sequence[Sequence[T]], runs: Sequence[tuple[int, int, int]]) -> list[T]:
    return [value for page, start, count in runs for value in pages[page][start : start + count]]


@folded("is_mapped", [True, False])
@folded("gap", [0, 1, 3])
@folded("runs", SELECTIONS.values(), ids=list(SELECTIONS))
@folded("width", [1, 2, 4, 8])
def test_plain_values(width: int, runs: list[tuple[int, int, int]], gap: int, is_mapped: bool) -> None:
    pages = [list(range(10, 15)), list(range(30, 33)), list(range(50, 59))]
    columns: Columns = {0: [plain(p, f"<i{width}") for p in pages]}
    array = read(leaf(f"int{width * 8}"), columns, runs_of(*runs), gap=gap, is_mapped=is_mapped)
    assert array.to_pylist() == expected(pages, runs)


@pytest.mark.parametrize("runs", SELECTIONS.values(), ids=list(SELECTIONS))
def test_wide_plain_values(runs: list[tuple[int, int, int]]) -> None:
    pages = [[bytes([page * 16 + row] * 7) for row in range(n)] for page, n in enumerate((5, 3, 9))]
    columns: Columns = {0: [plain(p, "S7") for p in pages]}
    assert read(leaf("fixed_size_binary:7"), columns, runs_of(*runs)).to_pylist() == expected(pages, runs)


@folded("is_mapped", [True, False])
@folded("runs", SELECTIONS.values(), ids=list(SELECTIONS))
def test_booleans(runs: list[tuple[int, int, int]], is_mapped: bool) -> None:
    rng = np.random.default_rng(4)
    pages = [rng.integers(0, 2, n).astype(bool).tolist() for n in (5, 3, 9)]
    columns: Columns = {0: [bits(p) for p in pages]}
    array = read(leaf("bool"), columns, runs_of(*runs), is_mapped=is_mapped)
    assert array.to_pylist() == expected(pages, runs)


@folded("is_mapped", [True, False])
@folded("runs", SELECTIONS.values(), ids=list(SELECTIONS))
def test_lists_of_booleans_are_not_aligned_to_bytes(
    runs: list[tuple[int, int, int]], is_mapped: bool
) -> None:
    rng = np.random.default_rng(5)
    pages = [rng.integers(0, 2, (n, 3)).astype(bool).tolist() for n in (5, 3, 9)]
    columns: Columns = {0: [bits(p, 3) for p in pages]}
    array = read(leaf("fixed_size_list:bool:3"), columns, runs_of(*runs), is_mapped=is_mapped)
    assert array.to_pylist() == expected(pages, runs)


@folded("is_mapped", [True, False])
@folded("nullable", [True, False])
@folded("kind", ["binary", "large_binary"])
@folded("runs", SELECTIONS.values(), ids=list(SELECTIONS))
def test_byte_strings(runs: list[tuple[int, int, int]], kind: str, nullable: bool, is_mapped: bool) -> None:
    pages = [[b"a" * ((page + 3 * row) % 5) for row in range(n)] for page, n in enumerate((5, 3, 9))]
    columns: Columns = {0: [strings(p) for p in pages]}
    array = read(leaf(kind, nullable=nullable), columns, runs_of(*runs), is_mapped=is_mapped)
    array.validate(full=True)
    wanted = [value if value or not nullable else None for value in expected(pages, runs)]
    assert array.to_pylist() == wanted
    assert array.null_count == wanted.count(None)


def test_strings_whose_bytes_are_elsewhere() -> None:
    assert read(
        leaf("string"), {0: [strings([b"ab", b"", b"c"], padding=13)]}, runs_of((0, 0, 3))
    ).to_pylist() == ["ab", None, "c"]


LISTS: list[list[list[int]]] = [[[1, 2], []], [[3], [4, 5, 6], []], [[], [], []]]


def list_field(kind: str = "list", child: str = "int32") -> Field:
    return Field("l", 4, logical_type=kind, children=(Field("item", 5, 4, child),))


@folded("base", [0, 2])
@folded("is_mapped", [True, False])
@folded(("kind", "width"), [("list", 4), ("large_list", 8)])
@folded(
    "runs",
    [
        [(0, 0, 2), (1, 0, 3), (2, 0, 3)],
        [(1, 1, 2)],
        [(2, 0, 1)],
        [(0, 0, 1), (1, 1, 1), (2, 2, 1)],
    ],
)
def test_lists(runs: list[tuple[int, int, int]], kind: str, width: int, is_mapped: bool, base: int) -> None:
    columns: Columns = {4: [], 5: []}
    for page in LISTS:
        ends = np.cumsum([base, *(len(v) for v in page)]).tolist()
        flattened = [-9] * base + [x for value in page for x in value]
        columns[4] = [*columns[4], list_offsets(ends, width)]
        columns[5] = [*columns[5], plain(flattened, "<i4")]
    array = read(list_field(kind), columns, runs_of(*runs), is_mapped=is_mapped)
    array.validate(full=True)
    assert array.to_pylist() == expected(LISTS, runs)


def test_lists_of_strings_and_of_booleans() -> None:
    offsets = [list_offsets([0, 2, 3]), list_offsets([0, 0, 1])]
    columns: Columns = {4: offsets, 5: [strings([b"p", b"", b"q"]), strings([b"rs"])]}
    runs = runs_of((0, 1, 1), (1, 1, 1), (0, 0, 1))
    assert read(list_field(child="string"), columns, runs).to_pylist() == [["q"], ["rs"], ["p", None]]
    columns = {4: offsets, 5: [bits([1, 0, 1]), bits([1])]}
    assert read(list_field(child="bool"), columns, runs).to_pylist() == [[True], [True], [True, False]]


@pytest.mark.parametrize(
    "kind", ["int8", "string", "bool", "null", "fixed_size_list:int8:2", "list", "struct"]
)
def test_no_rows_of_any_type(kind: str) -> None:
    children = (Field("item", 1, 0, "string"),) if kind in ("list", "struct") else ()
    field = Field("x", 0, logical_type=kind, children=children)
    nothing = np.empty(0, np.int64)
    files = Files()
    source = ColumnSource(files.add("f", b""), {}, no_dictionary)
    block = run(read_column(spec_of(field), 0, source, PageRuns(nothing, nothing, nothing)), files.fetch)
    array = to_arrow(block, field)
    array.validate(full=True)
    assert len(array) == 0
    assert files.rounds == []


# -- dictionaries -----------------------------------------------------------------------


def words() -> VariableWidth:
    return VariableWidth(3, 4, np.array([0, 1, 1, 3], "<i4"), b"xyz", b"\x05", 1)


def read_codes(codes: Sequence[int], key: str, dtype: str, values: Block | None = None) -> pa.Array:
    field = leaf(f"dict:string:{key}:false")
    files = Files()
    source = source_of(files, {0: [plain(codes, dtype)]}, lambda _: value_read(values or words()), gap=1)
    block = run(read_column(spec_of(field), 0, source, runs_of((0, 0, len(codes)))), files.fetch)
    return to_arrow(block, field)


@folded("width", [1, 2, 4, 8])
@folded("sign", ["i", "u"])
def test_dictionary_codes_of_every_type(width: int, sign: str) -> None:
    key = f"{'u' if sign == 'u' else ''}int{width * 8}"
    assert read_codes([2, 0, 1, 2], key, f"<{sign}{width}").to_pylist() == ["yz", "x", None, "yz"]


@pytest.mark.parametrize(
    ("codes", "key", "dtype"),
    [
        ([0, 3], "int8", "<i1"),
        ([0, -2], "int8", "<i1"),
        ([0, 2**64 - 1], "uint64", "<u8"),
        ([0, -(2**63)], "int64", "<i8"),
    ],
)
def test_code_outside_the_dictionary_is_refused(codes: list[int], key: str, dtype: str) -> None:
    with pytest.raises(FormatError) as caught:
        read_codes(codes, key, dtype)
    assert caught.value.position == 1


def test_code_minus_one_is_a_null_of_a_nullable_column() -> None:
    assert read_codes([2, -1, 0], "int8", "<i1").to_pylist() == ["yz", None, "x"]
    with pytest.raises(FormatError):
        read_codes([2, 255], "uint8", "<u1")


# -- views ------------------------------------------------------------------------------

BIG = flat.VIEW_BYTES


def vectors(page: int, rows: int, dim: int) -> np.ndarray:
    return (np.arange(rows * dim, dtype="<f4") + page * 0.5).reshape(rows, dim)


def vector_page(page: int, rows: int, dim: int) -> Page:
    data = vectors(page, rows, dim).tobytes()
    return lambda position: (data, 0, rows)


def read_vectors(
    gaps: Sequence[int], runs: PageRuns, *, is_mapped: bool = True, in_pieces: bool = True
) -> tuple[Block, Files]:
    """Vector pages of a little more than BIG bytes each, with the given number of bytes before each."""
    rows, dim = BIG // 1024 + 1, 256
    files, out, cells = Files(is_mapped), bytearray(), []
    for page, gap in enumerate(gaps):
        out += b"?" * gap
        cells.append((len(out), rows))
        out += vectors(page, rows, dim).tobytes()
    table = np.array(cells, np.int64)
    pages = {0: ColumnPages(table[:, 0].copy(), table[:, 1].copy())}
    source = ColumnSource(files.add("f", bytes(out)), pages, no_dictionary)
    spec = spec_of(leaf(f"fixed_size_list:float:{dim}"))
    return run(read_column(spec, 0, source, runs, in_pieces=in_pieces), files.fetch), files


def whole(num_pages: int) -> PageRuns:
    return whole_runs(np.full(num_pages, BIG // 1024 + 1))


def as_vectors(block: Block) -> np.ndarray:
    array = to_arrow(block, pa.list_(pa.float32(), 256))
    flattened = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    values: np.ndarray = flattened.flatten().to_numpy()
    return values.reshape(-1, 256)


def is_inside(buffer: pa.Buffer, files: Files) -> bool:
    start = files.contents["f"].__array_interface__["data"][0]
    return bool(start <= buffer.address < start + files.contents["f"].size)


def leaf_buffers(block: Block) -> list[pa.Buffer]:
    array = to_arrow(block, pa.list_(pa.float32(), 256))
    chunks = array.chunks if isinstance(array, pa.ChunkedArray) else [array]
    return [chunk.values.buffers()[1] for chunk in chunks]


def test_large_aligned_pages_become_views_and_others_copies() -> None:
    # Pages 0, 1 and 4 lie at multiples of 4 bytes, 2 and 3 do not.
    block, files = read_vectors([0, 4, 3, 4, 1], whole(5))
    assert isinstance(block, Pieces)
    assert np.array_equal(
        as_vectors(block), np.concatenate([vectors(p, BIG // 1024 + 1, 256) for p in range(5)])
    )
    assert [is_inside(b, files) for b in leaf_buffers(block)] == [True, True, False, True]


def test_contiguous_pages_become_one_view() -> None:
    block, files = read_vectors([0, 0, 0], whole(3))
    assert not isinstance(block, Pieces)
    assert [is_inside(b, files) for b in leaf_buffers(block)] == [True]


def test_single_large_run_is_a_view_even_where_pieces_are_not_wanted() -> None:
    block, files = read_vectors([4, 4], runs_of((1, 0, BIG // 1024 + 1)), in_pieces=False)
    assert [is_inside(b, files) for b in leaf_buffers(block)] == [True]


@pytest.mark.parametrize(
    ("gaps", "is_mapped", "in_pieces"), [([1, 4], True, True), ([64, 4], False, True), ([0, 4], True, False)]
)
def test_copies_where_views_are_not_possible(gaps: list[int], is_mapped: bool, in_pieces: bool) -> None:
    block, files = read_vectors(gaps, whole(2), is_mapped=is_mapped, in_pieces=in_pieces)
    assert [is_inside(b, files) for b in leaf_buffers(block)] == [False]
    assert np.array_equal(
        as_vectors(block), np.concatenate([vectors(p, BIG // 1024 + 1, 256) for p in range(2)])
    )


def test_small_runs_are_copied() -> None:
    block, files = read_vectors([0, 4], runs_of((0, 0, 2), (1, 5, 1)))
    assert [is_inside(b, files) for b in leaf_buffers(block)] == [False]
    assert as_vectors(block)[:, 0].tolist() == [0.0, 256.0, 1280.5]


def test_large_run_of_strings_is_a_view() -> None:
    value = b"0123456789abcdef" * 1024
    files = Files()
    source = source_of(files, {0: [strings([value] * 20)]}, gap=1)
    block = run(read_column(spec_of(leaf("binary")), 0, source, runs_of((0, 0, 20))), files.fetch)
    array = to_arrow(block, pa.binary())
    assert is_inside(array.buffers()[2], files)
    assert array.to_pylist() == [value] * 20


# -- requests ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "page", "rounds"),
    [
        ("int32", plain([1, 2, 3], "<i4"), 1),
        ("bool", bits([1, 0, 1]), 1),
        ("string", strings([b"a", b"", b"b"]), 2),
    ],
)
def test_rounds_of_requests(kind: str, page: Page, rounds: int) -> None:
    files = Files(is_mapped=False)
    source = source_of(files, {0: [page] * 4}, gap=1)
    pages = source.pages[0]
    runs = whole_runs(pages.lengths)
    assert run(read_column(spec_of(leaf(kind)), 0, source, runs), files.fetch).length == 12
    assert len(files.rounds) == rounds
    assert all(len(requests) == 1 for requests in files.rounds)


def test_pages_that_follow_each_other_are_asked_for_as_one_range() -> None:
    files = Files(is_mapped=False)
    source = source_of(files, {0: [plain([1, 2, 3], "<i4")] * 5})
    run(
        read_column(spec_of(leaf("int32")), 0, source, whole_runs(source.pages[0].lengths)),
        files.fetch,
    )
    assert files.rounds[0][0].lengths.tolist() == [60]


def test_strings_without_bytes_are_not_asked_for() -> None:
    files = Files()
    source = source_of(files, {0: [strings([b"", b""])]})
    block = run(read_column(spec_of(leaf("string")), 0, source, runs_of((0, 0, 2))), files.fetch)
    assert to_arrow(block, pa.string()).to_pylist() == [None, None]
    assert len(files.rounds) == 1


# -- damage -----------------------------------------------------------------------------


def read_offsets(kind: str, offsets: Sequence[int], *, width: int, child: Page | None = None) -> pa.Array:
    page = np.array(offsets, f"<i{width}").tobytes()
    columns: Columns = {4: [lambda position: (page, 0, len(offsets) - 1)]}
    if child is not None:
        columns[5] = [child]
        return read(list_field(kind), columns, runs_of((0, 0, len(offsets) - 1)))
    return read(leaf(kind, field_id=4), columns, runs_of((0, 0, len(offsets) - 1)))


@pytest.mark.parametrize(
    ("offsets", "row"),
    [
        ([0, 3, 2], 1),
        ([-1, 0, 1], 0),
        ([0, 1, 10**6], 1),
        ([0, 2**62, 2**62], 0),
        ([2**63 - 1, -(2**63), 0], 0),
    ],
)
def test_string_offsets_out_of_order_or_bounds_are_refused(offsets: list[int], row: int) -> None:
    with pytest.raises(FormatError) as caught:
        read_offsets("string", offsets, width=8)
    assert caught.value.position == row


@folded("kind", ["list", "large_list"])
@folded("offsets", [[0, 3, 2], [-1, 0, 1], [0, 1, 4], [1, 0, 3], [2**31 - 1, 2**31 - 1]])
def test_list_offsets_out_of_order_or_bounds_are_refused(kind: str, offsets: list[int]) -> None:
    with pytest.raises(FormatError):
        read_offsets(kind, offsets, width=8 if kind == "large_list" else 4, child=plain([1, 2, 3], "<i4"))


def test_values_that_overlap_beyond_the_file_are_refused() -> None:
    # Every page claims the same bytes; together they would be ten times the file.
    files = Files()
    data = b"x" * 800
    page = np.array([0, 800], "<i8").tobytes()
    positions = np.arange(800, 800 + 16 * 20, 16)
    source = ColumnSource(
        files.add("f", data + page * 20), {0: ColumnPages(positions, np.ones(20, np.int64))}, no_dictionary
    )
    with pytest.raises(FormatError, match="overlap"):
        run(
            read_column(spec_of(leaf("binary")), 0, source, whole_runs(np.ones(20, np.int64))),
            files.fetch,
        )


def test_more_than_32_bits_of_string_bytes_are_a_limit() -> None:
    # The file claims to be 4 GB long; only the offsets are read before the error.
    page = np.array([0, 2**31 - 1, 2**31 + 5], "<i8").tobytes()
    files = Files()
    small = files.add("f", page)
    big = type(small)(small.store, "f", 2**32)
    source = ColumnSource(big, {0: ColumnPages(np.zeros(1, np.int64), np.full(1, 2))}, no_dictionary)
    with pytest.raises(LimitError, match="smaller batches") as caught:
        run(read_column(spec_of(leaf("string")), 0, source, runs_of((0, 0, 2))), files.fetch)
    assert caught.value.claimed == 2**31 + 5


def test_more_than_32_bits_of_list_elements_are_a_limit() -> None:
    page = np.array([0, 2**31 - 1], "<i4").tobytes()
    files = Files()
    source = ColumnSource(
        files.add("f", page * 2),
        {
            4: ColumnPages(np.array([0, 8]), np.array([1, 1])),
            5: ColumnPages(np.zeros(2, np.int64), np.full(2, 2**31 - 1)),
        },
        no_dictionary,
    )
    with pytest.raises(LimitError, match="list elements in one array"):
        run(
            read_column(spec_of(list_field(child="null")), 4, source, runs_of((0, 0, 1), (1, 0, 1))),
            files.fetch,
        )


def test_fixed_width_block_of_nothing_but_empty_binaries() -> None:
    files = Files()
    source = source_of(files, {0: [lambda position: (b"", 0, 7)]})
    block = run(read_column(spec_of(leaf("fixed_size_binary:0")), 0, source, runs_of((0, 1, 4))), files.fetch)
    assert isinstance(block, FixedWidth)
    assert to_arrow(block, pa.binary(0)).to_pylist() == [b""] * 4


# -- claims that would multiply -----------------------------------------------------------


def list_of(child: Field, kind: str = "list") -> Field:
    return Field("l", 4, -1, kind, children=(child,))


def lists(offsets: Sequence[int], width: int = 4) -> Page:
    """A page of lists whose length is the number of rows, as in ``ColumnPages``."""
    return lambda position: (np.array(offsets, f"<i{width}").tobytes(), 0, len(offsets) - 1)


@pytest.mark.parametrize("inner", ["dict:string:int8:false", "null", "string"])
def test_fixed_size_list_of_items_without_a_width_is_refused(inner: str) -> None:
    with pytest.raises((FormatError, UnsupportedError)):
        spec_of(leaf(f"fixed_size_list:{inner}:2"))
    with pytest.raises((FormatError, UnsupportedError)):
        parse_logical_type(f"fixed_size_list:{inner}:2")


@pytest.mark.parametrize("width", [2**28, 2**29, 2**30])
def test_bits_of_very_wide_values_do_not_wrap(width: int) -> None:
    assert spec_of(leaf(f"fixed_size_binary:{width}")) == Plain(width * 8)


def test_fixed_size_list_counts_the_width_of_its_items() -> None:
    with pytest.raises(LimitError, match="value_bytes"):
        parse_logical_type(f"fixed_size_list:fixed_size_binary:{2**30}:2")


@pytest.mark.parametrize("kind", ["list", "large_list"])
def test_lists_that_share_elements_are_refused_when_taken(kind: str) -> None:
    columns: Columns = {
        4: [lists([0, 50] * 5, 4 if kind == "list" else 8)],
        5: [plain(list(range(50)), "<i1")],
    }
    field = list_of(leaf("int8", field_id=5), kind)
    assert len(read(field, columns, runs_of((0, 0, 1)))[0]) == 50
    with pytest.raises(FormatError, match="lists overlap"):
        read(field, columns, runs_of((0, 0, 1), (0, 2, 1), (0, 4, 1)))


def test_lists_of_several_pages_are_counted_together() -> None:
    columns: Columns = {4: [lists([0, 9, 0, 9])] * 2, 5: [plain(list(range(9)), "<i1")] * 2}
    field = list_of(leaf("int8", field_id=5))
    assert len(read(field, columns, runs_of((1, 0, 1), (0, 2, 1))).flatten()) == 18
    with pytest.raises(FormatError, match="27 elements in pages of 18"):
        read(field, columns, runs_of((1, 0, 1), (0, 2, 1), (1, 2, 1)))


def test_inner_lists_are_not_multiplied_by_outer_ones_that_share_them() -> None:
    # Every outer list is the first inner list, of which there is one; the inner one has all elements.
    columns: Columns = {
        4: [lists([0, 1] * 4)],
        5: [lists([0, 20, 20, 20, 20])],
        6: [plain(list(range(20)), "<i1")],
    }
    field = list_of(Field("item", 5, 4, "list", children=(leaf("int8", field_id=6),)))
    assert len(read(field, columns, runs_of((0, 2, 1))).flatten().flatten()) == 20
    with pytest.raises(FormatError, match="40 elements in pages of 20"):
        read(field, columns, runs_of((0, 0, 1), (0, 2, 1)))


def test_strings_are_not_multiplied_by_lists_that_share_them() -> None:
    columns: Columns = {4: [lists([0, 1] * 20)], 5: [strings([b"x" * 400] + [b""] * 39)]}
    field = list_of(leaf("binary", field_id=5))
    rows = [(0, row, 1) for row in range(0, 39, 2)]
    assert read(field, columns, runs_of(rows[3])).to_pylist() == [[b"x" * 400]]
    with pytest.raises(FormatError, match="columns overlap"):
        read(field, columns, runs_of(*rows))


def test_columns_cannot_share_the_text_of_a_file() -> None:
    files = Files()
    offsets = np.array([0, 300], "<i8").tobytes()
    pages = {i: ColumnPages(np.array([300 + 16 * i]), np.ones(1, np.int64)) for i in range(8)}
    source = ColumnSource(files.add("f", b"x" * 300 + offsets * 8), pages, no_dictionary)
    spec, runs = spec_of(leaf("binary")), runs_of((0, 0, 1))
    for _ in range(3):  # the same column any number of times
        assert run(read_column(spec, 5, source, runs), files.fetch).length == 1
    with pytest.raises(FormatError, match="values of column 2 take 300 bytes, where 128 of 428 are left"):
        run(read_column(spec, 2, source, runs), files.fetch)
