"""Symbol tables written by pylance, damaged tables, and strings decoded with them."""

from __future__ import annotations

import base64
import zlib
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from lancecy import limits
from lancecy.encodings.codecs import fsst
from lancecy.encodings.codecs.fsst import TABLE_BYTES, decode, parse_symbols
from lancecy.encodings.model.block import VariableWidth
from lancecy.errors import FormatError, LimitError

# The table of a 2.1 file that pylance 14 wrote, and how its first strings are coded.
TABLE = zlib.decompress(
    base64.b85decode(
        "c-rlhO>V;=5JpMcRJlVpzJR5GF~%3@1=<T_VTmk?CGvO49;z|Cks73`-E>ox%`-5}d>)2*S5K?gmzU?zs65iXFt(8OV_?6sOUJ"
        "?!Jj|Sf&3HR+FRb^_KzB>=(`eX1Tev^tZ(@Cb{x)v2Eu2q<j`cYej_8<}pT*y3@i(BiNAHLpI2!gl$hiS_oEtQALmn;pb?ieg^"
        "w{Cw!;UxuG~yqfTJ&vMhgR%hPaNY}ho1AEb0h50Z;0E;dC3p7oHy88sL?+_jUNlW{1184=(On4#2cZOxaiZw@o*HK__J~!qEqs"
        "P{~q0g<PSd%9bWFA_)hlaUW%X4NZur0QXkNvOQXk0orzBIFaIb1k6$DA37yQvf3d$zhx{U^UEwj5LQ526ppXL>94MfG<Ak8Vj|"
        "B=NAS6)mkpf5*UZl_?f+7zj@qi)^Dw6ofgNP(3knsI^N^R~dMR<a7zJ9e!e>i0(4BNbMW!_l&%rybmUe#uUrBCegJZ8g%B||YE"
        "ShyH2EE#*7Pw}|h$F}-Vj0jUTr)?_QqzaXt%xRbE4bpbhx#9uRzSO0fPgT6R(m^{_+lsF8Z!6N?m9J<j(w-IVSJ7S-?OM@Z)!nz"
        "_{+GtX7h}C%KYkvY&1Utpq5j988z1Tbnt="
    )
)
CODED = ["950c0769", "960c0700c7", "7b980f", "7a9814", "970c0700c1", "a2980e"]
TEXTS = [
    b"north-north 0",
    b"south-north 1",
    b"east-north 2",
    b"west-north 3",
    b"river-north 4",
    b"mountain-north 5",
]


def table(
    words: list[bytes], *, switch: int = 1, magic: int = 0x46535354, lengths: list[int] | None = None
) -> bytes:
    header = (magic << 32 | switch << 24 | 0x0203_00 | len(words)).to_bytes(8, "little")
    texts = b"".join(word.ljust(8, b"\0") for word in words)
    sizes = bytes(lengths if lengths is not None else [len(word) for word in words])
    return (header + texts + sizes).ljust(TABLE_BYTES, b"\0")


def strings(values: list[bytes], *, width: int = 4, validity: bytes | None = None) -> VariableWidth:
    offsets: NDArray[Any] = np.cumsum([0, *(len(value) for value in values)]).astype(f"<i{width}")
    nulls = 0 if validity is None else len(values) - int.from_bytes(validity, "little").bit_count()
    return VariableWidth(len(values), width, offsets, b"".join(values), validity, nulls)


def texts_of(block: VariableWidth) -> list[bytes]:
    kind = f"<i{block.offset_width}"
    offsets: list[int] = np.frombuffer(block.offsets, kind).tolist()  # type: ignore[call-overload]
    whole = bytes(block.values)  # type: ignore[call-overload]
    return [whole[start:stop] for start, stop in pairwise(offsets)]


@pytest.mark.parametrize("width", [4, 8])
def test_strings_that_pylance_coded_are_decoded(width: int) -> None:
    symbols = parse_symbols(TABLE)
    assert symbols is not None
    block = decode(symbols, strings([bytes.fromhex(value) for value in CODED], width=width))
    assert (block.length, block.offset_width) == (6, width)
    assert texts_of(block) == TEXTS


def test_a_table_has_the_symbols_and_lengths_that_it_says() -> None:
    symbols = parse_symbols(table([b"lance", b"abcdefgh", b"x"]))
    assert symbols is not None
    assert symbols.lengths[:4].tolist() == [5, 8, 1, 0]
    assert symbols.symbols[1].tobytes() == b"abcdefgh"
    assert not symbols.lengths[3:].any()


