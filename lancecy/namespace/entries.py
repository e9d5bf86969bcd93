"""Rows of the table ``__manifest``: its columns, and one row as a value.

Source: namespace document, "Manifest Table Schema".
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

import pyarrow as pa

from lancecy.errors import FormatError, printable
from lancecy.namespace.names import DELIMITER
from lancecy.records import dataclass
from lancecy.store.paths import is_safe_path

__all__ = [
    "COLUMNS",
    "MANIFEST",
    "NAMESPACE",
    "TABLE",
    "Entry",
    "checked_location",
    "metadata_text",
    "rows_of",
]

MANIFEST = "__manifest"
"""Directory of the table, below the root."""
NAMESPACE, TABLE = "namespace", "table"
"""Values of ``object_type``."""

COLUMNS = pa.schema(
    [
        pa.field(
            "object_id",
            pa.string(),
            nullable=False,
            metadata={"lance-schema:unenforced-primary-key:position": "0"},
        ),
        pa.field("object_type", pa.string(), nullable=False),
        pa.field("location", pa.string()),
        pa.field("metadata", pa.string()),
        pa.field("base_objects", pa.list_(pa.field("object_id", pa.string()))),
    ]
)
"""Columns of ``__manifest`` as pylance writes them."""


@dataclass(frozen=True)
class Entry:
    """A namespace or a table, as one row states it.

    Attributes
    ----------
    object_id : str
        Names joined by ``$``.
    kind : str
        "namespace" or "table"; other kinds are skipped by readers.
    location : str or None
        Directory of a table relative to the root, as stored.
    properties : mapping of str to str
    """

    object_id: str
    kind: str
    location: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Entry:
        """The entry of a row.

        Parameters
        ----------
        row : mapping
            With the first four columns.

        Raises
        ------
        FormatError
            The metadata is no JSON object of texts, or the location of a table is missing or leads out of the root.
        """
        object_id, kind = str(row["object_id"]), str(row["object_type"])
        location = checked_location(row["location"], object_id) if kind == TABLE else None
        return cls(object_id, kind, location, _properties(row["metadata"], object_id))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the id."""
        return tuple(self.object_id.split(DELIMITER))


def checked_location(location: str | None, object_id: str) -> str:
    """The location of a table, if it is a directory below the root.

    Parameters
    ----------
    location : str or None
        As stored.
    object_id : str
        For the error.

    Raises
    ------
    FormatError
        It is missing, the root itself, the directory of ``__manifest``, or leads out of the root.

    Examples
    --------
    >>> checked_location("t.lance/", "t")
    't.lance'
    >>> checked_location("../other", "t")
    Traceback (most recent call last):
        ...
    lancecy.errors.FormatError: __manifest says that table 't' is at '../other', which is no directory of its own ...
    """
    path = "" if location is None else location.removesuffix("/")
    if not is_safe_path(path) or path.partition("/")[0] == MANIFEST:
        shown = "no place" if location is None else repr(printable(location))
        raise FormatError(
            f"{MANIFEST} says that table {printable(object_id)!r} is at {shown}, which is no directory of its own below "
            "the root: nothing is read or removed there; correct or delete the row"
        )
    return path


def metadata_text(properties: Mapping[str, str] | None) -> str | None:
    """Properties as the column ``metadata`` holds them; None if there are none.

    Examples
    --------
    >>> metadata_text({"owner": "me"}), metadata_text({})
    ('{"owner":"me"}', None)
    """
    return json.dumps(dict(properties), separators=(",", ":"), ensure_ascii=False) if properties else None


def rows_of(entries: Sequence[Entry]) -> pa.Table:
    """Entries as rows of the table."""
    rows = [
        {
            "object_id": entry.object_id,
            "object_type": entry.kind,
            "location": entry.location,
            "metadata": metadata_text(entry.properties),
            "base_objects": None,
        }
        for entry in entries
    ]
    return pa.Table.from_pylist(rows, schema=COLUMNS)


def _properties(text: str | None, object_id: str) -> dict[str, str]:
    if text is None:
        return {}
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise FormatError(
            f"the metadata of {printable(object_id)!r} in {MANIFEST} is no JSON object of texts: {printable(text[:80])!r}"
        )
    return found
