"""Small pages of several columns and files, read together: the same rows as read one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lancecy.encodings.batch import SmallPage, batch_key, read_small
from lancecy.errors import FormatError, LimitError
from lancecy.limits import DEFAULT_LIMITS, Limits
from lancecy.rows import RowSelection
from lancecy.schema import Field
from lancecy.store.reads import Ranges, Span, run
from tests.helpers import v20
from tests.helpers.leaves import block_rows
from tests.helpers.pages import Files
from tests.helpers.pages21 import (
    BuiltColumn,
    BuiltPage,
    chunk,
    column_of,
    fixed_list,
    flat,
    inline,
    leaf_field,
    mini_block,
    u16,
    variable,
    words,
)

LENGTHS = (3, 1, 5, 4)
NUMBER = leaf_field("int64")
TEXT = leaf_field("string")
STRUCT = (Field("s", 9, logical_type="struct", children=(NUMBER,)), NUMBER)


def text_of(values: Sequence[bytes]) -> bytes:
    ends = np.cumsum([4 * (len(values) + 1), *map(len, values)]).astype("<u4")
    data = ends.tobytes() + b"".join(values)
    return data + b"H" * (-len(data) % 4)


def one_chunk(codec: bytes, rows: int, part: bytes, layers: tuple[int, ...] = (1,), **how: Any) -> BuiltPage:
    layout = mini_block(codec, rows, layers, definition=flat(16) if "definition" in how else None)
    made = chunk([part], rows if how else 0, **how)
    return BuiltPage(layout, [words([made]), made], rows)


def numbers(rows: int) -> BuiltPage:
    return one_chunk(flat(64), rows, np.arange(rows, dtype="<i8").tobytes())


def nullable(rows: int) -> BuiltPage:
    levels = u16(*(n % 2 for n in range(rows)))
    return one_chunk(flat(64), rows, np.arange(rows, dtype="<i8").tobytes(), (3,), definition=levels)


def in_struct(rows: int) -> BuiltPage:
    levels = u16(*(n % 3 for n in range(rows)))
    return one_chunk(flat(64), rows, np.arange(rows, dtype="<i8").tobytes(), (3, 3), definition=levels)


def texts(rows: int) -> BuiltPage:
    return one_chunk(variable(), rows, text_of([b"ab"[: n % 3] * n for n in range(rows)]))


def bits(rows: int) -> BuiltPage:
    return one_chunk(flat(1), rows, bytes([0b10110]))


def packed(rows: int) -> BuiltPage:
    # 3 bits of 8: value n of a block is in bits n % 128 .. of its words; all zeros but for the width.
    return one_chunk(inline(8), rows, b"\x03" + b"\xff" * (128 * 3))


def vectors(rows: int) -> BuiltPage:
    return one_chunk(fixed_list(2, flat(16)), rows, np.arange(2 * rows, dtype="<i2").tobytes())


def coded(rows: int) -> BuiltPage:
    """A dictionary with as many words as rows, so that the dictionaries of pages differ."""
    items = [b"w%d" % n for n in range(rows)]
    offsets = np.cumsum([0, *map(len, items)]).astype("<u4")
    data = np.array([32, 8 + offsets.nbytes], "<u4").tobytes() + offsets.tobytes() + b"".join(items)
    layout = mini_block(flat(8), rows, (1,), dictionary=variable(), num_dictionary_items=rows)
    made = chunk([bytes(range(rows))[::-1]])
    return BuiltPage(layout, [words([made]), made, data], rows)


CASES: dict[str, tuple[Callable[[int], BuiltPage], tuple[Field, ...]]] = {
    "numbers": (numbers, (NUMBER,)),
    "nullable": (nullable, (NUMBER,)),
    "struct": (in_struct, STRUCT),
    "texts": (texts, (TEXT,)),
    "bits": (bits, (leaf_field("bool"),)),
    "packed": (packed, (leaf_field("uint8"),)),
    "vectors": (vectors, (leaf_field("fixed_size_list:int16:2"),)),
    "coded": (coded, (TEXT,)),
}


def joint(
    columns: Sequence[BuiltColumn],
    chain: tuple[Field, ...],
    rows: Sequence[RowSelection] | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> list[list[Any]]:
    """Rows of several columns, each in its own file."""
    chosen = rows or [RowSelection.all(column.num_rows) for column in columns]
    pages = [
        SmallPage(chain, built.column.page(0), built.source, mine)
        for built, mine in zip(columns, chosen, strict=True)
    ]
    files = {built.source: built.files for built in columns}

    def fetch(requests: list[Ranges]) -> list[Span]:
        assert len({request.file for request in requests}) == len(requests)
        return [files[request.file].fetch([request])[0] for request in requests]

    return [block_rows(block, chain) for block in run(read_small(pages, limits), fetch)]


def alone(built: BuiltColumn, chain: tuple[Field, ...], rows: Sequence[int] | None = None) -> list[Any]:
    from tests.helpers.pages21 import rows_of

    return rows_of(built, *chain, rows=rows)


@pytest.mark.parametrize("is_mapped", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_pages_of_several_files_are_read_as_one_by_one(name: str, is_mapped: bool) -> None:
    make, chain = CASES[name]
    columns = [column_of(make(rows), is_mapped=is_mapped) for rows in LENGTHS]
    assert len({batch_key(chain, built.column) for built in columns}) == 1
    assert batch_key(chain, columns[0].column) is not None
    assert joint(columns, chain) == [alone(built, chain) for built in columns]
    chosen = [[0, 2], [0], [1, 2, 4], [3]]
    rows = [RowSelection.take(n, mine) for n, mine in zip(LENGTHS, chosen, strict=True)]
    found = [alone(built, chain, mine) for built, mine in zip(columns, chosen, strict=True)]
    assert joint(columns, chain, rows) == found
    mixed = [RowSelection.all(3), rows[1], RowSelection.range(5, 1, 3), rows[3]]
    found = [alone(built, chain, list(mine.to_indices())) for built, mine in zip(columns, mixed, strict=True)]
    assert joint(columns, chain, mixed) == found


def test_pages_of_one_file_take_one_request() -> None:
    columns = [column_of(numbers(4)) for _ in range(3)]
    files = columns[0].files
    source = files.add("data/all.lance", b"".join(bytes(c.files.contents[c.source.path]) for c in columns))
    pages, start = [], 0
    rows = RowSelection.take(4, [1, 3])
    for built in columns:
        page = built.column.page(0)
        pages.append(SmallPage((NUMBER,), replace(page, positions=page.positions + start), source, rows))
        start += built.source.size
    files.rounds.clear()
    blocks = run(read_small(pages, DEFAULT_LIMITS), files.fetch)
    assert [block_rows(block, (NUMBER,)) for block in blocks] == [[1, 3]] * 3
    assert [len(requests) for requests in files.rounds] == [1]


def test_dictionaries_of_other_pages_are_not_mixed_up() -> None:
    columns = [column_of(coded(rows)) for rows in (5, 3)]
    assert joint(columns, (TEXT,)) == [["w4", "w3", "w2", "w1", "w0"], ["w2", "w1", "w0"]]


def test_pages_that_are_no_single_small_chunk_are_read_alone() -> None:
    large = coded(3)
    large = replace(large, buffers=[*large.buffers[:2], large.buffers[2] + bytes(70_000)])
    two = chunk([bytes(32)])
    several = BuiltPage(mini_block(flat(64), 8), [words([two, two], (2,)), two + two], 8)
    lists = mini_block(flat(64), 3, (1, 6), rep=flat(16), definition=flat(16))
    listed = BuiltPage(lists, [words([two]), two, bytes(16)], 3)
    wrong = replace(numbers(3), num_rows=4)
    for page in (large, several, listed, wrong):
        assert batch_key((NUMBER,), column_of(page).column) is None
    assert batch_key((NUMBER,), column_of(numbers(3), numbers(3)).column) is None
    pairs = leaf_field("fixed_size_list:struct:2", "pairs", 9, children=(NUMBER,))
    assert batch_key((pairs, NUMBER), column_of(numbers(4)).column) is None
    assert batch_key((NUMBER,), column_of(numbers(3)).column) != batch_key(
        (NUMBER,), column_of(texts(3)).column
    )


@pytest.mark.parametrize("buffer", [0, 1])
def test_a_damaged_page_among_others_is_refused(buffer: int) -> None:
    page = numbers(4)
    damaged = list(page.buffers)
    damaged[buffer] = b"\xff" * len(damaged[buffer])
    columns = [column_of(page), column_of(replace(page, buffers=damaged)), column_of(page)]
    with pytest.raises(FormatError):
        joint(columns, (NUMBER,))


def test_all_together_may_be_beyond_a_limit() -> None:
    columns = [column_of(packed(5)) for _ in range(3)]
    with pytest.raises(LimitError):
        joint(columns, (leaf_field("uint8"),), limits=Limits(page_bytes=10))


# -- 2.0 --------------------------------------------------------------------------------------


def ended(rows: int) -> v20.Page:
    return v20.ended([None if n % 3 == 1 else b"x" * n for n in range(rows)])


def flat20(rows: int) -> v20.Page:
    return v20.Page(v20.no_nulls(v20.flat(32)), rows, [np.arange(rows, dtype="<i4").tobytes()])


def nulls20(rows: int) -> v20.Page:
    encoding = v20.some_nulls(v20.flat(1), v20.no_nulls(v20.flat(16, 1)))
    return v20.Page(encoding, rows, [b"\x15", np.arange(rows, dtype="<i2").tobytes()])


def vectors20(rows: int) -> v20.Page:
    encoding = v20.no_nulls(v20.fixed_list(2, v20.no_nulls(v20.flat(8))))
    return v20.Page(encoding, rows, [bytes(range(2 * rows))])


CASES_20: dict[str, tuple[Callable[[int], v20.Page], Field]] = {
    "flat": (flat20, leaf_field("int32")),
    "nulls": (nulls20, leaf_field("int16")),
    "ended": (ended, TEXT),
    "vectors": (vectors20, leaf_field("fixed_size_list:uint8:2")),
}


def column20(page: v20.Page, field: Field, is_mapped: bool = True) -> BuiltColumn:
    files = Files(is_mapped)
    columns, _, source = v20.file_of({field.id: [page]}, files)
    return BuiltColumn(columns[field.id], source, files, page.num_rows)


@pytest.mark.parametrize("is_mapped", [True, False])
@pytest.mark.parametrize("name", CASES_20)
def test_pages_of_version_2_0_are_read_as_one_by_one(name: str, is_mapped: bool) -> None:
    make, field = CASES_20[name]
    columns = [column20(make(rows), field, is_mapped) for rows in LENGTHS]
    assert len({batch_key((field,), built.column) for built in columns}) == 1
    assert batch_key((field,), columns[0].column) is not None
    chosen = [None, [0], [0, 1, 4], [2]]
    rows = [
        RowSelection.all(n) if mine is None else RowSelection.take(n, mine)
        for n, mine in zip(LENGTHS, chosen, strict=True)
    ]
    expected = [
        v20.read_column(field, {field.id: [make(n)]}, selection).to_pylist()
        for n, selection in zip(LENGTHS, rows, strict=True)
    ]
    assert joint(columns, (field,), rows) == expected
    everything = [v20.read_column(field, {field.id: [make(n)]}).to_pylist() for n in LENGTHS]
    assert joint(columns, (field,)) == everything


def test_pages_with_unused_buffers_have_another_batch_key() -> None:
    field, page = leaf_field("int32"), flat20(3)
    spare = replace(page, buffers=[*page.buffers, b"\x09" * 16, b"\x09" * 16])
    one, other = (batch_key((field,), column20(made, field).column) for made in (page, spare))
    assert one is not None and other is not None and one != other
    assert joint([column20(spare, field) for _ in range(2)], (field,)) == [[0, 1, 2]] * 2


def test_nulls_where_there_may_be_none_are_refused() -> None:
    field = replace(leaf_field("int16"), nullable=False)
    columns = [column20(nulls20(3), field) for _ in range(2)]
    with pytest.raises(FormatError, match="not nullable"):
        joint(columns, (field,))


def test_columns_of_2_0_with_more_to_them_are_read_alone() -> None:
    codes = v20.dictionary(
        v20.no_nulls(v20.flat(8)), v20.binary(v20.no_nulls(v20.flat(64, 1)), v20.flat(8, 2), 3), 1
    )
    page = v20.Page(codes, 1, [b"\x01", (2).to_bytes(8, "little"), b"ab"])
    assert batch_key((TEXT,), column20(page, TEXT).column) is None
    assert batch_key(STRUCT, column20(flat20(3), NUMBER).column) is None
    assert batch_key((TEXT,), column20(ended(3), TEXT).column) != batch_key(
        (TEXT,), column20(flat20(3), TEXT).column
    )
