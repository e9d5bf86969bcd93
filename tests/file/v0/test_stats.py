"""Which stored page statistics are used (file sheet 0.1, sections 6 and 6.7)."""

from __future__ import annotations

import decimal
from collections.abc import Sequence

import numpy as np
import pytest

from lancecy.errors import FormatError
from lancecy.file.base import FileReader
from lancecy.schema import Field
from lancecy.stats import ByteBounds, ColumnStats, NumericBounds, StatsTable
from lancecy.store.reads import run
from tests.helpers.folded import folded
from tests.helpers.pages import (
    Built,
    ColumnStatistics,
    Files,
    Page,
    bits,
    build_file,
    list_offsets,
    open_built,
    plain,
    strings,
)

ROWS = (4, 4, 4)
DTYPES = {
    "int8": "<i1",
    "int16": "<i2",
    "int32": "<i4",
    "int64": "<i8",
    "uint8": "<u1",
    "uint16": "<u2",
    "uint32": "<u4",
    "uint64": "<u8",
    "halffloat": "<f2",
    "float": "<f4",
    "double": "<f8",
    "date32:day": "<i4",
    "date64:ms": "<i8",
    "time32:s": "<i4",
    "time64:ns": "<i8",
    "timestamp:us:-": "<i8",
    "timestamp:ns:America/New_York": "<i8",
    "duration:ms": "<i8",
}


def leaf(kind: str, *, nullable: bool = True, field_id: int = 2, parent: int = -1) -> Field:
    return Field("c", field_id, parent, kind, nullable)


def counts(values: Sequence[int]) -> Page:
    return plain(values, "<i8")


def with_statistics(
    kind: str, page: Page, nulls: Sequence[int], low: Page, high: Page, *, statistics_field: int = 5
) -> Built:
    """One data column of id 2 in batches of four rows, with the given statistics."""
    statistics = {2: ColumnStatistics(kind, counts(nulls), low, high)}
    return build_file({2: [page] * len(ROWS)}, ROWS, statistics=statistics, statistics_field=statistics_field)


def stats_of(built: Built, field: Field) -> ColumnStats | None:
    reader, files = open_built(built, [field])
    return stats_table(reader, files, field).columns.get(("c",))


def stats_table(reader: FileReader, files: Files, field: Field) -> StatsTable:
    return run(reader.stats({("c",): (field,)}), files.fetch)


def numeric(
    kind: str,
    lows: Sequence[float],
    highs: Sequence[float],
    nulls: Sequence[int] = (0, 0, 0),
    *,
    statistics_field: int = 5,
) -> ColumnStats:
    dtype = DTYPES[kind]
    page = plain([0] * 4, dtype)
    built = with_statistics(
        kind, page, nulls, plain(lows, dtype), plain(highs, dtype), statistics_field=statistics_field
    )
    found = stats_of(built, leaf(kind))
    assert found is not None
    assert isinstance(found.bounds, NumericBounds)
    return found


def texts(
    lows: Sequence[bytes],
    highs: Sequence[bytes],
    nulls: Sequence[int] = (0, 0, 0),
    *,
    kind: str = "string",
    nullable: bool = True,
    values: Sequence[bytes] = (b"a", b"b", b"c", b"d"),
) -> ColumnStats:
    built = with_statistics(kind, strings(values), nulls, strings(lows), strings(highs))
    found = stats_of(built, leaf(kind, nullable=nullable))
    assert found is not None
    assert isinstance(found.bounds, ByteBounds)
    return found


def bound(bounds: ByteBounds, unit: int) -> tuple[bytes | None, bytes | None]:
    low = bounds.low_bytes[bounds.low_offsets[unit] : bounds.low_offsets[unit + 1]].tobytes()
    high = bounds.high_bytes[bounds.high_offsets[unit] : bounds.high_offsets[unit + 1]].tobytes()
    return low if bounds.has_low[unit] else None, high if bounds.has_high[unit] else None


def byte_bounds(found: ColumnStats) -> list[tuple[bytes | None, bytes | None]]:
    assert isinstance(found.bounds, ByteBounds)
    return [bound(found.bounds, unit) for unit in range(len(ROWS))]


