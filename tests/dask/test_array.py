"""``lancecy.to_dask_array``: shapes, types, nulls, and slices that are moved into the read."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
import pyarrow as pa
import pytest
from distributed import Client

import lancecy
from lancecy.dask import array
from tests.interop.live import peer, write

pytestmark = pytest.mark.interop

ROWS = 1000
RNG = np.random.default_rng(4)


def _vectors(values: np.ndarray[Any, Any], *sizes: int) -> pa.Array:
    found = pa.array(values.ravel())
    for size in reversed(sizes):
        found = pa.FixedSizeListArray.from_arrays(found, size)
    return found


def _columns() -> dict[str, np.ndarray[Any, Any]]:
    """What each column is as an array."""
    numbers = RNG.integers(0, 100, ROWS)
    return {
        "i8": numbers.astype(np.int8),
        "u64": numbers.astype(np.uint64),
        "f32": RNG.random(ROWS, np.float32),
        "f16": RNG.random(ROWS, np.float32).astype(np.float16),
        "flag": numbers > 50,
        "ts": numbers.astype("datetime64[us]"),
        "day": numbers.astype("datetime64[D]"),
        "ms": numbers.astype("datetime64[ms]"),
        "span": numbers.astype("timedelta64[s]"),
        "vec": RNG.random((ROWS, 8), np.float32),
        "half": RNG.random((ROWS, 4), np.float32).astype(np.float16),
        "bits": RNG.random((ROWS, 3)) > 0.5,
        "matrix": RNG.integers(0, 99, (ROWS, 3, 2)).astype(np.int16),
        "cube": RNG.random((ROWS, 2, 3, 2)),
    }


COLUMNS = _columns()
DELETED = np.r_[0:10, 500:600]
LIVE = np.setdiff1d(np.arange(ROWS), DELETED)


def _table() -> pa.Table:
    made: dict[str, Any] = {name: _vectors(values, *values.shape[1:]) for name, values in COLUMNS.items()}
    made["zone"] = pa.array(COLUMNS["ts"]).cast(pa.timestamp("us", "Europe/Berlin"))
    made["tensor"] = pa.ExtensionArray.from_storage(
        pa.fixed_shape_tensor(pa.float32(), [2, 4]),
        pa.FixedSizeListArray.from_arrays(pa.array(COLUMNS["vec"].ravel()), 8),
    )
    made["s"] = pa.array(["text"] * ROWS)
    made["list"] = pa.array([[1]] * ROWS)
    made["point"] = pa.StructArray.from_arrays([made["vec"]], ["vec"])
    made["gaps"] = pa.array([None if i % 3 == 0 else i for i in range(ROWS)], pa.int32())
    made["holes"] = pa.array(
        [None if i % 3 == 0 else [i, None] for i in range(ROWS)], pa.list_(pa.float32(), 2)
    )
    made["row"] = pa.array(range(ROWS))
    return pa.table(made)


@pytest.fixture(scope="module", params=["2.0", "2.1"])
def path(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> str:
    """Three fragments, 110 rows deleted."""
    place = str(tmp_path_factory.mktemp("array") / "t.lance")
    write(_table(), place, max_rows_per_file=400, data_storage_version=request.param)
    peer(place).delete("row < 10 OR (row >= 500 AND row < 600)")
    return place


@pytest.fixture(autouse=True)
def _sync() -> Iterator[None]:
    with dask.config.set(scheduler="sync"):
        yield


@pytest.fixture
def rows_read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Rows of every read in this process."""
    seen: list[int] = []
    real = array.LanceColumn._values

    def values(self: Any, table: pa.Table) -> Any:
        seen.append(table.num_rows)
        return real(self, table)

    monkeypatch.setattr(array.LanceColumn, "_values", values)
    return seen


