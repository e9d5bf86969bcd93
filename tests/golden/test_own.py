"""Tables that earlier states of lancecy wrote are still read, and pylance's writer mends those that it cannot read."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import lancecy
from tests.helpers.compare import assert_tables_equal

GOLDEN = Path(__file__).parent


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_layers_that_cannot_be_null_below_null_structs_are_read(version: str, tmp_path: Path) -> None:
    """Until 0.1.0 a layer was nullable only where it had a null of its own, as in ``K[VI/VI/NI]``.

    pylance (14.0.2) does not read such a page if the member allows no null. A table that is read and written
    again has the layers that it reads.
    """
    kept = GOLDEN / f"lancecy_0.1.0_v{version.replace('.', '')}_struct_levels.lance"
    with pa.ipc.open_file(GOLDEN / "lancecy_0.1.0_struct_levels.arrow") as source:
        expected = source.read_all()
    path = Path(shutil.copytree(kept, tmp_path / "t"))
    assert "[VI/VI/NI]" in encodings(path)

    dataset = lancecy.dataset(path)
    assert_tables_equal(dataset.to_table(), expected)
    assert_tables_equal(dataset.take([5, 0, 3]), expected.take([5, 0, 3]))
    for name in expected.column_names:
        assert dataset.count_rows(filter=f"{name} IS NULL") == expected[name].null_count
    assert dataset.verify().is_ok

    lancecy.write_dataset(dataset.to_table(), tmp_path / "again", data_storage_version=version)
    assert "VI/NI" not in encodings(tmp_path / "again")
    assert_tables_equal(lancecy.dataset(tmp_path / "again").to_table(), expected)


def encodings(path: Path) -> str:
    return "\n".join(str(lancecy.inspect(file)) for file in sorted((path / "data").iterdir()))