def known(found: ColumnStats) -> list[bool]:
    assert isinstance(found.bounds, NumericBounds)
    return [bool(k) for k in found.bounds.known]


# -- numbers ------------------------------------------------------------------------------


@folded("field_number", [4, 5])
@folded("kind", DTYPES)
def test_bounds_of_numbers(kind: str, field_number: int) -> None:
    found = numeric(kind, [1, 2, 100], [10, 20, 120], statistics_field=field_number)
    assert isinstance(found.bounds, NumericBounds)
    assert found.bounds.lows.tolist() == [1, 2, 100]
    assert found.bounds.highs.tolist() == [10, 20, 120]
    floats = dict.fromkeys(("halffloat", "float", "double"), "f8")
    assert found.bounds.lows.dtype == {**floats, "uint64": "u8"}.get(kind, "i8")
    assert known(found) == [True] * 3
    assert found.no_nulls.all()
    assert not found.all_null.any()
    assert found.may_have_nan == (kind in floats)


def test_extreme_numbers_keep_their_value() -> None:
    found = numeric("uint64", [0, 2**64 - 1, 5], [2**63, 2**64 - 1, 5])
    assert isinstance(found.bounds, NumericBounds)
    assert found.bounds.highs.tolist() == [2**63, 2**64 - 1, 5]
    found = numeric("int64", [-(2**63), 0, 1], [2**63 - 1, 0, 1])
    assert isinstance(found.bounds, NumericBounds)
    assert found.bounds.lows.tolist() == [-(2**63), 0, 1]


def test_bounds_of_booleans() -> None:
    built = with_statistics("bool", bits([1, 0, 0, 1]), [0, 0, 0], bits([0, 1, 0]), bits([1, 1, 0]))
    found = stats_of(built, leaf("bool"))
    assert found is not None
    assert isinstance(found.bounds, NumericBounds)
    assert found.bounds.lows.tolist() == [0, 1, 0]
    assert found.bounds.highs.tolist() == [1, 1, 0]


def test_bounds_of_decimals_are_unscaled_integers() -> None:
    lows = [-(10**30), 5, -1]
    highs = [10**30, 5, 0]
    pages = [
        plain(np.frombuffer(b"".join(v.to_bytes(16, "little", signed=True) for v in values), "V16"), "V16")
        for values in (lows, highs)
    ]
    kind = "decimal:128:38:2"
    built = with_statistics(kind, plain([bytes(16)] * 4, "V16"), [0, 0, 0], *pages)
    found = stats_of(built, leaf(kind))
    assert found is not None
    assert isinstance(found.bounds, NumericBounds)
    assert found.bounds.lows.tolist() == lows
    assert found.bounds.highs.tolist() == highs
    assert decimal.Decimal(found.bounds.highs.tolist()[0]).scaleb(-2) == decimal.Decimal(10**28)
    assert known(found) == [True] * 3


def test_bounds_of_numbers_count_only_where_nothing_was_null() -> None:
    # Bytes under a null are read back as a value, which no bound covers.
    found = numeric("int32", [1, 1, 1], [2, 2, 2], nulls=[0, 1, 4])
    assert known(found) == [True, False, False]
    assert found.no_nulls.tolist() == [True] * 3
    assert found.all_null.tolist() == [False] * 3


@pytest.mark.parametrize("nulls", [-1, 5, 2**62])
def test_impossible_null_counts_are_not_believed(nulls: int) -> None:
    assert known(numeric("int32", [1, 1, 1], [2, 2, 2], nulls=[0, nulls, 0])) == [True, False, True]


def test_minimum_above_maximum_is_not_believed() -> None:
    assert known(numeric("int32", [1, 3, 1], [2, 2, 1])) == [True, False, True]


def test_nan_as_a_bound_is_not_believed() -> None:
    nan = float("nan")
    assert known(numeric("double", [nan, 1, 1], [2, nan, 2])) == [False, False, True]


def test_signed_zeros_and_infinities_are_bounds() -> None:
    found = numeric("float", [-0.0, float("-inf"), 0.0], [0.0, float("inf"), -0.0])
    assert known(found) == [True] * 3


