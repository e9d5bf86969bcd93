"""The binary form of JSON, against texts and against pylance."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lancecy.encodings.arrow import to_arrow
from lancecy.encodings.block import VariableWidth
from lancecy.encodings.jsonb import to_text
from lancecy.errors import FormatError, LimitError
from tests.file.tables import load_table

VALUES = {
    "null": "20000000 00000000",
    "true": "20000000 40000000",
    "false": "20000000 30000000",
    "0": "20000000 20000001 00",
    "1": "20000000 20000002 5001",
    "-129": "20000000 20000003 40ff7f",
    "18446744073709551615": "20000000 20000009 50ffffffffffffffff",
    "-9223372036854775808": "20000000 20000009 408000000000000000",
    "1.5": "20000000 20000009 603ff8000000000000",
    "1e+16": "20000000 20000009 604341c37937e08000",
    "1000000000000000.0": "20000000 20000009 60430c6bf526340000",
    "1e-7": "20000000 20000009 603e7ad7f29abcaf48",
    "0.00001": "20000000 20000009 603ee4f8b588e368f1",
    "-0.0": "20000000 20000009 608000000000000000",
    '"a\\n\\"\\\\\\u0001é"': "20000000 10000007 610a225c01c3a9",
    "[]": "80000000",
    "{}": "40000000",
    "[1,[2,[3]]]": "8000000220000002500000185001800000022000000250000010500280000001200000025003",
    '{"":3,"a":2,"b":1}': "40000003 10000000 10000001 10000001 20000002 20000002 20000002 6162 500350025001",
}
VALUES["[1,[2,[3]]]"] = (
    "80000002 20000002 50000018 5001 80000002 20000002 5000000a 5002 80000001 20000002 5003"
)


@pytest.mark.parametrize("text", VALUES)
def test_stored_values(text: str) -> None:
    assert to_text(bytes.fromhex(VALUES[text])) == text


@pytest.mark.parametrize("text", VALUES)
def test_values_cut_off_or_changed(text: str) -> None:
    data = bytes.fromhex(VALUES[text])
    for size in range(len(data)):
        with pytest.raises(FormatError):
            to_text(data[:size])
    for position in range(len(data)):
        for byte in (0, 0x0F, 0x7F, 0x80, 0xFF):
            try:
                to_text(data[:position] + bytes([byte]) + data[position + 1 :])
            except FormatError:
                continue


def test_counts_without_bytes() -> None:
    for header in ("9fffffff", "5fffffff", "e0000000", "00000000"):
        with pytest.raises(FormatError):
            to_text(bytes.fromhex(header))


def nested(depth: int) -> bytes:
    data = bytes.fromhex("80000000")
    for _ in range(depth):
        data = bytes.fromhex("80000001") + (0x50000000 | len(data)).to_bytes(4, "big") + data
    return data


def test_depth_is_bounded() -> None:
    assert to_text(nested(100)) == "[" * 101 + "]" * 101
    with pytest.raises(LimitError, match="nested"):
        to_text(nested(5000))


def test_column_of_texts() -> None:
    stored = [bytes.fromhex(VALUES[text]) for text in ("[]", "1.5")]
    offsets = pa.array([0, len(stored[0]), len(stored[0]), sum(map(len, stored))], pa.int64())
    block = VariableWidth(3, 8, offsets.buffers()[1], b"".join(stored), b"\x05", 1)
    array = to_arrow(block, pa.json_())
    assert array.type == pa.json_()
    assert array.to_pylist() == ["[]", None, "1.5"]


def random_value(rng: random.Random, depth: int = 0) -> object:
    kind = rng.randrange(6 if depth > 3 else 8)
    if kind == 6:
        return [random_value(rng, depth + 1) for _ in range(rng.randrange(4))]
    if kind == 7:
        return {rng.choice("abcdé\n") * rng.randrange(4): random_value(rng, depth + 1) for _ in range(4)}
    exponent = rng.randint(-20, 25)
    scalars: list[object] = [None, True, rng.uniform(-1, 1) * 10.0**exponent, "é\u2028\x01" * 2]
    return rng.choice([*scalars, rng.randint(-(2**63), 2**64 - 1), rng.randint(-300, 300)])


@pytest.mark.interop
@pytest.mark.parametrize("version", ["legacy", "2.0", "2.1", "2.2"])
def test_texts_are_those_of_pylance(tmp_path: Path, version: str) -> None:
    import lance

    rng = random.Random(11)
    texts = [None, *(json.dumps(random_value(rng)) for _ in range(500))]
    table = pa.table({"j": pa.array(texts, pa.json_())})
    options: dict[str, Any] = {"data_storage_version": version}
    dataset = lance.write_dataset(table, str(tmp_path / "t"), **options)
    mine, theirs = load_table(tmp_path / "t").table(), dataset.to_table()
    assert mine["j"].type == theirs["j"].type
    expected = theirs["j"].to_pylist()
    if version == "legacy":  # which cannot tell nulls from empty values
        expected = [text or None for text in expected]
    assert mine["j"].to_pylist() == expected
