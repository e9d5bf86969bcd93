"""Replicas: the nearest place that holds the files of a base is read, and another one when it does not answer."""

from __future__ import annotations

import pickle
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import fsspec
import lance
import pyarrow as pa
import pytest

import lancecy
from lancecy import DatasetBasePath, Session
from lancecy.errors import MissingFileError, NotFoundError, PathPolicyError, StoreError
from lancecy.store.memory import MemoryStore
from lancecy.store.replicas import Outages, Place, ReplicatedStore
from tests.helpers.s3 import SECRET, S3Server, start_s3

pytestmark = pytest.mark.interop
ROWS = pa.table({"n": range(100), "s": [f"row {n}" for n in range(100)]})


def a_table(folder: Path) -> lancecy.LanceDataset:
    """Ten files in the base "far", and copies of them in the folder "near"."""
    far = DatasetBasePath(folder / "far", name="far")
    ds = lancecy.write_dataset(
        ROWS, folder / "t", max_rows_per_file=10, initial_bases=[far], target_bases=["far"]
    )
    shutil.copytree(folder / "far", folder / "near")
    return ds


def opened(folder: Path, **options: Any) -> lancecy.LanceDataset:
    return lancecy.dataset(folder / "t", session=Session(), **options)


class TestOrder:
    def test_the_first_place_is_read_and_the_base_last(self, tmp_path: Path) -> None:
        a_table(tmp_path)
        ds = opened(tmp_path, replicas={"far": [tmp_path / "near"]})

        (tmp_path / "far").rename(tmp_path / "away")
        assert ds.to_table().equals(ROWS)
        (tmp_path / "away").rename(tmp_path / "far")
        shutil.rmtree(tmp_path / "near")
        assert opened(tmp_path, replicas={"far": [tmp_path / "near"]}).to_table().equals(ROWS)
        assert ds.version == ds.latest_version == 1

    def test_the_base_may_be_named_among_them(self, tmp_path: Path) -> None:
        a_table(tmp_path)
        for copy in (tmp_path / "near").glob("*.lance"):
            copy.write_bytes(b"\0" * copy.stat().st_size)

        ds = opened(tmp_path, replicas={"far": [tmp_path / "far", tmp_path / "near"]})

        assert ds.to_table().equals(ROWS)

    @pytest.mark.parametrize("named", [lambda folder: "1", lambda folder: str(folder / "far")])
    def test_a_base_by_its_id_or_path(self, tmp_path: Path, named: Callable[[Path], str]) -> None:
        a_table(tmp_path)
        shutil.rmtree(tmp_path / "far")

        assert opened(tmp_path, replicas={named(tmp_path): [tmp_path / "near"]}).to_table().equals(ROWS)

    def test_files_that_a_copy_lacks_are_read_from_the_base(self, tmp_path: Path) -> None:
        ds = a_table(tmp_path)
        ds.append(ROWS, target_bases=["far"])
        shortened = next((tmp_path / "near").glob("*.lance"))
        shortened.write_bytes(shortened.read_bytes()[:100])

        found = opened(tmp_path, replicas={"far": [tmp_path / "near"]})

        assert found.to_table().equals(pa.concat_tables([ROWS, ROWS]))

    @pytest.mark.parametrize("folder", ["data", "_deletions"])
    def test_half_copies_of_files_whose_sizes_no_manifest_tells(self, tmp_path: Path, folder: str) -> None:
        """Deletion files, and 0.1 data files: what manifests say of the latter's sizes may be wrong."""
        base = DatasetBasePath(tmp_path / "base", name="base")
        ds = lancecy.write_dataset(ROWS, tmp_path / "t", data_storage_version="0.1", initial_bases=[base])
        ds.delete("n = 3")
        shutil.copytree(tmp_path / "t", tmp_path / "copy")
        for file in (tmp_path / "copy" / folder).iterdir():
            file.write_bytes(file.read_bytes()[:20])
        ds = opened(tmp_path, replicas={None: [tmp_path / "copy"]})

        assert ds.to_table().num_rows == 99
        ds.deep_clone(tmp_path / "clone")
        assert lancecy.dataset(tmp_path / "clone").to_table().num_rows == 99
        ds.copy_files(base="base")
        assert opened(tmp_path).to_table().num_rows == 99

    def test_a_clone_has_the_blobs_that_a_copy_lacks(self, tmp_path: Path) -> None:
        big = b"x" * 200_000
        blobs = pa.table(
            {"b": pa.array([big], pa.large_binary())},
            schema=pa.schema([pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})]),
        )
        lancecy.write_dataset(blobs, tmp_path / "t", data_storage_version="2.2")
        shutil.copytree(tmp_path / "t", tmp_path / "copy")
        (kept,) = (tmp_path / "copy").rglob("*.blob")
        kept.unlink()

        opened(tmp_path, replicas={None: [tmp_path / "copy"]}).deep_clone(tmp_path / "clone")

        (blob,) = lancecy.dataset(tmp_path / "clone").take_blobs("b", indices=[0])
        assert blob is not None and blob.read() == big

    def test_files_of_the_own_folder(self, tmp_path: Path) -> None:
        ds = lancecy.write_dataset(ROWS, tmp_path / "t", max_rows_per_file=10)
        ds.delete("n = 3")
        shutil.copytree(tmp_path / "t", tmp_path / "copy")
        shutil.rmtree(tmp_path / "t" / "data")
        shutil.rmtree(tmp_path / "t" / "_deletions")

        for key in (ds.uri, None):
            found = opened(tmp_path, replicas={key: [tmp_path / "copy"]})
            assert found.to_table()["n"].to_pylist() == [n for n in range(100) if n != 3]

    def test_deletions_of_a_clone_s_source(self, tmp_path: Path) -> None:
        source = lancecy.write_dataset(ROWS, tmp_path / "source")
        source.delete("n = 3")
        source.shallow_clone(tmp_path / "t")
        shutil.move(tmp_path / "source", tmp_path / "copy")

        found = opened(tmp_path, replicas={str(tmp_path / "source"): [tmp_path / "copy"]})

        assert found.count_rows("n < 5") == 4

    def test_writes_go_to_the_base(self, tmp_path: Path) -> None:
        a_table(tmp_path)
        ds = opened(tmp_path, replicas={"far": [tmp_path / "near"]})

        ds.append(ROWS, target_bases=["far"])
        ds.delete("n = 3")

        assert len(list((tmp_path / "near").iterdir())) == 10
        assert len(list((tmp_path / "far").iterdir())) == 11
        assert ds.count_rows() == 198
        assert lance.dataset(ds.uri).count_rows() == 198


