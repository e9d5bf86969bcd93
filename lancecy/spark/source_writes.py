"""Writes of ``df.write.format("lancecy")``.

A write is planned once, in a separate Python process on the driver; commit and abort run in two more, so what they need
from each other is read from the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from lancecy.api.writers import committed_parts
from lancecy.changes.shared import told_parts
from lancecy.records import dataclass
from lancecy.spark.sink import TaskWriter, planned_sink
from lancecy.spark.sink_options import SinkOptions
from lancecy.spark.workers import carried

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

__all__ = ["LancecyWriter", "Written"]


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """The message of a task to the driver.

    Attributes
    ----------
    fragments : str
        From :meth:`lancecy.spark.sink.TaskWriter.write`.
    """

    fragments: str


class LancecyWriter(DataSourceArrowWriter):
    """Writes partitions on the executors, and commits them on the driver.

    Parameters
    ----------
    tasks : TaskWriter
    """

    def __init__(self, tasks: TaskWriter) -> None:
        self._tasks = tasks

    @classmethod
    def planned(
        cls, schema: StructType, options: Mapping[str, str], mode: Literal["append", "overwrite"]
    ) -> LancecyWriter:
        """Plan a write; parameters and errors as for ``LancecyDataSource.writer``."""
        return cls(planned_sink(schema, SinkOptions.parse(options), mode))

    def __reduce__(self) -> tuple[Any, ...]:
        return carried(__name__, "LancecyWriter", self._tasks)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Write one partition.

        Parameters
        ----------
        iterator : iterator of pyarrow.RecordBatch
        """
        return Written(self._tasks.write(iterator))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Commit the files of all tasks.

        Parameters
        ----------
        messages : sequence of Written
            One per partition, from the attempt that Spark accepted.

        Raises
        ------
        LanceError
            See :func:`lancecy.commit`.
        """
        told = [message.fragments for message in messages if isinstance(message, Written)]
        shared = self._tasks.shared
        committed_parts(shared, told_parts(told), shared.location, shared.session)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Remove the files of all tasks, unless a commit was started: that one decides what may be removed.

        Parameters
        ----------
        messages : sequence of Written or None
        """
        if not self._tasks.shared.may_be_committed:
            self._tasks.shared.clear()
