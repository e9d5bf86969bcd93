"""Files that lancecy writes, read again by lancecy and by pylance."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa

from lancecy.encodings.arrow.to_arrow import to_arrow
from lancecy.file.base import FileSummary, FileWriteOptions
from lancecy.file.create import create_file
from lancecy.file.open import opening
from lancecy.proto import file_pb2, table_pb2
from lancecy.rows import RowSelection
from lancecy.schema import Field, Schema, logical_type_of
from lancecy.schema_wire import decode_fields
from lancecy.store.base import Store
from lancecy.store.local import LocalStore
from lancecy.store.reads import run
from tests.helpers.compare import assert_arrays_equal
from tests.helpers.pages import Files

__all__ = [
    "VERSIONS",
    "Written",
    "assert_same",
    "legacy_metadata",
    "own_fields",
    "read_mine",
    "read_theirs",
    "schema_of",
    "write",
]

VERSIONS = ("2.0", "2.1", "2.2")


def schema_of(schema: pa.Schema) -> Schema:
    """The schema with ids in depth-first order."""
    ids = count()
    metadata = {key.decode(): value for key, value in (schema.metadata or {}).items()}
    return Schema(tuple(_field(field, -1, ids) for field in schema), metadata)


def _field(field: pa.Field, parent: int, ids: Iterator[int]) -> Field:
    kind, number = field.type, next(ids)
    metadata = {key.decode(): value for key, value in (field.metadata or {}).items()}
    if isinstance(kind, pa.BaseExtensionType):
        metadata.setdefault("ARROW:extension:name", kind.extension_name.encode())
        kind = kind.storage_type
    types = pa.types
    inner: list[pa.Field] = []
    if types.is_struct(kind) or types.is_list(kind) or types.is_large_list(kind):
        inner = [kind.field(i) for i in range(kind.num_fields)]
    elif types.is_map(kind):
        inner = [pa.field("entries", pa.struct([kind.key_field, kind.item_field]), False)]
    elif types.is_fixed_size_list(kind) and types.is_struct(kind.value_type):
        inner = [kind.value_field]
    is_struct_list = types.is_fixed_size_list(kind) and bool(inner)
    logical = "map" if types.is_map(kind) else ""
    if is_struct_list:
        logical = f"fixed_size_list:struct:{kind.list_size}"
    return Field(
        name=field.name,
        id=number,
        parent_id=parent,
        logical_type=logical or logical_type_of(kind),
        nullable=field.nullable,
        extension_name=metadata.get("ARROW:extension:name", b"").decode(),
        metadata=metadata,
        children=tuple(_field(child, number, ids) for child in inner),
    )


class Written:
    """A data file in a folder of its own."""

    def __init__(self, root: Path, schema: Schema, summary: FileSummary) -> None:
        self.root, self.schema, self.summary = root, schema, summary

    @property
    def path(self) -> Path:
        return self.root / self.summary.path


def write(
    data: pa.Table | Sequence[pa.RecordBatch],
    version: str,
    root: Path | None = None,
    *,
    rows: int | None = None,
    schema: Schema | None = None,
    store: Store | None = None,
    **options: Any,
) -> Written:
    """Write a table, or batches; ``rows`` at a time."""
    batches = data.to_batches(max_chunksize=rows) if isinstance(data, pa.Table) else list(data)
    arrow = data.schema if isinstance(data, pa.Table) else batches[0].schema
    schema = schema_of(arrow) if schema is None else schema
    root = Path(tempfile.mkdtemp()) if root is None else root
    writer = create_file(
        LocalStore(str(root)) if store is None else store,
        "x.lance",
        schema,
        version,
        FileWriteOptions(**options),
    )
    for batch in batches:
        writer.write(batch)
    return Written(root, schema, writer.finish())


def read_mine(written: Written, rows: Sequence[int] | None = None) -> pa.Table:
    """What lancecy reads."""
    files = Files()
    summary = written.summary
    source = files.add("x.lance", written.path.read_bytes())
    fields = written.schema.fields if summary.major else own_fields(written.path.read_bytes())
    reader = run(
        opening(
            source,
            field_ids=summary.fields,
            fields=fields,
            major=summary.major,
            minor=summary.minor,
            column_indices=summary.column_indices,
            dictionary_source=None if summary.major else source,
        ),
        files.fetch,
    )
    total = reader.num_rows
    chosen = RowSelection.all(total) if rows is None else RowSelection.take(total, rows)
    blocks = run(reader.read(fields, chosen), files.fetch)
    columns = [to_arrow(blocks[field.id], field) for field in fields]
    return pa.table(columns, schema=written.schema.arrow)


def legacy_metadata(data: bytes) -> file_pb2.Metadata:
    """The Metadata message of a 0.1 file."""
    end = int.from_bytes(data[-16:-8], "little")
    return file_pb2.Metadata.FromString(data[end + 4 : -16])


def own_fields(data: bytes) -> tuple[Field, ...]:
    """The fields that a 0.1 file states itself: their dictionaries are in it."""
    at = legacy_metadata(data).manifest_position
    length = int.from_bytes(data[at : at + 4], "little")
    return decode_fields(table_pb2.Manifest.FromString(data[at + 4 : at + 4 + length]).fields)


def read_theirs(written: Written) -> pa.Table:
    """What pylance reads."""
    from lance.file import LanceFileReader

    return LanceFileReader(str(written.path)).read_all().to_table()


def assert_same(written: Written, table: pa.Table) -> None:
    """A file holds the columns of a table, each of them sound."""
    found = read_mine(written)
    for name in table.column_names:
        found[name].validate(full=True)
        assert_arrays_equal(found[name], table[name], path=name)
