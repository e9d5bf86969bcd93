"""Blob columns by pylance: descriptors below the scan, and files that give the same bytes."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancecy
from lancecy.errors import PathPolicyError, RowNotFoundError, UnsupportedError

pytestmark = pytest.mark.interop

_random = random.Random(5)
SMALL = [_random.randbytes(20), None, b"", _random.randbytes(300), _random.randbytes(70_000), None, b"last"]
LARGE = [*SMALL, _random.randbytes(5_000_000), _random.randbytes(80_000)]
BLOB = {"lance-encoding:blob": "true"}


def v1_table(values: Sequence[bytes | None]) -> pa.Table:
    schema = pa.schema([pa.field("i", pa.int64()), pa.field("b", pa.large_binary(), metadata=BLOB)])
    return pa.table({"i": range(len(values)), "b": pa.array(values, pa.large_binary())}, schema=schema)


def v2_table(values: list[Any]) -> pa.Table:
    import lance

    return pa.table({"i": range(len(values)), "b": lance.blob_array(values)})


def write(table: pa.Table, path: Path, version: str, **options: Any) -> Any:
    import lance

    return lance.write_dataset(table, str(path), data_storage_version=version, **options)  # type: ignore[arg-type]


def contents(files: list[Any]) -> list[bytes | None]:
    return [None if file is None else file.read() for file in files]


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_scans_of_blobs_beside_other_members(tmp_path: Path, version: str) -> None:
    fields = [pa.field("n", pa.int64()), pa.field("b", pa.large_binary(), metadata=BLOB)]
    members = [pa.array(range(len(SMALL))), pa.array(SMALL, pa.large_binary())]
    for number in ([0, 1], [1, 0]):
        column = pa.StructArray.from_arrays([members[n] for n in number], fields=[fields[n] for n in number])
        path = tmp_path / str(number)
        peer = write(pa.table({"s": column}), path, version)
        ds = lancecy.dataset(path)
        assert ds.to_table() == peer.to_table()
        assert ds.to_table(columns=["s.n"])["s.n"].to_pylist() == list(range(len(SMALL)))
        assert ds.to_table(columns=["s.b.size"]) == peer.to_table(columns=["s.b.size"])


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_blobs_of_every_version(tmp_path: Path, version: str) -> None:
    peer = write(v1_table(SMALL), tmp_path / "t", version)
    ds = lancecy.dataset(tmp_path / "t")
    assert contents(ds.take_blobs("b", indices=range(len(SMALL)))) == SMALL
    rows = [6, 0, 0, 2, 1, 4]
    found = ds.take_blobs("b", indices=rows)
    assert contents(found) == contents(peer.take_blobs("b", indices=rows)) == [SMALL[row] for row in rows]
    assert [file and file.size() for file in found] == [4, 20, 20, 0, None, 70_000]


def test_inline_packed_and_dedicated_blobs(tmp_path: Path) -> None:
    write(v2_table(LARGE), tmp_path / "t", "2.2")
    assert len(list((tmp_path / "t").rglob("*.blob"))) == 2
    ds = lancecy.dataset(tmp_path / "t")
    assert contents(ds.take_blobs("b", indices=range(len(LARGE)))) == LARGE
    (file,) = ds.take_blobs("b", addresses=[7])
    wanted = LARGE[7]
    assert file is not None and wanted is not None
    assert file.read_range(1_000_000, 10) == wanted[1_000_000:1_000_010]
    file.seek(-5, 2)
    assert file.read() == wanted[-5:]


@pytest.mark.parametrize("handling", ["all_binary", "blobs_descriptions", "all_descriptions"])
def test_blob_handling_as_in_pylance(tmp_path: Path, handling: Any) -> None:
    for number, (make, version) in enumerate(KINDS):
        table = make(LARGE).append_column("plain", pa.array([b"p", None, *[b"q"] * 7]))
        peer = write(table, tmp_path / str(number), version, max_rows_per_file=4)
        ds = lancecy.dataset(tmp_path / str(number))
        wanted = peer.to_table(blob_handling=handling)
        found = ds.to_table(blob_handling=handling)
        assert found.schema.types == wanted.schema.types
        assert found.to_pylist() == wanted.to_pylist()
        for condition in ("b IS NULL", "b IS NOT NULL AND i > 1"):
            wanted = peer.to_table(["i"], filter=condition, blob_handling=handling)
            if handling == "all_binary":
                wanted = peer.to_table(["i", "b"], filter=condition, blob_handling=handling).select(["i"])
            found = ds.to_table(["i", "b"], filter=condition, blob_handling=handling)
            assert found["i"] == wanted["i"]


def test_blob_modes_of_pandas_as_in_pylance(tmp_path: Path) -> None:
    def plain(frame: Any) -> Any:
        files = [value.read() if hasattr(value, "read") else value for value in frame["b"]]
        return list(frame.columns), frame["i"].tolist(), files

    for number, (make, version) in enumerate(KINDS):
        peer = write(make(SMALL), tmp_path / str(number), version, max_rows_per_file=3)
        peer.delete("i = 2")
        ds = lancecy.dataset(tmp_path / str(number))
        modes: list[Any] = ["lazy", "bytes", "descriptions"]
        for mode in modes:
            found = ds.to_pandas(dtype_backend="numpy", blob_mode=mode)
            assert plain(found) == plain(peer.to_pandas(blob_mode=mode))
        assert isinstance(ds.to_pandas(blob_mode="lazy")["b"][0], lancecy.BlobFile)
        columns = {"b": "b", "i": "i", "_rowaddr": "_rowaddr"}
        found = ds.to_pandas(columns, "i > 3", 2, blob_mode="lazy", order_by=["i"], dtype_backend="numpy")
        assert plain(found) == (["b", "i", "_rowaddr"], [4, 5], SMALL[4:6])
        (fragment, *_) = ds.get_fragments()
        assert plain(fragment.to_pandas(blob_mode="lazy"))[2] == SMALL[:2]
        for library in (ds, peer):  # the default, and that of a scanner
            scanner = library.scanner(columns={"b": "b", "i": "i"}, filter="i > 3", limit=2)
            assert plain(scanner.to_pandas()) == (["b", "i"], [4, 5], SMALL[4:6])
            assert hasattr(library.to_pandas()["b"][0], "read")
        assert plain(ds.scanner(["b", "i"]).to_pandas("numpy", blob_mode="bytes")) == plain(
            peer.scanner(["b", "i"]).to_pandas(blob_mode="bytes")
        )
        described = ds.to_table()["b"].to_pylist()
        given = ds.scanner(blob_handling="all_binary")
        assert given.to_pandas("numpy")["b"].tolist() == given.to_table()["b"].to_pylist()
        assert given.to_pandas("numpy", blob_mode="descriptions")["b"].tolist() == described
        deleted = ds.scanner(include_deleted_rows=True, with_row_id=True)  # deleted rows have no address
        assert deleted.to_pandas("numpy")["b"].tolist()[:2] == described[:2]


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_files_of_blobs_in_structs(tmp_path: Path, version: str) -> None:
    inner = pa.field("b.c", pa.large_binary(), metadata=BLOB)
    kind = pa.struct([("n", pa.int64()), ("t", pa.struct([inner]))])
    values = [{"n": 1, "t": {"b.c": b"abc"}}, {"n": 2, "t": {"b.c": None}}, {"n": 3, "t": {"b.c": b""}}]
    peer = write(pa.table({"s": pa.array(values, kind)}), tmp_path / "t", version)
    for library in (lancecy.dataset(tmp_path / "t"), peer):
        (file,) = library.take_blobs("s.t.`b.c`", indices=[0])
        assert file is not None and file.read() == b"abc"
        found = library.to_pandas()["s"].tolist()
        files = [value["t"]["b.c"] for value in found]
        assert [file and file.read() for file in files] == [b"abc", None, b""]
        assert [value["n"] for value in found] == [1, 2, 3]


def test_blob_modes_that_are_refused(tmp_path: Path) -> None:
    blobs = lancecy.blob_array([b"abc"])
    lists = pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), blobs)
    struct = pa.StructArray.from_arrays([blobs, lists], names=["b", "l"])
    ds = lancecy.write_dataset(pa.table({"s": struct}), tmp_path / "t")
    assert ds.to_pandas(["s.b"], blob_mode="lazy")["s.b"][0].read() == b"abc"
    with pytest.raises(UnsupportedError, match="column 's', which has blobs in lists"):
        ds.to_pandas(blob_mode="lazy")
    (value,) = ds.to_pandas()["s"]
    assert (value["b"].read(), value["l"][0]["size"]) == (b"abc", 3)
    with pytest.raises(ValueError, match="blob_mode is 'files', not one of lazy, bytes, descriptions"):
        ds.to_pandas(blob_mode="files")  # type: ignore[arg-type]
    with pytest.raises(UnsupportedError, match="it is an argument of to_pandas"):
        ds.to_table(blob_mode="lazy")  # type: ignore[call-arg]


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_bytes_of_blobs_in_structs(tmp_path: Path, version: str) -> None:
    inner = pa.field("b", pa.large_binary(), metadata=BLOB)
    rows = [{"b": b"abc"}, None, {"b": None}, {"b": b""}]
    write(pa.table({"s": pa.array(rows, pa.struct([inner]))}), tmp_path / "t", version)
    ds = lancecy.dataset(tmp_path / "t")
    assert ds.to_table(blob_handling="all_binary")["s"].to_pylist() == rows
    assert ds.to_table(["s.b"], blob_handling="all_binary")["s.b"].to_pylist() == [b"abc", None, None, b""]


def test_bytes_of_several_blobs(tmp_path: Path) -> None:
    for number, (make, version) in enumerate(KINDS):
        peer = write(make(LARGE), tmp_path / str(number), version, max_rows_per_file=4)
        peer.delete("i = 3")
        ds = lancecy.dataset(tmp_path / str(number))
        rows = [7, 0, 0, 1, 6, 2]
        wanted = peer.read_blobs("b", indices=rows)
        assert ds.read_blobs("b", indices=rows, preserve_order=True) == wanted
        addresses = [address for address, _ in wanted]
        assert ds.read_blobs("b", addresses=addresses, io_buffer_size=1 << 20) == wanted
        assert ds.read_blobs("b", ids=addresses) == peer.read_blobs("b", ids=addresses) == wanted
        requests = [(7, 70_000, 9), (0, 3, 4), (6, 10, 0), (1, 99, 1), (7, 0, 2), (2, 0, 0)]
        ranges = ds.read_blob_ranges("b", requests, selector="indices")
        assert ranges == peer.read_blob_ranges("b", requests, selector="indices")
        assert ds.read_blob_ranges("b", [(addresses[0], 1, 2)], selector="addresses")[0][1] == addresses[0]
        assert ds.read_blobs("b", ids=[]) == []
        assert ds.read_blob_ranges("b", [], selector="ids") == []


def test_ranges_of_blobs_that_are_refused(tmp_path: Path) -> None:
    peer = write(v1_table(SMALL), tmp_path / "t", "2.1")
    ds = lancecy.dataset(tmp_path / "t")
    refused: list[tuple[Any, Any, str]] = [
        ((0, 18, 3), "indices", "request 0, of row 0: cannot read bytes 18 to 21 of a blob of 20 bytes"),
        ((1, 2**64 - 1, 3), "indices", "request 0, of row 1: there are no 3 bytes from byte"),
        ((0, 0, 1), "rows", "selector is 'rows', not one of ids, addresses, indices"),
    ]
    for request, selector, message in refused:
        for library in (ds, peer):
            with pytest.raises(ValueError, match=message if library is ds else "."):
                library.read_blob_ranges("b", [request], selector=selector)
    with pytest.raises(ValueError, match="request 0, of row 0: there are no 1 bytes from byte -1"):
        ds.read_blob_ranges("b", [(0, -1, 1)], selector="indices")
    with pytest.raises(TypeError, match=r"request 1 is \(0, 1\), not a row, an offset and a length"):
        ds.read_blob_ranges("b", [(0, 1, 1), (0, 1)], selector="indices")  # type: ignore[list-item]
    with pytest.raises(ValueError, match="io_buffer_size must be positive"):
        ds.read_blobs("b", indices=[0], io_buffer_size=0)


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_blobs_that_are_all_null_or_all_empty(tmp_path: Path, version: str) -> None:
    shapes: list[tuple[str, list[bytes | None]]] = [("null", [None] * 3), ("empty", [b""] * 3)]
    for name, values in shapes:
        write(v1_table(values), tmp_path / name, version)
        assert contents(lancecy.dataset(tmp_path / name).take_blobs("b", indices=[0, 2])) == values[:2]


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_blobs_in_structs(tmp_path: Path, version: str) -> None:
    inner = pa.field("b", pa.large_binary(), metadata=BLOB)
    rows = [{"b": b"abc"}, None, {"b": None}, {"b": b""}]
    table = pa.table({"s": pa.array(rows, pa.struct([inner]))})
    write(table.cast(pa.schema([pa.field("s", pa.struct([inner]))])), tmp_path / "t", version)
    ds = lancecy.dataset(tmp_path / "t")
    assert contents(ds.take_blobs("s.b", indices=range(4))) == [b"abc", None, None, b""]


@pytest.mark.parametrize("stable", [False, True])
def test_rows_by_id_address_and_number(tmp_path: Path, stable: bool) -> None:
    values = [b"%d" % i * (i + 1) for i in range(60)]
    options = {"max_rows_per_file": 20, "enable_stable_row_ids": stable}
    peer = write(v1_table(values), tmp_path / "t", "2.1", **options)
    peer.delete("i % 7 = 3")
    ds = lancecy.dataset(tmp_path / "t")
    table = ds.to_table(columns=["i"], with_row_id=True, with_row_address=True)
    rows = [50, 3, 3, 20, 11]
    ids, addresses = (table[name].take(rows).to_pylist() for name in ("_rowid", "_rowaddr"))
    wanted = [values[i] for i in table["i"].take(rows).to_pylist()]
    assert contents(ds.take_blobs("b", indices=rows)) == wanted
    assert contents(ds.take_blobs("b", ids=ids)) == contents(peer.take_blobs("b", ids=ids)) == wanted
    assert contents(ds.take_blobs("b", addresses=pa.array(addresses))) == wanted


def outcome(dataset: Any, **rows: Any) -> Any:
    """Contents of the blobs of some rows, or "refused"."""
    try:
        return contents(dataset.take_blobs("b", **rows))
    except (ValueError, NotImplementedError):
        return "refused"


KINDS: list[tuple[Any, str]] = [(v1_table, "2.0"), (v1_table, "2.1"), (v1_table, "2.2"), (v2_table, "2.2")]


@pytest.mark.parametrize("stable", [False, True])
def test_null_and_deleted_rows_as_in_pylance(tmp_path: Path, stable: bool) -> None:
    for number, (make, version) in enumerate(KINDS):
        path = tmp_path / str(number)
        peer = write(make(SMALL), path, version, enable_stable_row_ids=stable, max_rows_per_file=4)
        peer.delete("i IN (3, 5)")
        ds = lancecy.dataset(path)
        second = 1 << 32
        for rows in (
            [0, 1, 2],
            [1],
            [2, 1, 1, 0],
            [0, 3, 2],
            [3],
            [0, 77],
            [second, second + 2],
            [second + 1],
        ):
            for name in ("ids", "addresses"):
                asked = {name: rows}
                assert outcome(ds, **asked) == outcome(peer, **asked), (version, asked)
        for rows in ([0, 1, 2, 3, 4], [4, 1, 1], [5], [0, 99], []):
            assert outcome(ds, indices=rows) == outcome(peer, indices=rows), (version, rows)
        assert outcome(ds, indices=[1, 2]) == [None, b""]


@pytest.mark.parametrize("stable", [False, True])
def test_rows_that_do_not_exist_are_refused(tmp_path: Path, stable: bool) -> None:
    peer = write(v1_table([b"a", b"b", b"c"]), tmp_path / "t", "2.2", enable_stable_row_ids=stable)
    peer.delete("i = 1")
    ds = lancecy.dataset(tmp_path / "t")
    refused: list[dict[str, Any]] = [{"addresses": [row]} for row in (1, 3, 1 << 32, -1)]
    refused += [{"ids": [row]} for row in (1, 99)] + [{"indices": [row]} for row in (2, -1)]
    for rows in refused:
        with pytest.raises(RowNotFoundError) as caught:
            ds.take_blobs("b", **rows)
        assert isinstance(caught.value, IndexError) and isinstance(caught.value, ValueError)
    with pytest.raises(RowNotFoundError, match=r"row 1 of fragment 0 is deleted: leave it out"):
        ds.take_blobs("b", addresses=[0, 1])
    assert ds.take_blobs("b", indices=[]) == []


def test_blob_columns_of_0_1_files_are_refused_with_the_remedy(tmp_path: Path) -> None:
    write(v1_table([b"a", None]), tmp_path / "t", "0.1")
    ds = lancecy.dataset(tmp_path / "t")
    for read in (ds.to_table, lambda: ds.take_blobs("b", indices=[0])):
        with pytest.raises(UnsupportedError, match=r"files of 0.1 hold no blobs.*column 1 'b'"):
            read()
    assert ds.to_table(columns=["i"])["i"].to_pylist() == [0, 1]


def test_what_is_asked_for_must_make_sense(tmp_path: Path) -> None:
    write(v1_table([b"a"]), tmp_path / "t", "2.1")
    ds = lancecy.dataset(tmp_path / "t")
    with pytest.raises(ValueError, match="exactly one"):
        ds.take_blobs("b")
    with pytest.raises(ValueError, match="exactly one"):
        ds.take_blobs("b", [0], indices=[0])
    with pytest.raises(ValueError, match="not a blob column"):
        ds.take_blobs("i", indices=[0])
    with pytest.raises(KeyError):
        ds.take_blobs("c", indices=[0])
    with pytest.raises(ValueError, match="buffer_size"):
        ds.take_blobs("b", indices=[0], buffer_size=-1)
    with pytest.raises(TypeError):
        ds.take_blobs("b", indices=[0.5])


def test_a_blob_column_that_a_fragment_does_not_have_is_null(tmp_path: Path) -> None:
    table = v1_table([b"a", b"b"])
    write(table.select(["i"]), tmp_path / "t", "2.1")
    peer = write(table, tmp_path / "u", "2.1")
    write(table.select(["i"]), tmp_path / "u", "2.1", mode="append")
    assert peer.count_rows() == 2
    ds = lancecy.dataset(tmp_path / "u")
    assert contents(ds.take_blobs("b", indices=[0, 3, 1, 2])) == [b"a", None, b"b", None]


def test_external_blobs(tmp_path: Path) -> None:
    import lance

    media = tmp_path / "my media"
    media.mkdir()
    (media / "a b%.bin").write_bytes(bytes(range(200)))
    uri = "file://" + str(media / "a b%.bin").replace("%", "%25").replace(" ", "%20")
    values = [lance.Blob.from_uri(uri), lance.Blob.from_uri(uri, 10, 20), None, b"inline"]
    write(v2_table(values), tmp_path / "t", "2.2", allow_external_blob_outside_bases=True)
    wanted = [bytes(range(200)), bytes(range(10, 30)), None, b"inline"]
    assert contents(lancecy.dataset(tmp_path / "t").take_blobs("b", indices=range(4))) == wanted
    assert [data for _, data in lancecy.dataset(tmp_path / "t").read_blobs("b", indices=range(4))] == wanted
    assert lancecy.dataset(tmp_path / "t").to_table(blob_handling="all_binary")["b"].to_pylist() == wanted
    untrusted = lancecy.dataset(tmp_path / "t", untrusted=True)
    with pytest.raises(PathPolicyError, match="allowed_bases"):
        untrusted.to_table(blob_handling="all_binary")
    assert contents(untrusted.take_blobs("b", indices=[2, 3])) == wanted[2:]
    with pytest.raises(PathPolicyError, match="allowed_bases"):
        untrusted.take_blobs("b", indices=[0])
    allowed = lancecy.dataset(tmp_path / "t", untrusted=True, allowed_bases=[str(media)])
    assert contents(allowed.take_blobs("b", indices=range(4))) == wanted


def test_external_blobs_in_a_base(tmp_path: Path) -> None:
    import lance

    (tmp_path / "media" / "sub dir").mkdir(parents=True)
    (tmp_path / "media" / "sub dir" / "a.bin").write_bytes(bytes(range(200)))
    uri = f"file://{tmp_path}/media/sub%20dir/a.bin"
    base = lance.DatasetBasePath(f"file://{tmp_path}/media", name="media", is_dataset_root=False)
    values = [lance.Blob.from_uri(uri, 10, 20), lance.Blob.from_uri(uri)]
    peer = write(v2_table(values), tmp_path / "t", "2.2", initial_bases=[base])
    assert contents(peer.take_blobs("b", indices=[0, 1])) == [bytes(range(10, 30)), bytes(range(200))]
    ds = lancecy.dataset(tmp_path / "t")
    assert contents(ds.take_blobs("b", indices=[0, 1])) == [bytes(range(10, 30)), bytes(range(200))]
    untrusted = lancecy.dataset(tmp_path / "t", untrusted=True)
    with pytest.raises(PathPolicyError):
        untrusted.take_blobs("b", indices=[0])


OF_BYTES = pa.field("b", pa.large_binary(), metadata=BLOB)
OF_STRUCTS = pa.field(
    "b",
    pa.struct([("data", pa.large_binary()), ("uri", pa.string())]),
    metadata={"ARROW:extension:name": "lance.blob.v2"},
)


@pytest.mark.parametrize("is_mine", [True, False])
@pytest.mark.parametrize("blob", [OF_BYTES, OF_STRUCTS])
def test_lists_of_blobs_are_appended_to_the_other_library_s_table(
    tmp_path: Path, blob: pa.Field, is_mine: bool
) -> None:
    import lance

    given: list[Any] = (
        [b"q", b""] if blob is OF_BYTES else [{"data": b"q", "uri": None}, {"data": b"", "uri": None}]
    )
    schema = pa.schema([pa.field("id", pa.int64()), pa.field("s", pa.list_(blob))])
    table = pa.table([pa.array([1]), pa.array([given], pa.list_(blob))], schema=schema)
    first, second = (lancecy, lance) if is_mine else (lance, lancecy)
    first.write_dataset(table, str(tmp_path / "t"), data_storage_version="2.2")
    second.write_dataset(table, str(tmp_path / "t"), mode="append")
    for found in (lancecy.dataset(str(tmp_path / "t")), lance.dataset(str(tmp_path / "t"))):
        rows = found.to_table()["s"].to_pylist()
        assert [[blob["size"] for blob in row] for row in rows] == [[1, 0], [1, 0]]
