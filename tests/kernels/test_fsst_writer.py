"""fsst_train and fsst_encode, compiled and in Python, and back by fsst_decode."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from lancecy.encodings.codecs.fsst import TABLE_BYTES, decode, parse_symbols
from lancecy.encodings.model.block import VariableWidth
from lancecy.errors import FormatError
from tests.kernels.both import Kernels, assert_same, memory_of


def joined(texts: list[bytes], width: int = 4) -> tuple[Any, Any]:
    """Bytes and offsets of texts."""
    offsets = np.concatenate(([0], np.cumsum([len(text) for text in texts]))).astype(f"<i{width}")
    return memory_of(b"".join(texts)), memory_of(offsets)


def trained(kernels: Kernels, texts: list[bytes]) -> tuple[NDArray[np.uint8], tuple[int, int]]:
    table = np.empty(TABLE_BYTES, np.uint8)
    return table, kernels.fsst_train(*joined(texts), 4, table)


WORDS = [b"https://www.example.com/item/%d" % number for number in range(0, 60_000, 7)]


def test_codes_are_decoded_to_the_texts(kernels: Kernels) -> None:
    texts = [*WORDS[:400], b"", b"\xff\x00\xff", "größer".encode()]
    table, (sampled, coded) = trained(kernels, texts)
    assert coded < 0.5 * sampled
    values, offsets = joined(texts)
    out, ends = np.empty(2 * values.size, np.uint8), np.empty(offsets.size // 4, np.int32)
    size = kernels.fsst_encode(table, values, offsets, 4, out, ends.view(np.uint8))
    block = decode(parse_symbols(table.tobytes()), VariableWidth(len(texts), 4, ends, out[:size]))
    assert bytes(block.values) == b"".join(texts)  # type: ignore[call-overload]
    assert np.frombuffer(block.offsets, np.uint8).tobytes() == offsets.tobytes()  # type: ignore[call-overload]


def test_a_sample_is_of_all_parts(kernels: Kernels) -> None:
    _, (sampled, _) = trained(kernels, WORDS)
    assert 14_000 < sampled < 18_000
    _, (sampled, _) = trained(kernels, [b"abc" * 5000])
    assert sampled == 512


def test_without_texts_there_are_no_symbols(kernels: Kernels) -> None:
    table, found = trained(kernels, [])
    assert found == (0, 0)
    assert table[0] == 0


def test_no_room_and_damaged_offsets_are_refused(kernels: Kernels) -> None:
    table, _ = trained(kernels, WORDS[:50])
    values, offsets = joined([b"abc"])
    with pytest.raises(ValueError, match="out"):
        kernels.fsst_encode(table, values, offsets, 4, np.empty(5, np.uint8), np.empty(8, np.uint8))
    with pytest.raises(FormatError):
        kernels.fsst_train(values, memory_of(np.array([0, 4], np.int32)), 4, table)
    table[8:24] = 97
    table[8 + 8 * int(table[0]) :][:2] = 3
    with pytest.raises(ValueError, match="begin alike"):
        kernels.fsst_encode(table, values, offsets, 4, np.empty(6, np.uint8), np.empty(8, np.uint8))


texts_of_few_bytes = st.lists(
    st.one_of(st.binary(max_size=40), st.text("ab ", max_size=700).map(str.encode)), max_size=12
)


@given(texts_of_few_bytes, st.sampled_from([4, 8]), st.integers(0, 3))
def test_both_find_the_same_symbols_and_codes(texts: list[bytes], width: int, damage: int) -> None:
    values, offsets = joined(texts, width)
    if damage == 1:
        values = values[:-1]
    inputs: dict[str, Any] = {"values": values, "offsets": offsets, "width": width}
    found = assert_same("fsst_train", inputs, {"out_table": (TABLE_BYTES, np.uint8)})
    table = np.frombuffer(found.outs[0], np.uint8) if found.outs else np.zeros(TABLE_BYTES, np.uint8)
    room = 2 * values.size - (damage == 2)
    assert_same(
        "fsst_encode",
        {"table": table, **inputs},
        {"out": (max(0, room), np.uint8), "out_offsets": (offsets.size, np.uint8)},
    )
