"""Columns of many files, parsed in one pass: the same as those of each file parsed alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lancecy
from lancecy.encodings.model.pages import Column
from lancecy.errors import FormatError, LimitError
from lancecy.file.v2.columns import FileColumns
from lancecy.file.v2.parsed_together import join_fields, parse_together
from lancecy.file.v2.wire import ARRAY_ENCODING
from lancecy.limits import Limits
from lancecy.schema import Field
from lancecy.store.reads import run
from tests.helpers import v20
from tests.helpers.frames import INTS, PageBytes, any_message, build_frame, int64, message, open_frame

VERSIONS = ["2.0", "2.1", "2.2"]
B = Field("b", 1, logical_type="int64")
ITEM = Field("item", 1, parent_id=0, logical_type="int64")
LIST = Field("l", 0, logical_type="list", children=(ITEM,))


def table(rows: int, seed: int) -> pa.Table:
    random = np.random.default_rng(seed)
    numbers = random.integers(0, 1000, rows)
    texts = [f"text {n}" * int(n % 3) for n in numbers]
    return pa.table(
        {
            "id": numbers,
            "text": texts,
            "word": [f"w{n % 5}" for n in numbers],
            "list": [[int(n)] * int(n % 4) for n in numbers],
            "pair": [{"a": int(n), "b": text} for n, text in zip(numbers, texts, strict=True)],
            "vector": pa.FixedSizeListArray.from_arrays(pa.array(random.random(rows * 4)), 4),
            "none": pa.nulls(rows, pa.int32()),
        }
    )


def opened(ds: lancecy.Dataset) -> tuple[list[FileColumns], list[Field]]:
    """The columns of all files, of which none is parsed, and the fields of the table."""
    again = lancecy.dataset(ds.uri, session=lancecy.Session())
    several = [again._context.files(fragment.fragment_id) for fragment in again.get_fragments()]
    files = [part.reader.columns for one in several for part in one.parts]
    return [file for file in files if file is not None], list(again._context.snapshot.schema.scanned.fields)


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANCE_FILE_WRITER_MAX_PAGE_BYTES", "4096")


def many_files(path: Path, version: Any) -> lancecy.Dataset:
    """A table of files with one page and with several pages in each column."""
    import lance

    for seed in range(6):
        rows = table(40 * (1 + seed * seed), seed)
        append: Any = lance.write_dataset if seed % 2 else lancecy.write_dataset
        append(rows, str(path), mode="append" if seed else "create", data_storage_version=version)
    return lancecy.dataset(path)


def described(column: Column) -> tuple[object, ...]:
    arrays = (column.row_starts, column.first_buffer, column.positions, column.sizes)
    about = column.index, column.is_blob, column.specs, column.nbytes
    return (*about, *(array.tolist() for array in arrays), column.memory is None)


@pytest.mark.usefixtures("small_pages")
@pytest.mark.parametrize("version", VERSIONS)
def test_columns_parsed_together_are_those_of_each_file(version: str, tmp_path: Path) -> None:
    ds = many_files(tmp_path / "t", version)
    together, fields = opened(ds)
    parse_together(together, fields)
    alone, _ = opened(ds)
    for one, other in zip(together, alone, strict=True):
        assert set(one.prepared) == set(fields)
        for field in fields:
            known = other.known(field)
            assert known is not None
            found = one.prepared[field]
            assert (found.field, found.leaves, found.chain) == (known.field, known.leaves, known.chain)
            assert (found.form is None) == (known.form is None) == (version == "2.0")
            assert list(found.columns) == list(known.columns)
            for node, column in known.columns.items():
                assert described(found.columns[node]) == described(column)


@pytest.mark.usefixtures("small_pages")
@pytest.mark.parametrize("version", VERSIONS)
def test_joined_fields_have_the_pages_of_all_files(version: str, tmp_path: Path) -> None:
    files, fields = opened(many_files(tmp_path / "t", version))
    for field, joined in zip(fields, join_fields(files, fields), strict=True):
        assert joined is not None
        known = [file.known(field) for file in files]
        for node, column in joined.known.columns.items():
            parts = [one.columns[node] for one in known if one is not None]
            assert column.num_rows == sum(part.num_rows for part in parts)
            assert column.nbytes == sum(part.nbytes for part in parts)
            assert column.sizes.tolist() == [size for part in parts for size in part.sizes.tolist()]
            within = (column.positions & ((1 << 42) - 1)).tolist()
            assert within == [at for part in parts for at in part.positions.tolist()]
            numbers = (column.positions >> 42).tolist()
            assert numbers == [n for n, part in enumerate(parts) for _ in part.positions.tolist()]
            if column.nbytes:
                assert column.specs == tuple(spec for part in parts for spec in part.specs)
        assert joined.file_bytes.tolist() == [one.stored_bytes for one in known if one is not None]


def test_columns_of_other_numbers_are_joined(tmp_path: Path) -> None:
    ds = lancecy.write_dataset(
        pa.table({"a": [1], "b": [2]}), str(tmp_path / "t"), data_storage_version="2.1"
    )
    ds.drop_columns(["a"])
    ds = lancecy.write_dataset(pa.table({"b": [3, 4]}), ds, mode="append")
    files, (field,) = opened(ds)
    assert [file.fields.placed(field).numbers for file in files] == [{field.id: 1}, {field.id: 0}]
    (joined,) = join_fields(files, [field])
    assert joined is not None
    assert joined.known.column.num_rows == 3
    assert ds.to_table().to_pydict() == {"b": [2, 3, 4]}


def damaged(page: PageBytes) -> FileColumns:
    return open_frame(build_frame([[int64([1, 2, 3])], [page]], 3), [INTS, B]).reader.columns


@pytest.mark.parametrize(
    ("page", "error"),
    [
        (int64([1, 2, 3], positions=[10**6]), FormatError),
        (int64([1, 2, 3], positions=[0, 0]), FormatError),
        (int64([1, 2, 3], encoding=b""), FormatError),
        (int64([1, 2, 3], encoding=b"\xff"), FormatError),
        (int64([1, 2, 3], length=1 << 40), LimitError),
        (int64([1, 2, 3], length=2), FormatError),
    ],
    ids=["outside", "sizes", "no encoding", "no message", "rows", "fewer rows"],
)
def test_a_damaged_column_is_left_to_its_own_read(page: PageBytes, error: type[FormatError]) -> None:
    good, bad = damaged(int64([4, 5, 6])), damaged(page)
    parse_together([bad, good, *(damaged(int64([4, 5, 6])) for _ in range(16))], [INTS, B])
    assert join_fields([good, bad], [B]) == [None]
    for file in (good, bad):
        known = file.known(INTS)
        assert known is not None
        assert known.column.num_rows == 3
    known = good.known(B)
    assert known is not None
    for _ in range(2):
        with pytest.raises(error) as caught:
            bad.known(B)
        assert "column 1" in str(caught.value)


def list_file(elements: list[int], version: tuple[int, int]) -> FileColumns:
    """A file with a list of two elements, as 2.0 stores it; its column of elements may have more."""
    ends = v20.list_of(v20.no_nulls(v20.flat(64)), 3, 2)
    pages = [PageBytes(1, [np.array([2], "<u8").tobytes()], any_message(ARRAY_ENCODING, ends))]
    return open_frame(
        build_frame([pages, [int64(elements)]], 1, version=version), [LIST], version=version
    ).reader.columns


@pytest.mark.parametrize("version", [(2, 0), (2, 1)])
def test_elements_of_no_list_are_never_joined(version: tuple[int, int]) -> None:
    good = [list_file(elements, version) for elements in ([1, 2], [5, 6])]
    assert join_fields(good, [LIST]) != [None]
    assert join_fields([good[0], list_file([3, 4, 99], version), good[1]], [LIST]) == [None]


def test_encodings_are_those_of_the_version_of_each_file() -> None:
    built = [build_frame([[int64([1, 2, 3])]], 3, version=version) for version in [(2, 0), (2, 1), (2, 2)]]
    old, preview, new = [
        open_frame(one, version=version).reader.columns
        for one, version in zip(built, [(2, 0), (2, 1), (2, 2)], strict=True)
    ]
    assert join_fields([old, preview], [INTS]) != [None]
    assert join_fields([old, new], [INTS]) == [None]
    with pytest.raises(FormatError, match="ArrayEncoding"):
        new.known(INTS)


def test_columns_marked_as_blobs_are_read_by_themselves() -> None:
    marked = any_message("lance.encodings.ColumnEncoding", message(3, message(1, message(1, b""))))
    files = [
        open_frame(build_frame([[int64([1])]], 1, encodings=encodings)).reader.columns
        for encodings in ({}, {0: marked})
    ]
    assert join_fields([files[0], files[0]], [INTS]) != [None]
    assert join_fields(files, [INTS]) == [None]


def test_columns_that_share_bytes_are_refused_together_too() -> None:
    pages = [[int64([7], positions=[0], sizes=[400])] for _ in range(20)]
    fields = [Field(f"c{n}", n, logical_type="int64") for n in range(20)]
    file = open_frame(build_frame(pages, 1), fields).reader.columns
    assert 400 < file.source.size < 20 * 400
    assert join_fields([file, file], fields) == [None] * 20
    with pytest.raises(FormatError, match="overlap"):
        [file.known(field) for field in fields]


def test_limits_hold_for_all_columns_together() -> None:
    built = build_frame([[int64([n]) for n in range(4)]], 4)
    file = open_frame(built, limits=Limits(pages=3)).reader.columns
    parse_together([file], [INTS])
    assert not file.prepared
    assert join_fields([file, file], [INTS]) == [None]
    with pytest.raises(LimitError, match="pages"):
        file.known(INTS)


def test_metadata_that_is_not_held_is_left_to_requests() -> None:
    fields = [Field(f"c{n}", n, logical_type="int64") for n in range(1000)]
    opened = open_frame(build_frame([[int64([n])] for n in range(1000)], 1), fields, is_mapped=False)
    columns = opened.reader.columns
    parse_together([columns], fields)
    assert not columns.prepared
    assert not columns.can_tell(fields)
    assert join_fields([columns, columns], fields) == [None] * 1000
    assert run(columns.load(fields[2]), opened.files.fetch).column.num_rows == 1
    assert columns.can_tell([fields[2]])
