"""Columns of many small pages, which are decoded together: the same rows as any other file gives."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

import lancecy
from lancecy.encodings.model.block import FixedWidth, Pieces
from lancecy.encodings.v21 import joined_pages
from lancecy.encodings.v21.leaf import read_leaf
from lancecy.errors import FormatError
from lancecy.limits import DEFAULT_LIMITS
from lancecy.rows import RowSelection
from lancecy.schema import Field
from lancecy.store.reads import run
from tests.helpers.leaves import block_rows
from tests.helpers.pages21 import (
    BuiltPage,
    cached,
    chunk,
    column_of,
    fixed_list,
    flat,
    inline,
    leaf_field,
    mini_block,
    out_of_line,
    rows_of,
    u16,
    words,
)
from tests.kernels.test_bitpack import blocks, inline_chunk, numbers

PAGES, ROWS = 24, 1500


def lists_of(
    chance: np.random.Generator, values: pa.Array, is_null: NDArray[np.bool_] | None = None
) -> pa.Array:
    """As many lists as there are values, most of them empty and one of half the values, which takes many chunks."""
    lengths = np.zeros(len(values), np.int64)
    lengths[chance.choice(len(values), len(values) // 8, replace=False)] = 3
    lengths[int(chance.integers(len(values)))] = len(values) // 2
    offsets = np.minimum(np.concatenate(([0], np.cumsum(lengths))), len(values)).astype(np.int32)
    mask = None if is_null is None else pa.array(is_null)
    return pa.ListArray.from_arrays(pa.array(offsets), values, mask=mask)


def table_of(number: int) -> pa.Table:
    chance = np.random.default_rng(number)
    rows = ROWS + number
    words = [f"a word that is stored often, {value:07d}" for value in chance.integers(0, 1 << 20, rows)]
    is_null = chance.random(rows) < 0.2
    return pa.table(
        {
            "id": np.arange(rows) + number * 10_000,
            "noise": chance.random(rows),
            "word": words,
            "perhaps": pa.array(chance.integers(0, 9, rows), mask=is_null),
            "now and then": pa.array(np.arange(rows), mask=is_null if number % 6 == 5 else None),
            "flag": chance.random(rows) < 0.5,
            "inside": pa.array([{"n": n} for n in range(rows)]),
            "list": pa.array([[n, n] for n in range(rows)]),
            "texts": lists_of(chance, pa.array(words, mask=is_null), is_null),
            "lists of lists": lists_of(
                chance, lists_of(chance, pa.array(chance.integers(0, 9, rows))), is_null
            ),
            "structs": lists_of(chance, pa.StructArray.from_arrays([words, np.arange(rows)], ["w", "n"])),
            "vector": pa.FixedSizeListArray.from_arrays(chance.random(4 * rows).astype(np.float32), 4),
        }
    )


@pytest.fixture(scope="module", params=["2.1", "2.2"])
def many_pages(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, pa.Table]:
    """A table of one file of 24 pages per column, and its rows."""
    uri = str(tmp_path_factory.mktemp("joined") / "t")
    parts = [table_of(number) for number in range(PAGES)]
    for part in parts:
        lance.write_dataset(part, uri, mode="append", data_storage_version=request.param)
    lancecy.dataset(uri).optimize.compact_files(compaction_mode="force_binary_copy")
    assert len(lancecy.dataset(uri).get_fragments()) == 1
    return uri, pa.concat_tables(parts)


@pytest.mark.interop
@pytest.mark.parametrize("untrusted", [False, True])
@pytest.mark.parametrize("small", [joined_pages._MOST_BYTES, 4096])
def test_takes_and_scans_of_many_pages(
    many_pages: tuple[str, pa.Table], untrusted: bool, small: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Files of untrusted tables are not mapped: reads are requests.
    monkeypatch.setattr(joined_pages, "_MOST_BYTES", small)
    uri, expected = many_pages
    chance, rows = np.random.default_rng(0), expected.num_rows
    selections: list[Any] = [
        [0, ROWS, rows - 1],
        chance.integers(0, rows, 9),
        chance.integers(0, rows, 2000),
        np.arange(100, rows, 3),
        np.arange(ROWS - 1, ROWS * 9),
        np.arange(ROWS * 3 + 10, ROWS * 3 + 60),
    ]
    ds = lancecy.dataset(uri, untrusted=untrusted, session=lancecy.Session())
    for chosen in selections * 2:  # the second time the places of the chunks are known
        assert ds.take(chosen).equals(expected.take(pa.array(chosen)))
    ds = lancecy.dataset(uri, untrusted=untrusted, session=lancecy.Session())
    assert ds.to_table().equals(expected)
    assert ds.to_table(limit=ROWS * 7, offset=ROWS + 5).equals(expected.slice(ROWS + 5, ROWS * 7))
    found = ds.to_table(["word"], filter="perhaps = 3")
    assert found.equals(lance.dataset(uri).to_table(["word"], filter="perhaps = 3"))


def small_pages(num_pages: int, values: int = 8) -> list[BuiltPage]:
    """Pages of one chunk of 8-byte numbers."""
    pages = []
    for number in range(num_pages):
        stored = chunk([(np.arange(values, dtype="<i8") + 100 * number).tobytes()])
        pages.append(BuiltPage(mini_block(flat(64), values), [words([stored]), stored], values))
    return pages


@pytest.mark.parametrize("is_mapped", [True, False])
@pytest.mark.parametrize("rows", [None, [0, 9, 17, 30, 47], [3, 4, 8, 16, 24, 25, 33, 47]])
def test_pages_are_one_block(rows: list[int] | None, is_mapped: bool) -> None:
    built = cached(column_of(*small_pages(6), is_mapped=is_mapped))
    field, total = leaf_field("int64"), built.num_rows
    chosen = RowSelection.all(total) if rows is None else RowSelection.take(total, rows)
    expected = [100 * (n // 8) + n % 8 for n in chosen.to_indices().tolist()]
    for _ in range(2):
        block = run(
            read_leaf((field,), built.column, built.source, chosen, DEFAULT_LIMITS), built.files.fetch
        )
        assert isinstance(block, FixedWidth)
        assert block_rows(block, (field,)) == expected


@pytest.mark.parametrize("rows", [None, [0, 9, 17, 30, 47]])
def test_a_damaged_page_is_named(rows: list[int] | None) -> None:
    pages = small_pages(6)
    pages[3].buffers[0] = b"\xf0\xff"  # a chunk of 32 KiB
    built = cached(column_of(*pages))
    with pytest.raises(FormatError, match="page 3"):
        rows_of(built, leaf_field("int64"), rows=rows)


def mixed_pages() -> tuple[list[BuiltPage], list[int | None]]:
    """Pages of numbers in all codecs that a kernel knows, with and without levels, more than one call takes; and their rows."""
    pages, rows = [], list[int | None]()
    for number in range(150):
        count = 40 + number
        values = numbers(64, min(number, 64), count, number)
        stored, codec = {
            0: (values.tobytes(), flat(64)),
            1: (inline_chunk(values, min(number, 64)), inline(64)),
            2: (blocks(values, min(number, 64)), out_of_line(64, min(number, 64))),
        }[number % 3]
        levels = [int(row % 5 == 0) for row in range(count)] if number % 2 else []
        body = chunk([stored], len(levels), definition=u16(*levels) if levels else None)
        nullable: dict[str, Any] = {"layers": (3,), "definition": flat(16)} if levels else {}
        pages.append(BuiltPage(mini_block(codec, count, **nullable), [words([body]), body], count))
        is_null = levels or [0] * count
        rows += [None if null else value for value, null in zip(values.tolist(), is_null, strict=True)]
    return pages, rows


@pytest.mark.parametrize("is_mapped", [True, False])
@pytest.mark.parametrize("every", [1, 7, 300])
def test_pages_of_different_codecs_are_one_block(every: int, is_mapped: bool) -> None:
    pages, rows = mixed_pages()
    built = cached(column_of(*pages, is_mapped=is_mapped))
    field = leaf_field("uint64")
    total = built.num_rows
    chosen = RowSelection.all(total) if every == 1 else RowSelection.take(total, range(0, total, every))
    for _ in range(2):
        block = run(
            read_leaf((field,), built.column, built.source, chosen, DEFAULT_LIMITS), built.files.fetch
        )
        assert block_rows(block, (field,)) == rows[::every]
        assert len(block.blocks if isinstance(block, Pieces) else [block]) < len(pages) // 10


def test_a_damaged_page_among_different_codecs_is_named() -> None:
    pages, _ = mixed_pages()
    for damaged, buffer in ((7, b"\xff"), (50, b"\0"), (103, b"")):
        other = [*pages]
        body = chunk([buffer * 8], 0 if damaged % 2 == 0 else pages[damaged].num_rows)
        other[damaged] = replace(pages[damaged], buffers=[words([body]), body])
        with pytest.raises(FormatError, match=f"page {damaged}"):
            rows_of(cached(column_of(*other)), leaf_field("uint64"))


@pytest.mark.interop
@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_small_files_of_different_codecs(tmp_path: Path, version: Any) -> None:
    chance, uri = np.random.default_rng(4), str(tmp_path / "t")
    parts = []
    for number in range(40):
        count, most = int(chance.integers(1, 900)), 10 ** int(chance.integers(1, 9))
        is_null = chance.random(count) < chance.choice([0, 0, 0.3, 1])
        words_ = [f"w{value}" for value in chance.integers(0, most, count)]
        part = pa.table(
            {
                "small": pa.array(chance.integers(0, min(most, 30000), count), pa.int16(), mask=is_null),
                "number": pa.array(chance.integers(0, most, count), mask=is_null),
                "real": pa.array(chance.random(count) * (chance.random() < 0.7), mask=is_null),
                "word": pa.array(words_, pa.string(), mask=is_null),
                "vector": pa.FixedSizeListArray.from_arrays(chance.random(2 * count).astype(np.float32), 2),
            }
        )
        parts.append(part)
        lance.write_dataset(part, uri, mode="append" if number else "create", data_storage_version=version)
    expected = pa.concat_tables(parts)
    some = np.sort(chance.choice(expected.num_rows, expected.num_rows // 3, replace=False))
    ds = lancecy.dataset(uri, session=lancecy.Session())
    for _ in range(2):
        assert ds.to_table().equals(expected)
        assert ds.take(some).equals(expected.take(pa.array(some)))
        for where in ("number < 5", "real is null", "small > 9 or word = 'w3'"):
            assert ds.to_table(filter=where).equals(lance.dataset(uri).to_table(filter=where))


def dictionary_pages(num_pages: int) -> tuple[list[BuiltPage], list[int | None]]:
    """Pages of codes, with and without levels, each with a dictionary of its own or that of the page before; and their rows."""
    pages, rows = [], list[int | None]()
    for number in range(num_pages):
        count, items = 20 + number, np.arange(3 + number % 5, dtype="<i8") + 1000 * (number // 2)
        codes = (np.arange(count) % items.size).astype("<u1")
        levels = [int(row % 6 == 0) for row in range(count)] if number % 3 else []
        body = chunk([codes.tobytes()], len(levels), definition=u16(*levels) if levels else None)
        nullable: dict[str, Any] = {"layers": (3,), "definition": flat(16)} if levels else {}
        layout = mini_block(flat(8), count, dictionary=flat(64), num_dictionary_items=items.size, **nullable)
        pages.append(BuiltPage(layout, [words([body]), body, items.tobytes()], count))
        is_null = levels or [0] * count
        rows += [None if null else int(items[code]) for code, null in zip(codes, is_null, strict=True)]
    return pages, rows


@pytest.mark.parametrize("is_mapped", [True, False])
@pytest.mark.parametrize("every", [1, 7, 90])
@pytest.mark.parametrize("field", [leaf_field("int64"), leaf_field("dict:int64:int8:false")])
def test_pages_of_different_dictionaries(field: Field, every: int, is_mapped: bool) -> None:
    pages, rows = dictionary_pages(12)
    built = cached(column_of(*pages, is_mapped=is_mapped))
    for _ in range(2):
        chosen = None if every == 1 else [*range(0, len(rows), every)]
        assert rows_of(built, field, rows=chosen) == rows[::every]


def test_pages_of_dictionaries_of_lists_are_read_alone() -> None:
    pages = []
    for number in range(4):
        items = np.arange(6, dtype="<i4") + 10 * number
        body = chunk([bytes([0, 2, 1])])
        layout = mini_block(flat(8), 3, dictionary=fixed_list(2, flat(32)), num_dictionary_items=3)
        pages.append(BuiltPage(layout, [words([body]), body, items.tobytes()], 3))
    built = cached(column_of(*pages))
    expected = [[n + 10 * number, n + 1 + 10 * number] for number in range(4) for n in (0, 4, 2)]
    assert rows_of(built, leaf_field("fixed_size_list:int32:2")) == expected
    assert joined_pages.page_groups(built.column, (leaf_field("int32"),), RowSelection.all(12)) is None


@pytest.mark.parametrize("field", [leaf_field("int64"), leaf_field("dict:int64:int8:false")])
def test_a_code_without_an_item_names_its_page(field: Field) -> None:
    pages, _ = dictionary_pages(12)
    body = chunk([bytes([0, 1, 200])])
    layout = mini_block(flat(8), 3, dictionary=flat(64), num_dictionary_items=4)
    pages[6] = BuiltPage(layout, [words([body]), body, bytes(32)], 3)
    with pytest.raises(FormatError, match="page 6"):
        rows_of(cached(column_of(*pages)), field)


@pytest.mark.interop
@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_small_files_of_few_texts(tmp_path: Path, version: Any) -> None:
    chance, uri = np.random.default_rng(4), str(tmp_path / "t")
    parts = []
    for number in range(30):
        count, kinds = int(chance.integers(200, 2000)), int(chance.integers(1, 40))
        texts = [f"one of a few long texts, number {value}" for value in chance.integers(0, kinds, count)]
        is_null = chance.random(count) < chance.choice([0, 0.3])
        codes = pa.array(chance.integers(0, 3, count), pa.int8(), mask=is_null)
        part = pa.table(
            {
                "text": pa.array(texts, mask=is_null),
                "code": pa.DictionaryArray.from_arrays(codes, ["a", "b", f"c{number // 3}"]),
            }
        )
        parts.append(part)
        lance.write_dataset(part, uri, mode="append" if number else "create", data_storage_version=version)
    expected = {name: [v for part in parts for v in part[name].to_pylist()] for name in ("text", "code")}
    rows = len(expected["text"])
    some = np.sort(chance.choice(rows, rows // 5, replace=False)).tolist()
    ds = lancecy.dataset(uri, session=lancecy.Session())
    for _ in range(2):
        assert ds.to_table().to_pydict() == expected
        assert ds.take(some).to_pydict() == {
            name: [values[n] for n in some] for name, values in expected.items()
        }
        few = ds.take([3, rows // 2, rows - 1]).to_pydict()
        assert few == {name: [v[3], v[rows // 2], v[-1]] for name, v in expected.items()}
        where = "text = 'one of a few long texts, number 3' or code = 'c4'"
        assert ds.to_table(filter=where).to_pydict() == lance.dataset(uri).to_table(filter=where).to_pydict()


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_strings_of_several_files_are_decoded_by_the_symbols_of_their_page(
    tmp_path: Path, version: str
) -> None:
    """Runs of levels of 2.2 have no program, and each page has a table of symbols of its own."""
    texts = [None if n % 7000 == 11 else f"w{n:05d}" for n in range(30_000)]
    ds = lancecy.write_dataset(
        {"word": pa.array(texts)}, tmp_path / "t", data_storage_version=version, max_rows_per_file=11_000
    )
    for _ in range(2):
        assert ds.to_table()["word"].to_pylist() == texts
        assert ds.take([10_999, 11_000, 29_999])["word"].to_pylist() == [
            texts[n] for n in (10_999, 11_000, 29_999)
        ]


@pytest.mark.parametrize("sizes", [(100, 100, 100), (100, 4000, 4000, 100), (4000, 100, 4000)], ids=str)
def test_pages_whose_strings_are_too_few_to_be_coded(tmp_path: Path, sizes: tuple[int, ...]) -> None:
    """Their tables of symbols say so, whatever the page next to them does."""
    coded = pa.field("s", pa.string(), metadata={"lance-encoding:compression": "fsst"})
    uri, expected = str(tmp_path / "t"), list[str]()
    for number, rows in enumerate(sizes):
        words = [f"some words of text {number} {n * 7919 % 1000003}" for n in range(rows)]
        lance.write_dataset(pa.table([words], pa.schema([coded])), uri, mode="append" if number else "create")
        expected += words
    lancecy.dataset(uri).optimize.compact_files(compaction_mode="force_binary_copy")
    ds = lancecy.dataset(uri, session=lancecy.Session())
    for _ in range(2):
        for chosen in ([*range(0, len(expected), 7)], [3, len(expected) - 3]):
            assert ds.take(chosen)["s"].to_pylist() == [expected[n] for n in chosen]
        assert ds.to_table(offset=5)["s"].to_pylist() == expected[5:]
        assert ds.to_table()["s"].to_pylist() == expected
