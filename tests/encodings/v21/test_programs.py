"""Programs of mini-block pages give what reading codec by codec gives."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest

from lancecy import kernels
from lancecy.encodings.v21.programs import program_of
from lancecy.errors import FormatError
from lancecy.schema import Field
from tests.encodings.v21.test_miniblock import INT64, LIST, i64, list_page, page
from tests.helpers.pages21 import (
    BuiltPage,
    bss,
    chunk,
    column_of,
    flat,
    inline,
    leaf_field,
    mini_block,
    out_of_line,
    rows_of,
    u16,
    variable,
    words,
)


def nullable_page() -> BuiltPage:
    parts = [
        chunk([i64(1, 2, 3, 4)], 4, definition=u16(0, 1, 0, 0)),
        chunk([i64(5, 6)], 2, definition=u16(1, 0)),
    ]
    layout = mini_block(flat(64), 6, (3,), definition=flat(16))
    return BuiltPage(layout, [words(parts, (2,)), b"".join(parts)], 6)


def text_page() -> BuiltPage:
    buffers = [struct.pack("<3I", 12, 14, 14) + b"ab", struct.pack("<2I", 8, 11) + b"cde"]
    return page(variable(), *(chunk([buffer]) for buffer in buffers), rows=3, logs=(1,))


def packed_page() -> BuiltPage:
    values = np.arange(1024, dtype="<u8")
    return page(out_of_line(64, 64), chunk([values[np.argsort(_places())].tobytes()]), rows=1024)


def _places() -> Any:
    """The row of words, with 16 lanes each, in which each value of a block of 64 bits is."""
    order = (0, 4, 2, 6, 1, 5, 3, 7)
    row, lane = np.divmod(np.arange(1024), 16)
    place = np.array(order)[row // 8] * 16 + row % 8 * 128 + lane
    found = np.empty(1024, np.int64)
    found[place] = np.arange(1024)
    return found


CASES: list[tuple[BuiltPage, tuple[Field, ...]]] = [
    (nullable_page(), (INT64,)),
    (text_page(), (leaf_field("string"),)),
    (packed_page(), (INT64,)),
    (list_page()[0], LIST),
]
SELECTIONS = [[0], [1, 2], [0, 2], None]


@pytest.mark.parametrize("case", range(len(CASES)))
def test_rows_are_the_same_with_a_program_and_without(case: int, monkeypatch: pytest.MonkeyPatch) -> None:
    built, chain = CASES[case]
    spec: Any = column_of(built).column.specs[0]
    assert program_of(spec) is not None
    found = [rows_of(built, *chain, rows=rows) for rows in SELECTIONS]
    monkeypatch.setattr("lancecy.encodings.v21.chunk_tables.program_of", lambda _: None)
    assert found == [rows_of(built, *chain, rows=rows) for rows in SELECTIONS]


def test_a_page_without_lists_is_decoded_by_one_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise AssertionError("headers are parsed apart")

    calls: list[object] = []
    original = kernels.read_chunks

    def counted(*given: Any) -> object:
        calls.append(given)
        return original(*given)

    monkeypatch.setattr(kernels, "chunk_headers", refused)
    monkeypatch.setattr(kernels, "read_chunks", counted)
    assert rows_of(nullable_page(), INT64, rows=[0, 1, 5]) == [1, None, 6]
    assert len(calls) == 1


@pytest.mark.parametrize("values", [bss(32), flat(1)], ids=["split bytes", "bits"])
def test_some_pages_have_no_program(values: bytes) -> None:
    spec: Any = column_of(BuiltPage(mini_block(values, 1), [words([bytes(8)]), bytes(8)], 1)).column.specs[0]
    assert program_of(spec) is None


def test_what_no_chunk_can_hold_is_refused_before_memory_is_allocated() -> None:
    built = page(inline(64), chunk([i64(0)]), rows=60_000)
    with pytest.raises(FormatError, match="60000 values"):
        rows_of(built, INT64, rows=list(range(59_999)))