class TestConfiguration:
    def test_everyone_who_opens_the_table_reads_it(self, tmp_path: Path) -> None:
        ds = a_table(tmp_path)
        ds.update_config({"lancecy.replicas.far": f"{tmp_path / 'gone'}\n{tmp_path / 'near'}\n"})
        shutil.rmtree(tmp_path / "far")

        assert opened(tmp_path).to_table().equals(ROWS)
        with pytest.raises(MissingFileError):
            opened(tmp_path, replicas={"far": [tmp_path / "elsewhere"]}).to_table()

    def test_places_on_another_service_need_a_grant(self, tmp_path: Path) -> None:
        ds = a_table(tmp_path)
        ds.update_config({"lancecy.replicas.far": "memory://near"})
        copies = fsspec.filesystem("memory")
        for path in (tmp_path / "far").iterdir():
            copies.pipe(f"/near/{path.name}", path.read_bytes())

        with pytest.warns(RuntimeWarning, match="replica 1 of base 1 'far' .* is not used: .*allowed_bases"):
            assert opened(tmp_path).to_table().equals(ROWS)
        shutil.rmtree(tmp_path / "far")
        assert opened(tmp_path, allowed_bases=["memory://near"]).to_table().equals(ROWS)
        assert opened(tmp_path, replicas={"far": ["memory://near"]}).to_table().equals(ROWS)

    def test_an_untrusted_table_names_none(self, tmp_path: Path) -> None:
        ds = a_table(tmp_path)
        ds.update_config({"lancecy.replicas.far": str(tmp_path / "near")})
        far = [str(tmp_path / "far")]

        with pytest.warns(RuntimeWarning, match="untrusted"):
            assert opened(tmp_path, untrusted=True, allowed_bases=far).to_table().equals(ROWS)


