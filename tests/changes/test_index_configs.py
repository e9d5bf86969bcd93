"""Types of indices with parameters, names of columns and of indices, as in pylance."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest

import lancecy
from lancecy.errors import ColumnNotFoundError, IndexExistsError, IndexNotFoundError

pytestmark = pytest.mark.interop
lance = pytest.importorskip("lance")

CONFIGS: list[tuple[str, dict[str, Any]]] = [
    ("zonemap", {"rows_per_zone": 7}),
    ("ZoneMap", {}),
    ("bloomfilter", {"number_of_items": 5, "probability": 0.1}),
    ("bloomfilter", {"number_of_items": 100}),
    ("btree", {"zone_size": 1000}),
    ("bitmap", {}),
]


def table(place: Path, rows: int = 100) -> lancecy.Dataset:
    columns = {"N": [n % 37 for n in range(rows)], "s": [{"X": n} for n in range(rows)]}
    return lancecy.write_dataset(columns, place, max_rows_per_file=40)


@pytest.mark.parametrize(("kind", "parameters"), CONFIGS)
def test_configured_index_is_that_of_pylance(tmp_path: Path, kind: str, parameters: dict[str, Any]) -> None:
    ds, peer = table(tmp_path / "t"), lance.dataset(table(tmp_path / "u").uri)
    config = lance.indices.IndexConfig(kind, parameters)
    peer.create_scalar_index("N", config)
    for given in (lancecy.IndexConfig(kind, parameters), config):
        ds.create_scalar_index("N", given)
        assert ds.index_statistics("N_idx")["indices"] == peer.stats.index_stats("N_idx")["indices"]
    for library in (ds, lance.dataset(ds.uri)):
        assert library.to_table(["N"], filter="N = 36").num_rows == 2
        assert library.to_table(["N"], filter="N > 35").num_rows == 2


def test_size_of_zones_stays_when_rows_come(tmp_path: Path) -> None:
    for name in ("lancecy", "pylance"):
        ds: Any = table(tmp_path / name)
        library = ds if name == "lancecy" else lance.dataset(ds.uri)
        library.create_scalar_index("N", lance.indices.IndexConfig("zonemap", {"rows_per_zone": 1000}))
        ds = ds.checkout_latest()
        ds.append({"N": range(3000), "s": [{"X": 1}] * 3000})
        ds.optimize.optimize_indices()
        (zones,) = ds.index_statistics("N_idx")["indices"]
        assert zones["rows_per_zone"] == 1000
        assert ds.count_rows("N = 2999") == 1


def test_workers_make_configured_indices(tmp_path: Path) -> None:
    ds = table(tmp_path / "t")
    lancecy.dask.create_scalar_index(ds, "n", lance.indices.IndexConfig("zonemap", {"rows_per_zone": 20}))
    assert ds.index_statistics("N_idx")["indices"] == [{"num_zones": 5, "rows_per_zone": 20}]
    assert pickle.loads(pickle.dumps(lancecy.IndexConfig("btree"))) == lancecy.IndexConfig("btree", {})


@pytest.mark.parametrize(
    ("kind", "parameters", "message"),
    [
        ("inverted", {}, "types that are written: BTREE, BITMAP"),
        ("zonemap", {"rows": 4}, "a ZONEMAP index has no parameter 'rows': it has rows_per_zone"),
        ("bitmap", {"rows": 4}, "a BITMAP index has no parameter 'rows': it has none"),
        ("zonemap", {"rows_per_zone": 0}, "rows_per_zone is between 1 and 1,048,576, not 0"),
        ("bloomfilter", {"probability": 1}, "probability of a Bloom filter is between 0 and 1, not 1"),
    ],
)
def test_parameters_that_are_refused(
    tmp_path: Path, kind: str, parameters: dict[str, Any], message: str
) -> None:
    ds = table(tmp_path / "t")
    with pytest.raises(ValueError, match=message):
        ds.create_scalar_index("N", lancecy.IndexConfig(kind, parameters))
    with pytest.raises(TypeError, match="the name of a type of index or an IndexConfig, not 3"):
        ds.create_scalar_index("N", 3)  # type: ignore[arg-type]
    assert not ds.has_index


def test_case_of_column_names(tmp_path: Path) -> None:
    ds = table(tmp_path / "t")
    ds.create_scalar_index("n")
    ds.create_scalar_index("S.x")
    assert [(index["name"], index["fields"]) for index in ds.list_indices()] == [
        ("N_idx", ["N"]),
        ("s.X_idx", ["s.X"]),
    ]
    part = ds.create_index_uncommitted("n", "BTREE", "other", fragment_ids=[0])
    ds.commit_existing_index_segments("other", "n", [part])
    assert ds.index_statistics("other")["num_indexed_fragments"] == 1
    both = lancecy.write_dataset({"ab": [1], "AB": [2]}, tmp_path / "u")
    both.create_scalar_index("AB")
    assert both.list_indices()[0]["fields"] == ["AB"]
    with pytest.raises(ColumnNotFoundError, match="did you mean 'ab', 'AB'"):
        both.create_scalar_index("Ab")


def test_index_that_is_not_there(tmp_path: Path) -> None:
    """pylance's ``drop_index`` and ``prewarm_index`` raise a RuntimeError, its ``index_stats`` a KeyError."""
    ds = table(tmp_path / "t")
    ds.create_scalar_index("N")
    peer = lance.dataset(ds.uri)
    for library in (ds, peer):
        for method in (library.drop_index, library.prewarm_index):
            with pytest.raises(RuntimeError):
                method("n_idx")
        with pytest.raises(KeyError):
            library.stats.index_stats("n_idx") if library is peer else ds.index_statistics("n_idx")
    with pytest.raises(
        IndexNotFoundError, match="there is no index 'n_idx': the table has 'N_idx'"
    ) as caught:
        ds.drop_index("n_idx")
    assert caught.value.known == ["N_idx"]


