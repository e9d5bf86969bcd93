"""Single data files: pylance reads what lancecy writes, and lancecy what pylance writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancecy
from lancecy.errors import UnsupportedError
from tests.helpers.compare import assert_tables_equal
from tests.helpers.folded import folded
from tests.helpers.shapes import shape_table, written
from tests.interop.test_pylance_blobs import SMALL, v1_table, v2_table, write

pytestmark = pytest.mark.interop

ROWS = pa.table(
    {
        "i": range(5),
        "s": ["a", None, "b", "c", "d"],
        "st": [{"x": n, "y": "q" * n} for n in range(5)],
        "l": [[1, 2], [], None, [3], [4]],
    }
).replace_schema_metadata({"k": "v"})


def by_pylance(path: Path, table: pa.Table, version: str) -> Any:
    from lance.file import LanceFileReader, LanceFileWriter

    with LanceFileWriter(str(path), table.schema, version=version) as writer:
        writer.write_batch(table)
    return LanceFileReader(str(path))


def by_lancecy(path: Path, table: pa.Table, version: str) -> Any:
    from lance.file import LanceFileReader

    with lancecy.LanceFileWriter(path, table.schema, version=version) as writer:
        writer.write_batch(table)
    return LanceFileReader(str(path))


def _shapes() -> list[tuple[str, str]]:
    """Every ninth shape, and all with blobs that the writer of pylance takes."""
    chosen = [pair for number, pair in enumerate(written()) if number % 9 == 0 or "blob" in pair[1]]
    return [(v, n) for v, n in chosen if not n.endswith("_view") and (v, "blob" in n) != ("2.3", True)]


@folded("version, name", _shapes())
def test_files_of_many_shapes_are_exchanged(tmp_path: Path, version: str, name: str) -> None:
    path, table = tmp_path / f"{version}_{name}.lance", shape_table(name)
    expected = by_pylance(path, table, version).read_all().to_table()
    assert_tables_equal(lancecy.LanceFileReader(path).read_all().to_table(), expected)
    if version == "2.3":
        return
    if (version, "blob" in name) == ("2.2", True):
        with pytest.raises(UnsupportedError, match=r"lance\.blob\.v2"):
            by_lancecy(path, table, version)
        return
    assert_tables_equal(by_lancecy(path, table, version).read_all().to_table(), expected)


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2", "2.3"])
def test_ranges_rows_columns_and_descriptions_are_those_of_pylance(tmp_path: Path, version: str) -> None:
    from lance.file import LanceFileReader

    path = tmp_path / "a.lance"
    peer = by_pylance(path, ROWS, version)
    mine = lancecy.LanceFileReader(path)
    assert mine.num_rows() == peer.num_rows() == 5
    assert mine.read_range(1, 3).to_table().equals(peer.read_range(1, 3).to_table(), check_metadata=True)
    assert mine.take_rows([0, 2, 4]).to_table().equals(peer.take_rows([0, 2, 4]).to_table())
    sizes = [2, 2, 1]
    assert [batch.num_rows for batch in mine.read_all(batch_size=2).to_batches()] == sizes
    for columns in (["i"], ["s", "i"], ["st.y"], ["st.y", "i"], ["l", "st"], ["i", "i"]):
        found = lancecy.LanceFileReader(path, columns=columns).read_all().to_table()
        assert found.equals(LanceFileReader(str(path), columns=columns).read_all().to_table()), columns
    described, expected = mine.metadata(), peer.metadata()
    for name in (
        "schema num_rows num_data_bytes num_column_metadata_bytes num_global_buffer_bytes major_version minor_version"
    ).split():
        assert getattr(described, name) == getattr(expected, name), name
    assert len(described.columns) == len(expected.columns)
    for mine_column, peer_column in zip(described.columns, expected.columns, strict=True):
        assert [buffers(page) for page in mine_column.pages] == [buffers(page) for page in peer_column.pages]
    assert buffers(described, "global_buffers") == buffers(expected, "global_buffers")
    assert [(c.num_pages, c.size_bytes) for c in mine.file_statistics().columns] == [
        (c.num_pages, c.size_bytes) for c in peer.file_statistics().columns
    ]


def buffers(described: Any, name: str = "buffers") -> list[tuple[int, int]]:
    return [(buffer.position, buffer.size) for buffer in getattr(described, name)]


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_global_buffers_and_metadata_are_exchanged(tmp_path: Path, version: str) -> None:
    import lance.file

    large = bytes(range(256)) * 1000
    for number, writer in enumerate((lancecy.LanceFileWriter, lance.file.LanceFileWriter)):
        path = tmp_path / f"{number}.lance"
        with writer(str(path), version=version) as file:
            assert file.add_global_buffer(b"first") == 1
            file.write_batch(ROWS)
            file.add_schema_metadata("more", "text")
            assert [file.add_global_buffer(data) for data in (b"", large)] == [2, 3]
        assert (file.size_bytes, file.closed) == (path.stat().st_size, True)
        for reader in (lancecy.LanceFileReader, lance.file.LanceFileReader):
            opened = reader(str(path))
            assert [opened.read_global_buffer(n) for n in (1, 2, 3)] == [b"first", b"", large]
            rows = opened.read_all().to_table()
            assert rows.equals(ROWS) and rows.schema.metadata == {b"k": b"v", b"more": b"text"}
            assert opened.metadata().schema.metadata == {b"k": b"v", b"more": b"text"}
            with pytest.raises(ValueError, match="global buffer"):
                opened.read_global_buffer(4)


def test_data_files_of_tables_are_read(tmp_path: Path) -> None:
    from lance.file import LanceFileReader

    tables = {"2.0": v1_table(SMALL), "2.1": v1_table(SMALL), "2.2": ROWS, "2.3": ROWS}
    for version, table in tables.items():
        write(table, tmp_path / version, version)
        (file,) = (tmp_path / version / "data").iterdir()
        assert (
            lancecy.LanceFileReader(file).read_all().to_table()
            == LanceFileReader(str(file)).read_all().to_table()
        )
    write(v2_table(SMALL), tmp_path / "v2", "2.2")  # pylance's own reader of files does not open it
    (file,) = (path for path in (tmp_path / "v2" / "data").iterdir() if path.suffix == ".lance")
    found = lancecy.LanceFileReader(file).read_all().to_table()
    assert found == lancecy.dataset(tmp_path / "v2").to_table()


def test_files_of_0_1_are_refused_with_the_remedy(tmp_path: Path) -> None:
    write(pa.table({"i": [1]}), tmp_path / "t", "0.1")
    (file,) = (tmp_path / "t" / "data").iterdir()
    with pytest.raises(UnsupportedError, match=r"open it with lancecy.dataset"):
        lancecy.LanceFileReader(file)
    with pytest.raises(UnsupportedError, match="stand in tables only"):
        lancecy.LanceFileWriter(tmp_path / "x.lance", ROWS.schema, version="0.1")
