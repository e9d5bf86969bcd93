"""Blobs given by URI: lancecy stores what pylance stores, both read it, and rewrites keep it."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancecy
import lancecy.dask
from lancecy import Blob, DatasetBasePath
from lancecy.errors import DatasetNotFoundError, FormatError, PathPolicyError, SchemaError, UnsupportedError
from lancecy.store.uri import open_store
from tests.helpers.s3 import SECRET, S3Server

pytestmark = pytest.mark.interop

BYTES = bytes(range(200))
ANYWHERE: dict[str, Any] = {"allow_external_blob_outside_bases": True}


@pytest.fixture
def media(tmp_path: Path) -> Path:
    """A folder with objects."""
    (tmp_path / "media" / "sub dir").mkdir(parents=True)
    for name in ("a.bin", "sub dir/b %ü.bin", "sub dir/#?.bin"):
        (tmp_path / "media" / name).write_bytes(BYTES)
    return tmp_path / "media"


def rows(values: list[Any], first: int = 0) -> pa.Table:
    return pa.table({"i": range(first, first + len(values)), "b": lancecy.blob_array(values)})


def check(uri: Path, expected: list[bytes | None]) -> list[Any]:
    """Compare what both libraries read, in the order of ``i``; return the descriptors."""
    assert lancecy.dataset(uri).verify().is_ok
    found: list[list[Any]] = []
    for library in (lancecy, lance):
        ds = library.dataset(str(uri))
        read = [data for _, data in ds.read_blobs("b", indices=range(ds.count_rows()))]
        numbers = ds.to_table(columns=["i"])["i"].to_pylist()
        assert [data for _, data in sorted(zip(numbers, read, strict=True))] == expected
        found.append(ds.to_table().sort_by("i")["b"].to_pylist())
    assert found[0] == found[1]
    return found[0]


def places(rows: list[Any]) -> list[Any]:
    return [
        row and (row["kind"], row["position"], row["size"], row["blob_id"], row["blob_uri"]) for row in rows
    ]


def test_places_are_those_that_pylance_stores(tmp_path: Path, media: Path) -> None:
    odd = media / "sub dir" / "b %ü.bin"
    values = [
        media.as_uri() + "/a.bin",
        odd.as_uri(),
        Blob.from_uri(odd.as_uri(), 10, 5),
        None,
        b"i",
        b"l" * 70_000,
    ]
    expected = [BYTES, BYTES, BYTES[10:15], None, b"i", b"l" * 70_000]
    for number, folders in enumerate([[], [media], [media, media / "sub dir"]]):
        found = []
        for library in (lancecy, lance):
            bases = [library.DatasetBasePath(path.as_uri(), name=path.name) for path in folders]
            uri = tmp_path / f"{library.__name__}{number}"
            options = {"initial_bases": bases, **({} if bases else ANYWHERE)}
            library.write_dataset(rows(values), str(uri), data_storage_version="2.2", **options)
            library.write_dataset(rows(values, 6), str(uri), mode="append", **({} if bases else ANYWHERE))
            found.append(places(check(uri, expected * 2)))
        assert found[0] == found[1]
        assert [place and place[3] for place in found[0][:3]] == [[0] * 3, [1] * 3, [1, 2, 2]][number]


def test_paths_without_a_scheme_are_taken(tmp_path: Path, media: Path) -> None:
    values = [str(media / "sub dir" / "b %ü.bin"), str(media / "sub dir" / "#?.bin")]
    lancecy.write_dataset(rows(values), tmp_path / "t", **ANYWHERE)
    check(tmp_path / "t", [BYTES] * 2)
    base = DatasetBasePath(media)
    lancecy.write_dataset(rows(values), tmp_path / "u", initial_bases=[base])
    assert [place[3] for place in places(check(tmp_path / "u", [BYTES] * 2))] == [1, 1]


@pytest.mark.parametrize(
    ("value", "options", "message"),
    [
        ("media/a.bin", {}, "in no base of the table: .*allow_external_blob_outside_bases=True"),
        ("media/../a.bin", ANYWHERE, "segment"),
        ("t/data/a.bin", ANYWHERE, "a cleanup removes"),
        ("t/_versions/1.manifest", ANYWHERE, "a cleanup removes"),
    ],
)
def test_places_that_the_table_may_not_name_are_refused(
    tmp_path: Path, value: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(PathPolicyError, match=message) as caught:
        lancecy.write_dataset(rows([b"a", f"file://{tmp_path}/{value}"]), tmp_path / "t", **options)
    assert isinstance(caught.value, OSError)  # as in pylance
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize(
    "uri", ["a.bin", "s3://bucket/a.bin", "https://example.org/a.bin?token=x", "data:,hello"]
)
def test_places_that_this_table_could_not_read_are_refused(tmp_path: Path, uri: str) -> None:
    for options in (ANYWHERE, {"external_blob_mode": "ingest"}):
        with pytest.raises(PathPolicyError, match="'b'"):
            lancecy.write_dataset(rows([uri]), tmp_path / "t", **options)


def test_bases_that_are_tables_do_not_count(tmp_path: Path, media: Path) -> None:
    base = DatasetBasePath(media, is_dataset_root=True)
    with pytest.raises(PathPolicyError, match="in no base"):
        lancecy.write_dataset(rows([str(media / "a.bin")]), tmp_path / "t", initial_bases=[base])


@pytest.mark.parametrize("part", [(1, None), (None, 1), (1, 0), (2**63, 1), (1, 2**63 - 1)])
def test_invalid_parts_are_refused(tmp_path: Path, part: tuple[Any, Any]) -> None:
    kind = lancecy.blob_field("b").type
    value = {"data": None, "uri": "file:///a.bin", "position": part[0], "size": part[1]}
    array = pa.ExtensionArray.from_storage(kind, pa.array([value], kind.storage_type))
    for options in (ANYWHERE, {"external_blob_mode": "ingest"}):
        with pytest.raises(SchemaError, match="invalid part of that object"):
            lancecy.write_dataset(pa.table({"b": array}), tmp_path / "t", **options)


@pytest.mark.parametrize("data", [b"own", None])
def test_blobs_with_both_bytes_and_a_uri_or_neither_are_refused(
    tmp_path: Path, media: Path, data: bytes | None
) -> None:
    """Also where bytes are brought in: those of the object would take the place of the given ones."""
    kind = lancecy.blob_field("b").type
    value = {"data": data, "uri": data and (media / "a.bin").as_uri(), "position": None, "size": None}
    array = pa.ExtensionArray.from_storage(kind, pa.array([value], kind.storage_type))
    for options in (ANYWHERE, {"external_blob_mode": "ingest"}):
        with pytest.raises(SchemaError, match="both bytes and a URI, or neither"):
            lancecy.write_dataset(pa.table({"b": array}), tmp_path / "t", **options)
        assert not (tmp_path / "t").exists()


def test_bytes_are_brought_in(tmp_path: Path, media: Path) -> None:
    (media / "large.bin").write_bytes(b"l" * 70_000)
    uris = [(media / name).as_uri() for name in ("a.bin", "large.bin")]
    values = [uris[0], b"own", None, Blob.from_uri(uris[0], 10, 5), uris[1]]
    table = rows(values).append_column("l", pa.array([[b"x"]] * 5))
    ds = lancecy.write_dataset(table, tmp_path / "t", external_blob_mode="ingest")
    ds.append(table.set_column(0, "i", pa.array(range(5, 10))), external_blob_mode="ingest")
    (media / "large.bin").unlink()
    expected = [BYTES, b"own", None, BYTES[10:15], b"l" * 70_000]
    assert [place and place[0] for place in places(check(tmp_path / "t", expected * 2))] == [
        0,
        0,
        None,
        0,
        1,
    ] * 2
    for value, error in ((uris[1], DatasetNotFoundError), (Blob.from_uri(uris[0], 190, 20), FormatError)):
        with pytest.raises(error):
            lancecy.write_dataset(rows([value]), tmp_path / "u", external_blob_mode="ingest")
    with pytest.raises(ValueError, match="is for external_blob_mode='reference'"):
        lancecy.write_dataset(rows([b""]), tmp_path / "u", external_blob_mode="ingest", **ANYWHERE)
    with pytest.raises(ValueError, match="'reference' or 'ingest'"):
        lancecy.write_dataset(rows([b""]), tmp_path / "u", external_blob_mode="copy")  # type: ignore[arg-type]


def test_lists_of_objects_are_brought_in(tmp_path: Path, media: Path) -> None:
    blobs = lancecy.blob_array([str(media / "a.bin"), b"q", None])
    kind = pa.list_(pa.field("item", blobs.type))
    lists = pa.ListArray.from_arrays(pa.array([0, 2, 2, 3], pa.int32()), blobs, type=kind)
    ds = lancecy.write_dataset(pa.table({"l": lists}), tmp_path / "t", external_blob_mode="ingest")
    assert ds.to_table(blob_handling="all_binary")["l"].to_pylist() == [[BYTES, b"q"], [], [None]]


def test_changes_keep_the_places(tmp_path: Path, media: Path) -> None:
    (tmp_path / "other.bin").write_bytes(b"other")
    values = [(media / "a.bin").as_uri(), None, b"own", (tmp_path / "other.bin").as_uri()]
    ds = lancecy.write_dataset(
        rows(values), tmp_path / "t", initial_bases=[DatasetBasePath(media)], **ANYWHERE
    )
    ds.append(rows([Blob.from_uri((media / "a.bin").as_uri(), 1, 2)], 4))
    expected = [BYTES, None, b"own", b"other", BYTES[1:3]]
    before = check(tmp_path / "t", expected)
    ds.update({"i": "i + 0"}, "i % 2 = 0")
    ds.optimize.compact_files()
    assert len(ds.get_fragments()) == 1
    after = check(tmp_path / "t", expected)
    assert [place for place in places(before) if place and place[0]] == [
        place for place in places(after) if place and place[0]
    ]
    ds.merge_insert("i").when_matched_update_all().execute(rows([(media / "a.bin").as_uri()], 1))
    with pytest.raises(PathPolicyError, match="in no base"):
        ds.merge_insert("i").when_matched_update_all().execute(rows([values[3]], 1))
    expected[1] = BYTES
    ds.deep_clone(tmp_path / "deep")
    lancecy.copy(ds.uri, tmp_path / "copy")
    for uri in (tmp_path / "t", tmp_path / "deep", tmp_path / "copy"):
        check(uri, expected)


def _by_fragments(ds: lancecy.Dataset, new: pa.Table) -> None:
    made = [part.merge(new, "i") for part in ds.get_fragments()]
    change = lancecy.LanceOperation.Merge([fragment for fragment, _ in made], made[0][1])
    lancecy.LanceDataset.commit(ds, change, read_version=ds.version)


def _by_function(ds: lancecy.Dataset, new: pa.Table, add: Any) -> None:
    function = lancecy.batch_udf(new.select(["b"]).schema)(
        lambda batch: new.select(["b"]).take(batch["i"]).combine_chunks()
    )
    add(function, ["i"])


ADDED: dict[str, Any] = {
    "rows": lambda ds, new: ds.add_columns(new.select(["b"]).take(ds.to_table()["i"]).to_reader()),
    "a function": lambda ds, new: _by_function(ds, new, ds.add_columns),
    "workers": lambda ds, new: _by_function(ds, new, partial(lancecy.dask.add_columns, ds)),
    "a merge": lambda ds, new: ds.merge(new, "i"),
    "fragments": _by_fragments,
}


@pytest.mark.parametrize("how", list(ADDED))
@pytest.mark.parametrize("deleted", [False, True])
def test_added_columns_have_the_places_that_pylance_stores(
    tmp_path: Path, media: Path, how: str, deleted: bool
) -> None:
    odd = media / "sub dir" / "b %ü.bin"
    values = [str(media / "a.bin"), Blob.from_uri(odd.as_uri(), 10, 5), None, b"i", b"l" * 70_000]
    expected: list[bytes | None] = [BYTES, BYTES[10:15], None, b"i", b"l" * 70_000]
    found = []
    for library in (lancecy, lance):
        uri = tmp_path / library.__name__
        bases = [library.DatasetBasePath(media.as_uri())]
        library.write_dataset(
            pa.table({"i": range(5)}),
            uri,
            max_rows_per_file=3,
            data_storage_version="2.2",
            initial_bases=bases,
        )
        ds = library.dataset(uri)
        if deleted:
            ds.delete("i = 2")
        if library is lancecy:
            ADDED[how](ds, rows(values))
        else:
            ds.merge(rows([media.as_uri() + "/a.bin", *values[1:]]), "i")
        found.append(places(check(uri, [data for data in expected if data or not deleted])))
    assert found[0] == found[1]


@pytest.mark.parametrize("how", list(ADDED))
def test_added_columns_name_no_places_outside_of_the_bases(tmp_path: Path, media: Path, how: str) -> None:
    ds = lancecy.write_dataset({"i": [0]}, tmp_path / "t", data_storage_version="2.2")
    for place in (media / "a.bin", tmp_path / "t/data/a.bin"):
        with pytest.raises(PathPolicyError, match=r"in no base.*add_bases.*give its bytes"):
            ADDED[how](ds, rows([str(place)]))
    assert lancecy.dataset(ds.uri).version == 1
    assert len(list((tmp_path / "t/data").iterdir())) == 1
    ds.add_bases([DatasetBasePath(media.as_uri())])
    ADDED[how](lancecy.dataset(ds.uri), rows([str(media / "a.bin")]))
    check(tmp_path / "t", [BYTES])


def test_blobs_of_a_fragment_are_not_updated_in_place(tmp_path: Path, media: Path) -> None:
    ds = lancecy.write_dataset(rows([b"x", b"y"]), tmp_path / "t")
    for value in (b"z", str(media / "a.bin")):
        with pytest.raises(UnsupportedError, match=r"'b' has blobs.*merge_insert"):
            ds.get_fragments()[0].update_columns(rows([value]), "i")
    assert len(list((tmp_path / "t/data").iterdir())) == 1


def test_single_files_take_no_uris(tmp_path: Path, media: Path) -> None:
    batch = rows([str(media / "a.bin")]).to_batches()[0]
    with (
        pytest.raises(UnsupportedError, match="give its bytes instead"),
        lancecy.LanceFileWriter(tmp_path / "f.lance", batch.schema, version="2.2") as writer,
    ):
        writer.write_batch(batch)


def test_fragments_that_are_committed_later_have_places_too(tmp_path: Path, media: Path) -> None:
    ds = lancecy.write_dataset(rows([b"x"]), tmp_path / "t")
    part = lancecy.write_fragments(rows([str(media / "a.bin")], 1), ds, mode="append", **ANYWHERE)
    lancecy.commit(ds, lancecy.LanceOperation.Append(part), read_version=1)
    check(tmp_path / "t", [b"x", BYTES])


@pytest.mark.s3
def test_places_in_buckets_mean_the_same_to_both(s3_server: S3Server) -> None:
    for bucket in ("blob-tables", "blob-objects"):
        s3_server.make_bucket(bucket)
    mine = s3_server.storage_options
    theirs = {
        "aws_access_key_id": "test",
        "aws_secret_access_key": SECRET,
        "aws_endpoint": s3_server.endpoint,
        "aws_region": "us-east-1",
        "allow_http": "true",
    }
    store = open_store("s3://blob-objects", mine)
    for name in ("a b", "a%20b", "ü+", "#?"):
        store.put(f"m/{name}", name.encode())
    given = ["a b", "a%20b", "a%2520b", "ü+", "%C3%BC%2B", "%23%3F"]
    expected = [b"a b", b"a b", b"a%20b", "ü+".encode(), "ü+".encode(), b"#?"]
    values = [f"s3://blob-objects/m/{name}" for name in given]
    for is_based in (True, False):
        found = []
        for library, options in ((lancecy, mine), (lance, theirs)):
            uri = f"s3://blob-tables/{library.__name__}{is_based}{random.getrandbits(40):x}"
            bases = [library.DatasetBasePath("s3://blob-objects/m", name="m")] if is_based else []
            library.write_dataset(
                rows(values),
                uri,
                storage_options=options,
                data_storage_version="2.2",
                initial_bases=bases,
                **ANYWHERE,
            )
            for reader, access in ((lancecy, mine), (lance, theirs)):
                ds = reader.dataset(uri, storage_options=access)
                assert [data for _, data in ds.read_blobs("b", indices=range(6))] == expected
            found.append(places(ds.to_table()["b"].to_pylist()))
        if is_based:
            assert found[0] == found[1]
