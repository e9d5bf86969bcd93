"""The contents of tag and branch files.

Today's files have keys in camelCase; those of the document and of old releases have them in snake_case. Both are read,
today's are written, byte for byte as pylance 14 does.

Sources: branch and tag specification, "Branch Metadata File Format" and "Tag File Format"; table sheet, section 6.1.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import field
from datetime import UTC, datetime
from typing import Any

from lancecy.errors import FormatError, printable
from lancecy.limits import DEFAULT_LIMITS, Limits
from lancecy.records import dataclass
from lancecy.store.base import Memory
from lancecy.table.refs.names import GUARDS, MAIN, TAGS, is_branch_name

__all__ = ["Branch", "Pin", "Tag", "decode_branch", "decode_pin", "decode_tag", "encode_branch", "encode_tag"]

_LARGEST = (1 << 64) - 1
_TIME = re.compile(
    r"(\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d)(?:\.(\d{1,9})\d*)?([Zz]|[+-]\d\d:\d\d)", re.ASCII
).fullmatch


@dataclass(frozen=True, slots=True)
class Tag:
    """A tag.

    Attributes
    ----------
    version : int
    branch : str or None
        Branch of the version; None for the main table.
    created_ns, updated_ns : int or None, ns since 1970
        None in files of old releases.
    manifest_size : int, bytes
        Size of the manifest file. A hint only: files with a wrong one are valid.
    metadata : mapping of str to str
    """

    version: int
    branch: str | None = None
    created_ns: int | None = None
    updated_ns: int | None = None
    manifest_size: int = 0
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Branch:
    """The start of a branch.

    Attributes
    ----------
    parent_version : int
        Version it starts from.
    parent : str or None
        Branch of that version; None for the main table.
    lineage : tuple of (int, str)
        For each branch from the main table to this one: the version it starts from, and a random id of 32 hex digits.
        Empty in files of old releases.
    created_s : int, s since 1970
    manifest_size : int, bytes
        Size of the parent's manifest file. A hint only.
    metadata : mapping of str to str
    """

    parent_version: int
    parent: str | None = None
    lineage: tuple[tuple[int, str], ...] = ()
    created_s: int = 0
    manifest_size: int = 0
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Pin:
    """A version that a tag or a branch needs.

    Attributes
    ----------
    path : str
        Path of the tag or branch file.
    branch : str or None
        Branch of the version; None for the main one.
    version : int
    is_tag : bool
        True for a tag, False for the start of a branch and for a version about to get a tag or a branch.
    """

    path: str
    branch: str | None
    version: int
    is_tag: bool


def decode_pin(memory: Memory, path: str, limits: Limits = DEFAULT_LIMITS) -> Pin:
    """The version named in a tag or branch file.

    Parameters
    ----------
    memory : (file size,) uint8
    path : str
        Path below the main root; it distinguishes tags from branches.

    Raises
    ------
    FormatError
        The file is no JSON object, names no version, or has a value of a wrong type.
    LimitError
        It is too large.

    Examples
    --------
    >>> import numpy as np
    >>> text = np.frombuffer(b'{"branch": null, "version": 3, "manifestSize": 9}', np.uint8)
    >>> decode_pin(text, "_refs/tags/v1.json").version
    3
    """
    if path.startswith((f"{TAGS}/", f"{GUARDS}/")):
        tag = decode_tag(memory, path, limits)
        return Pin(path, tag.branch, tag.version, path.startswith(f"{TAGS}/"))
    branch = decode_branch(memory, path, limits)
    return Pin(path, branch.parent, branch.parent_version, False)


def decode_tag(memory: Memory, path: str, limits: Limits = DEFAULT_LIMITS) -> Tag:
    """The tag in a file; parameters and errors as for :func:`decode_pin`."""
    found = _File(memory, path, limits)
    return Tag(
        found.version("version"),
        found.branch("branch"),
        found.time("createdAt", "created_at"),
        found.time("updatedAt", "updated_at"),
        found.number("manifestSize", "manifest_size"),
        found.metadata(),
    )


def decode_branch(memory: Memory, path: str, limits: Limits = DEFAULT_LIMITS) -> Branch:
    """The branch in a file; parameters and errors as for :func:`decode_pin`."""
    found = _File(memory, path, limits)
    return Branch(
        found.version("parentVersion", "parent_version"),
        found.branch("parentBranch", "parent_branch"),
        found.lineage(),
        found.number("createAt", "create_at"),
        found.number("manifestSize", "manifest_size"),
        found.metadata(),
    )


def encode_tag(tag: Tag) -> bytes:
    """The file of a tag.

    Examples
    --------
    >>> print(encode_tag(Tag(3, None, 0, 1, 400)).decode())
    {
      "branch": null,
      "version": 3,
      "createdAt": "1970-01-01T00:00:00Z",
      "updatedAt": "1970-01-01T00:00:00.000000001Z",
      "manifestSize": 400,
      "metadata": {}
    }
    """
    return _encode(
        {
            "branch": tag.branch,
            "version": tag.version,
            "createdAt": None if tag.created_ns is None else _time_text(tag.created_ns),
            "updatedAt": None if tag.updated_ns is None else _time_text(tag.updated_ns),
            "manifestSize": tag.manifest_size,
            "metadata": dict(tag.metadata),
        }
    )


def encode_branch(branch: Branch) -> bytes:
    """The file of a branch."""
    return _encode(
        {
            "parentBranch": branch.parent,
            "identifier": {"version_mapping": [list(start) for start in branch.lineage]},
            "parentVersion": branch.parent_version,
            "createAt": branch.created_s,
            "manifestSize": branch.manifest_size,
            "metadata": dict(branch.metadata),
        }
    )


def _encode(values: Mapping[str, Any]) -> bytes:
    return json.dumps(values, indent=2, ensure_ascii=False).encode()


def _time_text(time_ns: int) -> str:
    """RFC 3339 with as many groups of three digits as the time needs."""
    seconds, rest = divmod(time_ns, 1_000_000_000)
    text = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    if not rest:
        return f"{text}Z"
    digits = f"{rest:09}"
    while digits.endswith("000"):
        digits = digits[:-3]
    return f"{text}.{digits}Z"


class _File:
    """A JSON file of a tag or a branch, whose values are checked when they are read."""

    def __init__(self, memory: Memory, path: str, limits: Limits) -> None:
        limits.check("metadata_bytes", memory.size, f"size of {path}")
        self._path = path
        try:
            found: Any = json.loads(memory.tobytes())
            # Half a surrogate pair can be escaped, but is no text that could be written again.
            json.dumps(found, ensure_ascii=False).encode()
        except (ValueError, RecursionError) as error:
            raise FormatError(f"{path} is no JSON: {error}", path=path) from error
        if not isinstance(found, dict):
            raise FormatError(f"{path} is no JSON object", path=path)
        self._found: dict[str, Any] = found

    def version(self, *keys: str) -> int:
        value = self._get(*keys)
        if value is None:
            raise FormatError(f"{self._path} names no version: it has no {keys[0]!r}", path=self._path)
        return self._checked_number(value, keys[0], 1)

    def number(self, *keys: str) -> int:
        value = self._get(*keys)
        return 0 if value is None else self._checked_number(value, keys[0], 0)

    def branch(self, *keys: str) -> str | None:
        # Tags of old releases have no branch, and the oldest branches start on the main table.
        value = self._get(*keys)
        if value is None or value == MAIN:
            return None
        if not isinstance(value, str) or not is_branch_name(value):
            raise self._wrong(keys[0], value, "the name of a branch")
        return value

    def time(self, *keys: str) -> int | None:
        value = self._get(*keys)
        match = _TIME(value) if isinstance(value, str) else None
        if match is None:
            if value is None:
                return None
            raise self._wrong(keys[0], value, "a time like 2026-01-31T12:00:00Z")
        try:
            # Near the ends of the calendar, a time that can be written may be none in UTC.
            moment = datetime.fromisoformat(match[1] + match[3].upper()).astimezone(UTC)
            seconds = int(moment.timestamp())
        except (ValueError, OverflowError):
            raise self._wrong(keys[0], value, "a time like 2026-01-31T12:00:00Z") from None
        return seconds * 1_000_000_000 + int((match[2] or "0").ljust(9, "0"))

    def metadata(self) -> dict[str, str]:
        value = self._get("metadata")
        if value is None:
            return {}
        if not isinstance(value, dict) or not all(isinstance(entry, str) for entry in value.values()):
            raise self._wrong("metadata", value, "an object of texts")
        return value

    def lineage(self) -> tuple[tuple[int, str], ...]:
        identifier = self._get("identifier")
        if identifier is None:
            return ()
        try:
            starts = [(version, name) for version, name in identifier["version_mapping"]]
        except (KeyError, TypeError, ValueError):
            raise self._wrong("identifier", identifier, "the version_mapping of a branch") from None
        if not all(type(version) is int and isinstance(name, str) for version, name in starts):
            raise self._wrong("identifier", identifier, "pairs of a version and an id")
        return tuple(starts)

    def _get(self, *keys: str) -> Any:
        return next((self._found[key] for key in keys if self._found.get(key) is not None), None)

    def _checked_number(self, value: object, key: str, least: int) -> int:
        if type(value) is not int or not least <= value <= _LARGEST:
            raise self._wrong(key, value, f"a number from {least}")
        return value

    def _wrong(self, key: str, value: object, expected: str) -> FormatError:
        shown = printable(repr(value)[:80])
        return FormatError(f"{self._path}: {key} is {shown} instead of {expected}", path=self._path)
