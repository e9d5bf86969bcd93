"""Clones of clones, of branches, of tables with several bases, and into other storage: made by one library, used by the other."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancecy
from lancecy.errors import ExistsError, NotFoundError, PathPolicyError, UnsupportedError
from lancecy.write.targets import DatasetBasePath
from tests.helpers.s3 import S3Server

pytestmark = pytest.mark.interop


def rows(numbers: Iterable[int]) -> pa.Table:
    return pa.table({"a": list(numbers)})


def numbers(ds: Any) -> list[int]:
    return sorted(ds.to_table(columns=["a"])["a"].to_pylist())


class Library:
    """What the two libraries have in common, under one name."""

    def __init__(self, module: Any, options: dict[str, Any] | None) -> None:
        self.module = module
        self.options = options

    def open(self, uri: str) -> Any:
        return self.module.dataset(uri, storage_options=self.options)

    def append(self, uri: str, values: Iterable[int]) -> None:
        self.module.write_dataset(rows(values), uri, mode="append", storage_options=self.options)


def libraries(s3: S3Server | None) -> tuple[Library, Library]:
    if s3 is None:
        return Library(lancecy, None), Library(lance, None)
    mine = s3.storage_options
    theirs = {
        "access_key_id": mine["key"],
        "secret_access_key": mine["secret"],
        "endpoint": s3.endpoint,
        "region": "us-east-1",
        "allow_http": "true",
    }
    return Library(lancecy, mine), Library(lance, theirs)


def check_both(uri: str, expected: list[int], pair: tuple[Library, Library]) -> None:
    """Both read the table, and each what the other has changed."""
    mine, theirs = pair
    assert numbers(mine.open(uri)) == numbers(theirs.open(uri)) == sorted(expected)
    for number, (one, other) in enumerate(((mine, theirs), (theirs, mine))):
        one.append(uri, [1000 + number])
        one.open(uri).delete(f"a = {min(numbers(one.open(uri)))}")
        assert numbers(other.open(uri)) == numbers(one.open(uri))
    changed = sorted([*expected, 1000, 1001])[2:]
    mine.open(uri).optimize.compact_files()
    assert numbers(theirs.open(uri)) == changed


@pytest.mark.parametrize("in_bucket", [False, True])
def test_chains_of_three_by_either_library_at_each_step(
    tmp_path: Path, s3_server: S3Server, in_bucket: bool
) -> None:
    """t, a clone of it, a clone of that one, and a deep clone of the last, each step made by either library."""
    folder = f"{s3_server.make_bucket('chains')}/{uuid.uuid4().hex}" if in_bucket else str(tmp_path)
    pair = libraries(s3_server if in_bucket else None)
    for makers in itertools.product(pair, pair) if not in_bucket else [pair, pair[::-1]]:
        name = uuid.uuid4().hex[:8]
        uris = [f"{folder}/{name}-{number}" for number in range(4)]
        first, second = makers
        first.module.write_dataset(rows(range(10)), uris[0], storage_options=first.options)
        first.append(uris[0], range(10, 20))
        first.open(uris[0]).delete("a = 3")
        expected = [n for n in range(20) if n != 3]
        for maker, source, target in ((first, uris[0], uris[1]), (second, uris[1], uris[2])):
            maker.open(source).shallow_clone(target, maker.open(source).version)
            maker.append(target, [len(expected) + 100])
            expected.append(len(expected) + 100)
            maker.open(target).delete(f"a = {expected.pop(0)}")
        # pylance 14 takes the URI of a base for a path, and so makes no deep clones of clones in buckets.
        last = pair[0] if in_bucket else second
        last.open(uris[2]).deep_clone(uris[3], last.open(uris[2]).version)
        for uri in uris[2:]:
            check_both(uri, expected, pair)
        assert numbers(pair[1].open(uris[0])) == [n for n in range(20) if n != 3]


def test_clones_of_a_branch(tmp_path: Path) -> None:
    pair = libraries(None)
    main = lance.write_dataset(rows(range(10)), str(tmp_path / "t"))
    branch = main.create_branch("team/dev", 1)
    lance.write_dataset(rows([50]), branch.uri, mode="append")
    main.tags.create("dev-2", ("team/dev", 2))
    ds = lancecy.dataset(tmp_path / "t")
    for number, (kind, reference) in enumerate(
        itertools.product(("shallow_clone", "deep_clone"), (("team/dev", None), ("team/dev", 2), "dev-2"))
    ):
        target = str(tmp_path / f"clone-{number}")
        clone = getattr(ds, kind)(target, reference)
        assert (clone.version, clone.uri) == (2, target)
        check_both(target, [*range(10), 50], pair)
    from_branch = lancecy.dataset(branch.uri).shallow_clone(tmp_path / "c", 2)
    assert numbers(from_branch) == [*range(10), 50]


def test_clones_of_a_table_with_several_bases(tmp_path: Path) -> None:
    bases = [DatasetBasePath(str(tmp_path / name), name=name) for name in ("b1", "b2")]
    ds = lancecy.write_dataset(
        rows(range(40)),
        tmp_path / "t",
        initial_bases=bases,
        target_bases=["b1", "b2"],
        max_rows_per_file=10,
    )
    ds.append(rows([40]))
    for kind in ("shallow_clone", "deep_clone"):
        getattr(ds, kind)(tmp_path / kind)
        check_both(str(tmp_path / kind), list(range(41)), libraries(None))


def test_a_clone_on_disk_of_a_table_in_a_bucket_and_the_reverse(tmp_path: Path, s3_server: S3Server) -> None:
    place = f"{s3_server.make_bucket('chains-other')}/{uuid.uuid4().hex}"
    options = s3_server.storage_options
    far = lancecy.write_dataset(rows(range(5)), f"{place}/t", storage_options=options)
    near = far.shallow_clone(tmp_path / "clone")
    near.append(rows([5]))
    assert numbers(near) == list(range(6))
    own = {f"base_0.{key}": value for key, value in options.items()}
    again = lancecy.dataset(tmp_path / "clone", storage_options=own, allowed_bases=[place])
    assert numbers(again) == list(range(6))
    home = again.deep_clone(tmp_path / "home")
    assert numbers(lance.dataset(home.uri)) == list(range(6))
    back = home.shallow_clone(f"{place}/back", storage_options=options)
    back.append(rows([6]))
    assert numbers(back) == list(range(7))
    final = back.deep_clone(f"{place}/final", verify=True)
    check_both(final.uri, list(range(7)), libraries(s3_server))


class TestShallowClone:
    def test_by_default_the_version_of_the_dataset_is_cloned(self, tmp_path: Path) -> None:
        ds = lancecy.write_dataset(rows(range(5)), tmp_path / "t")
        ds.append(rows([5]))
        old = ds.checkout_version(1)
        assert old.shallow_clone(tmp_path / "c").version == 1
        assert old.deep_clone(tmp_path / "d").version == 1
        assert old.shallow_clone(tmp_path / "newest", (None, None)).version == 2

    def test_refusals_leave_nothing(self, tmp_path: Path) -> None:
        ds = lancecy.write_dataset(rows(range(5)), tmp_path / "t")
        lancecy.write_dataset(rows([7]), tmp_path / "other")
        for kind in ("shallow_clone", "deep_clone"):
            clone = getattr(ds, kind)
            with pytest.raises(ExistsError):
                clone(tmp_path / "other")
            with pytest.raises(NotFoundError):
                clone(tmp_path / "c", "nope")
            for place in (tmp_path / "t" / "c", tmp_path / "other" / "data" / "c"):
                with pytest.raises(PathPolicyError):
                    clone(place)
                assert not place.exists()
        assert not (tmp_path / "c").exists()
        assert numbers(lancecy.dataset(tmp_path / "other")) == [7]

    def test_detached_versions_are_refused_before_anything_is_copied(self, tmp_path: Path) -> None:
        """pylance leaves a folder that cannot be opened."""
        ds = lance.write_dataset(rows(range(5)), str(tmp_path / "t"))
        made = lance.LanceDataset.commit(
            ds, lance.LanceOperation.Append([]), read_version=ds.version, detached=True
        )
        mine = lancecy.dataset(ds.uri, version=made.version)
        for clone in (mine.shallow_clone, mine.deep_clone):
            with pytest.raises(UnsupportedError, match=r"detached.*restore\(\) makes it one"):
                clone(tmp_path / "c")
        assert not (tmp_path / "c").exists()
