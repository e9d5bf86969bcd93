"""A fragment's message to a :class:`~lancecy.table.manifest.Fragment` and back.

Manifests and transactions share these messages. Decoding is total. Features that would change the
rows of a fragment are refused even if the writer forgot their flag.

Facts: table sheet, section 2.
"""

from __future__ import annotations

from collections.abc import Iterable

from lancecy.errors import FormatError, LimitError, UnsupportedError
from lancecy.limits import Limits
from lancecy.proto import table_pb2
from lancecy.table.manifest import (
    BasePath,
    DataFile,
    DeletionFile,
    DeletionFileType,
    ExternalFile,
    Fragment,
)

__all__ = [
    "decode_base_paths",
    "decode_deletion_file",
    "decode_fragment",
    "encode_base_path",
    "encode_data_file",
    "encode_deletion_file",
    "encode_fragment",
]

_DELETION_TYPES = {
    table_pb2.DeletionFile.ARROW_ARRAY: DeletionFileType.ARROW,
    table_pb2.DeletionFile.BITMAP: DeletionFileType.BITMAP,
}
_STORED_TYPES = {kind: stored for stored, kind in _DELETION_TYPES.items()}
# The sequences of a fragment: attribute of the value, then the fields of the message.
_SEQUENCES = (
    ("row_ids", "row_ids"),
    ("last_updated_versions", "last_updated_at_versions"),
    ("created_at_versions", "created_at_versions"),
)


def decode_fragment(
    message: table_pb2.DataFragment, shared: dict[tuple[int, ...], tuple[int, ...]], limits: Limits
) -> Fragment:
    """The value of a fragment's message.

    Parameters
    ----------
    message : lance.table.DataFragment
    shared : dict
        Cache of tuples of field ids and column indices, because most fragments list the same.

    Raises
    ------
    FormatError, LimitError
        A number is out of range.
    UnsupportedError
        Overlays, hidden columns or an unknown type of deletion file.

    Source: table sheet, section 2.1.
    """
    fragment_id, num_rows = message.id, message.physical_rows
    if fragment_id >> 32:
        raise FormatError(f"fragment id {fragment_id} does not fit into 32 bits")
    if message.overlays:
        raise UnsupportedError(f"fragment {fragment_id} has data overlay files", feature="data overlay files")
    if num_rows > limits.rows_per_file:
        raise LimitError(
            f"fragment {fragment_id} of {num_rows} rows is beyond the limit of {limits.rows_per_file}",
            limit="rows_per_file",
            claimed=num_rows,
        )
    deletion_file = None
    if message.HasField("deletion_file"):
        deletion_file = decode_deletion_file(message.deletion_file, fragment_id, num_rows)
    return Fragment(
        fragment_id,
        tuple([_data_file(file, fragment_id, shared) for file in message.files[:]]),
        num_rows or None,
        deletion_file,
        _sequence(message, message.WhichOneof("row_id_sequence")),
        _sequence(message, message.WhichOneof("last_updated_at_version_sequence")),
        _sequence(message, message.WhichOneof("created_at_version_sequence")),
    )


def _data_file(
    message: table_pb2.DataFile, fragment_id: int, shared: dict[tuple[int, ...], tuple[int, ...]]
) -> DataFile:
    fields, columns = tuple(message.fields[:]), tuple(message.column_indices[:])
    if columns and len(columns) != len(fields):
        raise FormatError(
            f"file {message.path!r} of fragment {fragment_id} has {len(fields)} fields but {len(columns)} columns"
        )
    return DataFile(
        message.path,
        shared.setdefault(fields, fields),
        shared.setdefault(columns, columns),
        message.file_major_version,
        message.file_minor_version,
        message.file_size_bytes or None,
        message.base_id if message.HasField("base_id") else None,
    )


def decode_deletion_file(message: table_pb2.DeletionFile, fragment_id: int, num_rows: int) -> DeletionFile:
    """The deletion file in a fragment's message (raises as :func:`decode_fragment`)."""
    file_type = _DELETION_TYPES.get(message.file_type)
    if file_type is None:
        raise UnsupportedError(
            f"deletion file type {message.file_type} of fragment {fragment_id}", feature="deletion file type"
        )
    if num_rows and message.num_deleted_rows > num_rows:
        raise FormatError(
            f"{message.num_deleted_rows} of {num_rows} rows of fragment {fragment_id} are deleted"
        )
    return DeletionFile(
        message.read_version,
        message.id,
        file_type,
        message.num_deleted_rows or None,
        message.base_id if message.HasField("base_id") else None,
    )


def _sequence(message: table_pb2.DataFragment, present: str | None) -> bytes | ExternalFile | None:
    """The value of one of a fragment's three oneofs: bytes, the place of the bytes, or None."""
    if present is None:
        return None
    value = getattr(message, present)
    if isinstance(value, table_pb2.ExternalFile):
        return ExternalFile(value.path, value.offset, value.size)
    if isinstance(value, table_pb2.HiddenColumn):
        raise UnsupportedError(
            f"row ids or versions of fragment {message.id} are in hidden columns",
            feature="row lineage in hidden columns",
        )
    return bytes(value)


def decode_base_paths(messages: Iterable[table_pb2.BasePath]) -> dict[int, BasePath]:
    """Base paths by id.

    Raises
    ------
    FormatError
        Two bases have the same id.
    """
    bases: dict[int, BasePath] = {}
    for message in messages:
        if message.id in bases:
            raise FormatError(f"two base paths have id {message.id}")
        name = message.name if message.HasField("name") else None
        bases[message.id] = BasePath(message.id, message.path, name, message.is_dataset_root)
    return bases


def encode_base_path(base: BasePath) -> table_pb2.BasePath:
    """The message of a base path."""
    return table_pb2.BasePath(
        id=base.id, name=base.name, is_dataset_root=base.is_dataset_root, path=base.path
    )


def encode_fragment(fragment: Fragment) -> table_pb2.DataFragment:
    """The message of a fragment, the opposite of :func:`decode_fragment`.

    Examples
    --------
    >>> encode_fragment(Fragment(7, physical_rows=3)).physical_rows
    3
    """
    message = table_pb2.DataFragment(id=fragment.id, physical_rows=fragment.physical_rows or 0)
    message.files.extend(encode_data_file(file) for file in fragment.files)
    if fragment.deletion_file is not None:
        message.deletion_file.CopyFrom(encode_deletion_file(fragment.deletion_file))
    for attribute, name in _SEQUENCES:
        value = getattr(fragment, attribute)
        if isinstance(value, bytes):
            setattr(message, f"inline_{name}", value)
        elif value is not None:
            external = table_pb2.ExternalFile(path=value.path, offset=value.offset, size=value.size)
            getattr(message, f"external_{name}").CopyFrom(external)
    return message


def encode_deletion_file(file: DeletionFile) -> table_pb2.DeletionFile:
    """The message of a deletion file."""
    return table_pb2.DeletionFile(
        file_type=_STORED_TYPES[file.file_type],
        read_version=file.read_version,
        id=file.id,
        num_deleted_rows=file.num_deleted_rows or 0,
        base_id=file.base_id,
    )


def encode_data_file(file: DataFile) -> table_pb2.DataFile:
    """The message of a data file."""
    return table_pb2.DataFile(
        path=file.path,
        fields=file.fields,
        column_indices=file.column_indices,
        file_major_version=file.major,
        file_minor_version=file.minor,
        file_size_bytes=file.size or 0,
        base_id=file.base_id,
    )