class TestMistakes:
    def test_they_are_told(self, tmp_path: Path) -> None:
        a_table(tmp_path)

        with pytest.raises(NotFoundError, match="no base 'fat' for replicas.*'far'"):
            opened(tmp_path, replicas={"fat": [tmp_path / "near"]})
        with pytest.raises(TypeError, match=r"write \[place\]"):
            opened(tmp_path, replicas={"far": str(tmp_path / "near")})
        with pytest.raises(TypeError, match="mapping"):
            opened(tmp_path, replicas=[tmp_path / "near"])
        with pytest.raises(PathPolicyError, match="credentials"):
            opened(tmp_path, replicas={"far": ["ftp://me:secret@host/near"]})
        with pytest.raises(ValueError, match="is open already"):
            lancecy.scan(opened(tmp_path), replicas={"far": [tmp_path / "near"]})


# -- servers that stop ---------------------------------------------------------------------------


def options_of(root: S3Server, *replicas: S3Server) -> dict[str, Any]:
    """The root's options; base 1 and its replicas are on servers of their own."""
    # The client gives up at once; by default it repeats a request for a quarter of a minute.
    hasty = {"config_kwargs": {"retries": {"max_attempts": 0}}}
    found = root.storage_options
    for number, server in enumerate(replicas):
        prefix = f"base_1.replica_{number}." if number else "base_1."
        found |= {f"{prefix}{key}": value for key, value in {**server.storage_options, **hasty}.items()}
    return found


def copied(source: S3Server, bucket: str, target: S3Server, target_bucket: str) -> None:
    one = fsspec.filesystem("s3", **source.storage_options)
    other = fsspec.filesystem("s3", **target.storage_options)
    for path in one.find(bucket):
        other.pipe(path.replace(bucket, target_bucket, 1), one.cat(path))


@contextmanager
def silent_server() -> Iterator[tuple[str, list[object]]]:
    """A server that takes connections and never answers: its endpoint, and the connections."""
    taken: list[object] = []
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(64)

        def serve() -> None:
            while True:
                try:
                    taken.append(listening.accept()[0])
                except OSError:
                    return

        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}", taken
        listening.shutdown(socket.SHUT_RDWR)


