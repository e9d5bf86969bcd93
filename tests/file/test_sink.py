"""The writer of one file's bytes: small pieces are gathered, large ones written behind the caller."""

from __future__ import annotations

import io

import numpy as np
import pytest

from lancecy.file.sink import Sink


class FullDisk(io.BytesIO):
    """A stream with room for one MiB."""

    def write(self, data: object) -> int:
        if self.tell() >= 1 << 20:
            raise OSError("no space left")
        return super().write(data)  # type: ignore[arg-type]


@pytest.mark.parametrize("largest", [100, 100_000, 3_000_000])
def test_bytes_are_written_in_order(largest: int) -> None:
    chance, stream = np.random.default_rng(0), io.BytesIO()
    sink = Sink(stream)
    expected = bytearray()
    for size in chance.integers(0, largest, 60).tolist():
        part = chance.integers(0, 256, size).astype(np.uint8)
        sink.write(part)
        expected += part.tobytes()
        assert sink.place(b"x" * (size % 7)) == len(expected)
        expected += b"x" * (size % 7)
    assert sink.position == len(expected)
    sink.finish()
    assert stream.getvalue() == expected


def write_zeros(sink: Sink, count: int) -> None:
    for _ in range(count):
        sink.write(np.zeros(90_000, np.uint8))
    sink.finish()


@pytest.mark.parametrize("count", [20, 1000])
def test_an_error_of_the_stream_is_raised_at_the_end_at_the_latest(count: int) -> None:
    sink = Sink(FullDisk())
    with pytest.raises(OSError, match="no space left"):
        write_zeros(sink, count)
    sink.abort()


def test_nothing_is_written_after_an_abort() -> None:
    stream = io.BytesIO()
    sink = Sink(stream)
    for _ in range(30):
        sink.write(np.zeros(90_000, np.uint8))
    sink.abort()
    assert len(stream.getvalue()) <= 30 * 90_000
