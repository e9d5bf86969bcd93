"""Ids of new fields: above every id that the table has in use.

An index or a data file may outlive the column it was made for. A new column with that id would get its values.

Source: table sheet, sections 8 and 10.4.
"""

from __future__ import annotations

from lancecy.table.wire.indices import decode_index_section
from lancecy.table.wire.manifest_file import ManifestFile

__all__ = ["next_field_id"]


def next_field_id(stored: ManifestFile) -> int:
    """The smallest id above those in the schema, in data files, and in index entries of a version.

    Parameters
    ----------
    stored : ManifestFile

    Raises
    ------
    FormatError, LimitError
        The index section is damaged.

    Source: table sheet, sections 8 and 10.4.
    """
    message = stored.message
    ids = {-1, *(field.id for field in message.fields)}
    if message.HasField("max_allocated_field_id"):
        ids.add(message.max_allocated_field_id)
    for part in message.fragments:
        for file in part.files:
            ids.update(file.fields)
    for entry in decode_index_section(stored.indices or b""):
        ids.update(entry.fields)
    return max(ids) + 1
