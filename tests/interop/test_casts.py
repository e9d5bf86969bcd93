"""Rows cast to the types of a table, whatever made them."""

from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
import pytest

from lancecy.errors import SchemaError
from lancecy.interop.casts import cast_array, cast_batch

VECTOR = pa.list_(pa.float32(), 2)

# In a process of its own: Arrow's cast of such lists ends the process.
NULL_LISTS = """
import pyarrow as pa
from lancecy.interop.casts import cast_batch
nothing = pa.Array.from_buffers(pa.float32(), 0, [None, pa.foreign_buffer(0, 0)])
bits, offsets = pa.py_buffer(bytes(1)), pa.py_buffer(bytes(8))
lists = pa.Array.from_buffers(pa.list_(pa.float32()), 1, [bits, offsets], children=[nothing])
struct = pa.StructArray.from_arrays([lists], ["v"])
vector = pa.list_(pa.float32(), 2)
schema = pa.schema([("v", vector), ("s", pa.struct([("v", vector)]))])
print(cast_batch(pa.record_batch([lists, struct], ["v", "s"]), schema).to_pylist())
"""


def test_lists_that_are_all_null_become_vectors_as_the_jvm_hands_them_over() -> None:
    done = subprocess.run(
        [sys.executable, "-c", NULL_LISTS], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[{'v': None, 's': {'v': None}}]"


def test_vectors_below_structs_and_lists_are_those_of_their_lists() -> None:
    rows = [{"s": {"v": [1.0, 2.0], "n": 1}, "l": [[3.0, 4.0], None]}, {"s": None, "l": None}]
    source = pa.schema(
        [
            ("s", pa.struct([("v", pa.list_(pa.float64())), ("n", pa.int64())])),
            ("l", pa.list_(pa.list_(pa.float32()))),
        ]
    )
    wanted = pa.schema([("s", pa.struct([("v", VECTOR), ("n", pa.int8())])), ("l", pa.list_(VECTOR))])
    found = cast_batch(pa.RecordBatch.from_pylist(rows, source), wanted)
    assert found.schema == wanted
    assert found.to_pylist() == rows


@pytest.mark.parametrize(
    ("values", "kind", "message"),
    [
        (pa.array([0, 86_399_999_999, -1]), pa.time64("us"), "-1 is not within"),
        (pa.array([86_400], pa.int32()), pa.time32("s"), "86400 is not within"),
        (pa.array([[5], [-7]]), pa.list_(pa.time64("ns")), "-7 is not within"),
        (pa.array([0, -1]), pa.dictionary(pa.int8(), pa.time64("us")), "-1 is not within"),
        (pa.array([0.0, 1e5]), pa.dictionary(pa.int8(), pa.float16()), "too large"),
        (pa.array([0, 86_400_001]), pa.date64(), "86400001 does not represent a whole number of days"),
    ],
)
def test_numbers_beyond_a_type_are_refused(values: pa.Array, kind: pa.DataType, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        cast_array(values, pa.field("c", kind))
    first = values.slice(0, 1)
    if len(values) > 1:
        plain = first.cast(kind.value_type if pa.types.is_dictionary(kind) else kind)
        made = cast_array(first, pa.field("c", kind))
        assert made.type == kind and made.to_pylist() == plain.to_pylist()


def test_such_an_integer_beside_a_time_is_refused() -> None:
    times = pa.array([1], pa.time32("s"))
    rows = pa.StructArray.from_arrays([pa.array([10**15]), times], ["a", "b"])
    kind = pa.struct([("a", pa.time64("us")), ("b", pa.time32("s"))])
    with pytest.raises(SchemaError, match="1000000000000000 is not within"):
        cast_array(rows, pa.field("c", kind))
    fitting = pa.StructArray.from_arrays([pa.array([10**6]), times], ["a", "b"])
    assert cast_array(fitting, pa.field("c", kind)).equals(fitting.cast(kind))
