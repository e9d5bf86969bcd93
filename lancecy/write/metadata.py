"""Fragments as JSON in pylance's form, sent from distributed writers to the committer.

Facts: table sheet, section 2.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from lancecy.records import dataclass
from lancecy.table.manifest import DataFile, DeletionFile, DeletionFileType, ExternalFile, Fragment

__all__ = ["FragmentMetadata"]

_FORMS = {DeletionFileType.ARROW: "array", DeletionFileType.BITMAP: "bitmap"}


@dataclass(frozen=True, slots=True)
class FragmentMetadata(Fragment):
    """A fragment that is not committed yet; made by :func:`lancecy.write_fragments`.

    A :class:`lancecy.table.manifest.Fragment` that can be sent as JSON, which pylance reads too, or pickled.

    Examples
    --------
    >>> made = FragmentMetadata(0, [DataFile("a.lance", [0], [0], 2, 1, 400)], physical_rows=3)
    >>> FragmentMetadata.from_json(made.to_json()) == made
    True
    """

    def __post_init__(self) -> None:
        if type(self.files) is not tuple:
            object.__setattr__(self, "files", tuple(self.files))

    @classmethod
    def of(cls, fragment: Fragment) -> FragmentMetadata:
        """The fragment as FragmentMetadata.

        Parameters
        ----------
        fragment : Fragment
        """
        return cls(**{field.name: getattr(fragment, field.name) for field in fields(Fragment)})

    @property
    def num_deletions(self) -> int:
        """Number of deleted rows; 0 if it is unknown."""
        return (self.deletion_file.num_deleted_rows or 0) if self.deletion_file is not None else 0

    @property
    def num_rows(self) -> int:
        """Rows that are not deleted."""
        return (self.physical_rows or 0) - self.num_deletions

    def to_json(self) -> dict[str, Any]:
        """Plain values for ``json.dumps``, equal to those of pylance's ``FragmentMetadata.to_json``.

        Raises
        ------
        ValueError
            Row ids or versions are in a separate file, as some old releases wrote them.
        """
        deleted = self.deletion_file
        deletion = None if deleted is None else {
            "read_version": deleted.read_version,
            "id": deleted.id,
            "file_type": _FORMS[deleted.file_type],
            "num_deleted_rows": deleted.num_deleted_rows or 0,
            "base_id": deleted.base_id,
        }  # fmt: skip
        return {
            "id": self.id,
            "files": [_file_to_json(file) for file in self.files],
            "overlays": [],
            "physical_rows": self.physical_rows,
            "deletion_file": deletion,
            "row_id_meta": _bytes_to_json("Inline", self.row_ids),
            "created_at_version_meta": _bytes_to_json("inline", self.created_at_versions),
            "last_updated_at_version_meta": _bytes_to_json("inline", self.last_updated_versions),
        }

    @staticmethod
    def from_json(data: str | Mapping[str, Any]) -> FragmentMetadata:
        """The fragment in the JSON of :meth:`to_json`, of lancecy or pylance.

        Parameters
        ----------
        data : str or mapping
            JSON text, or its values.

        Raises
        ------
        ValueError
            Not such JSON, or a fragment with data overlay files.
        """
        try:
            return _from_json(json.loads(data) if isinstance(data, str) else data)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"this is not fragment metadata: {error!r}") from error


def _from_json(data: Mapping[str, Any]) -> FragmentMetadata:
    if data.get("overlays"):
        raise ValueError("a fragment with data overlay files cannot be committed by lancecy")
    deletion = data.get("deletion_file")
    deleted = None
    if deletion is not None:
        form = next((form for form, text in _FORMS.items() if text == deletion["file_type"]), None)
        if form is None:
            raise ValueError(f"deletion files of type {deletion['file_type']!r} are unknown")
        count = deletion["num_deleted_rows"] or None
        deleted = DeletionFile(deletion["read_version"], deletion["id"], form, count, deletion.get("base_id"))
    return FragmentMetadata(
        id=data["id"],
        files=tuple(_file_from_json(file) for file in data["files"]),
        deletion_file=deleted,
        physical_rows=data["physical_rows"],
        row_ids=_bytes_from_json(data.get("row_id_meta")),
        last_updated_versions=_bytes_from_json(data.get("last_updated_at_version_meta")),
        created_at_versions=_bytes_from_json(data.get("created_at_version_meta")),
    )


def _file_to_json(file: DataFile) -> dict[str, Any]:
    return {
        "path": file.path,
        "fields": list(file.fields),
        "column_indices": list(file.column_indices),
        "file_major_version": file.major,
        "file_minor_version": file.minor,
        "file_size_bytes": file.size,
        "base_id": file.base_id,
    }


def _file_from_json(data: Mapping[str, Any]) -> DataFile:
    return DataFile(
        path=data["path"],
        fields=tuple(data["fields"]),
        column_indices=tuple(data.get("column_indices") or ()),
        file_major_version=data.get("file_major_version", 0),
        file_minor_version=data.get("file_minor_version", 0),
        file_size_bytes=data.get("file_size_bytes"),
        base_id=data.get("base_id"),
    )


def _bytes_to_json(key: str, stored: bytes | ExternalFile | None) -> dict[str, list[int]] | None:
    if stored is None or isinstance(stored, bytes):
        return None if stored is None else {key: list(stored)}
    raise ValueError(
        f"row ids or row versions are in the file {stored.path!r}, which JSON of a fragment cannot carry"
    )


def _bytes_from_json(data: Mapping[str, list[int]] | None) -> bytes | None:
    if data is None:
        return None
    inline = data.get("Inline", data.get("inline"))
    if inline is None:
        raise ValueError(
            "row ids or row versions are in an external file, which lancecy does not read from JSON"
        )
    return bytes(inline)