# -- strings ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["string", "large_string", "binary", "large_binary"])
def test_bounds_of_strings(kind: str) -> None:
    found = texts([b"a", b"b", b"ca"], [b"d", b"b", b"cb"], kind=kind)
    assert byte_bounds(found) == [(b"a", b"d"), (b"b", b"b"), (b"ca", b"cb")]
    assert found.no_nulls.all()
    assert not found.all_null.any()


def test_bound_without_bytes_is_no_bound_and_leaves_nulls_possible() -> None:
    # An empty minimum: no bound was known, or there are empty values, which read back as null.
    found = texts([b"", b"a", b""], [b"x", b"", b""])
    assert byte_bounds(found) == [(None, b"x"), (b"a", None), (None, None)]
    assert found.no_nulls.tolist() == [False, True, False]


def test_strings_under_nulls_are_outside_the_bounds() -> None:
    # Bytes under a null, if the writer's array had any, are read back as a value.
    found = texts([b"a", b"a", b"a"], [b"d", b"d", b"d"], nulls=[0, 1, 3])
    assert byte_bounds(found) == [(b"a", b"d"), (None, None), (None, None)]
    assert found.no_nulls.tolist() == [True, False, False]


def test_strings_that_cannot_be_null() -> None:
    found = texts([b"", b"a", b"a"], [b"d", b"d", b"d"], nullable=False)
    assert byte_bounds(found) == [(None, b"d"), (b"a", b"d"), (b"a", b"d")]
    assert found.no_nulls.tolist() == [True, True, True]
    assert found.all_null.tolist() == [False] * 3


@pytest.mark.parametrize(("values", "proved"), [([b""] * 4, True), ([b"hidden", b"", b"", b""], False)])
def test_all_null_is_proved_only_where_no_bytes_lie_before_the_page(
    values: Sequence[bytes], proved: bool
) -> None:
    found = texts([b"", b"", b"a"], [b"", b"", b"b"], nulls=[4, 4, 0], values=values)
    assert found.all_null.tolist() == [proved, proved, False]
    assert found.no_nulls.tolist() == [False, False, True]


@folded(
    ("low", "high", "believed"),
    [
        (b"b", b"a", False),
        (b"ab", b"a", False),
        (b"a", b"ab", True),
        (b"a" * 64, b"a" * 64, True),
        (b"a" * 64 + b"c", b"a" * 64 + b"b", False),
        (b"a" * 300, b"a" * 299, False),
        (b"a" * 299, b"a" * 300, True),
        (b"a" * 8 + b"\x00", b"a" * 8, False),
        (b"a" * 8, b"a" * 8 + b"\x00", True),
        (b"\x7f", b"\xff", True),
        (b"\xff", b"\x7f", False),
        (b"\x00", b"\x00\x00", True),
    ],
)
def test_strings_are_compared_byte_by_byte(low: bytes, high: bytes, believed: bool) -> None:
    found = texts([b"a", low, b"a"], [b"b", high, b"b"], kind="binary")
    middle = (low, high) if believed else (None, None)
    assert byte_bounds(found) == [(b"a", b"b"), middle, (b"a", b"b")]
    assert found.no_nulls.tolist() == [True, believed, True]


# -- dictionaries -------------------------------------------------------------------------


def test_bounds_of_dictionaries_are_those_of_their_values() -> None:
    # An empty text in a dictionary reads back as null, so a minimum without bytes leaves nulls possible.
    lows, highs = [b"b", b"", b"a"], [b"d", b"c", b"c"]
    statistics = {2: ColumnStatistics("string", counts([0, 0, 1]), strings(lows), strings(highs))}
    built = build_file({2: [plain([0] * 4, "<i1")] * 3}, ROWS, statistics=statistics)
    for nullable in (True, False):
        found = stats_of(built, leaf("dict:string:int8:false", nullable=nullable))
        assert found is not None
        assert byte_bounds(found) == [(b"b", b"d"), (None, b"c"), (None, None)]
        assert found.no_nulls.tolist() == [True, False, False]
        assert not found.all_null.any()


