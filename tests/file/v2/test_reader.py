"""2.x files behind the ``FileReader`` protocol: which columns a field is read from, order, pages, sizes."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lancecy.encodings import batch
from lancecy.encodings.arrow.assemble import pruned
from lancecy.encodings.arrow.to_arrow import to_arrow
from lancecy.encodings.model.block import Leaves, Reordered
from lancecy.errors import FormatError, UnsupportedError
from lancecy.file.base import FileReader
from lancecy.file.v2.fields import FieldColumns, column_numbers
from lancecy.file.v2.reader import V2Reader
from lancecy.rows import RowSelection
from lancecy.schema import Field
from lancecy.store.reads import run
from lancecy.table.manifest import DataFile
from tests.file.tables import TableOnDisk, load_table, open_data_file
from tests.helpers.frames import INTS, build_frame, int64, open_frame

VERSIONS = ["2.0", "2.1", "2.2"]
ROWS = 300
PACKED = {"lance-encoding:packed": "true"}


def nested_table() -> pa.Table:
    """Structs and lists without nulls of structs, which 2.0 cannot hold."""
    rng = np.random.default_rng(7)
    rows = range(ROWS)
    words = [None if n % 7 == 0 else "w" * (n % 5) + str(n) for n in rows]
    point = pa.struct([("x", pa.int64()), ("word", pa.string())])
    columns = {
        "id": pa.array(rows, pa.int64()),
        "s": pa.array([{"x": n, "word": words[n], "in": {"d": n / 2, "l": [n] * (n % 3)}} for n in rows]),
        "l": pa.array(
            [None if n % 11 == 0 else [{"x": n, "word": words[n]}] * (n % 4) for n in rows], pa.list_(point)
        ),
        "v": pa.FixedSizeListArray.from_arrays(pa.array(rng.random(ROWS * 4, np.float32)), 4),
        "flag": pa.array([None if n % 5 == 0 else n % 2 == 0 for n in rows]),
        "none": pa.nulls(ROWS, pa.int32()),
    }
    return pa.table(columns)


def written(path: Path, table: pa.Table, version: str, **options: Any) -> Any:
    import lance

    options = {"data_storage_version": version, **options}
    return lance.write_dataset(table, str(path), **options)


def opened(table: TableOnDisk, **changes: Any) -> tuple[V2Reader, Any, list[Field]]:
    (file,) = table.data_files
    reader, files, fields = open_data_file(table, replace(file, **changes))
    if not isinstance(reader, V2Reader):
        raise TypeError("this is not a 2.x file")
    return reader, files, fields


def column(
    reader: FileReader, files: Any, field: Field, rows: RowSelection | None = None
) -> pa.Array | pa.ChunkedArray:
    rows = RowSelection.all(reader.num_rows) if rows is None else rows
    found = to_arrow(run(reader.read([field], rows), files.fetch)[field.id], field)
    found.validate(full=True)
    return found


def lists(table: pa.Table) -> dict[str, list[Any]]:
    return {name: table[name].to_pylist() for name in table.column_names}


# -- against pylance ------------------------------------------------------------------------


@pytest.mark.interop
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("is_mapped", [True, False])
@pytest.mark.parametrize(
    "indices",
    [None, [5, 3, 3, 299, 0], list(range(0, 300, 7)), [0], [7] * 40, list(range(299, -1, -1))],
    ids=["all", "shuffled", "ascending", "one", "repeated", "backwards"],
)
def test_rows_in_any_order(
    tmp_path: Path, version: str, is_mapped: bool, indices: Sequence[int] | None
) -> None:
    table = nested_table()
    written(tmp_path / "t", table, version)
    reader, files, fields = opened(load_table(tmp_path / "t", is_mapped=is_mapped))
    rows = None if indices is None else RowSelection.take(ROWS, indices)
    expected = table if indices is None else table.take(list(indices))
    assert [field.name for field in fields] == table.column_names
    for field in fields:
        mine = column(reader, files, field, rows)
        assert mine.to_pylist() == expected[field.name].to_pylist()
        assert mine.type == table.schema.field(field.name).type


@pytest.mark.interop
@pytest.mark.parametrize("version", VERSIONS)
def test_every_nested_path_alone(tmp_path: Path, version: str) -> None:
    table = nested_table()
    written(tmp_path / "t", table, version)
    reader, files, fields = opened(load_table(tmp_path / "t"))
    for top in fields:
        for leaf in (node for node in top.walk() if not node.children):
            part = pruned(top, frozenset([leaf.id]))
            assert part is not None
            whole = column(reader, files, top).to_pylist()
            assert column(reader, files, part).to_pylist() == [only(part, row) for row in whole]


def only(field: Field, value: Any) -> Any:
    """The value reduced to the children of ``field``."""
    if value is None or not field.children:
        return value
    if field.is_struct:
        return {child.name: only(child, value[child.name]) for child in field.children}
    return [only(field.children[0], item) for item in value]


@pytest.mark.interop
@pytest.mark.parametrize("version", ["2.0", "2.1"])
def test_leaves_are_merged_from_2_1_on(tmp_path: Path, version: str) -> None:
    written(tmp_path / "t", nested_table(), version)
    reader, files, fields = opened(load_table(tmp_path / "t"))
    struct = next(field for field in fields if field.name == "s")
    blocks = run(reader.read([struct], RowSelection.all(ROWS)), files.fetch)
    assert isinstance(blocks[struct.id], Leaves) == (version == "2.1")
    blocks = run(reader.read([struct], RowSelection.take(ROWS, [2, 1])), files.fetch)
    assert isinstance(blocks[struct.id], Reordered)


@pytest.mark.interop
@pytest.mark.parametrize("version", VERSIONS)
def test_all_columns_of_a_small_remote_file_take_few_rounds(tmp_path: Path, version: str) -> None:
    written(tmp_path / "t", nested_table(), version)
    table = load_table(tmp_path / "t", is_mapped=False)
    table.files.rounds.clear()
    reader, files, fields = opened(table)
    assert len(files.rounds) == 1
    run(reader.read(fields, RowSelection.all(ROWS)), files.fetch)
    assert len(files.rounds) <= 3


@pytest.mark.interop
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("size", [None, 1, 10**9])
def test_stated_size_does_not_matter(tmp_path: Path, version: str, size: int | None) -> None:
    written(tmp_path / "t", pa.table({"a": [1, 2]}), version)
    reader, files, fields = opened(load_table(tmp_path / "t"), file_size_bytes=size)
    assert column(reader, files, fields[0]).to_pylist() == [1, 2]


def packed_table() -> pa.Table:
    struct = pa.struct([("x", pa.int64()), ("y", pa.float32()), ("z", pa.int16())])
    rows = [{"x": n, "y": n / 2, "z": -n} for n in range(50)]
    schema = pa.schema([pa.field("p", struct, metadata=PACKED), pa.field("b", pa.int64())])
    return pa.table([pa.array(rows, struct), pa.array(range(50))], schema=schema)


@pytest.mark.interop
@pytest.mark.parametrize("version", VERSIONS)
def test_packed_structs_are_one_column(tmp_path: Path, version: str) -> None:
    table = packed_table()
    written(tmp_path / "t", table, version)
    on_disk = load_table(tmp_path / "t")
    reader, files, fields = opened(on_disk)
    assert on_disk.data_files[0].fields == (0, 4)
    assert reader.field_ids == {0, 1, 2, 3, 4}
    assert reader.num_columns == 2
    assert reader.column_bytes(fields[0]) >= 50 * 14  # known without a request, before any value is read
    assert column(reader, files, fields[0]).to_pylist() == table["p"].to_pylist()
    part = pruned(fields[0], frozenset([3]))
    assert part is not None
    assert column(reader, files, part).to_pylist() == [{"z": -n} for n in range(50)]


@pytest.mark.interop
@pytest.mark.parametrize("version", VERSIONS)
def test_packed_struct_that_has_lost_a_child_since(tmp_path: Path, version: str) -> None:
    """The rows still have the bytes of the child that the table's schema does not know any more."""
    written(tmp_path / "t", packed_table(), version)
    on_disk = load_table(tmp_path / "t")
    top, other = on_disk.manifest.schema.fields
    schema = replace(on_disk.manifest.schema, fields=(replace(top, children=top.children[1:]), other))
    on_disk.manifest = replace(on_disk.manifest, schema=schema)
    reader, files, fields = opened(on_disk)
    assert column(reader, files, fields[0]).to_pylist() == [{"y": n / 2, "z": -n} for n in range(50)]