@pytest.mark.s3
@pytest.mark.slow
class TestServers:
    def test_another_region_is_read_until_the_base_is_relocated(self, s3_server: S3Server) -> None:
        root = s3_server.make_bucket("replica-root")
        with ExitStack() as stack:
            west = stack.enter_context(start_s3())
            with start_s3() as east:
                base = DatasetBasePath(f"{east.make_bucket('us-east')}/data", name="us-east")
                options = options_of(s3_server, east, west)
                lancecy.write_dataset(
                    ROWS,
                    f"{root}/t",
                    max_rows_per_file=10,
                    initial_bases=[base],
                    target_bases=["us-east"],
                    storage_options=options,
                )
                copied(east, "us-east", west, west.make_bucket("us-west").removeprefix("s3://"))
                places = {"us-east": ["s3://us-west/data"]}
                near = lancecy.dataset(f"{root}/t", storage_options=options, replicas=places)
                status = near.bases()[1]
                assert [status.health, *(one.health for one in status.replicas)] == ["ok", "ok"]

            # The server of us-east has stopped.
            assert near.to_table().equals(ROWS)
            swapped = options | {
                key.replace("replica_1", "replica_2"): value
                for key, value in options.items()
                if "replica_1" in key
            }
            far_first = {"us-east": ["s3://us-east/data", "s3://us-west/data"]}
            ds = lancecy.dataset(f"{root}/t", storage_options=swapped, replicas=far_first, session=Session())
            assert ds.to_table().equals(ROWS)
            assert ds.count_rows("n < 50") == 50
            status = ds.bases()[1]
            assert (status.num_files, status.health, status.replicas[1].health) == (10, "unreachable", "ok")
            assert ds.version == 1
            assert SECRET not in f"{ds!r} {status} {pickle.dumps(ds)!r}"

            # Relocated, everybody reads the other region without naming it.
            lasting = {
                **s3_server.storage_options,
                **{f"base_1.{key}": value for key, value in west.storage_options.items()},
            }
            lancecy.dataset(f"{root}/t", storage_options=lasting).relocate_base(
                "us-east", "s3://us-west/data"
            )
            assert lancecy.dataset(f"{root}/t", storage_options=lasting).to_table().equals(ROWS)

    def test_all_places_fail(self, s3_server: S3Server) -> None:
        root = s3_server.make_bucket("replica-root-2")
        with start_s3() as east:
            base = DatasetBasePath(f"{east.make_bucket('us-east')}/data", name="us-east")
            options = options_of(s3_server, east, east)
            lancecy.write_dataset(
                ROWS, f"{root}/t", initial_bases=[base], target_bases=["us-east"], storage_options=options
            )
            places = {"us-east": ["s3://us-west/data"]}
            ds = lancecy.dataset(f"{root}/t", storage_options=options, replicas=places, session=Session())

        with pytest.raises(StoreError, match="us-east") as caught:
            ds.to_table()
        assert any("us-west" in note for note in caught.value.__notes__)

    def test_a_silent_server_is_asked_once_in_a_while(self, tmp_path: Path) -> None:
        a_table(tmp_path)
        with silent_server() as (endpoint, taken):
            options = {
                "base_1.replica_1.key": "test",
                "base_1.replica_1.secret": SECRET,
                "base_1.replica_1.client_kwargs": {"endpoint_url": endpoint, "region_name": "us-east-1"},
            }
            ds = opened(tmp_path, storage_options=options, replicas={"far": ["s3://silent/data"]})
            assert ds.to_table().equals(ROWS)
            assert taken
            count = len(taken)
            assert ds.to_table().equals(ROWS)
            assert ds.take([5, 50])["n"].to_pylist() == [5, 50]
            # Requests that were under way may connect again; no new one is made to a server that failed.
            assert len(taken) <= 2 * count


# -- workers -------------------------------------------------------------------------------------


class TestWorkers:
    def test_dask_processes_read_the_replica(self, tmp_path: Path) -> None:
        a_table(tmp_path)
        shutil.rmtree(tmp_path / "far")

        frame = lancecy.scan(str(tmp_path / "t"), replicas={"far": [str(tmp_path / "near")]})

        assert frame["n"].sum().compute(scheduler="processes", num_workers=2) == sum(range(100))

    def test_a_pickled_dataset_keeps_them(self, tmp_path: Path) -> None:
        a_table(tmp_path)
        shutil.rmtree(tmp_path / "far")
        ds = opened(tmp_path, replicas={"far": [tmp_path / "near"]})

        sent = pickle.loads(pickle.dumps(ds))

        assert sent.to_table().equals(ROWS)
        assert sent.location == ds.location
        assert sent.location != opened(tmp_path).location


class TestStore:
    """The store by itself."""

    def test_a_place_that_answers_again_is_first_again(self) -> None:
        near, far, outages = MemoryStore(), MemoryStore(), Outages(lasts_s=0.0)
        near.put("a", b"near")
        far.put("a", b"away")
        store = ReplicatedStore(far, [Place("near", near), Place("far", far)], outages)

        outages.note("near")
        assert bytes(store.get("a")) == b"near"
        outages.lasts_s = 1000.0
        outages.note("near")
        assert bytes(store.get("a")) == b"away"
        assert bytes(store.get_start("a", 2)) == b"aw"
        assert [bytes(part) for part in store.get_many("a", [0, 1], [1, 3])] == [b"a", b"wa"]
        assert [meta.path for meta in store.list("")] == ["a"]
        outages.end("near")
        assert bytes(store.get("a", 0, 4)) == b"near"

    def test_an_object_that_no_place_has(self) -> None:
        near, far = MemoryStore(), MemoryStore()
        store = ReplicatedStore(far, [Place("near", near), Place("far", far)], Outages())

        with pytest.raises(FileNotFoundError, match="'a'"):
            store.head("a")
