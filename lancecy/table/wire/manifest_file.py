"""The parts of a manifest file, from which the next version is made.

Besides the decoded values, a commit needs the message itself, so that unknown fields survive, and the
sections of the file, which are copied as bytes.

Facts: table sheet, sections 1.1 and 10.4.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection
from functools import cached_property

from lancecy.errors import FormatError
from lancecy.limits import DEFAULT_LIMITS, Limits
from lancecy.proto import table_pb2
from lancecy.records import dataclass
from lancecy.store.base import Memory
from lancecy.table.manifest import Fragment, Manifest, without_row_counts
from lancecy.table.wire import manifest as manifest_wire
from lancecy.table.wire.fragment import decode_fragment

__all__ = ["IDENTITY_BYTES", "ManifestFile", "decode_manifest_file", "identity_of"]

# Bytes of a manifest file in its identity: the part that holds its time and transaction.
IDENTITY_BYTES = 64 << 10
# Up to this many names are searched in the bytes, which is faster than a set of all names.
_FEW = 32


@dataclass(frozen=True, eq=False)
class ManifestFile:
    """A version as stored.

    Attributes
    ----------
    manifest : Manifest
    message : lance.table.Manifest
        Not to be changed.
    raw : bytes
        The whole file.
    """

    manifest: Manifest
    message: table_pb2.Manifest
    raw: bytes

    @property
    def version(self) -> int:
        return self.manifest.version

    @cached_property
    def indices(self) -> bytes | None:
        """The message of the index section."""
        return self._section(self.manifest.index_section)

    @cached_property
    def transaction(self) -> bytes | None:
        """The message of the transaction section."""
        return self._section(self.manifest.transaction_section)

    @cached_property
    def dictionaries(self) -> bytes:
        """All bytes before the first section, if 0.1 dictionary fields point there; their positions must stay valid."""
        manifest = self.manifest
        ends = [span[0] - 4 for span in (manifest.index_section, manifest.transaction_section) if span]
        end = min(ends, default=int.from_bytes(self.raw[-16:-8], "little"))
        fields = self.message.fields if end else ()
        has_values = any(field.HasField("dictionary") and field.dictionary.length for field in fields)
        return self.raw[:end] if has_values else b""

    @cached_property
    def identity(self) -> str:
        """Distinguishes manifest files of one version (``Snapshot.identity``)."""
        return identity_of(self.raw)

    def _section(self, span: tuple[int, int] | None) -> bytes | None:
        return None if span is None else self.raw[span[0] : span[0] + span[1]]

    @cached_property
    def positions(self) -> dict[int, int]:
        """Position of each fragment in the message, by id."""
        return {fragment.id: position for position, fragment in enumerate(self.message.fragments)}

    @cached_property
    def fragments(self) -> dict[int, Fragment]:
        """Fragments by id."""
        return {fragment.id: fragment for fragment in self.manifest.fragments}

    def added_since(self, earlier: ManifestFile, limits: Limits) -> tuple[Fragment, ...]:
        """The fragments that an earlier version lacks.

        Parameters
        ----------
        earlier : ManifestFile
        limits : Limits
        """
        added = sorted(self.positions.keys() - earlier.positions.keys())
        # All fragments of the table as values would take longer than reading the few new ones.
        shared: dict[tuple[int, ...], tuple[int, ...]] = {}
        messages = [self.message.fragments[self.positions[number]] for number in added]
        return tuple(decode_fragment(message, shared, limits) for message in messages)

    def users_of(self, bases: Collection[int], limits: Limits) -> tuple[Fragment, ...]:
        """Fragments that together have a file in each of some bases, as far as any has.

        Parameters
        ----------
        bases : collection of int
            Ids of bases.
        limits : Limits
        """
        wanted, found = set(bases), list[Fragment]()
        for message in self.message.fragments:
            files: list[table_pb2.DataFile | table_pb2.DeletionFile] = [*message.files]
            if message.HasField("deletion_file"):
                files.append(message.deletion_file)
            used = wanted.intersection(file.base_id for file in files if file.HasField("base_id"))
            if used:
                found.append(decode_fragment(message, {}, limits))
                wanted -= used
            if not wanted:
                break
        return tuple(found)

    @cached_property
    def field_types(self) -> dict[int, tuple[int, str]]:
        """Parent and type of each field by id; a field id means the same column while both are equal."""
        return {field.id: (field.parent_id, field.logical_type) for field in self.message.fields}

    @cached_property
    def field_paths(self) -> dict[int, tuple[str, ...]]:
        """Names from the top level down to each field, by id."""
        found: dict[int, tuple[str, ...]] = {}
        for field in self.message.fields:
            found[field.id] = (*found.get(field.parent_id, ()), field.name)
        return found

    def may_have(self, names: Collection[str]) -> bool:
        """Whether a data file of one of these names may be part of the table; False is certain."""
        if len(names) > _FEW:
            return not self._names.isdisjoint(names)
        return any(name.encode() in self.raw for name in names)

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(file.path for part in self.message.fragments for file in part.files)


def identity_of(data: bytes | memoryview) -> str:
    """``Snapshot.identity`` of the manifest file with these bytes."""
    return f"{zlib.crc32(data[-IDENTITY_BYTES:]):08x}"


def decode_manifest_file(
    memory: Memory, path: str, version: int, limits: Limits = DEFAULT_LIMITS
) -> ManifestFile:
    """The parts of a manifest file.

    Parameters
    ----------
    memory : (file size,) uint8
    path : str
        For errors.
    version : int
        Version in its name; the file must agree.

    Raises
    ------
    FormatError, LimitError, UnsupportedError
        As ``manifest_wire.decode``; or the version in the file differs from its name.
    """
    manifest, message = manifest_wire.decode_message(memory, path, limits)
    if manifest.version != version:
        raise FormatError(
            f"the manifest named for version {version} is of version {manifest.version}", path=path
        )
    if manifest.writer is None and any(fragment.physical_rows for fragment in message.fragments):
        # The next version names its writer, and its numbers of rows are believed then.
        manifest, message = without_row_counts(manifest), _copy(message)
        for fragment in message.fragments:
            fragment.physical_rows = 0
    if len(message.fragments) > 1 and not any(fragment.id for fragment in message.fragments):
        # The C++ releases assigned no ids; later versions need them.
        message = _copy(message)
        for number, fragment in enumerate(message.fragments):
            fragment.id = number
    return ManifestFile(manifest, message, memory.tobytes())


def _copy(message: table_pb2.Manifest) -> table_pb2.Manifest:
    copied = table_pb2.Manifest()
    copied.CopyFrom(message)
    return copied
