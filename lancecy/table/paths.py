"""Names and folders of a dataset, and which names a manifest may contain.

::

    {root}/_versions/{20 digits of 2**64-1-version}.manifest     V2 names, newest first in a listing
    {root}/_versions/{version}.manifest                          V1 names
    {root}/_versions/d{version}.manifest                         detached, bit 63 of the version set
    {root}/data/{name}.lance
    {root}/_deletions/{fragment}-{read version}-{id}.{arrow|bin}
    {root}/_transactions/{read version}-{uuid}.txn
    {root}/_indices/{uuid}/...

Every name in a file passes :func:`check_name` or :func:`check_relative` before it becomes part of a
path. Facts: table sheet, sections 1.3, 2.2, 2.3.
"""

from __future__ import annotations

import enum
import re
import uuid
from urllib.parse import unquote

from lancecy.errors import PathPolicyError
from lancecy.records import dataclass

__all__ = [
    "DATA",
    "DELETIONS",
    "DETACHED",
    "INDICES",
    "TEMPORARY",
    "TRANSACTIONS",
    "TREE",
    "VERSIONS",
    "WRITE_MARKER",
    "ManifestName",
    "Naming",
    "check_name",
    "check_relative",
    "check_text",
    "data_file_name",
    "manifest_name",
    "parse_manifest_name",
]

VERSIONS = "_versions"
DATA = "data"
DELETIONS = "_deletions"
INDICES = "_indices"
TRANSACTIONS = "_transactions"
TREE = "tree"
"""Folder of the branches of a main table."""

TEMPORARY = ".tmp"
"""Prefixes of temporary file names, of lancecy and of the reference."""

WRITE_MARKER = f"{VERSIONS}/{TEMPORARY}_write_"
"""Beginning of the path of a file that stands as long as a distributed write, and holds the version it began from."""

_MAX_VERSION = (1 << 64) - 1
DETACHED = 1 << 63
"""Bit of the number of a version that is not part of the history."""
_SUFFIX = ".manifest"
_MANIFEST = re.compile(r"(d?)([0-9]{1,20})\.manifest(?:-([0-9A-Za-z-]{1,64}))?")
# Names that writers produce; all others take the slow path below.
_ORDINARY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]{0,254}")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:")
_MAX_NAME_BYTES = 255


class Naming(enum.Enum):
    """Naming scheme of a dataset's manifests."""

    V1 = 1
    V2 = 2


@dataclass(frozen=True, slots=True)
class ManifestName:
    """The parsed name of a manifest.

    Attributes
    ----------
    version : int
    naming : Naming
    detached : bool
        Not part of the history, and never the latest.
    staged : bool
        Written, but not yet published by an external manifest store.
    """

    version: int
    naming: Naming
    detached: bool = False
    staged: bool = False

    @property
    def is_published(self) -> bool:
        """Whether it is the name of a version in the history."""
        return not self.detached and not self.staged


def parse_manifest_name(name: str) -> ManifestName | None:
    """The parsed name of a file in ``_versions/``, or None if it is not a manifest's.

    Examples
    --------
    >>> parse_manifest_name("18446744073709551612.manifest").version
    3
    """
    match = _MANIFEST.fullmatch(name)
    if match is None:
        return None
    detached, digits, staged = match.groups()
    number = int(digits)
    if detached:
        known = number <= _MAX_VERSION and number & DETACHED != 0
        return ManifestName(number, Naming.V2, True, staged is not None) if known else None
    # The length alone tells the schemes apart: V1 names would need a version of 20 digits.
    naming = Naming.V2 if len(digits) == 20 else Naming.V1
    version = _MAX_VERSION - number if naming is Naming.V2 else number
    if version < 1 or (naming is Naming.V1 and digits[0] == "0"):
        return None
    return ManifestName(version, naming, False, staged is not None)


def manifest_name(version: int, naming: Naming = Naming.V2) -> str:
    """File name of a version's manifest.

    Examples
    --------
    >>> manifest_name(3), manifest_name(3, Naming.V1)
    ('18446744073709551612.manifest', '3.manifest')
    """
    if version & DETACHED:
        return f"d{version}{_SUFFIX}"
    return f"{_MAX_VERSION - version:020d}{_SUFFIX}" if naming is Naming.V2 else f"{version}{_SUFFIX}"


def data_file_name(unique: uuid.UUID | None = None, tag: str = "") -> str:
    """A new name for a data file: 24 binary digits (they spread objects well), then 26 hexadecimal ones.

    Parameters
    ----------
    unique : uuid.UUID, optional
    tag : str
        Hexadecimal digits, at most 16, at the end of the name, to find files of one write.

    Examples
    --------
    >>> data_file_name(uuid.UUID(int=5))
    '00000000000000000000000000000000000000000000000005.lance'
    """
    raw = (unique or uuid.uuid4()).bytes
    digits = raw[3:].hex()
    return f"{int.from_bytes(raw[:3], 'big'):024b}{digits[: len(digits) - len(tag)]}{tag}.lance"


def check_name(name: str, what: str = "file name") -> str:
    """Return the name of a file, or refuse it.

    A name is one path segment: no separator, drive letter or scheme, control or other unprintable
    character, not ``.`` or ``..``, at most 255 bytes. The same holds after undoing percent-encoding once,
    because object stores do so.

    Raises
    ------
    PathPolicyError

    Examples
    --------
    >>> check_name("a.lance")
    'a.lance'
    """
    if _ORDINARY.fullmatch(name):
        return name
    problem = _segment_problem(name) or (_segment_problem(unquote(name)) if "%" in name else None)
    if problem:
        raise PathPolicyError(f"{what} {name!r} {problem}")
    return name


def check_relative(path: str, what: str = "path") -> str:
    """Return a path of several segments below the dataset root, or refuse it (see :func:`check_name`)."""
    check_text(path, what)
    for segment in path.split("/"):
        check_name(segment, f"segment of {what}")
    return path


def check_text(text: str, what: str) -> None:
    """Refuse text that is empty, longer than 4096 characters or not printable."""
    if not text:
        raise PathPolicyError(f"{what} is empty")
    if len(text) > 4096:
        raise PathPolicyError(f"{what} has {len(text)} characters")
    if not text.isprintable() or "\\" in text:
        raise PathPolicyError(f"{what} {text!r} has a backslash or a character that is not printable")


def _segment_problem(name: str) -> str | None:
    if not name:
        return "is empty"
    if name in (".", ".."):
        return "is no file's"
    if "/" in name or "\\" in name:
        return "has a path separator"
    if not name.isprintable():
        return "has a character that is not printable"
    if _SCHEME.match(name):
        return "starts with a scheme or a drive letter"
    if len(name.encode("utf-8", "surrogatepass")) > _MAX_NAME_BYTES:
        return f"is longer than {_MAX_NAME_BYTES} bytes"
    return None