def test_a_table_may_be_full_or_empty() -> None:
    full = parse_symbols(table([bytes([code]) for code in range(255)]))
    assert full is not None
    assert texts_of(decode(full, strings([b"hello", b"\xff\xff"]))) == [b"hello", b"\xff"]
    empty = parse_symbols(table([]))
    assert empty is not None
    assert texts_of(decode(empty, strings([b"\xffa\xffb", b""]))) == [b"ab", b""]


def test_tables_are_shared_and_cannot_be_changed() -> None:
    symbols = parse_symbols(TABLE)
    assert symbols is parse_symbols(bytes(TABLE))
    assert symbols is not None
    with pytest.raises(ValueError, match="read-only"):
        symbols.lengths[0] = 3


def test_strings_that_are_not_coded_are_returned_as_they_are() -> None:
    assert parse_symbols(table([b"lance"], switch=0)) is None
    block = strings([b"\xff", b"lance"])
    assert decode(None, block) is block


def test_nulls_stay_nulls() -> None:
    symbols = parse_symbols(table([b"lance", b"x"]))
    block = decode(symbols, strings([b"\0", b"", b"\1\1"], validity=b"\x05"))
    assert texts_of(block) == [b"lance", b"", b"xx"]
    assert (block.validity, block.null_count) == (b"\x05", 1)


@pytest.mark.parametrize("size", [0, 8, TABLE_BYTES - 1, TABLE_BYTES + 1])
def test_a_table_of_another_size_is_refused(size: int) -> None:
    with pytest.raises(FormatError, match=f"{size} bytes, not 2312"):
        parse_symbols(TABLE.ljust(size, b"\0")[:size])


def test_a_table_without_its_mark_is_refused() -> None:
    with pytest.raises(FormatError, match="mark"):
        parse_symbols(table([b"lance"], magic=0x46535355))


@pytest.mark.parametrize("length", [0, 9, 255])
def test_symbols_of_impossible_lengths_are_refused(length: int) -> None:
    with pytest.raises(FormatError, match=f"symbol 1 has a length of {length}") as caught:
        parse_symbols(table([b"a", b"b", b"c"], lengths=[1, length, 1]))
    assert caught.value.position == 1


@pytest.mark.parametrize("bad", [b"\x02", b"\x00\xff", b"\xfe"])
def test_strings_with_codes_that_mean_nothing_are_refused(bad: bytes) -> None:
    symbols = parse_symbols(table([b"lance", b"x"]))
    with pytest.raises(FormatError, match="value 1") as caught:
        decode(symbols, strings([b"\0", bad]))
    assert caught.value.position == 1


def test_more_text_than_32_bit_offsets_count_asks_for_smaller_batches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in (fsst, limits):
        monkeypatch.setattr(module, "INT32_MAX", 79)
    symbols = parse_symbols(table([b"abcdefgh", b"x"]))
    with pytest.raises(LimitError, match="80 or more bytes .* smaller batches") as caught:
        decode(symbols, strings([bytes(6), bytes(4)]))
    assert caught.value.claimed == 80
    assert len(texts_of(decode(symbols, strings([bytes(9), b"\1"])))) == 2
    assert len(texts_of(decode(symbols, strings([bytes(6), bytes(4)], width=8)))) == 2


@pytest.mark.parametrize("guess", [0, 1, 700, 10**6])
def test_strings_are_right_however_wrong_the_estimate_of_their_size_was(
    guess: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    symbols = parse_symbols(table([b"abcdefgh", b"x"]))
    values = [bytes([number & 1]) * (number % 7) for number in range(300)]
    expected = texts_of(decode(symbols, strings(values)))
    monkeypatch.setattr(fsst, "_likely_size", lambda *_: guess)
    block = decode(symbols, strings(values))
    assert texts_of(block) == expected
    assert len(memoryview(block.values)) == sum(map(len, expected))  # type: ignore[arg-type]


def test_the_estimate_of_a_size_is_close(monkeypatch: pytest.MonkeyPatch) -> None:
    """The estimate fits all strings with little to spare, so no string is decoded twice or moved."""
    moves: list[int] = []
    monkeypatch.setattr(fsst, "_reallocated", lambda text, room: moves.append(room))
    symbols = parse_symbols(table([b"a", b"bcd", b"efghij", b"klmnopqr"]))
    codes = np.random.default_rng(3).integers(0, 4, 400_000, np.uint8)
    long = [codes[start : start + 40].tobytes() for start in range(0, codes.size, 40)]
    for values in (long, [*long[:5000], *([b""] * 5000)], [codes.tobytes()]):
        decode(symbols, strings(values))
    assert moves == []