@pytest.mark.interop
@pytest.mark.parametrize("version", VERSIONS)
def test_children_of_packed_structs_listed_without_a_column(tmp_path: Path, version: str) -> None:
    table = packed_table()
    written(tmp_path / "t", table, version)
    reader, files, fields = opened(
        load_table(tmp_path / "t"), fields=(0, 1, 2, 3, 4), column_indices=(0, -1, -1, -1, 1)
    )
    assert column(reader, files, fields[0]).to_pylist() == table["p"].to_pylist()


@pytest.mark.interop
@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_structs_listed_without_a_column(tmp_path: Path, version: str) -> None:
    """Parents have no column from 2.1 on; some writers list them nevertheless."""
    table = nested_table().select(["id", "s"])
    written(tmp_path / "t", table, version)
    on_disk = load_table(tmp_path / "t")
    (file,) = on_disk.data_files
    reader, files, fields = opened(
        on_disk, fields=(1, *file.fields), column_indices=(-1, *file.column_indices)
    )
    assert column(reader, files, fields[1]).to_pylist() == table["s"].to_pylist()


@pytest.mark.interop
@pytest.mark.parametrize("version", VERSIONS)
def test_blobs_are_read_as_descriptors(tmp_path: Path, version: str) -> None:
    data = [b"one", None, b"", b"three" * 100]
    schema = pa.schema([pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})])
    dataset = written(tmp_path / "t", pa.table([pa.array(data, pa.large_binary())], schema=schema), version)
    reader, files, fields = opened(load_table(tmp_path / "t"))
    mine, theirs = column(reader, files, fields[0]), dataset.to_table()["b"]
    assert mine.type == theirs.type
    assert mine.to_pylist() == theirs.to_pylist()


