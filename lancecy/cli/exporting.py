"""``export``: the rows of a table as Parquet, CSV, TSV, Arrow or JSON lines, in a file or a pipe.

A file appears under its name when it is complete: until then it is a hidden file beside it.
"""

from __future__ import annotations

import io
import os
import stat
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import click
import pyarrow as pa
from click import UsageError

from lancecy.api.datasets import Dataset
from lancecy.cli.json_text import base64_text, check_dates, json_rows, plain_values
from lancecy.cli.options import (
    as_json,
    column_option,
    filter_option,
    names,
    opened,
    quiet_option,
    table_options,
)
from lancecy.cli.output import bar, show_json, show_values
from lancecy.cli.sources import ENDINGS, FORMATS, STANDARD, is_pipe
from lancecy.encodings.arrow.nulls import with_members
from lancecy.errors import ExistsError, UnsupportedError, printable
from lancecy.progress import Progress, Step
from lancecy.store.failure import raise_translated

__all__ = ["Output", "check_columns", "export", "format_of", "opened_output", "written"]


# A row group ends at either of these.
_GROUP_ROWS = 1 << 20
_GROUP_BYTES = 64 << 20

Write = Callable[[pa.RecordBatch], None]


class Output(io.RawIOBase):
    """A stream of bytes that counts them.

    After :meth:`abandon` it drops what is written, so that a writer that closes cannot complete a file that lacks rows.

    Parameters
    ----------
    stream : BinaryIO
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._is_abandoned = False
        self.size = 0
        """Bytes written."""

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        size = memoryview(data).nbytes
        if not self._is_abandoned:
            self._stream.write(data)
            self.size += size
        return size

    def flush(self) -> None:
        if not self._is_abandoned:
            self._stream.flush()

    def abandon(self) -> None:
        """Drop everything from now on."""
        self._is_abandoned = True


def format_of(file: str, kind: str | None) -> str:
    """The format of a file that is to be written.

    Parameters
    ----------
    file : str
        A path, or ``-``.
    kind : str or None
        The format if the user has named it.

    Raises
    ------
    UsageError
        Neither the user nor the ending names it, or the file cannot be one.
    """
    if "://" in file:
        raise UsageError("export writes a local file; '-' is standard output, for a program that uploads it")
    name = kind or ENDINGS.get(Path(file).suffix.lower())
    if name is None:
        which = "standard output" if file == STANDARD else repr(file)
        raise UsageError(f"the format of {which} is unknown; give it with --format: {', '.join(FORMATS)}")
    if file == STANDARD and sys.stdout is None:
        raise UsageError("standard output is closed: give a file or a pipe")
    if file == STANDARD and sys.stdout.isatty():
        raise UsageError("standard output is a terminal: give a file or a pipe; `lancecy head` shows rows")
    return name


@contextmanager
def opened_output(file: str, overwrite: bool) -> Iterator[Output]:
    """The file to write, or standard output for ``-``.

    Parameters
    ----------
    file : str
    overwrite : bool
        Replace an existing file, when the new one is complete.

    Raises
    ------
    ExistsError
        The file exists.
    OSError
        It cannot be written; nothing of it is left.
    """
    if file == STANDARD:
        with _abandoned_on_error(sys.stdout.buffer) as output:
            yield output
        return
    if is_pipe(file):
        # A pipe or a device has no other file beside it.
        with Path(file).open("wb") as stream, _abandoned_on_error(stream) as output:
            yield output
        return
    path = Path(os.path.realpath(file))
    if path.exists() and not (overwrite and path.is_file()):
        remedy = "it is a folder" if path.is_dir() else "--overwrite replaces it"
        raise ExistsError(f"{printable(file)} exists: {remedy}", kind="file", name=file)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {printable(str(path.parent))}: make it first")
    hidden = path.with_name(f".lancecy-{uuid.uuid4().hex}.part")
    try:
        with hidden.open("xb") as stream, _abandoned_on_error(stream) as output:
            yield output
            stream.flush()
            os.fsync(stream.fileno())
        if path.exists():
            hidden.chmod(stat.S_IMODE(path.stat().st_mode))
        hidden.replace(path)
    except OSError as error:
        # The system names no file or the hidden one; errors of the table are named already.
        raise_translated(error, "write", path.name, str(path.parent))
    finally:
        hidden.unlink(missing_ok=True)


@contextmanager
def _abandoned_on_error(stream: BinaryIO) -> Iterator[Output]:
    output = Output(stream)
    try:
        yield output
        output.flush()
    except BaseException:
        output.abandon()
        raise


def check_columns(schema: pa.Schema, kind: str) -> None:
    """Check that a format can hold the columns, before anything is written.

    Parameters
    ----------
    schema : pyarrow.Schema
    kind : str
        One of ``FORMATS``.

    Raises
    ------
    UnsupportedError
        It cannot; the message names the columns and what to do.
    """
    blobs = [field.name for field in schema if any(map(_is_blob, _walk(field)))]
    if blobs:
        raise UnsupportedError(
            f"{_named(blobs)} blobs, whose bytes are not exported: leave out with --columns", feature="blobs"
        )
    if kind in ("csv", "tsv"):
        nested = [field.name for field in schema if pa.types.is_nested(_storage(field.type))]
        if nested:
            raise UnsupportedError(
                f"{_named(nested)} lists, structs or maps, which {kind.upper()} lacks: leave out with --columns, "
                "name members of structs (--columns s.a,s.b), or export to Parquet or JSON lines",
                feature=kind,
            )
    if kind == "parquet":
        lacking = [field.name for field in schema if not _is_for_parquet(field)]
        if lacking:
            raise UnsupportedError(
                f"{_named(lacking)} values of a type that Parquet lacks: leave out with --columns, or export to Arrow",
                feature="parquet",
            )


def _named(columns: list[str]) -> str:
    shown = ", ".join(repr(printable(name)) for name in columns[:10])
    more = ", …" if len(columns) > 10 else ""
    return f"column {shown} holds" if len(columns) == 1 else f"columns {shown}{more} hold"


def _walk(field: pa.Field) -> Iterator[pa.Field]:
    yield field
    kind = _storage(field.type)
    for number in range(kind.num_fields):
        yield from _walk(kind.field(number))


def _is_blob(field: pa.Field) -> bool:
    found = field.metadata or {}
    name = getattr(field.type, "extension_name", "") or found.get(b"ARROW:extension:name", b"").decode()
    return b"lance-encoding:blob" in found or name == "lance.blob.v2"


def _storage(kind: pa.DataType) -> pa.DataType:
    return _storage(kind.storage_type) if isinstance(kind, pa.BaseExtensionType) else kind


def _is_for_parquet(field: pa.Field) -> bool:
    import pyarrow.parquet as pq

    try:
        pq.ParquetWriter(pa.BufferOutputStream(), pa.schema([field])).close()
    except (pa.ArrowException, ValueError, OSError):  # such as decimals with a negative scale
        return False
    return True


@contextmanager
def written(kind: str, output: Output, schema: pa.Schema, is_stream: bool) -> Iterator[Write]:
    """A function that writes batches in a format.

    Parameters
    ----------
    kind : str
        One of ``FORMATS``.
    output : Output
    schema : pyarrow.Schema
    is_stream : bool
        Of Arrow's two formats the one without a footer.

    Raises
    ------
    LanceError
        The format cannot hold a value.
    """
    maker = partial(_arrow, is_stream=is_stream) if kind == "arrow" else _WRITERS[kind]
    with maker(output, schema) as write:
        try:
            yield write
        except BaseException:
            # The writer completes the file when it closes.
            output.abandon()
            raise


@contextmanager
def _parquet(output: Output, schema: pa.Schema) -> Iterator[Write]:
    import pyarrow.parquet as pq

    # Pyarrow refuses the missing member of a missing struct if the member itself cannot be null.
    stored = pa.schema([field.with_type(_optional(field.type)) for field in schema], schema.metadata)
    with pq.ParquetWriter(output, stored) as writer:
        group: list[pa.RecordBatch] = []

        def end() -> None:
            if group:
                rows = pa.Table.from_batches(group)
                columns = [
                    column if column.type.equals(field.type) else column.cast(field.type)
                    for column, field in zip(rows.columns, stored, strict=True)
                ]
                writer.write_table(pa.Table.from_arrays(columns, schema=stored), row_group_size=_GROUP_ROWS)
                group.clear()

        def write(batch: pa.RecordBatch) -> None:
            group.append(batch)
            if sum(b.num_rows for b in group) >= _GROUP_ROWS or sum(b.nbytes for b in group) >= _GROUP_BYTES:
                end()

        yield write
        end()


def _optional(kind: pa.DataType) -> pa.DataType:
    """The type with members of structs that can be null."""
    is_struct = pa.types.is_struct(kind)
    return with_members(
        kind, lambda field: field.with_type(_optional(field.type)).with_nullable(field.nullable or is_struct)
    )


@contextmanager
def _arrow(output: Output, schema: pa.Schema, is_stream: bool) -> Iterator[Write]:
    make = pa.ipc.new_stream if is_stream else pa.ipc.new_file
    with make(output, schema) as writer:
        yield writer.write_batch


@contextmanager
def _csv(output: Output, schema: pa.Schema, delimiter: str = ",") -> Iterator[Write]:
    from pyarrow import csv

    plain = _csv_batch(_no_rows(schema)).schema
    with csv.CSVWriter(output, plain, write_options=csv.WriteOptions(delimiter=delimiter)) as writer:
        yield lambda batch: writer.write_batch(_csv_batch(batch))


def _no_rows(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)


def _csv_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with columns that pyarrow can write."""
    pairs = zip(batch.schema.names, batch.columns, strict=True)
    return pa.RecordBatch.from_arrays(
        [_csv_column(column, name) for name, column in pairs], batch.schema.names
    )


