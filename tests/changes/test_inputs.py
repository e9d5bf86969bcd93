"""What users pass as rows: arrays of several dimensions, generators of rows, and what is taken for rows by mistake."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pydantic
import pytest
from pydantic import BaseModel

import lancecy
from lancecy.errors import SchemaError
from tests.helpers.folded import folded

INT8 = pa.schema({"a": pa.int8()})


def test_arrays_of_several_dimensions_become_fixed_size_lists(tmp_path: Path) -> None:
    vectors, images = np.arange(12, dtype="f4").reshape(3, 4), np.arange(18, dtype="u1").reshape(3, 2, 3)
    ds = lancecy.write_dataset({"v": vectors, "image": images, "id": np.arange(3)}, tmp_path / "t")
    assert ds.schema.field("v").type == pa.list_(pa.float32(), 4)
    assert ds.schema.field("image").type == pa.list_(pa.list_(pa.uint8(), 3), 2)
    assert ds.to_table().to_pydict() == {"v": vectors.tolist(), "image": images.tolist(), "id": [0, 1, 2]}
    assert lance.dataset(tmp_path / "t").to_table()["image"].to_pylist() == images.tolist()


class _Point(BaseModel):  # type: ignore[misc]
    x: int
    y: float | None = None


class _Shape(BaseModel):  # type: ignore[misc]
    name: str
    points: list[_Point]
    day: dt.date


def test_lists_of_pydantic_models_are_rows_as_in_pylance(tmp_path: Path) -> None:
    day = dt.date(2024, 5, 1)
    shapes = [_Shape(name=f"s{n}", points=[_Point(x=n, y=0.5), _Point(x=1)], day=day) for n in range(3)]
    ds = lancecy.write_dataset(shapes, tmp_path / "t")
    assert ds.to_table().to_pylist() == [shape.model_dump() for shape in shapes]
    assert lancecy.write_dataset(iter(shapes), tmp_path / "i").to_table().equals(ds.to_table())
    theirs = lance.write_dataset(shapes, tmp_path / "u")
    assert theirs.to_table().to_pylist() == ds.to_table().to_pylist()
    schema = theirs.schema
    assert lancecy.write_dataset(shapes, tmp_path / "v", schema).schema == schema
    mixed: list[Any] = [*shapes, {"name": "s3"}]
    assert lancecy.write_dataset(mixed, ds, mode="append").count_rows("points IS NULL") == 1
    ds.merge_insert("name").when_matched_update_all().execute(
        [_Shape(name="s1", points=[_Point(x=7, y=7)], day=day)]
    )
    assert lancecy.dataset(tmp_path / "t").count_rows("name = 's1' AND array_length(points) = 1") == 1


def test_other_layouts_of_arrays_give_the_same_rows(tmp_path: Path) -> None:
    plain = np.arange(6, dtype="f4").reshape(3, 2)
    forms = [plain, np.asfortranarray(plain), np.repeat(plain, 2, axis=0)[::2], plain.astype(">f4")]
    for number, form in enumerate(forms):
        ds = lancecy.write_dataset({"v": form}, tmp_path / str(number))
        assert ds.schema.field("v").type == pa.list_(pa.float32(), 2)
        assert ds.to_table()["v"].to_pylist() == plain.tolist()
    masked = np.ma.masked_greater(np.arange(4).reshape(2, 2), 2)
    assert lancecy.write_dataset({"v": masked}, tmp_path / "masked").to_table()["v"].to_pylist() == [
        [0, 1],
        [2, None],
    ]


def test_a_schema_gives_the_type_of_vectors(tmp_path: Path) -> None:
    schema = pa.schema({"v": pa.list_(pa.float32(), 2)})
    for number, data in enumerate([{"v": np.ones((3, 2))}, {"v": [[1, 1]] * 3}, [{"v": np.ones(2)}] * 3]):
        ds = lancecy.write_dataset(data, tmp_path / str(number), schema=schema)
        assert ds.schema == schema
        assert ds.to_table()["v"].to_pylist() == [[1.0, 1.0]] * 3


def test_a_generator_of_dictionaries_is_rows(tmp_path: Path) -> None:
    rows = ({"a": number, "words": ["x"] * number, "s": {"b": number / 2}} for number in range(3))
    ds = lancecy.write_dataset(rows, tmp_path / "t")
    assert ds.to_table().to_pylist() == [
        {"a": 0, "words": [], "s": {"b": 0.0}},
        {"a": 1, "words": ["x"], "s": {"b": 0.5}},
        {"a": 2, "words": ["x", "x"], "s": {"b": 1.0}},
    ]
    ds.append(({"a": number, "words": None} for number in range(3, 5)), cast=True)
    assert ds.to_table(columns=["a", "words"])["words"].to_pylist()[3:] == [None, None]


def test_rows_of_a_generator_are_taken_in_chunks_of_bounded_size() -> None:
    made: list[int] = []

    def rows() -> Iterator[dict[str, Any]]:
        for number in range(300):
            made.append(number)
            yield {"v": np.zeros(1 << 17), "missing": None if number < 5 else number}

    reader = lancecy.interop.record_batches(rows())
    assert 5 < reader.read_next_batch().num_rows < 40
    assert len(made) < 80


def test_a_generator_may_fill_the_same_row_and_array_again(tmp_path: Path) -> None:
    def rows() -> Iterator[dict[str, Any]]:
        row: dict[str, Any] = {"v": np.zeros(2)}
        for number in range(3):
            row["v"][:] = row["a"] = number
            yield row

    assert lancecy.write_dataset(rows(), tmp_path / "t").to_table().to_pylist() == [
        {"v": [0, 0], "a": 0},
        {"v": [1, 1], "a": 1},
        {"v": [2, 2], "a": 2},
    ]


def test_rows_may_have_images(tmp_path: Path) -> None:
    rows = [{"image": np.full((2, 2), number, "f4")} for number in range(2)]
    for number, data in enumerate((rows, iter(rows))):
        found = lancecy.write_dataset(data, tmp_path / str(number)).to_table()
        assert found["image"].type == pa.list_(pa.list_(pa.float32()))
        assert found["image"].to_pylist() == [row["image"].tolist() for row in rows]


def test_a_list_of_rows_has_the_keys_and_types_of_all(tmp_path: Path) -> None:
    rows = [{"a": number} for number in range(70_000)] + [{"a": 1.5, "b": "x"}]
    table = lancecy.write_dataset(rows, tmp_path / "t").to_table()
    assert table.num_rows == 70_001
    assert table.slice(69_999).to_pylist() == [{"a": 69_999.0, "b": None}, {"a": 1.5, "b": "x"}]


@pytest.mark.parametrize(
    ("last", "said"),
    [
        ({"a": 1.5}, r"column 'a' .*row 70000 is 1\.5.*give schema="),
        ({"a": 1, "b": 2}, r"row 70000 has a column 'b', which the first rows lack.*give schema="),
        ({"a": 1, "b": None}, r"later rows have a column 'b', which the first rows lack.*give schema="),
        ([1], r"row 70000 is \[1\], where the rows before are dictionaries"),
    ],
)
def test_later_rows_that_differ_are_named(tmp_path: Path, last: Any, said: str) -> None:
    def rows() -> Iterator[Any]:
        yield from ({"a": number} for number in range(70_000))
        yield last

    with pytest.raises((SchemaError, TypeError), match=said):
        lancecy.write_dataset(rows(), tmp_path / "t")
    assert not (tmp_path / "t").exists()


def test_generators_of_batches_tables_and_frames(tmp_path: Path) -> None:
    pieces: list[Any] = [
        lambda: (pa.record_batch({"a": [n]}) for n in range(3)),
        lambda: (pa.table({"a": [n]}) for n in range(3)),
        lambda: (pd.DataFrame({"a": [n]}) for n in range(3)),
        lambda: (pl.DataFrame({"a": [n]}) for n in range(3)),
    ]
    for number, made in enumerate(pieces):
        ds = lancecy.write_dataset(made(), tmp_path / str(number))
        assert ds.to_table()["a"].to_pylist() == [0, 1, 2]
        narrow = lancecy.write_dataset(made(), tmp_path / f"{number} narrow", schema=INT8)
        assert narrow.schema.field("a").type == pa.int8()


def test_a_schema_unites_batches_of_different_types(tmp_path: Path) -> None:
    pieces = (pa.record_batch({"a": pa.array([1], kind)}) for kind in (pa.int8(), pa.float32(), pa.int64()))
    ds = lancecy.write_dataset(pieces, tmp_path / "t", schema=pa.schema({"a": pa.int64()}))
    assert ds.to_table()["a"].to_pylist() == [1, 1, 1]


NOT_ROWS: dict[str, tuple[Any, str]] = {
    "lazy": (pl.LazyFrame({"a": [1]}), r"LazyFrame: .* pass frame\.collect\(\)"),
    "parquet": ("rows.parquet", r"pyarrow\.dataset\.dataset\('rows\.parquet', format='parquet'\)"),
    "csv": (Path("rows.csv"), r"pyarrow\.dataset\.dataset\('rows\.csv', format='csv'\)"),
    "lance": ("rows.lance", r"lancecy\.dataset\('rows\.lance'\)"),
    "array": (np.ones((2, 2)), r'ndarray: its column has no name; pass \{"name": array\}'),
    "records": (np.zeros(2, [("a", "i4")]), r"array\[name\] for name in array\.dtype\.names"),
    "arrow": (pa.array([1]), r'Int64Array: .* pass \{"name": array\}'),
    "series": (pd.Series([1]), r"Series: .* pass series\.to_frame\(\)"),
    "polars series": (pl.Series([1]), r"Series: .* pass series\.to_frame\(\)"),
    "scalars": ({"a": 1}, r"column 'a' is 1, and not a list of values"),
    "text": ({"a": "abc"}, r"column 'a' is 'abc', and not a list of values"),
    "model": (pydantic.create_model("Row", id=(int, ...))(id=1), "Row: it is one row; pass a list of models"),
    "numbers": ([1, 2], "rows cannot be read from int"),
}


@pytest.mark.parametrize("data", NOT_ROWS)
def test_what_is_taken_for_rows_is_named_with_the_remedy(tmp_path: Path, data: str) -> None:
    given, said = NOT_ROWS[data]
    with pytest.raises(TypeError, match=said):
        lancecy.write_dataset(given, tmp_path / "t")
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize("write", [lancecy.write_dataset, lancecy.write_fragments])
def test_swapped_arguments_are_named(tmp_path: Path, write: Any) -> None:
    for rows in (pa.table({"a": [1]}), {"a": [1]}, pd.DataFrame({"a": [1]})):
        with pytest.raises(
            TypeError, match="not .*: the rows are the first argument and the table the second"
        ):
            write(str(tmp_path / "t"), rows)


def _one(value: Any) -> dict[str, Any]:
    """The same value in each form of rows."""
    return {
        "columns": {"a": [None, value]},
        "rows": [{"a": None}, {"a": value}],
        "generator": iter([{"a": None}, {"a": value}]),
        "pandas": pd.DataFrame({"a": pd.Series([None, value], dtype=object)}),
        "array": {"a": np.array([None, value], object)},
        "list": {"a": (None, value)},
    }


@folded(
    ("value", "kind", "shown"),
    [
        (1.5, pa.int8(), "1.5"),
        (300, pa.int8(), "300"),
        (Decimal("1.5"), pa.int8(), r"Decimal\('1.5'\)"),
        ("x", pa.int8(), "'x'"),
        (1e300, pa.float32(), r"1e\+300"),
        ([1.5], pa.list_(pa.int8()), r"\[1.5\]"),
        ({"b": 1.5}, pa.struct({"b": pa.int8()}), r"\{'b': 1.5\}"),
        ([("k", 1.5)], pa.map_(pa.string(), pa.int8()), r"\[\('k', 1.5\)\]"),
        (dt.datetime(2020, 1, 1, 5), pa.date32(), r"datetime"),
        (dt.datetime(2020, 1, 1, 0, 0, 0, 5), pa.timestamp("s"), r"datetime"),
        (dt.timedelta(microseconds=5), pa.duration("s"), r"datetime.timedelta"),
        ([1, 2, 3], pa.list_(pa.int8(), 2), r"\[1, 2, 3\]"),
    ],
    ids=str,
)
def test_a_value_that_does_not_fit_is_named_with_its_row(
    tmp_path: Path, value: Any, kind: pa.DataType, shown: str
) -> None:
    for data in _one(value).values():
        with pytest.raises(SchemaError, match=rf"column 'a' .*\(row 1 is .*{shown}"):
            lancecy.write_dataset(
                data, tmp_path / "t", schema=pa.schema({"a": kind}), data_storage_version="2.2"
            )
        assert not (tmp_path / "t").exists()


def test_arrow_values_that_do_not_fit_are_named_with_their_row(tmp_path: Path) -> None:
    table = pa.table({"id": range(200_000), "a": [0.0] * 150_000 + [2.5] + [0.0] * 49_999})
    wanted = pa.schema({"id": pa.int32(), "a": pa.int64()})
    for data in (table, table.to_reader(1000), iter(table.to_batches(1000)), table.to_pandas()):
        with pytest.raises(SchemaError, match=r"column 'a' is double .*\(row 150000 is 2\.5\)"):
            lancecy.write_dataset(data, tmp_path / "t", schema=wanted)
    for value, source, kind in (
        (1e300, pa.float64(), pa.float32()),
        (2, pa.int64(), pa.bool_()),
        (dt.datetime(2020, 1, 1, 5), pa.timestamp("us"), pa.date32()),
        ("x", pa.dictionary(pa.int8(), pa.string()), pa.int8()),
    ):
        rows = pa.table({"a": pa.array([None, value], source)})
        with pytest.raises(SchemaError, match=r"column 'a' is .*\(row 1 is "):
            lancecy.write_dataset(rows, tmp_path / "t", schema=pa.schema({"a": kind}))


def test_values_that_fit_are_accepted(tmp_path: Path) -> None:
    fitting: list[tuple[Any, pa.DataType]] = [
        (1.0, pa.int8()),
        (1, pa.float32()),
        (float("inf"), pa.float32()),
        (0.1, pa.float32()),
        (dt.datetime(2020, 1, 1), pa.date32()),
        (dt.datetime(2020, 1, 1, 0, 0, 1), pa.timestamp("s")),
        ([1.0, 2.0], pa.list_(pa.int16(), 2)),
        ([("k", 1.0)], pa.map_(pa.string(), pa.int8())),
        ({"b": 1.0}, pa.struct({"b": pa.int8(), "c": pa.int8()})),
        ("x", pa.dictionary(pa.int8(), pa.string())),
        (Decimal(2), pa.int8()),
    ]
    for number, (value, kind) in enumerate(fitting):
        for form, data in _one(value).items():
            uri = tmp_path / f"{number} {form}"
            version = "2.2" if pa.types.is_map(kind) else None
            ds = lancecy.write_dataset(data, uri, schema=pa.schema({"a": kind}), data_storage_version=version)
            expected = pa.array([None, value], kind)
            assert ds.to_table()["a"].to_pylist() == expected.to_pylist(), (value, kind, form)


def test_the_columns_of_a_schema_are_checked_by_name(tmp_path: Path) -> None:
    wanted = pa.schema({"b": pa.int8(), "a": pa.int8()})
    ds = lancecy.write_dataset(pa.table({"a": [1], "b": [2]}), tmp_path / "t", schema=wanted)
    assert ds.to_table().to_pylist() == [{"b": 2, "a": 1}]
    for rows in ({"a": [1]}, pa.table({"a": [1]}), pd.DataFrame({"a": [1]})):
        with pytest.raises(SchemaError, match="'b'"):
            lancecy.write_dataset(rows, tmp_path / "u", schema=wanted)
    with pytest.raises(SchemaError, match="column 'b', which schema= lacks"):
        lancecy.write_dataset(pa.table({"a": [1], "b": [1]}), tmp_path / "u", schema=INT8)
    with pytest.raises(SchemaError, match="column 'b' has 1 values, and column 'a' 2"):
        lancecy.write_dataset({"a": [1, 2], "b": [1]}, tmp_path / "u")
    with pytest.raises(SchemaError, match=r"column 'a' has no type .*\(row 2 is 'x'\)"):
        lancecy.write_dataset({"a": [None, 1, "x"]}, tmp_path / "u")


def test_a_misspelt_column_is_refused_and_not_dropped(tmp_path: Path) -> None:
    wanted = pa.schema({"a": pa.int64(), "name": pa.string()})
    ds = lancecy.write_dataset([{"a": 1, "name": "x"}, {"a": 2}], tmp_path / "t", schema=wanted)
    said = "^the rows have a column 'nmae', which schema= lacks"
    rows = [{"a": 1}] * 70_000 + [{"a": 1, "nmae": "y"}]
    for data, row in ((rows, 70_000), (iter(rows), 70_000), ((row for row in rows[-2:]), 1)):
        with pytest.raises(SchemaError, match=rf"{said} \(row {row} has a value there\)"):
            ds.append(data, schema=ds.schema)
    columns = {"a": [1], "name": ["x"], "nmae": ["y"]}
    frame = pd.DataFrame(columns)
    for given in (columns, frame, iter([frame]), pl.DataFrame(columns), [{"nmae": None}]):
        with pytest.raises(SchemaError, match=rf"{said}(?! \(row)"):
            lancecy.write_dataset(given, tmp_path / "u", schema=wanted)
    assert ds.checkout_latest().to_table().to_pylist() == [{"a": 1, "name": "x"}, {"a": 2, "name": None}]
    assert not (tmp_path / "u").exists()


# -- rows of other types than the table's ---------------------------------------------------------


@pytest.fixture
def table(tmp_path: Path) -> lancecy.Dataset:
    return lancecy.write_dataset(
        {"a": pa.array([1], pa.int8()), "s": pa.array(["x"]).dictionary_encode(), "v": np.ones((1, 2), "f4")},
        tmp_path / "table",
    )


def test_a_type_mismatch_advises_what_helps(table: lancecy.Dataset) -> None:
    rows = {"a": [2], "s": ["y"], "v": [[3, 4]]}
    with pytest.raises(SchemaError, match=r"cast=True .*schema=ds\.schema"):
        table.append(rows)
    before = table.schema
    table.append(rows, schema=table.schema)
    table.append(rows, cast=True)
    table.append([{"v": [3, 4], "a": 2}], cast=True)
    lancecy.write_dataset(pl.DataFrame(rows), table, mode="append", cast=True)
    table = table.checkout_latest()
    assert table.schema == before
    new = {"a": 2, "s": "y", "v": [3, 4]}
    assert table.to_table().to_pylist()[1:] == [new, new, {**new, "s": None}, new]


def test_a_column_of_nulls_gets_the_type_of_the_table(table: lancecy.Dataset) -> None:
    for rows in ({"a": [None]}, [{"a": None}], pd.DataFrame({"a": [None]})):
        with pytest.raises(SchemaError, match=r"column 'a' has only nulls, .*cast=True"):
            table.append(rows)
        table.append(rows, cast=True)
    assert table.to_table()["a"].to_pylist() == [1, None, None, None]


def test_cast_refuses_values_that_do_not_fit(table: lancecy.Dataset) -> None:
    for number, rows in enumerate(_one(1.5).values()):
        with pytest.raises(SchemaError, match=r"column 'a' .*\(row 1 is 1\.5\)"):
            table.append(rows, cast=True)
        assert table.checkout_latest().version == 1, number
    with pytest.raises(SchemaError, match="the table has no column 'b'"):
        table.append({"b": [1]}, cast=True)


def test_a_column_that_the_table_lacks_is_told_with_the_nearest_name(tmp_path: Path) -> None:
    rows = pa.table({"id": [1], "place": [{"town": "x"}]})
    ds = lancecy.write_dataset(rows, tmp_path / "t.lance")
    with pytest.raises(SchemaError, match=r"the table has no column 'ID'; did you mean 'id'\?"):
        ds.append({"ID": [1]})
    with pytest.raises(SchemaError, match=r"no column 'place\.Town'; did you mean 'place\.town'\?"):
        ds.append({"id": [1], "place": [{"Town": "x"}]})
    with pytest.raises(
        SchemaError, match=r"no column 'zz'; leave it out of the rows, or add it .* with add_columns$"
    ):
        ds.append({"zz": [1]})
    with pytest.raises(SchemaError, match=r"no column 'place\.zz'; leave it out of the rows$"):
        ds.append({"id": [1], "place": [{"zz": "x"}]})


def _prices(values: Any, source: pa.DataType) -> dict[str, Any]:
    """Rows with a column of numbers in the forms that have a type of their own."""
    array = pa.array(values, source)
    return {
        "table": pa.table({"price": array}),
        "numpy": {"price": array.to_numpy(zero_copy_only=False)},
        "pandas": pd.DataFrame({"price": array.to_numpy(zero_copy_only=False)}),
        "pandas of Arrow": pa.table({"price": array}).to_pandas(types_mapper=pd.ArrowDtype),
        "polars": pl.DataFrame({"price": array}),
    }


@folded(
    ("source", "value", "kind", "expected"),
    [
        (pa.float64(), 1.5, pa.decimal128(9, 2), "1.50"),
        (pa.float64(), 0.1, pa.decimal128(9, 2), "0.10"),
        (pa.float64(), -0.0, pa.decimal128(9, 2), "0.00"),
        (pa.float32(), 0.1, pa.decimal128(9, 2), "0.10"),
        (pa.float64(), 90071992547409.91, pa.decimal128(18, 2), "90071992547409.91"),
        (pa.float64(), 1.5, pa.decimal128(9, 0), None),
        (pa.float64(), 1.239, pa.decimal128(9, 2), None),
        (pa.float32(), 1.2390000820159912, pa.decimal128(9, 2), None),
        (pa.float64(), 1e12, pa.decimal128(9, 2), None),
        (pa.int64(), 3, pa.decimal128(18, 2), "3.00"),
        (pa.int64(), -9999999, pa.decimal128(9, 2), "-9999999.00"),
        (pa.int64(), 10000000, pa.decimal128(9, 2), None),
        (pa.uint64(), 2**64 - 1, pa.decimal128(20, 0), str(2**64 - 1)),
        (pa.int64(), 7, pa.decimal256(76, 60), f"7.{'0' * 60}"),
    ],
    ids=str,
)
def test_numbers_become_decimals_only_if_they_keep_their_value(
    tmp_path: Path, source: pa.DataType, value: float, kind: pa.DataType, expected: str | None
) -> None:
    ds = lancecy.write_dataset({"price": pa.array([], kind)}, tmp_path / "t", mode="overwrite")
    for form, rows in _prices([0, value], source).items():
        if expected is None:
            for options in ({"cast": True}, {"schema": ds.schema}):
                with pytest.raises(SchemaError, match=rf"column 'price' is .*\(row 1 is {value!r}\)"):
                    ds.append(rows, **options)
        else:
            ds.append(rows, cast=True)
            ds.append(rows, schema=ds.schema)
            found = ds.to_table()["price"].to_pylist()[-4:]
            assert [str(found[1]), str(found[3])] == [expected, expected], form


def test_decimals_below_lists_and_structs_keep_their_value_too(tmp_path: Path) -> None:
    two = pa.decimal128(9, 2)
    kind = pa.struct({"l": pa.list_(two), "n": two})
    ds = lancecy.write_dataset({"s": pa.array([], kind)}, tmp_path / "t")
    ds.append({"s": [{"l": [1.25, None], "n": 3}, None, {"l": None, "n": 4}]}, cast=True)
    found = [{"l": [Decimal("1.25"), None], "n": Decimal(3)}, None, {"l": None, "n": Decimal(4)}]
    assert ds.to_table()["s"].to_pylist() == found
    for lost in ({"l": [1.239], "n": 3}, {"l": [1.0], "n": 0.001}):
        with pytest.raises(SchemaError, match=r"column 's' is .*\(row 1 is "):
            ds.append({"s": [None, lost]}, cast=True)
    maps = pa.array([[("k", 1.5)], [("k", 1.239)]], pa.map_(pa.string(), pa.float64()))
    wanted = pa.schema({"m": pa.map_(pa.string(), two)})
    new = lancecy.write_dataset({"m": maps[:1]}, tmp_path / "m", schema=wanted, data_storage_version="2.2")
    assert new.to_table()["m"].to_pylist() == [[("k", Decimal("1.50"))]]
    with pytest.raises(SchemaError, match=r"column 'm' is .*\(row 1 is "):
        new.append({"m": maps}, cast=True)


def test_dask_partitions_of_numbers_become_decimals(tmp_path: Path) -> None:
    import dask.dataframe as dd

    wanted = pa.schema({"price": pa.decimal128(9, 2)})
    for values in ([1.25, None], [3]):
        frame = dd.from_pandas(pd.DataFrame({"price": values}), npartitions=1)
        ds = lancecy.write_dask(frame, tmp_path / "t", schema=wanted, mode="overwrite")
        assert ds.to_table()["price"].to_pylist() == [Decimal(str(values[0])), None][: len(values)]
    frame = dd.from_pandas(pd.DataFrame({"price": [1.239]}), npartitions=1)
    with pytest.raises(SchemaError, match=r"column 'price' .*row 0 is 1\.239"):
        lancecy.write_dask(frame, tmp_path / "t", schema=wanted, mode="append")


def test_fragments_and_dask_frames_are_cast(table: lancecy.Dataset) -> None:
    import dask.dataframe as dd

    fragments = lancecy.write_fragments({"a": [2]}, table, cast=True)
    table = lancecy.commit(table, lancecy.LanceOperation.Append(fragments))
    frame = dd.from_pandas(pd.DataFrame({"a": [3, 4]}), npartitions=1)
    with pytest.raises(SchemaError, match="cast=True"):
        lancecy.write_dask(frame, table, mode="append")
    table = lancecy.write_dask(frame, table, mode="append", cast=True)
    assert table.to_table()["a"].to_pylist() == [1, 2, 3, 4]
    objects = dd.from_pandas(pd.DataFrame({"a": pd.Series([1.5], dtype=object)}), npartitions=1)
    with pytest.raises(SchemaError, match=r"column 'a' .*1\.5"):
        lancecy.write_dask(objects, table, mode="append", cast=True)


def test_cast_has_no_effect_on_a_new_table(tmp_path: Path) -> None:
    ds = lancecy.write_dataset({"a": [1]}, tmp_path / "t", mode="append", cast=True)
    ds = lancecy.write_dataset({"a": ["x"]}, ds, mode="overwrite", cast=True)
    assert ds.to_table()["a"].to_pylist() == ["x"]


def test_the_spark_format_has_the_option() -> None:
    from lancecy.spark.sink_options import SinkOptions

    assert SinkOptions.parse({"path": "t", "cast": "true"}).cast
    assert not SinkOptions.parse({"path": "t"}).cast
