"""Whole 2.x data files by hand: pages of ``v20`` and ``pages21`` in a container, without pylance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from google.protobuf.any_pb2 import Any as AnyMessage
from numpy.typing import NDArray

from lancecy.proto import encodings_pb2, file2_pb2, file_pb2
from lancecy.schema import Schema
from lancecy.schema_wire import encode_fields
from tests.helpers import pages21, v20
from tests.helpers.container import Container, Footer

__all__ = ["MORE_VERSIONS", "Page", "numbers_page", "strings_page", "v2_file", "vectors_page"]

MORE_VERSIONS = {"2.0": (0, 3), "2.1": (2, 1), "2.2": (2, 2)}
"""What the footers of these versions say."""

Page = tuple[bytes, int, Sequence[bytes]]
"""Serialized encoding, rows, buffers."""


def numbers_page(version: str, values: NDArray[Any]) -> Page:
    """Numbers without nulls: flat, from 2.1 on in chunks."""
    bits = values.dtype.itemsize * 8
    if version == "2.0":
        return _array(v20.no_nulls(v20.flat(bits)), len(values), [values.tobytes()])
    return _chunked(
        version, pages21.flat(bits), [([part.tobytes()], len(part), None) for part in _cut(values)]
    )


def vectors_page(version: str, values: NDArray[Any]) -> Page:
    """(rows, size) numbers as fixed-size lists."""
    bits, size = values.dtype.itemsize * 8, values.shape[1]
    if version == "2.0":
        items = v20.fixed_list(size, v20.no_nulls(v20.flat(bits)))
        return _array(v20.no_nulls(items), len(values), [values.tobytes()])
    codec = pages21.fixed_list(size, pages21.flat(bits))
    return _chunked(version, codec, [([part.tobytes()], len(part), None) for part in _cut(values)])


def strings_page(version: str, values: Sequence[bytes | None]) -> Page:
    """Strings with nulls."""
    if version == "2.0":
        page = v20.ended(values)
        return _array(page.encoding, page.num_rows, page.buffers)
    chunks = []
    for part in _cut(values):
        lengths = [len(value or b"") for value in part]
        ends = np.cumsum([4 * (len(part) + 1), *lengths]).astype("<u4")
        text = ends.tobytes() + b"".join(value or b"" for value in part)
        nulls = pages21.u16(*(value is None for value in part))
        chunks.append(([text + b"H" * (-len(text) % 4)], len(part), nulls))
    return _chunked(version, pages21.variable(), chunks)


def _array(encoding: bytes, rows: int, buffers: Sequence[bytes]) -> Page:
    return _any(v20.PAGE, encoding), rows, buffers


def _chunk_rows(rows: int) -> int:
    """Several chunks even in small pages."""
    return 4 if rows <= 64 else 1024


def _cut(values: Any) -> list[Any]:
    step = _chunk_rows(len(values))
    return [values[start : start + step] for start in range(0, len(values), step)]


def _chunked(version: str, codec: bytes, parts: Sequence[tuple[Sequence[bytes], int, bytes | None]]) -> Page:
    large, rows = version != "2.1", sum(count for _, count, _ in parts)
    has_nulls = parts[0][2] is not None
    chunks = [
        pages21.chunk(buffers, 0 if nulls is None else count, definition=nulls, large=large)
        for buffers, count, nulls in parts
    ]
    logs = [count.bit_length() - 1 for _, count, _ in parts[:-1]]
    layout = pages21.mini_block(
        codec,
        rows,
        (3,) if has_nulls else (1,),
        definition=pages21.flat(16) if has_nulls else None,
        large=large,
    )
    return _any(pages21.PAGE, layout), rows, [pages21.words(chunks, logs, large), b"".join(chunks)]


def _any(url: str, value: bytes) -> bytes:
    return AnyMessage(type_url=url, value=value).SerializeToString()


def v2_file(version: str, schema: Schema, columns: Sequence[Sequence[Page]], *, gap: int = 0) -> bytes:
    """A data file.

    Parameters
    ----------
    version : "2.0", "2.1" or "2.2"
    columns : sequence of sequence of Page
        Physical columns; pages of all columns lie in turn, as writers flush them.
    gap : int, bytes
        Of nothing between pages, for tests of what is fetched.
    """
    body = bytearray()
    messages = [_column() for _ in columns]
    for number in range(max(map(len, columns), default=0)):
        for message, pages in zip(messages, columns, strict=True):
            if number < len(pages):
                _place(body, message, pages[number])
                body += bytes(gap)
    rows = sum(page[1] for page in columns[0]) if columns else 0
    descriptor = file_pb2.FileDescriptor(
        schema=file_pb2.Schema(fields=encode_fields(schema.fields)), length=rows
    )
    footer = Footer(0, 0, 0, 1, len(columns), *MORE_VERSIONS[version])
    return Container(bytes(body), descriptor, [], messages, [], [], footer, b"").build()


def _column() -> file2_pb2.ColumnMetadata:
    message = file2_pb2.ColumnMetadata()
    plain = encodings_pb2.ColumnEncoding()
    plain.values.SetInParent()
    message.encoding.direct.encoding = _any("/lance.encodings.ColumnEncoding", plain.SerializeToString())
    return message


def _place(body: bytearray, column: file2_pb2.ColumnMetadata, page: Page) -> None:
    encoding, rows, buffers = page
    message = column.pages.add(length=rows)
    message.encoding.direct.encoding = encoding
    for content in buffers:
        body += bytes(-len(body) % 64)
        message.buffer_offsets.append(len(body))
        message.buffer_sizes.append(len(content))
        body += content
