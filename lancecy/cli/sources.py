"""Input of ``lancecy write``: Parquet, CSV, Arrow and JSON lines, from files and from standard input, as one stream.

Each format's library is imported when a file of that format is opened. Text formats have few types, and Parquet lacks
some of Arrow's: values get the types of the table's columns, see ``text_values``.
"""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import click
import pyarrow as pa
from click import UsageError

from lancecy.cli.text_values import json_type, values_of
from lancecy.errors import printable
from lancecy.progress import Progress, Step
from lancecy.records import dataclass

__all__ = ["ENDINGS", "FORMATS", "STANDARD", "Input", "format_option", "inputs", "is_pipe", "rows_of"]

STANDARD = "-"
"""The name of standard input and output."""
ENDINGS = {
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
"""Formats by the endings of files."""

_BATCH_ROWS = 1 << 16
# Text is read in blocks; no row may be longer, and types of new columns are inferred from the first one.
_BLOCK_BYTES = 16 << 20
_HEAD_BYTES = 1 << 16
_BINARY = {b"PAR1": "parquet", b"ARROW1": "arrow", b"\xff\xff\xff\xff": "arrow"}
_COMPRESSED = {
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"BZh": "bzip2",
    b"PK": "zip",
    b"\xfd7zXZ": "xz",
}

Opened = tuple[pa.Schema, Iterator[tuple[pa.RecordBatch, float]]]
"""Columns of a file; its batches, each with the fraction of the file read so far."""


@dataclass(frozen=True, slots=True)
class Input:
    """One file of rows.

    Attributes
    ----------
    path : str
        Where it is read; of standard input and other pipes a temporary copy.
    name : str
        What messages call it.
    """

    path: str
    name: str


@contextmanager
def inputs(files: Sequence[str]) -> Iterator[list[Input]]:
    """The named files; ``-`` is standard input. Pipes are copied to temporary files.

    Parameters
    ----------
    files : sequence of str

    Raises
    ------
    UsageError
        Standard input is named twice, or closed.
    FileNotFoundError
        There is no such file.
    """
    if files.count(STANDARD) > 1:
        raise UsageError("standard input can be read only once: give - once")
    with ExitStack() as stack:
        yield [_input(file, stack) for file in files]


def is_pipe(file: str) -> bool:
    """Whether a file is a pipe or a device, such as ``/dev/fd/63`` of a shell's ``<(…)``."""
    path = Path(file)
    return path.exists() and not path.is_file() and not path.is_dir()


def _input(file: str, stack: ExitStack) -> Input:
    if file == STANDARD:
        if sys.stdin is None:
            raise UsageError("standard input is closed: give a file or a pipe")
        stream = sys.stdin.buffer
        return Input(_redirected(stream) or _copied(stream, stack), "standard input")
    if is_pipe(file):
        with Path(file).open("rb") as stream:
            return Input(_copied(stream, stack), file)
    if not Path(file).exists():
        raise FileNotFoundError(f"there is no file {printable(file)!r}")
    return Input(file, file)


def _copied(stream: BinaryIO, stack: ExitStack) -> str:
    """A temporary copy: Parquet is read from its end, and CSV twice."""
    path = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lancecy-")), "rows")
    read = getattr(stream, "read1", stream.read)  # read() would not notice Ctrl+C before it has all bytes
    with path.open("wb") as copy:
        while part := read(1 << 20):
            copy.write(part)
    return str(path)


def _redirected(stream: BinaryIO) -> str | None:
    """The path of the file that is standard input; None for a pipe, or after the first read."""
    try:
        number = stream.fileno()
        is_file = stat.S_ISREG(os.fstat(number).st_mode) and os.lseek(number, 0, os.SEEK_CUR) == 0
    except OSError:
        return None
    path = f"/dev/fd/{number}"
    return path if is_file and Path(path).exists() else None


def rows_of(
    files: Sequence[Input], kind: str | None, progress: Progress, table: pa.Schema | None = None
) -> pa.RecordBatchReader:
    """The rows of all files, in order.

    Parameters
    ----------
    files : sequence of Input
        Of one format, with the same columns; read lazily.
    kind : str or None
        One of ``FORMATS``; None takes it from the file's ending, or from the first bytes of a pipe.
    progress : Progress
        Called with the bytes read.
    table : pyarrow.Schema, optional
        Columns that the rows are for; those of text formats get their types.

    Raises
    ------
    UsageError
        The format of a file is unknown.
    ValueError
        (also pyarrow's ``ArrowInvalid``) A file is damaged or its columns differ from the first file's.
    OSError
        A file cannot be opened.
    """
    sizes = [Path(file.path).stat().st_size for file in files]
    schema, first = _opened(files[0], kind, table)

    def batches() -> Iterator[pa.RecordBatch]:
        done = 0
        for number, (file, size) in enumerate(zip(files, sizes, strict=True)):
            found, parts = (schema, first) if number == 0 else _opened(file, kind, table)
            if not found.equals(schema):
                raise pa.ArrowInvalid(
                    f"{file.name} has other columns than {files[0].name}, or columns of other types"
                )
            for batch, share in _named(parts, file.name):
                progress(Step("write", done + int(share * size), sum(sizes), "bytes", Path(file.name).name))
                yield batch
            done += size
        progress(Step("write", done, sum(sizes), "bytes"))

    return pa.RecordBatchReader.from_batches(schema, batches())


def _named(
    parts: Iterator[tuple[pa.RecordBatch, float]], name: str
) -> Iterator[tuple[pa.RecordBatch, float]]:
    """The same batches; errors name the file."""
    try:
        yield from parts
    except ValueError as error:
        raise pa.ArrowInvalid(f"{printable(name)}: {_plain(error)}") from error


def _plain(error: Exception) -> str:
    text = str(error)
    if "straddling object" in text:
        return f"a row is longer than {_BLOCK_BYTES >> 20} MiB: write it as Parquet or Arrow"
    if "unexpected field" in text:
        return f"a line has a member that the table and the first {_BLOCK_BYTES >> 20} MiB lack ({text})"
    return text


def _opened(file: Input, kind: str | None, table: pa.Schema | None) -> Opened:
    name = kind or ENDINGS.get(Path(file.name).suffix.lower())
    if name is None and file.path != file.name:
        name = _recognised(file)
    if name is None:
        raise UsageError(
            f"the format of {file.name!r} is unknown; give it with --format: {', '.join(FORMATS)}"
        )
    try:
        return _OPENERS[name](file.path, table)
    except ValueError as error:
        raise pa.ArrowInvalid(f"{printable(file.name)}: {_plain(error)}") from error


def _recognised(file: Input) -> str | None:
    """The format of a file by its first bytes, None if they tell none."""
    with Path(file.path).open("rb") as source:
        head = source.read(_HEAD_BYTES)
    for magic, name in _BINARY.items():
        if head.startswith(magic):
            return name
    for magic, name in _COMPRESSED.items():
        if head.startswith(magic):
            raise UsageError(f"{file.name} is compressed ({name}): decompress it first")
    text = head.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "ignore").strip()
    if not text:
        raise UsageError(f"{file.name} is empty: it has no columns")
    # Of other encodings and of binary data much would be left out.
    if "\0" in text or len(text.encode()) < len(head.strip()) - 8:
        return None
    if text.startswith(("{", "[")):
        return "jsonl"
    line = text.splitlines()[0]
    return "tsv" if "\t" in line and "," not in line else "csv"


