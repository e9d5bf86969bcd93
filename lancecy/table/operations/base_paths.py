"""Adds and moves base paths in a manifest's message, and refuses invalid ones.

Two similar bases make readers open the wrong files, so ids, names and places are compared before
anything is written; the reference omits some of these checks (table sheet, section 7).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from lancecy.errors import ConflictError, SchemaError
from lancecy.proto import table_pb2
from lancecy.table.bases import canonical_base, spelling
from lancecy.table.manifest import BasePath
from lancecy.table.operations.base import NewManifest
from lancecy.table.operations.index_section import filtered
from lancecy.table.wire.fragment import decode_base_paths, encode_base_path

__all__ = [
    "add_bases",
    "adopt_bases",
    "check_bases_known",
    "decode_bases",
    "encode_bases",
    "move_bases",
    "registered",
]


def encode_bases(bases: Iterable[BasePath]) -> list[table_pb2.BasePath]:
    """Messages of base paths."""
    return list(map(encode_base_path, bases))


def decode_bases(messages: Iterable[table_pb2.BasePath]) -> tuple[BasePath, ...]:
    """Base paths of a transaction, in order. Several may have id 0, which means no id yet."""
    return tuple(base for message in messages for base in decode_base_paths([message]).values())


def add_bases(message: table_pb2.Manifest, bases: Iterable[BasePath], *, relocate: bool = False) -> None:
    """Register bases in a manifest, or relocate registered ones.

    Parameters
    ----------
    message : lance.table.Manifest
        Changed.
    bases : iterable of BasePath
        Id 0 means the smallest free one from 1 on, unless bases are relocated.
    relocate : bool
        See ``UpdateBases``.

    Raises
    ------
    ConflictError
        The table has a base of this id, name or path.
    SchemaError
        A base to relocate does not exist.
    PathPolicyError
        A path is neither absolute nor a URI, or holds credentials.

    Source: table sheet, section 7.
    """
    added = tuple(bases)
    if added:
        known = registered(decode_base_paths(message.base_paths), added, relocate=relocate)
        del message.base_paths[:]
        message.base_paths.extend(encode_bases(known.values()))


def move_bases(message: table_pb2.Manifest, places: Mapping[int, BasePath]) -> None:
    """Set the current places of a manifest's bases.

    Parameters
    ----------
    message : lance.table.Manifest
        Changed.
    places : mapping of id to BasePath
        Ids that the manifest lacks are ignored.
    """
    for base in message.base_paths:
        if base.id in places:
            base.CopyFrom(encode_base_path(places[base.id]))


def adopt_bases(made: NewManifest, adopted: Collection[int]) -> NewManifest:
    """The manifest whose files in some bases are in the table's own root, without these bases.

    Parameters
    ----------
    made : NewManifest
        Its message is changed.
    adopted : collection of int
        Ids of bases.
    """
    message = made.message
    kept = [base for base in message.base_paths if base.id not in adopted]
    del message.base_paths[:]
    message.base_paths.extend(kept)
    for fragment in message.fragments:
        for file in fragment.files:
            if file.HasField("base_id") and file.base_id in adopted:
                file.ClearField("base_id")
        deletion = fragment.deletion_file
        if (
            fragment.HasField("deletion_file")
            and deletion.HasField("base_id")
            and deletion.base_id in adopted
        ):
            deletion.ClearField("base_id")

    def own(raw: bytes) -> bytes:
        entry = table_pb2.IndexMetadata.FromString(raw)
        if not entry.HasField("base_id") or entry.base_id not in adopted:
            return raw
        entry.ClearField("base_id")
        return entry.SerializeToString()

    indices = None if made.indices is None else filtered(made.indices, lambda entry: own(entry.raw))
    return replace(made, indices=indices)


def registered(
    known: Mapping[int, BasePath], bases: Sequence[BasePath], *, relocate: bool = False
) -> dict[int, BasePath]:
    """The bases of a table by id after registering others; see :func:`add_bases` for arguments and errors."""
    found = dict(known)
    # A clone by the reference has its base under the id 0.
    explicit = [base for base in bases if base.id or relocate]
    for base in explicit:
        if relocate and base.id not in found:
            raise SchemaError(f"the table has no base {base.id} to relocate", difference=f"base {base.id}")
        others = {other.id: other for other in found.values() if not (relocate and other.id == base.id)}
        # Bases of clones have the names of branches, so two may share one before.
        keeps_name = relocate and found[base.id].name == base.name
        _check_new(replace(base, name=None) if keeps_name else base, others)
        found[base.id] = base
    for base in [base for base in bases if not base.id and not relocate]:
        _check_new(base, found)
        free = next(number for number in range(1, len(found) + 2) if number not in found)
        found[free] = replace(base, id=free)
    return found


def _check_new(base: BasePath, known: dict[int, BasePath]) -> None:
    if base.id in known and base.id:
        raise ConflictError(f"the table has a base {base.id} already: {known[base.id].path}")
    place = canonical_base(base)
    for other in known.values():
        if base.name is not None and base.name == other.name:
            raise ConflictError(f"the table has a base called {base.name!r} already: {other.path}")
        if spelling(other) == place:
            raise ConflictError(f"base {other.id} of the table is {other.path} already")


def check_bases_known(
    message: table_pb2.Manifest, base_ids: Iterable[int | None], what: str = "a file"
) -> None:
    """Refuse files, or something else, in bases that the table lacks.

    Raises
    ------
    SchemaError
    """
    known = {base.id for base in message.base_paths}
    for base_id in base_ids:
        if base_id is not None and base_id not in known:
            raise SchemaError(
                f"{what} is in base {base_id}, which the table lacks", difference=f"base {base_id}"
            )
