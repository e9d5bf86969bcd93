"""Row ids, row addresses and row versions: as columns, in filters, as keys of takes and sorts."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lancecy
from lancecy.errors import ColumnNotFoundError, FormatError
from lancecy.expr import bind, evaluate, parse
from lancecy.scanning.run_task import read
from lancecy.store.uri import open_store
from tests.helpers.builders import row_id_sequence, segment, version_sequence, write_manifest
from tests.helpers.compare import assert_tables_equal
from tests.helpers.datasets import expected, write_table
from tests.helpers.golden import GoldenVersion, all_versions
from tests.helpers.snapshots import snapshot_of

ROWS = 50
DELETED = {0: [0, 3, 40], 2: [7, 49], 3: [5]}
FRAGMENTS = (5, 7, 9, 11)
VERSIONS = ("_row_created_at_version", "_row_last_updated_at_version")
VIRTUAL = ("_rowid", "_rowaddr", *VERSIONS)

# Of each fragment: a range, one with gaps, ids in no order of which three are also in the first, and far ones.
IDS: list[list[int]] = [
    list(range(100, 150)),
    [n for n in range(1000, 1060) if n % 6],
    [103, 140, 100, *range(20_046, 19_999, -1)],
    [2**63 + 5 * n for n in range(50)],
]
SEGMENTS = (
    segment("range", IDS[0]),
    segment("range_with_holes", IDS[1]),
    segment("array", IDS[2]),
    segment("sorted_array", IDS[3], 32),
)
CREATED: list[list[tuple[int, int]] | None] = [None, [(20, 1), (30, 2)], [(3, 1), (47, 3)], [(50, 4)]]
UPDATED: list[list[tuple[int, int]] | None] = [None, [(50, 2)], [(50, 4)], [(10, 4), (40, 6)]]


def made(root: Path, data_version: str, stable: bool = True, **changes: Any) -> lancecy.Dataset:
    """The table of four fragments above; ``changes`` are of every fragment."""
    write_table(str(root), fragments=4, rows=ROWS, deleted=DELETED, data_version=data_version)
    if not stable:
        return lancecy.dataset(root)
    manifest = snapshot_of(str(root)).manifest
    fragments = []
    for fragment, ids, created, updated in zip(manifest.fragments, SEGMENTS, CREATED, UPDATED, strict=True):
        given = {
            "row_ids": row_id_sequence(ids),
            "created_at_versions": None if created is None else version_sequence(created),
            "last_updated_versions": None if updated is None else version_sequence(updated),
        }
        fragments.append(replace(fragment, **{**given, **changes}))
    flags = manifest.reader_flags | 2
    again = replace(
        manifest,
        version=5,
        fragments=tuple(fragments),
        reader_flags=flags,
        writer_flags=flags,
        next_row_id=2**63 + 999,
    )
    write_manifest(open_store(str(root)), again)
    return lancecy.dataset(root)


def whole(stable: bool = True) -> pa.Table:
    """All living rows of it with all columns there are."""
    numbers: list[int] = []
    columns: dict[str, list[int]] = {name: [] for name in VIRTUAL}
    for place, fragment in enumerate(FRAGMENTS):
        created, updated = (
            [v for n, v in runs or [(ROWS, 1)] for _ in range(n)] for runs in (CREATED[place], UPDATED[place])
        )
        for row in range(ROWS):
            if row in DELETED.get(place, ()):
                continue
            address = (fragment << 32) + row
            numbers.append(place * ROWS + row)
            values = (
                (IDS[place][row], address, created[row], updated[row]) if stable else (address, address, 1, 1)
            )
            for name, value in zip(VIRTUAL, values, strict=True):
                columns[name].append(value)
    table = expected(numbers)
    for name, found in columns.items():
        table = table.append_column(name, pa.array(found, pa.uint64()))
    return table


@pytest.fixture(scope="module", params=[True, False], ids=["stable", "addresses"])
def case(
    request: pytest.FixtureRequest, data_version: str, tmp_path_factory: pytest.TempPathFactory
) -> tuple[lancecy.Dataset, pa.Table]:
    stable: bool = request.param
    return made(tmp_path_factory.mktemp("t") / "t", data_version, stable), whole(stable)


# -- columns ------------------------------------------------------------------


def test_all_virtual_columns_beside_stored_ones(case: tuple[lancecy.Dataset, pa.Table]) -> None:
    dataset, table = case
    names = ["_rowaddr", "x", *VERSIONS, "id", "_rowid"]
    assert_tables_equal(dataset.to_table(columns=names), table.select(names))
    for name in VIRTUAL:
        assert_tables_equal(dataset.to_table(columns=[name]), table.select([name]))
        assert dataset.scanner(columns=[name]).schema.field(0) == pa.field(name, pa.uint64(), True)
    assert_tables_equal(dataset.take([9, 180, 4], columns=names), table.select(names).take([9, 180, 4]))
    streamed = pa.Table.from_batches(dataset.to_batches(columns=names, batch_size=7))
    assert_tables_equal(streamed, table.select(names))
    assert_tables_equal(
        dataset.to_table(columns=names, limit=20, offset=90), table.select(names).slice(90, 20)
    )


def test_flags_append_what_is_not_named(case: tuple[lancecy.Dataset, pa.Table]) -> None:
    dataset, _ = case
    scanner = dataset.scanner(columns=["_rowaddr", "id"], with_row_id=True, with_row_address=True)
    assert scanner.schema.names == ["_rowaddr", "id", "_rowid"]


def test_computed_from_virtual_columns(case: tuple[lancecy.Dataset, pa.Table]) -> None:
    dataset, table = case
    columns = {
        "twice": "_rowaddr * 2",
        "r": "_rowid",
        "late": "_row_created_at_version > 1 OR id < 3",
        "id": "id",
    }
    found = dataset.to_table(columns=columns)
    assert found["twice"].to_pylist() == [2 * n for n in table["_rowaddr"].to_pylist()]
    assert found["r"].equals(table["_rowid"])
    created, ids = (table[n].to_pylist() for n in ("_row_created_at_version", "id"))
    assert found["late"].to_pylist() == [c > 1 or i < 3 for c, i in zip(created, ids, strict=True)]


def test_rows_are_sorted_by_virtual_columns(case: tuple[lancecy.Dataset, pa.Table]) -> None:
    dataset, table = case
    for name in VIRTUAL:
        for direction in ("ascending", "descending"):
            order = pc.sort_indices(table, [(name, direction)])
            found = dataset.to_table(columns=["id"], order_by=[(name, direction)], limit=40)
            assert_tables_equal(found, table.select(["id"]).take(order).slice(0, 40))


def test_unknown_names_are_still_unknown(case: tuple[lancecy.Dataset, pa.Table]) -> None:
    dataset, _ = case
    with pytest.raises(ColumnNotFoundError):
        dataset.to_table(columns=["_rowids"])
    with pytest.raises(ColumnNotFoundError, match="_rowid"):
        dataset.to_table(filter="_rowids = 3")


# -- filters ------------------------------------------------------------------

IN_RANGES = (
    "_rowid > 30",
    "_rowid < 1003",
    "_rowid >= 1058 AND _rowid <= 20010",
    "_rowid = 103",
    "_rowid = 100",
    "_rowid != 140",
    "_ROWID BETWEEN 120 AND 1010",
    "_rowid IN (103, 3, 140, 1006, 1007, 20046, 9223372036854775813)",
    "_rowid IN (5, 21474836490, 30064771072)",
    "NOT (_rowid IN (100, 101, 1001) OR _rowid > 19000)",
    "_rowid < -1",
    "_rowid > -1",
    "_rowid < 120.5",
    "_rowid > 9223372036854775807",
    "_rowid = 18446744073709551615",
    "_rowid > 18446744073709551616",
    "_rowaddr < 5",
    "_rowaddr <= 30064771075",
    "_rowaddr IN (21474836480, 21474836483, 38654705664, 47244640257)",
    "_row_created_at_version = 1",
    "_row_created_at_version > 2 AND _row_last_updated_at_version < 6",
    "_row_last_updated_at_version IN (2, 6)",
    "_rowid > 1020 AND _rowaddr < 38654705670",
    "1003 < _rowid",
)
MIXED = (
    "_rowid > 110 AND x < 60",
    "_rowid IN (103, 104, 1001, 20000) AND s IS NOT NULL",
    "_rowid < 105 OR id = 77",
    "id > 190 OR NOT (_row_last_updated_at_version < 6 OR _rowid < 30)",
    "(_rowid < 110 OR s = 'row-000060') AND _rowaddr > 7",
    "_rowid % 5 = 0",
    "_rowid + 1 = 104 AND id < 150",
    "_rowid = id + 100",
    "_rowid IN (101, NULL)",
    "_rowid NOT IN (101, NULL)",
    "_rowid IS NULL",
    "_rowid IS NOT NULL AND id < 9",
    "_rowid > 5 IS TRUE",
    "10 / (_rowid - 100) > 2 AND _rowid > 100 AND id < 20",
    "_rowid = _rowaddr",
    "_rowid > 120 AND NULL",
)


@pytest.mark.slow
def test_filters(case: tuple[lancecy.Dataset, pa.Table]) -> None:
    """With the pruning and without; the second evaluates the condition on every row."""
    dataset, table = case
    for text in (*IN_RANGES, *MIXED)[:: 1 if dataset.has_stable_row_ids else 4]:
        check_filter(dataset, table, text)


def check_filter(dataset: lancecy.Dataset, table: pa.Table, text: str) -> None:
    names = ["id", "_rowid", "s"]
    plain = dataset.to_table(columns=names, filter=text, use_stats=False)
    assert_tables_equal(dataset.to_table(columns=names, filter=text), plain, hint=text)
    condition = parse(text, table.schema)
    assert condition is not None
    wanted = evaluate(bind(condition, table.schema), table)
    assert_tables_equal(plain, table.filter(wanted).select(names), hint=text)
    assert dataset.count_rows(text) == plain.num_rows, text
    assert sum(batch.num_rows for batch in dataset.to_batches(filter=text)) == plain.num_rows, text
    limited = dataset.to_table(columns=names, filter=text, limit=3, offset=2)
    assert_tables_equal(limited, plain.slice(2, 3), hint=text)
    tasks = dataset.scanner(columns=names, filter=text).plan(blocksize=1 << 10).tasks
    pieces = [read(pickle.loads(pickle.dumps(task))) for task in tasks]
    assert_tables_equal(pa.concat_tables([plain.slice(0, 0), *pieces]), plain, hint=text)
    kept = dataset.scanner(filter=text).explain().kept_rows
    assert kept == plain.num_rows if text in IN_RANGES else kept >= plain.num_rows, text


def test_expressions_of_other_libraries(case: tuple[lancecy.Dataset, pa.Table]) -> None:
    dataset, table = case
    some = table["_rowid"].to_pylist()[70:73]
    for form in (pc.field("_rowid").isin(some), lancecy.col("_rowid").isin(some)):
        assert dataset.to_table(columns=["_rowid"], filter=form)["_rowid"].to_pylist() == some


def test_a_stored_column_comes_before_a_virtual_one(tmp_path: Path) -> None:
    write_table(str(tmp_path), fragments=2, rows=10)
    manifest = snapshot_of(str(tmp_path)).manifest
    fields = tuple(replace(f, name="_rowid") if f.name == "id" else f for f in manifest.schema.fields)
    write_manifest(
        open_store(str(tmp_path)),
        replace(manifest, version=5, schema=replace(manifest.schema, fields=fields)),
    )
    dataset = lancecy.dataset(tmp_path)
    assert dataset.to_table(columns=["_rowid"], filter="_rowid > 17")["_rowid"].to_pylist() == [18, 19]
    assert dataset.take_rows([(7 << 32) + 3], columns=["_rowid"])["_rowid"].to_pylist() == [13]


# -- what is not read ---------------------------------------------------------


def without_files(root: Path, fragments: Sequence[int]) -> None:
    for fragment in fragments:
        (root / "data" / f"part-{fragment}.lance").unlink()


@pytest.mark.parametrize(
    ("text", "needed"),
    [
        ("_rowid IN (101, 149)", [5]),
        ("_rowid > 1000 AND _rowid < 1060 AND x > 3", [7]),
        ("_rowaddr >= 47244640256", [11]),
        ("_row_created_at_version = 2", [7]),
        ("_row_last_updated_at_version > 4 OR _rowid < 103", [5, 9, 11]),
        ("_rowid IN (3, 1002)", []),
    ],
)
def test_fragments_without_a_match_are_not_opened(tmp_path: Path, text: str, needed: list[int]) -> None:
    dataset = made(tmp_path / "t", "2.1")
    expected_rows = dataset.to_table(columns=["id"], filter=text, use_stats=False)
    without_files(tmp_path / "t", [f for f in FRAGMENTS if f not in needed])

    fresh = lancecy.dataset(tmp_path / "t", session=lancecy.Session())
    assert_tables_equal(fresh.to_table(columns=["id"], filter=text), expected_rows)
    assert fresh.count_rows(text) == expected_rows.num_rows
    assert {unit.fragment for unit in fresh.scanner(filter=text).plan().units} == set(needed)
    frame = lancecy.scan(str(tmp_path / "t"), columns=["id"], filter=text, index=None)
    assert frame["id"].compute().tolist() == expected_rows["id"].to_pylist()
    explanation = fresh.scanner(filter=text).explain()
    assert explanation.rows == dataset.count_rows()
    assert "row ids" in str(explanation)


def test_units_are_cut_to_the_rows_that_may_match(tmp_path: Path) -> None:
    dataset = made(tmp_path / "t", "2.0")
    plan = dataset.scanner(filter="_rowid BETWEEN 102 AND 141").plan()
    shown = [(unit.fragment, unit.start, unit.stop, unit.rows, unit.position) for unit in plan.units]
    assert shown == [(5, 2, 42, 38, 1), (9, 0, 2, 2, 97)]


def test_mixed_conditions_leave_out_pages(tmp_path: Path) -> None:
    dataset = made(tmp_path / "t", "0.1")
    explanation = dataset.scanner(filter="_rowid < 104 OR id = 77").explain()
    assert explanation.kept_pages < explanation.pages / 4
    assert explanation.located_rows == explanation.rows


# -- takes --------------------------------------------------------------------


def test_rows_by_id_in_any_order(case: tuple[lancecy.Dataset, pa.Table]) -> None:
    dataset, table = case
    random = np.random.default_rng(2)
    picked = random.integers(0, table.num_rows, 60)
    ids = table["_rowid"].take(picked)
    names = ["s", "_rowid", "id", "_row_created_at_version"]
    want = table.select(names).take(picked)
    for given in (ids.to_pylist(), ids, ids.combine_chunks(), ids.to_numpy(), tuple(ids.to_pylist())):
        assert_tables_equal(dataset.take_rows(given, columns=names), want)
    assert_tables_equal(
        dataset.take_rows(sorted(ids.to_pylist()), columns=["_rowid"]),
        pa.table({"_rowid": pa.array(sorted(ids.to_pylist()), pa.uint64())}),
    )
    assert dataset.take_rows([], columns=names).num_rows == 0
    assert dataset.take_rows(ids[:3], columns=[]).num_rows == 3
    assert dataset.take_rows(ids[:2], columns={"y": "id + 1"})["y"].to_pylist() == [
        n + 1 for n in want["id"][:2].to_pylist()
    ]
    assert dataset.take_rows(ids[:1]).schema == dataset.schema


def test_deleted_moved_and_unknown_ids(tmp_path: Path) -> None:
    dataset = made(tmp_path / "t", "2.1")
    # 100, 103 and 140 live on in the third fragment; 20043 and 2**63 + 25 are deleted; 3 and 2**64 - 1 never were.
    ids = [2**64 - 1, 140, 101, 20_042, 100, 3, 2**63 + 25, 103, 2**63 + 30, 101, 1002]
    found = dataset.take_rows(ids, columns=["_rowid", "id"])
    assert found["_rowid"].to_pylist() == [140, 101, 100, 103, 2**63 + 30, 101]
    assert found["id"].to_pylist() == [101, 1, 102, 100, 156, 1]


def test_addresses_are_the_ids_without_stable_ones(tmp_path: Path) -> None:
    dataset = made(tmp_path / "t", "0.1", stable=False)
    found = dataset.take_rows([(9 << 32) + 8, 5 << 32, (5 << 32) + 2], columns=["id"])
    assert found["id"].to_pylist() == [108, 2]
    for missing in (3, (6 << 32) + 1, (5 << 32) + ROWS, 2**64 - 1):
        with pytest.raises(IndexError, match="does not exist"):
            dataset.take_rows([5 << 32, missing])


@pytest.mark.parametrize(
    "wrong", [[1.5], [None], ["3"], [True], 7, [[1, 2]], pa.array([1, None]), np.array([0.0])]
)
def test_ids_must_be_integers(tmp_path: Path, wrong: Any) -> None:
    dataset = lancecy.dataset(write_table(str(tmp_path)))
    with pytest.raises(TypeError):
        dataset.take_rows(wrong)


@pytest.mark.parametrize("wrong", [[-1], [2**64], np.array([4, -2]), pa.array([-5])])
def test_numbers_that_are_no_ids(tmp_path: Path, wrong: Any) -> None:
    dataset = lancecy.dataset(write_table(str(tmp_path)))
    with pytest.raises(IndexError):
        dataset.take_rows(wrong)


def test_the_index_is_made_once_and_stays_here(tmp_path: Path) -> None:
    dataset = made(tmp_path / "t", "2.2")
    dataset.take_rows([101])
    index = dataset.context.row_index()
    assert dataset.context.row_index() is index
    assert lancecy.dataset(tmp_path / "t").context.row_index() is index
    assert len(pickle.dumps(dataset)) < 1000
    other = lancecy.dataset(tmp_path / "t", session=lancecy.Session())
    assert other.context.row_index() is not index


@pytest.mark.slow
def test_few_rows_need_no_numba(tmp_path: Path) -> None:
    made(tmp_path / "t", "2.1")
    code = f"""