def test_errors_of_an_index_that_is_not_made(tmp_path: Path) -> None:
    """The classes that pylance raises are caught in lancecy too."""
    ds = table(tmp_path / "t")
    ds.create_scalar_index("N")
    peer = lance.dataset(ds.uri)
    for library in (ds, peer):
        with pytest.raises(NotImplementedError):
            library.create_scalar_index("N", "SOUNDEX")
        with pytest.raises(TypeError):
            library.create_scalar_index("s", "BTREE")
        with pytest.raises(ValueError, match=r"BLOOMFILTER|bloom filter"):
            library.create_scalar_index("s", "BLOOMFILTER")
        with pytest.raises(RuntimeError):
            library.create_scalar_index("N", "BTREE", replace=False)
        with pytest.raises(NotImplementedError):
            library.create_scalar_index(["N", "s"], "BTREE")
    with pytest.raises(IndexExistsError, match="there is an index 'N_idx'") as caught:
        ds.create_scalar_index("N", replace=False)
    assert (caught.value.kind, caught.value.name) == ("index", "N_idx")


def test_column_in_a_list(tmp_path: Path) -> None:
    for library in (lancecy, lance):
        ds = library.write_dataset(pa.table({"n": range(9)}), str(tmp_path / library.__name__))
        ds.create_scalar_index(["n"], "BTREE")
        (index,) = ds.describe_indices()
        assert (index.name, index.field_names, index.details) == ("n_idx", ["n"], {})


def test_index_of_an_old_writer_that_states_no_type(tmp_path: Path) -> None:
    """A vector index of before its details is known by its file."""
    ds = table(tmp_path / "t")
    for name, files in (("old", None), ("vectors", [lancecy.IndexFile("index.idx", 0)])):
        index = lancecy.Index(str(uuid4()), name, [0], ds.version, {0}, 0, files=files)
        ds = lancecy.LanceDataset.commit(
            ds.uri, lancecy.LanceOperation.CreateIndex([index], []), read_version=ds.version
        )
    for library in (ds, lance.dataset(ds.uri)):
        assert {index.name: index.index_type for index in library.describe_indices()} == {
            "old": "Unknown",
            "vectors": "Vector",
        }
    assert {index["name"]: index["type"] for index in ds.list_indices()} == {
        "old": "Unknown",
        "vectors": "Vector",
    }
