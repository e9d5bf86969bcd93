"""``to_pyarrow_dataset`` for pyarrow's own functions: what works, and what fails with a message."""

from __future__ import annotations

import pickle
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pytest

import lancecy
from tests.helpers.compare import assert_tables_equal
from tests.helpers.golden import golden
from tests.interop import live

pytestmark = pytest.mark.interop

FIVE = pc.field("id") < 5


@pytest.fixture(scope="module")
def ds() -> lancecy.Dataset:
    return lancecy.dataset(Path(__file__).parent.parent / "golden" / "example.lance")


@pytest.fixture(scope="module")
def door(ds: lancecy.Dataset) -> pads.Dataset:
    return ds.to_pyarrow_dataset()


def test_reading_methods_agree_with_the_dataset(ds: lancecy.Dataset, door: pads.Dataset) -> None:
    assert isinstance(door, pads.Dataset)
    assert door.schema.equals(ds.schema, check_metadata=True)
    assert door.to_table().equals(ds.to_table())
    assert door.scanner(columns=["s"], filter=FIVE).to_table().equals(ds.to_table(["s"], "id < 5"))
    assert door.scanner(columns={"twice": pc.field("id") * 2}).to_table()["twice"][3].as_py() == 6
    assert pa.Table.from_batches(door.to_batches(columns=["id"], batch_size=7)).equals(ds.to_table(["id"]))
    assert max(b.num_rows for b in door.to_batches(columns=["id"], batch_size=7)) == 7
    assert door.head(3, columns=["id"])["id"].to_pylist() == [0, 1, 2]
    assert (door.count_rows(), door.count_rows(FIVE)) == (1000, 5)
    assert door.take([5, 1], columns=["id"])["id"].to_pylist() == [5, 1]
    assert door.take([1], columns=["id"], filter=pc.field("id") > 10)["id"].to_pylist() == [12]
    assert [f.fragment_id for f in door.get_fragments()] == [f.fragment_id for f in ds.get_fragments()]
    assert door.files == [file.path for f in ds.get_fragments() for file in f.data_files()]
    assert "example.lance" in repr(door)


def test_datasets_made_of_it(door: pads.Dataset) -> None:
    few = door.filter(FIVE)
    assert few.count_rows() == 5
    assert few.filter(pc.field("id") > 1).to_table(columns=["id"])["id"].to_pylist() == [2, 3, 4]
    assert few.take([4], columns=["id"])["id"].to_pylist() == [4]
    assert pickle.loads(pickle.dumps(few)).count_rows() == 5
    assert few.sort_by([("id", "descending")]).to_table()["id"][0].as_py() == 4


def test_joins_happen_in_memory(tmp_path: Path) -> None:
    rows = pa.table({"id": [1, 2, 3, 4], "x": ["a", "b", "c", "d"]})
    live.write(rows, tmp_path / "t.lance", data_storage_version="2.1")
    door = lancecy.dataset(tmp_path / "t.lance").to_pyarrow_dataset()
    right = pa.table({"id": [3, 4, 9], "extra": [7, 8, 9]})
    for other in (right, pads.dataset(right)):
        assert door.join(other, "id", join_type="inner").to_table()["extra"].to_pylist() == [7, 8]
    late = pa.table({"id": [2], "extra": [1]})
    assert door.join_asof(late, "id", [], 1, "id", []).to_table()["extra"].to_pylist() == [1, 1, None, None]


def test_pyarrow_writes_what_it_scans(door: pads.Dataset, tmp_path: Path) -> None:
    pads.write_dataset(door, tmp_path / "all", format="arrow")
    pads.write_dataset(door.scanner(columns=["id"]), tmp_path / "ids", format="parquet")
    assert pads.dataset(tmp_path / "all", format="arrow").count_rows() == 1000
    assert pads.dataset(tmp_path / "ids").schema.names == ["id"]


def test_functions_that_look_inside_fail_with_the_remedy(door: pads.Dataset) -> None:
    with pytest.raises(FileNotFoundError, match="call scanner"):
        pads.Scanner.from_dataset(door).to_table()
    with pytest.raises(lancecy.errors.UnsupportedError, match="cast what"):
        pads.dataset([door, door])
    with pytest.raises(TypeError, match="no option sideways"):
        door.to_table(sideways=True)


def test_golden_table_of_every_type_comes_through() -> None:
    made = golden("14.0.2_types")
    ds = lancecy.dataset(made.path)
    assert_tables_equal(ds.to_pyarrow_dataset().to_table(), ds.to_table())
