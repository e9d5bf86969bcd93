"""Blobs that a writer gives by the URI of an object: referred to where they are, or read and written into the table.

A place that this table could not read is refused, by the rules for bases (``table.bases``), before the row is written.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from operator import attrgetter

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancecy.blobs.files import BlobFile, StoredObject, read_whole
from lancecy.blobs.whole import blob_runs
from lancecy.encodings.arrow.map_nested import map_nested
from lancecy.encodings.codecs.outside_blobs import check_parts, check_sources
from lancecy.errors import LanceError, PathPolicyError, printable
from lancecy.schema import Field, Schema
from lancecy.session import Session
from lancecy.table.bases import Bases
from lancecy.table.placement import OWN_FOLDERS

__all__ = ["GivenBlobs"]

_RUN_BYTES = 32 << 20
_IS_GIVEN = attrgetter("is_blob_v2")


class GivenBlobs:
    """What becomes of the blobs of one writer that are given by URI; see ``OutsideBlobs``.

    Parameters
    ----------
    bases : Bases
        Those of the table after the write.
    session : Session
    anywhere : bool
        Whether objects may be outside of the bases.
    ingest : bool
        Whether the bytes of the objects are written instead of references.
    """

    def __init__(self, bases: Bases, session: Session, anywhere: bool, ingest: bool) -> None:
        self._bases, self._session = bases, session
        self._anywhere, self._ingest = anywhere, ingest

    def place(self, uri: str) -> tuple[int, str]:
        """The place in the descriptor of a blob.

        Parameters
        ----------
        uri : str

        Raises
        ------
        PathPolicyError
            The object is in no base, and may not be elsewhere; or the table could not read it, or would remove it.
        """
        base_id, path = self._bases.blob_place(uri)
        if not base_id and not self._anywhere:
            raise PathPolicyError(
                f"the blob at {printable(uri)!r} is in no base of the table: register its folder with "
                "add_bases([DatasetBasePath(folder)]), give its bytes, or call write_dataset with "
                "allow_external_blob_outside_bases=True, or with external_blob_mode='ingest', which copies the bytes"
            )
        store, inner = self._bases.blob(base_id, path)
        if store is self._bases.root and inner.partition("/")[0] in OWN_FOLDERS:
            raise PathPolicyError(
                f"the blob at {printable(uri)!r} is in a folder that the table keeps for its own files, which a cleanup "
                "removes: give its bytes, or call write_dataset with external_blob_mode='ingest'"
            )
        return base_id, path

    def brought(self, batch: pa.RecordBatch, schema: Schema) -> Iterator[pa.RecordBatch]:
        """The rows of a batch, in runs of bounded size if the bytes of objects are written.

        Parameters
        ----------
        batch : pyarrow.RecordBatch
            In the form of the schema.
        schema : Schema
            From ``with_all_members``.

        Raises
        ------
        SchemaError
            A value has neither bytes nor a URI, or both; or an invalid part of an object.
        LanceError
            An object cannot be read.
        """
        columns = [field for field in schema.fields if any(node.is_blob_v2 for node in field.walk())]
        if not self._ingest or not columns:
            yield batch
            return
        sizes = np.zeros(batch.num_rows)
        places: dict[str, StoredObject] = {}
        for field in columns:
            sizes += self._sizes(batch.column(field.name), field, places)
        for start, stop in blob_runs(sizes, _RUN_BYTES):
            part = batch.slice(start, stop - start)
            for number, field in enumerate(schema.fields):
                if field in columns:
                    read = partial(self._read, places=places)
                    values = map_nested(part.column(number), field, _IS_GIVEN, read)
                    part = part.set_column(number, field.name, values)
            yield part

    def _sizes(self, array: pa.Array, field: Field, places: dict[str, StoredObject]) -> NDArray[np.float64]:
        """Bytes of the objects of each row; of blobs within lists, an average."""
        total = np.zeros(len(array))

        def counted(blobs: pa.StructArray, node: Field) -> pa.Array:
            nonlocal total
            _check(blobs, node)
            opened = self._opened(blobs, node, places)
            self._session.map_requests(BlobFile.size, [blob for blob in opened if blob is not None])
            found = np.array([0 if blob is None else blob.size() for blob in opened], np.float64)
            total = total + (found if found.size == total.size else found.sum() / max(1, total.size))
            return blobs

        map_nested(array, field, _IS_GIVEN, counted)
        return total

    def _read(self, blobs: pa.StructArray, field: Field, places: dict[str, StoredObject]) -> pa.Array:
        """The blobs with bytes in place of URIs."""
        opened = self._opened(blobs, field, places)
        members = _members(blobs)
        values = read_whole(self._session, opened)
        data = [
            own if blob is None else value
            for own, blob, value in zip(members["data"].to_pylist(), opened, values, strict=True)
        ]
        rest = {name: pa.nulls(len(blobs), member.type) for name, member in members.items()}
        made = {**rest, "data": pa.array(data, members["data"].type)}
        return pa.StructArray.from_arrays(list(made.values()), fields=list(blobs.type), mask=blobs.is_null())

    def _opened(
        self, blobs: pa.StructArray, field: Field, places: dict[str, StoredObject]
    ) -> list[BlobFile | None]:
        """The objects of blobs that are given by URI, None for the others; ``places`` are those opened so far."""
        found: list[BlobFile | None] = []
        members = _members(blobs)
        columns = (members[name].to_pylist() for name in ("uri", "position", "size"))
        for uri, position, size in zip(*columns, strict=True):
            if uri is None:
                found.append(None)
                continue
            if uri not in places:
                try:
                    place = self._bases.blob(*self._bases.blob_place(uri))
                except LanceError as error:
                    raise error.within(f"column {printable(field.name)!r}")
                places[uri] = StoredObject(lambda place=place: place)  # type: ignore[misc]
            found.append(BlobFile(self._session, places[uri], position or 0, size, 0))
        return found


def _check(blobs: pa.StructArray, field: Field) -> None:
    """Refuse values that a writer of references refuses too; of one that has bytes and a URI, the bytes would be lost."""
    members = _members(blobs)
    check_sources(blobs, members["data"], members["uri"], field)
    check_parts(pa.table(members).filter(members["uri"].is_valid()), field)


def _members(blobs: pa.StructArray) -> dict[str, pa.Array]:
    return dict(zip([member.name for member in blobs.type], blobs.flatten(), strict=True))