import sys, lancecy
assert lancecy.dataset({str(tmp_path / "t")!r}).take_rows([101, 140])["id"].to_pylist() == [1, 101]
assert "numba" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=200)


# -- damaged tables -----------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "column"),
    [
        ({"row_ids": None}, "_rowid"),
        ({"row_ids": row_id_sequence(segment("range", range(49)))}, "_rowid"),
        ({"row_ids": b"\x0a\x02\x0a"}, "_rowid"),
        ({"created_at_versions": version_sequence([(49, 1)])}, "_row_created_at_version"),
        ({"last_updated_versions": b"\xff"}, "_row_last_updated_at_version"),
    ],
)
def test_numbers_that_do_not_fit_the_rows_are_refused(
    tmp_path: Path, changes: dict[str, Any], column: str
) -> None:
    dataset = made(tmp_path / "t", "2.1", **changes)
    with pytest.raises(FormatError, match="fragment 5"):
        dataset.to_table(columns=[column])
    with pytest.raises(FormatError, match="fragment 5"):
        dataset.to_table(columns=["id"], filter=f"{column} > 3")
    if column == "_rowid":
        with pytest.raises(FormatError, match="fragment 5"):
            dataset.take_rows([3])
    assert dataset.to_table(columns=["id"]).num_rows == 194


