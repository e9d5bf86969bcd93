"""``lancecy.scan``: partitions, labels, what is read, tokens, schedulers."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from distributed import Client

import lancecy
from lancecy.dask.reader import Reader
from lancecy.errors import ColumnNotFoundError, ExpressionError
from tests.dask.frames import from_frame
from tests.helpers.compare import assert_tables_equal, sorted_rows
from tests.interop.live import append, mixed_table, peer, write

pytestmark = pytest.mark.interop

ROWS = 40_000
COLUMNS = ["id", "x", "k", "word", "vector", "point", "tags", "colour"]


@pytest.fixture(scope="module", params=["legacy", "2.0", "2.1", "2.2"])
def path(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> str:
    """Four fragments of 10,000 rows, 1,000 of the second deleted."""
    place = str(tmp_path_factory.mktemp("dask") / "t.lance")
    write(
        mixed_table(ROWS).select(COLUMNS),
        place,
        max_rows_per_file=10_000,
        max_rows_per_group=1024,
        data_storage_version=request.param,
    )
    peer(place).delete("id >= 12000 AND id < 13000")
    return place


@pytest.fixture(scope="module")
def expected(path: str) -> pa.Table:
    table: pa.Table = peer(path).to_table()
    return table


@pytest.fixture(autouse=True)
def _sync() -> Iterator[None]:
    with dask.config.set(scheduler="sync"):
        yield


def same(found: pd.DataFrame, expected: pa.Table) -> None:
    assert_tables_equal(from_frame(found, expected.schema), expected)


# -- partitions and labels ---------------------------------------------------------------------------------


def test_whole_table_comes_back_with_its_positions(path: str, expected: pa.Table) -> None:
    ddf = lancecy.scan(path)
    assert isinstance(ddf, dd.DataFrame)
    assert (ddf.npartitions, ddf.divisions) == (1, (0, ROWS - 1001))
    found = ddf.compute()
    same(found, expected)
    assert found.index.equals(pd.RangeIndex(ROWS - 1000))


@pytest.mark.parametrize("blocksize", [1, 60_000, "200kB", "1MiB", None])
def test_partitions_of_any_size_have_exact_divisions(path: str, expected: pa.Table, blocksize: Any) -> None:
    ddf = lancecy.scan(path, blocksize=blocksize)
    lengths = ddf.map_partitions(len).compute().tolist()
    starts = np.concatenate([[0], np.cumsum(lengths)])
    assert ddf.divisions == (*starts[:-1], starts[-1] - 1)
    assert min(lengths) > 0
    same(ddf.compute(), expected)


def test_large_fragments_are_split_and_small_ones_grouped(path: str, tmp_path: Path) -> None:
    split = lancecy.scan(path, columns=["id"], blocksize=70_000)
    assert 4 < split.npartitions <= 8
    assert split.map_partitions(len).max().compute() <= 10_000
    assert lancecy.scan(path, columns=["id"], blocksize=250_000).npartitions == 2
    small = mixed_table(64).select(["id", "x"])
    write(small, tmp_path / "s.lance", max_rows_per_file=4, max_rows_per_group=4)
    assert len(peer(tmp_path / "s.lance").get_fragments()) == 16
    assert lancecy.scan(tmp_path / "s.lance").npartitions == 1
    assert lancecy.scan(tmp_path / "s.lance", blocksize=None).npartitions == 16


def test_size_of_partitions_is_that_of_the_selected_columns(path: str) -> None:
    narrow = lancecy.scan(path, columns=["k"], blocksize=100_000).npartitions
    wide = lancecy.scan(path, columns=["id", "vector"], blocksize=100_000).npartitions
    assert narrow < wide


def test_loc_reads_only_the_partitions_concerned(path: str, expected: pa.Table, reads: list[Any]) -> None:
    ddf = lancecy.scan(path, columns=["id"], blocksize=80_000)
    found = ddf.loc[30_000:30_010].compute()
    assert found["id"].tolist() == expected["id"][30_000:30_011].to_pylist()
    assert len(reads) == 1


def test_filter_is_applied_while_reading(path: str, expected: pa.Table) -> None:
    ddf = lancecy.scan(path, filter="k < 10 AND x > 0", columns=["id", "word"], blocksize=100_000)
    mask = pc.and_(pc.less(expected["k"], 10), pc.greater(expected["x"], 0))
    assert not ddf.known_divisions
    same(ddf.compute(), expected.filter(mask).select(["id", "word"]))


@pytest.mark.parametrize(
    "given", ["k = 7", pc.field("k") == 7, lancecy.col("k") == 7], ids=["sql", "arrow", "col"]
)
def test_filters_of_every_kind_mean_the_same(path: str, expected: pa.Table, given: Any) -> None:
    found = lancecy.scan(path, filter=given).compute()
    same(found, expected.filter(pc.equal(expected["k"], 7)))


def test_filter_that_nothing_passes_gives_no_rows_of_the_right_types(path: str) -> None:
    ddf = lancecy.scan(path, filter="k > 1000")
    found = ddf.compute()
    assert len(found) == 0
    assert found.dtypes.to_dict() == ddf.dtypes.to_dict()


def test_index_none_numbers_every_partition_from_zero(path: str) -> None:
    ddf = lancecy.scan(path, columns=["id"], blocksize=80_000, index=None)
    assert not ddf.known_divisions
    firsts = ddf.map_partitions(lambda part: part.index[0], meta=("first", "int64"))
    assert firsts.compute().tolist() == [0] * ddf.npartitions


def test_interleaved_partitions_keep_their_positions(path: str, expected: pa.Table) -> None:
    ddf = lancecy.scan(path, columns=["id"], blocksize=80_000, interleave=True)
    assert not ddf.known_divisions
    found = ddf.compute().sort_index()
    assert found.index.equals(pd.RangeIndex(ROWS - 1000))
    assert found["id"].tolist() == expected["id"].to_pylist()


def test_computed_columns_and_addresses(path: str, expected: pa.Table) -> None:
    ddf = lancecy.scan(path, columns={"id": "id", "double": "x * 2"}, with_row_address=True)
    found = ddf[["double", "_rowaddr"]].compute()
    assert np.array_equal(found["double"].to_numpy(), expected["x"].to_numpy() * 2, equal_nan=True)
    addresses = peer(lancecy.dataset(path).uri).to_table(columns=["id"], with_row_address=True)["_rowaddr"]
    assert found["_rowaddr"].tolist() == addresses.to_pylist()


def test_columns_of_lists_and_structs_are_computed_in_tasks(tmp_path: Path) -> None:
    rows = pa.table({"l": [[3, 1], [], None, [2]] * 10, "i": range(40)})
    write(rows, tmp_path / "t.lance", max_rows_per_file=9)
    columns = {
        "more": "array_append(l, i)",
        "both": "named_struct('a', i, 'b', array_sort(l))",
        "pairs": "make_array(l, [i])",
        "map": "map(['i'], [i])",
        "text": "array_to_string(l, ',')",
    }
    text = "array_has(array_append(l, 7), i) OR array_length(l) > 1"
    ddf = lancecy.scan(tmp_path / "t.lance", columns=columns, filter=text)
    found = ddf.compute(scheduler="processes", num_workers=2)
    wanted = lancecy.dataset(tmp_path / "t.lance").to_table(columns=columns, filter=text)
    assert_tables_equal(from_frame(found, wanted.schema), wanted)
    assert len(found) == 11


def test_version_is_settled_when_the_scan_is_made(tmp_path: Path) -> None:
    rows = mixed_table(30).select(["id", "x"])
    write(rows, tmp_path / "t.lance")
    before = lancecy.scan(tmp_path / "t.lance")
    append(rows, tmp_path / "t.lance")
    assert len(before.compute()) == 30
    assert len(lancecy.scan(tmp_path / "t.lance").compute()) == 60
    assert len(lancecy.scan(tmp_path / "t.lance", version=1).compute()) == 30


def test_dataset_is_scanned_at_its_version(path: str, expected: pa.Table) -> None:
    same(lancecy.scan(lancecy.dataset(path)).compute(), expected)
    assert len(lancecy.scan(lancecy.dataset(path, version=1)).compute()) == ROWS


@pytest.mark.parametrize("rows", [0, 1, 2])
def test_tiny_tables(tmp_path: Path, rows: int) -> None:
    # pylance cannot write a dictionary column without rows in this format.
    table = mixed_table(rows).select(COLUMNS if rows else COLUMNS[:-1])
    write(table, tmp_path / "t.lance")
    ddf = lancecy.scan(tmp_path / "t.lance")
    found = ddf.compute()
    same(found, table)
    assert found.dtypes.to_dict() == ddf.dtypes.to_dict()
    assert ddf[["vector"]].compute().shape == (rows, 1)


def test_deleted_fragment_makes_no_empty_partition(path: str, tmp_path: Path) -> None:
    rows = mixed_table(60).select(["id", "x"])
    write(rows, tmp_path / "t.lance", max_rows_per_file=20, max_rows_per_group=20)
    peer(tmp_path / "t.lance").delete("id >= 20 AND id < 40")
    ddf = lancecy.scan(tmp_path / "t.lance", blocksize=1)
    assert ddf.divisions == (0, 20, 39)
    assert ddf["id"].compute().tolist() == [*range(20), *range(40, 60)]


# -- what is read ------------------------------------------------------------------------------------------


def _names(reads: list[Any]) -> set[tuple[str, ...]]:
    return {names for _, names in reads}


def test_planning_reads_no_data(path: str, reads: list[Any]) -> None:
    repr(lancecy.scan(path, filter="k < 5"))
    assert reads == []


@pytest.mark.parametrize(
    ("use", "names"),
    [
        (lambda ddf: ddf[["id"]], ("id",)),
        (lambda ddf: ddf.x.sum(), ("x",)),
        (lambda ddf: ddf[ddf.k > 5].x.mean(), ("x",)),
        (lambda ddf: ddf[ddf.x.abs() > 5].k.mean(), ("x", "k")),
        (lambda ddf: ddf.groupby("k").x.mean(), ("x", "k")),
        (lambda ddf: ddf[["word", "id"]], ("id", "word")),
    ],
    ids=["projection", "sum", "pushed filter", "filter", "groupby", "order"],
)
def test_only_the_columns_used_are_read(
    path: str, reads: list[Any], use: Any, names: tuple[str, ...]
) -> None:
    use(lancecy.scan(path, blocksize=200_000)).compute()
    assert {frozenset(n) for n in _names(reads)} == {frozenset(names)}


def test_no_columns_means_no_read(path: str, reads: list[Any]) -> None:
    ddf = lancecy.scan(path, blocksize=200_000)
    assert ddf[[]].compute().shape == (ROWS - 1000, 0)
    assert ddf[[]].map_partitions(len).compute().sum() == ROWS - 1000
    assert reads == []


def test_no_columns_of_a_filtered_scan_counts_what_passes(path: str, expected: pa.Table) -> None:
    ddf = lancecy.scan(path, filter="k < 10")
    passed = pc.sum(pc.less(expected["k"], 10)).as_py()
    assert ddf[[]].compute().shape == (passed, 0)
    assert len(ddf) == len(ddf[["id"]]) == passed


def test_series_and_single_partitions(path: str, expected: pa.Table) -> None:
    ddf = lancecy.scan(path, blocksize=200_000)
    assert ddf.word.compute().tolist() == [
        v if v is not None else pd.NA for v in expected["word"].to_pylist()
    ]
    assert len(ddf.partitions[1].k.compute()) == ddf.divisions[2] - ddf.divisions[1]
    assert ddf.map_partitions(len).compute().sum() == ROWS - 1000


# -- tokens ------------------------------------------------------------------------------------------------


def _options(path: str) -> dict[str, dd.DataFrame]:
    ddf = lancecy.scan
    return {
        "plain": ddf(path),
        "filter": ddf(path, filter="k < 5"),
        "other filter": ddf(path, filter="k < 6"),
        "float filter": ddf(path, filter="k < 5.0"),
        "arrow filter": ddf(path, filter=pc.field("k") < 7),
        "version": ddf(path, version=1),
        "columns": ddf(path, columns=["id", "x"]),
        "computed": ddf(path, columns={"id": "id + 1", "x": "x"}),
        "computed otherwise": ddf(path, columns={"id": "id + 2", "x": "x"}),
        "row id": ddf(path, with_row_id=True),
        "row address": ddf(path, with_row_address=True),
        "no index": ddf(path, index=None),
        "untrusted": ddf(path, untrusted=True),
        "allowed": ddf(path, allowed_bases=["/elsewhere"]),
        "options": ddf(path, storage_options={"anon": True}),
        "limits": ddf(path, limits=lancecy.Limits(nesting=7)),
        "blocksize": ddf(path, blocksize=100_000),
    }


def test_every_option_is_in_the_token(path: str) -> None:
    made = _options(path)
    names = {name: frame.expr._name for name, frame in made.items()}
    assert len(set(names.values())) == len(names)


def test_scans_that_differ_only_in_the_filter_give_their_own_rows(path: str, expected: pa.Table) -> None:
    few, more = lancecy.scan(path, filter="k < 3"), lancecy.scan(path, filter="k < 30")
    assert len(few) == pc.sum(pc.less(expected["k"], 3)).as_py()
    assert len(more) == pc.sum(pc.less(expected["k"], 30)).as_py()


def test_equal_scans_have_equal_tokens(path: str) -> None:
    again = _options(path)
    assert {n: f.expr._name for n, f in _options(path).items()} == {n: f.expr._name for n, f in again.items()}


# -- what is sent ------------------------------------------------------------------------------------------


def _graph(ddf: dd.DataFrame) -> bytes:
    return pickle.dumps(dict(ddf.optimize().__dask_graph__()))


def test_secrets_stay_here_unless_told_otherwise(path: str) -> None:
    options = {"secret": "hunter2-hunter2", "token": "abcdefgh", "anon": False}
    sent = _graph(lancecy.scan(path, storage_options=options))
    assert b"hunter2" not in sent
    assert b"abcdefgh" not in sent
    assert b"anon" in sent
    embedded = lancecy.scan(path, storage_options=options, embed_credentials=True)
    assert b"hunter2" in _graph(embedded)
    assert "hunter2" not in f"{embedded.expr._name} {embedded.__dask_keys__()} {embedded!r}"


def test_tasks_are_small_and_share_their_reader(path: str) -> None:
    ddf = lancecy.scan(path, filter="k < 10", columns=["id"], blocksize=1)
    per_partition = len(_graph(ddf)) / ddf.npartitions
    assert per_partition < 3000
    reader = ddf.expr.source.reader
    assert isinstance(reader, Reader)
    assert len(pickle.dumps(reader)) < 2500
    assert pickle.loads(pickle.dumps(reader)) == reader


# -- schedulers --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheduler", ["sync", "threads", "processes"])
def test_local_schedulers_give_the_same_rows(path: str, expected: pa.Table, scheduler: str) -> None:
    found = lancecy.scan(path, blocksize="400kB").compute(scheduler=scheduler, num_workers=2)
    same(found, expected)


def test_clusters_give_the_same_rows(client: Client, path: str, expected: pa.Table) -> None:
    ddf = lancecy.scan(path, blocksize="200kB")
    same(client.compute(ddf).result(timeout=270), expected)
    means = client.compute(ddf.groupby("k").x.mean()).result(timeout=270)
    assert len(means) == 50


def test_scan_shuffles_on_a_cluster(client: Client, path: str, expected: pa.Table) -> None:
    shuffled = lancecy.scan(path, blocksize="200kB").shuffle("k", shuffle_method="p2p")
    found = from_frame(client.compute(shuffled).result(timeout=270), expected.schema)
    assert_tables_equal(sorted_rows(found, "id"), sorted_rows(expected, "id"))


def test_persisted_scan_answers_from_memory(client: Client, path: str) -> None:
    ddf = client.persist(lancecy.scan(path, columns=["id"], blocksize="80kB"))
    assert client.compute(ddf.id.sum()).result(timeout=270) == sum(range(ROWS)) - sum(range(12_000, 13_000))


# -- errors ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"columns": ["idd"]}, ColumnNotFoundError, "id"),
        ({"filter": "idd > 3"}, ColumnNotFoundError, "idd"),
        ({"filter": "id >"}, ExpressionError, "id >"),
        ({"index": "row"}, ValueError, "'position', 'rowid' or None"),
        ({"index": "rowid", "with_row_id": True}, ValueError, "no column may have the name"),
        ({"blocksize": 0}, ValueError, "positive"),
        ({"blocksize": "lots"}, ValueError, "lots"),
        ({"version": 99}, lancecy.errors.NotFoundError, "99"),
    ],
)
def test_wrong_arguments_are_told_at_once(
    path: str, arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        lancecy.scan(path, **arguments)


def test_options_of_an_open_dataset_are_settled(path: str) -> None:
    with pytest.raises(ValueError, match="open already"):
        lancecy.scan(lancecy.dataset(path), version=1)


def test_data_that_vanishes_is_an_error_that_names_the_place(tmp_path: Path) -> None:
    write(mixed_table(30).select(["id"]), tmp_path / "t.lance")
    ddf = lancecy.scan(tmp_path / "t.lance")
    for file in (tmp_path / "t.lance" / "data").iterdir():
        file.unlink()
    with pytest.raises(FileNotFoundError, match=r"\.lance"):
        ddf.compute()


def test_manifest_that_miscounts_live_rows_is_an_error(path: str) -> None:
    reader = lancecy.scan(path).expr.source.reader
    with pytest.raises(lancecy.errors.FormatError, match="states 99 live rows"):
        reader((0, 0, 100, 99, 0), columns=["id"])
