"""Ids of new fields: above every id that the table has in use.

An index or a data file may outlive the column it was made for. A new column with that id would get its values.

Source: table sheet, sections 8 and 10.4.
"""

from __future__ import annotations

from collections.abc import Iterable

from lancecy.table.manifest import IndexEntry, Manifest

__all__ = ["next_field_id"]


def next_field_id(manifest: Manifest, indices: Iterable[IndexEntry]) -> int:
    """The smallest id above those in the schema, in data files, and in index entries of a version.

    Parameters
    ----------
    manifest : Manifest
    indices : iterable of IndexEntry
        Those of the version (``Snapshot.indices``).

    Source: table sheet, sections 8 and 10.4.

    Examples
    --------
    >>> from lancecy.schema import Schema
    >>> from lancecy.table.manifest import DataFile, Fragment
    >>> fragment = Fragment(0, (DataFile("f", (0, 5, -2)),))
    >>> next_field_id(Manifest(1, Schema(()), (fragment,)), ())
    6
    """
    ids = {-1, *(node.id for top in manifest.schema.fields for node in top.walk())}
    # Most files have the same fields.
    for fields in {file.fields for fragment in manifest.fragments for file in fragment.files}:
        ids.update(fields)
    for entry in indices:
        ids.update(entry.fields)
    return max(ids) + 1
