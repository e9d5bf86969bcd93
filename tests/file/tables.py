"""Tables on disk, read through the file layer alone: manifest, data files, blocks, Arrow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from lancecy.encodings.arrow.assemble import pruned
from lancecy.encodings.arrow.to_arrow import to_arrow
from lancecy.file.base import FileReader
from lancecy.file.open import opening
from lancecy.rows import RowSelection
from lancecy.schema import Field
from lancecy.store.reads import SourceFile, run
from lancecy.table.manifest import DataFile, Manifest
from lancecy.table.wire import manifest as manifest_wire
from tests.helpers.pages import Files

__all__ = ["TableOnDisk", "arrow_columns", "load_table", "open_data_file"]


@dataclass
class TableOnDisk:
    """The latest version of a table; every file's bytes are in ``files``."""

    root: Path
    manifest: Manifest
    manifest_file: SourceFile
    files: Files

    @property
    def data_files(self) -> list[DataFile]:
        """Files of all fragments."""
        return [file for fragment in self.manifest.fragments for file in fragment.files]

    def table(self) -> pa.Table:
        """All rows; each column must lie in one file per fragment."""
        fields = self.manifest.schema.fields
        chunks: dict[int, list[pa.Array]] = {field.id: [] for field in fields}
        for file in self.data_files:
            for field, column in arrow_columns(*open_data_file(self, file)).items():
                chunks[field.id].append(column)
        columns = [pa.chunked_array(chunks[f.id], f.arrow_type) for f in fields]
        return pa.table(columns, schema=self.manifest.schema.arrow)


def load_table(root: Path | str, *, is_mapped: bool = True) -> TableOnDisk:
    """Parse the manifest with the latest modification of a table."""
    files = Files(is_mapped)
    path = max((Path(root) / "_versions").glob("*.manifest"), key=_version)
    manifest_file = files.add(path.name, path.read_bytes())
    manifest = manifest_wire.decode(files.contents[path.name], path.name)
    return TableOnDisk(Path(root), manifest, manifest_file, files)


def _version(path: Path) -> int:
    number = int(path.stem)
    return number if number < 2**63 else 2**64 - 1 - number


def open_data_file(
    table: TableOnDisk, file: DataFile, data: bytes | None = None
) -> tuple[FileReader, Files, list[Field]]:
    """Reader of one data file, what serves it, and the fields it holds; ``data`` instead of its bytes."""
    content = (table.root / "data" / file.path).read_bytes() if data is None else data
    reader = run(
        opening(
            table.files.add(file.path, content),
            field_ids=file.fields,
            fields=table.manifest.schema.fields,
            major=file.major,
            minor=file.minor,
            column_indices=file.column_indices,
            dictionary_source=table.manifest_file,
        ),
        table.files.fetch,
    )
    held = [pruned(field.scanned, reader.field_ids) for field in table.manifest.schema.fields]
    return reader, table.files, [field for field in held if field is not None]


def arrow_columns(
    reader: FileReader, files: Files, fields: Sequence[Field], selection: RowSelection | None = None
) -> dict[Field, pa.Array]:
    """Selected rows of some columns as plain arrays."""
    chosen = RowSelection.all(reader.num_rows) if selection is None else selection
    blocks = run(reader.read(fields, chosen), files.fetch)
    columns = {field: to_arrow(blocks[field.id], field) for field in fields}
    return {f: c.combine_chunks() if isinstance(c, pa.ChunkedArray) else c for f, c in columns.items()}
