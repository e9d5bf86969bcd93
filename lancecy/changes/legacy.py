"""Rules for writing tables of format 0.1: no column may be missing, and the table owns the dictionaries.

Facts: file sheet 0.1, sections 3, 4.3 and 7.2.
"""

from __future__ import annotations

from collections.abc import Collection

from lancecy.errors import SchemaError, UnsupportedError, printable
from lancecy.file.dictionaries import Dictionaries, has_dictionaries, placed
from lancecy.file.v0.reader import read_dictionary
from lancecy.schema import Schema
from lancecy.store.reads import gather, run
from lancecy.table.snapshot import Snapshot

__all__ = ["check_versions", "dictionaries_after", "dictionaries_for", "with_dictionaries"]

_LEGACY = "0.1"


def check_versions(snapshot: Snapshot, version: str, table: Schema, written: Schema) -> None:
    """Check that files of a version can be added to a table.

    Parameters
    ----------
    snapshot : Snapshot
    version : str
        Version of the files.
    table, written : Schema
        Schemas of the table and of the files.

    Raises
    ------
    SchemaError
        The table would mix files of 0.1 and 2.x, or files of 0.1 would lack a column.
    """
    stated = snapshot.manifest.data_version
    if stated and stated != version and _LEGACY in (stated, version):
        raise SchemaError(
            f"the table has data files of version {stated} and cannot also have files of version {version}: leave "
            "data_storage_version out, or write the whole table again with mode='overwrite'",
            difference="version of data files",
        )
    if version != _LEGACY:
        return
    there = {node.id for top in written.fields for node in top.walk()}
    for node in (node for top in table.fields for node in top.walk()):
        if node.id not in there:
            raise SchemaError(
                f"column {printable(node.name)!r} is missing, and files of version 0.1 cannot leave columns out: give "
                "all columns of the table",
                difference=node.name,
            )


def dictionaries_for(written: Schema, version: str, snapshot: Snapshot | None) -> Dictionaries | None:
    """The dictionaries for files of 0.1, None without any.

    Parameters
    ----------
    written : Schema
        Schema of the files.
    version : str
    snapshot : Snapshot or None
        The table that is appended to; None if the write makes its dictionaries.

    Raises
    ------
    FormatError, StoreError
        The dictionaries of the table cannot be read.
    """
    if version != _LEGACY or not has_dictionaries(written.fields):
        return None
    if snapshot is None:
        return Dictionaries()
    return _stored(written, snapshot)


def dictionaries_after(
    snapshot: Snapshot, schema: Schema, written: Schema, version: str
) -> Dictionaries | None:
    """The dictionaries of a 0.1 table that gets more columns; None if these have none.

    Parameters
    ----------
    snapshot : Snapshot
    schema : Schema
        Of the table with the new columns.
    written : Schema
        The new columns, whose dictionaries grow while files are written.
    version : str

    Raises
    ------
    FormatError, StoreError
        The dictionaries of the table cannot be read.
    """
    if version != _LEGACY or not has_dictionaries(written.fields):
        return None
    known = {node.id for top in snapshot.schema.fields for node in top.walk()}
    kept = [top for top in schema.fields if any(node.id in known for node in top.walk())]
    return _stored(Schema(tuple(kept)), snapshot, known)


def _stored(schema: Schema, snapshot: Snapshot, known: Collection[int] | None = None) -> Dictionaries:
    """The dictionaries that the table has for the fields of a schema."""
    nodes = [node for top in schema.fields for node in top.walk() if has_dictionaries([node])]
    fields = [node for node in nodes if not node.children and (known is None or node.id in known)]
    source, limits = snapshot.dictionary_source(), snapshot.session.limits
    blocks = run(gather([read_dictionary(field, source, limits) for field in fields]), snapshot.session.fetch)
    return Dictionaries({f.id: (f, block) for f, block in zip(fields, blocks, strict=True)})


def with_dictionaries(schema: Schema, book: Dictionaries) -> tuple[Schema, bytes]:
    """The schema for the manifest, and the dictionary bytes at the start of the manifest file.

    Raises
    ------
    UnsupportedError
        A column has no dictionary because no rows were written.
    """
    values, refs = book.pages(0)
    for node in (node for top in schema.fields for node in top.walk()):
        if node.logical_type.startswith("dict:") and (node.id not in refs or not refs[node.id].length):
            raise UnsupportedError(
                f"column {printable(node.name)!r} has a dictionary, and a table of version 0.1 without rows "
                "has no values for it: write rows, or version 2.0",
                feature="empty dictionaries",
            )
    return Schema(placed(schema.fields, refs), schema.metadata), values