@pytest.mark.interop
@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_types_are_those_of_pylance(tmp_path: Path, version: str) -> None:
    columns: dict[str, pa.Array] = {
        "json": pa.array(['{"a":1}', None], pa.json_()),
        "dict": pa.array(["a", None]).dictionary_encode(),
        "vectors": pa.array([[[1, 2], [3, 4]], None], pa.list_(pa.list_(pa.int8(), 2), 2)),
        "zone": pa.array([1, 2], pa.timestamp("ns", "+05:30")),
    }
    if version == "2.2":
        columns["map"] = pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int32()))
        members = pa.field("member", pa.struct([("x", pa.int32())]), nullable=False)
        columns["fixed"] = pa.array([[{"x": 1}, {"x": 2}], [{"x": 3}, {"x": 4}]], pa.list_(members, 2))
        columns["maps"] = pa.array([[[("a", 1)], None], []], pa.list_(pa.map_(pa.string(), pa.int32())))
    dataset = written(tmp_path / "t", pa.table(columns), version)
    reader, files, fields = opened(load_table(tmp_path / "t"))
    for field in fields:
        assert field.arrow_field.type == dataset.schema.field(field.name).type
        mine = column(reader, files, field)
        assert mine.type == columns[field.name].type
        assert mine.to_pylist() == columns[field.name].to_pylist()


