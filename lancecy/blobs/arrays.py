"""Arrow arrays and fields of blobs, for writers: each value is given by its bytes, or by a URI.

Names and methods are those of pylance. The extension type is not registered with pyarrow, because the registration that
pylance makes would then fail: where pylance is imported first, its type is used, so that arrays and fields of both
libraries go together. A column is written by the name of its type, so both libraries write either.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

import pyarrow as pa

from lancecy.encodings.codecs.blobs import SIZE_KEYS
from lancecy.encodings.codecs.outside_blobs import MEMBER_TYPES, MEMBERS
from lancecy.records import dataclass
from lancecy.schema import BLOB_EXTENSION, EXTENSION_KEY, restored

__all__ = ["Blob", "BlobArray", "BlobType", "blob_array", "blob_field"]

_SHAPES = [pa.struct([pa.field(name, MEMBER_TYPES[name]) for name in names]) for names in MEMBERS]
_STORAGE = _SHAPES[-1]
_MOST = 2**64 - 1


@dataclass(frozen=True)
class Blob:
    """One blob to write: either its bytes, or the URI of an object that holds them.

    A null is None, and an empty blob is :meth:`empty`.

    Parameters
    ----------
    data : bytes, bytearray or memoryview, optional
        Copied to bytes.
    uri : str, optional
        Absolute URI of an object that exists already; it stays where it is.
    position, size : int, bytes, optional
        The part of the object that is the blob; both or neither, which means all of it.

    Raises
    ------
    ValueError
        Not exactly one of ``data`` and ``uri`` is given, or the part of the object is not complete, negative or empty.
    TypeError
        A value is of another type.

    Examples
    --------
    >>> Blob.from_uri("s3://bucket/tape.bin", position=100, size=20)
    Blob(data=None, uri='s3://bucket/tape.bin', position=100, size=20)
    """

    data: bytes | None = None
    uri: str | None = None
    position: int | None = None
    size: int | None = None

    def __post_init__(self) -> None:
        if (self.data is None) == (self.uri is None):
            raise ValueError("a Blob has either data or a uri; a null blob is None")
        if isinstance(self.data, bytearray | memoryview):
            object.__setattr__(self, "data", bytes(self.data))
        if not isinstance(self.data, bytes | None) or not isinstance(self.uri, str | None):
            raise TypeError(
                f"data of a Blob is bytes and its uri text, not {self.data!r:.100} and {self.uri!r:.100}"
            )
        if self.uri == "":
            raise ValueError("the uri of a Blob is empty")
        if (self.position is None) != (self.size is None):
            raise ValueError("a part of an object has both a position and a size")
        if self.position is None or self.size is None:
            return
        if self.uri is None:
            raise ValueError("position and size are for a Blob with a uri")
        for number in (self.position, self.size):
            if isinstance(number, bool) or not isinstance(number, int):
                raise TypeError(f"position and size of a Blob are numbers of bytes, not {number!r:.100}")
        if self.position < 0 or self.size < 1 or self.position + self.size > _MOST:
            raise ValueError(
                f"a Blob cannot be {self.size} bytes at {self.position}: the position is 0 or more, the size 1 or more"
            )

    @staticmethod
    def from_bytes(data: bytes | bytearray | memoryview) -> Blob:
        """The blob of some bytes.

        Parameters
        ----------
        data : bytes
        """
        return Blob(bytes(data))

    @staticmethod
    def from_uri(uri: str, position: int | None = None, size: int | None = None) -> Blob:
        """The blob that is another object, or a part of it.

        Parameters
        ----------
        uri : str
        position, size : int, bytes, optional
        """
        return Blob(None, uri, position, size)

    @staticmethod
    def empty() -> Blob:
        """A blob without bytes, which is not null."""
        return Blob(b"")


class BlobType(pa.ExtensionType):  # type: ignore[misc]
    """The extension type ``lance.blob.v2``: a struct of bytes, URI, position and size, of which the last two may be missing."""

    def __init__(self) -> None:
        super().__init__(_STORAGE, BLOB_EXTENSION)

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> Self:
        if not _is_storage(storage_type):
            raise TypeError(f"blobs are stored as {_STORAGE}, not {storage_type}")
        made = cls.__new__(cls)
        pa.ExtensionType.__init__(made, storage_type, BLOB_EXTENSION)
        return made

    def __arrow_ext_class__(self) -> type[BlobArray]:
        return BlobArray

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).__arrow_ext_deserialize__, (self.storage_type, b"")


def _is_storage(kind: pa.DataType) -> bool:
    """Whether a type has the members of blobs; data and URI of which one is missing, as always, may be null."""
    if not pa.types.is_struct(kind):
        return False
    members = [kind.field(number) for number in range(kind.num_fields)]
    plain = pa.struct([pa.field(member.name, member.type) for member in members])
    return plain in _SHAPES and all(member.nullable for member in members[:2])


class BlobArray(pa.ExtensionArray):  # type: ignore[misc]
    """An array of blobs; made by :func:`blob_array`."""

    @classmethod
    def from_pylist(cls, values: Iterable[Any]) -> pa.ExtensionArray:
        """The array of Python values.

        Parameters
        ----------
        values : iterable
            See :func:`blob_array`.
        """
        return blob_array(values)


def blob_array(values: Iterable[Any]) -> pa.ExtensionArray:
    """An Arrow array of blobs, as :func:`lancecy.write_dataset` takes it; for files of version 2.2.

    Parameters
    ----------
    values : iterable of bytes, str, Blob or None
        Text is a URI.

    Returns
    -------
    BlobArray
        That of pylance, if it is imported.

    Raises
    ------
    TypeError
        A value is of another type.
    ValueError
        A URI is empty.

    Examples
    --------
    >>> blob_array([b"...", None, "s3://bucket/video.mp4"]).storage.field("data").to_pylist()
    [b'...', None, None]
    """
    rows = [_members(number, value) for number, value in enumerate(values)]
    columns = list(zip(*rows, strict=True)) or [()] * _STORAGE.num_fields
    storage = pa.StructArray.from_arrays(
        [pa.array(column, member.type) for column, member in zip(columns, _STORAGE, strict=True)],
        fields=list(_STORAGE),
        mask=pa.array([data is None and uri is None for data, uri, *_ in rows], pa.bool_()),
    )
    return pa.ExtensionArray.from_storage(_blob_type(), storage)


def _members(number: int, value: Any) -> tuple[Any, ...]:
    if value is None:
        return None, None, None, None
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value), None, None, None
    if isinstance(value, str):
        return None, Blob(uri=value).uri, None, None
    if all(hasattr(value, name) for name in MEMBERS[-1]):  # also that of pylance
        return tuple(getattr(value, name) for name in MEMBERS[-1])
    raise TypeError(f"value {number} of a blob array is bytes, a URI, a Blob or None, not {value!r:.100}")


def _blob_type() -> pa.ExtensionType:
    """The type that is registered with pyarrow, which pylance does, or else the one of lancecy."""
    found = restored(pa.field("", _STORAGE, metadata={EXTENSION_KEY: BLOB_EXTENSION})).type
    return found if isinstance(found, pa.ExtensionType) else BlobType()


def blob_field(
    name: str,
    *,
    nullable: bool = True,
    inline_size_threshold: int | None = None,
    dedicated_size_threshold: int | None = None,
    pack_file_size_threshold: int | None = None,
) -> pa.Field:
    """An Arrow field of a blob column, for files of version 2.2.

    Parameters
    ----------
    name : str
    nullable : bool
    inline_size_threshold : int, bytes, optional
        Larger blobs are in objects beside the data file; 64 KiB by default.
    dedicated_size_threshold : int, bytes, optional
        Larger blobs have an object each; 4 MiB by default. It counts before ``inline_size_threshold``.
    pack_file_size_threshold : int, bytes, optional
        Size at which the next object of several blobs begins; 1 GiB by default.

    Raises
    ------
    TypeError, ValueError, OverflowError
        A size is no number of bytes.

    Examples
    --------
    >>> blob_field("image", inline_size_threshold=1024).metadata
    {b'lance-encoding:blob-inline-size-threshold': b'1024'}
    """
    sizes = {
        "inline_size_threshold": inline_size_threshold,
        "dedicated_size_threshold": dedicated_size_threshold,
        "pack_file_size_threshold": pack_file_size_threshold,
    }
    metadata = {}
    for key, (what, size) in zip(SIZE_KEYS, sizes.items(), strict=True):
        if size is not None:
            _check_size(what, size, least=int(what != "inline_size_threshold"))
            metadata[key] = str(size)
    return pa.field(name, _blob_type(), nullable, metadata or None)


def _check_size(what: str, size: object, least: int) -> None:
    if isinstance(size, bool) or not isinstance(size, int):
        raise TypeError(f"{what} is a number of bytes, not {size!r:.100}")
    if size < least:
        raise ValueError(f"{what} is {size}; it is {least} or more")
    if size > _MOST:
        raise OverflowError(f"{what} is {size}, more than 64 bits hold")
