"""Damaged 0.1 files: reading each gives either values or a LanceError."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterable, Sequence

import numpy as np
import pytest

from lancecy.encodings.arrow.to_arrow import to_arrow
from lancecy.errors import FormatError, LanceError
from lancecy.file.base import FileReader
from lancecy.rows import RowSelection
from lancecy.schema import DictionaryRef, Field
from lancecy.store.reads import run
from tests.helpers.folded import folded
from tests.helpers.pages import (
    Built,
    ColumnStatistics,
    Files,
    bits,
    build_file,
    list_offsets,
    open_built,
    plain,
    strings,
)

TELLING = [0, 1, 2, 3, 7, 8, 255, 256, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**53, 2**62, 2**63 - 1]
NUMBERS = sorted({*TELLING, *(-n for n in TELLING), -(2**63)})


def leaf(name: str, field_id: int, kind: str, parent: int = -1, nullable: bool = True) -> Field:
    return Field(name, field_id, parent, kind, nullable)


FIELDS = (
    leaf("i", 0, "int32"),
    leaf("b", 1, "bool"),
    leaf("s", 2, "string"),
    leaf("r", 3, "large_binary", nullable=False),
    leaf("v", 4, "fixed_size_list:halffloat:3"),
    Field("d", 5, -1, "dict:string:uint8:false", dictionary=DictionaryRef(4, 3)),
    Field("l", 6, -1, "list", children=(leaf("item", 7, "string", 6),)),
    Field(
        "t",
        8,
        -1,
        "large_list.struct",
        children=(
            Field("item", 9, 8, "struct", children=(leaf("x", 10, "int8", 9), leaf("y", 11, "bool", 9))),
        ),
    ),
    leaf("n", 12, "null"),
)
OWNERS = {node.id: top for top in FIELDS for node in top.walk()}
PATHS: dict[tuple[str, ...], tuple[Field, ...]] = {(f.name,): (f,) for f in FIELDS[:4]}


def small_file() -> Built:
    statistics = {
        0: ColumnStatistics("int32", plain([0, 0], "<i8"), plain([1, 4], "<i4"), plain([3, 5], "<i4")),
        1: ColumnStatistics("bool", plain([0, 0], "<i8"), bits([0, 1]), bits([1, 1])),
        2: ColumnStatistics("string", plain([1, 0], "<i8"), strings([b"a", b"d"]), strings([b"c", b""])),
    }
    return (
        build_file(
            {
                0: [plain([1, 2, 3], "<i4"), plain([4, 5], "<i4")],
                1: [bits([1, 0, 1]), bits([1, 1])],
                2: [strings([b"a", b"", b"c"]), strings([b"d", b"ef"])],
                3: [strings([b"\xff", b"", b"123"]), strings([b"", b""])],
                4: [plain(np.arange(9), "<f2"), plain(np.arange(6), "<f2")],
                5: [plain([0, 1, 2], "<u1"), plain([2, 2], "<u1")],
                6: [list_offsets([0, 1, 1, 3]), list_offsets([0, 0, 2])],
                7: [strings([b"p", b"q", b""]), strings([b"rs", b"t"])],
                8: [list_offsets([0, 2, 2, 3], 8), list_offsets([0, 1, 1], 8)],
                10: [plain([1, 2, 3], "<i1"), plain([4], "<i1")],
                11: [bits([1, 0, 1]), bits([0])],
                12: [lambda position: (b"", 0, 3), lambda position: (b"", 0, 2)],
            },
            [3, 2],
            structs=[9],
            statistics=statistics,
        )
        .edited(4, 0, length=3)
        .edited(4, 1, length=2)
    )


def manifest_bytes() -> bytes:
    data, start, _ = strings([b"re", b"", b"d"])(1)
    return b"~" + data[: start + 32]


def open_damaged(built: Built, is_mapped: bool) -> tuple[FileReader, Files]:
    files = Files(is_mapped)
    manifest = files.add("m", manifest_bytes())
    return open_built(built, FIELDS, files, dictionary_source=manifest)


def exercise(built: Built, is_mapped: bool = True, fields: Sequence[Field] = FIELDS) -> str:
    """Read the file in every way, and return the outcome."""
    try:
        reader, files = open_damaged(built, is_mapped)
    except LanceError:
        return "not opened"
    outcomes = [consume(reader, files, field) for field in fields]
    try:
        run(reader.stats(PATHS), files.fetch)
        sum(reader.column_bytes(field) for field in FIELDS)
    except LanceError:
        outcomes.append(False)
    return "read" if all(outcomes) else "refused in part"


def consume(reader: FileReader, files: Files, field: Field) -> bool:
    """Whether the field could be read; checks that the result is valid Arrow."""
    n = reader.num_rows
    take = RowSelection.take(n, [0, n - 1, 0] if n else [])
    for selection in (RowSelection.all(n), take) if n < 10**6 else (RowSelection.range(n, 1, 4), take):
        try:
            block = run(reader.read([field], selection), files.fetch)[field.id]
            array = to_arrow(block, field)
        except LanceError:
            return False
        assert len(array) == len(selection)
        array.validate(full=True)
    return True


def outcomes(damaged: Iterable[Built], *, is_mapped: bool = True) -> dict[str, int]:
    counts: dict[str, int] = {}
    for built in damaged:
        result = exercise(built, is_mapped)
        counts[result] = counts.get(result, 0) + 1
    return counts


@pytest.mark.parametrize("is_mapped", [True, False])
def test_undamaged_file_is_read_whole(is_mapped: bool) -> None:
    assert exercise(small_file(), is_mapped) == "read"


@pytest.mark.parametrize("is_mapped", [True, False])
def test_truncation_at_every_length(is_mapped: bool) -> None:
    built = small_file()
    shorter = (
        Built(built.data[:size], built.ids, built.origin, built.num_batches, 0, 0)
        for size in range(len(built.data))
    )
    assert outcomes(shorter, is_mapped=is_mapped) == {"not opened": len(built.data)}


def with_footer(built: Built, size: int) -> Built:
    """The file without some bytes before its footer."""
    data = built.data[:size] + built.data[-16:]
    return Built(data, built.ids, built.origin, built.num_batches, 0, 0)


def test_bytes_missing_before_the_footer() -> None:
    built = small_file()
    found = outcomes(with_footer(built, size) for size in range(len(built.data) - 16))
    assert "read" not in found


@pytest.mark.parametrize("part", ["position", pytest.param("length", marks=pytest.mark.slow)])
def test_every_cell_of_the_page_table_takes_every_telling_number(part: str) -> None:
    built = small_file()
    found = []
    for column in range(13):
        for number in (*NUMBERS, len(built.data), len(built.data) - 1):
            edit: dict[str, int] = {part: number}
            found.append(exercise(built.edited(column, column % 2, **edit), fields=[OWNERS[column]]))
    assert found.count("refused in part") > 100
    assert "not opened" not in found


@pytest.mark.slow
def test_every_offset_takes_every_telling_number() -> None:
    built = small_file()
    found = []
    for column, width, count in ((2, 8, 4), (3, 8, 4), (6, 4, 4), (7, 8, 4), (8, 8, 4)):
        position, _ = built.cell(column, 0)
        for index in range(count):
            for number in NUMBERS:
                if -(2 ** (8 * width - 1)) <= number < 2 ** (8 * width - 1):
                    kind = "<q" if width == 8 else "<i"
                    damaged = built.patched(position + width * index, struct.pack(kind, number))
                    found.append(exercise(damaged, fields=[OWNERS[column]]))
    assert found.count("refused in part") > 300
    assert "not opened" not in found


@pytest.mark.slow
@pytest.mark.parametrize("is_mapped", [True, False])
def test_a_thousand_flipped_bytes(is_mapped: bool) -> None:
    rng = random.Random(11 + is_mapped)
    built = small_file()
    places = [rng.randrange(len(built.data)) for _ in range(1000)]
    found = outcomes(
        (built.patched(p, bytes([built.data[p] ^ rng.randrange(1, 256)])) for p in places),
        is_mapped=is_mapped,
    )
    assert sum(found.values()) == 1000
    assert len(found) == 3


@pytest.mark.slow
def test_overwritten_words() -> None:
    rng = random.Random(13)
    built = small_file()
    damaged = []
    for _ in range(1000):
        place = rng.randrange(len(built.data) - 8)
        damaged.append(built.patched(place, struct.pack("<q", rng.choice(NUMBERS))))
    assert sum(outcomes(damaged).values()) == 1000


def damaged_manifests() -> Iterable[bytes]:
    good = manifest_bytes()
    for size in range(len(good)):
        yield good[:size]
    for place in range(4, len(good) - 8, 4):
        for number in NUMBERS:
            yield good[:place] + struct.pack("<q", number) + good[place + 8 :]


def test_damaged_dictionaries() -> None:
    refused = 0
    for data in damaged_manifests():
        files = Files()
        reader, files = open_built(small_file(), FIELDS, files, dictionary_source=files.add("m", data))
        refused += not consume(reader, files, FIELDS[5])
    assert refused > 50


FUNNY_IDS: list[Sequence[int]] = [
    [],
    [-1],
    [-1, -2, -3],
    [0],
    [12, 11, 0],
    [0, 0, 0],
    [5, 6, 7, 8],
    [-2, 1, 2, 3],
    [0, 10**6 - 2],
    [2**31 - 1],
    list(range(-5, 40)),
]


@folded("ids", FUNNY_IDS, ids=str)
def test_ids_that_have_nothing_to_do_with_the_file(ids: Sequence[int]) -> None:
    files = Files()
    manifest = files.add("m", manifest_bytes())
    try:
        reader, files = open_built(small_file(), FIELDS, files, field_ids=ids, dictionary_source=manifest)
    except FormatError:
        return
    for field in FIELDS:
        consume(reader, files, field)
    run(reader.stats(PATHS), files.fetch)