# -- versions -------------------------------------------------------------------------------


@pytest.mark.interop
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("stated", [(2, 0), (2, 1), (2, 2), (2, 3)])
def test_manifest_and_footer_must_agree(tmp_path: Path, version: str, stated: tuple[int, int]) -> None:
    written(tmp_path / "t", pa.table({"a": [1, 2]}), version)
    table = load_table(tmp_path / "t")
    if version == f"{stated[0]}.{stated[1]}":
        opened(table, file_major_version=stated[0], file_minor_version=stated[1])
        return
    if (version, stated) == ("2.1", (2, 0)):
        opened(
            table, file_major_version=2, file_minor_version=0
        )  # the version that release 0.16 wrote into manifests
        return
    with pytest.raises(FormatError, match=f"of version {version}"):
        opened(table, file_major_version=stated[0], file_minor_version=stated[1])


@pytest.mark.interop
def test_pre_stable_2_1_files_have_pages_of_2_0(tmp_path: Path) -> None:
    """Releases 0.16 to 0.18 wrote such files as version 2.1."""
    table = nested_table()
    written(tmp_path / "t", table, "2.0")
    (name,) = glob.glob(str(tmp_path / "t" / "data" / "*.lance"))
    data = bytearray(Path(name).read_bytes())
    data[-8:-4] = b"\x02\0\x01\0"
    Path(name).write_bytes(bytes(data))
    reader, files, fields = opened(load_table(tmp_path / "t"), file_major_version=2, file_minor_version=1)
    for field in fields:
        assert column(reader, files, field).to_pylist() == table[field.name].to_pylist()


@pytest.mark.interop
@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_file_under_the_label_of_another_version(tmp_path: Path, version: str) -> None:
    """The reference refuses pages of another generation than the version number states."""
    written(tmp_path / "t", pa.table({"a": [1, 2]}), version)
    (name,) = glob.glob(str(tmp_path / "t" / "data" / "*.lance"))
    data = bytearray(Path(name).read_bytes())
    data[-8:-4] = b"\0\0\x03\0"
    Path(name).write_bytes(bytes(data))
    reader, files, fields = opened(load_table(tmp_path / "t"), file_major_version=2, file_minor_version=0)
    with pytest.raises(FormatError, match="ArrayEncoding"):
        column(reader, files, fields[0])


# -- pages, sizes, statistics ---------------------------------------------------------------


def test_pages_and_their_bytes() -> None:
    pages = [int64([1, 2, 3]), int64([4])]
    b = Field("b", 1, logical_type="int64")
    opened_ = open_frame(build_frame([pages, [int64([1, 2, 3, 4])]], 4), [INTS, b])
    reader = opened_.reader
    assert reader.page_starts(INTS).tolist() == [0, 3, 4]
    assert reader.page_bytes(INTS).tolist() == [24, 8]
    assert reader.column_bytes(INTS) == 32
    assert reader.page_starts(b).tolist() == [0, 4]
    assert reader.nbytes > 0
    assert len(opened_.files.rounds) == 1


@pytest.mark.interop
@pytest.mark.parametrize("version", VERSIONS)
def test_bytes_of_columns_add_up(tmp_path: Path, version: str) -> None:
    written(tmp_path / "t", nested_table(), version)
    on_disk = load_table(tmp_path / "t")
    reader, files, fields = opened(on_disk)
    sizes = {field.name: reader.column_bytes(field) for field in fields}
    assert 0 < sum(sizes.values()) <= (files.contents[on_disk.data_files[0].path]).size
    assert sizes["v"] >= ROWS * 16
    for field in fields:
        assert int(reader.page_bytes(field).sum()) <= sizes[field.name]
        assert reader.page_starts(field)[-1] == ROWS
        assert reader.page_bytes(field).size == reader.page_starts(field).size - 1


