"""How many requests one after the other a value is away, in files whose metadata is known.

Fetches are counted, not ranges: a store may join ranges, but nothing saves a round. Columns of every kind are written in
every version, and read as a scan, a filter and a take would.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lancecy.file.base import FileReader
from lancecy.file.open import opening
from lancecy.rows import RowSelection
from lancecy.schema import Field
from lancecy.store.cache import ByteCache
from lancecy.store.memory import MemoryStore
from lancecy.store.reads import Ranges, Span, run
from tests.helpers.pages import Files
from tests.helpers.written import own_fields, write

MOST = 2
ROWS = 1200
VERSIONS = ("0.1", "2.0", "2.1", "2.2")


def lists(values: pa.Array, kind: type[pa.Array] = pa.ListArray) -> pa.Array:
    """Lists of 0 to 3 values each."""
    sizes = np.resize([0, 3, 1, 2], ROWS if len(values) > ROWS else len(values) // 4)
    ends = np.minimum(np.concatenate(([0], np.cumsum(sizes))), len(values))
    return kind.from_arrays(pa.array(ends, pa.int64() if kind is pa.LargeListArray else pa.int32()), values)


def columns(version: str) -> dict[str, pa.Array]:
    """A column of every kind that the version holds."""
    number = np.arange(3 * ROWS)
    missing = (number % 7 == 3) & (version != "0.1")
    texts = pa.array([f"text number {n}" for n in number], mask=missing)
    words = pa.array([f"word {n % 9}" for n in number])
    codes = pa.DictionaryArray.from_arrays(pa.array(number % 5, pa.int8()), pa.array(list("abcde")))
    wide = pa.array([bytes([n % 251]) * (1 + n % 2000) for n in number], pa.large_binary())
    struct = pa.StructArray.from_arrays([pa.array(number), texts, words], ["a", "b", "c"])
    deep = pa.StructArray.from_arrays([texts[:ROWS], lists(words), struct[:ROWS]], ["x", "y", "z"])
    numbers = pa.array(number, mask=missing)
    found = {
        "int": numbers[:ROWS],
        "float": pa.array(number / 3)[:ROWS],
        "bool": pa.array(number % 3 == 0, mask=missing)[:ROWS],
        "decimal": pa.array(number).cast(pa.decimal128(20, 0))[:ROWS],
        "timestamp": pa.array(number, pa.timestamp("us"))[:ROWS],
        "fixed binary": pa.array([bytes([n % 250] * 5) for n in number], pa.binary(5))[:ROWS],
        "text": texts[:ROWS],
        "words": words[:ROWS],
        "large text": texts[:ROWS].cast(pa.large_string()),
        "wide": wide[:ROWS],
        "dictionary": codes[:ROWS],
        "vector": pa.FixedSizeListArray.from_arrays(pa.array(number / 3), 3),
        "list": lists(numbers),
        "large list": lists(numbers, pa.LargeListArray),
        "list of texts": lists(texts),
        "list of words": lists(words),
        "list of dictionaries": lists(codes),
        "list of lists": lists(pa.concat_arrays([lists(numbers)] * 4)),
        "list of lists of texts": lists(pa.concat_arrays([lists(texts)] * 4)),
        "list of structs": lists(struct),
        "struct": struct[:ROWS],
        "struct of everything": deep,
    }
    if version == "2.2":
        keys = pa.array([f"key {n}" for n in range(3)] * ROWS)
        ends = pa.array(np.arange(ROWS + 1) * 3, pa.int32())
        found["map"] = pa.MapArray.from_arrays(ends, keys, texts)
    return found


def opened(version: str) -> tuple[FileReader, dict[str, Field], Files]:
    """The reader of a file with these columns."""
    files, store = Files(is_mapped=False), MemoryStore()
    written = write(pa.table(columns(version)), version, store=store)
    summary, data = written.summary, bytes(store.get(written.summary.path))
    fields = written.schema.fields if summary.major else own_fields(data)
    source = files.add(summary.path, data)
    read = opening(
        source,
        field_ids=summary.fields,
        fields=fields,
        major=summary.major,
        minor=summary.minor,
        column_indices=summary.column_indices,
        dictionary_source=None if summary.major else source,
        cache=ByteCache(64 << 20),
    )
    reader = run(read, files.fetch)
    run(reader.prepare(fields), files.fetch)
    return reader, {f.name: f for f in fields}, files


def rounds(reader: FileReader, field: Field, rows: RowSelection, files: Files) -> int:
    """Rounds of requests with bytes for some rows of the field."""
    count = 0

    def fetch(requests: list[Ranges]) -> list[Span]:
        nonlocal count
        count += any(bool(request.lengths.any()) for request in requests)
        return files.fetch(requests)

    run(reader.read([field], rows), fetch)
    return count


@pytest.mark.parametrize("version", VERSIONS)
def test_two_rounds_reach_every_value(version: str) -> None:
    reader, fields, files = opened(version)
    some = RowSelection(ROWS, indices=np.array([1, ROWS // 3, ROWS // 2, ROWS - 1]))
    few = RowSelection.range(ROWS, ROWS // 3, ROWS // 2)
    if version == "0.1":
        # Dictionaries are the table's: the first rows load them, one round after the codes of lists.
        run(reader.read([fields["list of dictionaries"]], few), files.fetch)
    found = {
        name: [rounds(reader, field, rows, files) for rows in (some, few, RowSelection.all(ROWS))]
        for name, field in fields.items()
    }
    assert len(found) == len(columns(version))
    assert {name: counts for name, counts in found.items() if max(counts) > MOST} == {}