def _parquet(file: str, table: pa.Schema | None) -> Opened:
    import pyarrow.parquet as pq

    source = pq.ParquetFile(file)
    total = max(1, source.metadata.num_rows)
    found = source.schema_arrow
    schema = pa.schema([_known_by_parquet(table, field) for field in found], found.metadata)

    def batches() -> Iterator[tuple[pa.RecordBatch, float]]:
        done = 0
        for batch in source.iter_batches(batch_size=_BATCH_ROWS):
            done += batch.num_rows
            yield batch, done / total

    return schema, batches() if schema.equals(found) else _typed(batches(), schema)


def _known_by_parquet(table: pa.Schema | None, field: pa.Field) -> pa.Field:
    """The column of the table, if Parquet has no other type for it than the one of the file."""
    import pyarrow.parquet as pq

    wanted = _field(table, field)
    if wanted.type.equals(field.type):
        return field
    sink = pa.BufferOutputStream()
    try:
        pq.write_table(pa.schema([wanted]).empty_table(), sink)
    except pa.ArrowNotImplementedError:
        return field
    stored = pq.read_schema(pa.BufferReader(sink.getvalue())).field(0)
    return wanted if stored.type.equals(field.type) else field


def _arrow(file: str, _: pa.Schema | None) -> Opened:
    source = pa.memory_map(file)
    is_file = source.read(6) == b"ARROW1"
    source.seek(0)
    if not is_file:
        reader = pa.ipc.open_stream(source)
        return reader.schema, _streamed(reader, source)
    opened = pa.ipc.open_file(source)
    count = opened.num_record_batches
    return opened.schema, ((opened.get_batch(i), (i + 1) / count) for i in range(count))