@pytest.mark.interop
@pytest.mark.parametrize("version", VERSIONS)
def test_statistics_tell_of_nulls(tmp_path: Path, version: str) -> None:
    written(tmp_path / "t", nested_table(), version)
    reader, files, fields = opened(load_table(tmp_path / "t"))
    chains: dict[tuple[str, ...], list[Field]] = {(f.name,): [f] for f in fields if f.is_leaf}
    table = run(reader.stats(chains), files.fetch)
    assert table.row_counts.tolist() == [ROWS]
    assert table.columns[("id",)].no_nulls.tolist() == [True]
    assert table.columns[("id",)].bounds is None
    assert table.columns[("flag",)].no_nulls.tolist() == [False]
    assert table.columns[("flag",)].all_null.tolist() == [False]
    assert table.columns[("none",)].all_null.tolist() == [True]


def test_statistics_of_columns_whose_pages_differ_are_left_out() -> None:
    b = Field("b", 1, logical_type="int64")
    built = build_frame([[int64([1, 2, 3]), int64([4])], [int64([1, 2, 3, 4])]], 4)
    opened_ = open_frame(built, [INTS, b])
    table = run(opened_.reader.stats({("a",): [INTS], ("b",): [b]}), opened_.files.fetch)
    assert table.row_counts.tolist() == [3, 1]
    assert list(table.columns) == [("a",)]


# -- reading --------------------------------------------------------------------------------


def test_no_rows_and_no_fields() -> None:
    opened_ = open_frame(build_frame([[int64([1, 2, 3])]], 3))
    rounds = len(opened_.files.rounds)
    assert run(opened_.reader.read([], RowSelection.all(3)), opened_.files.fetch) == {}
    blocks = run(opened_.reader.read([INTS], RowSelection.range(3, 2, 2)), opened_.files.fetch)
    assert to_arrow(blocks[0], INTS).equals(pa.array([], pa.int64()))
    assert len(opened_.files.rounds) == rounds


def test_selection_of_another_file() -> None:
    opened_ = open_frame(build_frame([[int64([1, 2, 3])]], 3))
    with pytest.raises(ValueError, match="over 4 rows"):
        run(opened_.reader.read([INTS], RowSelection.all(4)), opened_.files.fetch)


def test_errors_name_page_column_and_file() -> None:
    pages = [int64([1]), int64([2], sizes=[7])]
    opened_ = open_frame(build_frame([pages], 2))
    with pytest.raises(FormatError, match=r"column 0 'a' of data/built\.lance"):
        run(opened_.reader.read([INTS], RowSelection.all(2)), opened_.files.fetch)


def test_version_that_is_not_read() -> None:
    with pytest.raises(UnsupportedError, match=r"2\.4") as caught:
        open_frame(build_frame([[int64([1])]], 1, version=(2, 4)), version=(2, 4))
    assert caught.value.feature == "file version 2.4"


# -- fields and columns ---------------------------------------------------------------------


def field_columns(fields: Sequence[Field], ids: Sequence[int], columns: Sequence[int]) -> FieldColumns:
    listed = frozenset(i for i in ids if i >= 0)
    return FieldColumns(column_numbers(ids, columns), listed, tuple(fields))


def struct(*children: Field, metadata: dict[str, bytes] | None = None, kind: str = "struct") -> Field:
    return Field("s", 1, logical_type=kind, children=children, metadata=metadata or {})


X, Y = Field("x", 2, 1, "int32"), Field("y", 3, 1, "int32")


