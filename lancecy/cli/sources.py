"""Input files of ``lancecy write``: Parquet, CSV, Arrow and JSON lines, as one stream of batches.

Each format's library is imported when a file of that format is opened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
from click import UsageError

from lancecy.progress import Progress, Step

__all__ = ["FORMATS", "rows_of"]

_BATCH_ROWS = 1 << 16
_ENDS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "tsv",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".arrows": "arrow",
    ".ipc": "arrow",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
}

Opened = tuple[pa.Schema, Iterator[tuple[pa.RecordBatch, float]]]
"""Columns of a file; its batches, each with the fraction of the file read so far."""


def rows_of(files: Sequence[str], kind: str | None, progress: Progress) -> pa.RecordBatchReader:
    """The rows of all files, in order.

    Parameters
    ----------
    files : sequence of str
        Of one format, with the same columns; read lazily.
    kind : str or None
        One of ``FORMATS``; None takes it from the file's ending.
    progress : Progress
        Called with the bytes read.

    Raises
    ------
    UsageError
        The format of a file is unknown.
    ValueError
        (pyarrow's ``ArrowInvalid``) A file is damaged or its columns differ from the first file's.
    OSError
        A file cannot be opened.
    """
    sizes = [Path(file).stat().st_size for file in files]
    schema, first = _opened(files[0], kind)

    def batches() -> Iterator[pa.RecordBatch]:
        done = 0
        for number, (file, size) in enumerate(zip(files, sizes, strict=True)):
            found, parts = (schema, first) if number == 0 else _opened(file, kind)
            if not found.equals(schema):
                raise pa.ArrowInvalid(f"{file} has other columns than {files[0]}, or columns of other types")
            for batch, share in parts:
                progress(Step("write", done + int(share * size), sum(sizes), "bytes", Path(file).name))
                yield batch
            done += size
        progress(Step("write", done, sum(sizes), "bytes"))

    return pa.RecordBatchReader.from_batches(schema, batches())


def _opened(file: str, kind: str | None) -> Opened:
    name = kind or _ENDS.get(Path(file).suffix.lower())
    if name is None:
        raise UsageError(f"the format of {file!r} is unknown; give it with --format: {', '.join(FORMATS)}")
    return _OPENERS[name](file)


def _parquet(file: str) -> Opened:
    import pyarrow.parquet as pq

    source = pq.ParquetFile(file)
    total = max(1, source.metadata.num_rows)

    def batches() -> Iterator[tuple[pa.RecordBatch, float]]:
        done = 0
        for batch in source.iter_batches(batch_size=_BATCH_ROWS):
            done += batch.num_rows
            yield batch, done / total

    return source.schema_arrow, batches()


def _arrow(file: str) -> Opened:
    source = pa.memory_map(file)
    is_file = source.read(6) == b"ARROW1"
    source.seek(0)
    if not is_file:
        return _streamed(pa.ipc.open_stream(source), source)
    opened = pa.ipc.open_file(source)
    count = opened.num_record_batches
    return opened.schema, ((opened.get_batch(i), (i + 1) / count) for i in range(count))


def _csv(file: str, delimiter: str = ",") -> Opened:
    from pyarrow import csv

    source = pa.OSFile(file)
    return _streamed(csv.open_csv(source, parse_options=csv.ParseOptions(delimiter=delimiter)), source)


def _tsv(file: str) -> Opened:
    return _csv(file, "\t")


def _jsonl(file: str) -> Opened:
    from pyarrow import json

    source = pa.OSFile(file)
    return _streamed(json.open_json(source), source)


def _streamed(reader: Any, source: pa.NativeFile) -> Opened:
    size = max(1, source.size())
    # The batches keep the reader alive; the file's position tells how far it has read.
    batches = ((batch, min(1.0, source.tell() / size)) for batch in chain(reader))
    return reader.schema, batches


_OPENERS: dict[str, Callable[[str], Opened]] = {
    "parquet": _parquet,
    "csv": _csv,
    "tsv": _tsv,
    "arrow": _arrow,
    "jsonl": _jsonl,
}
FORMATS = tuple(_OPENERS)
"""File formats by their ``--format`` names."""
