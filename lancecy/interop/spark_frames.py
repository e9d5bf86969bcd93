"""Rows of a Spark DataFrame as one stream of batches.

A Spark frame has an Arrow stream of its own from release 4.1 on, which fails for timestamps with a time zone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

__all__ = ["is_spark", "reader_of_spark"]


def is_spark(data: Any) -> bool:
    """Whether it is a Spark DataFrame, without importing Spark."""
    # The frames of lancecy.spark.read are a subclass.
    libraries = {base.__module__.partition(".")[0] for base in type(data).__mro__}
    return "pyspark" in libraries and hasattr(data, "mapInArrow")


def reader_of_spark(frame: Any) -> pa.RecordBatchReader:
    """The rows of a Spark DataFrame, of which one partition at a time is on the driver; errors are Spark's.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame

    Returns
    -------
    pyarrow.RecordBatchReader
        Of Spark's types; timestamps with a time zone are in UTC, whatever the zone of the session.
    """
    from pyspark.sql.pandas.types import to_arrow_schema

    schema = to_arrow_schema(frame.schema, timezone="UTC")

    def packed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # A function inside a function is sent with its code: executors need no lancecy.
        for batch in batches:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batch.schema) as stream:
                stream.write_batch(batch)
            yield pa.RecordBatch.from_pydict({"batch": pa.array([sink.getvalue().to_pybytes()], pa.binary())})

    def rows() -> Iterator[pa.RecordBatch]:
        for row in frame.mapInArrow(packed, "batch binary").toLocalIterator():
            with pa.ipc.open_stream(row["batch"]) as stream:
                yield from stream.read_all().cast(schema).to_batches()

    return pa.RecordBatchReader.from_batches(schema, rows())