@pytest.mark.parametrize(
    ("field", "ids", "columns", "held"),
    [
        (struct(X, Y), [1, 2, 3], [0, 1, 2], {1, 2, 3}),
        (struct(X, Y), [2], [0], {2}),
        (struct(X, Y), [1, 2], [0, 1], {1, 2}),
        (struct(X, Y, metadata={"lance-encoding:packed": b"true"}), [1], [0], {1, 2, 3}),
        (struct(X, Y, metadata={"packed": b"true"}), [1], [0], {1, 2, 3}),
        (struct(X, Y, metadata={"packed": b"false"}), [1, 2, 3], [0, 1, 2], {1, 2, 3}),
        (struct(X, kind="fixed_size_list:struct:2"), [1], [0], {1, 2}),
        # All children are in other files: the column is an empty struct.
        (struct(X, Y), [1], [0], {1}),
        (struct(X, Y), [1, 2, 3], [0, -1, -1], {1, 2, 3}),
    ],
)
def test_fields_that_a_file_holds(field: Field, ids: list[int], columns: list[int], held: set[int]) -> None:
    assert field_columns([field], ids, columns).ids == held


def test_leaves_are_the_topmost_nodes_with_a_column() -> None:
    field = struct(X, replace(Y, logical_type="struct", children=(Field("z", 4, 3, "int8"),)))
    found = field_columns([field], [2, 4], [7, 9])
    leaves, _ = found.leaves(field, found.restored(field))
    assert [(leaf.column, [node.name for node in leaf.chain]) for leaf in leaves] == [
        (7, ["s", "x"]),
        (9, ["s", "y", "z"]),
    ]
    assert [sorted(leaf.part.ids) for leaf in leaves] == [[1, 2], [1, 3, 4]]


def test_data_file_without_columns_is_refused() -> None:
    with pytest.raises(FormatError, match="1 fields and 0 columns"):
        column_numbers(DataFile("x", (0,)).fields, DataFile("x", (0,)).column_indices)


# -- many columns ----------------------------------------------------------------------------


def many_columns(count: int) -> list[Field]:
    return [Field(f"c{n}", n, logical_type="int64") for n in range(count)]


def test_columns_that_are_alike_are_read_together(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []

    def counted(pages: Sequence[Any], limits: Any) -> Any:
        read.append(len(pages))
        return batch.read_small(pages, limits)

    monkeypatch.setattr("lancecy.file.v2.values.read_small", counted)
    fields = many_columns(30)
    opened_file = open_frame(build_frame([[int64([n, n + 1, n + 2])] for n in range(30)], 3), fields)
    for rows, expected in ((RowSelection.all(3), [0, 1, 2]), (RowSelection.take(3, [2, 0]), [2, 0])):
        blocks = run(opened_file.reader.read(fields, rows), opened_file.files.fetch)
        found = [to_arrow(blocks[n], fields[n]).to_pylist() for n in range(30)]
        assert found == [[n + k for k in expected] for n in range(30)]
    assert read == [30, 30]
    run(opened_file.reader.read(fields[:3], RowSelection.all(3)), opened_file.files.fetch)
    assert read == [30, 30]  # three columns are too few to be read together


def test_columns_of_which_one_is_damaged_are_read_one_by_one() -> None:
    """The error names the column; reads without that column succeed."""
    fields = many_columns(8)
    pages = [[int64([n])] for n in range(8)]
    pages[5] = [replace(pages[5][0], length=2)]
    opened_file = open_frame(build_frame(pages, 1), fields)
    with pytest.raises(FormatError, match="column 5"):
        run(opened_file.reader.read(fields, RowSelection.all(1)), opened_file.files.fetch)
    others = [f for f in fields if f.id != 5]
    blocks = run(opened_file.reader.read(others, RowSelection.all(1)), opened_file.files.fetch)
    assert [to_arrow(blocks[f.id], f).to_pylist() for f in others] == [[f.id] for f in others]
    # A page with fewer bytes than values is found when it is read.
    pages[5] = [int64([5], buffers=[b"1234"])]
    opened_file = open_frame(build_frame(pages, 1), fields)
    with pytest.raises(FormatError, match="bytes for 0 .*column 5 'c5'"):
        run(opened_file.reader.read(fields, RowSelection.all(1)), opened_file.files.fetch)
