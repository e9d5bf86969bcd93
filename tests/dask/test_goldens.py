"""Every golden table as a Dask DataFrame: same rows, same labels, whatever the partitions."""

from __future__ import annotations

import pandas as pd
import pyarrow as pa
import pytest

import lancecy
from lancecy.dask.dtypes import empty_frame
from tests.dask.frames import from_frame, plain_type
from tests.helpers.compare import assert_tables_equal, storage_table
from tests.helpers.golden import GoldenVersion, all_versions


def _as_kept(table: pa.Table) -> pa.Table:
    """The table with the types that a frame keeps."""
    for index, field in enumerate(table.schema):
        kind = plain_type(field.type)
        if kind != field.type:
            table = table.set_column(
                index, field.with_type(kind), storage_table(table)[field.name].cast(kind)
            )
    return table


# How rows are cut into partitions does not depend on how old a version is: all cuts of the latest, one of the others.
CASES = [
    (version, blocksize)
    for version in all_versions()
    for blocksize in (1, "128MiB", None)
    if blocksize == 1 or version.version == version.golden.versions[-1]
]


@pytest.mark.slow
@pytest.mark.parametrize(("version", "blocksize"), CASES, ids=str)
def test_scan_gives_the_rows_of_the_version(version: GoldenVersion, blocksize: int | str | None) -> None:
    expected = version.expected
    ddf = lancecy.scan(version.golden.path, version=version.version, blocksize=blocksize)
    found = ddf.compute(scheduler="sync")
    assert_tables_equal(from_frame(found, expected.schema), _as_kept(expected), nullability=False)
    assert found.index.equals(pd.RangeIndex(expected.num_rows))
    schema = lancecy.dataset(version.golden.path, version=version.version).schema
    assert ddf.dtypes.to_dict() == found.dtypes.to_dict() == empty_frame(schema).dtypes.to_dict()
    assert ddf.known_divisions == (expected.num_rows > 0)
