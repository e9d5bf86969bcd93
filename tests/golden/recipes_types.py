"""Golden tables with every type, and with the strings that page statistics find hard.

Runs inside old environments: Python 3.10 and pyarrow 10 suffice.
"""

from __future__ import annotations

import lance
import numpy as np
import pyarrow as pa

from tests.golden.recipe import Made, numbered, same_dictionaries, write
from tests.helpers.tables import all_types, all_types_table, stored_form


def make_types(path: str) -> Made:
    """Every type the release can store: 29 rows without nulls, then 14 with nulls wherever they are allowed."""
    types, left_out = _writable_types(path)
    full = all_types_table(29, types=types, seed=11)
    holes = all_types_table(14, types=types, seed=12, nulls=0.3)
    write(pa.concat_tables([full, holes]), path, max_rows_per_file=30)
    story = "Every type; the nulls of the last 14 rows are lost wherever the format loses them."
    return Made({1: stored_form(same_dictionaries(full, holes))}, story, left_out)


def _writable_types(path: str) -> tuple[dict[str, pa.DataType], dict[str, str]]:
    """The types that this release writes and reads back right, found by trying each; and why not the others."""
    types: dict[str, pa.DataType] = {"id": pa.int32()}
    left_out = {}
    for name, kind in all_types().items():
        # Not every failure of a release is an Exception: a panic of the Rust core is a BaseException.
        try:
            table = all_types_table(12, types={name: kind}, seed=3)
            write(table, f"{path}.try-{name}")
            lance.dataset(f"{path}.try-{name}").to_table().validate(full=True)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            left_out[name] = str(error).splitlines()[0][:120].split(", /")[0]
        else:
            types[name] = kind
    return types, left_out


CPP_TYPES = (
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 string binary date32 date64 time_s time_ms "
    "time_us time_ns timestamp_s timestamp_ms timestamp_us timestamp_ns timestamp_utc fixed_binary_3 dictionary_int8 "
    "dictionary_int32 vector_float32 vector_float64 vector_uint8 list_int list_string list_bool list_struct struct struct_nested"
).split()


def make_cpp_types(path: str) -> Made:
    """The types of the C++ era. It drops time zones, and cannot append a table whose type it changed."""
    types = {"id": pa.int32(), **{name: all_types()[name] for name in CPP_TYPES}}
    table = numbered(all_types_table(37, types=types, seed=11))
    write(table, path)
    at = table.column_names.index("timestamp_utc")
    naive = pa.field("timestamp_utc", pa.timestamp("us"))
    kept = table.set_column(at, naive, table["timestamp_utc"].cast(pa.timestamp("us")))
    # Nothing was nullable to that release: empty strings stay empty.
    return Made(
        {1: kept}, "Every type the C++ core stores; time zones are dropped by the writer.", ordered_by="id"
    )


def make_strings(path: str) -> Made:
    """Sorted words, one group empty, one null, one with values beyond the 64 bytes of a bound; metadata on top."""
    words = [f"w{i:03d}" for i in range(20)] + [""] * 10 + [None] * 10
    words += ["long " + "é" * 40 + str(i) for i in range(10)] + ["\U0010ffff" * 20, "", None, "z"]
    rows = len(words)
    # Releases up to 0.15 panic when a required column has no upper bound, so that one value is another there.
    full = ["zz" if w and w > "z" else w or "" for w in words]
    schema = pa.schema(
        [
            pa.field("id", pa.int64(), False, {"unit": "rows"}),
            pa.field("word", pa.string()),
            pa.field("word_required", pa.string(), False),
            pa.field("large", pa.large_string()),
            pa.field("bytes", pa.binary()),
            pa.field("bytes_required", pa.large_binary(), False),
            pa.field("x", pa.float64()),
        ],
        {"made for": "tests"},
    )
    raw = [None if w is None else w.encode() for w in words]
    x = np.where(np.arange(rows) % 7 == 3, np.nan, np.arange(rows) / 4 - 5)
    columns = [range(rows), words, full, words, raw, [w.encode() for w in full]]
    arrays = [pa.array(c, f.type) for c, f in zip(columns, schema)] + [pa.array(x, from_pandas=False)]
    table = pa.Table.from_arrays(arrays, schema=schema)
    write(table, path, max_rows_per_file=40)
    return Made(
        {1: stored_form(table)},
        "Words in order: whole groups are empty, null, or cut in the page statistics.",
    )