def test_bounds_of_dictionaries_of_numbers() -> None:
    statistics = {
        2: ColumnStatistics("int64", counts([0] * 3), plain([1, 2, 9], "<i8"), plain([1, 5, 8], "<i8"))
    }
    built = build_file({2: [plain([0] * 4, "<i1")] * 3}, ROWS, statistics=statistics)
    found = stats_of(built, leaf("dict:int64:int8:false"))
    assert found is not None
    assert known(found) == [True, True, False]
    # Bounds of another type than the values are not those of this column.
    assert stats_of(built, leaf("dict:int32:int8:false")) is None


# -- columns without statistics -------------------------------------------------------------


def test_file_without_statistics_still_tells_what_cannot_be_null() -> None:
    fields = [
        leaf("int32", field_id=0),
        leaf("timestamp:us:-", field_id=1),
        leaf("string", field_id=2),
        leaf("string", field_id=3, nullable=False),
        leaf("null", field_id=4),
        leaf("halffloat", field_id=5),
    ]
    pages = {
        0: [plain([1], "<i4")],
        1: [plain([1], "<i8")],
        2: [strings([b""])],
        3: [strings([b""])],
        4: [lambda position: (b"", 0, 1)],
        5: [plain([1], "<f2")],
    }
    reader, files = open_built(build_file(pages, [1]), fields)
    files.rounds.clear()
    paths: dict[tuple[str, ...], tuple[Field, ...]] = {(str(f.id),): (f,) for f in fields}
    found = run(reader.stats(paths), files.fetch)
    assert files.rounds == []
    assert found.row_counts.tolist() == [1]
    assert set(found.columns) == {("0",), ("1",), ("3",), ("4",), ("5",)}
    facts = {p[0]: (c.bounds, c.no_nulls[0], c.all_null[0], c.may_have_nan) for p, c in found.columns.items()}
    assert facts == {
        "0": (None, True, False, False),
        "1": (None, True, False, False),
        "3": (None, True, False, False),
        "4": (None, False, True, False),
        "5": (None, True, False, True),
    }


def test_lists_dictionaries_and_json_are_unknown() -> None:
    fields = [
        Field("l", 0, -1, "list", children=(leaf("int32", field_id=1, parent=0),)),
        leaf("dict:string:int8:false", field_id=2),
        leaf("json", field_id=3),
    ]
    statistics = {
        1: ColumnStatistics("int32", counts([0]), plain([1], "<i4"), plain([1], "<i4")),
        3: ColumnStatistics("json", counts([0]), strings([b"a"]), strings([b"b"])),
    }
    pages = {0: [list_offsets([0, 1])], 1: [plain([1], "<i4")], 2: [plain([0], "<i1")], 3: [strings([b"a"])]}
    reader, files = open_built(build_file(pages, [1], statistics=statistics), fields)
    chains = {("l",): fields[:1], ("l", "c"): (fields[0], fields[0].children[0])}
    chains |= {("d",): fields[1:2], ("j",): fields[2:]}
    assert run(reader.stats(chains), files.fetch).columns == {}


def test_fields_of_structs_have_statistics() -> None:
    child = leaf("int16", field_id=2, parent=1)
    parent = Field("s", 1, -1, "struct", children=(child,))
    statistics = {2: ColumnStatistics("int16", counts([0, 0]), plain([1, 5], "<i2"), plain([2, 6], "<i2"))}
    built = build_file(
        {2: [plain([1, 2], "<i2"), plain([5, 6], "<i2")]}, [2, 2], structs=[1], statistics=statistics
    )
    reader, files = open_built(built, [parent])
    found = run(reader.stats({("s", "c"): (parent, child)}), files.fetch).columns["s", "c"]
    assert isinstance(found.bounds, NumericBounds)
    assert found.bounds.highs.tolist() == [2, 6]


def test_statistics_are_read_once_and_together() -> None:
    fields = [leaf("int32", field_id=i) for i in (0, 1, 2)]
    statistics = {
        i: ColumnStatistics("int32", counts([0]), plain([i], "<i4"), plain([i], "<i4")) for i in (0, 1, 2)
    }
    pages = {i: [plain([i], "<i4")] for i in (0, 1, 2)}
    reader, files = open_built(build_file(pages, [1], statistics=statistics), fields, Files(is_mapped=False))
    files.rounds.clear()
    first = run(reader.stats({("a",): fields[:1], ("b",): fields[1:2]}), files.fetch)
    assert len(files.rounds) == 2  # their page table, then all pages
    again = run(reader.stats({("b",): fields[1:2]}), files.fetch)
    assert again.columns["b",] is first.columns["b",]
    assert len(files.rounds) == 2
    run(reader.stats({("c",): fields[2:]}), files.fetch)
    assert len(files.rounds) == 3


