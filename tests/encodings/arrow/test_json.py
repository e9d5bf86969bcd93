"""Columns of binary JSON, compared with texts and with pylance."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lancecy.encodings.arrow.json import to_texts
from lancecy.encodings.arrow.to_arrow import to_arrow
from lancecy.encodings.model.block import VariableWidth
from lancecy.errors import FormatError, LimitError
from tests.file.tables import load_table
from tests.helpers.folded import folded
from tests.helpers.jsonb import nested, random_value, stored

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
    "[1,[2,[3]]]": "80000002 20000002 50000018 5001 80000002 20000002 5000000a 5002 80000001 20000002 5003",
    '{"":3,"a":2,"b":1}': "40000003 10000000 10000001 10000001 20000002 20000002 20000002 6162 500350025001",
}
"""Bytes that pylance wrote for these texts."""


def column(values: Sequence[bytes | None]) -> pa.LargeBinaryArray:
    return pa.array(values, pa.large_binary())


def test_stored_values() -> None:
    assert to_texts(column([bytes.fromhex(data) for data in VALUES.values()])).to_pylist() == list(VALUES)


def test_values_changed_anywhere_are_read_or_refused() -> None:
    for data in map(bytes.fromhex, VALUES.values()):
        for position in range(len(data)):
            for byte in (0, 0x0F, 0x7F, 0x80, 0xFF):
                with suppress(FormatError):
                    to_texts(column([data[:position] + bytes([byte]) + data[position + 1 :]]))


def test_too_deep_a_value_names_its_row() -> None:
    assert to_texts(column([nested(128)])).to_pylist() == ["[" * 129 + "]" * 129]
    with pytest.raises(FormatError, match="row 1 is nested") as caught:
        to_texts(column([nested(1), nested(5000)]))
    assert caught.value.position == 1


def test_column_of_texts() -> None:
    data = [bytes.fromhex(VALUES[text]) for text in ("[]", "1.5")]
    offsets = pa.array([0, len(data[0]), len(data[0]), sum(map(len, data))], pa.int64())
    block = VariableWidth(3, 8, offsets.buffers()[1], b"".join(data), b"\x05", 1)
    array = to_arrow(block, pa.json_())
    assert array.type == pa.json_()
    assert array.to_pylist() == ["[]", None, "1.5"]


@folded("count", [0, 1, 7, 8, 9, 511, 512, 513, 2000])
def test_columns_of_any_length_and_any_slice_of_them(count: int) -> None:
    rng = random.Random(count)
    values = [None if i % 5 == 3 else random_value(rng) for i in range(count)]
    texts = column([None if i % 5 == 3 else stored(value) for i, value in enumerate(values)])
    for start in {0, min(3, count), count // 2}:
        found = to_texts(texts.slice(start))
        found.validate(full=True)
        assert [text if text is None else json.loads(text) for text in found.to_pylist()] == values[start:]


@pytest.mark.parametrize("first", [b"", stored(1), stored("x" * 9), None])
def test_values_that_begin_unlike_the_rest(first: bytes | None) -> None:
    """The size of the texts is estimated from the first values: here far too low or far too high."""
    rest = "\x01" * 200
    found = to_texts(column([*[first] * 600, *[stored(rest)] * 900])).to_pylist()
    assert found[600:] == [json.dumps(rest)] * 900
    assert len(set(found[:600])) == 1
    again = to_texts(column([*[stored(rest)] * 600, *[first] * 900])).to_pylist()
    assert again == found[600:1200] + [found[0]] * 900


def test_more_text_than_32_bit_offsets_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lancecy.kernels.json_texts", lambda *_: 2**31)
    with pytest.raises(LimitError, match="batches of 2 rows") as caught:
        to_texts(column([stored(1)] * 4))
    assert caught.value.claimed == 2**31


ODD = ["1e400", "-1e400", "NaN", "", "123456789012345678901234567890", '"\\u007f\\/"', "-0", "1E-3", "100.00"]
"""Values that Python does not write, or writes in another form."""


@pytest.mark.interop
@pytest.mark.parametrize("version", ["legacy", "2.0", "2.1", "2.2", "2.3"])
def test_texts_are_those_of_pylance(tmp_path: Path, version: str) -> None:
    import lance

    rng = random.Random(11)
    texts = [None, *ODD, *(json.dumps(random_value(rng)) for _ in range(500))]
    table = pa.table({"j": pa.array(texts, pa.json_())})
    options: dict[str, Any] = {"data_storage_version": version}
    dataset = lance.write_dataset(table, str(tmp_path / "t"), **options)
    mine, theirs = load_table(tmp_path / "t").table(), dataset.to_table()
    assert mine["j"].type == theirs["j"].type
    expected = theirs["j"].to_pylist()
    if version == "legacy":  # 0.1 cannot distinguish nulls from empty values
        expected = [text or None for text in expected]
    assert mine["j"].to_pylist() == expected