def _csv_column(array: pa.Array, name: str) -> pa.Array:
    array = plain_values(array)
    kind, types = array.type, pa.types
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        return base64_text(array)
    if types.is_temporal(kind) and not types.is_duration(kind):
        check_dates(array, name)
    return array


@contextmanager
def _jsonl(output: Output, schema: pa.Schema) -> Iterator[Write]:
    # Of a table without rows, to refuse a type before the first batch is read.
    json_rows(_no_rows(schema))

    def write(batch: pa.RecordBatch) -> None:
        output.write(json_rows(batch))

    yield write


_WRITERS: dict[str, Callable[[Output, pa.Schema], AbstractContextManager[Write]]] = {
    "parquet": _parquet,
    "csv": _csv,
    "tsv": partial(_csv, delimiter="\t"),
    "jsonl": _jsonl,
}

# Batches are as small as this even if rows are large.
_BATCH_BYTES = 16 << 20
_STREAM_ENDING = ".arrows"
_STANDARD_OUTPUTS = ("/dev/stdout", "/dev/fd/1")


@click.command()
@table_options
@click.argument("file")
@click.option(
    "--format", "kind", type=click.Choice(FORMATS), help="Format of the file. Default: by its ending."
)
@column_option
@filter_option
@click.option("-n", "--limit", type=click.IntRange(0), help="No more rows than this.")
@click.option("--overwrite", is_flag=True, help="Replace FILE if it exists.")
@quiet_option
@as_json
def export(
    file: str,
    kind: str | None,
    columns: str | None,
    filter_: str | None,
    limit: int | None,
    overwrite: bool,
    quiet: bool,
    as_json: bool,
    **table: Any,
) -> None:
    """Write the rows of the table at URI to FILE (Parquet, CSV, TSV, Arrow, JSON lines; - is standard output)."""
    file = STANDARD if file in _STANDARD_OUTPUTS else file
    if as_json and file == STANDARD:
        raise click.UsageError("--json and the rows cannot both go to standard output: leave one out")
    chosen = format_of(file, kind)
    ds = opened(**table)
    with bar(quiet or as_json) as progress:
        facts = _exported(ds, file, chosen, overwrite, progress, (names(columns), filter_, limit))
    if as_json:
        show_json(facts)
    elif file != STANDARD:
        show_values(facts)


def _exported(
    ds: Dataset,
    file: str,
    kind: str,
    overwrite: bool,
    progress: Progress,
    wanted: tuple[list[str] | None, str | None, int | None],
) -> dict[str, Any]:
    columns, condition, limit = wanted
    scan = ds.scanner(columns, condition, limit, batch_size_bytes=_BATCH_BYTES)
    schema = scan.schema
    check_columns(schema, kind)
    total = ds.count_rows() if condition is None else 0  # counting filtered rows would be a second scan
    if limit is not None:
        total = min(total, limit)
    is_stream = file == STANDARD or is_pipe(file) or file.lower().endswith(_STREAM_ENDING)
    rows = 0
    with opened_output(file, overwrite) as output:
        with written(kind, output, schema, is_stream) as write:
            for batch in scan.to_batches():
                write(batch)
                rows += batch.num_rows
                progress(Step("export", rows, total, "rows", file))
        size = output.size
    progress(Step("export", rows, rows, "rows"))
    return {"file": file, "format": kind, "version": ds.version, "rows": rows, "bytes": size}