def _csv(file: str, table: pa.Schema | None, delimiter: str = ",") -> Opened:
    """All columns are read as text, because only the text tells an empty value from a missing one."""
    from pyarrow import csv

    options = {
        "read_options": csv.ReadOptions(block_size=_BLOCK_BYTES),
        "parse_options": csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
    }
    with csv.open_csv(file, **options) as inferred:
        guess = inferred.schema
    convert = csv.ConvertOptions(
        column_types=dict.fromkeys(guess.names, pa.string()),
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    source = pa.OSFile(file)
    reader = csv.open_csv(source, convert_options=convert, **options)
    schema = pa.schema([_field(table, field) for field in guess])
    return schema, _typed(_streamed(reader, source), schema)


def _field(table: pa.Schema | None, field: pa.Field) -> pa.Field:
    """The column of the table, or the inferred one if there is none."""
    number = -1 if table is None else table.get_field_index(field.name)
    return field if table is None or number < 0 else table.field(number)


def _typed(
    parts: Iterator[tuple[pa.RecordBatch, float]], schema: pa.Schema
) -> Iterator[tuple[pa.RecordBatch, float]]:
    for batch, share in parts:
        columns = [
            values_of(_filled(column, field), field.type, field.name)
            for column, field in zip(batch.columns, schema, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=schema), share


def _filled(column: pa.Array, field: pa.Field) -> pa.Array:
    """Empty text in place of null, in a column of text that cannot be null."""
    is_text = pa.types.is_string(field.type) or pa.types.is_large_string(field.type)
    return column.fill_null("") if is_text and not field.nullable else column


def _jsonl(file: str, table: pa.Schema | None) -> Opened:
    from pyarrow import json

    with Path(file).open("rb") as text:
        head = text.read(_HEAD_BYTES).strip()
    if head.startswith(b"["):
        raise ValueError("this is one JSON array, and not one object per line; jq -c '.[]' makes lines of it")
    if not head and table is not None:
        return table, iter(())  # as a table without rows is exported
    asked = {field.name: json_type(field.type) for field in table or ()}
    known = pa.schema({name: kind for name, kind in asked.items() if kind is not None})
    source = pa.OSFile(file)
    reader = json.open_json(
        source,
        read_options=json.ReadOptions(block_size=_BLOCK_BYTES),
        parse_options=json.ParseOptions(explicit_schema=known if table else None, newlines_in_values=False),
    )
    schema = pa.schema([_field(table if f.name in known.names else None, f) for f in reader.schema])
    return schema, _typed(_streamed(reader, source), schema)


def _streamed(reader: Any, source: pa.NativeFile) -> Iterator[tuple[pa.RecordBatch, float]]:
    size = max(1, source.size())
    # The batches keep the reader alive; the file's position tells how far it has read.
    return ((batch, min(1.0, source.tell() / size)) for batch in chain(reader))


_OPENERS: dict[str, Callable[[str, pa.Schema | None], Opened]] = {
    "parquet": _parquet,
    "csv": _csv,
    "tsv": partial(_csv, delimiter="\t"),
    "arrow": _arrow,
    "jsonl": _jsonl,
}
FORMATS = tuple(_OPENERS)
"""File formats by their ``--format`` names."""

format_option = click.option(
    "--format",
    "kind",
    type=click.Choice(FORMATS),
    help="Format of the files. Default: by their endings; of standard input by its first bytes.",
)
