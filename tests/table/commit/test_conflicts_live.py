"""What pylance really commits falls into the columns of the conflict grid that were measured for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from lancecy.table.commit.conflicts import check
from lancecy.table.operations.transaction import decode_transaction
from lancecy.table.wire.manifest_file import decode_manifest_file
from tests.helpers.snapshots import snapshot_of
from tests.table.grid import MINE, measured

pytestmark = pytest.mark.interop


def _rows(start: int) -> pa.Table:
    n = list(range(start, start + 10))
    return pa.table({"a": n, "b": [10 * i for i in n], "c": [f"w{i}" for i in n]})


def _replace_b(dataset: Any) -> None:
    """The values of column b of fragment 0 in a new file."""
    name = "replacement.lance"
    table = pa.table({"b": pa.array(range(10), pa.int64())})
    with lance.file.LanceFileWriter(f"{dataset.uri}/data/{name}", table.schema) as writer:
        writer.write_batch(table)
    (file,) = dataset.get_fragment(0).metadata.files
    new = lance.fragment.DataFile(name, [1], [0], file.file_major_version, file.file_minor_version)
    operation = lance.LanceOperation.DataReplacement([lance.LanceOperation.DataReplacementGroup(0, new)])
    lance.LanceDataset.commit(dataset.uri, operation, read_version=dataset.version)


def _update_columns(dataset: Any) -> None:
    """Column b of fragment 0 rewritten in place."""
    fragment = dataset.get_fragment(0)
    changed, modified = fragment.update_columns(pa.table({"_rowid": pa.array([1], pa.uint64()), "b": [7]}))
    operation = lance.LanceOperation.Update(updated_fragments=[changed], fields_modified=modified)
    lance.LanceDataset.commit(dataset.uri, operation, read_version=dataset.version)


DID: dict[str, Callable[[Any], object]] = {
    "App": lambda d: lance.write_dataset(_rows(50), d, mode="append"),
    "Del0": lambda d: d.delete("a = 5"),
    "Whole0": lambda d: d.delete("a < 10"),
    "Upd0": lambda d: d.update({"b": "b + 1"}, where="a = 6"),
    "Cols0": _update_columns,
    "Ovw": lambda d: lance.write_dataset(_rows(50), d, mode="overwrite"),
    "Idx": lambda d: d.create_scalar_index("b", "BTREE"),
    "Rwr0": lambda d: d.optimize.compact_files(),
    "MrgP": lambda d: d.add_columns({"d": "a + 1"}),
    "Res": lambda d: d.checkout_version(1).restore(),
    "Cfg": lambda d: d.update_config({"k": "2"}),
    "Sch": lambda d: d.update_schema_metadata({"other": "1"}),
    "Fld": lambda d: d.update_field_metadata({"b": {"other": "1"}}),
    "Rpl0": _replace_b,
    "PrDrop": lambda d: d.drop_columns(["b"]),
    "PrRen": lambda d: d.alter_columns({"path": "b", "name": "renamed"}),
    "PrNon": lambda d: d.alter_columns({"path": "b", "nullable": False}),
    "Bas": lambda d: d.add_bases([lance.DatasetBasePath("/elsewhere", "b2")]),
}


@pytest.mark.parametrize("column", DID)
def test_transaction_of_pylance_is_in_its_column(column: str, tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(_rows(0), uri)
    dataset = lance.write_dataset(_rows(10), uri, mode="append")
    DID[column](dataset)
    location = snapshot_of(uri).manifest_file
    assert location.version > 2
    stored = decode_manifest_file(snapshot_of(uri).store.get(location.path), "x", location.version)
    theirs = decode_transaction(stored.transaction or b"").operation
    found = {mine: check(operation, theirs) for mine, operation in MINE.items()}
    assert found == {mine: measured(mine)[column] for mine in MINE}
