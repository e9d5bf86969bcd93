"""Rows, expressions and functions that do not fit a table: refused with column and row, and no file is left."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancecy
from lancecy import lit
from tests.helpers.folded import folded

POINT = pa.struct([pa.field("x", pa.int64()), pa.field("y", pa.string())])
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), False),
        pa.field("v", pa.int32()),
        pa.field("w", pa.string()),
        pa.field("p", POINT),
        pa.field("f", pa.float64()),
    ]
)
STRICT = pa.schema([pa.field("q", pa.int8(), False)])


def table(place: Path) -> lancecy.Dataset:
    """Rows 0 to 5 in two fragments; row 4 has no v."""
    rows = {
        "id": list(range(6)),
        "v": [0, 1, 2, 3, None, 1000],
        "w": [f"w{n}" for n in range(6)],
        "p": [{"x": n, "y": f"y{n}"} for n in range(6)],
        "f": [n + 0.5 for n in range(6)],
    }
    return lancecy.write_dataset(pa.table(rows, schema=SCHEMA), place, max_rows_per_file=3)


def rows(**columns: Any) -> pa.Table:
    types = {name: SCHEMA.field(name).type for name in columns if name in SCHEMA.names}
    return pa.table({name: pa.array(values, types.get(name)) for name, values in columns.items()})


def upsert(ds: lancecy.Dataset) -> Any:
    return ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()


def computed(schema: pa.Schema, value: Callable[[int], Any]) -> Any:
    return lancecy.batch_udf(schema)(lambda batch: {"q": [value(n) for n in batch["id"].to_pylist()]})


def other_columns(batch: pa.RecordBatch) -> Any:
    return {"q" if batch["id"][0].as_py() == 0 else "r": batch["id"]}


Call = Callable[[lancecy.Dataset], Any]
WRONG_COLUMNS: dict[str, Call] = {
    "no column 'vv'": lambda ds: ds.append({"id": [9], "vv": [1]}),
    "column 'id' is missing": lambda ds: ds.append(rows(v=[1])),
    "no column 'vv' ": lambda ds: ds.update({"vv": "1"}),
    "no column 'p.z'": lambda ds: ds.update({"p.z": "1"}),
    "no column 'q' ": lambda ds: ds.update({"v": "1"}, "q = 1"),
    "table has no column 'vv'; did you mean 'v'": lambda ds: upsert(ds).execute(rows(id=[1], vv=[2])),
    "no key column 'id'": lambda ds: upsert(ds).execute(rows(v=[2])),
    "no column 'source.q'": lambda ds: (
        ds.merge_insert("id").when_matched_update_all("source.q > 1").execute(rows(id=[1], v=[1]))
    ),
    "has a column 'v' already": lambda ds: ds.add_columns({"v": "1"}),
    "no column 'nope'": lambda ds: ds.add_columns({"q": "nope + 1"}),
    "rows from row 3 on, returned the columns r, where q": lambda ds: ds.add_columns(other_columns),
    "no column 'vv' in the schema; did you mean 'v'": lambda ds: ds.alter_columns(
        {"path": "vv", "name": "z"}
    ),
    "two columns would be called 'w'": lambda ds: ds.alter_columns({"path": "v", "name": "w"}),
    "no column 'p.z' in the schema": lambda ds: ds.drop_columns(["p.z"]),
    "no column 'idd' in the rows to merge": lambda ds: ds.merge(rows(id=[1], q=[2]), "idd"),
}
WRONG_TYPES: dict[str, Call] = {
    "column 'v' is string, where the table has int32": lambda ds: ds.append({"id": [9], "v": ["x"]}),
    r"'v' is int32, and cannot be set to the string value 'w0' in row 0: .*'w0'": lambda ds: ds.update(
        {"v": "w"}
    ),
    "'v' is int32, and cannot be set to the string value 'abc'": lambda ds: ds.update({"v": lit("abc")}),
    r"'p\.x' is int64, and cannot be set to the string value 'w0' in row 0": lambda ds: ds.update(
        {"p.x": "w"}
    ),
    "column 'id' is string, where the table has int64": lambda ds: upsert(ds).execute({"id": ["a"]}),
    "keys in 'id' are string": lambda ds: ds.merge(pa.table({"id": ["a"], "q": [1]}), "id"),
    "column 'v' is string, where": lambda ds: ds.get_fragments()[0].update_columns(
        pa.table({"id": [1], "v": ["a"]}), "id"
    ),
}
DUPLICATE_KEYS: dict[str, Call] = {
    "rows 1 and 2 of the source have the key id = 3, which matches": lambda ds: upsert(ds).execute(
        rows(id=[1, 3, 3], v=[1, 2, 3])
    ),
    "rows 1 and 2 of the source have the key id = 30, and none": lambda ds: upsert(ds).execute(
        rows(id=[1, 30, 30], v=[1, 2, 3])
    ),
    "has a row with the key id = 4 already": lambda ds: (
        ds.merge_insert("id").when_matched_fail().execute(rows(id=[7, 4], v=[1, 2]))
    ),
}
NULLS: dict[str, Call] = {
    "'id' may not be null, and row 1 has no value": lambda ds: ds.append(rows(id=[9, None])),
    "'id' may not be null, and would be in every row": lambda ds: ds.update({"id": None}, "id = 4"),
    "'id' may not be null, and would be in row 4": lambda ds: ds.update(
        {"id": "CASE WHEN id = 4 THEN NULL ELSE id END"}
    ),
    "'id' of row 1 of the source is null": lambda ds: upsert(ds).execute(rows(id=[1, None], v=[1, 2])),
    "'q' may not be null, and row 4 has no value": lambda ds: ds.add_columns(
        computed(STRICT, lambda n: None if n == 4 else 1)
    ),
    "'q' may not be null, and would have no values": lambda ds: ds.add_columns(STRICT.field("q")),
    "'v' cannot be made non-nullable, because row 4 has a null": lambda ds: ds.alter_columns(
        {"path": "v", "nullable": False}
    ),
    "'q' may not be null, and row 0 has no value": lambda ds: ds.merge(
        pa.table(
            {"id": [1], "q": pa.array([1], pa.int8())}, pa.schema([pa.field("id", pa.int64()), *STRICT])
        ),
        "id",
    ),
}
CASTS_THAT_LOSE: dict[str, Call] = {
    r"'v' is int64 and cannot become int32 \(row 1 is 1099511627776\)": lambda ds: ds.append(
        {"id": [9, 10], "v": [1, 2**40]}, cast=True
    ),
    "'v' is int32, and cannot be set to the int64 value 1000000000000 in row 1": lambda ds: ds.update(
        {"v": "id * 1000000000000"}, "id > 0"
    ),
    r"'v' is int32, and cannot be set to the double value 0\.5 in row 0": lambda ds: ds.update({"v": "f"}),
    "'v' is int64, where the table has int32": lambda ds: upsert(ds).execute({"id": [1, 2], "v": [1, 2**40]}),
    r"'q' has values that cannot become int8 \(row 2 is 200\)": lambda ds: ds.add_columns(
        computed(STRICT, lambda n: n * 100)
    ),
    r"'q' is int64 and cannot become int8 \(row 5 is 600\)": lambda ds: ds.add_columns(
        pa.table({"q": [1, 2, 3, 4, 5, 600]}), reader_schema=pa.schema({"q": pa.int8()})
    ),
    r"'v' is int32 and cannot become int8 \(row 5 is 1000\)": lambda ds: ds.alter_columns(
        {"path": "v", "data_type": pa.int8()}
    ),
    r"'w' is string and cannot become int64 \(row 0 is 'w0'\): .*'w0'": lambda ds: ds.alter_columns(
        {"path": "w", "data_type": pa.int64()}
    ),
    r"'p\.y' is .* cannot become .* \(row 0 is \{'y': 'y0'\}\)": lambda ds: ds.alter_columns(
        {"path": "p.y", "data_type": pa.int64()}
    ),
}
NUMBERS_OF_ROWS: dict[str, Call] = {
    r"returned 1 rows for the 3 rows from row 0 on \(fragment 0\)": lambda ds: ds.add_columns(
        lambda batch: {"q": [1]}
    ),
    "the values have 3 rows, where the table has 6": lambda ds: ds.add_columns(pa.table({"q": [1, 2, 3]})),
    "more rows than the table, which has 6": lambda ds: ds.add_columns(pa.table({"q": range(9)})),
    "returned 1 rows for the 3 rows": lambda ds: ds.get_fragments()[0].merge_columns(
        lambda batch: {"q": [1]}
    ),
}
CASES = {
    f"{kind}: {said}": (said, call)
    for kind, cases in (
        ("columns", WRONG_COLUMNS),
        ("types", WRONG_TYPES),
        ("keys", DUPLICATE_KEYS),
        ("nulls", NULLS),
        ("casts", CASTS_THAT_LOSE),
        ("rows", NUMBERS_OF_ROWS),
    )
    for said, call in cases.items()
}


@folded("name", list(CASES))
def test_it_is_refused_and_the_table_is_untouched(name: str, tmp_path: Path) -> None:
    said, call = CASES[name]
    ds = table(tmp_path / str(list(CASES).index(name)))
    before = sorted(Path(ds.uri).rglob("*"))
    with pytest.raises((lancecy.LanceError, KeyError), match=said):
        call(ds)
    assert (sorted(Path(ds.uri).rglob("*")), ds.version, ds.latest_version) == (before, 1, 1)


@folded("version", ["0.1", "2.0", "2.1", "2.2"])
def test_members_that_may_not_be_null_are_named_with_their_row(version: Any, tmp_path: Path) -> None:
    point = pa.struct([pa.field("x", pa.int64(), False), pa.field("y", pa.string())])
    schema = pa.schema([pa.field("p", point)])
    values = pa.array([{"x": 1, "y": "a"}, {"x": None, "y": "b"}], POINT)
    wrong = pa.StructArray.from_arrays([values.field(0), values.field(1)], fields=list(point))
    with pytest.raises(lancecy.LanceError, match=r"'p\.x' may not be null, and row 1 has no value"):
        lancecy.write_dataset(
            pa.Table.from_arrays([wrong], schema=schema), tmp_path / version, data_storage_version=version
        )
    assert not (tmp_path / version).exists()
    if version < "2.1":
        return
    # Where the struct is null, its members are nothing.
    whole = pa.StructArray.from_arrays(
        [values.field(0), values.field(1)], fields=list(point), mask=pa.array([False, True])
    )
    rows = pa.Table.from_arrays([whole], schema=schema)
    ds = lancecy.write_dataset(rows, tmp_path / version, data_storage_version=version)
    assert ds.to_table().to_pydict() == {"p": [{"x": 1, "y": "a"}, None]}
