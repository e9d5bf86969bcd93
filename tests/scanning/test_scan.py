"""Scans of small tables whose every value tells its row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lancecy
from lancecy.errors import ColumnNotFoundError, ExpressionError, FormatError, NotFoundError
from lancecy.expr import evaluate
from lancecy.scanning import engine
from lancecy.scanning import run_task as tasks
from lancecy.table.location import TableLocation
from lancecy.table.snapshot import load_snapshot
from tests.helpers.compare import assert_tables_equal
from tests.helpers.datasets import VERSIONS, data_file, expected, write_table

DELETED = {0: [0, 7, 8, 49], 2: list(range(10, 40))}
LIVE = [n for n in range(150) if n % 50 not in DELETED.get(n // 50, [])]


CASES = [*((version, False) for version in (*VERSIONS, "mixed")), ("0.1", True), ("mixed", True)]


@pytest.fixture(scope="module", params=CASES, ids=lambda case: case[0] + " untrusted" * case[1])
def case(request: pytest.FixtureRequest) -> tuple[str, bool]:
    """Version of the data files, and whether the table is read without memory maps."""
    found: tuple[str, bool] = request.param
    return found


@pytest.fixture(scope="module")
def data_version(case: tuple[str, bool]) -> str:
    return case[0]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory, data_version: str) -> str:
    root = str(tmp_path_factory.mktemp("scan") / "t.lance")
    return write_table(root, deleted=DELETED, data_version=data_version)


@pytest.fixture(scope="module")
def ds(path: str, case: tuple[str, bool]) -> lancecy.Dataset:
    return lancecy.dataset(path, untrusted=case[1])


def ids(table: pa.Table) -> list[int]:
    numbers: list[int] = table["id"].to_pylist()
    return numbers


def test_full_scan_returns_live_rows_in_order(ds: lancecy.Dataset) -> None:
    assert_tables_equal(ds.to_table(), expected(LIVE))
    assert ds.count_rows() == len(ds) == len(LIVE)


def test_schema_is_that_of_the_result(ds: lancecy.Dataset) -> None:
    assert ds.to_table().schema.equals(ds.schema, check_metadata=True)
    assert ds.scanner(["v", "id"]).schema.names == ["v", "id"]


def test_projection_keeps_the_order_asked_for(ds: lancecy.Dataset) -> None:
    assert_tables_equal(ds.to_table(["v", "id"]), expected(LIVE).select(["v", "id"]))


def test_no_columns_still_count_rows(ds: lancecy.Dataset) -> None:
    table = ds.to_table([])
    assert (table.num_rows, table.num_columns) == (len(LIVE), 0)
    assert sum(b.num_rows for b in ds.to_batches([], batch_size=9)) == len(LIVE)


def test_computed_columns(ds: lancecy.Dataset) -> None:
    table = ds.to_table({"double": "id * 2", "id": "id", "long": lancecy.col("x") > 30})
    assert table["double"].to_pylist() == [2 * n for n in LIVE]
    assert table["long"].to_pylist() == [n / 2 > 30 for n in LIVE]
    assert ids(table) == LIVE


@pytest.mark.parametrize(
    ("text", "keep"),
    [
        ("id >= 10 AND id < 60", lambda n: 10 <= n < 60),
        ("id = 149", lambda n: n == 149),
        ("id = 7", lambda n: False),
        ("x > 40 OR s IS NULL", lambda n: n > 80 or n % 7 == 3),
        ("s LIKE 'row-0001%'", lambda n: n >= 100 and n % 7 != 3),
        ("NOT (id < 140)", lambda n: n >= 140),
        ("id % 2 = 0", lambda n: n % 2 == 0),
        ("true", lambda n: True),
        ("false", lambda n: False),
    ],
)
@pytest.mark.parametrize("use_stats", [True, False])
def test_filters(ds: lancecy.Dataset, text: str, keep: Any, use_stats: bool) -> None:
    rows = [n for n in LIVE if keep(n)]
    assert_tables_equal(ds.to_table(filter=text, use_stats=use_stats), expected(rows))
    assert ds.to_table(["s"], filter=text, use_stats=use_stats).num_rows == len(rows)
    assert ds.count_rows(text) == len(rows)


def test_filter_forms_mean_the_same(ds: lancecy.Dataset) -> None:
    rows = [n for n in LIVE if n < 20]
    for form in ("id < 20", pc.field("id") < 20, lancecy.col("id") < 20):
        assert ids(ds.to_table(["id"], filter=form)) == rows


@given(
    offset=st.integers(0, 200),
    limit=st.none() | st.integers(0, 200),
    text=st.sampled_from([None, "id % 3 = 0"]),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_limit_and_offset_are_a_slice(
    ds: lancecy.Dataset, offset: int, limit: int | None, text: str | None
) -> None:
    rows = [n for n in LIVE if text is None or n % 3 == 0]
    wanted = rows[offset:] if limit is None else rows[offset : offset + limit]
    options: dict[str, Any] = {"filter": text, "limit": limit, "offset": offset}
    assert ids(ds.to_table(["id"], **options)) == wanted
    assert [n for b in ds.to_batches(["id"], batch_size=7, **options) for n in b["id"].to_pylist()] == wanted
    assert ds.scanner(["id"], **options).count_rows() == len(wanted)


@given(st.lists(st.integers(0, len(LIVE) - 1), max_size=40))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_take_returns_rows_in_the_order_asked_for(ds: lancecy.Dataset, numbers: list[int]) -> None:
    assert_tables_equal(ds.take(numbers), expected([LIVE[n] for n in numbers]))


def test_take_accepts_arrays_of_several_kinds(ds: lancecy.Dataset) -> None:
    for rows in ([5, 3], (5, 3), np.array([5, 3], np.uint16), pa.array([5, 3]), pa.chunked_array([[5], [3]])):
        assert ids(ds.take(rows, ["id"])) == [LIVE[5], LIVE[3]]


@pytest.mark.parametrize("rows", [[-1], [len(LIVE)], [0, 10**9]])
def test_take_of_rows_that_do_not_exist(ds: lancecy.Dataset, rows: list[int]) -> None:
    with pytest.raises(IndexError, match=f"the table has {len(LIVE)} rows"):
        ds.take(rows)


@pytest.mark.parametrize("rows", [[0.5], ["a"], [[1, 2]], pa.array([1, None])])
def test_take_of_what_is_no_row_number(ds: lancecy.Dataset, rows: Any) -> None:
    with pytest.raises(TypeError):
        ds.take(rows)


def test_row_addresses_and_ids_name_fragment_and_offset(ds: lancecy.Dataset) -> None:
    table = ds.to_table(["id"], filter="id >= 45", with_row_address=True, with_row_id=True)
    rows = [n for n in LIVE if n >= 45]
    address = [((5 + 2 * (n // 50)) << 32) + n % 50 for n in rows]
    assert table.column_names == ["id", "_rowid", "_rowaddr"]
    assert table["_rowaddr"].to_pylist() == table["_rowid"].to_pylist() == address


def test_batches_respect_rows_and_bytes(ds: lancecy.Dataset) -> None:
    by_rows = list(ds.to_batches(batch_size=20))
    assert max(b.num_rows for b in by_rows) == 20
    assert pa.Table.from_batches(by_rows).equals(ds.to_table().combine_chunks())
    by_bytes = list(ds.to_batches(["id"], batch_size_bytes=80))
    assert max(b.num_rows for b in by_bytes) <= 10
    assert sum(b.num_rows for b in by_bytes) == len(LIVE)


def test_fragments_can_be_chosen(ds: lancecy.Dataset) -> None:
    assert ids(ds.to_table(["id"], fragments=[9, 5])) == [n for n in LIVE if n // 50 in (0, 2)]
    fragment = ds.get_fragments()[1]
    assert (fragment.fragment_id, fragment.count_rows(), fragment.num_deletions) == (7, 50, 0)
    assert ids(fragment.to_table(["id"], filter="id < 60")) == list(range(50, 60))
    assert ids(fragment.take([3, 1])) == [53, 51]
    assert ds.get_fragment(6) is None
    with pytest.raises(NotFoundError, match="no fragment 6"):
        ds.to_table(fragments=[6])


def test_order_by_sorts_before_the_limit(ds: lancecy.Dataset) -> None:
    table = ds.to_table(["id"], order_by=[("id", "descending")], limit=3)
    assert ids(table) == LIVE[::-1][:3]
    with pytest.raises(ValueError, match="ascending"):
        ds.scanner(order_by=[("id", "up")])


def test_sample_is_distinct_and_repeatable(ds: lancecy.Dataset) -> None:
    first = ids(ds.sample(40, ["id"], seed=5))
    assert first == ids(ds.sample(40, ["id"], seed=5))
    assert len(set(first)) == 40 and set(first) <= set(LIVE)
    assert ids(ds.sample(1000, ["id"], randomize_order=False)) == LIVE


def test_arrow_streams_start_afresh(ds: lancecy.Dataset) -> None:
    for _ in range(2):
        assert pa.table(ds).equals(ds.to_table().combine_chunks())
    assert pa.schema(ds).equals(ds.schema)


def test_head_and_pandas(ds: lancecy.Dataset) -> None:
    assert ids(ds.head(3)) == LIVE[:3]
    frame = ds.to_pandas(["id", "v"], filter="id < 5")
    assert frame["id"].tolist() == [n for n in LIVE if n < 5]
    assert "fixed_size_list" in str(frame["v"].dtype)


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"columns": ["idd"]}, ColumnNotFoundError, "did you mean 'id'"),
        ({"columns": ["id", "id"]}, ValueError, "named twice: id"),
        ({"columns": {"_rowid": "id"}, "with_row_id": True}, ValueError, "or leave out with_row_id"),
        ({"columns": {"_rowaddr": "id"}, "with_row_address": True}, ValueError, "computed column '_rowaddr'"),
        ({"columns": "id"}, TypeError, "list of names"),
        ({"columns": [3]}, TypeError, "must be text"),
        ({"filter": "idd < 3"}, ColumnNotFoundError, "did you mean 'id'"),
        ({"filter": "id +"}, ExpressionError, "id"),
        ({"filter": "id"}, ExpressionError, "id"),
        ({"limit": -1}, ValueError, "limit must not be negative"),
        ({"offset": -1}, ValueError, "offset must not be negative"),
        ({"batch_size": 0}, ValueError, "batch_size must be positive"),
    ],
)
def test_wrong_arguments_are_named(
    ds: lancecy.Dataset, arguments: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        ds.to_table(**arguments)


def test_tasks_together_are_the_scan(ds: lancecy.Dataset) -> None:
    planned = ds.scanner(["id", "s"], filter="id % 2 = 1").plan(blocksize=700)
    assert len(planned.tasks) > 1
    assert planned.tasks[0].units[0].position == 0
    tables = [tasks.read(task) for task in planned.tasks]
    assert_tables_equal(pa.concat_tables(tables), expected([n for n in LIVE if n % 2]).select(["id", "s"]))
    assert tasks.read(planned.tasks[0], columns=["s"]).column_names == ["s"]
    batches = [b for task in planned.tasks for b in tasks.batches(task)]
    assert pa.Table.from_batches(batches).equals(pa.concat_tables(tables).combine_chunks())


def test_positions_count_live_rows(ds: lancecy.Dataset) -> None:
    units = ds.scanner().plan(blocksize=100).units
    assert [u.position for u in units] == [0, *np.cumsum([u.rows for u in units]).tolist()[:-1]]
    assert sum(u.rows for u in units) == len(LIVE)


def test_explain_counts_what_is_skipped(ds: lancecy.Dataset, data_version: str) -> None:
    told = ds.scanner(["id"], filter="id >= 140").explain()
    assert (told.num_fragments, told.pages) == (3, 21)
    assert "id >= 140" in repr(ds.scanner(["id"], filter="id >= 140"))
    assert "<table>" in told._repr_html_()
    if data_version == "0.1":
        # Pages of 8 rows: rows 136 to 149 of the last fragment are its pages 4.5 on, pages 5 and 6 of 7.
        assert (told.kept_fragments, told.kept_pages) == (1, 2)
        assert 0 < told.bytes_to_read < told.bytes_total
        assert "19 pruned" in str(told)
    else:
        # No bounds are stored in 2.x files.
        assert (told.kept_fragments, told.kept_pages) == (3, 21)
        assert 0 < told.bytes_to_read == told.bytes_total


def test_explain_of_a_scan_without_a_filter_counts_pages(ds: lancecy.Dataset, data_version: str) -> None:
    told = ds.scanner(["id", "s"]).explain()
    assert (told.kept_pages, told.pages, told.kept_rows) == (0, 0, len(LIVE))
    assert told.columns == ("id", "s") and told.bytes_to_read == told.bytes_total > 0
    assert told.stored_pages == 2 * 21 and "42 stored" in str(told)
    versions = {line.version for line in told.fragments}
    assert versions == ({"2.0", "2.1", "2.2"} if data_version == "mixed" else {data_version})


def test_reprs_say_what_a_person_wants_to_know(ds: lancecy.Dataset) -> None:
    for text in (repr(ds), ds._repr_html_()):
        assert "(34 deleted)" in text and "fixed_size_list" in text and "116" in text
    assert "rows=46" in repr(ds.get_fragments()[0])
    assert "num_fragments=3" in repr(ds.stats)


def test_stats_come_from_metadata(ds: lancecy.Dataset, data_version: str) -> None:
    assert ds.stats.dataset_stats() == {"num_deleted_rows": 34, "num_fragments": 3, "num_small_files": 3}
    sizes = ds.stats.data_stats()
    assert list(sizes) == ["id", "x", "s", "v"] and sizes["id"] == sizes["v"] >= 150 * 8
    if data_version in ("0.1", "2.0"):
        assert sizes["id"] == 150 * 8


def test_counts_missing_from_the_manifest_come_from_the_files(tmp_path: Path, data_version: str) -> None:
    root = write_table(str(tmp_path / "old"), deleted=DELETED, counts_known=False, data_version=data_version)
    ds = lancecy.dataset(root)
    assert ds.count_rows() == len(LIVE)
    assert_tables_equal(ds.to_table(), expected(LIVE))
    assert ids(ds.take([len(LIVE) - 1])) == [LIVE[-1]]


def test_table_without_fragments(tmp_path: Path) -> None:
    ds = lancecy.dataset(write_table(str(tmp_path / "empty"), fragments=0))
    assert ds.count_rows() == 0 and ds.to_table().equals(ds.schema.empty_table())
    assert list(ds.to_batches()) == [] and ds.take([]).num_rows == 0
    assert ds.to_table(filter="id = 1").num_rows == 0
    assert "0" in str(ds.scanner(filter="id = 1").explain())


@pytest.mark.parametrize("version", VERSIONS)
def test_manifest_and_files_that_disagree_about_rows(tmp_path: Path, version: str) -> None:
    root = write_table(str(tmp_path / "t"), rows=50, data_version=version)
    file = tmp_path / "t" / "data" / "part-7.lance"
    file.write_bytes(data_file(50, 49, 8, version=version))
    ds = lancecy.dataset(root)
    with pytest.raises(
        FormatError,
        match="manifest says 50 rows, the data files hold 49, data/part-7[.]lance for one.*fragment 7",
    ):
        ds.to_table()


def test_versions_and_checkout(tmp_path: Path) -> None:
    root = write_table(str(tmp_path / "t"), version=4)
    write_table(root, version=6, fragments=1)
    ds = lancecy.dataset(root)
    assert (ds.version, ds.latest_version, ds.count_rows()) == (6, 6, 50)
    assert [v["version"] for v in ds.versions()] == [4, 6]
    old = ds.checkout_version(4)
    assert (old.version, old.count_rows(), old.latest_version) == (4, 150, 6)
    assert old.checkout_latest() == ds and old != ds
    with pytest.raises(NotFoundError):
        ds.checkout_version(5)


def test_datasets_pickle_without_secrets(path: str) -> None:
    import pickle

    location = TableLocation.of(path, {"secret": "hunter2", "anon": False})
    ds = lancecy.Dataset(load_snapshot(location, session=lancecy.Session()))
    data = pickle.dumps(ds)
    assert b"hunter2" not in data
    copy = pickle.loads(data)
    assert copy == ds and copy.to_table().equals(ds.to_table())
    task = pickle.dumps(ds.scanner(["id"], filter="id < 9").plan().tasks[0])
    assert b"hunter2" not in task and len(task) < 2000


def test_each_of_many_computed_columns_is_evaluated_on_its_own_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 300
    seen: list[int] = []

    def evaluated(bound: Any, batch: Any) -> Any:
        seen.append(batch.num_columns)
        return evaluate(bound, batch)

    monkeypatch.setattr(engine, "evaluate", evaluated)
    ds = lancecy.write_dataset({f"c{n}": [n, 2 * n] for n in range(count)}, tmp_path / "t.lance")
    found = ds.scanner(columns={f"d{n}": f"c{n} + 1" for n in range(count)}).to_table()
    # With all columns for each, time grew by the square of their number.
    assert seen == [1] * count
    assert found["d7"].to_pylist() == [8, 15]
    assert found.num_columns == count