def test_more_ids_than_rows_are_refused(tmp_path: Path) -> None:
    """Which the manifest can hide by not saying how many rows there are."""
    ids = row_id_sequence(segment("range", range(1000, 1060)))
    dataset = made(tmp_path / "t", "2.1", physical_rows=None)
    manifest = dataset.context.snapshot.manifest
    first = replace(manifest.fragments[1], row_ids=ids, physical_rows=None)
    fragments = (manifest.fragments[0], first, *manifest.fragments[2:])
    write_manifest(open_store(str(tmp_path / "t")), replace(manifest, version=6, fragments=fragments))
    longer = lancecy.dataset(tmp_path / "t")
    assert longer.take_rows([1003], columns=["id"])["id"].to_pylist() == [53]
    with pytest.raises(FormatError, match="row 55 of fragment 7"):
        longer.take_rows([1003, 1055])
    with pytest.raises(FormatError, match="60 values of _rowid for the 50 rows"):
        longer.count_rows("_rowid > 1003")


def test_two_rows_of_one_id_are_refused_by_takes_only(tmp_path: Path) -> None:
    dataset = made(tmp_path / "t", "2.1", row_ids=row_id_sequence(segment("range", range(50))))
    with pytest.raises(FormatError, match="two rows have the row id"):
        dataset.take_rows([1])
    assert dataset.count_rows("_rowid = 1") == 4


# -- tables of old releases ---------------------------------------------------


@pytest.mark.slow
def test_versions_of_rows_of_goldens() -> None:
    for golden in all_versions():
        check_golden(golden)


def check_golden(golden: GoldenVersion) -> None:
    dataset = lancecy.dataset(golden.golden.path, version=golden.version)
    table = dataset.to_table(columns=[*VIRTUAL])
    assert table.num_rows == golden.expected.num_rows
    created, updated = (table[name].to_numpy() for name in VERSIONS)
    assert (created >= 1).all(), golden
    assert (created <= updated).all(), golden
    assert (updated <= golden.version).all(), golden
    if not dataset.has_stable_row_ids:
        assert (updated == 1).all(), golden
        assert table["_rowid"].equals(table["_rowaddr"]), golden
    assert dataset.count_rows("_row_last_updated_at_version > 1") == int((updated > 1).sum())
    backwards = np.arange(table.num_rows)[::-3]
    ids = table.select(["_rowid"]).take(backwards)
    assert_tables_equal(dataset.take_rows(ids["_rowid"], columns=["_rowid"]), ids, hint=str(golden))
