"""The last bytes of data files."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from lancecy.errors import FormatError, TruncatedError
from lancecy.file.tail import Footer, parse_footer


def tail(data: bytes) -> np.ndarray:
    return np.frombuffer(data, np.uint8)


@pytest.mark.parametrize("before", [b"", b"x" * 37])
def test_footer_is_the_last_sixteen_bytes(before: bytes) -> None:
    footer = parse_footer(tail(before + struct.pack("<qHH4s", 345, 0, 2, b"LANC")))
    assert footer == Footer(0, 2, 345)


@pytest.mark.parametrize(
    ("version", "is_v2"), [((0, 1), False), ((0, 2), False), ((0, 3), True), ((2, 0), True), ((2, 3), True)]
)
def test_footers_of_both_containers_are_told_apart(version: tuple[int, int], is_v2: bool) -> None:
    v2 = struct.pack("<QQQIIHH4s", 94, 199, 215, 1, 1, *version, b"LANC")
    assert len(v2) == 40
    assert parse_footer(tail(v2)).is_v2 == is_v2


@pytest.mark.parametrize("size", [0, 1, 15])
def test_too_few_bytes(size: int) -> None:
    with pytest.raises(TruncatedError, match=f"{size} bytes are too few"):
        parse_footer(tail(b"LANC" * 4)[:size])


def test_other_magic() -> None:
    with pytest.raises(FormatError, match="b'PAR1'"):
        parse_footer(tail(bytes(12) + b"PAR1"))
