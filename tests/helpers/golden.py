"""The golden tables: small tables written by releases of pylance, with the rows each version must give back.

``golden/make_golden.py`` writes them; nothing else does. A test reads them where they are, or works on a copy.
"""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa

__all__ = [
    "GOLDEN_DIR",
    "Golden",
    "GoldenVersion",
    "all_goldens",
    "all_versions",
    "blob_goldens",
    "golden",
    "refused_goldens",
]

GOLDEN_DIR = Path(__file__).parent.parent / "golden"


@dataclass(frozen=True)
class Golden:
    """One golden table.

    Attributes
    ----------
    name : str
        ``<release>_<what>``.
    note : mapping
        What ``<name>.json`` says: writer, story, schema, versions.
    """

    name: str
    note: Mapping[str, Any]

    @property
    def path(self) -> Path:
        """Root of the table."""
        return GOLDEN_DIR / f"{self.name}.lance"

    @property
    def release(self) -> str:
        """Release of pylance that wrote it."""
        return self.name.split("_", 1)[0]

    @property
    def what(self) -> str:
        """Recipe it was made by."""
        return self.name.split("_", 1)[1]

    @property
    def formats(self) -> frozenset[str]:
        """Versions of its data files: ``0.1``, ``2.0`` to ``2.3``."""
        found = {path.read_bytes()[-8:-4] for path in (self.path / "data").glob("*.lance")}
        numbers = {struct.unpack("<HH", tail) for tail in found}
        return frozenset({(0, 2): "0.1", (0, 3): "2.0"}.get(pair, f"{pair[0]}.{pair[1]}") for pair in numbers)

    @property
    def is_legacy(self) -> bool:
        """Whether it has no data file of a later version than 0.1."""
        return self.formats <= {"0.1"}

    @property
    def versions(self) -> tuple[int, ...]:
        """Versions with expected rows, oldest first; the last is the latest of the table."""
        return tuple(sorted(int(version) for version in self.note["versions"]))

    @property
    def nullability_stored(self) -> bool:
        """False: the writer recorded no nullable flags, so only names and types can be compared."""
        return bool(self.note["nullability_stored"])

    def expected(self, version: int | None = None) -> pa.Table:
        """The rows of a version (the latest by default), in order, with the schema to be returned."""
        entry = self.note["versions"][str(version or self.versions[-1])]
        table = _read_answer(entry["expected"])
        if table.num_rows != entry["rows"]:
            raise ValueError(f"{entry['expected']} has {table.num_rows} rows, its note says {entry['rows']}")
        return table

    def copy_to(self, directory: Path) -> Path:
        """A copy that a test may damage; returns its root."""
        return Path(shutil.copytree(self.path, directory / self.path.name))


@cache
def _read_answer(name: str) -> pa.Table:
    with pa.OSFile(str(GOLDEN_DIR / name)) as source, pa.ipc.open_file(source) as reader:
        return reader.read_all()


@dataclass(frozen=True)
class GoldenVersion:
    """One version of a golden table, printable as a test id."""

    golden: Golden
    version: int

    @property
    def expected(self) -> pa.Table:
        """Its rows."""
        return self.golden.expected(self.version)

    def __str__(self) -> str:
        return f"{self.golden.name}-v{self.version}"


@cache
def all_goldens() -> tuple[Golden, ...]:
    """Every golden table that has a note and is read as its schema says, in order of name."""
    return tuple(t for t in _noted() if "refused" not in t.note and not t.what.endswith("blobs"))


@cache
def blob_goldens() -> tuple[Golden, ...]:
    """Tables with blobs, whose rows hold descriptors of another type than the schema says."""
    return tuple(table for table in _noted() if table.what.endswith("blobs"))


@cache
def refused_goldens() -> tuple[Golden, ...]:
    """Tables of pre-releases of a version, which are to be refused; the note says why."""
    return tuple(table for table in _noted() if "refused" in table.note)


@cache
def _noted() -> tuple[Golden, ...]:
    notes = sorted(GOLDEN_DIR.glob("*_*.json"))
    return tuple(Golden(note.name.removesuffix(".json"), json.loads(note.read_text())) for note in notes)


@cache
def all_versions() -> tuple[GoldenVersion, ...]:
    """Every version of every golden table for which rows are expected."""
    return tuple(GoldenVersion(table, version) for table in all_goldens() for version in table.versions)


def golden(name: str) -> Golden:
    """The golden table of this name.

    Raises
    ------
    KeyError
        There is none.
    """
    return {table.name: table for table in all_goldens()}[name]