# -- statistics that do not fit --------------------------------------------------------------


@pytest.mark.parametrize("wrong", ["nulls", "low", "high"])
def test_page_of_the_wrong_length_is_ignored(wrong: str) -> None:
    pages = {"nulls": counts([0, 0, 0]), "low": plain([1, 1, 1], "<i4"), "high": plain([2, 2, 2], "<i4")}
    pages[wrong] = counts([0, 0]) if wrong == "nulls" else plain([1, 1, 1, 1], "<i4")
    statistics = {2: ColumnStatistics("int32", pages["nulls"], pages["low"], pages["high"])}
    found = stats_of(build_file({2: [plain([1] * 4, "<i4")] * 3}, ROWS, statistics=statistics), leaf("int32"))
    assert found is not None
    assert found.bounds is None
    assert found.no_nulls.all()


def test_bounds_of_another_type_are_ignored() -> None:
    built = with_statistics(
        "int64", plain([1] * 4, "<i4"), [0] * 3, plain([1] * 3, "<i8"), plain([2] * 3, "<i8")
    )
    found = stats_of(built, leaf("int32"))
    assert found is not None
    assert found.bounds is None


def test_statistics_of_other_fields_are_no_obstacle() -> None:
    column = ColumnStatistics("int32", counts([0] * 3), plain([1] * 3, "<i4"), plain([2] * 3, "<i4"))
    built = build_file({2: [plain([1] * 4, "<i4")] * 3}, ROWS, statistics={77: column, 2: column})
    found = stats_of(built, leaf("int32"))
    assert found is not None
    assert known(found) == [True] * 3


def test_statistics_whose_ids_do_not_begin_with_0_are_not_used() -> None:
    """By the document a list of ids tells the rows of the page table, by the releases the ids do; no release wrote such a list."""
    column = ColumnStatistics("int32", counts([0] * 3), plain([1] * 3, "<i4"), plain([2] * 3, "<i4"))
    columns = {2: [plain([1] * 4, "<i4")] * 3}
    found = stats_of(build_file(columns, ROWS, statistics={2: column}, first_statistics_id=2), leaf("int32"))
    assert found is None or found.bounds is None
    used = stats_of(build_file(columns, ROWS, statistics={2: column}), leaf("int32"))
    assert used is not None and known(used) == [True] * 3


@folded("cell", [0, 1, 2, 3])
@folded("position", [-1, 2**40, 2**63 - 1])
def test_statistics_outside_the_file_are_refused(position: int, cell: int) -> None:
    built = with_statistics(
        "int32", plain([1] * 4, "<i4"), [0] * 3, plain([1] * 3, "<i4"), plain([2] * 3, "<i4")
    )
    damaged = built.patched(
        built.stats_table_position + 16 * cell, position.to_bytes(8, "little", signed=True)
    )
    if cell == 0:
        assert stats_of(damaged, leaf("int32")) is not None  # a struct's cell means nothing
        return
    with pytest.raises(FormatError, match="statistics of data/built.lance"):
        stats_of(damaged, leaf("int32"))


@pytest.mark.parametrize(
    ("kind", "high", "believed"),
    [
        ("string", b"x" * 61, b"x" * 61),
        ("string", b"x" * 62, b"x" * 60 + b"y"),
        ("large_string", b"x" * 63 + b"y", b"x" * 60 + b"y"),
        ("string", b"\xff" * 70, b"\xff" * 61),
        ("binary", b"x" * 63 + b"y", b"x" * 63 + b"y"),
    ],
)
def test_long_maximum_of_text_is_loosened(kind: str, high: bytes, believed: bytes) -> None:
    # pylance cuts at whole characters: b"x" * 63 + "é" is above b"x" * 63 + b"y", the maximum it states.
    found = texts([b"a", b"a", b"a"], [b"b", high, b"cd"], kind=kind)
    assert byte_bounds(found) == [(b"a", b"b"), (b"a", believed), (b"a", b"cd")]
