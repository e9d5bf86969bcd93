"""A table over four buckets of one S3 server, for the tests of those who read and write it from other processes."""

from __future__ import annotations

import uuid

import numpy as np
import pyarrow as pa

import lancecy
from lancecy.write.targets import DatasetBasePath
from tests.helpers.s3 import S3Server

__all__ = ["spread_over_buckets"]


def spread_over_buckets(server: S3Server, rows: int = 4000) -> str:
    """Write a table with a column ``id`` and return its URI: four files, of which the last three are in bases b2 to b4."""
    folder = uuid.uuid4().hex
    root, *data = [f"{server.make_bucket(f'spread-{number}')}/{folder}" for number in range(1, 5)]
    lancecy.write_dataset(
        pa.table({"id": np.arange(rows)}),
        root,
        initial_bases=[DatasetBasePath(place, name=f"b{number}") for number, place in enumerate(data, 2)],
        target_all_bases=True,
        max_rows_per_file=rows // 4,
        storage_options=server.storage_options,
    )
    return root