def test_every_type_has_its_shape_and_values(path: str) -> None:
    for name, values in COLUMNS.items():
        found = lancecy.to_dask_array(path, name, chunks=150)
        assert isinstance(found, da.Array)
        assert (found.shape, found.dtype) == ((LIVE.size, *values.shape[1:]), values.dtype), name
        assert found.numblocks == (-(-LIVE.size // 150), *[1] * (values.ndim - 1))
        computed = found.compute()
        assert computed.dtype == values.dtype
        np.testing.assert_array_equal(computed, values[LIVE], err_msg=name)


def test_zones_tensors_and_nested_names(path: str) -> None:
    np.testing.assert_array_equal(lancecy.to_dask_array(path, "zone").compute(), COLUMNS["ts"][LIVE])
    tensor = lancecy.to_dask_array(path, "tensor")
    np.testing.assert_array_equal(tensor.compute(), COLUMNS["vec"][LIVE].reshape(-1, 2, 4))
    np.testing.assert_array_equal(lancecy.to_dask_array(path, "point.vec").compute(), COLUMNS["vec"][LIVE])
    ids = lancecy.to_dask_array(path, "_rowid").compute()
    assert ids.tolist() == peer(path).to_table(columns=[], with_row_id=True)["_rowid"].to_pylist()


def test_chunks_end_where_fragments_do(path: str) -> None:
    live = [fragment.count_rows() for fragment in lancecy.dataset(path).get_fragments()]
    assert lancecy.to_dask_array(path, "vec", blocksize=None).chunks == (tuple(live), (8,))
    assert lancecy.to_dask_array(path, "vec").chunks == ((LIVE.size,), (8,))
    assert lancecy.to_dask_array(path, "vec", version=1).shape == (ROWS, 8)


SLICES: dict[str, tuple[Any, list[int]]] = {
    "rows": (np.s_[20:30], [10]),
    "rows and columns": (np.s_[20:30, :4], [10]),
    "across chunks": (np.s_[195:205, 2], [5, 5]),
    "one row": (np.s_[321], [1]),
    "last row": (np.s_[-1], [1]),
    "one value": (np.s_[321, 5], [1]),
    "every third": (np.s_[20:60:3], [40]),
    "nothing": (np.s_[20:20], [0]),
    "first columns": (np.s_[:, :2], [200, 200, 200, 200, 90]),
    # These Dask leaves above the read of the chunk.
    "backwards": (np.s_[60:20:-3], [200]),
    "some rows": (np.s_[[3, 70, 5]], [200]),
}


@pytest.mark.parametrize("name", SLICES)
def test_slices_are_moved_into_the_read(path: str, rows_read: list[int], name: str) -> None:
    key, rows = SLICES[name]
    found = lancecy.to_dask_array(path, "vec", chunks=200)[key].compute()
    np.testing.assert_array_equal(found, COLUMNS["vec"][LIVE][key])
    assert sorted(rows_read) == sorted(rows)


KEYS = [
    *(key for key, _ in SLICES.values()),
    np.s_[..., 1],
    np.s_[[-1, 0], 2:4],
    np.arange(LIVE.size) % 7 == 0,
    np.s_[880:2000],
    np.s_[5:2],
    np.s_[2:5:-1],
    np.s_[-3:],
]


@pytest.mark.parametrize("key", KEYS, ids=lambda key: str(key)[:20])
def test_sources_are_indexed_as_numpy_does(path: str, key: Any) -> None:
    spec = lancecy.dataset(path).scan_spec(lancecy.dataset(path).scanner(["vec"]).request)
    source = array.LanceColumn(spec, "vec", (LIVE.size, 8), np.dtype(np.float32))
    np.testing.assert_array_equal(source[key], COLUMNS["vec"][LIVE][key])
    with pytest.raises(IndexError):
        source[LIVE.size]


def test_arithmetic_and_reductions(path: str) -> None:
    x, wanted = lancecy.to_dask_array(path, "vec", chunks=100), COLUMNS["vec"][LIVE]
    np.testing.assert_allclose((x @ wanted[0]).compute(), wanted @ wanted[0], rtol=1e-6)
    np.testing.assert_allclose(x.mean(axis=0).compute(), wanted.mean(axis=0), rtol=1e-5)
    near = da.linalg.norm(x - wanted[7], axis=1).argmin().compute()
    assert near == 7


def test_nulls_are_told_unless_filled(path: str) -> None:
    for name in ("gaps", "holes"):
        with pytest.raises(ValueError, match=f"column '{name}' has nulls.*fill="):
            lancecy.to_dask_array(path, name).compute()
    gaps = lancecy.to_dask_array(path, "gaps", fill=-1).compute()
    assert gaps.tolist() == [-1 if i % 3 == 0 else i for i in LIVE]
    holes = lancecy.to_dask_array(path, "holes", fill=np.nan, chunks=130).compute()
    expected = np.array([[np.nan, np.nan] if i % 3 == 0 else [i, np.nan] for i in LIVE], np.float32)
    np.testing.assert_array_equal(holes, expected)


def test_what_numpy_cannot_hold_is_refused_at_once(path: str) -> None:
    for name in ("s", "list", "point"):
        with pytest.raises(TypeError, match=f"column '{name}'.*no NumPy array"):
            lancecy.to_dask_array(path, name)
    with pytest.raises(lancecy.errors.ColumnNotFoundError, match="vex"):
        lancecy.to_dask_array(path, "vex")


@pytest.mark.parametrize(
    ("column", "options", "message"),
    [
        ("gaps", {"fill": np.nan}, "int32"),
        ("gaps", {"fill": 2**40}, "int32"),
        ("gaps", {"fill": [1, 2]}, "int32"),
        ("vec", {"fill": "no"}, "float32"),
        ("vec", {"chunks": 0}, "chunks"),
        ("vec", {"blocksize": 0}, "blocksize"),
    ],
)
def test_wrong_arguments_are_told_at_once(
    path: str, column: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        lancecy.to_dask_array(path, column, **options)


def test_tables_without_rows(tmp_path: Path) -> None:
    write(_table().select(["vec", "i8"]).slice(0, 0), tmp_path / "t.lance", data_storage_version="2.0")
    found = lancecy.to_dask_array(tmp_path / "t.lance", "vec")
    assert found.shape == (0, 8)
    assert found.compute().shape == (0, 8)


def test_tokens_tell_arrays_apart(path: str) -> None:
    options: list[dict[str, Any]] = [{}, {"version": 1}, {"fill": 0.0}, {"chunks": 100}, {"blocksize": None}]
    names = [lancecy.to_dask_array(path, "vec", **each).name for each in options]
    names.append(lancecy.to_dask_array(path, "half").name)
    assert len(set(names)) == len(names)
    assert names[0] == lancecy.to_dask_array(path, "vec").name


def test_graphs_are_small_and_hold_no_secret(path: str) -> None:
    options = {"secret": "hunter2-hunter2"}
    x = lancecy.to_dask_array(path, "vec", chunks=1, storage_options=options)
    sent = pickle.dumps(dict(x.__dask_graph__()))
    assert b"hunter2" not in sent
    assert len(sent) / x.npartitions < 500
    embedded = lancecy.to_dask_array(path, "vec", storage_options=options, embed_credentials=True)
    assert b"hunter2" in pickle.dumps(dict(embedded.__dask_graph__()))


@pytest.mark.slow
def test_other_processes_read_the_same(path: str, process_client: Client) -> None:
    x = lancecy.to_dask_array(path, "vec", chunks=100)
    found = process_client.compute(x[50:950:7].sum(axis=0)).result(timeout=270)
    np.testing.assert_allclose(found, COLUMNS["vec"][LIVE][50:950:7].sum(axis=0), rtol=1e-5)
